//! Random damage to every small file: an error or a set, never a panic.

use crate::device::device;
use std::path::Path;

use lastlayer::data::Part;
use lastlayer::data::load::*;
use lastlayer::prelude::*;

use super::{folder, gzip, write};

/// Damaged copies of each file, more if `LASTLAYER_FUZZ` says so.
fn copies() -> u64 {
    std::env::var("LASTLAYER_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
}

/// Flips bits, overwrites bytes with telling values, cuts, and repeats, a few times.
fn damaged(bytes: &[u8], seed: Seed) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for round in 0..=seed.draw(0) % 4 {
        let seed = seed.stream(round);
        if bytes.is_empty() {
            break;
        }
        let at = seed.below(1, bytes.len()).unwrap();
        match seed.draw(2) % 6 {
            0 | 1 => bytes[at] ^= 1 << (seed.draw(3) % 8),
            2 => bytes[at] = [0, 0xff, 0x7f, 0x80, b'-', b'9'][(seed.draw(3) % 6) as usize],
            3 => bytes.truncate(at),
            4 => bytes.insert(at, seed.draw(3) as u8),
            _ => {
                let tail = bytes[at..].to_vec();
                bytes.extend(tail);
            }
        }
    }
    bytes
}

/// Damages one file of a folder again and again, and loads; every failure must be an error of ours with a message.
fn survive(file: &str, good: &[u8], load: impl Fn(&Path) -> Result<()>) {
    let mut failures = 0;
    for copy in 0..copies() {
        let path = folder();
        let bad = damaged(good, Seed::new(17).named(file).stream(copy));
        write(&path, file, bad);
        if let Err(error) = load(path.path()) {
            failures += 1;
            let ours = matches!(
                error,
                Error::Data { .. } | Error::Io { .. } | Error::Config { .. } | Error::Shape { .. }
            );
            assert!(ours, "copy {copy} of {file}: {error:?}");
            assert!(
                error.to_string().len() < 20_000,
                "copy {copy} of {file}: a message of {} bytes",
                error.to_string().len()
            );
        }
    }
    assert!(failures > 0, "damage to {file} is never noticed");
}

#[test]
fn damaged_idx_never_panics() {
    for good in [super::idx::images(), gzip(&super::idx::images())] {
        survive("images", &good, |folder| {
            write(folder, "labels", super::idx::labels());
            idx(folder.join("images"), folder.join("labels"), device()).map(drop)
        });
    }
    survive("labels", &super::idx::labels(), |folder| {
        write(folder, "images", super::idx::images());
        idx(folder.join("images"), folder.join("labels"), device()).map(drop)
    });
}

