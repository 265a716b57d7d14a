//! A tensor that came in: validated once, then plain data.

use std::mem::MaybeUninit;

use super::raw::{
    DLDataType, DLDevice, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, DLPACK_FLAG_BITMASK_READ_ONLY,
    DLTensor, device_type,
};
use crate::backend::Place;
use crate::consumers::{Candidate, Offset};
use crate::dtype::{self, Storage};
use crate::error::{Error, Result, TensorProblem};
use crate::layout::{self, Facts, MAX_NDIM, Run};

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

impl Dims {
    /// Reads a shape and its strides, and checks them; gives the number of elements too. Each number that is used
    /// is checked as it was read: one may change meanwhile. None: [`Dims::read_odd`] has to.
    ///
    /// # Safety
    /// `shape` points to `ndim` readable numbers, which is at most [`MAX_NDIM`]. `given` reads the stride of an
    /// axis; a compact one is passed to it.
    #[inline(always)]
    unsafe fn read(
        &mut self,
        shape: *const i64,
        ndim: usize,
        given: impl Fn(usize, i64) -> i64,
    ) -> Option<(i64, Facts)> {
        let (mut axis, mut count, mut long_axes) = (ndim, 1i64, 0);
        // As far as they are row-major there is less to do.
        while axis > 0 {
            // SAFETY: axis is above 0, and at most ndim.
            unsafe {
                let extent = shape.add(axis - 1).read_unaligned();
                // A stride says nothing on an axis of extent 1: producers leave garbage there.
                if extent != 1 {
                    if extent <= 0 || given(axis - 1, count) != count {
                        break;
                    }
                    long_axes += 1;
                }
                axis -= 1;
                self.shape.get_unchecked_mut(axis).write(extent);
                self.strides.get_unchecked_mut(axis).write(count);
                count = count.checked_mul(extent)?;
            }
        }
        if axis == 0 {
            return Some((count, Facts::row_major(count, long_axes)));
        }
        let mut run = Run::row_major(count, long_axes);
        while axis > 0 {
            axis -= 1;
            // SAFETY: axis is below ndim.
            unsafe {
                let extent = shape.add(axis).read_unaligned();
                let mut stride = count;
                if extent != 1 {
                    if extent <= 0 {
                        return None;
                    }
                    stride = given(axis, count);
                    run.push(extent, stride);
                }
                self.shape.get_unchecked_mut(axis).write(extent);
                self.strides.get_unchecked_mut(axis).write(stride);
                count = count.checked_mul(extent)?;
            }
        }
        // SAFETY: the loops wrote ndim of each.
        let (shape, strides) =
            unsafe { (self.shape[..ndim].assume_init_ref(), self.strides[..ndim].assume_init_ref()) };
        Some((count, run.facts(shape, strides, count)?))
    }

