use super::*;

#[test]
fn binary_rates_equal_scikit_learn() -> Result<()> {
    let o = oracle("binary");
    let confusion = Scores::new(list(&o["s"]), list(&o["y"]))?.confusion(1.0)?;
    let want = |name: &str| number(&o["at_threshold_1"][name]);
    for (name, got) in [
        ("accuracy", confusion.accuracy()),
        ("balanced_accuracy", confusion.balanced_accuracy()?),
        ("precision", confusion.precision()?),
        ("tpr", confusion.tpr()?),
        ("f_half", confusion.f_beta(0.5)?),
        ("f_two", confusion.f_beta(2.0)?),
        ("phi", confusion.phi()?),
    ] {
        assert!((got - want(name)).abs() < ROUNDING, "{name}: {got} against {}", want(name));
    }
    Ok(())
}

#[test]
fn multiclass_rates_equal_scikit_learn() -> Result<()> {
    let o = oracle("several_classes");
    let confusion = Confusion::new(list(&o["predicted"]), list(&o["y"]), 4)?;
    let counts: Vec<f64> = confusion.counts().iter().map(|c| *c as f64).collect();
    assert_eq!(counts, list(&o["confusion"]));
    assert_near(confusion.accuracy(), number(&o["accuracy"]), ROUNDING);
    assert_near(confusion.balanced_accuracy()?, number(&o["balanced_accuracy"]), ROUNDING);
    assert_near(confusion.macro_f()?, number(&o["macro_f"]), ROUNDING);
    assert_near(confusion.micro_f(), number(&o["micro_f"]), ROUNDING);
    for class in 0..4 {
        assert_near(confusion.class_recall(class)?, list(&o["recall"])[class], ROUNDING);
        assert_near(confusion.class_precision(class)?, list(&o["precision"])[class], ROUNDING);
    }
    Ok(())
}

#[test]
fn four_counts_give_all_binary_rates() -> Result<()> {
    // TP 3, FN 1, FP 2, TN 4.
    let y = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0];
    let confusion = Confusion::new([1, 1, 1, 0, 1, 1, 0, 0, 0, 0], y, 2)?;
    assert_eq!((confusion.n(), confusion.k()), (10, 2));
    assert_eq!((confusion.tpr()?, confusion.fnr()?), (0.75, 0.25));
    assert_eq!((confusion.fpr()?, confusion.tnr()?), (2.0 / 6.0, 4.0 / 6.0));
    assert_eq!((confusion.precision()?, confusion.npv()?), (0.6, 0.8));
    assert_near(confusion.f_beta(1.0)?, 2.0 * 3.0 / (2.0 * 3.0 + 1.0 + 2.0), ROUNDING);
    assert_near(confusion.phi()?, (3.0 * 4.0 - 2.0) / (5.0f64 * 4.0 * 6.0 * 5.0).sqrt(), ROUNDING);
    assert!(confusion.table()?.markdown().contains("| 1 | 1 | 3 |"));
    Ok(())
}

#[test]
fn phi_is_the_correlation_of_two_binary_lists() {
    for case in 0..30 {
        let (s, y) = tied(case, 40);
        let a: Vec<u8> = s.iter().map(|s| u8::from(*s > 3.0)).collect();
        if a.iter().all(|v| *v == a[0]) {
            continue;
        }
        let mean = |v: &[u8]| v.iter().map(|v| f64::from(*v)).sum::<f64>() / v.len() as f64;
        let (ma, my) = (mean(&a), mean(&y));
        let moment = |f: &dyn Fn(f64, f64) -> f64| {
            a.iter().zip(&y).map(|(a, y)| f(f64::from(*a) - ma, f64::from(*y) - my)).sum::<f64>()
        };
        let want = moment(&|a, y| a * y) / (moment(&|a, _| a * a) * moment(&|_, y| y * y)).sqrt();
        assert_near(metrics::phi(&a, &y).unwrap(), want, ROUNDING);
    }
    assert_eq!(metrics::phi([0, 1, 1], [0, 1, 1]).unwrap(), 1.0);
    assert_near(metrics::phi([0, 1, 0], [1, 0, 1]).unwrap(), -1.0, ROUNDING);
}

