//! Transposes of matrices whose rows are anywhere in the source, and columns anywhere in the destination.

use std::mem::MaybeUninit;

use super::super::fuse::Rows;
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
}

/// Transposes a matrix whose rows and columns are anywhere.
///
/// # Safety
/// Every element of the matrix is readable in the source and writable in the destination. For a stream,
/// neither side of it is longer than [`STAGED_LINE`] bytes.
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

/// Bytes of a row or a column that goes straight to the destination.
pub const DIRECT_LINE: usize = 256;
/// Bytes of a row or a column that is written around the caches.
pub const STAGED_LINE: usize = 1024;
/// Bytes from one column to the next in the buffer, each after a line: no power of two.
const PITCH: usize = STAGED_LINE + LINE;
/// Bytes of the buffer.
const STAGE: usize = 256 * PITCH + LINE;

/// The buffer.
#[repr(align(64))]
struct Stage(MaybeUninit<[u8; STAGE]>);

/// # Safety
/// As [`baseline`]; the processor has the instructions.
#[inline(always)]
unsafe fn scattered<V: Vector, const SIZE: usize>(matrix: &Scattered, how: How) {
    let Scattered { rows, columns, .. } = *matrix;
    let long = (rows.blocks - 1) * rows.offsets.len() + rows.last;
    // SAFETY: the caller's.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if how == How::Streamed && long * SIZE >= 2 * LINE {
            return staged::<V, SIZE>(matrix);
        }
        for index in 0..rows.blocks {
            let block = Block::<SIZE>::of(matrix, index);
            let to = matrix.destination.add(index * rows.offsets.len() * SIZE);
            block.transpose::<V>(to, columns.len(), |column| columns[column]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn staged<V: Vector, const SIZE: usize>(matrix: &Scattered) {
    let Scattered { rows, columns, .. } = *matrix;
    let mut stage = Stage(MaybeUninit::uninit());
    let buffer = stage.0.as_mut_ptr().cast::<u8>();
    // Bytes of a column in the buffer.
    let pitch = if rows.offsets.len() * SIZE > STAGED_LINE - LINE { PITCH } else { (rows.offsets.len() * SIZE).next_multiple_of(LINE) + LINE };
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
                let (is_first, is_last) = (index == 0, index + 1 == rows.blocks);
                for (index, column) in columns.iter().enumerate() {
                    let bytes = block.rows.len() * SIZE;
                    write_around(buffer.add(index * pitch), to.offset(*column), bytes, is_first, is_last);
                }
            }
        }
    }
    fence();
}

/// A block of rows, and those after it.
struct Block<'a, const SIZE: usize> {
    source: *const u8,
    rows: &'a [isize],
    ahead: &'a [isize],
    /// From its rows to those.
    next: isize,
}

impl<'a, const SIZE: usize> Block<'a, SIZE> {
    fn of(matrix: &Scattered<'a>, index: usize) -> Self {
        let Rows { offsets, blocks, next, last } = matrix.rows;
        let rows = if index + 1 < blocks { offsets } else { &offsets[..last] };
        let ahead = if index + 1 < blocks { offsets } else { &offsets[..0] };
        Block { source: matrix.source.wrapping_offset(index as isize * next), rows, ahead, next }
    }

    /// Transposes some columns to where they start.
    ///
    /// # Safety
    /// As [`baseline`].
    #[inline(always)]
    unsafe fn transpose<V: Vector>(&self, to: *mut u8, width: usize, columns: impl Fn(usize) -> isize + Copy) {
        let side = |lanes: usize| 16 / SIZE * lanes;
        let height = self.rows.len();
        // SAFETY: the caller's.
        unsafe {
            if height >= side(V::LANES) && width >= side(V::LANES) {
                self.tiles::<V>(to, width, columns);
            } else if height >= side(1) && width >= side(1) {
                self.tiles::<V::Lane>(to, width, columns);
            } else {
                for column in 0..width {
                    let to = to.offset(columns(column));
                    for (row, offset) in self.rows.iter().enumerate() {
                        let from = self.source.offset(*offset).add(column * SIZE);
                        let value = from.cast::<[u8; SIZE]>().read();
                        to.add(row * SIZE).cast::<[u8; SIZE]>().write(value);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn tiles<V: Vector>(&self, to: *mut u8, width: usize, columns: impl Fn(usize) -> isize + Copy) {
        let side = 16 / SIZE * V::LANES;
        // SAFETY: the caller's.
        unsafe {
            for row in cover(self.rows.len(), side) {
                let (ahead, source) = match row + side {
                    next if next < self.rows.len() => (&self.rows[next..self.rows.len().min(next + side)], self.source),
                    _ => (&self.ahead[..side.min(self.ahead.len())], self.source.wrapping_offset(self.next)),
                };
                for column in cover(width, side) {
                    if column * SIZE % LINE < side * SIZE {
                        for offset in ahead {
                            prefetch(source.wrapping_offset(*offset).wrapping_add(column * SIZE));
                        }
                    }
                    self.tile::<V>(to, row, column, columns);
                }
            }
        }
    }

    /// Transposes a square as wide as a vector.
    ///
    /// # Safety
    /// It is within the matrix, from (row, column) on.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn tile<V: Vector>(&self, to: *mut u8, row: usize, column: usize, columns: impl Fn(usize) -> isize) {
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
