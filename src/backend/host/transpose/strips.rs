//! Large matrices, strip by strip as they are read. What is put together of the rows of the destination is
//! handed out in pieces, and as many lines of the block that comes next are asked for as are written.

use super::{How, LINE, Matrix, Stage, TransposeFn, asks_first, prefetch_first, prefetch_second};

/// A block of a large matrix: what is asked for together, and stays in the second cache.
#[derive(Clone, Copy)]
pub struct Block {
    /// Columns of a block.
    pub columns: usize,
    /// Columns of the blocks that are done side by side before those below: [`MOST_COLUMNS`] at most.
    pub band: usize,
    /// Columns of it that are transposed at a time.
    pub strip: usize,
    /// Rows of it, and of each piece that is handed out.
    pub rows: usize,
}

/// Bytes of the rows of blocks that are done side by side, and how many rows: of casts that widen, and of others, which cast
/// row by row as they read.
const ACROSS: [(usize, usize); 2] = [(256, 192), (512, 64)];
/// The most columns, each a row of the destination: their pages have to stay at hand from one block to the next.
pub const MOST_COLUMNS: usize = 1 << 10;
/// Bytes of a block. As many more are asked for while it is written.
const BLOCK: usize = 128 << 10;

impl Block {
    /// What is best where memory takes long to answer ([`super::through`]): runs of so many bytes of the source's rows, and
    /// the most rows of a block.
    pub const LONG: (usize, usize) = (4 << 10, 128);
    /// The same of casts that widen, where what is read is less than what is written, elsewhere.
    pub const SHORT: (usize, usize) = (1 << 10, 256);
    /// The same of casts to elements of two bytes, for pieces that are as long as those of others, and on Zen 5 of four: as
    /// many rows as there is room for.
    pub const TALL: (usize, usize) = (512, 960);

    /// Runs of a matrix of so many columns, [`Block::LONG`] ones of few rows or others of more: for elements of so many bytes
    /// where they are larger, and where they wait in the second cache. As it is done, a strip takes one line of each row.
    pub fn of_runs(columns: usize, larger: usize, staged: usize, (run, rows): (usize, usize)) -> Block {
        let most = MOST_COLUMNS.min(run / larger);
        // About equally wide.
        let columns = columns.div_ceil(columns.div_ceil(most)).next_multiple_of(LINE).min(most);
        Block { columns, band: columns, strip: LINE / staged, rows: rows.min(BLOCK / (most * staged)) }
    }

    /// The same of so many rows, about equally high: what is asked for with each piece of a low block would be much.
    pub fn of_rows(self, rows: usize) -> Block {
        let each = rows.div_ceil(rows.div_ceil(self.rows));
        Block { rows: each.next_multiple_of(LINE / 4).min(self.rows), ..self }
    }

    /// The same, done side by side.
    pub fn beside(self) -> Block {
        Block { band: MOST_COLUMNS / self.columns * self.columns, ..self }
    }

    /// Small blocks that are done side by side, for elements of so many bytes where they are larger: what was read last of
    /// some rows, and what comes next of them, is what memory has at hand.
    pub fn across(larger: usize, widens: bool) -> Block {
        let (run, rows) = ACROSS[usize::from(!widens)];
        let columns = run / larger;
        Block { columns, band: columns, strip: columns, rows }.beside()
    }

    /// Every block of so many rows and columns, in order: its first row and column, and the first column of its band.
    pub fn each(self, rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        (0..columns).step_by(self.band).flat_map(move |band| {
            let right = columns.min(band + self.band);
            (0..rows)
                .step_by(self.rows)
                .flat_map(move |top| (band..right).step_by(self.columns).map(move |left| (top, left, band)))
        })
    }
}

/// A piece of a row of the destination.
pub struct Piece {
    /// Its first element, after a line that the caller may use.
    pub staged: *mut u8,
    /// How many there are.
    pub rows: usize,
    /// Its column of those that are done side by side, and of the matrix; the row of its first element.
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
    let Matrix { rows, columns, .. } = *matrix;
    let pitch = block.rows * size + LINE;
    block.each(rows, columns).all(|(top, left, band)| {
        let (width, height) = (block.columns.min(columns - left), block.rows.min(rows - top));
        let ends = (top == 0, top + height == rows);
        let mut ahead = Ahead::after(matrix, size, &block, (top, left, band));
        let lines = lines_each(height, height * width * size, width);
        (0..width).step_by(block.strip).all(|first| {
            let strip = block.strip.min(width - first);
            // SAFETY: the part is within the matrix, and the strip is within the stage.
            unsafe {
                let part = matrix.part(size, top, left + first, height, strip);
                let staged = stage.start().add(LINE);
                let destination_row = pitch as isize;
                transpose(&Matrix { destination: staged, destination_row, ..part }, How::Cached);
                (0..strip).all(|at| {
                    let column = left + first + at;
                    let (staged, index) = (staged.add(at * pitch), column - band);
                    let kept = hand_out(&Piece { staged, rows: height, index, column, row: top, ends });
                    ahead.ask(lines);
                    kept
                })
            }
        })
    })
}

