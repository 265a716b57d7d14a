//! The Rust API: tensors that are owned, tensors that are borrowed, and the functions over them.
//!
//! | C | here |
//! |---|---|
//! | `DLManagedTensorVersioned` | [`Tensor`], released when it is dropped |
//! | `DLTensor` | [`View`] and [`ViewMut`], which borrow the memory |
//! | `ab_detect` | [`detect`] |
//! | `ab_convert`, `ab_copy`, `ab_copy_into`, `ab_plan` | [`convert`], [`copy`], [`copy_into`], [`plan`]; with a context of one's own, its methods of these names |
//! | `ab_convert_options` | [`To`] |
//! | `ab_wrap`, `ab_from_legacy`, `ab_to_legacy` | [`Tensor::wrap`], [`Tensor::from_raw_legacy`], [`Tensor::into_raw_legacy`] |

mod element;
#[cfg(feature = "ndarray")]
mod ndarray;
mod to;
mod view;

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::context::Context;
use crate::dlpack::managed::{self, Keep, Managed, Parts};
use crate::dlpack::raw::{
    DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION,
};
use crate::dlpack::view::{Dims, TensorView};
use crate::error::{Error, Result};
use crate::info::Info;
use crate::layout::MAX_NDIM;
use crate::report::Report;

pub use element::Element;
pub use to::To;
pub use view::{View, ViewMut};

/// A managed DLPack tensor that is owned, and released when this is dropped.
///
/// It may be sent to another thread and shared between threads (`Send` and `Sync`): what is reachable
/// through a shared reference is only read, and DLPack's deleters may be called on any thread.
///
/// ```
/// use arraybridge::{Tensor, To, convert};
///
/// let tensor = Tensor::from_vec(vec![1.5f32, -2.0, 3.25, 1e9], &[2, 2])?;
/// let (tensor, report) = convert(tensor, &To::new().element::<i8>())?;
/// assert_eq!(tensor.as_slice::<i8>()?, [1, -2, 3, 127]);
/// assert_eq!(report.to_string(), "host, 1 pass, 16 B read, 4 B written (dtype)");
/// # Ok::<(), arraybridge::Error>(())
/// ```
pub struct Tensor(NonNull<DLManagedTensorVersioned>);

