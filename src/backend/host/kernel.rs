//! The kernels of a job that changes no value: moves of bytes and of bits. Casts have their own.

use super::bits;
use super::copy::{self, CopyFn, Steps};
use super::fuse::{Matrices, NO_REACH, Reaches};
use super::isa::Isa;
use super::pieces;
use super::prepared::MOST_AXES;
use super::shuffle::Shuffle;
use super::stream::{self, LINE, LONG_ROW, Memory};
use super::transpose::{self, Batch, How, Matrix, Scattered, ScatteredFn, TransposeFn};
use super::walk::Kernel;
use crate::layout::Axis;

/// The first element of each side.
#[derive(Clone, Copy)]
pub struct Sides {
    pub source: *const u8,
    pub destination: *mut u8,
}

// SAFETY: the kernels read one and write the other, and no two threads write one element.
unsafe impl Sync for Sides {}

impl Sides {
    pub fn between(source: u64, destination: u64) -> Sides {
        Sides { source: source as usize as *const u8, destination: destination as usize as *mut u8 }
    }

    /// A matrix as [`Kernel::matrix`] has it.
    pub fn matrix(&self, from: (i64, i64), to: (i64, i64), rows: usize, columns: usize) -> Matrix {
        Matrix {
            source: self.source.wrapping_offset(from.0 as isize),
            source_row: from.1 as isize,
            destination: self.destination.wrapping_offset(to.0 as isize),
            destination_row: to.1 as isize,
            rows,
            columns,
        }
    }
}

/// Moves elements of some bytes.
#[derive(Clone, Copy)]
pub struct Move {
    pub sides: Sides,
    size: usize,
    copy: Option<CopyFn>,
    transpose: Option<TransposeFn>,
    scattered: Option<ScatteredFn>,
    how: How,
    /// Whether the source may be in no cache.
    far: bool,
}

impl Move {
    /// For `bytes` in elements of `size`, on so many threads at most (0: as many as the process may run on).
    pub fn new(sides: Sides, size: usize, bytes: usize, threads: u32) -> Move {
        let isa = Isa::get();
        // Only where the whole result is too large for the caches.
        let how = if stream::pays_for((bytes, bytes), threads) { How::Streamed } else { How::Cached };
        // The shorter vectors, which are best of what comes from memory, have two speeds on Zen 5 for elements of two bytes: where
        // the code lies decides which.
        let are_shorter = how == How::Streamed && !(size == 2 && Memory::is_zen5());
        let copy = copy::for_size(isa, size, are_shorter);
        let transpose = transpose::for_size(isa, size);
        let scattered = transpose::scattered_for_size(isa, size);
        Move { sides, size, copy, transpose, scattered, how, far: bytes >= far() }
    }

    /// Whether rows of such steps are written around the caches. Where lines are read for a part of them only,
    /// that is mostly what takes the time.
    fn streams(&self, from: i64, to: i64, n: usize, (next, count): (i64, usize)) -> bool {
        if self.how != How::Streamed || n * self.size < LONG_ROW || cfg!(not(target_arch = "x86_64")) {
            return false;
        }
        let size = self.size as i64;
        let known = self.copy.is_some() && self.size <= stream::LARGEST;
        let gathers = || {
            stream::by_lines(self.size, from as isize, count).is_some()
                || stream::gathers(from as isize, (next - n as i64 * from) as isize, count)
        };
        to == size && (from == size || known && (from == -size || gathers()))
    }

    /// Whether the axes that are innermost on either side are too short for matrices that are written around the caches: each
    /// of their columns is a few bytes.
    fn are_short(&self, inner: &Axis, near: &Axis) -> bool {
        const COLUMN: i64 = 8;
        let size = self.size as i64;
        let are_few = inner.extent * size <= COLUMN && near.extent * size < LINE as i64;
        self.how == How::Streamed && size <= 2 && near.source.abs() == size && are_few
    }

