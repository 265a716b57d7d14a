//! The tool `ab`: what it makes of files, what it says, and what it refuses.
#![cfg(feature = "cli")]

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

// ---- running the tool --------------------------------------------------------------------------------

const PHOTOGRAPH: &str = "tests/data/astronaut.npy";
/// The photograph to float32, channels first.
const MAIN_JOB: [&str; 4] = ["--permute", "2,0,1", "--dtype", "float32"];

/// A folder with an input in it, in which the tool runs.
struct Desk(TempDir);

impl Desk {
    fn empty() -> Desk {
        Desk(tempfile::tempdir().expect("a temporary folder"))
    }

    fn with(input: &[u8]) -> Desk {
        let desk = Desk::empty();
        fs::write(desk.path("in.npy"), input).expect("an input");
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ab"));
        command.args(arguments).current_dir(self.0.path());
        command
    }

    /// Runs the tool, which must succeed and keep stderr empty; its stdout.
    fn ab(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("ab");
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ab(&[arguments, &["--json"]].concat());
        assert_eq!(text.lines().count(), 1);
        serde_json::from_str(&text).expect("JSON")
    }

    /// `ab convert in.npy out.npy OPTIONS`, and what it wrote.
    fn convert(&self, options: &[&str]) -> Npy {
        self.ab(&[&["convert", "in.npy", "out.npy"], options].concat());
        Npy::read(&self.path("out.npy"))
    }

    /// After the tool was killed: whether its output is there, which is then whole. Everything but the input is
    /// removed.
    fn has_all_or_nothing(&self, whole: &[u8]) -> bool {
        let found = fs::read(self.path("out.npy")).ok();
        if let Some(found) = &found {
            assert!(found == whole, "a file of {} bytes is not whole", found.len());
        }
        for name in self.names().iter().filter(|name| *name != "in.npy") {
            // Where files can be without a name, one that has one is whole.
            if has_unnamed_files(self.0.path()) {
                assert!(fs::read(self.path(name)).expect("a file") == whole, "{name} is not whole");
            }
            fs::remove_file(self.path(name)).expect("a file");
        }
        found.is_some()
    }

    /// Runs the tool, which must refuse in one line; that line. Nothing but the input is left.
    fn refused(&self, arguments: &[&str]) -> String {
        let before = self.names();
        let line = refusal(&self.command(arguments).output().expect("ab"));
        assert_eq!(self.names(), before, "{arguments:?}");
        line
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("the folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        names
    }
}

/// The line of a run that was refused.
fn refusal(output: &Output) -> String {
    let stderr = String::from_utf8(output.stderr.clone()).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(stderr.starts_with("ab: ") && stderr.ends_with('\n') && stderr.lines().count() == 1, "{stderr}");
    stderr
}

// ---- .npy, independently -----------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq)]
struct Npy {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
    data: Vec<u8>,
}

impl Npy {
    fn new(descr: &str, shape: &[usize], data: impl Into<Vec<u8>>) -> Npy {
        Npy { descr: descr.into(), fortran_order: false, shape: shape.into(), data: data.into() }
    }

    fn shape_text(shape: &[usize]) -> String {
        match shape {
            [] => "()".into(),
            [one] => format!("({one},)"),
            _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let fortran_order = if self.fortran_order { "True" } else { "False" };
        let shape = Npy::shape_text(&self.shape);
        let text =
            format!("{{'descr': '{}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}", self.descr);
        [with_header(&text), self.data.clone()].concat()
    }

    /// Reads what the tool writes, which is stricter than what it reads.
    fn read(path: &Path) -> Npy {
        let bytes = fs::read(path).expect("a file");
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\0");
        let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let (text, data) = bytes[10..].split_at(header);
        assert!((10 + header).is_multiple_of(64) && text.ends_with(b"\n"));
        let text = str::from_utf8(text).expect("ASCII");
        let (descr, rest) =
            text.strip_prefix("{'descr': '").expect("descr").split_once("', 'f").expect("descr");
        let (order, rest) =
            rest.strip_prefix("ortran_order': ").expect("order").split_once(", 'shape': (").expect("shape");
        let (shape, rest) = rest.split_once(')').expect("a tuple");
        assert_eq!(rest.trim_end(), ", }");
        let shape = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
        Npy {
            descr: descr.into(),
            fortran_order: order == "True",
            shape: shape.map(|extent| extent.parse().expect("an extent")).collect(),
            data: data.to_vec(),
        }
    }

    fn item(&self) -> usize {
        self.data.len() / self.shape.iter().product::<usize>()
    }

    /// An element's bytes.
    fn at(&self, index: &[usize]) -> &[u8] {
        let axes = index.iter().zip(&self.shape);
        let fold = |place: usize, (index, extent): (&usize, &usize)| place * extent + index;
        let place = if self.fortran_order { axes.rev().fold(0, fold) } else { axes.fold(0, fold) };
        &self.data[place * self.item()..][..self.item()]
    }
}

/// A version 1.0 header of a text, without any padding.
fn with_header(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("a short header").to_le_bytes();
    [&b"\x93NUMPY\x01\0"[..], &length, text.as_bytes()].concat()
}

/// Every index of a shape.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |all, extent| {
        all.iter().flat_map(|index| (0..*extent).map(|at| [&index[..], &[at]].concat())).collect()
    })
}

fn bytes_of<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    values.into_iter().flatten().collect()
}

/// (2, 3, 4) of int16.
fn cube() -> Npy {
    Npy::new("<i2", &[2, 3, 4], bytes_of((0..24i16).map(i16::to_le_bytes)))
}

// ---- the main job ------------------------------------------------------------------------------------

fn photograph() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(PHOTOGRAPH)).expect("the photograph")
}

#[test]
fn a_photograph_becomes_float32_channels_first() {
    let bytes = photograph();
    let pixels = &bytes[128..];
    let (height, width) = (400, 384);
    assert_eq!(pixels.len(), height * width * 3);
    let desk = Desk::with(&bytes);
    let result = desk.convert(&MAIN_JOB);
    assert_eq!((result.descr.as_str(), result.fortran_order), ("<f4", false));
    assert_eq!(result.shape, [3, height, width]);
    let mut values =
        result.data.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().expect("4")));
    for channel in 0..3 {
        for y in 0..height {
            for x in 0..width {
                let pixel = f32::from(pixels[(y * width + x) * 3 + channel]);
                assert_eq!(values.next(), Some(pixel), "channel {channel}, row {y}, column {x}");
            }
        }
    }
    assert_eq!(values.next(), None);
}

