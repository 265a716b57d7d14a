//! Transposes of matrices whose rows are anywhere in the source, and columns anywhere in the destination.

use std::mem::MaybeUninit;

use super::super::fuse::{Reach, Rows};
use super::stage::{STAGE, Stage};
use super::*;

/// A matrix to transpose.
#[derive(Clone, Copy)]
pub struct Scattered<'a> {
    /// Element (0, 0); those of a row follow one another.
    pub source: *const u8,
    /// Where rows start in the source, in bytes.
    pub rows: Rows<'a>,
    /// Element (0, 0); those of a column follow one another.
    pub destination: *mut u8,
    /// Where columns start in the destination, in bytes from the first.
    pub columns: &'a [isize],
    /// Whether the source may be in no cache, so that what is read next is asked for.
    pub far: bool,
}

/// Transposes a matrix whose rows and columns are anywhere.
///
/// # Safety
/// Every element of the matrix is readable in the source and writable in the destination. For a stream,
/// a block but the last fills a line, and is no longer than what [`reach`] leads to.
pub type ScatteredFn = unsafe fn(&Scattered, How);

/// The transpose for elements of a size: 1, 2, 4, 8 or 16 bytes.
pub fn for_size(isa: Isa, size: usize) -> Option<ScatteredFn> {
    Some(match size {
        1 => of_size::<1>(isa),
        2 => of_size::<2>(isa),
        4 => of_size::<4>(isa),
        8 => of_size::<8>(isa),
        16 => of_size::<16>(isa),
        _ => return None,
    })
}

fn of_size<const SIZE: usize>(isa: Isa) -> ScatteredFn {
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
/// As [`ScatteredFn`].
unsafe fn baseline<V: Vector, const SIZE: usize>(matrix: &Scattered, how: How) {
    // SAFETY: the caller's.
    unsafe { scattered::<V, SIZE>(matrix, how) }
}

/// # Safety
/// As [`baseline`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const SIZE: usize>(matrix: &Scattered, how: How) {
    // SAFETY: the caller's.
    unsafe { scattered::<x86::Avx2, SIZE>(matrix, how) }
}

/// # Safety
/// As [`baseline`]; the processor has AVX-512 with BW, DQ and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<const SIZE: usize>(matrix: &Scattered, how: How) {
    // SAFETY: the caller's.
    unsafe { scattered::<x86::Avx512, SIZE>(matrix, how) }
}

/// Bytes of the rows and columns that go straight to the destination: their lines stay in the first cache.
const DIRECT: (usize, usize) = (256, 256);
/// Bytes of those that are written around the caches: memory likes long pieces on both sides.
const STAGED: (usize, usize) = (512, 1024);
/// Bytes that must follow one another in the destination for that.
const LEAST: usize = 512;
/// Bytes of innermost axes that are long enough by themselves where nothing is written around the caches.
const LONG: usize = 128;
/// Elements of one or two bytes of such axes where it is: their squares are large already.
const LONG_SMALL: usize = 256;
/// Columns that start at multiples of so many bytes push each other out of the first cache.
const CLASHING: isize = 1024;
/// The matrices that are best for elements of a size.
pub fn reach(size: usize, how: How) -> Reach {
    if how == How::Streamed && cfg!(target_arch = "x86_64") {
        let long = if size > 2 { usize::MAX >> 1 } else { LONG_SMALL };
        let (rows, columns) = (STAGED.0 / size, STAGED.1 / size);
        let (least_rows, side) = (LEAST / size, 16 / size);
        Reach { rows, columns, least_rows, side, alone: side, rows_first: true, long }
    } else {
        let (rows, columns) = (DIRECT.0 / size, DIRECT.1 / size);
        let (alone, long) = (32 / size, LONG / size);
        Reach { rows, columns, least_rows: 1, side: 1, alone, rows_first: false, long }
    }
}

