//! Uses the installed package as a stranger would: from a copy of the sources, without cargo's environment, in
//! C and C++, with gcc and clang, through CMake, pkg-config, and a bare compiler.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of these tests, which keeps what is built for the next run.
fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages").join(name)
}

/// A compiler of C and the one of C++ beside it.
type Compilers = (&'static str, &'static str);

fn compilers() -> Vec<Compilers> {
    let (found, missing): (Vec<_>, Vec<_>) = [("gcc", "g++"), ("clang", "clang++")]
        .into_iter()
        .partition(|(c, cxx)| common::has(c) && common::has(cxx));
    for (c, cxx) in missing {
        common::skipped(format_args!("the packages with {c} and {cxx}, which are not installed"));
    }
    assert!(!found.is_empty(), "no compiler is installed");
    found
}

/// A command with what cargo and the tests have set taken away. How fast the library is does not matter here:
/// it is built without optimisation.
fn stranger(program: &str) -> Command {
    let mut command = Command::new(program);
    const SET_BY_CARGO: [&str; 9] = [
        "CARGO_BIN",
        "CARGO_BUILD",
        "CARGO_CRATE",
        "CARGO_ENCODED",
        "CARGO_INCREMENTAL",
        "CARGO_MANIFEST",
        "CARGO_PKG",
        "CARGO_PROFILE",
        "CARGO_TARGET",
    ];
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let ours = SET_BY_CARGO.iter().any(|prefix| name.starts_with(prefix));
        if ours || name.starts_with("ARRAYBRIDGE") || name.starts_with("CMAKE") {
            command.env_remove(&*name);
        }
    }
    // The tools stay where they are when HOME is another.
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    for (name, default) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if std::env::var_os(name).is_none() && home.join(default).exists() {
            command.env(name, home.join(default));
        }
    }
    command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    command.env_remove("LD_LIBRARY_PATH").env_remove("PKG_CONFIG_PATH").env("HOME", place("home"));
    command
}

/// Makes `to` what the file or folder `from` is, leaving alone what is the same, so that cargo builds it once.
fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(to).expect("a folder") {
            let there = entry.expect("an entry").path();
            let source = from.join(there.file_name().expect("a name"));
            if there.is_dir() && !source.is_dir() {
                fs::remove_dir_all(there).expect("what is no longer there goes");
            } else if there.is_file() && !source.is_file() {
                fs::remove_file(there).expect("what is no longer there goes");
            }
        }
        for entry in fs::read_dir(from).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            copy(&from.join(&name), &to.join(&name));
        }
        return;
    }
    let bytes = fs::read(from).expect("a file");
    if fs::read(to).map_or(true, |there| there != bytes) {
        fs::write(to, bytes).expect("a copy");
    }
}

/// The sources, as somebody who unpacked them has them.
fn checkout() -> PathBuf {
    let checkout = place("checkout");
    fs::create_dir_all(checkout.join("bindings")).expect("a folder");
    for name in [
        "Cargo.toml",
        "Cargo.lock",
        "build.rs",
        "cbindgen.toml",
        "src",
        "include",
        "cmake",
        "benches",
        "bindings/cpp",
    ] {
        copy(&root().join(name), &checkout.join(name));
    }
    checkout
}

/// The first block of a language in a text, and what follows it.
fn block<'a>(text: &'a str, language: &str) -> (&'a str, &'a str) {
    let fence = format!("```{language}\n");
    let start = text.find(&fence).unwrap_or_else(|| panic!("no {language} block")) + fence.len();
    let end = start + text[start..].find("```").expect("an end of the block");
    (&text[start..end], &text[end + 3..])
}

struct Package {
    checkout: PathBuf,
    /// Where it was moved to after it had been installed.
    prefix: PathBuf,
}

impl Package {
    fn lib(&self) -> PathBuf {
        let candidates = ["lib", "lib64"].map(|name| self.prefix.join(name));
        candidates.into_iter().find(|folder| folder.exists()).expect("a folder of libraries")
    }
}