#[test]
fn it_says_what_it_was_what_was_done_and_what_it_became() {
    let desk = Desk::with(&photograph());
    let text = desk.ab(&[&["convert", "in.npy", "out.npy"], &MAIN_JOB[..]].concat());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "in.npy   uint8 (400, 384, 3), row-major, 450.0 KiB");
    assert_eq!(lines[1], "permute  (2, 0, 1)");
    let done = "convert  host, 1 pass, 450.0 KiB read, 1.8 MiB written (dtype, layout) in ";
    assert!(lines[2].starts_with(done) && lines[2].ends_with(" GB/s"), "{text}");
    assert_eq!(lines[3..], ["out.npy  float32 (3, 400, 384), row-major, 1.8 MiB"]);

    let text = desk.ab(&[&["plan", "in.npy"], &MAIN_JOB[..]].concat());
    let plan = "in.npy   uint8 (400, 384, 3), row-major, 450.0 KiB\n\
                permute  (2, 0, 1)\n\
                plan     host, 1 pass, 450.0 KiB read, 1.8 MiB written (dtype, layout)\n\
                because  dtype (uint8 to float32), layout (AB_LAYOUT_C asked for)\n\
                result   float32 (3, 400, 384), row-major, 1.8 MiB\n";
    assert_eq!(text, plan);

    // Nothing changes: the library says so, and the file is written.
    let text = desk.ab(&["convert", "in.npy", "same.npy"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "convert   zero copy, 0 passes, 0 B read, 0 B written");
    assert!(lines[2].starts_with("write     450.0 KiB read, 450.0 KiB written in "), "{text}");
    assert_eq!(fs::read(desk.path("same.npy")).expect("a file"), photograph());
}

#[test]
fn json_agrees() {
    let desk = Desk::with(&photograph());
    let mut done = desk.json(&[&["convert", "in.npy", "out.npy"], &MAIN_JOB[..]].concat());
    let bytes = fs::metadata(desk.path("out.npy")).expect("a file").len();
    let (input, output, report) = (&done["input"], &done["output"], &done["report"]);
    assert_eq!(input["path"], "in.npy");
    assert_eq!(input["dtype"], "uint8");
    assert_eq!(input["shape"], serde_json::json!([400, 384, 3]));
    assert_eq!(input["strides"], serde_json::json!([1152, 3, 1]));
    assert_eq!(input["order"], "c");
    assert_eq!((input["num_bytes"].as_u64(), input["data_offset"].as_u64()), (Some(460_800), Some(128)));
    assert_eq!(done["permute"], serde_json::json!([2, 0, 1]));
    assert_eq!(report["route"], "host");
    assert_eq!(report["reasons"], serde_json::json!(["dtype", "layout"]));
    assert_eq!((report["passes"].as_u64(), report["scratch_bytes"].as_u64()), (Some(1), Some(0)));
    assert_eq!(report["bytes_read"].as_u64(), Some(460_800));
    assert_eq!(report["bytes_written"].as_u64(), Some(1_843_200));
    let nanoseconds = report["nanoseconds"].as_u64().expect("a time");
    let speed = done["written"]["gigabytes_per_second"].as_f64().expect("a speed");
    assert!((speed - 2_304_000.0 / nanoseconds as f64).abs() < 1e-9);
    for key in ["bytes_read", "bytes_written", "nanoseconds"] {
        assert_eq!(done["written"][key], report[key]);
    }
    assert_eq!((output["path"].as_str(), output["file_bytes"].as_u64()), (Some("out.npy"), Some(bytes)));
    assert_eq!((output["dtype"].as_str(), output["num_bytes"].as_u64()), (Some("float32"), Some(1_843_200)));
    assert_eq!(output["shape"], serde_json::json!([3, 400, 384]));
    assert_eq!(done["notes"], serde_json::json!([]));

    // The plan is what is done, but for what only doing tells.
    let plan = desk.json(&[&["plan", "in.npy"], &MAIN_JOB[..]].concat());
    let without = |value: &mut Value, keys: &[&str]| {
        keys.iter().for_each(|key| drop(value.as_object_mut().expect("an object").remove(*key)));
    };
    without(&mut done, &["written"]);
    without(&mut done["output"], &["path", "file_bytes"]);
    done["report"]["nanoseconds"] = 0.into();
    assert_eq!(plan, done);

    let same = desk.json(&["convert", "in.npy", "same.npy"]);
    assert_eq!(same["report"]["route"], "zero_copy");
    assert_eq!(same["report"]["bytes_written"].as_u64(), Some(0));
    assert_eq!(same["written"]["bytes_written"].as_u64(), Some(460_800));
}

#[test]
fn plan_and_detect_touch_no_data() {
    // A terabyte of nothing: who reads it does not finish.
    let desk = Desk::with(&Npy::new("<f8", &[1 << 37], []).bytes());
    let file = File::options().write(true).open(desk.path("in.npy")).expect("the input");
    if let Err(error) = file.set_len((1 << 40) + 128) {
        return common::skipped(format_args!("a sparse file of a terabyte: {error}"));
    }
    let plan = desk.json(&["plan", "in.npy", "--dtype", "float32"]);
    assert_eq!(plan["report"]["bytes_read"].as_u64(), Some(1 << 40));
    assert_eq!(desk.json(&["detect", "in.npy"])["num_bytes"].as_u64(), Some(1 << 40));
    assert_eq!(desk.names(), ["in.npy"]);
}

// ---- options -----------------------------------------------------------------------------------------

