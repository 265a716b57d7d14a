//! Makes one matrix of the axes that are innermost on either side.
//!
//! Where an axis that is innermost is short, a matrix of it takes only a piece of what follows in memory.
//! So the axes that go on where it ends are taken with it: rows of the matrix are then anywhere in the
//! source, and columns anywhere in the destination, but both are as long as memory likes them.

use std::mem::MaybeUninit;

use super::stream::Memory;
use super::transpose::{CLASH, CLASHING_ROW, PAGE, are_channels, clash};
use super::walk::{PerAxis, Places, each_at, step_to_next};
use crate::layout::Axis;

/// The most rows, or columns, of a matrix.
pub const MOST: usize = 768;

/// An index that no axis has.
const NONE: usize = 63;

/// The rows or the columns of a matrix.
struct Lines<'a> {
    /// Where each one starts, from the first. Elsewhere, for what is returned is copied.
    offsets: &'a mut Room,
    len: usize,
    /// The axis that was taken last, which is cut into blocks of so many steps.
    cut: usize,
    block: i64,
    /// Lines for each step of it.
    step: usize,
    /// Whether it was taken whole.
    whole: bool,
}

/// What is written at once.
const FOUR: usize = 4;
type Four = [isize; FOUR];

/// With what is written beyond the last line.
type Room = [MaybeUninit<isize>; MOST + FOUR];

impl<'a> Lines<'a> {
    /// One.
    fn new(offsets: &'a mut Room) -> Lines<'a> {
        offsets[0].write(0);
        Lines { offsets, len: 1, cut: 0, block: 1, step: 1, whole: true }
    }

    /// Takes an axis, or blocks of it where that would be more than about `wanted` lines, of a multiple of `steps`
    /// where there is room for those. `start` is its step where lines start.
    #[inline(always)]
    fn take(&mut self, index: usize, axis: &Axis, start: i64, wanted: usize, steps: usize) {
        (self.cut, self.step) = (index, self.len);
        self.whole = axis.extent.saturating_mul(self.len as i64) <= wanted as i64;
        self.block = axis.extent;
        // Most axes are short, and divisions take as long as many of their lines.
        if !self.whole {
            let most = (wanted / self.len).max(1) as i64;
            // Parts that are about equally long, and half as long again at most.
            let parts = ((axis.extent + most / 2) / most).max(1);
            self.block = (axis.extent + parts - 1) / parts;
            self.whole = parts == 1;
            let more = (self.block as usize).next_multiple_of(steps) as i64;
            if more < axis.extent && more * self.len as i64 <= MOST as i64 {
                self.block = more;
            }
        }
        self.len = self.step * self.block as usize;
        assert!(self.len <= MOST);
        // SAFETY: there is room for so many and four more, and as many are written.
        unsafe { repeat(self.offsets.as_mut_ptr().cast(), self.step, start as isize, self.len) };
    }

    /// The axis that goes on in the destination where the last one ends, or [`NONE`]. They are by falling step there.
    #[inline(always)]
    fn next_row(&self, axes: &[Axis]) -> usize {
        let end = axes[self.cut].destination.wrapping_mul(axes[self.cut].extent);
        match self.cut.checked_sub(1) {
            Some(next) if self.whole && axes[next].destination == end => next,
            _ => NONE,
        }
    }

    /// The axis that goes on in the source where the last one ends, or [`NONE`].
    #[inline(always)]
    fn next_column(&self, axes: &[Axis]) -> usize {
        let end = axes[self.cut].source.wrapping_mul(axes[self.cut].extent);
        let next = if self.whole { axes.iter().position(|axis| axis.source == end) } else { None };
        next.unwrap_or(NONE)
    }

    /// Those of a number of steps of the last axis.
    fn of(&self, steps: i64) -> &[isize] {
        let count = self.step * steps as usize;
        debug_assert!(count <= self.len);
        // SAFETY: the first `len` are written.
        unsafe { std::slice::from_raw_parts(self.offsets.as_ptr().cast(), count) }
    }

    /// How many blocks there are.
    fn blocks(&self, axes: &[Axis]) -> i64 {
        if self.whole { 1 } else { (axes[self.cut].extent + self.block - 1) / self.block }
    }

    /// Steps of the last axis in a block.
    fn steps(&self, axes: &[Axis], block: i64) -> i64 {
        self.block.min(axes[self.cut].extent - block * self.block)
    }
}

/// Adds the lines of more steps of an axis until there are `len`, four at a time: those that are too many are lines of
/// the next step, which is written later, or left behind the last one. By itself, for it needs all registers.
///
/// # Safety
/// The first `step` are written, and so are four more; there is room for `len` and four more.
#[inline(never)]
unsafe fn repeat(offsets: *mut isize, step: usize, start: isize, len: usize) {
    // SAFETY: the caller's.
    unsafe {
        if step == 1 {
            // Where one starts is what the first starts from, 0, and so many steps.
            let mut lines = [0, 1, 2, 3].map(|index| start.wrapping_mul(index));
            let mut to = 0;
            while to < len {
                offsets.add(to).cast::<Four>().write(lines);
                lines = lines.map(|line| line.wrapping_add(start.wrapping_mul(FOUR as isize)));
                to += FOUR;
            }
        } else {
            let mut line = (step - 1) & !(FOUR - 1);
            loop {
                let mut lines = offsets.add(line).cast::<Four>().read();
                let mut to = line + step;
                while to < len {
                    lines = lines.map(|line| line.wrapping_add(start));
                    offsets.add(to).cast::<Four>().write(lines);
                    to += step;
                }
                if line == 0 {
                    break;
                }
                line -= FOUR;
            }
        }
        offsets.add(len).cast::<Four>().write([0; FOUR]);
    }
}

/// The rows of a matrix, in blocks that are alike.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// Where those of a block start in the source, from its first. They follow one another in the
    /// destination, as blocks do.
    pub offsets: &'a [isize],
    pub blocks: usize,
    /// From a block to the next in the source.
    pub next: isize,
    /// How many rows the last block has.
    pub last: usize,
}

