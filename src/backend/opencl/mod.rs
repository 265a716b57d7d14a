//! OpenCL: buffers of any context, on any device.
//!
//! The driver's functions are found at the first use (`driver`), and with them the devices (`devices`).
//! A `cl_mem` is asked what it is (`buffer`); what is done in its context is done on a queue of our own
//! (`lane`). Runs and rectangles of bytes are copied by the driver (`direct`), unless the device works in
//! the host's memory. All else within a context is done by kernels (`compute`, `program`), unless the device
//! is the host's processor. There buffers are mapped and the host's kernels work on them (`map`); so is what
//! has no kernel. Between the host and a device with memory of its own, other jobs go through pinned slots
//! (`stage`).

mod buffer;
mod compute;
mod devices;
mod direct;
mod driver;
mod lane;
mod map;
mod program;
mod stage;

use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;

use opencl3::memory::CL_MEM_READ_WRITE;
use opencl3::types::*;

use self::buffer::Buffer;
use self::driver::{Functions, call};
use self::lane::{Event, Lane, Queue, devices_of, list};
use self::map::{Access, Mapped};
use super::host::Host;
use super::rectangle::Rectangle;
use super::{Backend, DeviceInfo, Errand, Memory, Place, PointerInfo, Streams, Transfer, Wanted};
use crate::dlpack::raw::{DLDevice, device_type};
use crate::dlpack::view::is_host_readable;
use crate::error::{Error, Result};
use crate::report::Route;

/// Every OpenCL device.
pub struct OpenCl;

const NAME: &str = "opencl";

