//! Memory of results: the library's own, or from a caller's allocator.

use std::alloc::{Layout, alloc, dealloc};
use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;

use super::host::pages;
use crate::dlpack::raw::DLDevice;
use crate::dlpack::view::is_opaque;
use crate::error::{Error, Result};

/// A caller's allocator. The functions are called from any thread, and `user` must outlive every
/// result that came from it.
#[derive(Clone, Copy, Debug)]
pub struct Allocator {
    /// Passed to both functions.
    pub user: *mut c_void,
    /// Returns `size` bytes aligned to `alignment` on a device, or NULL.
    pub allocate: AllocateFn,
    /// Takes them back.
    pub deallocate: DeallocateFn,
}

/// As which they are called, so that a C++ exception ends the process at the boundary, where otherwise the
/// behaviour would be undefined.
type ThrowingAllocate = unsafe extern "C-unwind" fn(*mut c_void, i32, i32, usize, usize, i64) -> *mut c_void;
type ThrowingDeallocate = unsafe extern "C-unwind" fn(*mut c_void, i32, i32, *mut c_void, usize, i64);

/// `(user, device_type, device_id, size, alignment, stream)`
pub type AllocateFn = unsafe extern "C" fn(*mut c_void, i32, i32, usize, usize, i64) -> *mut c_void;
/// `(user, device_type, device_id, pointer, size, stream)`
pub type DeallocateFn = unsafe extern "C" fn(*mut c_void, i32, i32, *mut c_void, usize, i64);

/// Memory that goes back where it came from when this is dropped.
#[derive(Debug)]
pub struct Memory {
    pointer: NonNull<u8>,
    size: usize,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    /// Rust's allocator, which is malloc's: a block of its alignment with ours inside.
    Heap { block: NonNull<u8>, layout: Layout },
    /// Pages of its own.
    Pages(pages::Mapping),
    /// A device's: it goes back when this is dropped.
    Device { _owner: Box<dyn Any + Send + Sync> },
    /// A caller's.
    Caller { allocator: Allocator, device: DLDevice, stream: i64 },
}

/// What malloc aligns every block to.
const MALLOC_ALIGNMENT: usize = 16;

impl Memory {
    /// The library's own, on the host. `size` is not 0, `alignment` a power of two.
    pub fn on_host(device: DLDevice, size: u64, alignment: u64) -> Result<Memory> {
        let error = Error::OutOfMemory { device, bytes: size, alignment };
        let (Ok(bytes), Ok(align)) = (usize::try_from(size), usize::try_from(alignment)) else {
            return Err(error);
        };
        debug_assert!(bytes > 0);
        if pages::pays(bytes)
            && let Some(mapping) = pages::Mapping::new(bytes, align)
        {
            return Ok(Memory { pointer: mapping.start(), size: bytes, origin: Origin::Pages(mapping) });
        }
        // malloc keeps freed blocks at hand for its own alignment only: any other takes it several times
        // as long.
        let spare = align.saturating_sub(MALLOC_ALIGNMENT);
        let room = bytes.checked_add(spare).ok_or(error)?;
        let layout = Layout::from_size_align(room, MALLOC_ALIGNMENT).map_err(|_| error)?;
        // SAFETY: the layout is not empty.
        let block = NonNull::new(unsafe { alloc(layout) }).ok_or(error)?;
        // SAFETY: the first multiple of `align` is at most `spare` away.
        let pointer = unsafe { block.add(block.align_offset(align)) };
        Ok(Memory { pointer, size: bytes, origin: Origin::Heap { block, layout } })
    }

    /// A device's, by its address or handle, which is not 0. `owner` gives it back when it is dropped.
    pub fn of_device(data: u64, size: usize, owner: Box<dyn Any + Send + Sync>) -> Option<Memory> {
        let pointer = NonNull::new(data as usize as *mut u8)?;
        Some(Memory { pointer, size, origin: Origin::Device { _owner: owner } })
    }

    /// From a caller's allocator, whose answer is checked.
    pub fn from_caller(
        allocator: Allocator,
        device: DLDevice,
        size: u64,
        alignment: u64,
        stream: i64,
    ) -> Result<Memory> {
        let error = Error::OutOfMemory { device, bytes: size, alignment };
        let (Ok(bytes), Ok(align)) = (usize::try_from(size), usize::try_from(alignment)) else {
            return Err(error);
        };
        let DLDevice { device_type, device_id } = device;
        // SAFETY: the caller gave this function for this use. The types differ by unwinding only.
        let pointer = unsafe {
            let allocate = std::mem::transmute::<AllocateFn, ThrowingAllocate>(allocator.allocate);
            allocate(allocator.user, device_type, device_id, bytes, align, stream)
        };
        let pointer = NonNull::new(pointer.cast()).ok_or(error)?;
        let memory = Memory { pointer, size: bytes, origin: Origin::Caller { allocator, device, stream } };
        let address = memory.address() as usize;
        // A handle is no address.
        if is_opaque(device) || address.is_multiple_of(align) {
            Ok(memory)
        } else {
            Err(Error::AllocatorMisaligned { address, alignment: align })
        }
    }

    /// Its first byte, or its handle.
    pub fn address(&self) -> u64 {
        self.pointer.as_ptr() as usize as u64
    }

    /// Sets every byte of new memory to 0; for host memory only.
    pub fn clear(&mut self) {
        if let Origin::Pages(mapping) = &self.origin
            && mapping.is_zero()
        {
            return;
        }
        // SAFETY: the memory is ours, and `size` bytes long.
        unsafe { self.pointer.write_bytes(0, self.size) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.origin {
            // SAFETY: allocated with this layout.
            Origin::Heap { block, layout } => unsafe { dealloc(block.as_ptr(), *layout) },
            // It gives itself back.
            Origin::Pages(_) | Origin::Device { .. } => {}
            Origin::Caller { allocator, device, stream } => {
                // SAFETY: it came from this allocator, and goes back once. The types differ by unwinding only.
                unsafe {
                    let deallocate =
                        std::mem::transmute::<DeallocateFn, ThrowingDeallocate>(allocator.deallocate);
                    deallocate(
                        allocator.user,
                        device.device_type,
                        device.device_id,
                        self.pointer.as_ptr().cast(),
                        self.size,
                        *stream,
                    );
                }
            }
        }
    }
}
