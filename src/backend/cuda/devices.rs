//! Which devices there are, asked once for the process, and that of the parent when it has forked.

use std::ffi::{CStr, c_char, c_int};
use std::fmt::{self, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute};

use super::driver::{self, Functions, Why, call, error_name};
use super::lane::Lane;
use crate::backend::NO_MEMORY;
use crate::backend::host;
use crate::backend::shared::list;
use crate::dlpack::raw::{DLDevice, device_type};
use crate::error::{Error, Result};

/// The driver, initialised.
pub struct Cuda {
    /// Its functions.
    pub f: &'static Functions,
    /// 12080 for CUDA 12.8.
    pub version: c_int,
    /// In the order of their ids.
    pub devices: Vec<Device>,
    /// Who initialised it.
    process: u32,
}

/// A device.
pub struct Device {
    /// Its DLPack id, which is the driver's ordinal.
    pub id: i32,
    /// Its handle.
    pub handle: CUdevice,
    /// What its vendor calls it.
    pub name: Text,
    /// Bytes of its memory.
    pub memory: u64,
    /// Made at the first use.
    lane: OnceLock<Lane>,
    making: Mutex<()>,
}

/// The oldest driver that has all that is used.
const OLDEST: c_int = 11040;

static CUDA: OnceLock<Result<Cuda, Text>> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

/// The driver, which is initialised at the first use; or why it cannot be used.
pub fn cuda() -> Result<&'static Cuda, Why> {
    let cuda = driver::once(&CUDA, &STARTING, initialise)?.as_ref().map_err(|why| &**why)?;
    if cuda.process == std::process::id() {
        Ok(cuda)
    } else {
        Err("CUDA was initialised before this process was forked, and does not survive that: \
             start the process anew, or fork before CUDA is used")
    }
}

/// The driver, if the library has initialised it and it can be used still.
pub fn cuda_if_running() -> Option<&'static Cuda> {
    CUDA.get().and_then(|_| cuda().ok())
}

/// As [`cuda`], for whoever needs it for a device.
pub fn needed() -> Result<&'static Cuda> {
    cuda().map_err(|why| unavailable(DLDevice { device_type: device_type::CUDA, device_id: 0 }, why))
}

/// That it cannot be used.
pub fn unavailable(device: DLDevice, why: Why) -> Error {
    match why {
        NO_MEMORY => Error::OutOfMemory { device: host::DEVICE, bytes: 0, alignment: 1 },
        why => Error::Unavailable { backend: super::NAME, device, why },
    }
}

impl Cuda {
    /// The device of an id.
    pub fn device(&'static self, device: DLDevice) -> Result<&'static Device> {
        let found = usize::try_from(device.device_id).ok().and_then(|id| self.devices.get(id));
        found.ok_or(Error::NoSuchDevice { device, count: self.devices.len(), kind: "CUDA" })
    }

    /// The lane of a device.
    pub fn lane(&'static self, device: DLDevice) -> Result<&'static Lane> {
        let device = self.device(device)?;
        if let Some(lane) = device.lane.get() {
            return Ok(lane);
        }
        let _making = device.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = device.lane.get() {
            return Ok(lane);
        }
        let lane = Lane::new(self.f, device)?;
        Ok(device.lane.get_or_init(|| lane))
    }
}

impl Device {
    /// A number that the driver gives of it; 0 where it knows none.
    pub fn attribute(&self, f: &Functions, attribute: Attribute) -> c_int {
        let mut value = 0;
        // SAFETY: the device is valid.
        let code = unsafe { (f.cuDeviceGetAttribute)(&mut value, attribute as c_int, self.handle) };
        if code == 0 { value } else { 0 }
    }

    /// The lane, if something has been done on the device.
    pub fn lane_if_made(&self) -> Option<&Lane> {
        self.lane.get()
    }
}

/// Starts the driver, or says why it cannot be used. An error: there is no memory for that now.
fn initialise() -> Result<Result<Cuda, Text>, Why> {
    let f = match driver::functions() {
        Ok(f) => f,
        Err(NO_MEMORY) => return Err(NO_MEMORY),
        Err(why) => return Ok(Err(Text::of(format_args!("{why}")))),
    };
    let explain =
        |call: &str, code| Ok(Err(Text::of(format_args!("{call}: {} ({code})", error_name(f, code)))));
    // SAFETY: the functions are the driver's, and each value has its place.
    unsafe {
        let mut version = 0;
        let code = (f.cuDriverGetVersion)(&mut version);
        if code == 0 && version < OLDEST {
            let (major, minor) = (version / 1000, version % 1000 / 10);
            let why = format_args!("the driver is of CUDA {major}.{minor}: 11.4 or later is needed");
            return Ok(Err(Text::of(why)));
        }
        let code = (f.cuInit)(0);
        if code != 0 {
            return explain("cuInit", code);
        }
        let mut count = 0;
        let code = (f.cuDeviceGetCount)(&mut count);
        if code != 0 {
            return explain("cuDeviceGetCount", code);
        }
        if count == 0 {
            return Ok(Err(Text::of(format_args!("there is no CUDA device"))));
        }
        let mut devices = list(count as usize).map_err(|_| NO_MEMORY)?;
        for id in 0..count {
            match describe(f, id) {
                Ok(device) => devices.push(device),
                Err(error) => return Ok(Err(Text::of(format_args!("{error}")))),
            }
        }
        Ok(Ok(Cuda { f, version, devices, process: std::process::id() }))
    }
}

/// # Safety
/// The driver is initialised.
unsafe fn describe(f: &Functions, id: c_int) -> Result<Device> {
    let (mut handle, mut memory, mut name) = (0, 0, [0 as c_char; Text::ROOM + 1]);
    // SAFETY: each value has its place; the driver ends the name with NUL.
    unsafe {
        call!(f, cuDeviceGet(&mut handle, id))?;
        call!(f, cuDeviceTotalMem(&mut memory, handle))?;
        call!(f, cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int - 1, handle))?;
        let name = CStr::from_ptr(name.as_ptr()).to_str().unwrap_or("a device whose name is no text");
        let (lane, making) = (OnceLock::new(), Mutex::new(()));
        let name = Text::of(format_args!("{name}"));
        Ok(Device { id, handle, name, memory: memory as u64, lane, making })
    }
}

/// A text that needs no memory of its own.
pub struct Text {
    bytes: [u8; Text::ROOM],
    len: usize,
}

impl Text {
    const ROOM: usize = 255;

    /// As much as there is room for.
    fn of(what: fmt::Arguments<'_>) -> Text {
        let mut text = Text { bytes: [0; Text::ROOM], len: 0 };
        // What has no room is left out.
        let _ = text.write_fmt(what);
        text
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let more = &more[..more.floor_char_boundary(Text::ROOM - self.len)];
        self.bytes[self.len..][..more.len()].copy_from_slice(more.as_bytes());
        self.len += more.len();
        Ok(())
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
