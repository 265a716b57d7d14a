//! Jobs between the host and a device with memory of its own, through a ring of pinned slots: the host's
//! kernels gather, cast and scatter while other slots are on their way. What is not a rectangle on the device
//! is put in its place, or fetched from there, by a kernel.

use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};

use opencl3::memory::{CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE};
use opencl3::types::*;

use super::buffer::Buffer;
use super::compute;
use super::driver::{Functions, call, make};
use super::lane::{Event, Lane};
use crate::backend::job::Transfer;
use crate::backend::rectangle::Rectangle;
use crate::backend::staging::{Crossing, Packing, Part, Parts, Slot, room};
use crate::error::{Error, Excerpt, Result};

/// Pinned memory of a lane's context.
pub struct Pinned {
    f: &'static Functions,
    context: cl_context,
    queue: cl_command_queue,
    mem: cl_mem,
    memory: NonNull<u8>,
    bytes: usize,
    /// As much memory of the device, for what kernels gather or scatter.
    twin: Option<Buffer>,
    /// What has to be waited for.
    flight: Vec<Event>,
}

// SAFETY: the memory is ours, and OpenCL's objects may be used on any thread.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Pins so many bytes: a buffer that the driver keeps in the host's memory, mapped for good.
    fn new(lane: &Lane, bytes: usize) -> Result<Pinned> {
        let (f, flags) = (lane.f, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR);
        // SAFETY: the buffer is new, and as long as what is mapped.
        unsafe {
            let mem = make!(f, clCreateBuffer(lane.context, flags, bytes, null_mut()))?;
            let access = CL_MAP_READ | CL_MAP_WRITE;
            let mapped = make!(
                f,
                clEnqueueMapBuffer(lane.queue, mem, CL_TRUE, access, 0, bytes, 0, null(), null_mut())
            );
            let place = mapped.and_then(|place| {
                let none = Error::Internal(Excerpt::new("clEnqueueMapBuffer gave NULL"));
                NonNull::new(place.cast()).ok_or(none)
            });
            match place {
                Ok(memory) => {
                    let (context, queue, flight) = (lane.context, lane.queue, Vec::new());
                    Ok(Pinned { f, context, queue, mem, memory, bytes, twin: None, flight })
                }
                Err(error) => {
                    (f.clReleaseMemObject)(mem);
                    Err(error)
                }
            }
        }
    }

    fn twin(&mut self) -> Result<&Buffer> {
        if self.twin.is_none() {
            let (f, flags) = (self.f, CL_MEM_READ_WRITE);
            // SAFETY: the context is the lane's, which keeps this; the buffer is new.
            unsafe {
                let mem = make!(f, clCreateBuffer(self.context, flags, self.bytes, null_mut()))?;
                self.twin = Some(Buffer::new(f, mem, self.context, flags));
            }
        }
        self.twin.as_ref().ok_or(Error::Internal(Excerpt::new("a slot has no twin")))
    }

    /// Begins a copy between this and a buffer's rectangle. None: not so.
    ///
    /// # Safety
    /// The rectangle's job may be done between the two.
    unsafe fn copy(
        &mut self,
        lane: &Lane,
        rectangle: &Rectangle,
        up: bool,
        (buffer, first): (&Buffer, u64),
    ) -> Result<Option<()>> {
        let near = self.memory.as_ptr().cast::<c_void>();
        // SAFETY: as the caller says.
        let begun = unsafe {
            if up {
                let offset = rectangle.destination_start(first) as usize;
                rectangle.begin_write(lane, near, buffer, offset)?
            } else {
                let offset = rectangle.source_start(first) as usize;
                rectangle.begin_read(lane, buffer, offset, near)?
            }
        };
        Ok(begun.map(|event| self.flight.push(event)))
    }
}

