//! Casts of the elements of a job: rows, and casts fused with a transpose.

use super::{CHUNK, Caster};
use crate::backend::host::bits;
use crate::backend::host::copy::{self, CopyFn, Steps};
use crate::backend::host::elements;
use crate::backend::host::fuse::{Matrices, NO_REACH, Reaches};
use crate::backend::host::isa::Isa;
use crate::backend::host::kernel::Sides;
use crate::backend::host::pieces;
use crate::backend::host::prepared::MOST_AXES;
use crate::backend::host::shuffle::{self, Shuffle};
use crate::backend::host::stream::{self, Buffer, LARGEST, LINE, LONG_ROW, Line, Memory};
use crate::backend::host::transpose::{
    self, Ahead, Batch, Block, How, LoadFn, Matrix, Scattered, ScatteredFn, Stage, TransposeFn, clash,
    lines_each,
};
use crate::backend::host::walk::Kernel;
use crate::layout::Axis;

/// Casts elements.
#[derive(Clone, Copy)]
pub struct CastKernel {
    pub sides: Sides,
    caster: Caster,
    /// Bits of a code, where a side counts bits.
    from_bits: Option<u32>,
    to_bits: Option<u32>,
    gather: Option<CopyFn>,
    scatter: Option<CopyFn>,
    /// For elements of the source, and of the destination.
    transpose: Option<(TransposeFn, TransposeFn)>,
    /// For elements of the source.
    scattered: Option<ScatteredFn>,
    /// Whether the result is written around the caches.
    streams: bool,
    /// Whether one thread does that.
    is_alone: bool,
    /// Whether a transposed one is read in long runs, and what comes next of it is asked for as something is written.
    runs: bool,
}

impl CastKernel {
    /// For a cast of so many elements, on so many threads at most (0: as many as the process may run on); the bits of a code
    /// where a side counts bits.
    pub fn new(
        sides: Sides,
        caster: Caster,
        (elements, threads): (usize, u32),
        (from_bits, to_bits): (Option<u32>, Option<u32>),
    ) -> CastKernel {
        let isa = Isa::get();
        let (source_size, destination_size) = caster.sizes();
        let in_bytes = from_bits.is_none() && to_bits.is_none();
        let bytes = |size: usize| elements.saturating_mul(size);
        let streams = in_bytes && stream::pays_for((bytes(source_size), bytes(destination_size)), threads);
        CastKernel {
            sides,
            caster,
            gather: copy::for_size(isa, source_size, streams && !stream::picks_lines(destination_size)),
            scatter: copy::for_size(isa, destination_size, streams),
            transpose: transpose::for_size(isa, source_size)
                .zip(transpose::for_size(isa, destination_size))
                .filter(|_| in_bytes),
            scattered: transpose::scattered_for_size(isa, source_size),
            from_bits,
            to_bits,
            streams,
            is_alone: streams && stream::is_alone(threads),
            runs: streams && (Memory::get() != Memory::Near || destination_size != source_size),
        }
    }

    /// Reads elements to where they follow each other.
    ///
    /// # Safety
    /// They are part of the job, and there is room for them.
    unsafe fn gather(&self, (from, step): (i64, i64), buffer: *mut u8, n: usize) {
        let source = self.sides.source;
        // SAFETY: as the caller says.
        unsafe {
            if let Some(count) = self.from_bits {
                for index in 0..n {
                    buffer.add(index).write(bits::read(source, from + index as i64 * step, count));
                }
            } else if let Some(gather) = self.gather {
                let size = self.caster.sizes().0;
                let (from_steps, to_steps) = (Steps::one(step as isize), Steps::one(size as isize));
                gather(source.offset(from as isize), from_steps, buffer, to_steps, n, 1);
            }
        }
    }

    /// Writes elements that follow each other.
    ///
    /// # Safety
    /// As [`CastKernel::gather`].
    unsafe fn scatter(&self, buffer: *const u8, (to, step): (i64, i64), n: usize) {
        let destination = self.sides.destination;
        // SAFETY: as the caller says.
        unsafe {
            if let Some(count) = self.to_bits {
                for index in 0..n {
                    bits::write(destination, to + index as i64 * step, count, buffer.add(index).read());
                }
            } else if let Some(scatter) = self.scatter {
                let size = self.caster.sizes().1;
                let (from_steps, to_steps) = (Steps::one(size as isize), Steps::one(step as isize));
                scatter(buffer, from_steps, destination.offset(to as isize), to_steps, n, 1);
            }
        }
    }

    /// Casts a row whose result the caches hold, or of which they hold lines that others share.
    ///
    /// # Safety
    /// As [`Kernel::row`].
    unsafe fn cached_row(&self, from: (i64, i64), to: (i64, i64), n: usize) -> bool {
        /// Elements that are put together before they are cast: the first cache holds them beside both sides.
        const SOME: usize = 512;
        let (source_size, destination_size) = self.caster.sizes();
        let from_direct = self.from_bits.is_none() && from.1 == source_size as i64;
        let to_direct = self.to_bits.is_none() && to.1 == destination_size as i64;
        if from_direct && to_direct {
            // SAFETY: as the caller says.
            unsafe {
                let source = self.sides.source.offset(from.0 as isize);
                return self.caster.run(source, self.sides.destination.offset(to.0 as isize), n);
            }
        }
        let mut sources = Buffer::<{ SOME * LARGEST }>::new();
        let mut destinations = Buffer::<{ SOME * LARGEST }>::new();
        (0..n).step_by(SOME).all(|done| {
            let some = SOME.min(n - done);
            let from = (from.0 + done as i64 * from.1, from.1);
            let to = (to.0 + done as i64 * to.1, to.1);
            // SAFETY: the chunks cover the row, and the buffers hold a chunk of the largest elements.
            unsafe {
                let source = if from_direct {
                    self.sides.source.offset(from.0 as isize)
                } else {
                    self.gather(from, sources.start(), some);
                    sources.start().cast_const()
                };
                if to_direct {
                    return self.caster.run(source, self.sides.destination.offset(to.0 as isize), some);
                }
                let buffer = destinations.start();
                let kept = self.caster.run(source, buffer, some);
                self.scatter(buffer, to, some);
                kept
            }
        })
    }

