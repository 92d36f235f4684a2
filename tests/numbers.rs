//! One door for numbers: every kind that a notebook holds gives the same list and its shape.

mod device;

use device::device;
use lastlayer::ndarray::arr2;
use lastlayer::prelude::*;

fn read(values: impl AsF64) -> (Vec<f64>, Vec<usize>) {
    (values.numbers().unwrap().into_owned(), values.sizes())
}

#[test]
fn lists_of_every_type_read_alike() {
    let want = (vec![0.0, 1.0, 1.0], vec![3]);
    assert_eq!(read([0.0, 1.0, 1.0]), want);
    assert_eq!(read([0, 1, 1]), want, "bare integers are i32");
    assert_eq!(read(vec![0u8, 1, 1]), want);
    assert_eq!(read(&[0u32, 1, 1][..]), want);
    assert_eq!(read([0i64, 1, 1].as_slice()), want);
    assert_eq!(read([0usize, 1, 1]), want);
    assert_eq!(read([0u64, 1, 1]), want);
    assert_eq!(read([0f32, 1.0, 1.0]), want);
    assert_eq!(read([false, true, true]), want);
    assert_eq!(read(ndarray::arr1(&[0.0, 1.0, 1.0])), want);
    assert_eq!(read(2.5), (vec![2.5], vec![]));
    assert_eq!(read(true), (vec![1.0], vec![]));
}

#[test]
fn matrices_read_by_rows_whatever_their_layout() -> Result<()> {
    let m = arr2(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let transposed = (vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0], vec![3, 2]);
    assert_eq!(read(&m), (vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![2, 3]));
    assert_eq!(read(m.t()), transposed);
    assert_eq!(read(m.column(1)), (vec![2.0, 5.0], vec![2]));
    let t = Tensor::new(&[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]], device())?;
    assert_eq!(read(t.t()?), transposed);
    assert_eq!(read(Var::from_tensor(&t.t()?)?), transposed);
    // Only a tensor that is elsewhere says so.
    let elsewhere = !device().is_cpu();
    assert_eq!(t.on_device().map(Tensor::dims), elsewhere.then_some(&[2, 3][..]));
    assert_eq!(Var::from_tensor(&t)?.on_device().is_some(), elsewhere);
    assert!(m.on_device().is_none());
    for dtype in [DType::U8, DType::U32, DType::I64, DType::F16, DType::F32, DType::F64] {
        assert_eq!(read(t.to_dtype(dtype)?), (vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![2, 3]), "{dtype:?}");
    }
    Ok(())
}

#[test]
fn lists_of_f64_are_lent_not_copied() -> Result<()> {
    let list = vec![1.0, 2.0];
    assert_eq!(list.numbers()?.as_ptr(), list.as_ptr());
    Ok(())
}
