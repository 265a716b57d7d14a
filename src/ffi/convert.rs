//! Converting, copying, planning, and saying what was done.

use std::ffi::c_char;
use std::ptr::NonNull;
use std::time::Instant;

use super::boundary::{
    boundary, boundary_of_quick, clear, input, not_null, output, quietly, write_output, write_text,
};
use super::context::context_of;
use super::types::*;
use crate::backend::Allocator;
use crate::context::Context;
use crate::convert::{self, dense, recent};
use crate::dlpack::raw::{DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, DLTensor};
use crate::dlpack::view::{Dims, TensorView};
use crate::dtype::Casting;
use crate::error::{Error, Result};
use crate::plan::{self, ConvertOptions, CopyPolicy, LayoutPolicy};
use crate::report::Report;

/// Converts a tensor, taking over `source` on success: a zero-copy result calls the source's deleter
/// when it is itself deleted; after a copy the deleter is called as soon as the data is no longer read.
/// On failure *out is NULL and source still belongs to the caller, untouched.
///
/// The result is owned by the caller and freed by its own deleter (ab_release), on any thread. It has
/// version 1.3, strides, byte_offset 0 unless its data is a handle, IS_COPIED exactly when the library
/// copied, and READ_ONLY where it shares read-only memory. Safe from many threads on distinct tensors.
///
/// A declared device is trusted unless AB_CONVERT_VERIFY_POINTER is set. For kDLOpenCL `data` must be a
/// cl_mem: another pointer cannot be told apart, and would crash the OpenCL loader.
///
/// @param context  NULL: the default context
/// @param source   DLPack major version 1, else AB_E_VERSION
/// @param options  NULL: keep everything, zero copy when possible
/// @param out      set to the result; NULL on failure
/// @param report   what was done; may be NULL
/// @param error    may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_convert(
    context: *mut ab_context,
    source: *mut DLManagedTensorVersioned,
    options: *const ab_convert_options,
    out: *mut *mut DLManagedTensorVersioned,
    report: *mut ab_report,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        // SAFETY: the caller vouches for its pointers.
        unsafe {
            not_null(out, "out", "where the result goes")?;
            let report = Timed::new(report)?;
            let mut dims = Dims::new();
            let (source, view) = read_managed(source, &mut dims)?;
            let context = context_of(context);
            // By itself, so that what is asked of the options is answered when this is compiled.
            let (result, done) = if options.is_null() || is_as_wanted(&view, options) {
                convert::convert(context, source, &view, &ConvertOptions::KEEP)?
            } else {
                // A copy, so that the view itself need not be in memory.
                convert_as(context, source, &{ view }, options)?
            };
            out.write_unaligned(result.as_ptr());
            report.write(done);
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `out` and `error`.
    unsafe {
        clear(out);
        boundary(error, body)
    }
}

/// Whether a tensor is all that the options ask for already, which is then the same as to ask for nothing. They
/// are looked at where they are. False: it may be so, or they may be none.
///
/// # Safety
/// As [`read_options`].
#[inline(always)]
unsafe fn is_as_wanted(view: &TensorView<'_>, options: *const ab_convert_options) -> bool {
    macro_rules! given {
        ($field:ident) => {
            // SAFETY: the caller vouches for it; its size is read first, and that of a smaller one is another.
            unsafe { (&raw const (*options).$field).read_unaligned() }
        };
    }
    let has_layout = |layout| match layout {
        AB_LAYOUT_ANY | AB_LAYOUT_KEEP => true,
        AB_LAYOUT_C => view.facts.is_c_contiguous(),
        AB_LAYOUT_F => view.facts.is_f_contiguous(),
        _ => false,
    };
    given!(struct_size) as usize == size_of::<ab_convert_options>()
        && given!(flags) == 0
        && (given!(device).device_type == 0 || given!(device) == view.device)
        && (given!(dtype).bits == 0 || given!(dtype) == view.dtype)
        && matches!(given!(copy), AB_COPY_IF_NEEDED | AB_COPY_NEVER)
        && has_layout(given!(layout))
        && (AB_CAST_UNSAFE..=AB_CAST_EXACT).contains(&given!(casting))
        && given!(alignment) == 0
        && given!(allocator).is_null()
        && (given!(consumers) == 0 || plan::refusing(view, given!(consumers), view.device, view.dtype) == 0)
}

