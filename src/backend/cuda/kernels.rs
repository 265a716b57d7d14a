//! The device's kernels: the modules they are in, each loaded at its first use on a device, and their
//! launches. What they do is `backend::kernels`' to say; `kernels/` has them compiled for every device since
//! Maxwell (`sm_50`), which drivers translate for their own.

mod table;

use std::ffi::c_void;
use std::ptr::{from_ref, null_mut};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{CUfunction, CUmodule, CUstream};

use self::table::{ENTRIES, MODULES};
use super::driver::call;
use super::lane::{Lane, Relaxed};
use crate::backend::job::{Transfer, Work};
use crate::backend::kernels::{GROUP, Launches};
use crate::error::{Error, Excerpt, Result};

/// What a device has loaded.
pub struct Modules(Mutex<Loaded>);

struct Loaded {
    modules: [CUmodule; MODULES.len()],
    functions: [CUfunction; ENTRIES.len()],
}

// SAFETY: modules and functions may be used from any thread.
unsafe impl Send for Loaded {}

impl Modules {
    /// None is loaded.
    pub fn new() -> Modules {
        let (modules, functions) = ([null_mut(); MODULES.len()], [null_mut(); ENTRIES.len()]);
        Modules(Mutex::new(Loaded { modules, functions }))
    }

    /// The function of an entry. The lane's context is current.
    fn function(&self, lane: &Lane, entry: usize) -> Result<CUfunction> {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Loaded { modules, functions } = &mut *loaded;
        let function = &mut functions[entry];
        if !function.is_null() {
            return Ok(*function);
        }
        let (f, (index, name)) = (lane.f, ENTRIES[entry]);
        let module = &mut modules[index];
        let _relaxed = Relaxed::new(f);
        // SAFETY: the texts end with NUL, and what is loaded stays for the process.
        unsafe {
            if module.is_null() {
                call!(f, cuModuleLoadData(module, MODULES[index].as_ptr().cast()))?;
            }
            call!(f, cuModuleGetFunction(function, *module, name.as_ptr().cast()))?;
        }
        Ok(*function)
    }
}

/// Whether there is a kernel for a job. Values that may be lost are looked at where that is asked for only.
pub fn can(job: &Transfer<'_>) -> bool {
    !matches!(job.work, Work::Cast(cast) if cast.exact) && has(job)
}

/// As [`can`], lost values or not.
pub fn has(job: &Transfer<'_>) -> bool {
    Launches::of(job, 0, 0).is_some()
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
    let (source, destination) = (source - from, destination - to);
    launches.each(|params, groups| {
        let function = lane.modules.function(lane, table::entry(launches.kernel(), params.flags))?;
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
