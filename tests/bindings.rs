//! The plain shared library from ctypes, cffi and LuaJIT: the declarations are those of the headers, the
//! examples print what their pages say, the shared vectors pass, and a library that will not do is named.
//! (The other bindings have packages, and tests of their own.)

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A binding that needs nothing but the library and an interpreter.
struct Plain {
    name: &'static str,
    interpreter: PathBuf,
    extension: &'static str,
}

impl Plain {
    /// None, and a word about it, where the interpreter or what it needs is missing.
    fn find(name: &'static str) -> Option<Plain> {
        let (candidates, probe, extension) = match name {
            "luajit" => (vec!["luajit".into()], ["-e", "require('ffi')"], "lua"),
            "cffi" => (pythons(), ["-c", "import cffi"], "py"),
            _ => (pythons(), ["-c", "import ctypes, numpy"], "py"),
        };
        let runs = |interpreter: &PathBuf| {
            Command::new(interpreter).args(probe).output().is_ok_and(|out| out.status.success())
        };
        if let Some(interpreter) = candidates.into_iter().find(runs) {
            return Some(Plain { name, interpreter, extension });
        }
        let why = match name {
            "luajit" => "luajit is not installed",
            "cffi" => "no Python here has cffi",
            _ => "no Python here has NumPy",
        };
        common::skipped(format_args!("{name}: {why}"));
        let line = format!(
            "{{\"binding\": \"{name}\", \"passed\": 0, \"failed\": 0, \
             \"skipped\": [{{\"what\": \"everything\", \"why\": \"{why}\"}}]}}\n"
        );
        let results = root().join("target/bindings");
        fs::create_dir_all(&results).expect("target/bindings");
        fs::write(results.join(format!("{name}.json")), line).expect("a file in target/bindings");
        None
    }

    fn folder(&self) -> PathBuf {
        root().join("bindings").join(self.name)
    }

    fn command(&self, program: &str, library: &Path) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.arg(self.folder().join(program).with_extension(self.extension));
        command.env("ARRAYBRIDGE_LIBRARY", library).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn test(&self) {
        let library = common::library("so");
        let page = fs::read_to_string(self.folder().join("README.md")).expect("the page");
        let output = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
        let printed = common::succeed(&mut self.command("example", &library));
        assert_eq!(Some(printed.as_str()), output, "{}'s page", self.name);
        common::succeed_silently(&mut self.command("vectors", &library));
        self.names_what_will_not_do();
    }

    /// A library that is missing, of another ABI, or something else.
    fn names_what_will_not_do(&self) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let missing = folder.path().join("libmissing.so");
        self.refuses(&missing, &["libmissing.so"]);
        let newer = folder.path().join("libnewer.so");
        let source = folder.path().join("newer.c");
        fs::write(&source, "unsigned ab_abi_version(void) { return 2u << 16 | 7; }\n").expect("a source");
        common::succeed_silently(common::cc().args(["-shared", "-fPIC", "-o"]).arg(&newer).arg(&source));
        self.refuses(&newer, &["libnewer.so", "ABI 2.7", "1.0"]);
    }

    fn refuses(&self, library: &Path, words: &[&str]) {
        let out = common::output(&mut self.command("example", library));
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{} takes {}", self.name, library.display());
        for word in words {
            assert!(errors.contains(word), "{}: no {word:?} in\n{errors}", self.name);
        }
    }
}

/// That of tests/run, which has the packages, and the system's.
fn pythons() -> Vec<PathBuf> {
    let given = std::env::var_os("ARRAYBRIDGE_PYTHON").map(PathBuf::from);
    given.into_iter().chain([PathBuf::from("python3")]).collect()
}

fn run(name: &'static str) {
    if let Some(binding) = Plain::find(name) {
        binding.test();
    }
}

#[test]
fn ctypes() {
    run("ctypes");
}

#[test]
fn cffi() {
    run("cffi");
}

#[test]
fn luajit() {
    run("luajit");
}

#[test]
fn the_declarations_are_those_of_the_headers() {
    let script = root().join("bindings/cdef.py");
    common::succeed_silently(Command::new("python3").arg(script).arg("--check"));
}

/// tests/c/layout.txt, by ctypes.
#[test]
#[cfg(all(target_pointer_width = "64", not(windows)))]
fn the_structs_are_those_of_c() {
    const CHECK: &str = "
import ctypes, sys
import declarations as d
seen = 0
for line in open(sys.argv[1]):
    name, *numbers = line.removeprefix('sizeof ').split()
    name, _, field = name.replace('versioned', 'DLManagedTensorVersioned').partition('.')
    struct = getattr(d, name)
    found = [getattr(struct, field).offset, getattr(struct, field).size] if field else [ctypes.sizeof(struct)]
    assert found == [int(number) for number in numbers], (line, found)
    seen += 1
assert seen > 80, seen
";
    let mut python = Command::new("python3");
    python.args(["-c", CHECK]).arg(common::c_sources().join("layout.txt"));
    python.current_dir(root().join("bindings/ctypes")).env("PYTHONDONTWRITEBYTECODE", "1");
    common::succeed_silently(&mut python);
}
