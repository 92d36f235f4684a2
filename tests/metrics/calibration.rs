use super::*;

#[test]
fn scores_and_reliability_equal_scikit_learn() -> Result<()> {
    let o = oracle("calibration");
    let calibration = Calibration::new(list(&o["p"]), list(&o["y"]), Bins::EqualWidth(10))?;
    assert_near(calibration.brier(), number(&o["brier"]), ROUNDING);
    assert_near(calibration.log_loss()?, number(&o["log_loss"]), ROUNDING);
    let predicted: Vec<f64> = calibration.bins.iter().map(|b| b.predicted).collect();
    let observed: Vec<f64> = calibration.bins.iter().map(|b| b.observed).collect();
    assert_lists_close(&predicted, &list(&o["reliability"][0]), ROUNDING);
    assert_lists_close(&observed, &list(&o["reliability"][1]), ROUNDING);
    curves(&[calibration.curve("model")])?;
    Ok(())
}

#[test]
fn errors_are_gaps_weighted_by_size() -> Result<()> {
    let calibration = Calibration::new([0.1, 0.2, 0.9, 0.8], [0, 1, 1, 1], Bins::EqualWidth(2))?;
    // Bins: mean 0.15 against 1/2, and 0.85 against 1.
    assert_near(calibration.ece(), 0.5 * 0.35 + 0.5 * 0.15, ROUNDING);
    assert_near(calibration.mce(), 0.35, ROUNDING);
    assert_near(calibration.brier(), (0.01 + 0.64 + 0.01 + 0.04) / 4.0, ROUNDING);
    Ok(())
}

#[test]
fn equal_mass_keeps_ties_together_and_every_sample_once() -> Result<()> {
    for count in 1..12 {
        let (s, y) = tied(count, 50);
        let p: Vec<f64> = s.iter().map(|s| s / 8.0).collect();
        let calibration = Calibration::new(&p, &y, Bins::EqualMass(count as usize))?;
        let sizes: Vec<usize> = calibration.bins.iter().map(|b| b.n).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 50);
        assert!(calibration.bins.windows(2).all(|w| w[0].predicted < w[1].predicted));
        let positives: f64 = calibration.bins.iter().map(|b| b.observed * b.n as f64).sum();
        assert_near(positives, y.iter().map(|y| f64::from(*y)).sum(), ROUNDING);
    }
    let p: Vec<f64> = (0..40).map(|i| f64::from(i) / 40.0).collect();
    let y = vec![0; 40];
    let sizes =
        |count| Calibration::new(&p, &y, Bins::EqualMass(count)).unwrap().bins.iter().map(|b| b.n).collect();
    let four: Vec<usize> = sizes(4);
    assert_eq!(four, [10; 4]);
    let forty: Vec<usize> = sizes(60);
    assert_eq!(forty, [1; 40], "more bins than samples");
    Ok(())
}

#[test]
fn edges_belong_to_the_bin_on_their_left() -> Result<()> {
    let calibration = Calibration::new([0.0, 0.5, 0.51, 1.0], [0, 0, 1, 1], Bins::EqualWidth(2))?;
    assert_eq!(calibration.bins.iter().map(|b| b.n).collect::<Vec<_>>(), [2, 2]);
    Ok(())
}

#[test]
fn what_is_no_probability_is_refused() -> Result<()> {
    let new = |p: &[f64], y: &[f64], bins| Calibration::new(p, y, bins);
    let ten = Bins::EqualWidth(10);
    assert_config(vec![
        new(&[1.1], &[1.0], ten),
        new(&[-0.1], &[1.0], ten),
        new(&[f64::NAN], &[1.0], ten),
        new(&[0.5], &[1.0], Bins::EqualWidth(0)),
        new(&[0.5], &[1.0], Bins::EqualMass(0)),
        new(&[0.5], &[1.0], Bins::EqualWidth(usize::MAX)),
    ]);
    assert_data(vec![new(&[0.5], &[0.5], ten)]);
    assert_shape(vec![new(&[], &[], ten), new(&[0.5], &[1.0, 0.0], ten), new(&[0.5, 0.5], &[1.0], ten)]);
    let certain = new(&[0.0, 1.0], &[1.0, 1.0], ten)?;
    assert_config(vec![certain.log_loss()]);
    assert_eq!(new(&[0.0, 1.0], &[0.0, 1.0], ten)?.log_loss()?, 0.0);
    Ok(())
}