    /// Casts elements of a buffer, and writes them around the caches. What is `carried` are the bytes before the
    /// first, in the end those before the next, unless there is none.
    ///
    /// # Safety
    /// As [`Caster::run`]; unless they are the last, they take a line at least. Nobody else uses the one that is carried.
    unsafe fn run_around(
        &self,
        source: *const u8,
        destination: *mut u8,
        n: usize,
        carried: *mut Line,
        ends: (bool, bool),
    ) -> bool {
        let (source_size, destination_size) = self.caster.sizes();
        let some = stream::MOST / destination_size;
        // SAFETY: as the caller says.
        unsafe {
            stream::row(
                destination,
                destination_size,
                n,
                (some, some),
                &mut *carried,
                ends,
                |done, count, buffer| self.caster.run(source.add(done * source_size), buffer, count),
            )
        }
    }
}

impl CastKernel {
    /// Whether rows of so many elements, which are written around the caches, are better put together in pieces: memory
    /// takes whole lines, and of small elements little is read; `is_in_order`: they are in the source as well.
    fn has_few(&self, n: i64, is_in_order: bool) -> bool {
        let (source_size, destination_size) = self.caster.sizes();
        let few = match source_size {
            _ if !Memory::joins_rows() => FEW,
            ..=2 => SHORT_ROW,
            _ if !is_in_order => SHORT_ROW / 2,
            _ => FEW,
        };
        n < few || n * (destination_size as i64) < LINE as i64
    }

    /// Elements of a row that the caches hold, below which pieces are better: rows that are as they lie are worth a call each the
    /// sooner the wider their elements are, which take longest to be put together.
    fn short_row(&self, inner: &Axis) -> i64 {
        let is_run = (inner.source, inner.destination) == self.steps();
        match self.caster.sizes() {
            (8.., ..=2) if is_run => SHORT_ROW / 4,
            (from, to) if is_run && self.caster.is_plain() => match from.max(to) {
                8.. => SHORT_ROW / 4,
                _ if from > to => SHORT_ROW * 3 / 8,
                _ => SHORT_ROW * 3 / 4,
            },
            (8.., _) if is_run => SHORT_ROW * 3 / 4,
            _ => SHORT_ROW,
        }
    }

    /// Whether rows that read and write so many bytes, and follow each other in the destination, are written around the
    /// caches as one row that is asked for.
    fn streams_as_one(&self, read: usize, written: usize, count: usize) -> bool {
        // Of shorter ones that costs as much as it saves.
        let is_long = read.max(written) >= AS_ONE && written >= LINE;
        let is_short = written <= stream::crossed::MOST as usize;
        let are_many = written * count >= stream::crossed::AS_ONE_FROM;
        self.streams && !stream::through() && Memory::joins_rows() && is_long && is_short && are_many
    }

    /// What transposes matrices whose columns get pairs of lines, and casts as it loads. Not where rows share sets of the first
    /// cache, unless one thread does it, or it widens: of those a line is read each time, which others push out of it meanwhile. What
    /// reads four times as many bytes as it writes has windows of which the second cache holds two where rows are short.
    fn as_loaded(&self, matrices: &Matrices) -> Option<LoadFn> {
        let (source_size, destination_size) = self.caster.sizes();
        let columns = matrices.columns.len();
        let is_wide = columns >= LINE / destination_size;
        let widens = source_size < destination_size;
        let reads_more = source_size >= 4 * destination_size;
        // Of longer rows the next columns are those of the next matrix.
        let is_whole = matrices.next != (columns * source_size) as i64;
        let is_short = !reads_more || is_whole && columns <= SHORT_WINDOW;
        let pays =
            is_wide && is_short && (self.is_alone && !reads_more || widens || !clash(matrices.rows.offsets));
        self.caster.as_loaded().filter(|_| pays)
    }

    /// Casts what is put together at a time of a batch, each of so many elements.
    ///
    /// # Safety
    /// All of it is part of the job, and the results follow each other from there on.
    unsafe fn cast_batch(&self, batch: &Batch, destination: *mut u8, elements: usize, stage: &Stage) -> bool {
        let (_, destination_size) = self.caster.sizes();
        let around = self.streams && !stream::through();
        batch.each_turn(|done, these, is_last| {
            let n = these * elements;
            // SAFETY: as the caller says; what is put together is within the buffer.
            unsafe {
                let to = destination.add(done * elements * destination_size);
                batch.run(done, these, stage.start(), around);
                if around {
                    return self.run_around(stage.start(), to, n, stage.carried(0), (done == 0, is_last));
                }
                self.caster.run(stage.start(), to, n)
            }
        })
    }
}

