//! The epoch so far: codes, probabilities and the tree, in variables that a checkpoint keeps.

use candle_core::{DType, Device, Tensor, Var};

use crate::error::{Error, Result};
use crate::numbers::Numbers;
use crate::tree::{Codes, Examples, Node, Split, Tree};

/// What Algorithm 1 remembers within an epoch: S′ and T.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// (samples, d) and (samples, k): the first rows belong to this epoch.
    codes: Var,
    probabilities: Var,
    /// Epoch and step from 1, and how many rows and batches of the epoch have been seen.
    place: Var,
    /// (nodes, 6 + k) The tree, row by row; a negative weight ends it.
    tree: Var,
    levels: usize,
    /// The same, ready for use. What is in the variables counts: a step that failed, or a run that was resumed, has
    /// changed them.
    ready: Option<Ready>,
}

#[derive(Clone, Debug)]
struct Ready {
    place: [usize; 4],
    examples: Examples,
    tree: Option<Tree>,
}

/// Numbers of a node besides its probabilities.
const OWN: usize = 6;

impl Memory {
    pub fn new([samples, d, k]: [usize; 3], levels: usize, depth: usize, device: &Device) -> Result<Memory> {
        // No tree has more leaves than rows.
        let nodes = (2usize << depth.min(24)).min(2 * samples + 1);
        Ok(Memory {
            codes: Var::zeros((samples, d), DType::U8, device)?,
            probabilities: Var::zeros((samples, k), DType::F32, device)?,
            place: Var::zeros(4, DType::F64, device)?,
            tree: Var::from_tensor(&(Tensor::ones((nodes, OWN + k), DType::F64, device)? * -1.0)?)?,
            levels,
            ready: None,
        })
    }

    /// Where in the epoch it stands, and the tree: small.
    pub fn statistics(&self) -> [(String, Var); 2] {
        [("place in the epoch", &self.place), ("tree", &self.tree)]
            .map(|(name, var)| (name.to_string(), var.clone()))
    }

    /// S′, which grows within an epoch. Rows beyond the place do not count.
    pub fn appended(&self) -> [(String, Var); 2] {
        [("codes of the epoch", &self.codes), ("probabilities of the epoch", &self.probabilities)]
            .map(|(name, var)| (name.to_string(), var.clone()))
    }

    /// Adds the batch of a step to S′, which begins anew with each epoch and each run, and refits the tree if it is time
    /// to: after every `every` batches, after the last of an epoch, and if there is none yet.
    ///
    /// Host: all of the batch. Fails: `Shape` if an epoch has more rows than the set it was made for.
    pub fn push(
        &mut self,
        (epoch, step): (usize, usize),
        codes: (&Codes, &Tensor),
        p: &Tensor,
        every: usize,
        fit: impl Fn(&Examples) -> Result<Tree>,
    ) -> Result<Tree> {
        let mut ready = self.ready()?;
        // Steps only go back where another run begins.
        if ready.place[0] != epoch + 1 || step < ready.place[1] {
            ready.place = [epoch + 1, step, 0, 0];
            ready.examples.clear();
        }
        let [_, _, rows, batches] = ready.place;
        let (samples, after) = (self.codes.dim(0)?, rows + codes.0.n());
        if after > samples {
            let expected =
                format!("at most {samples}; make the intersection for the set that it is trained on");
            return Err(Error::shape("rows of an epoch", expected, after));
        }
        self.codes.slice_set(&codes.1.detach().to_dtype(DType::U8)?.contiguous()?, 0, rows)?;
        self.probabilities.slice_set(&p.detach().to_dtype(DType::F32)?.contiguous()?, 0, rows)?;
        ready.examples.push(codes.0, &p.to_dtype(DType::F32)?)?;
        ready.place = [epoch + 1, step + 1, after, batches + 1];
        let due = (batches + 1).is_multiple_of(every) || after == samples;
        let tree = match ready.tree.take() {
            Some(tree) if !due => tree,
            _ => {
                let tree = fit(&ready.examples)?;
                self.tree.set(&self.written(&tree)?)?;
                tree
            }
        };
        self.place.set(&Tensor::new(&ready.place.map(|n| n as f64), self.place.device())?)?;
        ready.tree = Some(tree.clone());
        self.ready = Some(ready);
        Ok(tree)
    }

    /// The tree of the last fit, if there was one. Host: the tree.
    pub fn tree(&mut self) -> Result<Option<Tree>> {
        let ready = self.ready()?;
        let tree = ready.tree.clone();
        self.ready = Some(ready);
        Ok(tree)
    }

    /// What is in the variables, ready for use: as it was left, or read anew. Host: all of it, if read anew.
    fn ready(&mut self) -> Result<Ready> {
        let place: Vec<usize> = self.place.numbers()?.iter().map(|n| *n as usize).collect();
        let place = [place[0], place[1], place[2], place[3]];
        if let Some(ready) = self.ready.take().filter(|ready| ready.place == place) {
            return Ok(ready);
        }
        let (d, k) = (self.codes.dim(1)?, self.probabilities.dim(1)?);
        let mut examples = Examples::new(d, self.levels, k)?;
        if place[2] > 0 {
            let codes = Codes::new(&self.codes.narrow(0, 0, place[2])?, self.levels)?;
            examples.push(&codes, &self.probabilities.narrow(0, 0, place[2])?)?;
        }
        Ok(Ready { place, examples, tree: self.read()? })
    }

    /// A tree as rows of numbers.
    fn written(&self, tree: &Tree) -> Result<Tensor> {
        let (rows, columns) = self.tree.dims2()?;
        let mut numbers = vec![-1.0; rows * columns];
        for (node, row) in tree.nodes().iter().zip(numbers.chunks_exact_mut(columns)) {
            row[0] = node.weight as f64;
            if let Some(split) = node.split {
                let own = [
                    split.feature as f64,
                    f64::from(split.threshold),
                    split.gain,
                    split.low as f64,
                    split.high as f64,
                ];
                row[1..OWN].copy_from_slice(&own);
            }
            row[OWN..].copy_from_slice(&node.value);
        }
        Ok(Tensor::from_vec(numbers, (rows, columns), self.tree.device())?)
    }

    /// The tree that rows of numbers stand for, if any. Host: all of them.
    fn read(&self) -> Result<Option<Tree>> {
        let columns = self.tree.dim(1)?;
        let numbers = self.tree.numbers()?;
        let node = |row: &[f64]| Node {
            weight: row[0] as u64,
            value: row[OWN..].to_vec(),
            split: (row[1] >= 0.0).then(|| Split {
                feature: row[1] as usize,
                threshold: row[2] as u8,
                gain: row[3],
                low: row[4] as usize,
                high: row[5] as usize,
            }),
        };
        let nodes: Vec<Node> =
            numbers.chunks_exact(columns).take_while(|row| row[0] >= 0.0).map(node).collect();
        match nodes.is_empty() {
            true => Ok(None),
            false => Ok(Some(Tree::new(nodes, self.codes.dim(1)?, self.levels)?)),
        }
    }
}
