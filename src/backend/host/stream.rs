//! Writes of results that the caches could not hold. They go around them, for a line that is written through them is
//! read from memory before; reads and writes alternate by about [`CHUNK`], for memory is slower where they come in
//! longer turns. Where a processor writes whole rows faster through its caches ([`through`]), lines of both sides are
//! asked for before; where only a part of a result is, as much of it as they hold ([`held`]). Nothing here is in order with what is written after it until there is a [`fence`].

pub mod crossed;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::mem::MaybeUninit;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU8, Ordering};

use super::copy::{CopyFn, Steps};
#[cfg(target_arch = "x86_64")]
use super::isa::Isa;

/// Bytes from which on a result is better written around the caches.
pub const STREAM_FROM: usize = 12 << 20;
/// The same of a job that one thread does, the mean of what is read and what is written, on [`Memory::Other`].
const STREAM_ALONE_FROM: usize = 7 << 20;
/// Bytes of what is read and written that the third cache holds at most.
const HELD: usize = 24 << 20;
/// Bytes of a line of the caches.
pub const LINE: usize = 64;
/// Bytes of two lines side by side.
#[cfg(target_arch = "x86_64")]
pub const PAIR: usize = 2 * LINE;
/// Bytes of a row from which on that is worth it.
pub const LONG_ROW: usize = 4 << 10;
/// Bytes that are read, and up to twice as many that are put together, before they are written.
pub const CHUNK: usize = 1 << 10;
/// Bytes from what is read in order to what is asked for. Twice as many are better on [`Memory::Deep`] for casts to another
/// size that have nothing between elements, and on [`Memory::Near`] for rows cut from wider ones.
const AHEAD: usize = 2 << 10;
/// The same where prefetchers ask for what is as far as that themselves, and then wait.
const LATE: usize = 12 << 10;
/// The same on Zen 4, of blocks.
const SOON: isize = 1 << 10;
/// The same for what is written through the caches.
const WRITE_AHEAD: usize = 1 << 10;
/// Bytes of the largest element that is put together in a buffer: complex128.
pub const LARGEST: usize = 16;

/// Bytes that are put together before they are written at most: of what is in a cache already, which is best in long
/// turns.
pub const MOST: usize = 4 << 10;

/// How many elements are read, and how many that are put together are written, in turn.
pub const fn chunk(source_size: usize, destination_size: usize) -> usize {
    let half = destination_size / 2;
    CHUNK / if source_size > half { source_size } else { half }
}

/// Whether a result of so many bytes is written around the caches.
pub fn pays(bytes: usize) -> bool {
    cfg!(target_arch = "x86_64") && bytes >= STREAM_FROM
}

/// The same of a job that reads so many bytes and writes so many, on so many threads at most (0: as many as the process may
/// run on): one has less of the caches than several. What is read takes them from what is written.
pub fn pays_for((read, written): (usize, usize), threads: u32) -> bool {
    let is_some = cfg!(target_arch = "x86_64") && (read.saturating_add(written)) / 2 >= STREAM_ALONE_FROM;
    pays(read.max(written)) || is_some && Memory::get() == Memory::Other && is_alone(threads)
}

/// Whether a job on so many threads at most (0: as many as the process may run on) has one.
pub fn is_alone(threads: u32) -> bool {
    threads == 1 || super::threads::available() == 1
}

/// How much of a result for which that pays is better written through the caches nonetheless: what the third one holds
/// beside the source, until it is read or written again. Writing is what takes the time of most that is done in order:
/// some of AMD's cores write around the caches no faster than one. Not measured on others.
pub fn held(read: i64, written: i64) -> i64 {
    // Other threads and other processes have a part of it.
    let most = if Memory::get() == Memory::Near { (third_cache() / 4 * 3).min(HELD) } else { 0 };
    let held = (most as i64 - read).min(written);
    // Of little there is not much to win, where what was there is in no cache any more something to lose.
    if held >= written / 4 { held.max(0) } else { 0 }
}

