//! The functions of `libOpenCL.so.1`, found at the first use, and what their errors become.
//!
//! opencl3 gives the types, constants and names of errors. Its own table and wrappers are not used: they
//! panic where a function is missing or a handle cannot be released.

use std::ffi::{c_char, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::OnceLock;

use opencl3::error_codes::error_text;
use opencl3::types::*;

use crate::backend::shared::{library, list_of};
use crate::error::{Error, Result};

/// Why there is no OpenCL here.
pub type Why = &'static str;

/// The library was found, but it is none that this backend can use.
pub const NO_FUNCTION: Why = "libOpenCL.so.1 lacks a function of OpenCL 1.2";

macro_rules! functions {
    ($($name:ident($($type:ty),*) -> $result:ty;)*) => {
        /// The functions that are used, all of OpenCL 1.2.
        #[allow(non_snake_case)]
        pub struct Functions {
            $(pub $name: unsafe extern "system" fn($($type),*) -> $result,)*
        }

        impl Functions {
            /// # Safety
            /// `library` is an OpenCL library that stays open.
            unsafe fn find(library: *mut c_void) -> Result<Functions, Why> {
                $(
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: the library is open and the name ends with NUL.
                    let address = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                    if address.is_null() {
                        return Err(NO_FUNCTION);
                    }
                    // SAFETY: the OpenCL specification gives the function of this name this type.
                    #[allow(non_snake_case)]
                    let $name = unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "system" fn($($type),*) -> $result>(address)
                    };
                )*
                Ok(Functions { $($name),* })
            }
        }
    };
}

/// How many events to wait for.
type Count = cl_uint;
type Events = *const cl_event;
type Event = *mut cl_event;
type Code = *mut cl_int;
type Notify = *const c_void;
type Sizes = *const usize;
type Texts = *const *const c_char;
/// What the driver runs on its own thread.
pub type NativeKernel = unsafe extern "C" fn(*mut c_void);

functions! {
    clGetPlatformIDs(cl_uint, *mut cl_platform_id, *mut cl_uint) -> cl_int;
    clGetPlatformInfo(cl_platform_id, cl_platform_info, usize, *mut c_void, *mut usize) -> cl_int;
    clGetDeviceIDs(cl_platform_id, cl_device_type, cl_uint, *mut cl_device_id, *mut cl_uint) -> cl_int;
    clGetDeviceInfo(cl_device_id, cl_device_info, usize, *mut c_void, *mut usize) -> cl_int;
    clCreateContext(*const cl_context_properties, cl_uint, *const cl_device_id, Notify, *mut c_void, Code) -> cl_context;
    clRetainContext(cl_context) -> cl_int;
    clReleaseContext(cl_context) -> cl_int;
    clGetContextInfo(cl_context, cl_context_info, usize, *mut c_void, *mut usize) -> cl_int;
    clCreateCommandQueue(cl_context, cl_device_id, cl_command_queue_properties, Code) -> cl_command_queue;
    clReleaseCommandQueue(cl_command_queue) -> cl_int;
    clGetCommandQueueInfo(cl_command_queue, cl_command_queue_info, usize, *mut c_void, *mut usize) -> cl_int;
    clCreateBuffer(cl_context, cl_mem_flags, usize, *mut c_void, Code) -> cl_mem;
    clRetainMemObject(cl_mem) -> cl_int;
    clReleaseMemObject(cl_mem) -> cl_int;
    clGetMemObjectInfo(cl_mem, cl_mem_info, usize, *mut c_void, *mut usize) -> cl_int;
    clEnqueueMapBuffer(cl_command_queue, cl_mem, cl_bool, cl_map_flags, usize, usize, Count, Events, Event, Code) -> *mut c_void;
    clEnqueueUnmapMemObject(cl_command_queue, cl_mem, *mut c_void, Count, Events, Event) -> cl_int;
    clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_bool, usize, usize, *mut c_void, Count, Events, Event) -> cl_int;
    clEnqueueReadBufferRect(cl_command_queue, cl_mem, cl_bool, Sizes, Sizes, Sizes, usize, usize, usize, usize, *mut c_void, Count, Events, Event) -> cl_int;
    clEnqueueWriteBuffer(cl_command_queue, cl_mem, cl_bool, usize, usize, *const c_void, Count, Events, Event) -> cl_int;
    clEnqueueWriteBufferRect(cl_command_queue, cl_mem, cl_bool, Sizes, Sizes, Sizes, usize, usize, usize, usize, *const c_void, Count, Events, Event) -> cl_int;
    clEnqueueCopyBufferRect(cl_command_queue, cl_mem, cl_mem, Sizes, Sizes, Sizes, usize, usize, usize, usize, Count, Events, Event) -> cl_int;
    clEnqueueCopyBuffer(cl_command_queue, cl_mem, cl_mem, usize, usize, usize, Count, Events, Event) -> cl_int;
    clEnqueueFillBuffer(cl_command_queue, cl_mem, *const c_void, usize, usize, usize, Count, Events, Event) -> cl_int;
    clCreateProgramWithSource(cl_context, cl_uint, Texts, Sizes, Code) -> cl_program;
    clCreateProgramWithBinary(cl_context, cl_uint, *const cl_device_id, Sizes, *const *const u8, *mut cl_int, Code) -> cl_program;
    clBuildProgram(cl_program, cl_uint, *const cl_device_id, *const c_char, Notify, *mut c_void) -> cl_int;
    clGetProgramBuildInfo(cl_program, cl_device_id, cl_program_build_info, usize, *mut c_void, *mut usize) -> cl_int;
    clGetProgramInfo(cl_program, cl_program_info, usize, *mut c_void, *mut usize) -> cl_int;
    clReleaseProgram(cl_program) -> cl_int;
    clCreateKernel(cl_program, *const c_char, Code) -> cl_kernel;
    clReleaseKernel(cl_kernel) -> cl_int;
    clSetKernelArg(cl_kernel, cl_uint, usize, *const c_void) -> cl_int;
    clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, Sizes, Sizes, Sizes, Count, Events, Event) -> cl_int;
    clEnqueueNativeKernel(cl_command_queue, NativeKernel, *mut c_void, usize, cl_uint, *const cl_mem, *mut *const c_void, Count, Events, Event) -> cl_int;
    clEnqueueMarkerWithWaitList(cl_command_queue, Count, Events, Event) -> cl_int;
    clEnqueueBarrierWithWaitList(cl_command_queue, Count, Events, Event) -> cl_int;
    clFlush(cl_command_queue) -> cl_int;
    clFinish(cl_command_queue) -> cl_int;
    clWaitForEvents(Count, Events) -> cl_int;
    clGetEventInfo(cl_event, cl_event_info, usize, *mut c_void, *mut usize) -> cl_int;
    clReleaseEvent(cl_event) -> cl_int;
}

