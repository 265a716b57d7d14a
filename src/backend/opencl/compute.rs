//! Jobs within a context by kernels of the device, in order with the caller's work by events.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use opencl3::memory::{
    CL_MEM_COPY_HOST_PTR, CL_MEM_HOST_PTR, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR,
    CL_MEM_WRITE_ONLY,
};
use opencl3::types::*;

use super::buffer::Buffer;
use super::driver::{call, info, make};
use super::events::{Event, List};
use super::lane::Lane;
use super::site::Site;
use crate::backend::job::{Transfer, Work};
use crate::backend::kernels::{GROUP, Launches, Params};
use crate::error::{Error, Result};

/// What the kernels take for granted of every pointer.
const ALIGNMENT: usize = 16;

/// A job as launches; None: there is no kernel for it, or it may not touch these buffers.
///
/// # Safety
/// The buffers are valid.
pub unsafe fn launches(
    job: &Transfer<'_>,
    lane: &Lane,
    (from, from_first): (&Buffer, u64),
    (to, to_first): (&Buffer, u64),
) -> Option<Launches> {
    // SAFETY: as the caller says.
    let usable = unsafe { is_usable(lane, from, false) && is_usable(lane, to, true) };
    if !usable {
        return None;
    }
    Launches::of(job, from_first, to_first)
}

/// Whether kernels may read, or write, a buffer.
///
/// # Safety
/// The buffer is valid.
pub unsafe fn is_usable(site: &Site, buffer: &Buffer, to_write: bool) -> bool {
    let forbids = if to_write { CL_MEM_READ_ONLY } else { CL_MEM_WRITE_ONLY };
    // SAFETY: as the caller says.
    site.traits.has_groups && buffer.flags & forbids == 0 && unsafe { is_aligned(buffer) }
}

/// Does them. The event says when it is done; where a value may be lost it is.
///
/// # Safety
/// The job that these are of may be done between the buffers, which are of the lane's context, as are the
/// events.
pub unsafe fn run(
    launches: &Launches,
    job: &Transfer<'_>,
    lane: &Lane,
    from: &Buffer,
    to: &Buffer,
    after: &List,
) -> Result<Event> {
    let f = lane.f;
    // SAFETY: the arguments are as large as they say; the caller vouches for the buffers.
    unsafe {
        let lost = match launches.is_exact() {
            true => Some(flag(lane)?),
            false => None,
        };
        let word = lost.as_ref().map_or(null_mut(), |buffer| buffer.mem);
        let done = {
            let locked = lane.programs.get(lane.context, lane.device, launches.kernel())?;
            let kernel = locked.kernel;
            for (index, mem) in [from.mem, to.mem, word].iter().enumerate() {
                let place = if mem.is_null() { null() } else { (&raw const *mem).cast() };
                call!(f, clSetKernelArg(kernel, index as cl_uint, size_of::<cl_mem>(), place))?;
            }
            let mut done: Option<Event> = None;
            let outcome = launches.each(|params, groups| {
                let place = (&raw const *params).cast();
                call!(f, clSetKernelArg(kernel, 3, size_of::<Params>(), place))?;
                let (items, group, mut event) =
                    (groups as usize * GROUP as usize, GROUP as usize, null_mut());
                // The queue is in order.
                let (count, events) = if done.is_none() { after.get() } else { (0, null()) };
                call!(
                    f,
                    clEnqueueNDRangeKernel(
                        lane.queue,
                        kernel,
                        1,
                        null(),
                        &items,
                        &group,
                        count,
                        events,
                        &mut event
                    )
                )?;
                done = Some(Event::new(f, event));
                Ok(())
            });
            if let (Err(error), Some(done)) = (&outcome, &done) {
                // What was launched before is not left in flight.
                let _ = lane.wait(done);
                return Err(*error);
            }
            outcome.map(|()| done)?
        };
        let Some(done) = done else { unreachable!("a job has a launch at least") };
        if let (Some(lost), Work::Cast(cast)) = (&lost, job.work) {
            lane.wait(&done)?;
            let mut word = 0u32;
            let place = (&raw mut word).cast::<c_void>();
            let size = size_of::<u32>();
            call!(
                f,
                clEnqueueReadBuffer(lane.queue, lost.mem, CL_TRUE, 0, size, place, 0, null(), null_mut())
            )?;
            if word != 0 {
                return Err(Error::ValueLost { from: cast.from.dtype(), to: cast.to.dtype() });
            }
        }
        Ok(done)
    }
}

/// A word that is 0.
///
/// # Safety
/// The lane is valid.
unsafe fn flag(lane: &Lane) -> Result<Buffer> {
    let (f, mut zero) = (lane.f, 0u32);
    let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
    // SAFETY: the word is copied; the buffer is new.
    unsafe {
        let place = (&raw mut zero).cast();
        let mem = make!(f, clCreateBuffer(lane.context, flags, size_of::<u32>(), place))?;
        Ok(Buffer::new(f, mem, lane.context, flags))
    }
}

/// Whether a buffer starts where the kernels want it to. All do but those in somebody's memory.
///
/// # Safety
/// The buffer is valid.
unsafe fn is_aligned(buffer: &Buffer) -> bool {
    if buffer.flags & CL_MEM_USE_HOST_PTR == 0 {
        return true;
    }
    let f = buffer.f;
    // SAFETY: the buffer is valid, and the value as large as the specification says.
    let address = unsafe { info!(f, clGetMemObjectInfo(buffer.mem, CL_MEM_HOST_PTR): usize) };
    address.is_ok_and(|address| address.is_multiple_of(ALIGNMENT))
}
