//! The device's kernels: which one does a job, the modules they are in, each loaded at its first use on a
//! device, and their launches. The kernels themselves are `backend::kernels`; `kernels/` has them compiled
//! for every device since 2014 (`sm_50`), which drivers translate for their own.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::{from_ref, null_mut};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::{CUfunction, CUmodule, CUstream};

use super::driver::call;
use super::lane::{Lane, Relaxed};
use crate::backend::job::{Transfer, Work};
use crate::backend::kernels::{GROUP, Kernel, Launches};
use crate::error::{Error, Excerpt, Result};

/// The modules, each with a NUL behind it.
const MODULES: &[&str] = &[];

/// The kernels that there are, with their modules.
fn kernels() -> &'static HashMap<&'static str, usize> {
    static KERNELS: OnceLock<HashMap<&str, usize>> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let entries = |text: &'static str| {
            let after = text.split(".entry ").skip(1);
            after.filter_map(|text| text.split_once('(').map(|(name, _)| name.trim()))
        };
        let modules = MODULES.iter().enumerate();
        modules.flat_map(|(module, text)| entries(text).map(move |name| (name, module))).collect()
    })
}

/// What a device has loaded.
pub struct Modules(Mutex<Loaded>);

#[derive(Default)]
struct Loaded {
    modules: HashMap<usize, CUmodule>,
    functions: HashMap<Kernel, CUfunction>,
}

// SAFETY: modules and functions may be used from any thread.
unsafe impl Send for Loaded {}

impl Modules {
    /// None is loaded.
    pub fn new() -> Modules {
        Modules(Mutex::new(Loaded::default()))
    }

    /// A kernel's function. The lane's context is current.
    fn function(&self, lane: &Lane, kernel: Kernel) -> Result<CUfunction> {
        let missing = Error::Internal(Excerpt::new("a kernel is in no module"));
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = loaded.functions.get(&kernel) {
            return Ok(*function);
        }
        let f = lane.f;
        let name = kernel.name();
        let index = *kernels().get(name.as_str()).ok_or(missing)?;
        let name = CString::new(name).map_err(|_| missing)?;
        let _relaxed = Relaxed::new(f);
        // SAFETY: the text ends with NUL, and what is loaded stays for the process.
        unsafe {
            let module = match loaded.modules.get(&index) {
                Some(module) => *module,
                None => {
                    let mut module = null_mut();
                    call!(f, cuModuleLoadData(&mut module, MODULES[index].as_ptr().cast()))?;
                    loaded.modules.insert(index, module);
                    module
                }
            };
            let mut function = null_mut();
            call!(f, cuModuleGetFunction(&mut function, module, name.as_ptr()))?;
            loaded.functions.insert(kernel, function);
            Ok(function)
        }
    }
}

/// Whether there is a kernel for a job. Values that may be lost are looked at where that is asked for only.
pub fn can(job: &Transfer<'_>) -> bool {
    !matches!(job.work, Work::Cast(cast) if cast.exact) && has(job)
}

/// As [`can`], lost values or not.
pub fn has(job: &Transfer<'_>) -> bool {
    let launches = Launches::of(job, 0, 0);
    launches.is_some_and(|launches| kernels().contains_key(launches.kernel().name().as_str()))
}

/// Puts the kernel of a job on a stream. The lane's context is current. `lost` is the address of a 32-bit 0
/// that becomes something else if a value is lost, or 0 where that is not asked for.
///
/// # Safety
/// The device reaches every place that the job visits, from both addresses; the stream is valid.
pub unsafe fn launch(
    lane: &'static Lane,
    stream: CUstream,
    job: &Transfer<'_>,
    source: u64,
    destination: u64,
    lost: u64,
) -> Result<()> {
    /// What a pointer has to be a multiple of.
    const ALIGNMENT: u64 = 16;
    let (from, to) = (source % ALIGNMENT, destination % ALIGNMENT);
    let none = Error::Internal(Excerpt::new("a job without a kernel was given to one"));
    let launches = Launches::of(job, from, to).ok_or(none)?;
    let function = lane.modules.function(lane, launches.kernel())?;
    let (source, destination) = (source - from, destination - to);
    launches.each(|params, groups| {
        let mut arguments = [
            from_ref(&source).cast::<c_void>().cast_mut(),
            from_ref(&destination).cast::<c_void>().cast_mut(),
            from_ref(&lost).cast::<c_void>().cast_mut(),
            from_ref(params).cast::<c_void>().cast_mut(),
        ];
        let (arguments, more) = (arguments.as_mut_ptr(), null_mut());
        // SAFETY: the arguments are the kernel's, and are read before this returns; the caller vouches for
        // the places.
        unsafe {
            call!(lane.f, cuLaunchKernel(function, groups, 1, 1, GROUP, 1, 1, 0, stream, arguments, more))
        }
    })
}
