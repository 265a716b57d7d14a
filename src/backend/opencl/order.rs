//! The caller's queues: what is in them comes before a job, and what follows there after it.

use std::ptr::{null, null_mut};

use opencl3::command_queue::{CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE};
use opencl3::types::*;

use super::driver::{Functions, call, info};
use super::ends::End;
use super::events::{Before, Done, Event, List};
use super::lane::Lane;
use super::site::Site;
use crate::backend::Streams;
use crate::error::{Error, Result};

/// A caller's queue.
#[derive(Clone, Copy)]
pub struct Queue {
    /// Borrowed for a call.
    pub queue: cl_command_queue,
    /// Where it is.
    pub context: cl_context,
    /// What works on it.
    pub device: cl_device_id,
}

/// The queue that a stream's number is; None: there is none.
///
/// # Safety
/// What is no small number is a queue.
pub unsafe fn queue_of(f: &Functions, stream: i64, name: &'static str) -> Result<Option<Queue>> {
    let queue = match stream {
        // Nothing to order by.
        0 | -1 => return Ok(None),
        // CUDA's numbers.
        value @ (..=-2 | 1..4096) => {
            return Err(Error::Option { name, value, expected: "a cl_command_queue, or 0" });
        }
        handle => handle as usize as cl_command_queue,
    };
    // SAFETY: the caller vouches for it.
    unsafe {
        let context = info!(f, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT): cl_context)?;
        let device = info!(f, clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE): cl_device_id)?;
        Ok(Some(Queue { queue, context, device }))
    }
}

/// The caller's queues of a call.
pub struct Orders {
    f: &'static Functions,
    source: Option<Queue>,
    /// Where the result is used.
    pub destination: Option<Queue>,
}

impl Orders {
    /// # Safety
    /// The streams are what their numbers say.
    pub unsafe fn of(f: &'static Functions, streams: &Streams) -> Result<Orders> {
        // SAFETY: as the caller says.
        unsafe {
            let source = queue_of(f, streams.source, "options.src_stream")?;
            let destination = queue_of(f, streams.destination, "options.dst_stream")?;
            Ok(Orders { f, source, destination })
        }
    }

    /// Refuses queues that can order nothing of a side.
    pub fn check_source(&self, source: &End<Site>) -> Result<()> {
        let expected = "a cl_command_queue of the source's context";
        check("options.src_stream", self.source, source.context(), expected)
    }

    /// Likewise of the destination's context.
    pub fn check_destination(&self, context: Option<cl_context>) -> Result<()> {
        let expected = "a cl_command_queue of the destination's context";
        check("options.dst_stream", self.destination, context, expected)
    }

    /// Events after which an end may be touched: all that is now in the caller's queues of its context.
    ///
    /// # Safety
    /// The queues are valid.
    pub unsafe fn before(&self, end: &End) -> Result<Before> {
        let mut before = Before::default();
        let Some(context) = end.context() else { return Ok(before) };
        let queues = [self.source, self.destination.filter(|queue| !self.is_source(queue))];
        for (place, queue) in before.iter_mut().zip(queues) {
            let Some(queue) = queue.filter(|queue| queue.context == context) else { continue };
            let (f, mut event) = (self.f, null_mut());
            // SAFETY: the queue is the caller's. A marker without a list is after all that precedes it,
            // in queues that are out of order too.
            unsafe {
                call!(f, clEnqueueMarkerWithWaitList(queue.queue, 0, null(), &mut event))?;
                *place = Some(Event::new(f, event));
                call!(f, clFlush(queue.queue))?;
            }
        }
        Ok(before)
    }

    fn is_source(&self, queue: &Queue) -> bool {
        self.source.is_some_and(|source| source.queue == queue.queue)
    }

    /// Makes the result ready: by waiting, or by ordering the caller's queue after the work.
    ///
    /// # Safety
    /// The queues are valid.
    pub unsafe fn after(&self, end: &End, done: Done, asynchronous: bool) -> Result<()> {
        let queue = self.destination.filter(|queue| Some(queue.context) == end.context());
        let mut outcome = Ok(());
        // Also after a failure nothing is left in flight.
        for (lane, event) in done.into_iter().flatten() {
            let ordered = match queue {
                Some(queue) if asynchronous && lane.context == queue.context => {
                    // SAFETY: the queue is the caller's, and the event of its context.
                    unsafe { self.order(queue, &lane, &event) }.inspect_err(|_| {
                        // What failed first is what is told.
                        let _ = lane.wait(&event);
                    })
                }
                _ => lane.wait(&event),
            };
            outcome = outcome.and(ordered);
        }
        outcome
    }

    /// Puts all that follows in a queue behind an event.
    ///
    /// # Safety
    /// The event is of the queue's context.
    unsafe fn order(&self, queue: Queue, lane: &Lane, event: &Event) -> Result<()> {
        let (f, list) = (self.f, List::one(event));
        let (count, events) = list.get();
        // SAFETY: as the caller says.
        unsafe {
            call!(f, clFlush(lane.queue))?;
            call!(f, clEnqueueBarrierWithWaitList(queue.queue, count, events, null_mut()))
        }
    }
}

fn check(
    name: &'static str,
    queue: Option<Queue>,
    context: Option<cl_context>,
    expected: &'static str,
) -> Result<()> {
    match (queue, context) {
        (Some(queue), Some(context)) if queue.context != context => {
            Err(Error::Option { name, value: queue.queue as i64, expected })
        }
        _ => Ok(()),
    }
}
