//! A device as it is worked with: its primary context, which is retained once and kept, streams of our
//! own, the pool that results come from, the rings of pinned slots, and the kernels.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{
    CUcontext, CUdevice_attribute as Attribute, CUevent, CUevent_flags, CUmemAllocationHandleType,
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool,
    CUstream, CUstream_flags, CUstreamCaptureMode,
};

use super::devices::Device;
use super::driver::{Functions, PEER_ACCESS_ALREADY_ENABLED, call};
use super::kernels::Modules;
use super::slot::Pinned;
use crate::backend::shared::reserve;
use crate::backend::staging::Rings;
use crate::error::Result;

/// A device in use.
pub struct Lane {
    /// The driver's functions.
    pub f: &'static Functions,
    /// The device's id.
    pub id: i32,
    /// Its primary one.
    pub context: CUcontext,
    /// Where results come from; None: the device has none.
    pub pool: Option<CUmemoryPool>,
    /// On which memory is taken from the pool. Nothing else is done there.
    pub allocations: CUstream,
    /// Pinned slots.
    pub rings: Rings<Pinned>,
    /// Those that have been loaded.
    pub modules: Modules,
    /// The largest step between rows that the copy engine takes, in bytes.
    pub max_pitch: usize,
    /// Whether the device reads the host's page tables, so that pageable memory may be its own to copy.
    pub shares_pages: bool,
    /// What was found to be faster there: up, and down.
    pub pageable: [Pageable; 2],
    /// Our own.
    streams: Mutex<Streams>,
    /// Devices that it has been told to reach, and whether it does.
    peers: Mutex<Vec<(i32, bool)>>,
}

#[derive(Default)]
struct Streams {
    /// Those that nobody is using, with room for all of them.
    free: Vec<Handle>,
    made: usize,
}

#[derive(Clone, Copy)]
struct Handle(CUstream);

// SAFETY: contexts, streams and pools may be used from any thread.
unsafe impl Send for Lane {}
// SAFETY: as above.
unsafe impl Sync for Lane {}
// SAFETY: as above.
unsafe impl Send for Handle {}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("id", &self.id).finish()
    }
}

/// Whether a device's own copies of pageable memory are faster than the staging ring: found out once, by
/// doing a large one both ways.
pub struct Pageable(AtomicU8);

impl Pageable {
    const UNKNOWN: u8 = 0;
    const DIRECT: u8 = 1;
    const STAGED: u8 = 2;

    const fn new() -> Pageable {
        Pageable(AtomicU8::new(Pageable::UNKNOWN))
    }

    /// What has been found out.
    pub fn is_direct(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            Pageable::UNKNOWN => None,
            found => Some(found == Pageable::DIRECT),
        }
    }

    /// Keeps what has been found out.
    pub fn found(&self, direct: bool) {
        let found = if direct { Pageable::DIRECT } else { Pageable::STAGED };
        self.0.store(found, Ordering::Relaxed);
    }
}

/// What a pool keeps of its device's memory: a part of so many.
const KEPT_PART: u64 = 64;

impl Lane {
    /// Retains a device's primary context.
    pub fn new(f: &'static Functions, device: &Device) -> Result<Lane> {
        // SAFETY: the device is valid. What is made here stays for the process.
        unsafe {
            // Somebody may be capturing on this thread.
            let _relaxed = Relaxed::new(f);
            let mut context = null_mut();
            call!(f, cuDevicePrimaryCtxRetain(&mut context, device.handle))?;
            let _entered = Entered::new(f, context)?;
            let has_pools = device.attribute(f, Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
            let pool = if has_pools { make_pool(f, device).ok() } else { None };
            let tables = Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
            let pitch = device.attribute(f, Attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH);
            Ok(Lane {
                f,
                id: device.id,
                context,
                pool,
                allocations: make_stream(f)?,
                rings: Rings::new(),
                modules: Modules::new(),
                max_pitch: usize::try_from(pitch).unwrap_or(0),
                shares_pages: device.attribute(f, tables) != 0,
                pageable: [Pageable::new(), Pageable::new()],
                streams: Mutex::default(),
                peers: Mutex::new(Vec::new()),
            })
        }
    }

    /// Makes the context this thread's current one, until what is returned is dropped.
    pub fn enter(&self) -> Result<Entered> {
        Entered::new(self.f, self.context)
    }

    /// A stream of our own, that nobody else uses until it is dropped. The context is current.
    pub fn stream(&'static self) -> Result<OwnStream> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = streams.free.pop();
        if kept.is_none() {
            // So that it can be put back, whatever happens.
            let all = streams.made + 1;
            reserve(&mut streams.free, all)?;
            streams.made = all;
        }
        drop(streams);
        let stream = match kept {
            Some(Handle(stream)) => stream,
            // SAFETY: the context is current.
            None => unsafe { make_stream(self.f)? },
        };
        Ok(OwnStream { lane: self, stream })
    }

    /// Whether the device reaches another's memory by itself. It is told to, if it has not been.
    pub fn reaches(&self, from: &Device, to: &Device, other: &Lane) -> bool {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, reaches)) = peers.iter().find(|(id, _)| *id == to.id) {
            return *reaches;
        }
        let reaches = can_access(self.f, from, to)
            && self.enter().is_ok_and(|_entered| {
                // SAFETY: both contexts are valid.
                let code = unsafe { (self.f.cuCtxEnablePeerAccess)(other.context, 0) };
                matches!(code, 0 | PEER_ACCESS_ALREADY_ENABLED)
            });
        // It is asked again where it cannot be kept.
        if peers.try_reserve(1).is_ok() {
            peers.push((to.id, reaches));
        }
        reaches
    }
}