/// # Safety
/// As [`baseline`]; the processor has the instructions.
#[inline(always)]
unsafe fn scattered<V: Vector, const SIZE: usize>(matrix: &Scattered, how: How) {
    // Only some processors write around their caches.
    let _ = how;
    let Scattered { rows, columns, .. } = *matrix;
    // SAFETY: the caller's.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if how == How::Streamed && staged::<V, SIZE, true>(matrix) {
            return;
        }
        let clash = columns.len() > 8 && columns[1..].iter().take(8).any(|column| column % CLASHING == 0);
        if clash && staged::<V, SIZE, false>(matrix) {
            return;
        }
        for index in 0..rows.blocks {
            let block = Block::<SIZE>::of(matrix, index);
            let to = matrix.destination.add(index * rows.offsets.len() * SIZE);
            block.transpose::<V>(to, columns.len(), |column| *columns.get_unchecked(column));
        }
    }
}

/// By way of a buffer: around the caches, or through them. False: there is none.
///
/// # Safety
/// As [`scattered`].
#[inline(always)]
unsafe fn staged<V: Vector, const SIZE: usize, const STREAM: bool>(matrix: &Scattered) -> bool {
    let Scattered { rows, columns, .. } = *matrix;
    let Some(stage) = Stage::take() else { return false };
    let buffer = stage.start();
    // Bytes of a column in the buffer, after a line in which the one before may wait.
    let pitch = (rows.offsets.len() * SIZE).next_multiple_of(LINE) + LINE;
    let most = (STAGE - LINE) / pitch;
    // SAFETY: the caller's.
    unsafe {
        for first in (0..columns.len()).step_by(most) {
            let columns = &columns[first..columns.len().min(first + most)];
            for index in 0..rows.blocks {
                let mut block = Block::<SIZE>::of(matrix, index);
                block.source = block.source.add(first * SIZE);
                block.transpose::<V>(buffer.add(LINE), columns.len(), |column| (column * pitch) as isize);
                let to = matrix.destination.add(index * rows.offsets.len() * SIZE);
                #[cfg(target_arch = "x86_64")]
                let (is_first, is_last) = (index == 0, index + 1 == rows.blocks);
                for (index, column) in columns.iter().enumerate() {
                    let (from, to) = (buffer.add(index * pitch), to.offset(*column));
                    let bytes = block.rows.len() * SIZE;
                    #[cfg(target_arch = "x86_64")]
                    if STREAM {
                        write_around(from, to, bytes, is_first, is_last);
                        continue;
                    }
                    from.add(LINE).copy_to_nonoverlapping(to, bytes);
                }
            }
        }
    }
    if STREAM {
        fence();
    }
    true
}

/// A block of rows, and those after it.
struct Block<'a, const SIZE: usize> {
    source: *const u8,
    rows: &'a [isize],
    ahead: &'a [isize],
    /// From its rows to those.
    next: isize,
    far: bool,
}

impl<'a, const SIZE: usize> Block<'a, SIZE> {
    fn of(matrix: &Scattered<'a>, index: usize) -> Self {
        let Rows { offsets, blocks, next, last } = matrix.rows;
        let rows = if index + 1 < blocks { offsets } else { &offsets[..last] };
        let ahead = if index + 1 < blocks { offsets } else { &offsets[..0] };
        let source = matrix.source.wrapping_offset(index as isize * next);
        Block { source, rows, ahead, next, far: matrix.far }
    }

