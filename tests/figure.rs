//! Figures: what is drawn is legible, inside the page and true to the data; what cannot be drawn is a typed error.

use std::path::Path;
use std::process::Command;

use lastlayer::error::Error;
use lastlayer::figure::*;
use lastlayer::record::Record;
use lastlayer::seed::Seed;
use ndarray::Array2;

const SIZES: [Size; 3] = [Size::Column, Size::TwoColumn, Size::Screen];

/// Drawing units per pixel.
const UNITS: f64 = 10.0;

/// Rounding of coordinates to a tenth of a pixel, on both sides of a comparison.
const ROUNDING: f64 = 2.0;

fn line(n: usize, from: f64, to: f64) -> Vec<f64> {
    (0..n).map(|i| from + (to - from) * i as f64 / (n.max(2) - 1) as f64).collect()
}

fn normals(seed: u64, n: usize) -> Vec<f64> {
    (0..n).map(|i| Seed::new(seed).normal(i as u64)).collect()
}

/// One figure of every kind, with data that has bands, intervals, levels, captions and many series.
fn gallery() -> Vec<Figure> {
    let x = line(60, 0.0, 1000.0);
    let falling: Vec<f64> = x.iter().map(|x| 2.0 * (-x / 200.0).exp() + 0.1).collect();
    let (low, high): (Vec<f64>, Vec<f64>) = falling.iter().map(|y| (0.9 * y, 1.1 * y)).unzip();
    let three = [
        Curve::new("ours", &x, &falling).band(&low, &high).method(),
        Curve::new("baseline", &x, &high).baseline(),
        Curve::new("target", &x, &[0.2; 60]).target(),
    ];
    let many: Vec<Curve> = (0..11).map(|k| Curve::new(&format!("λ = {k}"), &x, &normals(k, 60))).collect();
    let clouds: Vec<Points> =
        (0..9).map(|k| Points::new(&format!("class {k}"), &normals(k, 40), &normals(k + 50, 40))).collect();
    let names = ["first", "second", "third", "fourth and longest"];
    let matrix = Array2::from_shape_fn((4, 4), |(i, j)| (i as f64 - j as f64) / 3.0);
    let ring = |x: f64, y: f64| x.hypot(y) - 1.0;
    let picture: Vec<Image> = (0..7u8)
        .map(|k| Image::grey(4, 6, &[k * 30; 24]).unwrap().caption("a caption that is too long for its tile"))
        .collect();
    let figures = vec![
        curves(&three).unwrap().labels("step", "loss").caption("95 % intervals over five seeds"),
        curves(&three).unwrap().labels("step", "loss").log_y().unwrap(),
        curves(&three).unwrap().x_range(100.0, 300.0).unwrap().y_range(0.3, 0.5).unwrap(),
        curves(&many).unwrap().labels("step", "score"),
        curves(&[Curve::new("point", &[3.0], &[0.0])]).unwrap(),
        scatter(&clouds).unwrap().labels("z₁", "z₂"),
        bars(
            &names,
            &[Bars::new("a", &[1.0, -2.0, 0.5, 0.1])
                .interval(&[0.5, -3.0, 0.4, 0.0], &[2.0, -1.0, 0.6, 0.2])],
        )
        .unwrap()
        .labels("name", "value"),
        bars(&["a", "b"], &[Bars::new("s", &[1.0, 2e4]), Bars::new("t", &[3.0, 4.0])])
            .unwrap()
            .log_y()
            .unwrap(),
        hist(&[("a", normals(1, 300)), ("b", normals(2, 200))], 20).unwrap(),
        heat(&matrix, &names, &names).unwrap().annotate(2).unwrap().labels("predicted", "true"),
        field(ring, (-2.0, 2.0), (-2.0, 2.0))
            .unwrap()
            .levels(&[0.0, 0.5])
            .unwrap()
            .points(&[
                Points::new("start", &[0.0, 5.0], &[0.0, 5.0]),
                Points::new("path", &[0.0, 1.0], &[0.0, 1.5]).joined(),
            ])
            .unwrap()
            .labels("x", "y"),
        images(&picture, 5).unwrap().caption("seven"),
    ];
    let panels = grid(&figures, 3).unwrap().caption("everything");
    figures.into_iter().chain([panels]).collect()
}

/// An element of the SVG: its name, its attributes and, of a text, what it says.
#[derive(Clone, Debug, PartialEq)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
}

impl Element {
    fn get(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    fn number(&self, key: &str) -> f64 {
        self.get(key).and_then(|v| v.parse().ok()).unwrap_or_else(|| panic!("{key} of {}", self.name))
    }

    fn points(&self) -> Vec<(f64, f64)> {
        let pairs = self.get("points").unwrap_or_default().split_whitespace();
        pairs
            .map(|p| p.split_once(',').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect()
    }

    /// Left, top, right, bottom; of a text, of its capitals.
    fn bounds(&self) -> [f64; 4] {
        let around = |x: f64, y: f64, r: f64| [x - r, y - r, x + r, y + r];
        match self.name.as_str() {
            "circle" => around(self.number("cx"), self.number("cy"), self.number("r")),
            "text" => {
                let (x, y, size) = (self.number("x"), self.number("y"), self.number("font-size"));
                let width = text_width(&self.text, size);
                let start = match self.get("text-anchor") {
                    None => 0.0,
                    Some("middle") => width / 2.0,
                    Some(_) => width,
                };
                if self.get("transform").is_some() {
                    return [x - 0.7 * size, y + start - width, x, y + start];
                }
                [x - start, y - 0.7 * size, x - start + width, y]
            }
            "polyline" | "polygon" => {
                self.points().iter().fold([f64::MAX, f64::MAX, f64::MIN, f64::MIN], |b, p| {
                    [b[0].min(p.0), b[1].min(p.1), b[2].max(p.0), b[3].max(p.1)]
                })
            }
            _ => {
                let (x, y) = (
                    self.get("x").map_or(0.0, |_| self.number("x")),
                    self.get("y").map_or(0.0, |_| self.number("y")),
                );
                [x, y, x + self.number("width"), y + self.number("height")]
            }
        }
    }
}

/// Reads an SVG of ours; fails on anything that is not well-formed.
fn parse(svg: &str) -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let words = unescape(rest[..start].trim());
        if let (false, Some(last)) = (words.is_empty(), elements.last_mut()) {
            last.text = words;
        }
        let end = rest.find('>').expect("a tag ends");
        let tag = rest[start + 1..end].trim_end_matches('/');
        rest = &rest[end + 1..];
        if tag.starts_with('/') {
            continue;
        }
        let (name, mut list) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut attributes = Vec::new();
        while let Some((key, more)) = list.split_once("=\"") {
            let (value, more) = more.split_once('"').expect("a value ends");
            attributes.push((key.trim().to_string(), unescape(value)));
            list = more;
        }
        elements.push(Element { name: name.to_string(), attributes, text: String::new() });
    }
    elements
}

fn unescape(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    plain.replace("&amp;", "&")
}

fn texts(svg: &str) -> Vec<String> {
    parse(svg).into_iter().filter(|e| e.name == "text").map(|e| e.text).collect()
}

/// No two texts touch, and nothing leaves the page.
fn assert_legible(figure: &Figure, what: &str) {
    assert_clear(&parse(&figure.svg()), what);
}