    /// Whether [`Kernel::rows`] writes runs of `n` elements around the caches.
    fn is_around(&self, n: i64, along: Option<&Axis>) -> bool {
        let bytes = n * self.size as i64;
        let many = |axis: &Axis| {
            axis.destination == bytes && axis.extent * bytes >= stream::crossed::AS_ONE_FROM as i64
        };
        bytes >= SHORT_ROW as i64 && along.is_some_and(many)
    }

    /// Whether rows of such steps, which follow each other in the destination, are written around the caches as one row
    /// that is asked for.
    fn streams_as_one(&self, from: i64, to: i64, n: usize, next: (i64, i64), count: usize) -> bool {
        let (size, bytes, step) = (self.size as i64, n * self.size, next.0.unsigned_abs() as usize);
        // Shorter ones are better put together, unless they are few of the lines that are read in order.
        let pays = match Memory::is_zen5() {
            true => {
                AS_ONE.contains(&bytes) || (SHORT_ROW..AS_ONE.start).contains(&bytes) && step >= 2 * bytes
            }
            false => AS_ONE_NEAR.contains(&bytes) && step.abs_diff(bytes) <= bytes / 4,
        };
        let follow = (from, to, next.1) == (size, size, bytes as i64);
        self.streams_batches()
            && Memory::joins_rows()
            && pays
            && follow
            && bytes * count >= stream::crossed::AS_ONE_FROM
    }

    /// Whether rows of such steps, so many bytes from one to the next, are written around the caches together.
    fn streams_together(&self, from: i64, to: (i64, i64), n: usize, next: i64, count: usize) -> bool {
        let (size, bytes) = (self.size as i64, n * self.size);
        let follow = (from, to.1, next) == (size, size, bytes as i64);
        self.streams_batches()
            && follow
            && (SHORT_ROW..LONG_ROW).contains(&bytes)
            && bytes * count >= LONG_ROW
    }

    /// Whether what is put together is written around the caches.
    fn streams_batches(&self) -> bool {
        self.how == How::Streamed && cfg!(target_arch = "x86_64") && !stream::through()
    }

    /// Writes rows around the caches.
    ///
    /// # Safety
    /// As [`Kernel::rows`].
    #[inline(never)]
    unsafe fn rows_around(
        &self,
        (source, from): (*const u8, Steps),
        (destination, to): (*mut u8, Steps),
        n: usize,
        count: usize,
    ) {
        let size = self.size as isize;
        if let Some(copy) = self.copy
            && let Some(by_lines) = stream::by_lines(self.size, from.element, count)
            && (destination as usize | to.row as usize).is_multiple_of(self.size)
        {
            // SAFETY: as the caller says.
            unsafe { by_lines(copy, (source, from.row), (destination, to.row), n, count) };
            return;
        }
        if let Some(copy) = self.copy.filter(|_| from.element != size) {
            // SAFETY: as the caller says.
            unsafe {
                stream::in_order(
                    (source, from),
                    (destination, to.row),
                    (self.size, self.size, false),
                    (n, count),
                    |source, n, to| {
                        copy(source, Steps::one(from.element), to, Steps::one(size), n, 1);
                        true
                    },
                );
            }
            return;
        }
        for row in 0..count as isize {
            // SAFETY: as the caller says.
            unsafe {
                stream::copy(source.offset(row * from.row), destination.offset(row * to.row), n * self.size)
            };
        }
    }

    /// Writes around the caches rows that follow each other in the destination.
    ///
    /// # Safety
    /// As [`Kernel::rows`]; so many bytes are in a row, [`LONG_ROW`] at most, and a line in all.
    #[inline(never)]
    unsafe fn rows_together(
        source: *const u8,
        step: isize,
        destination: *mut u8,
        bytes: usize,
        count: usize,
    ) {
        let (some, total) = (stream::MOST / bytes, bytes * count);
        // With little between them rows are read in order, of which some prefetchers make nothing.
        let between = (step - bytes as isize).unsigned_abs();
        let asks = stream::asks(step) || between > bytes / 16 || Memory::is_zen5();
        // SAFETY: what is put together at a time are whole rows, for all of them are.
        unsafe {
            let first = &mut { stream::NOTHING };
            stream::row(
                destination,
                1,
                total,
                (some * bytes, some * bytes),
                first,
                (true, true),
                |done, part, buffer| {
                    for index in 0..part / bytes {
                        let row = source.wrapping_offset((done / bytes + index) as isize * step);
                        if asks {
                            stream::prefetch_bytes(row.wrapping_offset(some as isize * step), bytes as isize);
                        }
                        row.copy_to_nonoverlapping(buffer.add(index * bytes), bytes);
                    }
                    true
                },
            );
        }
    }
}