    /// Reads and checks likewise what has no elements, too many to count, or too long a reach.
    ///
    /// # Safety
    /// `shape` and `strides`, unless NULL, point to `ndim` readable numbers each, which is at most
    /// [`MAX_NDIM`].
    #[cold]
    unsafe fn read_odd(
        &mut self,
        shape: *const i64,
        strides: *const i64,
        ndim: usize,
    ) -> Result<(i64, Facts), TensorProblem> {
        let (mut count, mut overflows, mut smallest) = (1i64, false, 1i64);
        for axis in (0..ndim).rev() {
            // SAFETY: the pointers hold ndim numbers each, which is at most MAX_NDIM.
            unsafe {
                let extent = shape.add(axis).read_unaligned();
                let given = extent != 1 && !strides.is_null();
                let stride = if given { strides.add(axis).read_unaligned() } else { count };
                self.shape.get_unchecked_mut(axis).write(extent);
                self.strides.get_unchecked_mut(axis).write(stride);
                smallest = smallest.min(extent);
                let (product, overflowed) = count.overflowing_mul(extent);
                (count, overflows) = (product, overflows | overflowed);
            }
        }
        // SAFETY: the loop wrote ndim of each.
        let (shape, strides): (&[i64], &mut [i64]) =
            unsafe { (self.shape[..ndim].assume_init_ref(), self.strides[..ndim].assume_init_mut()) };
        if smallest <= 0 {
            if let Some(axis) = shape.iter().position(|extent| *extent < 0) {
                return Err(TensorProblem::Extent { axis, extent: shape[axis] });
            }
            // No stride of an empty tensor says anything.
            layout::compact_strides(shape, strides);
            return Ok((0, Facts::empty()));
        }
        if overflows {
            return Err(TensorProblem::NumElements);
        }
        Ok((count, layout::facts(shape, strides).ok_or(TensorProblem::Reach)?))
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
    /// See [`TensorView::address`]; 0 for None.
    pub(crate) address: u64,
    /// See [`TensorView::storage`].
    pub(crate) storage: Storage,
    /// Type of an element.
    pub dtype: DLDataType,
    /// Extents of the axes.
    pub shape: &'a [i64],
    /// Strides in elements; compact on axes of extent 0 or 1 and in empty tensors.
    pub strides: &'a [i64],
    /// Whether it came with strides.
    pub has_strides: bool,
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
    #[inline(always)]
    pub unsafe fn read(
        tensor: *const DLTensor,
        flags: u64,
        role: &'static str,
        dims: &'a mut Dims,
    ) -> Result<TensorView<'a>> {
        // SAFETY: the caller vouches for the struct.
        let DLTensor { data, device, ndim, dtype, shape, strides, byte_offset } =
            unsafe { tensor.read_unaligned() };
        let refuse = |problem| Error::Tensor { role, problem };
        if ndim < 0 || ndim > MAX_NDIM as i32 {
            return Err(refuse(TensorProblem::Ndim(ndim)));
        }
        if shape.is_null() && ndim > 0 {
            return Err(refuse(TensorProblem::NullShape(ndim)));
        }
        let ndim = ndim as usize;
        let has_strides = !strides.is_null();
        // SAFETY: the pointers hold ndim numbers each, which is at most MAX_NDIM.
        let (count, facts) = unsafe {
            let read = if has_strides {
                dims.read(shape, ndim, |axis, _| strides.add(axis).read_unaligned())
            } else {
                dims.read(shape, ndim, |_, step| step)
            };
            match read {
                Some(read) => read,
                None => dims.read_odd(shape, strides, ndim).map_err(refuse)?,
            }
        };
        // SAFETY: whichever has read them has written ndim of each.
        let (shape, strides): (&[i64], &[i64]) =
            unsafe { (dims.shape[..ndim].assume_init_ref(), dims.strides[..ndim].assume_init_ref()) };

        if dtype.bits == 0 {
            return Err(refuse(TensorProblem::NoBits));
        }
        if dtype.lanes == 0 {
            return Err(refuse(TensorProblem::NoLanes));
        }
        if let Some(expected) = dtype::only_width(dtype).filter(|bits| *bits != dtype.bits) {
            return Err(refuse(TensorProblem::Bits { code: dtype.code, bits: dtype.bits, expected }));
        }
        let storage = Storage::of(dtype, flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0);
        let Some(num_bytes) = storage.num_bytes(count) else {
            return Err(refuse(TensorProblem::NumBytes(dtype)));
        };
        let Ok(start) = i64::try_from(byte_offset) else {
            return Err(refuse(TensorProblem::ByteOffset(byte_offset)));
        };
        let offsets = if facts.is_dense() && storage.is_bytes() {
            start.checked_add(num_bytes as i64).map(|end| (start, end))
        } else {
            offsets(facts, storage, start, dtype::is_subbyte(dtype))
        };
        let Some((begin_offset, end_offset)) = offsets else {
            return Err(refuse(TensorProblem::Reach));
        };
        let (data, opaque) = (data as usize as u64, is_opaque(device));
        if !facts.is_empty() {
            if data == 0 {
                return Err(refuse(TensorProblem::NullData(count)));
            }
            // The end is behind the begin.
            let inside = if begin_offset >= 0 {
                data.checked_add(end_offset as u64).is_some_and(|end| end <= usize::MAX as u64)
            } else {
                reaches_back(data, begin_offset, end_offset)
            };
            if !inside && !opaque {
                return Err(refuse(TensorProblem::Address(data)));
            }
        }
        Ok(TensorView {
            data,
            device: normalised(device),
            address: if opaque || data == 0 { 0 } else { data.wrapping_add(byte_offset) },
            storage,
            dtype,
            shape,
            strides,
            has_strides,
            byte_offset,
            flags,
            facts,
            num_elements: count,
            num_bytes,
            begin_offset,
            end_offset,
        })
    }

    /// Address of the first element; None for handles and where there is no data.
    #[inline]
    pub fn address(&self) -> Option<u64> {
        (self.address != 0).then_some(self.address)
    }

    /// Where it is, as a backend sees it.
    #[inline(always)]
    pub fn place(&self) -> Place {
        Place {
            device: self.device,
            data: self.data,
            byte_offset: self.byte_offset,
            begin: self.begin_offset,
            end: self.end_offset,
            dense: self.facts.is_dense() && self.storage().is_bytes(),
            fresh: false,
        }
    }

    /// Whether another tensor of the same shape has the same strides.
    #[inline(always)]
    pub fn has_strides_of(&self, other: &TensorView<'_>) -> bool {
        let compact = self.facts.is_c_contiguous() && other.facts.is_c_contiguous();
        compact || self.strides.iter().eq(other.strides)
    }

    /// Whether `data` is a handle, on which no arithmetic is done.
    #[inline]
    pub fn is_opaque(&self) -> bool {
        is_opaque(self.device)
    }

    /// Whether the host can read the data, by its declared device.
    #[inline]
    pub fn is_host_readable(&self) -> bool {
        is_host_readable(self.device)
    }