#[test]
fn layouts() {
    let source = cube();
    let column_major = |shape: &[usize], axes: &[usize]| {
        // An array of the same values whose file is column-major.
        let mut places: Vec<_> = indices(&shape.iter().rev().copied().collect::<Vec<_>>());
        places.iter_mut().for_each(|index| index.reverse());
        let item = |index: Vec<usize>| {
            let mut at = vec![0; axes.len()];
            axes.iter().zip(index).for_each(|(axis, index)| at[*axis] = index);
            source.at(&at).to_vec()
        };
        let data = places.into_iter().flat_map(item).collect::<Vec<_>>();
        Npy { fortran_order: true, ..Npy::new("<i2", shape, data) }
    };
    let fortran = column_major(&[2, 3, 4], &[0, 1, 2]);
    for input in [&source, &fortran] {
        let desk = Desk::with(&input.bytes());
        for permute in [None, Some("0,1,2"), Some("2,1,0"), Some("1,2,0"), Some("-1,0,1")] {
            let axes: Vec<usize> = permute
                .unwrap_or("0,1,2")
                .split(',')
                .map(|axis| axis.parse::<i64>().expect("an axis").rem_euclid(3) as usize)
                .collect();
            for layout in ["any", "c", "f", "keep"] {
                for copy in ["if-needed", "always"] {
                    let mut options = vec!["--layout", layout, "--copy", copy];
                    options.extend(permute.iter().flat_map(|axes| ["--permute", axes]));
                    let result = desk.convert(&options);
                    let case = format!("{} {options:?}", input.fortran_order);
                    for index in indices(&source.shape) {
                        let at: Vec<usize> = axes.iter().map(|axis| index[*axis]).collect();
                        assert_eq!(result.at(&at), source.at(&index), "{case}");
                    }
                    let straight = axes == [0, 1, 2];
                    let reversed = axes == [2, 1, 0];
                    let kept = if straight { input.fortran_order } else { reversed && !input.fortran_order };
                    let expected = match (layout, copy) {
                        ("c", _) | ("any", "always") => false,
                        ("f", _) => true,
                        // An order that .npy cannot say becomes row-major.
                        _ => kept,
                    };
                    assert_eq!(result.fortran_order, expected, "{case}");
                    let text = desk.ab(&[&["plan", "in.npy"], &options[..]].concat());
                    let unsayable = !straight
                        && !reversed
                        && matches!((layout, copy), ("keep", _) | ("any", "if-needed"));
                    assert_eq!(text.contains("note"), unsayable, "{case}: {text}");
                }
            }
        }
    }
    assert_eq!(Desk::with(&fortran.bytes()).convert(&[]), source);
    assert_eq!(Desk::with(&source.bytes()).convert(&["--layout", "f"]), fortran);
}

#[test]
fn devices() {
    let desk = Desk::with(&cube().bytes());
    for device in ["cpu", "cpu:0", "cpu:7"] {
        assert_eq!(desk.convert(&["--device", device]), cube());
    }
    let info = desk.json(&["info"]);
    for (backend, device) in [("cuda", "cuda:1"), ("opencl", "opencl"), ("cuda", "cuda_host")] {
        let listed =
            info["backends"].as_array().expect("backends").iter().find(|found| found["name"] == backend);
        let listed = listed.expect("a backend");
        if listed["available"] == false {
            for verb in [&["plan", "in.npy"][..], &["convert", "in.npy", "new.npy"]] {
                let line = desk.refused(&[verb, &["--device", device]].concat());
                assert!(line.starts_with(&format!("ab: {backend}: ")), "{line}");
                assert!(line.contains(listed["why"].as_str().expect("why")), "{line}");
            }
        }
    }
    // To the device and back, and it says so.
    let of_opencl =
        info["backends"].as_array().expect("backends").iter().find(|found| found["name"] == "opencl");
    if of_opencl.is_some_and(|opencl| opencl["available"] == true) {
        assert!(desk.ab(&["info"]).contains("opencl:0"));
        let there_and_back = ["convert", "in.npy", "half.npy", "--device", "opencl:0", "--dtype", "float16"];
        let text = desk.ab(&there_and_back);
        assert!(text.contains("convert   upload, 1 pass") && text.contains("write     download, "), "{text}");
        desk.ab(&["convert", "in.npy", "same.npy", "--dtype", "float16"]);
        let read = |name: &str| fs::read(desk.path(name)).expect(name);
        assert_eq!(read("half.npy"), read("same.npy"));
    } else {
        common::skipped("ab convert --device opencl:0: no OpenCL device is here (pocl-opencl-icd is one)");
    }
    let line = desk.refused(&["plan", "in.npy", "--device", "metal"]);
    assert!(line.contains("no backend moves data of this device type"), "{line}");
}

#[test]
fn copying_never() {
    let desk = Desk::with(&cube().bytes());
    assert_eq!(desk.convert(&["--copy", "never"]), cube());
    let refused = |options: &[&str]| {
        desk.refused(&[&["convert", "in.npy", "new.npy", "--copy", "never"], options].concat())
    };
    let line = refused(&["--dtype", "float32", "--permute", "2,1,0"]);
    let reasons = "because of dtype (int16 to float32), layout (AB_LAYOUT_C asked for)";
    assert!(line.contains("copy is AB_COPY_NEVER") && line.contains(reasons), "{line}");
    // A reversed array is column-major: nothing is in the way.
    desk.ab(&["plan", "in.npy", "--copy", "never", "--permute", "2,1,0", "--layout", "f"]);
}

#[test]
fn casting_rules_and_saturation() {
    let values = [300.0f32, -1.0, 2.5, f32::NAN, 255.0, f32::INFINITY];
    let floats = Npy::new("<f4", &[6], bytes_of(values.map(f32::to_le_bytes)));
    let desk = Desk::with(&floats.bytes());
    for rule in ["same-kind", "safe"] {
        let line = desk.refused(&["convert", "in.npy", "out.npy", "--dtype", "uint8", "--casting", rule]);
        assert!(line.contains("does not allow float32 to uint8"), "{line}");
    }
    let line = desk.refused(&["convert", "in.npy", "out.npy", "--dtype", "uint8", "--casting", "exact"]);
    assert!(line.contains("a value of float32 is none of uint8"), "{line}");
    assert_eq!(desk.convert(&["--dtype", "uint8"]).data, [255, 0, 2, 0, 255, 255]);
    assert_eq!(desk.convert(&["--dtype", "uint8", "--casting", "unsafe"]).data, [255, 0, 2, 0, 255, 255]);
    let wide = desk.convert(&["--dtype", "float64", "--casting", "exact"]);
    assert_eq!(wide.data.len(), 48);
    desk.ab(&["plan", "in.npy", "--dtype", "float16", "--casting", "same-kind"]);
    desk.ab(&["plan", "in.npy", "--dtype", "float64", "--casting", "safe"]);

    let integers = Npy::new("<i2", &[4], bytes_of([300i16, -5, 7, 256].map(i16::to_le_bytes)));
    let desk = Desk::with(&integers.bytes());
    assert_eq!(desk.convert(&["--dtype", "uint8"]).data, [44, 251, 7, 0]);
    assert_eq!(desk.convert(&["--dtype", "uint8", "--saturate"]).data, [255, 0, 7, 255]);
}

