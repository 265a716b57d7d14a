//! A context and a device with a queue of our own, on which everything of ours there is done.

use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use opencl3::command_queue::{CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE};
use opencl3::context::context::{CL_CONTEXT_DEVICES, CL_CONTEXT_NUM_DEVICES};
use opencl3::device::{
    CL_DEVICE_ENDIAN_LITTLE, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_DEVICE_MAX_WORK_GROUP_SIZE, CL_DEVICE_TYPE,
    CL_DEVICE_TYPE_CPU,
};
use opencl3::types::*;

use super::devices::Device;
use super::driver::{Functions, call, info, make};
use super::program::Programs;
use super::stage::Pinned;
use crate::backend::kernels::GROUP;
use crate::backend::staging::Rings;
use crate::error::Result;

/// A device of a context, with an in-order queue. It keeps its context alive, and is kept itself by
/// every result that lives there.
pub struct Lane {
    /// The driver's functions.
    pub f: &'static Functions,
    /// Retained.
    pub context: cl_context,
    /// One of the context's.
    pub device: cl_device_id,
    /// Ours, in order.
    pub queue: cl_command_queue,
    /// Whether the host reaches the device's memory where it is, so that mapping copies nothing.
    pub unified: bool,
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

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("context", &self.context).field("device", &self.device).finish()
    }
}

/// Those that are in use, so that each context and device has one.
static LANES: Mutex<Vec<Weak<Lane>>> = Mutex::new(Vec::new());
/// The one of somebody's context that was used last. It stays until there is another, so that calls in a
/// row on borrowed tensors make no queue and load no program each.
static LAST: Mutex<Option<Arc<Lane>>> = Mutex::new(None);
/// Those of our own contexts, which stay.
static OWN: Mutex<Vec<Arc<Lane>>> = Mutex::new(Vec::new());

impl Lane {
    /// Of a context that somebody else made.
    ///
    /// # Safety
    /// Both handles are valid, and the device is one of the context's.
    pub unsafe fn of(f: &'static Functions, context: cl_context, device: cl_device_id) -> Result<Arc<Lane>> {
        // SAFETY: as the caller says.
        let lane = unsafe { Lane::shared(f, context, device)? };
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).replace(lane.clone());
        drop(last);
        Ok(lane)
    }

    /// The one that is in use, or a new one.
    ///
    /// # Safety
    /// As [`Lane::of`].
    unsafe fn shared(f: &'static Functions, context: cl_context, device: cl_device_id) -> Result<Arc<Lane>> {
        let mut lanes = LANES.lock().unwrap_or_else(PoisonError::into_inner);
        let found = lanes.iter().filter_map(Weak::upgrade);
        if let Some(lane) = found.into_iter().find(|lane| lane.context == context && lane.device == device) {
            return Ok(lane);
        }
        lanes.retain(|lane| lane.strong_count() > 0);
        // SAFETY: the handles are valid, as the caller says.
        let lane = unsafe {
            let queue = make!(f, clCreateCommandQueue(context, device, 0))?;
            if let Err(error) = call!(f, clRetainContext(context)) {
                (f.clReleaseCommandQueue)(queue);
                return Err(error);
            }
            Arc::new(Lane {
                f,
                context,
                device,
                queue,
                unified: is_unified(f, device),
                computes: !is_processor(f, device),
                has_groups: has_groups(f, device),
                programs: Programs::new(f),
                rings: Rings::new(),
            })
        };
        lanes.push(Arc::downgrade(&lane));
        Ok(lane)
    }

    /// Of the context of our own that each device has. It is made once.
    pub fn own(f: &'static Functions, device: &Device) -> Result<Arc<Lane>> {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = own.iter().find(|lane| lane.device == device.id) {
            return Ok(lane.clone());
        }
        // SAFETY: the device is valid; the lane keeps a reference of its own.
        let lane = unsafe {
            let context = make!(f, clCreateContext(null(), 1, &device.id, null(), null_mut()))?;
            let lane = Lane::shared(f, context, device.id);
            (f.clReleaseContext)(context);
            lane?
        };
        own.push(lane.clone());
        Ok(lane)
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
    // SAFETY: the device is valid.
    unsafe { is_processor(f, device) || !acts_apart() && unified.is_ok_and(|unified| unified != CL_FALSE) }
}

/// Whether a device is the processor that the host's own kernels run on.
///
/// # Safety
/// The device is valid.
unsafe fn is_processor(f: &Functions, device: cl_device_id) -> bool {
    // SAFETY: the device is valid, and the value as large as the specification says.
    let kind = unsafe { info!(f, clGetDeviceInfo(device, CL_DEVICE_TYPE): cl_device_type) }.unwrap_or(0);
    kind & CL_DEVICE_TYPE_CPU != 0 && !acts_apart()
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

/// ARRAYBRIDGE_OPENCL_MAP=0 makes every device one with memory of its own, a processor too: an aid for
/// debugging, by which tests go the ways of GPUs, their copies and kernels.
fn acts_apart() -> bool {
    std::env::var_os("ARRAYBRIDGE_OPENCL_MAP").is_some_and(|value| value == "0")
}

/// The devices of a context.
///
/// # Safety
/// The context is valid.
pub unsafe fn devices_of(f: &Functions, context: cl_context) -> Result<Vec<cl_device_id>> {
    // SAFETY: the context is valid, and the list has the room that is said.
    unsafe {
        let count = info!(f, clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES): cl_uint)? as usize;
        let mut devices: Vec<cl_device_id> = vec![null_mut(); count];
        let size = size_of_val(devices.as_slice());
        let place = devices.as_mut_ptr().cast();
        call!(f, clGetContextInfo(context, CL_CONTEXT_DEVICES, size, place, null_mut()))?;
        Ok(devices)
    }
}

/// A caller's queue.
#[derive(Clone, Copy)]
pub struct Queue {
    /// Borrowed for a call.
    pub queue: cl_command_queue,
    /// Where it is.
    pub context: cl_context,
    /// What works on it.
    pub device: cl_device_id,
}

impl Queue {
    /// Asks a queue where it is.
    ///
    /// # Safety
    /// The queue is valid.
    pub unsafe fn query(f: &Functions, queue: cl_command_queue) -> Result<Queue> {
        // SAFETY: the queue is valid.
        unsafe {
            let context = info!(f, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT): cl_context)?;
            let device = info!(f, clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE): cl_device_id)?;
            Ok(Queue { queue, context, device })
        }
    }
}

/// An event that is released when this is dropped.
pub struct Event {
    f: &'static Functions,
    /// Valid while this lives.
    pub handle: cl_event,
}

impl Event {
    /// Takes over an event that a command gave.
    ///
    /// # Safety
    /// It is valid, and nobody else releases it.
    pub unsafe fn new(f: &'static Functions, handle: cl_event) -> Event {
        Event { f, handle }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is ours, and released once.
        unsafe { (self.f.clReleaseEvent)(self.handle) };
    }
}

/// The handles of events, as the driver takes them: how many, and where; none is NULL.
pub fn list(events: &[cl_event]) -> (cl_uint, *const cl_event) {
    if events.is_empty() { (0, null()) } else { (events.len() as cl_uint, events.as_ptr()) }
}
