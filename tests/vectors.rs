//! Runs tests/vectors through the C ABI, and again through the Rust API: every cast, layout, dtype spelling
//! and casting rule.

#[cfg(feature = "opencl")]
#[path = "common/cl.rs"]
mod cl;
mod common;
#[cfg(feature = "cuda")]
#[path = "common/cuda.rs"]
mod cuda;

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use arraybridge::dlpack::raw::{DLDataType, DLDevice, DLTensor};
use arraybridge::ffi::convert::ab_copy_into;
use arraybridge::ffi::dtype::{ab_dtype_format, ab_dtype_parse};
use arraybridge::ffi::types::*;
use serde_json::Value;

const PADDED: u64 = 4;

/// Under Miri, one case of so many.
const SKIP: usize = if cfg!(miri) { 8 } else { 1 };

/// valgrind, which tests/sanitize announces, rounds 64-bit integers to float32 by way of float64.
fn rounded_twice(from: &str, to: &str) -> bool {
    from.ends_with("int64")
        && ["float32", "complex64"].contains(&to)
        && std::env::var_os("ARRAYBRIDGE_VALGRIND").is_some()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder().join(name)).unwrap()).unwrap()
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

fn usize_of(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no size")) as usize
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

fn dtype_named(name: &str) -> DLDataType {
    name.parse().unwrap()
}

/// Whether a cast is left out: of those that a device's compiler takes a second for each, one pair of types
/// in seven is enough, since tests/kernels.rs has the same text do all of them. ARRAYBRIDGE_VECTORS_ALL=1
/// leaves none out.
fn left_out(from: &str, to: &str) -> bool {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if variable("ARRAYBRIDGE_VECTORS_APART") != "1" || variable("ARRAYBRIDGE_VECTORS_ALL") == "1" {
        return false;
    }
    // The small formats have one kernel.
    const TYPES: [&str; 13] = [
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
        "bfloat16", "float32", "float64",
    ];
    let part = |name: &str| match name {
        "complex64" => "float32",
        "complex128" => "float64",
        name => TYPES.into_iter().find(|real| *real == name).unwrap_or(""),
    };
    let place = |name: &str| TYPES.iter().position(|real| *real == part(name)).unwrap_or(TYPES.len());
    from != to && !(place(from) + 3 * place(to)).is_multiple_of(7)
}

fn error() -> ab_error {
    ab_error { struct_size: size_of::<ab_error>() as u32, code: 1, native_code: 1, message: [1; 496] }
}

fn options() -> ab_convert_options {
    // SAFETY: all zero is what C writes for the defaults.
    let zero = unsafe { std::mem::zeroed() };
    ab_convert_options { struct_size: size_of::<ab_convert_options>() as u32, ..zero }
}

struct Array<'a> {
    data: *const u8,
    dtype: DLDataType,
    shape: &'a [i64],
    strides: Option<&'a [i64]>,
    byte_offset: u64,
    padded: bool,
}

impl Array<'_> {
    fn tensor(&self) -> DLTensor {
        DLTensor {
            data: self.data as *mut c_void,
            device: DLDevice { device_type: 1, device_id: 0 },
            ndim: self.shape.len() as i32,
            dtype: self.dtype,
            shape: self.shape.as_ptr().cast_mut(),
            strides: self.strides.map_or(null_mut(), |strides| strides.as_ptr().cast_mut()),
            byte_offset: self.byte_offset,
        }
    }

    fn flags(&self) -> u64 {
        if self.padded { PADDED } else { 0 }
    }
}

/// Copies, and returns the status and the message.
fn copy_into(from: &Array<'_>, to: &Array<'_>, options: &ab_convert_options) -> (ab_status, String) {
    #[cfg(feature = "cuda")]
    if let Some(outcome) = through_cuda::copy_into(from, to, options) {
        return outcome;
    }
    #[cfg(feature = "opencl")]
    if let Some(outcome) = opencl::copy_into(from, to, options) {
        return outcome;
    }
    if through_rust() {
        return rust::copy_into(from, to, options);
    }
    copy_tensors((from.tensor(), from.flags()), (to.tensor(), to.flags()), options)
}

