//! Pages of a destination that are made before they are written.
//!
//! A page that a program has never touched costs an interrupt when it is written first, of which there are five
//! hundred to a slot of the staging ring. A thread that waits for a copy has the time for them.

/// Fewer bytes are not worth asking for.
const LEAST: usize = 64 << 10;

/// Makes the pages of so many bytes that are about to be written; what is there stays as it is. Where that cannot
/// be done, they are made when they are written.
pub fn prefault(start: u64, bytes: u64) {
    let (Ok(start), Ok(bytes)) = (usize::try_from(start), usize::try_from(bytes)) else { return };
    if bytes < LEAST {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        let page = page();
        let first = start / page * page;
        // Memory that has been written before is there as a whole, as a rule.
        let middle = (start + bytes / 2) / page * page;
        if residents(middle, page) == 0 {
            // SAFETY: it changes no byte, and fails where there is no memory. Linux has it since 5.14.
            unsafe { libc::madvise(first as *mut _, start + bytes - first, libc::MADV_POPULATE_WRITE) };
        }
    }
}

#[cfg(target_os = "linux")]
fn page() -> usize {
    // SAFETY: it asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// How many pages from a multiple of a page on are there, of so many bytes; of up to 64 pages.
#[cfg(target_os = "linux")]
fn residents(start: usize, bytes: usize) -> usize {
    let mut there = [0u8; 64];
    let pages = bytes.div_ceil(page()).min(there.len());
    // SAFETY: there is a byte for each page.
    let code = unsafe { libc::mincore(start as *mut _, pages * page(), there.as_mut_ptr()) };
    if code == 0 { there[..pages].iter().filter(|there| **there & 1 != 0).count() } else { pages }
}

#[cfg(all(test, target_os = "linux"))]
pub mod tests {
    use super::*;

    /// Memory of pages that nobody has touched.
    pub struct Fresh {
        pub start: usize,
        pub bytes: usize,
    }

    impl Fresh {
        pub fn new(bytes: usize) -> Fresh {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: new memory, of pages that are counted one by one.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED);
            // SAFETY: it is this memory.
            unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
            Fresh { start: start as usize, bytes }
        }

        /// How many it has.
        pub fn pages(&self) -> usize {
            self.bytes / page()
        }

        /// How many of them are there.
        pub fn residents(&self) -> usize {
            (0..self.bytes).step_by(64 * page()).map(|at| residents(self.start + at, self.bytes - at)).sum()
        }
    }

    impl Drop for Fresh {
        fn drop(&mut self) {
            // SAFETY: it is ours, and goes once.
            unsafe { libc::munmap(self.start as *mut _, self.bytes) };
        }
    }

    /// Whether this system makes pages when it is asked to, and tells which are there: emulators may not.
    pub fn is_possible() -> bool {
        let memory = Fresh::new(page());
        let before = memory.residents();
        // SAFETY: the memory is ours.
        unsafe { libc::madvise(memory.start as *mut _, page(), libc::MADV_POPULATE_WRITE) };
        let possible = before == 0 && memory.residents() == 1;
        if !possible {
            println!("SKIPPED: pages made ahead: this system has no MADV_POPULATE_WRITE");
        }
        possible
    }

    #[test]
    fn what_is_written_is_there_before_and_nothing_else() {
        if !is_possible() {
            return;
        }
        let memory = Fresh::new(64 * page());
        prefault((memory.start + 10 * page() + 5) as u64, LEAST as u64);
        assert_eq!(memory.residents(), (LEAST + 5).div_ceil(page()));
        // What is there already stays: somebody's bytes, around and within.
        let bytes = memory.start as *mut u8;
        // SAFETY: the memory is ours.
        unsafe { bytes.add(40 * page()).write_bytes(7, page()) };
        prefault(memory.start as u64, memory.bytes as u64);
        assert_eq!(memory.residents(), 64);
        for page_of in 0..64 {
            // SAFETY: as above.
            let got = unsafe { bytes.add(page_of * page()).read() };
            assert_eq!(got, if page_of == 40 { 7 } else { 0 });
        }
        // Nothing happens where there is no memory.
        prefault(page() as u64, 1 << 20);
    }
}
