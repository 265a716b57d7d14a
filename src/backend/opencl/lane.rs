//! A context and a device with a queue of our own, on which everything of ours there is done.

use std::ops::Deref;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use opencl3::context::context::{CL_CONTEXT_DEVICES, CL_CONTEXT_NUM_DEVICES};
use opencl3::device::{
    CL_DEVICE_ENDIAN_LITTLE, CL_DEVICE_EXECUTION_CAPABILITIES, CL_DEVICE_HOST_UNIFIED_MEMORY,
    CL_DEVICE_MAX_WORK_GROUP_SIZE, CL_DEVICE_TYPE, CL_DEVICE_TYPE_CPU, CL_EXEC_NATIVE_KERNEL,
};
use opencl3::types::*;

use super::devices::Device;
use super::driver::{Functions, call, info, make};
use super::events::Event;
use super::program::Programs;
use super::stage::Pinned;
use crate::backend::kernels::GROUP;
use crate::backend::shared::{Shared, list_of, reserve};
use crate::backend::staging::Rings;
use crate::error::Result;

/// A device of a context, with an in-order queue. It keeps its context alive.
pub struct Lane {
    /// The driver's functions.
    pub f: &'static Functions,
    /// Retained.
    pub context: cl_context,
    /// One of the context's.
    pub device: cl_device_id,
    /// Ours, in order.
    pub queue: cl_command_queue,
    /// Held while a buffer's mapping is enqueued, see [`super::map`].
    pub maps: Mutex<()>,
    /// Whether the host reaches the device's memory where it is, so that mapping copies nothing.
    pub unified: bool,
    /// Whether the device runs functions of the host on its buffers.
    pub native: bool,
    /// Whether kernels are best at what stays on the device; the host is on a processor.
    pub computes: bool,
    /// Whether it has groups as large as the kernels', and their order of bytes.
    pub has_groups: bool,
    /// Those that have been used.
    pub programs: Programs,
    /// What the host's memory meets the device's through.
    pub rings: Rings<Pinned>,
}

// SAFETY: contexts and queues may be used from any thread.
unsafe impl Send for Lane {}
// SAFETY: as above.
unsafe impl Sync for Lane {}

/// A lane for as long as it is in use: by a call, or by a result that lives there. With the last use it goes,
/// and lets go of its context. What compilers made stays, see [`super::program`].
#[derive(Clone)]
pub struct Held(Option<Shared<Lane>>);

/// Those that are in use, so that each context and device has one.
static LANES: Mutex<Vec<Shared<Lane>>> = Mutex::new(Vec::new());
/// Those of our own contexts, which stay.
static OWN: Mutex<Vec<Held>> = Mutex::new(Vec::new());

fn lanes() -> MutexGuard<'static, Vec<Shared<Lane>>> {
    LANES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Held {
    /// Of a context that somebody else made.
    ///
    /// # Safety
    /// Both handles are valid, and the device is one of the context's.
    pub unsafe fn of(f: &'static Functions, context: cl_context, device: cl_device_id) -> Result<Held> {
        let mut lanes = lanes();
        if let Some(lane) = lanes.iter().find(|lane| lane.context == context && lane.device == device) {
            return Ok(Held(Some(lane.clone())));
        }
        reserve(&mut lanes, 1)?;
        // SAFETY: the handles are valid, as the caller says.
        let lane = Shared::new(unsafe { Lane::new(f, context, device)? })?;
        lanes.push(lane.clone());
        Ok(Held(Some(lane)))
    }

    /// Of the context of our own that each device has. It is made once.
    pub fn own(f: &'static Functions, device: &Device) -> Result<Held> {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = own.iter().find(|lane| lane.device == device.id) {
            return Ok(lane.clone());
        }
        reserve(&mut own, 1)?;
        // SAFETY: the device is valid; the lane keeps a reference of its own.
        let lane = unsafe {
            let context = make!(f, clCreateContext(null(), 1, &device.id, null(), null_mut()))?;
            let lane = Held::of(f, context, device.id);
            (f.clReleaseContext)(context);
            lane?
        };
        own.push(lane.clone());
        Ok(lane)
    }

    /// Whether both are one.
    pub fn is(&self, other: &Held) -> bool {
        std::ptr::eq(&**self, &**other)
    }
}

impl Deref for Held {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        let Some(lane) = &self.0 else { unreachable!("it is taken when it is dropped") };
        lane
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut lanes = lanes();
        let Some(lane) = self.0.take() else { return };
        // The list has one; nobody takes or lets go of another meanwhile.
        if lane.owners() > 2 {
            drop(lane);
            return;
        }
        let index = lanes.iter().position(|listed| std::ptr::eq(&**listed, &*lane));
        let listed = index.map(|index| lanes.swap_remove(index));
        // What the driver does about it is done without the lock.
        drop(lanes);
        drop((listed, lane));
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("context", &self.context).field("device", &self.device).finish()
    }
}

