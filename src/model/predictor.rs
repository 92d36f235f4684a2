//! What is handed over when training is done: a network with its decision, in one file.

use std::path::Path;

use candle_core::{D, DType, Device, Tensor};
use serde_json::{Value, json};

use super::file::{fill, network, to_file};
use super::split::{Network, Split};
use crate::data::Dataset;
use crate::error::{Error, Result, ensure_shape};
use crate::numbers::all_finite;
use crate::tensor_file::TensorFile;

/// How scores become decisions.
///
/// ```
/// use lastlayer::prelude::*;
/// let net = SplitNet::new(zoo::mlp(&[2, 4])?, 3, Seed::new(1), &Device::Cpu)?;
/// let x = Tensor::zeros((5, 2), DType::F32, &Device::Cpu)?;
/// let answers = |decision| Predictor::new(&net, decision, ["a", "b", "c"])?.predict(&x);
/// assert_eq!(answers(Decision::Largest)?.dims(), [5]); // one class a sample
/// assert_eq!(answers(Decision::Each(vec![0.0; 3]))?.dims(), [5, 3]); // a yes or no for each score
/// assert!(answers(Decision::Threshold(0.0)).is_err()); // wants a single score
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Class 1 where the single score exceeds the threshold, class 0 elsewhere.
    Threshold(f64),
    /// The class of the largest score.
    Largest,
    /// One yes or no per score, each with its own threshold.
    Each(Vec<f64>),
}

/// A network with its decision and the names of its classes.
///
/// Checked by `tests/model.rs`.
///
/// ```
/// use lastlayer::prelude::*;
/// let data = Gaussians::a().sample(50, Seed::new(1), &Device::Cpu)?;
/// let net = SplitNet::new(zoo::mlp(&[6, 4])?, 1, Seed::new(1), &Device::Cpu)?;
/// let nobody = Predictor::new(&net, Decision::Threshold(f64::INFINITY), &data.names.classes)?;
/// assert_eq!(nobody.predict_set(&data)?.to_vec1::<u32>()?, vec![0; 50]);
/// // The threshold of a score, from a count: at most a tenth of the negatives pass.
/// let t = Scores::new(&net.scores_of(&data)?, &data.y)?.threshold_at_fpr(0.1)?;
/// let predictor = Predictor { decision: Decision::Threshold(t), ..nobody };
/// assert!(Confusion::new(&predictor.predict(&data.x)?, &data.y, 2)?.fpr()? <= 0.1);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictor {
    pub net: Network,
    pub decision: Decision,
    /// Names of the classes, or of the scores if each is decided by itself.
    pub classes: Vec<String>,
}

impl Predictor {
    /// A network with a decision that fits its scores; it shares the network's parameters.
    ///
    /// Fails: `Shape` if the decision is for another number of scores, or there are not as many names as answers;
    /// `Config` for a threshold that is NaN.
    pub fn new<I>(net: impl Into<Network>, decision: Decision, classes: I) -> Result<Predictor>
    where
        I: IntoIterator<Item: ToString>,
    {
        let classes: Vec<String> = classes.into_iter().map(|name| name.to_string()).collect();
        let net = net.into();
        // A network of one's own tells its scores with its first answers.
        let scores = net.as_split_net().map(|net| net.head.output().iter().product::<usize>());
        let (expected, answers, thresholds) = match &decision {
            Decision::Threshold(t) => (1, 2, vec![*t]),
            Decision::Largest => {
                let k = scores.unwrap_or(classes.len()).max(2);
                (k, k, Vec::new())
            }
            Decision::Each(thresholds) => (thresholds.len(), thresholds.len(), thresholds.clone()),
        };
        ensure_shape("scores of a decision", expected, scores.unwrap_or(expected))?;
        ensure_shape("names of a predictor's answers", answers, classes.len())?;
        if thresholds.iter().any(|t| t.is_nan()) {
            return Err(Error::config("threshold", f64::NAN, "a number; infinite is allowed"));
        }
        Ok(Predictor { net, decision, classes })
    }

    /// Answers for a batch, on its device: classes (n) u32, or yes and no (n, k) u8 if each score is decided by itself.
    ///
    /// Images may be u8; samples pass a few at a time. Fails: `Shape` if samples are not what the network takes, `Data` if
    /// a score is not finite.
    pub fn predict(&self, x: &Tensor) -> Result<Tensor> {
        self.decide(&self.net.scores_of_inputs(x)?)
    }

    /// Answers for a whole set. Fails: as [`predict`](Predictor::predict).
    pub fn predict_set(&self, data: &Dataset) -> Result<Tensor> {
        self.predict(&data.x)
    }

