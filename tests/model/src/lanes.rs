//! The lanes of OpenCL's contexts (src/backend/opencl/lane.rs), which go with their last user.

use std::ops::Deref;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::sync::{Mutex, MutexGuard};

use super::executions;
use super::rings::{Result, Shared, reserve};

#[expect(non_camel_case_types, reason = "OpenCL's name")]
pub type cl_context = usize;
#[expect(non_camel_case_types, reason = "OpenCL's name")]
pub type cl_device_id = usize;
pub struct Functions;

include!(concat!(env!("OUT_DIR"), "/lanes.rs"));

/// Lanes that there are.
static LIVE: AtomicUsize = AtomicUsize::new(0);

pub struct Lane {
    context: cl_context,
    device: cl_device_id,
}

impl Lane {
    unsafe fn new(_: &'static Functions, context: cl_context, device: cl_device_id) -> Result<Lane> {
        LIVE.fetch_add(1, Ordering::SeqCst);
        Ok(Lane { context, device })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::SeqCst);
        // The driver takes its time.
        shuttle::thread::yield_now();
    }
}

/// Three threads and two contexts: whoever uses a lane has the one of its context, and with the last use it goes.
#[test]
fn lanes_go_with_their_last_user() {
    let run = || {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                shuttle::thread::spawn(move || {
                    for context in [0, thread % 2] {
                        // SAFETY: nothing here is a handle.
                        let held = unsafe { Held::of(&Functions, context, 0) }.unwrap();
                        let result = held.clone();
                        drop(held);
                        // SAFETY: as above.
                        let again = unsafe { Held::of(&Functions, context, 0) }.unwrap();
                        assert!(again.is(&result) && again.context == context, "a lane in use was forgotten");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Nothing of the model is dropped in a panic.
        let left = std::mem::take(&mut *lanes()).len();
        assert_eq!(left, 0, "a lane stays that nobody uses, and its context with it");
        assert_eq!(LIVE.load(Ordering::SeqCst), 0);
    };
    shuttle::check_random(run, executions());
    shuttle::check_pct(run, executions(), 3);
}
