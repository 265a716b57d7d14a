//! The Rust API: owned tensors, and the functions over them.

use std::any::Any;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::context::Context;
use crate::dlpack::managed::{self, Keep, Managed, Parts};
use crate::dlpack::raw::{DLDevice, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION, device_type};
use crate::dlpack::view::{Dims, TensorView};
use crate::dtype::Scalar;
use crate::error::{Error, Result};
use crate::layout::{self, MAX_NDIM};
use crate::plan::ConvertOptions;
use crate::report::Report;

/// A managed DLPack tensor that is owned, and released when this is dropped.
///
/// ```
/// use arraybridge::{Context, ConvertOptions, DLDataType, Tensor, convert};
///
/// let tensor = Tensor::from_vec(vec![1.5f32, -2.0, 3.25, 1e9], &[2, 2])?;
/// let dtype: DLDataType = "int8".parse()?;
/// let options = ConvertOptions { dtype: Some(dtype), ..Default::default() };
/// let (tensor, report) = convert(Context::global(), tensor, &options).map_err(|(_, error)| error)?;
/// assert_eq!(tensor.as_slice::<i8>(), Some(&[1, -2, 3, 127][..]));
/// assert_eq!(report.to_string(), "host, 1 pass, 16 B read, 4 B written (dtype)");
/// # Ok::<(), arraybridge::Error>(())
/// ```
#[derive(Debug)]
pub struct Tensor(NonNull<DLManagedTensorVersioned>);

// SAFETY: DLPack's deleters may be called on any thread, and nothing else of a tensor has a thread.
unsafe impl Send for Tensor {}

impl Tensor {
    /// Takes over a managed tensor, checked.
    ///
    /// # Safety
    /// The caller owns it and gives it up on success; it is as much memory as it says, and its deleter
    /// may be called on any thread.
    pub unsafe fn from_raw(tensor: NonNull<DLManagedTensorVersioned>) -> Result<Tensor> {
        // SAFETY: the version is part of every managed tensor.
        let version = unsafe { (*tensor.as_ptr()).version };
        if version.major != DLPACK_MAJOR_VERSION {
            return Err(Error::DlpackVersion { role: "tensor", major: version.major, minor: version.minor });
        }
        let tensor = ManuallyDrop::new(Tensor(tensor));
        tensor.view(&mut Dims::new())?;
        Ok(ManuallyDrop::into_inner(tensor))
    }

    /// Gives the managed tensor to the caller.
    pub fn into_raw(self) -> NonNull<DLManagedTensorVersioned> {
        ManuallyDrop::new(self).0
    }

    /// A tensor over memory that `owner` keeps alive.
    ///
    /// # Safety
    /// The memory is as much as the parts say, and stays while `owner` does; where the flags do not say
    /// read-only, nothing else reads or writes it meanwhile.
    pub unsafe fn wrap(parts: Parts<'_>, owner: Box<dyn Any + Send>) -> Result<Tensor> {
        unsafe extern "C" fn release(owner: *mut c_void) {
            // SAFETY: it is the box below, and this is called once.
            drop(unsafe { Box::from_raw(owner.cast::<Box<dyn Any + Send>>()) });
        }
        assert_eq!(parts.shape.len(), parts.strides.len(), "as many strides as extents");
        if parts.shape.len() > MAX_NDIM {
            let problem = crate::error::TensorProblem::Ndim(parts.shape.len() as i32);
            return Err(Error::Tensor { role: "parts", problem });
        }
        let tensor = Managed::allocate(parts.shape.len())?;
        let owner = Box::into_raw(Box::new(owner)).cast();
        let tensor = Tensor(tensor.finish(parts, Keep::Owner { owner, release: Some(release) }));
        tensor.view(&mut Dims::new())?;
        Ok(tensor)
    }

