//! Plain copies by the driver's own: of a run of bytes, and of rectangles of rows and slices. Between
//! buffers of one context they are the device's work alone, in order with the caller's by events.

use std::ffi::c_void;
use std::ptr::null_mut;

use opencl3::types::{CL_FALSE, CL_TRUE, cl_bool, cl_event};

use super::buffer::Buffer;
use super::driver::call;
use super::lane::{Event, Lane, list};
use crate::backend::rectangle::Rectangle;
use crate::error::Result;

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

    /// Copies from the host's memory, and waits. None: not so.
    ///
    /// # Safety
    /// The job that this is of may be done from `source` to `offset` of the buffer; the events are of its
    /// context.
    pub unsafe fn write(
        &self,
        lane: &Lane,
        source: *const c_void,
        buffer: &Buffer,
        offset: usize,
        after: &[cl_event],
    ) -> Result<Option<()>> {
        // SAFETY: as the caller says.
        let written = unsafe { self.enqueue_write(lane, source, (buffer, offset), CL_TRUE, after)? };
        Ok(written.map(|_| ()))
    }

    /// Begins to copy from the host's memory, which has to stay as it is until the event. None: not so.
    ///
    /// # Safety
    /// As [`Rectangle::write`].
    pub unsafe fn begin_write(
        &self,
        lane: &Lane,
        source: *const c_void,
        buffer: &Buffer,
        offset: usize,
    ) -> Result<Option<Event>> {
        // SAFETY: as the caller says.
        unsafe { self.enqueue_write(lane, source, (buffer, offset), CL_FALSE, &[]) }
    }

    /// # Safety
    /// As [`Rectangle::write`].
    unsafe fn enqueue_write(
        &self,
        lane: &Lane,
        source: *const c_void,
        (buffer, offset): (&Buffer, usize),
        blocking: cl_bool,
        after: &[cl_event],
    ) -> Result<Option<Event>> {
        let (f, queue, mem) = (lane.f, lane.queue, buffer.mem);
        let (count, events) = list(after);
        let mut event = null_mut();
        // SAFETY: the caller vouches for both sides.
        unsafe {
            if self.is_run() {
                let size = self.region[0];
                call!(
                    f,
                    clEnqueueWriteBuffer(
                        queue, mem, blocking, offset, size, source, count, events, &mut event
                    )
                )?;
                return Ok(Some(Event::new(f, event)));
            }
            let Some(origin) = self.origin(offset, self.destination) else { return Ok(None) };
            let ([row, slice], [host_row, host_slice]) = (self.destination, self.source);
            let (origin, host, region) = (origin.as_ptr(), [0usize; 3], self.region.as_ptr());
            call!(
                f,
                clEnqueueWriteBufferRect(
                    queue,
                    mem,
                    blocking,
                    origin,
                    host.as_ptr(),
                    region,
                    row,
                    slice,
                    host_row,
                    host_slice,
                    source,
                    count,
                    events,
                    &mut event
                )
            )?;
            Ok(Some(Event::new(f, event)))
        }
    }

    /// Copies to the host's memory, and waits. None: not so.
    ///
    /// # Safety
    /// As [`Rectangle::write`], the other way.
    pub unsafe fn read(
        &self,
        lane: &Lane,
        buffer: &Buffer,
        offset: usize,
        destination: *mut c_void,
        after: &[cl_event],
    ) -> Result<Option<()>> {
        // SAFETY: as the caller says.
        let read = unsafe { self.enqueue_read(lane, (buffer, offset), destination, CL_TRUE, after)? };
        Ok(read.map(|_| ()))
    }

    /// Begins to copy to the host's memory, which is not there before the event. None: not so.
    ///
    /// # Safety
    /// As [`Rectangle::read`].
    pub unsafe fn begin_read(
        &self,
        lane: &Lane,
        buffer: &Buffer,
        offset: usize,
        destination: *mut c_void,
    ) -> Result<Option<Event>> {
        // SAFETY: as the caller says.
        unsafe { self.enqueue_read(lane, (buffer, offset), destination, CL_FALSE, &[]) }
    }

    /// # Safety
    /// As [`Rectangle::read`].
    unsafe fn enqueue_read(
        &self,
        lane: &Lane,
        (buffer, offset): (&Buffer, usize),
        destination: *mut c_void,
        blocking: cl_bool,
        after: &[cl_event],
    ) -> Result<Option<Event>> {
        let (f, queue, mem) = (lane.f, lane.queue, buffer.mem);
        let (count, events) = list(after);
        let mut event = null_mut();
        // SAFETY: the caller vouches for both sides.
        unsafe {
            if self.is_run() {
                let size = self.region[0];
                call!(
                    f,
                    clEnqueueReadBuffer(
                        queue,
                        mem,
                        blocking,
                        offset,
                        size,
                        destination,
                        count,
                        events,
                        &mut event
                    )
                )?;
                return Ok(Some(Event::new(f, event)));
            }
            let Some(origin) = self.origin(offset, self.source) else { return Ok(None) };
            let ([row, slice], [host_row, host_slice]) = (self.source, self.destination);
            let (origin, host, region) = (origin.as_ptr(), [0usize; 3], self.region.as_ptr());
            call!(
                f,
                clEnqueueReadBufferRect(
                    queue,
                    mem,
                    blocking,
                    origin,
                    host.as_ptr(),
                    region,
                    row,
                    slice,
                    host_row,
                    host_slice,
                    destination,
                    count,
                    events,
                    &mut event
                )
            )?;
            Ok(Some(Event::new(f, event)))
        }
    }

    /// Copies between two buffers of the lane's context. The event says when it is done. None: not so.
    ///
    /// # Safety
    /// As [`Rectangle::write`]; the buffers share no memory.
    pub unsafe fn copy(
        &self,
        lane: &Lane,
        (source, source_offset): (&Buffer, usize),
        (destination, destination_offset): (&Buffer, usize),
        after: &[cl_event],
    ) -> Result<Option<Event>> {
        let (f, queue, from, to) = (lane.f, lane.queue, source.mem, destination.mem);
        let (count, events) = list(after);
        let mut event = null_mut();
        // SAFETY: the caller vouches for both sides.
        unsafe {
            if self.is_run() {
                let size = self.region[0];
                call!(
                    f,
                    clEnqueueCopyBuffer(
                        queue,
                        from,
                        to,
                        source_offset,
                        destination_offset,
                        size,
                        count,
                        events,
                        &mut event
                    )
                )?;
                return Ok(Some(Event::new(f, event)));
            }
            let origins =
                (self.origin(source_offset, self.source), self.origin(destination_offset, self.destination));
            let (Some(source_origin), Some(destination_origin)) = origins else { return Ok(None) };
            let ([from_row, from_slice], [to_row, to_slice]) = (self.source, self.destination);
            let (source_origin, destination_origin) = (source_origin.as_ptr(), destination_origin.as_ptr());
            call!(
                f,
                clEnqueueCopyBufferRect(
                    queue,
                    from,
                    to,
                    source_origin,
                    destination_origin,
                    self.region.as_ptr(),
                    from_row,
                    from_slice,
                    to_row,
                    to_slice,
                    count,
                    events,
                    &mut event
                )
            )?;
            Ok(Some(Event::new(f, event)))
        }
    }
}