/// Whether an environment variable asks for the Rust API.
fn through_rust() -> bool {
    std::env::var_os(rust::API).is_some()
}

/// The same through the Rust API.
mod rust {
    use arraybridge::dtype::Casting;
    use arraybridge::plan::ConvertOptions;
    use arraybridge::{Error, To, View, ViewMut};

    use super::*;

    pub const API: &str = "ARRAYBRIDGE_VECTORS_RUST";

    pub fn copy_into(from: &Array<'_>, to: &Array<'_>, options: &ab_convert_options) -> (ab_status, String) {
        let rules = [Casting::Unsafe, Casting::SameKind, Casting::Safe, Casting::Exact];
        let casting = rules[options.casting as usize];
        let saturate = options.flags & AB_CONVERT_SATURATE != 0;
        // SAFETY: there are neither streams nor an allocator.
        let wanted = unsafe { To::from_options(ConvertOptions { casting, saturate, ..Default::default() }) };
        // SAFETY: the tests' tensors are as large as they say, and destinations nobody else's.
        let done = unsafe {
            View::from_raw(&from.tensor(), from.flags()).and_then(|source| {
                let mut destination = ViewMut::from_raw(&to.tensor(), to.flags())?;
                arraybridge::copy_into(&source, &mut destination, &wanted)
            })
        };
        match done {
            Ok(_) => (AB_OK, String::new()),
            Err(error @ (Error::CastingRule { .. } | Error::ValueLost { .. })) => {
                (AB_E_LOSSY, error.to_string())
            }
            Err(error) => (AB_E_INTERNAL, error.to_string()),
        }
    }

    pub fn spelling(text: &str) -> Result<(DLDataType, String), ab_status> {
        let dtype: DLDataType = text.parse().map_err(|error| match error {
            Error::DtypeText { .. } => AB_E_UNSUPPORTED_DTYPE,
            _ => AB_E_INTERNAL,
        })?;
        Ok((dtype, dtype.to_string()))
    }
}

/// Counts the vectors of one test for the table of bindings. What has not passed by its end has failed.
struct Tally {
    total: usize,
    passed: usize,
}

impl Tally {
    fn of(total: usize) -> Tally {
        Tally { total, passed: 0 }
    }

    fn pass(&mut self, holds: bool) {
        self.passed += usize::from(holds);
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        /// Tests, passed and failed vectors.
        static DONE: Mutex<(usize, usize, usize)> = Mutex::new((0, 0, 0));
        const TESTS: usize = 5;
        let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
        *done = (done.0 + 1, done.1 + self.passed, done.2 + self.total - self.passed);
        // Only whole runs count, and those with the machine's own instructions.
        let variant = std::env::var_os("ARRAYBRIDGE_ISA").or(std::env::var_os("ARRAYBRIDGE_VECTORS_WAY"));
        if done.0 == TESTS && variant.is_none() {
            let binding = if through_rust() { "rust" } else { "c" };
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/bindings");
            let (passed, failed) = (done.1, done.2);
            let text = format!(
                "{{\"binding\": \"{binding}\", \"passed\": {passed}, \"skipped\": [], \"failed\": {failed}}}\n"
            );
            std::fs::create_dir_all(&folder).expect("target/bindings");
            std::fs::write(folder.join(format!("{binding}.json")), text).expect("a file in target/bindings");
        }
    }
}

fn copy_tensors(
    (source, flags): (DLTensor, u64),
    (destination, to_flags): (DLTensor, u64),
    options: &ab_convert_options,
) -> (ab_status, String) {
    // What comes again takes another way, the third time.
    let mut outcomes = [(); 3].map(|()| {
        let mut error = error();
        // SAFETY: the tests' tensors are as large as they say.
        unsafe {
            let (from, to) = (&source, &destination);
            let status = ab_copy_into(null_mut(), from, flags, to, to_flags, options, null_mut(), &mut error);
            assert_eq!(status, error.code);
            (status, CStr::from_ptr(error.message.as_ptr()).to_string_lossy().into_owned())
        }
    });
    assert!(outcomes[0] == outcomes[1] && outcomes[1] == outcomes[2], "{outcomes:?}");
    std::mem::take(&mut outcomes[2])
}