impl Slot for Pinned {
    fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    fn land(&mut self) -> Result<()> {
        // Commands of a queue in order: the last one is over when all are.
        let Some(last) = self.flight.last() else { return Ok(()) };
        // SAFETY: the event is valid.
        unsafe {
            call!(self.f, clFlush(self.queue))?;
            call!(self.f, clWaitForEvents(1, &last.handle))?;
        }
        self.flight.clear();
        Ok(())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut event = null_mut();
        // SAFETY: it is mapped, and ours; the queue is there as long as its lane, which keeps this.
        unsafe {
            let place = self.memory.as_ptr().cast();
            if (self.f.clEnqueueUnmapMemObject)(self.queue, self.mem, place, 0, null(), &mut event) == 0 {
                (self.f.clWaitForEvents)(1, &event);
                (self.f.clReleaseEvent)(event);
            }
            (self.f.clReleaseMemObject)(self.mem);
        }
    }
}

/// How a job crosses; None: another way has to be taken.
///
/// # Safety
/// The buffer is valid.
pub unsafe fn packing(job: &Transfer<'_>, lane: &Lane, up: bool, buffer: &Buffer) -> Option<Packing> {
    // SAFETY: as the caller says.
    let usable = unsafe { compute::is_usable(lane, buffer, up) };
    Packing::of(job.work, up, true).filter(|_| usable)
}

/// Does a job between an address of the host and a byte of a buffer, of which the first elements are there.
/// None: nothing was done, since there are no slots, or none that are large enough.
///
/// # Safety
/// The job may be done between the two, and nobody's work is in flight there.
pub unsafe fn cross(
    job: &Transfer<'_>,
    lane: &Lane,
    packing: Packing,
    up: bool,
    host: u64,
    (buffer, first): (&Buffer, u64),
) -> Result<Option<()>> {
    let ring = lane.rings.of(job.staging_bytes)?;
    let Some(parts) = Parts::of(job, packing.size, ring.slot_bytes()) else { return Ok(None) };
    let make = |bytes| Pinned::new(lane, bytes);
    let Some(crossing) = Crossing::new(&ring, &parts, packing, job.threads, make)? else { return Ok(None) };
    let go = |slot: &mut Pinned, part: &Part, bytes: u64| {
        let offset = if up { part.destination } else { part.source };
        // SAFETY: the part is the job's, and fits the slot.
        unsafe { step(lane, slot, part, &packing, up, (buffer, first.wrapping_add_signed(offset)), bytes) }
    };
    // SAFETY: as the caller says.
    unsafe {
        if up {
            crossing.upload(host, &go)?;
        } else {
            crossing.download(host, &go)?;
        }
    }
    Ok(Some(()))
}

/// Begins what the device does with a part.
///
/// # Safety
/// As [`cross`], of the part.
unsafe fn step(
    lane: &Lane,
    slot: &mut Pinned,
    part: &Part,
    packing: &Packing,
    up: bool,
    far: (&Buffer, u64),
    bytes: u64,
) -> Result<()> {
    let mut axes = room();
    let (work, size) = (packing.device, packing.size);
    let job = if up { part.unpack(work, size, &mut axes) } else { part.pack(work, size, &mut axes) };
    // SAFETY: as the caller says; the twin is as large as the slot.
    unsafe {
        if far.0.is_mappable(up)
            && let Some(rectangle) = Rectangle::of(&job)
            && slot.copy(lane, &rectangle, up, far)?.is_some()
        {
            return Ok(());
        }
        let whole = Rectangle::run(bytes as usize);
        slot.twin()?;
        // Taken out while the slot is used beside it.
        let Some(twin) = slot.twin.take() else { return Ok(()) };
        let near = (&twin, 0);
        let (from, to) = if up { (near, far) } else { (far, near) };
        let done = match compute::launches(&job, lane, from, to) {
            None => Err(Error::Internal(Excerpt::new("a part is unlike the first one"))),
            Some(launches) if up => match slot.copy(lane, &whole, up, near) {
                Ok(_) => compute::run(&launches, &job, lane, from.0, to.0, &[]),
                Err(error) => Err(error),
            },
            Some(launches) => compute::run(&launches, &job, lane, from.0, to.0, &[]),
        };
        let outcome = done.and_then(|event| {
            slot.flight.push(event);
            if up { Ok(()) } else { slot.copy(lane, &whole, up, near).map(|_| ()) }
        });
        slot.twin = Some(twin);
        outcome
    }
}
