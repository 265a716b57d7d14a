//! The kernels of a job: moves of bytes, moves of bits, casts.

use super::bits;
use super::cast::{CHUNK, Caster};
use super::copy::{self, CopyFn};
use super::isa::Isa;
use super::transpose::{self, How, Matrix, TransposeFn};
use super::walk::Kernel;

/// The first element of each side.
#[derive(Clone, Copy)]
pub struct Sides {
    pub source: *const u8,
    pub destination: *mut u8,
}

// SAFETY: the kernels read one and write the other, and no two threads write one element.
unsafe impl Sync for Sides {}

/// Whether transposes write around the caches: only where the whole result is too large for them.
fn how(bytes: usize) -> How {
    if bytes >= transpose::STREAM_FROM { How::Streamed } else { How::Cached }
}

/// Moves elements of some bytes.
pub struct Move {
    sides: Sides,
    size: usize,
    copy: Option<CopyFn>,
    transpose: Option<TransposeFn>,
    how: How,
}

impl Move {
    /// For `bytes` in elements of `size`.
    pub fn new(sides: Sides, size: usize, bytes: usize) -> Move {
        let isa = Isa::get();
        let (copy, transpose) = (copy::for_size(isa, size), transpose::for_size(isa, size));
        Move { sides, size, copy, transpose, how: how(bytes) }
    }
}

impl Kernel for Move {
    fn steps(&self) -> (i64, i64) {
        (self.size as i64, self.size as i64)
    }

    fn transposes(&self) -> bool {
        self.transpose.is_some()
    }

