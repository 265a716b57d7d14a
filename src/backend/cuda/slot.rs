//! A slot of the staging ring: pinned memory, with a stream of its own and as much of the device's memory
//! where kernels are to gather or scatter.

use std::ffi::{c_uint, c_void};
use std::ptr::{NonNull, null_mut};

use cudarc::driver::sys::{CU_MEMHOSTALLOC_PORTABLE, CUdeviceptr, CUstream};

use super::driver::call;
use super::lane::{Lane, OwnStream, Relaxed};
use crate::backend::staging::Slot;
use crate::dlpack::raw::{DLDevice, device_type};
use crate::error::{Error, Result};

/// Pinned memory of a lane.
pub struct Pinned {
    lane: &'static Lane,
    stream: OwnStream,
    memory: NonNull<u8>,
    bytes: usize,
    /// On the device; 0: none yet.
    scratch: CUdeviceptr,
    /// Copies have been begun since it was waited for.
    busy: bool,
}

// SAFETY: the memory is ours, and streams may be used from any thread.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Pins so many bytes. The lane's context is current.
    pub fn new(lane: &'static Lane, bytes: usize) -> Result<Pinned> {
        let stream = lane.stream()?;
        let mut memory: *mut c_void = null_mut();
        // SAFETY: the context is current.
        unsafe { call!(lane.f, cuMemHostAlloc(&mut memory, bytes, CU_MEMHOSTALLOC_PORTABLE as c_uint))? };
        let device = DLDevice { device_type: device_type::CUDA_HOST, device_id: 0 };
        let none = Error::OutOfMemory { device, bytes: bytes as u64, alignment: 1 };
        let memory = NonNull::new(memory.cast()).ok_or(none)?;
        Ok(Pinned { lane, stream, memory, bytes, scratch: 0, busy: false })
    }

    /// The stream on which its copies are put; it has to be waited for from now on.
    pub fn begin(&mut self) -> CUstream {
        self.busy = true;
        self.stream.stream
    }

    /// As many bytes of the device's memory. The lane's context is current.
    pub fn scratch(&mut self) -> Result<CUdeviceptr> {
        if self.scratch == 0 {
            let _relaxed = Relaxed::new(self.lane.f);
            // SAFETY: the context is current.
            unsafe { call!(self.lane.f, cuMemAlloc(&mut self.scratch, self.bytes))? };
        }
        Ok(self.scratch)
    }
}

impl Slot for Pinned {
    fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    fn land(&mut self) -> Result<()> {
        if self.busy {
            let _entered = self.lane.enter()?;
            self.stream.wait()?;
            self.busy = false;
        }
        Ok(())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let Ok(_entered) = self.lane.enter() else { return };
        // SAFETY: nothing is on its way, and both are freed once.
        unsafe {
            (self.lane.f.cuMemFreeHost)(self.memory.as_ptr().cast());
            if self.scratch != 0 {
                (self.lane.f.cuMemFree)(self.scratch);
            }
        }
    }
}
