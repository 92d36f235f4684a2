//! Seconds per step of each method, on the CPU and on the device: for `make cuda-report`, judged by nobody.

use std::time::Instant;

use lastlayer::candle::Device;
use lastlayer::serde_json::json;

use crate::{cuda, methods, tell};

/// Median seconds of a step: runs of two lengths, so that set-up falls out.
fn seconds(device: &Device, fit: &methods::Fit) -> f64 {
    const STEPS: usize = 10;
    let data = methods::samples(1000, device).unwrap();
    let of = |steps: usize| {
        let began = Instant::now();
        fit(&data, steps).unwrap();
        began.elapsed().as_secs_f64()
    };
    of(2);
    let mut each: Vec<f64> = (0..5).map(|_| (of(2 * STEPS) - of(STEPS)) / STEPS as f64).collect();
    each.sort_by(f64::total_cmp);
    each[2]
}

#[test]
#[ignore = "times steps, which is no test: make cuda-report"]
fn times_of_steps() {
    let device = cuda();
    for (name, fit) in methods::methods() {
        let [cpu, cuda] = [&Device::Cpu, &device].map(|device| 1e3 * seconds(device, &fit));
        tell(json!({"method": name, "cpu_ms": cpu, "device_ms": cuda}));
    }
}
