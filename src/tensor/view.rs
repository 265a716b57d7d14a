//! Tensors that are borrowed.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::null_mut;

use super::{Element, To};
use crate::context::Context;
use crate::dlpack::raw::{DLDataType, DLDevice, DLPACK_FLAG_BITMASK_READ_ONLY, DLTensor, device_type};
use crate::dlpack::view::{Dims, TensorView};
use crate::error::{Error, Result, TensorProblem};
use crate::layout::{self, Facts, MAX_NDIM};

/// Memory of somebody else's as a tensor, for as long as it is borrowed. Its fields have passed every check.
///
/// ```
/// use arraybridge::View;
///
/// let image = [0u8; 2 * 4 * 3]; // height x width x channels
/// let red = View::strided(&image, &[2, 4], &[12, 3], 0)?;
/// assert_eq!((red.shape(), red.num_elements()), (&[2, 4][..], 8));
/// assert_eq!(red.as_slice::<u8>().unwrap_err().to_string(),
///     "strides are not row-major: convert with LayoutPolicy::C, or copy with to_vec");
/// assert_eq!(red.to_vec::<u8>()?, [0; 8]);
/// assert!(View::strided(&image, &[2, 4], &[12, 4], 0).is_err()); // beyond the slice
/// # Ok::<(), arraybridge::Error>(())
/// ```
#[derive(Clone)]
pub struct View<'a> {
    /// All but the shape and the strides, which are in `dims` one behind the other.
    facts: TensorView<'static>,
    dims: Box<[i64]>,
    memory: PhantomData<&'a [u8]>,
}