impl Kernel for CastKernel {
    fn steps(&self) -> (i64, i64) {
        let (source_size, destination_size) = self.caster.sizes();
        let step = |bits: Option<u32>, size: usize| bits.map_or(size as i64, i64::from);
        (step(self.from_bits, source_size), step(self.to_bits, destination_size))
    }

    fn parts(&self) -> i64 {
        // As wide as a block.
        if self.runs { 4 } else { 8 }
    }

    fn least(&self) -> (i64, i64) {
        let (source_size, destination_size) = self.caster.sizes();
        let (run, piece) = run_and_piece(source_size, destination_size);
        if self.streams { (run as i64, piece as i64) } else { (1, 1) }
    }

    fn transposes(&self) -> bool {
        self.transpose.is_some()
    }

    fn goes_around(&self) -> bool {
        self.streams
    }

    fn elsewhere(&self, destination: *mut u8) -> CastKernel {
        let sides = Sides { destination, ..self.sides };
        CastKernel::new(sides, self.caster, (0, 1), (self.from_bits, self.to_bits))
    }

    fn through(&self, axes: &[Axis]) -> Option<CastKernel> {
        let inner = axes.last().filter(|_| self.streams)?;
        let (source_size, destination_size) = self.caster.sizes();
        let row = inner.extent.saturating_mul(destination_size as i64);
        let is_row = inner.destination == destination_size as i64 && row >= LONG_ROW as i64;
        // Wider elements take longer to be put together than memory takes. On Zen 5 single bytes lose more where others have
        // had the third cache meanwhile than they gain where nobody has.
        let are_near = source_size == 1 && (1..=4).contains(&inner.source) && !Memory::is_zen5();
        (is_row && (are_near || inner.source == source_size as i64))
            .then(|| self.elsewhere(self.sides.destination))
    }

