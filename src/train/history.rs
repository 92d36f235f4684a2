//! What a run reported, epoch by epoch.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::figure::{Curve, Figure, curves};
use crate::table::{Cell, Table};

/// Means of what the steps of each epoch reported, and what validation said at its end.
///
/// Holds no times, so that equal runs have equal bytes. Checked by `tests/train.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(20, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let mut logistic = Minimise::new(&net, |b| {
///     let loss = bce_logits(&net.forward(&b.x, b.pass())?, &b.y)?;
///     Ok(Step::new(loss).report("epoch", b.epoch as f64))
/// });
/// let run = Trainer::adam(0.01).epochs(2).batch(10).silent().fit(&mut logistic, &data)?;
/// assert_eq!(run.history.values("epoch")?, [0.0, 1.0]); // means over the steps of each epoch
/// assert_eq!(run.history.table()?.columns(), ["epoch", "steps", "loss", "epoch"]);
/// assert!(run.history.values("accuracy").is_err()); // was not reported
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    pub epochs: Vec<Epoch>,
}

/// One epoch of a run.
///
/// ```
/// use lastlayer::train::{Epoch, History};
/// let epoch = |steps, loss| Epoch { steps, values: vec![("loss".to_string(), loss)] };
/// let history = History { epochs: vec![epoch(10, 0.7), epoch(20, 0.4)] };
/// assert_eq!(history.values("loss")?, [0.7, 0.4]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Steps taken until its end.
    pub steps: usize,
    /// Names and values, in the order in which they were first reported.
    pub values: Vec<(String, f64)>,
}

impl History {
    /// Values of one name, one per epoch. Fails: `Config` if an epoch did not report it.
    pub fn values(&self, name: &str) -> Result<Vec<f64>> {
        let of = |epoch: &Epoch| epoch.values.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
        let values: Option<Vec<f64>> = self.epochs.iter().map(of).collect();
        values.filter(|v| !v.is_empty()).ok_or_else(|| {
            let known =
                self.epochs.first().map_or_else(|| "nothing yet".to_string(), |e| e.names().join(", "));
            Error::config("reported value", name, known)
        })
    }

    /// Chart of reported values over epochs. Fails: `Config` for a name that was not reported.
    pub fn figure(&self, names: &[&str]) -> Result<Figure> {
        let epochs: Vec<f64> = (1..=self.epochs.len()).map(|e| e as f64).collect();
        let list: Result<Vec<Curve>> =
            names.iter().map(|name| Ok(Curve::new(name, &epochs, &self.values(name)?))).collect();
        Ok(curves(&list?)?.labels("epoch", "value"))
    }

    /// All values, one epoch a row.
    pub fn table(&self) -> Result<Table> {
        let mut names: Vec<String> = Vec::new();
        for name in self.epochs.iter().flat_map(Epoch::names) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let mut table = Table::new(&[vec!["epoch".to_string(), "steps".to_string()], names.clone()].concat());
        for (i, epoch) in self.epochs.iter().enumerate() {
            let value = |name: &String| {
                epoch.values.iter().find(|(n, _)| n == name).map_or(Cell::Empty, |(_, v)| (*v).into())
            };
            let cells =
                [vec![Cell::from(i + 1), epoch.steps.into()], names.iter().map(value).collect()].concat();
            table = table.row(cells)?;
        }
        Ok(table)
    }

    /// Shows the table.
    pub fn evcxr_display(&self) {
        if let Ok(table) = self.table() {
            table.evcxr_display();
        }
    }
}

impl Epoch {
    fn names(&self) -> Vec<String> {
        self.values.iter().map(|(name, _)| name.clone()).collect()
    }
}

/// Running means within an epoch, in the order of first report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Means {
    sums: Vec<(String, f64, usize)>,
}

impl Means {
    pub fn add(&mut self, name: &str, value: f64) {
        match self.sums.iter_mut().find(|(n, _, _)| n == name) {
            Some((_, sum, count)) => (*sum, *count) = (*sum + value, *count + 1),
            None => self.sums.push((name.to_string(), value, 1)),
        }
    }

    pub fn take(&mut self) -> Vec<(String, f64)> {
        let sums = std::mem::take(&mut self.sums);
        sums.into_iter().map(|(name, sum, count)| (name, sum / count as f64)).collect()
    }
}