impl<'a> Rows<'a> {
    /// Those of one block.
    pub fn of(&self, index: usize) -> &'a [isize] {
        if index + 1 < self.blocks { self.offsets } else { &self.offsets[..self.last] }
    }
}

/// Matrices that are alike.
#[derive(Clone, Copy)]
pub struct Matrices<'a> {
    pub rows: Rows<'a>,
    /// Where columns start in the destination, from the first.
    pub columns: &'a [isize],
    /// Whether these push each other out of the first cache ([`clash`]).
    pub clash: bool,
    /// Blocks of columns side by side, as many steps from each other, and how many columns the last one has.
    pub across: Axis,
    pub last: usize,
    /// The axes along which they lie.
    pub outer: &'a [Axis],
    /// Where the source ends, and whether each page between its first element and its last has some: what follows a row
    /// may be read then. Only looked for where rows are short.
    pub end: Option<(i64, bool)>,
    /// Whether what is read is asked for a block ahead, as something is written.
    pub spread: bool,
    /// Whether columns get pairs of lines, a pair at a time.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub pairs: bool,
    /// Whether columns may be written around the caches.
    pub around: bool,
    /// From where one starts in the source to where the next one does along the innermost of those axes; without axes, to where
    /// those start that are visited next.
    pub next: i64,
}

impl Matrices<'_> {
    /// Where in the source what comes after one of them starts.
    #[inline(always)]
    pub fn after(&self, places: &Places) -> *const u8 {
        let next = || places.source.wrapping_offset(self.next as isize);
        places.next_source().unwrap_or_else(next)
    }
}

/// Where a source ends whose first element is there, and whether each page between its lowest element and its highest has
/// some.
fn end_of(axes: &[Axis], start: i64, step: i64) -> (i64, bool) {
    let (mut lowest, mut highest, mut elements) = (start, start + step, 1);
    for axis in axes {
        elements *= axis.extent;
        let reach = (axis.extent - 1) * axis.source;
        (lowest, highest) = (lowest + reach.min(0), highest + reach.max(0));
    }
    (highest, highest - lowest == elements * step || is_in_each_page(axes, step))
}

/// Whether each page between the lowest of some elements and the highest has some: whatever lies between those of the axes
/// that are further in, the next one leaves less than a page between the last and the first of those.
#[inline(never)]
fn is_in_each_page(axes: &[Axis], step: i64) -> bool {
    let (mut end, mut inner) = (step, 0);
    for _ in axes {
        let apart = |index: &usize| axes[*index].source.abs();
        let others = (0..axes.len()).filter(|index| inner >> index & 1 == 0);
        let Some(next) = others.min_by_key(apart) else { break };
        if apart(&next) - end >= PAGE as i64 {
            return false;
        }
        inner |= 1u64 << next;
        end += (axes[next].extent - 1) * apart(&next);
    }
    true
}

