//! The headers compile alone, twice, in every language they promise and beside official DLPack headers;
//! the structs have the promised layout; the committed header is the one that build.rs makes.

mod common;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

// ---- compilers ---------------------------------------------------------------------------------------

struct Language {
    compiler: &'static str,
    std: &'static str,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -std={}", self.compiler, self.std)
    }
}

impl Language {
    /// Every standard with every compiler that is installed.
    fn all() -> Vec<Language> {
        const C: [&str; 3] = ["c99", "c11", "c17"];
        const CXX: [&str; 3] = ["c++11", "c++17", "c++20"];
        let mut all = Vec::new();
        for (compiler, standards) in [("gcc", C), ("clang", C), ("g++", CXX), ("clang++", CXX)] {
            if common::has(compiler) {
                all.extend(standards.map(|std| Language { compiler, std }));
            } else {
                common::skipped(format_args!("headers with {compiler}, which is not installed"));
            }
        }
        assert!(!all.is_empty(), "no compiler is installed");
        all
    }

    fn is_cxx(&self) -> bool {
        self.std.starts_with("c++")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.compiler);
        command.arg(format!("-std={}", self.std)).args(common::WARNINGS).arg("-I").arg(common::include());
        // Official headers are not ours to keep free of warnings.
        command.arg("-isystem").arg(stand_ins());
        command.args(official_folder().iter().flat_map(|folder| ["-isystem".as_ref(), folder.as_os_str()]));
        command
    }

    fn write(&self, folder: &TempDir, name: &str, text: &str) -> PathBuf {
        let path = folder.path().join(name).with_extension(if self.is_cxx() { "cc" } else { "c" });
        fs::write(&path, text).expect("a source file");
        path
    }

    fn check(&self, text: &str) -> Output {
        let folder = tempfile::tempdir().expect("a temporary folder");
        common::output(self.command().arg("-fsyntax-only").arg(self.write(&folder, "unit", text)))
    }

    fn accepts(&self, text: &str) {
        let out = self.check(text);
        assert!(out.status.success(), "{self} of\n{text}\n{}", String::from_utf8_lossy(&out.stderr));
    }

    fn refuses(&self, text: &str, message: &str) {
        let out = self.check(text);
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{self} accepts\n{text}");
        assert!(errors.contains("#error") && errors.contains(message), "{self} of\n{text}\n{errors}");
    }
}

/// Every C header, as it is included.
fn headers() -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(common::include().join("arraybridge")).expect("include/arraybridge") {
        let name = entry.expect("an entry").file_name().into_string().expect("an ASCII name");
        if name.ends_with(".h") {
            names.push(format!("arraybridge/{name}"));
        }
    }
    for name in ["arraybridge/arraybridge.h", "arraybridge/dlpack.h"] {
        assert!(names.iter().any(|found| found == name), "no {name}");
    }
    names
}

/// Uses what both kinds of DLPack header have to offer.
const USE: &str = "int unit(void);\n\
    int unit(void) { return (int)(sizeof(struct DLManagedTensorVersioned) + sizeof(DLManagedTensor)) + kDLCPU; }\n";

fn lines(headers: &[&str]) -> String {
    headers.iter().map(|header| format!("#include <{header}>\n")).collect()
}

// ---- official headers --------------------------------------------------------------------------------

fn stand_ins() -> PathBuf {
    common::c_sources().join("official")
}

/// Headers of DLPack releases, dlpack-1.0.h and so on, which are not ours to commit.
fn official_folder() -> Option<PathBuf> {
    std::env::var_os("ARRAYBRIDGE_OFFICIAL_DLPACK").map(PathBuf::from)
}

struct Official {
    path: PathBuf,
    /// Of DLPack 1.
    fits: bool,
}

impl Official {
    fn within(folder: &Path) -> Vec<Official> {
        let mut all = Vec::new();
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "h") {
                let text = fs::read_to_string(&path).expect("a header");
                all.push(Official { fits: text.contains("#define DLPACK_MAJOR_VERSION 1\n"), path });
            }
        }
        assert!(all.iter().any(|official| official.fits), "no dlpack.h of version 1 in {}", folder.display());
        all
    }

    /// The stand-ins and, where there are any, the real ones.
    fn all() -> Vec<Official> {
        let mut all = Official::within(&stand_ins());
        match official_folder() {
            Some(folder) => all.extend(Official::within(&folder)),
            None => common::skipped("official DLPack headers: ARRAYBRIDGE_OFFICIAL_DLPACK is not set"),
        }
        all
    }

    fn include(&self) -> String {
        format!("#include \"{}\"\n", self.path.display())
    }
}

// ---- tests -------------------------------------------------------------------------------------------

#[test]
fn each_compiles_alone_and_twice() {
    for language in Language::all() {
        for header in headers() {
            language.accepts(&lines(&[&header]));
            language.accepts(&(lines(&[&header, &header]) + USE));
        }
    }
}