#[test]
fn damaged_cifar_never_panics() {
    survive("test_batch.bin", &super::cifar::record(&[3], 5), |folder| {
        write(folder, "batches.meta.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        cifar10(folder, Part::Test, device()).map(drop)
    });
}

#[test]
fn damaged_images_never_panic() {
    let noise: Vec<u8> = (0..300).map(|i| (Seed::new(5).draw(i) >> 56) as u8).collect();
    let png = super::images::png_of(10, 10, png::ColorType::Rgb, png::BitDepth::Eight, &noise);
    for good in [super::images::jpeg_grey(), super::images::jpeg_red(), png] {
        survive("class/image.png", &good, |folder| {
            image_folder(folder, &ImageFolder::default(), device()).map(drop)
        });
    }
}

#[test]
fn damaged_lists_never_panic() {
    let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
    type Write = fn(&Path);
    let celeba_options = CelebA { size: 4, ..CelebA::default() };
    let cub_options = Cub { size: 4, ..Cub::default() };
    let celeba_files: [&str; 2] = ["list_attr_celeba.txt", "list_eval_partition.txt"];
    let cub_files =
        ["classes.txt", "images.txt", "image_class_labels.txt", "train_test_split.txt", "bounding_boxes.txt"];
    let lists: [(Write, &[&str]); 2] =
        [(super::celeba::write_lists, &celeba_files), (super::cub::write_lists, &cub_files)];
    for (write_lists, files) in lists {
        for file in files {
            let whole = folder();
            write_lists(whole.path());
            let good = read(whole.path(), file);
            survive(file, &good, |folder| {
                let bad = read(folder, file);
                write_lists(folder);
                write(folder, file, bad);
                for image in ["001.Albatross/a.jpg", "002.Wren/c.jpg"] {
                    write(folder.join("images"), image, super::images::jpeg_grey());
                }
                for image in ["000001.jpg", "000004.jpg"] {
                    write(folder.join("img_align_celeba"), image, super::images::jpeg_grey());
                }
                if files.len() == 2 {
                    celeba(folder, Part::Train, &celeba_options, device()).map(drop)
                } else {
                    cub(folder, Part::Train, &cub_options, device()).map(drop)
                }
            });
        }
    }
}

#[test]
fn damaged_tables_never_panic() {
    survive("adult.data", super::adult::TRAIN.as_bytes(), |folder| {
        write(folder, "adult.test", super::adult::TEST);
        adult(folder, Part::Train, &Adult::Raw, device())?;
        adult(folder, Part::Test, &Adult::Indicators, device()).map(drop)
    });
    let options = CsvTable { label: "c".into(), categorical: vec!["b".into()], ..CsvTable::default() };
    let text = b"a,b,c\n1,x,p\n2,\"y z\",q\n3,x,q\n";
    for good in [text.to_vec(), gzip(text)] {
        survive("table.csv", &good, |folder| {
            csv_table(folder.join("table.csv"), &options, device()).map(drop)
        });
    }
    for file in ["predicate-matrix-binary.txt", "classes.txt"] {
        let good: &[u8] = if file == "classes.txt" { b"1\ta\n2\tb\n" } else { b"0 1\n1 0\n" };
        survive(file, good, |folder| {
            let bad = std::fs::read(folder.join(file)).unwrap();
            write(folder, "classes.txt", "1 a\n2 b\n");
            write(folder, "predicates.txt", "1 c\n2 d\n");
            write(folder, "predicate-matrix-binary.txt", "0 1\n1 0\n");
            write(folder, "predicate-matrix-continuous.txt", "0 1\n1 0\n");
            write(folder, file, bad);
            awa2(folder).map(drop)
        });
    }
}

#[test]
fn damaged_arrays_never_panic() {
    let stored = |bytes: &[u8]| super::zip_of(&[("X.npy", bytes), ("y.npy", bytes)], false);
    let array = super::npz::npy(1, "'<f4'", "True", "(2, 1)", &[0, 0, 128, 63, 0, 0, 0, 0]);
    for good in [super::npz::table("'|u1'", &[0, 1, 1]), stored(&array)] {
        survive("a.npz", &good, |folder| npz_table(folder.join("a.npz"), device()).map(drop));
    }
    // The same damage to the array itself, which no checksum hides.
    survive("a.npy", &array, |folder| {
        let bad = std::fs::read(folder.join("a.npy")).unwrap();
        npz(write(folder, "a.npz", stored(&bad))).map(drop)
    });
    survive("a.safetensors", &super::exported::whole(), |folder| {
        exported(folder.join("a.safetensors"), &ExportKeys::default(), device()).map(drop)
    });
}

#[test]
fn damaged_archives_never_panic_and_leave_whole_folders_or_none() {
    let files: [(&str, &[u8]); 2] = [("a/b.txt", b"hello"), ("c.txt", b"world")];
    let tar = super::archive::tar_of(&files);
    for good in [gzip(&tar), tar, super::zip_of(&files, true)] {
        survive("archive", &good, |folder| {
            let unpacked = unpack(folder.join("archive"), folder.join("set")).map(drop);
            let left = std::fs::read_dir(folder).unwrap().count();
            assert_eq!(left, if unpacked.is_ok() { 2 } else { 1 });
            unpacked
        });
    }
}
