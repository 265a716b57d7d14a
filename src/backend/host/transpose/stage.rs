//! The buffer in which columns are put together. Each thread keeps one: on the stack it would be larger
//! than some threads' whole stacks, and asking for its pages anew takes longer than a small matrix.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ptr::NonNull;

/// Bytes of the buffer.
pub const STAGE: usize = 256 << 10;

/// A buffer of the thread's, at a multiple of a line. It goes back to the thread when this is dropped.
pub struct Stage(NonNull<u8>);

/// Frees what a thread leaves.
struct Kept(Cell<Option<NonNull<u8>>>);

const LAYOUT: Layout = match Layout::from_size_align(STAGE, super::LINE) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

thread_local! {
    static KEPT: Kept = const { Kept(Cell::new(None)) };
}

impl Stage {
    /// None: there is no memory for one.
    #[inline]
    pub fn take() -> Option<Stage> {
        // A thread that ends may have none to keep any more.
        let kept = KEPT.try_with(|kept| kept.0.take()).ok().flatten();
        // SAFETY: the layout is not empty.
        kept.or_else(|| NonNull::new(unsafe { alloc(LAYOUT) })).map(Stage)
    }

    /// Its first byte. Nothing of it is written yet.
    #[inline]
    pub fn start(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Drop for Stage {
    #[inline]
    fn drop(&mut self) {
        let mut over = Some(self.0);
        // One that was taken meanwhile, or left by a thread that has ended, is freed.
        let _ = KEPT.try_with(|kept| over = kept.0.replace(over));
        free(over);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        free(self.0.take());
    }
}

fn free(buffer: Option<NonNull<u8>>) {
    if let Some(buffer) = buffer {
        // SAFETY: allocated with this layout, and nobody else's.
        unsafe { dealloc(buffer.as_ptr(), LAYOUT) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_one() {
        let first = Stage::take().unwrap();
        let (start, second) = (first.start(), Stage::take().unwrap());
        assert_ne!(second.start(), start);
        assert!((start as usize).is_multiple_of(super::super::LINE));
        // SAFETY: the last byte of each.
        unsafe {
            start.add(STAGE - 1).write(1);
            second.start().add(STAGE - 1).write(2);
            assert_eq!(start.add(STAGE - 1).read(), 1);
        }
        drop(second);
        drop(first);
        assert_eq!(Stage::take().unwrap().start(), start);
    }
}
