//! CUDA on the fake driver of tests/fault/cuda, which needs no GPU.

mod common;
#[path = "common/cuda.rs"]
mod cuda;

use std::process::Command;

/// The driver that everything else here is judged by.
#[test]
fn the_fake_driver_is_strict() {
    let folder = cuda::folder(12080);
    let program = folder.join("check");
    let source = cuda::sources().join("check.c");
    let mut cc = common::cc();
    cc.args(["-std=gnu11", "-g", "-rdynamic", "-Wall", "-Wextra", "-Werror"]).arg(source);
    common::succeed_silently(cc.arg(folder.join("libcuda.so.1")).arg("-o").arg(&program));
    let output = Command::new(program).env("LD_LIBRARY_PATH", folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
