//! A tensor that was validated, but for where it lies: one that is like it passes every check again.

use super::raw::{DLDataType, DLTensor, device_type};
use super::view::TensorView;

/// The most axes of such a tensor.
pub const MOST_NDIM: usize = 8;

/// What a tensor of the host's own memory must be like.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    ndim: i32,
    dtype: DLDataType,
    flags: u64,
    /// Bytes from its first element between which all of them lie.
    begin: i64,
    end: i64,
    /// Whether it may come without strides.
    is_row_major: bool,
    axes: Axes,
}

/// Of each axis, side by side.
#[derive(Clone, Copy, Debug)]
struct Axes {
    extents: [i64; MOST_NDIM],
    strides: [i64; MOST_NDIM],
    /// The bits of a stride that say something: none on an axis of extent 1.
    says: [i64; MOST_NDIM],
}

impl Known {
    /// Of no tensor.
    pub const NONE: Known = Known {
        ndim: 0,
        dtype: DLDataType { code: 0, bits: 0, lanes: 0 },
        flags: 0,
        begin: 0,
        end: 0,
        is_row_major: false,
        axes: Axes { extents: [0; MOST_NDIM], strides: [0; MOST_NDIM], says: [0; MOST_NDIM] },
    };

    /// Whether tensors like that are known again.
    #[inline]
    pub fn can_be(view: &TensorView<'_>) -> bool {
        (1..=MOST_NDIM).contains(&view.shape.len())
            && view.device.device_type == device_type::CPU
            && !view.facts.is_empty()
    }

    /// Becomes that of a tensor which can be. In place, for it is more than is written.
    pub fn set(&mut self, view: &TensorView<'_>) {
        self.ndim = view.shape.len() as i32;
        self.dtype = view.dtype;
        self.flags = view.flags;
        self.begin = view.begin_offset - view.byte_offset as i64;
        self.end = view.end_offset - view.byte_offset as i64;
        self.is_row_major = view.facts.is_c_contiguous();
        for (axis, (&extent, &stride)) in view.shape.iter().zip(view.strides).enumerate() {
            self.axes.extents[axis] = extent;
            self.axes.strides[axis] = stride;
            self.axes.says[axis] = if extent == 1 { 0 } else { !0 };
        }
    }

    /// Whether a tensor is like it.
    pub fn is_like(&self, view: &TensorView<'_>) -> bool {
        let ndim = self.ndim as usize;
        (ndim, self.dtype, self.flags, self.end)
            == (view.shape.len(), view.dtype, view.flags, view.end_offset - view.byte_offset as i64)
            && view.device.device_type == device_type::CPU
            && self.axes.extents[..ndim] == *view.shape
            && self.axes.strides[..ndim] == *view.strides
    }

    /// Where a tensor lies that is like it. None: it is not, or no such tensor can lie there. Each number of it is
    /// looked at once.
    ///
    /// # Safety
    /// As [`TensorView::read`].
    #[inline(always)]
    pub unsafe fn find(&self, tensor: *const DLTensor, flags: u64) -> Option<Found> {
        // SAFETY: the caller vouches for the struct.
        let DLTensor { data, device, ndim, dtype, shape, strides, byte_offset } =
            unsafe { tensor.read_unaligned() };
        let is_like = ndim == self.ndim
            && dtype == self.dtype
            && flags == self.flags
            && device.device_type == device_type::CPU
            && !shape.is_null()
            && (!strides.is_null() || self.is_row_major);
        if !is_like {
            return None;
        }
        // Most others differ there already.
        // SAFETY: there is one axis at least, for so many are known.
        if unsafe { shape.read_unaligned() } != self.axes.extents[0] {
            return None;
        }
        // SAFETY: the pointers hold ndim numbers each.
        let differs = unsafe { self.axes.differ(ndim as usize, shape, strides) };
        // As when it was validated: every offset fits 63 bits, every address the address space.
        let data = data as usize as u64;
        if differs || data == 0 || byte_offset > (i64::MAX - self.end) as u64 {
            return None;
        }
        let first = data.checked_add(byte_offset)?;
        let begin = first.checked_add_signed(self.begin).filter(|begin| *begin != 0)?;
        let end = first.checked_add_signed(self.end).filter(|end| *end <= usize::MAX as u64)?;
        Some(Found { first, begin, end })
    }
}

impl Axes {
    /// Whether a shape or its strides, unless NULL, are others. By itself, for it needs all registers.
    ///
    /// # Safety
    /// The pointers hold `ndim` numbers each, and so many are known.
    #[inline(never)]
    unsafe fn differ(&self, ndim: usize, shape: *const i64, strides: *const i64) -> bool {
        let mut differs = 0;
        // SAFETY: as the caller says.
        unsafe {
            if strides.is_null() {
                for axis in 0..ndim {
                    differs |= shape.add(axis).read_unaligned() ^ self.extents.get_unchecked(axis);
                }
                return differs != 0;
            }
            for axis in 0..ndim {
                let stride = strides.add(axis).read_unaligned() ^ self.strides.get_unchecked(axis);
                differs |= shape.add(axis).read_unaligned() ^ self.extents.get_unchecked(axis)
                    | stride & self.says.get_unchecked(axis);
            }
        }
        differs != 0
    }
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Address of its first element.
    pub first: u64,
    /// Address of its lowest byte.
    begin: u64,
    /// Address behind its highest byte.
    end: u64,
}

impl Found {
    /// Whether two tensors share no byte, as far as the ends tell.
    #[inline(always)]
    pub fn is_apart_from(&self, other: &Found) -> bool {
        self.end <= other.begin || other.end <= self.begin
    }
}
