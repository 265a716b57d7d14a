//! A tensor that came in: validated once, then plain data.

use std::mem::MaybeUninit;

use super::raw::{
    DLDataType, DLDevice, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, DLPACK_FLAG_BITMASK_READ_ONLY,
    DLTensor, device_type,
};
use crate::consumers::Candidate;
use crate::dtype::{self, Storage};
use crate::error::{Error, Result, TensorProblem};
use crate::layout::{self, Facts, MAX_NDIM};

/// Room for the shape and strides of one [`TensorView`]. They are copied here once, so that a
/// producer that changes them meanwhile changes nothing, and nothing is allocated.
pub struct Dims {
    shape: [MaybeUninit<i64>; MAX_NDIM],
    strides: [MaybeUninit<i64>; MAX_NDIM],
}

impl Dims {
    /// Room that is not filled yet.
    pub const fn new() -> Dims {
        Dims { shape: [MaybeUninit::uninit(); MAX_NDIM], strides: [MaybeUninit::uninit(); MAX_NDIM] }
    }
}

impl Default for Dims {
    fn default() -> Dims {
        Dims::new()
    }
}

/// A borrowed tensor whose fields have passed every check of the struct itself. Whether `data`
/// points to that much memory only its producer knows.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// An address or a handle, as it came.
    pub data: u64,
    /// As declared, CPU ids normalised to 0.
    pub device: DLDevice,
    /// Type of an element.
    pub dtype: DLDataType,
    /// Extents of the axes.
    pub shape: &'a [i64],
    /// Strides in elements; compact on axes of extent 0 or 1 and in empty tensors.
    pub strides: &'a [i64],
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
    /// `DLPACK_FLAG_BITMASK_*`; 0 for a legacy tensor.
    pub flags: u64,
    /// What the strides amount to.
    pub facts: Facts,
    /// Product of the extents.
    pub num_elements: i64,
    /// Bytes of the elements, packed ones counted packed.
    pub num_bytes: u64,
    /// Bytes from `data`: every element lies in `begin_offset..end_offset`.
    pub begin_offset: i64,
    /// See `begin_offset`.
    pub end_offset: i64,
}

impl<'a> TensorView<'a> {
    /// Validates a tensor and copies its shape and strides. `role` names it in errors.
    ///
    /// # Safety
    /// `tensor` points to a readable `DLTensor`, whose `shape` and `strides`, unless NULL, point to
    /// `ndim` readable numbers each. None of them needs to be aligned.
    pub unsafe fn read(
        tensor: *const DLTensor,
        flags: u64,
        role: &'static str,
        dims: &'a mut Dims,
    ) -> Result<TensorView<'a>> {
        // SAFETY: the caller vouches for the struct.
        let tensor = unsafe { tensor.read_unaligned() };
        let refuse = |problem| Error::Tensor { role, problem };
        if tensor.ndim < 0 || tensor.ndim > MAX_NDIM as i32 {
            return Err(refuse(TensorProblem::Ndim(tensor.ndim)));
        }
        let ndim = tensor.ndim as usize;
        if tensor.shape.is_null() && ndim > 0 {
            return Err(refuse(TensorProblem::NullShape(tensor.ndim)));
        }
        // SAFETY: both pointers hold ndim numbers, NULL aside; ndim is at most MAX_NDIM.
        let (shape, strides) = unsafe {
            let shape = &*copy_numbers(tensor.shape, ndim, &mut dims.shape);
            if tensor.strides.is_null() {
                (shape, compact_strides(shape, &mut dims.strides))
            } else {
                (shape, copy_numbers(tensor.strides, ndim, &mut dims.strides))
            }
        };
        TensorView::check(tensor, flags, shape, strides).map_err(refuse)
    }

    /// Everything that can be known without touching a pointer.
    fn check(
        tensor: DLTensor,
        flags: u64,
        shape: &'a [i64],
        strides: &'a mut [i64],
    ) -> Result<TensorView<'a>, TensorProblem> {
        let DLTensor { dtype, byte_offset, .. } = tensor;
        if dtype.bits == 0 {
            return Err(TensorProblem::NoBits);
        }
        if dtype.lanes == 0 {
            return Err(TensorProblem::NoLanes);
        }
        if let Some(expected) = dtype::only_width(dtype).filter(|bits| *bits != dtype.bits) {
            return Err(TensorProblem::Bits { code: dtype.code, bits: dtype.bits, expected });
        }
        if let Some(axis) = shape.iter().position(|extent| *extent < 0) {
            return Err(TensorProblem::Extent { axis, extent: shape[axis] });
        }
        let num_elements = layout::num_elements(shape).ok_or(TensorProblem::NumElements)?;
        let storage = Storage::of(dtype, flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0);
        let num_bytes = u64::try_from((num_elements as u128 * u128::from(storage.bits)).div_ceil(8))
            .ok()
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .ok_or(TensorProblem::NumBytes(dtype))?;
        let Ok(start) = i64::try_from(byte_offset) else {
            return Err(TensorProblem::ByteOffset(byte_offset));
        };
        give_meaningless_axes_compact_strides(shape, strides);
        let facts = layout::facts(shape, strides);
        let (begin_offset, end_offset) = if facts.empty {
            (start, start)
        } else {
            let bits = i128::from(storage.bits);
            let begin = i128::from(start) + (facts.lowest * bits).div_euclid(8);
            let end = i128::from(start) + ((facts.highest + 1) * bits + 7).div_euclid(8);
            // Elements of less than a byte are addressed by bits, which must fit too.
            if dtype::is_subbyte(dtype) && (end - begin) > i128::from(i64::MAX / 8) {
                return Err(TensorProblem::Reach);
            }
            let fit = |offset: i128| i64::try_from(offset).map_err(|_| TensorProblem::Reach);
            (fit(begin)?, fit(end)?)
        };
        let data = tensor.data as usize as u64;
        if !facts.empty {
            if tensor.data.is_null() {
                return Err(TensorProblem::NullData(num_elements));
            }
            let address = i128::from(data);
            let last = i128::from(usize::MAX as u64);
            let inside = address + i128::from(begin_offset) > 0 && address + i128::from(end_offset) <= last;
            if !is_opaque(tensor.device) && !inside {
                return Err(TensorProblem::Address(data));
            }
        }
        Ok(TensorView {
            data,
            device: normalised(tensor.device),
            dtype,
            shape,
            strides,
            byte_offset,
            flags,
            facts,
            num_elements,
            num_bytes,
            begin_offset,
            end_offset,
        })
    }

    /// Address of the first element; None for handles and where there is no data.
    pub fn address(&self) -> Option<u64> {
        if self.is_opaque() || self.data == 0 { None } else { Some(self.data.wrapping_add(self.byte_offset)) }
    }

    /// Whether `data` is a handle, on which no arithmetic is done.
    pub fn is_opaque(&self) -> bool {
        is_opaque(self.device)
    }

    /// Whether the host can read the data, by its declared device.
    pub fn is_host_readable(&self) -> bool {
        is_host_readable(self.device)
    }

    /// Whether it must not be written to.
    pub fn is_read_only(&self) -> bool {
        self.flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0
    }

    /// Whether elements of less than a byte take whole bytes.
    pub fn is_padded(&self) -> bool {
        self.flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0
    }

    /// How elements lie in memory.
    pub fn storage(&self) -> Storage {
        Storage::of(self.dtype, self.is_padded())
    }

    /// Largest power of two up to 4096 that divides the first element's address; 0: opaque or NULL.
    pub fn alignment(&self) -> u32 {
        match self.address() {
            Some(address) => 1 << address.trailing_zeros().min(12),
            None => 0,
        }
    }

    /// Whether the first element is not aligned to the size of an element (to the largest power of
    /// two in it).
    pub fn is_misaligned(&self) -> bool {
        let storage = self.storage();
        let natural = if storage.is_bytes() { 1 << storage.bytes().trailing_zeros() } else { 1u64 };
        self.address().is_some_and(|address| !address.is_multiple_of(natural))
    }

    /// As the consumers' table sees it, as it stands.
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate {
            device: self.device,
            dtype: self.dtype,
            ndim: self.shape.len(),
            facts: &self.facts,
            alignment: self.alignment(),
            byte_offset: self.byte_offset != 0,
            read_only: self.is_read_only(),
            padded: self.is_padded() && dtype::is_subbyte(self.dtype),
        }
    }
}