/// Converts as the options say.
///
/// # Safety
/// As [`convert::convert`] and [`read_options`].
#[inline(never)]
unsafe fn convert_as(
    context: &Context,
    source: NonNull<DLManagedTensorVersioned>,
    view: &TensorView<'_>,
    options: *const ab_convert_options,
) -> Result<(NonNull<DLManagedTensorVersioned>, Report)> {
    // SAFETY: the caller vouches for both.
    unsafe { convert::convert(context, source, view, &read_options(options)?) }
}

/// As ab_convert, from a borrowed tensor: the result is always independent of it, so AB_COPY_NEVER is
/// AB_E_COPY_REQUIRED.
///
/// @param context   NULL: the default context
/// @param source    borrowed for the call
/// @param dl_flags  DLPACK_FLAG_BITMASK_* of the managed tensor that it is part of; 0 for a legacy tensor
/// @param options   NULL: keep everything
/// @param out       set to the result, which the caller owns; NULL on failure
/// @param report    what was done; may be NULL
/// @param error     may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_copy(
    context: *mut ab_context,
    source: *const DLTensor,
    dl_flags: u64,
    options: *const ab_convert_options,
    out: *mut *mut DLManagedTensorVersioned,
    report: *mut ab_report,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        // SAFETY: the caller vouches for its pointers.
        unsafe {
            not_null(out, "out", "where the result goes")?;
            let report = Timed::new(report)?;
            not_null(source, "source", "a DLTensor")?;
            let mut dims = Dims::new();
            let view = TensorView::read(source, dl_flags, "source", &mut dims)?;
            let mut place = None;
            let options = options_in(options, &mut place)?;
            let (result, done) = convert::copy(context_of(context), &view, options)?;
            out.write_unaligned(result.as_ptr());
            report.write(done);
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `out` and `error`.
    unsafe {
        clear(out);
        boundary(error, body)
    }
}

/// Copies into memory that the caller owns: any strides, dtype and device on either side, equal shapes.
/// The destination must not overlap itself or the source (AB_E_OVERLAP), nor be read-only.
///
/// @param context            NULL: the default context
/// @param source             borrowed for the call
/// @param source_flags       DLPACK_FLAG_BITMASK_* of the source
/// @param destination        borrowed for the call; unchanged on failure, except that after AB_E_LOSSY for
///                           a value its contents are unspecified
/// @param destination_flags  DLPACK_FLAG_BITMASK_* of the destination
/// @param options            its flags, casting and streams are used; NULL: none
/// @param report             what was done; may be NULL
/// @param error              may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_copy_into(
    context: *mut ab_context,
    source: *const DLTensor,
    source_flags: u64,
    destination: *const DLTensor,
    destination_flags: u64,
    options: *const ab_convert_options,
    report: *mut ab_report,
    error: *mut ab_error,
) -> ab_status {
    let (from, to) = ((source, source_flags), (destination, destination_flags));
    // As most come.
    let quick = || {
        if source.is_null() || destination.is_null() || !options.is_null() || !report.is_null() {
            return false;
        }
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            let threads = || context_of(context).options().num_threads;
            dense::may_be(source, destination) && dense::copy(from, to, threads)
                || !are_rows(source, destination) && recent::copy(from, to, &ConvertOptions::KEEP, |_| ())
        }
    };
    // SAFETY: the caller vouches for its pointers and for `error`.
    unsafe { boundary_of_quick(error, quick, || copy_into(context, from, to, options, report, error)) }
}

