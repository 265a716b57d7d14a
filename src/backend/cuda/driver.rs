//! The functions of `libcuda.so.1`, found at the first use, and what their errors become.
//!
//! cudarc gives the types and constants. Its wrappers are not used: they panic where the library or a
//! function is missing, and may open the toolkit's stub. Every function here returns a number, because
//! newer drivers have codes that no list of ours knows.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmemPoolProps,
    CUmemoryPool, CUmodule, CUstream,
};

use crate::backend::NO_MEMORY;
use crate::backend::shared::library;
use crate::error::{Error, Result};

/// Why there is no CUDA here.
pub type Why = &'static str;

/// A code of the driver's; 0: success.
pub type Code = c_uint;

/// `CUDA_ERROR_OUT_OF_MEMORY`
pub const OUT_OF_MEMORY: Code = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`
pub const NOT_INITIALIZED: Code = 3;
/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`: not a failure.
pub const PEER_ACCESS_ALREADY_ENABLED: Code = 704;

macro_rules! functions {
    ($($name:ident = $symbol:literal($($type:ty),*);)*) => {
        /// The functions that are used. Drivers have had them all since CUDA 11.4.
        #[allow(non_snake_case)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($type),*) -> Code,)*
        }

        impl Functions {
            /// # Safety
            /// `library` is CUDA's driver, and stays open.
            unsafe fn find(library: *mut c_void) -> Result<Functions, Why> {
                $(
                    let symbol = concat!($symbol, "\0");
                    // SAFETY: the library is open and the name ends with NUL.
                    let address = unsafe { libc::dlsym(library, symbol.as_ptr().cast()) };
                    if address.is_null() {
                        return Err(concat!(
                            "libcuda.so.1 lacks ", $symbol, ": a driver of CUDA 11.4 or later is needed"
                        ));
                    }
                    // SAFETY: the driver's function of this name has this type; an enum is a 32-bit number.
                    #[allow(non_snake_case)]
                    let $name = unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> Code>(address)
                    };
                )*
                Ok(Functions { $($name),* })
            }
        }
    };
}

/// `CUpointer_attribute`
type PointerAttribute = c_uint;
/// `CUdevice_attribute`
type DeviceAttribute = c_int;
/// `CUmemPool_attribute`
type PoolAttribute = c_uint;
/// `CUstreamCaptureStatus`, `CUstreamCaptureMode`
type Capture = c_uint;
type Arguments = *mut *mut c_void;