/// Runs the quick start of bindings/cpp/README.md word for word, then moves what it installed. None without
/// CMake.
fn package() -> Option<&'static Package> {
    static PACKAGE: OnceLock<Option<Package>> = OnceLock::new();
    let made = PACKAGE.get_or_init(|| {
        if !common::has("cmake") {
            common::skipped("the packages of CMake and pkg-config: cmake is not installed");
            return None;
        }
        let checkout = checkout();
        fs::create_dir_all(place("home")).expect("a home");
        let readme =
            fs::read_to_string(root().join("bindings/cpp/README.md")).expect("bindings/cpp/README.md");
        let (commands, rest) = block(&readme, "sh");
        assert_eq!(commands.lines().count(), 2, "the quick start has two commands");
        let mut printed = String::new();
        for line in commands.lines() {
            printed = common::succeed(stranger("sh").args(["-e", "-c", line]).current_dir(&checkout));
        }
        let (expected, _) = block(rest, "text");
        assert!(printed.ends_with(expected), "{printed}\ninstead of\n{expected}");

        let (installed, prefix) = (place("home/.local"), place("moved"));
        let _ = fs::remove_dir_all(&prefix);
        fs::rename(&installed, &prefix).expect("the package can be moved");
        Some(Package { checkout, prefix })
    });
    made.as_ref()
}

/// What a program or library needs, or is called.
fn dynamic_entries(file: &Path, kind: &str) -> Vec<String> {
    let section = common::succeed(Command::new("readelf").args(["-d", "-W"]).arg(file));
    let lines = section.lines().filter(|line| line.contains(kind));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect()
}

fn needs_the_shared_library(program: &Path) -> bool {
    dynamic_entries(program, "(NEEDED)").iter().any(|name| name.contains("libarraybridge"))
}

/// Configures tests/packages in a fresh folder.
fn configure(build: &Path, (c, cxx): Compilers, options: &[String]) -> Output {
    let _ = fs::remove_dir_all(build);
    let mut cmake = stranger("cmake");
    cmake.arg("-S").arg(root().join("tests/packages")).arg("-B").arg(build);
    cmake.arg(format!("-DCMAKE_C_COMPILER={c}")).arg(format!("-DCMAKE_CXX_COMPILER={cxx}"));
    common::output(cmake.args(options))
}

