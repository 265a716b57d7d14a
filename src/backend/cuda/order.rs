//! The caller's streams, by the array API's numbers, and how our work is ordered with theirs.

use std::ffi::c_uint;
use std::ptr::null_mut;

use cudarc::driver::sys::{CUcontext, CUstream, CUstreamCaptureStatus};

use super::driver::{Functions, call};
use super::lane::{Entered, Event, Lane, OwnStream};
use crate::backend::Streams;
use crate::error::{Error, Result};

/// `CU_STREAM_LEGACY`
pub const LEGACY_STREAM: usize = 1;
/// The numbers that stand for it: it is what a stream is that was not given.
pub const LEGACY: [i64; 2] = [0, 1];

/// A caller's stream.
#[derive(Clone, Copy)]
pub struct Caller {
    /// Its handle.
    pub stream: CUstream,
    /// Its context.
    context: CUcontext,
}

impl Caller {
    /// The stream of a number, on a lane where the number is no handle. None: there is nothing to order by.
    ///
    /// # Safety
    /// What is no small number is a stream.
    unsafe fn of(number: i64, name: &'static str, lane: &Lane) -> Result<Option<Caller>> {
        check(number, name)?;
        match number {
            -1 => Ok(None),
            // The driver has handles of these numbers; 0 is the default.
            0..=2 => {
                let stream = number.max(LEGACY_STREAM as i64) as usize as CUstream;
                Ok(Some(Caller { stream, context: lane.context }))
            }
            handle => {
                let (stream, mut context) = (handle as usize as CUstream, null_mut());
                // SAFETY: the stream is valid, as the caller says.
                unsafe { call!(lane.f, cuStreamGetCtx(stream, &mut context))? };
                Ok(Some(Caller { stream, context }))
            }
        }
    }

    /// An event after all that is in it now.
    fn event(&self, f: &'static Functions) -> Result<Event> {
        let _entered = Entered::new(f, self.context)?;
        // SAFETY: the stream is the caller's, and its context current.
        unsafe { Event::after(f, self.stream) }
    }

    /// Whether what is put there goes into a graph instead of being done.
    fn is_capturing(&self, f: &Functions) -> bool {
        let mut status: c_uint = 0;
        // SAFETY: the stream is the caller's.
        let code = unsafe { (f.cuStreamIsCapturing)(self.stream, &mut status) };
        // The default stream says by an error that another one is being captured.
        code == 0 && status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as c_uint
    }
}

/// Whether a number can be a stream's.
pub fn check(number: i64, name: &'static str) -> Result<()> {
    if number < -1 {
        let expected = "a CUstream, 0 or 1 (the legacy default stream), 2 (the per-thread one) or -1";
        return Err(Error::Option { name, value: number, expected });
    }
    Ok(())
}

/// The streams of a call.
pub struct Orders {
    f: &'static Functions,
    source: Option<Caller>,
    destination: Option<Caller>,
    /// Nobody else uses the destination yet.
    fresh: bool,
    /// The caller waits for nothing but `destination`.
    asynchronous: bool,
}

/// What a call's work is put on.
pub enum Track {
    /// The caller's own stream.
    Caller(CUstream),
    /// One of ours.
    Own(OwnStream),
}

impl Track {
    /// Its handle.
    pub fn stream(&self) -> CUstream {
        match self {
            Track::Caller(stream) => *stream,
            Track::Own(own) => own.stream,
        }
    }
}

impl Orders {
    /// The streams by their numbers: those of the defaults are of the lane of their side.
    ///
    /// # Safety
    /// They are what their numbers say.
    pub unsafe fn of(streams: &Streams, source: &Lane, destination: &Lane, fresh: bool) -> Result<Orders> {
        // SAFETY: as the caller says.
        let (from, to) = unsafe {
            (
                Caller::of(streams.source, "options.src_stream", source)?,
                Caller::of(streams.destination, "options.dst_stream", destination)?,
            )
        };
        let asynchronous = streams.asynchronous && to.is_some();
        Ok(Orders { f: source.f, source: from, destination: to, fresh, asynchronous })
    }

