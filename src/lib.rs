//! Brings any [DLPack](https://dmlc.github.io/dlpack/latest/) tensor to the device, dtype and layout that
//! the caller needs: zero copy whenever that is physically possible, else in one pass.
//!
//! ```
//! use arraybridge::{LayoutPolicy, To, View, copy, detect, info::Info};
//!
//! let pixels = vec![10u8, 20, 30, 11, 21, 31]; // two RGB pixels
//! let planes = View::strided(&pixels, &[3, 2], &[1, 3], 0)?; // channels first, by strides
//! assert!(detect(&planes).is(Info::F_CONTIGUOUS));
//!
//! let (planes, report) = copy(&planes, &To::new().element::<f32>().layout(LayoutPolicy::C))?;
//! assert_eq!(planes.as_slice::<f32>()?, [10.0, 11.0, 20.0, 21.0, 30.0, 31.0]);
//! assert_eq!(report.to_string(), "host, 1 pass, 6 B read, 24 B written (requested, dtype, layout)");
//! # Ok::<(), arraybridge::Error>(())
//! ```
//!
//! [`Tensor`] owns, [`View`] and [`ViewMut`] borrow, [`To`] says what a result must be; [`convert()`], [`copy`],
//! [`copy_into`], [`plan()`] and [`detect`] do what the C functions of these names do, and [`tensor`] has the
//! whole list. Tensors of other libraries come in by [`Tensor::from_raw`] and go out by
//! [`Tensor::into_raw`], as plain DLPack. Everything may be used from many threads at once, and sent to
//! others. Every failure is an [`Error`] whose message names the field, its value and what would have worked.
//!
//! Features: `cuda` and `opencl` (default; the drivers are found at run time), `ndarray` (arrays of that
//! crate in and out without copying), `cli` (the tool `ab`).
//!
//! # How it is made
//!
//! There is one way through the library, for every call:
//!
//! ```text
//! C struct ──▶ dlpack::TensorView ──▶ plan::Plan ──▶ backend jobs ──▶ dlpack::Managed (C struct)
//!  ffi           validated, borrowed     pure, no I/O    host · cuda · opencl              ffi
//! ```
//!
//! Nothing flows back: `ffi` calls `convert`, `convert` asks `plan`, hands jobs to backends, wraps the
//! result. `plan` knows no driver and moves no byte; a backend knows no DLPack and no policy. A small copy
//! within the host's memory that is like one that the same thread did before, but for addresses, goes from
//! `ffi` straight to the job that was made then.
//!
//! | module | what it answers |
//! |---|---|
//! | [`ffi`] | what C sees: every `ab_*` function, its structs and constants |
//! | [`dlpack`] | the raw structs; [`dlpack::TensorView`], checked; [`dlpack::Managed`], handed out |
//! | [`mod@dtype`] | codes, sizes, names, casting rules |
//! | [`layout`] | bounds, contiguity, overlap, folding two stride sets into one job |
//! | [`consumers`] | the table of what each importer takes |
//! | [`mod@plan`] | request and view to route, reasons and steps |
//! | [`mod@convert`] | runs a plan; [`convert::dense`]: copies what stays as it is; [`convert::recent`]: does again what came before |
//! | [`report`] | routes and reasons, and the words for them |
//! | [`context`] | limits, backends, the default context |
//! | [`backend`] | the one table that the host, CUDA and OpenCL fill, and the job that they get |
//! | [`info`] | what a tensor is, for those who ask |
//! | [`error`] | what can go wrong |
//! | [`tensor`] | the Rust API over all of it |
//!
//! `unsafe` is confined to `ffi`, `dlpack`, `backend` and `convert`, which joins them, and `tensor`.

pub mod backend;
pub mod consumers;
pub mod context;
pub mod convert;
pub mod dlpack;
pub mod dtype;
pub mod error;
pub mod ffi;
pub mod info;
pub mod layout;
pub mod plan;
pub mod report;
pub mod tensor;

pub use context::{Context, ContextOptions};
pub use dlpack::raw::{DLDataType, DLDevice};
pub use dtype::Casting;
pub use error::{Error, Result};
pub use plan::{ConvertOptions, CopyPolicy, LayoutPolicy};
pub use report::Report;
pub use tensor::{Element, Rejected, Tensor, To, View, ViewMut, convert, copy, copy_into, detect, plan};

/// The crate's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