/// The same with a side or both in buffers of OpenCL, for the ways that an environment variable names.
#[cfg(feature = "opencl")]
mod opencl {
    use arraybridge::dlpack::{Dims, TensorView};
    use opencl3::memory::CL_MEM_READ_WRITE;

    use super::cl::Desk;
    use super::*;

    pub const WAY: &str = "ARRAYBRIDGE_VECTORS_WAY";
    /// What the variable may be: to a device, from one, within a context, from the first to the last device of one,
    /// between two; and whether the device is one with memory of its own, so that kernels do the work.
    pub const WAYS: [(&str, bool); 6] = [
        ("upload", false),
        ("download", false),
        ("device", false),
        ("device", true),
        ("peer", false),
        ("staged", false),
    ];

    thread_local! {
        static DESKS: Option<(String, Desk, Desk)> = std::env::var(WAY).ok().map(|way| {
            let devices = super::cl::devices();
            let last = devices.len().checked_sub(1).expect("a device of OpenCL");
            let first = if way == "peer" { &devices[..] } else { &devices[..1] };
            (way, Desk::on(first, 0), Desk::on(&devices[last..], 0))
        });
    }

    pub fn copy_into(
        from: &Array<'_>,
        to: &Array<'_>,
        options: &ab_convert_options,
    ) -> Option<(ab_status, String)> {
        DESKS.with(|desks| {
            let (way, first, second) = desks.as_ref()?;
            let (mut source, mut destination) = (from.tensor(), to.tensor());
            let bytes = |tensor: &DLTensor, flags| {
                let mut dims = Dims::new();
                // SAFETY: the tests' tensors are as large as they say, and start where their memory does.
                unsafe {
                    let view = TensorView::read(tensor, flags, "tensor", &mut dims).unwrap();
                    std::slice::from_raw_parts_mut(tensor.data.cast::<u8>(), view.end_offset as usize)
                }
            };
            let device = DLDevice { device_type: 4, device_id: 0 };
            let buffer =
                (way != "upload").then(|| first.buffer(bytes(&source, from.flags()), CL_MEM_READ_WRITE));
            if let Some(buffer) = &buffer {
                (source.data, source.device) = (buffer.mem, device);
            }
            let place = bytes(&destination, to.flags());
            let desk = if way == "staged" { second } else { first };
            let result = (way != "download").then(|| desk.buffer(place, CL_MEM_READ_WRITE));
            if let Some(result) = &result {
                let device_id = if way == "peer" { super::cl::devices().len() as i32 - 1 } else { 0 };
                (destination.data, destination.device) = (result.mem, DLDevice { device_id, ..device });
            }
            let outcome = copy_tensors((source, from.flags()), (destination, to.flags()), options);
            if let Some(result) = &result {
                place.copy_from_slice(&desk.read(result.mem, result.size)[..place.len()]);
            }
            Some(outcome)
        })
    }
}

/// The same with a side or both in memory of CUDA's fake driver, for the way that an environment variable
/// names.
#[cfg(feature = "cuda")]
mod through_cuda {
    use std::mem::ManuallyDrop;

    use arraybridge::dlpack::{Dims, TensorView};

    use super::cuda::{Buffer, Desk};
    use super::*;

    pub const WAY: &str = "ARRAYBRIDGE_VECTORS_CUDA_WAY";
    /// What the variable may be: where the source is, and where the destination.
    pub const WAYS: [(&str, Kind, Kind); 6] = [
        ("device", Kind::Device(0), Kind::Device(0)),
        ("upload", Kind::Host, Kind::Device(0)),
        ("download", Kind::Device(0), Kind::Host),
        ("peer", Kind::Device(0), Kind::Device(1)),
        ("pinned", Kind::Pinned, Kind::Device(0)),
        ("managed", Kind::Managed, Kind::Pinned),
    ];