// SAFETY: DLPack's deleters may be called on any thread, and nothing else of a tensor has a thread.
unsafe impl Send for Tensor {}
// SAFETY: a shared reference reads the struct and the data only, and who made the tensor has promised that
// nobody else writes to either.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// A row-major tensor of a vector's elements, whose memory it takes over. An error where `shape` has
    /// another number of elements.
    pub fn from_vec<T: Element>(mut elements: Vec<T>, shape: &[i64]) -> Result<Tensor> {
        view::count(elements.len(), shape)?;
        // SAFETY: the vector is the memory, moved but not reallocated.
        unsafe {
            let view = View::build(elements.as_mut_ptr().cast(), T::SCALAR.dtype(), shape, None)?;
            Tensor::own(&view, Box::new(elements))
        }
    }

    /// A tensor over memory that `owner` keeps alive.
    ///
    /// # Safety
    /// The memory is as much as the parts say, and stays while `owner` does; where the flags do not say
    /// read-only, nothing else reads or writes it meanwhile.
    pub unsafe fn wrap(parts: Parts<'_>, owner: Box<dyn Any + Send>) -> Result<Tensor> {
        assert_eq!(parts.shape.len(), parts.strides.len(), "as many strides as extents");
        if parts.shape.len() > MAX_NDIM {
            let problem = crate::error::TensorProblem::Ndim(parts.shape.len() as i32);
            return Err(Error::Tensor { role: "parts", problem });
        }
        let tensor = Managed::allocate(parts.shape.len())?;
        let owner = Box::into_raw(Box::new(owner)).cast();
        let tensor = Tensor(tensor.finish(parts, Keep::Owner { owner, release: Some(release_box) }));
        tensor.read(&mut Dims::new())?;
        Ok(tensor)
    }

    /// A tensor over a view's memory, which `owner` keeps alive.
    ///
    /// # Safety
    /// As [`Tensor::wrap`].
    unsafe fn own(view: &View<'_>, owner: Box<dyn Any + Send>) -> Result<Tensor> {
        let view = view.read();
        // The block first: once there is an owner, nothing can fail.
        let tensor = managed::share(&view, view.flags, || {
            let owner = Box::into_raw(Box::new(owner)).cast();
            Keep::Owner { owner, release: Some(release_box) }
        })?;
        Ok(Tensor(tensor))
    }

    /// Takes over a managed tensor, checked. On failure it is still the caller's.
    ///
    /// # Safety
    /// The caller owns it and gives it up on success; it is as much memory as it says, and its deleter
    /// may be called on any thread. While the tensor lives, nobody else writes to its memory, nor reads it
    /// where this one is written to ([`Tensor::view_mut`]).
    pub unsafe fn from_raw(tensor: NonNull<DLManagedTensorVersioned>) -> Result<Tensor> {
        // SAFETY: the version is part of every managed tensor.
        let version = unsafe { (*tensor.as_ptr()).version };
        if version.major != DLPACK_MAJOR_VERSION {
            return Err(Error::DlpackVersion { role: "tensor", major: version.major, minor: version.minor });
        }
        let tensor = ManuallyDrop::new(Tensor(tensor));
        tensor.read(&mut Dims::new())?;
        Ok(ManuallyDrop::into_inner(tensor))
    }

    /// Gives the managed tensor to the caller, who calls its deleter.
    pub fn into_raw(self) -> NonNull<DLManagedTensorVersioned> {
        ManuallyDrop::new(self).0
    }

    /// Takes over a tensor from before DLPack 1.0, checked. On failure it is still the caller's.
    ///
    /// # Safety
    /// As [`Tensor::from_raw`].
    pub unsafe fn from_raw_legacy(tensor: NonNull<DLManagedTensor>) -> Result<Tensor> {
        let mut dims = Dims::new();
        // SAFETY: the caller vouches for it.
        let view =
            unsafe { TensorView::read(&raw const (*tensor.as_ptr()).dl_tensor, 0, "tensor", &mut dims)? };
        Ok(Tensor(managed::share(&view, 0, || Keep::Legacy(tensor))?))
    }

    /// Gives the tensor to the caller in the form from before DLPack 1.0, over the same memory. A read-only
    /// tensor has no such form, nor have padded elements of less than a byte.
    pub fn into_raw_legacy(self) -> Result<NonNull<DLManagedTensor>, Rejected> {
        let mut dims = Dims::new();
        let legacy = self.read(&mut dims).and_then(|view| {
            managed::check_legacy(&view)?;
            managed::share(&view, 0, || Keep::Versioned(self.0))
        });
        match legacy {
            Ok(legacy) => {
                // It is kept alive by the result.
                let _ = self.into_raw();
                Ok(legacy)
            }
            Err(error) => Err(Rejected { tensor: self, error }),
        }
    }

    /// The tensor, borrowed.
    pub fn view(&self) -> View<'_> {
        // SAFETY: the tensor is as much memory as it says, and is borrowed as long.
        unsafe { View::assume(self.read(&mut Dims::new()).expect("it was checked when it was made")) }
    }

    /// The tensor, borrowed for writing. Whether it may be written to is checked where it is: a read-only
    /// tensor is an error there.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        // SAFETY: as above, and exclusively.
        unsafe { ViewMut::assume(self.read(&mut Dims::new()).expect("it was checked when it was made")) }
    }

    /// What the tensor is, as the modules below this one see it. Its shape and strides are copied to `dims`.
    pub fn read<'a>(&self, dims: &'a mut Dims) -> Result<TensorView<'a>> {
        // SAFETY: an owned tensor's fields are readable.
        unsafe {
            let tensor = self.0.as_ptr();
            TensorView::read(&raw const (*tensor).dl_tensor, (*tensor).flags, "tensor", dims)
        }
    }

    /// Extents of the axes.
    pub fn shape(&self) -> &[i64] {
        // SAFETY: an owned tensor's fields are readable; NULL goes with no axes.
        unsafe {
            let tensor = &raw const (*self.0.as_ptr()).dl_tensor;
            let shape = NonNull::new((*tensor).shape).unwrap_or(NonNull::dangling());
            std::slice::from_raw_parts(shape.as_ptr(), (*tensor).ndim as usize)
        }
    }

    /// Type of an element.
    pub fn dtype(&self) -> DLDataType {
        // SAFETY: an owned tensor's fields are readable.
        unsafe { (*self.0.as_ptr()).dl_tensor.dtype }
    }

    /// Where the data is.
    pub fn device(&self) -> DLDevice {
        // SAFETY: an owned tensor's fields are readable.
        crate::dlpack::view::normalised(unsafe { (*self.0.as_ptr()).dl_tensor.device })
    }

    /// The elements of a row-major tensor on the host. An error says what it is instead.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.view().as_slice()
    }

    /// The elements of a row-major tensor on the host, for writing. An error says what it is instead.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        self.view_mut().into_slice()
    }

    /// The elements in row-major order, copied from whatever layout and device.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.view().to_vec()
    }
}

