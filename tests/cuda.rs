//! CUDA on the fake driver of tests/fault/cuda, which needs no GPU.
//!
//! The tests that call the library are run by [`on_the_fake_driver`] in a program of their own, which finds
//! that driver; they are ignored otherwise.
#![cfg(feature = "cuda")]

#[path = "common/calls.rs"]
mod calls;
mod common;
#[path = "common/cuda.rs"]
mod cuda;

use std::process::Command;
use std::ptr::null_mut;

use arraybridge::ffi::types::*;
use calls::*;
use cuda::{Desk, cu, folder, log, no_complaints, peek};

const GPU: (i32, i32) = (2, 0);
const SECOND_GPU: (i32, i32) = (2, 1);
const PINNED: (i32, i32) = (3, 0);
const MANAGED: (i32, i32) = (13, 0);

/// The driver that everything else here is judged by.
#[test]
fn the_fake_driver_is_strict() {
    let folder = folder(12080, &[]);
    let program = folder.join("check");
    let source = cuda::sources().join("check.c");
    let mut cc = common::cc();
    cc.args(["-std=gnu11", "-g", "-rdynamic", "-Wall", "-Wextra", "-Werror"]).arg(source);
    common::succeed_silently(cc.arg(folder.join("libcuda.so.1")).arg("-o").arg(&program));
    let output = Command::new(program).env("LD_LIBRARY_PATH", folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

macro_rules! on_the_fake_driver {
    ($($(#[$doc:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$doc])* #[test] #[ignore = "run by on_the_fake_driver"] fn $name() { $body no_complaints(); })*
        const TESTS: &[&str] = &[$(stringify!($name)),*];
    };
}

/// As of an old driver and a new one; without pools; where devices do not reach each other.
#[test]
fn on_the_fake_driver() {
    cuda::again(TESTS, &folder(12080, &[]), &[]);
    let some: Vec<&str> = TESTS.iter().copied().filter(|name| !name.starts_with("every_call")).collect();
    cuda::again(&some, &folder(13000, &[]), &[("FAKE_CUDA_VERSION", "13000"), ("FAKE_CUDA_POOLS", "0")]);
    let old = [("FAKE_CUDA_VERSION", "11040"), ("FAKE_CUDA_CAPABILITY", "50"), ("FAKE_CUDA_P2P", "0")];
    cuda::again(&some, &folder(11040, &[]), &old);
}

fn peers_reach_each_other() -> bool {
    std::env::var("FAKE_CUDA_P2P").is_err()
}

fn has_pools() -> bool {
    std::env::var("FAKE_CUDA_POOLS").is_err()
}

fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|index| (index as f32 * 0.5 - 3.0).to_ne_bytes()).collect()
}

fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

fn with_dtype(options: ab_convert_options, dtype: &str) -> ab_convert_options {
    ab_convert_options { dtype: dtype.parse().unwrap(), ..options }
}

fn on_streams(source: i64, destination: i64, options: ab_convert_options) -> ab_convert_options {
    ab_convert_options { src_stream: source, dst_stream: destination, ..options }
}

fn asynchronous(options: ab_convert_options) -> ab_convert_options {
    ab_convert_options { flags: options.flags | AB_CONVERT_ASYNC, ..options }
}

/// Waits for all that these devices have to do.
fn settle(desks: &[&Desk]) {
    for desk in desks {
        cu!(cuCtxPushCurrent(desk.context));
        no_complaints();
        cu!(cuCtxSynchronize());
        no_complaints();
        cu!(cuCtxPopCurrent(null_mut()));
    }
}

fn number(stream: cuda::Stream) -> i64 {
    stream as usize as i64
}

on_the_fake_driver! {

fn devices_are_listed_in_order() {
    let (available, detail) = backend("cuda");
    assert!(available && detail.starts_with("libcuda.so.1, CUDA 1"), "{detail}");
    let listed = list_devices(2);
    assert_eq!(listed.len(), 2);
    for (index, info) in listed.iter().enumerate() {
        assert_eq!(info.device.device_id, index as i32);
        assert_eq!((text(&info.name), text(&info.backend)), (format!("Fake GPU {index}"), "cuda".into()));
        assert_eq!(info.total_memory, 1 << 30);
    }
    let bytes = floats(4);
    let (status, _, message) =
        copy(&Array::host(&bytes, "float32", &[4]), &to_device((2, 7))).err().unwrap();
    assert_eq!(status, AB_E_UNSUPPORTED_DEVICE);
    assert_eq!(message, "device cuda:7: there are 2 CUDA devices");
}

fn there_and_back() {
    let bytes = floats(24);
    let source = Array::host(&bytes, "float32", &[2, 3, 4]);
    for target in [GPU, SECOND_GPU] {
        let (there, up) = copy(&source, &to_device(target)).unwrap();
        assert_eq!((up.route, up.passes, up.bytes_written), (AB_ROUTE_UPLOAD, 1, 96));
        assert_eq!(there.tensor().device.device_id, target.1);
        assert_eq!(there.data() % 256, 0);
        // It is there, whatever stream looks at it.
        assert_eq!(peek(there.data(), 96), bytes);
        let (back, down) = convert(there, &to_device(CPU)).ok().unwrap();
        assert_eq!((down.route, down.passes), (AB_ROUTE_DOWNLOAD, 1));
        assert_eq!(back.bytes(96), bytes);
    }
}

fn results_are_aligned() {
    let bytes = floats(1000);
    let source = Array::host(&bytes, "float32", &[1000]);
    for target in [GPU, PINNED, MANAGED] {
        for alignment in [0u32, 1, 256, 512, 1 << 12, 1 << 20] {
            let options = ab_convert_options { alignment, ..to_device(target) };
            let (result, _) = copy(&source, &options).unwrap();
            assert_eq!(result.data() % u64::from(alignment.max(256)), 0, "{target:?} {alignment}");
            assert_eq!(peek(result.data(), bytes.len()), bytes, "{target:?} {alignment}");
        }
    }
}

/// Memory of each kind, as source and as result.
fn every_kind_of_memory() {
    let desk = Desk::new(0);
    let bytes = floats(64);
    let (pinned, managed, device) = (desk.pinned(&bytes), desk.managed(&bytes), desk.buffer(&bytes));
    let transposed = |array: Array| array.strided(&[1, 8], 0);
    let sources = [
        Array::host(&bytes, "float32", &[8, 8]),
        Array::new(pinned.address, PINNED, "float32", &[8, 8]),
        Array::new(managed.address, MANAGED, "float32", &[8, 8]),
        Array::new(device.address, GPU, "float32", &[8, 8]),
    ];
    let all: Vec<f32> = (0..64).map(|index| index as f32 * 0.5 - 3.0).collect();
    let want: Vec<u8> = (0..64).flat_map(|at| (all[at % 8 * 8 + at / 8] as i16).to_ne_bytes()).collect();
    for source in sources {
        for target in [CPU, PINNED, MANAGED, GPU, SECOND_GPU] {
            let options = with_dtype(to_device(target), "int16");
            let (result, _) = copy(&transposed(source.clone()), &options).unwrap();
            assert_eq!(peek(result.data(), 128), want, "{:?} to {target:?}", source.device);
            let (result, _) = copy(&source, &to_device(target)).unwrap();
            assert_eq!(peek(result.data(), 256), bytes, "{:?} to {target:?}", source.device);
        }
    }
}

/// Every way between the host and two devices gives what the host gives.
fn random_strides() {
    const DTYPES: [(&str, usize); 10] = [
        ("int8", 1), ("float16", 2), ("bfloat16", 2), ("float32", 4), ("uint32", 4), ("int64", 8),
        ("complex64", 8), ("complex128", 16), ("bool", 1), ("float8_e4m3fn", 1),
    ];
    let (desk, second) = (Desk::new(0), Desk::new(1));
    let between = if peers_reach_each_other() { AB_ROUTE_PEER } else { AB_ROUTE_STAGED };
    let mut random = Random(7);
    for round in 0..300 {
        // Some are large enough for tiles, and some have too many axes for one launch.
        let axes = random.below(5);
        let most = if axes == 2 { 70 } else { 6 };
        let shape: Vec<i64> = (0..axes).map(|_| 1 + random.below(most)).collect();
        let mut side = |any: bool| {
            let (dtype, size) = DTYPES[random.below(if any { 10 } else { 1 }) as usize];
            let (strides, first, elements) = random.layout(&shape);
            let bytes: Vec<u8> = (0..elements as usize * size).map(|_| random.below(256) as u8).collect();
            (dtype, size, strides, first, bytes)
        };
        let (from_dtype, from_size, from_strides, from_first, from) = side(true);
        let (to_dtype, to_size, to_strides, to_first, to) = side(true);
        let source = |data, device| {
            Array::new(data, device, from_dtype, &shape).strided(&from_strides, from_first as u64 * from_size as u64)
        };
        let target = |data, device| {
            Array::new(data, device, to_dtype, &shape).strided(&to_strides, to_first as u64 * to_size as u64)
        };
        let mut want = to.clone();
        let on_host = source(from.as_ptr() as u64, CPU);
        copy_into(&on_host, &target(want.as_mut_ptr() as u64, CPU), &options()).unwrap();

        let name = format!("round {round}: {from_dtype} {shape:?} {from_strides:?} to {to_dtype} {to_strides:?}");
        let on_device = desk.buffer(&from);
        let pinned = desk.pinned(if from.is_empty() { &[0] } else { &from });
        let mut down = to.clone();
        let report =
            copy_into(&source(on_device.address, GPU), &target(down.as_mut_ptr() as u64, CPU), &options()).unwrap();
        assert_eq!((report.route, &down), (AB_ROUTE_DOWNLOAD, &want), "{name}");
        for (route, from, desk, device) in [
            (AB_ROUTE_UPLOAD, on_host.clone(), &desk, GPU),
            (AB_ROUTE_UPLOAD, source(pinned.address, PINNED), &desk, GPU),
            (AB_ROUTE_DEVICE, source(on_device.address, GPU), &desk, GPU),
            (between, source(on_device.address, GPU), &second, SECOND_GPU),
        ] {
            let buffer = desk.buffer(&to);
            let report = copy_into(&from, &target(buffer.address, device), &options()).unwrap();
            assert_eq!(report.route, route, "{name}");
            assert_eq!(buffer.bytes(), want, "route {route}: {name}");
        }
        drop((on_device, pinned));
    }
    drop(second);
}

/// Steps that 32 bits do not hold, on either side, with every kernel; shorter ones are `random_strides`'.
fn long_strides() {
    let desk = Desk::new(0);
    const ROWS: i64 = 40;
    const COLUMNS: i64 = 33;
    const COUNT: usize = (2 * ROWS * COLUMNS) as usize;
    let near = desk.buffer(&[0; COUNT * 8]);
    // SAFETY: it makes memory.
    let far = unsafe { (cuda::driver().fake_far)(0, COUNT * 8) };
    let between = (far - near.address) as i64;
    assert!(between > 1 << 31);
    let mut random = Random(5);
    for (from_dtype, to_dtype, casting) in [
        ("int8", "int8", 0), ("int16", "int16", 0), ("float32", "float32", 0), ("int64", "int64", 0),
        ("complex128", "complex128", 0), ("int16", "float32", 0), ("uint32", "float16", 0), ("uint64", "float32", 0),
        ("float32", "int16", 0), ("float64", "float16", 0), ("complex64", "complex128", 0), ("complex64", "int64", 0),
        ("int8", "int32", AB_CAST_EXACT), ("uint32", "int64", AB_CAST_EXACT), ("uint64", "uint64", AB_CAST_EXACT),
        ("float16", "float32", AB_CAST_EXACT), ("float64", "float64", AB_CAST_EXACT), ("float32", "float4_e2m1fn", 0),
    ] {
        let size = |dtype: &str| usize::from(dtype.parse::<arraybridge::DLDataType>().unwrap().bits);
        let (from_size, to_bits) = (size(from_dtype) / 8, size(to_dtype));
        let half = COUNT / 2 * from_size;
        let bytes: Vec<u8> = (0..COUNT * from_size).map(|_| random.below(256) as u8).collect();
        for (at, bytes) in [(near.address, &bytes[..half]), (far, &bytes[half..])] {
            cu!(cuMemcpyHtoD(at, bytes.as_ptr(), half));
        }
        let shape = [2, ROWS, COLUMNS];
        // As it is, transposed, and from the second half to the first one.
        for (order, rows, columns) in [(1, COLUMNS, 1), (1, 1, ROWS), (-1, COLUMNS, 1)] {
            let name = format!("{from_dtype} to {to_dtype}, {order} {rows} {columns}");
            let view = |array: Array, step: i64, size: usize| {
                let first = if order < 0 { step * size as i64 } else { 0 };
                array.strided(&[order * step, rows, columns], first as u64)
            };
            let options = ab_convert_options { casting, ..with_dtype(options(), to_dtype) };
            let compact = Array::host(&bytes, from_dtype, &shape);
            let want = copy(&view(compact, ROWS * COLUMNS, from_size), &ab_convert_options { layout: AB_LAYOUT_C, ..options });
            let source = Array::new(near.address, GPU, from_dtype, &shape);
            let source = view(source, between / from_size as i64, from_size);
            let (got, calls) = log(|| copy(&source, &ab_convert_options { layout: AB_LAYOUT_C, ..options }));
            let (want, got) = (want.unwrap().0, got.unwrap().0);
            let want = want.bytes((COUNT * to_bits).div_ceil(8));
            assert!(peek(got.data(), want.len()) == want, "{name}");
            assert!(calls.iter().any(|call| call.contains("cuLaunchKernel")), "{name}: {calls:#?}");
            if to_bits < 8 {
                continue;
            }
            // And to where it is spread out.
            let to_size = to_bits / 8;
            let compact = Array::new(got.data(), GPU, to_dtype, &shape);
            let spread = Array::new(near.address, GPU, to_dtype, &shape);
            let spread = view(spread, between / to_size as i64, to_size);
            if COUNT / 2 * to_size <= COUNT * 8 {
                copy_into(&compact, &spread, &calls::options()).unwrap();
                let kept = ab_convert_options { layout: AB_LAYOUT_C, ..to_device(GPU) };
                let (back, _) = copy(&spread, &ab_convert_options { copy: AB_COPY_ALWAYS, ..kept }).unwrap();
                assert!(peek(back.data(), want.len()) == want, "{name}: spread out");
                for (at, bytes) in [(near.address, &bytes[..half]), (far, &bytes[half..])] {
                    cu!(cuMemcpyHtoD(at, bytes.as_ptr(), half));
                }
            }
        }
    }
    cu!(cuMemFree(far));
}

/// More than the ring of pinned slots holds, gathered and cast on the way.
fn large_transfers() {
    const ROWS: i64 = 500;
    const COLUMNS: i64 = 700;
    let own = context(512 << 10);
    let context = own.0;
    let bytes: Vec<u8> = (0..ROWS * COLUMNS * 3).map(|index| (index * 7 % 251) as u8).collect();
    let (rows, columns) = (ROWS as usize, COLUMNS as usize);
    // A picture, its channels apart.
    let picture = Array::host(&bytes, "uint8", &[3, ROWS, COLUMNS]).strided(&[1, COLUMNS * 3, 3], 0);
    let mut want = Vec::with_capacity(bytes.len() * 4);
    for channel in 0..3 {
        for pixel in 0..rows * columns {
            want.extend((bytes[pixel * 3 + channel] as f32).to_ne_bytes());
        }
    }
    let options = with_dtype(to_device(GPU), "float32");
    let (there, up) = copy_in(context, &picture, &options).unwrap();
    assert_eq!((up.route, up.bytes_read, up.bytes_written), (AB_ROUTE_UPLOAD, want.len() as u64 / 4, want.len() as u64));
    assert!(peek(there.data(), want.len()) == want);
    let (back, _) = copy_in(context, &Array::new(there.data(), GPU, "float32", &[3, ROWS, COLUMNS]), &to_device(CPU)).unwrap();
    assert!(back.bytes(want.len()) == want);
    // And back into the interleaved order, as bytes.
    let mut down = vec![0u8; bytes.len()];
    let target = Array::new(down.as_mut_ptr() as u64, CPU, "uint8", &[3, ROWS, COLUMNS]).strided(&[1, COLUMNS * 3, 3], 0);
    copy_into(&Array::new(there.data(), GPU, "float32", &[3, ROWS, COLUMNS]), &target, &calls::options()).unwrap();
    assert!(down == bytes);
    // A second time, nothing is pinned or allocated for it but the result.
    let ((), calls) = log(|| drop(copy_in(context, &picture, &options).unwrap()));
    let count = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
    assert_eq!(count("cuMemHost") + count("cuMemAllocHost"), 0, "{calls:#?}");
    assert_eq!(count("cuStreamCreate") + count("cuModuleLoad"), 0, "{calls:#?}");
    assert!(count("cuMemAlloc") <= 2, "{calls:#?}");
}

/// What a tensor says its memory is may be less than it is: pinned, registered and managed memory is copied from
/// and to where it lies, and nothing goes through the ring.
fn memory_is_used_as_what_it_is() {
    const SIZE: usize = 300_000;
    let desk = Desk::new(0);
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 241) as u8).collect();
    let mut plain = bytes.clone();
    let (pinned, managed) = (desk.pinned(&bytes), desk.managed(&bytes));
    cu!(cuMemHostRegister(plain.as_mut_ptr() as u64, SIZE, 0));
    let target = desk.buffer(&[0; SIZE]);
    let on_device = Array::new(target.address, GPU, "uint8", &[SIZE as i64]);
    for (what, address, device) in [
        ("pinned", pinned.address, CPU),
        ("registered", plain.as_ptr() as u64, CPU),
        ("managed", managed.address, CPU),
        ("registered, said to be pinned", plain.as_ptr() as u64, PINNED),
    ] {
        let host = Array::new(address, device, "uint8", &[SIZE as i64]);
        for up in [true, false] {
            let (from, to) = if up { (&host, &on_device) } else { (&on_device, &host) };
            cu!(cuMemsetD8Async(if up { target.address } else { address }, 3, SIZE, null_mut()));
            if !up {
                cu!(cuMemcpyHtoD(target.address, bytes.as_ptr(), SIZE));
            }
            let (_, calls) = log(|| copy_into(from, to, &options()).unwrap());
            let copies: Vec<_> = calls.iter().filter(|call| call.starts_with("cuMemcpy")).collect();
            assert_eq!(copies.len(), 1, "{what}: {calls:#?}");
            assert!(!calls.iter().any(|call| call.starts_with("cuMemHostAlloc")), "{what}: {calls:#?}");
            assert!(peek(if up { target.address } else { address }, SIZE) == bytes, "{what}, up {up}");
        }
    }
    // Half of it is not registered: that is no pinned memory.
    cu!(cuMemHostUnregister(plain.as_ptr() as u64));
    cu!(cuMemHostRegister(plain.as_mut_ptr() as u64, SIZE / 2, 0));
    let host = Array::host(&plain, "uint8", &[SIZE as i64]);
    let (_, calls) = log(|| copy_into(&host, &on_device, &options()).unwrap());
    assert!(!calls.iter().any(|call| call.contains("pageable")), "{calls:#?}");
    assert!(target.bytes() == plain);
    cu!(cuMemHostUnregister(plain.as_ptr() as u64));
}

/// Small ones go with the command, and pin nothing; large ones stay within what a context allows.
fn what_transfers_pin() {
    let bytes: Vec<u8> = (0..600_000u32).map(|at| (at % 239) as u8).collect();
    let pinned = |calls: &[String]| -> u64 {
        let size = |call: &String| -> Option<u64> {
            call.strip_prefix("cuMemHostAlloc ")?.split(' ').next()?.parse().ok()
        };
        calls.iter().filter_map(size).sum()
    };
    for (limit, size) in [(192 << 10, 4), (192 << 10, 60_000), (192 << 10, 600_000), (100 << 10, 600_000)] {
        let own = context(limit);
        let context = own.0;
        let source = Array::host(&bytes[..size as usize], "uint8", &[size]);
        let ((), calls) = log(|| {
            for _ in 0..2 {
                let (there, _) = copy_in(context, &source, &to_device(GPU)).unwrap();
                let on_device = Array::new(there.data(), GPU, "uint8", &[size]);
                let (back, _) = copy_in(context, &on_device, &to_device(CPU)).unwrap();
                assert!(back.bytes(size as usize) == &bytes[..size as usize]);
            }
        });
        let all = pinned(&calls);
        if size <= 64 << 10 {
            assert_eq!(all, 0, "{limit} {size}: {calls:#?}");
        } else {
            assert!(all > 0 && all <= limit, "{limit} {size}: {all}");
        }
    }
}

fn zero_copy_asks_no_driver() {
    let desk = Desk::new(0);
    let buffer = desk.buffer(&floats(16));
    let array = Array::new(buffer.address, GPU, "float32", &[4, 4]);
    let (first, _) = copy(&array, &options()).unwrap();
    let data = first.data();
    let ((second, report), calls) = log(|| convert(first, &options()).ok().unwrap());
    assert_eq!((report.route, second.data()), (AB_ROUTE_ZERO_COPY, data));
    assert!(calls.is_empty(), "{calls:?}");
    let (_, calls) = log(|| plan(&array, &options()).unwrap());
    assert!(calls.is_empty(), "{calls:?}");
}

fn a_devices_own_copies_never_touch_the_host() {
    let (desk, second) = (Desk::new(0), Desk::new(1));
    let buffer = desk.buffer(&floats(4096));
    let array = Array::new(buffer.address, GPU, "float32", &[64, 64]);
    let transposed = array.clone().strided(&[1, 64], 0);
    let mut ways = vec![
        (array.clone(), options()),
        (transposed.clone(), options()),
        (array.clone(), with_dtype(options(), "float16")),
        (transposed.clone(), with_dtype(options(), "float8_e5m2")),
    ];
    if peers_reach_each_other() {
        ways.push((array, to_device(SECOND_GPU)));
        ways.push((transposed, with_dtype(to_device(SECOND_GPU), "int64")));
    }
    for (array, options) in ways {
        drop(copy(&array, &options).unwrap());
        let (_, calls) = log(|| copy(&array, &options).unwrap());
        let of_host = |call: &&String| {
            ["HtoD", "DtoH", "Host", "cuModule", "pageable", "pinned"].iter().any(|word| call.contains(word))
        };
        assert_eq!(calls.iter().find(of_host), None, "{calls:#?}");
        assert!(calls.iter().any(|call| call.contains("DtoD") || call.contains("Launch") || call.contains("Peer")
            || call.contains("2D") || call.contains("3D")), "{calls:#?}");
    }
    drop(second);
}

fn the_current_context_is_the_callers() {
    let bytes = floats(16);
    let host = Array::host(&bytes, "float32", &[16]);
    let current = || {
        let mut context = null_mut();
        cu!(cuCtxGetCurrent(&mut context));
        context
    };
    // No context at all.
    assert!(current().is_null());
    let (there, _) = copy(&host, &to_device(GPU)).unwrap();
    assert!(current().is_null());
    // One of the caller's own, whose memory and streams work too.
    let desk = Desk::new(0);
    let mut own = null_mut();
    cu!(cuCtxCreate(&mut own, 0, 0));
    let (mut address, stream) = (0, desk.stream(false));
    cu!(cuMemAlloc(&mut address, 64));
    let array = Array::new(address, GPU, "float32", &[16]);
    cu!(cuMemsetD8Async(address, 0, 64, stream));
    copy_into(&host, &array, &on_streams(0, number(stream), options())).unwrap();
    let (back, _) = copy(&array, &on_streams(number(stream), 0, to_device(CPU))).unwrap();
    assert_eq!(back.bytes(64), bytes);
    let backwards = array.clone().strided(&[-1], 60);
    let options = asynchronous(on_streams(number(stream), number(stream), options()));
    let (turned, _) = copy(&backwards, &options).unwrap();
    cu!(cuStreamSynchronize(stream));
    assert_eq!(&peek(turned.data(), 64)[..4], &bytes[60..]);
    assert_eq!(current(), own);
    drop(there);
    assert_eq!(current(), own);
    cu!(cuMemFree(address));
    cu!(cuStreamDestroy(stream));
    cu!(cuCtxPopCurrent(null_mut()));
}

/// What a producer has in its stream comes first, whichever stream that is.
fn delayed_producers() {
    let desk = Desk::new(0);
    let (before, after) = (floats(1024), reversed(&floats(1024)));
    let (blocking, free) = (desk.stream(true), desk.stream(false));
    // The stream, and its numbers.
    let streams = [
        (null_mut(), [0, 1]),
        (2 as cuda::Stream, [2, 2]),
        (blocking, [number(blocking), number(blocking)]),
        (free, [number(free), number(free)]),
    ];
    let pinned = desk.pinned(&after);
    for (stream, numbers) in streams {
        for number in numbers {
            for target in [CPU, PINNED, GPU, SECOND_GPU] {
                for strides in [[32, 1], [1, 32]] {
                    let buffer = desk.buffer(&before);
                    cu!(cuMemcpyHtoDAsync(buffer.address, pinned.address as *const u8, 4096, stream));
                    let source = Array::new(buffer.address, GPU, "float32", &[32, 32]).strided(&strides, 0);
                    let (result, _) = copy(&source, &on_streams(number, 0, to_device(target))).unwrap();
                    let mut want = vec![0u8; 4096];
                    let host = Array::host(&after, "float32", &[32, 32]).strided(&strides, 0);
                    copy_into(&host, &Array::host(&want, "float32", &[32, 32]), &options()).unwrap();
                    let want = std::hint::black_box(&mut want);
                    assert_eq!(&peek(result.data(), 4096), want, "stream {number} to {target:?}");
                }
            }
        }
    }
    // Without an order, nothing is waited for.
    let buffer = desk.buffer(&before);
    cu!(cuMemsetD8Async(buffer.address, 9, 4096, free));
    let source = Array::new(buffer.address, GPU, "float32", &[1024]);
    let (result, _) = copy(&source, &on_streams(-1, 0, to_device(GPU))).unwrap();
    assert_eq!(peek(result.data(), 4096), before);
    cu!(cuStreamSynchronize(free));
    for stream in [blocking, free] {
        cu!(cuStreamDestroy(stream));
    }
}

/// A destination's stream: what is in it comes first, and what is put there later comes after.
fn consumers_come_after() {
    let desk = Desk::new(0);
    let bytes = floats(1024);
    let pinned = desk.pinned(&bytes);
    let stream = desk.stream(false);
    let device = desk.buffer(&bytes);
    let sources = [
        Array::host(&bytes, "float32", &[1024]),
        Array::new(pinned.address, PINNED, "float32", &[1024]),
        Array::new(device.address, GPU, "float32", &[1024]),
    ];
    for source in sources {
        for flags in [0, AB_CONVERT_ASYNC] {
            let options = ab_convert_options { flags, ..on_streams(0, number(stream), options()) };
            // Somebody still writes where the result goes.
            let target = desk.buffer(&[1; 4096]);
            cu!(cuMemsetD8Async(target.address, 2, 4096, stream));
            copy_into(&source, &Array::new(target.address, GPU, "float32", &[1024]), &options).unwrap();
            if flags == 0 {
                assert_eq!(target.bytes(), bytes, "{:?}", source.device);
            }
            let seen = desk.buffer(&[3; 4096]);
            cu!(cuMemcpyDtoDAsync(seen.address, target.address, 4096, stream));
            cu!(cuStreamSynchronize(stream));
            assert_eq!(seen.bytes(), bytes, "{:?}", source.device);
            // New memory.
            let options = ab_convert_options { device: to_device(GPU).device, ..options };
            let (result, _) = copy(&source, &options).unwrap();
            cu!(cuMemcpyDtoDAsync(seen.address, result.data(), 4096, stream));
            cu!(cuStreamSynchronize(stream));
            assert_eq!(seen.bytes(), bytes, "{:?}", source.device);
        }
    }
    cu!(cuStreamDestroy(stream));
}

/// ASYNC: the call returns before a device's own work is done, and the source may be reused in its stream.
fn asynchronous_calls_return_at_once() {
    let desk = Desk::new(0);
    let bytes = floats(1024);
    let (producer, consumer) = (desk.stream(false), desk.stream(false));
    let source = desk.buffer(&bytes);
    let transposed = Array::new(source.address, GPU, "float32", &[32, 32]).strided(&[1, 32], 0);
    let options = asynchronous(on_streams(number(producer), number(consumer), options()));
    drop(copy(&transposed, &options).unwrap());
    let target = desk.buffer(&[1; 4096]);
    let (_, calls) = log(|| copy_into(&transposed, &Array::new(target.address, GPU, "float32", &[32, 32]), &options).unwrap());
    assert!(!calls.iter().any(|call| call.contains("Synchronize")), "{calls:#?}");
    assert_eq!(target.bytes(), [1; 4096]);
    // The producer goes on with its memory: not before it has been read.
    cu!(cuMemsetD8Async(source.address, 7, 4096, producer));
    cu!(cuStreamSynchronize(producer));
    assert_eq!(source.bytes(), [7; 4096]);
    cu!(cuStreamSynchronize(consumer));
    let mut want = vec![0u8; 4096];
    let host = Array::host(&bytes, "float32", &[32, 32]).strided(&[1, 32], 0);
    copy_into(&host, &Array::new(want.as_mut_ptr() as u64, CPU, "float32", &[32, 32]), &calls::options()).unwrap();
    assert_eq!(target.bytes(), want);
    // To pinned memory: readable once the stream has been waited for.
    let pinned = desk.pinned(&[1; 4096]);
    let to = Array::new(pinned.address, PINNED, "float32", &[1024]);
    copy_into(&Array::new(target.address, GPU, "float32", &[1024]), &to, &options).unwrap();
    cu!(cuStreamSynchronize(consumer));
    assert_eq!(pinned.host(), want);
    for stream in [producer, consumer] {
        cu!(cuStreamDestroy(stream));
    }
}

/// To memory of the host's own: readable once the stream has been waited for.
fn asynchronous_to_the_host() {
    let desk = Desk::new(0);
    let bytes = floats(40_000);
    let stream = desk.stream(false);
    let source = desk.buffer(&vec![1; bytes.len()]);
    let pinned = desk.pinned(&bytes);
    for strides in [[200, 1], [1, 200]] {
        // Still on its way when the call is made.
        cu!(cuMemcpyHtoDAsync(source.address, pinned.address as *const u8, bytes.len(), stream));
        let array = Array::new(source.address, GPU, "float32", &[200, 200]).strided(&strides, 0);
        let options = asynchronous(on_streams(number(stream), number(stream), to_device(CPU)));
        let (result, _) = copy(&array, &options).unwrap();
        cu!(cuStreamSynchronize(stream));
        let host = Array::host(&bytes, "float32", &[200, 200]).strided(&strides, 0);
        let (want, _) = copy(&host, &to_device(CPU)).unwrap();
        assert!(result.bytes(bytes.len()) == want.bytes(bytes.len()), "{strides:?}");
        cu!(cuMemsetD8Async(source.address, 1, bytes.len(), stream));
    }
    cu!(cuStreamDestroy(stream));
}

fn numbers_that_are_no_streams() {
    let bytes = floats(4);
    let source = Array::host(&bytes, "float32", &[4]);
    for (name, from, to) in [("options.src_stream", -2, 0), ("options.dst_stream", 0, i64::MIN)] {
        let (status, _, message) = copy(&source, &on_streams(from, to, to_device(GPU))).err().unwrap();
        assert_eq!(status, AB_E_INVALID_ARGUMENT, "{message}");
        assert!(message.contains(name) && message.contains(&(from.min(to)).to_string()), "{message}");
    }
}

/// A result that is deleted while work on it is in its stream: the memory outlives that work.
fn results_are_freed_in_order() {
    let desk = Desk::new(0);
    let bytes = floats(1024);
    let host = Array::host(&bytes, "float32", &[1024]);
    for number in [0, 1, 2] {
        let stream = if number == 2 { 2 as cuda::Stream } else { null_mut() };
        let (result, _) = copy(&host, &on_streams(0, number, to_device(GPU))).unwrap();
        let seen = desk.buffer(&[0; 4096]);
        cu!(cuMemcpyDtoDAsync(seen.address, result.data(), 4096, stream));
        std::thread::spawn(move || drop(result)).join().unwrap();
        cu!(cuStreamSynchronize(stream));
        assert_eq!(seen.bytes(), bytes, "{number}");
    }
}

fn capture_is_safe() {
    let desk = Desk::new(0);
    let (bytes, other) = (floats(1024), reversed(&floats(1024)));
    let (stream, second) = (desk.stream(false), desk.stream(false));
    let source = desk.buffer(&bytes);
    let arrays = [
        Array::new(source.address, GPU, "float32", &[1024]),
        Array::new(source.address, GPU, "float32", &[32, 32]).strided(&[1, 32], 0),
    ];
    for array in arrays {
        for dtype in ["float32", "float16"] {
            // Everything is loaded before.
            let options = with_dtype(asynchronous(on_streams(number(stream), number(stream), options())), dtype);
            let target = desk.buffer(&[1; 4096]);
            let to = Array::new(target.address, GPU, if dtype == "float32" { "float32" } else { "float16" }, &array.shape);
            let (mut graph, mut exec) = (null_mut(), null_mut());
            cu!(cuStreamBeginCapture(stream, 0));
            copy_into(&array, &to, &options).unwrap();
            cu!(cuStreamEndCapture(stream, &mut graph));
            cu!(cuGraphInstantiate(&mut exec, graph, 0));
            assert_eq!(target.bytes(), [1; 4096], "{dtype}: it was only captured");
            for values in [&other, &bytes] {
                cu!(cuMemcpyHtoD(source.address, values.as_ptr(), 4096));
                cu!(cuGraphLaunch(exec, second));
                cu!(cuStreamSynchronize(second));
                let mut want = vec![1u8; 4096];
                let host = Array { data: values.as_ptr() as u64, device: CPU, ..array.clone() };
                copy_into(&host, &Array { data: want.as_mut_ptr() as u64, device: CPU, ..to.clone() }, &calls::options()).unwrap();
                assert_eq!(target.bytes(), want, "{dtype}");
            }
            cu!(cuGraphExecDestroy(exec));
            cu!(cuGraphDestroy(graph));
        }
    }
    // A result is made while its work is captured, and filled each time.
    for (strides, dtype) in [([32, 1], "float32"), ([1, 32], "float16")] {
        let array = Array::new(source.address, GPU, "float32", &[32, 32]).strided(&strides, 0);
        let options = with_dtype(asynchronous(on_streams(number(stream), number(stream), options())), dtype);
        let options = ab_convert_options { copy: AB_COPY_ALWAYS, layout: AB_LAYOUT_C, ..options };
        let (mut graph, mut exec) = (null_mut(), null_mut());
        cu!(cuStreamBeginCapture(stream, 0));
        let (result, _) = copy(&array, &options).unwrap();
        cu!(cuStreamEndCapture(stream, &mut graph));
        cu!(cuGraphInstantiate(&mut exec, graph, 0));
        for values in [&other, &bytes] {
            cu!(cuMemcpyHtoD(source.address, values.as_ptr(), 4096));
            cu!(cuGraphLaunch(exec, second));
            cu!(cuStreamSynchronize(second));
            let host = Array { data: values.as_ptr() as u64, device: CPU, ..array.clone() };
            let on_host = ab_convert_options { copy: AB_COPY_ALWAYS, layout: AB_LAYOUT_C, ..with_dtype(calls::options(), dtype) };
            let (want, _) = copy(&host, &on_host).unwrap();
            let size = if dtype == "float32" { 4096 } else { 2048 };
            assert_eq!(peek(result.data(), size), want.bytes(size), "{dtype}");
        }
        cu!(cuGraphExecDestroy(exec));
        cu!(cuGraphDestroy(graph));
    }
    // What cannot be captured is refused, and the capture goes on.
    let options = asynchronous(on_streams(0, number(stream), to_device(GPU)));
    let mut graph = null_mut();
    cu!(cuStreamBeginCapture(stream, 0));
    let large = vec![5u8; 1 << 18];
    let refused = copy_into(&Array::host(&large, "uint8", &[4096]), &Array::new(source.address, GPU, "uint8", &[4096]), &options);
    if let Err((status, _, message)) = refused {
        assert!(status == AB_E_INVALID_ARGUMENT || status == AB_E_DEVICE, "{status} {message}");
    }
    cu!(cuStreamEndCapture(stream, &mut graph));
    cu!(cuGraphDestroy(graph));
    // Somebody else's capture, in the mode that forbids others the most, survives our uploads.
    let mut graph = null_mut();
    cu!(cuStreamBeginCapture(second, 0));
    cu!(cuMemsetD8Async(source.address, 3, 4096, second));
    let done = std::thread::spawn(move || {
        let (result, _) = copy(&Array::host(&large, "uint8", &[1 << 18]), &on_streams(-1, 2, to_device(GPU))).unwrap();
        copy(&Array::new(result.data(), GPU, "uint8", &[512, 512]).strided(&[1, 512], 0), &on_streams(2, 2, options_to_host())).is_ok()
    });
    assert!(done.join().unwrap());
    cu!(cuStreamEndCapture(second, &mut graph));
    cu!(cuGraphDestroy(graph));
    for stream in [stream, second] {
        cu!(cuStreamDestroy(stream));
    }
}

fn pointers_are_what_the_driver_says() {
    let desk = Desk::new(1);
    let bytes = floats(64);
    let mut plain = floats(64);
    let (device, pinned, managed) = (desk.buffer(&bytes), desk.pinned(&bytes), desk.managed(&bytes));
    cu!(cuMemHostRegister(plain.as_mut_ptr() as u64, 256, 0));
    // SAFETY: it makes memory.
    let mapped = unsafe { (cuda::driver().fake_mapped)(0, 256) };
    let mut pooled = 0;
    if has_pools() {
        cu!(cuMemAllocAsync(&mut pooled, 256, null_mut()));
    } else {
        cu!(cuMemAlloc(&mut pooled, 256));
    }
    cu!(cuStreamSynchronize(null_mut()));
    let here = |info: ab_pointer_info| {
        (info.memory, (info.device.device_type, info.device.device_id), info.base, info.size)
    };
    assert_eq!(here(detect_pointer(device.address + 17)), (AB_MEMORY_DEVICE, (2, 1), device.address, 256));
    assert_eq!(here(detect_pointer(mapped + 1)), (AB_MEMORY_DEVICE, (2, 0), mapped, 256));
    assert_eq!(here(detect_pointer(pooled)), (AB_MEMORY_DEVICE, (2, 1), pooled, 256));
    assert_eq!(here(detect_pointer(pinned.address + 4)), (AB_MEMORY_PINNED, PINNED, pinned.address, 256));
    assert_eq!(here(detect_pointer(plain.as_ptr() as u64)), (AB_MEMORY_PINNED, PINNED, plain.as_ptr() as u64, 256));
    assert_eq!(here(detect_pointer(managed.address)), (AB_MEMORY_MANAGED, MANAGED, managed.address, 256));
    let local = 0u8;
    let info = detect_pointer(&raw const local as u64);
    assert!(matches!(info.memory, AB_MEMORY_UNKNOWN | AB_MEMORY_HOST) && info.base == 0, "{}", info.memory);
    // A tensor that is elsewhere than it says.
    let verify = |options: ab_convert_options| ab_convert_options { flags: AB_CONVERT_VERIFY_POINTER, ..options };
    let lie = Array::new(device.address, GPU, "float32", &[64]);
    let (status, _, message) = copy(&lie, &verify(to_device(CPU))).err().unwrap();
    assert_eq!(status, AB_E_UNSUPPORTED_DEVICE, "{message}");
    assert!(message.contains("cuda:0") && message.contains("cuda:1"), "{message}");
    let lie = Array::host(&bytes, "float32", &[64]);
    let lie = Array { device: GPU, ..lie };
    let (status, _, message) = copy(&lie, &verify(to_device(CPU))).err().unwrap();
    assert_eq!(status, AB_E_UNSUPPORTED_DEVICE, "{message}");
    for address in [mapped, pooled] {
        let device = if address == mapped { GPU } else { SECOND_GPU };
        cu!(cuMemsetD8Async(address, 4, 256, null_mut()));
        cu!(cuStreamSynchronize(null_mut()));
        let array = Array::new(address, device, "uint8", &[256]);
        if device.1 == 1 {
            assert_eq!(copy(&array, &verify(to_device(CPU))).unwrap().0.bytes(256), [4; 256]);
        } else {
            copy(&array, &verify(to_device(CPU))).unwrap();
        }
    }
    cu!(cuMemHostUnregister(plain.as_ptr() as u64));
    cu!(cuMemFree(pooled));
}

/// Memory on the heap, and every call of a caller's allocator.
fn callers_allocators() {
    use std::ffi::c_void;
    unsafe extern "C" fn allocate(user: *mut c_void, kind: i32, id: i32, size: usize, _: usize, stream: i64) -> *mut c_void {
        assert_eq!((kind, id, stream), (2, 0, 2));
        let mut address = 0;
        cu!(cuMemAlloc(&mut address, size));
        // SAFETY: it is the test's.
        unsafe { *user.cast::<u64>() = address };
        address as usize as *mut c_void
    }
    unsafe extern "C" fn deallocate(_: *mut c_void, _: i32, _: i32, pointer: *mut c_void, _: usize, stream: i64) {
        assert_eq!(stream, 2);
        cu!(cuMemFree(pointer as u64));
    }
    let _desk = Desk::new(0);
    let bytes = floats(64);
    let mut given = 0u64;
    let allocator = ab_allocator { user: (&raw mut given).cast(), allocate: Some(allocate), deallocate: Some(deallocate) };
    let options = ab_convert_options { allocator: &allocator, ..on_streams(0, 2, to_device(GPU)) };
    let (result, _) = copy(&Array::host(&bytes, "float32", &[64]), &options).unwrap();
    assert_eq!(result.data(), given);
    assert_eq!(peek(given, 256), bytes);
}

fn results_that_no_device_has_room_for() {
    let desk = Desk::new(0);
    let buffer = desk.buffer(&floats(4));
    let live = cuda::live();
    for target in [GPU, PINNED, MANAGED, SECOND_GPU] {
        let huge = Array::new(buffer.address, GPU, "float32", &[1 << 20, 1 << 12]).strided(&[0, 0], 0);
        let (status, _, message) = copy(&huge, &to_device(target)).err().unwrap();
        assert_eq!(status, AB_E_OUT_OF_MEMORY, "{message}");
    }
    assert_eq!(cuda::live()[0], live[0]);
}

/// Dozens of threads at once, with contexts, streams and buffers that come and go, and results that end on other
/// threads: rings, streams and modules are shared without a mix-up, and nothing of a job stays.
fn dozens_of_threads() {
    const THREADS: u8 = 24;
    let run = |rounds: u8| {
        let (send, receive) = std::sync::mpsc::channel::<(Owned, Vec<u8>)>();
        let receive = std::sync::Mutex::new(receive);
        let end = |(result, bytes): (Owned, Vec<u8>)| {
            let tensor = result.tensor();
            let device = (tensor.device.device_type, tensor.device.device_id);
            let turned = Array::new(result.data(), device, "float32", &[60, 50]).strided(&[1, 60], 0);
            let (back, _) = copy(&turned, &with_dtype(to_device(CPU), "uint8")).unwrap();
            assert!(back.bytes(bytes.len()) == bytes, "{device:?}");
        };
        std::thread::scope(|scope| {
            for seed in 0..THREADS {
                let (send, receive) = (send.clone(), &receive);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let pick = seed.wrapping_mul(5).wrapping_add(round);
                        let bytes: Vec<u8> =
                            (0..3_000u32).map(|at| (at as u8).wrapping_mul(seed + 3) ^ round).collect();
                        // Rings of three sizes; the default one's is shared by all.
                        let own = match pick % 3 {
                            0 => OwnContext(null_mut()),
                            size => context(1 << (10 * size)),
                        };
                        let context = own.0;
                        let target = [GPU, SECOND_GPU, PINNED, MANAGED][usize::from(pick / 3 % 4)];
                        let source = Array::host(&bytes, "uint8", &[50, 60]).strided(&[1, 50], 0);
                        let result = if pick % 5 == 0 && target != SECOND_GPU {
                            // From memory and a stream of its own, which go.
                            let desk = Desk::new(0);
                            let (buffer, stream) = (desk.buffer(&bytes), desk.stream(false));
                            let there = Array { data: buffer.address, device: GPU, ..source };
                            let options = on_streams(number(stream), 0, with_dtype(to_device(target), "float32"));
                            let (result, _) = copy_in(context, &there, &options).unwrap();
                            cu!(cuStreamDestroy(stream));
                            result
                        } else {
                            copy_in(context, &source, &with_dtype(to_device(target), "float32")).unwrap().0
                        };
                        drop(own);
                        send.send((result, bytes)).unwrap();
                        let other = receive.lock().unwrap().try_recv();
                        other.into_iter().for_each(&end);
                    }
                });
            }
        });
        drop(send);
        receive.into_inner().unwrap().into_iter().for_each(end);
    };
    let (first, second) = (Desk::new(0), Desk::new(1));
    let settled = || settle(&[&first, &second]);
    settled();
    let before = cuda::live();
    run(4);
    settled();
    // Slots of rings stay, each of the host's memory with a device's at most.
    let [device, host] = [0, 1].map(|kind| cuda::live()[kind] - before[kind]);
    assert!(device <= host, "{before:?}, and now {:?}", cuda::live());
}

