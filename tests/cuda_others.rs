//! CUDA beside OpenCL, and on machines whose devices share the host's pages; on the fake driver.
#![cfg(feature = "cuda")]

#[path = "common/calls.rs"]
mod calls;
mod common;
#[path = "common/cuda.rs"]
mod cuda;

use arraybridge::ffi::types::*;
use calls::*;
use cuda::{folder, log, no_complaints};

const GPU: (i32, i32) = (2, 0);
const OPENCL: (i32, i32) = (4, 0);

#[test]
fn on_the_fake_driver() {
    let driver = folder(12080, &[]);
    cuda::again(
        &["pages_that_are_shared"],
        &driver,
        &[("FAKE_CUDA_HOST_TABLES", "1"), ("FAKE_CUDA_PAGEABLE", "1")],
    );
    let (available, why) = backend("opencl");
    if available {
        for map in ["", "0"] {
            cuda::again(&["between_cuda_and_opencl"], &driver, &[("ARRAYBRIDGE_OPENCL_MAP", map)]);
        }
    } else {
        common::skipped(format!("tests between CUDA and OpenCL: {why}"));
    }
}

/// Memory that runs out at every allocation in turn (tests/fault/cuda/exhausted.c), on every way.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn every_allocation_fails_in_turn() {
    let driver = folder(12080, &[]);
    let program = driver.join("exhausted");
    let mut cc = common::cc();
    cc.arg("-std=gnu11").args(common::WARNINGS).args(["-g", "-Wno-unused-function", "-pthread", "-I"]);
    cc.arg(common::include()).arg(cuda::sources().join("exhausted.c")).arg("-o").arg(&program).arg("-ldl");
    common::succeed_silently(&mut cc);
    for (scenario, variables) in [
        ("up_and_down", [("FAKE_CUDA_P2P", "1")].as_slice()),
        ("small_ways", &[]),
        ("device_ways", &[]),
        ("device_ways", &[("FAKE_CUDA_POOLS", "0")]),
        ("peer_ways", &[]),
        ("peer_ways", &[("FAKE_CUDA_P2P", "0")]),
        ("kinds_of_memory", &[]),
        ("lists", &[]),
    ] {
        let mut command = std::process::Command::new(&program);
        command.arg(common::library("so")).arg(scenario).envs(variables.iter().copied());
        // Another driver's allocations are not ours to judge.
        command.env("OCL_ICD_VENDORS", "/nonexistent").env("LD_LIBRARY_PATH", &driver);
        let out = command.output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        let name = format!("{scenario} {variables:?}");
        assert!(out.status.success() && stderr.is_empty(), "{name}: {}\n{stdout}{stderr}", out.status);
        print!("{name}: {stdout}");
    }
}

/// Neither reaches the other's memory: the data goes through the host, whatever happens to it on its way.
#[test]
#[ignore = "run by on_the_fake_driver"]
fn between_cuda_and_opencl() {
    let shape = [5, 64, 33];
    let count = shape.iter().product::<i64>() as usize;
    let bytes: Vec<u8> = (0..count).flat_map(|at| ((at % 251) as i16 - 100).to_ne_bytes()).collect();
    let source = Array::host(&bytes, "int16", &shape);
    let apart = std::env::var("ARRAYBRIDGE_OPENCL_MAP").is_ok_and(|map| map == "0");
    for (from, to) in [(GPU, OPENCL), (OPENCL, GPU)] {
        for dtype in ["int16", "float64", "int8", "float4_e2m1fn"] {
            for layout in [AB_LAYOUT_C, AB_LAYOUT_F] {
                let parsed: arraybridge::DLDataType = dtype.parse().unwrap();
                let wanted = ab_convert_options { dtype: parsed, layout, ..to_device(CPU) };
                let size = (count * usize::from(parsed.bits)).div_ceil(8);
                let (want, _) = copy(&source, &wanted).unwrap();
                let (there, _) = copy(&source, &to_device(from)).unwrap();
                let (crossed, report) =
                    convert(there, &ab_convert_options { device: to_device(to).device, ..wanted })
                        .ok()
                        .unwrap();
                let stop = size.min(bytes.len()) as u64;
                assert_eq!((report.route, report.passes), (AB_ROUTE_STAGED, 2));
                // A device that shares no memory with the host casts by way of its ring.
                let rings = report.scratch_bytes - stop;
                let casts = apart && to == OPENCL && dtype == "float64";
                assert!(if casts { rings > 0 } else { apart || rings == 0 }, "{rings} bytes of rings");
                let kept = ab_convert_options { layout: AB_LAYOUT_KEEP, ..to_device(CPU) };
                let (back, _) = convert(crossed, &kept).ok().unwrap();
                assert!(back.bytes(size) == want.bytes(size), "{from:?} to {to:?}, {dtype}, layout {layout}");
            }
        }
    }
    no_complaints();
}

/// The faster way is found out with data that has to arrive all the same; then nothing is pinned any more.
#[test]
#[ignore = "run by on_the_fake_driver"]
fn pages_that_are_shared() {
    const SIZE: usize = 18 << 20;
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at % 253) as u8).collect();
    let source = Array::host(&bytes, "uint8", &[SIZE as i64]);
    for round in 0..3 {
        let (back, calls) = log(|| {
            let (there, _) = copy(&source, &to_device(GPU)).unwrap();
            convert(there, &to_device(CPU)).ok().unwrap().0
        });
        assert!(back.bytes(SIZE) == bytes, "round {round}");
        let pins = calls.iter().filter(|call| call.starts_with("cuMemHostAlloc")).count();
        assert!(round == 0 || pins == 0, "round {round}: {pins} pinned");
    }
    no_complaints();
}
