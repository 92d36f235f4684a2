//! Errors: one or two lines that say what is wrong and what to try.

mod device;

use device::device;
use lastlayer::error::ensure_shape;
use lastlayer::prelude::*;

#[test]
fn messages_are_at_most_two_lines_and_name_the_cause() {
    let io = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let errors = [
        (Error::shape("w", "[2, 3]", "[3, 2]"), "shape of w: expected [2, 3], got [3, 2]"),
        (
            Error::config("sharpness", -1.0, "a positive number"),
            "sharpness is -1; allowed: a positive number",
        ),
        (Error::data("data/a.csv", "no header"), "data/a.csv: no header"),
        (
            Error::Data { path: "a.csv".into(), line: Some(3), why: "two columns".into() },
            "a.csv, line 3: two columns",
        ),
        (
            Error::Solve {
                solver: "newton".into(),
                iters: 50,
                residual: 1e-3,
                hint: "raise max_iter".into(),
            },
            "newton stopped after 50 iterations with residual 1.000e-3; raise max_iter",
        ),
        (Error::Kernel { problem: "p".into(), remedy: "r".into() }, "p\nr"),
        (Error::io("x/y", "make the folder", io), "x/y: permission denied; make the folder"),
    ];
    for (error, text) in errors {
        assert_eq!(error.to_string(), text);
        assert!(error.to_string().lines().count() <= 2);
    }
}

#[test]
fn candle_errors_pass_through_unchanged() {
    fn add() -> Result<Tensor> {
        let a = Tensor::zeros(2, DType::F32, device())?;
        let b = Tensor::zeros(3, DType::F32, device())?;
        Ok((a + b)?)
    }
    let error = add().unwrap_err();
    assert!(matches!(error, Error::Candle(_)) && error.to_string().contains("shape mismatch"), "{error}");
}

#[test]
fn ensure_shape_accepts_equal_and_names_both_otherwise() {
    assert!(ensure_shape("x", 3, 3).is_ok());
    assert_eq!(ensure_shape("x", 3, 4).unwrap_err().to_string(), "shape of x: expected 3, got 4");
}