/// The same of some elements, of which the first is the root.
fn assert_clear(elements: &[Element], what: &str) {
    let page: Vec<f64> = elements[0].get("viewBox").unwrap().split(' ').map(|v| v.parse().unwrap()).collect();
    for element in &elements[1..] {
        let [left, top, right, bottom] = element.bounds();
        let inside = left >= 0.0 && top >= 0.0 && right <= page[2] && bottom <= page[3];
        let (name, text) = (&element.name, &element.text);
        assert!(inside, "{name} \"{text}\" at {:?} leaves {page:?}: {what}", element.bounds());
    }
    let texts: Vec<&Element> = elements.iter().filter(|e| e.name == "text").collect();
    for (i, a) in texts.iter().enumerate() {
        for b in &texts[..i] {
            let (p, q) = (a.bounds(), b.bounds());
            let beside = p[0] + ROUNDING >= q[2] || q[0] + ROUNDING >= p[2];
            let above = p[1] + ROUNDING >= q[3] || q[1] + ROUNDING >= p[3];
            assert!(beside || above, "\"{}\" {p:?} and \"{}\" {q:?} overlap: {what}", a.text, b.text);
        }
    }
}

/// Advance width of a character in a TrueType font, in units of 1/2048 em, by its `cmap` and `hmtx` tables.
fn advance(font: &[u8], c: char) -> Option<u16> {
    let short = |at: usize| u16::from_be_bytes([font[at], font[at + 1]]);
    let long = |at: usize| (usize::from(short(at)) << 16) | usize::from(short(at + 2));
    let tables = usize::from(short(4));
    let table = |name: &[u8]| {
        (0..tables).map(|i| 12 + 16 * i).find(|at| font[*at..at + 4] == *name).map(|at| long(at + 8))
    };
    let cmap = table(b"cmap")?;
    let maps = (0..usize::from(short(cmap + 2))).map(|i| cmap + long(cmap + 8 + 8 * i));
    let map = maps.into_iter().find(|at| short(*at) == 4)?;
    let segments = usize::from(short(map + 6));
    let code = u16::try_from(u32::from(c)).ok()?;
    let i = (0..segments).step_by(2).find(|i| short(map + 14 + i) >= code)?;
    let start = short(map + 16 + segments + i);
    let (delta, at) = (short(map + 16 + 2 * segments + i), map + 16 + 3 * segments + i);
    let glyph = match usize::from(short(at)) {
        _ if code < start => 0,
        0 => code.wrapping_add(delta),
        offset => match short(at + offset + 2 * usize::from(code - start)) {
            0 => 0,
            glyph => glyph.wrapping_add(delta),
        },
    };
    let last = short(table(b"hhea")? + 34) - 1;
    (glyph > 0).then(|| short(table(b"hmtx").unwrap_or(0) + 4 * usize::from(glyph.min(last))))
}

#[test]
fn text_is_as_wide_as_in_the_bundled_font() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/export/fonts/LiberationSans-Regular.ttf");
    let font = std::fs::read(path).unwrap();
    let exact = (' '..='~').chain('\u{a0}'..='ÿ').chain('Α'..='Ρ').chain('Σ'..='ω');
    for c in exact.chain("−≤≥≈≠√–‖‘’“”′ℓϵ∂∞∑…—→←".chars()) {
        let width = advance(&font, c).unwrap_or_else(|| panic!("the font has no {c}"));
        assert_eq!(text_width(&c.to_string(), 2048.0), f64::from(width), "{c}");
    }
    // Where one number stands for many characters, it is the widest, so that layout is on the safe side.
    for c in ('₀'..='₉').chain("⁴⁵⁶⁷⁸⁹ŵŷẑĉşžłŁŠőű".chars()) {
        let width = advance(&font, c).unwrap_or_else(|| panic!("the font has no {c}"));
        assert!(text_width(&c.to_string(), 2048.0) >= f64::from(width), "{c}");
    }
}

#[test]
fn every_kind_of_figure_is_legible_and_inside_its_page() {
    for figure in gallery() {
        for size in SIZES {
            assert_legible(&figure.clone().size(size), &format!("{size:?} {}", figure.describe()));
        }
    }
}

#[test]
fn random_ranges_have_legible_ticks() {
    let seed = Seed::new(3);
    for case in 0..400u64 {
        let draw = |c: u64| seed.stream(case).uniform(c);
        let scale = 10f64.powf(24.0 * draw(0) - 12.0);
        let low = if case % 3 == 0 { 0.0 } else { scale * (draw(1) - 0.5) * 10f64.powf(8.0 * draw(2)) };
        let high = low + scale * draw(3).max(0.01);
        let wide = 10f64.powf(20.0 * draw(4) - 10.0);
        let figure = curves(&[
            Curve::new("one", &[low, high], &[high, low]),
            Curve::new("two", &[low, high], &[low, (low + high) / 2.0]),
        ]);
        let figure = figure.unwrap().labels("x", "a name").size(SIZES[case as usize % 3]);
        assert_legible(&figure, &format!("linear {low} to {high}"));
        let ends = [wide, wide * 10f64.powf(14.0 * draw(5).powi(2) + 0.05)];
        let figure = curves(&[Curve::new("one", &ends, &ends)]).unwrap().labels("x", "y");
        let figure = figure.size(SIZES[case as usize % 3]).log_x().unwrap().log_y().unwrap();
        assert_legible(&figure, &format!("logarithmic {ends:?}"));
        // Two axes need at least two numbers each to be read.
        assert!(texts(&figure.svg()).len() >= 2 + 4, "too few ticks for {ends:?}");
        let values: Vec<f64> = (0..4).map(|c| low + (high - low) * draw(10 + c)).collect();
        let four = ["one", "two", "three", "four and more"];
        let figure =
            bars(&four, &[Bars::new("one", &values), Bars::new("two", &values)]).unwrap().labels("x", "y");
        assert_legible(&figure.size(SIZES[case as usize % 3]), &format!("bars {values:?}"));
        let matrix = Array2::from_shape_vec((2, 2), values.clone()).unwrap();
        let figure = heat(&matrix, &four[..2], &four[2..]).unwrap().labels("x", "y");
        assert_legible(&figure.size(SIZES[case as usize % 3]), &format!("heat {values:?}"));
    }
}

