//! One conversion: planned, then done straight into the output's memory.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use arraybridge::backend::host;
use arraybridge::dlpack::managed::Parts;
use arraybridge::dlpack::view::{Dims, TensorView, is_host_readable};
use arraybridge::layout;
use arraybridge::plan::Plan;
use arraybridge::report::{Reasons, Report, Route};
use arraybridge::{Context, ConvertOptions, Tensor, To};
use indicatif::{ProgressBar, ProgressStyle};
use memmap2::Mmap;

use crate::Failure;
use crate::args::Request;
use crate::file::{Input, padding};
use crate::npy::Array;

/// What is to be done.
pub struct Job {
    tensor: Tensor,
    options: ConvertOptions,
    pub plan: Plan,
    /// Why zero copy is ruled out.
    pub reasons: Reasons,
    /// What comes out.
    pub result: Array,
    /// What a user should know besides.
    pub notes: Vec<String>,
}

/// What has been done.
pub struct Done {
    /// The library's, with the time that it took.
    pub report: Report,
    /// What then went into the file. Where the library copies on the host, it does so straight into the
    /// file, and this is the same.
    pub written: Moved,
}

/// Bytes that were moved, and how long it took.
#[derive(Clone, Copy, Default)]
pub struct Moved {
    /// As in [`Report`].
    pub route: i32,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub nanoseconds: u64,
}

impl Job {
    /// Plans a conversion. Reads no element.
    pub fn new(context: &Context, input: &Input, map: Mmap, request: &Request) -> Result<Job, Failure> {
        let ndim = input.array.shape.len();
        let axes = match &request.permute {
            Some(axes) => axes.of(ndim).map_err(Failure::Said)?,
            None => (0..ndim).collect(),
        };
        let tensor = input.tensor(map, &axes)?;
        let options = request.options();
        let mut dims = Dims::new();
        let view = tensor.read(&mut dims)?;
        let plan = arraybridge::convert::plan(context, &view, &options)?;

        let mut strides = view.strides.to_vec();
        if plan.route != Route::ZeroCopy {
            layout::dense_strides(view.shape, view.strides, plan.target.order, &mut strides);
        }
        let facts = layout::facts(view.shape, &strides).unwrap_or(view.facts);
        let mut notes = Vec::new();
        if !facts.is_c_contiguous() && !facts.is_f_contiguous() {
            notes.push("its order is none that .npy can say: written row-major".to_owned());
        }
        if input.trailing_bytes > 0 {
            notes.push(format!("{} bytes behind the input's array are left out", input.trailing_bytes));
        }
        let fortran_order = facts.is_f_contiguous() && !facts.is_c_contiguous();
        let result = Array { dtype: plan.target.dtype, shape: view.shape.to_vec(), fortran_order };
        let reasons = arraybridge::plan::explain(plan.reasons, &view, &options, &plan.target);
        Ok(Job { tensor, options, plan, reasons, result, notes })
    }

    /// Does it. `memory` is what the result's elements fill.
    pub fn run(self, context: &Context, memory: &mut [u8]) -> Result<Done, Failure> {
        let mut report = Report::from(&self.plan);
        let mut tensor = self.tensor;
        if !is_host_readable(self.plan.target.device) {
            // To the device, as asked; what follows brings it back.
            let start = Instant::now();
            // SAFETY: a request has neither streams nor an allocator.
            let to = unsafe { To::from_options(self.options) };
            (tensor, report) = context.convert(tensor, &to).map_err(arraybridge::Error::from)?;
            report.nanoseconds = nanoseconds(start);
        }
        let mut dims = Dims::new();
        let view = tensor.read(&mut dims)?;
        let mut bar = Bar::new();
        let written =
            fill(context, &view, &self.result, memory, &self.options, SLICE, |done| bar.advance(done))?;
        if report.passes > 0 && report.nanoseconds == 0 {
            report.nanoseconds = written.nanoseconds;
        }
        Ok(Done { report, written })
    }
}

/// Bytes of source or result that are converted at a time, so that the bar moves.
const SLICE: u64 = 64 << 20;

