//! Runs plans: shares memory or makes it, moves the data, and hands the result out.

pub mod dense;
pub mod recent;

use std::ptr::NonNull;

use crate::backend::job::{Rules, Side, fold, most_axes};
use crate::backend::{self, Backend, Memory, Place, Streams, Transfer, Wanted};
use crate::context::Context;
use crate::dlpack::managed::{Keep, Managed, Parts, release};
use crate::dlpack::raw::{
    DLDevice, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, device_type,
};
use crate::dlpack::view::{TensorView, is_host_readable};
use crate::dtype::{Casting, Storage, is_subbyte};
use crate::error::{Error, Result};
use crate::layout::{self, Axis, MAX_NDIM, Order};
use crate::plan::{self, ConvertOptions, NEW_MEMORY_ALIGNMENT, Plan};
use crate::report::{Report, Route};

/// Plans a conversion and checks that its backends are there.
#[inline(always)]
pub fn plan(context: &Context, source: &TensorView<'_>, options: &ConvertOptions) -> Result<Plan> {
    let mut plan = plan::convert(source, options)?;
    (plan.route, plan.scratch_bytes) = context.admit(&plan, options, source, None)?;
    Ok(plan)
}

/// Converts a tensor and takes it over. On failure it is still the caller's.
///
/// # Safety
/// `source` is a managed tensor that the caller owns, and `view` is what it holds: as much readable
/// memory as it says.
#[inline(always)]
pub unsafe fn convert(
    context: &Context,
    source: NonNull<DLManagedTensorVersioned>,
    view: &TensorView<'_>,
    options: &ConvertOptions,
) -> Result<(NonNull<DLManagedTensorVersioned>, Report)> {
    let mut plan = plan::convert(view, options)?;
    (plan.route, plan.scratch_bytes) = context.admit(&plan, options, view, None)?;
    let report = Report::from(&plan);
    if plan.route == Route::ZeroCopy {
        let result = Managed::allocate(view.shape.len())?;
        let parts = Parts {
            data: view.data,
            device: plan.target.device,
            dtype: view.dtype,
            shape: view.shape,
            strides: view.strides,
            byte_offset: view.byte_offset,
            // Whoever copied it before, the library did not.
            flags: view.flags & !DLPACK_FLAG_BITMASK_IS_COPIED,
        };
        return Ok((result.finish(parts, Keep::Versioned(source)), report));
    }
    // Copies, so that those that need not be in memory are not.
    let (plan, view) = (plan, *view);
    // SAFETY: the view is readable, as the caller says.
    let result = unsafe { copied(context, &view, &plan, options, true)? };
    // SAFETY: the caller gave it up, and its data is no longer read.
    unsafe { release(source.as_ptr()) };
    Ok((result, report))
}

/// Copies a borrowed tensor.
///
/// # Safety
/// `view` is as much readable memory as it says.
#[inline(always)]
pub unsafe fn copy(
    context: &Context,
    view: &TensorView<'_>,
    options: &ConvertOptions,
) -> Result<(NonNull<DLManagedTensorVersioned>, Report)> {
    let mut plan = plan::copy(view, options)?;
    (plan.route, plan.scratch_bytes) = context.admit(&plan, options, view, None)?;
    // SAFETY: the view is readable, as the caller says.
    Ok((unsafe { copied(context, view, &plan, options, false)? }, Report::from(&plan)))
}