#[test]
fn permutations_that_are_none() {
    let desk = Desk::with(&cube().bytes());
    for (permute, message) in [
        ("0,1", "names 2 axes, and the array has 3"),
        ("0,1,2,3", "names 4 axes, and the array has 3"),
        ("0,1,1", "names axis 1 twice"),
        ("0,2,-1", "names axis 2 twice"),
        ("0,1,3", "there is no axis 3"),
        ("0,1,-4", "there is no axis -4"),
        ("0,1,-9223372036854775808", "there is no axis"),
        ("0,1,99999999999999999999", "expected axes like 2,0,1"),
        ("0;1;2", "expected axes like 2,0,1"),
        ("", "names 0 axes"),
    ] {
        let line = desk.refused(&["convert", "in.npy", "out.npy", "--permute", permute]);
        assert!(line.contains(message), "{line}");
    }
}

// ---- dtypes ------------------------------------------------------------------------------------------

/// Name, how NumPy and ml_dtypes describe it, bytes, and whether a file says which it is.
const DTYPES: [(&str, &str, usize, bool); 31] = [
    ("bool", "|b1", 1, true),
    ("int8", "|i1", 1, true),
    ("int16", "<i2", 2, true),
    ("int32", "<i4", 4, true),
    ("int64", "<i8", 8, true),
    ("uint8", "|u1", 1, true),
    ("uint16", "<u2", 2, true),
    ("uint32", "<u4", 4, true),
    ("uint64", "<u8", 8, true),
    ("float16", "<f2", 2, true),
    ("bfloat16", "<V2", 2, true),
    ("float32", "<f4", 4, true),
    ("float64", "<f8", 8, true),
    ("complex64", "<c8", 8, true),
    ("complex128", "<c16", 16, true),
    ("float8_e3m4", "<V1", 1, false),
    ("float8_e4m3", "<V1", 1, false),
    ("float8_e4m3b11fnuz", "<V1", 1, false),
    ("float8_e4m3fn", "<V1", 1, false),
    ("float8_e4m3fnuz", "<V1", 1, false),
    ("float8_e5m2", "<f1", 1, true),
    ("float8_e5m2fnuz", "<V1", 1, false),
    ("float8_e8m0fnu", "<V1", 1, false),
    ("float6_e2m3fn", "<V1", 1, false),
    ("float6_e3m2fn", "<V1", 1, false),
    ("float4_e2m1fn", "<V1", 1, false),
    // Copied, not cast.
    ("int4", "<V1", 1, false),
    ("uint4", "<V1", 1, false),
    ("int2", "<V1", 1, false),
    ("complex32", "<W4", 4, false),
    ("bcomplex32", "<W4", 4, false),
];

#[test]
fn every_dtype_goes_through() {
    for (name, descr, bytes, told) in DTYPES {
        // Bits that every dtype has: 0 and 1.
        let data: Vec<u8> = (0..6 * bytes).map(|at| (at * at % 7 < 3).into()).collect();
        let source = Npy::new(descr, &[2, 3], data);
        let desk = Desk::with(&source.bytes());
        let named = ["--source-dtype", name];
        let named = if told { &[][..] } else { &named };
        let detected = desk.json(&[&["detect", "in.npy"], named].concat());
        assert_eq!(detected["dtype"], name);
        let padded =
            ["float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int4", "uint4", "int2"].contains(&name);
        let flags = detected["flags"].as_array().expect("flags");
        assert_eq!(flags.contains(&"subbyte_padded".into()), padded, "{name}");
        let turned = desk.convert(&[&["--permute", "1,0"], named].concat());
        assert_eq!((&*turned.descr, &turned.shape[..]), (descr, &[3, 2][..]), "{name}");
        for index in indices(&[2, 3]) {
            assert_eq!(turned.at(&[index[1], index[0]]), source.at(&index), "{name}");
        }
        if !told {
            let line = desk.refused(&["detect", "in.npy"]);
            assert!(line.contains("--source-dtype"), "{line}");
        }
    }
}

#[test]
fn every_dtype_comes_out_of_integers() {
    let desk = Desk::with(&Npy::new("|u1", &[4], [0, 1, 2, 4]).bytes());
    for (name, descr, bytes, told) in &DTYPES[..26] {
        let result = desk.convert(&["--dtype", name]);
        assert_eq!((&*result.descr, result.data.len()), (*descr, 4 * bytes), "{name}");
        if *name == "float8_e8m0fnu" {
            continue; // which has no zero
        }
        // And back.
        fs::rename(desk.path("out.npy"), desk.path("there.npy")).expect("a file");
        let named = ["--source-dtype", name];
        let named = if *told { &[][..] } else { &named };
        desk.ab(&[&["convert", "there.npy", "back.npy", "--dtype", "uint8"], named].concat());
        let expected = if *name == "bool" { [0, 1, 1, 1] } else { [0, 1, 2, 4] };
        assert_eq!(Npy::read(&desk.path("back.npy")).data, expected, "{name}");
    }
    assert_eq!(desk.convert(&["--dtype", "bfloat16"]).data, [0, 0, 0x80, 0x3f, 0, 0x40, 0x80, 0x40]);
    // A byte for each element, as ml_dtypes has it.
    assert_eq!(desk.convert(&["--dtype", "float4_e2m1fn"]).data, [0, 2, 4, 6]);
    assert_eq!(desk.convert(&["--dtype", "<f8"]).descr, "<f8");
    let line = desk.refused(&["plan", "in.npy", "--dtype", "int4"]);
    assert!(line.contains("int4 is copied, never cast"), "{line}");
}