/// What lets go of an owner.
unsafe extern "C" fn release_box(owner: *mut c_void) {
    // SAFETY: it is a box of the functions above, and this is called once.
    drop(unsafe { Box::from_raw(owner.cast::<Box<dyn Any + Send>>()) });
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: it is owned, and dropped once.
        unsafe { managed::release(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().describe("Tensor", f)
    }
}

/// A tensor that a function did not take, and why. It becomes its error where an [`Error`] is wanted, so
/// that `?` works; the tensor is then released.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Rejected {
    /// As it was.
    pub tensor: Tensor,
    /// Why.
    pub error: Error,
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Error {
        rejected.error
    }
}

impl Context {
    /// [`convert`] with the limits of this context.
    pub fn convert(&self, tensor: Tensor, to: &To) -> Result<(Tensor, Report), Rejected> {
        let mut dims = Dims::new();
        let (view, options) = match (tensor.read(&mut dims), to.options()) {
            (Ok(view), Ok(options)) => (view, options),
            (Err(error), _) | (_, Err(error)) => return Err(Rejected { tensor, error }),
        };
        // SAFETY: it is owned, and as much memory as it says.
        match unsafe { crate::convert::convert(self, tensor.0, &view, options) } {
            Ok((result, report)) => {
                // The conversion has taken it over.
                let _ = tensor.into_raw();
                Ok((Tensor(result), report))
            }
            Err(error) => Err(Rejected { tensor, error }),
        }
    }

    /// [`copy`] with the limits of this context.
    pub fn copy(&self, source: &View<'_>, to: &To) -> Result<(Tensor, Report)> {
        // SAFETY: a view is as much memory as it says.
        let (result, report) = unsafe { crate::convert::copy(self, &source.read(), to.options()?)? };
        Ok((Tensor(result), report))
    }

    /// [`copy_into`] with the limits of this context.
    pub fn copy_into(&self, source: &View<'_>, destination: &mut ViewMut<'_>, to: &To) -> Result<Report> {
        // SAFETY: views are as much memory as they say, and one for writing has it for itself.
        unsafe { crate::convert::copy_into(self, &source.read(), &destination.read(), to.options()?) }
    }

    /// [`plan`] with the limits of this context.
    pub fn plan(&self, source: &View<'_>, to: &To) -> Result<Report> {
        crate::convert::plan(self, &source.read(), to.options()?).map(|plan| Report::from(&plan))
    }
}