    unsafe fn row(&self, from: (i64, i64), to: (i64, i64), n: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.rows(from, to, n, 1, (0, 0)) }
    }

    unsafe fn rows(
        &self,
        from: (i64, i64),
        to: (i64, i64),
        n: usize,
        count: usize,
        next: (i64, i64),
    ) -> bool {
        let (source_size, destination_size) = self.caster.sizes();
        let is_run = self.from_bits.is_none()
            && self.to_bits.is_none()
            && (from.1, to.1) == (source_size as i64, destination_size as i64);
        if is_run && !self.streams {
            let source = (self.sides.source.wrapping_offset(from.0 as isize), next.0 as isize);
            let destination = (self.sides.destination.wrapping_offset(to.0 as isize), next.1 as isize);
            // SAFETY: as the caller says.
            return unsafe { self.caster.rows(source, destination, n, count) };
        }
        let dense = to.1 == destination_size as i64
            && (from.1 == source_size as i64
                || self.gather.is_some() && {
                    let gap = next.0 - n as i64 * from.1;
                    stream::gathers(from.1 as isize, gap as isize, count)
                });
        let (read, written) = (n * source_size, n * destination_size);
        if self.streams_as_one(read, written, count) && is_run && next.1 == written as i64 {
            // SAFETY: as the caller says.
            return unsafe { self.as_one(from.0, to.0, n, count, next) };
        }
        if !self.streams || !dense || written < LONG_ROW {
            // Where others are between rows, prefetchers make nothing of those that follow.
            let step = next.0.unsigned_abs() as usize;
            let are_apart = is_run && read >= 4 * LINE && step >= read + LINE;
            let asks = count >= 32 && self.streams && Memory::is_zen5() && are_apart;
            let ahead = if asks { next.0 * (SHORT_AHEAD / step).max(1) as i64 } else { 0 };
            return (0..count as i64).all(|row| {
                let (from, to) = ((from.0 + row * next.0, from.1), (to.0 + row * next.1, to.1));
                if asks {
                    let at = self.sides.source.wrapping_offset((from.0 + ahead) as isize);
                    stream::prefetch_bytes(at, read as isize);
                }
                if is_run && self.streams && written >= AROUND && !stream::through() {
                    let source = self.sides.source.wrapping_offset(from.0 as isize);
                    let to = self.sides.destination.wrapping_offset(to.0 as isize);
                    let carried = &mut { stream::NOTHING };
                    // SAFETY: as the caller says.
                    return unsafe { self.run_around(source, to, n, carried, (true, true)) };
                }
                // SAFETY: as the caller says.
                unsafe { self.cached_row(from, to, n) }
            });
        }
        let step = from.1 as isize;
        let steps = Steps { element: step, row: next.0 as isize };
        // SAFETY: as the caller says; turns cover the rows, chunks a turn, and the buffer holds one.
        unsafe {
            let source = (self.sides.source.offset(from.0 as isize), steps);
            let destination = (self.sides.destination.offset(to.0 as isize), next.1 as isize);
            let sizes = (source_size, destination_size, true);
            stream::in_order(source, destination, sizes, (n, count), |source, n, to| {
                if step == source_size as isize {
                    return self.caster.run(source, to, n);
                }
                let start = source.offset_from(self.sides.source) as i64;
                (0..n).step_by(CHUNK).all(|done| {
                    let mut buffer = Buffer::<{ CHUNK * LARGEST }>::new();
                    let buffer = buffer.start();
                    let some = CHUNK.min(n - done);
                    self.gather((start + done as i64 * from.1, from.1), buffer, some);
                    self.caster.run(buffer, to.add(done * destination_size), some)
                })
            })
        }
    }

    unsafe fn matrix(
        &self,
        from: (i64, i64),
        to: (i64, i64),
        rows: usize,
        columns: usize,
        _ahead: i64,
    ) -> bool {
        let whole = self.sides.matrix(from, to, rows, columns);
        // SAFETY: as the caller says.
        unsafe { Fused::new(self, from, to, &whole).run() }
    }

    fn batches(&self, _to: i64, rows: usize, columns: usize, count: usize) -> bool {
        // A call for less takes longer than to put it together with others.
        let is_some = rows * columns >= BATCH_ELEMENTS.0 && rows * columns * count >= BATCH_ELEMENTS.1;
        self.transpose.is_some() && is_some && rows * columns * self.caster.sizes().0 <= BATCH_TO
    }

    unsafe fn batch(
        &self,
        from: (i64, i64),
        to: i64,
        (rows, columns): (usize, usize),
        count: usize,
        next: i64,
    ) -> bool {
        let (source_size, destination_size) = self.caster.sizes();
        let (elements, row) = (rows * columns, (rows * destination_size) as i64);
        let Some(stage) = Stage::take() else {
            return (0..count as i64).all(|index| {
                let (from, to) = ((from.0 + index * next, from.1), (to + index * columns as i64 * row, row));
                // SAFETY: as the caller says.
                unsafe { self.matrix(from, to, rows, columns, 0) }
            });
        };
        let (transpose, _) = self.transpose.expect("batches() says so");
        let first = self.sides.matrix(from, (to, 0), rows, columns);
        let batch = Batch::of_matrices(&first, next as isize, count, transpose, source_size);
        // SAFETY: as the caller says.
        unsafe { self.cast_batch(&batch, first.destination, elements, &stage) }
    }

    fn scatters(&self, _axes: usize, inner: &Axis, _near: &Axis) -> Reaches {
        // Whatever is transposed as it is read is in whole bytes, of a size that is known.
        match (self.transpose, self.scattered) {
            (Some(_), Some(_)) => {
                // What widens reads few rows at a time so, which matters where they share sets of the caches.
                let pays = || self.is_alone || self.caster.sizes().0 == 2;
                let shares = self.streams && inner.source % CLASH as i64 == 0;
                let pairs = shares && pays() && self.caster.as_loaded().is_some();
                transpose::reach_of_casts(self.caster.sizes(), self.streams, pairs)
            }
            _ => NO_REACH,
        }
    }

    unsafe fn scattered(&self, from: i64, to: i64, matrices: &Matrices) -> bool {
        let sizes = self.caster.sizes();
        let around = self.streams && !stream::through();
        // SAFETY: as the caller says; the end is one of the source. Without a buffer each element is cast by itself.
        unsafe {
            let source = self.sides.source.offset(from as isize);
            let destination = self.sides.destination.offset(to as isize);
            let end = matrices.end.map(|(end, dense)| (self.sides.source.offset(end as isize), dense));
            let scattered = Scattered { source, destination, matrices, end, far: self.streams };
            let cast = |from: *const u8, to: *mut u8, n| self.caster.run(from, to, n);
            let put = |from: *const u8, to: *mut u8, n, carried: *mut Line, ends: (bool, bool)| {
                // What is less than a line, and all of its column, has none to itself.
                if around && (n * sizes.1 >= LINE || ends != (true, true)) {
                    self.run_around(from, to, n, carried, ends)
                } else {
                    cast(from, to, n)
                }
            };
            let done = match self.scattered {
                _ if matrices.pairs => match self.as_loaded(matrices) {
                    Some(load) => load(&scattered).then_some(true),
                    None => transpose::cast_scattered(&scattered, sizes, cast),
                },
                Some(transpose) => transpose::put_scattered(&scattered, sizes, transpose, around, put),
                None => None,
            };
            done.unwrap_or_else(|| scattered.each(sizes, &mut |from, to| self.caster.run(from, to, 1)))
        }
    }

    fn crosses(&self, n: i64, along: &Axis, across: &Axis) -> bool {
        let (source_size, destination_size) = self.caster.sizes();
        let bytes = (n * source_size as i64, n * destination_size as i64);
        let is_short = bytes.1 <= stream::crossed::MOST;
        // Pieces are better for small elements.
        let is_wide = destination_size > 2 || !self.has_few(n, false) || !Memory::joins_rows();
        let pays = is_short && is_wide && stream::crossed::pays(bytes, along, across);
        self.streams && !stream::through() && pays
    }

    unsafe fn crossed(&self, from: i64, to: i64, n: usize, along: &Axis, across: &Axis) -> bool {
        let (source_size, destination_size) = self.caster.sizes();
        let bytes = (n * source_size, n * destination_size);
        // SAFETY: as the caller says.
        unsafe {
            let source = self.sides.source.offset(from as isize);
            let destination = self.sides.destination.offset(to as isize);
            let cast = |from: *const u8, to: *mut u8| self.caster.run(from, to, n);
            stream::crossed::put(source, destination, bytes, along, across, cast)
        }
    }

    fn in_pieces(&self, axes: &[Axis], near: Option<usize>) -> Option<pieces::Order> {
        if self.from_bits.is_some() || self.to_bits.is_some() || axes.len() > MOST_AXES {
            return None;
        }
        let (inner, steps) = (axes.last()?, self.steps());
        let is_short = match near {
            Some(near) if (axes[near].source.abs(), inner.destination) == steps => {
                let follow = axes[near].destination == inner.extent * steps.1;
                let matrix = inner.extent * axes[near].extent;
                let are_small = inner.extent.min(axes[near].extent) < SHORT_SIDE && matrix < SMALL;
                are_small && elements(axes) as i64 >= SOME_MATRICES * matrix
                    || !follow && inner.extent * steps.1 <= 32
            }
            _ if self.streams => self.has_few(inner.extent, pieces::are_in_order(axes)),
            _ => inner.extent < self.short_row(inner) && elements(axes) as i64 >= SOME_ROWS * inner.extent,
        };
        let crosses = || near.is_some_and(|near| pieces::are_apart(axes, near, steps.0, self.streams));
        let order = if is_short { Some(pieces::Order::Destination) } else { None };
        order.or_else(|| crosses().then_some(pieces::Order::Source))
    }

    fn sides(&self) -> Sides {
        self.sides
    }

    fn reading(&self, source: *const u8) -> CastKernel {
        CastKernel { sides: Sides { source, ..self.sides }, ..*self }
    }

    fn shuffles(&self) -> bool {
        self.transpose.is_some()
    }

    unsafe fn shuffled(&self, from: i64, to: i64, count: usize, shuffle: &Shuffle) -> bool {
        let (source_size, destination_size) = self.caster.sizes();
        let elements = shuffle.bytes / source_size;
        // SAFETY: as the caller says; the buffer holds the largest group.
        unsafe {
            let source = self.sides.source.offset(from as isize);
            let destination = self.sides.destination.offset(to as isize);
            let batch = Batch::of_groups(shuffle, source, destination, count);
            if let Some(stage) = Stage::take() {
                return self.cast_batch(&batch, destination, elements, &stage);
            }
            // Slower, but without memory.
            let mut buffer = Buffer::<{ shuffle::MOST }>::new();
            (0..count).all(|index| {
                batch.run(index, 1, buffer.start(), false);
                let to = destination.add(index * elements * destination_size);
                self.caster.run(buffer.start(), to, elements)
            })
        }
    }
}