/// The functions, or why there are none. The library is opened once and never closed: deleters of
/// results need it until the process ends. Fails where there was no memory to open it; it is tried again then.
pub fn functions() -> Result<Result<&'static Functions, Why>> {
    static FUNCTIONS: OnceLock<Result<Functions, Why>> = OnceLock::new();
    if FUNCTIONS.get().is_none() {
        let found = open()?;
        // Another thread may have been first, and found the same.
        FUNCTIONS.get_or_init(|| found);
    }
    Ok(FUNCTIONS.get().map_or(Err(NO_LIBRARY), |found| found.as_ref().map_err(|why| *why)))
}

const NO_LIBRARY: Why = "the library libOpenCL.so.1 cannot be opened";

fn open() -> Result<Result<Functions, Why>> {
    // SAFETY: opening a library runs its initialisers, which is what OpenCL programs do. It stays open.
    unsafe {
        Ok(match library(c"libOpenCL.so.1")? {
            Some(library) => Functions::find(library.as_ptr()),
            None => Err(NO_LIBRARY),
        })
    }
}

/// What a status of a function of the driver is to us.
pub fn check(call: &'static str, code: cl_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(failed(call, code)) }
}

/// A failure of the driver's.
#[cold]
pub fn failed(call: &'static str, code: cl_int) -> Error {
    Error::Driver { call, name: error_text(code), code: code.into() }
}

/// Calls a function of the driver that returns a status.
macro_rules! call {
    ($functions:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $crate::backend::opencl::driver::check(stringify!($name), ($functions.$name)($($argument),*))
    };
}
pub(super) use call;

/// Calls a function of the driver that makes something and has its status as its last argument.
macro_rules! make {
    ($functions:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let mut code = 0;
        let made = ($functions.$name)($($argument,)* &mut code);
        $crate::backend::opencl::driver::check(stringify!($name), code).map(|()| made)
    }};
}
pub(super) use make;

/// One number or handle of an object.
macro_rules! info {
    ($functions:expr, $name:ident($object:expr, $what:expr): $type:ty) => {{
        let mut value = std::mem::zeroed::<$type>();
        let place = (&raw mut value).cast::<std::ffi::c_void>();
        let code = ($functions.$name)($object, $what, size_of::<$type>(), place, std::ptr::null_mut());
        $crate::backend::opencl::driver::check(stringify!($name), code).map(|()| value)
    }};
}
pub(super) use info;

/// A text of a platform, device or program; empty if there is none.
pub fn text(mut ask: impl FnMut(usize, *mut c_void, *mut usize) -> cl_int) -> Result<String> {
    let mut size = 0;
    if ask(0, null_mut(), &mut size) != 0 {
        return Ok(String::new());
    }
    let mut bytes = list_of(0u8, size)?;
    if ask(size, bytes.as_mut_ptr().cast(), null_mut()) != 0 {
        return Ok(String::new());
    }
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(size));
    bytes.truncate(bytes.trim_ascii_end().len());
    bytes.drain(..bytes.len() - bytes.trim_ascii_start().len());
    if str::from_utf8(&bytes).is_err() {
        bytes.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
    }
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// A short text without a place on the heap.
pub struct Short<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Short<N> {
    /// What is written to it; None: it is too long.
    pub fn written(write: impl FnOnce(&mut Short<N>) -> fmt::Result) -> Option<Short<N>> {
        let mut text = Short { bytes: [0; N], len: 0 };
        write(&mut text).ok().map(|()| text)
    }
}

impl<const N: usize> fmt::Write for Short<N> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = self.len + more.len();
        // The last byte stays NUL.
        let room = self.bytes[..N - 1].get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(more.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl<const N: usize> std::ops::Deref for Short<N> {
    type Target = str;

    /// Followed by NUL.
    fn deref(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}
