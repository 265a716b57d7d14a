//! Transposes of matrices whose elements are moved as they are.
//!
//! Sixteen-byte lanes are transposed within themselves, then exchanged: the same steps for every size
//! of element and every width of vector. A register tile is as long as a vector on both sides, or as
//! long as a lane on the side that is short.

// An iterator over an array of vectors would take them out of their registers.
#![allow(clippy::needless_range_loop)]

#[cfg(target_arch = "aarch64")]
mod neon;
mod scattered;
mod stage;
mod strips;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::mem::MaybeUninit;

pub use self::scattered::{
    CLASHING, Load, LoadFn, Scattered, ScatteredFn, cast_scattered, clash, for_size as scattered_for_size,
    put_scattered, reach, reach_of_casts,
};
#[cfg(target_arch = "x86_64")]
pub use self::scattered::{load_fours, load_oblongs, load_squares};
pub use self::stage::{STAGE, Stage};
#[cfg(target_arch = "x86_64")]
use self::strips::Lines;
#[cfg(test)]
pub use self::strips::MOST_COLUMNS;
pub use self::strips::{Ahead, Block, each_piece, lines_each};
#[cfg(target_arch = "x86_64")]
pub use self::x86::{Avx2, Avx512};
use super::isa::Isa;
use super::shuffle::Shuffle;
use super::stream::{
    LINE, Line, Memory, asks_first, prefetch_bytes, prefetch_first, prefetch_second, prefetch_to_write,
    write_around, write_around_asking,
};
#[cfg(target_arch = "x86_64")]
use super::stream::{block_ahead, through};
use crate::layout::Axis;

/// A matrix to transpose, or a part of one.
///
/// Element (r, c) is read at source + r * its row + c * size and written at destination + c * its row
/// + r * size; rows are in bytes and may run backwards. Nothing is aligned, and the two do not overlap.
#[derive(Clone, Copy)]
pub struct Matrix {
    /// Element (0, 0).
    pub source: *const u8,
    /// From a row to the next.
    pub source_row: isize,
    /// Element (0, 0).
    pub destination: *mut u8,
    /// From a column of the source to the next.
    pub destination_row: isize,
    /// Rows of the source.
    pub rows: usize,
    /// Columns of the source.
    pub columns: usize,
}

/// How a transpose uses the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Reads and writes through them.
    Cached,
    /// The same of a job that is more than those near the processor hold.
    Far,
    /// Writes around them what is worth it. For results that they could not hold, even where the matrix is a
    /// part of one.
    Streamed,
    /// Writes through them, and asks for lines of the source so many bytes away from those that it reads.
    Ahead(isize),
}

/// Transposes a matrix.
///
/// # Safety
/// Every element of the matrix is readable in the source and writable in the destination.
pub type TransposeFn = unsafe fn(&Matrix, How);

/// The transpose for elements of a size: 1, 2, 4, 8 or 16 bytes.
pub fn for_size(isa: Isa, size: usize) -> Option<TransposeFn> {
    Some(match size {
        1 => of_size::<1>(isa),
        2 => of_size::<2>(isa),
        4 => of_size::<4>(isa),
        8 => of_size::<8>(isa),
        16 => of_size::<16>(isa),
        _ => return None,
    })
}

fn of_size<const SIZE: usize>(isa: Isa) -> TransposeFn {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::<SIZE>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::<SIZE>,
        #[cfg(target_arch = "x86_64")]
        _ => baseline::<x86::Sse<0>, SIZE>,
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => baseline::<neon::Neon, SIZE>,
        #[cfg(not(target_arch = "x86_64"))]
        _ => baseline::<Portable, SIZE>,
    }
}

/// # Safety
/// As [`TransposeFn`].
unsafe fn baseline<V: Vector, const SIZE: usize>(matrix: &Matrix, how: How) {
    // SAFETY: the caller's.
    unsafe { transpose::<V, SIZE>(matrix, how, baseline::<V, SIZE>, baseline::<V, SIZE>) }
}

/// # Safety
/// As [`baseline`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const SIZE: usize>(matrix: &Matrix, how: How) {
    // SAFETY: the caller's.
    unsafe { transpose::<x86::Avx2, SIZE>(matrix, how, avx2::<SIZE>, avx2::<SIZE>) }
}

/// # Safety
/// As [`baseline`]; the processor has AVX-512 with BW, DQ and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<const SIZE: usize>(matrix: &Matrix, how: How) {
    let likes_half_lines = how != How::Streamed
        && match Memory::get() {
            Memory::Deep => matrix.likes_half_lines(SIZE),
            Memory::Near => matches!(how, How::Cached | How::Far) && matrix.fits_half_lines(SIZE),
            _ => false,
        };
    // SAFETY: the caller's.
    unsafe {
        if likes_half_lines {
            transpose::<x86::Avx2, SIZE>(matrix, how, avx512::<SIZE>, half_lines::<SIZE>)
        } else {
            transpose::<x86::Avx512, SIZE>(matrix, how, avx512::<SIZE>, whole_lines::<SIZE>)
        }
    }
}

/// By AVX2's vectors, of which there are twice as many registers here.
///
/// # Safety
/// As [`avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn half_lines<const SIZE: usize>(matrix: &Matrix, how: How) {
    // SAFETY: the caller's; AVX2 is there where AVX-512 is.
    unsafe { transpose::<x86::Avx2, SIZE>(matrix, how, avx512::<SIZE>, half_lines::<SIZE>) }
}

/// # Safety
/// As [`avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn whole_lines<const SIZE: usize>(matrix: &Matrix, how: How) {
    // SAFETY: the caller's.
    unsafe { transpose::<x86::Avx512, SIZE>(matrix, how, avx512::<SIZE>, whole_lines::<SIZE>) }
}

/// Lanes of sixteen bytes side by side.
///
/// Everything is inlined into a function that has the instructions, which callers vouch for, as they
/// do for the memory behind pointers.
trait Vector: Copy {
    /// At most four.
    const LANES: usize;
    type Lane: Lane;
    /// Half as many lanes, but one at least.
    type Half: Vector;

    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// Stores around the caches where the processor can; `to` is aligned to the vector.
    unsafe fn stream(self, to: *mut u8);
    /// The first `LANES` of the lanes.
    unsafe fn from_lanes(lanes: [Self::Lane; 4]) -> Self;
    unsafe fn lane(self, index: usize) -> Self::Lane;
    /// In each lane, the elements of the two in turn: those of the low halves, those of the high ones.
    unsafe fn zip<const SIZE: usize>(self, other: Self) -> (Self, Self);
    /// Transposes the lanes of the first `LANES` vectors.
    unsafe fn exchange(group: [Self; 4]) -> [Self; 4];
    /// In each lane, byte `table[i]` becomes byte i; zero from 128 on.
    unsafe fn shuffle(self, table: &Table) -> Self;
    /// Transposes few columns of rows that are little longer (`TALL`), or few rows that fill the destination's, as many of the
    /// others as a vector has elements at least, and asks for lines so many bytes away or not; false: not that few.
    #[inline(always)]
    unsafe fn channels<const SIZE: usize, const TALL: bool>(_matrix: &Matrix, _ahead: isize) -> bool {
        false
    }
}

/// For a shuffle.
type Table = [u8; 16];

/// A vector of one lane.
trait Lane: Vector {
    /// Whether there is a shuffle.
    const SHUFFLES: bool;
    /// Whether parts of one are loaded as fast as all of it.
    const LOADS_PARTS: bool = false;

    /// The first `bytes` of a lane, 1 to 16; the rest is anything.
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self;
    unsafe fn store_part(self, to: *mut u8, bytes: usize);
    /// Eight bytes from each of two places.
    unsafe fn load_halves(low: *const u8, high: *const u8) -> Self;
    unsafe fn store_halves(self, low: *mut u8, high: *mut u8);
}

/// # Safety
/// `bytes` of 1 to 16 are readable.
#[inline(always)]
pub unsafe fn read_part(from: *const u8, bytes: usize) -> u128 {
    // SAFETY: both reads of each case are within the bytes.
    unsafe {
        match bytes {
            16.. => from.cast::<u128>().read_unaligned(),
            8.. => {
                let low = from.cast::<u64>().read_unaligned();
                let high = from.add(bytes - 8).cast::<u64>().read_unaligned();
                low as u128 | (high as u128) << (8 * (bytes - 8))
            }
            4.. => {
                let low = from.cast::<u32>().read_unaligned();
                let high = from.add(bytes - 4).cast::<u32>().read_unaligned();
                (low as u64 | (high as u64) << (8 * (bytes - 4))) as u128
            }
            2.. => {
                let low = from.cast::<u16>().read_unaligned();
                let high = from.add(bytes - 2).cast::<u16>().read_unaligned();
                (low as u32 | (high as u32) << (8 * (bytes - 2))) as u128
            }
            _ => from.read() as u128,
        }
    }
}

/// # Safety
/// `bytes` of 1 to 16 are writable.
#[inline(always)]
pub unsafe fn write_part(to: *mut u8, bytes: usize, value: u128) {
    // SAFETY: both writes of each case are within the bytes.
    unsafe {
        match bytes {
            16.. => to.cast::<u128>().write_unaligned(value),
            8.. => {
                to.cast::<u64>().write_unaligned(value as u64);
                to.add(bytes - 8).cast::<u64>().write_unaligned((value >> (8 * (bytes - 8))) as u64);
            }
            4.. => {
                to.cast::<u32>().write_unaligned(value as u32);
                to.add(bytes - 4).cast::<u32>().write_unaligned((value as u64 >> (8 * (bytes - 4))) as u32);
            }
            2.. => {
                to.cast::<u16>().write_unaligned(value as u16);
                to.add(bytes - 2).cast::<u16>().write_unaligned((value as u32 >> (8 * (bytes - 2))) as u16);
            }
            _ => to.write(value as u8),
        }
    }
}

/// # Safety
/// Eight bytes are readable at each.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
unsafe fn read_halves(low: *const u8, high: *const u8) -> [u8; 16] {
    // SAFETY: the caller's.
    let (low, high) = unsafe { (low.cast::<u64>().read_unaligned(), high.cast::<u64>().read_unaligned()) };
    (low as u128 | (high as u128) << 64).to_ne_bytes()
}

/// # Safety
/// Eight bytes are writable at each.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
unsafe fn write_halves(lane: [u8; 16], low: *mut u8, high: *mut u8) {
    let lane = u128::from_ne_bytes(lane);
    // SAFETY: the caller's.
    unsafe {
        low.cast::<u64>().write_unaligned(lane as u64);
        high.cast::<u64>().write_unaligned((lane >> 64) as u64);
    }
}