#[test]
fn awkward_shapes_are_legible_and_inside_their_page() {
    let long =
        "a name so long that it cannot possibly fit into any place that a figure has for names ".repeat(4);
    let x = line(40, -1e7, 1e7);
    let names = |n: usize| -> Vec<String> { (0..n).map(|i| format!("category number {i}")).collect() };
    let series =
        |n: usize| -> Vec<Curve> { (0..n).map(|k| Curve::new(&format!("{k} {long}"), &x, &x)).collect() };
    let shares = Array2::from_shape_fn((3, 9), |(i, j)| (i * j) as f64 / 16.0);
    let tall = Array2::from_shape_fn((200, 2), |(i, j)| 1e-7 * (i + j) as f64);
    let dots = vec![Image::grey(1, 1, &[9]).unwrap().caption("dot"); 300];
    let wide = Image::grey(64, 2, &[0; 128]).unwrap().caption(&long);
    let values: Vec<f64> = (0..70).map(|i| f64::from(i) - 20.0).collect();
    let figures = vec![
        curves(&series(3)).unwrap().labels(&long, &long).caption(&long),
        curves(&series(60)).unwrap().labels(&long, &long),
        curves(&[Curve::new("", &[0.0], &[0.0]), Curve::new(" ", &[0.0], &[0.0])]).unwrap(),
        curves(&[Curve::new("a", &x, &x), Curve::new("b", &x, &x)]).unwrap().y_range(2e7, 3e7).unwrap(),
        scatter(&[Points::new(&long, &x, &x), Points::new("b", &x, &x)]).unwrap(),
        scatter(&[Points::new("next to nothing", &[0.0, 5e-324], &[-1e-300, 1e-310])]).unwrap(),
        curves(&[Curve::new("all of f64", &[0.0, 1.0], &[1e-249, 1e100])]).unwrap().log_y().unwrap(),
        curves(&[Curve::new("rounding", &[1e100, 1e100], &[1.0, 1.0 + f64::EPSILON])]).unwrap(),
        bars(&names(70), &[Bars::new(&long, &values), Bars::new("b", &values)]).unwrap().labels(&long, &long),
        bars(&[&long, "b"], &[Bars::new("zero", &[0.0, 0.0])]).unwrap(),
        bars(&["a", "b"], &[Bars::new("negative", &[-1e-9, -3e-9])]).unwrap().labels("", "value"),
        hist(&[("same", vec![3.0; 9])], 1000).unwrap(),
        heat(&shares, &names(3), &names(9)).unwrap().annotate(9).unwrap().labels(&long, &long),
        heat(&tall, &names(200), &names(2)).unwrap(),
        heat(&Array2::from_elem((1, 1), -5.0), &["one"], &["one".to_string()]).unwrap().annotate(1).unwrap(),
        field(|_, _| 1e-8, (1e6, 1e6 + 1.0), (-1e-6, 1e-6))
            .unwrap()
            .levels(&[1e-8])
            .unwrap()
            .labels(&long, &long),
        images(&dots, 100).unwrap(),
        images(&[wide, dots[0].clone()], 2).unwrap().caption(&long),
    ];
    let panels = figures.iter().map(|f| f.clone().caption(&long)).collect::<Vec<_>>();
    for figure in figures.into_iter().chain([grid(&panels, 4).unwrap().caption(&long)]) {
        for size in SIZES {
            let what: String = figure.describe().chars().take(80).collect();
            assert_legible(&figure.clone().size(size), &format!("{size:?} {what}"));
        }
    }
}

#[test]
fn a_page_has_its_physical_size() {
    for (size, width, height) in [
        (Size::Column, "325.44", "201.60"),
        (Size::TwoColumn, "662.40", "249.60"),
        (Size::Screen, "720.00", "403.20"),
    ] {
        let svg = gallery()[0].clone().size(size).svg();
        let root = &parse(&svg)[0];
        assert_eq!((root.get("width"), root.get("height")), (Some(width), Some(height)));
    }
}

#[test]
fn same_figure_same_bytes() {
    let (first, second) = (gallery(), gallery());
    for (a, b) in first.iter().zip(&second) {
        assert_eq!(a, b);
        assert_eq!(a.svg(), b.svg());
        assert_eq!(a.csv(), b.csv());
    }
}

#[test]
fn what_cannot_be_drawn_is_a_typed_error() {
    let (x, y) = (line(3, 0.0, 1.0), [1.0, 2.0, 3.0]);
    let config = |figure: lastlayer::error::Result<Figure>| matches!(figure, Err(Error::Config { .. }));
    let shape = |figure: lastlayer::error::Result<Figure>| matches!(figure, Err(Error::Shape { .. }));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e200] {
        let list = [1.0, bad, 3.0];
        assert!(config(curves(&[Curve::new("c", &x, &list)])));
        assert!(config(curves(&[Curve::new("c", &x, &y).band(&list, &y)])));
        assert!(config(scatter(&[Points::new("p", &list, &y)])));
        assert!(config(bars(&["a", "b", "c"], &[Bars::new("b", &list)])));
        assert!(config(hist(&[("h", &list)], 4)));
        assert!(config(heat(&Array2::from_elem((1, 1), bad), &["r"], &["c"])));
        assert!(config(field(|_, _| bad, (0.0, 1.0), (0.0, 1.0))));
        assert!(config(curves(&[Curve::new("c", &x, &y)]).unwrap().y_range(0.0, bad)));
    }
    assert!(shape(curves(&[])));
    assert!(shape(curves(&[Curve::new("c", &[], &[])])));
    assert!(shape(curves(&[Curve::new("c", &x, &y[..2])])));
    assert!(shape(curves(&[Curve::new("c", &x, &y).band(&y[..2], &y)])));
    assert!(shape(scatter(&[Points::new("p", &x, &y[..1])])));
    assert!(shape(bars(&["a"], &[Bars::new("b", &y)])));
    assert!(shape(bars::<&str>(&[], &[])));
    assert!(shape(hist::<&str, Vec<f64>>(&[], 3)));
    assert!(shape(hist(&[("h", Vec::<f64>::new())], 3)));
    assert!(shape(heat(&Array2::zeros((2, 2)), &["r"], &["c"])));
    assert!(shape(heat::<&str, &str>(&Array2::zeros((0, 0)), &[], &[])));
    assert!(shape(field_grid(&Array2::zeros((1, 5)), (0.0, 1.0), (0.0, 1.0))));
    assert!(shape(images(&[], 3)));
    assert!(shape(grid(&[], 1)));
    assert!(config(curves(&[Curve::new("c", &[1.0, 0.0, 2.0], &y)])));
    assert!(config(curves(&[Curve::new("c", &x, &y).band(&[2.0; 3], &[1.0; 3])])));
    assert!(config(curves(&[Curve::new("c", &x, &y)]).unwrap().log_x()));
    assert!(config(curves(&[Curve::new("c", &y, &[1.0, 5e-324, 1.0])]).unwrap().log_y()));
    assert!(config(curves(&[Curve::new("c", &x, &y)]).unwrap().y_range(0.0, 5e-324)));
    assert!(config(curves(&[Curve::new("c", &x, &y)]).unwrap().y_range(2.0, 2.0)));
    assert!(config(curves(&[Curve::new("c", &x, &y)]).unwrap().levels(&[1.0])));
    assert!(config(heat(&Array2::zeros((1001, 1000)), &vec![""; 1001], &vec![""; 1000])));
    assert!(config(hist(&[("h", &y)], 0)));
    assert!(config(field(|x, _| x, (1.0, 1.0), (0.0, 1.0))));
    let nested = grid(&[curves(&[Curve::new("c", &x, &y)]).unwrap()], 1).unwrap();
    assert!(config(grid(&[nested], 1)));
    assert!(matches!(Image::rgb(2, 2, &[0; 11]), Err(Error::Shape { .. })));
    assert!(matches!(Image::grey(usize::MAX, 2, &[]), Err(Error::Config { .. })));
    let told = curves(&[Curve::new("ours", &x, &[1.0, f64::NAN, 3.0])]).unwrap_err().to_string();
    assert!(told.contains("ours") && told.contains("NaN at index 1"), "{told}");
}

#[test]
fn csv_reads_back_every_number_exactly() {
    let seed = Seed::new(9);
    let y: Vec<f64> = (0..500).map(|i| seed.normal(i) * 10f64.powf(seed.uniform(i) * 160.0 - 80.0)).collect();
    let x = line(500, -1.0 / 3.0, 1e-300_f64.sqrt());
    let figure = curves(&[Curve::new("a \"quoted\", name", &x, &y)]).unwrap();
    let csv = figure.csv();
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("series,x,y,low,high"));
    let mut count = 0;
    for (i, row) in rows.enumerate() {
        let numbers = row.strip_prefix("\"a \"\"quoted\"\", name\",").expect("the name is quoted");
        let numbers: Vec<&str> = numbers.split(',').collect();
        assert_eq!((numbers[0].parse(), numbers[1].parse()), (Ok(x[i]), Ok(y[i])));
        assert_eq!(numbers[2..], ["", ""]);
        count += 1;
    }
    assert_eq!(count, 500);
}

