//! Which devices there are. A device's DLPack id is its place in this order: the platforms as
//! `clGetPlatformIDs` gives them, of each the devices as `clGetDeviceIDs` gives them. It is asked once,
//! and stays the same for the process.

use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

use opencl3::device::*;
use opencl3::platform::platform::CL_PLATFORM_VERSION;
use opencl3::types::{cl_device_id, cl_platform_id, cl_ulong};

use super::driver::{Functions, Why, functions, info, text};
use super::site::Traits;
use crate::backend::shared::{list_of, reserve};
use crate::error::Result;

/// A device of some platform.
#[derive(Debug)]
pub struct Device {
    /// Its handle.
    pub id: cl_device_id,
    /// What its vendor calls it.
    pub name: String,
    /// "OpenCL 3.0 CUDA 12.8" for example: its platform's version.
    pub version: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// How it is worked with.
    pub traits: Traits,
}

// SAFETY: handles of devices are valid for the process, on every thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// Devices, or why there are none.
type Found = Result<Vec<Device>, Why>;

/// Every device, in the order of their ids; or why there is none. Fails where there is no room for the list,
/// and then asks again the next time.
pub fn devices() -> Result<Result<&'static [Device], Why>> {
    static FOUND: OnceLock<Found> = OnceLock::new();
    static ASKING: Mutex<()> = Mutex::new(());
    if FOUND.get().is_none() {
        let _one = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
        if FOUND.get().is_none() {
            let found = match functions()? {
                Err(why) => Err(why),
                // SAFETY: the functions are the driver's.
                Ok(functions) => unsafe { enumerate(functions)? },
            };
            // Nobody else sets it meanwhile.
            let _ = FOUND.set(found);
        }
    }
    let found = FOUND.get().map_or(Err(NO_PLATFORM), |found| found.as_deref().map_err(|why| *why));
    Ok(found)
}

/// The device of an id.
pub fn device(device_id: i32) -> Result<Option<&'static Device>> {
    let Ok(index) = usize::try_from(device_id) else { return Ok(None) };
    Ok(devices()?.ok().and_then(|devices| devices.get(index)))
}

/// The id of a handle.
pub fn device_id(id: cl_device_id) -> Result<Option<i32>> {
    let devices = devices()?.unwrap_or_default();
    Ok(devices.iter().position(|device| device.id == id).map(|index| index as i32))
}

const NO_PLATFORM: Why = "no OpenCL driver (ICD) is installed: there is no platform";

/// # Safety
/// `f` are the driver's functions.
unsafe fn enumerate(f: &Functions) -> Result<Found> {
    // SAFETY: every list has the room that is said.
    unsafe {
        let mut count = 0;
        if (f.clGetPlatformIDs)(0, null_mut(), &mut count) != 0 || count == 0 {
            return Ok(Err(NO_PLATFORM));
        }
        let mut platforms = list_of(null_mut(), count as usize)?;
        if (f.clGetPlatformIDs)(count, platforms.as_mut_ptr(), &mut count) != 0 {
            return Ok(Err(NO_PLATFORM));
        }
        platforms.truncate(count as usize);
        let mut found = Vec::new();
        for platform in platforms {
            let mut count = 0;
            // A platform without a device says so by an error.
            if (f.clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, 0, null_mut(), &mut count) != 0 {
                continue;
            }
            let mut ids = list_of(null_mut(), count as usize)?;
            if (f.clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, count, ids.as_mut_ptr(), &mut count) != 0 {
                continue;
            }
            ids.truncate(count as usize);
            reserve(&mut found, ids.len())?;
            for id in ids {
                found.push(describe(f, platform, id)?);
            }
        }
        Ok(if found.is_empty() { Err("the OpenCL platforms have no device") } else { Ok(found) })
    }
}

/// # Safety
/// `id` is a device of the platform.
unsafe fn describe(f: &Functions, platform: cl_platform_id, id: cl_device_id) -> Result<Device> {
    // SAFETY: each value is as large as the specification says.
    unsafe {
        Ok(Device {
            id,
            name: text(|size, place, needed| (f.clGetDeviceInfo)(id, CL_DEVICE_NAME, size, place, needed))?,
            version: text(|size, place, needed| {
                (f.clGetPlatformInfo)(platform, CL_PLATFORM_VERSION, size, place, needed)
            })?,
            memory: info!(f, clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE): cl_ulong).unwrap_or(0),
            traits: Traits::of(f, id),
        })
    }
}
