//! CUDA for tests: the fake driver of tests/fault/cuda, and its functions for those that run on it.

// Each test crate compiles its own copy and uses a part of it.
#![allow(dead_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use crate::common;

/// What a `libcuda.so.1` before a version lacks, of what the fake one has.
const SINCE: [(u32, &str); 1] = [(12080, "cuStreamGetDevice")];

/// The folder of the fake driver.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault/cuda")
}

/// The folder of its objects, which are compiled once for a process.
fn objects() -> &'static Path {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let build = || {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for part in ["control", "device", "memory", "copy", "stream", "module", "kernels"] {
            let mut cc = common::cc();
            cc.args(["-std=gnu11", "-O1", "-g", "-fPIC", "-c"]).args(["-Wall", "-Wextra", "-Werror"]);
            // A thread needs no memory for what is its own, which may have run out.
            cc.arg("-ftls-model=initial-exec");
            if part == "kernels" {
                // Devices refuse accesses that are not aligned.
                cc.args([
                    "-Wno-unused-function",
                    "-fsanitize=alignment",
                    "-fsanitize-undefined-trap-on-error",
                ]);
            }
            cc.arg(sources().join(part).with_extension("c"));
            common::succeed_silently(cc.arg("-o").arg(folder.path().join(part).with_extension("o")));
        }
        folder
    };
    BUILT.get_or_init(build).path()
}

/// A folder with a `libcuda.so.1` as of a version of CUDA, and without what else is named.
pub fn folder(version: u32, missing: &[&str]) -> PathBuf {
    static MAKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = MAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = objects().join(format!("{version}{}", missing.concat()));
    if folder.exists() {
        return folder;
    }
    std::fs::create_dir(&folder).unwrap();
    let script = folder.join("exports");
    let later = SINCE.iter().filter(|(since, _)| *since > version).map(|(_, name)| name);
    let hidden: String = missing.iter().chain(later).map(|name| format!("{name}; ")).collect();
    std::fs::write(&script, format!("{{ global: cu*; fake_*; local: {hidden} block; }};")).unwrap();
    let mut cc = common::cc();
    cc.args(["-shared", "-Wl,-soname,libcuda.so.1"])
        .arg(format!("-Wl,--version-script={}", script.display()));
    let entries = std::fs::read_dir(objects()).unwrap().map(|entry| entry.unwrap().path());
    cc.args(entries.filter(|path| path.extension().is_some_and(|extension| extension == "o")));
    common::succeed_silently(cc.arg("-o").arg(folder.join("libcuda.so.1")).arg("-lpthread"));
    folder
}

/// This program again on a driver of a folder, with some tests of it that are ignored otherwise, one after
/// the other.
pub fn again(tests: &[&str], folder: &Path, variables: &[(&str, &str)]) {
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", "--include-ignored", "--test-threads=1"]).args(tests);
    let output = run.env("LD_LIBRARY_PATH", folder).envs(variables.iter().copied()).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let passed = format!("{} passed", tests.len());
    let passes = output.status.success() && text.contains(&passed);
    assert!(passes, "{} {variables:?}: {}\n{text}", folder.display(), output.status);
}

// ---- on the driver ----

pub type Context = *mut c_void;
pub type Stream = *mut c_void;
pub type Event = *mut c_void;
pub type Graph = *mut c_void;