/// In a child of a process that has used CUDA, the driver does not work: that is said, nothing hangs, and
/// what is deleted there is left to the parent.
fn children_are_told() {
    let bytes = floats(16);
    let source = Array::host(&bytes, "float32", &[16]);
    let (there, _) = copy(&source, &to_device(GPU)).unwrap();
    // SAFETY: the child does little, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let refused = copy(&source, &to_device(GPU)).err();
            let told = refused.is_some_and(|(status, _, message)| {
                status == AB_E_BACKEND_UNAVAILABLE && message.contains("fork")
            });
            drop(there);
            // SAFETY: it ends the child.
            unsafe { libc::_exit(if told { 0 } else { 1 }) };
        }
        child => {
            let mut status = 0;
            // SAFETY: the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    assert_eq!(peek(there.data(), 64), bytes);
}

/// Every call of the driver fails once: that is told, nothing is left in flight or lost, and the next call
/// works.
fn every_call_fails_once() {
    let (desk, second) = (Desk::new(0), Desk::new(1));
    // Several slots of the ring.
    const BIG: i64 = 300_000;
    let own = context(256 << 10);
    let context = own.0;
    let bytes = floats(64);
    let large: Vec<u8> = (0..BIG).map(|at| (at % 253) as u8).collect();
    let (device, pinned) = (desk.buffer(&bytes), desk.pinned(&bytes));
    let big = desk.buffer(&large);
    let stream = desk.stream(false);
    let array = Array::new(device.address, GPU, "float32", &[8, 8]);
    let host = Array::host(&bytes, "float32", &[8, 8]);
    let transposed = array.clone().strided(&[1, 8], 0);
    let streamed = |options| on_streams(number(stream), number(stream), options);
    let asynchronously = |options| asynchronous(streamed(options));
    let large_host = Array::host(&large, "uint8", &[BIG]);
    let large_device = Array::new(big.address, GPU, "uint8", &[BIG]);
    let ways = [
        ("upload", &host, to_device(GPU)),
        ("upload by a stream", &host, streamed(to_device(GPU))),
        ("upload with a cast", &host, with_dtype(to_device(GPU), "int16")),
        ("upload by the ring", &large_host, to_device(GPU)),
        ("upload by the ring and a cast", &large_host, with_dtype(to_device(GPU), "float16")),
        ("upload of pinned memory", &Array::new(pinned.address, PINNED, "float32", &[8, 8]), asynchronously(to_device(GPU))),
        ("download", &array, to_device(CPU)),
        ("download by the ring", &large_device, to_device(CPU)),
        ("download, transposed", &transposed, to_device(CPU)),
        ("download, asynchronous", &array, asynchronously(to_device(PINNED))),
        ("device", &array, options()),
        ("device, transposed", &transposed, options()),
        ("device, cast, asynchronous", &transposed, with_dtype(asynchronously(options()), "float16")),
        ("device, exact", &array, ab_convert_options { casting: AB_CAST_EXACT, ..with_dtype(options(), "float64") }),
        ("peer", &array, to_device(SECOND_GPU)),
        ("peer, transposed", &transposed, to_device(SECOND_GPU)),
    ];
    for (way, source, options) in ways {
        // What is made once is there.
        let want = copy_in(context, source, &options).map(|(result, _)| {
            settle(&[&desk, &second]);
            let size: i64 = source.shape.iter().product();
            peek(result.data(), (size * i64::from(result.tensor().dtype.bits) / 8) as usize)
        });
        let want = want.unwrap();
        settle(&[&desk, &second]);
        let mut live = cuda::live();
        let mut told = 0;
        for nth in 0.. {
            cuda::fail(nth, 719, false);
            let outcome = copy_in(context, source, &options);
            let (name, failed) = (cuda::failed(), outcome.is_err());
            settle(&[&desk, &second]);
            assert!(device.bytes() == bytes && big.bytes() == large && pinned.host() == bytes, "{way}: {name:?}");
            let done = match (&name, outcome) {
                (None, outcome) => {
                    let (result, _) = outcome.unwrap_or_else(|(_, _, message)| panic!("{way}: {message}"));
                    assert!(peek(result.data(), want.len()) == want, "{way}");
                    true
                }
                // Its failure is taken for an answer, or has another way.
                (Some(_), Ok((result, _))) => {
                    assert!(peek(result.data(), want.len()) == want, "{way}: {name:?}");
                    false
                }
                (Some(name), Err((status, code, message))) => {
                    assert_eq!((status, code), (AB_E_DEVICE, 719), "{way}: {name}: {message}");
                    assert_eq!(message, format!("{name}: CUDA_ERROR_LAUNCH_FAILED (719)"), "{way}");
                    told += 1;
                    false
                }
            };
            settle(&[&desk, &second]);
            // Memory cannot go back where its context cannot be entered; there the call has succeeded.
            let entering = name.as_deref() == Some("cuCtxPushCurrent") && !failed;
            let now = cuda::live();
            let same = now[0] == live[0] && now[3] == live[3];
            assert!(same || entering, "{way}: {name:?}: {live:?} has become {now:?}");
            live = now;
            let (again, _) = copy_in(context, source, &options).unwrap_or_else(|(_, _, message)| panic!("{way}: after {name:?}: {message}"));
            cu!(cuStreamSynchronize(stream));
            assert!(peek(again.data(), want.len()) == want, "{way}: the call after {name:?}");
            if done {
                break;
            }
        }
        assert!(told >= 3, "{way}: {told} calls");
    }
    drop(second);
}

