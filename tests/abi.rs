//! The ABI stays what it was: the functions and structs of the built library are those of the committed
//! description, the header's declarations are those that its version was given, and programs that were
//! compiled with an older header run with this library.
//!
//! `ARRAYBRIDGE_RECORD_ABI=1 cargo test --test abi` records a new minor version, and `=again` one that was
//! recorded and is not released. tests/abi/README.md has the rules.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use arraybridge::ffi::types::{AB_ABI_MAJOR, AB_ABI_MINOR};

const RECORD: &str = "ARRAYBRIDGE_RECORD_ABI";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi")
}

fn version() -> String {
    format!("{AB_ABI_MAJOR}.{AB_ABI_MINOR}")
}

fn recording() -> Option<String> {
    std::env::var(RECORD).ok()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

// ---- the header and its version ----------------------------------------------------------------------

/// The header that a version was released with, whose programs must keep running.
fn header_of(version: &str) -> PathBuf {
    folder().join(version).join("arraybridge.h")
}

/// What a compiler sees of a header, constants included: neither comments nor white space count.
fn declarations(header: &str) -> String {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        text += before;
        text.push(' ');
        rest = comment.split_once("*/").expect("an end of the comment").1;
    }
    text += rest;
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let words: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

fn sha256(text: &str) -> String {
    let mut command = Command::new("sha256sum");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sha256sum");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("sha256sum reads");
    let out = child.wait_with_output().expect("sha256sum");
    let printed = String::from_utf8(out.stdout).expect("an ASCII sum");
    let sum = printed.split_whitespace().next().unwrap_or_default();
    assert_eq!(sum.len(), 64, "sha256sum printed {printed:?}");
    sum.to_owned()
}

/// The sum of each version's declarations.
fn recorded() -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder().join("headers.sha256")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once("  "));
    lines.map(|(sum, version)| (version.to_owned(), sum.to_owned())).collect()
}

fn record_header(mode: &str, header: &str, sum: String) {
    let mut all = recorded();
    let known = all.insert(version(), sum.clone());
    let same = known.is_none_or(|known| known == sum);
    assert!(same || mode == "again", "ABI {} is recorded, with other declarations", version());
    let path = header_of(&version());
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the header");
    fs::write(path, header).expect("the version's header");
    let lines: String = all.iter().map(|(version, sum)| format!("{sum}  {version}\n")).collect();
    fs::write(folder().join("headers.sha256"), lines).expect("headers.sha256");
}

#[test]
fn the_header_is_that_of_its_version() {
    let header = read(&common::include().join("arraybridge/arraybridge.h"));
    let sum = sha256(&declarations(&header));
    if let Some(mode) = recording() {
        record_header(&mode, &header, sum.clone());
    }
    let recorded = recorded();
    let version = version();
    match recorded.get(&version) {
        Some(known) => assert!(
            *known == sum,
            "arraybridge.h declares something else than in ABI {version}: take the change back, or raise \
             AB_ABI_MINOR in src/ffi/types.rs and run {RECORD}=1 cargo test --test abi"
        ),
        None => panic!("ABI {version} is not recorded: run {RECORD}=1 cargo test --test abi"),
    }
    for (version, sum) in recorded {
        let then = read(&header_of(&version));
        assert_eq!(sha256(&declarations(&then)), sum, "{}", header_of(&version).display());
    }
}

#[test]
fn comments_and_white_space_do_not_count() {
    let plain = "#define AB_X 1 int f(int a);";
    assert_eq!(declarations("/* a\n b */\n#define AB_X   1 // c\nint f(int /* d */ a);\n"), plain);
    assert_ne!(sha256(&declarations("#define AB_X 2\nint f(int a);")), sha256(plain));
}

// ---- the description ---------------------------------------------------------------------------------

// The library's name depends on who builds it: tests/packages.rs looks at it.
fn abidiff(then: &Path, now: &Path) -> Output {
    common::output(Command::new("abidiff").arg("--ignore-soname").arg(then).arg(now))
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn the_library_is_as_described() {
    if !common::has("abidiff") || !common::has("abidw") {
        common::skipped("the ABI compared with its description: abidiff is not installed (abigail-tools)");
        return;
    }
    let library = common::library("so");
    if cfg!(not(debug_assertions)) {
        common::skipped("the ABI compared with its description: a release build has no debug information");
        return;
    }
    let description = folder().join("arraybridge.abi");
    if recording().is_some() {
        let text = common::succeed(Command::new("python3").arg(folder().join("describe")).arg(&library));
        fs::write(&description, text).expect("arraybridge.abi");
    }
    let text = read(&description);
    assert!(
        !text.contains("/home/") && !text.contains("/root/") && !text.contains(".rs"),
        "a path of a machine"
    );
    let out = abidiff(&description, &library);
    let found = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "the library's ABI differs from tests/abi/arraybridge.abi; where it only gained something, raise \
         AB_ABI_MINOR and run {RECORD}=1 cargo test --test abi\n{found}"
    );

    // That it would have told.
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let other = scratch.path().join("other.abi");
    for (from, to) in [
        ("layout-offset-in-bits=\"320\"", "layout-offset-in-bits=\"352\""),
        ("name=\"ab_plan\"", "name=\"ab_planned\""),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(&other, text.replace(from, to)).expect("another description");
        assert!(!abidiff(&other, &library).status.success(), "abidiff does not see {to}");
    }
}

// ---- older programs ----------------------------------------------------------------------------------

/// tests/c compiled with every header that was released, against the library of today.
#[test]
fn programs_of_older_headers_run() {
    const OTHERS: [&str; 2] = ["dlopen", "layout"]; // no programs that call the library
    let library = common::library("so");
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let mut programs = 0;
    for version in recorded().keys() {
        let include = scratch.path().join(version);
        fs::create_dir_all(include.join("arraybridge")).expect("a folder");
        fs::copy(header_of(version), include.join("arraybridge/arraybridge.h")).expect("the header");
        fs::copy(common::include().join("arraybridge/dlpack.h"), include.join("arraybridge/dlpack.h"))
            .expect("dlpack.h");
        for entry in fs::read_dir(common::c_sources()).expect("tests/c") {
            let source = entry.expect("an entry of tests/c").path();
            let name = source.file_stem().expect("a name").to_str().expect("an ASCII name");
            if source.extension().is_none_or(|extension| extension != "c") || OTHERS.contains(&name) {
                continue;
            }
            let program = include.join(name);
            let mut cc = common::cc();
            cc.args(["-std=c99", "-pthread"]).args(common::WARNINGS).arg("-I").arg(&include);
            cc.arg(&source).arg(&library).arg("-o").arg(&program);
            cc.arg(format!("-Wl,-rpath,{}", library.parent().expect("a folder").display()));
            common::succeed_silently(&mut cc);
            common::succeed_silently(&mut Command::new(&program));
            programs += 1;
        }
    }
    assert!(programs >= 15, "only {programs} programs");
}
