//! Versions, statuses, contexts, and what this machine has.

use std::alloc::{Layout, alloc};
use std::ffi::{c_char, c_void};
use std::fmt::Display;

use super::boundary::{boundary, clear, input, not_null, output, quietly, write_output, write_text};
use super::types::*;
use crate::backend::{DeviceInfo, MemoryKind, PointerInfo};
use crate::context::{Context, ContextOptions};
use crate::dlpack::raw::{DLDevice, device_type};
use crate::error::{Error, Result};

/// AB_ABI_MAJOR << 16 | AB_ABI_MINOR of the library that is loaded. A program may use it when the
/// major numbers are equal and the library's minor is not below its own.
#[unsafe(no_mangle)]
pub extern "C" fn ab_abi_version() -> u32 {
    AB_ABI_MAJOR << 16 | AB_ABI_MINOR
}

/// "MAJOR.MINOR.PATCH" of the library that is loaded; static.
#[unsafe(no_mangle)]
pub extern "C" fn ab_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The name of a status, "AB_E_COPY_REQUIRED" for example; "AB_E_UNKNOWN" for a number that is none.
/// Static, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn ab_status_name(status: ab_status) -> *const c_char {
    let name = match status {
        AB_OK => c"AB_OK",
        AB_E_INVALID_ARGUMENT => c"AB_E_INVALID_ARGUMENT",
        AB_E_INVALID_TENSOR => c"AB_E_INVALID_TENSOR",
        AB_E_VERSION => c"AB_E_VERSION",
        AB_E_UNSUPPORTED_DEVICE => c"AB_E_UNSUPPORTED_DEVICE",
        AB_E_UNSUPPORTED_DTYPE => c"AB_E_UNSUPPORTED_DTYPE",
        AB_E_UNSUPPORTED_LAYOUT => c"AB_E_UNSUPPORTED_LAYOUT",
        AB_E_BACKEND_UNAVAILABLE => c"AB_E_BACKEND_UNAVAILABLE",
        AB_E_COPY_REQUIRED => c"AB_E_COPY_REQUIRED",
        AB_E_READ_ONLY => c"AB_E_READ_ONLY",
        AB_E_OVERLAP => c"AB_E_OVERLAP",
        AB_E_OUT_OF_MEMORY => c"AB_E_OUT_OF_MEMORY",
        AB_E_DEVICE => c"AB_E_DEVICE",
        AB_E_LOSSY => c"AB_E_LOSSY",
        AB_E_INTERNAL => c"AB_E_INTERNAL",
        _ => c"AB_E_UNKNOWN",
    };
    name.as_ptr()
}

/// Makes a context with limits of its own.
///
/// @param options  NULL: the defaults
/// @param out      set to the context, which the caller releases with ab_context_release; NULL on failure
/// @param error    may be NULL
/// @return AB_OK, AB_E_INVALID_ARGUMENT, AB_E_VERSION or AB_E_OUT_OF_MEMORY
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_context_create(
    options: *const ab_context_options,
    out: *mut *mut ab_context,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        not_null(out, "out", "where the context goes")?;
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            let ab_context_options { num_threads, staging_bytes, .. } = input(options, "options")?;
            let layout = Layout::new::<Context>();
            let context: *mut Context = alloc(layout).cast();
            if context.is_null() {
                let device = DLDevice { device_type: device_type::CPU, device_id: 0 };
                let (bytes, alignment) = (layout.size() as u64, layout.align() as u64);
                return Err(Error::OutOfMemory { device, bytes, alignment });
            }
            context.write(Context::new(ContextOptions { num_threads, staging_bytes }));
            out.write_unaligned(context.cast());
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `out` and `error`.
    unsafe {
        clear(out);
        boundary(error, body)
    }
}

/// Releases a context; NULL is allowed. Once, when no call uses it; what was made with it lives on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_context_release(context: *mut ab_context) {
    if !context.is_null() {
        // SAFETY: it came from ab_context_create, whose allocation is a Box's.
        quietly((), || unsafe { drop(Box::from_raw(context.cast::<Context>())) });
    }
}

/// The context that a caller means.
///
/// # Safety
/// `context` is NULL or came from ab_context_create and is not released.
pub(super) unsafe fn context_of<'a>(context: *mut ab_context) -> &'a Context {
    if context.is_null() {
        Context::global()
    } else {
        // SAFETY: the caller vouches for it.
        unsafe { &*context.cast::<Context>() }
    }
}