/// Copies into memory that is there.
///
/// # Safety
/// Both views are as much memory as they say, readable and writable.
#[inline(always)]
pub unsafe fn copy_into(
    context: &Context,
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> Result<Report> {
    let mut plan = plan::copy_into(source, destination, options)?;
    (plan.route, plan.scratch_bytes) = context.admit(&plan, options, source, Some(destination))?;
    let within_host = is_host(source.device) && is_host(destination.device);
    // SAFETY: the caller vouches for both, and the plan has refused overlap.
    let is_done = within_host && unsafe { recent::copy_checked(source, destination, options) };
    if !is_done && !source.facts.is_empty() {
        let (dtype, padded, strides) = (destination.dtype, destination.is_padded(), destination.strides);
        let side = Side { dtype, padded, strides };
        // SAFETY: the caller vouches for both, and the plan has refused overlap.
        unsafe {
            let address = destination.address().unwrap_or(0);
            let stays = source.has_strides_of(destination);
            if let Some(done) = move_on_host(context, &plan, source, (side, stays), address, options) {
                done?;
            } else {
                // Copies, so that those that need not be in memory are not.
                let (plan, source) = (plan, *source);
                let (place, streams) = (destination.place(), Streams::of(options));
                transfer(context, &plan, &source, side, &place, streams, options)?;
            }
        }
    }
    Ok(Report::from(&plan))
}

/// The same where nobody asks for a report: within the host's own memory there is nothing to plan then.
///
/// # Safety
/// As [`copy_into`].
#[inline(always)]
pub unsafe fn copy_into_without_report(
    context: &Context,
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> Result<()> {
    if !is_host(source.device) || !is_host(destination.device) || options.verify_pointer {
        // Copies, so that those that need not be in memory are not.
        let (source, destination) = (*source, *destination);
        // SAFETY: as the caller says.
        return unsafe { copy_into(context, &source, &destination, options).map(|_| ()) };
    }
    plan::check_copy_into(source, destination, options)?;
    if source.facts.is_empty() {
        return Ok(());
    }
    let (dtype, padded, strides) = (destination.dtype, destination.is_padded(), destination.strides);
    let address = destination.address().unwrap_or(0);
    // SAFETY: the caller vouches for both, and overlap has been refused.
    unsafe {
        if recent::copy_checked(source, destination, options) {
            return Ok(());
        }
        let side = Side { dtype, padded, strides };
        let stays = source.has_strides_of(destination);
        move_within_host(context, source, (side, stays), address, options)
    }
}

/// Makes a new tensor of a view.
///
/// # Safety
/// As [`copy`].
unsafe fn copied(
    context: &Context,
    view: &TensorView<'_>,
    plan: &Plan,
    options: &ConvertOptions,
    gives_up: bool,
) -> Result<NonNull<DLManagedTensorVersioned>> {
    let target = &plan.target;
    let ndim = view.shape.len();
    let mut strides = [0; MAX_NDIM];
    let strides = &mut strides[..ndim];
    layout::dense_strides(view.shape, view.strides, target.order, strides);
    let result = Managed::allocate(ndim)?;
    let mut parts = Parts {
        data: 0,
        device: target.device,
        dtype: target.dtype,
        shape: view.shape,
        strides,
        byte_offset: 0,
        flags: DLPACK_FLAG_BITMASK_IS_COPIED
            | if target.padded { DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED } else { 0 },
    };
    if view.facts.is_empty() {
        return Ok(result.finish(parts, Keep::Nothing));
    }
    let (size, alignment) = (plan.bytes_written, target.alignment);
    // Packed elements are written into the bytes of their neighbours.
    let zeroed = !Storage::of(target.dtype, target.padded).is_bytes();
    let stream = options.dst_stream;
    let memory = match options.allocator {
        Some(allocator) => {
            let mut memory = Memory::from_caller(allocator, target.device, size, alignment, stream)?;
            if zeroed && is_host_readable(target.device) {
                memory.clear();
            }
            memory
        }
        None => {
            let source = &view.place();
            let wanted =
                Wanted { device: target.device, size, alignment, zeroed, source: Some(source), stream };
            backend::for_device(target.device)?.allocate(&wanted)?
        }
    };
    let side = Side { dtype: target.dtype, padded: target.padded, strides };
    parts.data = memory.address();
    // SAFETY: the view is readable, and the memory new and as large as the plan says.
    unsafe {
        let stays = view.strides == strides;
        if let Some(done) = move_on_host(context, plan, view, (side, stays), parts.data, options) {
            done?;
        } else {
            let place = Place {
                device: target.device,
                data: parts.data,
                byte_offset: 0,
                begin: 0,
                end: size as i64,
                dense: !zeroed,
                fresh: options.allocator.is_none(),
            };
            let streams = Streams { gives_up, ..Streams::of(options) };
            transfer(context, plan, view, side, &place, streams, options)?;
        }
    }
    Ok(result.finish(parts, Keep::Memory(memory)))
}

/// Moves the elements of a view, which is not empty, within the host's own memory, to an address: there is no
/// driver to ask and no stream to order it by. The destination comes with whether it has the view's strides. None: a
/// device has a part in it, and nothing was moved.
///
/// # Safety
/// As [`transfer`].
#[inline(always)]
unsafe fn move_on_host(
    context: &Context,
    plan: &Plan,
    view: &TensorView<'_>,
    destination: (Side<'_>, bool),
    address: u64,
    options: &ConvertOptions,
) -> Option<Result<()>> {
    if !is_host(plan.from) || !is_host(plan.target.device) {
        return None;
    }
    // SAFETY: as the caller says.
    Some(unsafe { move_within_host(context, view, destination, address, options) })
}

/// A tensor as a side of a job.
#[inline(always)]
fn side_of<'a>(view: &TensorView<'a>) -> Side<'a> {
    Side { dtype: view.dtype, padded: view.is_padded(), strides: view.strides }
}

/// Whether it is the host's own memory.
#[inline(always)]
fn is_host(device: DLDevice) -> bool {
    device.device_type == device_type::CPU
}

/// The same where no device has a part in it.
///
/// # Safety
/// As [`transfer`].
#[inline(always)]
unsafe fn move_within_host(
    context: &Context,
    view: &TensorView<'_>,
    (destination, stays): (Side<'_>, bool),
    address: u64,
    options: &ConvertOptions,
) -> Result<()> {
    let source = view.address().unwrap_or(0);
    // Elements of whole bytes that stay as they are, which takes no more than their size to know.
    let moves = view.dtype == destination.dtype && !is_subbyte(view.dtype);
    // What stays as it lies is one row, for which a job takes longer to make than a small one to copy.
    let is_row = moves && stays && view.facts.is_dense() && view.num_bytes < backend::host::ONE_THREAD;
    // SAFETY: as the caller says; dense elements fill these bytes on both sides.
    unsafe {
        if is_row {
            backend::host::copy_bytes(source, address, view.num_bytes);
            return Ok(());
        }
        if moves && view.shape.len() <= FEW {
            let (size, threads) = (view.storage().bytes(), context.options().num_threads);
            let steps = (size as i64, size as i64);
            let mut room = [Axis::default(); most_axes(FEW)];
            let folded = fold(view.shape, view.strides, destination.strides, steps, &mut room);
            backend::host::move_elements(&folded, size, threads, source, address);
            return Ok(());
        }
        let side = side_of(view);
        let job = Job { context, shape: view.shape, options };
        job.each(side, destination, |job| backend::host::run(job, source, address))
    }
}

/// Moves the elements of a view, which is not empty.
///
/// # Safety
/// Every element of both sides is where it says; they do not overlap.
unsafe fn transfer(
    context: &Context,
    plan: &Plan,
    view: &TensorView<'_>,
    destination: Side<'_>,
    place: &Place,
    streams: Streams,
    options: &ConvertOptions,
) -> Result<()> {
    let source = side_of(view);
    let job = Job { context, shape: view.shape, options };
    let (from, backend) = (view.place(), context.transferring(plan)?);
    // SAFETY: as the caller says.
    unsafe {
        match context.receiving(plan)? {
            None => job.run(backend, (source, &from), (destination, place), &streams),
            Some(other) => job.through_host((backend, source, &from), (other, destination, place), &streams),
        }
    }
}

/// A job between two sides, with the limits of a context.
fn job<'r>(
    context: &Context,
    options: &ConvertOptions,
    shape: &[i64],
    (source, destination): (Side<'_>, Side<'_>),
    room: &'r mut [Axis],
) -> Transfer<'r> {
    let rules = Rules { saturate: options.saturate, exact: options.casting == Casting::Exact };
    let mut job = Transfer::new(shape, source, destination, rules, room);
    job.threads = context.options().num_threads;
    job.staging_bytes = context.options().staging_bytes;
    job
}

