//! The managed tensors that go out: one allocation that holds the C struct, its shape and strides,
//! and what must stay alive until its deleter runs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr::NonNull;

use super::raw::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION,
    DLPACK_MINOR_VERSION, DLPackVersion, DLTensor, device_type,
};
use super::view::TensorView;
use crate::backend::Memory;
use crate::dtype::is_subbyte;
use crate::error::{Error, Result};
use crate::layout::MAX_NDIM;

/// What a tensor keeps alive.
#[derive(Debug)]
pub enum Keep {
    /// Nothing: it has no data.
    Nothing,
    /// The tensor whose memory it shares.
    Versioned(NonNull<DLManagedTensorVersioned>),
    /// Likewise, of the older generation.
    Legacy(NonNull<DLManagedTensor>),
    /// Memory that was made for it.
    Memory(Memory),
    /// Memory of the caller's, who is told when it is no longer used.
    Owner {
        /// Passed to `release`.
        owner: *mut c_void,
        /// Called once, on any thread; None: there is nothing to do.
        release: Option<unsafe extern "C" fn(*mut c_void)>,
    },
}

impl Keep {
    /// Lets go of it.
    ///
    /// # Safety
    /// Once; nothing uses the memory any more, and what it points to is still valid.
    unsafe fn release(self) {
        // SAFETY: the caller's promise is what each of these asks for.
        unsafe {
            match self {
                Keep::Nothing => {}
                Keep::Versioned(tensor) => release(tensor.as_ptr()),
                Keep::Legacy(tensor) => release_legacy(tensor.as_ptr()),
                Keep::Memory(memory) => drop(memory),
                Keep::Owner { owner, release } => {
                    if let Some(release) = release {
                        std::mem::transmute::<unsafe extern "C" fn(_), throwing::Release>(release)(owner);
                    }
                }
            }
        }
    }
}

/// Foreign functions that nobody may throw through, but C++ can: as these types, an exception ends the process
/// at the boundary, where otherwise the behaviour would be undefined.
pub(crate) mod throwing {
    use super::{DLManagedTensor, DLManagedTensorVersioned, c_void};

    pub type Deleter = unsafe extern "C-unwind" fn(*mut DLManagedTensorVersioned);
    pub type LegacyDeleter = unsafe extern "C-unwind" fn(*mut DLManagedTensor);
    pub type Release = unsafe extern "C-unwind" fn(*mut c_void);
}

/// Calls a tensor's deleter, if it has one. Safe for any major version: the deleter's place is part
/// of every one.
///
/// # Safety
/// `tensor` is NULL or a managed tensor that the caller owns, which it gives up.
pub unsafe fn release(tensor: *mut DLManagedTensorVersioned) {
    if tensor.is_null() {
        return;
    }
    // SAFETY: not NULL, so a managed tensor. The types differ by unwinding only.
    unsafe {
        if let Some(deleter) = (&raw const (*tensor).deleter).read_unaligned() {
            std::mem::transmute::<unsafe extern "C" fn(_), throwing::Deleter>(deleter)(tensor);
        }
    }
}

/// The same for the older generation.
///
/// # Safety
/// As [`release`].
pub unsafe fn release_legacy(tensor: *mut DLManagedTensor) {
    if tensor.is_null() {
        return;
    }
    // SAFETY: not NULL, so a managed tensor. The types differ by unwinding only.
    unsafe {
        if let Some(deleter) = (&raw const (*tensor).deleter).read_unaligned() {
            std::mem::transmute::<unsafe extern "C" fn(_), throwing::LegacyDeleter>(deleter)(tensor);
        }
    }
}

/// The two generations of managed tensors.
pub trait Generation: Sized + 'static {
    /// Fills the struct in. `context` goes to `manager_ctx`.
    fn make(dl_tensor: DLTensor, flags: u64, context: *mut c_void) -> Self;
    /// Where the deleter finds its block.
    fn context(&self) -> *mut c_void;
}

impl Generation for DLManagedTensorVersioned {
    fn make(dl_tensor: DLTensor, flags: u64, manager_ctx: *mut c_void) -> Self {
        let version = DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION };
        DLManagedTensorVersioned { version, manager_ctx, deleter: Some(delete::<Self>), flags, dl_tensor }
    }

    fn context(&self) -> *mut c_void {
        self.manager_ctx
    }
}

impl Generation for DLManagedTensor {
    fn make(dl_tensor: DLTensor, _flags: u64, manager_ctx: *mut c_void) -> Self {
        DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(delete::<Self>) }
    }

    fn context(&self) -> *mut c_void {
        self.manager_ctx
    }
}

/// Everything of a tensor but its owner. `shape` and `strides` are as long as each other.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Address or handle.
    pub data: u64,
    /// Where it is.
    pub device: DLDevice,
    /// Type of an element.
    pub dtype: DLDataType,
    /// Extents of the axes.
    pub shape: &'a [i64],
    /// Strides in elements.
    pub strides: &'a [i64],
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
    /// `DLPACK_FLAG_BITMASK_*`.
    pub flags: u64,
}

/// The block of a managed tensor, followed by its shape and its strides.
#[repr(C)]
struct Block<T> {
    tensor: T,
    keep: Keep,
    ndim: usize,
}

/// A block whose tensor is not handed out yet: first allocated, so that nothing can fail once there
/// is something to keep, then finished.
pub struct Managed<T: Generation> {
    block: NonNull<Block<T>>,
    ndim: usize,
}

