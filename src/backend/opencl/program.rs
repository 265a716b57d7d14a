//! Programs, one for each kernel, built when it is first used. A context has its own, also while nobody works there
//! for a moment ([`super::idle`]); what a device's compiler made of the first is what the others get, and what it
//! refused is refused again without it.

use std::alloc::Layout;
use std::ffi::c_char;
use std::fmt::Write;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use opencl3::error_codes::error_text;
use opencl3::program::{
    CL_PROGRAM_BINARIES, CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BUILD_LOG, CL_PROGRAM_DEVICES,
};
use opencl3::types::*;

use super::driver::{Functions, Short, call, make, text};
use crate::backend::kernels::{JOBS, Kernel, NUMBERS, OPENCL};
use crate::backend::shared::{list_of, out_of_memory, reserve};
use crate::error::{Error, Excerpt, Result};

/// What a device's compiler made of a kernel; None: what it did cannot be kept.
type Compiled = Result<Option<Vec<u8>>>;

/// By device and kernel, for the process. A list, since it is short, and a hash map takes memory of the thread
/// that cannot be had back from a failure.
static COMPILED: Mutex<Vec<((usize, Kernel), Compiled)>> = Mutex::new(Vec::new());

/// The programs of a context and a device, which keep the context alive and are released when this is dropped.
pub struct Programs {
    f: &'static Functions,
    built: Mutex<Vec<(Kernel, Built)>>,
}

/// A kernel and its program.
struct Built {
    program: cl_program,
    kernel: cl_kernel,
}

/// A kernel that nobody else sets the arguments of.
pub struct Locked<'a> {
    _built: MutexGuard<'a, Vec<(Kernel, Built)>>,
    /// Valid while this lives.
    pub kernel: cl_kernel,
}

impl Programs {
    /// None yet.
    pub fn new(f: &'static Functions) -> Programs {
        Programs { f, built: Mutex::default() }
    }

    /// A kernel, built if it has to be.
    ///
    /// # Safety
    /// The context and its device are valid, and those of every other call.
    pub unsafe fn get(
        &self,
        context: cl_context,
        device: cl_device_id,
        kernel: Kernel,
    ) -> Result<Locked<'_>> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = built.iter().find(|(of, _)| *of == kernel) {
            let kernel = found.kernel;
            return Ok(Locked { _built: built, kernel });
        }
        reserve(&mut built, 1)?;
        let program = Program { f: self.f, program: null_mut() };
        // SAFETY: as the caller says.
        let program = unsafe { program.build(context, device, kernel)? };
        let Some(name) = Short::<64>::written(|name| write!(name, "{kernel}")) else {
            return Err(too_long());
        };
        // SAFETY: the program is built.
        let handle = unsafe { make!(self.f, clCreateKernel(program.program, name.as_ptr().cast()))? };
        built.push((kernel, Built { program: program.take(), kernel: handle }));
        Ok(Locked { _built: built, kernel: handle })
    }

    /// All of them, for another lane of the context and device; None: none was used.
    pub fn take(&self) -> Option<Programs> {
        let built = std::mem::take(&mut *self.built.lock().unwrap_or_else(PoisonError::into_inner));
        (!built.is_empty()).then(|| Programs { f: self.f, built: Mutex::new(built) })
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        for (_, built) in self.built.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: both are ours, and released once; commands that use them keep them.
            unsafe {
                (self.f.clReleaseKernel)(built.kernel);
                (self.f.clReleaseProgram)(built.program);
            }
        }
    }
}

/// A program that is released when this is dropped; NULL: none.
struct Program {
    f: &'static Functions,
    program: cl_program,
}

impl Program {
    /// # Safety
    /// The device is one of the context's.
    unsafe fn build(mut self, context: cl_context, device: cl_device_id, kernel: Kernel) -> Result<Program> {
        // Other threads that want the same wait here, so that it is compiled once.
        let mut all = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        reserve(&mut all, 1)?;
        let key = (device as usize, kernel);
        match all.iter().find(|(of, _)| *of == key).map(|(_, compiled)| compiled) {
            Some(Err(refused)) => return Err(*refused),
            // SAFETY: as the caller says.
            Some(Ok(Some(binary))) => unsafe {
                let loaded = self.load(context, device, binary);
                if loaded.is_ok() {
                    return Ok(self);
                }
            },
            _ => {}
        }
        // SAFETY: as the caller says.
        unsafe {
            match self.compile(context, device, kernel) {
                Ok(()) => {
                    let binary = self.binary(device)?;
                    all.push((key, Ok(binary)));
                    Ok(self)
                }
                Err(error) => {
                    // What fails for want of memory may do later.
                    if let Error::DriverLog { .. } = error {
                        all.push((key, Err(error)));
                    }
                    Err(error)
                }
            }
        }
    }

