//! What a training step copies between host and device, by method, as numbers: fixed bytes, and bytes for each sample of
//! the batch. A method that only reads scalars copies none for each sample.

use lastlayer::candle::Device;
use lastlayer::serde_json::json;

use crate::{counts, cuda, methods, tell};

/// Bytes that a step copies: to the host whatever the batch, and for each sample to the host and to the device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Copied {
    copies_down: f64,
    down: f64,
    down_per_sample: f64,
    up_per_sample: f64,
}

/// Counts of two lengths of run and two sizes of batch, from which set-up and ends of runs fall out.
fn copied(device: &Device, fit: &methods::Fit) -> Option<Copied> {
    // A multiple of the steps between two corrections of a threshold.
    const STEPS: usize = 8;
    const BATCH: usize = 1000;
    let of = |n: usize, steps: usize| {
        let data = methods::samples(n, device).unwrap();
        let before = counts()?;
        fit(&data, steps).unwrap();
        let after = counts()?;
        let [up, copies, down] = [5, 6, 7].map(|i| (after[i] - before[i]) as f64);
        Some([up, copies, down])
    };
    let step = |n: usize| {
        let (short, long) = (of(n, STEPS)?, of(n, 2 * STEPS)?);
        Some([0, 1, 2].map(|i| (long[i] - short[i]) / STEPS as f64))
    };
    let ([up, copies, down], [much_up, _, much_down]) = (step(BATCH)?, step(4 * BATCH)?);
    let slope = |more: f64, less: f64| ((more - less) / (3 * BATCH) as f64).round();
    let down_per_sample = slope(much_down, down);
    let fixed = down - down_per_sample * BATCH as f64;
    Some(Copied { copies_down: copies, down: fixed, down_per_sample, up_per_sample: slope(much_up, up) })
}