/// Elements of a matrix, and of all of a batch, from which on it is done as one.
const BATCH_ELEMENTS: (usize, usize) = (16, 128);
/// Bytes of rows, of the larger side, that are better one than each by itself.
const AS_ONE: usize = 768;
/// Bytes of rows of the result that are written around the caches one by one, though they share the lines at their ends.
const AROUND: usize = 512;
/// Bytes from a short row to those that are asked for.
const SHORT_AHEAD: usize = 8 << 10;
/// Elements of a row below which pieces are better: in the caches, and where it is written around them.
const SHORT_ROW: i64 = 128;
const FEW: i64 = 16;
/// Rows and matrices from which on pieces are worth what it takes to begin with them.
const SOME_ROWS: i64 = 16;
const SOME_MATRICES: i64 = 4;
/// The same of the shorter side of a matrix, and of all of it.
const SHORT_SIDE: i64 = 24;
const SMALL: i64 = 1024;

/// Bytes of a matrix of the source up to which it is cast together with others: larger ones have long enough rows by
/// themselves.
const BATCH_TO: usize = 32 << 10;

/// What is read of a row of a large matrix before its next row, or what that is cast to, in bytes: of less,
/// the rows' starts would be much of it.
const RUN: usize = 1024;
/// Elements of the longest run.
const LONGEST_RUN: usize = 256;
/// What is written of a row of the destination before its next row, in bytes: memory takes shorter pieces
/// slowly.
const PIECE: usize = 768;
/// Elements of the longest piece.
const LONGEST_PIECE: usize = 512;
/// Rows after the one that is read whose lines are asked for.
const ROWS_AHEAD: isize = 3;
/// What is transposed of a row before the next rows, in bytes: the widest vector.
fn wide() -> usize {
    if Isa::get() == Isa::Avx512 { 64 } else { 32 }
}
/// Bytes of short rows of the destination that are cast together.
const ROWS: usize = 4 << 10;

/// In a matrix that is narrow one way, the same: lines that the processor fetches together.
const STRIP: usize = 256;
/// In such a matrix, the longest piece of a row of the destination, in bytes.
const SEGMENT: usize = 512;
/// Elements of the longest segment.
const LONGEST: usize = 256;
/// The longest rows of the destination, in bytes and in elements, that are written as one where they follow each other.
const WHOLE: (usize, usize) = (4 << 10, 768);
/// Rows until the lines that are asked for at one strip would be lost before the next.
const HEIGHT: usize = 512;
/// Rows of the source that start at multiples of so many bytes share few sets of the caches.
const CLASH: isize = 1024;
/// The most columns of a window which reads four bytes for each that it writes.
const SHORT_WINDOW: usize = 512;
/// Bytes of a block of a matrix that is narrow one way.
const NARROW: usize = 16 << 10;
/// Columns, or rows, of one up to which it is half as large ([`Memory::Near`]): what comes next of it is asked for, and is
/// soon there.
fn channels() -> usize {
    if Memory::is_zen4() { 5 } else { 4 }
}
/// Elements of a row that are worth a cast of their own.
const OWN: usize = 128;

