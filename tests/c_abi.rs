//! Runs the programs of tests/c against the built library as a stranger would: compiled with the header,
//! linked with the shared and with the static library, silent, and clean under valgrind.

mod common;

use std::path::Path;
use std::process::Command;

/// Compiles tests/c/NAME.c against the shared or the static library.
fn build(name: &str, std: &str, shared: bool, folder: &Path) -> Command {
    let program = folder.join(if shared { "shared" } else { "static" });
    let mut cc = common::cc();
    cc.arg(format!("-std={std}")).args(common::WARNINGS).args(["-g", "-pthread", "-I"]);
    cc.arg(common::include()).arg(common::c_sources().join(format!("{name}.c")));
    let library = common::library(if shared { "so" } else { "a" });
    cc.arg(&library);
    if shared {
        let folder = library.parent().expect("a folder of the library");
        cc.arg(format!("-Wl,-rpath,{}", folder.display()));
    } else {
        cc.args(common::STATIC_LIBS);
    }
    common::succeed_silently(cc.arg("-o").arg(&program));
    Command::new(program)
}

fn run(name: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut shared = build(name, "c99", true, folder.path());
    common::succeed_silently(&mut shared);
    common::succeed_silently(&mut build(name, "c11", false, folder.path()));

    if common::has("valgrind") {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["-q", "--error-exitcode=9", "--leak-check=full"]);
        // Threads that still run at exit keep their stacks' blocks, which are `possibly` lost.
        // Drivers of OpenCL have leaks of their own.
        valgrind.env("OCL_ICD_VENDORS", "/nonexistent");
        valgrind.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
        common::succeed_silently(valgrind.arg(shared.get_program()));
    } else {
        common::skipped(format_args!("{name} under valgrind, which is not installed"));
    }
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*

        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];
    };
}

programs! {
    allocator
    context
    convert
    copy
    copy_into
    detect
    detect_pointer
    dtype
    lies
    plan
    process
    readme
    refusals
    struct_size
    threads
    versions
    wrap_legacy
}

/// What throws through the library ends the process, the same way in every build.
#[cfg(unix)]
#[test]
fn exceptions_end_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("throws");
    let library = common::library("so");
    let mut compiler = Command::new(std::env::var("CXX").unwrap_or_else(|_| "c++".into()));
    compiler.arg("-std=c++11").args(common::WARNINGS).arg("-I").arg(common::include());
    compiler.arg(common::c_sources().join("throws.cpp")).arg(&library).arg("-o").arg(&program);
    compiler.arg(format!("-Wl,-rpath,{}", library.parent().expect("a folder of the library").display()));
    common::succeed_silently(&mut compiler);
    common::succeed_silently(Command::new(&program).arg("nothing"));
    for which in ["release", "copy", "shared", "owner", "allocate", "deallocate"] {
        let out = common::output(Command::new(&program).arg(which));
        assert_eq!(out.status.signal(), Some(libc::SIGABRT), "{which}: {}", out.status);
    }
}

#[test]
fn no_program_is_forgotten() {
    const OTHERS: [&str; 2] = ["dlopen", "layout"]; // run by symbols.rs and headers.rs
    for entry in std::fs::read_dir(common::c_sources()).expect("tests/c") {
        let path = entry.expect("an entry of tests/c").path();
        if path.extension().is_some_and(|extension| extension == "c") {
            let name = path.file_stem().expect("a name").to_str().expect("an ASCII name");
            assert!(PROGRAMS.contains(&name) || OTHERS.contains(&name), "nothing runs {name}.c");
        }
    }
}
