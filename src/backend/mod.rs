//! What moves bytes. A backend knows no DLPack and no policy: it gets a folded job.

pub mod absent;
pub mod host;
pub mod job;
mod memory;

use std::fmt;

use crate::dlpack::raw::DLDevice;
use crate::error::{Error, Result};

pub use job::Transfer;
pub use memory::{Allocator, Memory};

/// A device as it is listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceInfo {
    /// Its DLPack pair.
    pub device: DLDevice,
    /// Bytes; 0: unknown.
    pub total_memory: u64,
    /// Bytes; 0: unknown.
    pub free_memory: u64,
}

/// What kind of memory an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum MemoryKind {
    Unknown = 0,
    Host = 1,
    Pinned = 2,
    Device = 3,
    Managed = 4,
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerInfo {
    /// The kind of memory.
    pub memory: MemoryKind,
    /// Where it lives, as its driver says; None: no driver knows it.
    pub device: Option<DLDevice>,
    /// Start of its allocation; 0: unknown.
    pub base: u64,
    /// Size of its allocation; 0: unknown.
    pub size: u64,
}

/// The one table that the host, CUDA, OpenCL and registered backends fill.
pub trait Backend: Sync {
    /// "host", "cuda", "opencl".
    fn name(&self) -> &'static str;

    /// Whether memory of a device type is this backend's to allocate and to reach.
    fn serves(&self, device_type: i32) -> bool;

    /// Whether it can be used here; else why not.
    fn available(&self) -> Result<(), &'static str>;

    /// Writes its version and library.
    fn describe(&self, text: &mut dyn fmt::Write) -> fmt::Result;

    /// Shows each of its devices, with its name.
    fn list_devices(&self, show: &mut dyn FnMut(DeviceInfo, &dyn fmt::Display));

    /// What its driver says of an address, if that driver runs already; it is never started.
    fn detect_pointer(&self, address: u64) -> Option<PointerInfo>;

    /// Memory for a result.
    fn allocate(&self, device: DLDevice, size: u64, alignment: u64) -> Result<Memory>;

    /// Does a job. The values are addresses, or handles where the device has those.
    ///
    /// # Safety
    /// Every place that the job visits is readable in the source and writable in the destination, and
    /// they do not overlap.
    unsafe fn transfer(&self, job: &Transfer<'_>, source: u64, destination: u64) -> Result<()>;
}

/// Every backend that is built in, available or not.
pub fn all() -> &'static [&'static dyn Backend] {
    &[&host::Host, &absent::CUDA, &absent::OPENCL]
}

/// The backend that serves a device, if it is usable here.
pub fn for_device(device: DLDevice) -> Result<&'static dyn Backend> {
    let backend = all().iter().find(|backend| backend.serves(device.device_type));
    let backend = *backend.ok_or(Error::NoBackend { device })?;
    if device.device_id < 0 {
        return Err(Error::DeviceId { device });
    }
    match backend.available() {
        Ok(()) => Ok(backend),
        Err(why) => Err(Error::Unavailable { backend: backend.name(), device, why }),
    }
}
