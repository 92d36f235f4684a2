//! The export program on a figure like ours: real text and an embedded font in the PDF, 300 dpi in the PNG.

use std::path::Path;
use std::process::{Command, Output};

/// One column of a paper, with Greek, mathematics and an embedded image.
const FIGURE: &str = concat!(
    r##"<svg xmlns="http://www.w3.org/2000/svg" width="325.44" height="201.60" viewBox="0 0 3254 2016" "##,
    r##"font-family="Liberation Sans, Arimo, Arial, Helvetica, sans-serif">"##,
    r##"<rect width="3254" height="2016" fill="#FFFFFF"/>"##,
    r##"<image x="0" y="0" width="1000" height="1000" style="image-rendering:pixelated" href="data:image/png;base64,"##,
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==",
    r##""/><text x="1200" y="400" font-size="110">loss of θ ≤ 0.1 ± 2×10</text></svg>"##,
);

fn export(file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lastlayer-export")).arg(file).output().unwrap()
}

fn find(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_figure_becomes_a_pdf_with_its_font_and_a_png_at_300_dpi() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("with space, v0.5.svg");
    std::fs::write(&file, FIGURE).unwrap();
    let output = export(&file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());

    let pdf = std::fs::read(folder.path().join("with space, v0.5.pdf")).unwrap();
    assert!(find(&pdf, "/FontFile") && find(&pdf, "LiberationSans"), "the font is embedded");
    assert!(find(&pdf, "/ToUnicode"), "text can be searched and copied");
    assert!(find(&pdf, "/MediaBox [0 0 244.08"), "3.39 inches are 244.08 points");
    assert!(find(&pdf, "/Subtype /Image"));

    let png = std::fs::read(folder.path().join("with space, v0.5.png")).unwrap();
    assert_eq!(png[16..24], [1017u32.to_be_bytes(), 630u32.to_be_bytes()].concat(), "3.39 by 2.10 inches");
    let at = png.windows(4).position(|w| w == b"pHYs").unwrap() + 4;
    assert_eq!(png[at..at + 4], 11811u32.to_be_bytes(), "pixels per metre");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no temporary file is left");
}

#[test]
fn of_an_animation_the_last_frame_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let shown = |frames: [String; 2]| {
        let file = folder.path().join("frames.svg");
        std::fs::write(&file, FIGURE.replace("</svg>", &(frames.concat() + "</svg>"))).unwrap();
        let output = export(&file);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ["png", "pdf"].map(|kind| std::fs::read(file.with_extension(kind)).unwrap())
    };
    let frame = |visibility: &str, at: usize| {
        let animation = "<animate attributeName=\"visibility\" values=\"visible;hidden\" keyTimes=\"0;0.5\" \
                         dur=\"2s\" calcMode=\"discrete\" repeatCount=\"indefinite\"/>";
        let inside = format!(
            "<rect x=\"{at}\" y=\"900\" width=\"300\" height=\"300\"/>\
             <text x=\"{at}\" y=\"800\" font-size=\"110\">a frame</text>"
        );
        format!("<g visibility=\"{visibility}\">{animation}{inside}</g>")
    };
    let both = shown([frame("hidden", 600), frame("visible", 1600)]);
    assert!(both == shown([frame("hidden", 700), frame("visible", 1600)]), "the first frame leaves no trace");
    let moved = shown([frame("hidden", 600), frame("visible", 1700)]);
    assert!(both[0] != moved[0] && both[1] != moved[1], "the last frame is in the PNG and in the PDF");
}

#[test]
fn what_cannot_be_exported_is_said_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("broken.svg", "<svg", "not a usable SVG"),
        ("plain.txt", "text", "not an .svg file"),
        ("kanji.svg", &FIGURE.replace("loss", "損失"), "U+640D"),
    ];
    for (name, content, said) in cases {
        let file = folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        let output = export(&file);
        assert_eq!(output.status.code(), Some(1));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            message.contains(said) && message.contains(name) && message.lines().count() == 1,
            "{message}"
        );
    }
    assert_eq!(export(&folder.path().join("missing.svg")).status.code(), Some(1));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), cases.len());
}
