//! Copies of rows whose elements are moved as they are.

use super::isa::Isa;
#[cfg(target_arch = "x86_64")]
use super::stream::{Copies, Memory};
use super::walk::{PerAxis, Places};
use crate::layout::Axis;

/// Where rows of elements lie on one side.
#[derive(Clone, Copy)]
pub struct Steps {
    /// Bytes from an element to the next.
    pub element: isize,
    /// Bytes from a row to the next.
    pub row: isize,
}

impl Steps {
    /// Of one row.
    pub fn one(element: isize) -> Steps {
        Steps { element, row: 0 }
    }
}

/// Copies each of `count` rows, which start so many bytes from each other. No function that takes a closure: one
/// that is not inlined has the baseline's instructions.
macro_rules! each_row {
    ($source:ident + $from:expr, $destination:ident + $to:expr, $count:expr => $copy:expr) => {{
        let (mut $source, mut $destination) = ($source, $destination);
        for _ in 0..$count {
            $copy;
            // After the last row these are nowhere.
            $source = $source.wrapping_offset($from);
            $destination = $destination.wrapping_offset($to);
        }
    }};
}

#[cfg(target_arch = "x86_64")]
pub mod x86;

/// Copies bytes that follow one another.
///
/// # Safety
/// So many are readable and writable, and do not overlap.
#[inline(always)]
pub unsafe fn bytes(source: *const u8, destination: *mut u8, bytes: usize) {
    // SAFETY: the caller's.
    unsafe { bytes_of(source, destination, bytes, bytes) };
}

/// The same for a row of so many bytes in all.
///
/// The system's library does it by an instruction (REP MOVSB) from about 2 KB on, which takes thirty times as long on AMD's
/// Zen 3 and 4 where the destination is less than half a line behind the source in its page (glibc's bug 30994), and from a
/// few megabytes on around the caches, before that pays. On Zen 5 it takes twice as long as vectors in the first cache, and
/// the library leaves it too early beyond the second.
///
/// # Safety
/// As [`bytes`].
#[inline(always)]
unsafe fn bytes_of(source: *const u8, destination: *mut u8, bytes: usize, all: usize) {
    /// Bytes from which on a call less does not show.
    #[cfg(target_arch = "x86_64")]
    const SOME: usize = 256;
    // SAFETY: the caller's.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if bytes >= SOME {
            match Memory::copies() {
                Copies::System => {}
                Copies::Vectors => return x86::bytes(source, destination, bytes),
                Copies::Lines => return x86::bytes_by_lines(source, destination, bytes, all),
            }
        }
        let _ = all;
        source.copy_to_nonoverlapping(destination, bytes);
    }
}

/// Copies rows of as many elements: source, its steps, destination, its steps, elements, rows.
pub type CopyFn = unsafe fn(*const u8, Steps, *mut u8, Steps, usize, usize);

/// # Safety
/// `count` rows of `n` elements of `SIZE` bytes are readable and writable at their steps, and do not
/// overlap.
#[inline(always)]
unsafe fn rows<const SIZE: usize>(
    source: *const u8,
    from: Steps,
    destination: *mut u8,
    to: Steps,
    n: usize,
    count: usize,
) {
    let size = SIZE as isize;
    // SAFETY: as the caller says.
    unsafe {
        // What is chosen is chosen once for all rows.
        macro_rules! each_row_by {
            ($from:ident, $to:ident => $copy:expr) => {{
                let ($from, $to) = (source, destination);
                each_row!($from + from.row, $to + to.row, count => $copy)
            }};
        }
        if to.element != size {
            return each_row_by!(s, d => one_by_one::<SIZE>(s, from.element, d, to.element, n));
        }
        // The same loop with the steps of common views constant, for which it is vectorised.
        match from.element {
            step if step == size => each_row_by!(s, d => bytes_of(s, d, n * SIZE, n * SIZE * count)),
            step if step == -size => each_row_by!(s, d => in_blocks::<SIZE>(s, -size, d, n)),
            step if step == 2 * size => each_row_by!(s, d => in_blocks::<SIZE>(s, 2 * size, d, n)),
            step if step == 3 * size => each_row_by!(s, d => in_blocks::<SIZE>(s, 3 * size, d, n)),
            step if step == 4 * size => each_row_by!(s, d => in_blocks::<SIZE>(s, 4 * size, d, n)),
            step => each_row_by!(s, d => one_by_one::<SIZE>(s, step, d, size, n)),
        }
    }
}

