//! Tables: four faces of one content, and what they refuse.

use lastlayer::prelude::*;

fn sample() -> Table {
    Table::new(&["method", "FNR at 5 % | FPR", "n"])
        .row(("ours & <theirs>", (0.12345, 0.0067), 10usize))
        .and_then(|t| t.row(("a,\"b\"", (0.2, 0.01), Cell::Empty)))
        .map(|t| t.caption("Mean and 95 % interval over 5 seeds"))
        .unwrap()
}

#[test]
fn a_row_needs_one_cell_per_column() {
    let error = Table::new(&["a", "b"]).row(vec![1.0]).unwrap_err();
    assert!(
        matches!(error, Error::Shape { .. }) && error.to_string().contains("one per column (a, b)"),
        "{error}"
    );
}

#[test]
fn html_escapes_and_aligns_numbers_right() {
    let html = sample().html();
    assert!(html.contains("ours &amp; &lt;theirs&gt;") && !html.contains("<theirs>"));
    assert!(
        html.contains("<td style=\"text-align:right;white-space:nowrap\">0.1235 ± 0.0067</td>"),
        "{html}"
    );
    assert!(html.contains("<td style=\"text-align:left\">"));
}

#[test]
fn markdown_has_a_rule_and_escapes_bars() {
    let text = sample().markdown();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "| method | FNR at 5 % \\| FPR | n |");
    assert_eq!(lines[1], "| --- | ---: | ---: |");
    assert!(text.ends_with("\nMean and 95 % interval over 5 seeds\n"));
}

#[test]
fn latex_is_booktabs_and_escapes_commands() {
    let text = sample().latex();
    assert!(text.contains("\\begin{tabular}{@{}lrr@{}}") && text.contains("\\toprule"), "{text}");
    assert!(text.contains("ours \\& $<$theirs$>$ & 0.1235 $\\pm$ 0.0067 & 10 \\\\"), "{text}");
    assert!(text.contains("FNR at 5~\\%"));
    let caption = text.find("\\caption{Mean and 95~\\% interval over 5 seeds}").unwrap();
    assert!(caption < text.find("\\begin{tabular}").unwrap(), "a table has its caption above it");
    assert!(!text.contains("\\label"));
}

/// The only cell of a table in LaTeX.
fn latex_of(cell: impl Into<Cell>) -> String {
    let text = Table::new(&["x"]).row(vec![cell.into()]).unwrap().latex();
    let row = text.lines().skip_while(|line| !line.contains("midrule")).nth(1).unwrap();
    row.trim().trim_end_matches(" \\\\").to_string()
}

#[test]
fn latex_escapes_what_it_would_read_as_a_command() {
    assert_eq!(latex_of("50 % of a_b & c#d {e} $"), "50~\\% of a\\_b \\& c\\#d \\{e\\} \\$");
    assert_eq!(latex_of("4 000 images, k 10 of 20"), "4~000 images, k 10 of 20");
    assert_eq!(latex_of("a\\b~c^d\ne"), "a\\textbackslash{}b\\textasciitilde{}c\\textasciicircum{}d e");
    assert_eq!(latex_of("[1, 2]"), "{}[1, 2]");
    assert_eq!(latex_of("5\u{a0}% – “so”"), "5~\\% -- ``so''");
    assert_eq!(latex_of("Zürich"), "Zürich");
}

#[test]
fn latex_sets_symbols_in_mathematics_and_neighbours_share_it() {
    assert_eq!(latex_of("1 ± 2, a < b | c"), "1 $\\pm$ 2, a $<$ b $|$ c");
    assert_eq!(
        latex_of("θ₁₂ and x², 10⁻³, √(ηt)"),
        "$\\theta_{12}$ and x$^{2}$, 10$^{-3}$, $\\surd$($\\eta$t)"
    );
    let letters: String = ('α'..='ω').collect();
    assert_eq!(
        latex_of(letters),
        "$\\alpha\\beta\\gamma\\delta\\varepsilon\\zeta\\eta\\theta\\iota\\kappa\\lambda\\mu\\nu\\xi\\mathrm{o}\\pi\\rho\
         \\varsigma\\sigma\\tau\\upsilon\\varphi\\chi\\psi\\omega$"
    );
    assert_eq!(
        latex_of("ΓΔΘΛΞΠΣΥΦΨΩ"),
        "$\\Gamma\\Delta\\Theta\\Lambda\\Xi\\Pi\\Sigma\\Upsilon\\Phi\\Psi\\Omega$"
    );
    assert_eq!(latex_of("ΑΡΤΧµ"), "$\\mathrm{A}\\mathrm{P}\\mathrm{T}\\mathrm{X}\\mu$");
}

#[test]
fn latex_numbers_have_true_minus_signs_and_powers_of_ten() {
    assert_eq!(latex_of(Cell::Range { value: -1.4, low: -2.0, high: 0.8 }), "$-$1.4 [$-$2.0, 0.8]");
    assert_eq!(latex_of(2.8724e-9), "2.872$\\times10^{-9}$");
    assert_eq!(latex_of(-1.5e12), "$-$1.500$\\times10^{12}$");
    assert_eq!(latex_of(f64::NAN), "NaN");
    assert_eq!(latex_of("1e-3 as words"), "1e-3 as words");
}

