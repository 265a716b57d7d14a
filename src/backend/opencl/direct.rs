//! Plain copies by the driver's own: of a run of bytes, and of rectangles of rows and slices. Between
//! buffers of one context they are the device's work alone, in order with the caller's by events.

use std::ffi::c_void;
use std::ptr::null_mut;

use opencl3::types::cl_bool;

use super::buffer::Buffer;
use super::driver::call;
use super::events::{Event, List};
use super::lane::Lane;
use crate::backend::rectangle::Rectangle;
use crate::error::Result;

/// Bytes of a copy beside which it is nothing to be woken.
const LARGE: u64 = 16 << 20;

/// A byte of a buffer.
pub type Byte<'a> = (&'a Buffer, usize);

/// Between what a copy goes, from its first byte to its first byte.
#[derive(Clone, Copy)]
pub enum Copy<'a> {
    /// From the host's memory.
    Write(*const c_void, Byte<'a>),
    /// To the host's memory.
    Read(Byte<'a>, *mut c_void),
    /// Between buffers that share no memory.
    Within(Byte<'a>, Byte<'a>),
}

impl Rectangle {
    /// The place of a byte of a buffer, as the driver counts: bytes in a row, rows, slices. None: a row
    /// or a slice would go on in the next.
    fn origin(&self, offset: usize, [row, slice]: [usize; 2]) -> Option<[usize; 3]> {
        let origin = [offset % row, offset % slice / row, offset / slice];
        let fits = origin[0] + self.region[0] <= row && (origin[1] + self.region[1]) * row <= slice;
        fits.then_some(origin)
    }

    /// Where the source starts, from where its first element is.
    pub fn source_start(&self, first: u64) -> u64 {
        first.wrapping_add_signed(self.start.0)
    }

    /// Likewise the destination.
    pub fn destination_start(&self, first: u64) -> u64 {
        first.wrapping_add_signed(self.start.1)
    }

    /// Copies from or to the host's memory. None: not so.
    ///
    /// # Safety
    /// As [`Rectangle::copy`].
    pub unsafe fn copy_now(&self, lane: &Lane, between: Copy<'_>, after: &List) -> Result<Option<()>> {
        let bytes = self.region.iter().product::<usize>() as u64;
        let is_watched = bytes < LARGE && lane.is_watched();
        // SAFETY: as the caller says.
        let Some(done) = (unsafe { self.copy(lane, between, cl_bool::from(!is_watched), after)? }) else {
            return Ok(None);
        };
        if is_watched {
            // Nothing of it is left in flight, whatever happens.
            let flushed = lane.flush();
            flushed.and(lane.watch(&done))?;
        }
        Ok(Some(()))
    }

    /// Begins a copy, or does it where it is blocking, which only copies from and to the host's memory can
    /// be. The event says when it is done. None: not so.
    ///
    /// # Safety
    /// The job that this is of may be done between the two, which stay as they are until it is done; the
    /// buffers and events are of the lane's context.
    #[rustfmt::skip]
    pub unsafe fn copy(
        &self,
        lane: &Lane,
        between: Copy<'_>,
        blocking: cl_bool,
        after: &List,
    ) -> Result<Option<Event>> {
        let (f, queue, (count, events), mut event) = (lane.f, lane.queue, after.get(), null_mut());
        let [from_row, from_slice] = self.source;
        let [to_row, to_slice] = self.destination;
        let (size, region, start) = (self.region[0], self.region.as_ptr(), [0usize; 3]);
        // The origins of both sides.
        let place = |(_, offset): Byte<'_>, steps| match self.is_run() {
            true => Some([offset, 0, 0]),
            false => self.origin(offset, steps),
        };
        let (from, to) = match between {
            Copy::Write(_, to) => (Some(start), place(to, self.destination)),
            Copy::Read(from, _) => (place(from, self.source), Some(start)),
            Copy::Within(from, to) => (place(from, self.source), place(to, self.destination)),
        };
        let (Some(from), Some(to)) = (from, to) else { return Ok(None) };
        let ([from_first, ..], [to_first, ..]) = (from, to);
        let (from, to) = (from.as_ptr(), to.as_ptr());
        // SAFETY: the caller vouches for both sides; the origins outlive the calls.
        unsafe {
            match (between, self.is_run()) {
                (Copy::Write(host, (buffer, _)), true) => call!(f, clEnqueueWriteBuffer(
                    queue, buffer.mem, blocking, to_first, size, host, count, events, &mut event))?,
                (Copy::Write(host, (buffer, _)), false) => call!(f, clEnqueueWriteBufferRect(
                    queue, buffer.mem, blocking, to, from, region, to_row, to_slice, from_row, from_slice,
                    host, count, events, &mut event))?,
                (Copy::Read((buffer, _), host), true) => call!(f, clEnqueueReadBuffer(
                    queue, buffer.mem, blocking, from_first, size, host, count, events, &mut event))?,
                (Copy::Read((buffer, _), host), false) => call!(f, clEnqueueReadBufferRect(
                    queue, buffer.mem, blocking, from, to, region, from_row, from_slice, to_row, to_slice,
                    host, count, events, &mut event))?,
                (Copy::Within((buffer, _), (other, _)), true) => call!(f, clEnqueueCopyBuffer(
                    queue, buffer.mem, other.mem, from_first, to_first, size, count, events, &mut event))?,
                (Copy::Within((buffer, _), (other, _)), false) => call!(f, clEnqueueCopyBufferRect(
                    queue, buffer.mem, other.mem, from, to, region, from_row, from_slice, to_row, to_slice,
                    count, events, &mut event))?,
            }
            Ok(Some(Event::new(f, event)))
        }
    }
}
