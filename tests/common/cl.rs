//! OpenCL for tests: contexts and buffers that the library has not made.

// Each test crate compiles its own copy and uses a part of it.
#![allow(dead_code)]

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use opencl3::command_queue::*;
use opencl3::context::context::{create_context, release_context};
use opencl3::device::{CL_DEVICE_TYPE_ALL, get_device_ids};
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
            opencl3::event::release_event(event).expect("a release");
        }
        bytes
    }

    /// Maps the first bytes of buffers and unmaps them again, waiting once for each of the two: what every job
    /// on mapped buffers costs besides.
    pub fn map_and_unmap(&self, parts: &[(cl_mem, usize)]) {
        let mut places = [null_mut::<c_void>(); 2];
        // SAFETY: the buffers have so many bytes; what is unmapped is mapped; the events are ours.
        unsafe {
            for (index, (mem, size)) in parts.iter().enumerate() {
                let blocking = cl_bool::from(index + 1 == parts.len());
                let (access, place) = (CL_MAP_READ | CL_MAP_WRITE, &mut places[index]);
                let event =
                    enqueue_map_buffer(self.queue, *mem, blocking, access, 0, *size, place, 0, null())
                        .expect("a map");
                opencl3::event::release_event(event).expect("a release");
            }
            for (index, (mem, _)) in parts.iter().enumerate() {
                let event =
                    enqueue_unmap_mem_object(self.queue, *mem, places[index], 0, null()).expect("an unmap");
                if index + 1 == parts.len() {
                    opencl3::event::wait_for_events(&[event]).expect("an end");
                }
                opencl3::event::release_event(event).expect("a release");
            }
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
