//! Decides what a conversion is, without touching memory or a driver: the route, every reason that
//! ruled out zero copy, the steps, and what the result will be.
#![forbid(unsafe_code)]

use std::fmt;

use crate::consumers::{self, Candidate, Refusal};
use crate::dlpack::raw::{DLDataType, DLDevice, device_type};
use crate::dlpack::view::{TensorView, is_host_readable, is_opaque, normalised};
use crate::dtype::{self, Casting, Scalar, Storage};
use crate::error::{Error, Result, TensorProblem};
use crate::layout::{self, Extent, Facts, MAX_NDIM, Order};

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
#[derive(Clone, Copy, Debug, Default)]
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

/// Which way the data takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Route {
    ZeroCopy = 0,
    Host = 1,
    Upload = 2,
    Download = 3,
    Device = 4,
    Peer = 5,
    Staged = 6,
}

impl Route {
    const NAMES: [&str; 7] = ["zero copy", "host", "upload", "download", "device", "peer", "staged"];

    /// In one or two words.
    pub fn name(self) -> &'static str {
        Route::NAMES[self as usize]
    }

    /// The name of an `AB_ROUTE_*` that came from C; None: there is no such route.
    pub fn name_of(value: i32) -> Option<&'static str> {
        Route::NAMES.get(usize::try_from(value).ok()?).copied()
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

/// Why zero copy is ruled out: `AB_REASON_*` and what a message says of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reasons {
    /// `AB_REASON_*`.
    pub bits: u32,
    device: (DLDevice, DLDevice),
    dtype: (DLDataType, DLDataType),
    layout: &'static str,
    alignment: (u32, u32),
    consumers: u32,
}

#[allow(missing_docs)]
impl Reasons {
    pub const REQUESTED: u32 = 0x1;
    pub const DEVICE: u32 = 0x2;
    pub const DTYPE: u32 = 0x4;
    pub const LAYOUT: u32 = 0x8;
    pub const ALIGNMENT: u32 = 0x10;
    pub const READ_ONLY: u32 = 0x20;
    pub const CONSUMER: u32 = 0x40;
    /// In the order of their bits.
    const NAMES: [&str; 7] = ["requested", "device", "dtype", "layout", "alignment", "read-only", "consumer"];

    /// The reasons in a set of bits, lowest first.
    pub fn names(bits: u32) -> impl Iterator<Item = &'static str> {
        Reasons::NAMES.iter().enumerate().filter(move |(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name)
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in Reasons::names(self.bits).enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(name)?;
            match name {
                "device" => write!(f, " ({} to {})", self.device.0, self.device.1)?,
                "dtype" => write!(f, " ({} to {})", self.dtype.0, self.dtype.1)?,
                "layout" => write!(f, " ({} asked for)", self.layout)?,
                "alignment" => {
                    write!(f, " ({} bytes asked for, {} there)", self.alignment.0, self.alignment.1)?
                }
                "read-only" => f.write_str(" (writable asked for)")?,
                "consumer" => {
                    f.write_str(" (not taken by ")?;
                    for (index, name) in consumers::names(self.consumers).enumerate() {
                        write!(f, "{}{name}", if index > 0 { " and " } else { "" })?;
                    }
                    f.write_str(")")?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What a conversion will do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Which way the data takes.
    pub route: Route,
    /// Every one that ruled out zero copy.
    pub reasons: Reasons,
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

/// What was done, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// `AB_ROUTE_*`.
    pub route: i32,
    /// `AB_REASON_*`.
    pub reasons: u32,
    /// Times the data is read and written.
    pub passes: u32,
    /// Bytes read of the source and of any scratch.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Peak memory besides source and result.
    pub scratch_bytes: u64,
    /// Host time of the call; 0 in a plan.
    pub nanoseconds: u64,
}

impl From<&Plan> for Report {
    fn from(plan: &Plan) -> Report {
        Report {
            route: plan.route as i32,
            reasons: plan.reasons.bits,
            passes: plan.passes,
            bytes_read: plan.bytes_read,
            bytes_written: plan.bytes_written,
            scratch_bytes: plan.scratch_bytes,
            nanoseconds: 0,
        }
    }
}

impl fmt::Display for Report {
    /// "upload, 1 pass, 12.0 MiB read, 6.0 MiB written (device, dtype)"
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let route = Route::name_of(self.route).unwrap_or("unknown route");
        let plural = if self.passes == 1 { "" } else { "es" };
        let (read, written) = (Bytes(self.bytes_read), Bytes(self.bytes_written));
        write!(f, "{route}, {} pass{plural}, {read} read, {written} written", self.passes)?;
        if self.scratch_bytes > 0 {
            write!(f, ", {} scratch", Bytes(self.scratch_bytes))?;
        }
        for (index, name) in Reasons::names(self.reasons).enumerate() {
            write!(f, "{}{name}", if index == 0 { " (" } else { ", " })?;
        }
        if Reasons::names(self.reasons).next().is_some() { f.write_str(")") } else { Ok(()) }
    }
}

/// A number of bytes for people: "512 B", "12.0 MiB".
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut amount = self.0 as f64;
        let mut unit = "B";
        for larger in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
            // So that 1023.96 KiB is not shown as "1024.0 KiB".
            if amount < if unit == "B" { 1024.0 } else { 1023.95 } {
                break;
            }
            (amount, unit) = (amount / 1024.0, larger);
        }
        if unit == "B" { write!(f, "{amount} B") } else { write!(f, "{amount:.1} {unit}") }
    }
}