/// Bytes of the third cache of AMD's processors; 0: unknown.
fn third_cache() -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::sync::atomic::AtomicUsize;
        const UNKNOWN: usize = usize::MAX;
        // Asking takes microseconds in a virtual machine. All come to the same.
        static KNOWN: AtomicUsize = AtomicUsize::new(UNKNOWN);
        let known = KNOWN.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return known;
        }
        // SAFETY: every x86-64 processor has the instruction; newer compilers know that.
        #[allow(unused_unsafe)]
        let cache = unsafe { std::arch::x86_64::__cpuid_count(0x8000_001d, 3) };
        let is_third = cache.eax >> 5 & 7 == 3;
        let field = |shift: u32, bits: u32| (cache.ebx >> shift & ((1 << bits) - 1)) as usize + 1;
        let (ways, partitions, line) = (field(22, 10), field(12, 10), field(0, 12));
        let bytes = if is_third { ways * partitions * line * (cache.ecx as usize + 1) } else { 0 };
        KNOWN.store(bytes, Ordering::Relaxed);
        bytes
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}

/// Whether rows that are read in order are better written through the caches, however long they are.
pub fn through() -> bool {
    Memory::get() == Memory::Mesh
}

/// How many elements that start so many bytes from each other, and have `read` in the source and `size` in the destination,
/// are put together before they are written: [`MOST`] bytes at most, and a line at least.
fn turn(step: isize, (read, size, casts): (usize, usize, bool), asked: bool, picks: bool) -> usize {
    let spaced = casts && size != read && step != read as isize;
    // Longer turns are better where nothing is asked for, or what is read is soon there.
    let longer = match asked {
        true => u32::from(spaced && Memory::is_zen5()),
        false => 1 + u32::from(spaced && size < read),
    };
    // Of elements far from each other a turn still is some lines.
    let some = (chunk(step.unsigned_abs(), size) << longer).max(3 * LINE / size);
    // And so that the first, which ends where a line does, has one.
    if picks { (some / 2).max(2 * LINE / size) } else { some }
}

/// Whether what is read in order, up or down from one to the next, is asked for before.
pub fn asks(step: isize) -> bool {
    match Memory::get() {
        Memory::Near => false,
        // Downwards prefetchers are better by themselves.
        Memory::Other => step > 0,
        Memory::Mesh | Memory::Deep => true,
    }
}

/// How many bytes ahead of those that are read elements are asked for, which start so many from each other, and have `read`
/// in the source and `size` in the destination; None: prefetchers are better by themselves. `cut`: they are rows cut from
/// wider ones that become twice as wide, or on Zen 4 single bytes that become wider than that.
fn ahead(step: isize, (read, size, casts): (usize, usize, bool), cut: bool) -> Option<usize> {
    let dense = step == read as isize;
    match Memory::get() {
        Memory::Near if cut => Some(2 * AHEAD),
        // In order, what reads as much as it writes or more.
        Memory::Near if Memory::is_zen5() => {
            let every_second = step == 2 * read as isize && if casts { read > 1 } else { size <= 8 };
            (casts && dense && size <= read || every_second).then_some(LATE)
        }
        Memory::Deep if dense && read != size => Some(2 * AHEAD),
        _ => asks(step).then_some(AHEAD),
    }
}

/// How many bytes ahead a block of few long rows or columns asks for what comes next, where its source is read in order, and
/// `usual` are best elsewhere: where the next block begins, mostly.
pub fn block_ahead(usual: isize) -> isize {
    if Memory::is_zen4() { SOON * usual.signum() } else { usual }
}

/// What is known of this processor, once somebody has asked for it: a place in a table, of which [`ZEN5`] is the last.
#[cfg(all(target_arch = "x86_64", not(miri)))]
static KNOWN: AtomicU8 = AtomicU8::new(u8::MAX);
#[cfg(all(target_arch = "x86_64", not(miri)))]
const ZEN5: u8 = 4;

/// What copies bytes in order.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// The system's library.
    System,
    /// AVX2: with that alone, and on Zen 4. Measured on Zen 3.
    Vectors,
    /// AVX-512 and the processor's instruction: on Zen 5.
    Lines,
}

/// What processors differ in that no instruction tells.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code))]
pub enum Memory {
    /// Those with less than AVX-512 (measured on AMD's Zen 3).
    Other,
    /// Intel's with AVX-512 but without VBMI (before Ice Lake): many cores on a mesh, of which one has to wait longer for
    /// what it writes around the caches than for what its prefetchers bring.
    Mesh,
    /// Intel's with VBMI, where that is no longer so (measured on one with AMX, Sapphire Rapids or later). A vector of
    /// 64 bytes that two lines share costs more there than two of 32.
    Deep,
    /// AMD's with AVX-512 (Zen 4 and later), whose prefetchers bring most rows in order better by themselves: asked for,
    /// such rows take 1.3 times as long.
    Near,
}