#[test]
fn elements_may_be_named() {
    // What PyTorch users save as uint16.
    let desk = Desk::with(&Npy::new("<u2", &[2], [0x80, 0x3f, 0x40, 0xc0]).bytes());
    let floats = desk.convert(&["--source-dtype", "bfloat16", "--dtype", "float32"]);
    assert_eq!(floats.data, bytes_of([1.0f32, -3.0].map(f32::to_le_bytes)));
    let line = desk.refused(&["plan", "in.npy", "--source-dtype", "float32"]);
    assert!(line.contains("elements of 2 bytes") && line.contains("float32 have 4"), "{line}");
    let line = desk.refused(&["plan", "in.npy", "--source-dtype", "int8x2"]);
    assert!(line.contains("hold no such elements"), "{line}");
    for (descr, named) in [("|V4", "float32"), ("<M8[ns]", "int64"), ("<m8", "int64"), ("|V1", "uint8")] {
        let bytes = descr[2..3].parse().expect("a size");
        let desk = Desk::with(&Npy::new(descr, &[1], vec![0; bytes]).bytes());
        assert_eq!(desk.json(&["detect", "in.npy", "--source-dtype", named])["dtype"], named);
    }
}

// ---- shapes and headers ------------------------------------------------------------------------------

#[test]
fn arrays_of_no_axes_and_of_no_elements() {
    let desk = Desk::with(&Npy::new("<f8", &[], 2.5f64.to_le_bytes()).bytes());
    assert_eq!(desk.convert(&["--dtype", "float32"]), Npy::new("<f4", &[], 2.5f32.to_le_bytes()));
    assert_eq!(desk.convert(&["--permute", "", "--layout", "f"]), Npy::new("<f8", &[], 2.5f64.to_le_bytes()));
    assert!(desk.ab(&["detect", "in.npy"]).starts_with("in.npy       float64 (), row-major, 8 B\n"));

    let desk = Desk::with(&Npy::new("<f8", &[3, 0, 5], []).bytes());
    let result = desk.convert(&["--dtype", "float32", "--permute", "1,2,0"]);
    assert_eq!(result, Npy::new("<f4", &[0, 5, 3], []));
    let done = desk.json(&["convert", "in.npy", "out.npy", "--dtype", "int8"]);
    assert_eq!(done["written"]["gigabytes_per_second"], Value::Null);
    let flags = desk.json(&["detect", "in.npy"])["flags"].clone();
    assert!(flags.as_array().expect("flags").contains(&"empty".into()));
    desk.ab(&["convert", "in.npy", "out.npy"]);

    // NumPy loads it: no elements are no elements.
    let desk = Desk::with(&Npy::new("<f8", &[0, usize::MAX >> 1], []).bytes());
    assert_eq!(desk.convert(&["--dtype", "int8"]).shape, [0, usize::MAX >> 1]);

    let many = vec![1; 64];
    let desk = Desk::with(&Npy::new("|i1", &many, [7]).bytes());
    assert_eq!(desk.convert(&["--dtype", "int16"]), Npy::new("<i2", &many, [7, 0]));
}

#[test]
fn headers_of_every_version_and_style() {
    let text = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 4), }\n";
    let wide = |version: u8, text: &str| {
        let length = u32::try_from(text.len()).expect("a length").to_le_bytes();
        [&b"\x93NUMPY"[..], &[version, 0], &length, text.as_bytes(), &cube().data].concat()
    };
    for bytes in [
        [with_header(text), cube().data].concat(),
        wide(2, text),
        wide(3, text),
        wide(2, &[text, &" ".repeat(70_000)].concat()),
        wide(3, "{\"shape\":(2L,3L,4L),\"descr\":\"=i2\",\n \"fortran_order\":False}"),
    ] {
        let desk = Desk::with(&bytes);
        assert_eq!(desk.convert(&["--dtype", "int16"]), cube());
        assert_eq!(desk.convert(&["--permute", "2,0,1", "--dtype", "float64"]).shape, [4, 2, 3]);
    }
    // What is behind the array, as np.save in an open file leaves it, is none of it.
    let desk = Desk::with(&[cube().bytes(), cube().bytes()].concat());
    assert_eq!(desk.convert(&[]), cube());
    assert!(
        desk.ab(&["convert", "in.npy", "out.npy"]).contains("bytes behind the input's array are left out\n")
    );
    assert!(desk.ab(&["detect", "in.npy"]).contains("bytes behind the array\n"));
}

#[test]
fn detect_describes() {
    let desk = Desk::with(&photograph());
    let text = "in.npy       uint8 (400, 384, 3), row-major, 450.0 KiB\n\
                strides      (1152, 3, 1) elements\n\
                data         460800 B from byte 128 on\n\
                alignment    128 B\n\
                flags        c_contiguous, dense, read_only, host_readable\n\
                accepted by  numpy\n";
    assert_eq!(desk.ab(&["detect", "in.npy"]), text);
    let json = desk.json(&["detect", "in.npy"]);
    assert_eq!(json["alignment"].as_u64(), Some(128));
    assert_eq!(json["accepted_by"], serde_json::json!(["numpy"]));
    assert_eq!(json["strides"], serde_json::json!([1152, 3, 1]));
    let flags = serde_json::json!(["c_contiguous", "dense", "read_only", "host_readable"]);
    assert_eq!(json["flags"], flags);

    let misaligned =
        [with_header("{'descr':'<f4','fortran_order':True,'shape':(1,2)}\n"), vec![0; 8]].concat();
    let json = Desk::with(&misaligned).json(&["detect", "in.npy"]);
    let flags = serde_json::json!([
        "c_contiguous",
        "f_contiguous",
        "dense",
        "read_only",
        "host_readable",
        "misaligned"
    ]);
    assert_eq!(json["flags"], flags);
}

#[test]
fn info_lists_backends() {
    let desk = Desk::empty();
    let info = desk.json(&["info"]);
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    let backends = info["backends"].as_array().expect("backends");
    let names: Vec<_> = backends.iter().map(|backend| backend["name"].as_str().expect("a name")).collect();
    assert!(["host", "cuda", "opencl"].iter().all(|name| names.contains(name)), "{names:?}");
    let host = &backends[0];
    assert_eq!((&host["available"], &host["devices"][0]["device"]), (&true.into(), &"cpu:0".into()));
    assert!(host["devices"][0]["total_memory"].is_u64());
    let text = desk.ab(&["info"]);
    for backend in backends {
        let line = text.lines().find(|line| line.starts_with(backend["name"].as_str().expect("a name")));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        assert_eq!(line.contains("unavailable: "), backend["available"] == false, "{text}");
    }
}

