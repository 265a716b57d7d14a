//! A `cl_mem`, ours or anybody's: what it is, asked of itself, and a reference to it.

use opencl3::memory::*;
use opencl3::types::{cl_context, cl_mem, cl_mem_flags, cl_mem_object_type};

use super::driver::{Functions, call, info};
use crate::backend::Place;
use crate::dlpack::raw::device_type;
use crate::error::{Error, Result, TensorProblem};

/// A buffer with a reference of its own, which goes when this is dropped.
#[derive(Debug)]
pub struct Buffer {
    /// The driver's functions.
    pub f: &'static Functions,
    /// Retained.
    pub mem: cl_mem,
    /// Where it is. Kept by the buffer.
    pub context: cl_context,
    /// `CL_MEM_*`.
    pub flags: cl_mem_flags,
    /// The buffer that it is part of; itself if it is none.
    pub whole: cl_mem,
    /// Its first byte in the whole.
    pub origin: usize,
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("libOpenCL.so.1")
    }
}

// SAFETY: OpenCL's buffers may be used and released on any thread.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Takes over the reference to a new buffer.
    ///
    /// # Safety
    /// It is a new buffer of this context, with these flags.
    pub unsafe fn new(
        f: &'static Functions,
        mem: cl_mem,
        context: cl_context,
        flags: cl_mem_flags,
    ) -> Buffer {
        Buffer { f, mem, context, flags, whole: mem, origin: 0 }
    }

    /// Asks the handle of a tensor what it is, and keeps it. What is no buffer, or does not reach as far
    /// as the tensor, is refused; `role` is the tensor's name in errors.
    ///
    /// # Safety
    /// The place's data is a valid `cl_mem`.
    pub unsafe fn of(f: &'static Functions, place: &Place, role: &'static str) -> Result<Buffer> {
        let refuse = |problem| Err(Error::Tensor { role, problem });
        let mem = place.data as usize as cl_mem;
        // SAFETY: the handle is valid, as the caller says.
        unsafe {
            let kind = info!(f, clGetMemObjectInfo(mem, CL_MEM_TYPE): cl_mem_object_type)?;
            if kind != CL_MEM_OBJECT_BUFFER {
                return refuse(TensorProblem::NoBuffer(kind));
            }
            let size = info!(f, clGetMemObjectInfo(mem, CL_MEM_SIZE): usize)? as u64;
            let (begin, end) = (place.begin, place.end);
            if begin < 0 || end as u64 > size {
                return refuse(TensorProblem::BeyondBuffer { begin, end, size });
            }
            let context = info!(f, clGetMemObjectInfo(mem, CL_MEM_CONTEXT): cl_context)?;
            let flags = info!(f, clGetMemObjectInfo(mem, CL_MEM_FLAGS): cl_mem_flags)?;
            let parent = info!(f, clGetMemObjectInfo(mem, CL_MEM_ASSOCIATED_MEMOBJECT): cl_mem)?;
            let whole = if parent.is_null() { mem } else { parent };
            let origin = info!(f, clGetMemObjectInfo(mem, CL_MEM_OFFSET): usize)?;
            call!(f, clRetainMemObject(mem))?;
            Ok(Buffer { f, mem, context, flags, whole, origin })
        }
    }

    /// Refuses what cannot be read.
    pub fn readable(self) -> Result<Buffer> {
        if self.flags & CL_MEM_WRITE_ONLY != 0 {
            return Err(Error::Tensor { role: "source", problem: TensorProblem::WriteOnlyBuffer });
        }
        Ok(self)
    }

    /// Whether kernels may write to it.
    pub fn is_writable(&self) -> bool {
        self.flags & CL_MEM_READ_ONLY == 0
    }

    /// Whether the host may map it for reading, or for writing.
    pub fn is_mappable(&self, to_write: bool) -> bool {
        let forbids = if to_write { CL_MEM_HOST_READ_ONLY } else { CL_MEM_HOST_WRITE_ONLY };
        self.flags & (CL_MEM_HOST_NO_ACCESS | forbids) == 0
    }
}

/// Whether a tensor is in a buffer that the host may not touch as it likes.
///
/// # Safety
/// What is in OpenCL's memory is in a valid `cl_mem`.
pub unsafe fn is_restricted(f: &Functions, place: &Place) -> Result<bool> {
    if place.device.device_type != device_type::OPENCL {
        return Ok(false);
    }
    let mem = place.data as usize as cl_mem;
    // SAFETY: as the caller says; the value is as large as the specification says.
    let flags = unsafe { info!(f, clGetMemObjectInfo(mem, CL_MEM_FLAGS): cl_mem_flags)? };
    Ok(flags & (CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY) != 0)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and given back once. Commands that use the buffer finish first.
        unsafe { (self.f.clReleaseMemObject)(self.mem) };
    }
}