impl Lane {
    /// # Safety
    /// Both handles are valid, and the device is one of the context's.
    unsafe fn new(f: &'static Functions, context: cl_context, device: cl_device_id) -> Result<Lane> {
        // SAFETY: as the caller says.
        unsafe {
            let queue = make!(f, clCreateCommandQueue(context, device, 0))?;
            if let Err(error) = call!(f, clRetainContext(context)) {
                (f.clReleaseCommandQueue)(queue);
                return Err(error);
            }
            let is_processor = is_processor(f, device);
            Ok(Lane {
                f,
                context,
                device,
                queue,
                maps: Mutex::default(),
                unified: is_processor || is_unified(f, device),
                native: is_processor && is_native(f, device),
                computes: !is_processor,
                has_groups: has_groups(f, device),
                programs: Programs::new(f),
                rings: Rings::new(),
            })
        }
    }

    /// Waits for an event, so that what it stands for is done. Also where waiting fails, nothing of ours is
    /// left in flight if that can be helped.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: the event is valid.
        unsafe {
            let waited = call!(self.f, clWaitForEvents(1, &event.handle));
            if waited.is_err() {
                (self.f.clFinish)(self.queue);
            }
            waited
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // Slots are unmapped while there is a queue.
        drop(std::mem::take(&mut self.rings));
        self.programs.release();
        // SAFETY: both are ours, and released once. What a release fails with changes nothing here.
        unsafe {
            (self.f.clReleaseCommandQueue)(self.queue);
            (self.f.clReleaseContext)(self.context);
        }
    }
}

/// Whether a device works in the host's memory.
///
/// # Safety
/// The device is valid.
unsafe fn is_unified(f: &Functions, device: cl_device_id) -> bool {
    // SAFETY: the device is valid, and the value as large as the specification says.
    let unified = unsafe { info!(f, clGetDeviceInfo(device, CL_DEVICE_HOST_UNIFIED_MEMORY): cl_bool) };
    !asks("0") && unified.is_ok_and(|unified| unified != CL_FALSE)
}

/// Whether a device is the processor that the host's own kernels run on.
///
/// # Safety
/// The device is valid.
unsafe fn is_processor(f: &Functions, device: cl_device_id) -> bool {
    // SAFETY: the device is valid, and the value as large as the specification says.
    let kind = unsafe { info!(f, clGetDeviceInfo(device, CL_DEVICE_TYPE): cl_device_type) }.unwrap_or(0);
    kind & CL_DEVICE_TYPE_CPU != 0 && !asks("0")
}

/// Whether a device runs functions of the host.
///
/// # Safety
/// The device is valid.
unsafe fn is_native(f: &Functions, device: cl_device_id) -> bool {
    let what = CL_DEVICE_EXECUTION_CAPABILITIES;
    // SAFETY: the device is valid, and the value as large as the specification says.
    let does = unsafe { info!(f, clGetDeviceInfo(device, what): cl_device_exec_capabilities) };
    !asks("1") && does.is_ok_and(|does| does & CL_EXEC_NATIVE_KERNEL != 0)
}

/// Whether the kernels can be launched.
///
/// # Safety
/// The device is valid.
unsafe fn has_groups(f: &Functions, device: cl_device_id) -> bool {
    // SAFETY: the device is valid, and each value as large as the specification says.
    unsafe {
        let most = info!(f, clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE): usize);
        let little = info!(f, clGetDeviceInfo(device, CL_DEVICE_ENDIAN_LITTLE): cl_bool);
        most.is_ok_and(|most| most >= GROUP as usize) && little.is_ok_and(|little| little != CL_FALSE)
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

/// The devices of a context.
///
/// # Safety
/// The context is valid.
pub unsafe fn devices_of(f: &Functions, context: cl_context) -> Result<Vec<cl_device_id>> {
    // SAFETY: the context is valid, and the list has the room that is said.
    unsafe {
        let count = info!(f, clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES): cl_uint)? as usize;
        let mut devices: Vec<cl_device_id> = list_of(null_mut(), count)?;
        let size = size_of_val(devices.as_slice());
        let place = devices.as_mut_ptr().cast();
        call!(f, clGetContextInfo(context, CL_CONTEXT_DEVICES, size, place, null_mut()))?;
        Ok(devices)
    }
}