/// What matrices are wanted.
#[derive(Clone, Copy)]
pub struct Reach {
    /// About how many rows a block has, where there are so many.
    pub rows: usize,
    /// About how many columns a matrix has.
    pub columns: usize,
    /// The fewest rows of all blocks of a matrix together.
    pub least_rows: usize,
    /// The fewest rows of a block, and columns.
    pub side: usize,
    /// Elements of sixteen bytes.
    pub lane: usize,
    /// The same where no axes were fused: a matrix with a shorter side is as well done by itself.
    pub alone: usize,
    /// The fewest rows of all blocks of such a matrix together.
    pub alone_rows: usize,
    /// Whether few rows or columns of such a matrix are left to [`are_channels`].
    pub channels: bool,
    /// Whether rows take what they can before columns do; else what is shorter goes first.
    pub rows_first: bool,
    /// Axes are left alone where both that are innermost have so many elements.
    pub long: usize,
    /// What has fewer columns is asked for a block ahead, as something is written.
    pub spread: usize,
    /// Whether blocks of columns that are side by side are visited together.
    pub across: bool,
    /// The fewest columns of a matrix.
    pub least_columns: usize,
    /// Blocks of columns have a multiple of so many steps of an axis, where there is room for those.
    pub steps: usize,
    /// Whether columns take more axes than one.
    pub fuses_columns: bool,
    /// Whether columns get pairs of lines, a pair at a time.
    pub pairs: bool,
    /// Whether they may be written around the caches.
    pub around: bool,
}

