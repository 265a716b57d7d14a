//! A device of a context, and how it is best worked with. To know it takes no queue.

use opencl3::device::{
    CL_DEVICE_ENDIAN_LITTLE, CL_DEVICE_EXECUTION_CAPABILITIES, CL_DEVICE_HOST_UNIFIED_MEMORY,
    CL_DEVICE_MAX_WORK_GROUP_SIZE, CL_DEVICE_TYPE, CL_DEVICE_TYPE_CPU, CL_EXEC_NATIVE_KERNEL,
};
use opencl3::types::*;

use super::devices;
use super::driver::{Functions, info};
use crate::backend::kernels::GROUP;
use crate::error::Result;

/// A device of a context, both borrowed.
#[derive(Clone, Copy)]
pub struct Site {
    /// The driver's functions.
    pub f: &'static Functions,
    /// Where it is.
    pub context: cl_context,
    /// One of the context's.
    pub device: cl_device_id,
    /// What the device is like.
    pub traits: Traits,
}

impl Site {
    /// # Safety
    /// Both handles are valid, and the device is one of the context's.
    pub unsafe fn of(f: &'static Functions, context: cl_context, device: cl_device_id) -> Result<Site> {
        let listed = devices::devices()?.unwrap_or_default().iter().find(|listed| listed.id == device);
        let traits = match listed {
            Some(listed) => listed.traits,
            // A part of a device. SAFETY: it is valid, as the caller says.
            None => unsafe { Traits::of(f, device) },
        };
        Ok(Site { f, context, device, traits })
    }
}

impl AsRef<Site> for Site {
    fn as_ref(&self) -> &Site {
        self
    }
}

/// What a device is like. What it does not tell has a default.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Whether the host reaches its memory where it is, so that mapping copies nothing.
    pub unified: bool,
    /// Whether it runs functions of the host on its buffers.
    pub native: bool,
    /// Whether kernels are best at what stays on it; the host is on a processor.
    pub computes: bool,
    /// Whether it has groups as large as the kernels', and their order of bytes.
    pub has_groups: bool,
}

impl Traits {
    /// Asks a device.
    ///
    /// # Safety
    /// It is valid.
    pub unsafe fn of(f: &Functions, device: cl_device_id) -> Traits {
        // SAFETY: the device is valid, and each value as large as the specification says.
        unsafe {
            let kind = info!(f, clGetDeviceInfo(device, CL_DEVICE_TYPE): cl_device_type).unwrap_or(0);
            let what = CL_DEVICE_EXECUTION_CAPABILITIES;
            let does = info!(f, clGetDeviceInfo(device, what): cl_device_exec_capabilities).unwrap_or(0);
            let what = CL_DEVICE_HOST_UNIFIED_MEMORY;
            let unified = info!(f, clGetDeviceInfo(device, what): cl_bool).unwrap_or(CL_FALSE);
            let most = info!(f, clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE): usize);
            let little = info!(f, clGetDeviceInfo(device, CL_DEVICE_ENDIAN_LITTLE): cl_bool);
            let is_processor = kind & CL_DEVICE_TYPE_CPU != 0 && !asks("0");
            Traits {
                unified: is_processor || unified != CL_FALSE && !asks("0"),
                native: is_processor && does & CL_EXEC_NATIVE_KERNEL != 0 && !asks("1"),
                computes: !is_processor,
                has_groups: most.is_ok_and(|most| most >= GROUP as usize)
                    && little.is_ok_and(|little| little != CL_FALSE),
            }
        }
    }
}

/// An aid for debugging, by which tests go every way on one device. ARRAYBRIDGE_OPENCL_MAP=0 makes every
/// device one with memory of its own, a processor too, which goes the ways of GPUs, their copies and kernels;
/// with 1 a processor's buffers are mapped also where it runs functions of the host.
fn asks(way: &str) -> bool {
    // Not std::env::var, which has to have memory.
    // SAFETY: the name ends with NUL; the value is read at once.
    unsafe {
        let value = libc::getenv(c"ARRAYBRIDGE_OPENCL_MAP".as_ptr());
        !value.is_null() && std::ffi::CStr::from_ptr(value).to_bytes() == way.as_bytes()
    }
}
