//! Programs of contexts in which nobody works now. To load them takes milliseconds, and whoever converts in a loop
//! without keeping a result is back in a moment: so they are kept for about a second, and their context with them.
//! Nothing else of a lane is: slots are memory that others may want, and a queue costs little beside a program.
//!
//! A thread of our own lets them go. Once the process exits it leaves them alone: what a driver needs may be gone.

use std::mem::{forget, replace};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opencl3::types::{cl_context, cl_device_id};

use super::program::Programs;
use super::site::Site;
use crate::backend::host::threads;

/// How often the thread looks: what it sees twice goes.
const LOOK: Duration = Duration::from_millis(700);
/// How many milliseconds an exit waits for it at most. A driver that hangs, or that it is called out of, does not keep
/// the process.
const PATIENCE: usize = 1000;

/// Sees to it that the thread leaves everything alone when the process exits, before a driver that is loaded now does
/// what it does then; false: the system has no room for that.
fn watch_exit() -> bool {
    // SAFETY: the function may run whenever the process exits; the library is never unloaded.
    unsafe { libc::atexit(at_exit) == 0 }
}

// SAFETY: contexts and programs may be used from any thread.
unsafe impl Send for Idle {}

/// The programs of a context and a device.
struct Idle {
    context: cl_context,
    device: cl_device_id,
    programs: Programs,
    /// Whether the thread has.
    seen: bool,
}

/// How many contexts' are kept at most.
const KEPT: usize = 4;

struct State {
    /// The newest come first.
    idle: [Option<Idle>; KEPT],
    /// The process in which there is a thread that will let them go; a child of a fork has none. 0: none.
    keeper: u32,
    /// Whether that is told when the process exits.
    watched: bool,
}

static STATE: Mutex<State> = Mutex::new(State { idle: [const { None }; KEPT], keeper: 0, watched: false });
/// The process in which the thread may be with a driver; 0: none.
static RELEASING: AtomicU32 = AtomicU32::new(0);
/// Whether the process exits.
static EXITS: AtomicBool = AtomicBool::new(false);

/// For the thread. Others do without where it has this, which is for a moment, but in a child of a fork may be for ever.
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the programs of a lane that goes. What is given back has to go instead: the oldest where there are many, or
/// these where there is no thread for it. As [`take`] it is called with the lanes locked, so that whoever makes the
/// next one of a context finds them.
pub fn keep(site: &Site, programs: Programs) -> Option<Programs> {
    let Ok(mut state) = STATE.try_lock() else { return Some(programs) };
    let process = process::id();
    if state.keeper != process {
        // What a child of a fork has of its parent is left alone; else there is nothing.
        state.idle.each_mut().into_iter().for_each(|place| forget(place.take()));
        state.watched = state.watched || watch_exit();
        if !state.watched || !threads::start(keeper) {
            return Some(programs);
        }
        state.keeper = process;
    }
    let end = state.idle.iter().position(Option::is_none).unwrap_or(KEPT - 1);
    state.idle[..=end].rotate_right(1);
    let new = Idle { context: site.context, device: site.device, programs, seen: false };
    state.idle[0].replace(new).map(|oldest| oldest.programs)
}

/// Programs for a new lane.
pub fn take(site: &Site) -> Option<Programs> {
    let mut state = STATE.try_lock().ok()?;
    let is_there = |idle: &mut Idle| idle.context == site.context && idle.device == site.device;
    state.idle.iter_mut().find_map(|place| place.take_if(is_there)).map(|idle| idle.programs)
}

/// What the thread does: it lets go of what nobody has come for, until there is nothing left.
fn keeper() {
    let process = process::id();
    loop {
        std::thread::sleep(LOOK);
        RELEASING.store(process, Ordering::SeqCst);
        if !EXITS.load(Ordering::SeqCst) {
            let is_old = |idle: &mut Idle| replace(&mut idle.seen, true);
            let gone = state().idle.each_mut().map(|place| place.take_if(is_old));
            // What the driver does about it is done without the lock.
            drop(gone);
        }
        RELEASING.store(0, Ordering::SeqCst);
        let mut state = state();
        if state.idle.iter().all(Option::is_none) {
            state.keeper = 0;
            return;
        }
    }
}

/// From here on nothing is let go. It takes no lock, since the exit may have begun anywhere.
extern "C" fn at_exit() {
    EXITS.store(true, Ordering::SeqCst);
    let process = process::id();
    for _ in 0..PATIENCE {
        if RELEASING.load(Ordering::SeqCst) != process {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