impl Memory {
    /// This processor's; that of others where `ARRAYBRIDGE_ISA` asks for fewer instructions than it has.
    pub fn get() -> Memory {
        Memory::known().0
    }

    /// Whether it is AMD's Zen 5 or later, one of [`Memory::Near`], which does vectors of 64 bytes whole, and whose
    /// prefetchers bring what is read in order later than memory could.
    pub fn is_zen5() -> bool {
        Memory::known().1
    }

    /// Whether it is AMD's Zen 4, one of [`Memory::Near`], where what is asked for long before it is read costs more than it
    /// brings, unless it is asked for in long pieces.
    pub fn is_zen4() -> bool {
        Memory::known() == (Memory::Near, false)
    }

    /// Whether rows that are near to each other are best done as one, or by one call: asked for some way ahead, and without looking for
    /// lines that they share. Measured on AMD's.
    pub fn joins_rows() -> bool {
        matches!(Memory::get(), Memory::Near | Memory::Other)
    }

    /// Whether what comes next of rows that lie crosswise is best asked for by turns with lines that are written: on Zen 3 and
    /// Zen 5. Zen 4 takes 1.2 to 2 times as long for it as for a block of them at once.
    pub fn asks_by_turns() -> bool {
        Memory::joins_rows() && !Memory::is_zen4()
    }

    /// What copies bytes in order: one look, for it is what many calls come to.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn copies() -> Copies {
        const ALL: [Copies; 3] = [Copies::System, Copies::Vectors, Copies::Lines];
        static CHOSEN: AtomicU8 = AtomicU8::new(u8::MAX);
        // All come to the same.
        ALL.get(usize::from(CHOSEN.load(Ordering::Relaxed))).copied().unwrap_or_else(|| {
            let chosen = Memory::choose_copies();
            CHOSEN.store(chosen as u8, Ordering::Relaxed);
            chosen
        })
    }

    #[cfg(target_arch = "x86_64")]
    #[cold]
    fn choose_copies() -> Copies {
        let (memory, is_zen5) = Memory::known();
        match memory {
            // Which has AVX-512, or would not be known as what it is.
            Memory::Near if is_zen5 => Copies::Lines,
            Memory::Near | Memory::Other if Isa::get() != Isa::Baseline => Copies::Vectors,
            _ => Copies::System,
        }
    }

    #[inline(always)]
    fn known() -> (Memory, bool) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            const ALL: [(Memory, bool); ZEN5 as usize + 1] = [
                (Memory::Other, false),
                (Memory::Mesh, false),
                (Memory::Deep, false),
                (Memory::Near, false),
                (Memory::Near, true),
            ];
            // Asking takes microseconds in a virtual machine. All come to the same.
            let known = ALL.get(usize::from(KNOWN.load(Ordering::Relaxed)));
            *known.unwrap_or_else(|| &ALL[usize::from(Memory::ask())])
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            (Memory::Other, false)
        }
    }

    /// The place of this processor, which is known from then on.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[cold]
    fn ask() -> u8 {
        use std::arch::x86_64::__cpuid;
        // SAFETY: every x86-64 processor has the instruction, and these two of its answers; newer compilers know that.
        #[allow(unused_unsafe)]
        let (vendor, version) = unsafe { (__cpuid(0), __cpuid(1).eax) };
        // From 15 on what is in another place is added.
        let family = (version >> 8 & 15) + (version >> 20 & 255);
        let found = match (vendor.ebx, vendor.edx, vendor.ecx) {
            _ if Isa::get() != Isa::best() || !is_x86_feature_detected!("avx512f") => 0,
            // GenuineIntel, AuthenticAMD.
            (0x756e_6547, 0x4965_6e69, 0x6c65_746e) if is_x86_feature_detected!("avx512vbmi") => 2,
            (0x756e_6547, 0x4965_6e69, 0x6c65_746e) => 1,
            (0x6874_7541, 0x6974_6e65, 0x444d_4163) => 3 + u8::from(family >= 26),
            _ => 0,
        };
        KNOWN.store(found, Ordering::Relaxed);
        found
    }
}

/// Bytes of a line, that are written or not.
pub type Line = [MaybeUninit<u8>; LINE];
pub const NOTHING: Line = [const { MaybeUninit::uninit() }; LINE];

