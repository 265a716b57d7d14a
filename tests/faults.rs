//! Memory that runs out between host memory, at every allocation in turn (tests/fault/memory.c). Backends that
//! start a driver are left out: neither they nor the drivers survive it everywhere.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

fn program(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault/memory.c");
    let program = folder.join("memory");
    let mut cc = common::cc();
    cc.arg("-std=c99").args(common::WARNINGS).args(["-g", "-pthread", "-I"]);
    cc.arg(common::include()).arg(source).arg("-o").arg(&program).arg("-ldl");
    common::succeed_silently(&mut cc);
    program
}

/// Runs scenarios; what they print is how many failures were survived.
fn survive(scenarios: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = program(folder.path());
    for scenario in scenarios {
        let mut command = Command::new(&program);
        command.arg(common::library("so")).arg(scenario);
        // A driver's allocations are not ours to judge.
        command.env("OCL_ICD_VENDORS", "/nonexistent");
        let out = common::output(&mut command);
        let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success() && stderr.is_empty(), "{scenario}: {}\n{stdout}{stderr}", out.status);
        print!("{stdout}");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn every_allocation_fails_in_turn() {
    survive(&["shares", "wraps", "small", "contexts", "without"]);
    survive(&["medium", "large", "aligned", "transposes", "copies_into"]);
    survive(&["kinds", "kinds_into", "loses", "callers_memory"]);
}
