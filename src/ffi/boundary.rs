//! The one way in and out of every function: a closure in, a status out.

use std::any::Any;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::types::*;
use crate::error::{Error, Excerpt, Result};

/// Runs the body of a function. Its error goes to the caller's struct, if there is one; a panic, which
/// would be a bug, becomes AB_E_INTERNAL.
///
/// # Safety
/// `error` is NULL or points to an `ab_error` whose `struct_size` is set.
#[inline(always)]
pub unsafe fn boundary(error: *mut ab_error, body: impl FnOnce() -> Result<()>) -> ab_status {
    // SAFETY: the caller vouches for it.
    let Ok(room) = (unsafe { output(error, "error") }) else {
        // An error struct that cannot be written is an error that cannot be told.
        return AB_E_INVALID_ARGUMENT;
    };
    let cause = match guarded(body) {
        Ok(Ok(())) => {
            // SAFETY: output() has checked that there is room.
            unsafe { tell_success(error, room) };
            return AB_OK;
        }
        Ok(Err(cause)) => cause,
        Err(text) => Error::Internal(text),
    };
    // SAFETY: as above.
    unsafe { tell(error, room, &cause) }
}

/// The same of what a quick look does as a rule, in which nothing fails. Where it says that it did not, `rest` is what the
/// function returns: by itself, so that the look has few lines of the stack to touch.
///
/// # Safety
/// As [`boundary`].
#[inline(always)]
pub unsafe fn boundary_of_quick(
    error: *mut ab_error,
    quick: impl FnOnce() -> bool,
    rest: impl FnOnce() -> ab_status,
) -> ab_status {
    // SAFETY: the caller vouches for it.
    let Ok(room) = (unsafe { output(error, "error") }) else { return AB_E_INVALID_ARGUMENT };
    match caught(quick) {
        Ok(true) => {
            // SAFETY: output() has checked that there is room.
            unsafe { tell_success(error, room) };
            AB_OK
        }
        Ok(false) => rest(),
        // SAFETY: as above.
        Err(payload) => unsafe { tell_panic(error, room, &*payload) },
    }
}

/// # Safety
/// `error` has room for `room` bytes, an `ab_error`'s first ones at least.
#[inline(always)]
unsafe fn tell_success(error: *mut ab_error, room: Option<usize>) {
    if room.is_some() {
        // SAFETY: the caller's; these are part of it.
        unsafe {
            (&raw mut (*error).code).write_unaligned(AB_OK);
            (&raw mut (*error).native_code).write_unaligned(0);
            (&raw mut (*error).message).cast::<u8>().write(0);
        }
    }
}

/// # Safety
/// As [`tell`].
#[cold]
unsafe fn tell_panic(error: *mut ab_error, room: Option<usize>, payload: &(dyn Any + Send)) -> ab_status {
    // SAFETY: the caller's.
    unsafe { tell(error, room, &Error::Internal(text_of(payload))) }
}

/// Sets a result to NULL, before anything can fail.
///
/// # Safety
/// `out` is NULL or writable.
pub unsafe fn clear<T>(out: *mut *mut T) {
    if !out.is_null() {
        // SAFETY: not NULL.
        unsafe { out.write_unaligned(std::ptr::null_mut()) };
    }
}

/// Runs a function that has no error to tell; `fallback` is what it returns after a panic.
pub fn quietly<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    guarded(body).unwrap_or(fallback)
}

#[inline(always)]
fn guarded<T>(body: impl FnOnce() -> T) -> Result<T, Excerpt> {
    caught(body).map_err(|payload| text_of(&*payload))
}

/// Runs a function, of which nothing is printed if it panics.
#[inline(always)]
fn caught<T>(body: impl FnOnce() -> T) -> std::thread::Result<T> {
    if !SILENT.load(Ordering::Relaxed) {
        silence_panics();
    }
    catch_unwind(AssertUnwindSafe(body))
}

/// What a panic says.
fn text_of(payload: &(dyn Any + Send)) -> Excerpt {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Excerpt::new(text.unwrap_or("a panic without a text"))
}

/// Whether [`silence_panics`] has been at work. No Once: a child could find it begun by a thread that it does
/// not have, and wait.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Nothing is printed, not even of a bug: it is told in the error. Panics elsewhere in a program that
/// links this crate are shown as before: where it happened tells them apart, for which a call pays nothing.
#[cold]
fn silence_panics() {
    static PREVIOUS: OnceLock<Hook> = OnceLock::new();
    // A thread that is unwinding may not change the hook.
    if std::thread::panicking() || SILENT.swap(true, Ordering::Relaxed) {
        return;
    }
    // Neither this nor the hook below has anything to allocate for.
    let _ = PREVIOUS.set(std::panic::take_hook());
    std::panic::set_hook(Box::new(|info| {
        let ours = info.location().is_some_and(|location| is_of_the_library(location.file()));
        if let Some(previous) = PREVIOUS.get().filter(|_| !ours) {
            previous(info);
        }
    }));
}

