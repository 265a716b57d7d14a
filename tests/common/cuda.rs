//! CUDA for tests: the fake driver of tests/fault/cuda, and its functions for those that run on it.

// Each test crate compiles its own copy and uses a part of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use std::sync::OnceLock;

use crate::common;

/// Every function of the driver that a version of it lacks, by the version that brought it.
const SINCE: [(u32, &[&str]); 3] = [
    (12000, &["cuGraphInstantiateWithFlags"]),
    (12050, &["cuStreamGetCtx_v2"]),
    (12080, &["cuStreamGetDevice"]),
];

/// The folder of the fake driver.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault/cuda")
}

/// The kernels, compiled for the processor.
fn kernels() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault/cuda/kernels.c");
    source.exists().then_some(source)
}

/// A folder with a `libcuda.so.1` as of a version of CUDA. It is compiled once for a process.
pub fn folder(version: u32) -> PathBuf {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let parts =
            ["control", "device", "memory", "copy", "stream", "module"].map(|part| sources().join(part));
        for part in parts.iter().map(|part| part.with_extension("c")).chain(kernels()) {
            let mut cc = common::cc();
            cc.args(["-std=gnu11", "-O1", "-g", "-fPIC", "-c"])
                .args(["-Wall", "-Wextra", "-Werror"])
                .arg(&part);
            cc.arg("-o").arg(folder.path().join(part.file_stem().unwrap()).with_extension("o"));
            common::succeed_silently(&mut cc);
        }
        folder
    });
    let folder = built.path().join(version.to_string());
    if !folder.exists() {
        let missing: Vec<_> =
            SINCE.iter().filter(|(since, _)| *since > version).flat_map(|(_, names)| *names).collect();
        link(built.path(), &folder, &missing);
    }
    folder
}

/// Links the objects of a folder without some of the functions.
pub fn link(objects: &Path, folder: &Path, missing: &[&&str]) {
    // A folder that exists is complete.
    let making = tempfile::tempdir_in(objects).unwrap();
    let script = making.path().join("exports");
    let hidden: String = missing.iter().map(|name| format!("{name}; ")).collect();
    std::fs::write(&script, format!("{{ global: cu*; fake_*; local: {hidden} zz_*; }};")).unwrap();
    let mut cc = common::cc();
    cc.args(["-shared", "-Wl,-soname,libcuda.so.1"])
        .arg(format!("-Wl,--version-script={}", script.display()));
    let entries = std::fs::read_dir(objects).unwrap().map(|entry| entry.unwrap().path());
    cc.args(entries.filter(|path| path.extension().is_some_and(|extension| extension == "o")));
    cc.arg("-o").arg(making.path().join("libcuda.so.1")).args(["-lpthread", "-ldl", "-lm"]);
    common::succeed_silently(&mut cc);
    let _ = std::fs::rename(making.keep(), folder);
}

/// This program again on the fake driver, some tests of it that are ignored otherwise, one after the other.
pub fn again(tests: &[&str], version: u32, variables: &[(&str, &str)]) {
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", "--include-ignored", "--test-threads=1"]).args(tests);
    run.env("LD_LIBRARY_PATH", folder(version)).env("FAKE_CUDA_VERSION", version.to_string());
    let output = run.envs(variables.iter().copied()).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let passed = format!("{} passed", tests.len());
    assert!(
        output.status.success() && text.contains(&passed),
        "{version} {variables:?}: {}\n{text}",
        output.status
    );
}
