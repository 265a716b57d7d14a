//! What moves bytes. A backend knows no DLPack and no policy: it gets a folded job.

pub mod absent;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod host;
pub mod job;
pub mod kernels;
mod memory;
#[cfg(feature = "opencl")]
pub mod opencl;
#[cfg(any(feature = "cuda", feature = "opencl"))]
mod prefault;
#[cfg(any(feature = "cuda", feature = "opencl"))]
mod rectangle;
#[cfg(any(feature = "cuda", feature = "opencl"))]
mod shared;
#[cfg(any(feature = "cuda", feature = "opencl"))]
mod staging;

use std::fmt;

use crate::dlpack::raw::DLDevice;
use crate::error::{Error, Result};
use crate::plan::ConvertOptions;
use crate::report::Route;

pub use job::Transfer;
pub use memory::{Allocator, Memory};

/// A device as it is listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceInfo {
    /// Its DLPack pair.
    pub device: DLDevice,
    /// Bytes; 0: unknown.
    pub total_memory: u64,
    /// Bytes; 0: unknown.
    pub free_memory: u64,
}

/// What kind of memory an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum MemoryKind {
    Unknown = 0,
    Host = 1,
    Pinned = 2,
    Device = 3,
    Managed = 4,
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerInfo {
    /// The kind of memory.
    pub memory: MemoryKind,
    /// Where it lives, as its driver says; None: no driver knows it.
    pub device: Option<DLDevice>,
    /// Start of its allocation; 0: unknown.
    pub base: u64,
    /// Size of its allocation; 0: unknown.
    pub size: u64,
}

/// Where one side of a job is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Whose memory it is.
    pub device: DLDevice,
    /// An address, or a handle where the device has those.
    pub data: u64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
    /// Bytes from `data`: every element lies in `begin..end`.
    pub begin: i64,
    /// See `begin`.
    pub end: i64,
    /// Elements fill every byte of it.
    pub dense: bool,
    /// It has just been allocated: nobody else has work in flight there.
    pub fresh: bool,
}

impl Place {
    /// The address of the first element.
    #[inline(always)]
    pub fn address(&self) -> u64 {
        self.data.wrapping_add(self.byte_offset)
    }
}

/// What a caller's work is ordered by, in the numbers of the C API.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streams {
    /// The source is ready after what is on it.
    pub source: i64,
    /// The result is used on it.
    pub destination: i64,
    /// Return once the work is ordered on `destination`.
    pub asynchronous: bool,
    /// The source goes back to its owner when the call returns, who may not know of the streams.
    pub gives_up: bool,
}

impl Streams {
    /// Those of a conversion.
    pub fn of(options: &ConvertOptions) -> Streams {
        Streams {
            source: options.src_stream,
            destination: options.dst_stream,
            asynchronous: options.asynchronous,
            gives_up: false,
        }
    }
}

impl Streams {
    /// Those of the two halves of a way through the host, whose memory nobody else has.
    pub fn through_host(&self) -> (Streams, Streams) {
        let nothing = -1;
        let synchronous = Streams { asynchronous: false, gives_up: true, ..*self };
        (Streams { destination: nothing, ..synchronous }, Streams { source: nothing, ..synchronous })
    }
}

/// What will be asked of a device, before anything is allocated or moved.
#[derive(Clone, Copy, Debug)]
pub struct Errand<'a> {
    /// What is read.
    pub source: &'a Place,
    /// What is written; None: it will be allocated.
    pub destination: Option<&'a Place>,
    /// Where the result is.
    pub target: DLDevice,
    /// The caller's.
    pub streams: Streams,
}

/// Memory that a result needs.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Where.
    pub device: DLDevice,
    /// Bytes; not 0.
    pub size: u64,
    /// A power of two.
    pub alignment: u64,
    /// Whether each byte must be 0.
    pub zeroed: bool,
    /// What will be read, which tells a device's context.
    pub source: Option<&'a Place>,
    /// The caller's stream for the result.
    pub stream: i64,
}

/// The one table that the host, CUDA, OpenCL and registered backends fill.
pub trait Backend: Sync {
    /// "host", "cuda", "opencl".
    fn name(&self) -> &'static str;

    /// Whether memory of a device type is this backend's to allocate and to reach.
    fn serves(&self, device_type: i32) -> bool;

    /// Whether it can be used here; else why not.
    fn available(&self) -> Result<(), &'static str>;

    /// Writes its version and library.
    fn describe(&self, text: &mut dyn fmt::Write) -> fmt::Result;

    /// Shows each of its devices, with its name; none where it cannot be used. Fails where there was no memory to
    /// find them.
    fn list_devices(&self, show: &mut dyn FnMut(DeviceInfo, &dyn fmt::Display)) -> Result<()>;

    /// What its driver says of an address, if that driver runs already; it is never started.
    fn detect_pointer(&self, address: u64) -> Option<PointerInfo>;

    /// Looks at what will be asked of it, so that what cannot be done is refused before anything has
    /// happened. Returns the way that the data will take, which only the driver knows for sure.
    fn admit(&self, errand: &Errand<'_>, route: Route) -> Result<Route> {
        let _ = errand;
        Ok(route)
    }

    /// Memory besides source and result that a job of an errand takes at most, in bytes.
    fn scratch(&self, errand: &Errand<'_>, job: &Transfer<'_>) -> Result<u64> {
        let _ = (errand, job);
        Ok(0)
    }

    /// Whether a tensor that is not empty is where it says, by what the driver knows of its handle.
    /// Addresses are [`Backend::detect_pointer`]'s.
    fn verify(&self, place: &Place) -> Result<()> {
        let _ = place;
        Ok(())
    }

    /// Memory for a result.
    fn allocate(&self, wanted: &Wanted<'_>) -> Result<Memory>;

    /// Does a job.
    ///
    /// # Safety
    /// Every place that the job visits is readable in the source and writable in the destination, and
    /// they do not overlap.
    unsafe fn transfer(
        &self,
        job: &Transfer<'_>,
        source: &Place,
        destination: &Place,
        streams: &Streams,
    ) -> Result<()>;
}

/// Every backend that is built in, available or not.
pub fn all() -> &'static [&'static dyn Backend] {
    #[cfg(feature = "opencl")]
    const OPENCL: &dyn Backend = &opencl::OpenCl;
    #[cfg(not(feature = "opencl"))]
    const OPENCL: &dyn Backend = &absent::OPENCL;
    #[cfg(feature = "cuda")]
    const CUDA: &dyn Backend = &cuda::Cuda;
    #[cfg(not(feature = "cuda"))]
    const CUDA: &dyn Backend = &absent::CUDA;
    &[&host::Host, CUDA, OPENCL]
}

/// Why a backend cannot be used just now, though perhaps it can later: what starts it found no memory.
#[cfg(any(feature = "cuda", feature = "opencl"))]
const NO_MEMORY: &str = "there is no memory left to start it";

/// The backend that serves a device, if it is usable here.
pub fn for_device(device: DLDevice) -> Result<&'static dyn Backend> {
    let backend = all().iter().find(|backend| backend.serves(device.device_type));
    let backend = *backend.ok_or(Error::NoBackend { device })?;
    if device.device_id < 0 {
        return Err(Error::DeviceId { device });
    }
    match backend.available() {
        Ok(()) => Ok(backend),
        #[cfg(any(feature = "cuda", feature = "opencl"))]
        Err(NO_MEMORY) => Err(Error::OutOfMemory { device: host::DEVICE, bytes: 0, alignment: 1 }),
        Err(why) => Err(Error::Unavailable { backend: backend.name(), device, why }),
    }
}
