use crate::device::device;
use lastlayer::data::load::bundled;
use lastlayer::prelude::*;

use super::{refuses, values};

#[test]
fn bundled_tables_are_whole() {
    let iris = bundled("iris", device()).unwrap();
    assert_eq!(iris.x.dims(), [150, 4]);
    assert_eq!(iris.names.classes, ["setosa", "versicolor", "virginica"]);
    assert_eq!(iris.names.features[2], "petal length");
    assert_eq!(iris.x.i(0).unwrap().to_vec1::<f32>().unwrap(), [5.1, 3.5, 1.4, 0.2]);
    // Rows 35 and 38 of the copy at UCI differ from Fisher's paper in these places.
    assert_eq!(iris.x.i(34).unwrap().to_vec1::<f32>().unwrap(), [4.9, 3.1, 1.5, 0.2]);
    assert_eq!(iris.x.i(37).unwrap().to_vec1::<f32>().unwrap(), [4.9, 3.6, 1.4, 0.1]);

    let cancer = bundled("breast_cancer", device()).unwrap();
    assert_eq!(cancer.x.dims(), [569, 30]);
    assert_eq!(cancer.names.classes, ["benign", "malignant"]);
    assert_eq!(values(&cancer.y).iter().sum::<f64>(), 212.0);
    assert_eq!(cancer.x.i((0, 0)).unwrap().to_scalar::<f32>().unwrap(), 17.99);

    let digits = bundled("digits", device()).unwrap();
    assert_eq!((digits.x.dims(), digits.x.dtype()), ([1797, 1, 8, 8].as_slice(), DType::U8));
    // The first row of the first digit is 0 0 5 13 9 1 0 0 of 16.
    assert_eq!(values(&digits.x.i((0, 0, 0)).unwrap()), [0., 0., 80., 207., 143., 16., 0., 0.]);
    assert_eq!(digits.names.classes.len(), 10);
    assert_eq!(values(&digits.y)[..10], [0., 1., 2., 3., 4., 5., 6., 7., 8., 9.]);

    refuses(bundled("wine", device()), &["\"wine\"", "\"iris\", \"breast_cancer\", \"digits\""]);
}

#[test]
fn f64_on_request_keeps_all_digits() {
    let wide = (DType::F64, device());
    let iris = bundled("iris", wide).unwrap();
    assert_eq!(iris.x.i(0).unwrap().to_vec1::<f64>().unwrap(), [5.1, 3.5, 1.4, 0.2]);
    assert_eq!(bundled("digits", wide).unwrap().x.dtype(), DType::U8); // images stay bytes
    refuses(bundled("iris", (DType::U8, device())), &["dtype of a table", "F32 or F64"]);
}