/// Configures, builds and runs the programs for these targets, and checks which library they need.
fn consume(name: &str, compilers: Compilers, targets: &[(&str, bool)], options: &[String]) {
    let build = place(name).join(compilers.0);
    let kinds: Vec<_> = targets.iter().map(|(kind, _)| *kind).collect();
    let mut options = options.to_vec();
    options.push(format!("-DTARGETS={}", kinds.join(";")));
    let out = configure(&build, compilers, &options);
    assert!(
        out.status.success(),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    common::succeed(stranger("cmake").arg("--build").arg(&build));
    for (kind, shared) in targets {
        for language in ["c", "cpp"] {
            let program = build.join(format!("{kind}-{language}"));
            let mut run = stranger(program.to_str().expect("a UTF-8 path"));
            assert_eq!(common::succeed(&mut run), format!("{VERSION}\n"), "{}", program.display());
            assert_eq!(needs_the_shared_library(&program), *shared, "{}", program.display());
        }
    }
}

fn find_package(package: &Package, more: &[&str]) -> Vec<String> {
    let mut options =
        vec!["-DWAY=find_package".to_owned(), format!("-DCMAKE_PREFIX_PATH={}", package.prefix.display())];
    options.extend(more.iter().map(|&option| option.to_owned()));
    options
}

#[test]
fn what_is_installed() {
    let Some(package) = package() else { return };
    let lib = package.lib();
    let file = format!("libarraybridge.so.{VERSION}");
    for link in ["libarraybridge.so", "libarraybridge.so.1"] {
        assert_eq!(fs::read_link(lib.join(link)).expect(link), Path::new(&file));
    }
    assert_eq!(dynamic_entries(&lib.join(&file), "(SONAME)"), ["libarraybridge.so.1"]);
    assert!(lib.join("libarraybridge.a").exists());
    for entry in fs::read_dir(common::include().join("arraybridge")).expect("include/arraybridge") {
        let name = entry.expect("an entry").file_name();
        assert!(package.prefix.join("include/arraybridge").join(&name).exists(), "{name:?} is not installed");
    }
    // Nothing in the package files says where it was installed, or built.
    for folder in ["cmake/arraybridge", "pkgconfig"] {
        for entry in fs::read_dir(lib.join(folder)).expect(folder) {
            let text = fs::read_to_string(entry.expect("an entry").path()).expect("a text");
            assert!(!text.contains(place("").to_str().expect("a UTF-8 path")), "{text}");
            assert!(!text.contains('@'), "{text}");
        }
    }
}

#[test]
fn find_package_in_a_moved_prefix() {
    let Some(package) = package() else { return };
    for compilers in compilers() {
        let targets = [("shared", true), ("static", false), ("arraybridge", true)];
        consume("find_package", compilers, &targets, &find_package(package, &["-DWANTED=1.0"]));
    }
    let wish = find_package(package, &["-DWANTED=1.0;COMPONENTS;static", "-DBUILD_SHARED_LIBS=OFF"]);
    consume("find_package-static", compilers()[0], &[("arraybridge", false)], &wish);
}

#[test]
fn find_package_says_what_does_not_fit() {
    let Some(package) = package() else { return };
    for (wanted, message) in [
        ("2.0", "compatible with requested version \"2.0\""),
        ("1.999", "compatible with requested version \"1.999\""),
        ("1.0;COMPONENTS;gpu", "there is no gpu library of arraybridge in"),
    ] {
        let options = find_package(package, &[&format!("-DWANTED={wanted}")]);
        let out = configure(&place("refused"), compilers()[0], &options);
        let errors = String::from_utf8_lossy(&out.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!out.status.success() && errors.contains(message), "{wanted}: {errors}");
    }
}

#[test]
fn fetch_content_and_add_subdirectory() {
    let Some(package) = package() else { return };
    let checkout = package.checkout.display();
    // What the quick start has built is not built again.
    let shared = format!("-DARRAYBRIDGE_TARGET_DIR={checkout}/build/cargo");
    for (way, sources) in [
        ("FetchContent", format!("-DFETCHCONTENT_SOURCE_DIR_ARRAYBRIDGE={checkout}")),
        ("add_subdirectory", format!("-DARRAYBRIDGE_SOURCES={checkout}")),
    ] {
        let targets = [("shared", true), ("static", false), ("arraybridge", true)];
        consume(way, compilers()[0], &targets, &[format!("-DWAY={way}"), sources, shared.clone()]);
    }
}

#[test]
fn options_choose_features() {
    if package().is_none() {
        return;
    }
    let commands = |option: &str| {
        let build = place("features");
        let _ = fs::remove_dir_all(&build);
        let mut cmake = stranger("cmake");
        cmake.arg("-S").arg(place("checkout/cmake")).arg("-B").arg(&build).args([
            "-G",
            "Unix Makefiles",
            option,
        ]);
        common::succeed(&mut cmake);
        common::succeed(stranger("cmake").arg("--build").arg(&build).args(["--", "-n"]))
    };
    assert!(commands("-DARRAYBRIDGE_OPENCL=ON").contains("--features cuda,opencl"));
    assert!(!commands("-DARRAYBRIDGE_OPENCL=OFF").contains("opencl"));
    assert!(commands("-DARRAYBRIDGE_PROFILE=dev").contains("/cargo//debug/libarraybridge.a"));
    let no_cargo = stranger("cmake")
        .arg("-S")
        .arg(place("checkout/cmake"))
        .arg("-B")
        .arg(place("no-cargo"))
        .arg("-DARRAYBRIDGE_CARGO=ARRAYBRIDGE_CARGO-NOTFOUND")
        .env("PATH", "/usr/bin:/bin")
        .env("CARGO_HOME", "/nonexistent")
        .output();
    let errors = String::from_utf8_lossy(&no_cargo.expect("cmake").stderr).into_owned();
    if common::has("/usr/bin/cargo") {
        common::skipped("what CMake says where there is no cargo: it is in /usr/bin");
    } else {
        assert!(errors.contains("there is no cargo in PATH"), "{errors}");
    }
}

/// What Rust's own libraries need, as the compiler says.
fn native_static_libs() -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("empty.rs");
    fs::write(&source, "").expect("a source file");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args(["--crate-type=staticlib", "--print=native-static-libs", "--out-dir"])
        .arg(folder.path())
        .arg(&source);
    let out = common::output(&mut rustc);
    let notes = String::from_utf8_lossy(&out.stderr).into_owned();
    let line = notes.lines().find_map(|line| line.split_once("native-static-libs: "));
    line.unwrap_or_else(|| panic!("{notes}")).1.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn pkg_config() {
    let Some(package) = package() else { return };
    if !common::has("pkg-config") {
        common::skipped("pkg-config: it is not installed");
        return;
    }
    let ask = |arguments: &[&str]| -> Vec<String> {
        let mut command = stranger("pkg-config");
        command.env("PKG_CONFIG_PATH", package.lib().join("pkgconfig")).args(arguments).arg("arraybridge");
        common::succeed(&mut command).split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(ask(&["--modversion"]), [VERSION]);
    let private: Vec<_> = ask(&["--static", "--libs-only-l"]).into_iter().skip(1).collect();
    assert_eq!(private, common::STATIC_LIBS);
    assert_eq!(native_static_libs(), common::STATIC_LIBS);

    let shared = ask(&["--cflags", "--libs"]);
    let mut fixed = ask(&["--cflags", "--static", "--libs"]);
    let name = fixed.iter_mut().find(|argument| *argument == "-larraybridge").expect("-larraybridge");
    *name = "-l:libarraybridge.a".into();
    for compilers in compilers() {
        bare(compilers, &shared, Some(&package.lib()));
        bare(compilers, &fixed, None);
    }
}

#[test]
fn the_build_folder_of_cargo() {
    let library = common::library("so");
    let folder = library.parent().expect("a folder of the library");
    // cargo-c, which turns `capi` on, names the library itself.
    let name: &[&str] = if cfg!(feature = "capi") { &[] } else { &["libarraybridge.so"] };
    assert_eq!(dynamic_entries(&library, "(SONAME)"), name);
    let include = format!("-I{}", common::include().display());
    let shared = [include, format!("-L{}", folder.display()), "-larraybridge".into()];
    for compilers in compilers() {
        bare(compilers, &shared, Some(folder));
    }
}

/// Compiles consumer.c and consumer.cpp with a bare compiler and runs them.
fn bare((c, cxx): Compilers, arguments: &[String], shared: Option<&Path>) {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    for (compiler, std, source) in [(c, "-std=c99", "consumer.c"), (cxx, "-std=c++17", "consumer.cpp")] {
        let program = temporary.path().join(source).with_extension("out");
        let mut command = stranger(compiler);
        command
            .arg(std)
            .args(common::WARNINGS)
            .arg(root().join("tests/packages").join(source))
            .args(arguments);
        command.args(shared.map(|folder| format!("-Wl,-rpath,{}", folder.display())));
        common::succeed_silently(command.arg("-o").arg(&program));
        let mut run = stranger(program.to_str().expect("a UTF-8 path"));
        assert_eq!(common::succeed(&mut run), format!("{VERSION}\n"), "{compiler} {arguments:?}");
        assert_eq!(needs_the_shared_library(&program), shared.is_some(), "{compiler} {arguments:?}");
    }
}

/// cargo-c takes long to build; what it reads is checked here.
#[test]
fn what_cargo_c_reads() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]).current_dir(root());
    let metadata: serde_json::Value = serde_json::from_str(&common::succeed(&mut cargo)).expect("JSON");
    let package = &metadata["packages"][0];
    assert_eq!(package["name"], "arraybridge");
    assert!(package["features"]["capi"].is_array(), "cargo-c turns the feature `capi` on");
    let capi = &package["metadata"]["capi"];
    assert_eq!(capi["header"]["generation"], false, "the header is build.rs's");
    let assets = capi["install"]["include"]["asset"].as_array().expect("assets");
    for entry in fs::read_dir(common::include().join("arraybridge")).expect("include/arraybridge") {
        let path = entry.expect("an entry").path();
        let extension = path.extension().and_then(|extension| extension.to_str()).expect("an extension");
        let pattern = format!("include/arraybridge/**/*.{extension}");
        assert!(
            assets.iter().any(|asset| asset["from"] == pattern && asset["to"] == "arraybridge"),
            "no asset installs {}",
            path.display()
        );
    }
}
