//! Decides what a conversion is, without touching memory or a driver: the route, every reason that
//! ruled out zero copy, the steps, and what the result will be.
#![forbid(unsafe_code)]

use crate::consumers::{self, Candidate, Offset};
use crate::dlpack::raw::{DLDataType, DLDevice, device_type};
use crate::dlpack::view::{TensorView, is_host_readable, is_opaque, normalised};
use crate::dtype::{self, Casting, Scalar, Storage};
use crate::error::{Error, Excerpt, Refusal, Result, TensorProblem};
use crate::layout::{self, Extent, Facts, MAX_NDIM, Order};
use crate::report::{Reasons, Report, Route, consumer_names};

/// When to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyPolicy {
    /// Only where zero copy is impossible.
    #[default]
    IfNeeded,
    /// Always make new memory.
    Always,
    /// Fail rather than copy.
    Never,
}

/// Which layout the result must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutPolicy {
    /// Zero copy keeps the strides; a new tensor is row-major.
    #[default]
    Any,
    /// Row-major.
    C,
    /// Column-major.
    F,
    /// A new tensor is dense in the source's own axis order.
    Keep,
}

/// What the result of a conversion must be. The default keeps everything.
#[derive(Clone, Copy, Debug)]
pub struct ConvertOptions {
    /// Where; None: where it is.
    pub device: Option<DLDevice>,
    /// Of which type; None: of its own.
    pub dtype: Option<DLDataType>,
    /// When to copy.
    pub copy: CopyPolicy,
    /// In which layout.
    pub layout: LayoutPolicy,
    /// Which casts are allowed.
    pub casting: Casting,
    /// Bytes, a power of two, that the first element's address must be a multiple of; 0: whatever
    /// the consumers need.
    pub alignment: u32,
    /// Bits of [`consumers::Consumer`] that must all take the result without a copy of their own.
    pub consumers: u32,
    /// Values beyond the new dtype's range become its limits.
    pub saturate: bool,
    /// The result must be writable.
    pub writable: bool,
    /// Check the declared device against the driver first.
    pub verify_pointer: bool,
    /// Return once the work is ordered on `dst_stream`.
    pub asynchronous: bool,
    /// The stream after which the source is ready, in the array API's numbers.
    pub src_stream: i64,
    /// The stream on which the result is used.
    pub dst_stream: i64,
    /// Where the result's memory comes from; None: the library's own.
    pub allocator: Option<crate::backend::Allocator>,
}

impl ConvertOptions {
    /// The default: everything stays as it is.
    pub const KEEP: ConvertOptions = ConvertOptions {
        device: None,
        dtype: None,
        copy: CopyPolicy::IfNeeded,
        layout: LayoutPolicy::Any,
        casting: Casting::Unsafe,
        alignment: 0,
        consumers: 0,
        saturate: false,
        writable: false,
        verify_pointer: false,
        asynchronous: false,
        src_stream: 0,
        dst_stream: 0,
        allocator: None,
    };

    /// Whether every value is one that it may have.
    pub fn check(&self) -> Result<()> {
        const LARGEST_ALIGNMENT: u32 = 1 << 30;
        let refuse = |name, value: u32, expected| Err(Error::Option { name, value: value.into(), expected });
        if let Some(dtype) = self.dtype {
            if dtype.bits == 0 {
                return refuse("options.dtype.bits", 0, "the bits of a scalar");
            }
            if dtype.lanes == 0 {
                return refuse("options.dtype.lanes", 0, "1 unless the type is a vector");
            }
        }
        let alignment = self.alignment;
        if alignment != 0 && (!alignment.is_power_of_two() || alignment > LARGEST_ALIGNMENT) {
            return refuse("options.alignment", alignment, "0 or a power of two up to 1073741824");
        }
        if self.consumers & !consumers::ALL != 0 {
            let (value, known) = (self.consumers.into(), consumers::ALL.into());
            return Err(Error::Flags { name: "options.consumers", value, known });
        }
        Ok(())
    }
}

