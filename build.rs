//! The cdylib's link options and, where asked for, include/arraybridge/arraybridge.h from the Rust source.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "header")]
    header::write();
    link();
}

fn link() {
    let target = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    let elf = matches!(target.as_str(), "linux" | "android" | "freebsd" | "netbsd" | "openbsd");
    if elf {
        // Deleters outlive dlclose: the code must stay.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // cargo-c sets the soname itself; installers name the version; a plain build has none, so that
        // linking against the build folder works.
        if env::var_os("CARGO_FEATURE_CAPI").is_none() {
            println!("cargo::rerun-if-env-changed=ARRAYBRIDGE_SOVERSION");
            let version =
                env::var("ARRAYBRIDGE_SOVERSION").map(|version| format!(".{version}")).unwrap_or_default();
            println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libarraybridge.so{version}");
        }
    }
}

#[cfg(feature = "header")]
mod header {
    use std::path::PathBuf;
    use std::{env, fs};

    /// In the order in which a reader of the header meets them.
    const SOURCES: [&str; 6] = [
        "src/ffi/types.rs",
        "src/ffi/context.rs",
        "src/ffi/detect.rs",
        "src/ffi/convert.rs",
        "src/ffi/managed.rs",
        "src/ffi/dtype.rs",
    ];

    pub fn write() {
        let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
        println!("cargo::rerun-if-changed=cbindgen.toml");
        println!("cargo::rerun-if-changed=src/ffi");
        println!("cargo::rerun-if-changed=include/arraybridge/arraybridge.h");
        let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is valid");
        let builder = cbindgen::Builder::new().with_config(config);
        let builder = SOURCES.iter().fold(builder, |builder, source| builder.with_src(root.join(source)));
        let mut text = Vec::new();
        builder.generate().expect("cbindgen understands src/ffi").write(&mut text);
        let text = flags_in_hex(&String::from_utf8(text).expect("the sources are UTF-8")).into_bytes();
        // For the test that the committed header is this one.
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("arraybridge.h");
        fs::write(&out, &text).expect("OUT_DIR is writable");
        println!("cargo::rustc-env=ARRAYBRIDGE_GENERATED_HEADER={}", out.display());
        let committed = root.join("include/arraybridge/arraybridge.h");
        if fs::read(&committed).is_ok_and(|there| there == text) {
            return;
        }
        if let Err(error) = fs::write(&committed, &text) {
            // A read-only source tree: what is built still has the header that is in it.
            println!(
                "cargo::warning=include/arraybridge/arraybridge.h is stale and cannot be written: {error}"
            );
        }
    }

    /// cbindgen writes every number as a signed decimal; flags are unsigned, and read as bits.
    fn flags_in_hex(text: &str) -> String {
        const FAMILIES: [&str; 4] = ["AB_TENSOR_", "AB_CONSUMER_", "AB_CONVERT_", "AB_REASON_"];
        let mut header = String::new();
        for line in text.lines() {
            let constant = line.strip_prefix("#define ").and_then(|rest| rest.split_once(' '));
            match constant.and_then(|(name, value)| Some((name, value.parse::<u32>().ok()?))) {
                Some((name, value)) if FAMILIES.iter().any(|family| name.starts_with(family)) => {
                    header += &format!("#define {name} {value:#x}u\n");
                }
                _ => header += &format!("{line}\n"),
            }
        }
        header
    }
}