/// A lane without instructions of its own.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[derive(Clone, Copy)]
struct Portable([u8; 16]);

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Lane for Portable {
    const SHUFFLES: bool = false;

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's.
        Portable(unsafe { read_part(from, bytes) }.to_ne_bytes())
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        unsafe { write_part(to, bytes, u128::from_ne_bytes(self.0)) }
    }

    #[inline(always)]
    unsafe fn load_halves(low: *const u8, high: *const u8) -> Self {
        // SAFETY: the caller's.
        Portable(unsafe { read_halves(low, high) })
    }

    #[inline(always)]
    unsafe fn store_halves(self, low: *mut u8, high: *mut u8) {
        // SAFETY: the caller's.
        unsafe { write_halves(self.0, low, high) }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Vector for Portable {
    const LANES: usize = 1;
    type Lane = Self;
    type Half = Self;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's.
        Portable(unsafe { from.cast::<[u8; 16]>().read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { to.cast::<[u8; 16]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { self.store(to) }
    }

    #[inline(always)]
    unsafe fn from_lanes(lanes: [Self; 4]) -> Self {
        lanes[0]
    }

    #[inline(always)]
    unsafe fn lane(self, _index: usize) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn zip<const SIZE: usize>(self, other: Self) -> (Self, Self) {
        let mut zipped = [[0; 16]; 2];
        for index in 0..16 {
            let (element, byte) = (index / SIZE, index % SIZE);
            let at = 2 * element * SIZE + byte;
            zipped[at / 16][at % 16] = self.0[index];
            zipped[(at + SIZE) / 16][(at + SIZE) % 16] = other.0[index];
        }
        (Portable(zipped[0]), Portable(zipped[1]))
    }

    #[inline(always)]
    unsafe fn exchange(group: [Self; 4]) -> [Self; 4] {
        group
    }

    #[inline(always)]
    unsafe fn shuffle(self, _table: &Table) -> Self {
        self
    }
}

impl Matrix {
    /// Whether it is nothing but squares as wide as a line, which a vector writes around the caches, and enough of them
    /// for that to be worth it.
    pub fn is_of_lines(&self, size: usize) -> bool {
        let places = self.destination as usize | self.destination_row as usize;
        let sides = (self.rows | self.columns) * size;
        (places | sides).is_multiple_of(LINE)
            && self.rows * self.columns * size >= LINES_FROM
            && Isa::get() == Isa::Avx512
    }

    /// Whether the second cache holds it with the next one, and a line of each of its rows is little, or part of a long row.
    fn is_near(&self, size: usize) -> bool {
        let (row, strip) = (self.columns * size, self.rows * LINE);
        let has_room = Memory::get() != Memory::Mesh;
        has_room && row * self.rows <= NEXT_TO && strip <= if row <= NARROW / 2 { STRIP / 2 } else { STRIP }
    }

    /// Whether vectors of half a line are better where two lines may share a whole one ([`Memory::Deep`]): of the result, or
    /// in the first cache, where shuffles are what takes time. Single bytes have so many that wide ones are worth it from
    /// there on, and what is thin needs them.
    #[cfg(target_arch = "x86_64")]
    fn likes_half_lines(&self, size: usize) -> bool {
        let places = self.destination as usize | self.destination_row as usize;
        let near = self.rows * self.columns * size <= HALF_LINES;
        let is_thin = self.rows.min(self.columns) * size <= LINE / 2;
        !is_thin && (size > 1 && !places.is_multiple_of(LINE) || near && size < 16)
    }

    /// Whether vectors of half a line are better where they do as much at a time as whole ones ([`Memory::Near`]): of
    /// matrices that the caches hold and whose rows, on both sides, are no whole lines, so that less is done twice at the
    /// edges and fewer lines are met twice. Squares of single bytes are more wide vectors than there are registers: those
    /// are better only where there is nothing else.
    #[cfg(target_arch = "x86_64")]
    fn fits_half_lines(&self, size: usize) -> bool {
        if size > 8 || self.rows.min(self.columns) * size < LINE / 2 {
            return false;
        }
        // Squares that are half as wide have half as many rows on the same sets.
        if size > 1 && clashes(self, size, LINE / size) && !clashes(self, size, LINE / 2 / size) {
            return !clashes_in_source(self, size, LINE / size);
        }
        let is_ragged = |elements: usize| !(elements * size).is_multiple_of(LINE);
        let (rows, columns) = (is_ragged(self.rows), is_ragged(self.columns));
        let is_ragged = match size {
            1 if self.rows >= LINE && self.columns >= 16 && self.likes_strips(4) => false,
            1 => rows || columns,
            _ => rows && columns,
        };
        is_ragged && self.rows * self.columns <= RAGGED
    }

    /// Whether single bytes are transposed in strips by vectors of so many lanes: lanes that are loaded where they belong save
    /// exchanging them, for which squares leave no register. They want the rows of the destination on sets of their own in
    /// the first cache; where a vector is a line, and both sides whole lines, squares read and write each once.
    fn likes_strips(&self, lanes: usize) -> bool {
        let is_whole = (self.rows | self.columns).is_multiple_of(LINE);
        let is_wide = lanes == 2 && self.columns > WIDE && knows_sets();
        let has_sets = self.destination_row % if is_wide { 1024 } else { 512 } != 0;
        has_sets && (lanes == 2 || lanes == 4 && !is_whole && Memory::get() == Memory::Near)
    }

    /// Whether sixteen bytes may be read where each of some of its rows starts: what they are between is its own, or less than
    /// a page from that on either side, so that it is there.
    #[inline(always)]
    fn is_read_on(&self, size: usize, row: usize, count: usize) -> bool {
        let step = self.source_row.unsigned_abs();
        let rows_above = if self.source_row > 0 { self.rows - row - count } else { row };
        step <= PAGE && rows_above * step + self.columns * size >= 16
    }

    /// How many rows are transposed before the next columns are looked at, so that the lines which more than one square reads
    /// are still in the first cache: as many as have half of the ways of each of their sets, or all if that is what two lines of
    /// the destination take; and a line of the destination at least, where what is written would be lost before the next rows.
    fn rows_of_sets(&self, size: usize) -> usize {
        let sets = sets(self.source_row);
        let (half, all, line) = (WAYS / 2 * sets, WAYS * sets, LINE / size);
        let least = if self.columns <= 2 * line { 1 } else { line };
        half.max(all.min(2 * line)).max(least).min(BAND)
    }

    /// How many lines of each row of the destination a band writes, where rows of the source share sets and vectors are lines
    /// (measured on Zen 5): eight where those rows start on one set, four where they do on two, and so on. None: where others
    /// are best, as many as elsewhere. By itself, for small matrices are none of that and pay for what it takes.
    #[cold]
    fn lines_of_sets(&self, size: usize) -> Option<usize> {
        // Rows that start less than half a line from a multiple share sets, too; of sixteen bytes, lines are then read twice.
        let near = if size < 16 { LINE as isize / 2 } else { 0 };
        let source = sets((self.source_row + near) & -(LINE as isize));
        let sets = sets(self.destination_row);
        // Those that all begin in the same lines, but one after the other, are written on.
        let is_near =
            size < 16 && sets > 8 && off(self.destination_row, (512 * size) as isize) <= size as isize;
        match sets {
            _ if source > 2 || is_near => None,
            ..=8 => Some((8 / sets).max(source)),
            _ => Some(1),
        }
    }

    /// Whether the first cache has room for the lines that a square as wide as `side` writes, beside those of the source that the
    /// next one reads, though rows of the destination share sets.
    fn has_room(&self, size: usize, side: usize) -> bool {
        let (sets, each) = (sets(self.source_row), side.div_ceil(sets(self.destination_row)));
        each <= WAYS / 2 && sets > 2 || each <= WAYS / 4 && (sets > 1 || size == 16)
    }

    /// Whether it has, where that was measured: on Zen 3, and on Zen 5 where vectors are lines, which are written whole. By itself, as
    /// [`Matrix::lines_of_sets`].
    #[cold]
    fn keeps_lines(&self, size: usize, side: usize) -> bool {
        match Memory::is_zen5() {
            true => {
                side * size == LINE
                    && side <= WAYS * sets(self.destination_row)
                    && !clashes_in_source(self, size, side)
            }
            false => knows_sets() && self.has_room(size, side),
        }
    }

    /// Asks for what lies so many bytes from its elements.
    pub fn prefetch(&self, ahead: isize, size: usize) {
        let Matrix { source, source_row, rows, columns, .. } = *self;
        let (source, row) = (source.wrapping_offset(ahead), columns * size);
        if source_row.unsigned_abs() <= row.max(LINE) {
            let lowest = source.wrapping_offset(source_row.min(0) * (rows as isize - 1));
            return prefetch_bytes(lowest, rows as isize * source_row.abs());
        }
        for index in 0..rows as isize {
            prefetch_bytes(source.wrapping_offset(index * source_row), row as isize);
        }
    }

    /// Asks for what lies so many bytes from some columns of all of its rows, once for each line; 0: for nothing.
    #[inline(always)]
    fn ask_down(&self, size: usize, column: usize, columns: usize, ahead: isize) {
        if ahead == 0 || column * size % LINE >= columns * size {
            return;
        }
        let mut at = self.source.wrapping_add(column * size).wrapping_offset(ahead);
        let first = asks_first();
        for _ in 0..self.rows {
            if first {
                prefetch_first(at)
            } else {
                prefetch_second(at)
            }
            at = at.wrapping_offset(self.source_row);
        }
    }

    /// # Safety
    /// The part is within the matrix.
    #[inline(always)]
    pub unsafe fn part(&self, size: usize, row: usize, column: usize, rows: usize, columns: usize) -> Matrix {
        // SAFETY: the caller's.
        let (source, destination) = unsafe { (self.from(size, row, column), self.to(size, row, column)) };
        Matrix { source, destination, rows, columns, ..*self }
    }

    /// # Safety
    /// The element is within the matrix.
    #[inline(always)]
    pub unsafe fn from(&self, size: usize, row: usize, column: usize) -> *const u8 {
        // SAFETY: the caller's.
        unsafe { self.source.offset(row as isize * self.source_row + (column * size) as isize) }
    }

    /// # Safety
    /// The element is within the matrix.
    #[inline(always)]
    pub unsafe fn to(&self, size: usize, row: usize, column: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { self.destination.offset(column as isize * self.destination_row + (row * size) as isize) }
    }
}

/// Where pieces of `size` start that together cover `extent`: the last one starts where it ends at
/// the end.
#[inline(always)]
fn cover(extent: usize, size: usize) -> impl Iterator<Item = usize> {
    (0..extent).step_by(size).map(move |at| at.min(extent - size))
}

/// Transposes the elements of each lane of as many vectors as a lane has elements.
///
/// The elements of all of them, in order, are a square; each step moves the binary digits of an
/// element's place around by one.
#[inline(always)]
unsafe fn turn<V: Vector, const SIZE: usize>(mut vectors: [V; 16]) -> [V; 16] {
    // SAFETY: the caller's.
    unsafe {
        if SIZE <= 8 {
            vectors = step::<V, SIZE>(vectors);
        }
        if SIZE <= 4 {
            vectors = step::<V, SIZE>(vectors);
        }
        if SIZE <= 2 {
            vectors = step::<V, SIZE>(vectors);
        }
        if SIZE <= 1 {
            vectors = step::<V, SIZE>(vectors);
        }
    }
    vectors
}

/// An array of sixteen without a loop, so that vectors in it stay in registers.
macro_rules! sixteen {
    ($index:ident => $value:expr) => {
        sixteen!($index => $value; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($index:ident => $value:expr; $($at:literal)*) => {
        [$({
            const $index: usize = $at;
            $value
        }),*]
    };
}
use sixteen;

/// [`turn`] of half as many vectors, by a step less.
#[inline(always)]
unsafe fn turn_half<V: Vector, const SIZE: usize>(mut vectors: [V; 16]) -> [V; 16] {
    let n = half::<SIZE>();
    let mut steps = n;
    while steps > 1 {
        vectors = sixteen!(INDEX => {
            let at = INDEX % n / 2;
            // SAFETY: the caller's.
            let zipped = unsafe { vectors[at].zip::<SIZE>(vectors[at + n / 2]) };
            if INDEX & 1 == 0 { zipped.0 } else { zipped.1 }
        });
        steps /= 2;
    }
    vectors
}

/// One step of [`turn`].
#[inline(always)]
unsafe fn step<V: Vector, const SIZE: usize>(vectors: [V; 16]) -> [V; 16] {
    let half = 8 / SIZE;
    sixteen!(INDEX => {
        let at = INDEX / 2 % half;
        // SAFETY: the caller's.
        let zipped = unsafe { vectors[at].zip::<SIZE>(vectors[at + half]) };
        if INDEX & 1 == 0 { zipped.0 } else { zipped.1 }
    })
}

/// Transposes a square as wide as a vector, around the caches or not, and asks for lines so many bytes
/// away or not.
///
/// # Safety
/// It is within the matrix, from (row, column) on; for a stream, its destination is aligned.
// Debug builds would run out of stack.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn square<V: Vector, const SIZE: usize, const STREAM: bool, const AHEAD: bool>(
    matrix: &Matrix,
    row: usize,
    column: usize,
    ahead: isize,
) {
    let n = 16 / SIZE;
    // SAFETY: rows and columns stay below LANES * n.
    unsafe {
        let mut from = matrix.from(SIZE, row, column);
        let mut tile = [[MaybeUninit::<V>::uninit(); 16]; 4];
        for lane in 0..V::LANES {
            // From row to row rather than from the first, or a multiple of each goes to the stack.
            let vectors = sixteen!(INDEX => {
                let vector = V::load(from);
                if AHEAD && INDEX < n {
                    prefetch_second(from.wrapping_offset(ahead));
                }
                if INDEX + 1 < n {
                    from = from.offset(matrix.source_row);
                }
                vector
            });
            from = from.wrapping_offset(matrix.source_row);
            let vectors = turn::<V, SIZE>(vectors);
            for index in 0..n {
                tile[lane][index].write(vectors[index]);
            }
        }
        for lane in V::LANES..4 {
            tile[lane] = tile[0];
        }
        let mut to = matrix.to(SIZE, row, column);
        for index in 0..n {
            let group = V::exchange([
                tile[0][index].assume_init(),
                tile[1][index].assume_init(),
                tile[2][index].assume_init(),
                tile[3][index].assume_init(),
            ]);
            let mut at = to;
            for lane in 0..V::LANES {
                if STREAM {
                    group[lane].stream(at)
                } else {
                    group[lane].store(at)
                }
                at = at.wrapping_offset(n as isize * matrix.destination_row);
            }
            to = to.wrapping_offset(matrix.destination_row);
        }
    }
}

/// Transposes some columns, at most as many as a lane has elements, of as many rows as a vector has.
/// `WHOLE`: a whole lane may be read of each row, and is then shuffled if there is a table.
///
/// # Safety
/// They are within the matrix, from (row, column) on.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn tall<V: Vector, const SIZE: usize, const WHOLE: bool>(
    matrix: &Matrix,
    row: usize,
    column: usize,
    columns: usize,
    table: Option<&Table>,
) {
    let n = 16 / SIZE;
    // SAFETY: rows stay below LANES * n, columns below theirs.
    unsafe {
        let mut from = matrix.from(SIZE, row, column);
        let step = n as isize * matrix.source_row;
        let vectors = sixteen!(INDEX => {
            if INDEX != 0 && INDEX < n {
                from = from.offset(matrix.source_row);
            }
            let first = load_lane::<V::Lane, WHOLE>(from, columns * SIZE);
            let mut lanes = [first; 4];
            if INDEX < n {
                let mut at = from;
                for lane in 1..V::LANES {
                    at = at.offset(step);
                    lanes[lane] = load_lane::<V::Lane, WHOLE>(at, columns * SIZE);
                }
            }
            match table {
                Some(table) => V::from_lanes(lanes).shuffle(table),
                None => V::from_lanes(lanes),
            }
        });
        let vectors = turn::<V, SIZE>(vectors);
        let mut to = matrix.to(SIZE, row, column);
        for index in 0..n {
            if index < columns {
                vectors[index].store(to);
                to = to.wrapping_offset(matrix.destination_row);
            }
        }
    }
}

/// The same of at most half as many columns, of whose rows a whole lane may be read.
///
/// # Safety
/// As [`tall`].
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn tall_half<V: Vector, const SIZE: usize>(matrix: &Matrix, row: usize, columns: usize) {
    let (n, half) = (16 / SIZE, half::<SIZE>());
    // SAFETY: rows stay below LANES * n, columns below theirs.
    unsafe {
        let mut from = matrix.from(SIZE, row, 0);
        let (step, lane) = (half as isize * matrix.source_row, n as isize * matrix.source_row);
        let vectors = sixteen!(INDEX => {
            if INDEX != 0 && INDEX < half {
                from = from.offset(matrix.source_row);
            }
            let pair = |at: *const u8| V::Lane::load(at).zip::<SIZE>(V::Lane::load(at.offset(step))).0;
            let mut lanes = [pair(from); 4];
            if INDEX < half {
                let mut at = from;
                for index in 1..V::LANES {
                    at = at.offset(lane);
                    lanes[index] = pair(at);
                }
            }
            V::from_lanes(lanes)
        });
        let vectors = turn_half::<V, SIZE>(vectors);
        let mut to = matrix.to(SIZE, row, 0);
        for index in 0..half {
            if index < columns {
                vectors[index].store(to);
                to = to.wrapping_offset(matrix.destination_row);
            }
        }
    }
}

/// # Safety
/// `bytes` are readable, or sixteen if `WHOLE`.
#[inline(always)]
unsafe fn load_lane<L: Lane, const WHOLE: bool>(from: *const u8, bytes: usize) -> L {
    // SAFETY: the caller's.
    unsafe { if WHOLE { L::load(from) } else { L::load_part(from, bytes) } }
}

/// Transposes some rows, at most as many as a lane has elements, of as many columns as a vector has.
/// `WHOLE`: a whole lane may be written of each column, those of later columns after it, and is
/// shuffled before if there is a table.
///
/// # Safety
/// They are within the matrix, from (row, column) on.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn flat<V: Vector, const SIZE: usize, const WHOLE: bool>(
    matrix: &Matrix,
    row: usize,
    column: usize,
    rows: usize,
    table: Option<&Table>,
) {
    let n = 16 / SIZE;
    // SAFETY: columns stay below LANES * n, rows below theirs.
    unsafe {
        let mut from = matrix.from(SIZE, row, column);
        let vectors = sixteen!(INDEX => {
            if INDEX != 0 && INDEX < n && INDEX < rows {
                from = from.offset(matrix.source_row);
            }
            V::load(from)
        });
        let turned = turn::<V, SIZE>(vectors);
        let vectors = sixteen!(INDEX => match table {
            Some(table) => turned[INDEX].shuffle(table),
            None => turned[INDEX],
        });
        let mut to = matrix.to(SIZE, row, column);
        for lane in 0..V::LANES {
            for index in 0..n {
                if WHOLE {
                    vectors[index].lane(lane).store(to);
                } else {
                    vectors[index].lane(lane).store_part(to, rows * SIZE);
                }
                to = to.wrapping_offset(matrix.destination_row);
            }
        }
    }
}

/// Transposes some columns of any number of rows.
///
/// # Safety
/// As [`baseline`], with at least as many rows as a vector has elements.
#[inline(always)]
unsafe fn tall_strips<V: Vector, const SIZE: usize>(matrix: &Matrix) {
    let (n, side) = (16 / SIZE, 16 / SIZE * V::LANES);
    // SAFETY: the pieces are within the matrix.
    unsafe {
        if matrix.columns >= n {
            for row in cover(matrix.rows, side) {
                for column in cover(matrix.columns, n) {
                    tall::<V, SIZE, true>(matrix, row, column, n, None);
                }
            }
        } else {
            for row in cover(matrix.rows, side) {
                match matrix.is_read_on(SIZE, row, side) {
                    true if matrix.columns <= half::<SIZE>() => {
                        tall_half::<V, SIZE>(matrix, row, matrix.columns)
                    }
                    true => tall::<V, SIZE, true>(matrix, row, 0, matrix.columns, None),
                    false => tall::<V, SIZE, false>(matrix, row, 0, matrix.columns, None),
                }
            }
        }
    }
}

/// Transposes some columns of some rows at a time, so that lines that more than one strip reads or writes are in the first
/// cache meanwhile; the last rows by as few lanes as they need.
///
/// # Safety
/// As [`baseline`], with at least as many rows as a vector has elements, and columns as a lane has.
#[inline(always)]
unsafe fn strips<V: Vector, const SIZE: usize>(matrix: &Matrix) {
    let (n, side) = (16 / SIZE, 16 / SIZE * V::LANES);
    let most = most_of_strips(V::LANES, matrix.columns);
    let mut top = 0;
    while top < matrix.rows {
        let rows = part_of(matrix.rows - top, most.0);
        let mut left = 0;
        while left < matrix.columns {
            let columns = part_of(matrix.columns - left, most.1);
            // SAFETY: the pieces are within the matrix; the last ones end where rows do.
            unsafe {
                let part = matrix.part(SIZE, top, left, rows, columns);
                let mut row = 0;
                loop {
                    strip::<V, SIZE>(&part, row);
                    row += side;
                    match rows - row {
                        0 => break,
                        left if V::LANES > 1 && left <= n => {
                            break strip::<V::Lane, SIZE>(&part, rows - n);
                        }
                        left if V::LANES > 2 && left <= 2 * n => {
                            break strip::<V::Half, SIZE>(&part, rows - 2 * n);
                        }
                        left if left < side => row = rows - side,
                        _ => {}
                    }
                }
            }
            left += columns;
        }
        top += rows;
    }
}

/// Transposes as many rows as a vector has elements, of at least as many columns as a lane has.
///
/// # Safety
/// They are within the matrix.
#[inline(always)]
unsafe fn strip<V: Vector, const SIZE: usize>(matrix: &Matrix, row: usize) {
    let n = 16 / SIZE;
    for column in cover(matrix.columns, n) {
        // SAFETY: the caller's.
        unsafe { tall::<V, SIZE, true>(matrix, row, column, n, None) }
    }
}

/// Transposes some rows of any number of columns, and asks for lines so many bytes away or not: of what one vector has prefetchers
/// bring by themselves, not of rows that one instruction reads by turns.
///
/// # Safety
/// As [`baseline`], with at least as many columns as a vector has elements.
#[inline(always)]
unsafe fn flat_strips<V: Vector, const SIZE: usize>(matrix: &Matrix, ahead: isize) {
    let (n, side) = (16 / SIZE, 16 / SIZE * V::LANES);
    // SAFETY: the pieces are within the matrix.
    unsafe {
        for column in cover(matrix.columns, side) {
            if matrix.rows > n {
                matrix.ask_down(SIZE, column, side, ahead);
            }
            if matrix.rows >= n {
                for row in cover(matrix.rows, n) {
                    flat::<V, SIZE, true>(matrix, row, column, n, None);
                }
            } else {
                flat::<V, SIZE, false>(matrix, 0, column, matrix.rows, None);
            }
        }
    }
}

/// How many elements in a row of a packed line are moved as one: they and those of the `thin` other
/// lines fill most of a lane.
fn packed<L: Lane>(size: usize, thin: usize) -> usize {
    let mut count = 1;
    while L::SHUFFLES && 2 * count * thin * size <= 16 && 2 * count * size <= 8 {
        count *= 2;
    }
    count
}

/// For `count` elements of each of `thin` lines: where each byte is in turns, or where it is in lines.
fn table(size: usize, thin: usize, count: usize, to_lines: bool) -> Table {
    let mut table = [128; 16];
    for place in 0..thin * count * size {
        let (byte, element) = (place % size, place / size);
        let in_lines = (element % thin * count + element / thin) * size + byte;
        if to_lines {
            table[in_lines] = place as u8;
        } else {
            table[place] = in_lines as u8;
        }
    }
    table
}

/// Transposes what it can of few columns whose rows have little between them; says how many rows.
///
/// # Safety
/// As [`baseline`]; a row and what is between it and the next are sixteen bytes at most.
#[inline(always)]
unsafe fn tall_packed<V: Vector, const SIZE: usize, const GROUP: usize>(
    matrix: &Matrix,
    table: Option<&Table>,
) -> usize {
    let count = GROUP / SIZE;
    let side = 16 / GROUP * V::LANES;
    let groups =
        Matrix { source_row: count as isize * matrix.source_row, rows: matrix.rows / count, ..*matrix };
    // The last lanes read past their rows.
    let bytes = (matrix.rows - 1) * matrix.source_row as usize + matrix.columns * SIZE;
    let whole = bytes.saturating_sub(16) / groups.source_row as usize / side * side;
    for row in (0..whole).step_by(side) {
        // SAFETY: as computed.
        unsafe { tall::<V, GROUP, true>(&groups, row, 0, matrix.columns, table) }
    }
    whole * count
}

/// Transposes what it can of few rows that fill the destination's; says how many columns.
///
/// # Safety
/// As [`baseline`]; the rows take sixteen bytes at most, and follow one another.
#[inline(always)]
unsafe fn flat_packed<V: Vector, const SIZE: usize, const GROUP: usize>(
    matrix: &Matrix,
    table: Option<&Table>,
) -> usize {
    let count = GROUP / SIZE;
    let side = 16 / GROUP * V::LANES;
    let groups = Matrix {
        destination_row: count as isize * matrix.destination_row,
        columns: matrix.columns / count,
        ..*matrix
    };
    // The last lanes write past their columns.
    let bytes = matrix.rows * matrix.columns * SIZE;
    let whole = bytes.saturating_sub(16) / groups.destination_row as usize / side * side;
    for column in (0..whole).step_by(side) {
        // SAFETY: as computed.
        unsafe { flat::<V, GROUP, true>(&groups, 0, column, matrix.rows, table) }
    }
    whole * count
}

/// Whether an axis that is innermost in the destination, and one that is in the source, in bytes, are for
/// [`Vector::channels`]: elements that are in turns on one side, with what is left out of each turn of the source. Wider
/// elements than eight bytes may be four.
pub fn are_channels(inner: &Axis, near: &Axis) -> bool {
    let most = match near.source {
        #[cfg(target_arch = "x86_64")]
        _ if Isa::get() != Isa::Avx512 => 0,
        ..=8 => MOST_CHANNELS,
        _ => MOST_CHANNELS - 2,
    };
    if near.extent <= inner.extent {
        let turn = near.extent * near.source..=most * near.source;
        turn.contains(&inner.source) && inner.source % near.source == 0
    } else {
        inner.extent <= most && near.destination == inner.extent * inner.destination
    }
}

/// Of no more than eight bytes.
const MOST_CHANNELS: i64 = if cfg!(target_arch = "x86_64") { 6 } else { 0 };

/// Transposes few columns or rows, in groups where they are packed.
///
/// # Safety
/// As [`baseline`], with at least as many of the others as a vector has elements.
#[inline(always)]
unsafe fn thin<V: Vector, const SIZE: usize, const TALL: bool>(matrix: &Matrix, ahead: isize) {
    let (thin, long, step) = if TALL {
        (matrix.columns, matrix.rows, matrix.source_row)
    } else {
        (matrix.rows, matrix.columns, matrix.destination_row)
    };
    let follow = step == (thin * SIZE) as isize;
    // SAFETY: the caller's.
    if (TALL || follow) && unsafe { V::channels::<SIZE, TALL>(matrix, ahead) } {
        return;
    }
    // What is between rows is read as more columns, of which nothing is written.
    let is_between =
        TALL && (thin * SIZE + 1..=16).contains(&(step as usize)) && (step as usize).is_multiple_of(SIZE);
    let wide = if is_between { step as usize / SIZE } else { thin };
    let is_packed = thin * SIZE < 16 && (follow || is_between) && long * wide * SIZE >= 512;
    let mut done = 0;
    // SAFETY: groups take sixteen bytes at most; what they leave is overlapped.
    unsafe {
        if is_packed {
            let count = packed::<V::Lane>(SIZE, wide);
            let table = table(SIZE, wide, count, TALL);
            let table = if count > 1 { Some(&table) } else { None };
            done = match (TALL, count * SIZE) {
                (true, 2) if SIZE <= 2 => tall_packed::<V, SIZE, 2>(matrix, table),
                (true, 4) if SIZE <= 4 => tall_packed::<V, SIZE, 4>(matrix, table),
                (true, 8) if SIZE <= 8 => tall_packed::<V, SIZE, 8>(matrix, table),
                (true, _) => tall_packed::<V, SIZE, SIZE>(matrix, None),
                (false, 2) if SIZE <= 2 => flat_packed::<V, SIZE, 2>(matrix, table),
                (false, 4) if SIZE <= 4 => flat_packed::<V, SIZE, 4>(matrix, table),
                (false, 8) if SIZE <= 8 => flat_packed::<V, SIZE, 8>(matrix, table),
                (false, _) => flat_packed::<V, SIZE, SIZE>(matrix, None),
            };
            done = done.min(long - 16 / SIZE * V::LANES);
        }
        if TALL {
            tall_strips::<V, SIZE>(&matrix.part(SIZE, done, 0, long - done, thin));
        } else {
            flat_strips::<V, SIZE>(&matrix.part(SIZE, 0, done, thin, long - done), ahead);
        }
    }
}

/// Transposes squares, and what is left at the two edges.
///
/// # Safety
/// As [`baseline`], with at least as many rows and columns as a vector has elements; for a
/// stream, the destination and its row are aligned.
#[inline(always)]
unsafe fn squares<V: Vector, const SIZE: usize, const STREAM: bool, const AHEAD: bool>(
    matrix: &Matrix,
    ahead: isize,
) {
    let (n, side) = (16 / SIZE, 16 / SIZE * V::LANES);
    let (rows, columns) = (matrix.rows / side * side, matrix.columns / side * side);
    // Rows of the destination that would be lost before their next squares, if all columns came first.
    let keeps_columns = SIZE == 8 && side * SIZE == LINE && off(matrix.destination_row, CLASH) <= 8;
    let band = match STREAM {
        true if matrix.columns * SIZE <= NARROW => side,
        true => STREAM_BAND / SIZE,
        false if V::LANES <= 2 && matrix.rows > side && knows_sets() => matrix.rows_of_sets(SIZE).max(side),
        false if 16 * V::LANES == LINE && matrix.rows > side && (Memory::is_zen5() || cfg!(test)) => {
            matrix.lines_of_sets(SIZE).map_or(BAND, |lines| lines * side)
        }
        // Lines of such rows push each other out of the caches before the next column is looked at.
        false if matrix.source_row % CLASH == 0 && !keeps_columns => side,
        false => BAND,
    };
    // SAFETY: the pieces are within the matrix.
    unsafe {
        let mut first = 0;
        if STREAM && matrix.rows * SIZE <= NARROW && matrix.columns * SIZE > NARROW && Memory::is_zen5() {
            squares_by_runs::<V, SIZE>(matrix, rows, columns);
            first = rows;
        }
        while first < rows {
            let last = rows.min(first + band);
            for column in (0..columns).step_by(side) {
                for row in (first..last).step_by(side) {
                    square::<V, SIZE, STREAM, AHEAD>(matrix, row, column, ahead);
                }
            }
            first = last;
        }
        // Few that are left are narrow tiles, many a square; both overlap what is done rather than take a
        // part of a lane.
        let left = matrix.columns - columns;
        if left > side / 2 {
            for row in cover(matrix.rows, side) {
                square::<V, SIZE, false, false>(matrix, row, matrix.columns - side, 0);
            }
        } else if left > 0 {
            let left = left.max(n);
            tall_strips::<V, SIZE>(&matrix.part(SIZE, 0, matrix.columns - left, matrix.rows, left));
        }
        let left = matrix.rows - rows;
        if left > side / 2 {
            for column in cover(matrix.columns, side) {
                square::<V, SIZE, false, false>(matrix, matrix.rows - side, column, 0);
            }
        } else if left > 0 {
            let left = left.max(n);
            flat_strips::<V, SIZE>(&matrix.part(SIZE, matrix.rows - left, 0, left, matrix.columns), 0);
        }
    }
}

/// Transposes squares of few long rows around the caches. They are read in runs, of which the next ones are asked for, row by
/// row, as something is written.
///
/// # Safety
/// As [`squares`], of a stream; so many rows and columns are whole squares.
#[inline(always)]
unsafe fn squares_by_runs<V: Vector, const SIZE: usize>(matrix: &Matrix, rows: usize, columns: usize) {
    let (side, run) = (16 / SIZE * V::LANES, RUN / SIZE);
    let block = Block { columns: run, band: columns, strip: side, rows: matrix.rows };
    for left in (0..columns).step_by(run) {
        let mut ahead = Ahead::after(matrix, SIZE, &block, (0, left, 0));
        for column in (left..columns.min(left + run)).step_by(side) {
            for row in (0..rows).step_by(side) {
                // SAFETY: within the squares.
                unsafe { square::<V, SIZE, true, false>(matrix, row, column, 0) };
                ahead.ask(side);
            }
        }
        ahead.ask(rows);
    }
}

/// Elements in half a lane.
#[inline(always)]
const fn half<const SIZE: usize>() -> usize {
    8 / SIZE
}

/// Transposes a square of half a lane both ways, of elements of one or two bytes, from where its rows start to where its
/// columns do.
///
/// # Safety
/// Eight bytes are readable at each of the first [`half`] places, and writable.
#[inline(always)]
unsafe fn half_square<L: Lane, const SIZE: usize>(from: [*const u8; 8], to: [*mut u8; 8]) {
    // SAFETY: the caller's.
    unsafe {
        // Elements in their order, the first half of them in turns with the second, as often as half a lane has digits.
        let mut vectors = [L::load_halves(from[0], from[1]); 4];
        vectors[1] = L::load_halves(from[2], from[3]);
        if SIZE == 2 {
            for _ in 0..2 {
                (vectors[0], vectors[1]) = vectors[0].zip::<SIZE>(vectors[1]);
            }
        } else {
            vectors[2] = L::load_halves(from[4], from[5]);
            vectors[3] = L::load_halves(from[6], from[7]);
            for _ in 0..3 {
                let (first, second) =
                    (vectors[0].zip::<SIZE>(vectors[2]), vectors[1].zip::<SIZE>(vectors[3]));
                vectors = [first.0, first.1, second.0, second.1];
            }
            vectors[2].store_halves(to[4], to[5]);
            vectors[3].store_halves(to[6], to[7]);
        }
        vectors[0].store_halves(to[0], to[1]);
        vectors[1].store_halves(to[2], to[3]);
    }
}

/// Transposes what is smaller than a vector both ways.
///
/// # Safety
/// As [`baseline`].
#[inline(always)]
unsafe fn small<L: Lane, const SIZE: usize>(matrix: &Matrix) {
    let n = 16 / SIZE;
    // SAFETY: the pieces are within the matrix.
    unsafe {
        if matrix.rows >= n && matrix.columns > 0 {
            tall_strips::<L, SIZE>(matrix);
        } else if matrix.columns >= n && matrix.rows > 0 {
            flat_strips::<L, SIZE>(matrix, 0);
        } else if SIZE <= 2 && matrix.rows >= half::<SIZE>() && matrix.columns >= half::<SIZE>() {
            let n = half::<SIZE>();
            for row in cover(matrix.rows, n) {
                for column in cover(matrix.columns, n) {
                    let (mut from, mut to) = ([std::ptr::null(); 8], [std::ptr::null_mut(); 8]);
                    for index in 0..n {
                        from[index] = matrix.from(SIZE, row + index, column);
                        to[index] = matrix.to(SIZE, row, column + index);
                    }
                    half_square::<L, SIZE>(from, to);
                }
            }
        } else {
            for row in 0..matrix.rows {
                for column in 0..matrix.columns {
                    let value = matrix.from(SIZE, row, column).cast::<[u8; SIZE]>().read();
                    matrix.to(SIZE, row, column).cast::<[u8; SIZE]>().write(value);
                }
            }
        }
    }
}

/// Transposes with `V`; `itself` is the function that this is inlined into, and `parts` the same, by `V` always.
///
/// # Safety
/// As [`baseline`]; the processor has the instructions.
#[inline(always)]
unsafe fn transpose<V: Vector, const SIZE: usize>(
    matrix: &Matrix,
    how: How,
    itself: TransposeFn,
    parts: TransposeFn,
) {
    let side = 16 / SIZE * V::LANES;
    let (stream, ahead) = match how {
        How::Cached | How::Far => (false, 0),
        How::Streamed => (true, 0),
        How::Ahead(ahead) => (false, ahead),
    };
    let aligned = (matrix.destination as usize | matrix.destination_row as usize).is_multiple_of(LINE);
    // SAFETY: the caller's.
    unsafe {
        match (matrix.rows >= side, matrix.columns >= side) {
            (true, true) if stream && aligned && 16 * V::LANES == LINE => {
                let ahead = match matrix.columns * SIZE {
                    // The rows after, as what follows in memory.
                    bytes @ ..=NARROW => (DISTANCE / bytes) as isize * matrix.source_row,
                    _ => LINE as isize,
                };
                squares::<V, SIZE, true, true>(matrix, ahead);
            }
            _ if stream && streamed(matrix, itself, SIZE) => {}
            (true, true) if clashes(matrix, SIZE, side) && staged(matrix, itself, SIZE, how == How::Far) => {}
            (true, true) if clashes_in_source(matrix, SIZE, side) && gathered(matrix, itself, SIZE) => {}
            (true, _) if SIZE == 1 && matrix.columns >= 16 && ahead == 0 && matrix.likes_strips(V::LANES) => {
                strips::<V, SIZE>(matrix)
            }
            (true, true)
                if matrix.rows.max(matrix.columns) >= 2 * EDGE
                    && in_parts(matrix, how, parts, (SIZE, side)) => {}
            (true, true) if ahead != 0 => squares::<V, SIZE, false, true>(matrix, ahead),
            (true, true) => squares::<V, SIZE, false, false>(matrix, 0),
            (true, false) if matrix.columns > 0 => thin::<V, SIZE, true>(matrix, ahead),
            (false, true) if matrix.rows > 0 => thin::<V, SIZE, false>(matrix, ahead),
            _ => small::<V::Lane, SIZE>(matrix),
        }
    }
}

/// Bytes of a matrix up to which it may be in the first cache, with its result.
#[cfg(target_arch = "x86_64")]
const HALF_LINES: usize = 32 << 10;
/// Elements of a matrix of which the edges take some of the time.
#[cfg(target_arch = "x86_64")]
const RAGGED: usize = 512 << 10;
/// Bytes of a small matrix from which on it is written around the caches line by line.
const LINES_FROM: usize = 3 << 10;
/// Bytes of matrices that are put together at a time.
pub const BATCH: usize = 8 << 10;
/// Bytes of a matrix from which on that pays, times those of an element; and up to which, which fit the buffer.
const BATCH_FROM: usize = 4 << 10;
const BATCH_TO: usize = 64 << 10;
/// Bytes of one from which on the next ones are asked for.
const BY_THEMSELVES: usize = 512;
/// Bytes of one of which some columns at a time fit the buffer that the first cache holds.
const BY_COLUMNS: usize = 16 << 10;
/// Bytes of one that a second cache of half a megabyte or more holds with the next, and of a line of each of its rows.
const NEXT_TO: usize = 256 << 10;
const STRIP: usize = 32 << 10;
/// Bytes of a matrix from which on those that come next are asked for while some are written, a few lines at a time:
/// many at once are waited for.
const ASK_BETWEEN: usize = 2400;
/// Rows that are transposed before the next columns are looked at, so that the lines that two tiles
/// share, and the pages, are still at hand.
const BAND: usize = 256;
/// The same where squares leave some columns, which are read after them.
const EDGE: usize = 128;
/// Rows and columns that are transposed before others are looked at, where strips of rows share lines.
const STRIPS: (usize, usize) = (128, 64);
/// Columns from which on that is so for half lines, too.
const WIDE: usize = 400;
/// Bytes of a page, or of a part of one.
pub const PAGE: usize = 4096;
/// Lines that a set of the first cache has of those that lie so far apart ([`knows_sets`]).
const WAYS: usize = 8;
/// Rows that start at multiples of so many bytes share few sets of the caches.
pub const CLASH: isize = 4096;
/// Bytes of each row of the destination that are put together where such rows clash.
const RUNS: usize = 512;
/// Bytes of a matrix up to which what is transposed there is asked for, where the third cache is near.
const UNASKED: usize = 1 << 20;
/// Rows of the destination from the one that such a run is written to, to the one that is asked for.
const RUNS_AHEAD: isize = 8;
/// Bytes of such a row, and of a matrix, from which on that is worth it; the first where rows of the source clash as well,
/// unless vectors of few wide elements read and write whole lines.
pub const CLASHING_ROW: usize = 256;
const CLASHING_FROM: [usize; 2] = if cfg!(test) { [4 << 10; 2] } else { [8 << 10, 64 << 10] };
/// Rows of the source that start at multiples of so many bytes do where they are asked for long before they are read.
#[cfg(target_arch = "x86_64")]
const CLASH_SMALL: isize = 1024;
/// Bytes of each of them that are read before the next, where they do not.
const RUN: usize = 256;
/// Bytes of such rows, or of a segment of a row of the destination, where they are written around the
/// caches: memory takes shorter ones slowly.
const STREAM_BAND: usize = 512;
/// Rows up to so many bytes are read or written whole.
const NARROW: usize = 512;
/// Bytes between what is read and what is asked for, where memory is read in order.
const DISTANCE: usize = 8 << 10;
/// Bytes that are transposed before they are written around the caches; where rows of the destination
/// follow one another, and otherwise.
#[cfg(target_arch = "x86_64")]
const BLOCKS: (usize, usize) = (4 << 10, 16 << 10);
/// Bytes of a row of the destination from which on they are better written through the caches where those are faster.
#[cfg(target_arch = "x86_64")]
const THROUGH: usize = 1 << 10;
/// Rows until the lines that are asked for at one strip would be lost before the next.
#[cfg(target_arch = "x86_64")]
const STREAM_ROWS: usize = 2048;
/// Bytes of the buffer that columns which are narrow together may take: it is to stay in the caches.
#[cfg(target_arch = "x86_64")]
const NARROW_STAGE: usize = 48 << 10;
/// Bytes of a matrix that is not worth a buffer.
#[cfg(target_arch = "x86_64")]
const SHORT: usize = if cfg!(test) { 256 } else { 64 << 10 };

/// Whether it is one of the processors on which what the sets of the first cache hold was measured (Zen 3).
pub fn knows_sets() -> bool {
    cfg!(target_arch = "x86_64") && Memory::get() == Memory::Other
}

/// In how many sets of the first cache rows start that are so far apart, of those whose addresses differ by less than a page.
fn sets(step: isize) -> usize {
    PAGE / (step & step.wrapping_neg()).unsigned_abs().clamp(LINE, PAGE)
}

/// How far a step is from a multiple.
#[inline(always)]
pub fn off(step: isize, multiple: isize) -> isize {
    let left = step.rem_euclid(multiple);
    left.min(multiple - left)
}

/// Whether lines of the destination would be pushed out of the caches before the next squares, as wide as `side`, complete
/// them.
#[inline(always)]
fn clashes(matrix: &Matrix, size: usize, side: usize) -> bool {
    // Two sets of the first cache have no room for what becomes of a few squares; one of single bytes has as many rows of
    // the destination as four sets have lines.
    let clash = match size {
        1 => CLASH / 4,
        // On Zen 4 they have.
        _ if Memory::is_zen4() => CLASH,
        _ => CLASH / 2,
    };
    let (step, rows) = (matrix.destination_row, side as isize);
    // The rows of a square that start about there are in the same sets until some are a line apart.
    let is_near = || {
        rows >= 16
            && (off(step, CLASH.min(32 * CLASH / rows)) <= 256 / rows
                || off(step, 16 * CLASH / rows) <= 64 / rows)
    };
    let clashes_twice = matrix.source_row % CLASH == 0 && (size <= 4 || side * size < LINE);
    (step % clash == 0 && !matrix.keeps_lines(size, side) || is_near())
        && matrix.rows * size >= CLASHING_ROW
        && matrix.rows * matrix.columns * size > CLASHING_FROM[usize::from(!clashes_twice)]
}

/// Whether lines of the source would be before the next squares, as wide as `side`, have what is left of them.
#[inline(always)]
fn clashes_in_source(matrix: &Matrix, size: usize, side: usize) -> bool {
    let are_lines = || {
        let places = matrix.source as usize | matrix.source_row as usize;
        size > 1 && side * size == LINE && places.is_multiple_of(LINE)
    };
    let clash = if size == 1 { CLASH / 2 } else { CLASH };
    size <= 4
        && off(matrix.source_row, clash) <= 4
        && matrix.columns * size >= RUNS
        && matrix.rows * matrix.columns * size > CLASHING_FROM[1]
        && !are_lines()
}

/// Transposes parts of so many rows that what squares leave of their columns is read before it is lost from the first cache,
/// and of so many columns that what they leave of their rows is written before; false: there is but one.
///
/// # Safety
/// As [`baseline`], of elements of `size` bytes and squares as wide as `side`.
#[inline(never)]
unsafe fn in_parts(matrix: &Matrix, how: How, transpose: TransposeFn, (size, side): (usize, usize)) -> bool {
    let is_whole = |elements: usize| elements.is_multiple_of(side);
    let most = |has_parts: bool| if has_parts { EDGE } else { usize::MAX >> 1 };
    let most_rows = most(!is_whole(matrix.columns));
    let most_columns = most(matrix.rows < 2 * side && !is_whole(matrix.rows));
    let (rows, columns) = (part_of(matrix.rows, most_rows), part_of(matrix.columns, most_columns));
    if (rows, columns) == (matrix.rows, matrix.columns) {
        return false;
    }
    let mut top = 0;
    while top < matrix.rows {
        let rows = part_of(matrix.rows - top, most_rows);
        let mut column = 0;
        while column < matrix.columns {
            let columns = part_of(matrix.columns - column, most_columns);
            // SAFETY: the part is within the matrix.
            unsafe { transpose(&matrix.part(size, top, column, rows, columns), how) };
            column += columns;
        }
        top += rows;
    }
    true
}

/// Rows and columns that strips of vectors of so many lanes do before others: half a line of so many columns that more strips
/// share it stays in the first cache without that.
#[inline(always)]
fn most_of_strips(lanes: usize, columns: usize) -> (usize, usize) {
    if lanes > 2 || columns > WIDE { STRIPS } else { (usize::MAX >> 1, usize::MAX >> 1) }
}

/// How many of those that are left are done next, where so many are best: a few more rather than a few by themselves.
#[inline(always)]
fn part_of(left: usize, most: usize) -> usize {
    if left >= 2 * most { most } else { left }
}

/// Transposes into a buffer and copies runs of the destination's rows from there; false: there is no buffer. `far`: as
/// [`How::Far`].
///
/// # Safety
/// As [`baseline`], of elements of `size` bytes.
#[inline(never)]
unsafe fn staged(matrix: &Matrix, transpose: TransposeFn, size: usize, far: bool) -> bool {
    let Some(stage) = Stage::take() else { return false };
    let (strip, block, pitch) = (2 * LINE / size, RUNS / size, RUNS + LINE);
    // More than the second cache holds comes by itself on AMD's. Where the third one answers soon, nothing that it holds is
    // asked for, nor where it is written.
    let (reads_by_itself, writes_by_itself) = match Memory::get() {
        Memory::Near => (matrix.rows * matrix.columns * size > UNASKED, false),
        Memory::Other => (!far, !far),
        _ => (false, false),
    };
    let how = if reads_by_itself { How::Cached } else { How::Ahead(2 * LINE as isize) };
    for top in (0..matrix.rows).step_by(block) {
        for column in (0..matrix.columns).step_by(strip) {
            let (rows, columns) = (block.min(matrix.rows - top), strip.min(matrix.columns - column));
            // SAFETY: the part is within the matrix, and what it takes is within the buffer.
            unsafe {
                let part = matrix.part(size, top, column, rows, columns);
                let staged = Matrix { destination: stage.start(), destination_row: pitch as isize, ..part };
                transpose(&staged, how);
                for index in 0..columns {
                    let run = stage.start().add(index * pitch);
                    let to = part.to(size, 0, index);
                    if !writes_by_itself {
                        prefetch_to_write(to.wrapping_offset(RUNS_AHEAD * part.destination_row), rows * size);
                    }
                    run.copy_to_nonoverlapping(to, rows * size);
                }
            }
        }
    }
    true
}

/// Copies runs of the source's rows to a buffer and transposes from there; false: there is no buffer.
///
/// # Safety
/// As [`baseline`], of elements of `size` bytes.
#[inline(never)]
unsafe fn gathered(matrix: &Matrix, transpose: TransposeFn, size: usize) -> bool {
    let Some(stage) = Stage::take() else { return false };
    let (strip, block, pitch) = (RUNS / size, 2 * LINE / size, RUNS + LINE);
    for column in (0..matrix.columns).step_by(strip) {
        for top in (0..matrix.rows).step_by(block) {
            let (rows, columns) = (block.min(matrix.rows - top), strip.min(matrix.columns - column));
            // SAFETY: the part is within the matrix, and what it takes is within the buffer.
            unsafe {
                let part = matrix.part(size, top, column, rows, columns);
                for index in 0..rows {
                    let run = stage.start().add(index * pitch);
                    part.from(size, index, 0).copy_to_nonoverlapping(run, columns * size);
                }
                let gathered = Matrix { source: stage.start(), source_row: pitch as isize, ..part };
                transpose(&gathered, How::Cached);
            }
        }
    }
    true
}

/// Transposes into a buffer and writes whole lines from there around the caches; false where that is
/// of no use.
///
/// # Safety
/// As [`baseline`], of elements of `size` bytes.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn streamed(matrix: &Matrix, transpose: TransposeFn, size: usize) -> bool {
    let Matrix { source_row, destination_row, rows, columns, .. } = *matrix;
    let follow = destination_row == (rows * size) as isize;
    if rows * columns * size < SHORT || (rows * size <= NARROW && !follow) {
        return false;
    }
    let Some(stage) = Stage::take() else { return false };
    let buffer = stage.start();
    // SAFETY: the parts are within the matrix, and what they take is within the buffer: of a part of
    // `count` columns and `block` rows, or of a row that is all its columns, with a line before each
    // row.
    unsafe {
        if rows * size <= NARROW {
            // The rows of the destination are one.
            let bytes = if through() { THROUGH } else { BLOCKS.0 };
            let least = if Memory::get() == Memory::Near { RUN / size } else { LINE };
            let block = (bytes / (rows * size)).next_multiple_of(LINE).max(least);
            let mut column = 0;
            while column < columns {
                let count = block.min(columns - column);
                let part = matrix.part(size, 0, column, rows, count);
                if through() {
                    let bytes = count * rows * size;
                    prefetch_to_write(part.destination.wrapping_add(bytes), bytes);
                    transpose(&part, How::Ahead((2 * block * size) as isize));
                    column += count;
                    continue;
                }
                let staged = Matrix { destination: buffer.add(LINE), ..part };
                transpose(&staged, How::Ahead(block_ahead((block * size) as isize)));
                let (first, last) = (column == 0, column + count == columns);
                write_around(buffer, part.destination, count * rows * size, first, last);
                column += count;
            }
        } else if columns * size > NARROW && source_row % CLASH_SMALL != 0 {
            let block = match through() {
                true => Block::of_runs(columns, size, size, Block::LONG),
                false => {
                    let columns = RUN / size;
                    Block { columns, band: columns, strip: LINE / size, rows: STREAM_BAND / size }
                }
            };
            each_piece(matrix, transpose, size, block, &stage, |piece| {
                let buffer = piece.staged.sub(LINE);
                let to = matrix.to(size, piece.row, piece.column);
                let carried = stage.carried(piece.index);
                buffer.cast::<Line>().write(carried.read());
                write_around(buffer, to, piece.rows * size, piece.ends.0, piece.ends.1);
                carried.write(buffer.cast::<Line>().read());
                true
            });
        } else {
            let least = 128.max(STREAM_BAND / 2 / size);
            let is_narrow = columns * size <= NARROW && columns * (least * size + LINE) <= NARROW_STAGE;
            let strip = if is_narrow { columns } else { 2 * LINE / size };
            let bytes = if is_narrow { BLOCKS.0 } else { BLOCKS.1 };
            let least = if is_narrow { least } else { 128.max(STREAM_BAND / size) };
            let block = (bytes / (strip * size)).next_multiple_of(LINE).max(least);
            let pitch = block * size + LINE;
            // What is narrow is read in order; else the next strip is to the right.
            let (height, ahead) = match is_narrow {
                true if source_row.unsigned_abs() == columns * size => {
                    (rows, block_ahead(block as isize * source_row))
                }
                true => (rows, block as isize * source_row),
                false if source_row % CLASH_SMALL == 0 => (block, 2 * LINE as isize),
                false => (STREAM_ROWS, 2 * LINE as isize),
            };
            for top in (0..rows).step_by(height) {
                let bottom = rows.min(top + height);
                for column in (0..columns).step_by(strip) {
                    let count = strip.min(columns - column);
                    for row in (top..bottom).step_by(block) {
                        let part = matrix.part(size, row, column, block.min(bottom - row), count);
                        if through() && is_narrow && block * size >= THROUGH {
                            for index in 0..count {
                                let bytes = part.rows * size;
                                prefetch_to_write(part.to(size, 0, index).wrapping_add(bytes), bytes);
                            }
                            transpose(&part, How::Ahead(ahead));
                            continue;
                        }
                        let staged =
                            Matrix { destination: buffer.add(LINE), destination_row: pitch as isize, ..part };
                        transpose(&staged, How::Ahead(ahead));
                        let (first, last) = (row == top, row + part.rows == bottom);
                        for index in 0..count {
                            let to = part.to(size, 0, index);
                            write_around(buffer.add(index * pitch), to, part.rows * size, first, last);
                        }
                    }
                }
            }
        }
    }
    true
}

/// Whether some matrices of the destination, which follow each other, are better put together before they are written
/// around the caches. The wider the elements, the less of the time is the processor's: with narrow ones small matrices
/// are as fast through the caches. Where rows or matrices are whole lines already, those are written as they are.
pub fn is_batch(first: &Matrix, count: usize, size: usize) -> bool {
    let (row, bytes) = (first.rows * size, first.rows * first.columns * size);
    (BATCH_FROM / size..).contains(&bytes)
        && (bytes <= BATCH_TO || first.is_near(size))
        && count * bytes >= BATCH
        && !first.is_of_lines(size)
        && (row <= NARROW || !(first.destination as usize | row).is_multiple_of(LINE))
}

/// What is done one after another, and whose results follow each other in the destination.
pub struct Batch<'a> {
    source: *const u8,
    destination: *mut u8,
    count: usize,
    /// Of each.
    bytes: usize,
    each: Each<'a>,
}

