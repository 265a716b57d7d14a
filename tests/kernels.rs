//! The kernels of GPUs, compiled for the host, which finds most mistakes: the vectors, and random jobs
//! against the host's own kernels.

mod common;

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::OnceLock;

use arraybridge::DLDataType;
use arraybridge::backend::host::Host;
use arraybridge::backend::job::{Rules, Side, most_axes};
use arraybridge::backend::kernels::{HOST, JOBS, Kernel, Launches, NUMBERS, Params, flags};
use arraybridge::backend::{Backend, Place, Streams, Transfer};
use arraybridge::dlpack::raw::DLDevice;
use arraybridge::layout::Axis;
use serde_json::Value;

type Function = unsafe extern "C" fn(u32, *const u8, *mut u8, *mut u32, Params);

/// Every kernel, as C.
fn kernels() -> &'static HashMap<String, Function> {
    static KERNELS: OnceLock<HashMap<String, Function>> = OnceLock::new();
    KERNELS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("kernels.c"), folder.path().join("kernels.so"));
        let lines: String = Kernel::all().map(Kernel::line).collect();
        std::fs::write(&source, [HOST, NUMBERS, JOBS, &lines].concat()).unwrap();
        let mut cc = common::cc();
        cc.args([
            "-std=c99",
            "-O0",
            "-fPIC",
            "-shared",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-function",
        ]);
        cc.arg("-o").arg(&library).arg(&source);
        common::succeed_silently(&mut cc);
        let path = CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: the library is ours and stays open; each function has this type by its macro.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null());
            let find = |kernel: Kernel| {
                let name = CString::new(kernel.name()).unwrap();
                let address = libc::dlsym(library, name.as_ptr());
                assert!(!address.is_null(), "{kernel}");
                (kernel.name(), std::mem::transmute::<*mut c_void, Function>(address))
            };
            Kernel::all().map(find).collect()
        }
    })
}

/// Bytes at a multiple of 16.
struct Bytes {
    room: Vec<u128>,
    len: usize,
}

impl Bytes {
    fn new(bytes: &[u8]) -> Bytes {
        let mut all = Bytes { room: vec![0; bytes.len().div_ceil(16) + 1], len: bytes.len() };
        all.as_mut().copy_from_slice(bytes);
        all
    }

    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the room is as large.
        unsafe { std::slice::from_raw_parts_mut(self.room.as_mut_ptr().cast(), self.len) }
    }
}

/// Runs a job's launches. None: there is no kernel. Else whether every value was kept.
fn run(job: &Transfer<'_>, from: &mut Bytes, from_at: u64, to: &mut Bytes, to_at: u64) -> Option<bool> {
    let (from, to) = (from.as_mut().as_ptr(), to.as_mut().as_mut_ptr());
    // SAFETY: the tests' jobs lie within both.
    unsafe { run_at(job, (from, from_at), (to, to_at), 0) }
}

/// The same at addresses that are multiples of 16, with flags that every launch has.
///
/// # Safety
/// The job lies within what is there.
unsafe fn run_at(
    job: &Transfer<'_>,
    (from, from_at): (*const u8, u64),
    (to, to_at): (*mut u8, u64),
    flags: u32,
) -> Option<bool> {
    let launches = Launches::of(job, from_at, to_at)?;
    let kernel = kernels()[&launches.kernel().name()];
    let mut lost = 0;
    let done = launches.each(|params, groups| {
        let params = Params { flags: params.flags | flags, ..*params };
        for group in 0..groups {
            // SAFETY: as the caller says.
            unsafe { kernel(group, from, to, &mut lost, params) };
        }
        Ok::<(), ()>(())
    });
    done.unwrap();
    assert!(lost == 0 || launches.is_exact());
    Some(lost == 0)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&bytes(name)).unwrap()
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

