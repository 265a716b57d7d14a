//! Memory: what the driver says of an address, and results on devices, pinned and managed.

use std::ffi::{c_uint, c_void};
use std::ptr::null_mut;

use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_PORTABLE, CUdeviceptr, CUmemAttach_flags, CUmemorytype, CUpointer_attribute as Attribute,
    CUstream,
};

use super::devices;
use super::driver::{Code, Functions, NOT_INITIALIZED, OUT_OF_MEMORY, call};
use super::lane::{Lane, Relaxed};
use super::order::{LEGACY, LEGACY_STREAM};
use crate::backend::shared::boxed;
use crate::backend::{Memory, MemoryKind, Place, PointerInfo, Wanted};
use crate::dlpack::raw::{DLDevice, device_type};
use crate::error::{Error, Result};

/// What the driver says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it is; `None` where it is not the driver's.
    pub info: Option<PointerInfo>,
    /// Where devices see it.
    pub on_device: u64,
    /// The device that it was made for.
    pub device_id: i32,
}

/// Asks the driver what an address is, in one call, of which it needs no context: memory of pools and
/// mapped ranges has none. None: the driver is not initialised.
pub fn ask(f: &Functions, address: u64) -> Option<Known> {
    let mut attributes = [
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
    ]
    .map(|attribute| attribute as c_uint);
    // None is longer than this. What is shorter leaves the rest 0; the processors of CUDA are little-endian.
    let mut values = [0u64; 6];
    let mut places = values.each_mut().map(|value| std::ptr::from_mut(value).cast::<c_void>());
    // SAFETY: as many places as attributes.
    let code = unsafe {
        (f.cuPointerGetAttributes)(
            attributes.len() as c_uint,
            attributes.as_mut_ptr(),
            places.as_mut_ptr(),
            address,
        )
    };
    if code == NOT_INITIALIZED {
        return None;
    }
    let [kind, ordinal, managed, base, size, on_device] = values;
    const HOST: u32 = CUmemorytype::CU_MEMORYTYPE_HOST as u32;
    const DEVICE: u32 = CUmemorytype::CU_MEMORYTYPE_DEVICE as u32;
    let on = |device_type, device_id| Some(DLDevice { device_type, device_id });
    let found = match kind as u32 {
        _ if code != 0 => None,
        _ if managed as u8 != 0 => Some((MemoryKind::Managed, on(device_type::CUDA_MANAGED, 0))),
        HOST => Some((MemoryKind::Pinned, on(device_type::CUDA_HOST, 0))),
        DEVICE => Some((MemoryKind::Device, on(device_type::CUDA, ordinal as i32))),
        _ => None,
    };
    let info = found.map(|(memory, device)| PointerInfo { memory, device, base, size });
    Some(Known { info, on_device, device_id: ordinal as i32 })
}

/// What a place on the host is to the driver, if it knows all of it.
pub fn ask_of_host(f: &Functions, place: &Place) -> Option<Known> {
    let known = ask(f, place.address())?;
    let info = known.info?;
    let (begin, end) =
        (place.data.wrapping_add_signed(place.begin), place.data.wrapping_add_signed(place.end));
    // Drivers that do not know the range of registered memory say 0.
    let within = info.size == 0 || info.base <= begin && end <= info.base + info.size;
    (within && info.memory != MemoryKind::Device).then_some(known)
}

/// Memory for a result.
pub fn allocate(lane: &'static Lane, wanted: &Wanted<'_>) -> Result<Memory> {
    let Wanted { device, size, alignment, zeroed, stream, .. } = *wanted;
    let out_of_memory = Error::OutOfMemory { device, bytes: size, alignment };
    let spare = alignment.saturating_sub(ALIGNMENT);
    let bytes = size.checked_add(spare).and_then(|bytes| usize::try_from(bytes).ok()).ok_or(out_of_memory)?;
    let f = lane.f;
    let _relaxed = Relaxed::new(f);
    let _entered = lane.enter()?;
    let refused = |call, code| match code {
        OUT_OF_MEMORY => out_of_memory,
        code => super::driver::failed(f, call, code),
    };
    let check = |call, code: Code| if code == 0 { Ok(()) } else { Err(refused(call, code)) };
    // SAFETY: the context is current, and each value has its place.
    unsafe {
        let mut address: CUdeviceptr = 0;
        let way = match (device.device_type, lane.pool) {
            (device_type::CUDA_HOST, _) => {
                let mut pointer: *mut c_void = null_mut();
                let flags = CU_MEMHOSTALLOC_PORTABLE as c_uint;
                check("cuMemHostAlloc", (f.cuMemHostAlloc)(&mut pointer, bytes, flags))?;
                address = pointer as usize as u64;
                Back::Host
            }
            (device_type::CUDA_MANAGED, _) => {
                let flags = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as c_uint;
                check("cuMemAllocManaged", (f.cuMemAllocManaged)(&mut address, bytes, flags))?;
                Back::Device
            }
            (_, Some(pool)) => {
                let code = (f.cuMemAllocFromPoolAsync)(&mut address, bytes, pool, lane.allocations);
                check("cuMemAllocFromPoolAsync", code)?;
                Back::Pool { legacy: LEGACY.contains(&stream) }
            }
            (_, None) => {
                check("cuMemAlloc", (f.cuMemAlloc)(&mut address, bytes))?;
                Back::Device
            }
        };
        // Until it is there, it goes back in the order in which it came.
        let until_then = if matches!(way, Back::Pool { .. }) { Back::Pool { legacy: false } } else { way };
        let mut owner = Owner { lane, address, way: until_then };
        let first = address.next_multiple_of(alignment);
        if zeroed && way == Back::Host {
            std::ptr::write_bytes(first as usize as *mut u8, 0, size as usize);
        } else if zeroed {
            call!(f, cuMemsetD8Async(first, 0, size as usize, lane.allocations))?;
        }
        if zeroed && way != Back::Host || matches!(way, Back::Pool { .. }) {
            // From now on any stream may use it.
            call!(f, cuStreamSynchronize(lane.allocations))?;
        }
        owner.way = way;
        Memory::of_device(first, size as usize, boxed(owner)?).ok_or(out_of_memory)
    }
}