impl Backend for OpenCl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serves(&self, device_type: i32) -> bool {
        device_type == device_type::OPENCL
    }

    fn available(&self) -> Result<(), &'static str> {
        devices::devices().map(|_| ())
    }

    fn describe(&self, text: &mut dyn fmt::Write) -> fmt::Result {
        match devices::devices() {
            Err(why) => text.write_str(why),
            Ok(devices) => {
                text.write_str("libOpenCL.so.1")?;
                let mut said: Vec<&str> = Vec::new();
                for device in devices {
                    if !said.contains(&device.version.as_str()) {
                        said.push(&device.version);
                        write!(text, ", {}", device.version)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn list_devices(&self, show: &mut dyn FnMut(DeviceInfo, &dyn fmt::Display)) {
        for (index, device) in devices::devices().into_iter().flatten().enumerate() {
            let pair = DLDevice { device_type: device_type::OPENCL, device_id: index as i32 };
            // OpenCL tells no one how much of it is free.
            let info = DeviceInfo { device: pair, total_memory: device.memory, free_memory: 0 };
            show(info, &device.name);
        }
    }

    fn detect_pointer(&self, _address: u64) -> Option<PointerInfo> {
        // A cl_mem is no address, and asking it what it is would be to read there.
        None
    }

    fn admit(&self, errand: &Errand<'_>, route: Route) -> Result<Route> {
        let f = functions()?;
        if errand.target.device_type == device_type::OPENCL
            && devices::device(errand.target.device_id).is_none()
        {
            return Err(no_such_device(errand.target));
        }
        // SAFETY: the caller of the library vouches for its handles.
        unsafe {
            let source = End::of(f, errand.source, true)?;
            let destination = match errand.destination {
                Some(place) => Some(End::of(f, place, false)?),
                None => None,
            };
            let orders = Orders::of(f, &errand.streams)?;
            orders.check_source(&source)?;
            let here = match &destination {
                Some(end) => {
                    orders.check_destination(end.context())?;
                    end.lane().cloned()
                }
                None if is_host_readable(errand.target) => None,
                None => Some(result_lane(
                    f,
                    errand.target,
                    errand.source.device,
                    source.lane(),
                    orders.destination,
                )?),
            };
            if let (End::Device { buffer, .. }, Some(End::Device { buffer: other, .. }), Some(place)) =
                (&source, &destination, errand.destination)
                && buffer.mem != other.mem
                && buffer.whole == other.whole
            {
                // Two parts of one buffer.
                let span =
                    |place: &Place, origin: usize| place.begin + origin as i64..place.end + origin as i64;
                let (from, to) = (span(errand.source, buffer.origin), span(place, other.origin));
                if from.start < to.end && to.start < from.end {
                    return Err(Error::SourceOverlaps);
                }
            }
            Ok(match (source.lane(), here) {
                (Some(from), Some(to)) if from.context != to.context => Route::Staged,
                (Some(from), Some(to)) if from.device != to.device => Route::Peer,
                (Some(_), Some(_)) => Route::Device,
                _ => route,
            })
        }
    }

    fn verify(&self, place: &Place) -> Result<()> {
        let f = functions()?;
        // SAFETY: the caller of the library vouches for its handles.
        unsafe { verify(f, &Buffer::of(f, place, "source")?, place.device) }
    }

    fn allocate(&self, wanted: &Wanted<'_>) -> Result<Memory> {
        let f = functions()?;
        let Wanted { device, size, alignment, .. } = *wanted;
        let out_of_memory = Error::OutOfMemory { device, bytes: size, alignment };
        let bytes = usize::try_from(size).map_err(|_| out_of_memory)?;
        // SAFETY: the caller of the library vouches for its handles; the buffer is new.
        unsafe {
            let source = match wanted.source {
                Some(place) if place.device.device_type == device_type::OPENCL => {
                    End::of(f, place, true)?.lane().cloned()
                }
                _ => None,
            };
            let from = wanted.source.map_or(device, |place| place.device);
            let queue = queue_of(f, wanted.stream, "options.dst_stream")?;
            let lane = result_lane(f, device, from, source.as_ref(), queue)?;
            let mut code = 0;
            let mem = (f.clCreateBuffer)(lane.context, CL_MEM_READ_WRITE, bytes, null_mut(), &mut code);
            match code {
                0 => {}
                // Not enough, or more than the device has in one piece.
                -4 | -6 | -61 => return Err(out_of_memory),
                code => return Err(driver::failed("clCreateBuffer", code)),
            }
            let buffer = Buffer::new(f, mem, lane.context, CL_MEM_READ_WRITE);
            if wanted.zeroed {
                let (zero, mut event) = (0u8, null_mut());
                let zero = (&raw const zero).cast();
                call!(
                    f,
                    clEnqueueFillBuffer(lane.queue, mem, zero, 1, 0, bytes, 0, std::ptr::null(), &mut event)
                )?;
                lane.wait(&Event::new(f, event))?;
            }
            let kept = Box::new(Kept { _buffer: buffer, _lane: lane });
            Memory::of_device(mem as usize as u64, bytes, kept).ok_or(out_of_memory)
        }
    }

    unsafe fn transfer(
        &self,
        job: &Transfer<'_>,
        source: &Place,
        destination: &Place,
        streams: &Streams,
    ) -> Result<()> {
        let f = functions()?;
        // SAFETY: the caller vouches for both places, and admit() has looked at their handles.
        unsafe {
            let from = End::of(f, source, true)?;
            let to = End::of(f, destination, false)?;
            let orders = Orders::of(f, streams)?;
            let source_markers = orders.before(&from)?;
            let destination_markers = if destination.fresh { Vec::new() } else { orders.before(&to)? };
            let (before, after) =
                ((&from, source, &source_markers[..]), (&to, destination, &destination_markers[..]));
            let done = match direct(job, before, after, streams.asynchronous)? {
                Some(done) => done,
                None => match computed(job, before, after, streams.asynchronous)? {
                    Some(done) => done,
                    None => match staged(job, before, after)? {
                        Some(()) => Vec::new(),
                        None => mapped(job, before, after)?,
                    },
                },
            };
            orders.after(&to, done, streams.asynchronous)
        }
    }
}

/// What a result keeps. Fields are dropped in this order.
#[derive(Debug)]
struct Kept {
    _buffer: Buffer,
    _lane: Arc<Lane>,
}

/// What is in flight: events, and where they are.
type Done = Vec<(Arc<Lane>, Event)>;

fn functions() -> Result<&'static Functions> {
    let device = DLDevice { device_type: device_type::OPENCL, device_id: 0 };
    driver::functions().map_err(|why| Error::Unavailable { backend: NAME, device, why })
}

fn no_such_device(device: DLDevice) -> Error {
    let count = devices::devices().map_or(0, |devices| devices.len());
    Error::NoSuchDevice { device, count, kind: "OpenCL" }
}

/// One side of a job.
enum End {
    /// At an address.
    Host,
    /// In a buffer.
    Device { buffer: Buffer, lane: Arc<Lane> },
}

impl End {
    /// # Safety
    /// The place's data is what its device says.
    unsafe fn of(f: &'static Functions, place: &Place, is_source: bool) -> Result<End> {
        if is_host_readable(place.device) {
            return Ok(End::Host);
        }
        // SAFETY: it is a cl_mem.
        unsafe {
            let role = if is_source { "source" } else { "destination" };
            let mut buffer = Buffer::of(f, place, role)?;
            if is_source {
                buffer = buffer.readable()?;
            }
            let devices = devices_of(f, buffer.context)?;
            let declared = devices::device(place.device.device_id).map(|device| device.id);
            // The id is the producer's: where the context knows better, it is not trusted.
            let device = declared.filter(|id| devices.contains(id)).or(devices.first().copied());
            let device = device.ok_or(no_such_device(place.device))?;
            let lane = Lane::of(f, buffer.context, device)?;
            Ok(End::Device { buffer, lane })
        }
    }

    fn lane(&self) -> Option<&Arc<Lane>> {
        match self {
            End::Host => None,
            End::Device { lane, .. } => Some(lane),
        }
    }

    fn context(&self) -> Option<cl_context> {
        self.lane().map(|lane| lane.context)
    }
}

/// Whether a context has the device that its tensor declares.
///
/// # Safety
/// The buffer's context is valid.
unsafe fn verify(f: &Functions, buffer: &Buffer, declared: DLDevice) -> Result<()> {
    // SAFETY: as the caller says.
    let devices = unsafe { devices_of(f, buffer.context)? };
    let ids: Vec<_> = devices.into_iter().filter_map(devices::device_id).collect();
    match ids.first() {
        Some(first) if !ids.contains(&declared.device_id) => {
            Err(Error::DeclaredDevice { declared, found: DLDevice { device_id: *first, ..declared } })
        }
        _ => Ok(()),
    }
}

/// Where a new result on a device lives: in the context of the caller's queue, else in the source's,
/// else in our own.
///
/// # Safety
/// The handles are valid.
unsafe fn result_lane(
    f: &'static Functions,
    target: DLDevice,
    from: DLDevice,
    source: Option<&Arc<Lane>>,
    queue: Option<Queue>,
) -> Result<Arc<Lane>> {
    // SAFETY: as the caller says.
    unsafe {
        let wanted = devices::device(target.device_id).ok_or(no_such_device(target))?;
        if let Some(queue) = queue {
            // A part of a device has no id.
            let elsewhere = devices::device_id(queue.device).is_some_and(|id| id != target.device_id);
            if elsewhere {
                let (name, value) = ("options.dst_stream", queue.queue as i64);
                return Err(Error::Option {
                    name,
                    value,
                    expected: "a cl_command_queue of the result's device",
                });
            }
            return Lane::of(f, queue.context, queue.device);
        }
        if let Some(lane) = source {
            if target == from {
                return Ok(lane.clone());
            }
            if devices_of(f, lane.context)?.contains(&wanted.id) {
                return Lane::of(f, lane.context, wanted.id);
            }
        }
        Lane::own(f, wanted)
    }
}

/// The queue that a stream's number is; None: there is none.
///
/// # Safety
/// What is no small number is a queue.
unsafe fn queue_of(f: &Functions, stream: i64, name: &'static str) -> Result<Option<Queue>> {
    match stream {
        // Nothing to order by.
        0 | -1 => Ok(None),
        // CUDA's numbers.
        value @ (..=-2 | 1..4096) => Err(Error::Option { name, value, expected: "a cl_command_queue, or 0" }),
        // SAFETY: the caller vouches for it.
        handle => unsafe { Queue::query(f, handle as usize as cl_command_queue).map(Some) },
    }
}

/// The caller's queues of a call.
struct Orders {
    f: &'static Functions,
    source: Option<Queue>,
    destination: Option<Queue>,
}

impl Orders {
    /// # Safety
    /// The streams are what their numbers say.
    unsafe fn of(f: &'static Functions, streams: &Streams) -> Result<Orders> {
        // SAFETY: as the caller says.
        unsafe {
            let source = queue_of(f, streams.source, "options.src_stream")?;
            let destination = queue_of(f, streams.destination, "options.dst_stream")?;
            Ok(Orders { f, source, destination })
        }
    }

    fn check_source(&self, source: &End) -> Result<()> {
        match (self.source, source.context()) {
            (Some(queue), Some(context)) if queue.context != context => Err(Error::Option {
                name: "options.src_stream",
                value: queue.queue as i64,
                expected: "a cl_command_queue of the source's context",
            }),
            _ => Ok(()),
        }
    }

    fn check_destination(&self, context: Option<cl_context>) -> Result<()> {
        match (self.destination, context) {
            (Some(queue), Some(context)) if queue.context != context => Err(Error::Option {
                name: "options.dst_stream",
                value: queue.queue as i64,
                expected: "a cl_command_queue of the destination's context",
            }),
            _ => Ok(()),
        }
    }

    /// Events after which an end may be touched: all that is now in the caller's queues of its context.
    unsafe fn before(&self, end: &End) -> Result<Vec<Event>> {
        let Some(context) = end.context() else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        for queue in [self.source, self.destination].into_iter().flatten() {
            if queue.context == context {
                let (f, mut event) = (self.f, null_mut());
                // SAFETY: the queue is the caller's. A marker without a list is after all that precedes it,
                // in queues that are out of order too.
                unsafe {
                    call!(f, clEnqueueMarkerWithWaitList(queue.queue, 0, std::ptr::null(), &mut event))?;
                    events.push(Event::new(f, event));
                    call!(f, clFlush(queue.queue))?;
                }
            }
        }
        Ok(events)
    }

    /// Makes the result ready: by waiting, or by ordering the caller's queue after the work.
    unsafe fn after(&self, end: &End, done: Done, asynchronous: bool) -> Result<()> {
        let queue = self.destination.filter(|queue| Some(queue.context) == end.context());
        let mut outcome = Ok(());
        // Also after a failure nothing is left in flight.
        for (lane, event) in done {
            let ordered = match queue {
                Some(queue) if asynchronous && lane.context == queue.context => {
                    // SAFETY: the queue is the caller's, and the event of its context.
                    unsafe { self.order(queue, &lane, &event) }.inspect_err(|_| {
                        // What failed first is what is told.
                        let _ = lane.wait(&event);
                    })
                }
                _ => lane.wait(&event),
            };
            outcome = outcome.and(ordered);
        }
        outcome
    }

    /// Puts all that follows in a queue behind an event.
    ///
    /// # Safety
    /// The event is of the queue's context.
    unsafe fn order(&self, queue: Queue, lane: &Lane, event: &Event) -> Result<()> {
        let f = self.f;
        let (count, events) = list(std::slice::from_ref(&event.handle));
        // SAFETY: as the caller says.
        unsafe {
            call!(f, clFlush(lane.queue))?;
            call!(f, clEnqueueBarrierWithWaitList(queue.queue, count, events, null_mut()))
        }
    }
}

fn handles(events: &[Event]) -> Vec<cl_event> {
    events.iter().map(|event| event.handle).collect()
}

/// A side of a job: what it is, where, and the events that it waits for.
type Side<'a> = (&'a End, &'a Place, &'a [Event]);

/// Does a job by the driver's own copies, where those are best. The events say when they are done; None:
/// nothing was done.
///
/// # Safety
/// As [`Backend::transfer`].
unsafe fn direct(
    job: &Transfer<'_>,
    (from, source, after): Side<'_>,
    (to, destination, also_after): Side<'_>,
    asynchronous: bool,
) -> Result<Option<Done>> {
    let Some(rectangle) = Rectangle::of(job) else { return Ok(None) };
    // SAFETY: the caller vouches for both sides.
    unsafe {
        match (from, to) {
            (End::Host, End::Device { buffer, lane })
                if (!lane.unified || rectangle.is_run()) && buffer.is_mappable(true) =>
            {
                let first = rectangle.source_start(source.address()) as usize as *const c_void;
                let offset = rectangle.destination_start(destination.byte_offset) as usize;
                let done = rectangle.write(lane, first, buffer, offset, &handles(also_after))?;
                Ok(done.map(|()| Vec::new()))
            }
            (End::Device { buffer, lane }, End::Host)
                if (!lane.unified || rectangle.is_run()) && buffer.is_mappable(false) =>
            {
                let offset = rectangle.source_start(source.byte_offset) as usize;
                let first = rectangle.destination_start(destination.address()) as usize as *mut c_void;
                let done = rectangle.read(lane, buffer, offset, first, &handles(after))?;
                Ok(done.map(|()| Vec::new()))
            }
            // The device does it while the host goes on.
            (End::Device { buffer, .. }, End::Device { buffer: other, lane })
                if (asynchronous || lane.computes)
                    && buffer.context == other.context
                    && buffer.whole != other.whole =>
            {
                let mut events = handles(after);
                events.extend(handles(also_after));
                let source = (buffer, rectangle.source_start(source.byte_offset) as usize);
                let destination = (other, rectangle.destination_start(destination.byte_offset) as usize);
                let done = rectangle.copy(lane, source, destination, &events)?;
                Ok(done.map(|event| vec![(lane.clone(), event)]))
            }
            _ => Ok(None),
        }
    }
}

/// Does a job by a kernel, within a context. The event says when it is done; None: nothing was done.
///
/// # Safety
/// As [`Backend::transfer`].
unsafe fn computed(
    job: &Transfer<'_>,
    (from, source, after): Side<'_>,
    (to, destination, also_after): Side<'_>,
    asynchronous: bool,
) -> Result<Option<Done>> {
    let (End::Device { buffer, .. }, End::Device { buffer: other, lane }) = (from, to) else {
        return Ok(None);
    };
    if buffer.context != other.context || !(lane.computes || asynchronous) {
        return Ok(None);
    }
    // SAFETY: the caller vouches for both sides.
    unsafe {
        let starts = ((buffer, source.byte_offset), (other, destination.byte_offset));
        let Some(launches) = compute::launches(job, lane, starts.0, starts.1) else { return Ok(None) };
        let mut events = handles(after);
        events.extend(handles(also_after));
        let done = compute::run(&launches, job, lane, buffer, other, &events)?;
        Ok(Some(vec![(lane.clone(), done)]))
    }
}

/// Does a job between the host and a device with memory of its own, and waits. None: nothing was done.
///
/// # Safety
/// As [`Backend::transfer`].
unsafe fn staged(
    job: &Transfer<'_>,
    (from, source, after): Side<'_>,
    (to, destination, also_after): Side<'_>,
) -> Result<Option<()>> {
    let (up, host, place, end, events) = match (from, to) {
        (End::Host, End::Device { .. }) => (true, source, destination, to, also_after),
        (End::Device { .. }, End::Host) => (false, destination, source, from, after),
        _ => return Ok(None),
    };
    let End::Device { buffer, lane } = end else { return Ok(None) };
    if lane.unified {
        return Ok(None);
    }
    // SAFETY: the caller vouches for both sides.
    unsafe {
        let Some(packing) = stage::packing(job, lane, up, buffer) else { return Ok(None) };
        // Whoever has slots must not wait for others.
        for event in events {
            lane.wait(event)?;
        }
        stage::cross(job, lane, packing, up, host.address(), (buffer, place.byte_offset))
    }
}

/// Does a job by mapping its buffers. The events say when the devices have them back.
///
/// # Safety
/// As [`Backend::transfer`].
unsafe fn mapped(
    job: &Transfer<'_>,
    (from, source, after): Side<'_>,
    (to, destination, also_after): Side<'_>,
) -> Result<Done> {
    let range = |place: &Place| place.begin as usize..place.end as usize;
    let address = |place: &Place, mapped: &Mapped<'_>, range: &Range<usize>| {
        (mapped.pointer as usize as u64).wrapping_add(place.byte_offset).wrapping_sub(range.start as u64)
    };
    let on_host = |place: &Place, address: u64| Place { data: address, byte_offset: 0, ..*place };
    // SAFETY: the ranges lie within their buffers, and what is mapped is as large as the job visits.
    unsafe {
        let mut done = Vec::new();
        match (from, to) {
            (End::Device { buffer, lane }, End::Device { buffer: other, .. }) if buffer.mem == other.mem => {
                // One buffer is mapped once.
                let (a, b) = (range(source), range(destination));
                let both = a.start.min(b.start)..a.end.max(b.end);
                let map = Mapped::new(lane, buffer, both.clone(), Access::Write, &handles(after), CL_TRUE)?;
                let source = on_host(source, address(source, &map, &both));
                let destination = on_host(destination, address(destination, &map, &both));
                Host.transfer(job, &source, &destination, &Streams::default())?;
                done.push((lane.clone(), map.unmap()?));
            }
            _ => {
                // In one queue, what is mapped last is mapped after the first: one wait is enough.
                let one_queue = match (from.lane(), to.lane()) {
                    (Some(from), Some(to)) => from.unified && Arc::ptr_eq(from, to),
                    _ => false,
                };
                let map = match from {
                    End::Host => None,
                    End::Device { buffer, lane } => {
                        let (range, after) = (range(source), handles(after));
                        let blocking = if one_queue { CL_FALSE } else { CL_TRUE };
                        Some((lane, Mapped::new(lane, buffer, range, Access::Read, &after, blocking)?))
                    }
                };
                let access = if destination.dense { Access::Overwrite } else { Access::Write };
                let other = match to {
                    End::Host => None,
                    End::Device { buffer, lane } => {
                        let range = range(destination);
                        Some((lane, Mapped::new(lane, buffer, range, access, &handles(also_after), CL_TRUE)?))
                    }
                };
                let place = |place: &Place, map: &Option<(&Arc<Lane>, Mapped<'_>)>| match map {
                    None => *place,
                    Some((_, map)) => on_host(place, address(place, map, &range(place))),
                };
                let streams = Streams::default();
                Host.transfer(job, &place(source, &map), &place(destination, &other), &streams)?;
                for (lane, map) in [map, other].into_iter().flatten() {
                    let unmapped = map.unmap()?;
                    if one_queue {
                        done.clear();
                    }
                    done.push((lane.clone(), unmapped));
                }
            }
        }
        Ok(done)
    }
}
