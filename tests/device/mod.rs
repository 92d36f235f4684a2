//! The device of every test that makes tensors: the CPU, or what `LASTLAYER_TEST_DEVICE` names, `cpu` or `cuda`.

use std::sync::OnceLock;

use lastlayer::candle::Device;

/// One device for the whole program: candle takes two devices for different ones, also if they are the same card.
pub fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(|| match std::env::var("LASTLAYER_TEST_DEVICE").as_deref() {
        Err(_) | Ok("" | "cpu") => Device::Cpu,
        Ok("cuda") => Device::new_cuda(0).expect("LASTLAYER_TEST_DEVICE asks for a CUDA device"),
        Ok(other) => panic!("LASTLAYER_TEST_DEVICE is {other}; it may be cpu or cuda"),
    })
}