#[test]
fn csv_of_a_grid_keeps_the_columns_of_every_panel() {
    let a = curves(&[Curve::new("c", &[0.0], &[1.5])]).unwrap();
    let b = bars(&["k"], &[Bars::new("s", &[2.5])]).unwrap();
    let csv = grid(&[a, b], 2).unwrap().csv();
    assert_eq!(csv, "panel,series,x,y,low,high,category,value\na,c,0.0,1.5,,,,\nb,s,,,,,k,2.5\n");
}

#[test]
fn a_million_points_keep_their_extremes_and_say_that_they_are_thinned() {
    let n = 1_000_000;
    let mut y = vec![0.0; n];
    for (i, v) in y.iter_mut().enumerate() {
        *v = (i as f64 * 1e-4).sin();
    }
    (y[123_456], y[777_777]) = (9.0, -7.0);
    let x = line(n, 0.0, 1.0);
    let figure = curves(&[Curve::new("long", &x, &y)]).unwrap().size(Size::Column);
    let svg = figure.svg();
    assert!(svg.len() < 60_000, "{} bytes", svg.len());
    let note = "long: 1000000 points, drawn as extremes per pixel column";
    assert!(texts(&svg).iter().any(|t| t == note) && figure.describe().contains(note));
    assert_eq!(figure.csv().lines().count(), n + 1);
    // With peaks drawn, the padding of 5 % is all that is left above and below the line.
    let elements = parse(&svg);
    let bounds = |e: &Element| (e.bounds()[1], e.bounds()[3]);
    let lines = elements.iter().filter(|e| e.name == "polyline");
    let (top, bottom) =
        lines.clone().filter(|e| e.get("stroke") == Some("#0072B2")).map(bounds).next().unwrap();
    let axis = lines.filter(|e| e.points().len() == 2 && e.bounds()[0] == e.bounds()[2]).map(bounds);
    let (high, low) = axis.max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0))).unwrap();
    let padding = 0.05 / 1.1 * (low - high);
    assert!((top - high - padding).abs() < ROUNDING && (low - bottom - padding).abs() < ROUNDING);

    let figure = scatter(&[Points::new("cloud", &x, &y)]).unwrap();
    // A dashed line of noise would be cut into as many pieces as it has pixels.
    let noise = normals(1, n);
    let svg = curves(&[Curve::new("noise", &x, &noise).baseline()]).unwrap().size(Size::TwoColumn).svg();
    assert!(svg.len() < 60_000, "{} bytes", svg.len());
    let svg = figure.svg();
    assert!(svg.len() < 400_000, "{} bytes", svg.len());
    assert!(figure.describe().contains("cloud: 1000000 points, one in 334 drawn"));
    assert!(texts(&svg).iter().any(|t| t.contains("one in 334 drawn")));
}

#[test]
fn roles_look_the_same_wherever_they_stand() {
    let (x, y) = (line(50, 0.0, 1.0), line(50, 0.0, 1.0));
    let other = Curve::new("other", &x, &y);
    let colors = |list: &[Curve]| -> Vec<String> {
        let svg = curves(list).unwrap().svg();
        let names: Vec<&str> = list.iter().map(|c| if c == &other { "other" } else { "named" }).collect();
        assert!(texts(&svg).iter().any(|t| t == names[0]));
        let strokes = parse(&svg).into_iter().filter(|e| e.name == "polyline");
        strokes.filter_map(|e| e.get("stroke").map(String::from)).collect()
    };
    for (curve, color) in [
        (Curve::new("named", &x, &y).method(), "#0072B2"),
        (Curve::new("named", &x, &y).baseline(), "#D55E00"),
        (Curve::new("named", &x, &y).target(), "#000000"),
    ] {
        for list in [[curve.clone(), other.clone()], [other.clone(), curve.clone()]] {
            let found = colors(&list);
            assert!(found.iter().any(|c| c == color), "{color} in {found:?}");
        }
    }
}

#[test]
fn at_most_four_curves_are_named_at_their_ends_and_more_in_a_legend() {
    let x = line(50, 0.0, 1.0);
    let list: Vec<Curve> =
        (0..5).map(|k| Curve::new(&format!("s{k}"), &x, &vec![f64::from(k); 50])).collect();
    let places = |n: usize| -> Vec<[f64; 4]> {
        let svg = curves(&list[..n]).unwrap().svg();
        parse(&svg).iter().filter(|e| e.text.starts_with('s')).map(Element::bounds).collect()
    };
    let four = places(4);
    assert_eq!(four.len(), 4);
    assert!(four.iter().all(|b| b[0] == four[0][0]), "in a column at the right: {four:?}");
    let five = places(5);
    assert!(five.iter().all(|b| b[1] == five[0][1]), "in a row on top: {five:?}");
    let short = [Curve::new("s0", &x, &x), Curve::new("s1", &[0.0, 0.3], &[0.0, 0.1])];
    let svg = curves(&short).unwrap().svg();
    let both: Vec<_> = parse(&svg).iter().filter(|e| e.text.starts_with('s')).map(Element::bounds).collect();
    assert!(both.len() == 2 && both[0][1] == both[1][1], "one ends early, so both in a row on top: {both:?}");
}

#[test]
fn labels_are_escaped_and_come_back() {
    let name = "a <b> & \"c\" 'd'";
    let figure =
        curves(&[Curve::new("x", &[0.0, 1.0], &[0.0, 1.0])]).unwrap().labels(name, "tab\tand\u{1}control");
    let svg = figure.svg();
    assert!(texts(&svg).iter().any(|t| t == name));
    assert!(parse(&svg)[0].get("aria-label").unwrap().contains(name));
    assert!(!svg.contains('\u{1}'), "XML forbids control characters");
}

#[test]
fn contour_of_a_circle_has_its_radius() {
    let figure = field(|x, y| x * x + y * y, (-2.0, 2.0), (-1.5, 1.5)).unwrap().levels(&[1.0]).unwrap();
    let elements = parse(&figure.svg());
    let image = elements.iter().find(|e| e.name == "image").unwrap().bounds();
    let to_data = |p: (f64, f64)| {
        (
            -2.0 + 4.0 * (p.0 - image[0]) / (image[2] - image[0]),
            1.5 - 3.0 * (p.1 - image[1]) / (image[3] - image[1]),
        )
    };
    let circle =
        elements.iter().filter(|e| e.name == "polyline").max_by_key(|e| e.points().len()).unwrap().points();
    assert!(circle.len() > 100);
    assert!((circle[0].0 - circle[circle.len() - 1].0).abs() <= ROUNDING, "the line closes");
    for p in circle {
        let (x, y) = to_data(p);
        // Linear interpolation across a cell of 4/120 by 3/80 is off by less than a hundredth of a cell here; the
        // rest is the rounding of coordinates, a tenth of a pixel of about 600.
        assert!((x.hypot(y) - 1.0).abs() < 0.002, "radius {}", x.hypot(y));
    }
}

#[test]
fn embedded_images_decode_to_the_same_pixels() {
    let seed = Seed::new(4);
    // Noise, flat areas and long runs, on sides that are no multiples of anything.
    let noise: Vec<u8> = (0..3 * 37 * 23).map(|i| (seed.draw(i) >> 56) as u8).collect();
    let mut flat = vec![200u8; 3 * 37 * 23];
    flat[1000..1100].fill(7);
    for rgb in [noise, flat] {
        let svg = images(&[Image::rgb(37, 23, &rgb).unwrap()], 1).unwrap().svg();
        let elements = parse(&svg);
        let image = elements.iter().find(|e| e.name == "image").unwrap();
        let png = unbase64(image.get("href").unwrap().strip_prefix("data:image/png;base64,").unwrap());
        // Sums of chunks and of the stream are compared too, which a viewer may skip.
        let mut options = png::DecodeOptions::default();
        options.set_ignore_checksums(false);
        let mut reader =
            png::Decoder::new_with_options(std::io::Cursor::new(png), options).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        reader.finish().unwrap();
        assert_eq!((info.width, info.height, info.color_type), (37, 23, png::ColorType::Rgb));
        assert_eq!(info.bit_depth, png::BitDepth::Eight);
        assert_eq!(pixels, rgb);
    }
}

