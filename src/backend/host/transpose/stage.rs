//! The buffer in which columns are put together. On the stack it would be larger than some threads' whole
//! stacks, and asking for its pages anew takes longer than a small matrix: so some are kept for whoever comes
//! next. They are not thread-local: where memory is short, the system ends a process one of whose threads
//! touches a library's thread-local data for the first time.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::strips::MOST_COLUMNS;
use crate::backend::host::stream::{LINE, Line};

/// Bytes of the buffer, without the lines that are carried.
pub const STAGE: usize = 256 << 10;

/// A buffer that nobody else uses, at a multiple of a page. It is kept when this is dropped.
pub struct Stage(NonNull<u8>);

/// So that which of its lines share sets of the first cache is the same wherever it lies.
const PAGE: usize = 4096;

const LAYOUT: Layout = match Layout::from_size_align(STAGE + MOST_COLUMNS * LINE, PAGE) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// A power of two; threads beyond so many make their buffers anew.
const PLACES: usize = 32;

/// Buffers that wait; NULL: a place for one.
struct Kept([AtomicPtr<u8>; PLACES]);

static KEPT: Kept = Kept::new();

impl Kept {
    const fn new() -> Kept {
        Kept([const { AtomicPtr::new(null_mut()) }; PLACES])
    }

    /// Every place, beginning with one that hardly any other thread begins with: stacks lie far from each other.
    fn places(&self) -> impl Iterator<Item = &AtomicPtr<u8>> {
        let here = 0u8;
        let stack = ((&raw const here).addr() >> 16) as u64;
        let first = (stack.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        (0..PLACES).map(move |index| &self.0[first.wrapping_add(index) % PLACES])
    }

    fn take(&self) -> Option<NonNull<u8>> {
        self.places().find_map(|place| {
            // Nobody is disturbed where there is none.
            let waits = !place.load(Ordering::Relaxed).is_null();
            waits.then(|| NonNull::new(place.swap(null_mut(), Ordering::Acquire))).flatten()
        })
    }

    /// False: there is no place.
    fn keep(&self, buffer: NonNull<u8>) -> bool {
        self.places().any(|place| {
            let (free, buffer) = (null_mut(), buffer.as_ptr());
            place.load(Ordering::Relaxed).is_null()
                && place.compare_exchange(free, buffer, Ordering::Release, Ordering::Relaxed).is_ok()
        })
    }
}

impl Stage {
    /// None: there is no memory for one.
    #[inline]
    pub fn take() -> Option<Stage> {
        // SAFETY: the layout is not empty.
        KEPT.take().or_else(|| NonNull::new(unsafe { alloc(LAYOUT) })).map(Stage)
    }

    /// Its first byte. Nothing of it is written yet.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// A line after all that: what is kept of a row of the destination for the piece of it that comes next. There are
    /// [`MOST_COLUMNS`].
    #[inline]
    pub fn carried(&self, index: usize) -> *mut Line {
        debug_assert!(index < MOST_COLUMNS);
        self.start().wrapping_add(STAGE).cast::<Line>().wrapping_add(index)
    }
}

impl Drop for Stage {
    #[inline]
    fn drop(&mut self) {
        if !KEPT.keep(self.0) {
            // SAFETY: allocated with this layout, and nobody else's.
            unsafe { dealloc(self.0.as_ptr(), LAYOUT) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_as_many_as_there_are_places() {
        let kept = Kept::new();
        let buffer = |number: usize| NonNull::new(std::ptr::without_provenance_mut(number)).unwrap();
        assert!((1..=PLACES).all(|number| kept.keep(buffer(number))));
        assert!(!kept.keep(buffer(PLACES + 1)));
        let mut taken: Vec<usize> =
            std::iter::from_fn(|| kept.take()).map(|buffer| buffer.addr().get()).collect();
        taken.sort();
        assert_eq!(taken, Vec::from_iter(1..=PLACES));
        assert!(kept.keep(buffer(1)));
    }

    #[test]
    fn nobody_shares_one() {
        std::thread::scope(|scope| {
            for thread in 0..8u8 {
                scope.spawn(move || {
                    for round in 0..if cfg!(miri) { 10 } else { 2000 } {
                        let mark = thread ^ round as u8;
                        let stages = [Stage::take().unwrap(), Stage::take().unwrap()];
                        // SAFETY: the last byte of each.
                        let ends = stages.each_ref().map(|stage| unsafe { stage.start().add(STAGE - 1) });
                        for (at, stage) in stages.iter().enumerate() {
                            assert!((stage.start() as usize).is_multiple_of(PAGE));
                            // SAFETY: as above.
                            unsafe { ends[at].write(mark.wrapping_add(at as u8)) };
                        }
                        std::thread::yield_now();
                        // SAFETY: as above.
                        assert_eq!(ends.map(|end| unsafe { end.read() }), [mark, mark.wrapping_add(1)]);
                    }
                });
            }
        });
    }
}
