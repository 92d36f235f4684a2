//! Hands the crate the versions it was locked to, for the records it writes.

use std::{env, fs, path::Path, process::Command};

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let lock = Path::new(&root).join("Cargo.lock");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", lock.display());
    let rustc = Command::new(env::var("RUSTC").unwrap_or_else(|_| "rustc".into())).arg("--version").output();
    let rustc = rustc.ok().and_then(|out| String::from_utf8(out.stdout).ok()).unwrap_or_default();
    let mut versions = vec![
        format!("lastlayer {}", env::var("CARGO_PKG_VERSION").unwrap_or_default()),
        format!("rustc {}", rustc.split(' ').nth(1).unwrap_or("unknown")),
    ];
    // A package taken from a registry has no lock file of its own; the record then names the crate only.
    let text = fs::read_to_string(lock).unwrap_or_default();
    for name in ["candle-core", "candle-nn", "ndarray", "plotters", "evcxr_runtime"] {
        let entry = format!("name = \"{name}\"\nversion = \"");
        if let Some(version) = text.split_once(&entry).and_then(|(_, rest)| rest.split('"').next()) {
            versions.push(format!("{name} {version}"));
        }
    }
    println!("cargo::rustc-env=LASTLAYER_VERSIONS={}", versions.join(";"));
}