/// As many axes as most tensors have: room for them costs less to clear.
const FEW: usize = 8;

/// The job of a plan, before there is a result to do it for; of a view that is not empty.
pub(crate) fn foreseen<'r>(
    context: &Context,
    plan: &Plan,
    options: &ConvertOptions,
    view: &TensorView<'_>,
    destination: Option<&TensorView<'_>>,
    room: &'r mut [Axis],
) -> Transfer<'r> {
    let mut strides = [0; MAX_NDIM];
    let sides = foreseen_sides(plan, view, destination, &mut strides[..view.shape.len()]);
    job(context, options, view.shape, sides, room)
}

/// Likewise the two jobs of a plan that stops over in the host's memory.
pub(crate) fn foreseen_halves(
    context: &Context,
    plan: &Plan,
    options: &ConvertOptions,
    view: &TensorView<'_>,
    destination: Option<&TensorView<'_>>,
    rooms: &mut [[Axis; most_axes(MAX_NDIM)]; 2],
    show: impl FnOnce(&Transfer<'_>, &Transfer<'_>) -> Result<u64>,
) -> Result<u64> {
    let (shape, [room, other]) = (view.shape, rooms);
    let (mut strides, mut between) = ([0; MAX_NDIM], [0; MAX_NDIM]);
    let (source, destination) = foreseen_sides(plan, view, destination, &mut strides[..shape.len()]);
    let middle = stopover(shape, source, destination, &mut between[..shape.len()]);
    let there = job(context, options, shape, (source, middle), room);
    show(&there, &job(context, options, shape, (middle, destination), other))
}

