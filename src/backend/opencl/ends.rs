//! The two sides of a job: addresses of the host's, and buffers with the lanes that reach them.

use std::ffi::c_void;

use opencl3::types::*;

use super::buffer::Buffer;
use super::driver::{Functions, Why};
use super::events::Before;
use super::lane::{Held, devices_of};
use super::map::Access;
use super::order::Queue;
use super::site::Site;
use super::ways::Prospect;
use super::{NAME, devices, driver};
use crate::backend::Place;
use crate::dlpack::raw::{DLDevice, device_type};
use crate::dlpack::view::is_host_readable;
use crate::error::{Error, Result};

/// One side of a job: looked at, or with a lane to work on.
pub enum End<L = Held> {
    /// At an address.
    Host,
    /// In a buffer.
    Device { buffer: Buffer, lane: L },
}

/// A side of a job: what it is, where, and the events that it waits for.
pub type Side<'a> = (&'a End, &'a Place, &'a Before);

impl End<Site> {
    /// Looks at a side.
    ///
    /// # Safety
    /// The place's data is what its device says.
    pub unsafe fn look(f: &'static Functions, place: &Place, is_source: bool) -> Result<End<Site>> {
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
            let declared = devices::device(place.device.device_id)?.map(|device| device.id);
            // The id is the producer's: where the context knows better, it is not trusted.
            let device = declared.filter(|id| devices.contains(id)).or(devices.first().copied());
            let Some(device) = device else { return Err(no_such_device(place.device)?) };
            let lane = Site::of(f, buffer.context, device)?;
            Ok(End::Device { buffer, lane })
        }
    }
}

impl End {
    /// A side to work on.
    ///
    /// # Safety
    /// The place's data is what its device says.
    pub unsafe fn of(f: &'static Functions, place: &Place, is_source: bool) -> Result<End> {
        // SAFETY: as the caller says; the buffer keeps its context.
        unsafe {
            Ok(match End::look(f, place, is_source)? {
                End::Host => End::Host,
                End::Device { buffer, lane } => End::Device { buffer, lane: Held::of(&lane)? },
            })
        }
    }

    /// Of a buffer.
    pub fn lane(&self) -> Option<&Held> {
        match self {
            End::Host => None,
            End::Device { lane, .. } => Some(lane),
        }
    }
}

impl<L: AsRef<Site>> End<L> {
    /// Of a buffer.
    pub fn site(&self) -> Option<&Site> {
        match self {
            End::Host => None,
            End::Device { lane, .. } => Some(lane.as_ref()),
        }
    }

    /// What is there before a job; None: it is the host's.
    pub fn prospect(&self) -> Prospect<'_> {
        match self {
            End::Host => None,
            End::Device { buffer, lane } => Some((lane.as_ref(), Some(buffer))),
        }
    }

    /// Of a buffer.
    pub fn context(&self) -> Option<cl_context> {
        self.site().map(|site| site.context)
    }

    /// Whether the host may work there, and it is its memory.
    pub fn is_open(&self, access: Access) -> bool {
        match self {
            End::Host => true,
            End::Device { buffer, lane } => lane.as_ref().traits.unified && access.is_allowed(buffer),
        }
    }
}

/// The driver's functions.
pub fn functions() -> Result<&'static Functions> {
    driver::functions()?.map_err(unavailable)
}

fn unavailable(why: Why) -> Error {
    let device = DLDevice { device_type: device_type::OPENCL, device_id: 0 };
    Error::Unavailable { backend: NAME, device, why }
}

/// A device's id is none.
pub fn no_such_device(device: DLDevice) -> Result<Error> {
    Ok(match devices::devices()? {
        Ok(devices) => Error::NoSuchDevice { device, count: devices.len(), kind: "OpenCL" },
        Err(why) => unavailable(why),
    })
}

/// Whether a context has the device that its tensor declares.
///
/// # Safety
/// The buffer's context is valid.
pub unsafe fn verify(f: &Functions, buffer: &Buffer, declared: DLDevice) -> Result<()> {
    let mut first = None;
    // SAFETY: as the caller says.
    for device in unsafe { devices_of(f, buffer.context)? } {
        match devices::device_id(device)? {
            Some(id) if id == declared.device_id => return Ok(()),
            id => first = first.or(id),
        }
    }
    match first {
        Some(device_id) => Err(Error::DeclaredDevice { declared, found: DLDevice { device_id, ..declared } }),
        // Parts of devices have no ids.
        None => Ok(()),
    }
}

/// Where a new result on a device lives: in the context of the caller's queue, else in the source's,
/// else in our own.
///
/// # Safety
/// The handles are valid.
pub unsafe fn result_site(
    f: &'static Functions,
    target: DLDevice,
    from: DLDevice,
    source: Option<&Site>,
    queue: Option<Queue>,
) -> Result<Site> {
    // SAFETY: as the caller says.
    unsafe {
        let Some(wanted) = devices::device(target.device_id)? else { return Err(no_such_device(target)?) };
        if let Some(queue) = queue {
            // A part of a device has no id.
            let elsewhere = devices::device_id(queue.device)?.is_some_and(|id| id != target.device_id);
            if elsewhere {
                let (name, value) = ("options.dst_stream", queue.queue as i64);
                let expected = "a cl_command_queue of the result's device";
                return Err(Error::Option { name, value, expected });
            }
            return Site::of(f, queue.context, queue.device);
        }
        if let Some(site) = source {
            if target == from {
                return Ok(*site);
            }
            if devices_of(f, site.context)?.contains(&wanted.id) {
                return Site::of(f, site.context, wanted.id);
            }
        }
        // It stays.
        Ok(*Held::own(f, wanted)?.as_ref())
    }
}

/// An address of the host's, as the driver takes it.
pub fn pointer(address: u64) -> *mut c_void {
    address as usize as *mut c_void
}