/// What a tensor is, and who takes it without a copy as it stands. Reads neither the data nor a driver.
///
/// ```
/// use arraybridge::{View, detect, info::Info};
///
/// let elements = [1u16, 2, 3, 4, 5, 6];
/// let info = detect(&View::of(&elements, &[2, 3])?);
/// assert!(info.is(Info::C_CONTIGUOUS));
/// assert_eq!(info.num_bytes, 12);
/// assert!(info.consumers().any(|name| name == "numpy"));
/// # Ok::<(), arraybridge::Error>(())
/// ```
pub fn detect(tensor: &View<'_>) -> Info {
    Info::of(&tensor.read())
}

/// Converts a tensor: the result is its own memory where that already is what is wanted, else a copy that
/// was made in one pass. On failure it comes back.
///
/// ```
/// use arraybridge::{CopyPolicy, Tensor, To, convert};
///
/// let tensor = Tensor::from_vec(vec![1i32, 2, 3], &[3])?;
/// let (tensor, report) = convert(tensor, &To::new())?;
/// assert_eq!(report.passes, 0); // the same memory
///
/// let rejected = convert(tensor, &To::new().element::<f64>().copy(CopyPolicy::Never)).unwrap_err();
/// assert!(rejected.error.to_string().contains("dtype (int32 to float64)"));
/// assert_eq!(rejected.tensor.as_slice::<i32>()?, [1, 2, 3]);
/// # Ok::<(), arraybridge::Error>(())
/// ```
pub fn convert(tensor: Tensor, to: &To) -> Result<(Tensor, Report), Rejected> {
    Context::global().convert(tensor, to)
}

/// Copies a tensor; the result shares nothing with it.
///
/// ```
/// use arraybridge::{LayoutPolicy, To, View, copy};
///
/// let pixels = [10u8, 20, 30, 11, 21, 31]; // two RGB pixels
/// let planes = View::strided(&pixels, &[3, 2], &[1, 3], 0)?;
/// let (planes, _) = copy(&planes, &To::new().element::<f32>().layout(LayoutPolicy::C))?;
/// assert_eq!(planes.as_slice::<f32>()?, [10.0, 11.0, 20.0, 21.0, 30.0, 31.0]);
/// # Ok::<(), arraybridge::Error>(())
/// ```
pub fn copy(source: &View<'_>, to: &To) -> Result<(Tensor, Report)> {
    Context::global().copy(source, to)
}

/// Copies into memory that is there: any strides, dtype and device on either side, equal shapes. Of what is
/// wanted it uses the casting rule, saturation and the streams.
///
/// ```
/// use arraybridge::{To, View, ViewMut, copy_into};
///
/// let mut backwards = [0i64; 3];
/// let mut destination = ViewMut::strided(&mut backwards, &[3], &[-1], 2)?;
/// copy_into(&View::of(&[1u8, 2, 3], &[3])?, &mut destination, &To::new())?;
/// assert_eq!(backwards, [3, 2, 1]);
/// # Ok::<(), arraybridge::Error>(())
/// ```
pub fn copy_into(source: &View<'_>, destination: &mut ViewMut<'_>, to: &To) -> Result<Report> {
    Context::global().copy_into(source, destination, to)
}

/// What [`convert`] would do, without doing it.
///
/// ```
/// use arraybridge::{LayoutPolicy, To, View, plan};
///
/// let elements = [0u8; 6];
/// let report = plan(&View::of(&elements, &[2, 3])?, &To::new().layout(LayoutPolicy::F))?;
/// assert_eq!(report.to_string(), "host, 1 pass, 6 B read, 6 B written (layout)");
/// # Ok::<(), arraybridge::Error>(())
/// ```
pub fn plan(source: &View<'_>, to: &To) -> Result<Report> {
    Context::global().plan(source, to)
}