fn foreseen_sides<'a>(
    plan: &Plan,
    view: &TensorView<'a>,
    destination: Option<&TensorView<'a>>,
    room: &'a mut [i64],
) -> (Side<'a>, Side<'a>) {
    let target = &plan.target;
    let strides = match destination {
        Some(destination) => destination.strides,
        None => {
            layout::dense_strides(view.shape, view.strides, target.order, room);
            room
        }
    };
    let source = side_of(view);
    (source, Side { dtype: target.dtype, padded: target.padded, strides })
}

/// What is in the host's memory between two drivers: in whichever dtype is shorter.
fn stopover<'a>(shape: &[i64], source: Side<'a>, destination: Side<'a>, strides: &'a mut [i64]) -> Side<'a> {
    let bits = |side: &Side<'_>| Storage::of(side.dtype, side.padded).bits;
    let short = if bits(&destination) < bits(&source) { destination } else { source };
    layout::dense_strides(shape, destination.strides, Order::Keep, strides);
    Side { strides, ..short }
}

/// What the transfers of a conversion have in common.
struct Job<'a> {
    context: &'a Context,
    shape: &'a [i64],
    options: &'a ConvertOptions,
}

impl Job<'_> {
    /// Has a backend move the elements from one side to the other.
    ///
    /// # Safety
    /// As [`transfer`].
    unsafe fn run(
        &self,
        backend: &dyn Backend,
        (source, from): (Side<'_>, &Place),
        (destination, to): (Side<'_>, &Place),
        streams: &Streams,
    ) -> Result<()> {
        // SAFETY: as the caller says.
        self.each(source, destination, |job| unsafe { backend.transfer(job, from, to, streams) })
    }

    /// Has each job run that moves the elements from one side to the other.
    #[inline(always)]
    fn each(
        &self,
        source: Side<'_>,
        destination: Side<'_>,
        run: impl Fn(&Transfer<'_>) -> Result<()>,
    ) -> Result<()> {
        let (shape, options) = (self.shape, self.options);
        let each = |room: &mut [Axis]| {
            if source.dtype != destination.dtype
                && let Some(job) = Transfer::clearing(shape, destination, room)
            {
                run(&job)?;
            }
            run(&job(self.context, options, shape, (source, destination), room))
        };
        if shape.len() <= FEW {
            each(&mut [Axis::default(); most_axes(FEW)])
        } else {
            each(&mut [Axis::default(); most_axes(MAX_NDIM)])
        }
    }

    /// Between the devices of two backends, neither of which reaches the other's memory: by way of the
    /// host's, in whichever dtype is shorter.
    ///
    /// # Safety
    /// As [`transfer`].
    #[cold]
    unsafe fn through_host(
        &self,
        (sender, source, from): (&dyn Backend, Side<'_>, &Place),
        (receiver, destination, to): (&dyn Backend, Side<'_>, &Place),
        streams: &Streams,
    ) -> Result<()> {
        let mut strides = [0; MAX_NDIM];
        let middle = stopover(self.shape, source, destination, &mut strides[..self.shape.len()]);
        let storage = Storage::of(middle.dtype, middle.padded);
        let device = backend::host::DEVICE;
        let too_much = Error::OutOfMemory { device, bytes: u64::MAX, alignment: NEW_MEMORY_ALIGNMENT };
        let count = layout::num_elements(self.shape).ok_or(too_much)?;
        let size = storage.num_bytes(count).ok_or(too_much)?;
        let mut memory = Memory::on_host(device, size, NEW_MEMORY_ALIGNMENT)?;
        let whole_bytes = storage.is_bytes();
        if !whole_bytes {
            memory.clear();
        }
        let data = memory.address();
        let place = Place {
            device,
            data,
            byte_offset: 0,
            begin: 0,
            end: size as i64,
            dense: whole_bytes,
            fresh: true,
        };
        let (before, after) = streams.through_host();
        // SAFETY: the memory is as large as the middle, and as the caller says.
        unsafe {
            self.run(sender, (source, from), (middle, &place), &before)?;
            self.run(receiver, (middle, &Place { fresh: false, ..place }), (destination, to), &after)
        }
    }
}
