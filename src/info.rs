//! What a tensor is, as a caller sees it.
#![forbid(unsafe_code)]

use crate::consumers;
use crate::dlpack::raw::{DLDataType, DLDevice, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED};
use crate::dlpack::view::{self, TensorView};
use crate::dtype::is_subbyte;
use crate::layout::Facts;
use crate::report::consumer_names;

/// What a tensor is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Info {
    /// [`Info::C_CONTIGUOUS`] and the others.
    pub flags: u32,
    /// As declared, CPU ids normalised to 0.
    pub device: DLDevice,
    /// Type of an element.
    pub dtype: DLDataType,
    /// Number of axes.
    pub ndim: usize,
    /// Product of the extents.
    pub num_elements: i64,
    /// Bytes of the elements, packed ones counted packed.
    pub num_bytes: u64,
    /// Bytes from `data`: every element lies in `begin_offset..end_offset`.
    pub begin_offset: i64,
    /// See `begin_offset`.
    pub end_offset: i64,
    /// Largest power of two up to 4096 that divides the first element's address; 0: opaque or NULL.
    pub alignment: u32,
    /// Who takes the tensor without a copy as it stands: bits of [`consumers::Consumer`].
    pub accepted_by: u32,
}

// The numbers are the C API's.
impl Info {
    /// Compact row-major; size-1 axes and empty tensors never disqualify.
    pub const C_CONTIGUOUS: u32 = Facts::C_CONTIGUOUS;
    /// Compact column-major.
    pub const F_CONTIGUOUS: u32 = Facts::F_CONTIGUOUS;
    /// Compact under some permutation of the axes.
    pub const DENSE: u32 = Facts::DENSE;
    /// A stride of 0 on an axis longer than 1.
    pub const BROADCAST: u32 = Facts::BROADCAST;
    /// A negative stride on an axis longer than 1.
    pub const NEGATIVE_STRIDE: u32 = Facts::NEGATIVE;
    /// Two indices may share an element.
    pub const OVERLAPPING: u32 = Facts::OVERLAPPING;
    /// Some axis is 0.
    pub const EMPTY: u32 = Facts::EMPTY;
    /// It must not be written to.
    pub const READ_ONLY: u32 = 0x80;
    /// Elements of less than a byte share bytes with their neighbours.
    pub const SUBBYTE_PACKED: u32 = 0x100;
    /// By its declared device.
    pub const HOST_READABLE: u32 = view::HOST_READABLE;
    /// `data` is a handle.
    pub const OPAQUE_HANDLE: u32 = view::OPAQUE_HANDLE;
    /// Not aligned to its own element size (to the largest power of two in it).
    pub const MISALIGNED: u32 = 0x800;

    /// What a view is.
    #[inline(always)]
    pub fn of(view: &TensorView<'_>) -> Info {
        let packed = is_subbyte(view.dtype) && is_packed(view.flags);
        let flag = |holds: bool, flag: u32| if holds { flag } else { 0 };
        Info {
            flags: view.facts.bits()
                | flag(view.is_read_only(), Info::READ_ONLY)
                | flag(packed, Info::SUBBYTE_PACKED)
                | view::traits(view.device)
                | flag(view.is_misaligned(), Info::MISALIGNED),
            device: view.device,
            dtype: view.dtype,
            ndim: view.shape.len(),
            num_elements: view.num_elements,
            num_bytes: view.num_bytes,
            begin_offset: view.begin_offset,
            end_offset: view.end_offset,
            alignment: view.alignment(),
            accepted_by: consumers::accepted_by(view.candidate()),
        }
    }

    /// Whether all of these flags hold.
    pub fn is(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// The names of those who take the tensor without a copy as it stands.
    pub fn consumers(&self) -> impl Iterator<Item = &'static str> {
        consumer_names(self.accepted_by)
    }
}

/// Of elements of less than a byte, which few tensors have.
#[cold]
fn is_packed(flags: u64) -> bool {
    flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED == 0
}