/// Whether two tensors are rows of the same elements, which follow each other: these take no longer to copy than to find.
///
/// # Safety
/// They point to tensors.
#[inline(always)]
unsafe fn are_rows(source: *const DLTensor, destination: *const DLTensor) -> bool {
    // SAFETY: the caller's.
    unsafe { (&raw const (*source).ndim).read_unaligned() == 1 && dense::may_be(source, destination) }
}

/// Copies what did not come before, or with options, or where a report is wanted.
///
/// # Safety
/// As [`ab_copy_into`].
#[inline(never)]
unsafe fn copy_into(
    context: *mut ab_context,
    from: (*const DLTensor, u64),
    to: (*const DLTensor, u64),
    options: *const ab_convert_options,
    report: *mut ab_report,
    error: *mut ab_error,
) -> ab_status {
    let ((source, source_flags), (destination, destination_flags)) = (from, to);
    let body = || {
        not_null(source, "source", "a DLTensor")?;
        not_null(destination, "destination", "a DLTensor")?;
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            let told = Timed::new(report)?;
            let mut place = None;
            let given = if options.is_null() {
                Ok(&ConvertOptions::KEEP)
            } else {
                read_copy_options(options).map(|options| &*place.insert(options))
            };
            let is_plain = options.is_null() && report.is_null();
            if let Some(options) = given.as_ref().ok().filter(|_| !is_plain)
                && !are_rows(source, destination)
                && recent::copy(from, to, options, |done| told.write(*done))
            {
                return Ok(());
            }
            let (mut dims, mut destination_dims) = (Dims::new(), Dims::new());
            let source = TensorView::read(source, source_flags, "source", &mut dims)?;
            let destination =
                TensorView::read(destination, destination_flags, "destination", &mut destination_dims)?;
            let (options, context) = (given?, context_of(context));
            if told.is_wanted() {
                let (source, destination) = (source, destination);
                told.write(convert::copy_into(context, &source, &destination, options)?);
            } else {
                convert::copy_into_without_report(context, &source, &destination, options)?;
            }
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// What ab_convert would do, without doing it: the same status, and the same report but for
/// nanoseconds. (That a value does not survive AB_CAST_EXACT, or that memory runs out, only doing it
/// tells.)
///
/// @param context   NULL: the default context
/// @param source    borrowed for the call; its data is not touched
/// @param dl_flags  DLPACK_FLAG_BITMASK_* of the managed tensor that it is part of; 0 for a legacy tensor
/// @param options   NULL: keep everything, zero copy when possible
/// @param report    what would be done; may be NULL
/// @param error     may be NULL
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_plan(
    context: *mut ab_context,
    source: *const DLTensor,
    dl_flags: u64,
    options: *const ab_convert_options,
    report: *mut ab_report,
    error: *mut ab_error,
) -> ab_status {
    let body = || {
        not_null(source, "source", "a DLTensor")?;
        // SAFETY: the caller vouches for its pointers; NULL has been ruled out.
        unsafe {
            let room = output(report, "report")?;
            let mut dims = Dims::new();
            let view = TensorView::read(source, dl_flags, "source", &mut dims)?;
            let mut place = None;
            let options = options_in(options, &mut place)?;
            let plan = convert::plan(context_of(context), &view, options)?;
            if let Some(room) = room {
                write_output(report, room, report_of(&Report::from(&plan)));
            }
        }
        Ok(())
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Writes one English line: "upload, 1 pass, 12.0 MiB read, 6.0 MiB written (device, dtype)".
///
/// @param report    from any of the functions above; NULL or a struct_size that is none: an empty line
/// @param buffer    gets as much as fits, NUL-terminated; NULL when capacity is 0
/// @param capacity  bytes of the buffer
/// @return the length of the whole line without its NUL, as snprintf
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ab_report_describe(
    report: *const ab_report,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    quietly(0, || {
        // SAFETY: the caller vouches for its pointers.
        unsafe {
            let buffer = text_buffer(buffer, capacity);
            if report.is_null() {
                return write_text(buffer, format_args!(""));
            }
            let Ok(given) = input(report, "report") else { return write_text(buffer, format_args!("")) };
            let ab_report {
                route,
                reasons,
                passes,
                bytes_read,
                bytes_written,
                scratch_bytes,
                nanoseconds,
                ..
            } = given;
            let report =
                Report { route, reasons, passes, bytes_read, bytes_written, scratch_bytes, nanoseconds };
            write_text(buffer, format_args!("{report}"))
        }
    })
}

/// A caller's buffer for a text.
///
/// # Safety
/// `buffer` is NULL or has `capacity` writable bytes.
pub(super) unsafe fn text_buffer<'a>(buffer: *mut c_char, capacity: usize) -> &'a mut [u8] {
    if buffer.is_null() || capacity == 0 {
        return &mut [];
    }
    // No text is longer than a page; a caller that says "no limit" must not wrap an address.
    // SAFETY: as the caller says.
    unsafe { std::slice::from_raw_parts_mut(buffer.cast(), capacity.min(4096)) }
}

/// A report that is filled in at the end; the clock is read only where somebody asked.
struct Timed(Option<(*mut ab_report, usize, Instant)>);

impl Timed {
    /// # Safety
    /// `report` is NULL or an `ab_report` whose `struct_size` is set.
    unsafe fn new(report: *mut ab_report) -> Result<Timed> {
        // SAFETY: the caller vouches for it.
        let room = unsafe { output(report, "report")? };
        Ok(Timed(room.map(|room| (report, room, Instant::now()))))
    }

    fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// # Safety
    /// As [`Timed::new`].
    unsafe fn write(&self, mut done: Report) {
        if let Some((report, room, start)) = self.0 {
            done.nanoseconds = start.elapsed().as_nanos() as u64;
            // SAFETY: new() found the room.
            unsafe { write_output(report, room, report_of(&done)) };
        }
    }
}

fn report_of(report: &Report) -> ab_report {
    let Report { route, reasons, passes, bytes_read, bytes_written, scratch_bytes, nanoseconds } = *report;
    ab_report {
        struct_size: 0,
        route,
        reasons,
        passes,
        bytes_read,
        bytes_written,
        scratch_bytes,
        nanoseconds,
    }
}

/// Reads a managed tensor, its version first: nothing else of a foreign one is touched.
///
/// # Safety
/// `source` is NULL or a managed tensor.
#[inline(always)]
pub(super) unsafe fn read_managed<'a>(
    source: *mut DLManagedTensorVersioned,
    dims: &'a mut Dims,
) -> Result<(NonNull<DLManagedTensorVersioned>, TensorView<'a>)> {
    const ROLE: &str = "source";
    let Some(managed) = NonNull::new(source) else {
        return Err(Error::Null { name: ROLE, expected: "a DLManagedTensorVersioned" });
    };
    // SAFETY: not NULL, so a managed tensor; the fields behind the version are read once that is known.
    unsafe {
        let version = (&raw const (*source).version).read_unaligned();
        if version.major != DLPACK_MAJOR_VERSION {
            return Err(Error::DlpackVersion { role: ROLE, major: version.major, minor: version.minor });
        }
        let flags = (&raw const (*source).flags).read_unaligned();
        let view = TensorView::read(&raw const (*source).dl_tensor, flags, ROLE, dims)?;
        Ok((managed, view))
    }
}

/// Those options that a copy into memory that is there has.
///
/// # Safety
/// As [`options_in`], and `options` is not NULL.
unsafe fn read_copy_options(options: *const ab_convert_options) -> Result<ConvertOptions> {
    // SAFETY: the caller vouches for it.
    let given = unsafe { input(options, "options")? };
    Ok(ConvertOptions {
        casting: casting(given.casting)?,
        src_stream: given.src_stream,
        dst_stream: given.dst_stream,
        ..flags(given.flags)?
    })
}

/// The options that a caller gave, in `place`; NULL: those that keep everything.
///
/// # Safety
/// `options` is NULL or an `ab_convert_options` whose `struct_size` is set, and its allocator NULL or
/// one.
#[inline(always)]
unsafe fn options_in(
    options: *const ab_convert_options,
    place: &mut Option<ConvertOptions>,
) -> Result<&ConvertOptions> {
    if options.is_null() {
        return Ok(&ConvertOptions::KEEP);
    }
    // SAFETY: not NULL.
    Ok(place.insert(unsafe { read_options(options)? }))
}

/// Reads and checks every option.
///
/// # Safety
/// As [`options_in`], and `options` is not NULL.
unsafe fn read_options(options: *const ab_convert_options) -> Result<ConvertOptions> {
    // SAFETY: the caller vouches for it.
    let given = unsafe { input(options, "options")? };
    let refuse = |name, value: i64, expected| Err(Error::Option { name, value, expected });
    let device = (given.device.device_type != 0).then_some(given.device);
    let dtype = (given.dtype.bits != 0).then_some(given.dtype);
    let copy = match given.copy {
        AB_COPY_IF_NEEDED => CopyPolicy::IfNeeded,
        AB_COPY_ALWAYS => CopyPolicy::Always,
        AB_COPY_NEVER => CopyPolicy::Never,
        other => return refuse("options.copy", other.into(), "AB_COPY_IF_NEEDED, _ALWAYS or _NEVER"),
    };
    let layout = match given.layout {
        AB_LAYOUT_ANY => LayoutPolicy::Any,
        AB_LAYOUT_C => LayoutPolicy::C,
        AB_LAYOUT_F => LayoutPolicy::F,
        AB_LAYOUT_KEEP => LayoutPolicy::Keep,
        other => return refuse("options.layout", other.into(), "AB_LAYOUT_ANY, _C, _F or _KEEP"),
    };
    let allocator = if given.allocator.is_null() {
        None
    } else {
        // SAFETY: the caller vouches for it.
        let ab_allocator { user, allocate, deallocate } = unsafe { given.allocator.read_unaligned() };
        let missing = |name| Error::Null { name, expected: "a function" };
        Some(Allocator {
            user,
            allocate: allocate.ok_or(missing("options.allocator.allocate"))?,
            deallocate: deallocate.ok_or(missing("options.allocator.deallocate"))?,
        })
    };
    let options = ConvertOptions {
        device,
        dtype,
        copy,
        layout,
        casting: casting(given.casting)?,
        alignment: given.alignment,
        consumers: given.consumers,
        src_stream: given.src_stream,
        dst_stream: given.dst_stream,
        allocator,
        ..flags(given.flags)?
    };
    options.check()?;
    Ok(options)
}

fn casting(value: i32) -> Result<Casting> {
    match value {
        AB_CAST_UNSAFE => Ok(Casting::Unsafe),
        AB_CAST_SAME_KIND => Ok(Casting::SameKind),
        AB_CAST_SAFE => Ok(Casting::Safe),
        AB_CAST_EXACT => Ok(Casting::Exact),
        other => Err(Error::Option {
            name: "options.casting",
            value: other.into(),
            expected: "AB_CAST_UNSAFE, _SAME_KIND, _SAFE or _EXACT",
        }),
    }
}

/// The options that are flags, the others at their defaults.
fn flags(flags: u32) -> Result<ConvertOptions> {
    const KNOWN: u32 =
        AB_CONVERT_ASYNC | AB_CONVERT_SATURATE | AB_CONVERT_WRITABLE | AB_CONVERT_VERIFY_POINTER;
    if flags & !KNOWN != 0 {
        return Err(Error::Flags { name: "options.flags", value: flags.into(), known: KNOWN.into() });
    }
    Ok(ConvertOptions {
        asynchronous: flags & AB_CONVERT_ASYNC != 0,
        saturate: flags & AB_CONVERT_SATURATE != 0,
        writable: flags & AB_CONVERT_WRITABLE != 0,
        verify_pointer: flags & AB_CONVERT_VERIFY_POINTER != 0,
        ..ConvertOptions::default()
    })
}