/// Whether a source file, as the compiler names it, is one of the library's.
fn is_of_the_library(file: &str) -> bool {
    let here = file!();
    let folder = &here[..here.len() - "ffi/boundary.rs".len()];
    // The tool is a program that links the crate.
    file.strip_prefix(folder).is_some_and(|file| !file.starts_with("bin"))
}

/// What shows panics.
type Hook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync>;

/// An error's number.
fn status_of(error: &Error) -> ab_status {
    match error {
        Error::Null { .. }
        | Error::StructTooSmall { .. }
        | Error::StructTooLarge { .. }
        | Error::Option { .. }
        | Error::Flags { .. }
        | Error::NdimDiffers { .. }
        | Error::ShapeDiffers { .. }
        | Error::AllocatorMisaligned { .. }
        | Error::BeyondSlice { .. } => AB_E_INVALID_ARGUMENT,
        Error::Tensor { .. } => AB_E_INVALID_TENSOR,
        Error::DlpackVersion { .. } | Error::StructTooNew { .. } => AB_E_VERSION,
        Error::NoBackend { .. }
        | Error::DeviceId { .. }
        | Error::ConsumerDevice { .. }
        | Error::NoSuchDevice { .. }
        | Error::DeclaredDevice { .. }
        | Error::NotOnHost { .. } => AB_E_UNSUPPORTED_DEVICE,
        Error::LegacyPadded { .. }
        | Error::Cast { .. }
        | Error::Lanes { .. }
        | Error::DtypeText { .. }
        | Error::ConsumerDtype { .. }
        | Error::ElementType { .. } => AB_E_UNSUPPORTED_DTYPE,
        Error::ConsumerShape { .. }
        | Error::ConsumerLayout { .. }
        | Error::NotRowMajor
        | Error::Misaligned { .. } => AB_E_UNSUPPORTED_LAYOUT,
        Error::Unavailable { .. } => AB_E_BACKEND_UNAVAILABLE,
        Error::CopyRequired { .. } | Error::BorrowedSource => AB_E_COPY_REQUIRED,
        Error::DestinationReadOnly | Error::LegacyReadOnly => AB_E_READ_ONLY,
        Error::DestinationOverlaps | Error::SourceOverlaps => AB_E_OVERLAP,
        Error::OutOfMemory { .. } => AB_E_OUT_OF_MEMORY,
        Error::Driver { .. } | Error::DriverLog { .. } => AB_E_DEVICE,
        Error::CastingRule { .. } | Error::ValueLost { .. } => AB_E_LOSSY,
        Error::Internal(_) => AB_E_INTERNAL,
    }
}

/// Writes an error, if there is room for it, and returns its number.
///
/// # Safety
/// `error` has room for `room` bytes.
#[cold]
unsafe fn tell(error: *mut ab_error, room: Option<usize>, cause: &Error) -> ab_status {
    let code = status_of(cause);
    let Some(room) = room else { return code };
    let mut message = [0u8; MESSAGE_SIZE];
    write_text(&mut message, format_args!("{cause}"));
    // SAFETY: the caller vouches for the room, of which struct_size is part and left alone.
    unsafe {
        (&raw mut (*error).code).write_unaligned(code);
        (&raw mut (*error).native_code).write_unaligned(cause.native_code());
        let known = room.min(size_of::<ab_error>()) - std::mem::offset_of!(ab_error, message);
        let place = (&raw mut (*error).message).cast::<u8>();
        place.copy_from_nonoverlapping(message.as_ptr(), known);
    }
    code
}

/// Writes a text with snprintf's rules: as much as fits, cut at a character, NUL at its end. Returns
/// the whole text's length.
pub fn write_text(buffer: &mut [u8], text: fmt::Arguments<'_>) -> usize {
    let mut writer = Bounded { buffer, written: 0, length: 0 };
    // A Bounded never fails, and neither do our own Display implementations.
    let _ = writer.write_fmt(text);
    let (written, length) = (writer.written, writer.length);
    if let Some(end) = buffer.get_mut(written) {
        *end = 0;
    }
    length
}

struct Bounded<'a> {
    buffer: &'a mut [u8],
    written: usize,
    length: usize,
}

impl Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Once a piece did not fit, nothing that follows it may.
        let whole = self.written == self.length;
        self.length += text.len();
        let room = self.buffer.len().saturating_sub(1) - self.written;
        if whole {
            let fits = text.floor_char_boundary(room.min(text.len()));
            self.buffer[self.written..self.written + fits].copy_from_slice(&text.as_bytes()[..fits]);
            self.written += fits;
        }
        Ok(())
    }
}

/// No struct of this ABI is longer: what says so was not filled in.
const LONGEST: usize = 4096;

/// Checks the struct that a pointer leads to, and returns how many bytes of it may be written. None:
/// NULL.
///
/// # Safety
/// `pointer` is NULL or readable for as many bytes as its `struct_size` says.
#[inline(always)]
pub unsafe fn output<T: Sized32>(pointer: *mut T, name: &'static str) -> Result<Option<usize>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: it begins with its size.
    let size = unsafe { pointer.cast::<u32>().read_unaligned() };
    checked_size::<T>(size, name).map(|size| Some(size.min(size_of::<T>())))
}

