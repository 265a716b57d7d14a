//! What is transposed by pairs of lines, window by window: as many rows as two lines of the result hold. While one window is
//! written, the next one is asked for, or cast: with each column some of it.

use super::*;
use crate::backend::host::stream::PAIR;

/// Where the rows start that are read, window by window, of one matrix after another.
pub struct Windows<'a, const SIZE: usize> {
    places: Places<'a>,
    rows: Rows<'a>,
    /// How many rows a matrix has.
    all: usize,
    /// The first row of the window after this one, and how many are left of this.
    next: usize,
    left: usize,
    /// The row in its block, and where that starts.
    at: usize,
    block: isize,
    /// Whether there are no more.
    ends: bool,
}

impl<'a, const SIZE: usize> Windows<'a, SIZE> {
    /// Rows of a window.
    pub const HEIGHT: usize = PAIR / SIZE;

    pub fn new(scattered: &Scattered<'a>, at: &'a mut PerAxis<i64>) -> Self {
        let Matrices { rows, outer, .. } = *scattered.matrices;
        let places = Places::new(outer, scattered.source, scattered.destination, at);
        let all = (rows.blocks - 1) * rows.offsets.len() + rows.last;
        Windows { places, rows, all, next: Self::HEIGHT, left: Self::HEIGHT, at: 0, block: 0, ends: false }
    }

    /// Where the rows of the next window start, from where its matrix does. False: there is none.
    #[inline(always)]
    fn fill(&mut self, (matrix, rows): &mut (*const u8, [isize; PAIR])) -> bool {
        if self.ends {
            return false;
        }
        *matrix = self.places.source;
        let offsets = self.rows.offsets;
        let mut rows = &mut rows[..Self::HEIGHT];
        while !rows.is_empty() {
            let (these, rest) = rows.split_at_mut((offsets.len() - self.at).min(rows.len()));
            for (row, offset) in these.iter_mut().zip(&offsets[self.at..]) {
                *row = self.block + offset;
            }
            self.at += these.len();
            if self.at == offsets.len() {
                (self.at, self.block) = (0, self.block.wrapping_add(self.rows.next));
            }
            rows = rest;
        }
        self.begin();
        true
    }

    /// Goes to the next window, after all rows of one.
    #[inline(always)]
    fn begin(&mut self) {
        if self.next + Self::HEIGHT > self.all {
            self.begin_last();
        }
        (self.next, self.left) = (self.next + Self::HEIGHT, Self::HEIGHT);
    }

    /// The last rows of a matrix overlap those before; after them is the next matrix.
    #[inline(always)]
    fn begin_last(&mut self) {
        if self.next >= self.all {
            self.ends = !self.places.advance();
            self.next = 0;
        }
        let (first, each) = (self.next.min(self.all - Self::HEIGHT), self.rows.offsets.len());
        (self.at, self.block) = (first % each, (first / each) as isize * self.rows.next);
    }
}

impl<const SIZE: usize> Iterator for Windows<'_, SIZE> {
    type Item = *const u8;

    #[inline(always)]
    fn next(&mut self) -> Option<*const u8> {
        if self.ends {
            return None;
        }
        let row = self.places.source.wrapping_offset(self.block + self.rows.offsets[self.at]);
        (self.at, self.left) = (self.at + 1, self.left - 1);
        if self.at == self.rows.offsets.len() {
            (self.at, self.block) = (0, self.block.wrapping_add(self.rows.next));
        }
        if self.left == 0 {
            self.begin();
        }
        Some(row)
    }
}

/// What brings the windows.
pub trait Feed {
    /// Goes to the next one.
    fn begin(&mut self);

    /// Where its rows start, from some place.
    fn rows(&self) -> (*const u8, &[isize]);

    /// Brings as much of the next one as a column has of this, which was written.
    ///
    /// # Safety
    /// Every row is readable.
    unsafe fn column(&mut self);

    /// Brings what is left of it. False: a value was lost.
    ///
    /// # Safety
    /// As [`Feed::column`].
    unsafe fn end(&mut self) -> bool;
}

/// The source as it is, of whose elements each has so many bytes there.
pub struct Asked<'a, const SIZE: usize, const FROM: usize> {
    windows: Windows<'a, SIZE>,
    /// Where the rows of two windows start, from where their matrix does, and which of them is transposed.
    rows: [(*const u8, [isize; PAIR]); 2],
    now: usize,
    lines: Lines,
    /// How many rows of the next one were begun to be asked for.
    asked: usize,
}

impl<'a, const SIZE: usize, const FROM: usize> Asked<'a, SIZE, FROM> {
    pub fn new(scattered: &Scattered<'a>, at: &'a mut PerAxis<i64>) -> Self {
        let mut windows = Windows::new(scattered, at);
        let mut rows = [(scattered.source, [0; PAIR]); 2];
        windows.fill(&mut rows[0]);
        let lines = Lines::new(scattered.matrices.columns.len() * FROM);
        Asked { windows, rows, now: 1, lines, asked: 0 }
    }

    #[inline(always)]
    fn ask(&mut self, lines: usize) {
        let ((matrix, rows), asked) = (&self.rows[self.now ^ 1], &mut self.asked);
        self.lines.ask(lines, prefetch_first, || {
            let row = *rows[..PAIR / SIZE].get(*asked)?;
            *asked += 1;
            Some(matrix.wrapping_offset(row))
        });
    }
}