#[test]
fn help_exists() {
    let desk = Desk::empty();
    for arguments in [
        &["--help"][..],
        &["help"],
        &["convert", "--help"],
        &["plan", "-h"],
        &["detect", "-h"],
        &["info", "-h"],
    ] {
        assert!(desk.ab(arguments).contains("Usage: ab"), "{arguments:?}");
    }
    let help = desk.ab(&["convert", "--help"]);
    for option in
        ["dtype", "layout", "permute", "device", "copy", "casting", "saturate", "source-dtype", "json"]
    {
        assert!(help.contains(&format!("--{option}")), "{help}");
    }
    assert!(help.contains("[default: c]"));
    assert_eq!(desk.ab(&["--version"]), concat!("ab ", env!("CARGO_PKG_VERSION"), "\n"));
    let bare = desk.command(&[]).output().expect("ab");
    assert_eq!((bare.status.code(), bare.stdout.len()), (Some(2), 0));
}

// ---- refusals ----------------------------------------------------------------------------------------

#[test]
fn bad_files_are_refused_in_one_line() {
    let dict = |descr: &str, order: &str, shape: &str| {
        with_header(&format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"))
    };
    let of = |descr: &str| [dict(&format!("'{descr}'"), "False", "(2,)"), vec![0; 64]].concat();
    let shaped = |shape: &str| [dict("'<f4'", "False", shape), vec![0; 64]].concat();
    let text = |text: &str| [with_header(text), vec![0; 64]].concat();
    let whole = cube().bytes();
    let absurd_header = |version: u8, length: u32| {
        [&b"\x93NUMPY"[..], &[version, 0], &length.to_le_bytes(), &[b' '; 64]].concat()
    };
    let long_header = || {
        let mut bytes = absurd_header(2, 3 << 20);
        bytes.resize(4 << 20, b' ');
        bytes
    };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "not a .npy file"),
        (b"\x93NUM".to_vec(), "not a .npy file"),
        (b"PK\x03\x04 an npz archive".to_vec(), "not a .npy file"),
        (b"\x93NUMPY\x01\0".to_vec(), "truncated"),
        (b"\x93NUMPY\x01\0\x05".to_vec(), "truncated"),
        (b"\x93NUMPY\x04\0\0\0\0\0".to_vec(), "version 4.0"),
        (whole[..20].to_vec(), "truncated"),
        (whole[..whole.len() - 1].to_vec(), "truncated: (2, 3, 4) of int16 take 48 bytes, and 47 are there"),
        (absurd_header(2, u32::MAX), "header claims 4294967295 bytes"),
        (absurd_header(3, 1 << 31), "header claims 2147483648 bytes"),
        (long_header(), "header of 3145728 bytes"),
        (of("|O"), "Python objects"),
        (of("<U5"), "text"),
        (of("|S5"), "text"),
        (of("<M8[ns]"), "--source-dtype int64"),
        (of("<m8[s]"), "--source-dtype int64"),
        (of("<f16"), "extended precision"),
        (of("<c32"), "extended precision"),
        (of(">f4"), "byte order"),
        (of(">i2"), "byte order"),
        (of("<V1"), "--source-dtype float8_e4m3fn"),
        (of("|V8"), "raw bytes"),
        (of("<W4"), "complex32"),
        (of("<b2"), "none of NumPy's numbers"),
        (of("<i16"), "none of NumPy's numbers"),
        (of("<i99999999999999999999"), "none of NumPy's numbers"),
        (of("<f0"), "none of NumPy's numbers"),
        (of("<f"), "none of NumPy's numbers"),
        (of("<"), "none of NumPy's numbers"),
        (of(""), "none of NumPy's numbers"),
        (of("é4"), "none of NumPy's numbers"),
        (of("<f4\n"), "none of NumPy's numbers"),
        (dict("[('x', '<f4'), ('y', '<i2')]", "False", "(2,)"), "structured"),
        (dict("('<f4', (2,))", "False", "(2,)"), "structured"),
        (shaped("(-1,)"), "negative"),
        (shaped("(2, -9223372036854775808)"), "negative"),
        (shaped("(9223372036854775808,)"), "beyond 63 bits"),
        (shaped("(9999999999999999999999999,)"), "beyond 63 bits"),
        (shaped("(9223372036854775807,)"), "beyond 63 bits"),
        (shaped("(4294967296, 4294967296)"), "beyond 63 bits"),
        (shaped("(2305843009213693951, 1)"), "beyond 63 bits"),
        (shaped("(1000000000, 1000)"), "truncated"),
        (shaped(&format!("({})", "1,".repeat(65))), "more than 64 axes"),
        (shaped("(3)"), "not a tuple"),
        (shaped("3"), "broken header"),
        (shaped("(1.5,)"), "broken header"),
        (shaped("(True,)"), "broken header"),
        (shaped("(2, 3"), "broken header"),
        (shaped("None"), "broken header"),
        (dict("'<f4'", "1", "(2,)"), "True or False"),
        (dict("None", "False", "(2,)"), "broken header"),
        (text("{'fortran_order': False, 'shape': (2,), }"), "no \"descr\""),
        (text("{'descr': '<f4', 'shape': (2,), }"), "no \"fortran_order\""),
        (text("{'descr': '<f4', 'fortran_order': False}"), "no \"shape\""),
        (text("{}"), "no \"descr\""),
        (text("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}"), "unknown key \"x\""),
        (text("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (2,)}"), "twice"),
        (text("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } garbage"), "\"garbage\""),
        (text("{'descr': '<f4"), "broken header"),
        (text("[1, 2]"), "broken header"),
        (text(""), "broken header"),
        (text(&"(".repeat(60_000)), "broken header"),
        (text("\u{1b}[31m\r\n\0"), "broken header"),
    ];
    for (bytes, message) in cases {
        let desk = Desk::with(&bytes);
        let excerpt = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
        for verb in [&["detect", "in.npy"][..], &["plan", "in.npy"], &["convert", "in.npy", "out.npy"]] {
            let line = desk.refused(verb);
            assert!(line.starts_with("ab: in.npy: ") && line.contains(message), "{excerpt}: {line}");
            assert!(line.len() < 300 && !line.trim_end().contains(char::is_control), "{line}");
        }
        // Whatever the elements are said to be, the header must hold.
        if !message.contains("source-dtype")
            && !message.contains("raw bytes")
            && !message.contains("complex32")
        {
            let output =
                desk.command(&["plan", "in.npy", "--source-dtype", "complex128"]).output().expect("ab");
            let extended = message == "extended precision" || message == "none of NumPy's numbers";
            if !(extended && output.status.success()) {
                refusal(&output);
            }
        }
    }
}