    #[derive(Clone, Copy)]
    pub enum Kind {
        Host,
        Pinned,
        Managed,
        Device(i32),
    }

    impl Kind {
        fn device(self) -> DLDevice {
            let (device_type, device_id) = match self {
                Kind::Host => (1, 0),
                Kind::Pinned => (3, 0),
                Kind::Managed => (13, 0),
                Kind::Device(id) => (2, id),
            };
            DLDevice { device_type, device_id }
        }

        fn buffer(self, desks: &[Desk; 2], bytes: &[u8]) -> Option<Buffer> {
            Some(match self {
                Kind::Host => return None,
                Kind::Pinned => desks[0].pinned(bytes),
                Kind::Managed => desks[0].managed(bytes),
                Kind::Device(id) => desks[id as usize].buffer(bytes),
            })
        }
    }

    thread_local! {
        // A thread's contexts end with it.
        static WORK: Option<(Kind, Kind, ManuallyDrop<[Desk; 2]>)> = std::env::var(WAY).ok().map(|name| {
            let (_, from, to) = WAYS.into_iter().find(|(way, ..)| *way == name).expect("a way");
            (from, to, ManuallyDrop::new([Desk::new(0), Desk::new(1)]))
        });
    }

    pub fn copy_into(
        from: &Array<'_>,
        to: &Array<'_>,
        options: &ab_convert_options,
    ) -> Option<(ab_status, String)> {
        WORK.with(|work| {
            let (from_kind, to_kind, desks) = work.as_ref()?;
            let (mut source, mut destination) = (from.tensor(), to.tensor());
            let bytes = |tensor: &DLTensor, flags| {
                let mut dims = Dims::new();
                // SAFETY: the tests' tensors are as large as they say, and start where their memory does.
                unsafe {
                    let view = TensorView::read(tensor, flags, "tensor", &mut dims).unwrap();
                    std::slice::from_raw_parts_mut(tensor.data.cast::<u8>(), view.end_offset as usize)
                }
            };
            let (input, place) = (bytes(&source, from.flags()), bytes(&destination, to.flags()));
            let (sent, taken) = (from_kind.buffer(desks, input), to_kind.buffer(desks, place));
            for (tensor, buffer, kind) in
                [(&mut source, &sent, from_kind), (&mut destination, &taken, to_kind)]
            {
                if let Some(buffer) = buffer {
                    tensor.data = buffer.address as usize as *mut c_void;
                    tensor.device = kind.device();
                }
            }
            let outcome = copy_tensors((source, from.flags()), (destination, to.flags()), options);
            if let Some(taken) = &taken {
                place.copy_from_slice(&taken.bytes()[..place.len()]);
            }
            cuda::no_complaints();
            Some(outcome)
        })
    }
}

/// Values that no loop does in one turn.
const MANY: usize = 2100;