macro_rules! functions {
    ($($name:ident = $symbol:literal($($type:ty),*) -> $result:ty;)*) => {
        /// The functions of the fake driver that tests call.
        #[allow(non_snake_case)]
        pub struct Driver {
            $(pub $name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl Driver {
            fn find() -> Driver {
                // SAFETY: the fake driver has these functions with these types.
                unsafe {
                    let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
                    assert!(!library.is_null(), "libcuda.so.1 cannot be opened");
                    $(
                        let symbol = CString::new($symbol).unwrap();
                        let address = libc::dlsym(library, symbol.as_ptr());
                        assert!(!address.is_null(), "no {}", $symbol);
                        #[allow(non_snake_case)]
                        let $name = std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $result>(address);
                    )*
                    Driver { $($name),* }
                }
            }
        }
    };
}

functions! {
    cuInit = "cuInit"(c_uint) -> c_int;
    cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain"(*mut Context, c_int) -> c_int;
    cuCtxCreate = "cuCtxCreate_v2"(*mut Context, c_uint, c_int) -> c_int;
    cuCtxPushCurrent = "cuCtxPushCurrent_v2"(Context) -> c_int;
    cuCtxPopCurrent = "cuCtxPopCurrent_v2"(*mut Context) -> c_int;
    cuCtxGetCurrent = "cuCtxGetCurrent"(*mut Context) -> c_int;
    cuCtxSynchronize = "cuCtxSynchronize"() -> c_int;
    cuMemAlloc = "cuMemAlloc_v2"(*mut u64, usize) -> c_int;
    cuMemFree = "cuMemFree_v2"(u64) -> c_int;
    cuMemAllocAsync = "cuMemAllocAsync"(*mut u64, usize, Stream) -> c_int;
    cuMemHostAlloc = "cuMemHostAlloc"(*mut u64, usize, c_uint) -> c_int;
    cuMemFreeHost = "cuMemFreeHost"(u64) -> c_int;
    cuMemHostRegister = "cuMemHostRegister_v2"(u64, usize, c_uint) -> c_int;
    cuMemHostUnregister = "cuMemHostUnregister"(u64) -> c_int;
    cuMemAllocManaged = "cuMemAllocManaged"(*mut u64, usize, c_uint) -> c_int;
    cuMemcpyHtoD = "cuMemcpyHtoD_v2"(u64, *const u8, usize) -> c_int;
    cuMemcpyHtoDAsync = "cuMemcpyHtoDAsync_v2"(u64, *const u8, usize, Stream) -> c_int;
    cuMemcpyDtoDAsync = "cuMemcpyDtoDAsync_v2"(u64, u64, usize, Stream) -> c_int;
    cuMemsetD8Async = "cuMemsetD8Async"(u64, u8, usize, Stream) -> c_int;
    cuStreamCreate = "cuStreamCreate"(*mut Stream, c_uint) -> c_int;
    cuStreamDestroy = "cuStreamDestroy_v2"(Stream) -> c_int;
    cuStreamSynchronize = "cuStreamSynchronize"(Stream) -> c_int;
    cuStreamBeginCapture = "cuStreamBeginCapture_v2"(Stream, c_int) -> c_int;
    cuStreamEndCapture = "cuStreamEndCapture"(Stream, *mut Graph) -> c_int;
    cuGraphInstantiate = "cuGraphInstantiateWithFlags"(*mut Graph, Graph, u64) -> c_int;
    cuGraphLaunch = "cuGraphLaunch"(Graph, Stream) -> c_int;
    cuGraphDestroy = "cuGraphDestroy"(Graph) -> c_int;
    cuGraphExecDestroy = "cuGraphExecDestroy"(Graph) -> c_int;
    fake_fail = "fake_fail"(c_long, c_int, c_int, *const c_char) -> ();
    fake_failed = "fake_failed"() -> *const c_char;
    fake_log_start = "fake_log_start"() -> ();
    fake_log = "fake_log"() -> *const c_char;
    fake_complaints = "fake_complaints"() -> *const c_char;
    fake_live = "fake_live"(c_int) -> c_long;
    fake_shut_down = "fake_shut_down"(c_int) -> ();
    fake_peek = "fake_peek"(*mut u8, u64, usize) -> c_int;
    fake_mapped = "fake_mapped"(c_int, usize) -> u64;
    fake_far = "fake_far"(c_int, usize) -> u64;
    fake_pending = "fake_pending"(Stream) -> c_long;
}

/// The driver, which is initialised.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let driver = Driver::find();
        // SAFETY: it may be initialised again.
        assert_eq!(unsafe { (driver.cuInit)(0) }, 0);
        driver
    })
}

/// Calls a function of the driver that must succeed.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments are what the function wants.
        let code = unsafe { ($crate::cuda::driver().$name)($($argument),*) };
        assert_eq!(code, 0, stringify!($name));
    }};
}
#[allow(unused_imports)]
pub(crate) use cu;

/// Somebody else's program on a device: its primary context, current on this thread until this is dropped.
pub struct Desk {
    pub device: i32,
    pub context: Context,
}

impl Desk {
    pub fn new(device: i32) -> Desk {
        let mut context = null_mut();
        cu!(cuDevicePrimaryCtxRetain(&mut context, device));
        cu!(cuCtxPushCurrent(context));
        Desk { device, context }
    }