/// The same, for writing: nothing else reads or writes the memory while it is borrowed.
pub struct ViewMut<'a> {
    view: View<'a>,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> View<'a> {
    /// Elements in row-major order. An error where the shape has another number of them.
    pub fn of<T: Element>(elements: &'a [T], shape: &[i64]) -> Result<View<'a>> {
        count(elements.len(), shape)?;
        // SAFETY: the slice is as long as the shape says.
        unsafe { View::build(elements.as_ptr().cast(), T::SCALAR.dtype(), shape, None) }
    }

    /// Elements in any order: `strides` are the steps along the axes, in elements, from the element
    /// `first`. An error where they leave the slice.
    pub fn strided<T: Element>(
        elements: &'a [T],
        shape: &[i64],
        strides: &[i64],
        first: usize,
    ) -> Result<View<'a>> {
        reach(elements.len(), shape, strides, first)?;
        let start = elements.as_ptr().wrapping_add(first);
        // SAFETY: every element is one of the slice's.
        unsafe { View::build(start.cast(), T::SCALAR.dtype(), shape, Some(strides)) }
    }

    /// A tensor as C has it, checked. `flags` are those of the managed tensor that it is part of.
    ///
    /// # Safety
    /// It is readable, as much memory as it says, and stays for `'a`, in which nobody writes to it.
    pub unsafe fn from_raw(tensor: &DLTensor, flags: u64) -> Result<View<'a>> {
        // SAFETY: the caller vouches for it.
        unsafe { Ok(View::assume(TensorView::read(tensor, flags, "tensor", &mut Dims::new())?)) }
    }

    /// # Safety
    /// As [`View::from_raw`].
    pub(super) unsafe fn assume(view: TensorView<'_>) -> View<'a> {
        let dims = [view.shape, view.strides].concat().into_boxed_slice();
        View { facts: TensorView { shape: &[], strides: &[], ..view }, dims, memory: PhantomData }
    }

    /// Of the host's memory.
    ///
    /// # Safety
    /// As [`View::from_raw`]. `strides` are as many as extents; None: compact.
    pub(super) unsafe fn build(
        data: *const c_void,
        dtype: DLDataType,
        shape: &[i64],
        strides: Option<&[i64]>,
    ) -> Result<View<'a>> {
        if shape.len() > MAX_NDIM {
            let problem = TensorProblem::Ndim(i32::try_from(shape.len()).unwrap_or(i32::MAX));
            return Err(Error::Tensor { role: "tensor", problem });
        }
        let tensor = DLTensor {
            data: data.cast_mut(),
            device: DLDevice { device_type: device_type::CPU, device_id: 0 },
            ndim: shape.len() as i32,
            dtype,
            shape: shape.as_ptr().cast_mut(),
            strides: strides.map_or(null_mut(), |strides| strides.as_ptr().cast_mut()),
            byte_offset: 0,
        };
        // SAFETY: the caller vouches for it.
        unsafe { View::from_raw(&tensor, 0) }
    }

    /// As the modules below see it.
    pub fn read(&self) -> TensorView<'_> {
        let (shape, strides) = self.dims.split_at(self.dims.len() / 2);
        TensorView { shape, strides, ..self.facts }
    }

    /// The same, but not to be written to: a zero-copy result will say so.
    pub fn read_only(mut self) -> View<'a> {
        self.facts.flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
        self
    }

    /// Extents of the axes.
    pub fn shape(&self) -> &[i64] {
        self.read().shape
    }

    /// Steps along the axes in elements; compact on axes of extent 0 or 1 and in empty tensors.
    pub fn strides(&self) -> &[i64] {
        self.read().strides
    }

    /// Type of an element.
    pub fn dtype(&self) -> DLDataType {
        self.facts.dtype
    }

    /// Where the data is.
    pub fn device(&self) -> DLDevice {
        self.facts.device
    }

    /// Product of the extents.
    pub fn num_elements(&self) -> usize {
        self.facts.num_elements as usize
    }

    /// The elements, where they are row-major, on the host, aligned, and of this type. An error says what
    /// they are instead.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T]> {
        let first = self.first::<T>()?;
        if !self.facts.facts.is_c_contiguous() {
            return Err(Error::NotRowMajor);
        }
        // SAFETY: row-major, aligned, of T, and borrowed for 'a.
        Ok(unsafe { std::slice::from_raw_parts(first, self.num_elements()) })
    }

    /// The elements in row-major order, copied from whatever layout and device. They must be of this type:
    /// [`super::copy`] casts.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check_element::<T>()?;
        let count = self.num_elements();
        let mut elements = Vec::<T>::new();
        elements.try_reserve_exact(count).map_err(|_| Error::OutOfMemory {
            device: DLDevice { device_type: device_type::CPU, device_id: 0 },
            bytes: self.facts.num_bytes,
            alignment: align_of::<T>() as u64,
        })?;
        // SAFETY: the vector has room for as many elements, which are all written before they count.
        unsafe {
            let room = View::build(elements.as_mut_ptr().cast(), self.dtype(), self.shape(), None)?;
            let mut room = ViewMut { view: room, memory: PhantomData };
            Context::global().copy_into(self, &mut room, &To::new())?;
            elements.set_len(count);
        }
        Ok(elements)
    }

    fn check_element<T: Element>(&self) -> Result<()> {
        let (dtype, expected) = (self.dtype(), T::SCALAR.dtype());
        if dtype == expected { Ok(()) } else { Err(Error::ElementType { dtype, expected }) }
    }

    /// The first element, aligned and readable by the host, or a place for none.
    pub(super) fn first<T: Element>(&self) -> Result<*mut T> {
        self.check_element::<T>()?;
        if !self.facts.is_host_readable() {
            return Err(Error::NotOnHost { device: self.device() });
        }
        let Some(address) = self.facts.address().filter(|_| !self.facts.facts.is_empty()) else {
            return Ok(std::ptr::dangling_mut());
        };
        if !address.is_multiple_of(align_of::<T>() as u64) {
            return Err(Error::Misaligned { address, dtype: self.dtype() });
        }
        Ok(address as usize as *mut T)
    }

    pub(super) fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("shape", &self.shape())
            .field("strides", &self.strides())
            .field("dtype", &format_args!("{}", self.dtype()))
            .field("device", &format_args!("{}", self.device()))
            .finish_non_exhaustive()
    }
}

