//! Tiles of as many rows as a vector of four lanes has elements, and half as many columns: fewer shuffles than squares of
//! either side, which registers hold but for single bytes, and whole vectors where columns start anywhere within lines. On
//! Zen 5 a vector that crosses into another line takes as long to store as four that do not, however long it is.

use std::hint::black_box;
use std::mem::MaybeUninit;

use super::super::super::stream::{LINE, Memory};
use super::super::super::walk::Places;
use super::super::{STRIPS, Vector, part_of, sixteen, turn};
use super::{AsIs, Block, From, Load, by_itself};

/// Single bytes of a block that the second cache holds with its result.
const IN_SECOND: usize = 64 << 10;

/// A vector of four lanes.
pub trait Wide: Vector {
    unsafe fn from_halves(low: Self::Half, high: Self::Half) -> Self;
    /// The first lane of each half of the two, and the second one.
    unsafe fn exchange_halves(self, other: Self) -> (Self, Self);
    /// The first half.
    unsafe fn half(self) -> Self::Half;
}

impl<const SIZE: usize> Block<'_, SIZE> {
    /// Elements in a lane, and in a vector.
    const LANE: usize = 16 / SIZE;
    const HIGH: usize = LINE / SIZE;
    /// Columns of a tile.
    const WIDE: usize = Self::HIGH / 2;

    /// Whether it is best done so, in matrices that start there. Not where a column's halves of lines are never in two, but
    /// its whole ones are: those are stored faster, unless an element is a lane. Single bytes are more vectors than there are
    /// registers: only of wide blocks that are near. What comes from memory gains nothing but of two bytes.
    #[inline(always)]
    pub fn likes_oblongs(&self, to: *const u8) -> bool {
        let (height, width) = (self.rows.len(), self.columns.len());
        if height < Self::HIGH || width < Self::WIDE || !Memory::is_zen5() {
            return false;
        }
        if SIZE == 1 {
            return self.from == From::Caches && width >= 2 * Self::WIDE && height * width <= IN_SECOND;
        }
        let places = to as isize | self.columns[1] | self.columns[width - 1];
        match self.from {
            From::Caches => SIZE == 16 || places as usize % LINE != LINE / 2,
            From::Asked => SIZE == 2,
            From::Memory => false,
        }
    }

    /// Transposes it in each of the matrices.
    ///
    /// # Safety
    /// As [`super::ScatteredFn`], with at least as many rows and columns as a tile has.
    #[inline(always)]
    pub unsafe fn oblongs<V: Wide>(&self, places: &mut Places) {
        loop {
            // SAFETY: the caller's.
            unsafe {
                if SIZE == 16 {
                    self.oblongs_part::<V>(places.source, places.destination);
                } else {
                    self.oblong_parts::<V>(places.source, places.destination);
                }
            }
            if !places.advance() {
                return;
            }
        }
    }

    /// Some columns of some rows at a time, as in [`super::super::strips`].
    ///
    /// # Safety
    /// As [`Block::oblongs`].
    #[inline(always)]
    unsafe fn oblong_parts<V: Wide>(&self, source: *const u8, to: *mut u8) {
        let (height, width) = (self.rows.len(), self.columns.len());
        let mut top = 0;
        while top < height {
            let rows = &self.rows[top..top + part_of(height - top, STRIPS.0)];
            let mut left = 0;
            while left < width {
                let right = left + part_of(width - left, STRIPS.1);
                let part = Block { rows, columns: &self.columns[left..right], ..*self };
                // SAFETY: the caller's; a part of that.
                unsafe { part.oblongs_part::<V>(source.add(left * SIZE), to.add(top * SIZE)) };
                left = right;
            }
            top += rows.len();
        }
    }

    /// The same, all rows of each; the last few as lanes or by squares of half a vector.
    ///
    /// # Safety
    /// As [`Block::oblongs`].
    #[inline(always)]
    unsafe fn oblongs_part<V: Wide>(&self, source: *const u8, to: *mut u8) {
        let height = self.rows.len();
        let mut row = 0;
        // SAFETY: the caller's; the last pieces end where rows do.
        unsafe {
            loop {
                match height - row {
                    0 => return,
                    left if left <= Self::LANE => {
                        return self.flat_from::<V::Half>(source, to, height - Self::LANE);
                    }
                    left if left <= Self::WIDE => {
                        return self.oblongs_across::<V, false>(source, to, height - Self::WIDE);
                    }
                    left if left < Self::HIGH => row = height - Self::HIGH,
                    _ => {}
                }
                self.oblongs_across::<V, true>(source, to, row);
                row += Self::HIGH;
            }
        }
    }

    /// The same of as many rows as a vector has elements (`ALL`), or by squares of half as many; the last few columns as
    /// strips, or by one that overlaps.
    ///
    /// # Safety
    /// As [`Block::oblongs`]; they are within the matrix.
    #[inline(always)]
    unsafe fn oblongs_across<V: Wide, const ALL: bool>(&self, source: *const u8, to: *mut u8, row: usize) {
        let width = self.columns.len();
        let mut column = 0;
        // SAFETY: the caller's; the last piece ends where columns do.
        unsafe {
            while column + Self::WIDE <= width {
                let from = source.add(column * SIZE);
                if ALL {
                    self.oblong::<V, AsIs, false>(from, to, (row, column), (0, Self::WIDE));
                } else {
                    self.square::<V::Half>(from, to, row, column);
                }
                column += Self::WIDE;
            }
            let start = width - Self::WIDE;
            let (from, first) = (source.add(start * SIZE), column - start);
            match width - column {
                0 => {}
                left if left <= Self::LANE && ALL => self.strips::<V>(source, to, row, column),
                left if left <= Self::LANE => self.strips::<V::Half>(source, to, row, column),
                _ if ALL => self.oblong::<V, AsIs, true>(from, to, (row, start), (first, Self::WIDE)),
                _ => self.square_beside::<V::Half, AsIs>(from, to, (row, start), (first, Self::WIDE), || ()),
            }
        }
    }

    /// Whether it is best done so though it has fewer columns than a tile, but more than a lane: where what is around them may be
    /// read.
    #[inline(always)]
    pub fn likes_narrow_oblongs(&self) -> bool {
        let (height, width) = (self.rows.len(), self.columns.len());
        let is_between = Self::LANE < width && width < Self::WIDE;
        let is_high = height >= if SIZE == 1 { Self::WIDE } else { Self::HIGH };
        let is_near = self.from == From::Caches && !self.whole.is_null();
        is_between && is_high && is_near && Memory::is_zen5()
    }

    /// Transposes columns that are fewer than a tile has, in each of the matrices: single bytes two rows to a vector, for a tile
    /// is more vectors than there are registers.
    ///
    /// # Safety
    /// As [`super::ScatteredFn`], of what [`Block::likes_narrow_oblongs`].
    #[inline(always)]
    pub unsafe fn narrow_oblongs<V: Wide>(&self, places: &mut Places) {
        let (height, width) = (self.rows.len(), self.columns.len());
        loop {
            let (source, to) = (places.source, places.destination);
            let mut row = 0;
            while row < height {
                let is_tall = SIZE > 1 && height - row > Self::WIDE && height >= Self::HIGH;
                let rows = if is_tall { Self::HIGH } else { Self::WIDE };
                row = row.min(height - rows);
                // SAFETY: the caller's; the last piece ends where rows do.
                unsafe {
                    match self.is_read_on(source, row, rows, 16) {
                        true if is_tall => self.oblong::<V, AsIs, true>(source, to, (row, 0), (0, width)),
                        true => self.two_rows_each::<V>(source, to, row),
                        false if is_tall => self.strips::<V>(source, to, row, 0),
                        false => self.strips::<V::Half>(source, to, row, 0),
                    }
                }
                row += rows;
            }
            if !places.advance() {
                return;
            }
        }
    }

    /// The same of as many rows as half a vector has elements.
    ///
    /// # Safety
    /// They are within the matrix, and as many bytes as half a vector has are readable from where each starts.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn two_rows_each<V: Wide>(&self, source: *const u8, to: *mut u8, row: usize) {
        let (n, width) = (Self::LANE, self.columns.len());
        // SAFETY: rows stay below 2 * n, columns below theirs.
        unsafe {
            // Else what others read of them, too, is read before, and kept in memory.
            let rows = by_itself(self.rows.as_ptr().add(row).cast()).cast();
            let vectors = Self::half_of_oblong::<V, AsIs>(by_itself(source), rows);
            let to = to.add(row * SIZE);
            sixteen!(INDEX => if INDEX < n {
                let (left, right) = vectors[INDEX].exchange_halves(vectors[INDEX]);
                left.half().store(to.offset(self.column(INDEX)));
                if n + INDEX < width {
                    right.half().store(to.offset(self.column(n + INDEX)));
                }
            });
        }
    }

    /// Transposes one, whose column is at `from` in the first row, and whose halves of vectors are loaded in some way, but writes
    /// only some of its columns (`EDGE`).
    ///
    /// # Safety
    /// It is within the matrix, from (row, column) on.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub unsafe fn oblong<V: Wide, L: Load<V::Half>, const EDGE: bool>(
        &self,
        from: *const u8,
        to: *mut u8,
        (row, column): (usize, usize),
        (first, end): (usize, usize),
    ) {
        let n = Self::LANE;
        // SAFETY: rows stay below 4 * n, columns below 2 * n.
        unsafe {
            let from = by_itself(from);
            let rows = self.rows.as_ptr().add(row);
            let low = Self::half_of_oblong::<V, L>(from, rows);
            let mut kept = [const { MaybeUninit::uninit() }; 16];
            for index in 0..n {
                kept[index].write(low[index]);
            }
            if SIZE == 1 {
                // In memory: as many more are all registers.
                black_box(&mut kept);
            }
            let high = Self::half_of_oblong::<V, L>(from, rows.add(2 * n));
            let to = to.add(row * SIZE);
            sixteen!(INDEX => if INDEX < n {
                let (left, right) = kept[INDEX].assume_init().exchange_halves(high[INDEX]);
                if !EDGE || (first..end).contains(&INDEX) {
                    left.store(to.offset(self.column(column + INDEX)));
                }
                if !EDGE || (first..end).contains(&(n + INDEX)) {
                    right.store(to.offset(self.column(column + n + INDEX)));
                }
            });
        }
    }

    /// Transposes within lanes what half of the rows of one have, two rows in each vector.
    ///
    /// # Safety
    /// As [`Block::oblong`].
    #[inline(always)]
    unsafe fn half_of_oblong<V: Wide, L: Load<V::Half>>(from: *const u8, rows: *const isize) -> [V; 16] {
        let n = Self::LANE;
        // SAFETY: the caller's.
        unsafe {
            let vectors = sixteen!(INDEX => {
                let low = L::load(from.offset(*rows.add(INDEX % n)));
                V::from_halves(low, L::load(from.offset(*rows.add(n + INDEX % n))))
            });
            turn::<V, SIZE>(vectors)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{FEW, Guarded};
    use super::super::super::{Isa, x86::Avx512};
    use super::*;
    use crate::backend::host::walk::PerAxis;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn oblongs<const SIZE: usize>(block: &Block<SIZE>, places: &mut Places) {
        // SAFETY: the caller's.
        unsafe {
            match block.columns.len() < 32 / SIZE {
                true => block.narrow_oblongs::<Avx512>(places),
                false => block.oblongs::<Avx512>(places),
            }
        }
    }

    /// Rows and columns in no order, with something between them, of which one ends where nothing may be read: the same as one
    /// by one.
    fn check<const SIZE: usize>(height: usize, width: usize) {
        const BETWEEN: usize = 3;
        // In steps of a prime that does not divide how many there are.
        let places = |count: usize, bytes: usize| -> Vec<isize> {
            let is_prime = |by: &usize| (2..*by).all(|divisor| !by.is_multiple_of(divisor));
            let by = (7..).find(|by| is_prime(by) && !count.is_multiple_of(*by)).unwrap();
            (0..count).map(|line| (line * by % count * (bytes + BETWEEN)) as isize).collect()
        };
        let (rows, columns) = (places(height, width * SIZE), places(width, height * SIZE));
        let bytes = |lines: usize, each: usize| (lines - 1) * (each * SIZE + BETWEEN) + each * SIZE;
        let mut guarded = Guarded::new(bytes(height, width));
        let source = guarded.bytes();
        let all = source.len();
        let source = &mut source[all - bytes(height, width)..];
        source.iter_mut().zip(0..).for_each(|(byte, at)| *byte = (at * 7 + at / 250) as u8);
        let last = source.as_ptr_range().end.wrapping_sub(16);
        let mut results = [const { Vec::new() }; 2];
        for (result, by_tiles) in results.iter_mut().zip([false, true]) {
            result.resize(bytes(width, height), 0xa5u8);
            let block = Block::<SIZE> { last, ..Block::asked(&rows, &columns) };
            let (mut at, to) = (PerAxis::new(), result.as_mut_ptr());
            // SAFETY: places() put rows and columns within the two.
            unsafe {
                match by_tiles {
                    true => oblongs(&block, &mut Places::new(&[], source.as_ptr(), to, &mut at)),
                    false => block.one_by_one(source.as_ptr(), to),
                }
            }
        }
        assert!(results[0] == results[1], "{SIZE} bytes, {height} x {width}");
    }

    /// Every number about those of tiles, and of what is done at a time.
    fn of_size<const SIZE: usize>() {
        let (high, wide) = (64 / SIZE, 32 / SIZE);
        let heights = (high..=2 * high + 1).chain([STRIPS.0 + high + 1, 2 * STRIPS.0 + wide - 1, 300]);
        for height in heights.step_by(if *FEW { 7 } else { 1 }) {
            for width in (wide..=2 * wide + 1).chain([STRIPS.1 + 3, 2 * STRIPS.1 + wide + 1]) {
                check::<SIZE>(height, width);
            }
        }
    }

    #[test]
    fn rows_and_columns_that_are_left() {
        if Isa::Avx512.is_there() {
            of_size::<1>();
            of_size::<2>();
            of_size::<4>();
            of_size::<8>();
            of_size::<16>();
        }
    }

    /// Every number of columns between those of a lane and of a tile.
    fn narrow_of_size<const SIZE: usize>() {
        let (high, wide, lane) = (64 / SIZE, 32 / SIZE, 16 / SIZE);
        let least = if SIZE == 1 { wide } else { high };
        for height in (least..=3 * high + 1).step_by(if *FEW { 7 } else { 1 }) {
            (lane + 1..wide).for_each(|width| check::<SIZE>(height, width));
        }
    }

    #[test]
    fn fewer_columns() {
        if Isa::Avx512.is_there() {
            narrow_of_size::<1>();
            narrow_of_size::<2>();
            narrow_of_size::<4>();
            narrow_of_size::<8>();
        }
    }
}