impl Default for ConvertOptions {
    fn default() -> ConvertOptions {
        ConvertOptions::KEEP
    }
}

/// One thing to do. A plan is a few of them, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hand out the source's own memory.
    Share,
    /// Make memory for the result.
    Allocate,
    /// Read each element once, cast it, and write it to its place.
    Transfer,
}

/// What a conversion will do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Which way the data takes.
    pub route: Route,
    /// `AB_REASON_*`: every one that ruled out zero copy.
    pub reasons: u32,
    /// What to do, in order.
    pub steps: &'static [Step],
    /// Where the data is.
    pub from: DLDevice,
    /// What comes out.
    pub target: Target,
    /// Times the data is read and written.
    pub passes: u32,
    /// Bytes read of the source and of any scratch.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Peak memory besides source and result.
    pub scratch_bytes: u64,
}

impl From<&Plan> for Report {
    fn from(plan: &Plan) -> Report {
        Report {
            route: plan.route as i32,
            reasons: plan.reasons,
            passes: plan.passes,
            bytes_read: plan.bytes_read,
            bytes_written: plan.bytes_written,
            scratch_bytes: plan.scratch_bytes,
            nanoseconds: 0,
        }
    }
}

/// What comes out of a conversion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Where it is.
    pub device: DLDevice,
    /// Type of an element.
    pub dtype: DLDataType,
    /// Axis order of a new tensor.
    pub order: Order,
    /// Whether new elements of less than a byte take whole bytes.
    pub padded: bool,
    /// Bytes that the address of a new tensor is a multiple of.
    pub alignment: u64,
}

/// Plans a conversion.
// Inlined, as is all that a zero-copy conversion goes through: plans and views that pass through memory
// cost it as much as everything else.
#[inline(always)]
pub fn convert(source: &TensorView<'_>, options: &ConvertOptions) -> Result<Plan> {
    let from = place(source.device);
    let dtype = options.dtype.unwrap_or(source.dtype);
    check_cast(source, dtype, options.casting)?;
    let device = target_device(source, options)?;
    let padded = source.is_padded() && dtype::is_subbyte(dtype);
    let order = match options.layout {
        LayoutPolicy::Any | LayoutPolicy::C => Order::C,
        LayoutPolicy::F => Order::F,
        LayoutPolicy::Keep => Order::Keep,
    };

    let asked = options.consumers;
    let refused = if asked == 0 { 0 } else { refusing(source, asked, device, dtype) };
    let misaligned = options.alignment > 1
        && source.address().is_some_and(|address| !address.is_multiple_of(options.alignment.into()))
        && !source.facts.is_empty();
    let facts = &source.facts;
    let mut bits = 0;
    let mut rule_out = |reason, holds| bits |= if holds { reason } else { 0 };
    rule_out(Reasons::REQUESTED, options.copy == CopyPolicy::Always);
    rule_out(Reasons::DEVICE, !same_memory(from, device));
    rule_out(Reasons::DTYPE, dtype != source.dtype);
    rule_out(
        Reasons::LAYOUT,
        options.layout == LayoutPolicy::C && !facts.is_c_contiguous()
            || options.layout == LayoutPolicy::F && !facts.is_f_contiguous(),
    );
    rule_out(Reasons::ALIGNMENT, misaligned);
    rule_out(Reasons::READ_ONLY, options.writable && source.is_read_only());
    rule_out(Reasons::CONSUMER, refused != 0);
    // Results are at least as well aligned as every consumer likes.
    let alignment = u64::from(options.alignment).max(NEW_MEMORY_ALIGNMENT);
    let mut target = Target { device, dtype, order, padded, alignment };
    if bits == 0 {
        return Ok(Plan {
            route: Route::ZeroCopy,
            reasons: 0,
            steps: &[Step::Share],
            from,
            target,
            passes: 0,
            bytes_read: 0,
            bytes_written: 0,
            scratch_bytes: 0,
        });
    }
    if asked != 0 {
        target.order = order_for(asked, source, &target)?;
    }
    if options.copy == CopyPolicy::Never {
        let reasons = explain(bits, source, options, &target);
        return Err(Error::CopyRequired { reasons });
    }
    // A dtype of more bytes may make it more than there can be.
    let bytes_written = Storage::of(dtype, padded).num_bytes(source.num_elements);
    let too_much = Error::OutOfMemory { device, bytes: u64::MAX, alignment };
    let bytes_written = bytes_written.ok_or(too_much)?;
    Ok(stopping_over(Plan {
        route: route(from, device),
        reasons: bits,
        steps: &[Step::Allocate, Step::Transfer],
        from,
        target,
        passes: 1,
        bytes_read: source.num_bytes,
        bytes_written,
        scratch_bytes: 0,
    }))
}

