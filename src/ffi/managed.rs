//! Making managed tensors, bridging the two generations, releasing.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::boundary::{boundary, clear, not_null, quietly};
use super::convert::read_managed;
use super::types::*;
use crate::dlpack::managed::{self, Keep};
use crate::dlpack::raw::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use crate::dlpack::view::{Dims, TensorView};
use crate::error::Error;

/// Makes a managed tensor over memory that the caller owns.
///
/// @param view      shape and strides are copied; the data is shared
/// @param dl_flags  DLPACK_FLAG_BITMASK_* that hold for it
/// @param owner     passed to `release`
/// @param release   called once, on any thread, when the tensor is deleted; NULL: there is nothing to do.
///                  On failure it is not called
/// @param out       set to the tensor, which the caller owns; NULL on failure
/// @param error     may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_wrap(
    view: *const DLTensor,
    dl_flags: u64,
    owner: *mut c_void,
    release: Option<unsafe extern "C" fn(owner: *mut c_void)>,
    out: *mut *mut DLManagedTensorVersioned,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        not_null(out, "out", "where the tensor goes")?;
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            not_null(view, "view", "a DLTensor")?;
            let mut dims = Dims::new();
            let view = TensorView::read(view, dl_flags, "view", &mut dims)?;
            out.write_unaligned(managed::share(&view, dl_flags, || Keep::Owner { owner, release })?.as_ptr());
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `out` and `error`.
    unsafe {
        clear(out);
        boundary(error, body)
    }
}

/// A legacy tensor as a versioned one over the same memory. Takes over `source` on success, whose
/// deleter the result's deleter calls; on failure *out is NULL and source is the caller's.
///
/// @param source  as NumPy, JAX or TensorFlow make them
/// @param out     set to the result, which the caller owns
/// @param error   may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_from_legacy(
    source: *mut DLManagedTensor,
    out: *mut *mut DLManagedTensorVersioned,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        not_null(out, "out", "where the tensor goes")?;
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            let Some(legacy) = NonNull::new(source) else {
                return Err(Error::Null { name: "source", expected: "a DLManagedTensor" });
            };
            let mut dims = Dims::new();
            let view = TensorView::read(&raw const (*source).dl_tensor, 0, "source", &mut dims)?;
            out.write_unaligned(managed::share(&view, 0, || Keep::Legacy(legacy))?.as_ptr());
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `out` and `error`.
    unsafe {
        clear(out);
        boundary(error, body)
    }
}

/// A versioned tensor as a legacy one over the same memory. Takes over `source` on success, whose
/// deleter the result's deleter calls; on failure *out is NULL and source is the caller's. A read-only
/// tensor has no legacy form (AB_E_READ_ONLY), nor have padded elements of less than a byte
/// (AB_E_UNSUPPORTED_DTYPE).
///
/// @param source  DLPack major version 1, else AB_E_VERSION
/// @param out     set to the result, which the caller owns and frees with ab_release_legacy
/// @param error   may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_to_legacy(
    source: *mut DLManagedTensorVersioned,
    out: *mut *mut DLManagedTensor,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        not_null(out, "out", "where the tensor goes")?;
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            let mut dims = Dims::new();
            let (source, view) = read_managed(source, &mut dims)?;
            managed::check_legacy(&view)?;
            out.write_unaligned(managed::share(&view, 0, || Keep::Versioned(source))?.as_ptr());
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `out` and `error`.
    unsafe {
        clear(out);
        boundary(error, body)
    }
}

/// Calls the tensor's deleter if there is one; NULL is allowed. Safe for any DLPack major version. A deleter or
/// allocator that throws a C++ exception ends the process, as it would in a function that is noexcept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_release(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the caller gives it up.
    quietly((), || unsafe { managed::release(tensor) });
}

/// Calls the tensor's deleter if there is one; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_release_legacy(tensor: *mut DLManagedTensor) {
    // SAFETY: the caller gives it up.
    quietly((), || unsafe { managed::release_legacy(tensor) });
}