    /// Transposes some columns to where they start.
    ///
    /// # Safety
    /// As [`baseline`].
    #[inline(always)]
    unsafe fn transpose<V: Vector>(
        &self,
        to: *mut u8,
        width: usize,
        columns: impl Fn(usize) -> isize + Copy,
    ) {
        let side = |lanes: usize| 16 / SIZE * lanes;
        let height = self.rows.len();
        // SAFETY: the caller's.
        unsafe {
            if height >= side(V::LANES) && width >= side(V::LANES) {
                self.tiles::<V>(to, width, columns);
            } else if height >= side(1) && width >= side(1) {
                self.tiles::<V::Lane>(to, width, columns);
            } else {
                // Along what is longer.
                let one = |row: usize, column: usize| {
                    let from = self.source.offset(*self.rows.get_unchecked(row)).add(column * SIZE);
                    let value = from.cast::<[u8; SIZE]>().read();
                    to.offset(columns(column)).add(row * SIZE).cast::<[u8; SIZE]>().write(value);
                };
                if height >= width {
                    (0..width).for_each(|column| (0..height).for_each(|row| one(row, column)));
                } else {
                    (0..height).for_each(|row| (0..width).for_each(|column| one(row, column)));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn tiles<V: Vector>(&self, to: *mut u8, width: usize, columns: impl Fn(usize) -> isize + Copy) {
        let side = 16 / SIZE * V::LANES;
        let height = self.rows.len();
        // SAFETY: the caller's.
        unsafe {
            // Where tiles start: the last one of a row or a column ends where that does.
            let mut row = 0;
            while row < height {
                let row_at = row.min(height - side);
                row += side;
                let mut column = 0;
                while column < width {
                    let column_at = column.min(width - side);
                    column += side;
                    if self.far && column_at * SIZE % LINE < side * SIZE {
                        self.ask(row, side, column_at);
                    }
                    self.tile::<V>(to, row_at, column_at, columns);
                }
            }
        }
    }

    /// Asks for what is read of the rows from `row` on, which may be the next block's.
    #[inline(always)]
    fn ask(&self, row: usize, count: usize, column: usize) {
        let (rows, source) = if row < self.rows.len() {
            (&self.rows[row..self.rows.len().min(row + count)], self.source)
        } else {
            (&self.ahead[..count.min(self.ahead.len())], self.source.wrapping_offset(self.next))
        };
        for offset in rows {
            prefetch(source.wrapping_offset(*offset).wrapping_add(column * SIZE));
        }
    }

    /// Transposes a square as wide as a vector.
    ///
    /// # Safety
    /// It is within the matrix, from (row, column) on.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn tile<V: Vector>(
        &self,
        to: *mut u8,
        row: usize,
        column: usize,
        columns: impl Fn(usize) -> isize,
    ) {
        let n = 16 / SIZE;
        // SAFETY: rows and columns stay below LANES * n.
        unsafe {
            let from = self.source.add(column * SIZE);
            let rows = self.rows.as_ptr().add(row);
            let mut tile = [[MaybeUninit::<V>::uninit(); 16]; 4];
            for lane in 0..V::LANES {
                let vectors = sixteen!(INDEX => V::load(from.offset(*rows.add(lane * n + INDEX % n))));
                let vectors = turn::<V, SIZE>(vectors);
                for index in 0..n {
                    tile[lane][index].write(vectors[index]);
                }
            }
            for lane in V::LANES..4 {
                tile[lane] = tile[0];
            }
            let to = to.add(row * SIZE);
            for index in 0..n {
                let group = V::exchange([
                    tile[0][index].assume_init(),
                    tile[1][index].assume_init(),
                    tile[2][index].assume_init(),
                    tile[3][index].assume_init(),
                ]);
                for lane in 0..V::LANES {
                    group[lane].store(to.offset(columns(column + lane * n + index)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fuse::each_matrix;
    use super::*;
    use crate::layout::Axis;

    /// Numbers that look random.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % end
        }
    }

    /// Permutes axes of a dense source into a dense destination; false: that is not done by matrices.
    fn permuted(
        random: &mut Random,
        (isa, size): (Isa, usize),
        how: How,
        shape: &[i64],
        order: &[usize],
    ) -> bool {
        let mut sources = vec![0; shape.len()];
        let mut step = size as i64;
        for axis in (0..shape.len()).rev() {
            sources[axis] = step;
            step *= shape[axis];
        }
        let bytes = step as usize;
        let mut axes = vec![Axis::default(); shape.len()];
        let mut step = size as i64;
        for (at, axis) in order.iter().enumerate().rev() {
            axes[at] = Axis { extent: shape[*axis], source: sources[*axis], destination: step };
            step *= shape[*axis];
        }
        let (inner, near) = (axes.len() - 1, order.iter().position(|axis| axis + 1 == shape.len()).unwrap());
        // Some axes that are neither run backwards in the source.
        let mut first = 0;
        for (index, axis) in axes.iter_mut().enumerate() {
            if index != near && random.below(4) == 0 {
                first += (axis.extent - 1) * axis.source;
                axis.source = -axis.source;
            }
        }
        let source: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
        const AROUND: usize = 128;
        let shift = random.below(AROUND);
        let mut expected = vec![0xa5; bytes + 2 * AROUND];
        let mut at = vec![0; axes.len()];
        for to in (0..bytes).step_by(size) {
            let from: i64 = at.iter().zip(&axes).map(|(at, axis)| at * axis.source).sum();
            let from = (first + from) as usize;
            expected[shift + to..shift + to + size].copy_from_slice(&source[from..from + size]);
            for axis in (0..axes.len()).rev() {
                at[axis] += 1;
                if at[axis] < axes[axis].extent {
                    break;
                }
                at[axis] = 0;
            }
        }
        let mut destination = vec![0xa5u8; expected.len()];
        let transpose = for_size(isa, size).unwrap();
        let (from, to) = (source.as_ptr(), destination.as_mut_ptr());
        let start = (first, shift as i64);
        let done =
            each_matrix(&axes, (inner, near), &reach(size, how), start, &mut |at, start, rows, columns| {
                // SAFETY: the matrices are parts of the two.
                unsafe {
                    let (source, destination) = (from.offset(at as isize), to.add(start as usize));
                    transpose(&Scattered { source, rows: *rows, destination, columns, far: true }, how);
                }
                true
            });
        if done.is_some() {
            assert!(destination == expected, "{isa:?}, {size} bytes, {how:?}, {shape:?}, {order:?}, {shift}");
        } else {
            assert!(destination.iter().all(|byte| *byte == 0xa5));
        }
        done.is_some()
    }

    #[test]
    fn random_permutations() {
        const EXTENTS: [i64; 12] = [2, 3, 4, 5, 7, 8, 9, 16, 17, 28, 64, 300];
        let mut random = Random(1);
        let most = if cfg!(debug_assertions) { 1 << 13 } else { 1 << 15 };
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Neon] {
            if !isa.is_there() {
                continue;
            }
            let mut done = 0;
            for (size, how) in
                [1, 2, 4, 8, 16].into_iter().flat_map(|s| [(s, How::Cached), (s, How::Streamed)])
            {
                for _ in 0..if cfg!(debug_assertions) { 30 } else { 100 } {
                    let (mut shape, mut count) = (Vec::new(), 1);
                    let ndim = 2 + random.below(5);
                    for _ in 0..ndim {
                        let fits = EXTENTS.iter().filter(|extent| count * **extent * 2 <= most).count();
                        shape.push(EXTENTS[random.below(fits.max(1))]);
                        count *= shape[shape.len() - 1];
                    }
                    let mut order: Vec<usize> = (0..ndim).collect();
                    for index in (1..ndim).rev() {
                        order.swap(index, random.below(index + 1));
                    }
                    if order[ndim - 1] + 1 == ndim {
                        order.swap(0, ndim - 1);
                    }
                    done += usize::from(permuted(&mut random, (isa, size), how, &shape, &order));
                }
            }
            assert!(done > 0, "{isa:?}");
        }
    }

    #[test]
    fn powers_of_two() {
        let mut random = Random(2);
        let shapes: [&[i64]; 4] = [&[8; 5], &[16; 4], &[32; 3], &[512, 128]];
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Neon].into_iter().filter(|isa| isa.is_there())
        {
            for shape in &shapes[..if cfg!(debug_assertions) { 1 } else { 4 }] {
                let order: Vec<usize> = (0..shape.len()).rev().collect();
                for size in [1, 2, 4, 8, 16] {
                    assert!(
                        permuted(&mut random, (isa, size), How::Streamed, shape, &order) || shape[0] < 16
                    );
                    permuted(&mut random, (isa, size), How::Cached, shape, &order);
                }
            }
        }
    }
}