/// How many lines are asked for with each column, so that all are with the last one, of so many bytes in runs: each may
/// begin and end in a line that it does not fill.
pub fn lines_each(runs: usize, bytes: usize, columns: usize) -> usize {
    (bytes + runs * LINE).div_ceil(LINE * columns)
}

/// What is asked for of rows, line by line.
pub struct Lines {
    /// Bytes of a row.
    bytes: usize,
    /// The line that is asked for next, unless this row ends before it.
    line: usize,
    end: usize,
}

impl Lines {
    pub fn new(bytes: usize) -> Lines {
        Lines { bytes, line: 0, end: 0 }
    }

    /// Asks for so many, of this row and those that follow.
    #[inline(always)]
    pub fn ask(
        &mut self,
        lines: usize,
        prefetch: impl Fn(*const u8),
        mut next: impl FnMut() -> Option<*const u8>,
    ) {
        for _ in 0..lines {
            while self.line >= self.end {
                let Some(row) = next() else { return };
                let (row, last) = (row as usize, self.line.wrapping_sub(LINE));
                let line = row & !(LINE - 1);
                // What is in one line with the end of the row before.
                self.line = if line == last { line + LINE } else { line };
                self.end = row + self.bytes;
            }
            prefetch(self.line as *const u8);
            self.line += LINE;
        }
    }
}

/// The lines of a block.
pub struct Ahead<Rows> {
    rows: Rows,
    lines: Lines,
}

impl<Rows: Iterator<Item = *const u8>> Ahead<Rows> {
    /// For rows of so many bytes that start there.
    pub fn new(rows: Rows, bytes: usize) -> Ahead<Rows> {
        Ahead { rows, lines: Lines::new(bytes) }
    }

    /// Asks for so many lines.
    #[inline]
    pub fn ask(&mut self, lines: usize) {
        if asks_first() {
            self.lines.ask(lines, prefetch_first, || self.rows.next());
        } else {
            self.lines.ask(lines, prefetch_second, || self.rows.next());
        }
    }
}

impl Ahead<()> {
    /// For the block that follows the one at some row and column of a band: beside it, or else below at the left, or at the
    /// top of the columns to the right.
    pub fn after(
        matrix: &Matrix,
        size: usize,
        block: &Block,
        (top, left, band): (usize, usize, usize),
    ) -> Ahead<impl Iterator<Item = *const u8> + use<>> {
        let Matrix { source, source_row, rows, columns, .. } = *matrix;
        let (below, right, end) = (top + block.rows, left + block.columns, band + block.band);
        let (top, left) = match (right < end.min(columns), below < rows) {
            (true, _) => (top, right),
            (false, true) => (below, band),
            (false, false) => (0, end),
        };
        let count = if left < columns { block.rows.min(rows - top) } else { 0 };
        let first = source.wrapping_offset(top as isize * source_row).wrapping_add(left * size);
        let rows = (0..count as isize).map(move |row| first.wrapping_offset(row * source_row));
        Ahead::new(rows, block.columns.min(columns.saturating_sub(left)) * size)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::isa::Isa;
    use super::*;

    /// Every piece once, in the order in which what is carried comes to the next.
    #[test]
    fn pieces_of_every_block() {
        let size = 2;
        let transpose = super::super::for_size(Isa::get(), size).unwrap();
        for (rows, columns) in [(300, 700), (64, 64), (65, 1), (1, 2100), (129, 1025), (200, 1500)] {
            let source: Vec<u16> =
                (0..rows * columns).map(|index| (index * 7 + index / 251) as u16).collect();
            for (columns_of_one, band, rows_of_one) in [(64, 64, 128), (32, 1024, 64), (100, 300, 77)] {
                let block = Block { columns: columns_of_one, band, strip: 32, rows: rows_of_one };
                let matrix = Matrix {
                    source: source.as_ptr().cast(),
                    source_row: (columns * size) as isize,
                    destination: std::ptr::dangling_mut(),
                    destination_row: (rows * size) as isize,
                    rows,
                    columns,
                };
                let stage = Stage::take().unwrap();
                let mut found = vec![Vec::new(); columns];
                // Whose column waits in each line.
                let mut waits = vec![usize::MAX; MOST_COLUMNS];
                // SAFETY: the matrix is the source's; a strip fits the stage.
                let all = unsafe {
                    each_piece(&matrix, transpose, size, block, &stage, |piece| {
                        assert_eq!(found[piece.column].len(), piece.row);
                        assert_eq!(piece.ends, (piece.row == 0, piece.row + piece.rows == rows));
                        assert!(piece.ends.0 || waits[piece.index] == piece.column);
                        waits[piece.index] = piece.column;
                        let staged = std::slice::from_raw_parts(piece.staged.cast::<u16>(), piece.rows);
                        found[piece.column].extend_from_slice(staged);
                        true
                    })
                };
                assert!(all);
                for (column, found) in found.iter().enumerate() {
                    assert!(found.iter().enumerate().all(|(row, it)| *it == source[row * columns + column]));
                    assert_eq!(found.len(), rows);
                }
            }
        }
    }
}