    /// Those of host memory that no stream uses, for which only what the caller has named counts.
    pub fn ignore_default_source(&mut self, streams: &Streams) {
        if streams.source == 0 {
            self.source = None;
        }
    }

    /// Has the call wait for the work, unless it goes into a graph.
    pub fn synchronise(&mut self) {
        self.asynchronous &= self.is_capturing();
    }

    /// Whether the call returns before the work is done.
    pub fn is_asynchronous(&self) -> bool {
        self.asynchronous
    }

    /// Whether the caller's stream is being captured, so that nothing may be waited for.
    pub fn is_capturing(&self) -> bool {
        self.asynchronous && self.destination.is_some_and(|caller| caller.is_capturing(self.f))
    }

    /// A stream on a lane for the work, after what the caller has in theirs. The lane's context is current.
    pub fn begin(&self, lane: &'static Lane) -> Result<Track> {
        let track = match self.destination {
            // Kernels are at home in one context.
            Some(caller) if self.asynchronous && caller.context == lane.context => {
                Track::Caller(caller.stream)
            }
            _ => Track::Own(lane.stream()?),
        };
        let stream = track.stream();
        let others = self.before().filter(|caller| caller.stream != stream);
        for caller in others {
            // SAFETY: both are valid.
            unsafe { caller.event(self.f)?.delays(stream)? };
        }
        Ok(track)
    }

    /// Waits until both sides may be touched by whatever comes next.
    pub fn settle(&self) -> Result<()> {
        for caller in self.before() {
            caller.event(self.f)?.wait()?;
        }
        Ok(())
    }

    fn before(&self) -> impl Iterator<Item = Caller> {
        let destination = self.destination.filter(|_| !self.fresh || self.asynchronous);
        let source = self
            .source
            .filter(|source| destination.is_none_or(|destination| destination.stream != source.stream));
        source.into_iter().chain(destination)
    }

    /// Ends the work on a track: waits for it, or puts what follows in the caller's streams behind it; in
    /// the source's too, since whoever owns the source may reuse it from then on. `worked` is what came of
    /// it; after a failure nothing is left in flight. The context of the track's lane is current.
    pub fn end(&self, track: &Track, worked: Result<()>) -> Result<()> {
        let stream = track.stream();
        if self.asynchronous && worked.is_ok() {
            let after = || {
                let callers = [self.source, self.destination].into_iter().flatten();
                let others = callers.filter(|caller| caller.stream != stream);
                let mut done = None;
                for caller in others {
                    if done.is_none() {
                        // SAFETY: the stream is valid, and the lane's context current.
                        done = Some(unsafe { Event::after(self.f, stream)? });
                    }
                    let _entered = Entered::new(self.f, caller.context)?;
                    // SAFETY: the stream is the caller's.
                    done.iter().try_for_each(|done| unsafe { done.delays(caller.stream) })?;
                }
                Ok(())
            };
            let ordered = after();
            if ordered.is_ok() || self.is_capturing() {
                return ordered;
            }
            return self.wait(stream).and(ordered);
        }
        if worked.is_err() && self.is_capturing() {
            return worked;
        }
        let waited = self.wait(stream);
        worked.and(waited)
    }

    /// Waits for the work on a track. The lane's context is current.
    pub fn finish(&self, track: &Track) -> Result<()> {
        self.wait(track.stream())
    }

    /// The lane's context is current. Also where waiting fails, nothing is left in flight if that can be
    /// helped.
    fn wait(&self, stream: CUstream) -> Result<()> {
        // SAFETY: the stream is valid.
        unsafe {
            let waited = call!(self.f, cuStreamSynchronize(stream));
            if waited.is_err() {
                (self.f.cuStreamSynchronize)(stream);
            }
            waited
        }
    }
}
