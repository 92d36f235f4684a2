//! All pairs at once: small networks on cached features, stacked, so that a step of all of them is a few batched products.

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor, Var};

use super::contest::heads;
use super::transfer::Transfer;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::model::{Net, zoo};
use crate::numbers::AsF64;
use crate::ops::TwoLayer;
use crate::record::Record;
use crate::seed::Seed;
use crate::train::{Batch, Group, Method, Step, Trainer};

/// What a model of a stack learns: one attribute alone, or two together.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(40, Seed::new(1), &Device::Cpu)?;
/// let signs = data.x.narrow(1, 0, 2)?.gt(0.0)?.to_dtype(DType::F32)?;
/// let data = data.with_attributes(signs, ["first", "second"])?;
/// let tasks = [Task::Single(0), Task::Pair(0, 1)];
/// let stack = PairStack::new(&data, [4, 4], &tasks, Seed::new(1), &Device::Cpu)?;
/// let [alone, together] = stack.accuracies(&data)?[..] else { panic!("one pair of numbers a task") };
/// assert_eq!(alone[0], alone[1]); // a single task repeats its only number
/// assert_eq!(alone[0], together[0]); // the two begin with the same head for attribute 0
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Task {
    Single(usize),
    Pair(usize, usize),
}

impl Task {
    /// The two attributes, and the weight of each in the loss.
    fn attributes(self) -> [(usize, f64); 2] {
        match self {
            Task::Single(a) => [(a, 1.0), (a, 0.0)],
            Task::Pair(a, b) => [(a, 1.0), (b, 1.0)],
        }
    }

    /// Name of its record.
    fn name(self, seed: Seed) -> String {
        match self {
            Task::Single(a) => format!("single_{a}_seed-{}", seed.value()),
            Task::Pair(a, b) => format!("pair_{a}_{b}_seed-{}", seed.value()),
        }
    }
}

/// Networks with two hidden layers and two heads, one for each task, trained side by side.
///
/// ```text
/// z[p] = relu(relu(x W₁[p]ᵀ + b₁[p]) W₂[p]ᵀ + b₂[p])        s[p] = z[p] W₃[p]ᵀ + b₃[p]        p = 1 … tasks
/// ```
/// All begin with the same hidden layers, and every attribute with the same head wherever it occurs, as
/// [`Adversary`](super::Adversary) draws them: the seeds of pairs and singles are paired. No model sees another: each moves
/// as it would alone. Checked by `tests/adversary/pairs.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(64, Seed::new(1), &Device::Cpu)?;
/// let signs = data.x.narrow(1, 0, 2)?.gt(0.0)?.to_dtype(DType::F32)?;
/// let data = data.with_attributes(signs, ["first", "second"])?;
/// let tasks = [Task::Single(0), Task::Single(1), Task::Pair(0, 1)];
/// let mut stack = PairStack::new(&data, [8, 8], &tasks, Seed::new(1), &Device::Cpu)?;
/// assert_eq!(stack.scores(&data.x)?.dims(), [3, 64, 2]);
/// Trainer::adam(0.01).epochs(30).batch(32).silent().fit(&mut stack, &data)?;
/// assert!(stack.accuracies(&data)?.iter().flatten().all(|accuracy| *accuracy > 0.8));
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PairStack {
    tasks: Vec<Task>,
    sizes: TwoLayer,
    /// (tasks, parameters of one network)
    theta: Var,
    /// Columns of the attributes, two for each task, and the weight of each.
    columns: Tensor,
    weights: Vec<f64>,
}

