//! What a result must be.

use super::Element;
use crate::backend::Allocator;
use crate::dlpack::raw::{DLDataType, DLDevice};
use crate::dtype::Casting;
use crate::error::Result;
use crate::plan::{ConvertOptions, CopyPolicy, LayoutPolicy};

/// What the result of a conversion must be. [`To::new`] keeps everything, and copies only where zero copy is
/// impossible; each method asks for one thing more.
///
/// ```
/// use arraybridge::{Casting, LayoutPolicy, To};
///
/// let to = To::new().dtype("bfloat16".parse()?).layout(LayoutPolicy::C).casting(Casting::SameKind);
/// # Ok::<(), arraybridge::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct To(ConvertOptions);

// SAFETY: its one pointer is that of an allocator, whose functions may be called on any thread.
unsafe impl Send for To {}
// SAFETY: as above.
unsafe impl Sync for To {}

impl To {
    /// As it is.
    pub const fn new() -> To {
        To(ConvertOptions::KEEP)
    }

    /// On this device.
    pub fn device(self, device: DLDevice) -> To {
        To(ConvertOptions { device: Some(device), ..self.0 })
    }

    /// Of this dtype, which a text may name: `"bfloat16".parse()?`.
    pub fn dtype(self, dtype: DLDataType) -> To {
        To(ConvertOptions { dtype: Some(dtype), ..self.0 })
    }

    /// Of the dtype of a Rust type.
    pub fn element<T: Element>(self) -> To {
        self.dtype(DLDataType::of::<T>())
    }

    /// Copied when.
    pub fn copy(self, copy: CopyPolicy) -> To {
        To(ConvertOptions { copy, ..self.0 })
    }

    /// In which layout.
    pub fn layout(self, layout: LayoutPolicy) -> To {
        To(ConvertOptions { layout, ..self.0 })
    }

    /// By casts that this rule allows.
    pub fn casting(self, casting: Casting) -> To {
        To(ConvertOptions { casting, ..self.0 })
    }

    /// At an address that is a multiple of so many bytes, a power of two up to 1 GiB.
    pub fn alignment(self, bytes: u32) -> To {
        To(ConvertOptions { alignment: bytes, ..self.0 })
    }

    /// So that all of these take it without a copy of their own: bits of [`crate::consumers::Consumer`].
    pub fn consumers(self, bits: u32) -> To {
        To(ConvertOptions { consumers: bits, ..self.0 })
    }

    /// With values beyond the new dtype's range made its limits.
    pub fn saturate(self) -> To {
        To(ConvertOptions { saturate: true, ..self.0 })
    }

    /// Writable: a read-only source is copied.
    pub fn writable(self) -> To {
        To(ConvertOptions { writable: true, ..self.0 })
    }

    /// From a source whose declared device the driver confirms.
    pub fn verify_pointer(self) -> To {
        To(ConvertOptions { verify_pointer: true, ..self.0 })
    }

    /// Ordered after the work on `src_stream` and before that on `dst_stream`, in the array API's numbers.
    ///
    /// # Safety
    /// Both are streams of the device, and stay while it uses them.
    pub unsafe fn streams(self, src_stream: i64, dst_stream: i64) -> To {
        To(ConvertOptions { src_stream, dst_stream, ..self.0 })
    }

    /// Once the work is ordered on `dst_stream`, not once it is done.
    ///
    /// # Safety
    /// The result is used, and the source's and the destination's memory freed or written to, in the order
    /// of that stream only.
    pub unsafe fn asynchronous(self) -> To {
        To(ConvertOptions { asynchronous: true, ..self.0 })
    }

    /// In memory of the caller's.
    ///
    /// # Safety
    /// The allocator's functions do what they say, on any thread, and outlive every result.
    pub unsafe fn allocator(self, allocator: Allocator) -> To {
        To(ConvertOptions { allocator: Some(allocator), ..self.0 })
    }

    /// All of it at once.
    ///
    /// # Safety
    /// That of [`To::streams`], [`To::asynchronous`] and [`To::allocator`], as far as they are set.
    pub unsafe fn from_options(options: ConvertOptions) -> To {
        To(options)
    }

    /// As the planner takes it, checked.
    pub fn options(&self) -> Result<&ConvertOptions> {
        self.0.check()?;
        Ok(&self.0)
    }
}
