//! What was done, or would be, and the words for it.
#![forbid(unsafe_code)]

use std::fmt;

use crate::dlpack::raw::{DLDataType, DLDevice};

/// Which way the data takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Route {
    ZeroCopy = 0,
    Host = 1,
    Upload = 2,
    Download = 3,
    Device = 4,
    Peer = 5,
    Staged = 6,
}

impl Route {
    const NAMES: [&str; 7] = ["zero copy", "host", "upload", "download", "device", "peer", "staged"];

    /// In one or two words.
    pub fn name(self) -> &'static str {
        Route::NAMES[self as usize]
    }

    /// The name of an `AB_ROUTE_*` that came from C; None: there is no such route.
    pub fn name_of(value: i32) -> Option<&'static str> {
        Route::NAMES.get(usize::try_from(value).ok()?).copied()
    }
}

/// Why zero copy is ruled out: `AB_REASON_*` and what a message says of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reasons {
    /// `AB_REASON_*`.
    pub bits: u32,
    pub(crate) device: (DLDevice, DLDevice),
    pub(crate) dtype: (DLDataType, DLDataType),
    pub(crate) layout: &'static str,
    pub(crate) alignment: (u32, u32),
    pub(crate) consumers: u32,
}

#[allow(missing_docs)]
impl Reasons {
    pub const REQUESTED: u32 = 0x1;
    pub const DEVICE: u32 = 0x2;
    pub const DTYPE: u32 = 0x4;
    pub const LAYOUT: u32 = 0x8;
    pub const ALIGNMENT: u32 = 0x10;
    pub const READ_ONLY: u32 = 0x20;
    pub const CONSUMER: u32 = 0x40;
    /// In the order of their bits.
    const NAMES: [&str; 7] = ["requested", "device", "dtype", "layout", "alignment", "read-only", "consumer"];

    /// The reasons in a set of bits, lowest first.
    pub fn names(bits: u32) -> impl Iterator<Item = &'static str> {
        Reasons::NAMES.iter().enumerate().filter(move |(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name)
    }
}

/// The names of consumers, by their bits: "numpy", "torch" and so on, lowest first.
pub fn consumer_names(bits: u32) -> impl Iterator<Item = &'static str> {
    const NAMES: [&str; 10] =
        ["numpy", "torch", "jax", "tensorflow", "cupy", "numba", "pyclesperanto", "paddle", "mlx", "tvm_ffi"];
    NAMES.iter().enumerate().filter(move |(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name)
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in Reasons::names(self.bits).enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(name)?;
            match name {
                "device" => write!(f, " ({} to {})", self.device.0, self.device.1)?,
                "dtype" => write!(f, " ({} to {})", self.dtype.0, self.dtype.1)?,
                "layout" => write!(f, " ({} asked for)", self.layout)?,
                "alignment" => {
                    write!(f, " ({} bytes asked for, {} there)", self.alignment.0, self.alignment.1)?
                }
                "read-only" => f.write_str(" (writable asked for)")?,
                "consumer" => {
                    f.write_str(" (not taken by ")?;
                    for (index, name) in consumer_names(self.consumers).enumerate() {
                        write!(f, "{}{name}", if index > 0 { " and " } else { "" })?;
                    }
                    f.write_str(")")?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What was done, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// `AB_ROUTE_*`.
    pub route: i32,
    /// `AB_REASON_*`.
    pub reasons: u32,
    /// Times the data is read and written.
    pub passes: u32,
    /// Bytes read of the source and of any scratch.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Peak memory besides source and result.
    pub scratch_bytes: u64,
    /// Host time of the call; 0 in a plan.
    pub nanoseconds: u64,
}

impl Report {
    /// Of nothing.
    pub(crate) const NONE: Report = Report {
        route: 0,
        reasons: 0,
        passes: 0,
        bytes_read: 0,
        bytes_written: 0,
        scratch_bytes: 0,
        nanoseconds: 0,
    };
}

impl fmt::Display for Report {
    /// "upload, 1 pass, 12.0 MiB read, 6.0 MiB written (device, dtype)"
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let route = Route::name_of(self.route).unwrap_or("unknown route");
        let plural = if self.passes == 1 { "" } else { "es" };
        let (read, written) = (Bytes(self.bytes_read), Bytes(self.bytes_written));
        write!(f, "{route}, {} pass{plural}, {read} read, {written} written", self.passes)?;
        if self.scratch_bytes > 0 {
            write!(f, ", {} scratch", Bytes(self.scratch_bytes))?;
        }
        for (index, name) in Reasons::names(self.reasons).enumerate() {
            write!(f, "{}{name}", if index == 0 { " (" } else { ", " })?;
        }
        if Reasons::names(self.reasons).next().is_some() { f.write_str(")") } else { Ok(()) }
    }
}

/// A number of bytes for people: "512 B", "12.0 MiB".
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut amount = self.0 as f64;
        let mut unit = "B";
        for larger in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
            // So that 1023.96 KiB is not shown as "1024.0 KiB".
            if amount < if unit == "B" { 1024.0 } else { 1023.95 } {
                break;
            }
            (amount, unit) = (amount / 1024.0, larger);
        }
        if unit == "B" { write!(f, "{amount} B") } else { write!(f, "{amount:.1} {unit}") }
    }
}
