//! Transposes of matrices whose rows are anywhere in the source, and columns anywhere in the destination.

#[cfg(target_arch = "x86_64")]
mod oblongs;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod put;
#[cfg(target_arch = "x86_64")]
mod windows;

use std::mem::MaybeUninit;

#[cfg(target_arch = "x86_64")]
pub use self::oblongs::Wide;
#[cfg(target_arch = "x86_64")]
pub use self::pairs::{load_fours, load_oblongs, load_squares};
pub use self::put::put_scattered;
use super::super::fuse::{MOST, Matrices, NO_REACH, Reach, Reaches, Rows};
use super::super::stream::Memory;
use super::super::walk::{PerAxis, Places};
use super::stage::{STAGE, Stage};
use super::strips::MOST_COLUMNS;
use super::*;
use crate::layout::Axis;

/// Where a source ends, and whether each page between its first element and its last has some.
type End = Option<(*const u8, bool)>;

/// Matrices to transpose.
#[derive(Clone, Copy)]
pub struct Scattered<'a> {
    /// Element (0, 0) of the first; those of a row follow one another.
    pub source: *const u8,
    /// The same; those of a column follow one another.
    pub destination: *mut u8,
    /// In bytes.
    pub matrices: &'a Matrices<'a>,
    /// Of the source, if that was looked for.
    pub end: End,
    /// Whether the source may be in no cache, so that what is read next is asked for.
    pub far: bool,
}

impl Scattered<'_> {
    /// Visits every element, of some bytes on either side: slower, but without memory. False: a visit said so.
    pub fn each(
        &self,
        (from, to): (usize, usize),
        visit: &mut impl FnMut(*const u8, *mut u8) -> bool,
    ) -> bool {
        let Matrices { ref rows, columns, outer, .. } = *self.matrices;
        let mut at = PerAxis::new();
        let mut places = Places::new(outer, self.source, self.destination, &mut at);
        loop {
            let (source, destination) = (places.source, places.destination);
            let blocks = (0..rows.blocks).flat_map(|index| {
                let block = source.wrapping_offset(index as isize * rows.next);
                rows.of(index).iter().map(move |row| block.wrapping_offset(*row))
            });
            for (row, source) in blocks.enumerate() {
                let below = destination.wrapping_add(row * to);
                for (column, place) in columns.iter().enumerate() {
                    if !visit(source.wrapping_add(column * from), below.wrapping_offset(*place)) {
                        return false;
                    }
                }
            }
            if !places.advance() {
                return true;
            }
        }
    }
}

/// Transposes matrices whose rows and columns are anywhere.
///
/// # Safety
/// Every element of the matrices is readable in the source and writable in the destination. For a stream,
/// a block but the last fills a line, and is no longer than what [`reach`] leads to.
pub type ScatteredFn = unsafe fn(&Scattered, How);

/// One of matrices around the caches, at least as wide as a vector, whose elements are cast as they are loaded. False: there is no
/// buffer.
///
/// # Safety
/// As [`ScatteredFn`].
pub type LoadFn = unsafe fn(&Scattered) -> bool;

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

/// Transposes a block in each of some matrices. By itself, for it needs all registers.
type BlockFn<const SIZE: usize> = unsafe fn(&Block<SIZE>, &mut Places);

/// # Safety
/// As [`ScatteredFn`].
unsafe fn baseline<V: Vector, const SIZE: usize>(matrix: &Scattered, how: How) {
    // SAFETY: the caller's.
    unsafe { scattered::<SIZE>(matrix, how, baseline_block::<V, SIZE>, false) }
}

/// # Safety
/// As [`baseline`].
unsafe fn baseline_block<V: Vector, const SIZE: usize>(block: &Block<SIZE>, places: &mut Places) {
    // SAFETY: the caller's.
    unsafe { block.transpose::<V>(places, true) }
}

/// # Safety
/// As [`baseline`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const SIZE: usize>(matrix: &Scattered, how: How) {
    // SAFETY: the caller's.
    unsafe { scattered::<SIZE>(matrix, how, avx2_block::<SIZE>, false) }
}

/// # Safety
/// As [`avx2`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2_block<const SIZE: usize>(block: &Block<SIZE>, places: &mut Places) {
    // SAFETY: the caller's.
    unsafe { block.transpose::<x86::Avx2>(places, SIZE > 1) }
}

/// # Safety
/// As [`baseline`]; the processor has AVX-512 with BW, DQ and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<const SIZE: usize>(matrix: &Scattered, how: How) {
    // SAFETY: the caller's.
    unsafe {
        let by_pairs = matrix.matrices.pairs && is_x86_feature_detected!("avx512vbmi");
        if !by_pairs || !pairs::by_pairs(matrix, avx512_block::<SIZE>) {
            scattered::<SIZE>(matrix, how, avx512_block::<SIZE>, true)
        }
    }
}

/// Casts elements of some bytes to no larger ones, and transposes those. None: there is no buffer; false: a value was lost.
///
/// # Safety
/// As [`ScatteredFn`], of a stream and of matrices that [`reach_of_casts`] leads to.
#[cfg(target_arch = "x86_64")]
pub unsafe fn cast_scattered(
    scattered: &Scattered,
    (from, to): (usize, usize),
    cast: impl Fn(*const u8, *mut u8, usize) -> bool,
) -> Option<bool> {
    let cast = (from, cast);
    // SAFETY: the caller's; without the instructions nothing leads here.
    unsafe {
        match to {
            1 => pairs::cast_by_pairs(scattered, avx512_block::<1>, cast),
            2 => pairs::cast_by_pairs(scattered, avx512_block::<2>, cast),
            4 => pairs::cast_by_pairs(scattered, avx512_block::<4>, cast),
            8 => pairs::cast_by_pairs(scattered, avx512_block::<8>, cast),
            _ => pairs::cast_by_pairs(scattered, avx512_block::<16>, cast),
        }
    }
}

/// The same; nothing leads here.
///
/// # Safety
/// As there.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn cast_scattered(
    _: &Scattered,
    _: (usize, usize),
    _: impl Fn(*const u8, *mut u8, usize) -> bool,
) -> Option<bool> {
    None
}

/// AVX2's vectors, of which there are twice as many registers here.
///
/// # Safety
/// As [`avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
unsafe fn half_lines_block<const SIZE: usize>(block: &Block<SIZE>, places: &mut Places) {
    // SAFETY: the caller's.
    unsafe { block.transpose::<x86::Avx2>(places, SIZE > 1) }
}

/// # Safety
/// As [`avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
unsafe fn whole_lines_block<const SIZE: usize>(block: &Block<SIZE>, places: &mut Places) {
    // Strips read lines four times, which the first cache must hold meanwhile.
    let strips =
        SIZE == 1 && block.from != From::Asked && Memory::get() == Memory::Near && !clash(block.rows);
    // SAFETY: the caller's.
    unsafe { block.transpose::<x86::Avx512>(places, !strips) }
}

/// Both vectors, by [`oblongs`].
///
/// # Safety
/// As [`avx512`], of what [`Block::likes_oblongs`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
unsafe fn oblong_block<const SIZE: usize>(block: &Block<SIZE>, places: &mut Places) {
    // SAFETY: the caller's.
    unsafe { block.oblongs::<x86::Avx512>(places) }
}

/// The same of fewer columns.
///
/// # Safety
/// As [`avx512`], of what [`Block::likes_narrow_oblongs`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
unsafe fn narrow_oblong_block<const SIZE: usize>(block: &Block<SIZE>, places: &mut Places) {
    // SAFETY: the caller's.
    unsafe { block.narrow_oblongs::<x86::Avx512>(places) }
}

/// # Safety
/// As [`avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512_block<const SIZE: usize>(block: &Block<SIZE>, places: &mut Places) {
    // SAFETY: the caller's; AVX2 is there where AVX-512 is.
    unsafe {
        let likes_half_lines = || match Memory::get() {
            Memory::Deep => block.likes_half_lines(places.destination),
            Memory::Near => block.fits_half_lines(),
            _ => false,
        };
        if block.likes_oblongs(places.destination) {
            oblong_block::<SIZE>(block, places)
        } else if block.likes_narrow_oblongs() {
            narrow_oblong_block::<SIZE>(block, places)
        } else if likes_half_lines() {
            half_lines_block::<SIZE>(block, places)
        } else {
            whole_lines_block::<SIZE>(block, places)
        }
    }
}

/// Bytes of the rows and columns that go straight to the destination: their lines stay in the first cache.
const DIRECT: (usize, usize) = (256, 256);
/// The same where the second cache is as good: edges are less of what is longer.
const NEAR: (usize, usize) = (1024, 512);
/// Bytes of the rows where what lines share is written slowly: one shares fewer with others.
const TALL: usize = 1024;
/// Bytes of those that are written around the caches: memory likes long pieces on both sides.
const STAGED: (usize, usize) = (512, 1024);
/// Bytes of the longest columns that are written as one where they follow each other: longer ones have few lines that
/// they share.
const WHOLE: usize = 1280;
/// Bytes that must follow one another in the destination for that.
const LEAST: usize = 512;
/// The two where lines that are read are asked for a block ahead, one with each that is written, and memory likes what
/// it is read in to be longer still: rows, of which there are some at least, and columns.
const SPREAD: (usize, usize, usize) = (128, 32, 2048);
/// Bytes of rows that come too late if those a few below are asked for.
const SHORT_ROW: usize = 512;
/// Bytes of a block where it is as long both ways: as much again is asked for, and both stay in the second cache.
const BLOCK: usize = 128 << 10;
/// Bytes of the rows, for elements of 1 to 16 bytes, and columns of blocks that are done side by side: the first cache
/// holds one, and memory likes to be read in few places at a time. Last, of narrow elements' rows that share sets of the
/// second cache.
const ACROSS: ([usize; 5], usize, usize) = ([512, 512, 256, 384, 512], 256, 192);
/// Bytes of the rows and columns of matrices whose columns get pairs of lines, and of the shortest columns and rows.
const PAIRS: (usize, usize) = (8 << 10, 2 << 10);
const LEAST_PAIRS: (usize, usize) = (640, 256);
/// Bytes of the columns that are transposed there before they are written.
const STRIP: usize = LINE;
/// Bytes of innermost axes that are long enough by themselves where nothing is written around the caches.
const LONG: usize = 128;
/// Elements of one or two bytes of such axes where it is: their squares are large already.
const LONG_SMALL: usize = 512;
/// Bytes of a matrix that the first cache holds with its result.
#[cfg(target_arch = "x86_64")]
const NEAR_BYTES: usize = 8 << 10;
/// Elements of two bytes of one up to which vectors of half a line are better where whole ones are no slower.
#[cfg(target_arch = "x86_64")]
const NARROW_ELEMENTS: usize = 32 << 10;
/// Rows and columns that start at multiples of so many bytes push each other out of the first cache.
pub const CLASHING: isize = 1024;
/// Of eight lines after the first as many as it has room for nevertheless.
const FEW_CLASH: usize = 2;

