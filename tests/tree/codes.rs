//! Tables of codes.

use crate::device::device;
use lastlayer::error::Error;
use lastlayer::ndarray::{Array2, array};
use lastlayer::prelude::Tensor;
use lastlayer::tree::Codes;

use super::{SEED, message, noise};

#[test]
fn codes_are_the_same_from_a_tensor_an_array_and_bytes() {
    let bytes = Codes::from_bytes(vec![0, 3, 1, 2, 2, 0], 3, 4).unwrap();
    let tensor = Tensor::new(&[[0f32, 3., 1.], [2., 2., 0.]], device()).unwrap();
    assert_eq!(Codes::new(&tensor, 4).unwrap(), bytes);
    assert_eq!(Codes::new(&array![[0u8, 3, 1], [2, 2, 0]], 4).unwrap(), bytes);
    assert_eq!((bytes.n(), bytes.d(), bytes.levels()), (2, 3, 4));
    assert_eq!(bytes.row(1), [2, 2, 0]);
    assert_eq!(bytes.rows().collect::<Vec<_>>(), [&[0, 3, 1][..], &[2, 2, 0]]);
    assert_eq!(bytes.column(1).collect::<Vec<_>>(), [3, 2]);
}

#[test]
fn a_row_or_a_column_that_is_not_there_is_empty() {
    let codes = Codes::from_bytes(vec![0, 1, 1, 0], 2, 2).unwrap();
    assert!(codes.row(2).is_empty());
    assert_eq!(codes.column(2).count(), 0);
}

#[test]
fn rows_can_be_taken_in_any_order_and_more_than_once() {
    let codes = noise(9, 4, 16, SEED);
    let taken = codes.take(&[8, 0, 0]).unwrap();
    assert_eq!([taken.row(0), taken.row(1), taken.row(2)], [codes.row(8), codes.row(0), codes.row(0)]);
    assert_eq!((taken.n(), taken.levels()), (3, 16));
    assert_eq!(message(codes.take(&[9])), "shape of row of codes: expected below 9, got 9");
    assert!(matches!(codes.take(&[]), Err(Error::Shape { .. })));
}

#[test]
fn counts_and_zeros_are_those_of_a_loop() {
    let codes = noise(50, 3, 5, SEED);
    let counts = codes.counts();
    assert_eq!(counts.dim(), (3, 5));
    for ((j, code), count) in counts.indexed_iter() {
        assert_eq!(codes.column(j).filter(|c| usize::from(*c) == code).count(), *count);
    }
    let zeros = codes.rows().flatten().filter(|code| **code == 0).count();
    assert_eq!(codes.zeros(), zeros as f64 / 150.0);
}

#[test]
fn a_byte_tells_2_to_256_levels_apart() {
    for levels in [2, 256] {
        let top = (levels - 1) as u8;
        assert_eq!(Codes::from_bytes(vec![0, top], 1, levels).unwrap().levels(), levels);
    }
    for levels in [0, 1, 257] {
        let got = Codes::from_bytes(vec![0, 0], 1, levels);
        assert_eq!(message(got), format!("levels of codes is {levels}; allowed: 2 to 256"));
    }
    assert!(matches!(Codes::new(&array![[0.0], [256.0]], 257), Err(Error::Config { .. })));
}

#[test]
fn what_is_no_code_is_refused_with_its_place() {
    for (bad, shown) in [(4.0, "4"), (-1.0, "-1"), (1.5, "1.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
        let got = message(Codes::new(&array![[0.0, 1.0], [3.0, 2.0], [1.0, bad]], 4));
        let place = format!("row 2 of column 1 is {shown}; quantise it to a whole number from 0 to 3");
        assert!(got.contains(&place), "{got}");
    }
    assert!(message(Codes::from_bytes(vec![0, 4], 2, 4)).contains("there is a 4 among 4 levels"));
}

#[test]
fn a_table_that_is_none_is_refused() {
    assert!(matches!(Codes::new(&[0.0, 1.0], 2), Err(Error::Shape { .. })));
    assert!(matches!(Codes::new(&Array2::<f64>::zeros((0, 3)), 2), Err(Error::Shape { .. })));
    assert!(matches!(Codes::new(&Array2::<f64>::zeros((3, 0)), 2), Err(Error::Shape { .. })));
    for (values, d) in [(vec![], 1), (vec![0, 1, 0], 2), (vec![0], 0)] {
        assert!(matches!(Codes::from_bytes(values, d, 2), Err(Error::Shape { .. })));
    }
}
