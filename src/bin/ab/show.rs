//! What the tool says, for people and as JSON.

use std::path::Path;

use arraybridge::backend::DeviceInfo;
use arraybridge::consumers;
use arraybridge::dlpack::raw::{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
use arraybridge::dlpack::view::{Dims, TensorView};
use arraybridge::report::{Bytes, Reasons, Report, Route, consumer_names};
use arraybridge::{Context, VERSION};
use memmap2::Mmap;
use serde_json::{Value, json};

use crate::Failure;
use crate::args::Request;
use crate::file::Input;
use crate::job::{Done, Job, Moved};
use crate::npy::{Array, Shape};

/// Lines of a label and what it says, aligned.
#[derive(Default)]
struct Lines(Vec<(String, String)>);

impl Lines {
    fn add(&mut self, label: impl Into<String>, text: impl ToString) {
        self.0.push((one_line(&label.into()), text.to_string()));
    }

    fn text(&self) -> String {
        let width = self.0.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
        self.0.iter().map(|(label, text)| format!("{label:width$}  {text}\n")).collect()
    }
}

/// A text without control characters, which file names may have.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// The file that has been written.
pub struct Output<'a> {
    pub path: &'a Path,
    pub array: &'a Array,
    pub file_bytes: u64,
}

/// What `ab convert` says.
pub fn converted(
    input: &Input,
    request: &Request,
    done: &Done,
    output: &Output<'_>,
    notes: &[String],
    json: bool,
) -> String {
    let Done { report, written } = done;
    if json {
        let mut result = array_json(output.array);
        result["path"] = path_json(output.path);
        result["file_bytes"] = output.file_bytes.into();
        return line(json!({
            "input": input_json(input),
            "permute": permute_json(request),
            "report": report_json(report),
            "written": {
                "bytes_read": written.bytes_read,
                "bytes_written": written.bytes_written,
                "nanoseconds": written.nanoseconds,
                "gigabytes_per_second": speed(written),
            },
            "output": result,
            "notes": notes,
        }));
    }
    let mut lines = head(input, request);
    let straight = report.route == Route::Host as i32;
    if straight {
        lines.add("convert", format!("{report}{}", pace(written)));
    } else {
        let took = Moved {
            route: report.route,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
            nanoseconds: report.nanoseconds,
        };
        lines.add("convert", format!("{report}{}", pace(&took)));
        let (read, wrote) = (Bytes(written.bytes_read), Bytes(written.bytes_written));
        // Back from a device.
        let back = if written.route == Route::Download as i32 { "download, " } else { "" };
        lines.add("write", format!("{back}{read} read, {wrote} written{}", pace(written)));
    }
    lines.add(output.path.display().to_string(), output.array);
    notes.iter().for_each(|note| lines.add("note", note));
    lines.text()
}

/// What `ab plan` says.
pub fn planned(input: &Input, request: &Request, job: &Job, json: bool) -> String {
    let report = Report::from(&job.plan);
    if json {
        return line(json!({
            "input": input_json(input),
            "permute": permute_json(request),
            "report": report_json(&report),
            "output": array_json(&job.result),
            "notes": job.notes,
        }));
    }
    let mut lines = head(input, request);
    lines.add("plan", report);
    if job.plan.route == Route::ZeroCopy {
        lines.add("because", "nothing has to change");
    } else {
        lines.add("because", job.reasons);
    }
    lines.add("result", &job.result);
    job.notes.iter().for_each(|note| lines.add("note", note));
    lines.text()
}

/// What `ab detect` says.
pub fn detected(input: &Input, map: Mmap, json: bool) -> Result<String, Failure> {
    let axes: Vec<usize> = (0..input.array.shape.len()).collect();
    let tensor = input.tensor(map, &axes)?;
    let mut dims = Dims::new();
    let view = tensor.read(&mut dims)?;
    let consumers: Vec<&str> = consumer_names(consumers::accepted_by(view.candidate())).collect();
    let flags = flags(&view);
    if json {
        let mut value = input_json(input);
        value["alignment"] = view.alignment().into();
        value["flags"] = flags.into();
        value["accepted_by"] = consumers.into();
        return Ok(line(value));
    }
    let mut lines = Lines::default();
    lines.add(input.path.display().to_string(), &input.array);
    lines.add("strides", format!("{} elements", Shape(view.strides)));
    lines.add("data", format!("{} B from byte {} on", view.num_bytes, input.data_offset));
    lines.add("alignment", format!("{} B", view.alignment()));
    lines.add("flags", flags.join(", "));
    lines.add("accepted by", if consumers.is_empty() { "none".into() } else { consumers.join(", ") });
    if input.trailing_bytes > 0 {
        lines.add("note", format!("{} bytes behind the array", input.trailing_bytes));
    }
    Ok(lines.text())
}

