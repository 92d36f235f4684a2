//! What the notebook kernel needs: proof that all cells share one copy of the library.
//!
//! evcxr compiles each cell to a shared object of its own. Were candle linked into each of them, its counter of tensor
//! ids would restart in every cell, ids would repeat, and `backward` would return wrong gradients without an error
//! (book: ground/autograd.md). So the kernel links `tools/facade`, this crate as one shared library, which is loaded
//! once; [`kernel_check`] verifies that it was.
//!
//! ```
//! use lastlayer::prelude::*;
//! let device = Device::cuda_if_available(0)?;
//! let set_up = kernel_check(&device, Seed::new(1))?; // the first cell of every notebook
//! assert_eq!(set_up.table().columns(), ["set-up", "value"]);
//! # Ok::<(), lastlayer::error::Error>(())
//! ```

use std::path::Path;

use candle_core::{Device, DeviceLocation};

use crate::error::{Error, Result};
use crate::record::{Provenance, versions};
use crate::seed::Seed;
use crate::table::{Cell, Table};

/// Versions of evcxr_jupyter that the kernel tests have passed with.
///
/// ```
/// assert!(lastlayer::kernel::SUPPORTED_KERNELS.contains(&"0.22.0"));
/// ```
pub const SUPPORTED_KERNELS: [&str; 1] = ["0.22.0"];

/// Set by evcxr in the process that runs the cells.
const IN_KERNEL: &str = "EVCXR_IS_RUNTIME";
/// Set by our launcher to the version of the kernel it starts.
const KERNEL_VERSION: &str = "LASTLAYER_KERNEL";

/// Whether this process runs the cells of a notebook.
pub(crate) fn in_kernel() -> bool {
    std::env::var_os(IN_KERNEL).is_some()
}

/// Whether a notebook should run its short setting: the tests set `LASTLAYER_QUICK`, and a cell chooses, as in
/// `let epochs = if quick() { 3 } else { 30 };`. Lines printed by `check` must be the same in both.
///
/// ```
/// use lastlayer::prelude::*;
/// let epochs = if quick() { 3 } else { 30 };
/// assert!([3, 30].contains(&epochs));
/// ```
pub fn quick() -> bool {
    std::env::var_os("LASTLAYER_QUICK").is_some_and(|value| !value.is_empty() && value != "0")
}

/// What a process shows of the libraries it has loaded; [`kernel_check`] judges it.
///
/// ```
/// use lastlayer::kernel::Evidence;
/// Evidence::gather().judge()?; // this program has one copy of everything
/// let cell = Evidence { in_kernel: true, own_image: "libcode_1.so".into(), ..Evidence::default() };
/// let error = cell.judge().unwrap_err().to_string();
/// assert!(error.contains("every cell has its own copy"), "{error}");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Whether the process runs the cells of a notebook.
    pub in_kernel: bool,
    /// Version of evcxr_jupyter as our launcher reports it.
    pub kernel_version: Option<String>,
    /// File that holds the code of this very function.
    pub own_image: String,
    /// Every shared object loaded.
    pub images: Vec<String>,
    /// Versions of candle-core that cells are compiled against.
    pub candle: Vec<String>,
}

impl Evidence {
    /// Looks at this process.
    ///
    /// On systems without `/proc` the list of images is empty; the image of the function itself is found everywhere.
    pub fn gather() -> Evidence {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let mut images: Vec<String> = maps
            .lines()
            .filter_map(|l| Some(l[l.find('/')?..].to_string()))
            .filter(|p| is_shared_object(p))
            .collect();
        images.sort();
        images.dedup();
        let folder = std::env::var_os("EVCXR_TMPDIR").unwrap_or_default();
        let lock = std::fs::read_to_string(Path::new(&folder).join("Cargo.lock")).unwrap_or_default();
        let version = |entry: &str| Some(entry.split_once("version = \"")?.1.split('"').next()?.to_string());
        Evidence {
            in_kernel: in_kernel(),
            kernel_version: std::env::var(KERNEL_VERSION).ok(),
            own_image: own_image(),
            images,
            candle: lock.split("name = \"candle-core\"").skip(1).filter_map(version).collect(),
        }
    }