/// A device that is lost: every call after it fails, and all of them say so.
fn every_call_after_a_lost_device_fails() {
    let desk = Desk::new(0);
    const BIG: i64 = 300_000;
    let own = context(256 << 10);
    let context = own.0;
    let large: Vec<u8> = (0..BIG).map(|at| (at % 253) as u8).collect();
    let buffer = desk.buffer(&large);
    let on_device = Array::new(buffer.address, GPU, "uint8", &[BIG]);
    let on_host = Array::host(&large, "uint8", &[BIG]);
    for (source, options) in [
        (&on_host, to_device(GPU)),
        (&on_device, to_device(CPU)),
        (&on_device, with_dtype(options(), "float16")),
    ] {
        copy_in(context, source, &options).unwrap();
        let ((), calls) = log(|| drop(copy_in(context, source, &options).unwrap()));
        for nth in 0..calls.len() as i64 {
            cuda::fail(nth, 700, true);
            let first = copy_in(context, source, &options).map(drop);
            let second = copy_in(context, source, &options).map(drop);
            cuda::failed();
            for outcome in [first, second] {
                if let Err((status, code, message)) = outcome {
                    assert_eq!((status, code), (AB_E_DEVICE, 700), "{message}");
                    assert!(message.ends_with("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{message}");
                }
            }
            // The fake one can be mended.
            copy_in(context, source, &options).unwrap_or_else(|(_, _, message)| panic!("call {nth}: {message}"));
        }
    }
}

/// The last one: the driver is gone afterwards.
fn results_outlive_the_driver() {
    let bytes = floats(16);
    let source = Array::host(&bytes, "float32", &[16]);
    let results = [GPU, PINNED, MANAGED].map(|target| copy(&source, &to_device(target)).unwrap().0);
    // SAFETY: it stops the driver.
    unsafe { (cuda::driver().fake_shut_down)(1) };
    std::thread::spawn(move || drop(results)).join().unwrap();
    let (status, _, message) = copy(&source, &to_device(GPU)).err().unwrap();
    assert!(status == AB_E_DEVICE || status == AB_E_BACKEND_UNAVAILABLE, "{message}");
    // SAFETY: it starts it again.
    unsafe { (cuda::driver().fake_shut_down)(0) };
    // What was freed meanwhile is lost, as it should be.
}

}

