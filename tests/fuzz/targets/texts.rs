//! Names of dtypes, and headers of .npy files.

use arraybridge::DLDataType;

/// The tool's own parser.
#[path = "../../../src/bin/ab/npy.rs"]
mod npy;

use npy::Array;

pub fn run(bytes: &[u8]) {
    names(bytes);
    // As it is, and as the header of an otherwise good file.
    header(bytes);
    let n = bytes.len().min(usize::from(u16::MAX));
    let length = (n as u16).to_le_bytes();
    header(&[b"\x93NUMPY\x01\x00", &length[..], &bytes[..n], &[0; 64]].concat());
}

fn names(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(dtype) = text.parse::<DLDataType>() {
        assert!(dtype.bits > 0 && dtype.lanes > 0);
        // What is read has a name that reads back.
        assert_eq!(dtype.to_string().parse(), Ok(dtype), "{text:?}");
    }
}

fn header(file: &[u8]) {
    for named in [None, Some(DLDataType { code: 12, bits: 8, lanes: 1 })] {
        let Ok((array, start)) = Array::read(&mut &file[..], file.len() as u64, named) else { continue };
        assert!(start + array.num_bytes() <= file.len() as u64, "an array beyond the end of its file");
        assert!(array.shape.iter().all(|extent| *extent >= 0) && array.shape.len() <= 64);
        assert_eq!(array.strides().len(), array.shape.len());
        // It is written as it was read.
        let mut again = array.header();
        let start = again.len() as u64;
        assert!(again.len().is_multiple_of(64));
        let bytes = start + array.num_bytes();
        again.resize(bytes as usize, 0);
        assert_eq!(Array::read(&mut &again[..], bytes, Some(array.dtype)), Ok((array.clone(), start)));
        assert!(!array.to_string().is_empty());
    }
}