    /// Device memory with these bytes; one byte if there are none.
    pub fn buffer(&self, bytes: &[u8]) -> Buffer {
        let bytes = if bytes.is_empty() { &[0] } else { bytes };
        let mut address = 0;
        cu!(cuCtxPushCurrent(self.context));
        cu!(cuMemAlloc(&mut address, bytes.len()));
        cu!(cuMemcpyHtoD(address, bytes.as_ptr(), bytes.len()));
        cu!(cuCtxPopCurrent(null_mut()));
        Buffer { address, size: bytes.len(), free: Free::Device, context: self.context }
    }

    /// Pinned memory with these bytes.
    pub fn pinned(&self, bytes: &[u8]) -> Buffer {
        let bytes = if bytes.is_empty() { &[0] } else { bytes };
        let mut address = 0;
        cu!(cuMemHostAlloc(&mut address, bytes.len(), 1));
        let buffer = Buffer { address, size: bytes.len(), free: Free::Host, context: self.context };
        buffer.host().copy_from_slice(bytes);
        buffer
    }

    /// Managed memory with these bytes.
    pub fn managed(&self, bytes: &[u8]) -> Buffer {
        let bytes = if bytes.is_empty() { &[0] } else { bytes };
        let mut address = 0;
        cu!(cuMemAllocManaged(&mut address, bytes.len(), 1));
        let buffer = Buffer { address, size: bytes.len(), free: Free::Device, context: self.context };
        buffer.host().copy_from_slice(bytes);
        buffer
    }

    /// A stream; `blocking` ones wait for the legacy default stream.
    pub fn stream(&self, blocking: bool) -> Stream {
        let mut stream = null_mut();
        cu!(cuStreamCreate(&mut stream, if blocking { 0 } else { 1 }));
        stream
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let mut context = null_mut();
        cu!(cuCtxPopCurrent(&mut context));
        assert!(std::thread::panicking() || context == self.context, "the current context is another one");
    }
}

enum Free {
    Device,
    Host,
}

/// Memory, freed with this.
pub struct Buffer {
    pub address: u64,
    pub size: usize,
    free: Free,
    context: Context,
}

impl Buffer {
    /// What is there now: nothing is waited for.
    pub fn bytes(&self) -> Vec<u8> {
        peek(self.address, self.size)
    }

    /// The memory of one that the host can touch.
    #[allow(clippy::mut_from_ref)]
    pub fn host(&self) -> &mut [u8] {
        // SAFETY: it is that large, and the tests look at it from one thread.
        unsafe { std::slice::from_raw_parts_mut(self.address as usize as *mut u8, self.size) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        cu!(cuCtxPushCurrent(self.context));
        match self.free {
            Free::Device => cu!(cuMemFree(self.address)),
            Free::Host => cu!(cuMemFreeHost(self.address)),
        }
        cu!(cuCtxPopCurrent(null_mut()));
    }
}

/// What is in memory now: nothing is waited for.
pub fn peek(address: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; size];
    cu!(fake_peek(bytes.as_mut_ptr(), address, size));
    bytes
}

/// Makes the call after `left` others fail. `stays`: all after it too.
pub fn fail(left: i64, code: i32, stays: bool) {
    // SAFETY: NULL is every function.
    unsafe { (driver().fake_fail)(left as c_long, code, stays.into(), null()) };
}

/// The function that failed, without the suffix of its version; the driver works again.
pub fn failed() -> Option<String> {
    // SAFETY: the name is a literal of the driver's.
    unsafe {
        let name = (driver().fake_failed)();
        (driver().fake_fail)(-1, 0, 0, null());
        let name = (!name.is_null()).then(|| CStr::from_ptr(name).to_str().unwrap())?;
        Some(name.strip_suffix("_v2").unwrap_or(name).to_owned())
    }
}

/// The calls of the driver while something is done, a line for each.
pub fn log<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    // SAFETY: the log is text.
    unsafe {
        (driver().fake_log_start)();
        let outcome = work();
        let log = CStr::from_ptr((driver().fake_log)()).to_string_lossy().into_owned();
        (outcome, log.lines().map(str::to_owned).collect())
    }
}

/// Asserts that nobody has written beyond memory, or done anything else that no code tells.
pub fn no_complaints() {
    // SAFETY: the complaints are text.
    let complaints = unsafe { CStr::from_ptr((driver().fake_complaints)()) };
    assert_eq!(complaints.to_string_lossy(), "");
}

/// How many objects of each kind there are: device and host memory, streams, events, modules, contexts, and
/// references to primary contexts.
pub fn live() -> [c_long; 7] {
    // SAFETY: it counts.
    std::array::from_fn(|kind| unsafe { (driver().fake_live)(kind as c_int) })
}