fn unbase64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let kept = four.iter().filter(|c| **c != b'=').count();
        let word =
            four.iter().fold(0u32, |w, c| (w << 6) | if *c == b'=' { 0 } else { u32::from(value(*c)) });
        bytes.extend(&word.to_be_bytes()[1..kept]);
    }
    bytes
}

fn small() -> Figure {
    curves(&[Curve::new("c", &[0.0, 1.0], &[2.0, 3.0])]).unwrap().labels("x", "y").caption("A line")
}

#[test]
fn save_writes_picture_numbers_and_record() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("new folder").join("a name with spaces, v0.5");
    let run = Record::start("run", "cpu").config("rate", 0.1).seed(Seed::new(42)).result("auc", 0.75);
    let figure = small().record(&run).config("note", "extra");
    let saved = figure.save(stem.to_str().unwrap()).unwrap();
    let read = |kind: &str| std::fs::read_to_string(format!("{}.{kind}", stem.display())).unwrap();
    assert_eq!(saved.paths().len(), 4);
    assert!(saved.paths().iter().all(|p| p.is_file()));
    assert_eq!((read("svg"), read("csv")), (figure.svg(), figure.csv()));
    assert_eq!(read("tex"), figure.latex("a name with spaces, v0.5"));
    let record = Record::load(format!("{}.json", stem.display())).unwrap();
    assert_eq!((record.seed, record.provenance.device.as_str()), (Some(Seed::new(42)), "cpu"));
    assert_eq!((&record.config["rate"], &record.config["note"]), (&0.1.into(), &"extra".into()));
    assert_eq!(record.results["auc"], 0.75);
    assert_eq!(record.config["figure"]["kind"], "curves");
    assert_eq!(record.config["figure"]["series"][0]["count"], 2);
    assert_eq!(record.config["figure"]["caption"], "A line");
    assert!(record.provenance.versions.contains_key("plotters"));
    assert_eq!(std::fs::read_dir(stem.parent().unwrap()).unwrap().count(), 4, "no temporary file is left");
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let under = file.join("figure");
    assert!(matches!(small().save(under.to_str().unwrap()), Err(Error::Io { .. })));
    std::fs::create_dir(folder.path().join("taken.csv")).unwrap();
    let taken = folder.path().join("taken");
    assert!(matches!(small().save(taken.to_str().unwrap()), Err(Error::Config { .. })));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    for bad in ["", "figures/", ".."] {
        assert!(matches!(small().save(bad), Err(Error::Config { .. })), "{bad:?}");
    }
}

/// Runs one part of [`child`] in a process of its own, whose limits and environment it may change.
fn in_child(part: &str, folder: &Path, environment: &[(&str, &str)]) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("FIGURE_PART", part)
        .env("FIGURE_FOLDER", folder)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_disk_leaves_nothing_half_written_and_the_earlier_set_whole() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("figure");
    small().save(stem.to_str().unwrap()).unwrap();
    let read = || {
        ["svg", "csv", "json", "tex"].map(|kind| std::fs::read(format!("{}.{kind}", stem.display())).unwrap())
    };
    let before = read();
    in_child("full disk", folder.path(), &[]);
    assert_eq!(read(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[cfg(unix)]
#[test]
fn a_bare_name_goes_to_the_output_folder_and_the_export_program_is_run() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("export");
    std::fs::write(&program, "#!/bin/sh\ntouch \"${1%.svg}.pdf\" \"${1%.svg}.png\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let out = ("LASTLAYER_OUT", folder.path().to_str().unwrap());
    in_child("export", folder.path(), &[out, ("LASTLAYER_EXPORT", program.to_str().unwrap())]);
    std::fs::write(&program, "#!/bin/sh\necho 'the font is gone' >&2\nexit 1\n").unwrap();
    in_child("export fails", folder.path(), &[out, ("LASTLAYER_EXPORT", program.to_str().unwrap())]);
}

/// Does nothing on its own; see [`in_child`].
#[test]
fn child() {
    let (Ok(part), Ok(folder)) = (std::env::var("FIGURE_PART"), std::env::var("FIGURE_FOLDER")) else {
        return;
    };
    let folder = Path::new(&folder);
    match part.as_str() {
        "full disk" => {
            let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
            // Without the signal, a write beyond the limit fails like one on a full disk.
            unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
            }
            // The SVG is small enough, the CSV is not: the failure comes in the middle of the set.
            let x = line(1000, 0.0, 1.0);
            let figure = curves(&[Curve::new("c", &x, &x)]).unwrap().x_range(0.0, 0.01).unwrap();
            assert!(figure.svg().len() < 4096 && figure.csv().len() > 4096);
            let stem = folder.join("figure");
            assert!(matches!(figure.save(stem.to_str().unwrap()), Err(Error::Io { .. })));
        }
        "export" => {
            let saved = small().save("bare").unwrap();
            let kinds: Vec<_> =
                saved.paths().iter().map(|p| p.extension().unwrap().to_str().unwrap()).collect();
            assert_eq!(kinds, ["svg", "csv", "json", "tex", "pdf", "png"]);
            assert!(saved.paths().iter().all(|p| p.is_file() && p.starts_with(folder.join("figures"))));
        }
        "export fails" => match small().save("bare") {
            Err(Error::Io { source, .. }) => assert_eq!(source.to_string(), "the font is gone"),
            other => panic!("{other:?}"),
        },
        other => panic!("no part {other}"),
    }
}

#[test]
fn latex_has_the_pdf_at_its_true_size_and_a_caption_with_the_seed() {
    assert_eq!(
        small().size(Size::Column).seed(Seed::new(7)).caption("50 % of θ₁ ≤ 1").latex("rate-1"),
        "\\begin{figure}\n  \\centering\n  \\includegraphics{rate-1.pdf}\n  \
         \\caption{50~\\% of $\\theta_{1}$ $\\le$ 1. Seed 7.}\n  \\label{fig:rate-1}\n\\end{figure}\n"
    );
    let wide = small().size(Size::TwoColumn).seed(Seed::new(7)).caption("Mean of seeds 1 to 5.").latex("w");
    assert!(wide.contains("\\begin{figure*}") && wide.contains("\\caption{Mean of seeds 1 to 5.}"), "{wide}");
    assert!(small().size(Size::Screen).latex("s").contains("\\includegraphics[width=\\textwidth]{s.pdf}"));
    let bare = small().caption("").latex("bare");
    assert!(!bare.contains("caption") && !bare.contains("label"), "{bare}");
}

#[test]
fn histogram_counts_every_value_once() {
    let values = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.0];
    let csv = hist(&[("v", &values)], 4).unwrap().csv();
    assert_eq!(csv, "series,from,to,count\nv,0.0,0.25,2\nv,0.25,0.5,1\nv,0.5,0.75,1\nv,0.75,1.0,3\n");
}