#[test]
fn undefined_rates_are_errors_that_name_what_is_missing() -> Result<()> {
    let none_called = Confusion::new([0, 0, 0], [0, 1, 1], 2)?;
    assert_config(vec![none_called.precision(), none_called.phi()]);
    assert_eq!(none_called.f_beta(1.0)?, 0.0);
    let no_positive = Confusion::new([0, 1, 0], [0, 0, 0], 2)?;
    assert_config(vec![
        no_positive.tpr(),
        no_positive.fnr(),
        no_positive.balanced_accuracy(),
        no_positive.phi(),
    ]);
    let no_negative = Confusion::new([1, 1], [1, 1], 2)?;
    assert_config(vec![no_negative.fpr(), no_negative.tnr(), no_negative.npv(), no_negative.macro_f()]);
    let three = Confusion::new([0, 1, 2], [0, 1, 2], 3)?;
    assert_config(vec![three.tpr(), three.fnr(), three.fpr(), three.tnr(), three.precision(), three.npv()]);
    assert_config(vec![three.phi(), three.f_beta(1.0), three.class_recall(3), three.class_precision(9)]);
    assert_config(vec![three.class_f(3, 1.0), three.class_f(0, 0.0), three.class_f(0, f64::NAN)]);
    let message = none_called.precision().unwrap_err().to_string();
    assert!(message.contains("never predicted"), "{message}");
    Ok(())
}

#[test]
fn what_is_no_class_is_refused() {
    assert_config(vec![
        Confusion::new([0.0, 0.5], [0.0, 1.0], 2),
        Confusion::new([0.0, 2.0], [0.0, 1.0], 2),
        Confusion::new([0.0, 1.0], [0.0, -1.0], 2),
        Confusion::new([0.0, f64::NAN], [0.0, 1.0], 2),
        Confusion::new([0.0], [0.0], 1),
        Confusion::new([0.0], [0.0], 0),
    ]);
    assert_shape(vec![Confusion::new([0, 1], [0], 2), Confusion::new(Vec::<u8>::new(), Vec::<u8>::new(), 2)]);
    assert_config(vec![metrics::phi([1, 1], [0, 1]), metrics::phi([0, 1], [0, 0])]);
    assert_data(vec![metrics::phi([0, 2], [0, 1])]);
    assert_shape(vec![metrics::phi([0, 1, 1], [0, 1])]);
}

#[test]
fn counts_where_the_classes_are_equal_those_of_the_host() -> Result<()> {
    let device = device::device();
    let draws =
        |name| -> Vec<u32> { (0..501).map(|i| SEED.named(name).below(i, 4).unwrap() as u32).collect() };
    let (said, y) = (draws("said"), draws("y"));
    let here = Confusion::new(&said[..], &y[..], 4)?;
    for [a, b] in [[DType::U32, DType::U32], [DType::F32, DType::U8], [DType::F64, DType::F32]] {
        let [said, y] =
            [(&said, a), (&y, b)].map(|(list, dtype)| Tensor::new(&list[..], device)?.to_dtype(dtype));
        assert_eq!(Confusion::new(said?, y?, 4)?, here);
    }
    let y = Tensor::new(&y[..], device)?;
    for wrong in [4.0f32, -1.0, 0.5, f32::NAN] {
        let said = Tensor::new(&[wrong; 501], device)?;
        let told = Confusion::new(&said, &y, 4).unwrap_err().to_string();
        assert!(told.contains("index 0") && told.contains("whole numbers from 0 to 3"), "{told}");
    }
    assert!(matches!(Confusion::new(y.narrow(0, 0, 500)?, &y, 4), Err(Error::Shape { .. })));
    Ok(())
}
