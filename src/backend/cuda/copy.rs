//! Plain copies by the driver's engines: of a run of bytes, and of rectangles of rows and slices.

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::sys::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUmemorytype, CUstream};

use super::driver::call;
use super::lane::Lane;
use crate::backend::rectangle::Rectangle;
use crate::error::Result;

/// Where one side of a copy starts.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// On the device, or where it reaches.
    Device(u64),
    /// In the host's memory.
    Host(u64),
}

impl Start {
    /// So many bytes further.
    pub fn at(self, offset: i64) -> Start {
        match self {
            Start::Device(address) => Start::Device(address.wrapping_add_signed(offset)),
            Start::Host(address) => Start::Host(address.wrapping_add_signed(offset)),
        }
    }

    /// The number of it.
    pub fn address(self) -> u64 {
        match self {
            Start::Device(address) | Start::Host(address) => address,
        }
    }

    fn kind(self) -> CUmemorytype {
        match self {
            Start::Device(_) => CUmemorytype::CU_MEMORYTYPE_DEVICE,
            Start::Host(_) => CUmemorytype::CU_MEMORYTYPE_HOST,
        }
    }

    fn host(self) -> *mut c_void {
        match self {
            Start::Device(_) => null_mut(),
            Start::Host(address) => address as usize as *mut c_void,
        }
    }

    fn device(self) -> u64 {
        match self {
            Start::Device(address) => address,
            Start::Host(_) => 0,
        }
    }
}

impl Rectangle {
    /// Bytes that are copied.
    pub fn bytes(&self) -> usize {
        self.region.iter().product()
    }

    /// Whether a lane's engine takes such steps.
    pub fn suits(&self, lane: &Lane) -> bool {
        self.is_run() || self.source[0] <= lane.max_pitch && self.destination[0] <= lane.max_pitch
    }

    /// Puts the copy on a stream. The lane's context is current.
    ///
    /// # Safety
    /// The job that this is of may be done from `source` to `destination`; the stream is valid.
    pub unsafe fn enqueue(
        &self,
        lane: &Lane,
        stream: CUstream,
        source: Start,
        destination: Start,
    ) -> Result<()> {
        let f = lane.f;
        let (source, destination) = (source.at(self.start.0), destination.at(self.start.1));
        let [row, rows, slices] = self.region;
        // SAFETY: the caller vouches for both sides.
        unsafe {
            if self.is_run() {
                return match (source, destination) {
                    (Start::Device(from), Start::Device(to)) => {
                        call!(f, cuMemcpyDtoDAsync(to, from, row, stream))
                    }
                    (Start::Device(from), Start::Host(_)) => {
                        call!(f, cuMemcpyDtoHAsync(destination.host(), from, row, stream))
                    }
                    (Start::Host(_), _) => {
                        call!(f, cuMemcpyHtoDAsync(destination.device(), source.host(), row, stream))
                    }
                };
            }
            if slices == 1 {
                let copy = CUDA_MEMCPY2D {
                    srcXInBytes: 0,
                    srcY: 0,
                    srcMemoryType: source.kind(),
                    srcHost: source.host(),
                    srcDevice: source.device(),
                    srcArray: null_mut(),
                    srcPitch: self.source[0],
                    dstXInBytes: 0,
                    dstY: 0,
                    dstMemoryType: destination.kind(),
                    dstHost: destination.host(),
                    dstDevice: destination.device(),
                    dstArray: null_mut(),
                    dstPitch: self.destination[0],
                    WidthInBytes: row,
                    Height: rows,
                };
                return call!(f, cuMemcpy2DAsync(&copy, stream));
            }
            let copy = CUDA_MEMCPY3D {
                srcXInBytes: 0,
                srcY: 0,
                srcZ: 0,
                srcLOD: 0,
                srcMemoryType: source.kind(),
                srcHost: source.host(),
                srcDevice: source.device(),
                srcArray: null_mut(),
                reserved0: null_mut(),
                srcPitch: self.source[0],
                srcHeight: self.source[1] / self.source[0],
                dstXInBytes: 0,
                dstY: 0,
                dstZ: 0,
                dstLOD: 0,
                dstMemoryType: destination.kind(),
                dstHost: destination.host(),
                dstDevice: destination.device(),
                dstArray: null_mut(),
                reserved1: null_mut(),
                dstPitch: self.destination[0],
                dstHeight: self.destination[1] / self.destination[0],
                WidthInBytes: row,
                Height: rows,
                Depth: slices,
            };
            call!(f, cuMemcpy3DAsync(&copy, stream))
        }
    }
}
