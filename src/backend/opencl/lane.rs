//! A context and a device with a queue of our own, on which everything of ours there is done.

use std::ops::Deref;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opencl3::context::context::{CL_CONTEXT_DEVICES, CL_CONTEXT_NUM_DEVICES};
use opencl3::event::{CL_EVENT_COMMAND_EXECUTION_STATUS, CL_RUNNING};
use opencl3::types::*;

use super::devices::Device;
use super::driver::{Functions, call, info, make};
use super::events::Event;
use super::idle;
use super::program::Programs;
use super::site::Site;
use super::stage::Pinned;
use crate::backend::host::threads;
use crate::backend::shared::{Shared, list_of, reserve};
use crate::backend::staging::Rings;
use crate::error::Result;

/// A device of a context, with an in-order queue. It keeps its context alive.
pub struct Lane {
    /// Of which the context is retained.
    site: Site,
    /// Ours, in order.
    pub queue: cl_command_queue,
    /// Held while a buffer's mapping is enqueued, see [`super::map`].
    pub maps: Mutex<()>,
    /// Those that have been used.
    pub programs: Programs,
    /// What the host's memory meets the device's through.
    pub rings: Rings<Pinned>,
}

// SAFETY: contexts and queues may be used from any thread.
unsafe impl Send for Lane {}
// SAFETY: as above.
unsafe impl Sync for Lane {}

/// About what being woken takes.
const WAKING: Duration = Duration::from_micros(20);
/// How long the end of a command that has begun is looked for.
const NEAR: Duration = Duration::from_micros(250);

/// Waits a moment for the driver's thread to begin with a command that writes so many bytes. False: it is time to
/// sleep.
pub fn is_patient(since: Instant, bytes: u64) -> bool {
    /// Bytes that a job writes in a microsecond at most: to wait for a tenth of a large one costs little beside it.
    const PER_MICROSECOND: u64 = 160 << 10;
    let waited = since.elapsed();
    if waited < WAKING {
        (0..64).for_each(|_| std::hint::spin_loop());
    } else {
        // It may be this very processor that the thread waits for.
        std::thread::yield_now();
    }
    waited < (3 * WAKING).max(Duration::from_micros(bytes / PER_MICROSECOND).min(2 * NEAR))
}

/// Waits a moment for the end of what has begun. False: it is time to sleep.
pub fn is_near(since: Instant) -> bool {
    (0..64).for_each(|_| std::hint::spin_loop());
    since.elapsed() < NEAR
}

/// Waits for the end of a job of the driver's thread as one of the host's threads, whose work may be that job's;
/// until it is time to sleep.
pub fn lend(is_over: &dyn Fn() -> bool) {
    threads::help(NEAR, is_over);
}

/// A lane for as long as it is in use: by a call, or by a result that lives there. With the last use it goes,
/// and lets go of its context. Its programs are kept for about a second longer, and the context with them, see
/// [`super::idle`]; what compilers made stays, see [`super::program`].
#[derive(Clone)]
pub struct Held(Option<Shared<Lane>>);

/// Those that are in use, so that each context and device has one.
static LANES: Mutex<Vec<Shared<Lane>>> = Mutex::new(Vec::new());
/// Those of our own contexts, which stay.
static OWN: Mutex<Vec<Held>> = Mutex::new(Vec::new());

fn lanes() -> MutexGuard<'static, Vec<Shared<Lane>>> {
    LANES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Held {
    /// Of a context that somebody else made.
    ///
    /// # Safety
    /// The site's handles are valid.
    pub unsafe fn of(site: &Site) -> Result<Held> {
        let mut lanes = lanes();
        let is_there = |lane: &Lane| lane.context == site.context && lane.device == site.device;
        if let Some(lane) = lanes.iter().find(|lane| is_there(lane)) {
            return Ok(Held(Some(lane.clone())));
        }
        reserve(&mut lanes, 1)?;
        // SAFETY: the handles are valid, as the caller says.
        let lane = Shared::new(unsafe { Lane::new(*site)? })?;
        lanes.push(lane.clone());
        Ok(Held(Some(lane)))
    }

    /// Of the context of our own that each device has. It is made once.
    pub fn own(f: &'static Functions, device: &Device) -> Result<Held> {
        let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = own.iter().find(|lane| lane.device == device.id) {
            return Ok(lane.clone());
        }
        reserve(&mut own, 1)?;
        // SAFETY: the device is valid; the lane keeps a reference of its own.
        let lane = unsafe {
            let context = make!(f, clCreateContext(null(), 1, &device.id, null(), null_mut()))?;
            let lane = Held::of(&Site { f, context, device: device.id, traits: device.traits });
            (f.clReleaseContext)(context);
            lane?
        };
        own.push(lane.clone());
        Ok(lane)
    }

    /// Whether both are one.
    pub fn is(&self, other: &Held) -> bool {
        std::ptr::eq(&**self, &**other)
    }
}