functions! {
    cuInit = "cuInit"(c_uint);
    cuDriverGetVersion = "cuDriverGetVersion"(*mut c_int);
    cuGetErrorName = "cuGetErrorName"(Code, *mut *const c_char);
    cuDeviceGetCount = "cuDeviceGetCount"(*mut c_int);
    cuDeviceGet = "cuDeviceGet"(*mut CUdevice, c_int);
    cuDeviceGetName = "cuDeviceGetName"(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute = "cuDeviceGetAttribute"(*mut c_int, DeviceAttribute, CUdevice);
    cuDeviceTotalMem = "cuDeviceTotalMem_v2"(*mut usize, CUdevice);
    cuDeviceCanAccessPeer = "cuDeviceCanAccessPeer"(*mut c_int, CUdevice, CUdevice);
    cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain"(*mut CUcontext, CUdevice);
    cuCtxPushCurrent = "cuCtxPushCurrent_v2"(CUcontext);
    cuCtxPopCurrent = "cuCtxPopCurrent_v2"(*mut CUcontext);
    cuCtxSynchronize = "cuCtxSynchronize"();
    cuCtxEnablePeerAccess = "cuCtxEnablePeerAccess"(CUcontext, c_uint);
    cuMemGetInfo = "cuMemGetInfo_v2"(*mut usize, *mut usize);
    cuPointerGetAttributes = "cuPointerGetAttributes"(c_uint, *mut PointerAttribute, Arguments, CUdeviceptr);
    cuMemAlloc = "cuMemAlloc_v2"(*mut CUdeviceptr, usize);
    cuMemFree = "cuMemFree_v2"(CUdeviceptr);
    cuMemAllocManaged = "cuMemAllocManaged"(*mut CUdeviceptr, usize, c_uint);
    cuMemHostAlloc = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost = "cuMemFreeHost"(*mut c_void);
    cuMemPoolCreate = "cuMemPoolCreate"(*mut CUmemoryPool, *const CUmemPoolProps);
    cuMemPoolSetAttribute = "cuMemPoolSetAttribute"(CUmemoryPool, PoolAttribute, *mut c_void);
    cuMemAllocFromPoolAsync = "cuMemAllocFromPoolAsync"(*mut CUdeviceptr, usize, CUmemoryPool, CUstream);
    cuMemFreeAsync = "cuMemFreeAsync"(CUdeviceptr, CUstream);
    cuMemsetD8Async = "cuMemsetD8Async"(CUdeviceptr, u8, usize, CUstream);
    cuMemcpyHtoDAsync = "cuMemcpyHtoDAsync_v2"(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync = "cuMemcpyDtoHAsync_v2"(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoDAsync = "cuMemcpyDtoDAsync_v2"(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemcpyPeerAsync = "cuMemcpyPeerAsync"(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    cuMemcpy2DAsync = "cuMemcpy2DAsync_v2"(*const CUDA_MEMCPY2D, CUstream);
    cuMemcpy3DAsync = "cuMemcpy3DAsync_v2"(*const CUDA_MEMCPY3D, CUstream);
    cuStreamCreate = "cuStreamCreate"(*mut CUstream, c_uint);
    cuStreamSynchronize = "cuStreamSynchronize"(CUstream);
    cuStreamWaitEvent = "cuStreamWaitEvent"(CUstream, CUevent, c_uint);
    cuStreamGetCtx = "cuStreamGetCtx"(CUstream, *mut CUcontext);
    cuStreamIsCapturing = "cuStreamIsCapturing"(CUstream, *mut Capture);
    cuThreadExchangeStreamCaptureMode = "cuThreadExchangeStreamCaptureMode"(*mut Capture);
    cuEventCreate = "cuEventCreate"(*mut CUevent, c_uint);
    cuEventDestroy = "cuEventDestroy_v2"(CUevent);
    cuEventRecord = "cuEventRecord"(CUevent, CUstream);
    cuEventSynchronize = "cuEventSynchronize"(CUevent);
    cuModuleLoadData = "cuModuleLoadData"(*mut CUmodule, *const c_void);
    cuModuleGetFunction = "cuModuleGetFunction"(*mut CUfunction, CUmodule, *const c_char);
    cuLaunchKernel = "cuLaunchKernel"(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, Arguments, Arguments
    );
}

const LIBRARY: &CStr = c"libcuda.so.1";

static FUNCTIONS: OnceLock<Result<Functions, Why>> = OnceLock::new();

/// The functions, or why there are none. The library is opened once and never closed: deleters of
/// results need it until the process ends. Nothing is initialised yet.
pub fn functions() -> Result<&'static Functions, Why> {
    once(&FUNCTIONS, &OPENING, open)?.as_ref().map_err(|why| *why)
}

static OPENING: Mutex<()> = Mutex::new(());

fn open() -> Result<Result<Functions, Why>, Why> {
    // SAFETY: opening a library runs its initialisers, which is what CUDA programs do. It stays open.
    unsafe {
        Ok(match library(LIBRARY).map_err(|_| NO_MEMORY)? {
            Some(library) => Functions::find(library.as_ptr()),
            None => Err("the library libcuda.so.1 cannot be opened"),
        })
    }
}

/// What is found out once for the process. Where that fails, for want of memory, it is tried again the next time.
pub fn once<T>(
    found: &'static OnceLock<T>,
    finding: &'static Mutex<()>,
    find: impl FnOnce() -> Result<T, Why>,
) -> Result<&'static T, Why> {
    if let Some(found) = found.get() {
        return Ok(found);
    }
    let _one = finding.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = found.get() {
        return Ok(found);
    }
    let value = find()?;
    Ok(found.get_or_init(|| value))
}

/// The functions, if this process has the library already; it is not loaded for this.
pub fn functions_if_loaded() -> Option<&'static Functions> {
    if FUNCTIONS.get().is_none() {
        // SAFETY: NOLOAD opens nothing; what it returns is closed at once.
        unsafe {
            let library = libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() || libc::dlclose(library) != 0 {
                return None;
            }
        }
    }
    functions().ok()
}

/// What the driver calls a code.
pub fn error_name(f: &Functions, code: Code) -> &'static str {
    let mut name = std::ptr::null();
    // SAFETY: the driver's texts are constants of a library that is never closed.
    unsafe {
        if (f.cuGetErrorName)(code, &mut name) != 0 || name.is_null() {
            return "an error that the driver has no name for";
        }
        CStr::from_ptr(name).to_str().unwrap_or("an error whose name is no text")
    }
}

/// A failure of the driver's.
#[cold]
pub fn failed(f: &Functions, call: &'static str, code: Code) -> Error {
    Error::Driver { call, name: error_name(f, code), code: code.into() }
}

/// Calls a function of the driver.
macro_rules! call {
    ($functions:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let f: &$crate::backend::cuda::driver::Functions = $functions;
        match (f.$name)($($argument),*) {
            0 => Ok(()),
            code => Err($crate::backend::cuda::driver::failed(f, stringify!($name), code)),
        }
    }};
}
pub(super) use call;