/// Plans a conversion.
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
    // What zero copy would hand out, but for what has a reason of its own.
    let shared = Candidate {
        device,
        dtype,
        byte_offset: is_opaque(device) && source.byte_offset != 0,
        padded,
        ..source.candidate()
    };
    let accepted = if asked == 0 { consumers::ALL } else { consumers::accepted_by(shared) };
    let refused = asked & !accepted;
    let misaligned = options.alignment > 1
        && source.address().is_some_and(|address| !address.is_multiple_of(options.alignment.into()))
        && !source.facts.empty;
    let facts = &source.facts;
    let mut bits = 0;
    let mut rule_out = |reason, holds| bits |= if holds { reason } else { 0 };
    rule_out(Reasons::REQUESTED, options.copy == CopyPolicy::Always);
    rule_out(Reasons::DEVICE, !same_memory(from, device));
    rule_out(Reasons::DTYPE, dtype != source.dtype);
    rule_out(
        Reasons::LAYOUT,
        options.layout == LayoutPolicy::C && !facts.c_contiguous
            || options.layout == LayoutPolicy::F && !facts.f_contiguous,
    );
    rule_out(Reasons::ALIGNMENT, misaligned);
    rule_out(Reasons::READ_ONLY, options.writable && source.is_read_only());
    rule_out(Reasons::CONSUMER, refused != 0);
    let reasons = Reasons {
        bits,
        device: (source.device, device),
        dtype: (source.dtype, dtype),
        layout: if options.layout == LayoutPolicy::F { "AB_LAYOUT_F" } else { "AB_LAYOUT_C" },
        alignment: (options.alignment, source.alignment()),
        consumers: refused,
    };

    // Results are at least as well aligned as every consumer likes.
    let alignment = u64::from(options.alignment).max(NEW_MEMORY_ALIGNMENT);
    let mut target = Target { device, dtype, order, padded, alignment };
    if bits == 0 {
        return Ok(Plan {
            route: Route::ZeroCopy,
            reasons,
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
        return Err(Error::CopyRequired { reasons });
    }
    Ok(Plan {
        route: route(from, device),
        reasons,
        steps: &[Step::Allocate, Step::Transfer],
        from,
        target,
        passes: 1,
        bytes_read: source.num_bytes,
        bytes_written: num_bytes(source.num_elements, dtype, padded),
        scratch_bytes: 0,
    })
}

/// Plans a copy whose result is independent of its source.
pub fn copy(source: &TensorView<'_>, options: &ConvertOptions) -> Result<Plan> {
    if options.copy == CopyPolicy::Never {
        return Err(Error::BorrowedSource);
    }
    convert(source, &ConvertOptions { copy: CopyPolicy::Always, ..*options })
}

/// Plans a copy into memory that is there.
pub fn copy_into(
    source: &TensorView<'_>,
    destination: &TensorView<'_>,
    options: &ConvertOptions,
) -> Result<Plan> {
    let (source_ndim, destination_ndim) = (source.shape.len(), destination.shape.len());
    if source_ndim != destination_ndim {
        return Err(Error::NdimDiffers { source_ndim, destination_ndim });
    }
    if let Some(axis) = (0..source_ndim).find(|axis| source.shape[*axis] != destination.shape[*axis]) {
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
    if destination.facts.overlapping {
        return Err(Error::DestinationOverlaps);
    }
    if !source.facts.empty && meet(source, destination) {
        return Err(Error::SourceOverlaps);
    }
    let (from, to) = (place(source.device), place(destination.device));
    let differs = |reason, holds: bool| if holds { reason } else { 0 };
    let bits = Reasons::REQUESTED
        | differs(Reasons::DEVICE, !same_memory(from, to))
        | differs(Reasons::DTYPE, source.dtype != destination.dtype)
        | differs(Reasons::LAYOUT, source.strides != destination.strides);
    Ok(Plan {
        route: route(from, to),
        reasons: Reasons {
            bits,
            device: (source.device, destination.device),
            dtype: (source.dtype, destination.dtype),
            layout: "the destination's strides",
            alignment: (0, 0),
            consumers: 0,
        },
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
    })
}

/// Alignment of the library's own memory, in bytes: what the DLPack header asks for.
pub const NEW_MEMORY_ALIGNMENT: u64 = 256;

fn num_bytes(num_elements: i64, dtype: DLDataType, padded: bool) -> u64 {
    let bits = num_elements as u128 * u128::from(Storage::of(dtype, padded).bits);
    u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
}

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

/// Whether the source's values can become the dtype at all, and may.
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
    if rule.allows(from_scalar, to_scalar) { Ok(()) } else { Err(Error::CastingRule { rule, from, to }) }
}

/// Where the result goes. Without a request it stays, unless a named consumer takes no tensor there:
/// then it goes to the nearest place that all of them take.
fn target_device(source: &TensorView<'_>, options: &ConvertOptions) -> Result<DLDevice> {
    let here = place(source.device);
    let device = match options.device {
        Some(device) => place(device),
        None => {
            let nearest = [device_type::CPU, device_type::CUDA, device_type::OPENCL];
            let nearest = nearest.map(|device_type| DLDevice { device_type, device_id: 0 });
            let all_take = |device: &DLDevice| options.consumers & !consumers::by_device(*device) == 0;
            [here].into_iter().chain(nearest).find(all_take).unwrap_or(here)
        }
    };
    let refused = options.consumers & !consumers::by_device(device);
    if let Some(name) = consumers::names(refused).next() {
        return Err(Error::ConsumerDevice { name, device });
    }
    Ok(device)
}

/// The axis order of a new tensor that the consumers take, or why there is none.
fn order_for(asked: u32, source: &TensorView<'_>, target: &Target) -> Result<Order> {
    let mut strides = [0; MAX_NDIM];
    let strides = &mut strides[..source.shape.len()];
    layout::dense_strides(source.shape, source.strides, target.order, strides);
    let facts = layout::facts(source.shape, strides);
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
        byte_offset: false,
        read_only: false,
        padded: target.padded,
    };
    consumers::refusal(asked, candidate)
}

/// Whether two tensors that are not empty share memory, as far as addresses tell.
fn meet(a: &TensorView<'_>, b: &TensorView<'_>) -> bool {
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
        _ => false,
    }
}