/// The matrices that are best for elements of a size, 1, 2, 4, 8 or 16 bytes, with the axis that is innermost in the
/// destination; others where the job has none of those, at last those that stay in the caches. `pairs`: whether
/// [`Memory::Near`] takes pairs of lines best.
pub fn reach(size: usize, how: How, memory: Memory, pairs: bool, inner: &Axis) -> Reaches {
    let Some(of_size) = REACHES.get(size.trailing_zeros() as usize) else { return NO_REACH };
    if how != How::Streamed || cfg!(not(target_arch = "x86_64")) {
        let way = match memory {
            // Columns that clash go by a buffer.
            Memory::Near if pairs && inner.source % CLASHING as i64 == 0 => 10,
            Memory::Near => 3,
            Memory::Other if cfg!(target_arch = "x86_64") => 3,
            Memory::Deep => 6,
            _ => 0,
        };
        return [Some(&of_size[way]), None, None];
    }
    let way = match memory {
        Memory::Near => 5,
        // Narrow elements take so long that memory can bring what comes next meanwhile.
        Memory::Other if size <= 2 && inner.source % CLASH as i64 != 0 => 7,
        Memory::Other => 9,
        Memory::Deep if inner.source % CLASH as i64 == 0 => 8,
        Memory::Deep => 7,
        // Rows of more axes start anywhere, and share sets of the second cache.
        Memory::Mesh if inner.extent as usize * size >= LEAST => 2,
        _ => 1,
    };
    // Rows that share sets of the first cache have less of it.
    let shares = usize::from(inner.source % CLASH as i64 == 0);
    let pairs = (pairs && memory == Memory::Near).then(|| &of_size[[4, 12][shares]]);
    [pairs, Some(&of_size[way]), Some(&of_size[11])]
}

/// The matrices that are best for a cast between elements of some bytes, whose result is written around the caches or not;
/// others where the job has none of those. What widens gets no pairs of lines unless `pairs` says so: it has more to write than to
/// read, which memory likes in longer pieces.
pub fn reach_of_casts((from, to): (usize, usize), streams: bool, pairs: bool) -> Reaches {
    let place = |size: usize| size.trailing_zeros() as usize;
    let of_sizes = CASTS.get(place(from)).and_then(|all| all.get(place(to)));
    let blocks = of_sizes.map(|all| &all[usize::from(streams)]);
    #[cfg(target_arch = "x86_64")]
    if streams
        && (from >= to || pairs)
        && Isa::get() == Isa::Avx512
        && Memory::is_zen5()
        && is_x86_feature_detected!("avx512vbmi")
    {
        return [reach_of_pairs(to), blocks, None];
    }
    _ = pairs;
    [blocks, None, None]
}

/// Where columns get pairs of lines.
#[cfg(target_arch = "x86_64")]
fn reach_of_pairs(size: usize) -> Option<&'static Reach> {
    REACHES.get(size.trailing_zeros() as usize).map(|all| &all[4])
}

/// By the size of elements: 1, 2, 4, 8 and 16 bytes.
static REACHES: [[Reach; 13]; 5] = [reaches(1), reaches(2), reaches(4), reaches(8), reaches(16)];

/// Those of [`put_scattered`] by the sizes of elements of the source and of the destination: through the caches, and around them.
static CASTS: [[[Reach; 2]; 5]; 5] = {
    let mut all = [[[reach_of_puts(1, 1, false), reach_of_puts(1, 1, true)]; 5]; 5];
    let mut place = 1;
    while place < 25 {
        let (from, to) = (1 << (place / 5), 1 << (place % 5));
        all[place / 5][place % 5] = [reach_of_puts(from, to, false), reach_of_puts(from, to, true)];
        place += 1;
    }
    all
};

/// Rows that make long pieces of the result, and as many columns as the caches hold of those. A matrix by itself has its own
/// ways, unless it is long and narrow and written around the caches.
const fn reach_of_puts(from: usize, to: usize, streams: bool) -> Reach {
    let (piece, least, most, block) =
        if streams { (2048, 256, 512, 256 << 10) } else { (1024, 64, 256, 48 << 10) };
    let rows = match piece / to {
        rows if rows < least => least,
        rows if rows > most => most,
        rows => rows,
    };
    let columns = block / (rows * from);
    let [_, staged, ..] = reaches(from);
    Reach {
        rows,
        columns: if columns < 256 { columns } else { 256 },
        least_rows: if streams { 32 } else { 64 },
        alone_rows: 512,
        side: if streams { 4 } else { 8 },
        alone: if streams { 16 } else { usize::MAX },
        long: 256,
        around: streams,
        ..staged
    }
}

/// Those that go straight to the destination, and those that are written around the caches, as they are read or in long
/// runs that are asked for before; then those of [`Memory::Near`], the second for [`pairs`], the third in blocks that are
/// asked for before; both of [`Memory::Deep`], the second for [`side_by_side`], and where its rows clash; the second of
/// [`Memory::Other`], of which only short rows are asked for a block ahead; that of [`Memory::Near`] where rows clash,
/// however long the innermost axis is; what stays in the caches of a job that is written around them, where rows that are
/// put together are too short for that, but longer than one; last that of [`pairs`] where rows share sets of the first cache.
const fn reaches(size: usize) -> [Reach; 13] {
    let (rows, columns) = (DIRECT.0 / size, DIRECT.1 / size);
    let (alone, long) = (32 / size, LONG / size);
    let direct = Reach {
        rows,
        columns,
        least_rows: 1,
        alone_rows: 1,
        side: 1,
        lane: 16 / size,
        alone,
        channels: false,
        rows_first: false,
        long,
        spread: 0,
        across: false,
        least_columns: 1,
        steps: 1,
        fuses_columns: true,
        pairs: false,
        around: false,
    };
    let long = if size > 2 { usize::MAX >> 1 } else { LONG_SMALL };
    let (rows, columns) = (STAGED.0 / size, STAGED.1 / size);
    let (least_rows, side) = (LEAST / size, 16 / size);
    let staged = Reach {
        rows,
        columns,
        least_rows,
        alone_rows: least_rows,
        side,
        lane: 16 / size,
        alone: side,
        channels: false,
        rows_first: true,
        long,
        spread: 0,
        across: false,
        least_columns: 1,
        steps: 1,
        fuses_columns: true,
        pairs: false,
        around: true,
    };
    let (rows, columns) = (SPREAD.0 / size, SPREAD.2 / size);
    let rows = if rows < SPREAD.1 { SPREAD.1 } else { rows };
    let runs = Reach { rows, columns, spread: usize::MAX, ..staged };
    // A kilobyte of each row, unless that is too many.
    let columns = if size < 4 { 256 } else { 1024 / size };
    let blocks =
        Reach { rows: BLOCK / (columns * size), columns, spread: usize::MAX, channels: true, ..staged };
    // Short axes of wide elements are few vectors.
    let long = if size < 8 { LONG } else { 2 * LONG } / size;
    let tall = Reach { rows: TALL / size, long, ..direct };
    let near = Reach { rows: NEAR.0 / size, columns: NEAR.1 / size, long, ..direct };
    let rows = ACROSS.0[size.trailing_zeros() as usize] / size;
    let long = usize::MAX >> 1;
    let across = Reach { rows, columns: ACROSS.1 / size, spread: usize::MAX, across: true, long, ..staged };
    let few = ACROSS.2 / size;
    let apart = if size <= 2 { Reach { rows: few, columns: few, ..across } } else { across };
    // Windows of wide elements are few rows, and what each begins with takes its time.
    let columns = if size == 16 { 4 * PAIRS.1 } else { PAIRS.1 };
    let short = Reach { spread: SHORT_ROW / size, ..staged };
    let pairs = Reach {
        rows: PAIRS.0 / size,
        columns: columns / size,
        least_rows: LEAST_PAIRS.0 / size,
        alone_rows: LEAST_PAIRS.0 / size,
        least_columns: if cfg!(test) { 1 } else { LEAST_PAIRS.1 / size },
        steps: LINE / size,
        // Of narrow elements short axes are no faster so.
        fuses_columns: size > 2,
        spread: usize::MAX,
        long,
        pairs: true,
        ..staged
    };
    let clashing = Reach { long: usize::MAX >> 1, ..near };
    let few = Reach { alone: usize::MAX >> 1, ..near };
    let narrow = Reach { columns: if size == 16 { 2 * PAIRS.1 } else { PAIRS.1 } / size, ..pairs };
    [direct, staged, runs, near, pairs, blocks, tall, across, apart, short, clashing, few, narrow]
}

/// `lines`: a vector is as long as a line, so that no line has to stay in a cache until the rest of it is written.
///
/// # Safety
/// As [`ScatteredFn`]; the processor has the instructions of `transpose`.
#[inline(always)]
unsafe fn scattered<const SIZE: usize>(
    scattered: &Scattered,
    how: How,
    transpose: BlockFn<SIZE>,
    lines: bool,
) {
    let Scattered { source, destination, matrices, end, far } = *scattered;
    let Matrices { ref rows, columns, outer, .. } = *matrices;
    // Only some processors write around their caches.
    let streams = cfg!(target_arch = "x86_64") && how == How::Streamed;
    let mut at = PerAxis::new();
    // Vectors that are lines write each at once, if it is in a cache by then. On Zen 5 reading it back takes longer.
    let fits = || !far && knows_sets() && has_room(columns, rows.offsets.len() * SIZE);
    let is_whole = || (destination as usize | (rows.offsets.len() * SIZE)).is_multiple_of(LINE);
    let is_crowded = || (far || !lines) && !fits() || Memory::is_zen5() && crowd(columns, is_whole());
    let clashes = matrices.clash && is_crowded();
    let clashes = clashes || far && clashes_nearly(columns, if lines { SIZE } else { 2 * SIZE });
    if !streams && !clashes {
        // On Zen 5 what the third cache holds of those comes before it could be asked for.
        let comes_by_itself = matches!(SIZE, 2 | 16) && Memory::is_zen5();
        let from = if far && !comes_by_itself { From::Memory } else { From::Caches };
        for index in 0..rows.blocks {
            let block = Block::<SIZE>::of(rows, index, columns, end, from);
            // SAFETY: the caller's.
            unsafe {
                let source = source.offset(index as isize * rows.next);
                let to = destination.add(index * rows.offsets.len() * SIZE);
                transpose(&block, &mut Places::new(outer, source, to, &mut at));
            }
        }
        return;
    }
    // SAFETY: the caller's.
    unsafe {
        if matrices.across.extent > 1 {
            side_by_side::<SIZE>(scattered, transpose);
        } else {
            by_a_buffer::<SIZE>(scattered, streams, transpose);
        }
    }
}

