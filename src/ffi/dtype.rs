//! Dtypes and their names.

use std::ffi::{CStr, c_char};

use super::boundary::{boundary, not_null, quietly, write_text};
use super::convert::text_buffer;
use super::types::*;
use crate::dlpack::raw::DLDataType;
use crate::error::{Error, Excerpt};

/// Reads the name of a dtype: "float32", "bfloat16", "float8_e4m3fn", "complex64", "bool"; an
/// array-interface typestr ("<f4", "|b1"); a PEP 3118 format ("f", "Zd", "?"). Non-native byte order and
/// struct types are AB_E_UNSUPPORTED_DTYPE, as is what is no dtype at all.
///
/// @param text   NUL-terminated
/// @param out    the dtype; unchanged on failure
/// @param error  may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_dtype_parse(
    text: *const c_char,
    out: *mut DLDataType,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        not_null(text, "text", "the name of a dtype")?;
        not_null(out, "out", "where the dtype goes")?;
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            let bytes = CStr::from_ptr(text).to_bytes();
            let why = "it is not UTF-8; dtypes are spelled in ASCII";
            let text = str::from_utf8(bytes).map_err(|error| {
                let valid = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                Error::DtypeText { text: Excerpt::new(valid), why }
            })?;
            out.write_unaligned(text.parse()?);
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Writes the name of a dtype: "float32"; with lanes "float32x4"; "int4" and the like for other widths;
/// "dtype(code=99, bits=16)" for a code that is not known.
///
/// @param dtype     NULL: an empty text
/// @param buffer    gets as much as fits, NUL-terminated; NULL when capacity is 0
/// @param capacity  bytes of the buffer
/// @return the length of the whole name without its NUL, as snprintf
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_dtype_format(
    dtype: *const DLDataType,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    quietly(0, || {
        // SAFETY: the caller vouches for its pointers.
        unsafe {
            let buffer = text_buffer(buffer, capacity);
            if dtype.is_null() {
                return write_text(buffer, format_args!(""));
            }
            let dtype = dtype.read_unaligned();
            write_text(buffer, format_args!("{dtype}"))
        }
    })
}
