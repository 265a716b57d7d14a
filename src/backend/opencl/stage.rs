//! Jobs between the host and a device with memory of its own, or two such devices that share none, through a
//! ring of pinned slots: the host's kernels gather, cast and scatter while other slots are on their way. What
//! is not a rectangle on the device is put in its place, or fetched from there, by a kernel.

use std::ptr::{NonNull, null, null_mut};

use opencl3::memory::{CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE};
use opencl3::types::*;

use super::buffer::Buffer;
use super::compute;
use super::direct::{Byte, Copy};
use super::driver::{Functions, call, make};
use super::events::{Event, List};
use super::lane::Lane;
use crate::backend::job::{Cast, Transfer, Work};
use crate::backend::rectangle::Rectangle;
use crate::backend::staging::{Crossing, Packing, Part, Parts, Slot, room, slots_for};
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
    /// What was begun last, and in which queue: when it is over, so is all before it.
    flight: Option<(cl_command_queue, Event)>,
}

// SAFETY: the memory is ours, and OpenCL's objects may be used on any thread.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Pins so many bytes: a buffer that the driver keeps in the host's memory, mapped for good.
    pub fn new(lane: &Lane, bytes: usize) -> Result<Pinned> {
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
                    let (context, queue, flight) = (lane.context, lane.queue, None);
                    Ok(Pinned { f, context, queue, mem, memory, bytes, twin: None, flight })
                }
                Err(error) => {
                    (f.clReleaseMemObject)(mem);
                    Err(error)
                }
            }
        }
    }

    /// Its twin in a lane's context, to be put back.
    fn twin(&mut self, lane: &Lane) -> Result<Buffer> {
        if let Some(twin) = self.twin.take_if(|twin| twin.context == lane.context) {
            return Ok(twin);
        }
        let (f, flags) = (self.f, CL_MEM_READ_WRITE);
        // SAFETY: the context is the lane's; the buffer is new.
        unsafe {
            let mem = make!(f, clCreateBuffer(lane.context, flags, self.bytes, null_mut()))?;
            Ok(Buffer::new(f, mem, lane.context, flags))
        }
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
        let near = self.memory.as_ptr().cast();
        let between = if up {
            Copy::Write(near, (buffer, rectangle.destination_start(first) as usize))
        } else {
            Copy::Read((buffer, rectangle.source_start(first) as usize), near)
        };
        // SAFETY: as the caller says.
        let begun = unsafe { rectangle.copy(lane, between, CL_FALSE, &List::NONE)? };
        Ok(begun.map(|event| self.follow(lane, event)))
    }

    /// Something is on its way, after all that was before.
    fn follow(&mut self, lane: &Lane, event: Event) {
        self.flight = Some((lane.queue, event));
    }

    /// Copies bytes between its memory and a buffer's, and waits; through its twin where the host may not
    /// touch the buffer.
    ///
    /// # Safety
    /// So many bytes are there on both sides.
    pub unsafe fn carry(
        &mut self,
        lane: &Lane,
        up: bool,
        near: usize,
        bytes: usize,
        far: Byte<'_>,
    ) -> Result<()> {
        let near = self.memory.as_ptr().wrapping_add(near).cast();
        let run = Rectangle::run(bytes);
        let between = |buffer| if up { Copy::Write(near, buffer) } else { Copy::Read(buffer, near) };
        // SAFETY: the caller vouches for both sides; the twin is as large as the slot.
        unsafe {
            if far.0.is_mappable(up) {
                run.copy(lane, between(far), CL_TRUE, &List::NONE)?;
                return Ok(());
            }
            let twin = self.twin(lane)?;
            let (twin_first, host) = ((&twin, 0), between((&twin, 0)));
            let within = if up { Copy::Within(twin_first, far) } else { Copy::Within(far, twin_first) };
            for copy in if up { [host, within] } else { [within, host] } {
                if let Some(event) = run.copy(lane, copy, CL_FALSE, &List::NONE)? {
                    self.follow(lane, event);
                }
            }
            self.put_back(twin);
            self.land()
        }
    }

    /// Keeps a twin for the next time. One of another context is not kept, since it keeps that alive.
    fn put_back(&mut self, twin: Buffer) {
        if twin.context == self.context {
            self.twin = Some(twin);
        }
    }
}

impl Slot for Pinned {
    fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    fn land(&mut self) -> Result<()> {
        let Some((queue, last)) = &self.flight else { return Ok(()) };
        // SAFETY: the event is valid, and so is the queue of a lane that a call holds.
        unsafe {
            call!(self.f, clFlush(*queue))?;
            call!(self.f, clWaitForEvents(1, &last.handle))?;
        }
        self.flight = None;
        Ok(())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut event = null_mut();
        // SAFETY: it is mapped, and ours; the queue is there as long as its lane, which keeps this.
        unsafe {
            let place = self.memory.as_ptr().cast();
            let unmap =
                |event| (self.f.clEnqueueUnmapMemObject)(self.queue, self.mem, place, 0, null(), event);
            // Tried once more where it fails, since what stays mapped stays for good.
            if unmap(&mut event) == 0 || unmap(&mut event) == 0 {
                (self.f.clWaitForEvents)(1, &event);
                (self.f.clReleaseEvent)(event);
            }
            (self.f.clReleaseMemObject)(self.mem);
        }
    }
}

/// Whether kernels may do a job's part in each of these buffers: to write there, or to read.
///
/// # Safety
/// The buffers are valid.
unsafe fn is_usable(sides: &[(&Lane, &Buffer, bool)]) -> bool {
    // SAFETY: as the caller says.
    sides.iter().all(|(lane, buffer, to_write)| unsafe { compute::is_usable(lane, buffer, *to_write) })
}