#[test]
fn the_description_names_what_is_shown() {
    let text = small().describe();
    assert_eq!(text, "Curves of y over x: c (2 points, from 2 to 3, last 3). A line.");
    let both = grid(&[small(), small()], 2).unwrap().describe();
    assert!(both.contains("(a) Curves") && both.contains("(b) Curves"));
}

#[test]
fn ticks_carry_true_minus_signs_and_raised_exponents() {
    let x = line(9, -4.0, 4.0);
    let svg = curves(&[Curve::new("c", &x, &x)]).unwrap().svg();
    let shown = texts(&svg);
    assert!(shown.iter().any(|t| t == "−4") && !shown.iter().any(|t| t.contains('-')), "{shown:?}");
    let tiny: Vec<f64> = x.iter().map(|v| 10f64.powf(3.0 * v)).collect();
    let svg = curves(&[Curve::new("c", &x, &tiny)]).unwrap().log_y().unwrap().svg();
    let elements = parse(&svg);
    let power = elements.iter().find(|e| e.text == "−12").expect("an exponent");
    let base = elements.iter().find(|e| e.text == "10").expect("a base");
    assert!(power.number("font-size") < base.number("font-size"));
    assert!(base.number("font-size") >= 11.0 * UNITS, "8 pt at least");
}

/// How often a text stands in a picture.
fn count(svg: &str, text: &str) -> usize {
    svg.matches(text).count()
}

#[test]
fn panels_with_the_same_points_share_one_legend() {
    let panel =
        |names: [&str; 2]| scatter(&names.map(|name| Points::new(name, &[0.0, 1.0], &[1.0, 0.0]))).unwrap();
    let drawn = |panels: &[Figure]| {
        texts(&grid(panels, 2).unwrap().svg()).iter().filter(|text| *text == "north").count()
    };
    let alike = drawn(&[panel(["north", "south"]), panel(["north", "south"])]);
    let different = drawn(&[panel(["north", "south"]), panel(["north", "east"])]);
    assert_eq!([alike, different], [1, 2]);
}

#[test]
fn arrows_keep_both_ends_and_are_drawn_with_a_head() {
    let arrows = Points::arrows("up", [&[0.0, 1.0], &[0.0, 0.0]], [&[0.0, 0.5], &[1.0, 2.0]]);
    let figure = scatter(&[arrows, Points::new("at", &[0.0, 1.0], &[0.0, 0.0])]).unwrap();
    let csv = figure.csv();
    for row in ["up,0.0,0.0", "up,0.0,1.0", "up,1.0,0.0", "up,1.5,2.0"] {
        assert!(csv.lines().any(|line| line == row), "{row} in\n{csv}");
    }
    let plain = scatter(&[Points::new("at", &[0.0, 1.0], &[0.0, 2.0])]).unwrap();
    assert!(count(&figure.svg(), "<poly") > count(&plain.svg(), "<poly"));
    assert!(scatter(&[Points::arrows("short", [&[0.0, 1.0], &[0.0, 1.0]], [&[1.0], &[1.0]])]).is_err());
    assert!(scatter(&[Points::arrows("nan", [&[0.0], &[0.0]], [&[f64::NAN], &[1.0]])]).is_err());
}

#[test]
fn marks_are_dots_in_their_cells() {
    let values = Array2::from_shape_fn((3, 4), |(r, c)| (r + c) as f64);
    let map = || {
        heat(&values, &["a", "b", "c"].map(String::from), &["1", "2", "3", "4"].map(String::from)[..])
            .unwrap()
    };
    let marked = Array2::from_shape_fn((3, 4), |(r, c)| r == 1 && c < 2);
    let dots = |figure: &Figure| count(&figure.svg(), "<circle");
    assert_eq!(dots(&map().marks(&marked).unwrap()), dots(&map()) + 2);
    assert!(matches!(map().marks(&Array2::default((2, 4))), Err(Error::Shape { .. })));
    let points = scatter(&[Points::new("p", &[0.0], &[0.0])]).unwrap();
    assert!(matches!(points.marks(&marked), Err(Error::Config { .. })));
}

/// An animation taken apart.
struct Parts {
    /// Group and animation, with the frame they belong to.
    groups: Vec<(usize, Element, Element)>,
    /// What is drawn, in order: by one frame, or by all of them.
    pieces: Vec<(Option<usize>, Vec<Element>)>,
}

impl Parts {
    fn of(svg: &str) -> Parts {
        let (mut groups, mut pieces) = (Vec::new(), Vec::new());
        let mut rest = svg;
        while let Some((before, more)) = rest.split_once("<g") {
            let (inside, after) = more.split_once("</g>").expect("a group ends");
            assert!(!inside.contains("<g"), "groups lie side by side");
            pieces.push((None, parse(before)));
            let mut elements = parse(&format!("<g{inside}"));
            let frame = elements[0].number("data-frame") as usize - 1;
            let shown = elements.split_off(2);
            groups.push((frame, elements.remove(0), elements.remove(0)));
            pieces.push((Some(frame), shown));
            rest = after;
        }
        pieces.push((None, parse(rest)));
        Parts { groups, pieces }
    }

    fn number(&self) -> usize {
        self.groups.iter().map(|(frame, ..)| frame + 1).max().unwrap_or(0)
    }

    fn elements(&self, keep: impl Fn(Option<usize>) -> bool) -> Vec<Element> {
        self.pieces.iter().filter(|(frame, _)| keep(*frame)).flat_map(|(_, list)| list.clone()).collect()
    }

    /// What all frames show, the root first.
    fn shared(&self) -> Vec<Element> {
        self.elements(|frame| frame.is_none())
    }

    fn own(&self, i: usize) -> Vec<Element> {
        self.elements(|frame| frame == Some(i))
    }

    /// The page while a frame is seen, the root first.
    fn page(&self, i: usize) -> Vec<Element> {
        self.elements(|frame| frame.is_none_or(|frame| frame == i))
    }
}

/// What a discrete animation makes of its attribute at a part of its duration.
fn animated(animation: &Element, part: f64) -> String {
    let list = |key: &str| animation.get(key).unwrap().split(';').map(String::from).collect::<Vec<_>>();
    let times: Vec<f64> = list("keyTimes").iter().map(|t| t.parse().unwrap()).collect();
    assert!(times[0] == 0.0 && times.windows(2).all(|t| t[0] < t[1]) && times[times.len() - 1] < 1.0);
    assert_eq!(times.len(), list("values").len());
    list("values")[times.iter().rposition(|t| *t <= part).unwrap()].clone()
}

/// Steps of a walk along a wave, all on the same axes.
fn walk(steps: usize) -> Vec<Figure> {
    let x = line(80, 0.0, 8.0);
    let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
    let frame = |i: usize| {
        let n = 80 * (i + 1) / steps;
        let list = [Curve::new("wave", &x[..n], &y[..n]), Curve::new("half", &x, &[0.5; 80]).target()];
        let figure = curves(&list).unwrap().labels("x", "y").caption(&format!("step {i}"));
        figure.x_range(0.0, 8.0).unwrap().y_range(-1.0, 1.0).unwrap()
    };
    (0..steps).map(frame).collect()
}

