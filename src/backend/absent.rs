//! Backends that cannot be used: they are listed, and say why.

use std::fmt;

use super::{Backend, DeviceInfo, Memory, Place, PointerInfo, Streams, Transfer, Wanted};
use crate::dlpack::raw::DLDevice;
#[cfg(not(all(feature = "cuda", feature = "opencl")))]
use crate::dlpack::raw::device_type;
use crate::error::{Error, Result};

/// A backend that this build lacks.
pub struct Absent {
    name: &'static str,
    device_types: &'static [i32],
    why: &'static str,
}

/// CUDA devices, pinned and managed memory.
#[cfg(not(feature = "cuda"))]
pub const CUDA: Absent = Absent {
    name: "cuda",
    device_types: &[device_type::CUDA, device_type::CUDA_HOST, device_type::CUDA_MANAGED],
    why: "built without the feature \"cuda\"",
};

/// OpenCL devices.
#[cfg(not(feature = "opencl"))]
pub const OPENCL: Absent = Absent {
    name: "opencl",
    device_types: &[device_type::OPENCL],
    why: "built without the feature \"opencl\"",
};

impl Backend for Absent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn serves(&self, device_type: i32) -> bool {
        self.device_types.contains(&device_type)
    }

    fn available(&self) -> Result<(), &'static str> {
        Err(self.why)
    }

    fn describe(&self, text: &mut dyn fmt::Write) -> fmt::Result {
        text.write_str(self.why)
    }

    fn list_devices(&self, _show: &mut dyn FnMut(DeviceInfo, &dyn fmt::Display)) -> Result<()> {
        Ok(())
    }

    fn detect_pointer(&self, _address: u64) -> Option<PointerInfo> {
        None
    }

    fn allocate(&self, wanted: &Wanted<'_>) -> Result<Memory> {
        Err(Error::Unavailable { backend: self.name, device: wanted.device, why: self.why })
    }

    unsafe fn transfer(
        &self,
        _job: &Transfer<'_>,
        _source: &Place,
        _destination: &Place,
        _streams: &Streams,
    ) -> Result<()> {
        let device = DLDevice { device_type: self.device_types[0], device_id: 0 };
        Err(Error::Unavailable { backend: self.name, device, why: self.why })
    }
}
