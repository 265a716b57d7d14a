//! Memory of the library's own for drivers' sides, which may run out: what `Arc`, `Box` and `Vec` end the
//! process for is an error here.

use std::alloc::{Layout, alloc};
use std::ffi::{CStr, c_void};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use super::host;
use crate::error::{Error, Result};

/// There is no room for a value.
#[cold]
pub fn out_of_memory(layout: Layout) -> Error {
    let (bytes, alignment) = (layout.size() as u64, layout.align() as u64);
    Error::OutOfMemory { device: host::DEVICE, bytes, alignment }
}

/// Opens a library of a driver's; None: it cannot be opened. Fails where there was no memory for it.
///
/// # Safety
/// Its initialisers may be run.
pub unsafe fn library(name: &CStr) -> Result<Option<NonNull<c_void>>> {
    // SAFETY: as the caller says. What is told of a failure is this thread's until its next call.
    unsafe {
        let opened = libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if opened.is_null() {
            // Not errno, which a library that is not there may leave as it was.
            let told = libc::dlerror();
            let told = if told.is_null() { c"" } else { CStr::from_ptr(told) };
            let has = |words: &[u8]| told.to_bytes().windows(words.len()).any(|part| part == words);
            // "Cannot allocate memory", "out of memory", and the like.
            if has(b"allocate") || has(b"out of memory") {
                return Err(out_of_memory(Layout::new::<usize>()));
            }
        }
        Ok(NonNull::new(opened))
    }
}

/// A value on the heap.
pub fn boxed<T>(value: T) -> Result<Box<T>> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        return Ok(Box::new(value));
    }
    // SAFETY: the layout is not empty; the block is new, and as a box of the type has it.
    unsafe {
        let block = NonNull::new(alloc(layout).cast::<T>()).ok_or_else(|| out_of_memory(layout))?;
        block.write(value);
        Ok(Box::from_raw(block.as_ptr()))
    }
}

/// An empty list with room for so many.
pub fn list<T>(room: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, room)?;
    Ok(list)
}

/// So many of a value.
pub fn list_of<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut list = list(count)?;
    list.resize(count, value);
    Ok(list)
}

/// Makes room for so many more.
pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    list.try_reserve(more)
        .map_err(|_| out_of_memory(Layout::array::<T>(list.len() + more).unwrap_or(Layout::new::<T>())))
}

/// A value that several own; the last one drops it.
pub struct Shared<T>(NonNull<Counted<T>>);

struct Counted<T> {
    owners: AtomicUsize,
    value: T,
}

// SAFETY: as of Arc: owners on any thread reach the value by reference, and the last one drops it.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// With one owner.
    pub fn new(value: T) -> Result<Shared<T>> {
        let counted = boxed(Counted { owners: AtomicUsize::new(1), value })?;
        Ok(Shared(NonNull::from(Box::leak(counted))))
    }

    /// How many own it.
    pub fn owners(&self) -> usize {
        self.counted().owners.load(Ordering::Acquire)
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: it is there as long as it has an owner.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        self.counted().owners.fetch_add(1, Ordering::Relaxed);
        Shared(self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if self.counted().owners.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: it was a box, and nobody else has it any more.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_owner_drops_it() {
        struct Told<'a>(&'a AtomicUsize);
        impl Drop for Told<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let drops = AtomicUsize::new(0);
        let first = Shared::new(Told(&drops)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mine = first.clone();
                scope.spawn(move || drop(mine.clone()));
            }
        });
        assert_eq!((first.owners(), drops.load(Ordering::SeqCst)), (1, 0));
        drop(first);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn lists_that_are_too_long_are_refused() {
        assert!(matches!(list::<u64>(usize::MAX), Err(Error::OutOfMemory { .. })));
        assert_eq!(list_of(7u8, 3), Ok(vec![7, 7, 7]));
    }
}