#[test]
fn bad_places_are_refused_in_one_line() {
    let desk = Desk::with(&cube().bytes());
    fs::create_dir(desk.path("folder")).expect("a folder");
    let line = desk.refused(&["convert", "missing.npy", "out.npy"]);
    assert!(line.starts_with("ab: missing.npy: No such file"), "{line}");
    let line = desk.refused(&["convert", "two\nlines.npy", "out.npy"]);
    assert!(line.starts_with("ab: two\\nlines.npy: No such file"), "{line}");
    for input in ["folder", "/dev/null"] {
        let line = desk.refused(&["detect", input]);
        assert!(line.contains("is not a regular file"), "{line}");
    }
    for output in ["folder", "/dev/null"] {
        let line = desk.refused(&["convert", "in.npy", output]);
        assert!(line.contains("is not a regular file"), "{line}");
    }
    for output in ["missing/out.npy", "in.npy/out.npy"] {
        let line = desk.refused(&["convert", "in.npy", output]);
        assert!(line.starts_with(&format!("ab: {output}: ")), "{line}");
    }
    assert!(Path::new("/dev/null").metadata().is_ok_and(|null| !null.is_file()));
    let long = "x".repeat(300);
    desk.refused(&["convert", "in.npy", &long]);
    assert_eq!(fs::read(desk.path("in.npy")).expect("the input"), cube().bytes());
}

#[test]
fn bad_options_are_refused_in_one_line() {
    let desk = Desk::with(&cube().bytes());
    for (options, message) in [
        (&["--dtype", "float31"][..], "float31"),
        (&["--dtype", ">f4"], "byte order"),
        (&["--dtype", "object"], "object"),
        (&["--layout", "r"], "[possible values: any, c, f, keep]"),
        (&["--copy", "maybe"], "if-needed, always, never"),
        (&["--casting", "equiv"], "unsafe, same-kind, safe, exact"),
        (&["--device", "gpu"], "cpu, cuda:0 or opencl:0"),
        (&["--device", "cuda:-1"], "a device's number"),
        (&["--device", "cuda:"], "a device's number"),
        (&["--device", "cuda:99999999999"], "a device's number"),
        (&["--permute", "a"], "axes like 2,0,1"),
        (&["--permute"], "a value is required"),
        (&["--nonsense"], "--nonsense"),
        (&["--dtyp", "int8"], "--dtype"),
        (&["third.npy"], "third.npy"),
        (&["--json", "--json"], "--json"),
    ] {
        let line = desk.refused(&[&["convert", "in.npy", "out.npy"], options].concat());
        assert!(line.contains(message), "{line}");
    }
    for arguments in [&["convert"][..], &["convert", "in.npy"], &["plan"], &["detect"], &["frobnicate"]] {
        desk.refused(arguments);
    }
}

// ---- the output appears whole or not at all ------------------------------------------------------------

#[test]
fn the_output_may_be_the_input() {
    let desk = Desk::with(&cube().bytes());
    desk.ab(&["convert", "in.npy", "in.npy", "--dtype", "float64"]);
    desk.ab(&["convert", "in.npy", "./in.npy", "--permute", "2,1,0", "--layout", "f"]);
    let result = Npy::read(&desk.path("in.npy"));
    let expected = bytes_of((0..24).map(|value| f64::from(value).to_le_bytes()));
    assert_eq!(result, Npy { fortran_order: true, ..Npy::new("<f8", &[4, 3, 2], expected) });
    desk.refused(&["convert", "in.npy", "in.npy", "--casting", "safe", "--dtype", "int8"]);
    assert_eq!(Npy::read(&desk.path("in.npy")), result);
    assert_eq!(desk.names(), ["in.npy"]);
}

#[cfg(unix)]
#[test]
fn permissions_and_links_are_as_one_expects() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let desk = Desk::with(&cube().bytes());
    let mode = |name: &str| fs::metadata(desk.path(name)).expect("a file").permissions().mode() & 0o7777;
    for (umask, expected) in [("022", 0o644), ("027", 0o640), ("000", 0o666)] {
        let _ = fs::remove_file(desk.path("out.npy"));
        let script = format!("umask {umask}; exec \"$0\" convert in.npy out.npy");
        let status = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_ab")])
            .current_dir(desk.0.path())
            .stdout(Stdio::null())
            .status();
        assert!(status.expect("sh").success());
        assert_eq!(mode("out.npy"), expected);
    }
    // A file that is replaced keeps its own.
    fs::set_permissions(desk.path("out.npy"), fs::Permissions::from_mode(0o604)).expect("a mode");
    desk.convert(&["--dtype", "int8"]);
    assert_eq!(mode("out.npy"), 0o604);
    // A link leads to the file.
    symlink("out.npy", desk.path("link.npy")).expect("a link");
    desk.ab(&["convert", "in.npy", "link.npy", "--dtype", "int64"]);
    assert!(fs::symlink_metadata(desk.path("link.npy")).expect("a link").is_symlink());
    assert_eq!(Npy::read(&desk.path("out.npy")).descr, "<i8");
    assert_eq!(desk.names(), ["in.npy", "link.npy", "out.npy"]);
    // An input that only its owner may read, and nobody write, is enough.
    fs::set_permissions(desk.path("in.npy"), fs::Permissions::from_mode(0o400)).expect("a mode");
    assert_eq!(desk.convert(&[]), cube());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    // A limit of a block a file, whose signal is ignored, stands in for it.
    let desk = Desk::with(&photograph());
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" convert in.npy out.npy --dtype complex128";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_ab")]).current_dir(desk.0.path());
    let line = refusal(&command.output().expect("sh"));
    assert!(line.starts_with("ab: out.npy: File too large"), "{line}");
    assert_eq!(desk.names(), ["in.npy"]);
}