    /// # Safety
    /// As [`Program::build`].
    unsafe fn compile(&mut self, context: cl_context, device: cl_device_id, kernel: Kernel) -> Result<()> {
        let Some(line) = Short::<128>::written(|line| kernel.write_line(line)) else {
            return Err(too_long());
        };
        let parts = [OPENCL, NUMBERS, JOBS, &line];
        let texts = parts.map(|part| part.as_ptr().cast::<c_char>());
        let sizes = parts.map(str::len);
        let f = self.f;
        // SAFETY: the texts are as long as their sizes say.
        unsafe {
            let count = parts.len() as cl_uint;
            self.replace(make!(
                f,
                clCreateProgramWithSource(context, count, texts.as_ptr(), sizes.as_ptr())
            )?);
            match self.finish(device) {
                Err(Error::Driver { call, code, .. })
                    if code == i64::from(opencl3::error_codes::CL_BUILD_PROGRAM_FAILURE) =>
                {
                    let log = self.log(device, kernel)?;
                    Err(Error::DriverLog { call, name: error_text(code as cl_int), code, log })
                }
                other => other,
            }
        }
    }

    /// What was compiled before, for another context.
    ///
    /// # Safety
    /// As [`Program::build`].
    unsafe fn load(&mut self, context: cl_context, device: cl_device_id, binary: &[u8]) -> Result<()> {
        let (f, size, place, mut status) = (self.f, binary.len(), binary.as_ptr(), 0);
        // SAFETY: the binary is as long as its size says.
        unsafe {
            self.replace(make!(
                f,
                clCreateProgramWithBinary(context, 1, &device, &size, &place, &mut status)
            )?);
            self.finish(device)
        }
    }

    /// # Safety
    /// The program has the device.
    unsafe fn finish(&self, device: cl_device_id) -> Result<()> {
        // SAFETY: as the caller says.
        unsafe {
            call!(
                self.f,
                clBuildProgram(self.program, 1, &device, c"-cl-std=CL1.2".as_ptr(), null(), null_mut())
            )
        }
    }

    /// What the compiler says, for as long as the process runs: it is kept with the refusal.
    ///
    /// # Safety
    /// The program has the device.
    unsafe fn log(&self, device: cl_device_id, kernel: Kernel) -> Result<&'static str> {
        // SAFETY: as the caller says.
        let log = text(|size, place, needed| unsafe {
            (self.f.clGetProgramBuildInfo)(self.program, device, CL_PROGRAM_BUILD_LOG, size, place, needed)
        })?;
        // A message has room for its beginning.
        const MOST: usize = 2000;
        let end = log.floor_char_boundary(MOST);
        let mut told = String::new();
        told.try_reserve_exact(MOST + 64).map_err(|_| out_of_memory(Layout::new::<[u8; MOST + 64]>()))?;
        // There is room for it.
        let _ = write!(told, "{kernel}: {}", &log[..end]);
        Ok(told.leak())
    }

    /// What it was compiled to, of the device; None: the driver does not give it.
    ///
    /// # Safety
    /// The program is built.
    unsafe fn binary(&self, device: cl_device_id) -> Result<Option<Vec<u8>>> {
        // SAFETY: every list has as many entries as the driver says there are; where an entry is NULL,
        // nothing is written.
        unsafe {
            let ask = |what, size, place| {
                (self.f.clGetProgramInfo)(self.program, what, size, place, null_mut()) == 0
            };
            let mut bytes = 0;
            let devices = CL_PROGRAM_DEVICES;
            if (self.f.clGetProgramInfo)(self.program, devices, 0, null_mut(), &mut bytes) != 0 {
                return Ok(None);
            }
            let mut ids: Vec<cl_device_id> = list_of(null_mut(), bytes / size_of::<cl_device_id>())?;
            let mut sizes = list_of(0usize, ids.len())?;
            let list = size_of_val(sizes.as_slice());
            if !ask(devices, bytes, ids.as_mut_ptr().cast())
                || !ask(CL_PROGRAM_BINARY_SIZES, list, sizes.as_mut_ptr().cast())
            {
                return Ok(None);
            }
            let index = ids.iter().position(|id| *id == device).filter(|index| sizes[*index] > 0);
            let Some(index) = index else { return Ok(None) };
            let mut binary = list_of(0u8, sizes[index])?;
            let mut places: Vec<*mut u8> = list_of(null_mut(), ids.len())?;
            places[index] = binary.as_mut_ptr();
            Ok(ask(CL_PROGRAM_BINARIES, list, places.as_mut_ptr().cast()).then_some(binary))
        }
    }

    fn replace(&mut self, program: cl_program) {
        drop(Program { f: self.f, program: std::mem::replace(&mut self.program, program) });
    }

    fn take(mut self) -> cl_program {
        std::mem::replace(&mut self.program, null_mut())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: it is ours, and released once.
            unsafe { (self.f.clReleaseProgram)(self.program) };
        }
    }
}

#[cold]
fn too_long() -> Error {
    Error::Internal(Excerpt::new("a kernel's name is too long"))
}