impl Kernel for Move {
    fn steps(&self) -> (i64, i64) {
        (self.size as i64, self.size as i64)
    }

    fn transposes(&self) -> bool {
        self.transpose.is_some()
    }

    fn goes_around(&self) -> bool {
        self.how == How::Streamed
    }

    fn elsewhere(&self, destination: *mut u8) -> Move {
        Move::new(Sides { destination, ..self.sides }, self.size, 0, 1)
    }

    fn through(&self, axes: &[Axis]) -> Option<Move> {
        let row = axes.last()?;
        let is_copy = self.how == How::Streamed && (row.source, row.destination) == self.steps();
        let is_long = axes.len() == 1 || row.extent * self.size as i64 >= SHORT_ROW as i64;
        let is_in_order = axes.is_sorted_by(|outer, inner| outer.source.abs() >= inner.source.abs());
        (is_copy && is_long && is_in_order).then(|| self.elsewhere(self.sides.destination))
    }

    unsafe fn row(&self, from: (i64, i64), to: (i64, i64), n: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe {
            if (from.1, to.1) == self.steps() {
                let source = self.sides.source.offset(from.0 as isize);
                let destination = self.sides.destination.offset(to.0 as isize);
                if self.streams(from.1, to.1, n, (0, 1)) {
                    stream::copy(source, destination, n * self.size);
                } else {
                    copy::bytes(source, destination, n * self.size);
                }
                return true;
            }
            self.rows(from, to, n, 1, (0, 0))
        }
    }

    unsafe fn rows(
        &self,
        from: (i64, i64),
        to: (i64, i64),
        n: usize,
        count: usize,
        next: (i64, i64),
    ) -> bool {
        let from_steps = Steps { element: from.1 as isize, row: next.0 as isize };
        let to_steps = Steps { element: to.1 as isize, row: next.1 as isize };
        // SAFETY: as the caller says.
        unsafe {
            let source = self.sides.source.offset(from.0 as isize);
            let destination = self.sides.destination.offset(to.0 as isize);
            let bytes = n * self.size;
            if self.streams_as_one(from.1, to.1, n, next, count) {
                return self.as_one(from.0, to.0, n, count, next);
            } else if self.streams(from.1, to.1, n, (next.0, count)) {
                self.rows_around((source, from_steps), (destination, to_steps), n, count);
            } else if self.streams_together(from.1, to, n, next.1, count) {
                Move::rows_together(source, from_steps.row, destination, bytes, count);
            } else if let Some(copy) = self.copy {
                copy(source, from_steps, destination, to_steps, n, count);
            } else {
                copy::of_any_size(source, from_steps, destination, to_steps, n, count, self.size);
            }
        }
        true
    }

    unsafe fn matrix(
        &self,
        from: (i64, i64),
        to: (i64, i64),
        rows: usize,
        columns: usize,
        ahead: i64,
    ) -> bool {
        let transpose = self.transpose.expect("transposes() says so");
        let matrix = self.sides.matrix(from, to, rows, columns);
        let small = rows * columns * self.size <= SMALL_MATRIX;
        let around = self.how == How::Streamed && matrix.is_of_lines(self.size);
        let asks = self.far && small && ahead != 0 && !around;
        let how = match self.how {
            _ if asks => How::Ahead(ahead as isize),
            How::Cached if self.far => How::Far,
            how => how,
        };
        // SAFETY: as the caller says.
        unsafe { transpose(&matrix, how) };
        true
    }

    fn batches(&self, to: i64, rows: usize, columns: usize, count: usize) -> bool {
        self.streams_batches()
            && transpose::is_batch(&self.sides.matrix((0, 0), (to, 0), rows, columns), count, self.size)
    }

