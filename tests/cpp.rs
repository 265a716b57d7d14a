//! The C++ API: arraybridge.hpp compiles without a warning in every standard from C++17 on, beside official
//! DLPack headers; tests/cpp runs under the sanitizers; tests/vectors runs through it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const STANDARDS: [&str; 3] = ["c++17", "c++20", "c++2b"];
/// In which the API's tests run.
fn standard_to_run(compiler: &str) -> &'static str {
    if compiler == "g++" { "c++17" } else { "c++20" }
}

const SANITIZERS: [&str; 3] = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cpp")
}

fn compilers() -> Vec<&'static str> {
    let (found, missing): (Vec<_>, Vec<_>) =
        ["g++", "clang++"].into_iter().partition(|name| common::has(name));
    for name in missing {
        common::skipped(format_args!("arraybridge.hpp with {name}, which is not installed"));
    }
    assert!(!found.is_empty(), "no C++ compiler is installed");
    found
}

fn cxx(compiler: &str, std: &str) -> Command {
    let mut command = Command::new(compiler);
    command.arg(format!("-std={std}")).args(common::WARNINGS).arg("-Wconversion");
    command.arg("-I").arg(common::include());
    command
}

/// Whether a compiler makes a program of this with these arguments.
fn makes(compiler: &str, std: &str, arguments: &[&str], source: &str) -> bool {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let (file, program) = (temporary.path().join("probe.cc"), temporary.path().join("probe"));
    fs::write(&file, source).expect("a source file");
    let mut command = Command::new(compiler);
    command.arg(format!("-std={std}")).args(arguments).arg(file).arg("-o").arg(program);
    command.output().is_ok_and(|out| out.status.success())
}

fn sanitizers(compiler: &str) -> &'static [&'static str] {
    if makes(compiler, "c++17", &SANITIZERS, "int main() {}") {
        &SANITIZERS
    } else {
        common::skipped(format_args!(
            "the C++ tests under the sanitizers of {compiler}, which has none here"
        ));
        &["-g"]
    }
}

/// Links objects or sources with the shared library.
fn link(command: &mut Command, program: &Path) -> Command {
    let library = common::library("so");
    let rpath = library.parent().expect("a folder of the library").display().to_string();
    common::succeed_silently(
        command.arg(&library).arg(format!("-Wl,-rpath,{rpath}")).arg("-pthread").arg("-o").arg(program),
    );
    Command::new(program)
}

/// Runs api.cc and mdspan.cc, in one program with a unit that has no exceptions.
fn run_api(compiler: &str, std: &str, arguments: &[&str]) {
    let temporary: TempDir = tempfile::tempdir().expect("a temporary folder");
    let object = temporary.path().join("no_exceptions.o");
    let mut unit = cxx(compiler, std);
    unit.args(arguments).arg("-fno-exceptions").arg("-c").arg(folder().join("no_exceptions.cc"));
    common::succeed_silently(unit.arg("-o").arg(&object));
    let mut command = cxx(compiler, std);
    command.args(arguments).arg(folder().join("api.cc")).arg(folder().join("mdspan.cc")).arg(object);
    common::succeed_silently(&mut link(&mut command, &temporary.path().join("api")));
}

#[test]
fn it_compiles_without_a_warning() {
    for compiler in compilers() {
        for std in STANDARDS.into_iter().filter(|std| *std != standard_to_run(compiler)) {
            let mut command = cxx(compiler, std);
            command.arg("-fsyntax-only").args(["api.cc", "mdspan.cc"].map(|name| folder().join(name)));
            common::succeed_silently(&mut command);
            let mut command = cxx(compiler, std);
            command.args(["-fsyntax-only", "-fno-exceptions"]).arg(folder().join("no_exceptions.cc"));
            common::succeed_silently(&mut command);
        }
    }
}

#[test]
fn it_stands_beside_other_headers() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let file = temporary.path().join("unit.cc");
    let ours = "#include <arraybridge/arraybridge.hpp>\n";
    let official = common::c_sources().join("official");
    for theirs in ["dlpack-1.0.h", "dlpack-1.3.h"]
        .map(|name| format!("#include \"{}\"\n", official.join(name).display()))
    {
        for compiler in compilers() {
            for text in [format!("{theirs}{ours}{ours}"), format!("{ours}{theirs}")] {
                fs::write(&file, text).expect("a source file");
                let mut command = cxx(compiler, "c++17");
                command.args(["-Wshadow", "-Wsign-conversion", "-Wold-style-cast"]);
                common::succeed_silently(
                    command.arg("-isystem").arg(&official).arg("-fsyntax-only").arg(&file),
                );
            }
        }
    }
    fs::write(&file, ours).expect("a source file");
    for compiler in compilers() {
        let out = common::output(cxx(compiler, "c++14").arg("-fsyntax-only").arg(&file));
        assert!(String::from_utf8_lossy(&out.stderr).contains("arraybridge.hpp needs C++17"), "{compiler}");
    }
}

#[test]
fn the_api() {
    for compiler in compilers() {
        run_api(compiler, standard_to_run(compiler), sanitizers(compiler));
    }
}

#[test]
fn mdspans_of_libraries() {
    let has_mdspan = "#include <mdspan>\n#ifndef __cpp_lib_mdspan\n#error none\n#endif\nint main() {}\n";
    let candidates: [(&str, &[&str]); 6] = [
        ("g++", &[]),
        ("g++-15", &[]),
        ("clang++", &[]),
        ("clang++", &["-stdlib=libc++"]),
        ("clang++-19", &["-stdlib=libc++"]),
        ("clang++-22", &["-stdlib=libc++"]),
    ];
    match candidates.iter().find(|(compiler, arguments)| makes(compiler, "c++2b", arguments, has_mdspan)) {
        Some((compiler, arguments)) => run_api(compiler, "c++2b", arguments),
        None => {
            common::skipped("std::mdspan: no C++ library here has it (Debian: clang-19 and libc++-19-dev)")
        }
    }
    match std::env::var("ARRAYBRIDGE_KOKKOS_MDSPAN") {
        Ok(headers) => {
            for compiler in compilers() {
                run_api(compiler, "c++17", &["-DARRAYBRIDGE_TEST_KOKKOS", "-isystem", &headers]);
            }
        }
        Err(_) => common::skipped(
            "Kokkos::mdspan: ARRAYBRIDGE_KOKKOS_MDSPAN does not name the folder of its headers",
        ),
    }
}

#[test]
fn the_vectors() {
    let compiler = compilers()[0];
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let mut command = cxx(compiler, "c++17");
    command.arg("-O1").args(sanitizers(compiler)).arg(folder().join("vectors.cc"));
    let mut program = link(&mut command, &temporary.path().join("vectors"));
    let out = common::output(program.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")));
    let counts = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{counts}{}", String::from_utf8_lossy(&out.stderr));

    let parsed: serde_json::Value = serde_json::from_str(&counts).expect("JSON");
    assert!(parsed["passed"].as_u64() > Some(2000), "{counts}");
    let bindings = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bindings");
    fs::create_dir_all(&bindings).expect("target/bindings");
    fs::write(bindings.join("cpp.json"), &counts).expect("target/bindings/cpp.json");
    println!("bindings: cpp: {} passed, 0 skipped", parsed["passed"]);
}