/// Whether lines that start there push each other out of the first cache.
#[inline(always)]
pub fn clash(lines: &[isize]) -> bool {
    lines.len() > 8 && lines[1..=8].iter().filter(|line| *line % CLASHING == 0).count() > FEW_CLASH
}

/// Whether columns of so many bytes that start there are as well written where they are, though they clash: the first cache
/// has room for a line of each, or none is longer than that.
#[inline(never)]
fn has_room(columns: &[isize], bytes: usize) -> bool {
    const SETS: isize = CLASH / LINE as isize;
    let mut of_set = [0; SETS as usize];
    let mut fits = |column: &isize| {
        let set = &mut of_set[column.div_euclid(LINE as isize).rem_euclid(SETS) as usize];
        *set += 1;
        *set <= WAYS
    };
    bytes <= LINE || columns.iter().all(&mut fits)
}

/// Whether they are more than one set of it holds, or, where whole lines are written, more than a quarter of them as well: what
/// four sets have gains nothing by a buffer.
#[inline(always)]
fn crowd(lines: &[isize], whole: bool) -> bool {
    /// Lines of a set, and how many are looked at.
    const WAYS: usize = 12;
    const SOME: usize = 64;
    let some = &lines[..lines.len().min(SOME)];
    let most = if whole { WAYS.max(some.len().div_ceil(4)) } else { WAYS };
    clash(lines) && some.iter().filter(|line| **line % CLASH == 0).count() > most
}

/// Whether they do that start about a multiple of four kilobytes apart, so that none is written whole. `size`: of elements, or
/// twice that where vectors are half a line, for squares of those have half as many lines.
#[inline(never)]
fn clashes_nearly(lines: &[isize], size: usize) -> bool {
    let near = 16 * size.max(2) as isize;
    size <= 4
        && lines.len() > 8
        && lines[1..=8].iter().filter(|line| **line % CLASH != 0 && off(**line, CLASH) < near).count()
            > FEW_CLASH
}

/// # Safety
/// As [`scattered`].
#[inline(never)]
unsafe fn by_a_buffer<const SIZE: usize>(scattered: &Scattered, streams: bool, transpose: BlockFn<SIZE>) {
    let Scattered { source, destination, matrices, end, far } = *scattered;
    let Matrices { ref rows, columns, outer, .. } = *matrices;
    let mut room = [const { MaybeUninit::uninit() }; MOST];
    let staged = Staged::new(rows.offsets.len() * SIZE, columns.len(), streams, &mut room);
    // Whether what is read next is asked for as something is written.
    let spread = matrices.spread && streams && staged.is_some();
    // What is staged is done matrix by matrix, else the same of each of them together.
    let (most, by_one, together) = match &staged {
        None => (columns.len(), &[][..], outer),
        Some(staged) => (staged.columns.len(), outer, &[][..]),
    };
    // Columns that follow one another are written as one: what two share of a line is not written by itself.
    let whole = rows.offsets.len() * SIZE;
    let follow = streams
        && staged.is_some()
        && rows.blocks == 1
        && whole <= WHOLE
        && (Memory::get() == Memory::Near || cfg!(test))
        && !(destination as usize | whole).is_multiple_of(LINE)
        && (0..).zip(columns).all(|(index, column)| *column == index * whole as isize);
    let all = columns;
    // What is read in one piece: rows that do not follow each other, if the source has as many columns.
    let runs =
        1 + rows.offsets.windows(2).filter(|two| two[1] - two[0] != (columns.len() * SIZE) as isize).count();
    let from = if far && !spread { From::Memory } else { From::Asked };
    // Strips of single bytes read a line four times, and rows that share sets would push it out meanwhile.
    let gathers = SIZE == 1
        && !streams
        && staged.is_some()
        && (knows_sets() || cfg!(test))
        && columns.len() >= LINE
        && clash(rows.offsets);
    let gathered = if gathers { Gathered::new() } else { None };
    let (mut at, mut at_together) = (PerAxis::new(), PerAxis::new());
    let mut places = Places::new(by_one, source, destination, &mut at);
    loop {
        let mut first = 0;
        while first < columns.len() {
            let next_columns = columns.len().saturating_sub(first + most).min(most);
            let columns = &columns[first..columns.len().min(first + most)];
            for index in 0..rows.blocks {
                // SAFETY: the caller's; the buffer has room for so many columns.
                unsafe {
                    let source = places.source.add(first * SIZE).offset(index as isize * rows.next);
                    let to = places.destination.add(index * rows.offsets.len() * SIZE);
                    let mut ahead = spread.then(|| {
                        let (below, right) = (index + 1 < rows.blocks, next_columns > 0);
                        let (next, width) = match (below, right) {
                            (true, _) => (source.wrapping_offset(rows.next), columns.len()),
                            (false, true) => {
                                (places.source.wrapping_add((first + most) * SIZE), next_columns)
                            }
                            (false, false) => (matrices.after(&places), columns.len()),
                        };
                        let offsets = rows.of(if below { index + 1 } else { 0 });
                        Ahead::new(offsets.iter().map(move |row| next.wrapping_offset(*row)), width * SIZE)
                    });
                    let lines = lines_each(runs, rows.of(index).len() * columns.len() * SIZE, columns.len());
                    let mut done = 0;
                    while done < columns.len() {
                        let left = columns.len() - done;
                        let count = match &gathered {
                            _ if spread && left >= 2 * STRIP / SIZE => STRIP / SIZE,
                            Some(_) => left.min(Gathered::BYTES / SIZE),
                            None => left,
                        };
                        let (source, columns) = (source.add(done * SIZE), &columns[done..done + count]);
                        let (into, starts) = staged.as_ref().map_or((to, columns), |staged| {
                            let starts =
                                if follow { &all[..count] } else { &staged.columns[done..done + count] };
                            (staged.stage.start().add(LINE), starts)
                        });
                        let mut block = Block::<SIZE>::of(rows, index, starts, end, from);
                        let height = block.rows.len();
                        let mut source = source;
                        if let Some(gathered) = &gathered {
                            source = gathered.bring(source, block.rows, count * SIZE);
                            block = Block::asked(&gathered.starts[..height], starts);
                        }
                        transpose(&block, &mut Places::new(together, source, into, &mut at_together));
                        if follow && let Some(staged) = &staged {
                            let (at, bytes) = (first + done, count * whole);
                            let ends = (at == 0, at + count == all.len());
                            write_around(staged.stage.start(), to.offset(columns[0]), bytes, ends.0, ends.1);
                            if let Some(ahead) = &mut ahead {
                                ahead.ask(lines * count);
                            }
                        } else if let Some(staged) = &staged {
                            let ends = (index == 0, index + 1 == rows.blocks);
                            let bytes = height * SIZE;
                            for (column, start) in columns.iter().zip(starts) {
                                staged.write(*start, to.offset(*column), bytes, ends);
                                if let Some(ahead) = &mut ahead {
                                    ahead.ask(lines);
                                }
                            }
                        }
                        done += count;
                    }
                }
            }
            first += most;
        }
        if !places.advance() {
            break;
        }
    }
}

/// What was read of a run last, and what comes next of it, is what memory has at hand: blocks of the same rows that are
/// side by side are done one after another, and what is left of a line of the destination waits for the rows below.
///
/// # Safety
/// As [`scattered`], of a stream.
#[inline(never)]
unsafe fn side_by_side<const SIZE: usize>(scattered: &Scattered, transpose: BlockFn<SIZE>) {
    let Scattered { source, destination, matrices, end, .. } = *scattered;
    let Matrices { ref rows, columns, across, last, outer, .. } = *matrices;
    let mut room = [const { MaybeUninit::uninit() }; MOST];
    let staged = Staged::new(rows.offsets.len() * SIZE, columns.len(), true, &mut room);
    let (carried, lines) = staged.as_ref().map_or((std::ptr::null_mut(), 0), Staged::rest);
    let most = staged.as_ref().map_or(columns.len(), |staged| staged.columns.len());
    // As many side by side as have lines to wait in, of which there are more than columns.
    let some = if rows.blocks > 1 { (lines / columns.len()).max(1) as i64 } else { across.extent };
    let runs = rows.offsets.len();
    let columns_of = |block: i64| if block + 1 == across.extent { &columns[..last] } else { columns };
    let (mut at, mut at_one) = (PerAxis::new(), PerAxis::new());
    let mut places = Places::new(outer, source, destination, &mut at);
    loop {
        let mut first = 0;
        while first < across.extent {
            let beyond = across.extent.min(first + some);
            for (index, block) in
                (0..rows.blocks).flat_map(|index| (first..beyond).map(move |block| (index, block)))
            {
                let from = |index: usize, block: i64| {
                    places
                        .source
                        .wrapping_offset(block as isize * across.source as isize + index as isize * rows.next)
                };
                let (next, width, below) = match (block + 1 < beyond, index + 1 < rows.blocks) {
                    (true, _) => (from(index, block + 1), columns_of(block + 1).len(), index),
                    (false, true) => (from(index + 1, first), columns.len(), index + 1),
                    _ if beyond < across.extent => (from(0, beyond), columns_of(beyond).len(), 0),
                    _ => (matrices.after(&places), columns.len(), 0),
                };
                let below = rows.of(below).iter().map(|row| next.wrapping_offset(*row));
                let mut ahead = Ahead::new(below, width * SIZE);
                let columns = columns_of(block);
                let lines = lines_each(runs, runs * width * SIZE, columns.len());
                let ends = (index == 0, index + 1 == rows.blocks);
                // More than the buffer has room for are rare.
                for done in (0..columns.len()).step_by(most) {
                    let columns = &columns[done..columns.len().min(done + most)];
                    // SAFETY: the caller's; the buffer has room for so many columns, and for the lines that wait.
                    unsafe {
                        let source = from(index, block).add(done * SIZE);
                        let to = places.destination.offset(block as isize * across.destination as isize);
                        let to = to.add(index * rows.offsets.len() * SIZE);
                        let (into, starts) = staged.as_ref().map_or((to, columns), |staged| {
                            (staged.stage.start().add(LINE), &staged.columns[..columns.len()])
                        });
                        let part = Block::<SIZE>::of(rows, index, starts, end, From::Asked);
                        transpose(&part, &mut Places::new(&[], source, into, &mut at_one));
                        let Some(staged) = &staged else { continue };
                        let bytes = part.rows.len() * SIZE;
                        let before = (block - first) as usize * matrices.columns.len() + done;
                        let carried = (before..).map(|line| carried.wrapping_add(line));
                        for ((column, start), carried) in columns.iter().zip(starts).zip(carried) {
                            let waits = staged.stage.start().offset(*start).cast::<Line>();
                            if !ends.0 {
                                waits.write(carried.read());
                            }
                            staged.write(*start, to.offset(*column), bytes, ends);
                            if !ends.1 {
                                carried.write(waits.read());
                            }
                            ahead.ask(lines);
                        }
                    }
                }
            }
            first = beyond;
        }
        if !places.advance() {
            break;
        }
    }
}