/// Bytes up to which a call to copy them takes longer than they do.
pub const SHORT: usize = 1024;

/// # Safety
/// `count` runs of `bytes`, which are [`SHORT`] at most, are readable and writable at such steps from each of the places,
/// and do not overlap.
#[inline(always)]
unsafe fn short_runs(places: &mut Places, from: isize, to: isize, bytes: usize, count: usize) {
    // What is chosen is chosen once for all runs.
    macro_rules! each_run {
        ($source:ident, $destination:ident => $copy:expr) => {
            loop {
                let ($source, $destination) = (places.source, places.destination);
                // SAFETY: pieces are within the bytes; the last one ends where they do.
                unsafe { each_row!($source + from, $destination + to, count => $copy) };
                if !places.advance() {
                    return;
                }
            }
        };
        ($size:literal at both ends) => {
            each_run!(source, destination => ends::<$size>(source, destination, bytes))
        };
    }
    match bytes {
        0 => {}
        1 => each_run!(source, destination => piece::<1>(source, destination)),
        2..=3 => each_run!(2 at both ends),
        4..=7 => each_run!(4 at both ends),
        8..=15 => each_run!(8 at both ends),
        16..=31 => each_run!(16 at both ends),
        32..=64 => each_run!(32 at both ends),
        // Upwards, as lines are read and written fastest.
        _ => each_run!(source, destination => {
            let mut at = 0;
            while at < bytes - 64 {
                ends::<32>(source.add(at), destination.add(at), 64);
                at += 64;
            }
            ends::<32>(source.add(bytes - 64), destination.add(bytes - 64), 64);
        }),
    }
}

/// The first and the last `N` of some bytes, which may share some.
///
/// # Safety
/// So many are readable and writable, and the two sides do not overlap.
#[inline(always)]
unsafe fn ends<const N: usize>(source: *const u8, destination: *mut u8, bytes: usize) {
    // SAFETY: as the caller says.
    unsafe {
        piece::<N>(source, destination);
        piece::<N>(source.add(bytes - N), destination.add(bytes - N));
    }
}

/// # Safety
/// `N` bytes are readable and writable.
#[inline(always)]
unsafe fn piece<const N: usize>(source: *const u8, destination: *mut u8) {
    // SAFETY: as the caller says.
    unsafe { destination.cast::<[u8; N]>().write(source.cast::<[u8; N]>().read()) };
}

/// # Safety
/// As [`rows`], of one.
#[inline(always)]
unsafe fn one_by_one<const SIZE: usize>(
    source: *const u8,
    source_step: isize,
    destination: *mut u8,
    destination_step: isize,
    n: usize,
) {
    for index in 0..n as isize {
        // SAFETY: index stays below n.
        unsafe {
            let value = source.offset(index * source_step).cast::<[u8; SIZE]>().read();
            destination.offset(index * destination_step).cast::<[u8; SIZE]>().write(value);
        }
    }
}

/// To elements that follow one another. `step` is a constant.
///
/// # Safety
/// As [`rows`], of one.
#[inline(always)]
unsafe fn in_blocks<const SIZE: usize>(source: *const u8, step: isize, destination: *mut u8, n: usize) {
    // SAFETY: blocks are within the row; the last one ends where it does.
    unsafe {
        macro_rules! blocks_of {
            ($block:literal) => {
                if n >= $block {
                    let last = n - $block;
                    let mut at = 0;
                    while at < last {
                        block::<SIZE, $block>(source, step, destination, at);
                        at += $block;
                    }
                    return block::<SIZE, $block>(source, step, destination, last);
                }
            };
        }
        match SIZE {
            // Elements that are closer than a lane of memory has room for are left to the compiler's loop.
            1 if step < 0 => blocks_of!(32),
            2 if step < 0 => blocks_of!(16),
            4 => blocks_of!(8),
            8 if step < 0 => blocks_of!(8),
            8 => blocks_of!(4),
            16 => return four_by_four(source, step, destination, n),
            _ => {}
        }
        one_by_one::<SIZE>(source, step, destination, SIZE as isize, n)
    }
}