impl<T: Generation> Managed<T> {
    /// Where the shape begins, which the strides follow.
    const DIMS: usize = size_of::<Block<T>>().next_multiple_of(align_of::<i64>());

    #[inline(always)]
    fn layout(ndim: usize) -> Layout {
        debug_assert!(ndim <= MAX_NDIM);
        const { assert!(align_of::<Block<T>>() >= align_of::<i64>()) };
        let size = Self::DIMS + 2 * size_of::<i64>() * ndim;
        // SAFETY: a power of two, and of at most 64 axes the size is far from what there may be.
        unsafe { Layout::from_size_align_unchecked(size, align_of::<Block<T>>()) }
    }

    /// Room for a tensor of so many axes.
    #[inline(always)]
    pub fn allocate(ndim: usize) -> Result<Managed<T>> {
        let layout = Self::layout(ndim);
        // SAFETY: the layout is not empty.
        let Some(block) = NonNull::new(unsafe { System.alloc(layout) }.cast()) else {
            let device = DLDevice { device_type: device_type::CPU, device_id: 0 };
            let (bytes, alignment) = (layout.size() as u64, layout.align() as u64);
            return Err(Error::OutOfMemory { device, bytes, alignment });
        };
        Ok(Managed { block, ndim })
    }

    /// The tensor, owned by the caller until its deleter is called. Axes of extent 1 get the compact
    /// stride, pinned and managed memory id 0, and address devices a `byte_offset` of 0.
    #[inline(always)]
    pub fn finish(self, parts: Parts<'_>, keep: Keep) -> NonNull<T> {
        debug_assert_eq!((parts.shape.len(), parts.strides.len()), (self.ndim, self.ndim));
        let block = self.block.as_ptr();
        let ndim = self.ndim;
        std::mem::forget(self);
        let mut device = parts.device;
        if super::view::is_host_readable(device) {
            device.device_id = 0;
        }
        // SAFETY: the block was allocated with room for the struct and twice ndim numbers behind it; what is read are
        // references.
        unsafe {
            let shape: *mut i64 = block.byte_add(Self::DIMS).cast();
            let strides = shape.add(ndim);
            let mut is_empty = false;
            // Few numbers: two calls to copy them take longer. Volatile, so that they are read one by one, as they
            // have just been written: wider reads would wait until that has reached the cache.
            for (axis, (extent, stride)) in parts.shape.iter().zip(parts.strides).enumerate() {
                let extent = (&raw const *extent).read_volatile();
                is_empty |= extent == 0;
                shape.add(axis).write(extent);
                strides.add(axis).write((&raw const *stride).read_volatile());
            }
            let (mut data, mut byte_offset) = (parts.data, parts.byte_offset);
            if is_empty {
                (data, byte_offset) = (0, 0);
            } else if !super::view::is_opaque(device) {
                (data, byte_offset) = (data.wrapping_add(byte_offset), 0);
            }
            let dl_tensor = DLTensor {
                data: data as usize as *mut c_void,
                device,
                ndim: ndim as i32,
                dtype: parts.dtype,
                shape,
                strides,
                byte_offset,
            };
            block.write(Block { tensor: T::make(dl_tensor, parts.flags, block.cast()), keep, ndim });
            NonNull::new_unchecked(&raw mut (*block).tensor)
        }
    }
}

/// A managed tensor over a view's own memory. What it keeps alive is asked for once nothing can fail.
pub fn share<T: Generation>(
    view: &TensorView<'_>,
    flags: u64,
    keep: impl FnOnce() -> Keep,
) -> Result<NonNull<T>> {
    let tensor = Managed::allocate(view.shape.len())?;
    let parts = Parts {
        data: view.data,
        device: view.device,
        dtype: view.dtype,
        shape: view.shape,
        strides: view.strides,
        byte_offset: view.byte_offset,
        flags,
    };
    Ok(tensor.finish(parts, keep()))
}

/// Whether the older generation, which has no flags, can carry a tensor.
pub fn check_legacy(view: &TensorView<'_>) -> Result<()> {
    if view.is_read_only() {
        return Err(Error::LegacyReadOnly);
    }
    if view.is_padded() && is_subbyte(view.dtype) {
        return Err(Error::LegacyPadded { dtype: view.dtype });
    }
    Ok(())
}

impl<T: Generation> Drop for Managed<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and never handed out: finish() forgets itself.
        unsafe { System.dealloc(self.block.as_ptr().cast(), Self::layout(self.ndim)) };
    }
}

/// The deleter of every tensor that this library hands out. Any thread, no lock, once.
unsafe extern "C" fn delete<T: Generation>(tensor: *mut T) {
    if tensor.is_null() {
        return;
    }
    // SAFETY: `tensor` came from `finish`, whose block its context points to; DLPack calls a deleter
    // once, so nothing else uses the block. The block goes first: `keep` may call foreign code.
    unsafe {
        let block: *mut Block<T> = (*tensor).context().cast();
        let layout = Managed::<T>::layout((*block).ndim);
        // By itself: to move what may be any of them takes longer.
        if let Keep::Versioned(source) = (*block).keep {
            System.dealloc(block.cast(), layout);
            return release(source.as_ptr());
        }
        let keep = (&raw const (*block).keep).read();
        System.dealloc(block.cast(), layout);
        keep.release();
    }
}
