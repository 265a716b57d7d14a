//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use arraybridge::dtype::Casting;
use arraybridge::error::device_type_name;
use arraybridge::{ConvertOptions, CopyPolicy, DLDataType, DLDevice, LayoutPolicy};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

/// Brings .npy arrays to the dtype, layout and device that you need, in one pass
#[derive(Parser)]
#[command(name = "ab", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Converts a .npy file, and says what it was, what was done and what it became
    ///
    /// OUT appears whole or not at all, and may be IN.
    Convert {
        /// The .npy file to read
        #[arg(value_name = "IN")]
        input: PathBuf,
        /// The .npy file to write
        #[arg(value_name = "OUT")]
        output: PathBuf,
        #[command(flatten)]
        request: Request,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Says what `convert` would do and why, from the header alone
    Plan {
        /// The .npy file to read
        #[arg(value_name = "IN")]
        input: PathBuf,
        #[command(flatten)]
        request: Request,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Describes a .npy file, and names the libraries that take it as it is
    Detect {
        /// The .npy file to read
        #[arg(value_name = "FILE")]
        input: PathBuf,
        /// What the file's elements are, where its header does not say
        #[arg(long, value_name = "DTYPE")]
        source_dtype: Option<DLDataType>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Lists the backends and their devices
    Info {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What the result must be.
#[derive(Args)]
pub struct Request {
    /// Type of the result's elements, e.g. float32, bfloat16 or '<f4'; by default the input's
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<DLDataType>,
    /// Order of the result's elements: c is row-major, f column-major; any and keep may keep the order
    /// that they have after --permute, where .npy can say it
    #[arg(long, default_value = "c", value_parser = layout())]
    layout: LayoutPolicy,
    /// Reorders the axes, as numpy.transpose: 2,0,1 makes the input's last axis of three the result's first;
    /// negative ones count from the last
    #[arg(long, value_name = "AXES", allow_hyphen_values = true)]
    pub permute: Option<Axes>,
    /// Where to convert, e.g. cpu, cuda:1 or opencl:0; the result comes back to be written
    #[arg(long, value_parser = device)]
    device: Option<DLDevice>,
    /// When to copy; never fails where something has to change
    #[arg(long, value_name = "WHEN", default_value = "if-needed", value_parser = copy())]
    copy: CopyPolicy,
    /// Which casts are allowed; exact compares every value
    #[arg(long, value_name = "RULE", default_value = "unsafe", value_parser = casting())]
    casting: Casting,
    /// Values beyond the new dtype's range become its limits
    #[arg(long)]
    saturate: bool,
    /// What the input's elements are, where its header does not say (float8, float6, float4), or to read
    /// them as another dtype of their size
    #[arg(long, value_name = "DTYPE")]
    pub source_dtype: Option<DLDataType>,
}

impl Request {
    /// As the library takes it.
    pub fn options(&self) -> ConvertOptions {
        ConvertOptions {
            device: self.device,
            dtype: self.dtype,
            copy: self.copy,
            layout: self.layout,
            casting: self.casting,
            saturate: self.saturate,
            ..ConvertOptions::default()
        }
    }
}

/// A parser of one of a few names.
fn one_of<T: Clone + Send + Sync + 'static, const N: usize>(
    choices: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(choices.clone().map(|(name, _)| name)).map(move |chosen| {
        let choice = choices.iter().find(|(name, _)| *name == chosen);
        choice.map(|(_, value)| value.clone()).expect("clap has looked it up")
    })
}

fn layout() -> impl TypedValueParser<Value = LayoutPolicy> {
    one_of([
        ("any", LayoutPolicy::Any),
        ("c", LayoutPolicy::C),
        ("f", LayoutPolicy::F),
        ("keep", LayoutPolicy::Keep),
    ])
}

fn copy() -> impl TypedValueParser<Value = CopyPolicy> {
    one_of([
        ("if-needed", CopyPolicy::IfNeeded),
        ("always", CopyPolicy::Always),
        ("never", CopyPolicy::Never),
    ])
}

fn casting() -> impl TypedValueParser<Value = Casting> {
    one_of([
        ("unsafe", Casting::Unsafe),
        ("same-kind", Casting::SameKind),
        ("safe", Casting::Safe),
        ("exact", Casting::Exact),
    ])
}

/// "cuda" or "cuda:1".
fn device(text: &str) -> Result<DLDevice, &'static str> {
    let (name, id) = text.split_once(':').unwrap_or((text, "0"));
    // DLPack counts its device types from 1, and has 21 of them.
    let device_type = (1..32)
        .find(|device_type| device_type_name(*device_type) == Some(name))
        .ok_or("no device type is named so; try cpu, cuda:0 or opencl:0")?;
    let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    let device_id = if digits { id.parse().ok() } else { None };
    Ok(DLDevice { device_type, device_id: device_id.ok_or("a device's number is 0 or more")? })
}

/// An order of axes as it was given: "2,0,1".
#[derive(Clone, Debug)]
pub struct Axes(pub Vec<i64>);

impl FromStr for Axes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Axes, &'static str> {
        if text.is_empty() {
            return Ok(Axes(Vec::new()));
        }
        let axes = text.split(',').map(|axis| axis.trim().parse());
        axes.collect::<Result<_, _>>().map(Axes).map_err(|_| "expected axes like 2,0,1")
    }
}

impl Axes {
    /// The axes of a tensor of `ndim` of them, counted from the first, each once.
    pub fn of(&self, ndim: usize) -> Result<Vec<usize>, String> {
        let Axes(axes) = self;
        let asked = axes.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        if axes.len() != ndim {
            return Err(format!("--permute {asked} names {} axes, and the array has {ndim}", axes.len()));
        }
        let mut order = Vec::with_capacity(ndim);
        for &axis in axes {
            let from_first = if axis < 0 { axis.checked_add(ndim as i64) } else { Some(axis) };
            let index = from_first.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < ndim);
            let index = index
                .ok_or_else(|| format!("--permute {asked}: there is no axis {axis} in an array of {ndim}"))?;
            if order.contains(&index) {
                return Err(format!("--permute {asked} names axis {index} twice"));
            }
            order.push(index);
        }
        Ok(order)
    }
}