/// Lists the backends that are built in or registered, usable or not.
///
/// @param context   NULL: the default context
/// @param out       an array of `capacity` entries; the first one's struct_size is the stride. NULL when
///                  capacity is 0
/// @param capacity  entries at most
/// @param count     set to the number of backends there are, however many were written
/// @param error     may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_list_backends(
    context: *mut ab_context,
    out: *mut ab_backend_info,
    capacity: usize,
    count: *mut usize,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        // SAFETY: the caller vouches for its pointers.
        unsafe {
            let mut list = List::new(out, capacity, count)?;
            for backend in context_of(context).backends() {
                let mut info = ab_backend_info {
                    struct_size: 0,
                    available: backend.available().is_ok().into(),
                    name: [0; 32],
                    detail: [0; 256],
                };
                put_text(&mut info.name, &backend.name());
                put_text(&mut info.detail, &Described(*backend));
                list.push(info);
            }
            list.finish();
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Lists the devices of the backends that are usable here. Starts their drivers.
///
/// @param context   NULL: the default context
/// @param out       an array of `capacity` entries; the first one's struct_size is the stride. NULL when
///                  capacity is 0
/// @param capacity  entries at most
/// @param count     set to the number of devices there are, however many were written
/// @param error     may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_list_devices(
    context: *mut ab_context,
    out: *mut ab_device_info,
    capacity: usize,
    count: *mut usize,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        // SAFETY: the caller vouches for its pointers.
        unsafe {
            let mut list = List::new(out, capacity, count)?;
            for backend in context_of(context).backends() {
                backend.list_devices(&mut |device, name| {
                    let DeviceInfo { device, total_memory, free_memory } = device;
                    let mut info = ab_device_info {
                        struct_size: 0,
                        reserved: 0,
                        device,
                        name: [0; 128],
                        backend: [0; 32],
                        total_memory,
                        free_memory,
                    };
                    put_text(&mut info.name, name);
                    put_text(&mut info.backend, &backend.name());
                    list.push(info);
                })?;
            }
            list.finish();
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Asks the drivers that are already initialised in this process what an address is. Initialises none,
/// reads nothing there. Without a driver that knows it, an address that the process has mapped is
/// AB_MEMORY_HOST, as long as no device's driver is loaded that could have mapped it.
///
/// @param context  NULL: the default context
/// @param pointer  any address; NULL is AB_MEMORY_UNKNOWN. Never an OpenCL cl_mem, which is no address
/// @param out      the answer
/// @param error    may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_detect_pointer(
    context: *mut ab_context,
    pointer: *const c_void,
    out: *mut ab_pointer_info,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        not_null(out, "out", "an ab_pointer_info")?;
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            let room = output(out, "out")?.unwrap_or(0);
            let unknown = PointerInfo { memory: MemoryKind::Unknown, device: None, base: 0, size: 0 };
            let found = context_of(context).detect_pointer(pointer as usize as u64).unwrap_or(unknown);
            let info = ab_pointer_info {
                struct_size: 0,
                memory: found.memory as i32,
                device: found.device.unwrap_or_default(),
                base: found.base,
                size: found.size,
            };
            write_output(out, room, info);
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// A caller's array of structs, whose stride is the first one's `struct_size`.
struct List<T: Sized32> {
    out: *mut T,
    capacity: usize,
    stride: usize,
    count: *mut usize,
    length: usize,
}

impl<T: Sized32> List<T> {
    /// # Safety
    /// `out` holds `capacity` entries of the size that the first one says, and `count` one number,
    /// unless they are NULL.
    unsafe fn new(out: *mut T, capacity: usize, count: *mut usize) -> Result<List<T>> {
        not_null(count, "count", "where the number of entries goes")?;
        let mut stride = 0;
        if capacity > 0 {
            not_null(out, "out", "an array of capacity entries, or capacity be 0")?;
            // SAFETY: there is a first entry.
            unsafe {
                output(out, "out[0]")?;
                stride = out.cast::<u32>().read_unaligned() as usize;
            }
        }
        Ok(List { out, capacity, stride, count, length: 0 })
    }

    /// # Safety
    /// As [`List::new`].
    unsafe fn push(&mut self, entry: T) {
        if self.length < self.capacity {
            // SAFETY: the entry is within the caller's array.
            unsafe {
                let place = self.out.byte_add(self.length * self.stride);
                place.cast::<u32>().write_unaligned(self.stride as u32);
                write_output(place, self.stride.min(size_of::<T>()), entry);
            }
        }
        self.length += 1;
    }

    /// # Safety
    /// As [`List::new`].
    unsafe fn finish(self) {
        // SAFETY: not NULL.
        unsafe { self.count.write_unaligned(self.length) };
    }
}

/// Writes a text into an array of C characters, NUL at its end.
fn put_text<const N: usize>(array: &mut [c_char; N], text: &dyn Display) {
    let mut bytes = [0u8; N];
    write_text(&mut bytes, format_args!("{text}"));
    *array = bytes.map(|byte| byte as c_char);
}

struct Described(&'static dyn crate::backend::Backend);

impl Display for Described {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.describe(f)
    }
}
