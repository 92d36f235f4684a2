//! Networks in files: plan and numbers together, and weights of torchvision's networks.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor, Var};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::net::{Net, Plan, given};
use super::split::{Split, SplitNet, all, distinct};
use crate::error::{Error, Result};
use crate::tensor_file::TensorFile;

/// What a file says of a network.
#[derive(Serialize, Deserialize)]
struct Notes {
    phi: Plan,
    head: Plan,
}

impl SplitNet {
    /// Writes plan, parameters and running statistics to one safetensors file.
    ///
    /// Fails: `Io` if it cannot be written; an older file of that name is then still whole.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        to_file(self)?.write(path)
    }

    /// Reads a network that [`save`](SplitNet::save) wrote; nothing else need be known of it.
    ///
    /// Fails: `Io` if the file is missing, `Data` if it is damaged or holds something else.
    pub fn load(path: impl AsRef<Path>, device: &Device) -> Result<SplitNet> {
        let path = path.as_ref();
        network(path, &TensorFile::read(path, device)?)
    }

    /// Takes the weights of a torchvision network of the same plan, from a safetensors file with torchvision's names.
    ///
    /// The head is taken too if it has as many outputs; otherwise it stays as it was drawn. Returns whether it was taken.
    /// In Python: `safetensors.torch.save_file(torchvision.models.resnet18(weights="DEFAULT").state_dict(), path)`.
    /// They expect inputs with torchvision's means and standard deviations taken out, channel by channel.
    /// Fails: `Io` or `Data` if the file is missing, damaged or of another network; nothing is then changed.
    pub fn load_torchvision(&self, path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        let Some(var) = self.first() else { return Ok(false) };
        let file = TensorFile::read(path, var.device())?;
        let head: BTreeMap<String, Tensor> = file.below("fc.");
        let own = self.head.parameters();
        let fits = !own.is_empty()
            && own.iter().all(|(name, var)| head.get(name).is_some_and(|tensor| tensor.dims() == var.dims()));
        // All is checked before anything is set.
        let mut found = self.phi.fitting(&file.tensors).map_err(|e| in_file(path, e))?;
        if fits {
            found.extend(self.head.fitting(&head).map_err(|e| in_file(path, e))?);
        }
        for (var, tensor) in found {
            var.set(&tensor)?;
        }
        Ok(fits)
    }
}

/// Parameters and statistics of a network, and its plan if it has one.
pub(super) fn to_file(net: &dyn Split) -> Result<TensorFile> {
    let plan = |net: &SplitNet| Notes { phi: net.phi.plan().clone(), head: net.head.plan().clone() };
    let notes = net.as_split_net().map_or(Ok(json!({})), |net| serde_json::to_value(plan(net)));
    let notes = notes.map_err(|e| Error::data("network", format!("has no JSON: {e}")))?;
    let tensors = distinct(all(net))?.into_iter().map(|(name, var)| (name, var.as_tensor().clone()));
    Ok(TensorFile { tensors: tensors.collect(), notes })
}

/// Sets parameters and statistics of a network to those in a file, all or none.
pub(super) fn fill(net: &dyn Split, path: &Path, file: &TensorFile) -> Result<()> {
    let of = |(name, var): (String, Var)| -> Result<(Var, Tensor)> {
        let tensor = given(&file.tensors, &name, var.dims())?.to_dtype(var.dtype())?;
        Ok((var, tensor))
    };
    let found =
        distinct(all(net))?.into_iter().map(of).collect::<Result<Vec<_>>>().map_err(|e| in_file(path, e))?;
    Ok(found.into_iter().try_for_each(|(var, tensor)| var.set(&tensor))?)
}

/// The network in a file.
pub(super) fn network(path: &Path, file: &TensorFile) -> Result<SplitNet> {
    let notes: Notes = serde_json::from_value(file.notes.clone()).map_err(|e| {
        Error::data(path, format!("does not say which network it is ({e}); SplitNet::save writes such files"))
    })?;
    let side =
        |plan: Plan, prefix: &str| Net::from_tensors(plan, file.below(prefix)).map_err(|e| in_file(path, e));
    Ok(SplitNet { phi: side(notes.phi, "phi.")?, head: side(notes.head, "head.")? })
}

/// An error, with the file it is about.
fn in_file(path: &Path, error: Error) -> Error {
    match error {
        Error::Data { why, .. } => Error::data(path, why),
        Error::Shape { .. } | Error::Config { .. } => {
            Error::data(path, format!("is of another network: {error}"))
        }
        other => other,
    }
}