/// Whether a device's `data` is a handle.
pub fn is_opaque(device: DLDevice) -> bool {
    use device_type::{METAL, OPENCL, VULKAN, WEB_GPU};
    matches!(device.device_type, OPENCL | VULKAN | METAL | WEB_GPU)
}

/// Whether the host can read a device's memory.
pub fn is_host_readable(device: DLDevice) -> bool {
    use device_type::{CPU, CUDA_HOST, CUDA_MANAGED, ROCM_HOST};
    matches!(device.device_type, CPU | CUDA_HOST | ROCM_HOST | CUDA_MANAGED)
}

/// The device with the id that DLPack gives a CPU.
pub fn normalised(device: DLDevice) -> DLDevice {
    if device.device_type == device_type::CPU { DLDevice { device_id: 0, ..device } } else { device }
}

/// A stride says nothing on an axis of extent 0 or 1, nor anywhere in an empty tensor: producers
/// leave garbage there.
fn give_meaningless_axes_compact_strides(shape: &[i64], strides: &mut [i64]) {
    let empty = shape.contains(&0);
    let mut step = 1i64;
    for (extent, stride) in shape.iter().zip(strides).rev() {
        if empty || *extent == 1 {
            *stride = step;
        }
        step = step.saturating_mul((*extent).max(1));
    }
}

/// Copies `len` numbers into the front of `room`.
///
/// # Safety
/// `from` points to `len` readable numbers, aligned or not, unless `len` is 0.
unsafe fn copy_numbers(from: *const i64, len: usize, room: &mut [MaybeUninit<i64>; MAX_NDIM]) -> &mut [i64] {
    for (index, place) in room[..len].iter_mut().enumerate() {
        // SAFETY: index is below len.
        place.write(unsafe { from.add(index).read_unaligned() });
    }
    // SAFETY: the loop wrote all of it.
    unsafe { room[..len].assume_init_mut() }
}

fn compact_strides<'a>(shape: &[i64], room: &'a mut [MaybeUninit<i64>; MAX_NDIM]) -> &'a mut [i64] {
    let room = &mut room[..shape.len()];
    for place in &mut *room {
        place.write(0);
    }
    // SAFETY: the loop wrote all of it.
    let strides = unsafe { room.assume_init_mut() };
    layout::compact_strides(shape, strides);
    strides
}