    /// Whether it must not be written to.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0
    }

    /// Whether elements of less than a byte take whole bytes.
    #[inline]
    pub fn is_padded(&self) -> bool {
        self.flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0
    }

    /// How elements lie in memory.
    #[inline]
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Largest power of two up to 4096 that divides the first element's address; 0: opaque or NULL.
    #[inline]
    pub fn alignment(&self) -> u32 {
        let lowest = |address: u64| (address & address.wrapping_neg()) as u32;
        if self.address != 0 { lowest(self.address | 4096) } else { 0 }
    }

    /// Whether the first element is not aligned to the size of an element (to the largest power of
    /// two in it).
    #[inline]
    pub fn is_misaligned(&self) -> bool {
        let bits = self.storage().bits;
        // Below the lowest bit of their size; packed elements are aligned anywhere.
        let below = ((bits - 1) & !bits) >> 3;
        self.address & below != 0
    }

    /// What its `byte_offset` is.
    #[inline(always)]
    pub(crate) fn offset_kind(&self) -> Offset {
        match self.byte_offset {
            0 => Offset::Zero,
            offset => offset_kind(offset, self.has_strides, self.storage),
        }
    }

    /// As the consumers' table sees it, as it stands.
    #[inline(always)]
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate {
            device: self.device,
            dtype: self.dtype,
            ndim: self.shape.len(),
            facts: &self.facts,
            alignment: self.alignment(),
            byte_offset: self.offset_kind(),
            read_only: self.is_read_only(),
            padded: self.is_padded() && has_subbytes(self.dtype),
        }
    }
}

/// A device's memory can be read by the host.
pub const HOST_READABLE: u32 = 0x200;
/// A device's `data` is a handle.
pub const OPAQUE_HANDLE: u32 = 0x400;

/// By [`DLDevice::index`].
const TRAITS: [u32; DLDevice::INDICES] = {
    use device_type::{CPU, CUDA_HOST, CUDA_MANAGED, METAL, OPENCL, ROCM_HOST, VULKAN, WEB_GPU};
    let mut traits = [0; DLDevice::INDICES];
    let mut index = 0;
    while index < traits.len() {
        traits[index] = match index as i32 {
            CPU | CUDA_HOST | ROCM_HOST | CUDA_MANAGED => HOST_READABLE,
            OPENCL | VULKAN | METAL | WEB_GPU => OPAQUE_HANDLE,
            _ => 0,
        };
        index += 1;
    }
    traits
};

/// [`HOST_READABLE`] and [`OPAQUE_HANDLE`], as far as they hold for a device.
#[inline(always)]
pub fn traits(device: DLDevice) -> u32 {
    TRAITS[device.index()]
}

/// Whether a device's `data` is a handle.
#[inline]
pub fn is_opaque(device: DLDevice) -> bool {
    traits(device) & OPAQUE_HANDLE != 0
}

/// Whether the host can read a device's memory.
#[inline]
pub fn is_host_readable(device: DLDevice) -> bool {
    traits(device) & HOST_READABLE != 0
}

/// The device with the id that DLPack gives a CPU.
#[inline]
pub fn normalised(device: DLDevice) -> DLDevice {
    if device.device_type == device_type::CPU { DLDevice { device_id: 0, ..device } } else { device }
}

/// What a `byte_offset` that is not 0 is.
#[inline(never)]
fn offset_kind(offset: u64, has_strides: bool, storage: Storage) -> Offset {
    let is_whole = !storage.is_bytes() || offset.is_multiple_of(storage.bytes());
    if has_strides && is_whole { Offset::Elements } else { Offset::Any }
}

/// As [`dtype::is_subbyte`], where it is seldom asked.
#[cold]
fn has_subbytes(dtype: DLDataType) -> bool {
    dtype::is_subbyte(dtype)
}

/// Whether what begins before an address is within the address space.
#[inline(never)]
fn reaches_back(data: u64, begin: i64, end: i64) -> bool {
    data.checked_add_signed(begin).is_some_and(|at| at != 0)
        && data.checked_add_signed(end).is_some_and(|end| end <= usize::MAX as u64)
}

/// The bytes between which a tensor's elements lie; None: they do not fit 63 bits.
fn offsets(facts: Facts, storage: Storage, start: i64, subbyte: bool) -> Option<(i64, i64)> {
    if facts.is_empty() {
        return Some((start, start));
    }
    let bits = i64::try_from(storage.bits).ok()?;
    let (begin, end) = if subbyte {
        // These are addressed by bits, which must fit too.
        let begin = facts.lowest.checked_mul(bits)?.div_euclid(8);
        (begin, facts.highest.checked_add(1)?.checked_mul(bits)?.checked_add(7)?.div_euclid(8))
    } else {
        (facts.lowest.checked_mul(bits / 8)?, facts.highest.checked_add(1)?.checked_mul(bits / 8)?)
    };
    Some((start.checked_add(begin)?, start.checked_add(end)?))
}
