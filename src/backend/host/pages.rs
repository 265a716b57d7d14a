//! Memory for large results: pages of their own, huge where the system has them.
//!
//! The first touch of fresh memory costs up to twenty times the copy into it when every small page
//! faults, and next to nothing with huge ones. The memory goes back to the system when it is freed.

use std::ptr::NonNull;

/// From this size on, huge pages beat what malloc gives out fresh several times over, and lose little
/// to what it has kept from an earlier result.
pub const THRESHOLD: usize = 1 << 20;

/// From this size on malloc keeps nothing: it always maps, with small pages.
#[cfg(target_os = "linux")]
const ALWAYS: usize = 32 << 20;

/// The size and alignment of a huge page on most machines.
const HUGE: usize = 2 << 20;

/// A last page that is filled by less than this is left to small ones: those cost less then.
const SHORT_TAIL: usize = 128 << 10;

/// Whether [`map`] should be asked for so many bytes.
pub fn pays(size: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        size >= ALWAYS || (size >= THRESHOLD && huge_pages())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = size;
        false
    }
}

/// New memory of `size` bytes, all of them 0 and none touched yet, at a multiple of `alignment` (a
/// power of two) and of a huge page. None: there is none.
pub fn map(size: usize, alignment: usize) -> Option<NonNull<u8>> {
    debug_assert!(size > 0 && alignment.is_power_of_two());
    #[cfg(target_os = "linux")]
    {
        let alignment = alignment.max(HUGE);
        let length = length(size)?;
        // The kernel aligns to small pages, so somewhere in here is a place.
        let room = length.checked_add(alignment - page())?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, where the kernel likes; of it, only what is cut off goes back.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), room, protection, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return None;
            }
            let start = start.cast::<u8>();
            let before = start.align_offset(alignment);
            let pointer = start.add(before);
            // What fails to be cut off stays reserved, and is never touched.
            for (cut, bytes) in [(start, before), (pointer.add(length), room - before - length)] {
                if bytes > 0 {
                    libc::munmap(cut.cast(), bytes);
                }
            }
            // Where there are no huge pages, small ones will do.
            libc::madvise(pointer.cast(), length, libc::MADV_HUGEPAGE);
            NonNull::new(pointer)
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

/// Gives memory back.
///
/// # Safety
/// It came from [`map`] with this size, and nobody uses it any more.
pub unsafe fn unmap(pointer: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    {
        let length = length(size).unwrap_or(size);
        let start = pointer.as_ptr().cast();
        // SAFETY: the mapping is the caller's, and as long as when it was made.
        unsafe {
            // The kernel limits the number of mappings, so a hole in a larger one may be refused.
            if libc::munmap(start, length) != 0 {
                libc::madvise(start, length, libc::MADV_DONTNEED);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (pointer, size);
    }
}

/// How much is mapped for `size` bytes: whole pages, the last one huge if that pays.
#[cfg(target_os = "linux")]
fn length(size: usize) -> Option<usize> {
    let unit = if size % HUGE < SHORT_TAIL { page() } else { HUGE };
    size.checked_next_multiple_of(unit)
}

#[cfg(target_os = "linux")]
fn page() -> usize {
    // SAFETY: reads a constant.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Whether the system gives huge pages to those who ask; read once.
#[cfg(target_os = "linux")]
fn huge_pages() -> bool {
    use std::sync::atomic::{AtomicU8, Ordering};
    const NO: u8 = 1;
    const YES: u8 = 2;
    // No Once: after a fork one could wait for a thread that is gone.
    static FOUND: AtomicU8 = AtomicU8::new(0);
    match FOUND.load(Ordering::Relaxed) {
        0 => {
            let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
            let found = setting.is_ok_and(|text| text.contains('[') && !text.contains("[never]"));
            FOUND.store(if found { YES } else { NO }, Ordering::Relaxed);
            found
        }
        found => found == YES,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_writable_and_zero() {
        for shift in 0..=30 {
            for size in [1, THRESHOLD, HUGE - 1, HUGE, HUGE + 1, 2 * HUGE + SHORT_TAIL, 5_000_001] {
                let alignment = 1 << shift;
                let pointer = map(size, alignment).unwrap();
                assert!((pointer.as_ptr() as usize).is_multiple_of(alignment.max(HUGE)));
                // SAFETY: all of it is ours until it is unmapped.
                unsafe {
                    let places = [0, size / 2, size - 1].map(|index| pointer.add(index));
                    assert!(places.iter().all(|place| place.read() == 0));
                    places.iter().for_each(|place| place.write(7));
                    unmap(pointer, size);
                }
            }
        }
    }

    #[test]
    fn maps_whole_pages() {
        assert_eq!(length(1), Some(page()));
        assert_eq!(length(THRESHOLD), Some(HUGE));
        assert_eq!(length(HUGE), Some(HUGE));
        assert_eq!(length(HUGE + 1), Some(HUGE + page()));
        assert_eq!(length(HUGE + SHORT_TAIL), Some(2 * HUGE));
        assert_eq!(length(usize::MAX), None);
        assert!(map(usize::MAX - HUGE, 1).is_none());
        assert!(map(1 << 60, 1).is_none());
        assert!(!pays(THRESHOLD - 1));
        assert!(pays(ALWAYS));
    }

    /// The process's address space, in bytes.
    fn mapped() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').next().unwrap().parse::<usize>().unwrap() * page()
    }

    #[test]
    fn unmaps_exactly_what_it_mapped() {
        // In a child nobody else maps anything.
        // SAFETY: the child leaves by _exit, killed if that takes for ever.
        unsafe {
            let process = libc::fork();
            assert!(process >= 0);
            if process == 0 {
                libc::alarm(60);
                mapped();
                let before = mapped();
                let mut status = 0;
                for (size, alignment) in [(1, 1), (THRESHOLD, 64), (9_999_999, 1 << 30), (64 << 20, 4096)] {
                    let Some(pointer) = map(size, alignment) else { libc::_exit(1) };
                    status |= i32::from(mapped() != before + length(size).unwrap_or(0)) << 1;
                    unmap(pointer, size);
                    status |= i32::from(mapped() != before) << 2;
                    let mut resident = 0u8;
                    let last = pointer.as_ptr().add((size - 1) & !(page() - 1));
                    for gone in [pointer.as_ptr(), last] {
                        status |= i32::from(libc::mincore(gone.cast(), 1, &mut resident) == 0) << 3;
                    }
                }
                libc::_exit(status);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(process, &mut status, 0), process);
            assert!(libc::WIFEXITED(status));
            assert_eq!(libc::WEXITSTATUS(status), 0);
        }
    }
}
