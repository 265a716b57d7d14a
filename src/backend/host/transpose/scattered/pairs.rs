//! Around the caches by pairs of lines, one at a time to each column of all that are read together: what memory takes the
//! fastest, where it is read meanwhile. As few rows are transposed as that takes ([`windows`]), strip by strip, and each strip
//! is written while the next one is transposed, for memory has nothing to do while a processor only shuffles.

use std::marker::PhantomData;

use super::windows::{Asked, Cast, Feed, Windows};
use super::*;
use crate::backend::host::stream::{PAIR, write_pairs_around};

/// Bytes of the buffer for each of two strips, after which is what waits of each column for the rows below, and what each
/// begins with.
const STRIP: usize = 21 << 10;
/// Bytes from one column of a strip to the next: a pair that comes, one that waits, and a line, so that few share sets of a
/// cache.
const PITCH: usize = 2 * PAIR + LINE;

/// Transposes matrices into columns that are pairs of lines at least. False: there is no buffer.
///
/// # Safety
/// As [`ScatteredFn`], of a stream; the processor has the instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub unsafe fn by_pairs<const SIZE: usize>(scattered: &Scattered, transpose: BlockFn<SIZE>) -> bool {
    let Some(stage) = Stage::take() else { return false };
    let mut at = PerAxis::new();
    let feed = Asked::<SIZE, SIZE>::new(scattered, &mut at);
    // SAFETY: the caller's.
    unsafe { write::<Best, SIZE, SIZE>(scattered, transpose, feed, &stage) }
}

/// The same of what is cast as vectors are loaded, of which there are as many columns as one has elements at least.
///
/// # Safety
/// As [`by_pairs`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub unsafe fn load_squares<L: Load<x86::Avx512>, const FROM: usize, const SIZE: usize>(
    scattered: &Scattered,
) -> bool {
    // SAFETY: the caller's.
    unsafe { load_tiles::<Squares<L>, FROM, SIZE>(scattered) }
}

/// The same as halves of vectors are loaded.
///
/// # Safety
/// As [`by_pairs`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub unsafe fn load_oblongs<L: Load<x86::Avx2>, const FROM: usize, const SIZE: usize>(
    scattered: &Scattered,
) -> bool {
    // SAFETY: the caller's.
    unsafe { load_tiles::<Oblongs<L>, FROM, SIZE>(scattered) }
}

/// The same of single bytes, as vectors are loaded of as many elements of four bytes.
///
/// # Safety
/// As [`by_pairs`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub unsafe fn load_fours<L: Load<x86::Avx512>, const FROM: usize>(scattered: &Scattered) -> bool {
    // SAFETY: the caller's.
    unsafe { load_tiles::<Fours<L>, FROM, 1>(scattered) }
}

/// # Safety
/// As [`load_squares`].
#[inline(always)]
unsafe fn load_tiles<T: Tiles<FROM, SIZE>, const FROM: usize, const SIZE: usize>(
    scattered: &Scattered,
) -> bool {
    let Some(stage) = Stage::take() else { return false };
    let mut at = PerAxis::new();
    let feed = Asked::<SIZE, FROM>::new(scattered, &mut at);
    // SAFETY: the caller's.
    unsafe { write::<T, FROM, SIZE>(scattered, avx512_block::<SIZE>, feed, &stage) }
}

/// The same of what is cast before it is transposed, from elements of so many bytes. None: there is no buffer;
/// false: a value was lost.
///
/// # Safety
/// As [`by_pairs`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub unsafe fn cast_by_pairs<const SIZE: usize>(
    scattered: &Scattered,
    transpose: BlockFn<SIZE>,
    cast: (usize, impl Fn(*const u8, *mut u8, usize) -> bool),
) -> Option<bool> {
    let (stage, casts) = (Stage::take()?, Stage::take()?);
    let mut at = [PerAxis::new(), PerAxis::new()];
    let mut feed = Cast::<_, SIZE>::new(scattered, &mut at, cast, &casts);
    // SAFETY: the caller's.
    unsafe { Some(feed.end() && write::<Best, SIZE, SIZE>(scattered, transpose, feed, &stage)) }
}

/// How a strip is transposed: as many rows as a window has, and as many columns as a vector has elements, or fewer.
trait Tiles<const FROM: usize, const SIZE: usize> {
    /// Columns of a strip.
    const WIDE: usize = LINE / SIZE;

    /// Transposes one into the buffer, and between its steps has so many columns written of the one before.
    ///
    /// # Safety
    /// As [`by_pairs`], of rows and columns that the block has.
    unsafe fn strip(block: &Block<SIZE>, from: *const u8, into: *mut u8, write: impl FnMut(usize));
}

/// By two squares.
struct Squares<L>(PhantomData<L>);