/// What each method may copy in a step: copies and bytes to the host at most, bytes for each sample to the host and to the
/// device exactly.
///
/// The trainer reads the loss and the length of the gradient, 8 bytes each, in one copy, and what else is reported with
/// them; it sends the number of each sample's row, 4 bytes, once for an epoch, which is one step here. Beyond that: the
/// masses of rates, whose thresholds may take one more step than they do here; sizes of classes and values of losses by
/// sorting; scores, labels and attributes from which thresholds are corrected or a precision is found; features and heads
/// of softmax fits; and of an intersection codes (1 byte each), probabilities (4 bytes each), whether all is finite, and
/// back the leaf of each sample (4 bytes). The last four numbers are those of revision 546e3cd, before anything ran on a
/// device: no method may copy more for a sample than it did then.
#[rustfmt::skip]
const TABLE: [(&str, [f64; 4], [f64; 4]); 44] = [
    // method                                               copies    bytes   each  up each      before: the same
    ("logistic",                                            [  1.0,    16.0,   0.0,   4.0], [  2.0,    16.0,   0.0,   4.0]),
    ("rate cross_entropy",                                  [  2.0,    88.0,   0.0,   4.0], [  4.0,    16.0,  24.0,   4.0]),
    ("rate tfco",                                           [  6.0,   208.0,   0.0,   4.0], [  6.0,    48.0,  32.0,  12.0]),
    ("rate tfco external",                                  [  6.0,   208.0,   0.0,   4.0], [  6.0,    32.0,  32.0,  12.0]),
    ("rate tfco Lagrangian",                                [  6.0,   208.0,   0.0,   4.0], [  6.0,    24.0,  32.0,  12.0]),
    ("rate ico",                                            [ 10.0,   328.0,   0.0,   4.0], [  8.0,    56.0,  32.0,  12.0]),
    ("rate method1",                                        [ 10.0,   328.0,   0.0,   4.0], [  8.0,    56.0,  32.0,  12.0]),
    ("rate method1 above",                                  [ 10.0,   328.0,   0.0,   4.0], [  8.0,    56.0,  32.0,  12.0]),
    ("rate method2",                                        [ 12.0,   424.0,   0.0,   4.0], [ 10.0,    80.0,  32.0,  20.0]),
    ("rate method2 adaptive",                               [ 12.0,   424.0,   0.0,   4.0], [ 10.0,    80.0,  32.0,  20.0]),
    ("rate ablation adaptive",                              [ 12.0,   424.0,   0.0,   4.0], [ 10.0,    80.0,  32.0,  20.0]),
    ("rate last_layer",                                     [ 10.0,   328.0,   0.0,   4.0], [  8.0,    56.0,  32.0,  12.0]),
    ("rate ico, TrackAndCorrect { every: 4, batches: 3 }",  [  9.0,   280.0,   4.0,   5.0], [ 11.0,    72.0,  50.0,  13.0]),
    ("rate ico, Ema { decay: 0.9 }",                        [ 11.0,   343.0,   0.0,   4.0], [  8.0,    56.0,  32.0,  12.0]),
    ("rate ico, Buffer { samples: 500 }",                   [ 13.0,   363.0,   0.0,   4.0], [ 10.0,  8064.0,  32.0,  12.0]),
    ("rate ico for partial_auc",                            [ 10.0,   664.0,   0.0,   4.0], [  8.0,    72.0,  32.0,  12.0]),
    ("rate ico for precision_at_recall",                    [ 10.0,   328.0,   0.0,   4.0], [  8.0,    56.0,  32.0,  12.0]),
    ("rate ico for recall_at_precision",                    [  9.0,   272.0,  32.0,   4.0], [  8.0,    56.0,  32.0,  12.0]),
    ("rate ico for equal_opportunity",                      [ 60.0,  2200.0,   0.0,   4.0], [  8.0,    64.0,  32.0,  12.0]),
    ("lp auc_loss Value",                                   [  2.0,    48.0,   0.0,   4.0], [  4.0,    16.0,  16.0,  12.0]),
    ("lp auc_mu_loss Value",                                [  2.0,    48.0,   0.0,   4.0], [  4.0,    16.0,  24.0,  20.0]),
    ("lp auc_one_vs_all_loss Value",                        [  2.0,    48.0,   0.0,   4.0], [  4.0,    16.0,  24.0,  20.0]),
    ("lp auc_loss Ramp",                                    [  2.0,    48.0,   0.0,   4.0], [  4.0,    16.0,  16.0,  12.0]),
    ("lp auc_mu_loss Ramp",                                 [  2.0,    48.0,   0.0,   4.0], [  4.0,    16.0,  24.0,  20.0]),
    ("lp auc_one_vs_all_loss Ramp",                         [  2.0,    48.0,   0.0,   4.0], [  4.0,    16.0,  24.0,  20.0]),
    ("lp f_loss Sigmoid",                                   [  2.0,    48.0,   0.0,   4.0], [  4.0,    16.0,  16.0,  12.0]),
    ("lp f_loss Ramp { margin: 1.0 }",                      [  2.0,    48.0,   0.0,   4.0], [  4.0,    16.0,  16.0,  12.0]),
    ("lp precision_at_recall",                              [  2.0,    64.0,   0.0,   4.0], [  4.0,    16.0,  16.0,  12.0]),
    ("lp recall_at_precision",                              [  2.0,    80.0,   0.0,   4.0], [  4.0,    16.0,  16.0,  12.0]),
    ("lp LpLayer of 20 rows",                               [  2.0,    96.0,   0.0,   4.0], [  3.0,   176.0,   0.0,   4.0]),
    ("lp Ppd",                                              [  1.0,    24.0,   0.0,   4.0], [  3.0,    24.0,   0.0,   4.0]),
    ("foca ridge Fixed",                                    [  1.0,    16.0,   0.0,   4.0], [  6.0,  2740.0,   0.0,   4.0]),
    ("foca ridge Through",                                  [  1.0,    16.0,   0.0,   4.0], [  8.0,  3028.0,   0.0,   4.0]),
    ("foca softmax Fixed",                                  [  3.0,  1296.0,   0.0,   4.0], [  6.0,  2740.0,   0.0,   4.0]),
    ("foca softmax Through",                                [  5.0,  1440.0,   0.0,   4.0], [  8.0,  3028.0,   0.0,   4.0]),
    ("adversary MultiTask",                                 [  1.0,    16.0,   0.0,   4.0], [  2.0,    16.0,   0.0,   4.0]),
    ("adversary Reverse",                                   [  1.0,    24.0,   0.0,   4.0], [ 33.0,   264.0,   0.0,   4.0]),
    ("adversary FlippedLabel",                              [  1.0,    24.0,   0.0,   4.0], [ 33.0,   264.0,   0.0,   4.0]),
    ("adversary WassersteinLinear",                         [  1.0,    16.0,   0.0,   4.0], [  5.0,    40.0,   0.0,   4.0]),
    ("adversary WassersteinClipped { clip: 0.1 }",          [  1.0,    16.0,   0.0,   4.0], [ 94.0,   752.0,   0.0,   4.0]),
    ("adversary Reverse, decorrelated",                     [  1.0,    24.0,   0.0,   4.0], [ 33.0,   264.0,   0.0,   4.0]),
    ("adversary PairStack",                                 [  1.0,    16.0,   0.0,   4.0], [  2.0,    16.0,   0.0,   4.0]),
    ("intersection",                                        [  4.0,    25.0,  16.0,   8.0], [  7.0,    60.0,  80.0,  20.0]),
    ("tree SoftTree",                                       [  1.0,    16.0,   0.0,   4.0], [  3.0,    20.0,   0.0,   4.0]),
];

#[test]
fn steps_copy_no_more_than_they_say() {
    let device = cuda();
    let mut wrong = Vec::new();
    for (name, fit) in methods::methods() {
        let Some(found) = copied(&device, &fit) else { return };
        let Copied { copies_down, down, down_per_sample, up_per_sample } = found;
        let row = TABLE.iter().find(|row| row.0 == name);
        let [copies_before, _, down_before, up_before] = row.map_or([f64::NAN; 4], |row| row.2);
        tell(json!({
            "method": name,
            "copies_down": copies_down,
            "down": down,
            "down_per_sample": down_per_sample,
            "up_per_sample": up_per_sample,
            "copies_down_before": copies_before,
            "down_per_sample_before": down_before,
        }));
        let within = row.is_some_and(|(_, [copies, bytes, per_sample, up], _)| {
            copies_down <= *copies && down <= *bytes && (down_per_sample, up_per_sample) == (*per_sample, *up)
        });
        let within = within && down_per_sample <= down_before && up_per_sample <= up_before;
        if !within {
            wrong.push(format!("{name}: {found:?}, allowed {row:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