#[inline(always)]
fn checked_size<T: Sized32>(size: u32, name: &'static str) -> Result<usize> {
    let bytes = size as usize;
    if bytes < T::FIRST_SIZE {
        return Err(Error::StructTooSmall { name, size, minimum: T::FIRST_SIZE });
    }
    if bytes > LONGEST {
        return Err(Error::StructTooLarge { name, size, maximum: LONGEST });
    }
    Ok(bytes)
}

/// Writes a struct, but for its size, into the `room` that [`output`] found.
///
/// # Safety
/// `pointer` is writable for `room` bytes.
#[inline(always)]
pub unsafe fn write_output<T: Sized32>(pointer: *mut T, room: usize, value: T) {
    const SIZE: usize = size_of::<u32>();
    // SAFETY: room is at most the struct's size, and at least its first size.
    unsafe {
        let from = (&raw const value).cast::<u8>().add(SIZE);
        let to = pointer.cast::<u8>().add(SIZE);
        // A number of bytes that the compiler knows needs no call.
        if room == size_of::<T>() {
            to.copy_from_nonoverlapping(from, size_of::<T>() - SIZE);
        } else {
            to.copy_from_nonoverlapping(from, room - SIZE);
        }
    }
}

/// Reads a struct that C filled in; NULL and what an older caller lacks are zero.
///
/// # Safety
/// As [`output`].
pub unsafe fn input<T: Sized32>(pointer: *const T, name: &'static str) -> Result<T> {
    // SAFETY: any bytes make a T.
    let mut value = unsafe { std::mem::zeroed::<T>() };
    if pointer.is_null() {
        return Ok(value);
    }
    let known = size_of::<T>();
    // SAFETY: the struct begins with its size, and is readable for so many bytes.
    unsafe {
        let size = pointer.cast::<u32>().read_unaligned();
        let bytes = checked_size::<T>(size, name)?;
        if bytes == known {
            return Ok(pointer.read_unaligned());
        }
        let from = pointer.cast::<u8>();
        (&raw mut value).cast::<u8>().copy_from_nonoverlapping(from, bytes.min(known));
        if let Some(at) = (known..bytes).find(|at| from.add(*at).read() != 0) {
            return Err(Error::StructTooNew { name, size, known, at });
        }
    }
    Ok(value)
}

/// Refuses NULL.
pub fn not_null<T>(pointer: *const T, name: &'static str, expected: &'static str) -> Result<()> {
    if pointer.is_null() { Err(Error::Null { name, expected }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_of_the_library_are_known_by_their_place() {
        assert!(is_of_the_library(std::panic::Location::caller().file()));
        let source = file!().trim_end_matches("ffi/boundary.rs");
        assert!(is_of_the_library(&format!("{source}backend/host/walk.rs")));
        for other in ["bin/ab/main.rs", "../tests/vectors.rs"] {
            assert!(!is_of_the_library(&format!("{source}{other}").replace("src/../", "")), "{other}");
        }
        assert!(!is_of_the_library("/rustc/0123/library/core/src/slice/index.rs"));
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let caught = guarded(|| -> () { panic!("a bug") }).unwrap_err();
        assert_eq!(Error::Internal(caught).to_string(), Error::Internal(Excerpt::new("a bug")).to_string());
    }

    /// What a quick look does is told like all else, what it leaves is what the rest says, and its panic an error.
    #[test]
    fn quick_looks() {
        let told = |quick: fn() -> bool| {
            let mut error = ab_error {
                struct_size: size_of::<ab_error>() as u32,
                code: 7,
                native_code: 7,
                message: [7; 496],
            };
            // SAFETY: the struct is ours.
            let status = unsafe { boundary_of_quick(&mut error, quick, || AB_E_OVERLAP) };
            // SAFETY: each of them is written by a text with an end, or not at all.
            let text =
                (error.message[0] != 7).then(|| unsafe { std::ffi::CStr::from_ptr(error.message.as_ptr()) });
            (status, error.code, error.native_code, text.map(|text| text.to_str().unwrap().to_owned()))
        };
        assert_eq!(told(|| true), (AB_OK, AB_OK, 0, Some(String::new())));
        assert_eq!(told(|| false), (AB_E_OVERLAP, 7, 7, None));
        let text = Error::Internal(Excerpt::new("a bug")).to_string();
        assert_eq!(told(|| panic!("a bug")), (AB_E_INTERNAL, AB_E_INTERNAL, 0, Some(text)));
        let mut small = ab_error { struct_size: 4, code: 7, native_code: 7, message: [7; 496] };
        // SAFETY: as much of it as is said.
        let status = unsafe { boundary_of_quick(&mut small, || true, || AB_OK) };
        assert_eq!((status, small.code), (AB_E_INVALID_ARGUMENT, 7));
        // SAFETY: nothing is told.
        assert_eq!(unsafe { boundary_of_quick(std::ptr::null_mut(), || true, || AB_E_OVERLAP) }, AB_OK);
    }
}
