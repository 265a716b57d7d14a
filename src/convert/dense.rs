//! Two tensors whose elements are the same bytes in the same order: the commonest copy of all. Often it is so small that to look
//! at each of them takes longer, or so large that it drives what looks at them out of the caches.

use crate::backend::host;
use crate::dlpack::raw::{
    DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_READ_ONLY, DLTensor, device_type,
};
use crate::dtype::{Storage, is_subbyte, only_width};
use crate::layout::MAX_NDIM;

/// Whether two tensors have as many axes and the same elements, which follow each other: a look that costs the others little.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub unsafe fn may_be(source: *const DLTensor, destination: *const DLTensor) -> bool {
    // SAFETY: the caller's; an axis has a stride if there are strides.
    unsafe {
        let ndim = (&raw const (*source).ndim).read_unaligned();
        let follow = |tensor: *const DLTensor| {
            let strides = (&raw const (*tensor).strides).read_unaligned();
            strides.is_null() || strides.add(ndim as usize - 1).read_unaligned() == 1
        };
        let dtype = |tensor: *const DLTensor| (&raw const (*tensor).dtype).read_unaligned();
        (1..=MAX_NDIM as i32).contains(&ndim)
            && ndim == (&raw const (*destination).ndim).read_unaligned()
            && follow(source)
            && follow(destination)
            && dtype(source) == dtype(destination)
    }
}

/// Copies one of the host's own tensors to another, if both are row-major, have the same shape and dtype of whole bytes, and do
/// not meet; on so many threads at most where they are large. False: they are not, or are refused by
/// [`TensorView::read`](crate::dlpack::view::TensorView::read) or [`check_copy_into`](crate::plan::check_copy_into), which
/// say why. Each number is looked at once.
///
/// # Safety
/// As [`TensorView::read`](crate::dlpack::view::TensorView::read), of both; their memory is as they say.
// By itself, so that those that are none of them are read with all registers.
#[inline(never)]
pub unsafe fn copy(
    (source, source_flags): (*const DLTensor, u64),
    (destination, destination_flags): (*const DLTensor, u64),
    threads: impl FnOnce() -> u32,
) -> bool {
    // SAFETY: the caller's; they do not meet.
    unsafe {
        let both = both((source, source_flags), (destination, destination_flags));
        let Some((source, destination, count, bytes)) = both else { return false };
        if bytes < host::ONE_THREAD {
            host::copy_bytes(source, destination, bytes);
        } else {
            host::copy_row(source, destination, count, bytes, threads());
        }
    }
    true
}