    unsafe fn batch(
        &self,
        from: (i64, i64),
        to: i64,
        (rows, columns): (usize, usize),
        count: usize,
        next: i64,
    ) -> bool {
        let transpose = self.transpose.expect("transposes() says so");
        let first = self.sides.matrix(from, (to, 0), rows, columns);
        // SAFETY: as the caller says.
        unsafe { Batch::of_matrices(&first, next as isize, count, transpose, self.size).around() };
        true
    }

    fn in_runs(&self, n: i64, along: Option<&Axis>) -> Option<usize> {
        if self.how == How::Streamed && (!Memory::joins_rows() || self.is_around(n, along)) {
            return None;
        }
        // Elements of some sizes have better rows than of one, and what is shorter and not in the caches is walked in blocks.
        let bytes = n as usize * self.size;
        let is_run = n > 1 || self.copy.is_none();
        let is_whole = !self.far || bytes >= whole_run();
        (is_run && is_whole && bytes <= copy::SHORT).then_some(bytes)
    }

    unsafe fn runs(&self, from: i64, to: i64, bytes: usize, axes: &[Axis]) -> bool {
        let copy = copy::of_runs(Isa::get());
        // SAFETY: as the caller says.
        unsafe {
            let source = self.sides.source.offset(from as isize);
            copy(source, self.sides.destination.offset(to as isize), bytes, axes);
        }
        true
    }

    fn crosses(&self, n: i64, along: &Axis, across: &Axis) -> bool {
        let bytes = n * self.size as i64;
        self.streams_batches() && stream::crossed::pays((bytes, bytes), along, across)
    }

    unsafe fn crossed(&self, from: i64, to: i64, n: usize, along: &Axis, across: &Axis) -> bool {
        let runs = copy::of_runs(Isa::get());
        // SAFETY: as the caller says.
        unsafe {
            let source = self.sides.source.offset(from as isize);
            let destination = self.sides.destination.offset(to as isize);
            stream::crossed::copy(runs, source, destination, n * self.size, along, across);
        }
        true
    }

    fn shuffles(&self) -> bool {
        true
    }

    unsafe fn shuffled(&self, from: i64, to: i64, count: usize, shuffle: &Shuffle) -> bool {
        // SAFETY: as the caller says.
        unsafe {
            let source = self.sides.source.offset(from as isize);
            let destination = self.sides.destination.offset(to as isize);
            let batch = Batch::of_groups(shuffle, source, destination, count);
            if self.streams_batches() && count * shuffle.bytes >= LONG_ROW && shuffle.step == shuffle.bytes {
                batch.around();
            } else {
                batch.through();
            }
        }
        true
    }

    fn in_pieces(&self, axes: &[Axis], near: Option<usize>) -> Option<pieces::Order> {
        let has_both = self.copy.is_some() && self.transpose.is_some() && axes.len() <= MOST_AXES;
        let (inner, size) = (axes.last().filter(|_| has_both)?, self.size as i64);
        let are_channels =
            |near: usize| inner.extent * size >= LINE as i64 && transpose::are_channels(inner, &axes[near]);
        let is_apart = |near| {
            pieces::are_apart(axes, near, size, self.far)
                || pieces::are_short_apart(axes, near, size) && !are_channels(near)
        };
        if near.map_or_else(|| pieces::are_rows_apart(axes, size), is_apart) {
            return Some(pieces::Order::Source);
        }
        if near.is_some_and(|near| self.are_short(inner, &axes[near])) {
            return Some(pieces::Order::Destination);
        }
        // Memory takes whole lines, but of what is in order on both sides.
        let are_short = inner.source == size && inner.extent * size < LINE as i64;
        let is_in_order = Memory::is_zen5() && pieces::are_in_order(axes);
        (self.how == How::Streamed && are_short && !is_in_order).then_some(pieces::Order::Destination)
    }

    fn sides(&self) -> Sides {
        self.sides
    }

    fn reading(&self, source: *const u8) -> Move {
        Move { sides: Sides { source, ..self.sides }, ..*self }
    }