#[test]
fn casts() {
    let index = json("casts.json");
    let data = bytes("casts.bin");
    let mut wrong = Vec::new();
    let mut checked = 0;
    let casts = index["casts"].as_array().unwrap();
    let mut tally = Tally::of(casts.len());
    for cast in casts {
        let before = wrong.len();
        let (from, to) = (cast["from"].as_str().unwrap(), cast["to"].as_str().unwrap());
        if left_out(from, to) {
            continue;
        }
        let input = &index["inputs"][from];
        let (count, itemsize) = (usize_of(&input["count"]), usize_of(&input["itemsize"]));
        let source = &data[usize_of(&input["offset"])..][..count * itemsize];
        let to_size = usize_of(&index["inputs"][to]["itemsize"]);
        let again = if cfg!(miri) { 1 } else { MANY.div_ceil(count) };
        let values = source.repeat(again);
        // Forwards, backwards and with gaps, a few and many: each goes through other loops.
        for (step, saturate, times) in [
            (1, false, 1),
            (1, true, 1),
            (-1, false, 1),
            (2, true, 1),
            (3, false, 1),
            (1, false, again),
            (1, true, again),
        ] {
            let offset = usize_of(&cast[if saturate { "saturate_offset" } else { "offset" }]);
            let want = data[offset..][..count * to_size].repeat(times);
            let (source, count) = (&values[..count * itemsize * times], count * times);
            let shape = [count as i64];
            let mut spread = vec![0xa5u8; count * to_size * 3];
            let last = (count - 1) * to_size;
            let strides = [step];
            let first = if step < 0 { last } else { 0 };
            let array = |data, dtype, strides, byte_offset| Array {
                data,
                dtype: dtype_named(dtype),
                shape: &shape,
                strides,
                byte_offset,
                padded: true,
            };
            let destination = array(spread.as_mut_ptr(), to, Some(&strides[..]), first as u64);
            let options =
                ab_convert_options { flags: if saturate { AB_CONVERT_SATURATE } else { 0 }, ..options() };
            let (status, message) = copy_into(&array(source.as_ptr(), from, None, 0), &destination, &options);
            assert_eq!(status, AB_OK, "{from} to {to}: {message}");
            for element in 0..count {
                let at = (first as i64 + element as i64 * step * to_size as i64) as usize;
                let got = &spread[at..][..to_size];
                let expected = &want[element * to_size..][..to_size];
                checked += 1;
                if got != expected && wrong.len() < 40 && !rounded_twice(from, to) {
                    let value = &source[element * itemsize..][..itemsize];
                    wrong.push(format!(
                        "{from} {value:02x?} to {to} saturate {saturate} step {step}: {got:02x?}, not {expected:02x?}"
                    ));
                }
            }
        }
        tally.pass(wrong.len() == before);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let some = if left_out("bool", "int8") { 7 } else { 1 };
    assert!(checked > 500_000 / some, "only {checked} values");
}

#[test]
fn exact_casts() {
    let index = json("casts.json");
    let data = bytes("casts.bin");
    let mut wrong = Vec::new();
    let casts = index["casts"].as_array().unwrap().iter().filter(|cast| cast["from"] != cast["to"]);
    let mut tally = Tally::of(casts.clone().count());
    for cast in casts {
        let before = wrong.len();
        let (from, to) = (cast["from"].as_str().unwrap(), cast["to"].as_str().unwrap());
        if left_out(from, to) {
            continue;
        }
        let input = &index["inputs"][from];
        let (count, itemsize) = (usize_of(&input["count"]), usize_of(&input["itemsize"]));
        let source = &data[usize_of(&input["offset"])..][..count * itemsize];
        let exact = &data[usize_of(&cast["exact_offset"])..][..count];
        let options = ab_convert_options { casting: AB_CAST_EXACT, ..options() };
        for element in 0..count {
            let mut room = [0u8; 16];
            let array = |data, dtype| Array {
                data,
                dtype: dtype_named(dtype),
                shape: &[],
                strides: None,
                byte_offset: 0,
                padded: true,
            };
            let value = &source[element * itemsize..][..itemsize];
            let (status, message) =
                copy_into(&array(value.as_ptr(), from), &array(room.as_mut_ptr(), to), &options);
            let want = if exact[element] == 1 { AB_OK } else { AB_E_LOSSY };
            if status != want && wrong.len() < 40 {
                wrong.push(format!("{from} {value:02x?} to {to}: {status} {message}, not {want}"));
            }
        }
        tally.pass(wrong.len() == before);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn layouts() {
    let data = bytes("layouts.bin");
    let lines = BufReader::new(File::open(folder().join("layouts.json")).unwrap()).lines();
    let cases = lines.map(|line| line.unwrap()).filter(|line| line.starts_with('{')).step_by(SKIP);
    // Line by line: Miri, which remembers who may use each byte, is very slow over a text as long as the file.
    let cases: Vec<Value> =
        cases.map(|line| serde_json::from_str(line.trim_end_matches(',')).unwrap()).collect();
    let mut tally = Tally::of(cases.len());
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let dtype = |value: &Value| DLDataType {
            code: usize_of(&value["code"]) as u8,
            bits: usize_of(&value["bits"]) as u8,
            lanes: usize_of(&value["lanes"]) as u16,
        };
        if left_out(&dtype(&case["from"]).to_string(), &dtype(&case["to"]).to_string()) {
            continue;
        }
        let shape = numbers(&case["shape"]);
        let (src, dst) = (&case["src"], &case["dst"]);
        let source = data[usize_of(&src["offset"])..][..usize_of(&src["size"])].to_vec();
        let size = usize_of(&dst["size"]);
        let mut destination = data[usize_of(&dst["before_offset"])..][..size].to_vec();
        let after = &data[usize_of(&dst["after_offset"])..][..size];
        let strides = |side: &Value| (!side["strides"].is_null()).then(|| numbers(&side["strides"]));
        let (src_strides, dst_strides) = (strides(src), strides(dst));
        let array = |data, dtype, side: &Value, strides| Array {
            data,
            dtype,
            shape: &shape,
            strides,
            byte_offset: usize_of(&side["byte_offset"]) as u64,
            padded: side["padded"].as_bool().unwrap(),
        };
        let from = array(source.as_ptr(), dtype(&case["from"]), src, src_strides.as_deref());
        let to = array(destination.as_mut_ptr(), dtype(&case["to"]), dst, dst_strides.as_deref());
        let (status, message) = copy_into(&from, &to, &options());
        assert_eq!(status, AB_OK, "{name}: {message}");
        // Miri gives NaNs that come out of a cast any sign, as Rust lets it.
        if !cfg!(miri) || case["from"] == case["to"] {
            assert_eq!(destination, after, "{name}: {case}");
        }
        tally.pass(true);
    }
    assert!(cases.len() > 200 / SKIP);
}

#[test]
fn dtype_spellings() {
    let cases = json("dtypes.json");
    let cases = cases.as_array().unwrap();
    let mut tally = Tally::of(cases.len());
    for case in cases {
        let text = case["text"].as_str().unwrap();
        if through_rust() {
            let dtype = |dtype: DLDataType| [usize::from(dtype.code), dtype.bits.into(), dtype.lanes.into()];
            let got = rust::spelling(text).map(|(found, name)| (dtype(found), name));
            let want = if case["refused"] == true {
                Err(AB_E_UNSUPPORTED_DTYPE)
            } else {
                let name = case["name"].as_str().unwrap().to_owned();
                Ok(([&case["code"], &case["bits"], &case["lanes"]].map(usize_of), name))
            };
            assert_eq!(got, want, "\"{text}\"");
            tally.pass(true);
            continue;
        }
        let c_text = CString::new(text).unwrap();
        let mut dtype = DLDataType { code: 77, bits: 77, lanes: 77 };
        let mut error = error();
        // SAFETY: every pointer is to a local.
        let status = unsafe { ab_dtype_parse(c_text.as_ptr(), &mut dtype, &mut error) };
        if case["refused"] == true {
            assert_eq!(status, AB_E_UNSUPPORTED_DTYPE, "\"{text}\" became {dtype}");
            assert_eq!(dtype, DLDataType { code: 77, bits: 77, lanes: 77 });
            tally.pass(true);
            continue;
        }
        assert_eq!(status, AB_OK, "\"{text}\"");
        let got = [usize::from(dtype.code), dtype.bits.into(), dtype.lanes.into()];
        let want = [&case["code"], &case["bits"], &case["lanes"]].map(usize_of);
        assert_eq!(got, want, "\"{text}\"");
        let mut buffer = [0; 64];
        // SAFETY: every pointer is to a local.
        let name = unsafe {
            ab_dtype_format(&dtype, buffer.as_mut_ptr(), buffer.len());
            CStr::from_ptr(buffer.as_ptr())
        };
        assert_eq!(name.to_str().unwrap(), case["name"].as_str().unwrap(), "\"{text}\"");
        tally.pass(true);
    }
}

#[test]
fn casting_rules() {
    let index = json("casts.json");
    let allowed = json("can_cast.json");
    let pairs = |rule: &str| -> HashSet<(String, String)> {
        let pair =
            |pair: &Value| (pair[0].as_str().unwrap().to_owned(), pair[1].as_str().unwrap().to_owned());
        allowed[rule].as_array().unwrap().iter().map(pair).collect()
    };
    let rules = [("safe", AB_CAST_SAFE), ("same_kind", AB_CAST_SAME_KIND)];
    let dtypes = index["inputs"].as_object().unwrap().len();
    let mut tally = Tally::of(rules.len() * dtypes * dtypes);
    for (rule, casting) in rules {
        let pairs = pairs(rule);
        for from in index["inputs"].as_object().unwrap().keys() {
            for to in index["inputs"].as_object().unwrap().keys() {
                let (source, mut room) = ([0u8; 16], [0u8; 16]);
                let array = |data, dtype| Array {
                    data,
                    dtype: dtype_named(dtype),
                    shape: &[],
                    strides: None,
                    byte_offset: 0,
                    padded: false,
                };
                let options = ab_convert_options { casting, ..options() };
                let (status, message) =
                    copy_into(&array(source.as_ptr(), from), &array(room.as_mut_ptr(), to), &options);
                let want = pairs.contains(&(from.clone(), to.clone()));
                assert_eq!(status, if want { AB_OK } else { AB_E_LOSSY }, "{rule} {from} to {to}: {message}");
                tally.pass(true);
            }
        }
    }
}

/// The tests above again, as a processor with less would run them.
#[test]
fn every_instruction_set() {
    let lesser: &[&str] = if cfg!(target_arch = "x86_64") { &["baseline", "avx2"] } else { &["baseline"] };
    for isa in lesser {
        let this = std::env::current_exe().unwrap();
        let run = std::process::Command::new(this)
            .args([
                "--skip",
                "every_instruction_set",
                "--skip",
                "every_way_of_opencl",
                "--skip",
                "every_way_of_cuda",
            ])
            .args(["--skip", "the_rust_api"])
            .env("ARRAYBRIDGE_ISA", isa)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && output.contains("5 passed"), "{isa}: {output}");
    }
}

/// The tests above again, through the Rust API.
#[test]
#[cfg(not(miri))]
fn the_rust_api() {
    let this = std::env::current_exe().unwrap();
    let tests = ["casts", "exact_casts", "layouts", "dtype_spellings", "casting_rules"];
    let run =
        std::process::Command::new(this).arg("--exact").args(tests).env(rust::API, "1").output().unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && output.contains("5 passed"), "{output}");
}