/// What `ab info` says.
pub fn info(context: &Context, json: bool) -> String {
    let dlpack = format!("{DLPACK_MAJOR_VERSION}.{DLPACK_MINOR_VERSION}");
    let mut lines = Lines::default();
    let mut backends = Vec::new();
    lines.add("arraybridge", format!("{VERSION}, DLPack {dlpack}"));
    for backend in context.backends() {
        let mut description = String::new();
        // Writing to a String does not fail.
        let _ = backend.describe(&mut description);
        let why = backend.available().err();
        match why {
            None => lines.add(backend.name(), &description),
            Some(why) => lines.add(backend.name(), format!("unavailable: {why}")),
        }
        let mut devices = Vec::new();
        let listed = backend.list_devices(&mut |info, name| {
            let DeviceInfo { device, total_memory, free_memory } = info;
            // 0: unknown.
            let memory = match (total_memory, free_memory) {
                (0, _) => String::new(),
                (_, 0) => format!(", {}", Bytes(total_memory)),
                _ => format!(", {}, {} free", Bytes(total_memory), Bytes(free_memory)),
            };
            lines.add(format!("  {device}"), format!("{name}{memory}"));
            devices.push(json!({
                "device": device.to_string(),
                "name": name.to_string(),
                "total_memory": total_memory,
                "free_memory": free_memory,
            }));
        });
        if let Err(error) = listed {
            lines.add("  devices", error);
        }
        backends.push(json!({
            "name": backend.name(),
            "available": why.is_none(),
            "why": why,
            "description": description,
            "devices": devices,
        }));
    }
    if json {
        line(json!({ "version": VERSION, "dlpack": dlpack, "backends": backends }))
    } else {
        lines.text()
    }
}

fn head(input: &Input, request: &Request) -> Lines {
    let mut lines = Lines::default();
    lines.add(input.path.display().to_string(), &input.array);
    if let Some(axes) = &request.permute {
        lines.add("permute", Shape(&axes.0));
    }
    lines
}

/// " in 0.41 ms, 7.2 GB/s", where something was moved.
fn pace(moved: &Moved) -> String {
    let Some(speed) = speed(moved) else { return String::new() };
    let time = match moved.nanoseconds as f64 {
        nanoseconds @ ..1e5 => format!("{:.1} µs", nanoseconds / 1e3),
        nanoseconds @ ..1e9 => format!("{:.2} ms", nanoseconds / 1e6),
        nanoseconds => format!("{:.2} s", nanoseconds / 1e9),
    };
    let digits = if speed < 1.0 { 3 } else { 1 };
    format!(" in {time}, {speed:.digits$} GB/s")
}

/// Bytes read and written in a nanosecond.
fn speed(moved: &Moved) -> Option<f64> {
    let bytes = moved.bytes_read as f64 + moved.bytes_written as f64;
    if bytes > 0.0 && moved.nanoseconds > 0 { Some(bytes / moved.nanoseconds as f64) } else { None }
}

/// What holds of an array in a file.
fn flags(view: &TensorView<'_>) -> Vec<&'static str> {
    let facts = &view.facts;
    let flags = [
        ("c_contiguous", facts.is_c_contiguous()),
        ("f_contiguous", facts.is_f_contiguous()),
        ("dense", facts.is_dense()),
        ("empty", facts.is_empty()),
        ("read_only", view.is_read_only()),
        ("subbyte_padded", view.candidate().padded),
        ("host_readable", view.is_host_readable()),
        ("misaligned", view.is_misaligned()),
    ];
    flags.into_iter().filter(|(_, holds)| *holds).map(|(name, _)| name).collect()
}

fn line(value: Value) -> String {
    format!("{value}\n")
}

fn path_json(path: &Path) -> Value {
    path.to_string_lossy().into()
}

fn permute_json(request: &Request) -> Value {
    request.permute.as_ref().map(|axes| axes.0.clone()).into()
}

fn input_json(input: &Input) -> Value {
    let mut value = array_json(&input.array);
    value["path"] = path_json(&input.path);
    value["data_offset"] = input.data_offset.into();
    value["trailing_bytes"] = input.trailing_bytes.into();
    value
}

fn array_json(array: &Array) -> Value {
    json!({
        "dtype": array.dtype.to_string(),
        "shape": array.shape,
        "strides": array.strides(),
        "order": if array.fortran_order { "f" } else { "c" },
        "num_bytes": array.num_bytes(),
    })
}

fn report_json(report: &Report) -> Value {
    let name = |name: &str| name.replace([' ', '-'], "_");
    json!({
        "route": Route::name_of(report.route).map(name),
        "reasons": Reasons::names(report.reasons).map(name).collect::<Vec<_>>(),
        "passes": report.passes,
        "bytes_read": report.bytes_read,
        "bytes_written": report.bytes_written,
        "scratch_bytes": report.scratch_bytes,
        "nanoseconds": report.nanoseconds,
    })
}
