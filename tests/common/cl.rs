//! OpenCL for tests: contexts and buffers that the library has not made.

// Each test crate compiles its own copy and uses a part of it.
#![allow(dead_code)]

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use opencl3::command_queue::*;
use opencl3::context::context::{create_context, release_context};
use opencl3::device::{CL_DEVICE_TYPE_ALL, get_device_ids};
use opencl3::event::{
    CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS, get_event_info, release_event, wait_for_events,
};
use opencl3::memory::*;
use opencl3::platform::platform::get_platform_ids;

/// Every device, in the order that the library documents.
pub fn devices() -> Vec<cl_device_id> {
    // PoCL's first enumerations must not run at the same time: the library's comes first.
    static DEVICES: OnceLock<Vec<usize>> = OnceLock::new();
    let enumerate = || {
        let backends = arraybridge::Context::global().backends();
        let listed = backends.iter().filter(|backend| backend.available().is_ok()).count();
        assert!(listed > 0, "the host is always there");
        let platforms = get_platform_ids().unwrap_or_default();
        let ids = |platform| get_device_ids(platform, CL_DEVICE_TYPE_ALL).unwrap_or_default();
        platforms.into_iter().flat_map(ids).map(|id| id as usize).collect()
    };
    DEVICES.get_or_init(enumerate).iter().map(|id| *id as cl_device_id).collect()
}

/// A context of somebody else's, with a queue on its first device.
pub struct Desk {
    pub context: cl_context,
    pub queue: cl_command_queue,
}

impl Desk {
    pub fn on(devices: &[cl_device_id], properties: cl_command_queue_properties) -> Desk {
        let context = create_context(devices, null(), None, null_mut()).expect("a context");
        // SAFETY: the context and the device are valid.
        let queue =
            unsafe { create_command_queue(context, devices[0], properties) }.expect("a command queue");
        Desk { context, queue }
    }

    /// None: there is no OpenCL here.
    pub fn new() -> Option<Desk> {
        let devices = devices();
        devices.first().map(|device| Desk::on(&[*device], 0))
    }

    /// A buffer with these bytes; one byte if there are none.
    pub fn buffer(&self, bytes: &[u8], flags: cl_mem_flags) -> Buffer {
        let bytes = if bytes.is_empty() { &[0] } else { bytes };
        let data = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the bytes are copied.
        let mem = unsafe { create_buffer(self.context, flags | CL_MEM_COPY_HOST_PTR, bytes.len(), data) };
        Buffer { mem: mem.expect("a buffer"), size: bytes.len() }
    }

    /// A buffer's bytes, once all that is in the queue is done.
    pub fn read(&self, mem: cl_mem, size: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; size];
        // SAFETY: the buffer has so many bytes, and so has the vector.
        unsafe {
            let place = bytes.as_mut_ptr().cast();
            let event =
                enqueue_read_buffer(self.queue, mem, CL_TRUE, 0, size, place, 0, null()).expect("a read");
            release_event(event).expect("a release");
        }
        bytes
    }

    /// A native kernel on a buffer that does nothing, while the first bytes of another one are mapped for
    /// reading, and looks for its end without sleeping: the least that a job on a processor takes of the driver.
    pub fn empty_job(&self, mem: cl_mem, beside: Option<(cl_mem, usize)>) {
        unsafe extern "C" fn nothing(_: *mut c_void) {}
        let mut address: *mut c_void = mem;
        let place = (&raw const address).cast::<c_void>();
        let size = size_of_val(&address);
        // SAFETY: the buffer has so many bytes; what is unmapped is mapped; the events are ours.
        unsafe {
            let mapped = beside.map(|(mem, bytes)| {
                let mut at = null_mut();
                let event =
                    enqueue_map_buffer(self.queue, mem, CL_FALSE, CL_MAP_READ, 0, bytes, &mut at, 0, null());
                release_event(event.expect("a map")).expect("a release");
                (mem, at)
            });
            let arguments = (&raw mut address).cast();
            let mut last =
                enqueue_native_kernel(self.queue, Some(nothing), arguments, size, 1, &mem, &place, 0, null())
                    .expect("a native kernel");
            if let Some((mem, at)) = mapped {
                release_event(last).expect("a release");
                last = enqueue_unmap_mem_object(self.queue, mem, at, 0, null()).expect("an unmap");
            }
            flush(self.queue).expect("a flush");
            let status = |event| get_event_info(event, CL_EVENT_COMMAND_EXECUTION_STATUS).expect("a status");
            while status(last).to_int() > CL_COMPLETE {
                (0..64).for_each(|_| std::hint::spin_loop());
            }
            wait_for_events(&[last]).expect("an end");
            release_event(last).expect("a release");
        }
    }

    /// As a stream of the C API.
    pub fn stream(&self) -> i64 {
        self.queue as usize as i64
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // SAFETY: both are ours.
        unsafe {
            release_command_queue(self.queue).expect("a release");
            release_context(self.context).expect("a release");
        }
    }
}

/// A buffer of ours, released with this.
pub struct Buffer {
    pub mem: cl_mem,
    pub size: usize,
}

impl Buffer {
    pub fn references(&self) -> u32 {
        references(self.mem)
    }
}

/// How many references to a buffer there are.
pub fn references(mem: cl_mem) -> u32 {
    get_mem_object_info(mem, CL_MEM_REFERENCE_COUNT).expect("a buffer").to_uint()
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the reference is ours.
        unsafe { release_mem_object(self.mem) }.expect("a release");
    }
}