/// Elements that are a vector each, four in a turn.
///
/// # Safety
/// As [`in_blocks`], of sixteen bytes each.
#[inline(always)]
unsafe fn four_by_four(mut source: *const u8, step: isize, mut destination: *mut u8, n: usize) {
    // SAFETY: as many pieces as elements.
    unsafe {
        for _ in 0..n / 4 {
            for index in 0..4 {
                piece::<16>(source.offset(index * step), destination.offset(index * 16));
            }
            (source, destination) = (source.wrapping_offset(4 * step), destination.wrapping_add(64));
        }
        one_by_one::<16>(source, step, destination, 16, n % 4);
    }
}

/// Elements that are all read before the first is written, which makes vectors of them.
///
/// # Safety
/// They are part of [`in_blocks`]'s.
#[inline(always)]
unsafe fn block<const SIZE: usize, const N: usize>(
    source: *const u8,
    step: isize,
    destination: *mut u8,
    at: usize,
) {
    let mut elements = [[0; SIZE]; N];
    // SAFETY: the caller's.
    unsafe {
        if step == 2 * SIZE as isize {
            // Two vectors that end where the last element does.
            let low = source.add(2 * at * SIZE);
            let high = low.add((N - 1) * SIZE).cast::<[[u8; SIZE]; N]>().read();
            let low = low.cast::<[[u8; SIZE]; N]>().read();
            for index in 0..N / 2 {
                elements[index] = low[2 * index];
                elements[N / 2 + index] = high[2 * index + 1];
            }
        } else {
            for (index, element) in elements.iter_mut().enumerate() {
                *element = source.offset((at + index) as isize * step).cast::<[u8; SIZE]>().read();
            }
        }
        destination.add(at * SIZE).cast::<[[u8; SIZE]; N]>().write(elements);
    }
}

/// Copies runs of some bytes, [`SHORT`] at most, one for each combination of the axes.
pub type RunsFn = unsafe fn(*const u8, *mut u8, usize, &[Axis]);

macro_rules! compiled {
    ($name:ident $($feature:literal)?) => {
        mod $name {
            use super::{Axis, CopyFn, PerAxis, Places, Steps};

            /// # Safety
            /// As [`super::rows`]; the processor has the instructions.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn rows<const SIZE: usize>(
                source: *const u8,
                from: Steps,
                destination: *mut u8,
                to: Steps,
                n: usize,
                count: usize,
            ) {
                // SAFETY: as the caller says.
                unsafe {
                    if (from.element, to.element) == (SIZE as isize, SIZE as isize) && n * SIZE <= super::SHORT {
                        let mut at = PerAxis::new();
                        let mut places = Places::new(&[], source, destination, &mut at);
                        return short_runs(&mut places, from.row, to.row, n * SIZE, count);
                    }
                    super::rows::<SIZE>(source, from, destination, to, n, count)
                }
            }

            /// # Safety
            /// Every run is readable and writable, and none overlaps another; the processor has the instructions.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn runs(source: *const u8, destination: *mut u8, bytes: usize, axes: &[Axis]) {
                let one = &Axis { extent: 1, source: 0, destination: 0 };
                let (along, outer) = axes.split_last().unwrap_or((one, &[]));
                let (from, to) = (along.source as isize, along.destination as isize);
                let mut at = PerAxis::new();
                let mut places = Places::new(outer, source, destination, &mut at);
                // SAFETY: as the caller says.
                unsafe { short_runs(&mut places, from, to, bytes, along.extent as usize) }
            }

            /// # Safety
            /// As [`super::short_runs`]; the processor has the instructions.
            $(#[target_feature(enable = $feature)])?
            #[inline(never)]
            unsafe fn short_runs(places: &mut Places, from: isize, to: isize, bytes: usize, count: usize) {
                // SAFETY: as the caller says.
                unsafe { super::short_runs(places, from, to, bytes, count) }
            }

            pub fn for_size(size: usize) -> Option<CopyFn> {
                Some(match size {
                    1 => rows::<1>,
                    2 => rows::<2>,
                    3 => rows::<3>,
                    4 => rows::<4>,
                    6 => rows::<6>,
                    8 => rows::<8>,
                    12 => rows::<12>,
                    16 => rows::<16>,
                    24 => rows::<24>,
                    32 => rows::<32>,
                    _ => return None,
                })
            }
        }
    };
}

