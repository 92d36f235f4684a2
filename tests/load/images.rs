use crate::device::device;
use lastlayer::data::load::{Crop, ImageFolder, image_folder};
use lastlayer::prelude::*;

use super::{fails, folder, refuses, values, write};

/// A grey JPEG of 16 × 8 pixels, left half black, right half white. Pillow 13.0.0:
/// `a = np.zeros((8, 16), np.uint8); a[:, 8:] = 255; Image.fromarray(a).save(f, "JPEG", quality=90, optimize=True)`.
const JPEG_GREY: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a07 \
    0706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffc0000b080008 \
    001001011100ffc400150001010000000000000000000000000000090affc40014100100000000000000000000000000 \
    000000ffda0008010100003f002a9550ffd9";

/// An RGB JPEG of 8 × 8 pixels, all (200, 30, 59) once decoded. Pillow 13.0.0:
/// `Image.new("RGB", (8, 8), (200, 30, 60)).save(f, "JPEG", quality=95, subsampling=0, optimize=True)`.
const JPEG_RED: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043000201010101010201010102020202020403020202020504 \
    040304060506060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a0affdb0043010202 \
    02020202050303050a0706070a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a \
    0a0a0a0a0a0a0a0a0a0a0a0a0a0affc00011080008000803011100021101031101ffc400140001000000000000000000 \
    00000000000008ffc40014100100000000000000000000000000000000ffc40015010101000000000000000000000000 \
    00000609ffc40014110100000000000000000000000000000000ffda000c03010002110311003f002783aa63ffd9";

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| b.is_ascii_hexdigit()).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

pub fn jpeg_grey() -> Vec<u8> {
    unhex(JPEG_GREY)
}

pub fn jpeg_red() -> Vec<u8> {
    unhex(JPEG_RED)
}

pub fn png_of(width: u32, height: u32, color: png::ColorType, depth: png::BitDepth, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == png::ColorType::Indexed {
        encoder.set_palette(vec![10, 20, 30, 40, 50, 60]);
    }
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    bytes
}

fn png8(width: u32, height: u32, color: png::ColorType, data: &[u8]) -> Vec<u8> {
    png_of(width, height, color, png::BitDepth::Eight, data)
}

/// One image, as the loader gives it.
fn load(bytes: &[u8], size: usize, crop: Crop) -> Vec<f64> {
    let folder = folder();
    write(&folder, "class/image.png", bytes);
    let options = ImageFolder { size, crop, ..ImageFolder::default() };
    values(&image_folder(&folder, &options, device()).unwrap().x)
}

#[test]
fn classes_and_files_come_in_the_order_of_their_names() {
    let folder = folder();
    let grey = |v: u8| png8(1, 1, png::ColorType::Grayscale, &[v]);
    write(&folder, "dog/b.PNG", grey(4));
    write(&folder, "dog/a.png", grey(3));
    write(&folder, "cat/2.png", grey(2));
    write(&folder, "cat/1.jpeg", grey(1)); // known by content, whatever its name
    write(&folder, "cat/notes.txt", "not an image");
    write(&folder, "cat/.hidden.png", "not an image");
    write(&folder, ".hidden/1.png", "not an image");
    let options = ImageFolder { size: 1, ..ImageFolder::default() };
    let data = image_folder(&folder, &options, device()).unwrap();
    assert_eq!(data.names.classes, ["cat", "dog"]);
    assert_eq!(values(&data.y), [0., 0., 1., 1.]);
    assert_eq!(data.x.dims(), [4, 3, 1, 1]);
    assert_eq!(values(&data.x), [1., 1., 1., 2., 2., 2., 3., 3., 3., 4., 4., 4.]);
    let one = ImageFolder { limit_per_class: Some(1), ..options };
    assert_eq!(values(&image_folder(&folder, &one, device()).unwrap().y), [0., 1.]);
    let none = ImageFolder { limit_per_class: Some(0), ..options };
    refuses(image_folder(&folder, &none, device()), &["limit_per_class"]);
}

