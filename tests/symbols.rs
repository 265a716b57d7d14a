//! What the built shared library shows to the dynamic linker, and what loading it does.

mod common;

use std::collections::BTreeSet;
use std::process::Command;

/// `ab_*` before a parenthesis, outside comments and macros.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(common::include().join("arraybridge/arraybridge.h"));
    let text = common::declarations(&header.expect("arraybridge.h"));
    let mut names = BTreeSet::new();
    for (end, _) in text.match_indices('(') {
        let before = &text[..end];
        let word = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if before[word.len()..].starts_with("ab_") {
            names.insert(before[word.len()..].to_owned());
        }
    }
    names
}

fn dynamic_section() -> String {
    common::succeed(Command::new("readelf").args(["-d", "-W"]).arg(common::library("so")))
}

/// What stands in brackets on the lines of one kind.
fn dynamic_entries<'a>(section: &'a str, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = section.lines().filter(move |line| line.contains(kind));
    lines.filter_map(|line| line.split_once('[')?.1.split_once(']').map(|(name, _)| name))
}

#[test]
fn the_exports_are_what_the_header_declares() {
    let nm = common::succeed(Command::new("nm").args(["-D", "--defined-only"]).arg(common::library("so")));
    let exported: BTreeSet<_> =
        nm.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect();
    let declared = declared();
    assert!(declared.len() >= 21, "the header declares {declared:?}");
    assert_eq!(exported, declared);
}

#[test]
fn the_library_is_never_unloaded() {
    let section = dynamic_section();
    let flags = section.lines().find(|line| line.contains("(FLAGS_1)")).unwrap_or_default();
    assert!(flags.contains("NODELETE"), "{section}");
}

#[test]
fn it_needs_the_c_library_only() {
    const ALLOWED: [&str; 7] =
        ["libc.so.", "libgcc_s.so.", "ld-linux", "libm.so.", "libpthread.so.", "libdl.so.", "librt.so."];
    for name in dynamic_entries(&dynamic_section(), "(NEEDED)") {
        assert!(ALLOWED.iter().any(|allowed| name.starts_with(allowed)), "needs {name}");
    }
}

/// Only what is installed has a versioned name: programs linked in the build folder look for the file that
/// cargo wrote.
#[test]
fn the_name_is_that_of_the_file() {
    if std::env::var_os("ARRAYBRIDGE_SOVERSION").is_none() {
        let section = dynamic_section();
        assert!(dynamic_entries(&section, "(SONAME)").all(|name| name == "libarraybridge.so"), "{section}");
    }
}

#[test]
fn loading_it_does_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("dlopen");
    let mut cc = common::cc();
    cc.arg("-std=c99").args(common::WARNINGS).arg("-I").arg(common::include());
    cc.arg(common::c_sources().join("dlopen.c")).arg("-o").arg(&program).arg("-ldl");
    common::succeed_silently(&mut cc);
    common::succeed_silently(Command::new(program).arg(common::library("so")));
}