enum Each<'a> {
    /// A matrix like the first, `next` from the one before, of elements of a size.
    Matrix { first: &'a Matrix, next: isize, transpose: TransposeFn, size: usize },
    /// A group.
    Group(&'a Shuffle),
}

impl<'a> Batch<'a> {
    pub fn of_matrices(
        first: &'a Matrix,
        next: isize,
        count: usize,
        transpose: TransposeFn,
        size: usize,
    ) -> Batch<'a> {
        let Matrix { source, destination, rows, columns, .. } = *first;
        let each = Each::Matrix { first, next, transpose, size };
        Batch { source, destination, count, bytes: rows * columns * size, each }
    }

    pub fn of_groups(
        shuffle: &'a Shuffle,
        source: *const u8,
        destination: *mut u8,
        count: usize,
    ) -> Batch<'a> {
        Batch { source, destination, count, bytes: shuffle.bytes, each: Each::Group(shuffle) }
    }

    /// As many at a time as are put together: which one is the first, how many, and whether they are the last.
    pub fn each_turn(&self, mut turn: impl FnMut(usize, usize, bool) -> bool) -> bool {
        let some = (BATCH / self.bytes).max(1);
        (0..self.count).step_by(some).all(|done| {
            let these = some.min(self.count - done);
            turn(done, these, done + these == self.count)
        })
    }

    /// Whether prefetchers bring what comes next better than who asks for it: very small matrices that follow each other in
    /// the source.
    fn comes_by_itself(&self, first: &Matrix, next: isize, size: usize) -> bool {
        let row = first.columns * size;
        // On Zen 4 how long asking for those takes depends on what was done before.
        let are_wide = || size == 16 && (LINE + 1..=2 * LINE).contains(&row) && Memory::is_zen4();
        let is_small = self.bytes < BY_THEMSELVES || self.bytes <= 2 * BY_THEMSELVES && are_wide();
        Memory::get() == Memory::Near
            && (first.source_row, next) == (row as isize, self.bytes as isize)
            && is_small
    }

    /// Does `these` from one on, to where their results are to be. `asks`: for as many after them.
    ///
    /// # Safety
    /// As [`TransposeFn`] of each.
    pub unsafe fn run(&self, done: usize, these: usize, to: *mut u8, asks: bool) {
        // SAFETY: the caller's.
        unsafe {
            match self.each {
                Each::Group(shuffle) => shuffle.run(self.source.add(done * shuffle.step), to, these),
                Each::Matrix { first, next, transpose, size } => {
                    let asks = asks && !self.comes_by_itself(first, next, size);
                    for index in 0..these {
                        let source = self.source.offset((done + index) as isize * next);
                        let destination = to.add(index * self.bytes);
                        let destination_row = (first.rows * size) as isize;
                        let matrix = Matrix { source, destination, destination_row, ..*first };
                        if asks {
                            matrix.prefetch(these as isize * next, size);
                        }
                        transpose(&matrix, How::Cached);
                    }
                }
            }
        }
    }

    /// Does matrices that the second cache holds, some columns at a time.
    ///
    /// # Safety
    /// As [`TransposeFn`] of each.
    unsafe fn by_columns(
        &self,
        stage: &Stage,
        first: &Matrix,
        next: isize,
        transpose: TransposeFn,
        size: usize,
    ) {
        let row = first.rows * size;
        // Lines of the source are read whole.
        let some = (BATCH / row).max(1).next_multiple_of(LINE / size).min(STAGE / row);
        let (buffer, destination_row) = (stage.start(), row as isize);
        for index in 0..self.count {
            let source = self.source.wrapping_offset(index as isize * next);
            let mut column = 0;
            while column < first.columns {
                let left = first.columns - column;
                // Less than a line is not left for the end.
                let columns = if left * row < some * row + LINE { left } else { some };
                let done = column * row;
                let to = self.destination.wrapping_add(index * self.bytes + done);
                let ends = (index + column == 0, index + 1 == self.count && columns == left);
                // SAFETY: the caller's; so many columns are within the buffer, which begins with a line.
                unsafe {
                    let matrix = Matrix { source, destination_row, ..*first };
                    let part = matrix.part(size, 0, column, first.rows, columns);
                    transpose(&Matrix { destination: buffer.add(LINE), ..part }, How::Cached);
                    let ask = |at, some| self.ask(index + 1, done + at, some);
                    write_around_asking(buffer, to, columns * row, ends, ask);
                }
                column += columns;
            }
        }
    }

    /// Asks for so many bytes of the matrices from one on, as if nothing were between their rows.
    #[inline(always)]
    fn ask(&self, done: usize, at: usize, some: usize) {
        let Each::Matrix { first, next, size, .. } = self.each else { return };
        let (row, rows) = (first.columns * size, first.rows);
        let from = self.source.wrapping_offset(done as isize * next);
        // Rows that share lines are asked for with what is between them.
        if (row..row + LINE).contains(&(first.source_row as usize)) {
            let step = first.source_row as usize;
            let (bytes, mut at, end) = (rows * step, at * step / row, (at + some) * step / row);
            while at < end {
                let (matrix, past) = (at / bytes, at % bytes);
                let some = (end - at).min(bytes - past);
                prefetch_bytes(
                    from.wrapping_offset(matrix as isize * next).wrapping_add(past),
                    some as isize,
                );
                at += some;
            }
            return;
        }
        for index in at / row..(at + some) / row {
            let (matrix, row_of_it) = ((index / rows) as isize, (index % rows) as isize);
            let from = from.wrapping_offset(matrix * next + row_of_it * first.source_row);
            prefetch_bytes(from, row as isize);
        }
    }

    /// Does all of them through the caches.
    ///
    /// # Safety
    /// As [`TransposeFn`] of each.
    pub unsafe fn through(&self) {
        // SAFETY: the caller's.
        unsafe { self.run(0, self.count, self.destination, false) }
    }

    /// Does all of them, some at a time into a buffer, of which whole lines are written around the caches.
    ///
    /// # Safety
    /// As [`TransposeFn`] of each; there is a line at least.
    pub unsafe fn around(&self) {
        let stage = Stage::take();
        if let (Some(stage), Each::Matrix { first, next, transpose, size }) = (&stage, &self.each)
            && self.bytes > BY_COLUMNS
        {
            // SAFETY: the caller's; some columns fit the buffer.
            return unsafe { self.by_columns(stage, first, *next, *transpose, *size) };
        }
        self.each_turn(|done, these, is_last| {
            let to = self.destination.wrapping_add(done * self.bytes);
            // SAFETY: the caller's; those of a turn are within the buffer, which begins with a line.
            unsafe {
                if let Some(stage) = &stage {
                    let asks = self.bytes < ASK_BETWEEN;
                    self.run(done, these, stage.start().add(LINE), asks);
                    let ask = |at, some| {
                        if !asks {
                            self.ask(done + these, at, some)
                        }
                    };
                    write_around_asking(stage.start(), to, these * self.bytes, (done == 0, is_last), ask);
                } else {
                    self.run(done, these, to, true);
                }
            }
            true
        });
    }
}