impl<L: Load<x86::Avx512>, const FROM: usize, const SIZE: usize> Tiles<FROM, SIZE> for Squares<L> {
    #[inline(always)]
    unsafe fn strip(block: &Block<SIZE>, from: *const u8, into: *mut u8, mut write: impl FnMut(usize)) {
        let side = LINE / SIZE;
        for row in [0, side] {
            // SAFETY: the caller's.
            unsafe {
                // Those of single bytes take so long that some columns are written between their steps.
                let beside = || {
                    if SIZE == 1 {
                        write(side / 8)
                    }
                };
                block.square_beside::<x86::Avx512, L>(from, into, (row, 0), (0, side), beside);
            }
            if SIZE > 1 && row == 0 {
                write(side / 2);
            }
        }
    }
}

/// Of single bytes by two squares of elements of four bytes, each of which is four rows: strips are a quarter as wide, of which the
/// first cache holds more beside what was asked for.
struct Fours<L>(PhantomData<L>);

/// Elements of four bytes in a vector.
const FOURS: usize = LINE / 4;

impl<L: Load<x86::Avx512>, const FROM: usize> Tiles<FROM, 1> for Fours<L> {
    const WIDE: usize = FOURS;

    #[inline(always)]
    unsafe fn strip(block: &Block<1>, from: *const u8, into: *mut u8, mut write: impl FnMut(usize)) {
        for row in [0, LINE] {
            // SAFETY: the caller's.
            unsafe {
                let from = by_itself(from);
                let mut tile = [[MaybeUninit::<x86::Avx512>::uninit(); 4]; 4];
                for (lane, tile) in tile.iter_mut().enumerate() {
                    let rows = block.rows.as_ptr().add(row + lane * FOURS);
                    let load = |row: usize| L::load(from.offset(*rows.add(row)));
                    let vectors = turn::<x86::Avx512, 4>(sixteen!(INDEX => {
                        let row = INDEX % 4 * 4;
                        x86::four_rows([load(row), load(row + 1), load(row + 2), load(row + 3)])
                    }));
                    tile.iter_mut().zip(vectors).for_each(|(place, vector)| {
                        place.write(vector);
                    });
                }
                let to = into.add(row);
                for index in 0..4 {
                    let group = x86::Avx512::exchange(tile.map(|lane| lane[index].assume_init()));
                    for (lane, vector) in group.into_iter().enumerate() {
                        vector.store(to.offset(block.column(4 * lane + index)));
                    }
                }
            }
            write(FOURS / 2);
        }
    }
}

/// By four tiles of half as many columns, which are faster for elements of two bytes.
struct Oblongs<L>(PhantomData<L>);

impl<L: Load<x86::Avx2>, const FROM: usize, const SIZE: usize> Tiles<FROM, SIZE> for Oblongs<L> {
    #[inline(always)]
    unsafe fn strip(block: &Block<SIZE>, from: *const u8, into: *mut u8, mut write: impl FnMut(usize)) {
        let (high, wide) = (LINE / SIZE, LINE / SIZE / 2);
        for row in [0, high] {
            for column in [0, wide] {
                // SAFETY: the caller's.
                unsafe {
                    let from = from.add(column * FROM);
                    block.oblong::<x86::Avx512, L, false>(from, into, (row, column), (0, wide));
                }
                write(high / 4);
            }
        }
    }
}

/// Of elements as they are, by what is best for their size.
struct Best;

impl<const SIZE: usize> Tiles<SIZE, SIZE> for Best {
    #[inline(always)]
    unsafe fn strip(block: &Block<SIZE>, from: *const u8, into: *mut u8, write: impl FnMut(usize)) {
        // SAFETY: the caller's.
        unsafe {
            match SIZE {
                2 => <Oblongs<AsIs> as Tiles<SIZE, SIZE>>::strip(block, from, into, write),
                _ => <Squares<AsIs> as Tiles<SIZE, SIZE>>::strip(block, from, into, write),
            }
        }
    }
}

