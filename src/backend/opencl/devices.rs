//! Which devices there are. A device's DLPack id is its place in this order: the platforms as
//! `clGetPlatformIDs` gives them, of each the devices as `clGetDeviceIDs` gives them. It is asked once,
//! and stays the same for the process.

use std::ptr::null_mut;
use std::sync::OnceLock;

use opencl3::device::*;
use opencl3::platform::platform::CL_PLATFORM_VERSION;
use opencl3::types::{cl_device_id, cl_ulong};

use super::driver::{Functions, Why, functions, info, text};

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
}

// SAFETY: handles of devices are valid for the process, on every thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// Every device, in the order of their ids; or why there is none.
pub fn devices() -> Result<&'static [Device], Why> {
    static DEVICES: OnceLock<Result<Vec<Device>, Why>> = OnceLock::new();
    // SAFETY: the functions are the driver's.
    DEVICES.get_or_init(|| unsafe { enumerate(functions()?) }).as_deref().map_err(|why| *why)
}

/// The device of an id.
pub fn device(device_id: i32) -> Option<&'static Device> {
    devices().ok()?.get(usize::try_from(device_id).ok()?)
}

/// The id of a handle.
pub fn device_id(id: cl_device_id) -> Option<i32> {
    devices().ok()?.iter().position(|device| device.id == id).map(|index| index as i32)
}

/// # Safety
/// `f` are the driver's functions.
unsafe fn enumerate(f: &Functions) -> Result<Vec<Device>, Why> {
    const NO_PLATFORM: Why = "no OpenCL driver (ICD) is installed: there is no platform";
    // SAFETY: every list has the room that is said.
    unsafe {
        let mut count = 0;
        if (f.clGetPlatformIDs)(0, null_mut(), &mut count) != 0 || count == 0 {
            return Err(NO_PLATFORM);
        }
        let mut platforms = vec![null_mut(); count as usize];
        if (f.clGetPlatformIDs)(count, platforms.as_mut_ptr(), &mut count) != 0 {
            return Err(NO_PLATFORM);
        }
        platforms.truncate(count as usize);
        let mut found = Vec::new();
        for platform in platforms {
            let version = text(|size, place, needed| {
                (f.clGetPlatformInfo)(platform, CL_PLATFORM_VERSION, size, place, needed)
            });
            let mut count = 0;
            // A platform without a device says so by an error.
            if (f.clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, 0, null_mut(), &mut count) != 0 {
                continue;
            }
            let mut ids = vec![null_mut(); count as usize];
            if (f.clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, count, ids.as_mut_ptr(), &mut count) != 0 {
                continue;
            }
            ids.truncate(count as usize);
            found.extend(ids.into_iter().map(|id| describe(f, id, &version)));
        }
        if found.is_empty() { Err("the OpenCL platforms have no device") } else { Ok(found) }
    }
}

/// # Safety
/// `id` is a device.
unsafe fn describe(f: &Functions, id: cl_device_id, version: &str) -> Device {
    // SAFETY: each value is as large as the specification says.
    unsafe {
        Device {
            id,
            name: text(|size, place, needed| (f.clGetDeviceInfo)(id, CL_DEVICE_NAME, size, place, needed)),
            version: version.to_owned(),
            memory: info!(f, clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE): cl_ulong).unwrap_or(0),
        }
    }
}