/// Numbers that are random enough.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[test]
fn killed_at_any_moment_it_leaves_all_or_nothing() {
    const ELEMENTS: usize = 4 << 20;
    let desk = Desk::with(&Npy::new("|u1", &[64, ELEMENTS / 64], []).bytes());
    let file = File::options().write(true).open(desk.path("in.npy")).expect("the input");
    file.set_len((ELEMENTS + 128) as u64).expect("a sparse file");
    let arguments = ["convert", "in.npy", "out.npy", "--dtype", "float32", "--permute", "1,0"];
    let start = Instant::now();
    desk.ab(&arguments);
    let whole_run = start.elapsed();
    let whole = fs::read(desk.path("out.npy")).expect("the output");
    assert_eq!(whole.len() % 64, 0);
    fs::remove_file(desk.path("out.npy")).expect("the output");
    let (mut absent, mut complete) = (0, 0);
    for _ in 0..16 {
        let mut command = desk.command(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ab");
        std::thread::sleep(Duration::from_nanos(random() % (whole_run.as_nanos() as u64 * 5 / 4)));
        child.kill().expect("a signal");
        child.wait().expect("ab");
        *if desk.has_all_or_nothing(&whole) { &mut complete } else { &mut absent } += 1;
    }
    println!("killed: {absent} times nothing, {complete} times all");
}

/// What the files are changes at system calls only: killed before and after each of them, from the first to the
/// last.
#[cfg(target_os = "linux")]
#[test]
fn killed_at_every_system_call_it_leaves_all_or_nothing() {
    use std::os::unix::process::CommandExt;
    let desk = Desk::with(&cube().bytes());
    let arguments = ["convert", "in.npy", "out.npy", "--dtype", "float64"];
    desk.ab(&arguments);
    let whole = fs::read(desk.path("out.npy")).expect("the output");
    fs::remove_file(desk.path("out.npy")).expect("the output");
    let (mut absent, mut complete) = (0, 0);
    for stops in 1.. {
        let mut command = desk.command(&arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec the child makes one system call.
        unsafe {
            command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return common::skipped(format!("ab killed at each system call: ptrace: {error}")),
        };
        let (id, mut status) = (child.id() as libc::pid_t, 0);
        // The first stop is that of its exec.
        let runs = (0..stops).all(|_| {
            // SAFETY: the child is this thread's to trace, and it is stopped when it is told to go on.
            unsafe {
                assert_eq!(libc::waitpid(id, &mut status, 0), id);
                libc::WIFSTOPPED(status) && libc::ptrace(libc::PTRACE_SYSCALL, id, 0, 0) == 0
            }
        });
        if !runs {
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
            assert!(desk.has_all_or_nothing(&whole));
            break;
        }
        // SAFETY: as above; here it stays stopped.
        assert_eq!(unsafe { libc::waitpid(id, &mut status, 0) }, id);
        if libc::WIFSTOPPED(status) {
            child.kill().expect("a signal");
            child.wait().expect("ab");
        }
        *if desk.has_all_or_nothing(&whole) { &mut complete } else { &mut absent } += 1;
    }
    assert!(absent > 0 && complete > 0);
    println!("killed: {absent} times nothing, {complete} times all");
}

#[cfg(target_os = "linux")]
fn has_unnamed_files(folder: &Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).custom_flags(libc::O_TMPFILE).open(folder).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn has_unnamed_files(_folder: &Path) -> bool {
    false
}

#[test]
fn large_files_go_in_slices() {
    // (3, 2, 50 MiB) of uint8, nearly all of it a hole.
    const ROW: u64 = 50 << 20;
    let desk = Desk::with(&Npy::new("|u1", &[3, 2, ROW as usize], []).bytes());
    let mut file = File::options().write(true).open(desk.path("in.npy")).expect("the input");
    let start = file.metadata().expect("the input").len();
    file.set_len(start + 6 * ROW).expect("a sparse file");
    use std::io::{Seek, SeekFrom};
    for row in 0..6u8 {
        file.seek(SeekFrom::Start(start + u64::from(row) * ROW)).expect("a place");
        file.write_all(&[10 + row]).expect("a mark");
        file.seek(SeekFrom::Start(start + (u64::from(row) + 1) * ROW - 1)).expect("a place");
        file.write_all(&[20 + row]).expect("a mark");
    }
    let done = desk.json(&["convert", "in.npy", "out.npy", "--permute", "1,0,2"]);
    for count in [&done["report"], &done["written"]] {
        assert_eq!(count["bytes_read"].as_u64(), Some(6 * ROW));
        assert_eq!(count["bytes_written"].as_u64(), Some(6 * ROW));
    }
    let mut file = File::open(desk.path("out.npy")).expect("the output");
    for (place, row) in [0u8, 2, 4, 1, 3, 5].into_iter().enumerate() {
        for (offset, mark) in [(0, 10 + row), (ROW - 1, 20 + row)] {
            file.seek(SeekFrom::Start(128 + place as u64 * ROW + offset)).expect("a place");
            let mut byte = [0];
            file.read_exact(&mut byte).expect("a byte");
            assert_eq!(byte, [mark], "row {place}");
        }
    }
}

// ---- standard streams --------------------------------------------------------------------------------

#[test]
fn a_reader_that_leaves_is_no_error() {
    let desk = Desk::with(&cube().bytes());
    for arguments in [&["info"][..], &["detect", "in.npy"], &["convert", "in.npy", "out.npy"], &["--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = desk.command(arguments).stdout(writer).output().expect("ab");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    assert_eq!(Npy::read(&desk.path("out.npy")), cube());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_is_an_error() {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let line = refusal(&Desk::empty().command(&["info"]).stdout(full).output().expect("ab"));
    assert!(line.starts_with("ab: stdout: No space left"), "{line}");
}

// ---- NumPy -------------------------------------------------------------------------------------------

#[test]
fn numpy_agrees() {
    let Ok(python) = std::env::var("ARRAYBRIDGE_PYTHON") else {
        return common::skipped("NumPy's view of the tool's files: ARRAYBRIDGE_PYTHON names no interpreter");
    };
    let desk = Desk::with(&photograph());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/check_with_numpy.py");
    let mut command = Command::new(&python);
    command.arg(script).arg(env!("CARGO_BIN_EXE_ab")).current_dir(desk.0.path());
    let said = common::succeed(&mut command);
    said.lines().filter_map(|line| line.strip_prefix("SKIPPED: ")).for_each(common::skipped);
}