/// A transpose fused with a cast, block by block.
struct Fused<'a> {
    kernel: &'a CastKernel,
    /// As [`Kernel::matrix`] has them.
    from: (i64, i64),
    to: (i64, i64),
    /// For elements of the source, and of the destination.
    transpose: (TransposeFn, TransposeFn),
    matrix: &'a Matrix,
    source_size: usize,
    destination_size: usize,
    order: Order,
    block: Block,
    /// Whether the rows of the destination follow each other, and blocks have them whole.
    follow: bool,
    streams: bool,
    /// Whether what is read next is asked for as something is written.
    asks: bool,
}

/// What comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// In a large matrix, where elements become smaller: runs of rows are cast, then transposed, so that less goes
    /// through the caches.
    Cast,
    /// In a large matrix, where they do not: strips are transposed as they are read, and cast as they are written.
    Strips,
    /// In one that is narrow one way: elements are transposed as they are, then cast, in rows that are longer than
    /// those of the matrix.
    Transpose,
}

/// Where blocks are put together.
struct Buffers {
    /// The first step's elements: room for the largest block, with a line after each of its rows. Where they
    /// are cast before they are transposed, what is transposed at a time follows. It carries what did not fill a line of
    /// each row of the destination.
    block: Stage,
    /// Short rows of the destination.
    rows: Buffer<ROWS>,
}

/// How many columns and rows a block of a large matrix has.
fn run_and_piece(source_size: usize, destination_size: usize) -> (usize, usize) {
    let larger = source_size.max(destination_size);
    (LONGEST_RUN.min(RUN / larger), LONGEST_PIECE.min(PIECE / destination_size))
}

/// How many columns and rows a block has, in a matrix of so many that is narrow; whether it has whole rows of the destination
/// however long they are.
fn strip_and_block(
    source_size: usize,
    destination_size: usize,
    (rows, columns): (usize, usize),
    whole: bool,
) -> (usize, usize) {
    let (strip, block) = (STRIP / source_size, LONGEST.min(SEGMENT / destination_size));
    // Whole lines of as many as there is room for.
    let long = |short: usize| {
        let few = short <= channels() && Memory::get() == Memory::Near;
        let narrow = if few { NARROW / 2 } else { NARROW };
        narrow / source_size.max(destination_size) / short / LINE * LINE
    };
    if columns < strip {
        (columns, block.max(long(columns)))
    } else if rows < block || whole {
        (strip.max(long(rows)), rows)
    } else {
        (strip, block)
    }
}

/// Whether rows of so many elements are written as one where they follow each other.
fn is_whole(rows: usize, destination_size: usize) -> bool {
    let (bytes, elements) = WHOLE;
    rows <= elements.min(bytes / destination_size)
}

impl<'a> Fused<'a> {
    fn new(kernel: &'a CastKernel, from: (i64, i64), to: (i64, i64), matrix: &'a Matrix) -> Self {
        let transpose = kernel.transpose.expect("transposes() says so");
        let (source_size, destination_size) = kernel.caster.sizes();
        let Matrix { rows, columns, .. } = *matrix;
        let (run, piece) = run_and_piece(source_size, destination_size);
        let follow = matrix.destination_row == (rows * destination_size) as isize;
        let whole = follow && is_whole(rows, destination_size);
        // Not measured on other processors, which do large ones by blocks.
        let large = columns >= run && rows >= piece && !(whole && Memory::get() == Memory::Near);
        let runs = kernel.runs && large && rows * destination_size > SEGMENT;
        // Strips of rows that share few sets of the second cache are not there any more when they are read.
        let clashes = matrix.source_row % CLASH == 0;
        let narrows = destination_size < source_size || runs && destination_size == source_size;
        let larger = source_size.max(destination_size);
        let block = match large {
            _ if runs && Memory::get() == Memory::Deep => Block::across(larger, !narrows),
            _ if runs => {
                let staged = if narrows || clashes { destination_size } else { source_size };
                let of_runs = |which| Block::of_runs(columns, larger, staged, which);
                let block = match Memory::get() {
                    Memory::Other => of_runs(Block::SHORT).beside(),
                    _ if narrows || stream::through() => of_runs(Block::LONG),
                    Memory::Near if larger == 2 || larger == 4 && Memory::is_zen5() => of_runs(Block::TALL),
                    _ => of_runs(Block::SHORT),
                };
                Block { strip: wide() / source_size, ..block.of_rows(rows) }
            }
            _ => {
                let (columns, rows) = match large {
                    true => (run, piece),
                    false => strip_and_block(source_size, destination_size, (rows, columns), whole),
                };
                Block { columns, band: columns, strip: wide() / source_size, rows }
            }
        };
        // A block of a large one goes to rows of its own.
        let follow = !large && block.rows == rows && follow;
        // Short rows that do not follow each other share their lines with what is between them.
        let streams = kernel.streams && (follow || rows * destination_size > SEGMENT);
        let order = match large {
            true if narrows || clashes || !streams => Order::Cast,
            true => Order::Strips,
            false => Order::Transpose,
        };
        Fused {
            kernel,
            from,
            to,
            transpose,
            matrix,
            source_size,
            destination_size,
            order,
            block,
            follow,
            streams,
            asks: runs
                && match Memory::get() {
                    // What comes next of a run is in the block beside; rows ahead are asked for as others are cast.
                    Memory::Other => false,
                    // Of what gets much smaller too much would be asked for with each line that is written.
                    Memory::Mesh => destination_size > 1,
                    Memory::Deep | Memory::Near => true,
                },
        }
    }

