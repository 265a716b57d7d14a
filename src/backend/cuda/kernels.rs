//! The device's kernels: what a job becomes, and the modules, each loaded at its first use on a device.

use cudarc::driver::sys::CUstream;

use super::lane::Lane;
use crate::backend::job::Transfer;
use crate::error::Result;

/// The modules of a device.
pub struct Modules {}

impl Modules {
    /// None is loaded.
    pub const fn new() -> Modules {
        Modules {}
    }
}

/// Whether there is a kernel for a job.
pub fn can(_job: &Transfer<'_>) -> bool {
    false
}

/// Puts the kernel of a job on a stream. The lane's context is current.
///
/// # Safety
/// The device reaches every place that the job visits, from both addresses; the stream is valid.
pub unsafe fn launch(
    _lane: &'static Lane,
    _stream: CUstream,
    _job: &Transfer<'_>,
    _source: u64,
    _destination: u64,
) -> Result<()> {
    unreachable!("can() says no")
}