/// Bytes on the stack.
#[repr(align(64))]
pub struct Buffer<const BYTES: usize>([MaybeUninit<u8>; BYTES]);

impl<const BYTES: usize> Buffer<BYTES> {
    #[inline(always)]
    pub fn new() -> Self {
        Buffer([const { MaybeUninit::uninit() }; BYTES])
    }

    #[inline(always)]
    pub fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Copies bytes for which the caches are too small.
///
/// # Safety
/// So many are readable and writable, and do not overlap.
pub unsafe fn copy(source: *const u8, destination: *mut u8, bytes: usize) {
    // SAFETY: the caller's; below, the three parts are his bytes, and the second is aligned.
    unsafe {
        if through() {
            asked(source, 1, destination, 1, bytes, CHUNK, |done, count, to| {
                source.add(done).copy_to_nonoverlapping(to, count);
                true
            });
            return;
        }
        let head = destination.align_offset(LINE).min(bytes);
        let count = (bytes - head) / LINE;
        let done = head + count * LINE;
        source.copy_to_nonoverlapping(destination, head);
        let (from, to) = (source.add(head), destination.add(head));
        #[cfg(target_arch = "x86_64")]
        let by_turns = match Memory::get() {
            Memory::Deep if whole_lines() => x86::by_pages(from, to, count),
            _ => 0,
        };
        #[cfg(not(target_arch = "x86_64"))]
        let by_turns = 0;
        lines(from.add(by_turns * LINE), to.add(by_turns * LINE), count - by_turns);
        source.add(done).copy_to_nonoverlapping(destination.add(done), bytes - done);
    }
}

/// Whether elements at steps are worth writing around the caches: where prefetchers bring what is read, writing is most
/// of what takes time.
fn scatters() -> bool {
    Memory::get() != Memory::Mesh
}

/// Whether every second element is cast to those of `size` bytes in short turns, read by vectors of a whole line: where
/// writing is some of what takes time.
pub fn picks_lines(size: usize) -> bool {
    Memory::get() == Memory::Deep && size > 1
}

/// Whether rows of elements that are so many bytes from each other, and have others between them, are better written
/// around the caches: there are `count`, and so many bytes between the end of one and the next.
pub fn gathers(step: isize, gap: isize, count: usize) -> bool {
    const NEAR: usize = 1 << 10;
    scatters() && (1..=LINE as isize / 2).contains(&step) && (count == 1 || gap.unsigned_abs() <= NEAR)
}

/// What writes rows of elements of `size` bytes at steps of so many around the caches by whole lines, some rows by
/// turns; None: there is nothing for those.
pub fn by_lines(size: usize, step: isize, count: usize) -> Option<LinesFn> {
    #[cfg(target_arch = "x86_64")]
    if scatters() {
        return x86::by_lines(Isa::get(), size, step, count);
    }
    let _ = (size, step, count);
    None
}

/// Copies rows of `n` elements, [`LONG_ROW`] at least, by a [`CopyFn`] for those and what is said of it: source,
/// destination, and where the next row begins on each side; n, rows.
///
/// Safety: as the [`CopyFn`]; rows of the destination begin at multiples of an element's size.
pub type LinesFn = unsafe fn(CopyFn, (*const u8, isize), (*mut u8, isize), usize, usize);

/// Writes `count` rows of `n` elements of `size` bytes, [`LONG_ROW`] at least, for which the caches are too small, as
/// they are read: of `read` bytes, at steps of so many, cast or not. `fill` puts together some elements: from where, how
/// many, where to. False: it has failed. Rows that follow each other are one to the lines of the destination.
///
/// # Safety
/// So many are writable, of [`LARGEST`] bytes at most, in rows that start so many bytes from each other. `fill`
/// writes all that it is asked for.
#[inline]
pub unsafe fn in_order(
    (source, from): (*const u8, Steps),
    (destination, next): (*mut u8, isize),
    (read, size, casts): (usize, usize, bool),
    (n, count): (usize, usize),
    mut fill: impl FnMut(*const u8, usize, *mut u8) -> bool,
) -> bool {
    let step = from.element;
    let picks = casts && step == 2 * read as isize && picks_lines(size);
    let dense = step == read as isize;
    // Prefetchers go on into what is not read.
    let widens = size == 2 * read || read == 1 && size > 2 && Memory::is_zen4();
    let cut = casts && dense && widens && count > 1 && from.row != n as isize * step;
    let (ahead, through) = (ahead(step, (read, size, casts), cut), through());
    let some = turn(step, (read, size, casts), ahead.is_some(), picks);
    let follow = next == (n * size) as isize;
    // What is beyond the end of a row is asked for of the next one, unless that is where prefetchers have gone on.
    let between = from.row - n as isize * step;
    let is_far = count > 1 && between.unsigned_abs() >= 4 * LINE;
    let ahead = if is_far { ahead.map(|ahead| ahead.min(n * step.unsigned_abs())) } else { ahead };
    let last = if is_far { n - ahead.unwrap_or(0) / step.unsigned_abs() } else { n };
    let mut carried = NOTHING;
    (0..count).all(|index| {
        let from = source.wrapping_offset(index as isize * from.row);
        let to = destination.wrapping_offset(index as isize * next);
        let part = |done: usize| from.wrapping_offset(done as isize * step);
        // SAFETY: the caller's.
        unsafe {
            if through {
                return asked(from, step, to, size, n, some, |done, count, to| fill(part(done), count, to));
            }
            let ends = (index == 0 || !follow, index + 1 == count || !follow);
            // The turns after the first begin where lines do.
            let head = some - to as usize % LINE / size;
            row(to, size, n, (head, some), &mut carried, ends, |done, count, buffer| {
                if let Some(ahead) = ahead {
                    let mut ahead = part(done).wrapping_offset(ahead as isize * step.signum());
                    if done >= last {
                        ahead = ahead.wrapping_offset(between);
                    }
                    prefetch_bytes(ahead, count as isize * step);
                }
                fill(part(done), count, buffer)
            })
        }
    })
}

/// The same, `some` elements at a time, through the caches.
///
/// # Safety
/// As [`in_order`], of one row.
#[inline]
unsafe fn asked(
    from: *const u8,
    step: isize,
    to: *mut u8,
    size: usize,
    n: usize,
    some: usize,
    mut fill: impl FnMut(usize, usize, *mut u8) -> bool,
) -> bool {
    let mut done = 0;
    while done < n {
        // What would be little is not left for the end.
        let count = if n - done < 2 * some { n - done } else { some };
        let ahead = (done as isize * step).wrapping_add(AHEAD as isize * step.signum());
        each_line(from.wrapping_offset(ahead), count as isize * step, prefetch_first);
        // SAFETY: within the caller's elements.
        let to = unsafe { to.add(done * size) };
        prefetch_to_write(to.wrapping_add(WRITE_AHEAD), count * size);
        if !fill(done, count, to) {
            return false;
        }
        done += count;
    }
    true
}

/// Writes a row of `n` elements of `size` bytes around the caches. `fill` puts together some of them, from which
/// one on, how many, where; they are `some`, the first time `head`, or up to a line more. False: it has failed. What is
/// `carried` are the bytes before the first, in the end those before the next, unless there is none.
///
/// # Safety
/// So many are writable, and take a line at least unless they are the last; `head` and `some` take [`MOST`] bytes at
/// most and a line at least, elements [`LARGEST`] bytes at most. `fill` writes all that it is asked for.
#[inline]
pub unsafe fn row(
    to: *mut u8,
    size: usize,
    n: usize,
    (head, some): (usize, usize),
    carried: &mut Line,
    (first, last): (bool, bool),
    mut fill: impl FnMut(usize, usize, *mut u8) -> bool,
) -> bool {
    let mut buffer = Buffer::<{ LINE + MOST + LINE * LARGEST }>::new();
    let buffer = buffer.start();
    // SAFETY: within the caller's elements, and the buffer, which begins with a line.
    unsafe {
        buffer.cast::<Line>().write(*carried);
        let mut done = 0;
        while done < n {
            let some = if done == 0 { head } else { some };
            // Less than a line is not left for the end.
            let count = if n - done < some + LINE { n - done } else { some };
            if !fill(done, count, buffer.add(LINE)) {
                return false;
            }
            let (first, last) = (first && done == 0, last && done + count == n);
            write_around(buffer, to.add(done * size), count * size, first, last);
            done += count;
        }
        *carried = buffer.cast::<Line>().read();
    }
    true
}

/// Writes around the caches the `bytes` that the buffer holds after a line. What does not fill a line
/// of the destination waits at the end of that line for what comes after, unless this is the last.
///
/// # Safety
/// `buffer` is readable and writable from there to the end of the bytes, which are a line at least
/// unless they are the last, and `to` is writable.
#[inline(always)]
pub unsafe fn write_around(buffer: *mut u8, to: *mut u8, bytes: usize, first: bool, last: bool) {
    // SAFETY: the caller's.
    unsafe {
        write_around_by::<LINE>(buffer, to, bytes, (first, last), |from, to, count| lines(from, to, count))
    }
}

/// The same by pairs of lines.
///
/// # Safety
/// As [`write_around`], with two lines for one.
#[cfg(target_arch = "x86_64")]
pub unsafe fn write_pairs_around(buffer: *mut u8, to: *mut u8, bytes: usize, ends: (bool, bool)) {
    // SAFETY: the caller's.
    unsafe { write_around_by::<PAIR>(buffer, to, bytes, ends, |from, to, count| lines(from, to, count)) }
}

/// The same; `ask` is told from time to time how many bytes were written, and how many are next.
///
/// # Safety
/// As [`write_around`].
#[inline(always)]
pub unsafe fn write_around_asking(
    buffer: *mut u8,
    to: *mut u8,
    bytes: usize,
    ends: (bool, bool),
    ask: impl Fn(usize, usize),
) {
    /// Lines between two times: few, for memory takes few requests at once.
    const SOME: usize = 8;
    // SAFETY: the caller's; within the lines.
    unsafe {
        write_around_by::<LINE>(buffer, to, bytes, ends, |from, to, count| {
            for done in (0..count).step_by(SOME) {
                let some = SOME.min(count - done);
                ask(done * LINE, some * LINE);
                lines(from.wrapping_add(done * LINE), to.wrapping_add(done * LINE), some);
            }
        });
    }
}

/// The same; `copy` copies whole lines.
///
/// # Safety
/// As [`write_around`].
#[inline(always)]
unsafe fn write_around_by<const UNIT: usize>(
    buffer: *mut u8,
    to: *mut u8,
    bytes: usize,
    (first, last): (bool, bool),
    mut copy: impl FnMut(*const u8, *mut u8, usize),
) {
    // SAFETY: as the caller vouches; `from` and `to` move together, and `to` is aligned for lines.
    unsafe {
        let start = buffer.add(UNIT);
        let end = start.add(bytes);
        let past = to as usize % UNIT;
        let (mut from, mut to) = (start.wrapping_sub(past).cast_const(), to.wrapping_sub(past));
        if first && past > 0 {
            let head = (UNIT - past).min(bytes);
            start.copy_to_nonoverlapping(to.add(past), head);
            (from, to) = (from.wrapping_add(past + head), to.wrapping_add(past + head));
        }
        let count = (end as usize - from as usize) / UNIT * (UNIT / LINE);
        copy(from, to, count);
        (from, to) = (from.wrapping_add(count * LINE), to.wrapping_add(count * LINE));
        if last {
            from.copy_to_nonoverlapping(to, end as usize - from as usize);
        } else {
            // With the bytes before, which are written already.
            let line = end.sub(UNIT).cast::<[u8; UNIT]>().read();
            buffer.cast::<[u8; UNIT]>().write(line);
        }
    }
}

/// Whether a line is written around the caches by one vector.
#[cfg(target_arch = "x86_64")]
fn whole_lines() -> bool {
    Isa::get() == Isa::Avx512 && (Memory::get() == Memory::Deep || Memory::is_zen5())
}

/// Copies lines around the caches.
///
/// # Safety
/// So many are readable and writable, and the destination is aligned to one.
#[inline(always)]
unsafe fn lines(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: the caller's; what is chosen is there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match Isa::get() {
            _ if whole_lines() => avx512(from, to, count),
            Isa::Avx2 | Isa::Avx512 => avx2(from, to, count),
            _ => sse2(from, to, count),
        }
        #[cfg(not(target_arch = "x86_64"))]
        from.copy_to_nonoverlapping(to, count * LINE);
    }
}

