//! Memory for large results: pages of their own, huge where the system has them.
//!
//! The first touch of fresh memory costs up to twenty times the copy into it when every small page
//! faults, and half as much as the copy with huge ones. So the last mapping that was freed is kept for
//! the next result of about its size, as malloc keeps what it has got back; the others go back to the
//! system. A large one is kept for about a second, and the system may have every page that it needs before.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use super::threads;

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

/// The largest mapping that is kept whole when it is freed: as much as malloc keeps at most.
const KEPT_SIZE: usize = 32 << 20;

/// The largest mapping that is kept with its pages on offer to the system, and how long.
const OFFERED_SIZE: usize = 512 << 20;
const OFFERED_FOR: Duration = Duration::from_secs(1);

/// Whether a result of so many bytes should have a [`Mapping`].
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

/// Pages of a result, which go back when this is dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
    zero: bool,
}

impl Mapping {
    /// Memory of `size` bytes at a multiple of `alignment` (a power of two) and of a huge page. None:
    /// there is none.
    pub fn new(size: usize, alignment: usize) -> Option<Mapping> {
        debug_assert!(size > 0 && alignment.is_power_of_two());
        #[cfg(target_os = "linux")]
        {
            let length = length(size)?;
            kept(length, alignment).or_else(|| map(length, alignment.max(HUGE)))
        }
        #[cfg(not(target_os = "linux"))]
        {
            None
        }
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Whether every byte is 0, none having been touched.
    pub fn is_zero(&self) -> bool {
        self.zero
    }
}

/// The mapping that was freed last; its first bytes hold its length. NULL: there is none.
static KEPT: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

impl Drop for Mapping {
    fn drop(&mut self) {
        let Mapping { start, length, .. } = *self;
        let large = length > KEPT_SIZE;
        // SAFETY: nobody uses the memory any more.
        if large && (length > OFFERED_SIZE || !unsafe { offer(start, length) }) {
            // SAFETY: as above.
            return unsafe { unmap(start, length) };
        }
        // SAFETY: as above.
        unsafe { keep(start, length) };
        if large && !keeper() {
            give_back();
        }
    }
}

/// Puts a mapping in the place of the one that was kept before, which goes back to the system.
///
/// # Safety
/// It is a mapping of this length, and nobody uses it any more.
unsafe fn keep(start: NonNull<u8>, length: usize) {
    // SAFETY: the caller's; a mapping is longer than a number and aligned for one. A page that is written to
    // is not on offer any more.
    unsafe { start.cast::<usize>().write(length) };
    if let Some(before) = NonNull::new(KEPT.swap(start.as_ptr(), Ordering::SeqCst)) {
        // SAFETY: whoever takes it out of its place owns it; the length is where it was written above.
        unsafe { unmap(before, before.cast::<usize>().read()) };
    }
}

/// Gives what is kept back to the system, if it is large.
fn give_back() {
    if let Some(start) = NonNull::new(KEPT.swap(std::ptr::null_mut(), Ordering::SeqCst)) {
        // SAFETY: whoever takes it out of its place owns it; the length is where keep() has put it.
        unsafe {
            match start.cast::<usize>().read() {
                length @ ..=KEPT_SIZE => keep(start, length),
                length => unmap(start, length),
            }
        }
    }
}

/// Large mappings that were freed, counted.
static FREED: AtomicU32 = AtomicU32::new(0);
/// Whether there is a thread that will give back what is kept.
static KEEPER: AtomicBool = AtomicBool::new(false);

/// Sees to it that what was freed goes back in a while; false: there is no thread for that.
fn keeper() -> bool {
    FREED.fetch_add(1, Ordering::SeqCst);
    if KEEPER.swap(true, Ordering::SeqCst) {
        return true;
    }
    let made = threads::start(|| {
        loop {
            let seen = FREED.load(Ordering::SeqCst);
            std::thread::sleep(OFFERED_FOR);
            if FREED.load(Ordering::SeqCst) != seen {
                continue;
            }
            give_back();
            KEEPER.store(false, Ordering::SeqCst);
            // Who has freed one meanwhile relies on this thread, or has made another.
            if FREED.load(Ordering::SeqCst) == seen || KEEPER.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    });
    if !made {
        KEEPER.store(false, Ordering::SeqCst);
    }
    made
}

/// A child of a fork has none of the threads.
pub fn in_child() {
    KEEPER.store(false, Ordering::SeqCst);
}

/// The kept mapping, if it is what was asked for and not much more.
#[cfg(target_os = "linux")]
fn kept(length: usize, alignment: usize) -> Option<Mapping> {
    let start = NonNull::new(KEPT.swap(std::ptr::null_mut(), Ordering::SeqCst))?;
    // SAFETY: whoever takes it out of its place owns it; the length is where keep() has put it.
    let kept = unsafe { start.cast::<usize>().read() };
    let fits = length <= kept && kept / 2 <= length;
    if fits && (start.as_ptr() as usize).is_multiple_of(alignment) {
        return Some(Mapping { start, length: kept, zero: false });
    }
    // A large one is not held beside another.
    // SAFETY: as above.
    unsafe { if kept > KEPT_SIZE { unmap(start, kept) } else { keep(start, kept) } };
    None
}

/// A new mapping of so many bytes, whole pages, at a multiple of `alignment`.
#[cfg(target_os = "linux")]
fn map(length: usize, alignment: usize) -> Option<Mapping> {
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
        NonNull::new(pointer).map(|start| Mapping { start, length, zero: true })
    }
}

/// Gives memory back to the system.
///
/// # Safety
/// It is a mapping of this length, and nobody uses it any more.
unsafe fn unmap(start: NonNull<u8>, length: usize) {
    #[cfg(target_os = "linux")]
    {
        let start = start.as_ptr().cast();
        // SAFETY: the mapping is the caller's.
        unsafe {
            // The kernel limits the number of mappings, so a hole in a larger one may be refused.
            if libc::munmap(start, length) != 0 {
                libc::madvise(start, length, libc::MADV_DONTNEED);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (start, length);
    }
}

/// Offers the pages of a mapping to the system: those that it takes, when memory is short, are zero
/// afterwards, the others as they were. False: it does not take offers.
///
/// # Safety
/// It is a mapping of this length, and nobody needs what is in it.
unsafe fn offer(start: NonNull<u8>, length: usize) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the mapping is the caller's.
        unsafe { libc::madvise(start.as_ptr().cast(), length, libc::MADV_FREE) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (start, length);
        false
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
            let mut room = [0; 64];
            let setting = super::system::read(c"/sys/kernel/mm/transparent_hugepage/enabled", &mut room);
            let found = setting.is_some_and(|text| text.contains('[') && !text.contains("[never]"));
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
    fn is_aligned_and_writable() {
        for shift in 0..=30 {
            for size in [1, THRESHOLD, HUGE - 1, HUGE, HUGE + 1, 2 * HUGE + SHORT_TAIL, 5_000_001] {
                let alignment = 1 << shift;
                let mapping = Mapping::new(size, alignment).unwrap();
                let pointer = mapping.start();
                assert!((pointer.as_ptr() as usize).is_multiple_of(alignment.max(HUGE)));
                // SAFETY: all of it is ours until it is dropped.
                unsafe {
                    let places = [0, size / 2, size - 1].map(|index| pointer.add(index));
                    assert!(!mapping.is_zero() || places.iter().all(|place| place.read() == 0));
                    places.iter().for_each(|place| place.write(7));
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
        assert!(Mapping::new(usize::MAX - HUGE, 1).is_none());
        assert!(Mapping::new(1 << 60, 1).is_none());
        assert!(!pays(THRESHOLD - 1));
        assert!(pays(ALWAYS));
    }

    /// The process's address space, in bytes.
    fn mapped() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').next().unwrap().parse::<usize>().unwrap() * page()
    }

    /// Runs a test in a child process, where nobody else maps anything; it returns a bit for each check
    /// that fails.
    fn alone(test: impl FnOnce() -> i32) {
        // SAFETY: the child leaves by _exit, killed if that takes for ever.
        unsafe {
            let process = libc::fork();
            assert!(process >= 0);
            if process == 0 {
                libc::alarm(60);
                libc::_exit(test());
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(process, &mut status, 0), process);
            assert!(libc::WIFEXITED(status), "{status:#x}");
            assert_eq!(libc::WEXITSTATUS(status), 0);
        }
    }

    #[test]
    fn unmaps_exactly_what_it_mapped() {
        alone(|| {
            KEPT.store(std::ptr::null_mut(), Ordering::Release);
            mapped();
            let before = mapped();
            let mut failed = 0;
            for (size, alignment) in [(OFFERED_SIZE + 1, 1), (600 << 20, 64), (999_999_999, 1 << 30)] {
                let Some(mapping) = Mapping::new(size, alignment) else { return 1 };
                let start = mapping.start().as_ptr();
                failed |= i32::from(!mapping.is_zero()) << 1;
                failed |= i32::from(mapped() != before + length(size).unwrap_or(0)) << 2;
                drop(mapping);
                failed |= i32::from(mapped() != before) << 3;
                let mut resident = 0u8;
                for gone in [start, start.wrapping_add((size - 1) & !(page() - 1))] {
                    // SAFETY: mincore looks at the page table only, and writes one byte.
                    failed |= i32::from(unsafe { libc::mincore(gone.cast(), 1, &mut resident) } == 0) << 4;
                }
            }
            failed
        });
    }

    #[test]
    fn keeps_one_mapping_for_the_next_of_its_size() {
        alone(|| {
            KEPT.store(std::ptr::null_mut(), Ordering::Release);
            mapped();
            let before = mapped();
            let get = |size, alignment| Mapping::new(size, alignment).unwrap();
            let mapping = get(9_000_000, 64);
            let start = mapping.start();
            drop(mapping);
            let kept = mapped() - before;
            let mut failed = i32::from(kept != length(9_000_000).unwrap_or(0));
            // The same again, and one that is smaller, but not by half; not one that is smaller yet.
            for size in [9_000_000, 5_000_000] {
                let again = get(size, 256);
                failed |= i32::from(again.start() != start || again.is_zero()) << 1;
            }
            let small = get(2_000_000, 64);
            failed |= i32::from(small.start() == start || !small.is_zero()) << 2;
            // Two at once are two, of which the one that is freed last is kept.
            let (first, second) = (get(9_000_000, 64), get(9_000_000, 64));
            failed |= i32::from(first.start() == second.start()) << 3;
            drop((first, second, small));
            failed |= i32::from(mapped() - before != length(2_000_000).unwrap_or(0)) << 4;
            failed
        });
    }

    #[test]
    fn keeps_a_large_mapping_for_a_while() {
        alone(|| {
            KEPT.store(std::ptr::null_mut(), Ordering::Release);
            let get = |size| Mapping::new(size, 64).unwrap();
            let large = get(KEPT_SIZE + 1);
            let start = large.start();
            drop(large);
            // Its length is found again though its pages were on offer.
            let again = get(KEPT_SIZE + 1);
            let mut failed = i32::from(again.start() != start || again.is_zero());
            // It does not lie beside one that is much larger or smaller.
            drop(again);
            let other = get(200 << 20);
            failed |= i32::from(!KEPT.load(Ordering::SeqCst).is_null()) << 1;
            drop(other);
            failed |= i32::from(KEPT.load(Ordering::SeqCst).is_null()) << 2;
            // Nobody comes for it.
            while !KEPT.load(Ordering::SeqCst).is_null() || KEEPER.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(50));
            }
            // And again, by another thread.
            drop(get(200 << 20));
            while !KEPT.load(Ordering::SeqCst).is_null() {
                std::thread::sleep(Duration::from_millis(50));
            }
            failed
        });
    }
}