/// Nothing writes around the caches here.
///
/// # Safety
/// None needed.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn streamed(_matrix: &Matrix, _transpose: TransposeFn, _size: usize) -> bool {
    false
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::LazyLock;

    use super::*;

    /// Memory that ends, or starts, where nothing may be read.
    pub(in crate::backend::host) struct Guarded {
        base: *mut u8,
        pages: usize,
    }

    const PAGE: usize = 4096;
    /// Without optimisation, or in valgrind, which tests/sanitize announces: fewer cases.
    pub(super) static FEW: LazyLock<bool> =
        LazyLock::new(|| cfg!(debug_assertions) || std::env::var_os("ARRAYBRIDGE_VALGRIND").is_some());

    /// One case of so many.
    fn skip() -> usize {
        if *FEW { 40 } else { 1 }
    }

    impl Guarded {
        pub(in crate::backend::host) fn new(bytes: usize) -> Guarded {
            let pages = bytes.div_ceil(PAGE) + 2;
            // SAFETY: a fresh map; its first and last pages are taken away.
            unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let write = libc::PROT_READ | libc::PROT_WRITE;
                let base = libc::mmap(std::ptr::null_mut(), pages * PAGE, write, flags, -1, 0);
                assert_ne!(base, libc::MAP_FAILED);
                libc::mprotect(base, PAGE, libc::PROT_NONE);
                libc::mprotect(base.byte_add((pages - 1) * PAGE), PAGE, libc::PROT_NONE);
                Guarded { base: base.cast(), pages }
            }
        }

        pub(in crate::backend::host) fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: what is between the two pages.
            unsafe { std::slice::from_raw_parts_mut(self.base.add(PAGE), (self.pages - 2) * PAGE) }
        }
    }

    impl Drop for Guarded {
        fn drop(&mut self) {
            // SAFETY: what new() mapped.
            unsafe { libc::munmap(self.base.cast(), self.pages * PAGE) };
        }
    }

    /// The kernels for elements of a size.
    type Kernels = (usize, Vec<(Option<Isa>, TransposeFn)>);

    fn all() -> [Kernels; 5] {
        [of_size::<1>(), of_size::<2>(), of_size::<4>(), of_size::<8>(), of_size::<16>()]
    }

    fn of_size<const SIZE: usize>() -> Kernels {
        let sets =
            [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Neon].into_iter().filter(|isa| isa.is_there());
        let mut kernels: Vec<_> = sets.map(|isa| (Some(isa), for_size(isa, SIZE).unwrap())).collect();
        kernels.push((None, baseline::<Portable, SIZE>));
        (SIZE, kernels)
    }

    /// Buffers, and what the destination should be.
    struct Case {
        source: Guarded,
        destination: Guarded,
        expected: Vec<u8>,
    }

    const UNTOUCHED: u8 = 0xa5;

    impl Case {
        fn new(bytes: usize) -> Case {
            let (mut source, destination) = (Guarded::new(bytes), Guarded::new(bytes));
            let mut state = 1u32;
            for byte in source.bytes() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (state >> 24) as u8;
            }
            Case { source, destination, expected: Vec::new() }
        }

        /// `gaps` after rows of the source and of the destination; negative: rows run backwards too.
        /// `at_end`: both end where their memory does, else they start there, `shift` bytes on.
        fn check(
            &mut self,
            (size, kernels): &Kernels,
            (rows, columns): (usize, usize),
            gaps: (isize, isize),
            (at_end, shift): (bool, usize),
            how: How,
        ) {
            let size = *size;
            let place = |memory: &mut Guarded, lines: usize, line: usize, gap: isize| {
                let step = line + gap.unsigned_abs();
                let span = (lines - 1) * step + line;
                let all = memory.bytes().len();
                let start = if at_end { all - span } else { shift };
                assert!(start + span <= all);
                let first = if gap < 0 { start + (lines - 1) * step } else { start };
                (first, if gap < 0 { -(step as isize) } else { step as isize })
            };
            let (from, source_row) = place(&mut self.source, rows, columns * size, gaps.0);
            let (to, destination_row) = place(&mut self.destination, columns, rows * size, gaps.1);
            let (source, destination) = (self.source.bytes(), self.destination.bytes());
            self.expected.clear();
            self.expected.resize(destination.len(), UNTOUCHED);
            for row in 0..rows {
                for column in 0..columns {
                    let from = from.wrapping_add_signed(row as isize * source_row) + column * size;
                    let to = to.wrapping_add_signed(column as isize * destination_row) + row * size;
                    self.expected[to..to + size].copy_from_slice(&source[from..from + size]);
                }
            }
            let matrix = Matrix {
                source: &raw const source[from],
                source_row,
                destination: std::ptr::null_mut(),
                destination_row,
                rows,
                columns,
            };
            for (isa, transpose) in kernels {
                destination.fill(UNTOUCHED);
                let matrix = Matrix { destination: &raw mut destination[to], ..matrix };
                // SAFETY: place() put the matrices within their memory.
                unsafe { transpose(&matrix, how) };
                assert!(
                    *destination == self.expected[..],
                    "{isa:?}, {size} bytes, {rows} x {columns}, gaps {gaps:?}, end {at_end}, {shift}, {how:?}"
                );
            }
        }
    }

    #[test]
    fn all_small_matrices() {
        let mut case = Case::new(70 * (70 * 16 + 64));
        for kernels in &all() {
            for rows in 1..=70 {
                for columns in 1..=70 {
                    if !usize::is_multiple_of(rows * 5 + columns * 3, skip()) {
                        continue;
                    }
                    let odd = (rows * 7 + columns) as isize % 13;
                    let shape = (rows, columns);
                    case.check(kernels, shape, (0, 0), (true, 0), How::Cached);
                    if columns % 4 == rows % 4 {
                        case.check(kernels, shape, (odd, 13 - odd), (true, 0), How::Cached);
                        case.check(kernels, shape, (-odd - 1, odd), (false, rows % 64), How::Cached);
                        case.check(kernels, shape, (1, -1 - odd), (true, 0), How::Ahead(128));
                        case.check(kernels, shape, (odd, 0), (false, columns % 64), How::Streamed);
                        case.check(kernels, shape, (0, odd), (true, 0), How::Streamed);
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_to_do() {
        for (_, transpose) in all().into_iter().flat_map(|(_, kernels)| kernels) {
            for (rows, columns) in [(0, 0), (0, 100), (100, 0)] {
                for how in [How::Cached, How::Streamed] {
                    let matrix = Matrix {
                        source: std::ptr::dangling(),
                        source_row: 3,
                        destination: std::ptr::dangling_mut(),
                        destination_row: 5,
                        rows,
                        columns,
                    };
                    // SAFETY: there is no element.
                    unsafe { transpose(&matrix, how) };
                }
            }
        }
    }

    /// Every length about those of parts, of strips of them, and of what vectors leave.
    #[test]
    fn parts() {
        let (rows, columns) = STRIPS;
        let about = |middle: usize| [middle - 1, middle, middle + 1, middle + 17];
        let mut case = Case::new(2 * (EDGE + 2 * LINE) * 2 * EDGE * 16);
        for kernels in &all() {
            let side = LINE / kernels.0;
            let lengths = [side, 2 * side, columns, rows, 2 * columns + side, WIDE, 2 * EDGE, 3 * EDGE];
            let lengths = lengths.into_iter().flat_map(about).filter(|length| *length > 0);
            let shapes = lengths.clone().flat_map(|rows| lengths.clone().map(move |columns| (rows, columns)));
            let most = (EDGE + 2 * LINE) * 2 * EDGE;
            for (index, shape) in shapes.filter(|(rows, columns)| rows * columns <= most).enumerate() {
                if !usize::is_multiple_of(index, if *FEW { 97 } else { 3 }) {
                    continue;
                }
                let gap = (index % 5) as isize - 2;
                case.check(kernels, shape, (0, gap), (index % 2 == 0, index % 64), How::Cached);
                case.check(kernels, shape, (gap, 0), (true, 0), How::Ahead(128));
            }
        }
    }

    #[test]
    fn rows_that_share_sets_of_the_caches() {
        let mut case = Case::new(2 << 20);
        for kernels in &all() {
            let size = kernels.0;
            let some = 2 * LINE / size;
            for rows in [RUNS / size, RUNS / size + 5, 2 * RUNS / size + 1] {
                for columns in [LINE / size, some, some + 3, 2 * some + 16 / size] {
                    let half = CLASH / 2 - (rows * size) as isize;
                    if half >= 0 {
                        case.check(kernels, (rows, columns), (0, half), (true, 0), How::Cached);
                    }
                    let gap = CLASH - (rows * size) as isize;
                    case.check(kernels, (rows, columns), (3, gap), (true, 0), How::Cached);
                    case.check(kernels, (rows, columns), (3, gap), (false, 7), How::Far);
                    case.check(kernels, (rows, columns), (0, -gap), (false, 7), How::Cached);
                    case.check(kernels, (rows, columns), (-1, gap), (false, 64), How::Ahead(128));
                }
            }
        }
    }

    /// Every order of squares that what shares sets asks for, and some that are left at both edges.
    #[test]
    fn bands_of_rows_that_share_sets() {
        let mut case = Case::new(3 << 20);
        for kernels in all().iter().filter(|kernels| kernels.0 >= 2) {
            let size = kernels.0;
            let step = |elements: usize, step: isize| (step - (elements * size) as isize).rem_euclid(step);
            for to in [CLASH, CLASH / 2, CLASH / 4, CLASH / 8, CLASH / 16, CLASH + size as isize, 960] {
                for from in [CLASH, CLASH / 2, CLASH / 4, CLASH + size as isize] {
                    for (rows, columns) in [(1024 / size, 256 / size), (640 / size + 3, 128 / size + 5)] {
                        let gaps = (step(columns, from), step(rows, to));
                        case.check(kernels, (rows, columns), gaps, (true, 0), How::Cached);
                    }
                }
            }
        }
    }

    /// Rows and columns that far apart, of elements of so many bytes in squares as wide as that.
    #[test]
    fn what_the_first_cache_has_room_for() {
        let matrix = |source_row, destination_row, columns| Matrix {
            source: std::ptr::null(),
            source_row,
            destination: std::ptr::null_mut(),
            destination_row,
            rows: 1000,
            columns,
        };
        for (step, expected) in
            [(0, 64), (4, 64), (64, 64), (-192, 64), (128, 32), (640, 32), (-512, 8), (2048, 2)]
        {
            assert_eq!(sets(step), expected, "{step}");
        }
        assert_eq!((sets(4096), sets(-40960)), (1, 1));
        // As many rows as half of the ways hold, or all ways if that is two lines; a line of the destination.
        for (size, step, expected) in [
            (4, 500, 256),
            (4, 128, 128),
            (4, -512, 32),
            (4, 1024, 32),
            (4, 2048, 16),
            (4, 4096, 16),
            (2, 512, 64),
            (8, 4096, 8),
            (16, 4096, 8),
            (1, 512, 64),
        ] {
            assert_eq!(matrix(step, 4000, 1000).rows_of_sets(size), expected, "{size}, {step}");
        }
        // What is written to a buffer stays there until the line is whole.
        assert_eq!(matrix(4096, 576, 32).rows_of_sets(4), 8);
        for (size, side, steps, expected) in [
            (8, 4, (800, 4096), true),
            (8, 4, (2048, 4096), false),
            (8, 4, (2048, 2048), true),
            (8, 4, (4096, 2048), false),
            (16, 2, (4096, 4096), true),
            (4, 8, (1024, 2048), true),
            (4, 8, (2048, 2048), false),
            (4, 8, (400, 4096), false),
            (1, 32, (100, 1024), false),
        ] {
            let has_room = matrix(steps.0, steps.1, 1000).has_room(size, side);
            assert_eq!(has_room, expected, "{size}, {steps:?}");
        }
    }

    /// Rows of either side about a multiple of four kilobytes, or two, apart.
    #[test]
    fn rows_that_nearly_share_sets() {
        let mut case = Case::new(5 << 19);
        for kernels in &all() {
            let size = kernels.0;
            let some = RUNS / size;
            for step in [CLASH, CLASH / 2, CLASH / 4] {
                for near in [-(size as isize), 0, size as isize, 2 * size as isize] {
                    for (rows, columns) in [(some + 5, 67), (67, some + 5), (some + 1, some + 3), (65, some)]
                    {
                        let gap = |extent: usize| (step + near - (extent * size) as isize).max(0);
                        let gaps = [(gap(columns), 0), (0, gap(rows)), (gap(columns), gap(rows))];
                        for gaps in gaps {
                            case.check(kernels, (rows, columns), gaps, (near > 0, 0), How::Cached);
                            case.check(kernels, (rows, columns), gaps, (near < 0, 13), How::Cached);
                        }
                    }
                }
            }
        }
    }

    /// Channels in turns, of every length about whole vectors of them.
    #[test]
    fn channels() {
        let mut case = Case::new(7 * 16 * 400);
        for kernels in &all() {
            let each = LINE / kernels.0;
            for (channels, whole) in
                [2, 3, 4, 5, 6, 7].into_iter().flat_map(|few| [1, 2, 5].map(|whole| (few, whole)))
            {
                for long in (whole * each).saturating_sub(1)..=whole * each + 1 {
                    for shape in [(long, channels), (channels, long)] {
                        for how in [How::Cached, How::Ahead(4 * LINE as isize), How::Ahead(-700)] {
                            // Those that follow one another on one side may be anywhere on the other.
                            let tall = shape.1 == channels;
                            for gap in [0, 1, -1, 64] {
                                let gaps = if tall { (0, gap) } else { (gap, 0) };
                                case.check(kernels, shape, gaps, (true, 0), how);
                                case.check(kernels, shape, gaps, (false, 13), how);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Few columns of rows that are longer, up to where what is between two is no page.
    #[test]
    fn columns_cut_from_longer_rows() {
        let mut case = Case::new(72 * (PAGE + 32));
        for kernels in &all() {
            let size = kernels.0;
            for columns in 1..(16 / size).max(6) {
                let row = columns * size;
                let steps = (row + size..=32.max(6 * size)).step_by(size).chain([
                    row + 1,
                    row + 3,
                    63,
                    PAGE,
                    PAGE + size,
                ]);
                for step in steps.filter(|step| *step > row).step_by(skip().min(5)) {
                    let gap = (step - row) as isize;
                    for rows in [8, 16, 17, 33, 64, 71] {
                        case.check(kernels, (rows, columns), (gap, 0), (true, 0), How::Cached);
                        case.check(kernels, (rows, columns), (gap, -3), (false, 0), How::Ahead(128));
                        case.check(kernels, (rows, columns), (-gap, 5), (true, 0), How::Cached);
                    }
                    if step <= 32 {
                        case.check(kernels, (1000, columns), (gap, 1), (true, 0), How::Cached);
                        case.check(kernels, (4099, columns), (gap, 0), (true, 0), How::Streamed);
                        case.check(kernels, (4099, columns), (-gap, 64), (false, 3), How::Streamed);
                    }
                }
            }
        }
    }

    #[test]
    fn long_and_large() {
        let mut case = Case::new(2 << 20);
        for kernels in &all() {
            let size = kernels.0;
            let most = if *FEW { 1 << 16 } else { 1 << 20 } / size;
            for thin in (1..=24).chain([31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 256, 300]) {
                let long = (most / thin).clamp(100, 5000) - 37;
                if !usize::is_multiple_of(thin, skip().min(10)) {
                    continue;
                }
                for shape in [(thin, long), (long, thin)] {
                    case.check(kernels, shape, (0, 0), (true, 0), How::Cached);
                    case.check(kernels, shape, (0, 0), (true, 0), How::Streamed);
                    case.check(kernels, shape, (0, 0), (false, 0), How::Streamed);
                    case.check(kernels, shape, (0, 0), (false, 13), How::Streamed);
                }
            }
            for shape in [(64, 128), (131, 129), (512 / size + 3, 600), (2100, 512 / size + 9), (4099, 11)] {
                let gaps = [0, -1, 1, 64 - (shape.0 * size % 64) as isize];
                for gap in gaps.into_iter().step_by(skip().min(3)) {
                    case.check(kernels, shape, (0, gap), (false, 64), How::Streamed);
                    case.check(kernels, shape, (gap, gap), (true, 0), How::Cached);
                }
            }
        }
    }
}
