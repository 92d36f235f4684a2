//! Check lines: the three verdicts, and what is refused.

mod device;

use device::device;
use lastlayer::check::{check, check_line};
use lastlayer::prelude::*;

#[test]
fn verdicts_are_exact_close_and_wrong() -> Result<()> {
    let line = |mine: &[f64], truth: &[f64]| check_line("dw", mine, truth, 1e-6);
    assert_eq!(line(&[2.0, 4.0], &[2.0, 4.0])?, "check dw = [2, 4] (tolerance 1e-6): exact");
    assert_eq!(
        line(&[2.0], &[2.0 + 1e-7])?,
        "check dw = 2 (tolerance 1e-6): close, largest difference 1.0e-7"
    );
    assert_eq!(line(&[2.5], &[2.0])?, "check dw = 2.5 (tolerance 1e-6): WRONG, largest difference 5.0e-1");
    Ok(())
}

#[test]
fn tolerance_is_relative_above_one_and_absolute_below() -> Result<()> {
    assert!(check_line("big", &[1e6 + 0.5], &[1e6], 1e-6)?.contains("close"));
    assert!(check_line("small", &[2e-6], &[0.0], 1e-6)?.contains("WRONG"));
    Ok(())
}

#[test]
fn not_a_number_is_wrong_wherever_it_stands() -> Result<()> {
    assert!(check_line("nan", &[f64::NAN, 1.0], &[1.0, 1.0], 1e-6)?.contains("WRONG"));
    assert!(check_line("nan", &[1.0, f64::NAN], &[1.0, 1.0], 1e-6)?.contains("WRONG"));
    assert!(check_line("nan", &[1.0], &[f64::NAN], 1e-6)?.contains("WRONG"));
    assert!(check_line("inf", &[f64::INFINITY], &[1.0], 1e-6)?.contains("WRONG"));
    assert!(check_line("inf", &[f64::INFINITY], &[f64::INFINITY], 1e-6)?.contains("exact"));
    Ok(())
}

#[test]
fn long_lists_are_cut_but_compared_whole() -> Result<()> {
    let mine = vec![1.0; 100];
    let mut truth = mine.clone();
    assert!(check_line("w", &mine, &truth, 1e-6)?.contains("… 100 in all]"));
    truth[99] = 2.0;
    assert!(check_line("w", &mine, &truth, 1e-6)?.contains("WRONG"));
    Ok(())
}

#[test]
fn tensors_of_any_type_and_shape_are_compared() -> Result<()> {
    let t = Tensor::new(&[[1f32, 2.0], [3.0, 4.0]], device())?;
    check("t", &t, [1.0, 2.0, 3.0, 4.0], 1e-6)?;
    assert!(matches!(check("t", &t, [1.0], 1e-6), Err(Error::Shape { .. })));
    Ok(())
}

#[test]
fn bad_names_and_tolerances_are_refused() {
    for (name, tolerance) in
        [("a", 0.0), ("a", -1.0), ("a", f64::NAN), ("a = b", 1.0), ("", 1.0), ("a\nb", 1.0)]
    {
        assert!(
            matches!(check_line(name, &[1.0], &[1.0], tolerance), Err(Error::Config { .. })),
            "{name:?} {tolerance}"
        );
    }
}