compiled! { baseline }
#[cfg(target_arch = "x86_64")]
compiled! { avx2 "avx2,bmi2" }

/// AVX2's, where there is no better one by hand: with AVX-512 the compiler gathers and scatters, which takes up to five
/// times as long.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{CopyFn, Steps, avx2, x86};
    use crate::backend::host::stream::LINE;

    /// # Safety
    /// As [`super::rows`]; the processor has the instructions.
    #[inline]
    unsafe fn rows<const SIZE: usize, const MOST: usize>(
        source: *const u8,
        from: Steps,
        destination: *mut u8,
        to: Steps,
        n: usize,
        count: usize,
    ) {
        let twice = (from.element, to.element) == (2 * SIZE as isize, SIZE as isize);
        // SAFETY: as the caller says.
        unsafe {
            if twice && (LINE..=MOST).contains(&(n * SIZE)) {
                return x86::every_second::<SIZE>(source, from.row, destination, to.row, n, count);
            }
            avx2::rows::<SIZE>(source, from, destination, to, n, count)
        }
    }

    pub fn for_size(size: usize) -> Option<CopyFn> {
        /// Bytes of a row that AVX2 brings faster from the second cache.
        const LONG: usize = 16 << 10;
        match size {
            1 => Some(rows::<1, LONG>),
            2 => Some(rows::<2, { usize::MAX }>),
            4 => Some(rows::<4, LONG>),
            8 => Some(rows::<8, { usize::MAX }>),
            _ => avx2::for_size(size),
        }
    }
}

/// The copy for elements of a size, in the caches or to memory; None: they are copied one by one.
pub fn for_size(isa: Isa, size: usize, to_memory: bool) -> Option<CopyFn> {
    match isa {
        // What comes from memory comes slower in vectors of 64 bytes.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if !to_memory => avx512::for_size(size),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => avx2::for_size(size),
        _ => {
            let _ = to_memory;
            baseline::for_size(size)
        }
    }
}

/// The copy of short runs.
pub fn of_runs(isa: Isa) -> RunsFn {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => avx2::runs,
        _ => baseline::runs,
    }
}