#[test]
fn every_kind_of_png_becomes_rgb_over_white() {
    use png::{BitDepth, ColorType};
    assert_eq!(load(&png8(1, 1, ColorType::Rgb, &[1, 2, 3]), 1, Crop::Center), [1., 2., 3.]);
    assert_eq!(load(&png8(1, 1, ColorType::Rgba, &[9, 9, 9, 0]), 1, Crop::Center), [255., 255., 255.]);
    // 0.2 · 100 + 0.8 · 255 = 224
    assert_eq!(load(&png8(1, 1, ColorType::Rgba, &[100, 0, 255, 51]), 1, Crop::Center), [224., 204., 255.]);
    assert_eq!(load(&png8(1, 1, ColorType::GrayscaleAlpha, &[100, 255]), 1, Crop::Center), [100.; 3]);
    let palette = png_of(2, 1, ColorType::Indexed, BitDepth::One, &[0b0100_0000]);
    assert_eq!(load(&palette, 2, Crop::Whole), [10., 40., 10., 40., 20., 50., 20., 50., 30., 60., 30., 60.]);
    let deep = png_of(1, 1, ColorType::Grayscale, BitDepth::Sixteen, &[77, 200]);
    assert_eq!(load(&deep, 1, Crop::Center), [77.; 3]);
}

#[test]
fn jpeg_is_decoded_as_pillow_does() {
    let halves = load(&jpeg_grey(), 2, Crop::Whole);
    assert_eq!(halves, [0., 255., 0., 255.].repeat(3));
    // Two decoders may round the conversion of colours differently by one.
    for (got, want) in load(&jpeg_red(), 1, Crop::Center).iter().zip([200., 30., 59.]) {
        assert!((got - want).abs() <= 1.0, "{got} instead of {want}");
    }
}

#[test]
fn shrinking_averages_areas_and_enlarging_interpolates() {
    let row = |v: &[u8]| png8(v.len() as u32, 1, png::ColorType::Grayscale, v);
    let red = |x: Vec<f64>, n: usize| x[..n].to_vec();
    // Three pixels to two: each covers one and a half.
    assert_eq!(red(load(&row(&[0, 90, 240]), 2, Crop::Whole), 2), [30., 190.]);
    // Two to four: centres at -1/4, 1/4, 3/4, 5/4, clamped to the outer pixels.
    assert_eq!(red(load(&row(&[0, 100]), 4, Crop::Whole), 4), [0., 25., 75., 100.]);
    // One pixel fills the square, and the same size changes nothing.
    assert_eq!(load(&row(&[7]), 3, Crop::Center), [7.; 27]);
    let square: Vec<u8> = (0..27).collect();
    let planes: Vec<f64> = (0..3).flat_map(|c| (0..9).map(move |p| f64::from(3 * p + c))).collect();
    assert_eq!(load(&png8(3, 3, png::ColorType::Rgb, &square), 3, Crop::Center), planes);
}

#[test]
fn shrinking_equals_the_mean_of_repeated_pixels() {
    let (from, to) = (37, 24);
    let noise: Vec<u8> = (0..from * from).map(|i| (Seed::new(4).draw(i as u64) >> 56) as u8).collect();
    let x = load(&png8(from as u32, from as u32, png::ColorType::Grayscale, &noise), to, Crop::Center);
    // Each pixel repeated `to` times along both axes; an output is the mean of a block of `from` × `from`.
    for (row, column) in (0..to).flat_map(|i| (0..to).map(move |j| (i, j))) {
        let block = |i: usize| (i * from..(i + 1) * from).map(move |k| k / to);
        let mut sum = 0.0;
        for i in block(row) {
            sum += block(column).map(|j| f64::from(noise[i * from + j])).sum::<f64>();
        }
        // Half for the rounding to a byte, the rest for f32.
        assert!((x[row * to + column] - sum / (from * from) as f64).abs() < 0.501, "at {row}, {column}");
    }
}