/// Transposes what the feed brings, and writes it. False: a value was lost.
///
/// # Safety
/// As [`by_pairs`].
#[inline(always)]
unsafe fn write<T: Tiles<FROM, SIZE>, const FROM: usize, const SIZE: usize>(
    scattered: &Scattered,
    transpose: BlockFn<SIZE>,
    mut feed: impl Feed,
    stage: &Stage,
) -> bool {
    let Scattered { source, destination, matrices, .. } = *scattered;
    let Matrices { ref rows, columns, outer, .. } = *matrices;
    let (height, side) = (Windows::<SIZE>::HEIGHT, T::WIDE);
    let all = (rows.blocks - 1) * rows.offsets.len() + rows.last;
    debug_assert!(all >= height && 2 * (STRIP + columns.len() * PAIR) <= STAGE);
    // Where columns follow one another, what one ends with and the next begins with makes a pair.
    let follow = all >= 2 * height
        && (0..).zip(columns).all(|(index, column)| *column == index * (all * SIZE) as isize);
    let starts: [isize; LINE] = std::array::from_fn(|column| (column * PITCH) as isize);
    let starts = &starts[..side.min(columns.len())];
    let staged = |which: usize| stage.start().wrapping_add(which * STRIP + PAIR);
    let waits = |column: usize| stage.start().wrapping_add(2 * STRIP + column * PAIR);
    let mut at = PerAxis::new();
    let mut places = Places::new(outer, source, destination, &mut at);
    let mut pending = Pending::nothing(destination);
    let mut which = 0;
    loop {
        for top in (0..all).step_by(height) {
            let ends = (top == 0, top + height >= all);
            feed.begin();
            let (window, starts_of_rows) = feed.rows();
            // By themselves, for the feed goes on meanwhile.
            let mut rows = [0; PAIR];
            let rows = &mut rows[..height];
            rows.copy_from_slice(starts_of_rows);
            // The last rows overlap those before.
            let done = top - top.min(all - height);
            let to = places.destination.wrapping_add(top * SIZE);
            for first in (0..columns.len()).step_by(side) {
                // The last columns do, too.
                let left = first.min(columns.len().saturating_sub(side));
                let (from, into) = (window.wrapping_add(left * FROM), staged(which));
                let block = Block::<SIZE>::asked(rows, starts);
                // SAFETY: the caller's; the buffer has room for two strips, and for what waits of each column.
                unsafe {
                    if columns.len() < side {
                        transpose(&block, &mut Places::new(&[], from, into, &mut PerAxis::new()));
                    } else {
                        T::strip(&block, from, into, |columns| pending.write(columns, &mut feed));
                    }
                    pending.write(side, &mut feed);
                    pending = Pending {
                        row: into.add((first - left) * PITCH + done * SIZE),
                        waits: waits(first),
                        to,
                        columns: &columns[first..columns.len().min(first + side)],
                        index: first,
                        joined: if follow { columns.len() } else { 0 },
                        heads: columns.len() * PAIR,
                        bytes: (height - done) * SIZE,
                        ends,
                    };
                }
                which ^= 1;
            }
            // SAFETY: the caller's.
            if !unsafe { feed.end() } {
                return false;
            }
        }
        if !places.advance() {
            break;
        }
    }
    // SAFETY: as before.
    unsafe { pending.write(side, &mut feed) };
    true
}

/// Columns of a strip that are to be written.
struct Pending<'a> {
    /// In the buffer: what is new of the first of them, and the pair before.
    row: *mut u8,
    waits: *mut u8,
    /// Where they go, from there.
    to: *mut u8,
    columns: &'a [isize],
    /// Which the first of them is, and of how many that follow one another.
    index: usize,
    joined: usize,
    /// Bytes from what waits of a column to what it begins with.
    heads: usize,
    /// Of each.
    bytes: usize,
    /// Whether they are the first and the last of it.
    ends: (bool, bool),
}

impl Pending<'_> {
    fn nothing(to: *mut u8) -> Self {
        let (index, joined, heads, bytes) = (0, 0, 0, 0);
        Pending { row: to, waits: to, to, columns: &[], index, joined, heads, bytes, ends: (false, false) }
    }

    /// Writes some of what is left, and has as much brought.
    ///
    /// # Safety
    /// The buffer holds them, and they are writable; as [`Feed::column`].
    #[inline(always)]
    unsafe fn write(&mut self, count: usize, feed: &mut impl Feed) {
        let (these, rest) = self.columns.split_at(count.min(self.columns.len()));
        let (mut row, mut waits, mut index) = (self.row, self.waits, self.index);
        for column in these {
            // SAFETY: the caller's.
            unsafe {
                let to = self.to.offset(*column);
                if self.ends == (false, false) {
                    x86::pair_around(waits, row, to);
                    x86::copy_pair(row, waits);
                } else {
                    let joins = (self.joined > 0 && index > 0, index + 1 < self.joined);
                    write_end((row, waits, waits.add(self.heads)), to, self.bytes, self.ends, joins);
                }
                (row, waits) = (row.add(PITCH), waits.add(PAIR));
                feed.column();
            }
            index += 1;
        }
        *self = Pending { row, waits, index, columns: rest, ..*self };
    }
}

/// Writes so many bytes of a row of the buffer, which are the first or the last of a column; the others wait. What the column
/// begins with waits for the one before if it `joins` that, and what it ends with is written with what the one after began
/// with if it joins that.
///
/// # Safety
/// As [`Pending::write`].
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn write_end(
    (row, waits, head): (*mut u8, *mut u8, *mut u8),
    to: *mut u8,
    bytes: usize,
    ends: (bool, bool),
    joins: (bool, bool),
) {
    // SAFETY: the caller's; what begins is a pair.
    unsafe {
        let before = row.sub(PAIR);
        if ends.0 && joins.0 && !(to as usize).is_multiple_of(PAIR) {
            x86::copy_pair(row, head);
            return x86::copy_pair(row, waits);
        }
        if !ends.0 {
            x86::copy_pair(waits, before);
        }
        write_pairs_around(before, to, bytes, (ends.0, ends.1 && !joins.1));
        let next = to.wrapping_add(bytes);
        if !ends.1 {
            x86::copy_pair(before, waits);
        } else if joins.1 && !(next as usize).is_multiple_of(PAIR) {
            x86::pair_around(before, head.add(PAIR), next);
        }
    }
}