impl PairStack {
    /// Networks for these tasks on cached features of a set.
    ///
    /// Fails: `Config` without a task or for an attribute that is not there, `Shape` unless `x` holds vectors.
    pub fn new(
        data: &Dataset,
        hidden: [usize; 2],
        tasks: &[Task],
        seed: Seed,
        device: &Device,
    ) -> Result<PairStack> {
        let &[_, d] = data.x.dims() else {
            let expected = "[n, d], cached features";
            return Err(Error::shape("x of a pair search", expected, format!("{:?}", data.x.dims())));
        };
        let names = &data.names.attributes;
        let attributes: Vec<[(usize, f64); 2]> = tasks.iter().map(|task| task.attributes()).collect();
        let known = |task: &Task| task.attributes().iter().all(|(a, _)| *a < names.len());
        if tasks.is_empty() || !tasks.iter().all(known) {
            let allowed = format!("at least one, of attributes 0 to {}", names.len().saturating_sub(1));
            return Err(Error::config("tasks of a pair search", format!("{tasks:?}"), allowed));
        }
        let sizes = TwoLayer { inputs: d, hidden };
        let trunk = Net::new(zoo::mlp(&[d, hidden[0], hidden[1]])?, seed.named("phi"), DType::F32, device)?;
        let shared =
            ["0.weight", "0.bias", "2.weight", "2.bias"].map(|part| trunk.parameters()[part].flatten_all());
        let shared = shared.into_iter().collect::<candle_core::Result<Vec<Tensor>>>()?;
        let network = |[(a, _), (b, _)]: &[(usize, f64); 2]| -> Result<Tensor> {
            let head =
                heads(hidden[1], &[&names[*a], &names[*b]], Default::default(), seed, (DType::F32, device))?;
            let top = ["weight", "bias"].map(|part| head.parameters()[part].flatten_all());
            let top = top.into_iter().collect::<candle_core::Result<Vec<Tensor>>>()?;
            Ok(Tensor::cat(&[&shared[..], &top[..]].concat(), 0)?.detach())
        };
        let theta = attributes.iter().map(network).collect::<Result<Vec<Tensor>>>()?;
        let columns: Vec<u32> = attributes.iter().flatten().map(|(a, _)| *a as u32).collect();
        Ok(PairStack {
            tasks: tasks.to_vec(),
            sizes,
            theta: Var::from_tensor(&Tensor::stack(&theta, 0)?)?,
            columns: Tensor::new(columns, device)?,
            weights: attributes.iter().flatten().map(|(_, weight)| *weight).collect(),
        })
    }

    /// (tasks, n, 2) Scores of both heads of every network on features (n, d). Fails: `Shape` for another width.
    pub fn scores(&self, x: &Tensor) -> Result<Tensor> {
        self.sizes.scores(&self.theta, x)
    }

    /// (n, 2 · tasks) Labels of both attributes of every task.
    fn labels(&self, attributes: &Tensor) -> Result<Tensor> {
        Ok(attributes.index_select(&self.columns, 1)?.ge(0.5)?.to_dtype(DType::F32)?)
    }

    /// Share of right decisions for both attributes of every task; the second of a single one repeats its first.
    ///
    /// Host: these numbers. Fails: `Data` without attributes.
    pub fn accuracies(&self, data: &Dataset) -> Result<Vec<[f64; 2]>> {
        let decided = self.scores(&data.inputs()?)?.gt(0.0)?.to_dtype(DType::F32)?;
        let y = self.labels(data.attributes()?)?.reshape((data.n(), self.tasks.len(), 2))?.transpose(0, 1)?;
        let right = decided.eq(&y.contiguous()?)?.to_dtype(DType::F64)?.sum(1)?;
        let right: Vec<f64> = right.numbers()?.iter().map(|count| count / data.n() as f64).collect();
        let pair = |(i, task): (usize, &Task)| match task {
            Task::Single(_) => [right[2 * i]; 2],
            Task::Pair(..) => [right[2 * i], right[2 * i + 1]],
        };
        Ok(self.tasks.iter().enumerate().map(pair).collect())
    }

    /// Shows how many networks there are.
    pub fn evcxr_display(&self) {
        let text = format!("{} networks, trained side by side", self.tasks.len());
        evcxr_runtime::mime_type("text/plain").text(text);
    }
}

impl Method for PairStack {
    fn groups(&self) -> Vec<Group> {
        vec![Group::new("all", vec![("theta".to_string(), self.theta.clone())])]
    }

    /// Sum over all networks of their mean losses; none of them feels the others. Fails: `Data` without attributes.
    fn step(&self, batch: &Batch) -> Result<Step> {
        let y = self.labels(batch.attributes()?)?;
        Ok(Step::new(self.sizes.logistic_loss(&self.theta, &batch.x, &y, &self.weights)?.sum_all()?))
    }

    fn identity(&self) -> String {
        format!("{:?}", self.tasks)
    }
}

/// The search for negative transfer: every attribute alone and every pair, on cached features, one record for each.
///
/// What has a record is not run again, so a search that was interrupted goes on where it stopped, and several processes
/// may share the work: `shard (i, n)` takes every n-th task. Copy the folders together to merge. Checked by
/// `tests/adversary/pairs.rs`.
/// Book: `adversary/noise.md#eq-adv-noise-cost`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(64, Seed::new(1), &Device::Cpu)?;
/// let signs = data.x.narrow(1, 0, 2)?.gt(0.0)?.to_dtype(DType::F32)?;
/// let data = data.with_attributes(signs, ["first", "second"])?;
/// let search = PairSearch::new(Trainer::adam(0.01).batch(32).silent(), "records/pairs");
/// let search = PairSearch { hidden: [8, 8], ..search };
/// // `run` keeps records; `measure` only trains, the same every time.
/// let once = search.measure(&data, &data, &[Task::Pair(0, 1)], Seed::new(1))?;
/// assert_eq!(once, search.measure(&data, &data, &[Task::Pair(0, 1)], Seed::new(1))?);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PairSearch {
    pub trainer: Trainer,
    pub hidden: [usize; 2],
    /// Networks that are trained at once.
    pub at_once: usize,
    pub folder: PathBuf,
    pub shard: (usize, usize),
}