/// What a message says of each reason.
pub fn explain(bits: u32, source: &TensorView<'_>, options: &ConvertOptions, target: &Target) -> Reasons {
    Reasons {
        bits,
        device: (source.device, target.device),
        dtype: (source.dtype, target.dtype),
        layout: if options.layout == LayoutPolicy::F { "AB_LAYOUT_F" } else { "AB_LAYOUT_C" },
        alignment: (options.alignment, source.alignment()),
        consumers: refusing(source, options.consumers, target.device, target.dtype),
    }
}

/// Those of some consumers that would refuse what zero copy would hand out, but for what has a reason of its
/// own.
#[inline(always)]
pub fn refusing(source: &TensorView<'_>, consumers: u32, device: DLDevice, dtype: DLDataType) -> u32 {
    // An address takes it up.
    let byte_offset = if is_opaque(device) { source.offset_kind() } else { Offset::Zero };
    let padded = source.is_padded() && dtype::is_subbyte(dtype);
    let shared = Candidate { device, dtype, byte_offset, padded, ..source.candidate() };
    consumers & !consumers::accepted_by(shared)
}

/// Plans a copy whose result is independent of its source.
#[inline(always)]
pub fn copy(source: &TensorView<'_>, options: &ConvertOptions) -> Result<Plan> {
    if options.copy == CopyPolicy::Never {
        return Err(Error::BorrowedSource);
    }
    convert(source, &ConvertOptions { copy: CopyPolicy::Always, ..*options })
}