impl<const SIZE: usize, const FROM: usize> Feed for Asked<'_, SIZE, FROM> {
    #[inline(always)]
    fn begin(&mut self) {
        self.now ^= 1;
        self.asked = if self.windows.fill(&mut self.rows[self.now ^ 1]) { 0 } else { PAIR / SIZE };
    }

    #[inline(always)]
    fn rows(&self) -> (*const u8, &[isize]) {
        let (matrix, rows) = &self.rows[self.now];
        (*matrix, &rows[..PAIR / SIZE])
    }

    #[inline(always)]
    unsafe fn column(&mut self) {
        self.ask(PAIR / SIZE * FROM / LINE);
    }

    #[inline(always)]
    unsafe fn end(&mut self) -> bool {
        self.ask(usize::MAX);
        true
    }
}

/// A cast of it. Rows are cast whole, or in long pieces, as they are asked for from the first cache: read in places of a
/// line each as a transpose does, and from the second cache, they would wait for what is asked for from memory.
pub struct Cast<'a, C, const SIZE: usize> {
    windows: Windows<'a, SIZE>,
    /// The rows that are asked for, and how many more of them may be.
    asked: Windows<'a, SIZE>,
    lines: Lines,
    ahead: usize,
    cast: C,
    /// Bytes of an element of the source.
    size: usize,
    /// Elements of a row.
    columns: usize,
    /// Where the window is that is transposed, and where the next one goes.
    places: [*mut u8; 2],
    /// Where rows of either start there.
    starts: [isize; PAIR],
    /// The row that is cast, where it goes, and how many elements of it have been.
    row: *const u8,
    to: *mut u8,
    done: usize,
    /// Rows of the next window that are left, with this one.
    left: usize,
    /// Elements that could have been cast since others were.
    due: usize,
    lost: bool,
}

/// Bytes from what is cast to what is asked for.
const AHEAD: usize = 16 << 10;

impl<'a, C: Fn(*const u8, *mut u8, usize) -> bool, const SIZE: usize> Cast<'a, C, SIZE> {
    /// Elements that are cast at a time: each call has its price, and memory waits meanwhile.
    const PIECE: usize = 512;

    /// Of elements of `size` bytes, with room for two windows. The first one is there after [`Feed::end`].
    pub fn new(
        scattered: &Scattered<'a>,
        [at, at_asked]: &'a mut [PerAxis<i64>; 2],
        (size, cast): (usize, C),
        stage: &Stage,
    ) -> Self {
        let columns = scattered.matrices.columns.len();
        // Rows of a window share few sets of a cache.
        let pitch = columns * SIZE + LINE;
        debug_assert!(2 * PAIR / SIZE * pitch <= STAGE);
        let bytes = columns * size;
        let mut feed = Cast {
            windows: Windows::new(scattered, at),
            asked: Windows::new(scattered, at_asked),
            lines: Lines::new(bytes),
            ahead: (AHEAD / bytes).max(1),
            cast,
            size,
            columns,
            places: [0, STAGE / 2].map(|at| stage.start().wrapping_add(at)),
            starts: std::array::from_fn(|row| (row * pitch) as isize),
            row: scattered.source,
            to: stage.start(),
            done: 0,
            left: 0,
            due: 0,
            lost: false,
        };
        feed.ask(usize::MAX);
        feed.next_window();
        feed
    }

    #[inline(always)]
    fn ask(&mut self, lines: usize) {
        let (asked, ahead) = (&mut self.asked, &mut self.ahead);
        self.lines.ask(lines, prefetch_first, || {
            *ahead = ahead.checked_sub(1)?;
            asked.next()
        });
    }

    fn next_window(&mut self) {
        self.to = self.places[1];
        self.left = PAIR / SIZE;
        // So that the last one is not late.
        self.due = Self::PIECE / 2;
        self.next_row();
    }

    #[inline(always)]
    fn next_row(&mut self) {
        self.done = 0;
        if self.ahead > 0 {
            // What is left of those before comes late.
            self.ask(usize::MAX);
        }
        self.ahead += 1;
        match self.windows.next() {
            Some(row) => self.row = row,
            None => self.left = 0,
        }
    }

    /// Casts some elements of a row.
    ///
    /// # Safety
    /// As [`Feed::column`].
    #[inline(never)]
    unsafe fn piece(&mut self) {
        let left = self.columns - self.done;
        let n = if left < Self::PIECE + Self::PIECE / 2 { left } else { Self::PIECE };
        self.due = self.due.saturating_sub(n);
        if self.left == 0 || self.lost {
            return;
        }
        let (from, to) = (self.done * self.size, self.done * SIZE);
        self.lost = !(self.cast)(self.row.wrapping_add(from), self.to.wrapping_add(to), n);
        self.done += n;
        if self.done == self.columns {
            self.left -= 1;
            self.to = self.to.wrapping_offset(self.starts[1]);
            if self.left > 0 {
                self.next_row();
            }
        }
    }
}

impl<C: Fn(*const u8, *mut u8, usize) -> bool, const SIZE: usize> Feed for Cast<'_, C, SIZE> {
    #[inline(always)]
    fn begin(&mut self) {
        self.places.swap(0, 1);
        self.next_window();
    }

    #[inline(always)]
    fn rows(&self) -> (*const u8, &[isize]) {
        (self.places[0], &self.starts[..PAIR / SIZE])
    }

    #[inline(always)]
    unsafe fn column(&mut self) {
        self.ask(PAIR / SIZE * self.size / LINE);
        self.due += PAIR / SIZE;
        if self.due >= Self::PIECE {
            // SAFETY: the caller's.
            unsafe { self.piece() };
        }
    }

    #[inline(never)]
    unsafe fn end(&mut self) -> bool {
        while self.left > 0 && !self.lost {
            // SAFETY: the caller's.
            unsafe { self.piece() };
        }
        !self.lost
    }
}