/// The same address, computed before anything is added to it: else the compiler adds to each row that is looked up
/// what all of them start from, and what goes from tile to tile in the instruction that reads.
#[inline(always)]
fn by_itself(address: *const u8) -> *const u8 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let computed;
        // SAFETY: there is no instruction.
        unsafe {
            std::arch::asm!(
                "/* {} */",
                inlateout(reg) address => computed,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        computed
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    address
}

/// Where so many columns start that are so many bytes apart.
fn starts(room: &mut [MaybeUninit<isize>; MOST], count: usize, pitch: usize) -> &[isize] {
    let starts = &mut room[..count];
    starts.iter_mut().zip(0..).for_each(|(start, index)| {
        start.write(index * pitch as isize);
    });
    // SAFETY: all of them have just been written.
    unsafe { &*(&raw const *starts as *const [isize]) }
}

/// A way by a buffer.
struct Staged<'a> {
    stage: Stage,
    /// Where columns start there, after a line in which what was before the first may wait.
    columns: &'a [isize],
    /// Bytes from one to the next.
    pitch: usize,
    /// Whether the way out is around the caches.
    streams: bool,
}

impl<'a> Staged<'a> {
    /// For columns of so many bytes, as many of `count` as there is room for; None: there is no buffer.
    fn new(
        bytes: usize,
        count: usize,
        streams: bool,
        columns: &'a mut [MaybeUninit<isize>; MOST],
    ) -> Option<Staged<'a>> {
        let stage = Stage::take()?;
        let pitch = bytes.next_multiple_of(LINE) + LINE;
        let columns = starts(columns, count.min((STAGE - LINE) / pitch), pitch);
        Some(Staged { stage, columns, pitch, streams })
    }

    /// What of the buffer columns leave, with the lines after it: lines, and how many.
    fn rest(&self) -> (*mut Line, usize) {
        let used = self.columns.last().map_or(0, |last| *last as usize) + self.pitch + LINE;
        (self.stage.start().wrapping_add(used).cast(), (STAGE - used) / LINE + MOST_COLUMNS)
    }

    /// Writes the `bytes` of the column that starts there to where it goes; whether they are the first and the last
    /// of it.
    ///
    /// # Safety
    /// The buffer holds them, and they are writable there.
    #[inline(always)]
    unsafe fn write(&self, start: isize, to: *mut u8, bytes: usize, ends: (bool, bool)) {
        // SAFETY: the caller's.
        unsafe {
            let from = self.stage.start().offset(start);
            if self.streams {
                write_around(from, to, bytes, ends.0, ends.1);
            } else {
                from.add(LINE).copy_to_nonoverlapping(to, bytes);
            }
        }
    }
}

/// A part of each of some rows that share sets of the first cache, in a buffer where they do not.
struct Gathered {
    stage: Stage,
    /// Where each row starts there.
    starts: [isize; MOST],
}

impl Gathered {
    /// Bytes of a row that there is room for.
    const BYTES: usize = 2 * LINE;

    /// None: there is no buffer.
    fn new() -> Option<Gathered> {
        const PITCH: usize = Gathered::BYTES + LINE;
        const { assert!(MOST * PITCH <= STAGE) };
        Some(Gathered { stage: Stage::take()?, starts: std::array::from_fn(|row| (row * PITCH) as isize) })
    }

    /// Copies so many bytes of each row, and says where the first is.
    ///
    /// # Safety
    /// They are readable from where the rows start, of which there are [`MOST`] at most.
    unsafe fn bring(&self, source: *const u8, rows: &[isize], bytes: usize) -> *const u8 {
        debug_assert!(bytes <= Gathered::BYTES);
        let to = self.stage.start();
        for (row, start) in rows.iter().zip(&self.starts) {
            // SAFETY: the caller's.
            unsafe { source.offset(*row).copy_to_nonoverlapping(to.offset(*start), bytes) };
        }
        to
    }
}

/// Where a block reads from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// The caches hold it, and what is written.
    Caches,
    /// Maybe memory, so that what is read next is asked for.
    Memory,
    /// Memory, but it was asked for before.
    Asked,
}

/// How vectors of elements are loaded.
pub trait Load<V> {
    /// # Safety
    /// As many elements are readable there; the processor has the vector's instructions.
    unsafe fn load(from: *const u8) -> V;
}

/// As they are.
struct AsIs;

impl<V: Vector> Load<V> for AsIs {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> V {
        // SAFETY: the caller's.
        unsafe { V::load(from) }
    }
}

/// Does the tiles of a block in each of the matrices, and returns.
macro_rules! each {
    ($block:ident, $places:ident, $tiles:ident[$($argument:tt)*]) => {
        loop {
            // SAFETY: the caller's.
            unsafe { $block.$tiles::<$($argument)*>($places.source, $places.destination) };
            if !$places.advance() {
                return;
            }
        }
    };
}

/// The part of matrices that are alike that is a block of their rows.
struct Block<'a, const SIZE: usize> {
    rows: &'a [isize],
    columns: &'a [isize],
    /// The rows after these, and where they are from here.
    ahead: &'a [isize],
    next: isize,
    from: From,
    /// Matrices that start here or before have a whole lane to read from where each row starts. Null: nothing is known.
    whole: *const u8,
    /// The last place from which a whole lane may be read, in pages that have elements. Null as well.
    last: *const u8,
}

impl<'a, const SIZE: usize> Block<'a, SIZE> {
    /// Of rows whose lines were asked for, or are in the caches, nothing of what is around them.
    #[inline(always)]
    fn asked(rows: &'a [isize], columns: &'a [isize]) -> Self {
        let none = std::ptr::null();
        Block { rows, columns, ahead: &[], next: 0, from: From::Asked, whole: none, last: none }
    }

    #[inline(always)]
    fn of(rows: &Rows<'a>, index: usize, columns: &'a [isize], end: End, from: From) -> Self {
        let Rows { offsets, blocks, next, .. } = *rows;
        let rows = rows.of(index);
        let ahead = if index + 1 < blocks { offsets } else { &offsets[..0] };
        let none = std::ptr::null();
        let (whole, last) = end.map_or((none, none), |(end, is_there)| {
            let last = end.wrapping_sub(16);
            let highest = || rows.iter().fold(0, |a, b| a.max(*b));
            (if is_there { last.wrapping_offset(-highest()) } else { none }, last)
        });
        Block { rows, columns, ahead, next, from, whole, last }
    }

