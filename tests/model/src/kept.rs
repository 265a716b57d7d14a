//! What the host keeps for the next job, in places that threads exchange: buffers of transposes
//! (src/backend/host/transpose/stage.rs) and the last mapping (src/backend/host/pages.rs).

use super::executions;

mod stage {
    use std::ptr::{NonNull, null_mut};

    use shuttle::sync::atomic::{AtomicPtr, Ordering};

    include!(concat!(env!("OUT_DIR"), "/stage.rs"));

    fn buffer(number: usize) -> NonNull<u8> {
        NonNull::new(std::ptr::without_provenance_mut(number)).unwrap()
    }

    /// Three threads, and fewer buffers: none is with two of them, none is lost.
    #[test]
    fn buffers_are_with_one_thread() {
        let run = || {
            let kept = shuttle::sync::Arc::new(Kept::new());
            let out = shuttle::sync::Arc::new([const { shuttle::sync::atomic::AtomicUsize::new(0) }; 3]);
            assert!(kept.keep(buffer(1)) && kept.keep(buffer(2)));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (kept, out) = (kept.clone(), out.clone());
                    shuttle::thread::spawn(move || {
                        let Some(taken) = kept.take() else { return };
                        let count = &out[taken.addr().get()];
                        assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0, "two threads have a buffer");
                        count.fetch_sub(1, Ordering::SeqCst);
                        assert!(kept.keep(taken), "a place is lost");
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let mut left =
                [kept.take(), kept.take()].map(|buffer| buffer.expect("a buffer is lost").addr().get());
            left.sort();
            assert!(left == [1, 2] && kept.take().is_none());
        };
        shuttle::check_random(run, super::executions());
        shuttle::check_pct(run, super::executions(), 3);
    }
}

mod pages {
    use std::ptr::NonNull;
    use std::time::Duration;

    use shuttle::rand::Rng;
    use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
    use std::sync::atomic::AtomicUsize;

    /// A word is small, two are large.
    const KEPT_SIZE: usize = size_of::<usize>();
    const OFFERED_SIZE: usize = 2 * size_of::<usize>();
    const OFFERED_FOR: Duration = Duration::ZERO;
    const ALIGNMENT: usize = align_of::<usize>();

    include!(concat!(env!("OUT_DIR"), "/pages.rs"));

    /// Mappings that are out, and threads that give them back.
    static MAPPED: AtomicUsize = AtomicUsize::new(0);
    static KEEPERS: AtomicUsize = AtomicUsize::new(0);

    mod threads {
        use super::*;

        /// Now and then the system has no thread.
        pub fn start(function: fn()) -> bool {
            let made = shuttle::rand::thread_rng().gen_bool(0.8);
            if made {
                KEEPERS.fetch_add(1, Ordering::SeqCst);
                drop(shuttle::thread::spawn(move || {
                    function();
                    KEEPERS.fetch_sub(1, Ordering::SeqCst);
                }));
            }
            made
        }
    }

    /// For as long as the scheduler likes.
    fn sleep(_: Duration) {
        shuttle::thread::yield_now();
    }

    unsafe fn offer(_: NonNull<u8>, _: usize) -> bool {
        true
    }

    unsafe fn unmap(start: NonNull<u8>, length: usize) {
        MAPPED.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: map() has made it.
        drop(unsafe { Vec::from_raw_parts(start.cast::<usize>().as_ptr(), 0, length / size_of::<usize>()) });
    }

    /// A stand-in for pages.
    fn map(length: usize) -> Mapping {
        MAPPED.fetch_add(1, Ordering::SeqCst);
        let memory = Vec::<usize>::with_capacity(length / size_of::<usize>()).leak();
        Mapping { start: NonNull::from(memory).cast(), length, zero: true }
    }

    /// Two threads with a small, a large and a very large result each. All is given back once, and in a while
    /// nothing large is kept.
    #[test]
    fn every_mapping_goes_back_once() {
        let run = || {
            let threads: Vec<_> = (0..2)
                .map(|thread| {
                    shuttle::thread::spawn(move || {
                        for words in [3, 2 - thread, 2] {
                            let length = words * size_of::<usize>();
                            let mapping = kept(length, ALIGNMENT).unwrap_or_else(|| map(length));
                            assert!(mapping.length >= length);
                            let place = mapping.start.cast::<usize>();
                            // SAFETY: whoever has a mapping has it alone.
                            unsafe { place.write(thread) };
                            shuttle::thread::yield_now();
                            // SAFETY: as above.
                            assert_eq!(unsafe { place.read() }, thread, "two threads have a mapping");
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            while KEEPERS.load(Ordering::SeqCst) > 0 {
                shuttle::thread::yield_now();
            }
            assert!(!KEEPER.load(Ordering::SeqCst), "the thread that gives back is thought to be there");
            if let Some(last) = NonNull::new(KEPT.swap(std::ptr::null_mut(), Ordering::SeqCst)) {
                // SAFETY: it is nobody else's, and begins with its length.
                let length = unsafe { last.cast::<usize>().read() };
                assert!(length <= KEPT_SIZE, "a large mapping is kept for ever");
                // SAFETY: as above.
                unsafe { unmap(last, length) };
            }
            assert_eq!(MAPPED.load(Ordering::SeqCst), 0);
        };
        shuttle::check_random(run, super::executions());
        shuttle::check_pct(run, super::executions(), 3);
    }
}