    unsafe fn row(&self, from: (i64, i64), to: (i64, i64), n: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe {
            let source = self.sides.source.offset(from.0 as isize);
            let destination = self.sides.destination.offset(to.0 as isize);
            if (from.1, to.1) == self.steps() {
                source.copy_to_nonoverlapping(destination, n * self.size);
            } else if let Some(copy) = self.copy {
                copy(source, from.1 as isize, destination, to.1 as isize, n);
            } else {
                copy::one_by_one(source, from.1 as isize, destination, to.1 as isize, n, self.size);
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
        let small = rows * columns * self.size <= SMALL_MATRIX;
        let how = if small && ahead != 0 { How::Ahead(ahead as isize) } else { self.how };
        // SAFETY: as the caller says.
        unsafe {
            let matrix = Matrix {
                source: self.sides.source.offset(from.0 as isize),
                source_row: from.1 as isize,
                destination: self.sides.destination.offset(to.0 as isize),
                destination_row: to.1 as isize,
                rows,
                columns,
            };
            transpose(&matrix, how);
        }
        true
    }
}

/// Moves elements of some bits, and clears what they leave of their room.
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

    unsafe fn row(&self, mut from: (i64, i64), mut to: (i64, i64), mut n: usize) -> bool {
        let Sides { source, destination } = self.sides;
        // SAFETY: as the caller says.
        unsafe {
            if self.bits == self.room && (from.1, to.1) == self.steps() && (from.0 | to.0) & 7 == 0 {
                // Whole bytes first, of whole elements; the last few are left to the loop.
                let per_byte = n / 8 * 8;
                let bytes = per_byte / 8 * self.bits as usize;
                let (from_byte, to_byte) = ((from.0 >> 3) as isize, (to.0 >> 3) as isize);
                source.offset(from_byte).copy_to_nonoverlapping(destination.offset(to_byte), bytes);
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

/// Bytes of a matrix that is done before the processor has found out what to read next.
const SMALL_MATRIX: usize = 16 << 10;
/// Bytes of the largest element: complex128.
const LARGEST: usize = 16;
/// Bytes of the buffer that a matrix is cast into before it is transposed: half the first cache, or,
/// where it is written around the caches from there, what makes that worth it.
const MATRIX_BYTES: [usize; 2] = [16 << 10, 64 << 10];

/// Casts elements.
pub struct CastKernel {
    sides: Sides,
    caster: Caster,
    /// Bits of a code, where a side counts bits.
    from_bits: Option<u32>,
    to_bits: Option<u32>,
    gather: Option<CopyFn>,
    scatter: Option<CopyFn>,
    transpose: Option<TransposeFn>,
    how: How,
}

impl CastKernel {
    /// For a cast of so many elements; the bits of a code where a side counts bits.
    pub fn new(
        sides: Sides,
        caster: Caster,
        elements: usize,
        (from_bits, to_bits): (Option<u32>, Option<u32>),
    ) -> CastKernel {
        let isa = Isa::get();
        let (source_size, destination_size) = caster.sizes();
        let transpose = transpose::for_size(isa, destination_size);
        CastKernel {
            sides,
            caster,
            gather: copy::for_size(isa, source_size),
            scatter: copy::for_size(isa, destination_size),
            transpose: transpose.filter(|_| from_bits.is_none() && to_bits.is_none()),
            from_bits,
            to_bits,
            how: how(elements.saturating_mul(destination_size)),
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
                gather(source.offset(from as isize), step as isize, buffer, size as isize, n);
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
                scatter(buffer, size as isize, destination.offset(to as isize), step as isize, n);
            }
        }
    }
}

impl Kernel for CastKernel {
    fn steps(&self) -> (i64, i64) {
        let (source_size, destination_size) = self.caster.sizes();
        let step = |bits: Option<u32>, size: usize| bits.map_or(size as i64, i64::from);
        (step(self.from_bits, source_size), step(self.to_bits, destination_size))
    }

    fn transposes(&self) -> bool {
        self.transpose.is_some()
    }

    unsafe fn row(&self, from: (i64, i64), to: (i64, i64), n: usize) -> bool {
        let (source_size, destination_size) = self.caster.sizes();
        let from_direct = self.from_bits.is_none() && from.1 == source_size as i64;
        let to_direct = self.to_bits.is_none() && to.1 == destination_size as i64;
        let mut sources = [const { std::mem::MaybeUninit::<u8>::uninit() }; CHUNK * LARGEST];
        let mut destinations = [const { std::mem::MaybeUninit::<u8>::uninit() }; CHUNK * LARGEST];
        let chunk = if from_direct && to_direct { n } else { CHUNK };
        let mut done = 0;
        while done < n {
            let some = chunk.min(n - done);
            let from = (from.0 + done as i64 * from.1, from.1);
            let to = (to.0 + done as i64 * to.1, to.1);
            // SAFETY: the chunks cover the row, and the buffers hold a chunk of the largest elements.
            let kept = unsafe {
                let source = if from_direct {
                    self.sides.source.offset(from.0 as isize)
                } else {
                    self.gather(from, sources.as_mut_ptr().cast(), some);
                    sources.as_ptr().cast()
                };
                if to_direct {
                    self.caster.run(source, self.sides.destination.offset(to.0 as isize), some)
                } else {
                    let buffer = destinations.as_mut_ptr().cast();
                    let kept = self.caster.run(source, buffer, some);
                    self.scatter(buffer, to, some);
                    kept
                }
            };
            if !kept {
                return false;
            }
            done += some;
        }
        true
    }

    unsafe fn matrix(
        &self,
        from: (i64, i64),
        to: (i64, i64),
        rows: usize,
        columns: usize,
        _ahead: i64,
    ) -> bool {
        let transpose = self.transpose.expect("transposes() says so");
        let (source_size, destination_size) = self.caster.sizes();
        let mut buffer = [const { std::mem::MaybeUninit::<u8>::uninit() }; MATRIX_BYTES[1]];
        let buffer: *mut u8 = buffer.as_mut_ptr().cast();
        // Blocks as square as the matrix lets them be.
        let streamed = self.how == How::Streamed && self.caster.is_plain();
        let elements = MATRIX_BYTES[usize::from(streamed)] / destination_size;
        let side = elements.isqrt();
        let (row_block, column_block) = if rows < side {
            (rows, elements / rows)
        } else if columns < side {
            (elements / columns, columns)
        } else {
            (side, side)
        };
        let mut row = 0;
        while row < rows {
            let some_rows = row_block.min(rows - row);
            let mut column = 0;
            while column < columns {
                let some_columns = column_block.min(columns - column);
                let from_first = from.0 + row as i64 * from.1 + (column * source_size) as i64;
                let to_first = to.0 + column as i64 * to.1 + (row * destination_size) as i64;
                // SAFETY: the blocks cover the matrix, and the buffer holds one.
                unsafe {
                    let first = self.sides.source.offset(from_first as isize);
                    let width = some_columns * destination_size;
                    // Rows that follow each other are one.
                    let follow = from.1 == (some_columns * source_size) as i64;
                    let (lines, line) =
                        if follow { (1, some_rows * some_columns) } else { (some_rows, some_columns) };
                    for index in 0..lines {
                        let source = first.offset(index as isize * from.1 as isize);
                        // The same rows of the next block are far apart: nothing else would fetch them.
                        for ahead in (0..line * source_size).step_by(transpose::LINE) {
                            transpose::prefetch(source.wrapping_add(line * source_size + ahead));
                        }
                        if !self.caster.run(source, buffer.add(index * width), line) {
                            return false;
                        }
                    }
                    let matrix = Matrix {
                        source: buffer,
                        source_row: width as isize,
                        destination: self.sides.destination.offset(to_first as isize),
                        destination_row: to.1 as isize,
                        rows: some_rows,
                        columns: some_columns,
                    };
                    transpose(&matrix, self.how);
                }
                column += some_columns;
            }
            row += some_rows;
        }
        true
    }
}