    /// A row-major tensor of a vector's elements, whose memory it takes over.
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: &[i64]) -> Result<Tensor> {
        if layout::num_elements(shape) != i64::try_from(elements.len()).ok() {
            let value = elements.len() as i64;
            return Err(Error::Option { name: "elements.len()", value, expected: "the product of shape" });
        }
        let mut strides = [0; MAX_NDIM];
        let strides = &mut strides[..shape.len().min(MAX_NDIM)];
        layout::compact_strides(shape, strides);
        let parts = Parts {
            data: elements.as_ptr() as usize as u64,
            device: DLDevice { device_type: device_type::CPU, device_id: 0 },
            dtype: T::SCALAR.dtype(),
            shape,
            strides,
            byte_offset: 0,
            flags: 0,
        };
        // SAFETY: the vector is the memory, moved but not reallocated.
        unsafe { Tensor::wrap(parts, Box::new(elements)) }
    }

    /// What the tensor is. Its shape and strides are copied to `dims`.
    pub fn view<'a>(&self, dims: &'a mut Dims) -> Result<TensorView<'a>> {
        // SAFETY: an owned tensor's fields are readable.
        unsafe {
            let tensor = self.0.as_ptr();
            TensorView::read(&raw const (*tensor).dl_tensor, (*tensor).flags, "tensor", dims)
        }
    }

    /// The elements of a row-major tensor on the host; None where it is not, or of another type.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let mut dims = Dims::new();
        let view = self.view(&mut dims).ok()?;
        let fits = view.dtype == T::SCALAR.dtype()
            && view.is_host_readable()
            && view.facts.is_c_contiguous()
            && !view.is_misaligned();
        if !fits {
            return None;
        }
        if view.facts.is_empty() {
            return Some(&[]);
        }
        let first = view.address()? as usize as *const T;
        // SAFETY: row-major, aligned, of T, and borrowed from the tensor, whose memory is as it says.
        Some(unsafe { std::slice::from_raw_parts(first, view.num_elements as usize) })
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: it is owned, and dropped once.
        unsafe { managed::release(self.0.as_ptr()) };
    }
}

/// A Rust type that is an element, every bit pattern of which is a value.
pub trait Element: Copy + Send + 'static {
    /// Its dtype.
    const SCALAR: Scalar;
}

macro_rules! elements {
    ($($type:ty => $scalar:ident),*) => {$(
        impl Element for $type {
            const SCALAR: Scalar = Scalar::$scalar;
        }
    )*};
}

elements!(
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u8 => Uint8, u16 => Uint16, u32 => Uint32,
    u64 => Uint64, f32 => Float32, f64 => Float64
);

/// Converts a tensor. On failure it comes back.
pub fn convert(
    context: &Context,
    tensor: Tensor,
    options: &ConvertOptions,
) -> Result<(Tensor, Report), (Tensor, Error)> {
    let mut dims = Dims::new();
    let view = match tensor.view(&mut dims) {
        Ok(view) => view,
        Err(error) => return Err((tensor, error)),
    };
    // SAFETY: it is owned, and as much memory as it says.
    match unsafe { crate::convert::convert(context, tensor.0, &view, options) } {
        Ok((result, report)) => {
            // The conversion has taken it over.
            let _ = tensor.into_raw();
            Ok((Tensor(result), report))
        }
        Err(error) => Err((tensor, error)),
    }
}

/// Copies a tensor; the result shares nothing with it.
pub fn copy(context: &Context, tensor: &Tensor, options: &ConvertOptions) -> Result<(Tensor, Report)> {
    let mut dims = Dims::new();
    let view = tensor.view(&mut dims)?;
    // SAFETY: the tensor is as much memory as it says.
    let (result, report) = unsafe { crate::convert::copy(context, &view, options)? };
    Ok((Tensor(result), report))
}

/// What [`convert`] would do, without doing it.
pub fn plan(context: &Context, tensor: &Tensor, options: &ConvertOptions) -> Result<Report> {
    let mut dims = Dims::new();
    let view = tensor.view(&mut dims)?;
    crate::convert::plan(context, &view, options).map(|plan| Report::from(&plan))
}
