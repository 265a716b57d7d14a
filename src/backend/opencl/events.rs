//! Events of commands: what is waited for, and what is in flight. None of it needs memory, which may be out
//! when work is.

use std::ptr::{null, null_mut};

use opencl3::types::{cl_event, cl_uint};

use super::driver::Functions;
use super::lane::Held;

/// An event that is released when this is dropped.
pub struct Event {
    f: &'static Functions,
    /// Valid while this lives.
    pub handle: cl_event,
}

impl Event {
    /// Takes over an event that a command gave.
    ///
    /// # Safety
    /// It is valid, and nobody else releases it.
    pub unsafe fn new(f: &'static Functions, handle: cl_event) -> Event {
        Event { f, handle }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is ours, and released once.
        unsafe { (self.f.clReleaseEvent)(self.handle) };
    }
}

/// Two events at most: a call has two queues of the caller's, and a job two sides.
pub type Two<T> = [Option<T>; 2];

/// What a side of a job waits for.
pub type Before = Two<Event>;

/// What is in flight: events, and where they are.
pub type Done = Two<(Held, Event)>;

/// Handles of events, which outlive it, as the driver takes them.
#[derive(Clone, Copy)]
pub struct List {
    handles: [cl_event; 4],
    len: usize,
}

impl List {
    /// Of nothing.
    pub const NONE: List = List { handles: [null_mut(); 4], len: 0 };

    /// Of what a side waits for.
    pub fn of(before: &Before) -> List {
        let mut list = List::NONE;
        list.add(before);
        list
    }

    /// Of what both sides wait for.
    pub fn of_both(before: &Before, also: &Before) -> List {
        let mut list = List::of(before);
        list.add(also);
        list
    }

    /// Of one event.
    pub fn one(event: &Event) -> List {
        List { handles: [event.handle, null_mut(), null_mut(), null_mut()], len: 1 }
    }

    fn add(&mut self, before: &Before) {
        for event in before.iter().flatten() {
            self.handles[self.len] = event.handle;
            self.len += 1;
        }
    }

    /// How many, and where; none is NULL.
    pub fn get(&self) -> (cl_uint, *const cl_event) {
        if self.len == 0 { (0, null()) } else { (self.len as cl_uint, self.handles.as_ptr()) }
    }
}
