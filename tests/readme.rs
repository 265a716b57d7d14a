//! Runs the README's examples and compares what they print with what it says.

mod common;

use std::path::Path;
use std::process::Command;

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The first block of a language behind a heading or sentence, and the first text block behind that.
fn example(behind: &str, language: &str) -> (String, String) {
    let readme = readme();
    let readme = &readme[readme.find(behind).unwrap_or_else(|| panic!("no {behind:?}"))..];
    let block = |text: &str, language: &str| -> (String, usize) {
        let fence = format!("```{language}\n");
        let start = text.find(&fence).unwrap_or_else(|| panic!("no {language} block")) + fence.len();
        let end = start + text[start..].find("```").unwrap();
        (text[start..end].to_owned(), end)
    };
    let (code, end) = block(readme, language);
    (code, block(&readme[end..], "text").0)
}

#[test]
fn the_c_example() {
    let (code, output) = example("## Use it from C", "c");
    assert!(code.lines().count() <= 24, "the example has grown");
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("example.c");
    let program = folder.path().join("example");
    std::fs::write(&source, code).unwrap();
    let library = common::library("so");
    let library = library.parent().unwrap();
    common::succeed(
        Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-missing-field-initializers"])
            .arg(&source)
            .arg("-I")
            .arg(common::include())
            .arg("-L")
            .arg(library)
            .arg("-larraybridge")
            .arg(format!("-Wl,-rpath,{}", library.display()))
            .arg("-o")
            .arg(&program),
    );
    let printed = common::succeed(Command::new(&program).env_remove("LD_LIBRARY_PATH"));
    assert_eq!(printed, output);
}

#[test]
fn the_python_example() {
    let (code, output) = example("## Use it from Python", "python");
    let Some(python) = std::env::var_os("ARRAYBRIDGE_PACKAGE_PYTHON") else {
        println!("SKIPPED: the Python example: bindings/python/run-tests has not made an environment");
        return;
    };
    assert_eq!(common::succeed(Command::new(python).arg("-c").arg(code)), output);
}

#[test]
fn what_it_shows_are_lines_of_tested_files() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("bindings/readme.py");
    common::succeed_silently(Command::new("python3").arg(script).arg("--check"));
}

#[test]
fn what_it_names_is_there() {
    let readme = readme();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Blocks of code have brackets of their own.
    let prose = readme.split("```").step_by(2).collect::<String>();
    for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let is_local = !link.starts_with("http") && !link.starts_with('#');
        assert!(!is_local || root.join(link).exists(), "{link} does not exist");
    }
    let version = env!("CARGO_PKG_RUST_VERSION").trim_end_matches(".0");
    assert!(readme.contains(&format!("Rust {version}")), "the README names another Rust than {version}");
}