/// Whether there is a copy into memory that is there.
#[inline(always)]
pub fn check_copy_into(
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> Result<()> {
    let (source_ndim, destination_ndim) = (source.shape.len(), destination.shape.len());
    if source_ndim != destination_ndim {
        return Err(Error::NdimDiffers { source_ndim, destination_ndim });
    }
    if let Some(axis) = source.shape.iter().zip(destination.shape).position(|(a, b)| a != b) {
        let (source_extent, destination_extent) = (source.shape[axis], destination.shape[axis]);
        return Err(Error::ShapeDiffers { axis, source_extent, destination_extent });
    }
    if destination.is_read_only() {
        return Err(Error::DestinationReadOnly);
    }
    if source.dtype != destination.dtype && !dtype::is_known_code(destination.dtype) {
        let problem = TensorProblem::UnknownCode(destination.dtype.code);
        return Err(Error::Tensor { role: "destination", problem });
    }
    check_cast(source, destination.dtype, options.casting)?;
    if destination.facts.is_overlapping() {
        return Err(Error::DestinationOverlaps);
    }
    if !source.facts.is_empty() && meet(source, destination) {
        return Err(Error::SourceOverlaps);
    }
    Ok(())
}

/// Plans a copy into memory that is there.
#[inline(always)]
pub fn copy_into(
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> Result<Plan> {
    check_copy_into(source, destination, options)?;
    let (from, to) = (place(source.device), place(destination.device));
    let differs = |reason, holds: bool| if holds { reason } else { 0 };
    let bits = Reasons::REQUESTED
        | differs(Reasons::DEVICE, !same_memory(from, to))
        | differs(Reasons::DTYPE, source.dtype != destination.dtype)
        | differs(Reasons::LAYOUT, !source.has_strides_of(destination));
    Ok(stopping_over(Plan {
        route: route(from, to),
        reasons: bits,
        steps: &[Step::Transfer],
        from,
        target: Target {
            device: to,
            dtype: destination.dtype,
            order: Order::Keep,
            padded: destination.is_padded(),
            alignment: 1,
        },
        passes: 1,
        bytes_read: source.num_bytes,
        bytes_written: destination.num_bytes,
        scratch_bytes: 0,
    }))
}

/// Alignment of the library's own memory, in bytes: what the DLPack header asks for.
pub const NEW_MEMORY_ALIGNMENT: u64 = 256;

/// The device with the id that DLPack gives host memory: there is one host.
fn place(device: DLDevice) -> DLDevice {
    if is_host_readable(device) { DLDevice { device_id: 0, ..device } } else { normalised(device) }
}

/// Whether a tensor `from` there can be handed out as being `to` there: pinned and managed memory
/// is host memory too.
fn same_memory(from: DLDevice, to: DLDevice) -> bool {
    from == to || to.device_type == device_type::CPU && is_host_readable(from)
}

fn route(from: DLDevice, to: DLDevice) -> Route {
    match (is_host_readable(from), is_host_readable(to)) {
        (true, true) => Route::Host,
        (true, false) => Route::Upload,
        (false, true) => Route::Download,
        (false, false) if from == to => Route::Device,
        (false, false) if from.device_type == to.device_type => Route::Peer,
        (false, false) => Route::Staged,
    }
}

/// A plan as it is where neither side's driver reaches the other's memory: the data stops over in the host's,
/// in whichever dtype is shorter.
#[inline(always)]
fn stopping_over(plan: Plan) -> Plan {
    if plan.route != Route::Staged {
        return plan;
    }
    let scratch_bytes = plan.bytes_read.min(plan.bytes_written);
    let (bytes_read, bytes_written) = (plan.bytes_read + scratch_bytes, plan.bytes_written + scratch_bytes);
    Plan { passes: 2, bytes_read, bytes_written, scratch_bytes, ..plan }
}

/// Whether the source's values can become the dtype at all, and may.
#[inline(always)]
fn check_cast(source: &TensorView<'_>, to: DLDataType, rule: Casting) -> Result<()> {
    let from = source.dtype;
    if from == to {
        return Ok(());
    }
    if !dtype::is_known_code(from) {
        return Err(Error::Tensor { role: "source", problem: TensorProblem::UnknownCode(from.code) });
    }
    if from.lanes != to.lanes {
        return Err(Error::Lanes { from, to });
    }
    let Some(from_scalar) = Scalar::of(from) else { return Err(Error::Cast { from, to, which: from }) };
    let Some(to_scalar) = Scalar::of(to) else { return Err(Error::Cast { from, to, which: to }) };
    if rule.allows(from_scalar, to_scalar) {
        Ok(())
    } else {
        Err(Error::CastingRule { rule: rule.name(), from, to })
    }
}

/// Where the result goes. Without a request it stays, unless a named consumer takes no tensor there:
/// then it goes to the nearest place that all of them take.
#[inline(always)]
fn target_device(source: &TensorView<'_>, options: &ConvertOptions) -> Result<DLDevice> {
    let here = place(source.device);
    let device = match options.device {
        Some(device) => place(device),
        None if options.consumers & !consumers::by_device(here) == 0 => return Ok(here),
        None => {
            let nearest = [device_type::CPU, device_type::CUDA, device_type::OPENCL];
            let nearest = nearest.map(|device_type| DLDevice { device_type, device_id: 0 });
            let all_take = |device: &DLDevice| options.consumers & !consumers::by_device(*device) == 0;
            [here].into_iter().chain(nearest).find(all_take).unwrap_or(here)
        }
    };
    let refused = options.consumers & !consumers::by_device(device);
    if let Some(name) = consumer_names(refused).next() {
        return Err(Error::ConsumerDevice { name, device });
    }
    Ok(device)
}

/// The axis order of a new tensor that the consumers take, or why there is none.
fn order_for(asked: u32, source: &TensorView<'_>, target: &Target) -> Result<Order> {
    let mut strides = [0; MAX_NDIM];
    let strides = &mut strides[..source.shape.len()];
    layout::dense_strides(source.shape, source.strides, target.order, strides);
    let Some(facts) = layout::facts(source.shape, strides) else {
        let excerpt = Excerpt::new("a dense tensor reaches beyond its elements");
        return Err(Error::Internal(excerpt));
    };
    match refused(asked, source, target, &facts) {
        None => Ok(target.order),
        Some((_, Refusal::Layout)) if target.order == Order::Keep => Ok(Order::C),
        Some((name, Refusal::Layout)) => Err(Error::ConsumerLayout { name }),
        Some((name, Refusal::Device)) => Err(Error::ConsumerDevice { name, device: target.device }),
        Some((name, Refusal::Dtype)) => Err(Error::ConsumerDtype { name, dtype: target.dtype }),
        Some((name, refusal)) => Err(Error::ConsumerShape { name, refusal }),
    }
}

fn refused(
    asked: u32,
    source: &TensorView<'_>,
    target: &Target,
    facts: &Facts,
) -> Option<(&'static str, Refusal)> {
    let candidate = Candidate {
        device: target.device,
        dtype: target.dtype,
        ndim: source.shape.len(),
        facts,
        alignment: 0,
        byte_offset: Offset::Zero,
        read_only: false,
        padded: target.padded,
    };
    consumers::refusal(asked, candidate)
}

/// Whether two tensors that are not empty share memory, as far as addresses tell.
#[inline(always)]
fn meet(a: &TensorView<'_>, b: &TensorView<'_>) -> bool {
    // Checked to be within the address space when the views were made.
    let at = |view: &TensorView<'_>, offset| view.data.wrapping_add_signed(offset);
    let apart = at(a, a.end_offset) <= at(b, b.begin_offset) || at(b, b.end_offset) <= at(a, a.begin_offset);
    if apart && !a.is_opaque() && !b.is_opaque() {
        return false;
    }
    // Of copies, so that those that need not be in memory are not.
    let (a, b) = (*a, *b);
    meet_within(&a, &b)
}

/// The same, element by element.
#[cold]
fn meet_within(a: &TensorView<'_>, b: &TensorView<'_>) -> bool {
    match (a.address(), b.address()) {
        (Some(_), Some(_)) if is_host_readable(a.device) == is_host_readable(b.device) => {
            let extent = |view: &TensorView<'_>| (view.address().unwrap_or_default(), view.storage().bits);
            let ((a_start, a_bits), (b_start, b_bits)) = (extent(a), extent(b));
            let in_bits = |address: u64| i128::from(address) * 8;
            layout::share_memory(
                Extent { address: in_bits(a_start), shape: a.shape, strides: a.strides, element: a_bits },
                Extent { address: in_bits(b_start), shape: b.shape, strides: b.strides, element: b_bits },
            )
        }
        // Two views of one handle.
        (None, None) if (a.device.device_type, a.data) == (b.device.device_type, b.data) => {
            layout::share_memory(within(a), within(b))
        }
        _ => false,
    }
}

/// A tensor within what its handle stands for.
fn within<'a>(view: &TensorView<'a>) -> Extent<'a> {
    Extent {
        address: i128::from(view.byte_offset) * 8,
        shape: view.shape,
        strides: view.strides,
        element: view.storage().bits,
    }
}