/// The casts of the vectors: names, elements, and results of three kinds.
fn each_cast(mut each: impl FnMut(&str, &str, &[u8], [&[u8]; 3])) {
    let (index, data) = (json("casts.json"), bytes("casts.bin"));
    for cast in index["casts"].as_array().unwrap() {
        let (from, to) = (cast["from"].as_str().unwrap(), cast["to"].as_str().unwrap());
        if from == to {
            continue;
        }
        let input = &index["inputs"][from];
        let (count, size) = (number(&input["count"]), number(&input["itemsize"]));
        let to_size = number(&index["inputs"][to]["itemsize"]);
        let source = &data[number(&input["offset"])..][..count * size];
        let part = |name: &str, size: usize| &data[number(&cast[name])..][..count * size];
        each(
            from,
            to,
            source,
            [part("offset", to_size), part("saturate_offset", to_size), part("exact_offset", 1)],
        );
    }
}

#[test]
fn casts() {
    let (mut wrong, mut pairs) = (Vec::new(), 0);
    each_cast(|from, to, source, [want, saturated, exact]| {
        pairs += 1;
        let (from_dtype, to_dtype): (DLDataType, DLDataType) = (from.parse().unwrap(), to.parse().unwrap());
        let count = exact.len();
        let (size, to_size) = (source.len() / count, want.len() / count);
        fn side(dtype: DLDataType, strides: &[i64]) -> Side<'_> {
            Side { dtype, padded: true, strides }
        }
        let shape = [count as i64];
        for (want, saturate) in [(want, false), (saturated, true)] {
            // Neighbours, aligned and not, and every third element.
            for (step, at) in [(1i64, 0u64), (1, 1), (3, 16)] {
                let rules = Rules { saturate, exact: false };
                let mut room = [Axis::default(); 4];
                let strides = [step];
                let job =
                    Transfer::new(&shape, side(from_dtype, &[1]), side(to_dtype, &strides), rules, &mut room);
                let mut spread = Bytes::new(&vec![0x5a; at as usize + count * to_size * step as usize]);
                let mut source = Bytes::new(&[&vec![0; at as usize], source].concat());
                assert_eq!(run(&job, &mut source, at, &mut spread, at), Some(true));
                for element in 0..count {
                    let got = &spread.as_mut()[at as usize + element * to_size * step as usize..][..to_size];
                    let want = &want[element * to_size..][..to_size];
                    if got != want && wrong.len() < 40 {
                        let value = &source.as_mut()[at as usize + element * size..][..size];
                        wrong.push(format!(
                            "{from} {value:02x?} to {to} saturate {saturate}: {got:02x?} {want:02x?}"
                        ));
                    }
                }
            }
        }
        for element in 0..count {
            let rules = Rules { saturate: false, exact: true };
            let mut room = [Axis::default(); 4];
            let job = Transfer::new(&[], side(from_dtype, &[]), side(to_dtype, &[]), rules, &mut room);
            let mut value = Bytes::new(&source[element * size..][..size]);
            let kept = run(&job, &mut value, 0, &mut Bytes::new(&[0; 16]), 0);
            if kept != Some(exact[element] == 1) && wrong.len() < 40 {
                wrong.push(format!("{from} {:02x?} to {to}: exact {kept:?}", value.as_mut()));
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(pairs, 26 * 25);
}

#[test]
fn layouts() {
    let (index, data) = (json("layouts.json"), bytes("layouts.bin"));
    let (mut done, mut left) = (0, Vec::new());
    for case in index["cases"].as_array().or(index.as_array()).unwrap() {
        let shape = numbers(&case["shape"]);
        if shape.contains(&0) {
            continue;
        }
        let name = case["name"].as_str().unwrap();
        let (src, dst) = (&case["src"], &case["dst"]);
        let strides = |side: &Value| {
            if !side["strides"].is_null() {
                return numbers(&side["strides"]);
            }
            let mut strides = vec![0; shape.len()];
            arraybridge::layout::compact_strides(&shape, &mut strides);
            strides
        };
        let (from_strides, to_strides) = (strides(src), strides(dst));
        let side = |dtype: &Value, side: &Value, strides| {
            let dtype = DLDataType {
                code: number(&dtype["code"]) as u8,
                bits: number(&dtype["bits"]) as u8,
                lanes: number(&dtype["lanes"]) as u16,
            };
            Side { dtype, padded: side["padded"].as_bool().unwrap(), strides }
        };
        let from = side(&case["from"], src, from_strides.as_slice());
        let to = side(&case["to"], dst, to_strides.as_slice());
        let mut source = Bytes::new(&data[number(&src["offset"])..][..number(&src["size"])]);
        let part = |name: &str| &data[number(&dst[name])..][..number(&dst["size"])];
        let mut destination = Bytes::new(part("before_offset"));
        let at = |side: &Value| number(&side["byte_offset"]) as u64;
        let mut room = vec![Axis::default(); most_axes(shape.len())];
        if from.dtype != to.dtype && Transfer::clearing(&shape, to, &mut room).is_some() {
            left.push(name);
            continue;
        }
        let job = Transfer::new(&shape, from, to, Rules::default(), &mut room);
        match run(&job, &mut source, at(src), &mut destination, at(dst)) {
            Some(kept) => {
                assert!(kept);
                assert_eq!(destination.as_mut(), part("after_offset"), "{name}: {case}");
                done += 1;
            }
            None => left.push(name),
        }
    }
    assert!(done > 200, "only {done}; left to the host: {left:?}");
    println!("{done} done, {} left to the host: {left:?}", left.len());
}

/// A small generator, so that the tests need no dependency and repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % end) as i64
    }
}

/// Strides of a view with gaps, any order of axes and any signs: strides, first element, elements.
fn random_layout(random: &mut Random, shape: &[i64]) -> (Vec<i64>, i64, i64) {
    let mut axes: Vec<usize> = (0..shape.len()).collect();
    for end in (1..axes.len()).rev() {
        axes.swap(end, random.below(end as u64 + 1) as usize);
    }
    let (mut strides, mut step, mut first) = (vec![0; shape.len()], 1 + random.below(4) / 3, random.below(3));
    for axis in axes {
        strides[axis] = step;
        step = step * shape[axis] + random.below(3) / 2;
        if random.below(4) == 0 {
            first += strides[axis] * (shape[axis] - 1);
            strides[axis] = -strides[axis];
        }
    }
    let reach: i64 = shape.iter().zip(&strides).map(|(extent, stride)| (extent - 1) * stride.max(&0)).sum();
    (strides, first, first + reach + 1)
}

#[test]
fn random_jobs() {
    const DTYPES: [&str; 12] = [
        "int8",
        "float16",
        "bfloat16",
        "float32",
        "uint32",
        "int64",
        "complex64",
        "complex128",
        "bool",
        "float8_e5m2",
        "float6_e2m3fn",
        "float4_e2m1fn",
    ];
    let mut random = Random(11);
    let (mut kinds, mut left) = (HashMap::<String, usize>::new(), 0);
    for round in 0..1500 {
        let ndim = random.below(4) as usize;
        let shape: Vec<i64> = (0..ndim).map(|_| 1 + random.below([4, 12, 80][ndim % 3])).collect();
        let from_dtype = DTYPES[random.below(12) as usize];
        let to_dtype = if random.below(3) == 0 { DTYPES[random.below(12) as usize] } else { from_dtype };
        let dtype = |name: &str| name.parse::<DLDataType>().unwrap();
        let mut layout = |dtype: DLDataType| {
            let (strides, first, elements) = random_layout(&mut random, &shape);
            let size = i64::from(dtype.bits.div_ceil(8));
            let bytes: Vec<u8> = (0..elements * size).map(|_| random.below(256) as u8).collect();
            (strides, (first * size) as u64, bytes)
        };
        let (from_strides, from_at, from) = layout(dtype(from_dtype));
        let (to_strides, to_at, to) = layout(dtype(to_dtype));
        let packed = random.below(2) == 0;
        let from_side = Side { dtype: dtype(from_dtype), padded: !packed, strides: &from_strides };
        let to_side = Side { dtype: dtype(to_dtype), padded: !packed, strides: &to_strides };
        let mut room = [Axis::default(); 8];
        let job = Transfer::new(&shape, from_side, to_side, Rules::default(), &mut room);
        let (mut from, mut want, mut got) = (Bytes::new(&from), Bytes::new(&to), Bytes::new(&to));
        // A packed element may be before the first byte, where no memory is.
        if packed && [from_dtype, to_dtype].iter().any(|name| dtype(name).bits < 8) {
            let negative = |strides: &[i64]| strides.iter().any(|stride| *stride < 0);
            if negative(&from_strides) || negative(&to_strides) {
                continue;
            }
        }
        if run(&job, &mut from, from_at, &mut got, to_at).is_none() {
            left += 1;
            continue;
        }
        // The same with the steps taken for long.
        let mut wide = Bytes::new(&to);
        let (a, b) = (from.as_mut().as_ptr(), wide.as_mut().as_mut_ptr());
        // SAFETY: as above.
        unsafe { run_at(&job, (a, from_at), (b, to_at), flags::WIDE) };
        assert_eq!(wide.as_mut(), got.as_mut(), "round {round}");
        let place = |bytes: &mut Bytes, at| Place {
            device: DLDevice { device_type: 1, device_id: 0 },
            data: bytes.as_mut().as_mut_ptr() as u64,
            byte_offset: at,
            begin: 0,
            end: 0,
            dense: false,
            fresh: false,
        };
        let places = (place(&mut from, from_at), place(&mut want, to_at));
        // SAFETY: the job lies within both.
        unsafe { Host.transfer(&job, &places.0, &places.1, &Streams::default()) }.unwrap();
        let name =
            format!("round {round}: {from_dtype} {shape:?} {from_strides:?} to {to_dtype} {to_strides:?}");
        assert_eq!(got.as_mut(), want.as_mut(), "{name}");
        let kernel = Launches::of(&job, from_at, to_at).unwrap().kernel().name();
        *kinds.entry(kernel).or_default() += 1;
    }
    let transposes = kinds.keys().filter(|name| name.starts_with("ab_transpose")).count();
    let copies = kinds.keys().filter(|name| name.starts_with("ab_copy")).count();
    assert!(transposes > 8 && copies == 5 && kinds.contains_key("ab_pack_bits"), "{kinds:?}");
    assert!(left < 300, "{left} left to the host");
}

/// Steps that 32 bits do not hold, in memory of which next to nothing is there.
#[cfg(target_os = "linux")]
#[test]
fn long_steps() {
    const STEP: usize = (3 << 30) + 4096;
    const ROWS: usize = 9;
    const COLUMNS: usize = 20;
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: new memory.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), ROWS * STEP, protection, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    let memory = memory.cast::<u8>();
    for (from, to) in [
        ("int8", "int8"),
        ("float16", "float16"),
        ("int32", "int32"),
        ("int16", "float32"),
        ("float64", "int8"),
    ] {
        let (from, to): (DLDataType, DLDataType) = (from.parse().unwrap(), to.parse().unwrap());
        let (size, to_size) = (usize::from(from.bits / 8), usize::from(to.bits / 8));
        let mut near = vec![0u8; ROWS * COLUMNS * size];
        for (at, byte) in near.iter_mut().enumerate() {
            *byte = (at * 37 % 251) as u8;
        }
        for row in 0..ROWS {
            let bytes = &near[row * COLUMNS * size..][..COLUMNS * size];
            // SAFETY: the row lies within the memory.
            unsafe { memory.add(row * STEP).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        let (rows, columns, step) = (ROWS as i64, COLUMNS as i64, (STEP / size) as i64);
        for (shape, compact, long, strides) in [
            ([rows, columns], [columns, 1], [step, 1], [columns, 1]),
            ([columns, rows], [1, columns], [1, step], [rows, 1]),
        ] {
            let side = |strides| Side { dtype: from, padded: false, strides };
            let target = Side { dtype: to, padded: false, strides: &strides };
            let mut results = Vec::new();
            for (place, strides) in [(near.as_ptr(), &compact), (memory.cast_const(), &long)] {
                let mut room = [Axis::default(); 4];
                let job = Transfer::new(&shape, side(strides), target, Rules::default(), &mut room);
                let mut got = Bytes::new(&vec![0x5a; ROWS * COLUMNS * to_size]);
                let at = place.align_offset(16);
                let (place, at) =
                    if at == 0 { (place, 0) } else { (place.wrapping_sub(16 - at), 16 - at as u64) };
                // SAFETY: the job lies within both.
                unsafe { run_at(&job, (place, at), (got.as_mut().as_mut_ptr(), 0), 0) }.unwrap();
                results.push(got.as_mut().to_vec());
            }
            assert_eq!(results[0], results[1], "{from} to {to} {shape:?}");
        }
    }
    // SAFETY: it is ours, and goes once.
    unsafe { libc::munmap(memory.cast(), ROWS * STEP) };
}