/// Copies rows of elements of any size.
///
/// # Safety
/// As [`CopyFn`], of elements of `size` bytes.
pub unsafe fn of_any_size(
    source: *const u8,
    from: Steps,
    destination: *mut u8,
    to: Steps,
    n: usize,
    count: usize,
    size: usize,
) {
    // SAFETY: the indices stay below count and n.
    unsafe {
        for row in 0..count as isize {
            let (source, destination) = (source.offset(row * from.row), destination.offset(row * to.row));
            if (from.element, to.element) == (size as isize, size as isize) {
                bytes_of(source, destination, n * size, n * size * count);
                continue;
            }
            if size <= SHORT {
                let mut at = PerAxis::new();
                let mut places = Places::new(&[], source, destination, &mut at);
                short_runs(&mut places, from.element, to.element, size, n);
                continue;
            }
            for index in 0..n as isize {
                let element = source.offset(index * from.element);
                bytes_of(element, destination.offset(index * to.element), size, size * n * count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::host::stream::LINE;

    /// Wherever they begin in their lines, to and from memory that is exactly as long.
    #[test]
    fn bytes_of_every_length_at_every_place() {
        type BytesFn = unsafe fn(*const u8, *mut u8, usize);
        // From so many bytes on.
        let copies: &[(usize, BytesFn)] = &[
            (0, bytes),
            #[cfg(target_arch = "x86_64")]
            (if Isa::Avx2.is_there() { 2 * LINE } else { usize::MAX }, x86::bytes),
            #[cfg(target_arch = "x86_64")]
            (if Isa::Avx512.is_there() { 2 * LINE } else { usize::MAX }, |source, destination, length| {
                // SAFETY: the caller's.
                unsafe { x86::bytes_by_lines(source, destination, length, length) }
            }),
            #[cfg(target_arch = "x86_64")]
            (if Isa::Avx512.is_there() { 2 * LINE } else { usize::MAX }, |source, destination, length| {
                // SAFETY: the caller's.
                unsafe { x86::bytes_by_lines(source, destination, length, usize::MAX) }
            }),
        ];
        let places = if cfg!(miri) { vec![0, 33] } else { (0..LINE).step_by(3).collect::<Vec<_>>() };
        let lengths = if cfg!(miri) { [0..300, 0..0] } else { [0..700, 2040..2060] };
        let most = lengths.iter().map(|lengths| lengths.end).max().unwrap();
        let source: Vec<u8> = (0..most + LINE).map(|index| (index * 7 + index / 251) as u8).collect();
        let lengths = lengths.into_iter().flatten().filter(|length| length % 5 < 2);
        for (length, (from, to)) in
            lengths.flat_map(|length| places.iter().map(move |to| (length, (length % 7, *to))))
        {
            for (least, copy) in copies {
                if length < *least {
                    continue;
                }
                let mut destination = vec![0xa5; to + length + 1];
                // SAFETY: there is room for so many behind both places.
                unsafe { copy(source.as_ptr().add(from), destination.as_mut_ptr().add(to), length) };
                assert!(destination[..to].iter().all(|byte| *byte == 0xa5), "{length} from {from} to {to}");
                assert!(
                    destination[to..to + length] == source[from..from + length],
                    "{length} from {from} to {to}"
                );
                assert_eq!(destination[to + length], 0xa5, "{length} from {from} to {to}");
            }
        }
    }

    #[test]
    fn rows_of_every_length_and_step() {
        const MOST: usize = 200;
        const ROWS: usize = 3;
        for isa in [Isa::Baseline, Isa::Avx2, Isa::Avx512, Isa::Neon].into_iter().filter(|isa| isa.is_there())
        {
            for size in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] {
                let (copy, span) = (for_size(isa, size, false).unwrap(), size as isize);
                for (from, to) in [(1, 1), (-1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (-2, 1), (1, 2), (2, -3)]
                {
                    for n in 1..=MOST {
                        check(copy, (from * span, to * span), size, n);
                    }
                }
            }
        }

        /// Copies to and from memory that is exactly as long as the rows are.
        fn check(copy: CopyFn, (from, to): (isize, isize), size: usize, n: usize) {
            let place = |step: isize| {
                let line = (n - 1) * step.unsigned_abs() + size;
                let first = if step < 0 { line - size } else { 0 };
                (first, line + 1, ROWS * (line + 1) - 1)
            };
            let ((from_first, from_row, from_len), (to_first, to_row, to_len)) = (place(from), place(to));
            let source: Vec<u8> = (0..from_len).map(|index| (index * 7 + index / 251) as u8).collect();
            let mut destination = vec![0xa5; to_len];
            let mut expected = destination.clone();
            for (row, index) in (0..ROWS).flat_map(|row| (0..n).map(move |index| (row, index))) {
                let from = (from_first + row * from_row).wrapping_add_signed(index as isize * from);
                let to = (to_first + row * to_row).wrapping_add_signed(index as isize * to);
                expected[to..to + size].copy_from_slice(&source[from..from + size]);
            }
            let from_steps = Steps { element: from, row: from_row as isize };
            let to_steps = Steps { element: to, row: to_row as isize };
            // SAFETY: place() made room for all of them.
            unsafe {
                let (source, to) = (source.as_ptr().add(from_first), destination.as_mut_ptr().add(to_first));
                copy(source, from_steps, to, to_steps, n, ROWS);
            }
            assert!(destination == expected, "{size} bytes, {n} elements, steps {from} and {to}");
        }
    }
}
