//! `lastlayer-export FILE.svg...` writes a PDF and a PNG beside each figure.
//!
//! A program of its own, because the seventy-odd crates behind it would otherwise be built and analysed by every
//! notebook kernel. The font is part of the program, so the result is the same on every machine.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use resvg::{tiny_skia, usvg};
use usvg::fontdb;

const FONT: &[u8] = include_bytes!("../fonts/LiberationSans-Regular.ttf");
const FAMILY: &str = "Liberation Sans";

/// An SVG user unit is a CSS pixel, of which 96 make an inch.
const PX_PER_INCH: f32 = 96.0;
/// What journals ask of a raster figure.
const PNG_DPI: f32 = 300.0;
/// Above this many pixels the input is taken for a mistake: a full page at 300 dpi has nine million.
const MAX_PIXELS: f32 = 1e8;

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() || files.iter().any(|f| f.as_os_str().to_string_lossy().starts_with('-')) {
        eprintln!(
            "usage: lastlayer-export FILE.svg...\nwrites FILE.pdf and FILE.png (300 dpi) beside each file"
        );
        return ExitCode::FAILURE;
    }
    let mut code = ExitCode::SUCCESS;
    for file in &files {
        if let Err(why) = export(file) {
            eprintln!("{}: {why}", file.display());
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Converts one file. Both outputs are made before either is written, so a figure that cannot be converted changes
/// nothing on disk.
fn export(file: &Path) -> Result<(), String> {
    if file.extension().is_none_or(|e| !e.eq_ignore_ascii_case("svg")) {
        return Err("not an .svg file; give the SVG that Figure::save wrote".into());
    }
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot be read: {e}"))?;
    let not_svg = |e: &dyn std::fmt::Display| format!("not a usable SVG: {e}; save the figure again");
    let document = usvg::roxmltree::Document::parse(&text).map_err(|e| not_svg(&e))?;
    let fonts = fonts();
    covered(&document, &fonts)?;
    let options = usvg::Options { font_family: FAMILY.into(), fontdb: Arc::new(fonts), ..Default::default() };
    let tree = usvg::Tree::from_xmltree(&document, &options).map_err(|e| not_svg(&e))?;
    let (pdf, png) = (pdf(&tree)?, png(&tree)?);
    write_atomic(&file.with_extension("pdf"), &pdf)?;
    write_atomic(&file.with_extension("png"), &png)
}

/// The bundled font, under every name the figures may ask for.
fn fonts() -> fontdb::Database {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    fonts
}

/// Fails if a label needs a character that the font lacks: the PDF would silently lose it.
fn covered(document: &usvg::roxmltree::Document, fonts: &fontdb::Database) -> Result<(), String> {
    let face = fonts.faces().next().ok_or("the bundled font cannot be read")?.id;
    let labels =
        document.descendants().filter(|n| n.is_text() && n.ancestors().any(|a| a.has_tag_name("text")));
    let mut missing: Vec<char> = labels
        .filter_map(|n| n.text())
        .flat_map(str::chars)
        .filter(|c| !c.is_whitespace() && !has_glyph(fonts, face, *c))
        .collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let list =
        missing.iter().map(|c| format!("{c} (U+{:04X})", u32::from(*c))).collect::<Vec<_>>().join(", ");
    Err(format!("the bundled font {FAMILY} has no glyph for {list}; use other characters in the labels"))
}

fn has_glyph(fonts: &fontdb::Database, face: fontdb::ID, c: char) -> bool {
    fonts
        .with_face_data(face, |data, index| {
            ttf_parser::Face::parse(data, index).is_ok_and(|face| face.glyph_index(c).is_some())
        })
        .unwrap_or(false)
}

/// PDF with real text, on a page of the figure's physical size.
fn pdf(tree: &usvg::Tree) -> Result<Vec<u8>, String> {
    let page = svg2pdf::PageOptions { dpi: PX_PER_INCH };
    svg2pdf::to_pdf(tree, svg2pdf::ConversionOptions::default(), page).map_err(|e| format!("no PDF: {e}"))
}

/// PNG on white, with its resolution written into it so that it too has the physical size.
fn png(tree: &usvg::Tree) -> Result<Vec<u8>, String> {
    let scale = PNG_DPI / PX_PER_INCH;
    let (width, height) = ((tree.size().width() * scale).round(), (tree.size().height() * scale).round());
    if width * height > MAX_PIXELS {
        return Err(format!(
            "{width} by {height} pixels at 300 dpi is too large; give the figure a smaller size"
        ));
    }
    let mut pixels = tiny_skia::Pixmap::new((width as u32).max(1), (height as u32).max(1))
        .ok_or("no PNG: the figure has no area")?;
    pixels.fill(tiny_skia::Color::WHITE);
    resvg::render(tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, pixels.width(), pixels.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let per_metre = (PNG_DPI / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(png::PixelDimensions {
        xppu: per_metre,
        yppu: per_metre,
        unit: png::Unit::Meter,
    }));
    // The page is opaque, so dropping alpha loses nothing.
    let rgb: Vec<u8> = pixels.data().chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect();
    encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&rgb).and_then(|()| writer.finish()))
        .map_err(|e| format!("no PNG: {e}"))?;
    Ok(bytes)
}

/// Writes a file whole or not at all: a temporary file beside it, then a rename.
fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|e| {
        // Best effort: the error that matters is the first one.
        let _ = std::fs::remove_file(&temporary);
        format!("{} cannot be written: {e}", path.display())
    })
}