/// Whether a device could reach another's memory by itself.
pub fn can_access(f: &Functions, from: &Device, to: &Device) -> bool {
    let mut can: c_int = 0;
    // SAFETY: both devices are valid.
    unsafe { (f.cuDeviceCanAccessPeer)(&mut can, from.handle, to.handle) == 0 && can != 0 }
}

/// # Safety
/// A context is current.
unsafe fn make_stream(f: &Functions) -> Result<CUstream> {
    let mut stream = null_mut();
    let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
    // SAFETY: as the caller says.
    unsafe { call!(f, cuStreamCreate(&mut stream, flags))? };
    Ok(stream)
}

/// A pool of our own. It gives out only what is free already, so that taking memory from it never waits.
///
/// # Safety
/// The device is valid, and has pools.
unsafe fn make_pool(f: &Functions, device: &Device) -> Result<CUmemoryPool> {
    let properties = CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device.handle },
        win32SecurityAttributes: null_mut(),
        reserved: [0; 64],
    };
    let (mut pool, mut none, mut kept) = (null_mut(), 0 as c_int, device.memory / KEPT_PART);
    let waits = CUmemPool_attribute::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES as c_uint;
    let keeps = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as c_uint;
    // SAFETY: each attribute is of the type that is given.
    unsafe {
        call!(f, cuMemPoolCreate(&mut pool, &properties))?;
        call!(f, cuMemPoolSetAttribute(pool, waits, (&raw mut none).cast::<c_void>()))?;
        call!(f, cuMemPoolSetAttribute(pool, keeps, (&raw mut kept).cast::<c_void>()))?;
    }
    Ok(pool)
}

/// A context that is current on this thread until this is dropped; then it is again what was before.
pub struct Entered {
    f: &'static Functions,
    /// Stays on its thread.
    _here: std::marker::PhantomData<*mut ()>,
}

impl Entered {
    /// Makes a context current, which is valid.
    pub fn new(f: &'static Functions, context: CUcontext) -> Result<Entered> {
        // SAFETY: the context is valid.
        unsafe { call!(f, cuCtxPushCurrent(context))? };
        Ok(Entered { f, _here: std::marker::PhantomData })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut context = null_mut();
        // SAFETY: it was pushed on this thread.
        unsafe { (self.f.cuCtxPopCurrent)(&mut context) };
    }
}

/// Lets this thread do, until this is dropped, what breaks no capture but is refused during one in case
/// it did: making and freeing memory, loading modules.
pub struct Relaxed {
    f: &'static Functions,
    mode: c_uint,
}

impl Relaxed {
    /// Begins it.
    pub fn new(f: &'static Functions) -> Relaxed {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_uint;
        // SAFETY: exchanges a number.
        unsafe { (f.cuThreadExchangeStreamCaptureMode)(&mut mode) };
        Relaxed { f, mode }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: exchanges a number.
        unsafe { (self.f.cuThreadExchangeStreamCaptureMode)(&mut self.mode) };
    }
}

/// A stream of a lane's.
pub struct OwnStream {
    lane: &'static Lane,
    /// Its handle.
    pub stream: CUstream,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for OwnStream {}

impl OwnStream {
    /// Waits until all that was put there is done.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: the stream is ours.
        unsafe { call!(self.lane.f, cuStreamSynchronize(self.stream)) }
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        let mut streams = self.lane.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.free.push(Handle(self.stream));
    }
}

/// An event, destroyed when this is dropped; what waits for it goes on waiting.
pub struct Event {
    f: &'static Functions,
    handle: CUevent,
}

impl Event {
    /// That all which is now in a stream is done. The stream's context is current.
    ///
    /// # Safety
    /// The stream is valid.
    pub unsafe fn after(f: &'static Functions, stream: CUstream) -> Result<Event> {
        let mut handle = null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint;
        // SAFETY: as the caller says.
        unsafe {
            call!(f, cuEventCreate(&mut handle, flags))?;
            let event = Event { f, handle };
            call!(f, cuEventRecord(handle, stream))?;
            Ok(event)
        }
    }

    /// Puts all that follows in a stream behind it.
    ///
    /// # Safety
    /// The stream is valid.
    pub unsafe fn delays(&self, stream: CUstream) -> Result<()> {
        // SAFETY: as the caller says.
        unsafe { call!(self.f, cuStreamWaitEvent(stream, self.handle, 0)) }
    }

    /// Waits for it on this thread.
    pub fn wait(&self) -> Result<()> {
        // SAFETY: it is valid.
        unsafe { call!(self.f, cuEventSynchronize(self.handle)) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it is ours, and destroyed once.
        unsafe { (self.f.cuEventDestroy)(self.handle) };
    }
}