    fn decide(&self, s: &Tensor) -> Result<Tensor> {
        if !all_finite(s)? {
            return Err(Error::data("scores", "one is not finite; look for such numbers in the input"));
        }
        let expected = match &self.decision {
            Decision::Threshold(_) => 1,
            Decision::Largest | Decision::Each(_) => self.classes.len(),
        };
        ensure_shape("scores of a decision", expected, s.dims().get(1).copied().unwrap_or(1))?;
        Ok(match &self.decision {
            Decision::Threshold(t) => s.gt(*t)?.to_dtype(DType::U32)?,
            Decision::Largest => s.argmax(D::Minus1)?,
            Decision::Each(thresholds) => {
                let s = if s.rank() == 1 { s.unsqueeze(1)? } else { s.clone() };
                let t = Tensor::new(thresholds.as_slice(), s.device())?.to_dtype(s.dtype())?;
                s.broadcast_gt(&t)?
            }
        })
    }

    /// Writes network, decision and names to one file.
    ///
    /// Fails: `Io` if it cannot be written; an older file of that name is then still whole.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut file = to_file(&self.net)?;
        let (kind, thresholds) = match &self.decision {
            Decision::Threshold(t) => ("threshold", vec![*t]),
            Decision::Largest => ("largest", Vec::new()),
            Decision::Each(thresholds) => ("each", thresholds.clone()),
        };
        // As text with every digit, because JSON has no infinity.
        let thresholds: Vec<String> = thresholds.iter().map(f64::to_string).collect();
        file.notes["decision"] = json!({ "kind": kind, "thresholds": thresholds });
        file.notes["classes"] = json!(self.classes);
        file.write(path)
    }

    /// Reads what [`save`](Predictor::save) wrote of a network by a plan.
    ///
    /// Fails: `Io` if the file is missing, `Data` if it is damaged or no predictor.
    pub fn load(path: impl AsRef<Path>, device: &Device) -> Result<Predictor> {
        let path = path.as_ref();
        let file = TensorFile::read(path, device)?;
        let (decision, classes) = answers(path, &file)?;
        Predictor::new(&network(path, &file)?, decision, classes)
    }

    /// Reads what [`save`](Predictor::save) wrote into a network of your own, which must be made as that one was.
    ///
    /// Fails: `Io` if the file is missing, `Data` if it is damaged, no predictor or of another network; nothing is then
    /// changed.
    ///
    /// ```
    /// use lastlayer::prelude::*;
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("mine.safetensors");
    /// let make = |seed| SplitNet::new(zoo::mlp(&[2, 4])?, 2, Seed::new(seed), &Device::Cpu);
    /// let (trained, other) = (make(1)?, make(2)?);
    /// Predictor::new(&trained, Decision::Largest, ["no", "yes"])?.save(&path)?;
    /// let back = Predictor::load_into(&other, &path)?;
    /// assert_eq!(back.classes, ["no", "yes"]);
    /// assert_eq!(other.last()[0].1.to_vec2::<f32>()?, trained.last()[0].1.to_vec2::<f32>()?);
    /// # Ok::<(), lastlayer::error::Error>(())
    /// ```
    pub fn load_into(net: impl Into<Network>, path: impl AsRef<Path>) -> Result<Predictor> {
        let (net, path) = (net.into(), path.as_ref());
        let var = net.first().ok_or_else(|| Error::config("network", "without parameters", "one to fill"))?;
        let file = TensorFile::read(path, var.device())?;
        let (decision, classes) = answers(path, &file)?;
        let predictor = Predictor::new(&net, decision, classes)?;
        fill(&net, path, &file)?;
        Ok(predictor)
    }

    /// Shows the network's shape and its decision.
    pub fn evcxr_display(&self) {
        let net = match self.net.as_split_net() {
            Some(net) => format!(
                "{:?} → {:?} features → {:?}",
                net.phi.plan().input,
                net.phi.output(),
                net.head.output()
            ),
            None => format!("{:?}", self.net),
        };
        evcxr_runtime::mime_type("text/plain").text(format!("{net}, {:?}", self.decision));
    }
}

/// Decision and names in the notes of a file.
fn answers(path: &Path, file: &TensorFile) -> Result<(Decision, Vec<String>)> {
    let no_predictor = || Error::data(path, "is no predictor; Predictor::save writes one");
    let words = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|word| Some(word.as_str()?.to_string())).collect()
    };
    let decision = &file.notes["decision"];
    let thresholds = words(&decision["thresholds"]).ok_or_else(no_predictor)?;
    let thresholds: Vec<f64> =
        thresholds.iter().map(|t| t.parse()).collect::<Result<_, _>>().map_err(|_| no_predictor())?;
    let decision = match (decision["kind"].as_str(), &thresholds[..]) {
        (Some("threshold"), [t]) => Decision::Threshold(*t),
        (Some("largest"), []) => Decision::Largest,
        (Some("each"), _) => Decision::Each(thresholds),
        _ => return Err(no_predictor()),
    };
    Ok((decision, words(&file.notes["classes"]).ok_or_else(no_predictor)?))
}
