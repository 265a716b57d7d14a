//! Large matrices, strip by strip as they are read. What is put together of the rows of the destination is
//! handed out in pieces, and as many lines of the block that comes next are asked for as are written.

use super::{How, LINE, Matrix, Stage, TransposeFn, prefetch};

/// A block of a large matrix: what is asked for together, and stays in the second cache.
#[derive(Clone, Copy)]
pub struct Block {
    /// Columns of a block.
    pub columns: usize,
    /// Columns of it that are transposed at a time.
    pub strip: usize,
    /// Rows of it, and of each piece that is handed out.
    pub rows: usize,
}

/// A piece of a row of the destination.
pub struct Piece {
    /// Its first element, after a line that the caller may use.
    pub staged: *mut u8,
    /// How many there are.
    pub rows: usize,
    /// Its column of the block, and of the matrix; the row of its first element.
    pub index: usize,
    pub column: usize,
    pub row: usize,
    /// Whether it is the first and the last of its row.
    pub ends: (bool, bool),
}

/// Hands out every piece of the rows of the destination, whose memory is not touched. False: it was refused.
///
/// # Safety
/// As [`TransposeFn`], of elements of `size` bytes. A strip, with a line for each of its columns, fits the stage.
pub unsafe fn each_piece(
    matrix: &Matrix,
    transpose: TransposeFn,
    size: usize,
    block: Block,
    stage: &Stage,
    mut hand_out: impl FnMut(&Piece) -> bool,
) -> bool {
    let Matrix { rows, columns, source_row, .. } = *matrix;
    let pitch = block.rows * size + LINE;
    for left in (0..columns).step_by(block.columns) {
        let width = block.columns.min(columns - left);
        for top in (0..rows).step_by(block.rows) {
            let height = block.rows.min(rows - top);
            let ends = (top == 0, top + height == rows);
            let (next, next_left) = if ends.1 { (0, left + block.columns) } else { (top + block.rows, left) };
            let mut ahead = Ahead {
                row: matrix.source.wrapping_offset(next as isize * source_row).wrapping_add(next_left * size),
                step: source_row,
                rows: if next_left < columns { block.rows.min(rows - next) } else { 0 },
                bytes: block.columns.min(columns.saturating_sub(next_left)) * size,
                done: 0,
            };
            let lines = (height * width * size).div_ceil(LINE * width);
            for first in (0..width).step_by(block.strip) {
                let strip = block.strip.min(width - first);
                // SAFETY: the part is within the matrix, and the strip is within the stage.
                unsafe {
                    let part = matrix.part(size, top, left + first, height, strip);
                    let staged = stage.start().add(LINE);
                    let destination_row = pitch as isize;
                    transpose(&Matrix { destination: staged, destination_row, ..part }, How::Cached);
                    for at in 0..strip {
                        let (index, column) = (first + at, left + first + at);
                        let staged = staged.add(at * pitch);
                        if !hand_out(&Piece { staged, rows: height, index, column, row: top, ends }) {
                            return false;
                        }
                        ahead.ask(lines);
                    }
                }
            }
        }
    }
    true
}

/// What is asked for of a block.
struct Ahead {
    row: *const u8,
    step: isize,
    rows: usize,
    /// Bytes of each row, and of this one those that were asked for.
    bytes: usize,
    done: usize,
}

impl Ahead {
    /// Asks for so many lines, row by row.
    #[inline]
    fn ask(&mut self, lines: usize) {
        for _ in 0..lines {
            if self.rows == 0 {
                return;
            }
            prefetch(self.row.wrapping_add(self.done));
            self.done += LINE;
            if self.done >= self.bytes {
                (self.rows, self.done) = (self.rows - 1, 0);
                self.row = self.row.wrapping_offset(self.step);
            }
        }
    }
}