/// What is wanted, and what else.
pub type Reaches = [Option<&'static Reach>; 3];
pub const NO_REACH: Reaches = [None; 3];

/// Whether an axis that both may have makes rows that fill the tiles of Zen 5's vectors, which are high and half as wide,
/// where there are fewer, though columns are fewer still. Of single bytes a tile may be as wide as a lane.
fn fill_tiles(rows: &Lines<'_>, columns: &Lines<'_>, reach: &Reach) -> bool {
    let lane = reach.lane;
    let is_wide = columns.len >= 2 * lane || lane == 16 && columns.len == lane;
    rows.len < 4 * lane && is_wide && !reach.rows_first && Memory::is_zen5()
}

/// Visits the matrices of a job, whose axes `inner` and `near` are those that are innermost in the
/// destination and in the source, and the others by falling step in the destination: where the first of some
/// that are alike starts on both sides, all of them, and whether there are no others. None: the job's are not what is
/// wanted, and nothing was visited.
pub fn each_matrix(
    axes: &[Axis],
    (inner, near): (usize, usize),
    reach: &Reach,
    start: (i64, i64),
    visit: &mut impl FnMut(i64, i64, &Matrices, bool) -> bool,
) -> Option<bool> {
    let is_long = axes[inner].extent.min(axes[near].extent) >= reach.long as i64;
    // A row that pushes the others out of the caches is made longer.
    let bytes = || axes[inner].extent * axes[near].source;
    let is_short = || bytes() < CLASHING_ROW as i64 && axes[near].destination % CLASH as i64 == 0;
    if is_long && !is_short() {
        return None;
    }
    // Blocks are half as long again at most.
    let most = |wanted: usize| wanted.min(MOST * 2 / 3);
    let (most_rows, most_columns) = (most(reach.rows), most(reach.columns));
    let mut rooms: [Room; 2] = [const { [const { MaybeUninit::uninit() }; MOST + FOUR] }; 2];
    let [row_room, column_room] = &mut rooms;
    let mut rows = Lines::new(row_room);
    rows.take(inner, &axes[inner], axes[inner].source, most_rows, 1);
    let mut columns = Lines::new(column_room);
    columns.take(near, &axes[near], axes[near].destination, most_columns, reach.steps);
    // A bit for each axis. Of axes longer than 1 there are fewer than bits that count elements.
    let mut taken = 1u64 << NONE | 1 << inner | 1 << near;
    // The axes that follow one another in the destination make rows, those in the source columns.
    let (mut row, mut column) = (rows.next_row(axes), columns.next_column(axes));
    loop {
        let is_free = |index: usize| taken >> index & 1 == 0;
        // An axis may be both: what is short has it, or rows that are part of a lane, for those take longer to write than
        // columns to read.
        let are_part = rows.len < reach.lane && 2 * rows.len != reach.lane && rows.len <= 2 * columns.len;
        let is_short =
            rows.len <= columns.len || are_part || row == column && fill_tiles(&rows, &columns, reach);
        if is_free(row) && (reach.rows_first || is_short || !is_free(column)) {
            taken |= 1 << row;
            rows.take(row, &axes[row], axes[row].source, most_rows, 1);
            row = rows.next_row(axes);
        } else if is_free(column) && reach.fuses_columns {
            taken |= 1 << column;
            columns.take(column, &axes[column], axes[column].destination, most_columns, reach.steps);
            column = columns.next_column(axes);
        } else {
            break;
        }
    }
    let all_rows = rows.step as i64 * axes[rows.cut].extent;
    let is_alone = (rows.cut, columns.cut) == (inner, near);
    let side = if is_alone { reach.alone } else { reach.side };
    let is_small = rows.len.min(columns.len) < side || columns.len < reach.least_columns;
    let by_channels = || reach.channels && is_alone && are_channels(&axes[inner], &axes[near]);
    let least_rows = if is_alone { reach.alone_rows } else { reach.least_rows };
    if is_small || all_rows < least_rows as i64 || by_channels() {
        return None;
    }
    let mut outer = PerAxis::new();
    for (index, axis) in axes.iter().enumerate() {
        if taken >> index & 1 == 0 {
            outer.push(*axis);
        }
    }
    let end = (columns.len < reach.alone).then(|| end_of(axes, start.0, axes[near].source));
    let blocks = rows.blocks(axes);
    let rows = Rows {
        offsets: rows.of(rows.block),
        blocks: blocks as usize,
        next: (axes[rows.cut].source * rows.block) as isize,
        last: rows.of(rows.steps(axes, blocks - 1)).len(),
    };
    let next = outer.last().map_or(0, |axis| axis.source);
    let (cut, block) = (axes[columns.cut], columns.block);
    let mut across = Axis {
        extent: columns.blocks(axes),
        source: cut.source * block,
        destination: cut.destination * block,
    };
    let last = columns.of(columns.steps(axes, across.extent - 1)).len();
    let columns_of_one = columns.of(block);
    let spread = columns_of_one.len() < reach.spread;
    // Blocks that are alike lie along an axis like any other.
    if !reach.across && !spread && last == columns_of_one.len() && across.extent > 1 {
        outer.push(across);
        across.extent = 1;
    }
    let matrices = Matrices {
        rows,
        columns: columns_of_one,
        clash: clash(columns_of_one),
        across,
        last,
        outer: &outer,
        end,
        spread,
        pairs: reach.pairs,
        around: reach.around,
        next,
    };
    if across.extent == 1 || reach.across {
        return Some(visit(start.0, start.1, &matrices, true));
    }
    Some(each_at(&outer, start, &mut |from, to, at| {
        (0..across.extent).all(|index| {
            let columns = columns.of(columns.steps(axes, index));
            let done = index * across.source;
            let next = match index + 1 < across.extent {
                true => across.source,
                false => step_to_next(&outer, at).unwrap_or(0) - done,
            };
            let (from, to) = (from + done, to + index * across.destination);
            let across = Axis { extent: 1, ..across };
            let last = columns.len();
            let clash = clash(columns);
            visit(from, to, &Matrices { columns, clash, across, last, outer: &[], next, ..matrices }, false)
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wherever the first one is in its page.
    #[test]
    fn each_page_has_an_element_where_that_is_said() {
        let page = PAGE as i64;
        let mut said = [0; 2];
        let steps = [1, 3, 40, 700, page - 1, page, page + 1, page + 7, 2 * page, 3 * page];
        for index in 0..steps.len().pow(3) {
            let [outer, middle, inner] = [index / 100, index / 10 % 10, index % 10].map(|step| steps[step]);
            for size in [1, 8] {
                let axis = |extent, source| Axis { extent, source, destination: 0 };
                let axes = [axis(3, outer), axis(5, -middle), axis(4, inner)];
                let is_said = is_in_each_page(&axes, size);
                said[usize::from(is_said)] += 1;
                let mut places: Vec<_> =
                    (0..60).map(|i| i / 20 * outer + i / 4 % 5 * middle + i % 4 * inner).collect();
                places.sort_unstable();
                // Between two that follow each other no page fits that starts anywhere.
                let is_so = places.windows(2).all(|two| two[1] - two[0] - size < page);
                assert!(is_so || !is_said, "{axes:?} of {size}");
                let dense = places.windows(2).all(|two| two[1] - two[0] == size);
                assert!(is_said || !dense, "{axes:?} of {size}");
            }
        }
        assert!(said.iter().all(|count| *count > 100), "{said:?}");
    }
}