    /// False: a value was lost.
    ///
    /// # Safety
    /// As [`Kernel::matrix`].
    unsafe fn run(&self) -> bool {
        let Matrix { rows, columns, source_row, .. } = *self.matrix;
        let Some(block) = Stage::take() else {
            // Slower, but without memory.
            return (0..columns as i64).all(|column| {
                let steps = self.kernel.steps();
                let from = (self.from.0 + column * steps.0, self.from.1);
                let to = (self.to.0 + column * self.to.1, steps.1);
                // SAFETY: a row of the destination.
                unsafe { self.kernel.row(from, to, rows) }
            });
        };
        if self.order == Order::Strips {
            // SAFETY: as the caller says.
            return unsafe { self.strips(&block) };
        }
        let mut buffers = Buffers { block, rows: Buffer::new() };
        // What is narrow is read in order; else what comes next is to the right, unless all that is asked
        // for falls on the same sets of the cache.
        let block = self.block;
        let (height, ahead) = match block.columns < columns {
            _ if self.asks => (rows, 0),
            _ if self.order == Order::Cast => (rows, ROWS_AHEAD * source_row),
            false => {
                let next = block.rows as isize * source_row;
                let is_in_order = source_row.unsigned_abs() == columns * self.source_size;
                (rows, if columns <= channels() && is_in_order { stream::block_ahead(next) } else { next })
            }
            true if rows <= channels() => (rows, stream::block_ahead(STRIP as isize)),
            true if source_row % CLASH == 0 => (block.rows, STRIP as isize),
            true => (HEIGHT.next_multiple_of(block.rows), STRIP as isize),
        };
        for top in (0..rows).step_by(height) {
            let bottom = rows.min(top + height);
            for (row, column, band) in block.each(bottom - top, columns) {
                let row = top + row;
                // SAFETY: the block is within the matrix.
                let kept = unsafe {
                    let part = Matrix {
                        source: self.matrix.from(self.source_size, row, column),
                        destination: self.matrix.to(self.destination_size, row, column),
                        rows: block.rows.min(bottom - row),
                        columns: block.columns.min(columns - column),
                        ..*self.matrix
                    };
                    // Of a row of the destination, or of all that follow each other.
                    let ends = match self.follow {
                        true => (column == 0, column + part.columns == columns),
                        false => (row == top, row + part.rows == bottom),
                    };
                    let at = (row, column, band);
                    match self.order {
                        Order::Cast => self.cast_then_transpose(&part, at, ahead, ends, &mut buffers),
                        _ => self.transpose_then_cast(&part, ahead, ends, &mut buffers),
                    }
                };
                if !kept {
                    return false;
                }
            }
        }
        true
    }

    /// # Safety
    /// As [`Fused::run`].
    unsafe fn strips(&self, stage: &Stage) -> bool {
        let block = self.block;
        // SAFETY: the caller's; a block has no more columns than there are lines to carry.
        unsafe {
            transpose::each_piece(self.matrix, self.transpose.0, self.source_size, block, stage, |piece| {
                let to = self.matrix.to(self.destination_size, piece.row, piece.column);
                let carried = stage.carried(piece.index);
                self.kernel.run_around(piece.staged, to, piece.rows, carried, piece.ends)
            })
        }
    }

    /// # Safety
    /// As [`Fused::run`], of a block.
    unsafe fn cast_then_transpose(
        &self,
        part: &Matrix,
        at: (usize, usize, usize),
        ahead: isize,
        ends: (bool, bool),
        buffers: &mut Buffers,
    ) -> bool {
        let (size, Matrix { rows, columns, .. }) = (self.destination_size, *part);
        let mut next = Ahead::after(self.matrix, self.source_size, &self.block, at);
        let (_, left, band) = at;
        let lines = if self.asks { lines_each(rows, rows * columns * self.source_size, columns) } else { 0 };
        let (cast, pitch) = (buffers.block.start(), columns * size + LINE);
        // SAFETY: the caller's; a block and what is transposed of it fit the buffer.
        unsafe {
            for row in 0..rows {
                let from = part.from(self.source_size, row, 0);
                if !self.asks {
                    stream::prefetch_bytes(
                        from.wrapping_offset(ahead),
                        (columns * self.source_size) as isize,
                    );
                }
                if !self.kernel.caster.run(from, cast.add(row * pitch), columns) {
                    return false;
                }
            }
            let block = Matrix { source: cast, source_row: pitch as isize, ..*part };
            if !self.streams {
                (self.transpose.1)(&block, How::Cached);
                return true;
            }
            let (wide, bytes) = (wide() / size, rows * size);
            let (transposed, pitch) = (cast.add(rows * pitch), bytes + LINE);
            for first in (0..columns).step_by(wide) {
                let part = block.part(size, 0, first, rows, wide.min(columns - first));
                let staged =
                    Matrix { destination: transposed.add(LINE), destination_row: pitch as isize, ..part };
                (self.transpose.1)(&staged, How::Cached);
                for index in 0..part.columns {
                    let row = transposed.add(index * pitch);
                    let carried = buffers.block.carried(left - band + first + index);
                    row.cast::<Line>().write(carried.read());
                    stream::write_around(row, part.to(size, 0, index), bytes, ends.0, ends.1);
                    carried.write(row.cast::<Line>().read());
                    next.ask(lines);
                }
            }
        }
        true
    }