/// How a job crosses between the host and a buffer; None: another way has to be taken.
///
/// # Safety
/// The buffer is valid.
pub unsafe fn packing(job: &Transfer<'_>, lane: &Lane, up: bool, buffer: &Buffer) -> Option<Packing> {
    // SAFETY: as the caller says.
    Packing::of(job.work, up, true).filter(|_| unsafe { is_usable(&[(lane, buffer, up)]) })
}

/// How a job crosses between two buffers, each of a device that casts: by the one where fewer bytes cross.
/// The first is the sender's part, the second the receiver's.
///
/// # Safety
/// The buffers are valid.
pub unsafe fn packing_between(
    job: &Transfer<'_>,
    (from_lane, from): (&Lane, &Buffer),
    (to_lane, to): (&Lane, &Buffer),
) -> Option<(Packing, Packing)> {
    // SAFETY: as the caller says.
    if !unsafe { is_usable(&[(from_lane, from, false), (to_lane, to, true)]) } {
        return None;
    }
    halves(job.work)
}

/// What two devices do with the elements of a job.
fn halves(work: Work) -> Option<(Packing, Packing)> {
    // What is cast before it crosses is cast by the sender.
    let Packing { host, device, size } = Packing::of(without_exact(work), true, true)?;
    let moved = Work::Move { size };
    let cast_by = |half| if half == moved { moved } else { work };
    let half = |device| Packing { host: moved, device, size };
    Some((half(cast_by(host)), half(cast_by(device))))
}

/// Where values may be lost the host looks at them, but here it sees none.
fn without_exact(work: Work) -> Work {
    match work {
        Work::Cast(cast) => Work::Cast(Cast { exact: false, ..cast }),
        work => work,
    }
}

/// Memory that a job takes at most, whose sides the host does not work on: slots, and for each side as much again
/// where its kernels gather or scatter, or the host may not touch it at all, which is `closed`. None: it cannot
/// cross.
pub fn scratch(job: &Transfer<'_>, [from_apart, to_apart]: [bool; 2], closed: [bool; 2]) -> Option<u64> {
    let (send, receive) = match (from_apart, to_apart) {
        (true, true) => halves(job.work)?,
        (_, up) => {
            let packing = Packing::of(job.work, up, true)?;
            (packing, packing)
        }
    };
    let (slots, parts) = slots_for(job, send.size)?;
    let (part, mut axes) = (parts.part(0), room());
    let gathers =
        from_apart && (closed[0] || Rectangle::of(&part.pack(send.device, send.size, &mut axes)).is_none());
    let scatters = to_apart
        && (closed[1] || Rectangle::of(&part.unpack(receive.device, send.size, &mut axes)).is_none());
    Some(slots * (1 + u64::from(gathers) + u64::from(scatters)))
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
    far: (&Buffer, u64),
) -> Result<Option<()>> {
    let ring = lane.rings.of(job.staging_bytes)?;
    let Some(parts) = Parts::of(job, packing.size, ring.slot_bytes()) else { return Ok(None) };
    let make = |bytes| Pinned::new(lane, bytes);
    let Some(crossing) = Crossing::new(&ring, &parts, packing, job.threads, make)? else { return Ok(None) };
    // SAFETY: the parts are the job's, and fit the slots.
    let go =
        |slot: &mut Pinned, part: &Part, bytes| unsafe { step(lane, slot, part, &packing, up, far, bytes) };
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

/// Does a job between buffers of two contexts, likewise.
///
/// # Safety
/// As [`cross`].
pub unsafe fn relay(
    job: &Transfer<'_>,
    (send, receive): (Packing, Packing),
    (from_lane, from): (&Lane, (&Buffer, u64)),
    (to_lane, to): (&Lane, (&Buffer, u64)),
) -> Result<Option<()>> {
    // The receiver's slots: its context is where a new result lives on.
    let ring = to_lane.rings.of(job.staging_bytes)?;
    let Some(parts) = Parts::of(job, send.size, ring.slot_bytes()) else { return Ok(None) };
    let make = |bytes| Pinned::new(to_lane, bytes);
    let Some(crossing) = Crossing::new(&ring, &parts, send, job.threads, make)? else { return Ok(None) };
    // SAFETY: the parts are the job's, and fit the slots.
    unsafe {
        crossing.relay(
            &|slot, part, bytes| step(from_lane, slot, part, &send, false, from, bytes),
            &|slot, part, bytes| step(to_lane, slot, part, &receive, true, to, bytes),
        )?;
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
    (buffer, first): (&Buffer, u64),
    bytes: u64,
) -> Result<()> {
    let mut axes = room();
    let (work, size) = (packing.device, packing.size);
    let job = if up { part.unpack(work, size, &mut axes) } else { part.pack(work, size, &mut axes) };
    let far = (buffer, first.wrapping_add_signed(if up { part.destination } else { part.source }));
    // SAFETY: as the caller says; the twin is as large as the slot.
    unsafe {
        if buffer.is_mappable(up)
            && let Some(rectangle) = Rectangle::of(&job)
            && slot.copy(lane, &rectangle, up, far)?.is_some()
        {
            return Ok(());
        }
        let whole = Rectangle::run(bytes as usize);
        let twin = slot.twin(lane)?;
        let near = (&twin, 0);
        let (from, to) = if up { (near, far) } else { (far, near) };
        let unlike = || Error::Internal(Excerpt::new("a part is unlike the first one"));
        let launches = compute::launches(&job, lane, from, to).ok_or_else(unlike)?;
        if up {
            slot.copy(lane, &whole, up, near)?;
        }
        let done = compute::run(&launches, &job, lane, from.0, to.0, &List::NONE)?;
        slot.follow(lane, done);
        if !up {
            slot.copy(lane, &whole, up, near)?;
        }
        slot.put_back(twin);
        Ok(())
    }
}
