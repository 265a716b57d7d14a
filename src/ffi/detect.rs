//! Describing a tensor.

use super::boundary::{boundary, not_null, output, write_output};
use super::types::*;
use crate::consumers;
use crate::dlpack::raw::DLTensor;
use crate::dlpack::view::{Dims, TensorView};
use crate::dtype;
use crate::layout::Facts;

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
    Facts::C_CONTIGUOUS == AB_TENSOR_C_CONTIGUOUS
        && Facts::F_CONTIGUOUS == AB_TENSOR_F_CONTIGUOUS
        && Facts::DENSE == AB_TENSOR_DENSE
        && Facts::BROADCAST == AB_TENSOR_BROADCAST
        && Facts::NEGATIVE == AB_TENSOR_NEGATIVE_STRIDE
        && Facts::OVERLAPPING == AB_TENSOR_OVERLAPPING
        && Facts::EMPTY == AB_TENSOR_EMPTY
);

/// What C sees of a view.
#[inline(always)]
fn describe(view: &TensorView<'_>) -> ab_tensor_info {
    let packed = dtype::is_subbyte(view.dtype) && !view.is_padded();
    let flag = |holds: bool, flag: u32| if holds { flag } else { 0 };
    ab_tensor_info {
        struct_size: 0,
        flags: view.facts.bits()
            | flag(view.is_read_only(), AB_TENSOR_READ_ONLY)
            | flag(packed, AB_TENSOR_SUBBYTE_PACKED)
            | flag(view.is_host_readable(), AB_TENSOR_HOST_READABLE)
            | flag(view.is_opaque(), AB_TENSOR_OPAQUE_HANDLE)
            | flag(view.is_misaligned(), AB_TENSOR_MISALIGNED),
        device: view.device,
        dtype: view.dtype,
        ndim: view.shape.len() as i32,
        num_elements: view.num_elements,
        num_bytes: view.num_bytes,
        begin_offset: view.begin_offset,
        end_offset: view.end_offset,
        alignment: view.alignment(),
        accepted_by: consumers::accepted_by(view.candidate()),
    }
}