fn options_to_host() -> ab_convert_options {
    to_device(CPU)
}

#[test]
#[ignore = "run by what_is_missing_is_named"]
fn unavailable() {
    let wanted = std::env::var("ARRAYBRIDGE_TEST_WHY").unwrap();
    let (available, detail) = backend("cuda");
    assert!(!available && detail.contains(&wanted), "{detail}");
    assert!(list_devices(2).is_empty());
    let bytes = [0u8; 16];
    for target in [GPU, PINNED, MANAGED] {
        let (status, _, message) =
            copy(&Array::host(&bytes, "float32", &[4]), &to_device(target)).err().unwrap();
        assert_eq!(status, AB_E_BACKEND_UNAVAILABLE, "{message}");
        assert!(message.contains(&wanted), "{message}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let run = |folder: &std::path::Path, why: &str, variables: &[(&str, &str)]| {
        let mut all = vec![("ARRAYBRIDGE_TEST_WHY", why)];
        all.extend(variables);
        cuda::again(&["unavailable"], folder, &all);
    };
    let whole = folder(12080, &[]);
    run(&whole, "CUDA_ERROR_NO_DEVICE (100)", &[("FAKE_CUDA_INIT", "100")]);
    run(&whole, "CUDA_ERROR_STUB_LIBRARY (34)", &[("FAKE_CUDA_INIT", "34")]);
    run(&whole, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", &[("FAKE_CUDA_INIT", "803")]);
    run(&whole, "999", &[("FAKE_CUDA_INIT", "999")]);
    run(&whole, "no", &[("FAKE_CUDA_DEVICES", "0")]);
    run(&folder(12080, &["cuMemcpy3DAsync_v2"]), "cuMemcpy3DAsync_v2", &[]);
    run(&whole, "11.4", &[("FAKE_CUDA_VERSION", "11030")]);
    let broken = tempfile::tempdir().unwrap();
    std::fs::write(broken.path().join("libcuda.so.1"), "this is no library").unwrap();
    run(broken.path(), "libcuda.so.1", &[]);
}