/// Writes a view's elements into the memory of an array, in slices of so many bytes. `advance` is told
/// the share that is done.
fn fill(
    context: &Context,
    source: &TensorView<'_>,
    result: &Array,
    memory: &mut [u8],
    options: &ConvertOptions,
    slice: u64,
    mut advance: impl FnMut(f64),
) -> Result<Moved, Failure> {
    assert_eq!((source.shape, memory.len() as u64), (&result.shape[..], result.num_bytes()));
    let start = Instant::now();
    let mut moved = Moved::default();
    let strides = result.strides();
    let mut copy = |source: &TensorView<'_>, at: i64, shape: &[i64]| -> Result<(), Failure> {
        let parts = Parts {
            data: (memory.as_mut_ptr() as usize as u64).wrapping_add_signed(at * result.item_bytes() as i64),
            device: host::DEVICE,
            dtype: result.dtype,
            shape,
            strides: &strides,
            byte_offset: 0,
            flags: padding(result.dtype),
        };
        let mut dims = Dims::new();
        // SAFETY: it is all or a slice of the memory, which outlives this call.
        let destination = unsafe { Tensor::wrap(parts, Box::new(())) }?;
        let destination = destination.read(&mut dims)?;
        // SAFETY: the source is as much memory as it says, and so is the destination.
        let report = unsafe { arraybridge::convert::copy_into(context, source, &destination, options) }?;
        moved.route = report.route;
        moved.bytes_read += report.bytes_read;
        moved.bytes_written += report.bytes_written;
        Ok(())
    };

    let elements = source.num_elements;
    let at_once = (slice / source.storage().bits.div_ceil(8).max(result.item_bytes())).max(1) as i64;
    match source.address() {
        Some(address) if elements > at_once => {
            let mut outermost_first: Vec<usize> = (0..result.shape.len()).collect();
            if result.fortran_order {
                outermost_first.reverse();
            }
            let whole = Block { start: vec![0; result.shape.len()], shape: result.shape.clone() };
            let mut done = 0;
            whole.split(&outermost_first, at_once, &mut |block| {
                let source_bytes = source.storage().bytes() as i64;
                let parts = Parts {
                    data: address.wrapping_add_signed(block.offset(source.strides) * source_bytes),
                    device: source.device,
                    dtype: source.dtype,
                    shape: &block.shape,
                    strides: source.strides,
                    byte_offset: 0,
                    flags: source.flags,
                };
                let mut dims = Dims::new();
                // SAFETY: it is a slice of the source, which outlives this call.
                let source = unsafe { Tensor::wrap(parts, Box::new(())) }?;
                copy(&source.read(&mut dims)?, block.offset(&strides), &block.shape)?;
                done += block.num_elements();
                advance(done as f64 / elements as f64);
                Ok(())
            })?;
        }
        _ => copy(source, 0, &result.shape)?,
    }
    moved.nanoseconds = nanoseconds(start);
    Ok(moved)
}

/// A part of an array: where it starts, and its extents.
#[derive(Clone)]
struct Block {
    start: Vec<i64>,
    shape: Vec<i64>,
}

impl Block {
    fn num_elements(&self) -> i64 {
        self.shape.iter().product()
    }

    /// Elements from the array's first one to the block's.
    fn offset(&self, strides: &[i64]) -> i64 {
        self.start.iter().zip(strides).map(|(start, stride)| start * stride).sum()
    }

    /// Visits parts of at most so many elements, cut along the first axes first.
    fn split(
        &self,
        axes: &[usize],
        at_once: i64,
        visit: &mut impl FnMut(&Block) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (axis, inner) = match axes {
            [axis, inner @ ..] if self.num_elements() > at_once => (*axis, inner),
            _ => return visit(self),
        };
        let extent = self.shape[axis];
        let step = (at_once / (self.num_elements() / extent)).max(1);
        let mut part = self.clone();
        while part.start[axis] < extent {
            part.shape[axis] = step.min(extent - part.start[axis]);
            part.split(inner, at_once, visit)?;
            part.start[axis] += step;
        }
        Ok(())
    }
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A progress bar on a terminal's stderr, for what takes longer than a moment.
struct Bar {
    start: Instant,
    bar: Option<ProgressBar>,
}

impl Bar {
    const STEPS: u64 = 1000;
    const PATIENCE: Duration = Duration::from_secs(1);

    fn new() -> Bar {
        Bar { start: Instant::now(), bar: None }
    }

    fn advance(&mut self, done: f64) {
        if self.bar.is_none() && self.start.elapsed() > Bar::PATIENCE && io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{bar:40} {percent}%");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            self.bar = Some(ProgressBar::new(Bar::STEPS).with_style(style));
        }
        if let Some(bar) = &self.bar {
            bar.set_position((done * Bar::STEPS as f64) as u64);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arraybridge::layout::Order;

    #[test]
    fn slices_add_up() {
        let shape = [5, 1, 7, 3];
        let elements: Vec<i16> = (0..105).collect();
        let mut strides = [0; 4];
        for order in [Order::C, Order::F] {
            layout::dense_strides(&shape, &[], order, &mut strides);
            let parts = Parts {
                data: elements.as_ptr() as usize as u64,
                device: host::DEVICE,
                dtype: "int16".parse().expect("a dtype"),
                shape: &shape,
                strides: &strides,
                byte_offset: 0,
                flags: 0,
            };
            // SAFETY: the vector outlives it.
            let tensor = unsafe { Tensor::wrap(parts, Box::new(())) }.expect("a tensor");
            let mut dims = Dims::new();
            let view = tensor.read(&mut dims).expect("a view");
            for fortran_order in [false, true] {
                let dtype = "float32".parse().expect("a dtype");
                let result = Array { dtype, shape: shape.to_vec(), fortran_order };
                let filled = |slice| {
                    let mut memory = vec![0xff; 420];
                    let mut shares = Vec::new();
                    let options = ConvertOptions::default();
                    let moved =
                        fill(Context::global(), &view, &result, &mut memory, &options, slice, |share| {
                            shares.push(share);
                        });
                    let moved = moved.unwrap_or_else(|_| panic!("it is planned"));
                    assert_eq!((moved.bytes_read, moved.bytes_written), (210, 420));
                    (memory, shares)
                };
                let (whole, shares) = filled(1000);
                assert!(shares.is_empty());
                for slice in [1, 7, 100, 200, 419] {
                    let (sliced, shares) = filled(slice);
                    assert_eq!(sliced, whole, "{order:?} {fortran_order} {slice}");
                    assert!(shares.len() > 1 && shares.is_sorted() && shares.last() == Some(&1.0));
                }
            }
        }
    }
}