#[test]
fn frames_take_turns_and_only_the_last_is_seen_where_nothing_moves() {
    for (n, seconds, duration) in
        [(2, 0.05, "0.1s"), (3, 0.1, "0.3s"), (7, 1.5, "10.5s"), (60, 60.0, "3600s")]
    {
        let svg = frames(&walk(n), seconds).unwrap().svg();
        let parts = Parts::of(&svg);
        assert_eq!((parts.number(), count(&svg, "<animate")), (n, parts.groups.len()));
        for (i, group, turn) in &parts.groups {
            let still = if i + 1 == n { "visible" } else { "hidden" };
            assert_eq!(group.get("visibility"), Some(still), "frame {i} of {n}");
            assert_eq!(turn.name, "animate");
            for (key, value) in [
                ("attributeName", "visibility"),
                ("calcMode", "discrete"),
                ("repeatCount", "indefinite"),
                ("dur", duration),
            ] {
                assert_eq!(turn.get(key), Some(value));
            }
        }
        for i in 0..n {
            // A part with a visibility of its own would be seen in every frame.
            assert!(parts.page(i).iter().all(|e| e.get("visibility").is_none() && e.name != "animate"));
            assert!(parts.own(i).iter().any(|e| e.text == format!("({} of {n}) step {i}", i + 1)));
        }
        // In the middle of a turn, and at the very moment of every change, all groups of one frame are seen.
        let seen = |part: f64| -> Vec<usize> {
            let seen = parts.groups.iter().filter(|(.., turn)| animated(turn, part) == "visible");
            seen.map(|(i, ..)| *i).collect()
        };
        let of = |i: usize| vec![i; parts.groups.iter().filter(|(frame, ..)| *frame == i).count()];
        for (i, _, turn) in &parts.groups {
            assert_eq!(seen((*i as f64 + 0.5) / n as f64), of(*i));
            for change in turn.get("keyTimes").unwrap().split(';').map(|t| seen(t.parse().unwrap())) {
                assert_eq!(change, of(change[0]));
            }
        }
    }
}

#[test]
fn a_group_of_titles_tells_the_caption_and_where_the_titles_end() {
    let list: Vec<Figure> = (0..3).map(|i| small().caption(&format!("step {i} < \"3\" & more"))).collect();
    let parts = Parts::of(&frames(&list, 1.0).unwrap().svg());
    for i in 0..3 {
        let titles =
            parts.groups.iter().filter(|(frame, group, _)| *frame == i && group.get("aria-label").is_some());
        let titles: Vec<&Element> = titles.map(|(_, group, _)| group).collect();
        assert_eq!(titles.len(), 1);
        assert_eq!(titles[0].get("aria-label"), Some(format!("step {i} < \"3\" & more").as_str()));
        let end = titles[0].number("data-height");
        let above = |e: &&Element| !e.name.starts_with("svg") && e.name != "rect" && e.bounds()[1] < end;
        let page = parts.page(i);
        let high: Vec<&Element> = page.iter().filter(above).collect();
        assert!(!high.is_empty() && high.iter().all(|e| e.text.contains(" of 3)")), "{high:?}");
    }
}

#[test]
fn what_all_frames_show_is_kept_once_and_every_frame_is_drawn_in_its_order() {
    // Two panels: a field under a path that grows, and curves of which one moves under another that stays.
    let x = line(40, 0.0, 6.0);
    let frame = |i: usize| {
        let path = line(i + 1, 0.1, 0.1 + 0.1 * i as f64);
        let below = field(|x, y| x * y, (0.0, 1.0), (0.0, 1.0)).unwrap().levels(&[0.2, 0.5]).unwrap();
        let below = below.points(&[Points::new("path", &path, &path).joined()]).unwrap();
        let wave: Vec<f64> = x.iter().map(|x| (x + i as f64).sin()).collect();
        let lines = [Curve::new("moves", &x, &wave), Curve::new("stays", &x, &[0.5; 40]).target()];
        let lines = curves(&lines).unwrap().y_range(-1.0, 1.0).unwrap();
        grid(&[below, lines], 2).unwrap().caption("one line")
    };
    let list: Vec<Figure> = (0..6).map(frame).collect();
    let svg = frames(&list, 0.5).unwrap().svg();
    let parts = Parts::of(&svg);
    for (i, alone) in list.iter().enumerate() {
        // Six times the same frame: all but the titles is shared, in the order in which it was drawn.
        let same = Parts::of(&frames(&vec![alone.clone(); 6], 0.5).unwrap().svg());
        assert_eq!(same.groups.len(), 6);
        let body = |parts: &Parts| {
            let page = parts.page(i).into_iter().filter(|e| !e.text.contains(" of 6)"));
            page.skip(1).collect::<Vec<_>>()
        };
        assert_eq!(body(&parts), body(&same), "frame {i}");
        assert!(parts.own(i).len() > 3, "frame {i} has its path, its wave and its title");
    }
    assert_eq!(count(&svg, "<image"), 1);
    let [one, two] = [&list[..2], &list[..]].map(|list| frames(list, 0.5).unwrap().svg().len());
    assert!(two < one + one / 2, "{one} bytes for two frames, {two} for six");
}

#[test]
fn short_pieces_between_moving_ones_do_not_multiply_the_groups() {
    // Every second point moves, so what stays lies in between; to share it would cost more than it saves.
    let frame = |i: usize| {
        let x: Vec<f64> =
            (0..60).map(|k| f64::from(k) + if k % 2 == 0 { 0.1 * i as f64 } else { 0.0 }).collect();
        scatter(&[Points::new("p", &x, &x)])
            .unwrap()
            .x_range(-1.0, 61.0)
            .unwrap()
            .y_range(-1.0, 61.0)
            .unwrap()
    };
    let parts = Parts::of(&frames(&(0..4).map(frame).collect::<Vec<_>>(), 1.0).unwrap().svg());
    assert!(parts.groups.len() <= 3 * 4, "{} groups", parts.groups.len());
}

#[test]
fn an_animation_needs_no_script_no_identifier_and_nothing_from_elsewhere() {
    let elements = parse(&frames(&gallery(), 1.0).unwrap().svg());
    let known = ["svg", "g", "animate", "rect", "circle", "polyline", "polygon", "text", "image"];
    for element in &elements {
        assert!(known.contains(&element.name.as_str()), "{}", element.name);
        // Identifiers of two frames could be the same; without any, nothing is mixed up.
        let foreign = |key: &str| key == "id" || key.starts_with("on") || key.ends_with(":href");
        assert!(!element.attributes.iter().any(|(key, _)| foreign(key)), "{:?}", element.attributes);
        let outside = |value: &str| value.contains("url(") || value.contains("://");
        let values = element.attributes.iter().filter(|(key, _)| key != "xmlns");
        assert!(values.clone().all(|(_, value)| !outside(value)), "{:?}", element.attributes);
    }
    let links: Vec<&str> = elements.iter().filter_map(|e| e.get("href")).collect();
    assert!(!links.is_empty() && links.iter().all(|link| link.starts_with("data:image/png;base64,")));
}

#[test]
fn every_frame_is_legible_and_inside_the_page() {
    let long = "a caption so long that it takes several lines over the frame ".repeat(4);
    let branch = Branch::question("is it striped", Branch::leaf("zebra"), Branch::leaf("horse"));
    let mut list = gallery();
    list.extend([tree(&branch).unwrap(), list[0].clone().caption(&long)]);
    let figure = frames(&list, 0.5).unwrap().caption(&long);
    for size in SIZES {
        let parts = Parts::of(&figure.clone().size(size).svg());
        assert_eq!(parts.number(), list.len());
        for i in 0..list.len() {
            assert!(parts.own(i).len() > 3, "frame {i} shows something");
            assert_clear(&parts.page(i), &format!("{size:?}, frame {i}"));
        }
        // What so different frames share is the page and its caption.
        let shared = parts.shared();
        let below = shared.iter().filter(|e| e.name == "text").count();
        assert_eq!(below > 0, size == Size::Screen);
        assert!(shared.iter().all(|e| ["svg", "rect", "text"].contains(&e.name.as_str())));
    }
}