/// Where they lie, and how many elements and bytes they are.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn both(
    (source, source_flags): (*const DLTensor, u64),
    (destination, destination_flags): (*const DLTensor, u64),
) -> Option<(u64, u64, i64, u64)> {
    // SAFETY: the caller vouches for the structs.
    let (from, to) = unsafe { (source.read_unaligned(), destination.read_unaligned()) };
    let (dtype, ndim) = (from.dtype, from.ndim);
    let are_alike = (dtype, ndim) == (to.dtype, to.ndim)
        && from.device.device_type == device_type::CPU
        && to.device.device_type == device_type::CPU
        && source_flags & !(DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_COPIED) == 0
        && destination_flags & !DLPACK_FLAG_BITMASK_IS_COPIED == 0;
    let is_read = are_alike
        && (1..=MAX_NDIM as i32).contains(&ndim)
        && !from.shape.is_null()
        && !to.shape.is_null()
        && !is_subbyte(dtype)
        && dtype.lanes > 0
        && only_width(dtype).is_none();
    if !is_read {
        return None;
    }
    let mut count = 1i64;
    for axis in (0..ndim as usize).rev() {
        // SAFETY: the pointers hold ndim numbers each.
        unsafe {
            let extent = from.shape.add(axis).read_unaligned();
            if extent <= 0 || to.shape.add(axis).read_unaligned() != extent {
                return None;
            }
            let is_compact =
                |strides: *mut i64| strides.is_null() || strides.add(axis).read_unaligned() == count;
            // A stride says nothing on an axis of extent 1.
            if extent != 1 && !(is_compact(from.strides) && is_compact(to.strides)) {
                return None;
            }
            count = count.checked_mul(extent)?;
        }
    }
    let bytes = Storage::of(dtype, false).num_bytes(count)?;
    let first = |tensor: &DLTensor| {
        let data = tensor.data as usize as u64;
        let is_there = data != 0 && tensor.byte_offset <= i64::MAX as u64 - bytes;
        let first = data.checked_add(tensor.byte_offset).filter(|_| is_there)?;
        first.checked_add(bytes).filter(|end| *end <= usize::MAX as u64).map(|end| (first, end))
    };
    let ((source, source_end), (destination, destination_end)) = (first(&from)?, first(&to)?);
    let are_apart = source_end <= destination || destination_end <= source;
    are_apart.then_some((source, destination, count, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dlpack::raw::{
        DLDataType, DLDevice, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED as PADDED, dtype_code as code,
    };

    const COPIED: u64 = DLPACK_FLAG_BITMASK_IS_COPIED;
    const READ_ONLY: u64 = DLPACK_FLAG_BITMASK_READ_ONLY;

    /// One side, with room for what it points to.
    #[derive(Clone)]
    struct Side {
        shape: Vec<i64>,
        strides: Option<Vec<i64>>,
        dtype: (u8, u8, u16),
        device: i32,
        data: u64,
        byte_offset: u64,
        flags: u64,
        ndim: i32,
    }

    /// What becomes of two sides of 2 x 3 x 4 of four bytes, which are changed before.
    fn found(change: impl Fn(&mut Side, &mut Side)) -> Option<(u64, u64, u64)> {
        let side = |data| Side {
            shape: vec![2, 3, 4],
            strides: Some(vec![12, 4, 1]),
            dtype: (code::FLOAT, 32, 1),
            device: device_type::CPU,
            data,
            byte_offset: 0,
            flags: 0,
            ndim: 3,
        };
        let mut sides = [side(0x1000), side(0x2000)];
        let [source, destination] = &mut sides;
        change(source, destination);
        let [from, to] = sides.each_mut().map(|side| DLTensor {
            data: side.data as usize as *mut _,
            device: DLDevice { device_type: side.device, device_id: 0 },
            ndim: side.ndim,
            dtype: DLDataType { code: side.dtype.0, bits: side.dtype.1, lanes: side.dtype.2 },
            shape: side.shape.as_mut_ptr(),
            strides: side.strides.as_mut().map_or(std::ptr::null_mut(), |strides| strides.as_mut_ptr()),
            byte_offset: side.byte_offset,
        });
        // SAFETY: the sides hold as many numbers as they say; no memory is touched.
        unsafe {
            let both = both((&from, sides[0].flags), (&to, sides[1].flags));
            assert!(both.is_none() || may_be(&from, &to));
            both.map(|(source, destination, count, bytes)| {
                assert!(bytes.is_multiple_of(count as u64));
                (source, destination, bytes)
            })
        }
    }

    #[test]
    fn what_is_copied_as_it_is() {
        let all = Some((0x1000, 0x2000, 96));
        assert_eq!(found(|_, _| ()), all);
        assert_eq!(found(|source, _| source.strides = None), all);
        assert_eq!(found(|_, destination| destination.strides = None), all);
        assert_eq!(
            found(|source, destination| (source.flags, destination.flags) = (READ_ONLY | COPIED, COPIED)),
            all
        );
        assert_eq!(found(|source, _| (source.data, source.byte_offset) = (0xf00, 0x100)), all);
        // Side by side.
        assert_eq!(found(|_, destination| destination.data = 0x1060), Some((0x1000, 0x1060, 96)));
        assert_eq!(found(|source, _| source.data = 0x2060), Some((0x2060, 0x2000, 96)));
        // Strides of axes of one element say nothing.
        let ones = |side: &mut Side| {
            (side.shape, side.strides) = (vec![1, 3, 1, 5], Some(vec![-7, 5, 99, 1]));
            side.ndim = 4;
        };
        assert_eq!(
            found(|source, destination| (ones(source), ones(destination)).0),
            Some((0x1000, 0x2000, 60))
        );
        // Elements of any number of bytes.
        let of = |dtype| found(move |a, b| (a.dtype, b.dtype) = (dtype, dtype)).map(|(_, _, bytes)| bytes);
        for (dtype, bytes) in [
            ((code::BOOL, 8, 1), 24),
            ((code::COMPLEX, 128, 1), 384),
            ((code::FLOAT, 32, 4), 384),
            ((code::COMPLEX, 128, 4), 1536),
            ((code::UINT, 12, 1), 48),
            ((77, 24, 1), 72),
        ] {
            assert_eq!(of(dtype), Some(bytes), "{dtype:?}");
        }
        for dtype in [
            (code::INT, 4, 1),
            (code::INT, 4, 2),
            (code::FLOAT4_E2M1FN, 8, 1),
            (code::FLOAT, 0, 1),
            (code::FLOAT, 32, 0),
        ] {
            assert_eq!(of(dtype), None, "{dtype:?}");
        }
    }

    #[test]
    fn what_is_not() {
        type Change = fn(&mut Side, &mut Side);
        let changes: [Change; 25] = [
            |source, _| source.shape[0] = 3,
            |_, destination| destination.shape[2] = 5,
            |a, b| (a.shape[1], b.shape[1]) = (0, 0),
            |a, b| (a.shape[1], b.shape[1]) = (-3, -3),
            |a, b| (a.shape[0], b.shape[0]) = (i64::MAX, i64::MAX),
            |source, _| source.strides = Some(vec![1, 2, 6]),
            |_, destination| destination.strides = Some(vec![13, 4, 1]),
            |_, destination| destination.strides = Some(vec![-12, 4, 1]),
            |source, _| source.dtype = (code::INT, 32, 1),
            |source, _| source.device = device_type::CUDA,
            |_, destination| destination.device = device_type::CUDA_HOST,
            |_, destination| destination.flags = READ_ONLY,
            |source, _| source.flags = PADDED,
            |_, destination| destination.flags = PADDED,
            |_, destination| destination.flags = 1 << 40,
            |source, _| source.ndim = 2,
            |a, b| (a.ndim, b.ndim) = (0, 0),
            |a, b| (a.ndim, b.ndim) = (-1, -1),
            |a, b| (a.ndim, b.ndim) = (MAX_NDIM as i32 + 1, MAX_NDIM as i32 + 1),
            |source, _| source.data = 0,
            |_, destination| destination.data = 0,
            // They meet.
            |source, _| source.data = 0x1fa1,
            |_, destination| destination.data = 0x105f,
            // Beyond the last address, and beyond all offsets.
            |source, _| source.data = u64::MAX - 95,
            |source, _| source.byte_offset = i64::MAX as u64 - 95,
        ];
        for (index, change) in changes.iter().enumerate() {
            assert_eq!(found(change), None, "{index}");
        }
    }
}