impl Deref for Held {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        let Some(lane) = &self.0 else { unreachable!("it is taken when it is dropped") };
        lane
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut lanes = lanes();
        let Some(lane) = self.0.take() else { return };
        // The list has one; nobody takes or lets go of another meanwhile.
        if lane.owners() > 2 {
            drop(lane);
            return;
        }
        let index = lanes.iter().position(|listed| std::ptr::eq(&**listed, &*lane));
        let listed = index.map(|index| lanes.swap_remove(index));
        // Whoever makes the next lane there finds them.
        let gone = lane.programs.take().and_then(|programs| idle::keep(&lane, programs));
        // What the driver does about it is done without the lock.
        drop(lanes);
        drop((gone, listed, lane));
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("context", &self.context).field("device", &self.device).finish()
    }
}

impl Deref for Lane {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl AsRef<Site> for Held {
    fn as_ref(&self) -> &Site {
        &self.site
    }
}

impl Lane {
    /// # Safety
    /// The site's handles are valid.
    unsafe fn new(site: Site) -> Result<Lane> {
        let (f, Site { context, device, .. }) = (site.f, site);
        // SAFETY: as the caller says.
        unsafe {
            let queue = make!(f, clCreateCommandQueue(context, device, 0))?;
            if let Err(error) = call!(f, clRetainContext(context)) {
                (f.clReleaseCommandQueue)(queue);
                return Err(error);
            }
            let programs = idle::take(&site).unwrap_or_else(|| Programs::new(f));
            Ok(Lane { site, queue, maps: Mutex::default(), programs, rings: Rings::new() })
        }
    }

    /// Whether to look for the end of a job for a while, rather than to sleep: where a processor does it, being
    /// woken takes as long as a small job. Not where it would keep the driver's own thread from its only processor.
    pub fn is_watched(&self) -> bool {
        !self.traits.computes && threads::available() > 1
    }

    /// Has the queue's commands begin.
    pub fn flush(&self) -> Result<()> {
        // SAFETY: the queue is ours.
        unsafe { call!(self.f, clFlush(self.queue)) }
    }

    /// Waits for an event of a flushed queue, of which the end is near.
    pub fn watch(&self, event: &Event) -> Result<()> {
        let f = self.f;
        let since = Instant::now();
        let what = CL_EVENT_COMMAND_EXECUTION_STATUS;
        // SAFETY: the event is valid, and the value as large as the specification says.
        while let Ok(status @ 1..) = unsafe { info!(f, clGetEventInfo(event.handle, what): cl_int) }
            && match status == CL_RUNNING {
                true => is_near(since),
                false => is_patient(since, 0),
            }
        {}
        // To have seen it is not yet to see what it has done.
        self.wait(event)
    }

    /// Waits for an event, so that what it stands for is done. Also where waiting fails, nothing of ours is
    /// left in flight if that can be helped.
    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: the event is valid.
        unsafe {
            let waited = call!(self.f, clWaitForEvents(1, &event.handle));
            if waited.is_err() {
                (self.f.clFinish)(self.queue);
            }
            waited
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // Slots are unmapped while there is a queue.
        drop(std::mem::take(&mut self.rings));
        drop(self.programs.take());
        // SAFETY: both are ours, and released once. What a release fails with changes nothing here.
        unsafe {
            (self.f.clReleaseCommandQueue)(self.queue);
            (self.f.clReleaseContext)(self.context);
        }
    }
}

/// The devices of a context.
///
/// # Safety
/// The context is valid.
pub unsafe fn devices_of(f: &Functions, context: cl_context) -> Result<Vec<cl_device_id>> {
    // SAFETY: the context is valid, and the list has the room that is said.
    unsafe {
        let count = info!(f, clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES): cl_uint)? as usize;
        let mut devices: Vec<cl_device_id> = list_of(null_mut(), count)?;
        let size = size_of_val(devices.as_slice());
        let place = devices.as_mut_ptr().cast();
        call!(f, clGetContextInfo(context, CL_CONTEXT_DEVICES, size, place, null_mut()))?;
        Ok(devices)
    }
}
