//! What the integration tests share: paths, tools and running programs.

// Each test crate compiles its own copy and uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// The folder to compile with `-I`.
pub fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// The folder of the C programs.
pub fn c_sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

/// What a user must give the linker after `libarraybridge.a`.
pub const STATIC_LIBS: [&str; 7] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// Flags under which everything of ours compiles.
pub const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// The built library `libarraybridge.so` or `libarraybridge.a`. Cargo puts it beside the test program,
/// and with `cargo build` also one folder above.
pub fn library(extension: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    let file = format!("libarraybridge.{extension}");
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join(&file)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no {file} beside {}", test.display()))
}

/// Whether `name --version` runs.
pub fn has(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// Says once what was left out, past the test harness, which would swallow it.
pub fn skipped(what: impl Display) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = format!("SKIPPED: {what}");
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone()) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// The C compiler.
pub fn cc() -> Command {
    Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
}

/// Runs a command as a stranger would, without the library path that cargo sets for tests.
pub fn output(command: &mut Command) -> Output {
    command.env_remove("LD_LIBRARY_PATH").output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed, and returns what it wrote to stdout.
pub fn succeed(command: &mut Command) -> String {
    let out = output(command);
    let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}\n{stdout}{stderr}", out.status);
    stdout
}

/// Runs a command that must succeed and write nothing.
pub fn succeed_silently(command: &mut Command) {
    let out = output(command);
    let stdout = String::from_utf8_lossy(&out.stdout);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}\n{stdout}{stderr}", out.status);
    assert!(stdout.is_empty() && stderr.is_empty(), "{command:?} wrote\n{stdout}{stderr}");
}

/// A C or C++ source without its comments and preprocessor lines.
pub fn declarations(source: &str) -> String {
    let mut text = String::new();
    let mut rest = source;
    while let Some(start) = rest.find("/*") {
        text.push_str(&rest[..start]);
        let end = rest[start..].find("*/").expect("an end of the comment");
        rest = &rest[start + end + 2..];
    }
    text.push_str(rest);
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n")
}