/// # Safety
/// As [`lines`]; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(from: *const u8, to: *mut u8, count: usize) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_stream_si256};
    for at in (0..count * LINE).step_by(LINE) {
        // SAFETY: the caller's.
        unsafe {
            let low = _mm256_loadu_si256(from.add(at).cast());
            let high = _mm256_loadu_si256(from.add(at + 32).cast());
            _mm256_stream_si256(to.add(at).cast(), low);
            _mm256_stream_si256(to.add(at + 32).cast(), high);
        }
    }
}

/// # Safety
/// As [`lines`]; the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(from: *const u8, to: *mut u8, count: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    for at in (0..count * LINE).step_by(LINE) {
        // SAFETY: the caller's.
        unsafe { _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast())) };
    }
}

/// # Safety
/// As [`lines`].
#[cfg(target_arch = "x86_64")]
unsafe fn sse2(from: *const u8, to: *mut u8, count: usize) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
    for at in (0..count * LINE).step_by(16) {
        // SAFETY: the caller's.
        unsafe { _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast())) };
    }
}

/// Puts what was written around the caches before what is written from now on. Once after all of it: it waits for memory.
#[inline(always)]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is always there.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}

/// Whether lines are best asked for from the first cache ([`prefetch_first`]), else from the second one
/// ([`prefetch_second`]): on Zen 5 what is read from the second one waits for what was asked for from memory. To be seen once
/// for some lines.
#[inline(always)]
pub fn asks_first() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return KNOWN.load(Ordering::Relaxed) == ZEN5;
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Asks for a line of the second cache.
#[inline(always)]
pub fn prefetch_second(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that a program could see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The same of the first one.
#[inline(always)]
pub fn prefetch_first(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that a program could see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The same, for a line that is written soon.
#[inline(always)]
fn to_write(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above. By name, for the compiler knows it of newer processors only; the others do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Asks for so many bytes from an address on, or before it.
#[inline(always)]
pub fn prefetch_bytes(at: *const u8, bytes: isize) {
    if asks_first() { each_line(at, bytes, prefetch_first) } else { each_line(at, bytes, prefetch_second) }
}

/// The same, of bytes that are written soon.
#[inline(always)]
pub fn prefetch_to_write(at: *const u8, bytes: usize) {
    each_line(at, bytes as isize, to_write);
}

#[inline(always)]
fn each_line(at: *const u8, bytes: isize, ask: impl Fn(*const u8)) {
    let (from, to) = (at as usize, (at as usize).saturating_add_signed(bytes));
    let first = from.min(to) & !(LINE - 1);
    for line in (0..from.max(to) - first).step_by(LINE) {
        ask((first + line) as *const u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is asked for, a turn fits the buffer, and ends a line after it begins.
    #[test]
    fn turns_fit() {
        const SIZES: [usize; 5] = [1, 2, 4, 8, 16];
        for (read, size) in SIZES.into_iter().flat_map(|read| SIZES.map(|size| (read, size))) {
            for times in [-300isize, -3, -2, -1, 1, 2, 3, 4, 5, 70, 5000] {
                for flags in 0..8 {
                    let [casts, asked, picks] = [1, 2, 4].map(|flag| flags & flag != 0);
                    if !casts && read != size || picks && (!casts || times != 2) {
                        continue;
                    }
                    let some = turn(times * read as isize, (read, size, casts), asked, picks);
                    let which =
                        format!("{read} to {size}, {times}, casts {casts}, asked {asked}, picks {picks}");
                    assert!((LINE..=MOST).contains(&(some * size)), "{which}: {some}");
                    // The first turn is shorter by what is before it in its line.
                    assert!(some >= 2 * LINE / size, "{which}: {some}");
                }
            }
        }
    }

    /// Whatever a processor likes: in the direction of what is read, and no further than the next block.
    #[test]
    fn blocks_ask_for_what_comes_next() {
        for next in [SOON, 3 * SOON, 1 << 20].into_iter().flat_map(|next| [next, -next]) {
            let ahead = block_ahead(next);
            assert!(
                ahead.signum() == next.signum()
                    && (LINE..=next.unsigned_abs()).contains(&ahead.unsigned_abs())
            );
        }
        assert_eq!(block_ahead(0), 0);
        assert!(Memory::joins_rows() || !Memory::asks_by_turns());
    }

    /// As `cast::x86` counts on.
    #[test]
    fn a_turn_in_order_is_two_chunks_where_nothing_is_asked_for() {
        for (read, size) in [(4, 2), (4, 1)] {
            assert_eq!(turn(read as isize, (read, size, true), false, false), 2 * chunk(read, size));
        }
    }

    #[test]
    fn copies_of_every_length_and_shift() {
        let source: Vec<u8> = (0..40_000).map(|index| (index * 7 + index / 251) as u8).collect();
        for bytes in (0..300).chain([1000, 1500, 16 << 10, 39_000]) {
            for (from, to) in [(0, 0), (1, 0), (0, 1), (13, 63), (63, 64), (5, 17)] {
                let mut destination = vec![0xa5u8; bytes + 128];
                let mut expected = destination.clone();
                expected[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
                // SAFETY: both have room.
                unsafe { copy(source.as_ptr().add(from), destination.as_mut_ptr().add(to), bytes) };
                assert!(destination == expected, "{bytes} bytes, {from} and {to}");
            }
        }
    }

    #[test]
    fn rows_read_forwards_and_backwards() {
        for (size, n) in [(1, 64), (1, 5000), (2, 1023), (4, 513), (4, 4096), (8, 700), (16, 300)] {
            for (step, to) in [(1isize, 0), (-1, 5), (2, 59), (3, 63)] {
                let source: Vec<u8> =
                    (0..3 * n * size).map(|index| (index * 13 + index / 249) as u8).collect();
                let first: usize = if step < 0 { (n - 1) * size } else { 0 };
                let from = |index: usize| first.wrapping_add_signed(index as isize * step * size as isize);
                let mut expected = vec![0xa5u8; n * size + 128];
                for index in 0..n {
                    expected[to + index * size..][..size].copy_from_slice(&source[from(index)..][..size]);
                }
                for through in [false, true] {
                    let mut destination = vec![0xa5u8; n * size + 128];
                    let fill = |done: usize, count: usize, to: *mut u8| {
                        for index in 0..count {
                            let element = source[from(done + index)..][..size].as_ptr();
                            // SAFETY: as many elements as are asked for.
                            unsafe { element.copy_to_nonoverlapping(to.add(index * size), size) };
                        }
                        true
                    };
                    let (start, step) = (source[first..].as_ptr(), step * size as isize);
                    // SAFETY: both have room for the row.
                    let kept = unsafe {
                        let to = destination.as_mut_ptr().add(to);
                        if through {
                            asked(start, step, to, size, n, chunk(step.unsigned_abs(), size), fill)
                        } else {
                            let fill = |from: *const u8, count: usize, to: *mut u8| {
                                fill((from.offset_from(start) / step) as usize, count, to)
                            };
                            in_order(
                                (start, Steps::one(step)),
                                (to, 0),
                                (size, size, n % 2 == 0),
                                (n, 1),
                                fill,
                            )
                        }
                    };
                    assert!(kept && destination == expected, "{n} of {size} bytes at {step} to {to}");
                }
            }
        }
        let mut to = [0u8; 4096];
        // SAFETY: nothing is read or written.
        let kept = unsafe { asked(to.as_ptr(), 1, to.as_mut_ptr(), 1, 4096, 1024, |done, _, _| done == 0) };
        assert!(!kept);
    }

    #[test]
    fn rows_in_one_part_and_in_two() {
        for size in [1, 2, 3, 4, 8, 12, 16] {
            let some = CHUNK / 4 / size;
            for (n, to) in [(1, 3), (63, 0), (some, 5), (some + 64, 63), (5 * some + 17, 1), (9 * some, 64)] {
                for part in [n, n / 2].into_iter().filter(|part| *part == n || part * size >= LINE) {
                    let source: Vec<u8> =
                        (0..n * size).map(|index| (index * 11 + index / 253) as u8).collect();
                    let mut destination = vec![0xa5u8; n * size + 128];
                    let mut expected = destination.clone();
                    expected[to..to + n * size].copy_from_slice(&source);
                    let mut carried = NOTHING;
                    let mut begin = 0;
                    while begin < n {
                        let count = if begin == 0 { part } else { n - begin };
                        let ends = (begin == 0, begin + count == n);
                        // SAFETY: both have room for the row.
                        let kept = unsafe {
                            let to = destination.as_mut_ptr().add(to + begin * size);
                            row(to, size, count, (some, some), &mut carried, ends, |at, count, buffer| {
                                let from = source.as_ptr().add((begin + at) * size);
                                from.copy_to_nonoverlapping(buffer, count * size);
                                true
                            })
                        };
                        assert!(kept);
                        begin += count;
                    }
                    assert!(destination == expected, "{n} of {size} bytes to {to} in parts of {part}");
                }
            }
        }
    }
}