#[test]
fn frames_have_the_size_of_the_largest() {
    let page = |figure: &Figure| {
        let root = parse(&figure.svg()).remove(0);
        [root.number("width"), root.number("height")]
    };
    let [column, screen] = [Size::Column, Size::Screen].map(|size| small().size(size));
    assert_eq!(page(&frames(&[column.clone(), screen.clone()], 1.0).unwrap()), page(&screen));
    assert_eq!(page(&frames(&[screen.clone(), column.clone()], 1.0).unwrap()), page(&screen));
    assert_eq!(page(&frames(&[column.clone(), column.clone()], 1.0).unwrap()), page(&column));
    let set = frames(&[screen.clone(), screen.clone()], 1.0).unwrap().size(Size::Column);
    assert_eq!(page(&set), page(&column));
    // A sheet is as high as its rows need; the number of the frame comes on top.
    let sheet = |n: usize| images(&vec![Image::grey(4, 6, &[9; 24]).unwrap(); n], 3).unwrap();
    let [low, high] = [3, 12].map(|n| page(&sheet(n))[1]);
    let [flat, mixed] = [3, 12].map(|n| page(&frames(&[sheet(3), sheet(n)], 1.0).unwrap())[1]);
    assert!(low < flat && high < mixed && (mixed - flat - (high - low)).abs() < 0.1, "{flat} {mixed}");
    assert_eq!(page(&frames(&[sheet(12), small()], 1.0).unwrap())[1], mixed);
}

#[test]
fn frames_on_the_same_ranges_keep_their_axes_in_place() {
    // Of the first curves one ends far from the right side, so a legend names those of all frames.
    let parts = Parts::of(&frames(&walk(5), 0.2).unwrap().svg());
    let axes = |list: &[Element]| {
        list.iter().filter(|e| e.name == "polyline" && e.get("stroke") == Some("#262626")).count()
    };
    assert!(axes(&parts.shared()) > 8, "two axes and their ticks");
    assert!((0..5).all(|i| axes(&parts.own(i)) == 0));
    let alone =
        curves(&[Curve::new("wave", &[0.0, 8.0], &[0.0, 1.0]), Curve::new("b", &[0.0, 8.0], &[1.0, 0.0])]);
    let both = vec![alone.unwrap(); 2];
    let place =
        |svg: &str| Parts::of(svg).page(0).iter().find(|e| e.text == "wave").map(Element::bounds).unwrap();
    let [at_end, in_legend] = [&both, &walk(2)].map(|list| place(&frames(list, 1.0).unwrap().svg())[0]);
    assert!(at_end > 6000.0 && in_legend < 1000.0, "names at the ends if all frames allow it");
}

#[test]
fn raster_images_belong_to_their_frame() {
    let field = |a: f64| field(move |x, y| a * x + y, (0.0, 1.0), (0.0, 1.0)).unwrap();
    let parts = Parts::of(&frames(&[field(1.0), field(-1.0)], 1.0).unwrap().svg());
    let rasters = |list: &[Element]| -> Vec<String> {
        list.iter().filter(|e| e.name == "image").map(|e| e.get("href").unwrap().to_string()).collect()
    };
    assert!(rasters(&parts.shared()).is_empty());
    let [first, second] = [0, 1].map(|i| rasters(&parts.own(i)));
    assert!(first.len() == 1 && second.len() == 1 && first != second);
}

#[test]
fn what_cannot_be_animated_is_a_typed_error() {
    let told = |figure: lastlayer::error::Result<Figure>| match figure {
        Err(Error::Config { .. }) => figure.unwrap_err().to_string(),
        other => panic!("{other:?}"),
    };
    for n in [0, 1, 61] {
        let message = told(frames(&vec![small(); n], 1.0));
        assert!(message.contains(&n.to_string()) && message.contains("2 to 60"), "{message}");
    }
    for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.049, 60.1] {
        let message = told(frames(&[small(), small()], bad));
        assert!(message.contains("0.05 to 60"), "{message}");
    }
    assert!(frames(&vec![small(); 60], 60.0).is_ok() && frames(&[small(), small()], 0.05).is_ok());
    let moving = frames(&[small(), small()], 1.0).unwrap();
    let message = told(frames(&[small(), moving.clone()], 1.0));
    assert!(message.contains("frame 2"), "{message}");
    assert!(told(grid(&[small(), moving.clone()], 2)).contains("frames of the grids"));
    assert!(frames(&[grid(&[small()], 1).unwrap(), small()], 1.0).is_ok());
    assert!(told(moving.clone().x_range(0.0, 1.0)).contains("frames"));
    assert!(told(moving.log_y()).contains("frames"));
}

#[test]
fn csv_of_an_animation_says_which_frame() {
    let a = curves(&[Curve::new("c", &[0.0], &[1.5])]).unwrap();
    let b = bars(&["k"], &[Bars::new("s", &[2.5])]).unwrap();
    let csv = frames(&[a.clone(), b.clone()], 1.0).unwrap().csv();
    assert_eq!(csv, "frame,series,x,y,low,high,category,value\n1,c,0.0,1.5,,,,\n2,s,,,,,k,2.5\n");
    let both = grid(&[a.clone(), b], 2).unwrap();
    let csv = frames(&[both, a], 1.0).unwrap().csv();
    let rows = ["frame,panel,series,x,y,low,high,category,value", "1,a,c,0.0,1.5,,,,", "1,b,s,,,,,k,2.5"];
    assert_eq!(csv.lines().collect::<Vec<_>>(), [&rows[..], &["2,,c,0.0,1.5,,,,"]].concat());
}

#[test]
fn an_animation_is_described_by_its_first_and_last_frame() {
    let other = curves(&[Curve::new("c", &[0.0, 1.0], &[2.0, 5.0])]).unwrap().labels("x", "y");
    let figure = frames(&[small(), small(), other], 0.25).unwrap();
    let text = "Animation of 3 frames, 0.25 s each: \
                first: Curves of y over x: c (2 points, from 2 to 3, last 3). A line; \
                last: Curves of y over x: c (2 points, from 2 to 5, last 5).";
    assert_eq!(figure.describe(), text);
    let figure = figure.caption("Three steps.");
    assert_eq!(figure.describe(), format!("{text} Three steps."));
    assert_eq!(parse(&figure.svg())[0].get("aria-label"), Some(figure.describe().as_str()));
}

#[test]
fn an_animation_is_saved_with_its_record_and_the_same_bytes_every_time() {
    let figure = || {
        let run = Record::start("run", "cpu").config("rate", 0.1).seed(Seed::new(42));
        frames(&gallery(), 0.1).unwrap().caption("everything in turn").record(&run)
    };
    let (first, second) = (figure(), figure());
    assert_eq!((first.svg(), first.csv()), (second.svg(), second.csv()));
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("moving");
    first.save(stem.to_str().unwrap()).unwrap();
    assert_eq!(std::fs::read_to_string(stem.with_extension("svg")).unwrap(), second.svg());
    assert_eq!(std::fs::read_to_string(stem.with_extension("csv")).unwrap(), second.csv());
    let record = Record::load(stem.with_extension("json")).unwrap();
    let settings = &record.config["figure"];
    assert_eq!((record.seed, &record.config["rate"]), (Some(Seed::new(42)), &0.1.into()));
    assert_eq!((&settings["kind"], &settings["seconds"]), (&"frames".into(), &0.1.into()));
    assert_eq!(settings["caption"], "everything in turn");
    assert_eq!(settings["frames"].as_array().unwrap().len(), gallery().len());
    assert_eq!(settings["frames"][0]["kind"], "curves");
}