#[test]
fn latex_breaks_long_names_and_gives_wide_tables_both_columns() {
    let narrow = Table::new(&["tr S_W / tr S_B, test"]).row(vec![0.5]).unwrap().latex();
    assert!(narrow.contains("\\begin{tabular}[b]{@{}r@{}}"), "{narrow}");
    assert!(narrow.starts_with("\\begin{table}\n") && narrow.ends_with("\\end{table}\n"), "{narrow}");
    let names: Vec<String> = (0..9).map(|j| format!("column {j}")).collect();
    let wide = Table::new(&names).row(vec![(51.66, 0.81); 9]).unwrap().latex();
    assert!(wide.starts_with("\\begin{table*}\n") && wide.ends_with("\\end{table*}\n"), "{wide}");
}

#[test]
fn csv_keeps_every_digit_and_splits_intervals() {
    let csv = sample().csv();
    assert_eq!(csv.lines().next().unwrap(), "method,FNR at 5 % | FPR,FNR at 5 % | FPR half-width,n");
    assert_eq!(csv.lines().nth(1).unwrap(), "ours & <theirs>,0.12345,0.0067,10");
    assert_eq!(csv.lines().nth(2).unwrap(), "\"a,\"\"b\"\"\",0.2,0.01,");
    let third = 1.0 / 3.0;
    let csv = Table::new(&["x"]).row(vec![third]).unwrap().csv();
    assert_eq!(csv.lines().nth(1).unwrap().parse::<f64>().unwrap(), third);
}

#[test]
fn every_kind_of_number_is_a_cell() {
    // A bare literal is an i32; what candle gives is often f32 or u32.
    assert_eq!([Cell::from(-3), Cell::from(3u32)], [Cell::Integer(-3), Cell::Integer(3)]);
    assert_eq!([Cell::from(0.5f32), Cell::from(0.5)], [Cell::Number(0.5), Cell::Number(0.5)]);
}

#[test]
fn numbers_print_four_significant_digits() {
    let text = |v: f64| Cell::from(v).text();
    assert_eq!(text(0.0), "0");
    assert_eq!(text(1.0 / 3.0), "0.3333");
    assert_eq!(text(-1234.56), "-1235");
    assert_eq!(text(1.5e-7), "1.500e-7");
    assert_eq!(text(f64::NAN), "NaN");
    assert_eq!(Cell::from((12.3456, 0.0)).text(), "12.35 ± 0");
    assert_eq!(Cell::from((1234.6, 250.0)).text(), "1235 ± 250.0");
}

#[test]
fn save_writes_three_files_and_takes_names_with_spaces() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("my table v1.2");
    let saved = sample().save(stem.to_str().unwrap())?;
    let names: Vec<_> = saved.paths().iter().map(|p| p.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["my table v1.2.md", "my table v1.2.tex", "my table v1.2.csv"]);
    assert!(saved.paths().iter().all(|p| p.exists()));
    let tex = std::fs::read_to_string(&saved.paths()[1]).unwrap();
    assert!(tex.contains("\\label{tab:my-table-v1.2}"), "{tex}");
    Ok(())
}

#[test]
fn save_refuses_what_is_no_file_name() {
    for name in ["", ".", "..", ".hidden", "folder/", "a\nb", "x/.."] {
        assert!(matches!(sample().save(name), Err(Error::Config { .. })), "{name:?}");
    }
}

#[test]
fn an_unwritable_place_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let error = sample().save(file.join("t").to_str().unwrap()).unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.starts_with(&file)), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_range_prints_its_ends_and_exports_three_fields() -> Result<()> {
    let range = Cell::Range { value: 0.91234, low: 0.8912, high: 0.9334 };
    assert_eq!(range.text(), "0.912 [0.891, 0.933]");
    assert_eq!(Cell::Range { value: 1.0, low: 1.0, high: 1.0 }.text(), "1.000 [1.000, 1.000]");
    let table = Table::new(&["AUC"]).row(vec![range])?.row(vec![(0.5, 0.25)])?.row(vec![0.75])?;
    assert_eq!(table.csv(), "AUC,AUC low,AUC high\n0.91234,0.8912,0.9334\n0.5,0.25,0.75\n0.75,,\n");
    Ok(())
}

#[test]
fn decimals_align_a_column_and_leave_csv_alone() {
    let table = Table::new(&["a"]).row(vec![39.123]).unwrap().row(vec![0.0551]).unwrap().decimals(1);
    assert!(table.markdown().contains("| 39.1 |") && table.markdown().contains("| 0.1 |"));
    assert!(table.html().contains(">0.1<") && table.latex().contains("0.1 "));
    assert!(table.csv().contains("0.0551"));
    let table = Table::new(&["a"]).row(vec![(39.123, 0.046)]).unwrap().decimals(1);
    assert!(table.markdown().contains("| 39.1 ± 0.0 |"));
    let range = Cell::Range { value: 0.91234, low: 0.8912, high: 0.9334 };
    assert!(
        Table::new(&["a"]).row(vec![range]).unwrap().decimals(2).markdown().contains("| 0.91 [0.89, 0.93] |")
    );
}
