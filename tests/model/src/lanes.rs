//! The lanes of OpenCL's contexts (src/backend/opencl/lane.rs), which go with their last user, and their programs
//! (src/backend/opencl/idle.rs), which a thread lets go a little later.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::PoisonError;

use shuttle::rand::Rng;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::{Mutex, MutexGuard};

use super::executions;
use super::rings::{Result, Shared, reserve};

#[derive(Clone, Copy)]
pub struct Site {
    context: usize,
    device: usize,
}

include!(concat!(env!("OUT_DIR"), "/lanes.rs"));

mod idle {
    use std::mem::{forget, replace};
    use std::process;
    use std::sync::PoisonError;
    use std::time::Duration;

    use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use shuttle::sync::{Mutex, MutexGuard};

    use super::{Programs, Site};

    #[allow(non_camel_case_types)]
    type cl_context = usize;
    #[allow(non_camel_case_types)]
    type cl_device_id = usize;

    const LOOK: Duration = Duration::ZERO;
    const PATIENCE: usize = usize::MAX;

    include!(concat!(env!("OUT_DIR"), "/idle.rs"));

    fn watch_exit() -> bool {
        !super::is_refused()
    }

    mod threads {
        use std::panic::{catch_unwind, resume_unwind};

        use super::super::{KEEPERS, is_refused};
        use super::End;

        pub fn start(function: fn()) -> bool {
            if is_refused() {
                return false;
            }
            KEEPERS.set(KEEPERS.get() + 1);
            drop(shuttle::thread::spawn(move || {
                let end = catch_unwind(function);
                KEEPERS.set(KEEPERS.get() - 1);
                if let Err(end) = end
                    && !end.is::<End>()
                {
                    resume_unwind(end);
                }
            }));
            true
        }
    }

    /// What a thread that would go on for ever unwinds with.
    struct End;

    /// For as long as the scheduler likes.
    fn sleep(_: Duration) {
        shuttle::thread::yield_now();
        while super::TIME_STANDS.get() {
            shuttle::thread::yield_now();
        }
        if super::IS_OVER.get() {
            std::panic::resume_unwind(Box::new(End));
        }
    }

    /// What an exit does.
    pub fn exit() {
        at_exit();
    }

    /// What is kept.
    pub fn left() -> Vec<Programs> {
        state().idle.iter_mut().filter_map(Option::take).map(|idle| idle.programs).collect()
    }
}

// All of an execution runs on one thread of the system.
std::thread_local! {
    /// Lanes that there are, programs, and threads that let them go.
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static LOADED: Cell<usize> = const { Cell::new(0) };
    static KEEPERS: Cell<usize> = const { Cell::new(0) };
    /// How often programs were loaded.
    static LOADS: Cell<usize> = const { Cell::new(0) };
    /// Whether the system now and then has no thread.
    static REFUSES: Cell<bool> = const { Cell::new(false) };
    /// Whether those that sleep go on to.
    static TIME_STANDS: Cell<bool> = const { Cell::new(false) };
    /// Whether a process that exits has gone so far that the driver may not be called.
    static DRIVER_IS_GONE: Cell<bool> = const { Cell::new(false) };
    /// Whether the threads that still run are to end.
    static IS_OVER: Cell<bool> = const { Cell::new(false) };
}

fn is_refused() -> bool {
    REFUSES.get() && shuttle::rand::thread_rng().gen_bool(0.3)
}

pub struct Lane {
    site: Site,
    programs: Programs,
}

impl Lane {
    unsafe fn new(site: Site) -> Result<Lane> {
        LIVE.set(LIVE.get() + 1);
        let programs = idle::take(&site).unwrap_or_else(|| Programs(AtomicBool::new(false)));
        Ok(Lane { site, programs })
    }
}

impl Deref for Lane {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        LIVE.set(LIVE.get() - 1);
        // The driver takes its time.
        shuttle::thread::yield_now();
    }
}

/// Whether they are loaded.
pub struct Programs(AtomicBool);

impl Programs {
    fn load(&self) {
        if !self.0.swap(true, Ordering::SeqCst) {
            LOADS.set(LOADS.get() + 1);
            LOADED.set(LOADED.get() + 1);
        }
    }

    fn take(&self) -> Option<Programs> {
        self.0.swap(false, Ordering::SeqCst).then(|| Programs(AtomicBool::new(true)))
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        if self.0.load(Ordering::SeqCst) {
            shuttle::thread::yield_now();
            assert!(!DRIVER_IS_GONE.get(), "a driver is called that is not there any more");
            LOADED.set(LOADED.get() - 1);
        }
    }
}

/// Three threads, each with a lane of one context after the other. All lanes have gone then.
fn threads(contexts: impl Fn(usize) -> Vec<usize>, loads: bool) {
    LOADS.set(0);
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let contexts = contexts(thread);
            shuttle::thread::spawn(move || {
                for context in contexts {
                    // SAFETY: nothing here is a handle.
                    let held = unsafe { Held::of(&Site { context, device: 0 }) }.unwrap();
                    if loads {
                        held.programs.load();
                    }
                    let result = held.clone();
                    drop(held);
                    // SAFETY: as above.
                    let again = unsafe { Held::of(&Site { context, device: 0 }) }.unwrap();
                    assert!(again.is(&result) && again.context == context, "a lane in use was forgotten");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // Nothing of the model is dropped in a panic.
    let left = std::mem::take(&mut *lanes()).len();
    assert_eq!(left, 0, "a lane stays that nobody uses, and its context with it");
    assert_eq!(LIVE.get(), 0);
}

/// Until no thread lets programs go.
fn all_has_gone() {
    while KEEPERS.get() > 0 {
        shuttle::thread::yield_now();
    }
    let left = idle::left();
    assert_eq!((left.len(), LOADED.get()), (0, 0), "programs stay that nobody lets go");
}

fn check(run: impl Fn() + Copy + Send + Sync + 'static) {
    shuttle::check_random(run, executions());
    shuttle::check_pct(run, executions(), 3);
}

/// Two contexts: whoever uses a lane has the one of its context, and with the last use it goes.
#[test]
fn lanes_go_with_their_last_user() {
    check(|| {
        threads(|thread| vec![0, thread % 2], false);
        assert_eq!(KEEPERS.get(), 0, "a thread for no programs");
        all_has_gone();
    });
}

/// Programs are loaded once in a context while no time passes; then they go.
#[test]
fn programs_are_found_again() {
    check(|| {
        TIME_STANDS.set(true);
        threads(|thread| vec![0, thread % 2, 0], true);
        assert_eq!((LOADS.get(), LOADED.get()), (2, 2), "programs were loaded again, or went");
        TIME_STANDS.set(false);
        all_has_gone();
    });
}

/// More contexts than are kept, and not always a thread: whatever was loaded goes, and once.
#[test]
fn programs_go_once() {
    check(|| {
        REFUSES.set(true);
        threads(|thread| vec![thread, thread + 1, 3 + thread, 0], true);
        all_has_gone();
    });
}

/// Whatever the thread is at when the process exits, it calls the driver no more.
#[test]
fn exits_are_undisturbed() {
    check(|| {
        threads(|thread| vec![thread, 0], true);
        idle::exit();
        DRIVER_IS_GONE.set(true);
        (0..8).for_each(|_| shuttle::thread::yield_now());
        IS_OVER.set(true);
        while KEEPERS.get() > 0 {
            shuttle::thread::yield_now();
        }
        idle::left().into_iter().for_each(std::mem::forget);
        LOADED.set(0);
        DRIVER_IS_GONE.set(false);
        IS_OVER.set(false);
    });
}