/// What the driver aligns memory to at least.
const ALIGNMENT: u64 = 256;

/// Gives memory back when it is dropped, on whichever thread.
#[derive(Debug)]
struct Owner {
    lane: &'static Lane,
    address: CUdeviceptr,
    way: Back,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Back {
    /// `cuMemFree`, which waits for the device.
    Device,
    /// `cuMemFreeHost`
    Host,
    /// To the pool, which waits for nothing: in the order of the legacy default stream, if the result was
    /// for that one.
    Pool { legacy: bool },
}

impl Drop for Owner {
    fn drop(&mut self) {
        // After a fork the memory is the parent's.
        if devices::cuda_if_running().is_none() {
            return;
        }
        let f = self.lane.f;
        // What this fails with changes nothing: the driver may have shut down before.
        let _relaxed = Relaxed::new(f);
        let Ok(_entered) = self.lane.enter() else { return };
        // SAFETY: the memory is ours, nobody uses it any more, and it goes back once.
        unsafe {
            match self.way {
                Back::Device => (f.cuMemFree)(self.address),
                Back::Host => (f.cuMemFreeHost)(self.address as usize as *mut c_void),
                Back::Pool { legacy: true } => (f.cuMemFreeAsync)(self.address, LEGACY_STREAM as CUstream),
                // The caller has put work in its stream since, of which an event after ours would know
                // nothing; one that is recorded now needs that stream, which may be gone, and drivers end the
                // process for handles that are. So the device is waited for, as cuMemFree does. What may be in
                // use is not given away.
                Back::Pool { legacy: false } => {
                    if (f.cuCtxSynchronize)() != 0 && (f.cuCtxSynchronize)() != 0 {
                        return;
                    }
                    (f.cuMemFreeAsync)(self.address, self.lane.allocations)
                }
            }
        };
    }
}

/// Memory of a device that is used within a call, and goes back in the order of a stream.
pub struct Scratch {
    lane: &'static Lane,
    stream: CUstream,
    /// Where it is.
    pub address: CUdeviceptr,
}

impl Scratch {
    /// So many bytes for work on a stream. The lane's context is current.
    ///
    /// # Safety
    /// The stream is valid for longer than this.
    pub unsafe fn new(lane: &'static Lane, stream: CUstream, bytes: u64) -> Result<Scratch> {
        let device = DLDevice { device_type: device_type::CUDA, device_id: lane.id };
        let out_of_memory = Error::OutOfMemory { device, bytes, alignment: ALIGNMENT };
        let size = usize::try_from(bytes).map_err(|_| out_of_memory)?;
        let (f, mut address) = (lane.f, 0);
        let _relaxed = Relaxed::new(f);
        // SAFETY: the context is current, as the caller says.
        let (call, code) = unsafe {
            match lane.pool {
                Some(pool) => {
                    let code = (f.cuMemAllocFromPoolAsync)(&mut address, size, pool, stream);
                    ("cuMemAllocFromPoolAsync", code)
                }
                None => ("cuMemAlloc", (f.cuMemAlloc)(&mut address, size)),
            }
        };
        match code {
            0 => Ok(Scratch { lane, stream, address }),
            OUT_OF_MEMORY => Err(out_of_memory),
            code => Err(super::driver::failed(f, call, code)),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let f = self.lane.f;
        let Ok(_entered) = self.lane.enter() else { return };
        // SAFETY: it is ours; what is on the stream is done before it goes.
        unsafe {
            if self.lane.pool.is_some() {
                (f.cuMemFreeAsync)(self.address, self.stream);
            } else {
                (f.cuStreamSynchronize)(self.stream);
                (f.cuMemFree)(self.address);
            }
        }
    }
}
