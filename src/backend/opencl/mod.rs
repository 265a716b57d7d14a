//! OpenCL: buffers of any context, on any device.
//!
//! The driver's functions are found at the first use (`driver`), and with them the devices (`devices`).
//! A `cl_mem` is asked what it is (`buffer`), and its device what it is like (`site`); what is done in its
//! context is done on a queue of our own (`lane`), of whose commands `events` tell, in the order that the caller's
//! queues ask for (`order`). The queue goes with the last call and the last result there; programs that were loaded
//! for the context are kept for about a second more (`idle`), since whoever converts in a loop and keeps no result
//! would load them each time. The two sides of a job (`ends`) say which ways it can take (`ways`):
//!
//! - Runs and rectangles of bytes are copied by the driver (`direct`), unless the device works in the host's
//!   memory.
//! - All else within a context is done by kernels (`compute`, `program`), unless the device is the host's
//!   processor.
//! - A processor runs the host's kernels on its buffers (`native`), together with the caller (`ticket`), a small
//!   job in `pieces`; where memory is shared otherwise they are mapped for them (`map`).
//! - Between the host and a device with memory of its own, or two that share no context, jobs go through
//!   pinned slots (`stage`); what has no kernel goes there as whole spans of bytes (`spans`).

mod buffer;
mod compute;
mod devices;
mod direct;
mod driver;
mod ends;
mod events;
mod idle;
mod lane;
mod map;
mod native;
mod order;
mod pieces;
mod program;
mod site;
mod spans;
mod stage;
mod ticket;
mod ways;

use std::fmt;
use std::ptr::{null, null_mut};

use opencl3::memory::CL_MEM_READ_WRITE;

use self::buffer::Buffer;
use self::driver::call;
use self::ends::{End, functions, no_such_device, result_site, verify};
use self::events::{Before, Event};
use self::lane::Held;
use self::map::Access;
use self::order::{Orders, queue_of};
use super::shared::boxed;
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
        match devices::devices() {
            Ok(found) => found.map(|_| ()),
            // That memory is out says nothing of devices. Whatever wants them asks again, and is told.
            Err(_) => Ok(()),
        }
    }

    fn describe(&self, text: &mut dyn fmt::Write) -> fmt::Result {
        match devices::devices() {
            Err(error) => write!(text, "{error}"),
            Ok(Err(why)) => text.write_str(why),
            Ok(Ok(devices)) => {
                text.write_str("libOpenCL.so.1")?;
                for (index, device) in devices.iter().enumerate() {
                    if devices[..index].iter().all(|other| other.version != device.version) {
                        write!(text, ", {}", device.version)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn list_devices(&self, show: &mut dyn FnMut(DeviceInfo, &dyn fmt::Display)) -> Result<()> {
        let devices = devices::devices()?.unwrap_or_default();
        for (index, device) in devices.iter().enumerate() {
            let pair = DLDevice { device_type: device_type::OPENCL, device_id: index as i32 };
            // OpenCL tells no one how much of it is free.
            let info = DeviceInfo { device: pair, total_memory: device.memory, free_memory: 0 };
            show(info, &device.name);
        }
        Ok(())
    }

    fn detect_pointer(&self, _address: u64) -> Option<PointerInfo> {
        // A cl_mem is no address, and asking it what it is would be to read there.
        None
    }

    fn admit(&self, errand: &Errand<'_>, route: Route) -> Result<Route> {
        let f = functions()?;
        if errand.target.device_type == device_type::OPENCL
            && devices::device(errand.target.device_id)?.is_none()
        {
            return Err(no_such_device(errand.target)?);
        }
        // SAFETY: the caller of the library vouches for its handles.
        unsafe {
            let source = End::look(f, errand.source, true)?;
            let destination = match errand.destination {
                Some(place) => Some(End::look(f, place, false)?),
                None => None,
            };
            let orders = Orders::of(f, &errand.streams)?;
            orders.check_source(&source)?;
            let here = match &destination {
                Some(end) => {
                    orders.check_destination(end.context())?;
                    end.site().copied()
                }
                None if is_host_readable(errand.target) => None,
                None => Some(result_site(
                    f,
                    errand.target,
                    errand.source.device,
                    source.site(),
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
            Ok(match (source.site(), here) {
                (Some(from), Some(to)) if from.context != to.context => Route::Staged,
                (Some(from), Some(to)) if from.device != to.device => Route::Peer,
                (Some(_), Some(_)) => Route::Device,
                _ => route,
            })
        }
    }

    fn scratch(&self, errand: &Errand<'_>, job: &Transfer<'_>) -> Result<u64> {
        let f = functions()?;
        // SAFETY: the caller of the library vouches for its handles.
        unsafe {
            let is_restricted = |place| buffer::is_restricted(f, place);
            if devices::devices()?.unwrap_or_default().iter().all(|device| device.traits.unified)
                && !is_restricted(errand.source)?
                && !errand.destination.map_or(Ok(false), is_restricted)?
            {
                // Nothing to look at.
                return Ok(0);
            }
            let source = End::look(f, errand.source, true)?;
            let destination = match errand.destination {
                Some(place) => Some(End::look(f, place, false)?),
                None => None,
            };
            let queue = queue_of(f, errand.streams.destination, "options.dst_stream")?;
            let made = match &destination {
                None if !is_host_readable(errand.target) => {
                    let (target, from) = (errand.target, errand.source.device);
                    Some(result_site(f, target, from, source.site(), queue)?)
                }
                _ => None,
            };
            let to = destination.as_ref().and_then(End::prospect).or(made.as_ref().map(|site| (site, None)));
            let access = errand.destination.map_or(Access::Overwrite, Access::to);
            Ok(ways::scratch(job, source.prospect(), to, access))
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
                    End::look(f, place, true)?.site().copied()
                }
                _ => None,
            };
            let from = wanted.source.map_or(device, |place| place.device);
            let queue = queue_of(f, wanted.stream, "options.dst_stream")?;
            let lane = Held::of(&result_site(f, device, from, source.as_ref(), queue)?)?;
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
                call!(f, clEnqueueFillBuffer(lane.queue, mem, zero, 1, 0, bytes, 0, null(), &mut event))?;
                lane.wait(&Event::new(f, event))?;
            }
            let kept = boxed(Kept { _buffer: buffer, _lane: lane })?;
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
            let before = orders.before(&from)?;
            let also = if destination.fresh { Before::default() } else { orders.before(&to)? };
            let sides = ((&from, source, &before), (&to, destination, &also));
            let done = ways::go(job, sides.0, sides.1, streams.asynchronous)?;
            orders.after(&to, done, streams.asynchronous)
        }
    }
}

/// What a result keeps. Fields are dropped in this order.
#[derive(Debug)]
struct Kept {
    _buffer: Buffer,
    _lane: Held,
}