    /// Whether vectors of half a line are better where two lines may share a whole one, as [`Matrix::likes_half_lines`]:
    /// of results whose columns start within lines and are long. For single bytes, of blocks that the first cache holds,
    /// it is shuffles that count.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn likes_half_lines(&self, to: *const u8) -> bool {
        let (height, width) = (self.rows.len(), self.columns.len());
        let is_long = match SIZE {
            1 => return height >= 32 && width >= 32 && height * width <= NEAR_BYTES && !self.is_far(),
            4 => height >= 24 && width >= 10,
            8 => height >= 64 && width >= 4 && height * width >= 768,
            _ => return false,
        };
        is_long && !(to as usize | (self.columns[1] | self.columns[width - 1]) as usize).is_multiple_of(LINE)
    }

    /// The same where vectors of half a line do as much at a time ([`Memory::Near`]): of what is read from the caches,
    /// where fewer rows are done twice at the edge, and of narrow elements, which take the more steps the wider vectors
    /// are.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn fits_half_lines(&self) -> bool {
        let (lane, height, width) = (16 / SIZE, self.rows.len(), self.columns.len());
        if self.from != From::Caches || height < 2 * lane || width < lane || crowd(self.columns, false) {
            return false;
        }
        // Rows that are done, with the overlap of the last ones.
        let done = |side: usize| match height % side {
            0 => height,
            left if left <= lane => height - left + lane,
            left => height - left + side,
        };
        let (halves, whole) = (done(2 * lane), done(4 * lane));
        match SIZE {
            1 => height < 4 * lane,
            // What does them whole gains nothing where that is much.
            2 if Memory::is_zen5() => {
                height * width <= NARROW_ELEMENTS && (width >= 2 * lane || 16 * halves < 15 * whole)
            }
            2 => width >= 2 * lane || halves < whole,
            4 => {
                20 * halves < 19 * whole || height >= 24 && width >= 10 && height * width * SIZE <= NEAR_BYTES
            }
            _ => 16 * halves < 15 * whole,
        }
    }

    #[inline(always)]
    fn is_far(&self) -> bool {
        self.from == From::Memory
    }

    /// Transposes it in each of the matrices. `squares`: by squares as wide as a vector, where there is room for some; those
    /// of single bytes are more vectors than there are registers.
    ///
    /// # Safety
    /// As [`baseline`].
    #[inline(always)]
    unsafe fn transpose<V: Vector>(&self, places: &mut Places, squares: bool) {
        let (lane, side) = (16 / SIZE, 16 / SIZE * V::LANES);
        let (height, width) = (self.rows.len(), self.columns.len());
        match (height, width) {
            // By itself, so that the others keep nothing at hand for it.
            _ if squares && height >= side && width >= side && self.is_far() => {
                each!(self, places, squares[V, true])
            }
            _ if squares && height >= side && width >= side => each!(self, places, squares[V, false]),
            _ if self.is_wide::<V>() => each!(self, places, wide[V]),
            _ if height >= side && width >= lane && self.is_far() => each!(self, places, tall[V, true]),
            _ if height >= side && width >= lane => each!(self, places, tall[V, false]),
            _ if height >= side => each!(self, places, narrow[V]),
            _ if width >= side => each!(self, places, flat[V]),
            _ if height >= lane && width >= lane => each!(self, places, tall[V::Lane, false]),
            _ if height >= lane => each!(self, places, narrow[V::Lane]),
            _ if width >= lane => each!(self, places, flat[V::Lane]),
            _ if SIZE <= 2 && height >= half::<SIZE>() && width >= half::<SIZE>() => {
                each!(self, places, halves[V::Lane])
            }
            _ => each!(self, places, one_by_one[]),
        }
    }

    /// Transposes squares, and what is left at the two edges.
    ///
    /// # Safety
    /// As [`baseline`], with at least as many rows and columns as a vector has elements.
    #[inline(always)]
    unsafe fn squares<V: Vector, const FAR: bool>(&self, source: *const u8, to: *mut u8) {
        let side = 16 / SIZE * V::LANES;
        let (height, width) = (self.rows.len() / side * side, self.columns.len() / side * side);
        let mut row = 0;
        // SAFETY: the caller's.
        unsafe {
            while row < height {
                let (mut column, mut from) = (0, source);
                while column < width {
                    if FAR && column * SIZE % LINE < side * SIZE {
                        self.ask(source, row + side, side, column);
                    }
                    self.square::<V>(from, to, row, column);
                    (column, from) = (column + side, from.add(side * SIZE));
                }
                if !FAR {
                    // What the lines that have just been read still hold is at hand in the first cache.
                    self.edge::<V>(source, to, row, width);
                }
                row += side;
            }
            if FAR && width < self.columns.len() {
                self.tall_from::<V, false>(source, to, width);
            }
            if height < self.rows.len() {
                self.flat_from::<V>(source, to, height);
            }
        }
    }

    /// Transposes the columns that squares leave at the right of some rows, by one that overlaps the last of those where that is
    /// less than two strips.
    ///
    /// # Safety
    /// As [`Block::squares`]; the rows are within the matrix.
    #[inline(always)]
    unsafe fn edge<V: Vector>(&self, source: *const u8, to: *mut u8, row: usize, first: usize) {
        let (lane, side, width) = (16 / SIZE, 16 / SIZE * V::LANES, self.columns.len());
        // SAFETY: the caller's; the square ends where rows do.
        unsafe {
            if V::LANES == 2 && width - first > lane {
                let column = width - side;
                let from = source.add(column * SIZE);
                self.square_beside::<V, AsIs>(from, to, (row, column), (first - column, side), || ());
            } else {
                self.strips::<V>(source, to, row, first);
            }
        }
    }

    /// Whether squares as wide as a vector are better for it than strips as wide as a lane, though it has fewer columns: where
    /// vectors have two lanes, and what is around its rows may be read.
    #[inline(always)]
    fn is_wide<V: Vector>(&self) -> bool {
        let (lane, side) = (16 / SIZE, 16 / SIZE * V::LANES);
        let is_between = lane < self.columns.len() && self.columns.len() < side;
        V::LANES == 2
            && SIZE > 1
            && is_between
            && self.rows.len() >= side
            && !self.is_far()
            && !self.whole.is_null()
    }

    /// Transposes columns that are fewer than a vector has elements by squares nevertheless, but for the rows at the end of
    /// the source.
    ///
    /// # Safety
    /// As [`baseline`], of what [`Block::is_wide`].
    #[inline(always)]
    unsafe fn wide<V: Vector>(&self, source: *const u8, to: *mut u8) {
        let side = 16 / SIZE * V::LANES;
        let (height, width) = (self.rows.len(), self.columns.len());
        // What is read beyond a lane of each row.
        let more = 16 * (V::LANES as isize - 1);
        let mut row = 0;
        // SAFETY: the caller's; the last piece ends where rows do.
        unsafe {
            while row < height {
                row = row.min(height - side);
                if self.is_read_on(source, row, side, more) {
                    self.square_beside::<V, AsIs>(source, to, (row, 0), (0, width), || ());
                } else {
                    self.strips::<V>(source, to, row, 0);
                }
                row += side;
            }
        }
    }

    /// Whether so much more than a lane may be read from where some rows start, in a matrix that starts there.
    #[inline(always)]
    fn is_read_on(&self, source: *const u8, row: usize, count: usize, more: isize) -> bool {
        // All of them, for that is faster than to stop at one.
        let highest = || self.rows[row..row + count].iter().fold(isize::MIN, |a, b| a.max(*b));
        source.wrapping_offset(more) <= self.whole || source.wrapping_offset(highest() + more) <= self.last
    }

    /// Transposes columns as many as a lane has elements, and the last few in one that overlaps.
    ///
    /// # Safety
    /// As [`baseline`], with at least as many rows as a vector has elements, and columns as a lane has.
    #[inline(always)]
    unsafe fn tall<V: Vector, const FAR: bool>(&self, source: *const u8, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { self.tall_from::<V, FAR>(source, to, 0) }
    }

    /// The same from one on: some columns of some rows at a time, as in [`super::strips`].
    #[inline(always)]
    unsafe fn tall_from<V: Vector, const FAR: bool>(&self, source: *const u8, to: *mut u8, first: usize) {
        let lane = 16 / SIZE;
        let (height, width) = (self.rows.len(), self.columns.len());
        let (most_rows, most_columns) = most_of_strips(V::LANES, width);
        let mut top = 0;
        while top < height {
            let (rows, below) = self.rows[top..].split_at(part_of(height - top, most_rows));
            let (ahead, next) = if below.is_empty() { (self.ahead, self.next) } else { (below, 0) };
            let mut left = first;
            while left < width {
                let right = left + part_of(width - left, most_columns);
                // What is left is overlapped.
                let start = left.min(width - lane);
                let part = Block { rows, columns: &self.columns[start..right], ahead, next, ..*self };
                // SAFETY: the caller's; a part of that.
                unsafe {
                    let (source, to) = (source.add(start * SIZE), to.add(top * SIZE));
                    part.tall_part::<V, FAR>(source, to, left - start);
                }
                left = right;
            }
            top += rows.len();
        }
    }

    /// The same, all rows of each strip.
    #[inline(always)]
    unsafe fn tall_part<V: Vector, const FAR: bool>(&self, source: *const u8, to: *mut u8, first: usize) {
        let (lane, side) = (16 / SIZE, 16 / SIZE * V::LANES);
        let (height, width) = (self.rows.len(), self.columns.len());
        let mut row = 0;
        // SAFETY: the caller's; the last pieces end where rows do.
        unsafe {
            loop {
                if FAR {
                    (first..width)
                        .step_by(LINE / SIZE)
                        .for_each(|column| self.ask(source, row + side, side, column));
                }
                self.strips::<V>(source, to, row, first);
                row += side;
                match height - row {
                    0 => return,
                    left if V::LANES > 1 && left <= lane => {
                        return self.strips::<V::Lane>(source, to, height - lane, first);
                    }
                    left if V::LANES > 2 && left <= 2 * lane => {
                        return self.strips::<V::Half>(source, to, height - 2 * lane, first);
                    }
                    left if left < side => row = height - side,
                    _ => {}
                }
            }
        }
    }

    /// Transposes the columns from one on of as many rows as a vector has elements.
    ///
    /// # Safety
    /// As [`Block::tall`]; they are within the matrix.
    #[inline(always)]
    unsafe fn strips<V: Vector>(&self, source: *const u8, to: *mut u8, row: usize, first: usize) {
        let (lane, width) = (16 / SIZE, self.columns.len());
        let mut column = first;
        // SAFETY: the caller's; the last piece ends where columns do.
        unsafe {
            let from = (source, self.rows.as_ptr().add(row));
            // What is left is overlapped, unless it is half of a tile or less.
            while column + lane / 2 < width {
                self.lanes_down::<V, true>(from, to, (row, column.min(width - lane)), 0, lane);
                column += lane;
            }
            // The fewer columns are written, the fewer steps lead to them.
            if column + lane / 4 < width {
                self.lanes_down::<V, true>(from, to, (row, width - lane), lane - lane / 2, lane);
            } else if column < width {
                self.lanes_down::<V, true>(from, to, (row, width - lane), lane - lane / 4, lane);
            }
        }
    }

    /// Transposes columns that are fewer.
    ///
    /// # Safety
    /// As [`baseline`], with at least as many rows as a vector has elements.
    #[inline(always)]
    unsafe fn narrow<V: Vector>(&self, source: *const u8, to: *mut u8) {
        let (lane, side) = (16 / SIZE, 16 / SIZE * V::LANES);
        let height = self.rows.len();
        let mut row = 0;
        // SAFETY: the caller's; the last piece ends where rows do.
        unsafe {
            while row < height {
                match height - row {
                    left if V::LANES > 1 && left <= lane => {
                        return self.narrow_part::<V::Lane>(source, to, height - lane);
                    }
                    left if V::LANES > 2 && left <= 2 * lane => {
                        return self.narrow_part::<V::Half>(source, to, height - 2 * lane);
                    }
                    left if left < side => row = height - side,
                    _ => {}
                }
                self.narrow_part::<V>(source, to, row);
                row += side;
            }
        }
    }

    /// The same of as many rows as a vector has elements.
    ///
    /// # Safety
    /// As [`Block::narrow`]; they are within the matrix.
    #[inline(always)]
    unsafe fn narrow_part<V: Vector>(&self, source: *const u8, to: *mut u8, row: usize) {
        const STEPS: [isize; 64] = {
            let mut steps = [0; 64];
            let mut row = 0;
            while row < 64 {
                steps[row] = 16 * row as isize;
                row += 1;
            }
            steps
        };
        let (width, is_whole) = (self.columns.len(), source <= self.whole);
        // SAFETY: the caller's; a lane of each row is in the room.
        unsafe {
            let rows = self.rows.as_ptr().add(row);
            if !is_whole && V::Lane::LOADS_PARTS {
                return self.lanes_down::<V, false>((source, rows), to, (row, 0), 0, width);
            }
            // One way on, or what both load is kept in memory until they meet.
            let mut room = [MaybeUninit::<V::Lane>::uninit(); 64];
            let from = if is_whole {
                (source, rows)
            } else {
                for (index, lane) in room.iter_mut().enumerate().take(16 / SIZE * V::LANES) {
                    let from = source.offset(*rows.add(index));
                    // Up to the end what is around elements is there, if it is in a page that has one.
                    let is_there = from <= self.last && from as usize % PAGE <= PAGE - 16;
                    lane.write(match is_there {
                        true => V::Lane::load(from),
                        false => V::Lane::load_part(from, width * SIZE),
                    });
                }
                (room.as_ptr().cast(), STEPS.as_ptr())
            };
            if SIZE <= 8 && width <= half::<SIZE>() {
                self.halves_down::<V>(from, to, row, width);
            } else {
                self.lanes_down::<V, true>(from, to, (row, 0), 0, width);
            }
        }
    }

    /// Transposes rows as many as a lane has elements, or fewer if there are no more.
    ///
    /// # Safety
    /// As [`baseline`], with at least as many columns as a vector has elements.
    #[inline(always)]
    unsafe fn flat<V: Vector>(&self, source: *const u8, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe { self.flat_from::<V>(source, to, 0) }
    }

    /// The same from one on, and a few before where fewer are left.
    #[inline(always)]
    unsafe fn flat_from<V: Vector>(&self, source: *const u8, to: *mut u8, first: usize) {
        let (lane, side) = (16 / SIZE, 16 / SIZE * V::LANES);
        let (height, width) = (self.rows.len(), self.columns.len());
        let mut column = 0;
        // SAFETY: the caller's; the last pieces end where rows and columns do.
        unsafe {
            while column < width {
                let at = column.min(width - side);
                let mut row = first;
                while row < height && height >= lane {
                    self.lanes_across::<V>(source, to, row.min(height - lane), lane, at);
                    row += lane;
                }
                if height == half::<SIZE>() && SIZE <= 2 {
                    self.halves_across::<V>(source, to, at);
                } else if height < lane {
                    self.lanes_across::<V>(source, to, 0, height, at);
                }
                column += side;
            }
        }
    }

    /// Transposes what is smaller than a lane both ways, by squares of half a lane.
    ///
    /// # Safety
    /// As [`baseline`], with at least as many rows and columns as half a lane has elements of one or two bytes.
    #[inline(always)]
    unsafe fn halves<L: Lane>(&self, source: *const u8, to: *mut u8) {
        let n = half::<SIZE>();
        for row in cover(self.rows.len(), n) {
            for column in cover(self.columns.len(), n) {
                let (mut from, mut into) = ([std::ptr::null(); 8], [std::ptr::null_mut(); 8]);
                // SAFETY: the caller's; the last pieces end where rows and columns do.
                unsafe {
                    for index in 0..n {
                        from[index] = source.offset(*self.rows.get_unchecked(row + index)).add(column * SIZE);
                        into[index] = to.offset(self.column(column + index)).add(row * SIZE);
                    }
                    half_square::<L, SIZE>(from, into);
                }
            }
        }
    }

    /// Transposes what is smaller still.
    ///
    /// # Safety
    /// As [`baseline`].
    #[inline(always)]
    unsafe fn one_by_one(&self, source: *const u8, to: *mut u8) {
        for (row, from) in self.rows.iter().enumerate() {
            for (column, start) in self.columns.iter().enumerate() {
                // SAFETY: the caller's.
                unsafe {
                    let value = source.offset(*from).add(column * SIZE).cast::<[u8; SIZE]>().read();
                    to.offset(*start).add(row * SIZE).cast::<[u8; SIZE]>().write(value);
                }
            }
        }
    }

    /// Asks for what is read of the rows from `row` on, which may be the next block's.
    #[inline(always)]
    fn ask(&self, source: *const u8, row: usize, count: usize, column: usize) {
        let (rows, source) = if row < self.rows.len() {
            (&self.rows[row..self.rows.len().min(row + count)], source)
        } else {
            (&self.ahead[..count.min(self.ahead.len())], source.wrapping_offset(self.next))
        };
        let each = |ask: fn(*const u8)| {
            rows.iter().for_each(|row| ask(source.wrapping_offset(*row).wrapping_add(column * SIZE)));
        };
        if asks_first() { each(prefetch_first) } else { each(prefetch_second) }
    }

    /// Where a column starts, from the first.
    ///
    /// # Safety
    /// There are more.
    #[inline(always)]
    unsafe fn column(&self, index: usize) -> isize {
        // SAFETY: the caller's.
        unsafe { *self.columns.get_unchecked(index) }
    }

    /// Transposes a square as wide as a vector, whose column is at `from` in the first row.
    ///
    /// # Safety
    /// It is within the matrix, from (row, column) on.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn square<V: Vector>(&self, from: *const u8, to: *mut u8, row: usize, column: usize) {
        // SAFETY: the caller's.
        unsafe { self.square_beside::<V, AsIs>(from, to, (row, column), (0, 16 / SIZE * V::LANES), || ()) }
    }

    /// The same of some of its columns, of vectors that are loaded in some way, and something else after each lane's vectors of
    /// it have been transposed.
    ///
    /// # Safety
    /// As [`Block::square`]; of the other columns it is enough that they are readable.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn square_beside<V: Vector, L: Load<V>>(
        &self,
        from: *const u8,
        to: *mut u8,
        (row, column): (usize, usize),
        (first, end): (usize, usize),
        mut beside: impl FnMut(),
    ) {
        let n = 16 / SIZE;
        // SAFETY: rows and columns stay below LANES * n.
        unsafe {
            let from = by_itself(from);
            let rows = self.rows.as_ptr().add(row);
            let mut tile = [[MaybeUninit::<V>::uninit(); 16]; 4];
            for lane in 0..V::LANES {
                let vectors = sixteen!(INDEX => L::load(from.offset(*rows.add(lane * n + INDEX % n))));
                let vectors = turn::<V, SIZE>(vectors);
                for index in 0..n {
                    tile[lane][index].write(vectors[index]);
                }
                beside();
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
                    if (first..end).contains(&(lane * n + index)) {
                        group[lane].store(to.offset(self.column(column + lane * n + index)));
                    }
                }
            }
        }
    }

    /// Transposes some columns, at most as many as a lane has elements, of as many rows as a vector has, which start there:
    /// of `count` columns those from `first` on. `WHOLE`: a whole lane may be read of each row.
    ///
    /// # Safety
    /// They are within the matrix, from (row, column) on.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn lanes_down<V: Vector, const WHOLE: bool>(
        &self,
        (source, rows): (*const u8, *const isize),
        to: *mut u8,
        (row, column): (usize, usize),
        first: usize,
        count: usize,
    ) {
        let n = 16 / SIZE;
        // SAFETY: rows stay below LANES * n, columns below theirs.
        unsafe {
            let from = by_itself(source.add(column * SIZE));
            let vectors = sixteen!(INDEX => {
                let first = load_lane::<V::Lane, WHOLE>(from.offset(*rows.add(INDEX % n)), count * SIZE);
                let mut lanes = [first; 4];
                for lane in 1..V::LANES {
                    let from = from.offset(*rows.add(lane * n + INDEX % n));
                    lanes[lane] = load_lane::<V::Lane, WHOLE>(from, count * SIZE);
                }
                V::from_lanes(lanes)
            });
            let vectors = turn::<V, SIZE>(vectors);
            let to = to.add(row * SIZE);
            for index in 0..n {
                if (first..count).contains(&index) {
                    vectors[index].store(to.offset(self.column(column + index)));
                }
            }
        }
    }

    /// Transposes at most half as many columns as a lane has elements, of as many rows as a vector has, which start there,
    /// and of which a whole lane may be read.
    ///
    /// # Safety
    /// They are within the matrix.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn halves_down<V: Vector>(
        &self,
        (source, rows): (*const u8, *const isize),
        to: *mut u8,
        row: usize,
        count: usize,
    ) {
        let (n, half) = (16 / SIZE, half::<SIZE>());
        // SAFETY: rows stay below LANES * n, columns below theirs.
        unsafe {
            let from = by_itself(source);
            let vectors = sixteen!(INDEX => {
                let pair = |lane: usize| {
                    let rows = rows.add(lane * n + INDEX % half);
                    let (first, second) = (from.offset(*rows), from.offset(*rows.add(half)));
                    V::Lane::load(first).zip::<SIZE>(V::Lane::load(second)).0
                };
                let mut lanes = [pair(0); 4];
                for lane in 1..V::LANES {
                    lanes[lane] = pair(lane);
                }
                V::from_lanes(lanes)
            });
            let vectors = turn_half::<V, SIZE>(vectors);
            let to = to.add(row * SIZE);
            for index in 0..half {
                if index < count {
                    vectors[index].store(to.offset(self.column(index)));
                }
            }
        }
    }

    /// Transposes half as many rows as a lane has elements, of as many columns as a vector has.
    ///
    /// # Safety
    /// They are within the matrix, from the column on; elements have one or two bytes.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn halves_across<V: Vector>(&self, source: *const u8, to: *mut u8, column: usize) {
        let n = half::<SIZE>();
        // SAFETY: columns stay below LANES * 2 * n, rows below n.
        unsafe {
            let from = by_itself(source.add(column * SIZE));
            let rows = self.rows.as_ptr();
            let vectors = sixteen!(INDEX => V::load(from.offset(*rows.add(INDEX % n))));
            let vectors = turn_half::<V, SIZE>(vectors);
            for lane in 0..V::LANES {
                for index in 0..n {
                    let first = column + 2 * (lane * n + index);
                    let (low, high) = (to.offset(self.column(first)), to.offset(self.column(first + 1)));
                    vectors[index].lane(lane).store_halves(low, high);
                }
            }
        }
    }

    /// Transposes some rows, at most as many as a lane has elements, of as many columns as a vector has.
    ///
    /// # Safety
    /// They are within the matrix, from (row, column) on.
    #[cfg_attr(not(debug_assertions), inline(always))]
    unsafe fn lanes_across<V: Vector>(
        &self,
        source: *const u8,
        to: *mut u8,
        row: usize,
        count: usize,
        column: usize,
    ) {
        let n = 16 / SIZE;
        // SAFETY: columns stay below LANES * n, rows below theirs.
        unsafe {
            let from = by_itself(source.add(column * SIZE));
            let rows = self.rows.as_ptr().add(row);
            let vectors = sixteen!(INDEX => V::load(from.offset(*rows.add((INDEX % n).min(count - 1)))));
            let vectors = turn::<V, SIZE>(vectors);
            let to = to.add(row * SIZE);
            for lane in 0..V::LANES {
                for index in 0..n {
                    let to = to.offset(self.column(column + lane * n + index));
                    if count == n {
                        vectors[index].lane(lane).store(to);
                    } else {
                        vectors[index].lane(lane).store_part(to, count * SIZE);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "x86_64")]
    use std::cell::{Cell, RefCell};

    use super::super::super::fuse::each_matrix;
    #[cfg(target_arch = "x86_64")]
    use super::super::super::walk::each;
    use super::super::tests::{FEW, Guarded};
    use super::*;

    /// Numbers that look random.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % end
        }
    }

    /// Permutes axes of a source, dense or cut from longer rows, into a dense destination; false: that is not done by matrices.
    fn permuted(
        random: &mut Random,
        (isa, size): (Isa, usize),
        (how, memory, pairs): (How, Memory, bool),
        shape: &[i64],
        order: &[usize],
    ) -> bool {
        let mut sources = vec![0; shape.len()];
        let between = random.below(4).saturating_sub(1) * random.below(20);
        let mut step = size as i64;
        for axis in (0..shape.len()).rev() {
            sources[axis] = step;
            step *= shape[axis] + if axis + 1 == shape.len() { between as i64 } else { 0 };
        }
        let bytes = size * shape.iter().product::<i64>() as usize;
        let read = step as usize - between * size;
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
        // It ends where nothing may be read.
        let mut guarded = Guarded::new(read);
        let source = guarded.bytes();
        let source = source.split_at_mut(source.len() - read).1;
        source.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
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
        let far = random.below(2) == 0;
        let (from, to) = (source.as_ptr(), destination.as_mut_ptr());
        let start = (first, shift as i64);
        let done = reach(size, how, memory, pairs, &axes[inner]).into_iter().flatten().find_map(|reach| {
            each_matrix(&axes, (inner, near), reach, start, &mut |at, start, matrices, _| {
                // SAFETY: the matrices are parts of the two.
                unsafe {
                    let (source, destination) = (from.offset(at as isize), to.add(start as usize));
                    let end = matrices.end.map(|(end, dense)| (from.offset(end as isize), dense));
                    let how = if matrices.around { how } else { How::Cached };
                    transpose(&Scattered { source, destination, matrices, end, far }, how);
                }
                true
            })
        });
        if done.is_some() {
            assert!(destination == expected, "{isa:?}, {size} bytes, {how:?}, {shape:?}, {order:?}, {shift}");
        } else {
            assert!(destination.iter().all(|byte| *byte == 0xa5));
        }
        done.is_some()
    }

    const ALL: [Memory; 4] = [Memory::Other, Memory::Mesh, Memory::Deep, Memory::Near];

    #[test]
    fn random_permutations() {
        const EXTENTS: [i64; 12] = [2, 3, 4, 5, 7, 8, 9, 16, 17, 28, 64, 300];
        let mut random = Random(1);
        let most = if *FEW { 1 << 13 } else { 1 << 15 };
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Neon] {
            if !isa.is_there() {
                continue;
            }
            let mut done = 0;
            for (size, how) in
                [1, 2, 4, 8, 16].into_iter().flat_map(|s| [(s, How::Cached), (s, How::Streamed)])
            {
                for _ in 0..if *FEW { 30 } else { 100 } {
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
                    let how = (how, ALL[random.below(4)], random.below(2) == 0);
                    done += usize::from(permuted(&mut random, (isa, size), how, &shape, &order));
                }
            }
            assert!(done > 0, "{isa:?}");
        }
    }

    /// Every number of rows that a vector leaves.
    #[test]
    fn rows_that_are_left() {
        let mut random = Random(4);
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Neon].into_iter().filter(|isa| isa.is_there())
        {
            for size in [1, 2, 4, 8, 16] {
                for left in 0..64 / size {
                    for columns in [40 / size, 33 / size + 16 / size] {
                        let shape = [(128 / size + left) as i64, columns as i64];
                        let how = (How::Cached, Memory::Near, false);
                        let done = permuted(&mut random, (isa, size), how, &shape, &[1, 0]);
                        assert!(done, "{isa:?}, {size} bytes, {shape:?}");
                    }
                }
            }
        }
    }

    /// Every number of columns about lanes and vectors, of rows after which there may be nothing, or elements of others.
    #[test]
    fn columns_that_are_left() {
        let mut random = Random(7);
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Neon].into_iter().filter(|isa| isa.is_there())
        {
            for size in [1, 2, 4, 8] {
                for columns in 2..if *FEW { 40 } else { 80 } / size as i64 {
                    for side in [33, 47, 64].map(|bytes| bytes / size as i64 + 1) {
                        let how = (How::Cached, Memory::Near, false);
                        let mut check = |shape: &[i64], order: &[usize]| {
                            let done = permuted(&mut random, (isa, size), how, shape, order);
                            assert!(done, "{isa:?}, {size} bytes, {shape:?}");
                        };
                        check(&[3, side, columns], &[2, 1, 0]);
                        check(&[5, 2, side, columns], &[0, 3, 2, 1]);
                    }
                }
            }
        }
    }

    /// Narrow rows in pages between which others are missing.
    #[test]
    fn pages_that_are_missing() {
        const PAGES: usize = 20;
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Neon].into_iter().filter(|isa| isa.is_there())
        {
            for size in [1, 2, 4, 8] {
                let transpose = for_size(isa, size).unwrap();
                for width in 1..16 / size {
                    let mut guarded = Guarded::new(2 * PAGES * PAGE);
                    let (height, bytes) = (PAGES * 64 / size, width * size);
                    let source = guarded.bytes();
                    source.iter_mut().zip(0..).for_each(|(byte, at)| *byte = (at * 7 + at / 250) as u8);
                    // The last bytes of every other page, each row as far from its end as the next one is.
                    let each = height / PAGES;
                    let rows: Vec<_> = (0..height)
                        .map(|row| ((row / each * 2 + 1) * PAGE - (each - row % each) * bytes) as isize)
                        .collect();
                    let columns: Vec<_> =
                        (0..width).map(|column| (column * height * size) as isize).collect();
                    let mut destination = vec![0xa5; width * height * size];
                    let mut expected = destination.clone();
                    for (column, row) in
                        (0..width).flat_map(|column| (0..height).map(move |row| (column, row)))
                    {
                        let (from, to) = (rows[row] as usize + column * size, (column * height + row) * size);
                        expected[to..to + size].copy_from_slice(&source[from..from + size]);
                    }
                    let end = source.as_ptr().wrapping_add(rows[height - 1] as usize + bytes);
                    for page in (1..2 * PAGES).step_by(2) {
                        // SAFETY: nothing of it is read, and the map goes with its end.
                        unsafe {
                            libc::mprotect(source.as_mut_ptr().add(page * PAGE).cast(), PAGE, libc::PROT_NONE)
                        };
                    }
                    let rows = Rows { offsets: &rows, blocks: 1, next: 0, last: height };
                    let matrices = Matrices {
                        rows,
                        columns: &columns,
                        clash: clash(&columns),
                        across: Axis { extent: 1, ..Axis::default() },
                        last: width,
                        outer: &[],
                        end: None,
                        spread: false,
                        pairs: false,
                        around: false,
                        next: 0,
                    };
                    let (from, to) = (source.as_ptr(), destination.as_mut_ptr());
                    let end = Some((end, false));
                    let matrices = &matrices;
                    let scattered = Scattered { source: from, destination: to, matrices, end, far: false };
                    // SAFETY: the rows are in pages that are there.
                    unsafe { transpose(&scattered, How::Cached) };
                    assert!(destination == expected, "{isa:?}, {size} bytes, {width}");
                }
            }
        }
    }

    /// Columns of every length about whole pairs, at every place of the destination; rows and columns of more axes, whose
    /// blocks end within pairs and strips; fewer columns than a strip has; and more than one matrix. Elsewhere nothing is
    /// written around the caches.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn pairs_of_lines() {
        let mut random = Random(5);
        for isa in [Isa::Baseline, Isa::Avx512].into_iter().filter(|isa| isa.is_there()) {
            for size in [1, 2, 4, 8, 16] {
                let how = (How::Streamed, Memory::Near, true);
                let (pair, side, lane) = (128 / size as i64, 64 / size as i64, 16 / size as i64);
                let mut check = |shape: &[i64], order: &[usize]| {
                    assert!(permuted(&mut random, (isa, size), how, shape, order), "{size} {shape:?}");
                };
                for left in (0..pair).step_by(if *FEW { 7 } else { 1 }) {
                    check(&[11 * pair + left, 2 * side + left % side], &[1, 0]);
                    check(&[11 * pair - left, lane + left % (side - lane)], &[1, 0]);
                }
                for columns in [lane, lane + 1, side, 3 * side - 1, 2048 / size as i64 + side + 1] {
                    check(&[250, 6, columns], &[2, 1, 0]);
                    check(&[3, 1300, columns], &[0, 2, 1]);
                }
                check(&[37, 38, 5, 17], &[3, 2, 1, 0]);
                check(&[5, 331, 13, side], &[3, 0, 1, 2]);
                check(&[1300, 5, 17], &[1, 2, 0]);
                check(&[1300, 5, 2, 16], &[2, 3, 1, 0]);
            }
        }
    }

    /// The same after a cast, for which the least byte of each number is taken and counted up: matrices as those of moves, and
    /// a value that is lost.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn casts_by_pairs_of_lines() {
        if !Isa::Avx512.is_there() || !is_x86_feature_detected!("avx512vbmi") {
            return;
        }
        let mut random = Random(6);
        for (from, to) in [
            (1, 1),
            (4, 1),
            (8, 1),
            (2, 2),
            (4, 2),
            (2, 4),
            (4, 4),
            (8, 4),
            (4, 8),
            (8, 8),
            (16, 8),
            (16, 16),
        ] {
            let (pair, side) = (128 / to as i64, 64 / to as i64);
            let mut check = |shape: &[i64], order: &[usize]| {
                for how in [Casts::ByPairs, Casts::AsLoaded, Casts::OneByOne, Casts::Lossy] {
                    cast(&mut random, (from, to), shape, order, how);
                }
            };
            for left in (0..pair).step_by(if *FEW { 37 } else { 5 }) {
                check(&[11 * pair + left, 2 * side + left % side], &[1, 0]);
            }
            // Rows of one piece, of more, and of one that is longer.
            for columns in [side / 2 + 1, 500, 600, 767, 1200] {
                check(&[9 * pair - 1, columns], &[1, 0]);
            }
            check(&[3, 1300, 70], &[0, 2, 1]);
            check(&[37, 38, 5, 17], &[3, 2, 1, 0]);
        }
    }

    /// The same by way of a buffer: columns that follow one another and do not, fewer than there is room for and more, in blocks of
    /// rows of which the last one is shorter.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn casts_by_way_of_a_buffer() {
        let mut random = Random(7);
        let cases: &[(&[i64], &[usize])] = &[
            (&[37, 5], &[1, 0]),
            (&[700, 41], &[1, 0]),
            (&[20, 300], &[1, 0]),
            (&[3, 130, 70], &[0, 2, 1]),
            (&[50, 11, 13], &[2, 1, 0]),
            (&[37, 18, 5, 17], &[3, 2, 1, 0]),
            (&[3, 40, 6, 20], &[2, 0, 3, 1]),
            (&[5, 131, 13, 8], &[3, 0, 1, 2]),
            (&[7, 16, 9, 3], &[2, 3, 1, 0]),
            (&[2, 3, 4, 5, 6], &[4, 1, 3, 0, 2]),
            // Some that follow one another, then others that do.
            (&[4, 35, 24, 7], &[2, 0, 3, 1]),
            (&[3, 64, 3, 90], &[2, 0, 3, 1]),
            (&[2, 100, 2, 150], &[2, 0, 3, 1]),
        ];
        for (from, to) in [(1, 1), (1, 4), (1, 8), (2, 2), (4, 1), (4, 2), (4, 4), (8, 2), (4, 8), (16, 4)] {
            for (shape, order) in if *FEW { &cases[3..7] } else { cases } {
                for around in [false, true] {
                    cast(&mut random, (from, to), shape, order, Casts::Put { around });
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Casts {
        ByPairs,
        /// By pairs, and as they are loaded, where a matrix is wide enough.
        AsLoaded,
        OneByOne,
        /// By pairs until a value is lost.
        Lossy,
        /// By way of a buffer, through the caches or around them.
        Put {
            around: bool,
        },
    }

    /// The cast of these tests.
    #[cfg(target_arch = "x86_64")]
    fn least(value: &[u8], result: &mut [u8]) {
        result.fill(value[0].wrapping_add(1));
        result[result.len() - 1] = value[value.len() - 1];
    }

    #[cfg(target_arch = "x86_64")]
    struct Least<const FROM: usize, const TO: usize>;

    #[cfg(target_arch = "x86_64")]
    impl<V: Vector, const FROM: usize, const TO: usize> Load<V> for Least<FROM, TO> {
        unsafe fn load(from: *const u8) -> V {
            let mut results = [0; LINE];
            let results = &mut results[..size_of::<V>()];
            // SAFETY: the caller's.
            let values = unsafe { std::slice::from_raw_parts(from, results.len() / TO * FROM) };
            for (value, result) in values.chunks(FROM).zip(results.chunks_mut(TO)) {
                least(value, result);
            }
            // SAFETY: they are as long; the processor has the instructions.
            unsafe { V::load(results.as_ptr()) }
        }
    }

    /// Casts a dense source to a dense destination whose axes are in another order.
    #[cfg(target_arch = "x86_64")]
    fn cast(random: &mut Random, (from, to): (usize, usize), shape: &[i64], order: &[usize], how: Casts) {
        let is_lost = how == Casts::Lossy;
        let count = shape.iter().product::<i64>() as usize;
        let mut strides = vec![1; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis];
        }
        let (mut axes, mut step) = (vec![Axis::default(); shape.len()], 1);
        for (at, axis) in order.iter().enumerate().rev() {
            let (source, destination) = (strides[*axis] * from as i64, step * to as i64);
            axes[at] = Axis { extent: shape[*axis], source, destination };
            step *= shape[*axis];
        }
        let mut guarded = Guarded::new(count * from);
        let source = guarded.bytes();
        let source = source.split_at_mut(source.len() - count * from).1;
        source.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
        const AROUND: usize = 128;
        let shift = random.below(AROUND);
        let mut expected = vec![0xa5; count * to + 2 * AROUND];
        each(&axes, (0, shift as i64), &mut |at, place| {
            let (at, place) = (at as usize, place as usize);
            least(&source[at..at + from], &mut expected[place..place + to]);
            true
        });
        let mut destination = vec![0xa5u8; expected.len()];
        let (first, place) = (source.as_ptr(), destination.as_mut_ptr());
        // How many may be read, and were.
        let (most, read) = (if is_lost { random.below(count) } else { usize::MAX }, Cell::new(0));
        let run = |value: *const u8, result: *mut u8, n: usize| {
            // SAFETY: so many elements of the source, and room for as many of the result.
            let (values, results) = unsafe {
                (std::slice::from_raw_parts(value, n * from), std::slice::from_raw_parts_mut(result, n * to))
            };
            for (value, result) in values.chunks(from).zip(results.chunks_mut(to)) {
                least(value, result);
            }
            read.set(read.get() + n);
            read.get() <= most
        };
        let near = order.iter().position(|axis| axis + 1 == shape.len()).unwrap();
        let places = (axes.len() - 1, near);
        let reach = match how {
            Casts::Put { around } => &CASTS[from.ilog2() as usize][to.ilog2() as usize][usize::from(around)],
            _ => reach_of_pairs(to).unwrap(),
        };
        let reach = &Reach { least_rows: 1, alone_rows: 1, side: 1, alone: 1, long: 1 << 20, ..*reach };
        let kept =
            each_matrix(&axes, places, reach, (0, shift as i64), &mut |from_at, to_at, matrices, _| {
                // SAFETY: the matrices are parts of the two.
                unsafe {
                    let (source, destination) =
                        (first.offset(from_at as isize), place.offset(to_at as isize));
                    let scattered = Scattered { source, destination, matrices, end: None, far: true };
                    match how {
                        Casts::AsLoaded if matrices.columns.len() >= LINE / to => {
                            let load = match (from, to) {
                                (1, _) => load_squares::<Least<1, 1>, 1, 1>,
                                (2, 2) => load_oblongs::<Least<2, 2>, 2, 2>,
                                (2, _) => load_squares::<Least<2, 4>, 2, 4>,
                                (4, 1) => load_squares::<Least<4, 1>, 4, 1>,
                                (4, 2) => load_oblongs::<Least<4, 2>, 4, 2>,
                                (4, 4) => load_squares::<Least<4, 4>, 4, 4>,
                                (4, _) => load_squares::<Least<4, 8>, 4, 8>,
                                (8, 1) => load_squares::<Least<8, 1>, 8, 1>,
                                (8, 4) => load_squares::<Least<8, 4>, 8, 4>,
                                (8, _) => load_squares::<Least<8, 8>, 8, 8>,
                                (_, 8) => load_squares::<Least<16, 8>, 16, 8>,
                                _ => load_squares::<Least<16, 16>, 16, 16>,
                            };
                            load(&scattered)
                        }
                        Casts::OneByOne => {
                            scattered.each((from, to), &mut |value, result| run(value, result, 1))
                        }
                        Casts::Put { around } => {
                            let end = matrices.end.map(|(end, dense)| (first.offset(end as isize), dense));
                            let scattered = Scattered { end, far: around, ..scattered };
                            let transpose = for_size(Isa::get(), from).unwrap();
                            // Where what waits in a line goes on.
                            let waiting = RefCell::new(std::collections::HashMap::new());
                            let put = |value: *const u8,
                                       result: *mut u8,
                                       n,
                                       line: *mut Line,
                                       ends: (bool, bool)| {
                                let before = waiting.borrow_mut().remove(&line);
                                assert_eq!(before, (!ends.0).then_some(result));
                                if !ends.1 {
                                    waiting.borrow_mut().insert(line, result.wrapping_add(n * to));
                                }
                                run(value, result, n)
                            };
                            let kept = put_scattered(&scattered, (from, to), transpose, around, put).unwrap();
                            assert!(!kept || waiting.borrow().is_empty());
                            kept
                        }
                        _ => cast_scattered(&scattered, (from, to), run).unwrap(),
                    }
                }
            });
        let which = format!("{how:?}, {from} to {to} bytes, {shape:?}, {order:?}, {shift}, {most}");
        assert_eq!(kept, Some(!is_lost), "{which}");
        assert!(is_lost || destination == expected, "{which}");
        let around = destination[..shift].iter().chain(&destination[shift + count * to..]);
        assert!(around.copied().all(|byte| byte == 0xa5), "{which}");
    }

    /// Lines a multiple of a kilobyte apart push each other out; of others some may be. So do those of narrow elements
    /// that are about four kilobytes apart.
    #[test]
    fn lines_that_clash() {
        let lines = |step: isize| (0..16).map(|line| line * step).collect::<Vec<_>>();
        for (step, clashes, nearly) in [
            (512, true, false),
            (1024, true, false),
            (33 << 10, true, false),
            (1536, true, false),
            (256, false, false),
            (4352, false, false),
            (1000, false, false),
            (4092, false, true),
            (12304, false, true),
            (4120, false, false),
        ] {
            for step in [step, -step] {
                assert_eq!(clash(&lines(step)), clashes, "{step}");
                assert_eq!(clashes_nearly(&lines(step), 4), nearly, "{step}");
                assert!(!clashes_nearly(&lines(step), 8), "{step}");
            }
        }
        for (step, size) in [(4097, 1), (4088, 2)] {
            assert!(clashes_nearly(&lines(step), size) && !clashes_nearly(&lines(step)[..8], size), "{step}");
        }
        assert!(!clashes_nearly(&lines(4112), 1));
        // A set has room for eight lines, and 512 bytes lead to eight sets.
        for (step, room) in [(4096, 8), (-4096, 8), (2048, 16), (512, 64), (7680, 64), (64, 512), (-7680, 64)]
        {
            let lines = |count: isize| (0..count).map(|line| line * step).collect::<Vec<_>>();
            assert!(has_room(&lines(room), 65) && !has_room(&lines(room + 1), 65), "{step}");
            assert!(has_room(&lines(room + 1), 64), "{step}");
        }
        assert!(!clash(&lines(1024)[..8]));
    }

    /// Blocks side by side, and more columns than have lines to wait in. Elsewhere nothing is written around the caches.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn wide() {
        let mut random = Random(3);
        let memories = [Memory::Deep, Memory::Other];
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| isa.is_there()) {
            for (size, memory) in
                [1, 2, 4, 8, 16].into_iter().flat_map(|size| memories.map(|memory| (size, memory)))
            {
                let how = (How::Streamed, memory, false);
                let (rows, columns) = if *FEW { (1100, 700) } else { (1100 + 3 * 16, 4500 * 16) };
                for shape in [[rows / size, columns / size], [520 / size + 1, 4000], [600, 300 / size + 9]] {
                    let shape = shape.map(|extent| extent as i64);
                    assert!(permuted(&mut random, (isa, size), how, &shape, &[1, 0]), "{size} {shape:?}");
                }
                // More than the buffer holds.
                let shape = [760 / size as i64, 3, 380 / size as i64];
                assert!(permuted(&mut random, (isa, size), how, &shape, &[1, 2, 0]), "{size} {shape:?}");
            }
        }
    }

    #[test]
    fn powers_of_two() {
        let mut random = Random(2);
        let shapes: [&[i64]; 4] = [&[8; 5], &[16; 4], &[32; 3], &[512, 128]];
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Neon].into_iter().filter(|isa| isa.is_there())
        {
            for shape in &shapes[..if *FEW { 1 } else { 4 }] {
                let order: Vec<usize> = (0..shape.len()).rev().collect();
                for size in [1, 2, 4, 8, 16] {
                    for how in [How::Streamed, How::Cached] {
                        let how = (how, ALL[random.below(4)], random.below(2) == 0);
                        let done = permuted(&mut random, (isa, size), how, shape, &order);
                        assert!(done || shape[0] < 16 || how.0 == How::Cached);
                    }
                }
            }
        }
    }
}