    fn scatters(&self, axes: usize, inner: &Axis, near: &Axis) -> Reaches {
        // A matrix by itself that stays in the caches is best as it is.
        let is_alone = axes == 2 && self.how != How::Streamed;
        if self.scattered.is_none() || is_alone || axes <= MOST_AXES && self.are_short(inner, near) {
            return NO_REACH;
        }
        transpose::reach(self.size, self.how, Memory::get(), Memory::is_zen5(), inner)
    }

    unsafe fn scattered(&self, from: i64, to: i64, matrices: &Matrices) -> bool {
        let transpose = self.scattered.expect("scatters() says so");
        // SAFETY: as the caller says; the end is one of the source.
        unsafe {
            let scattered = Scattered {
                source: self.sides.source.offset(from as isize),
                destination: self.sides.destination.offset(to as isize),
                matrices,
                end: matrices.end.map(|(end, dense)| (self.sides.source.offset(end as isize), dense)),
                far: self.far,
            };
            transpose(&scattered, if matrices.around { self.how } else { How::Cached });
        }
        true
    }
}

/// Moves elements of some bits, and clears what they leave of their room.
#[derive(Clone)]
pub struct MoveBits {
    pub sides: Sides,
    pub bits: u64,
    pub room: u64,
}

impl Kernel for MoveBits {
    fn steps(&self) -> (i64, i64) {
        (self.bits as i64, self.room as i64)
    }

    fn transposes(&self) -> bool {
        false
    }

    fn elsewhere(&self, destination: *mut u8) -> MoveBits {
        MoveBits { sides: Sides { destination, ..self.sides }, ..*self }
    }

    fn sides(&self) -> Sides {
        self.sides
    }

    fn reading(&self, source: *const u8) -> MoveBits {
        MoveBits { sides: Sides { source, ..self.sides }, ..*self }
    }

    unsafe fn row(&self, mut from: (i64, i64), mut to: (i64, i64), mut n: usize) -> bool {
        let Sides { source, destination } = self.sides;
        // SAFETY: as the caller says.
        unsafe {
            if self.bits == self.room && (from.1, to.1) == self.steps() && (from.0 | to.0) & 7 == 0 {
                // Whole bytes first, of whole elements; the last few are left to the loop.
                let per_byte = n / 8 * 8;
                let bytes = per_byte / 8 * self.bits as usize;
                let (from_byte, to_byte) = ((from.0 >> 3) as isize, (to.0 >> 3) as isize);
                copy::bytes(source.offset(from_byte), destination.offset(to_byte), bytes);
                from.0 += per_byte as i64 * from.1;
                to.0 += per_byte as i64 * to.1;
                n -= per_byte;
            }
            for index in 0..n as i64 {
                let (from, to) = (from.0 + index * from.1, to.0 + index * to.1);
                bits::copy(source, from, destination, to, self.bits, self.room);
            }
        }
        true
    }

    unsafe fn matrix(&self, _: (i64, i64), _: (i64, i64), _: usize, _: usize, _: i64) -> bool {
        unreachable!("transposes() says no")
    }
}

/// Bytes of a row from which on that is worth it where others follow.
const SHORT_ROW: usize = 128;
/// Bytes of rows that follow each other, for which it is better to be one than to be put together, or than to be by turns.
const AS_ONE: std::ops::Range<usize> = 256..20 << 10;
/// The same of what is not Zen 5, where little may be between them as well.
const AS_ONE_NEAR: std::ops::Range<usize> = 512..8 << 10;
/// Bytes of a run from which on the lines that it shares with others are few, or soon there again.
fn whole_run() -> usize {
    if Memory::joins_rows() { LINE / 2 } else { 4 * LINE }
}

/// Bytes of a job from which on what it reads is asked for: what is likely not in the second cache, nor in the third one where
/// reading from that takes no longer than asking.
fn far() -> usize {
    if matches!(Memory::get(), Memory::Near | Memory::Other) { 4 << 20 } else { 256 << 10 }
}

/// Bytes of a matrix that is done before the processor has found out what to read next.
const SMALL_MATRIX: usize = 16 << 10;