impl<'a> ViewMut<'a> {
    /// As [`View::of`].
    pub fn of<T: Element>(elements: &'a mut [T], shape: &[i64]) -> Result<ViewMut<'a>> {
        count(elements.len(), shape)?;
        // SAFETY: the slice is as long as the shape says.
        let view = unsafe { View::build(elements.as_mut_ptr().cast(), T::SCALAR.dtype(), shape, None)? };
        Ok(ViewMut { view, memory: PhantomData })
    }

    /// As [`View::strided`].
    pub fn strided<T: Element>(
        elements: &'a mut [T],
        shape: &[i64],
        strides: &[i64],
        first: usize,
    ) -> Result<ViewMut<'a>> {
        reach(elements.len(), shape, strides, first)?;
        let start = elements.as_mut_ptr().wrapping_add(first);
        // SAFETY: every element is one of the slice's.
        let view = unsafe { View::build(start.cast(), T::SCALAR.dtype(), shape, Some(strides))? };
        Ok(ViewMut { view, memory: PhantomData })
    }

    /// As [`View::from_raw`].
    ///
    /// # Safety
    /// It is writable unless `flags` has read-only, as much memory as it says, and stays for `'a`, in which
    /// nobody else reads it or writes to it.
    pub unsafe fn from_raw(tensor: &DLTensor, flags: u64) -> Result<ViewMut<'a>> {
        // SAFETY: the caller vouches for it.
        Ok(ViewMut { view: unsafe { View::from_raw(tensor, flags)? }, memory: PhantomData })
    }

    /// # Safety
    /// As [`ViewMut::from_raw`].
    pub(super) unsafe fn assume(view: TensorView<'_>) -> ViewMut<'a> {
        // SAFETY: as the caller says.
        ViewMut { view: unsafe { View::assume(view) }, memory: PhantomData }
    }

    /// The same for reading, while this one waits.
    pub fn as_view(&self) -> View<'_> {
        self.view.clone()
    }

    /// As the modules below see it.
    pub(super) fn read(&self) -> TensorView<'_> {
        self.view.read()
    }

    /// The elements for writing, where [`View::as_slice`] has them and they are not read-only.
    pub fn into_slice<T: Element>(self) -> Result<&'a mut [T]> {
        let first = self.first_mut::<T>()?;
        if !self.view.facts.facts.is_c_contiguous() {
            return Err(Error::NotRowMajor);
        }
        // SAFETY: row-major, aligned, of T, and borrowed for 'a by nobody else.
        Ok(unsafe { std::slice::from_raw_parts_mut(first, self.view.num_elements()) })
    }

    /// [`View::first`] of elements that may be written to, each of which has a place of its own.
    pub(super) fn first_mut<T: Element>(&self) -> Result<*mut T> {
        let facts = &self.view.facts;
        if facts.is_read_only() {
            return Err(Error::DestinationReadOnly);
        }
        if facts.facts.is_overlapping() {
            return Err(Error::DestinationOverlaps);
        }
        self.view.first()
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe("View", f)
    }
}

impl fmt::Debug for ViewMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view.describe("ViewMut", f)
    }
}

/// Whether a shape has as many elements as there are.
pub(super) fn count(len: usize, shape: &[i64]) -> Result<()> {
    if layout::num_elements(shape) == i64::try_from(len).ok() {
        return Ok(());
    }
    Err(Error::Option { name: "elements.len()", value: len as i64, expected: "the product of shape" })
}

/// Whether all elements that strides reach are among those that there are.
fn reach(len: usize, shape: &[i64], strides: &[i64], first: usize) -> Result<()> {
    if strides.len() != shape.len() {
        let value = strides.len() as i64;
        return Err(Error::Option { name: "strides.len()", value, expected: "as many as shape has extents" });
    }
    if shape.len() > MAX_NDIM || shape.iter().any(|extent| *extent < 0) || shape.contains(&0) {
        // Checked with the rest of the struct, or nothing to reach.
        return Ok(());
    }
    let beyond = |begin, end| Error::BeyondSlice { begin, end, len };
    let facts: Option<Facts> = layout::facts(shape, strides);
    let (first, facts) = (i64::try_from(first).ok(), facts.ok_or(beyond(i64::MIN, i64::MAX))?);
    let bound = |offset| first.and_then(|first: i64| first.checked_add(offset));
    let (begin, last) = (bound(facts.lowest), bound(facts.highest));
    match (begin, last) {
        (Some(begin), Some(last)) if begin >= 0 && (last as u64) < len as u64 => Ok(()),
        _ => Err(beyond(begin.unwrap_or(i64::MIN), last.unwrap_or(i64::MAX))),
    }
}