    /// Fails with [`Error::Kernel`] if gradients cannot be trusted here. An ordinary program always passes: it has one
    /// copy of everything.
    pub fn judge(&self) -> Result<()> {
        if !self.in_kernel {
            return Ok(());
        }
        let wrong =
            |problem: String, remedy: &str| Err(Error::Kernel { problem, remedy: remedy.to_string() });
        if !is_ours(&self.own_image) {
            return wrong(
                format!(
                    "every cell has its own copy of lastlayer and candle (this one is in {}): gradients would be wrong",
                    file_name(&self.own_image)
                ),
                "Remove every `:dep lastlayer` and start the kernel by `make lab`, which links lastlayer's tools/facade.",
            );
        }
        let copies: Vec<&str> = self.images.iter().map(String::as_str).filter(|p| is_ours(p)).collect();
        if copies.len() > 1 {
            return wrong(
                format!(
                    "{} copies of lastlayer are loaded ({}): gradients would be wrong",
                    copies.len(),
                    copies.join(", ")
                ),
                "Remove every `:dep lastlayer` (the kernel has loaded it already), then restart the kernel.",
            );
        }
        // A crate that depends on candle in the library's own version is linked to the copy within the facade.
        let ours = versions().find(|(name, _)| *name == "candle-core").map_or("", |(_, version)| version);
        let other = self
            .candle
            .iter()
            .find(|version| !ours.is_empty() && *version != ours)
            .map(|version| format!("version {version}"));
        let image = self.images.iter().find(|path| file_name(path).starts_with("libcandle")).cloned();
        if let Some(from) = other.or(image) {
            return wrong(
                format!(
                    "this notebook took candle from elsewhere ({from}, lastlayer has {ours}): every cell would have its \
                     own copy of it, and gradients would be wrong"
                ),
                "Remove that `:dep` line or ask for a version that depends on lastlayer's candle, then restart the kernel; \
                 `make lab WITH=\"candle-transformers\"` builds such crates beforehand.",
            );
        }
        match self.kernel_version.as_deref() {
            Some(version) if SUPPORTED_KERNELS.contains(&version) => Ok(()),
            Some(version) => wrong(
                format!("evcxr_jupyter {version} is not supported; tested: {}", SUPPORTED_KERNELS.join(", ")),
                "Run `make lab`, which installs the tested kernel beside your own.",
            ),
            None => wrong(
                "this notebook was not started with lastlayer's kernel".to_string(),
                "Choose Kernel > Change Kernel > Rust (lastlayer) in JupyterLab as started by `make lab`.",
            ),
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether this is the facade through which all cells of a kernel see the library.
fn is_ours(path: &str) -> bool {
    file_name(path).starts_with("liblastlayer")
}

fn is_shared_object(path: &str) -> bool {
    let name = file_name(path);
    name.ends_with(".so") || name.contains(".so.")
}

/// Path of the file this code was loaded from; empty if the system cannot say, which is no proof of a single copy.
#[cfg(unix)]
fn own_image() -> String {
    static MARK: u8 = 0;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // Safety: `dladdr` only reads the address and fills `info`, which is valid for writes and zeroed, so that its
    // fields may be read whatever it returns; a non-null name is a C string that lives as long as the image.
    unsafe {
        if libc::dladdr((&raw const MARK).cast(), info.as_mut_ptr()) == 0 {
            return String::new();
        }
        let name = info.assume_init().dli_fname;
        if name.is_null() {
            String::new()
        } else {
            std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }
}

/// Our kernel runs on Unix; another would have to be refused.
#[cfg(not(unix))]
fn own_image() -> String {
    String::new()
}

/// The set-up of a notebook, checked; displays as one table.
///
/// ```
/// use lastlayer::prelude::*;
/// let set_up = kernel_check(&Device::Cpu, Seed::new(1))?;
/// assert_eq!((set_up.kernel.as_deref(), set_up.seed), (None, Seed::new(1))); // no notebook here
/// assert_eq!(set_up.table().rows()[0], [Cell::from("device"), Cell::from("cpu")]);
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Version of the notebook kernel, or none in an ordinary program.
    pub kernel: Option<String>,
    /// Device, threads, platform, versions.
    pub provenance: Provenance,
    /// Seed of the notebook.
    pub seed: Seed,
}

impl Setup {
    /// Device, threads, versions and seed.
    pub fn table(&self) -> Table {
        let text = |name, value: &str| (name, Cell::from(value));
        let kernel = self
            .kernel
            .as_ref()
            .map_or("none (ordinary program)".to_string(), |v| format!("evcxr_jupyter {v}"));
        let mut rows = vec![
            text("device", &self.provenance.device),
            text("threads", &self.provenance.threads.to_string()),
            text("kernel", &kernel),
        ];
        rows.extend(versions().map(|(name, version)| text(name, version)));
        rows.push(text("seed", &self.seed.value().to_string()));
        Table::pairs("set-up", "value", rows)
    }

    /// Shows the table.
    pub fn evcxr_display(&self) {
        self.table().evcxr_display();
    }
}

/// Name of a device as records and tables print it.
///
/// ```
/// use lastlayer::prelude::*;
/// let name = lastlayer::kernel::device_name(&Device::Cpu);
/// assert_eq!(Record::start("mine", name).provenance.device, "cpu");
/// ```
pub fn device_name(device: &Device) -> &'static str {
    match device.location() {
        DeviceLocation::Cpu => "cpu",
        DeviceLocation::Cuda { .. } => "cuda",
        DeviceLocation::Metal { .. } => "metal",
    }
}

/// Verifies that gradients can be trusted in this notebook, and returns its set-up as a table.
///
/// Call it once, at the top. Fails: `Kernel`, with what to do, if a second copy of the library is loaded, if the
/// notebook took candle from elsewhere, or if the kernel is not one we test. Cost: a few milliseconds.
/// Checked by `tests/kernel.rs` and, in the real kernel, by `tests/kernel/`.
/// Book: `ground/autograd.md#eq-autograd-unique`, `#eq-autograd-corrupted`.
///
/// ```
/// use lastlayer::prelude::*;
/// const SEED: Seed = Seed::new(2024);
/// let set_up = kernel_check(&Device::Cpu, SEED)?;
/// assert_eq!(set_up.provenance.device, "cpu");
/// # Ok::<(), lastlayer::error::Error>(())
/// ```
pub fn kernel_check(device: &Device, seed: Seed) -> Result<Setup> {
    let evidence = Evidence::gather();
    evidence.judge()?;
    Ok(Setup {
        kernel: evidence.kernel_version.filter(|_| evidence.in_kernel),
        provenance: Provenance::here(device_name(device)),
        seed,
    })
}