#[test]
fn shrinking_keeps_the_mean_and_a_constant() {
    let noise: Vec<u8> = (0..37 * 37).map(|i| (Seed::new(1).draw(i) >> 56) as u8).collect();
    let mean = noise.iter().map(|v| f64::from(*v)).sum::<f64>() / noise.len() as f64;
    let image = png8(37, 37, png::ColorType::Grayscale, &noise);
    // Each output is rounded once, by at most one half.
    for size in [1, 5, 16, 36] {
        let x = load(&image, size, Crop::Center);
        assert!((x.iter().sum::<f64>() / x.len() as f64 - mean).abs() <= 0.5, "size {size}");
    }
    let constant = png8(37, 37, png::ColorType::Grayscale, &[201; 37 * 37]);
    for size in [7, 36, 38, 100] {
        assert!(load(&constant, size, Crop::Center).iter().all(|v| *v == 201.0), "size {size}");
    }
}

#[test]
fn crops_are_taken_from_the_middle() {
    let row = png8(5, 1, png::ColorType::Grayscale, &[1, 2, 3, 4, 5]);
    assert_eq!(load(&row, 1, Crop::Center), [3.; 3]);
    let column = png8(1, 4, png::ColorType::Grayscale, &[1, 2, 3, 4]);
    assert_eq!(load(&column, 1, Crop::Center), [2.; 3]);
    let square = png8(4, 4, png::ColorType::Grayscale, &[9, 9, 9, 9, 9, 1, 2, 9, 9, 3, 4, 9, 9, 9, 9, 9]);
    assert_eq!(load(&square, 2, Crop::CenterOf(2)), [1., 2., 3., 4.].repeat(3));
    assert_eq!(load(&square, 4, Crop::CenterOf(100)).len(), 48);
}

#[test]
fn folder_failures_name_the_folder_or_the_file() {
    let folder = folder();
    let load = |options: &ImageFolder| image_folder(&folder, options, device());
    let default = ImageFolder::default();
    fails(load(&default), &["no sub-folder", "one sub-folder per class"]);
    fails(image_folder(folder.path().join("none"), &default, device()), &["none"]);
    write(&folder, "cat/readme.txt", "nothing");
    fails(load(&default), &["cat", "holds no .jpg"]);
    write(&folder, "cat/a.jpg", jpeg_grey());
    for size in [0, 1025] {
        refuses(load(&ImageFolder { size, ..default }), &["size of images", "1 to 1024"]);
    }
    write(&folder, "cat/b.jpg", "a page of HTML");
    fails(load(&default), &["b.jpg", "neither JPEG nor PNG"]);
    write(&folder, "cat/b.jpg", &jpeg_red()[..200]);
    fails(load(&default), &["b.jpg", "cannot be decoded"]);
    let noise: Vec<u8> = (0..64 * 64).map(|i| (Seed::new(3).draw(i) >> 56) as u8).collect();
    let png = png8(64, 64, png::ColorType::Grayscale, &noise);
    write(&folder, "cat/b.jpg", &png[..png.len() / 2]);
    fails(load(&default), &["b.jpg", "cannot be decoded"]);
}

#[test]
fn declared_dimensions_are_bounded_before_memory_is_taken() {
    let folder = folder();
    let load = || image_folder(&folder, &ImageFolder::default(), device());
    // The size stands at bytes 16..24 of a PNG; its checksum covers bytes 12..29.
    let mut png = png8(1, 1, png::ColorType::Grayscale, &[0]);
    png[16..24].copy_from_slice(&[0, 0, 0x7f, 0xff, 0, 0, 0x7f, 0xff]);
    let mut crc = flate2::Crc::new();
    crc.update(&png[12..29]);
    png[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    write(&folder, "cat/a.png", &png);
    fails(load(), &["a.png", "32767 × 32767 pixels", "at most"]);
    let mut jpeg = jpeg_grey();
    let frame = jpeg.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0x7f, 0xff, 0x7f, 0xff]);
    write(&folder, "cat/a.png", &jpeg);
    fails(load(), &["a.png", "32767 × 32767 pixels", "at most"]);
}
