//! Jobs on buffers that the host can reach: they are mapped, and the host's kernels do the work. Where
//! memory is shared that moves each byte once; elsewhere the driver moves what is mapped.

use std::ops::Range;
use std::ptr::null_mut;
use std::sync::PoisonError;

use opencl3::memory::*;
use opencl3::types::*;

use super::buffer::Buffer;
use super::driver::{call, make};
use super::events::{Event, List};
use super::lane::Lane;
use crate::backend::Place;
use crate::error::Result;

/// A part of a buffer, mapped until this is dropped.
pub struct Mapped<'a> {
    lane: &'a Lane,
    mem: cl_mem,
    /// What is written back when it is unmapped: a copy in a buffer that the host may map.
    copy: Option<(Buffer, &'a Buffer, Range<usize>)>,
    /// Its first byte, and where in the buffer that is.
    pointer: *mut u8,
    start: usize,
}

/// What a mapping is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    /// What is there stays, but for what is written.
    Write,
    /// Every byte will be written.
    Overwrite,
}

impl Access {
    /// Of a destination.
    pub fn to(place: &Place) -> Access {
        if place.dense { Access::Overwrite } else { Access::Write }
    }

    /// Whether the host may have a buffer so.
    pub fn is_allowed(self, buffer: &Buffer) -> bool {
        let (reads, writes) = (self != Access::Overwrite, self != Access::Read);
        (!reads || buffer.is_mappable(false)) && (!writes || buffer.is_mappable(true))
    }
}

impl<'a> Mapped<'a> {
    /// Maps bytes of a buffer for the host, once the events have happened. Unless it is blocking, they are
    /// there when a later command of the lane's queue is done.
    ///
    /// # Safety
    /// The range lies within the buffer, which lives longer than this; the events are of its context.
    pub unsafe fn new(
        lane: &'a Lane,
        buffer: &'a Buffer,
        range: Range<usize>,
        access: Access,
        after: &List,
        blocking: cl_bool,
    ) -> Result<Mapped<'a>> {
        let flags = match access {
            Access::Read => CL_MAP_READ,
            Access::Write => CL_MAP_READ | CL_MAP_WRITE,
            Access::Overwrite => CL_MAP_WRITE_INVALIDATE_REGION,
        };
        let writes = access != Access::Read;
        let size = range.len();
        let (count, events) = after.get();
        let f = lane.f;
        // SAFETY: the caller vouches for range and events; the copy is as long as the range.
        unsafe {
            if access.is_allowed(buffer) {
                let (list, mut event) = ((count, events), null_mut());
                let event_place = if blocking == CL_FALSE { null_mut() } else { &raw mut event };
                let (pointer, mem) = (map(lane, buffer.mem, flags, &range, list, event_place)?, buffer.mem);
                let mapped = Mapped { lane, mem, copy: None, pointer, start: range.start };
                if blocking != CL_FALSE {
                    lane.wait(&Event::new(f, event))?;
                }
                return Ok(mapped);
            }
            let flags = CL_MEM_READ_WRITE;
            let mem = make!(f, clCreateBuffer(lane.context, flags, size, null_mut()))?;
            let copy = Buffer::new(f, mem, lane.context, flags);
            call!(
                f,
                clEnqueueCopyBuffer(
                    lane.queue,
                    buffer.mem,
                    mem,
                    range.start,
                    0,
                    size,
                    count,
                    events,
                    null_mut()
                )
            )?;
            let flags = CL_MAP_READ | CL_MAP_WRITE;
            let pointer = make!(
                f,
                clEnqueueMapBuffer(lane.queue, mem, CL_TRUE, flags, 0, size, 0, std::ptr::null(), null_mut())
            )?;
            let start = range.start;
            let copy = Some((copy, buffer, if writes { range } else { 0..0 }));
            Ok(Mapped { lane, mem, copy, pointer: pointer.cast(), start })
        }
    }

    /// Where the host has a tensor that lies within it.
    pub fn place(&self, place: &Place) -> Place {
        let address = self.pointer as usize as u64 + place.byte_offset;
        Place { data: address.wrapping_sub(self.start as u64), byte_offset: 0, ..*place }
    }

    /// Gives it back to the device. The event says when that is done. Where it fails it is tried once more,
    /// since what stays mapped stays for good.
    pub fn unmap(self) -> Result<Event> {
        let (lane, f) = (self.lane, self.lane.f);
        let mut event = null_mut();
        // SAFETY: it is mapped there, and unmapped once: what fails has not been done.
        unsafe {
            let pointer = self.pointer.cast();
            call!(
                f,
                clEnqueueUnmapMemObject(lane.queue, self.mem, pointer, 0, std::ptr::null(), &mut event)
            )?;
            let unmapped = Event::new(f, event);
            let mut this = std::mem::ManuallyDrop::new(self);
            let Some((copy, buffer, range)) = this.copy.take().filter(|(_, _, range)| !range.is_empty())
            else {
                return Ok(unmapped);
            };
            call!(
                f,
                clEnqueueCopyBuffer(
                    lane.queue,
                    copy.mem,
                    buffer.mem,
                    0,
                    range.start,
                    range.len(),
                    0,
                    std::ptr::null(),
                    &mut event
                )
            )?;
            Ok(Event::new(f, event))
        }
    }
}

/// Enqueues a mapping, and says where it will be. One after the other: of those that begin at the same address
/// PoCL unmaps the first in its list, whose command another thread must not be about to enqueue still.
///
/// # Safety
/// As [`Mapped::new`]; the event's place is NULL or writable.
unsafe fn map(
    lane: &Lane,
    mem: cl_mem,
    flags: cl_map_flags,
    range: &Range<usize>,
    (count, events): (cl_uint, *const cl_event),
    event: *mut cl_event,
) -> Result<*mut u8> {
    let (queue, offset, size) = (lane.queue, range.start, range.len());
    let _one = lane.maps.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: as the caller says.
    let pointer = unsafe {
        make!(lane.f, clEnqueueMapBuffer(queue, mem, CL_FALSE, flags, offset, size, count, events, event))
    };
    Ok(pointer?.cast())
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        let mut event = null_mut();
        // SAFETY: it is mapped there. This is the way out of a failure: nothing is written back, and what
        // it fails with is not told over what failed first.
        unsafe {
            let (f, pointer) = (self.lane.f, self.pointer.cast());
            let queue = self.lane.queue;
            if (f.clEnqueueUnmapMemObject)(queue, self.mem, pointer, 0, std::ptr::null(), &mut event) == 0 {
                (f.clWaitForEvents)(1, &event);
                (f.clReleaseEvent)(event);
            }
        }
    }
}