#[test]
fn all_compile_in_any_order() {
    let headers = headers();
    let forwards: Vec<_> = headers.iter().map(String::as_str).collect();
    let backwards: Vec<_> = forwards.iter().rev().copied().collect();
    for language in Language::all() {
        language.accepts(&(lines(&forwards) + USE));
        language.accepts(&(lines(&backwards) + USE));
    }
}

#[test]
fn two_units_make_one_program() {
    let headers = headers();
    let headers: Vec<_> = headers.iter().map(String::as_str).collect();
    for language in Language::all() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let main = format!("{}int unit(void);\nint main(void) {{ return unit() == 0; }}\n", lines(&headers));
        let main = language.write(&folder, "main", &main);
        let unit = language.write(&folder, "unit", &(lines(&headers) + USE));
        let program = folder.path().join("program");
        common::succeed_silently(language.command().arg(main).arg(unit).arg("-o").arg(&program));
        common::succeed_silently(&mut Command::new(program));
    }
}

#[test]
fn an_official_header_may_come_first_or_last() {
    let ours = lines(&["arraybridge/arraybridge.h"]);
    let dlpack = lines(&["arraybridge/dlpack.h"]);
    for official in Official::all() {
        let theirs = official.include();
        for language in Language::all() {
            language.accepts(&format!("{ours}{theirs}{USE}"));
            language.accepts(&format!("{dlpack}{theirs}{ours}{USE}"));
            if official.fits {
                language.accepts(&format!("{theirs}{ours}{USE}"));
                language.accepts(&format!("{theirs}{dlpack}{theirs}{ours}{dlpack}{USE}"));
            } else {
                language.refuses(&format!("{theirs}{dlpack}"), "DLPack 1.x");
                language.refuses(&format!("{theirs}{ours}"), "older than 1.0");
            }
        }
    }
}

#[test]
fn another_major_version_is_refused() {
    for language in Language::all() {
        for major in [0, 2] {
            let theirs = format!("#define DLPACK_DLPACK_H_\n#define DLPACK_MAJOR_VERSION {major}\n");
            let ours = lines(&["arraybridge/dlpack.h"]);
            language.refuses(&format!("{theirs}{ours}"), "another major version");
        }
    }
}

fn layout(extra: &[String]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("layout");
    let mut cc = common::cc();
    cc.args(["-std=c99", "-I"]).arg(common::include()).args(extra);
    cc.arg(common::c_sources().join("layout.c")).arg("-o").arg(&program);
    common::succeed(&mut cc);
    common::succeed(&mut Command::new(program))
}

/// tests/c/layout.txt is the contract: it never changes but for structs and fields at the end of structs.
#[test]
#[cfg(all(target_pointer_width = "64", not(windows)))]
fn the_structs_have_the_promised_layout() {
    let expected = fs::read_to_string(common::c_sources().join("layout.txt")).expect("layout.txt");
    let found = layout(&[]);
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

#[test]
fn our_dlpack_is_the_official_one() {
    let only = |path: &Path| layout(&[format!("-DDLPACK_ONLY=\"{}\"", path.display())]);
    let ours = only(&common::include().join("arraybridge/dlpack.h"));
    let ours: Vec<_> = ours.lines().collect();
    for official in Official::all().into_iter().filter(|official| official.fits) {
        for line in only(&official.path).lines() {
            assert!(ours.contains(&line), "{} has {line}", official.path.display());
        }
    }
}

#[test]
fn the_enums_have_32_bits() {
    let c = "#include <stdint.h>\ntypedef char four[sizeof(DLDeviceType) == sizeof(int32_t) ? 1 : -1];\n";
    let cxx = "#include <type_traits>\n\
        static_assert(std::is_same<std::underlying_type<DLDeviceType>::type, int32_t>::value, \"\");\n";
    let shared = "static DLDeviceType type(DLDevice device) { return device.device_type; }\n\
        int unit(void);\n\
        int unit(void) { DLDevice device = {kDLAscend, 0}; return type(device) == 21 && kDLTPU == 19 && \
        kDLTPUHost == 20 && kDLBcomplex == 18; }\n";
    for language in Language::all() {
        let check = if language.is_cxx() { cxx } else { c };
        language.accepts(&(lines(&["arraybridge/dlpack.h"]) + check + shared));
    }
}

#[cfg(feature = "header")]
#[test]
fn the_committed_header_is_the_generated_one() {
    let generated = fs::read_to_string(env!("ARRAYBRIDGE_GENERATED_HEADER")).expect("the generated header");
    let committed = fs::read_to_string(common::include().join("arraybridge/arraybridge.h"));
    assert!(
        generated == committed.expect("arraybridge.h"),
        "arraybridge.h is stale: run cargo build --features header"
    );

    // build.rs has just written the file, so what tells is what git has of it.
    let index = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "show", ":./include/arraybridge/arraybridge.h"])
        .output();
    match index {
        Ok(index) if index.status.success() => {
            let staged = String::from_utf8(index.stdout).expect("arraybridge.h is UTF-8");
            assert!(generated == staged, "git has a stale arraybridge.h: add the one that was just written");
        }
        _ => println!("SKIPPED: what git has of arraybridge.h: this is no git checkout"),
    }
}
