//! Describing a tensor.

use super::boundary::{boundary, not_null, output, write_output};
use super::types::*;
use crate::dlpack::raw::DLTensor;
use crate::dlpack::view::{Dims, TensorView};
use crate::info::Info;

/// Validates and describes a tensor. Reads only the struct and its shape and strides: never the data,
/// never a driver; takes no lock and allocates nothing.
///
/// @param tensor    borrowed for the call
/// @param dl_flags  DLPACK_FLAG_BITMASK_* of the managed tensor that it is part of; 0 for a legacy tensor
/// @param out       the answer
/// @param error     may be NULL
/// @return AB_OK, AB_E_INVALID_ARGUMENT, or AB_E_INVALID_TENSOR with a message that names the field
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_detect(
    tensor: *const DLTensor,
    dl_flags: u64,
    out: *mut ab_tensor_info,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        not_null(tensor, "tensor", "a DLTensor")?;
        not_null(out, "out", "an ab_tensor_info")?;
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            let room = output(out, "out")?.unwrap_or(0);
            let mut dims = Dims::new();
            let view = TensorView::read(tensor, dl_flags, "tensor", &mut dims)?;
            write_output(out, room, describe(&view));
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

const _: () = assert!(
    Info::C_CONTIGUOUS == AB_TENSOR_C_CONTIGUOUS
        && Info::F_CONTIGUOUS == AB_TENSOR_F_CONTIGUOUS
        && Info::DENSE == AB_TENSOR_DENSE
        && Info::BROADCAST == AB_TENSOR_BROADCAST
        && Info::NEGATIVE_STRIDE == AB_TENSOR_NEGATIVE_STRIDE
        && Info::OVERLAPPING == AB_TENSOR_OVERLAPPING
        && Info::EMPTY == AB_TENSOR_EMPTY
        && Info::READ_ONLY == AB_TENSOR_READ_ONLY
        && Info::SUBBYTE_PACKED == AB_TENSOR_SUBBYTE_PACKED
        && Info::HOST_READABLE == AB_TENSOR_HOST_READABLE
        && Info::OPAQUE_HANDLE == AB_TENSOR_OPAQUE_HANDLE
        && Info::MISALIGNED == AB_TENSOR_MISALIGNED
);

/// What C sees of a view.
#[inline(always)]
fn describe(view: &TensorView<'_>) -> ab_tensor_info {
    let info = Info::of(view);
    ab_tensor_info {
        struct_size: 0,
        flags: info.flags,
        device: info.device,
        dtype: info.dtype,
        ndim: info.ndim as i32,
        num_elements: info.num_elements,
        num_bytes: info.num_bytes,
        begin_offset: info.begin_offset,
        end_offset: info.end_offset,
        alignment: info.alignment,
        accepted_by: info.accepted_by,
    }
}