/// The tests above again, through the buffers of a device.
#[cfg(feature = "opencl")]
#[test]
fn every_way_of_opencl() {
    if cl::Desk::new().is_none() {
        common::skipped("the vectors through OpenCL: no OpenCL device is here (pocl-opencl-icd is one)");
        return;
    }
    for (way, apart) in opencl::WAYS {
        let mut run = std::process::Command::new(std::env::current_exe().unwrap());
        run.args(["--exact", "casts", "layouts"]).env(opencl::WAY, way);
        if apart {
            run.env("ARRAYBRIDGE_OPENCL_MAP", "0").env("ARRAYBRIDGE_VECTORS_APART", "1");
        }
        if way == "device" {
            run.arg("exact_casts");
        }
        if way == "peer" {
            // PoCL shows two devices if it is asked to; with one, this is "device" again.
            run.env("POCL_DEVICES", "pthread basic");
        }
        let output = run.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let passed = if way == "device" { "3 passed" } else { "2 passed" };
        assert!(output.status.success() && text.contains(passed), "{way}: {text}");
    }
}

/// The tests above again, through memory of CUDA's fake driver.
#[cfg(feature = "cuda")]
#[test]
fn every_way_of_cuda() {
    let folder = cuda::folder(12080, &[]);
    for (way, ..) in through_cuda::WAYS {
        let tests = ["casts", "layouts", "exact_casts"];
        // Each value of its own: on one way to devices.
        let tests = if way == "device" { &tests[..] } else { &tests[..2] };
        cuda::again(tests, &folder, &[(through_cuda::WAY, way)]);
    }
}