impl PairSearch {
    /// A search that keeps its records in a folder, with two hidden layers of 128.
    pub fn new(trainer: Trainer, folder: impl AsRef<Path>) -> PairSearch {
        PairSearch {
            trainer,
            hidden: [128, 128],
            at_once: 40,
            folder: folder.as_ref().to_path_buf(),
            shard: (0, 1),
        }
    }

    /// Accuracies of some tasks with one seed, without records: what a [`Race`](super::Race) asks for.
    pub fn measure(
        &self,
        train: &Dataset,
        test: &Dataset,
        tasks: &[Task],
        seed: Seed,
    ) -> Result<Vec<[f64; 2]>> {
        let mut stack = PairStack::new(train, self.hidden, tasks, seed, train.x.device())?;
        Trainer { seed, ..self.trainer.clone() }.fit(&mut stack, train)?;
        stack.accuracies(test)
    }

    /// Runs what is missing of this part of the search, and returns all that the folder holds.
    ///
    /// `pair_seeds` for every pair, `single_seeds` for every attribute alone; the first should be among the second. Fails:
    /// `Config` for a shard that is not one of n, and as [`measure`](PairSearch::measure).
    pub fn run(
        &self,
        train: &Dataset,
        test: &Dataset,
        pair_seeds: &[u64],
        single_seeds: &[u64],
    ) -> Result<Transfer> {
        let (i, n) = self.shard;
        if i >= n || self.at_once == 0 {
            let got = format!("shard {i}/{n}, {} at once", self.at_once);
            return Err(Error::config("parts of a pair search", got, "i below n, at least one at once"));
        }
        let m = train.names.attributes.len();
        let pairs = (0..m).flat_map(|a| (a + 1..m).map(move |b| Task::Pair(a, b)));
        let jobs =
            (0..m).map(Task::Single).flat_map(|task| single_seeds.iter().map(move |seed| (*seed, task)));
        let jobs = jobs.chain(pairs.flat_map(|task| pair_seeds.iter().map(move |seed| (*seed, task))));
        let mut waiting: Vec<(u64, Task)> =
            jobs.skip(i).step_by(n).filter(|(seed, task)| !self.file(*task, *seed).exists()).collect();
        // Networks of one seed see the same batches, so they can be trained together.
        waiting.sort();
        for of_seed in waiting.chunk_by(|a, b| a.0 == b.0) {
            for some in of_seed.chunks(self.at_once) {
                let tasks: Vec<Task> = some.iter().map(|(_, task)| *task).collect();
                let seed = Seed::new(some[0].0);
                for (task, [a, b]) in tasks.iter().zip(self.measure(train, test, &tasks, seed)?) {
                    let record =
                        Record::start(&task.name(seed), crate::kernel::device_name(train.x.device()));
                    record.seed(seed).result("a", a).result("b", b).save(&self.folder)?;
                }
            }
        }
        self.collect(&train.names.attributes, pair_seeds, single_seeds)
    }

    /// What the folder holds of these seeds. Fails: `Data` for a record that is damaged.
    pub fn collect(&self, names: &[String], pair_seeds: &[u64], single_seeds: &[u64]) -> Result<Transfer> {
        let mut transfer = Transfer::new(names)?;
        let read = |task: Task, seed: u64| -> Result<Option<[f64; 2]>> {
            let file = self.file(task, seed);
            if !file.exists() {
                return Ok(None);
            }
            let record = Record::load(&file)?;
            Ok(Some([record.number("a")?, record.number("b")?]))
        };
        for a in 0..names.len() {
            for seed in single_seeds {
                if let Some([accuracy, _]) = read(Task::Single(a), *seed)? {
                    transfer.single(a, *seed, accuracy)?;
                }
            }
            for (b, seed) in (a + 1..names.len()).flat_map(|b| pair_seeds.iter().map(move |seed| (b, *seed)))
            {
                if let Some([accuracy_a, accuracy_b]) = read(Task::Pair(a, b), seed)? {
                    transfer.pair(a, b, seed, accuracy_a, accuracy_b)?;
                }
            }
        }
        Ok(transfer)
    }

    fn file(&self, task: Task, seed: u64) -> PathBuf {
        self.folder.join(format!("{}.json", task.name(Seed::new(seed))))
    }

    /// Shows the settings.
    pub fn evcxr_display(&self) {
        evcxr_runtime::mime_type("text/plain").text(format!("{self:?}"));
    }
}