    /// # Safety
    /// As [`Fused::run`], of a block.
    unsafe fn transpose_then_cast(
        &self,
        part: &Matrix,
        ahead: isize,
        ends: (bool, bool),
        buffers: &mut Buffers,
    ) -> bool {
        let caster = &self.kernel.caster;
        let (mut lines, mut line) = (part.columns, part.rows);
        // Rows that are a power of two apart would push each other out of the first cache.
        let together = self.follow || line < OWN && !self.streams;
        let pitch = line * self.source_size + if together { 0 } else { LINE };
        let transposed = buffers.block.start();
        let to = |index: usize| part.destination.wrapping_offset(index as isize * part.destination_row);
        // SAFETY: the caller's; a block fits its buffer.
        unsafe {
            let matrix = Matrix { destination: transposed, destination_row: pitch as isize, ..*part };
            (self.transpose.0)(&matrix, How::Ahead(ahead));
            if self.follow {
                (lines, line) = (1, lines * line);
            }
            let from = |index: usize| transposed.add(index * pitch).cast_const();
            if self.streams {
                let size = self.destination_size;
                // The same way for all blocks of a row, though the last one is shorter.
                let whole =
                    if self.follow { self.block.columns * self.block.rows } else { self.block.rows } * size;
                return (0..lines).all(|index| {
                    if whole >= LONG_ROW && stream::through() {
                        let (from, to, step) = (from(index), to(index), self.source_size);
                        let from = (from, Steps::one(step as isize));
                        return stream::in_order(
                            from,
                            (to, 0),
                            (step, size, true),
                            (line, 1),
                            |from, count, to| caster.run(from, to, count),
                        );
                    }
                    let carried = buffers.block.carried(index);
                    self.kernel.run_around(from(index), to(index), line, carried, ends)
                });
            }
            if line >= OWN || self.follow {
                return (0..lines).all(|index| caster.run(from(index), to(index), line));
            }
            // As many short rows as fit, then each to its place.
            let rows = buffers.rows.start();
            let bytes = line * self.destination_size;
            let some = ROWS / bytes;
            (0..lines).step_by(some).all(|first| {
                let count = some.min(lines - first);
                let kept = caster.run(from(first), rows, count * line);
                for index in 0..count {
                    rows.add(index * bytes).copy_to_nonoverlapping(to(first + index), bytes);
                }
                kept
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit() {
        let sizes = [1, 2, 4, 8, 16];
        for (source_size, destination_size) in sizes.iter().flat_map(|a| sizes.map(|b| (*a, b))) {
            let (run, piece) = run_and_piece(source_size, destination_size);
            let mut blocks = vec![(run, piece, destination_size)];
            for columns in [run, 700, 1024, 1025, 5000] {
                for staged in [source_size.min(destination_size), destination_size] {
                    let larger = source_size.max(destination_size);
                    for which in [Block::LONG, Block::SHORT, Block::TALL] {
                        let block = Block::of_runs(columns, larger, staged, which);
                        blocks.push((block.columns, block.rows, staged));
                        // A line waits for each column of those that are side by side.
                        let beside = block.beside();
                        assert_eq!((beside.columns, beside.rows), (block.columns, block.rows));
                        assert!((block.columns..=transpose::MOST_COLUMNS).contains(&beside.band));
                        assert_eq!(beside.band % block.columns, 0);
                        for rows in [1, 63, 257, 300, 373, 1057, 40_000] {
                            let Block { rows: each, .. } = block.of_rows(rows);
                            let last = rows - (rows - 1) / each * each;
                            let count = rows.div_ceil(each);
                            assert!(
                                each <= block.rows && last + LINE / 4 * count >= each,
                                "{each} of {rows}"
                            );
                            assert_eq!(count, rows.div_ceil(block.rows));
                        }
                    }
                    let block = Block::across(larger, staged < destination_size);
                    blocks.push((block.columns, block.rows, staged));
                }
            }
            for (run, piece, staged) in blocks {
                // Cast, then transposed; or transposed, a strip at a time.
                let cast = piece * (run * staged + LINE);
                let transposed = 64 / staged * (piece * staged + LINE);
                let which = (source_size, destination_size, run, piece);
                assert!(cast + transposed <= transpose::STAGE, "{which:?}");
                assert!(run <= transpose::MOST_COLUMNS && piece * destination_size >= LINE, "{which:?}");
            }
        }
        let extents =
            || (1..70).chain([100, 127, 128, 129, 200, 255, 256, 257, 500, 512, 513, 768, 769, 5000]);
        for (source_size, destination_size) in sizes.iter().flat_map(|a| sizes.map(|b| (*a, b))) {
            for (rows, columns) in extents().flat_map(|a| extents().map(move |b| (a, b))) {
                for whole in [false, is_whole(rows, destination_size)] {
                    let (strip, block) =
                        strip_and_block(source_size, destination_size, (rows, columns), whole);
                    let which = (source_size, destination_size, rows, columns, whole);
                    // With a line after each row of it, where rows are cast one by one.
                    let apart = block >= OWN || rows * destination_size > SEGMENT;
                    let room = strip * (block * source_size + if apart { LINE } else { 0 });
                    assert!(room <= transpose::STAGE, "{which:?}");
                    // What is kept of each row of the destination, where it is written in pieces.
                    assert!(strip <= STRIP || block == rows, "{which:?}");
                    // A piece is a line at least.
                    assert!(block * destination_size >= LINE || block == rows, "{which:?}");
                    assert!(strip * rows * destination_size >= LINE || strip >= columns, "{which:?}");
                    assert!(!whole || block == rows || columns < strip.max(STRIP / source_size), "{which:?}");
                }
            }
        }
    }
}
