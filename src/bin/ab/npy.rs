//! The .npy format: a magic number, a Python dict that says what the array is, the array.
//!
//! Read and written here rather than by a crate: `npyz` knows none of the descriptions that ml_dtypes
//! writes, and allocates what a header claims before looking at the file.

use std::fmt;
use std::io::Read;

use arraybridge::DLDataType;
use arraybridge::dlpack::raw::dtype_code as code;
use arraybridge::dtype::{Scalar, Storage};
use arraybridge::layout::{self, MAX_NDIM, Order};
use arraybridge::report::Bytes;

/// What a .npy file can say of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type of an element. Those of less than a byte take a whole one.
    pub dtype: DLDataType,
    /// Extents of the axes.
    pub shape: Vec<i64>,
    /// Column-major rather than row-major.
    pub fortran_order: bool,
}

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// A header that describes plain numbers has a few hundred bytes.
const LONGEST_HEADER: u64 = 1 << 20;
/// The array starts at a multiple of it.
const ALIGNMENT: usize = 64;
/// NumPy leaves room for the outermost extent to grow to so many digits.
const GROWING_DIGITS: usize = 21;
const NATIVE: char = if cfg!(target_endian = "little") { '<' } else { '>' };
const FOREIGN: char = if cfg!(target_endian = "little") { '>' } else { '<' };

impl Array {
    /// Reads a file's header, and checks that the file is as long as it claims. `named` says what the
    /// elements are, whatever the header does. Also returns where the array starts.
    pub fn read(
        file: &mut impl Read,
        file_bytes: u64,
        named: Option<DLDataType>,
    ) -> Result<(Array, u64), String> {
        let mut front = [0; 8];
        file.read_exact(&mut front).map_err(|_| "is not a .npy file: it is too short".to_owned())?;
        if !front.starts_with(MAGIC) {
            return Err("is not a .npy file: it does not start with \\x93NUMPY".into());
        }
        let [.., major, minor] = front;
        let mut length = [0; 4];
        let wide = match (major, minor) {
            (1, 0) => false,
            (2 | 3, 0) => true,
            _ => return Err(format!("is .npy version {major}.{minor}: known are 1.0, 2.0 and 3.0")),
        };
        let truncated = |_| "is truncated: it ends within its header".to_owned();
        file.read_exact(&mut length[..if wide { 4 } else { 2 }]).map_err(truncated)?;
        let header_bytes = u64::from(u32::from_le_bytes(length));
        let data_offset = if wide { 12 } else { 10 } + header_bytes;
        if data_offset > file_bytes {
            return Err(format!(
                "is truncated: its header claims {header_bytes} bytes, and the file has {file_bytes}"
            ));
        }
        if header_bytes > LONGEST_HEADER {
            return Err(format!("has a header of {header_bytes} bytes, which no array of numbers needs"));
        }
        let mut text = vec![0; header_bytes as usize];
        file.read_exact(&mut text).map_err(truncated)?;
        let header = Literal { text: &text, at: 0 }.header()?;
        let array = Array {
            dtype: dtype_of(&header.descr, named)?,
            shape: header.shape,
            fortran_order: header.fortran_order,
        };
        let bytes = array.checked_bytes().ok_or("has a shape beyond 63 bits of bytes")?;
        if bytes > file_bytes - data_offset {
            let there = file_bytes - data_offset;
            return Err(format!(
                "is truncated: {} of {} take {bytes} bytes, and {there} are there",
                Shape(&array.shape),
                array.dtype
            ));
        }
        Ok((array, data_offset))
    }

    /// The header, up to where the array starts.
    pub fn header(&self) -> Vec<u8> {
        let fortran_order = if self.fortran_order { "True" } else { "False" };
        let descr = descr(self.dtype);
        let shape = Shape(&self.shape);
        let mut text =
            format!("{{'descr': '{descr}', 'fortran_order': {fortran_order}, 'shape': {shape}, }}");
        let outermost = if self.fortran_order { self.shape.last() } else { self.shape.first() };
        if let Some(extent) = outermost {
            let digits = extent.to_string().len();
            text.extend(std::iter::repeat_n(' ', GROWING_DIGITS.saturating_sub(digits)));
        }
        let front = MAGIC.len() + 4;
        // As NumPy, which adds a whole step where none is needed.
        let padding = ALIGNMENT - (front + text.len() + 1) % ALIGNMENT;
        text.extend(std::iter::repeat_n(' ', padding));
        text.push('\n');
        let length = u16::try_from(text.len()).expect("64 extents of 19 digits are fewer than 65536");
        [&MAGIC[..], &[1, 0], &length.to_le_bytes(), text.as_bytes()].concat()
    }

    /// Strides in elements.
    pub fn strides(&self) -> Vec<i64> {
        let order = if self.fortran_order { Order::F } else { Order::C };
        let mut strides = vec![0; self.shape.len()];
        layout::dense_strides(&self.shape, &[], order, &mut strides);
        strides
    }

    /// Bytes of an element.
    pub fn item_bytes(&self) -> u64 {
        Storage::of(self.dtype, true).bytes()
    }

    /// Bytes of the elements.
    pub fn num_bytes(&self) -> u64 {
        self.checked_bytes().unwrap_or(u64::MAX)
    }

    fn checked_bytes(&self) -> Option<u64> {
        let bytes = u64::try_from(layout::num_elements(&self.shape)?).ok()?.checked_mul(self.item_bytes())?;
        // With the header it must be the length of a file.
        i64::try_from(bytes).ok().filter(|bytes| *bytes < i64::MAX - (1 << 16)).map(|_| bytes)
    }

    /// "row-major" or "column-major".
    pub fn order(&self) -> &'static str {
        if self.fortran_order { "column-major" } else { "row-major" }
    }
}

impl fmt::Display for Array {
    /// "uint8 (512, 384, 3), row-major, 576.0 KiB"
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {}, {}", self.dtype, Shape(&self.shape), self.order(), Bytes(self.num_bytes()))
    }
}

/// Numbers as Python shows a tuple of them: "()", "(3,)", "(3, 4)".
pub struct Shape<'a>(pub &'a [i64]);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (axis, extent) in self.0.iter().enumerate() {
            write!(f, "{}{extent}", if axis == 0 { "" } else { ", " })?;
        }
        f.write_str(if self.0.len() == 1 { ",)" } else { ")" })
    }
}

/// How NumPy and ml_dtypes describe a dtype. The plan has ruled out all that they do not have.
fn descr(dtype: DLDataType) -> String {
    let DLDataType { code, bits, .. } = dtype;
    let (kind, bytes) = match (code, bits) {
        (code::BOOL, _) => ('b', 1),
        (code::INT, 8..) => ('i', bits / 8),
        (code::UINT, 8..) => ('u', bits / 8),
        (code::FLOAT, _) => ('f', bits / 8),
        (code::COMPLEX | code::BCOMPLEX, 32) => ('W', 4),
        (code::COMPLEX, _) => ('c', bits / 8),
        (code::BFLOAT, _) => ('V', 2),
        (code::FLOAT8_E5M2, _) => ('f', 1),
        _ => ('V', 1),
    };
    let order = if bytes == 1 && matches!(kind, 'b' | 'i' | 'u') { '|' } else { NATIVE };
    format!("{order}{kind}{bytes}")
}

/// Whether an array of a dtype can be written so that NumPy with ml_dtypes has it.
fn is_described(dtype: DLDataType) -> bool {
    let small = matches!(dtype.code, code::INT | code::UINT) && matches!(dtype.bits, 1 | 2 | 4);
    let half_complex = matches!(dtype.code, code::COMPLEX | code::BCOMPLEX) && dtype.bits == 32;
    dtype.lanes == 1 && (Scalar::of(dtype).is_some() || small || half_complex)
}

/// The dtype that a header describes. One that is `named` overrides it, if it is of its size.
fn dtype_of(descr: &str, named: Option<DLDataType>) -> Result<DLDataType, String> {
    let refuse = |why: &str| Err(format!("has dtype {descr:?}, {why}"));
    let (order, body) = match descr.chars().next() {
        Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
        _ => ('=', descr),
    };
    let mut rest = body.chars();
    let kind = rest.next().unwrap_or(' ');
    // A time has its unit behind: "M8[ns]".
    let size = rest.as_str().split('[').next().unwrap_or_default();
    let plain = size.bytes().all(|byte| byte.is_ascii_digit()) && !size.starts_with('0');
    let size: u64 = if plain { size.parse().unwrap_or(0) } else { 0 };
    match kind {
        'O' => return refuse("Python objects: save numbers instead, e.g. with a.astype('float64')"),
        'S' | 'a' | 'U' | 'T' => return refuse("text: save numbers instead, e.g. with a.astype('float64')"),
        _ if size == 0 || !"biufcVWMm".contains(kind) => return refuse("which is none of NumPy's numbers"),
        _ if order == FOREIGN && size > 1 => {
            return refuse(
                "the other byte order: save it as a.astype(a.dtype.newbyteorder('=')) in NumPy first",
            );
        }
        _ => {}
    }
    if let Some(dtype) = named {
        if !is_described(dtype) {
            return Err(format!("cannot have --source-dtype {dtype}: .npy files hold no such elements"));
        }
        let bytes = Storage::of(dtype, true).bytes();
        return if bytes == size {
            Ok(dtype)
        } else {
            Err(format!(
                "has elements of {size} bytes ({descr:?}), and those of --source-dtype {dtype} have {bytes}"
            ))
        };
    }
    let scalar = match (kind, size) {
        ('b', 1) => Scalar::Bool,
        ('i', 1) => Scalar::Int8,
        ('i', 2) => Scalar::Int16,
        ('i', 4) => Scalar::Int32,
        ('i', 8) => Scalar::Int64,
        ('u', 1) => Scalar::Uint8,
        ('u', 2) => Scalar::Uint16,
        ('u', 4) => Scalar::Uint32,
        ('u', 8) => Scalar::Uint64,
        ('f', 1) => Scalar::Float8E5m2,
        ('f', 2) => Scalar::Float16,
        ('f', 4) => Scalar::Float32,
        ('f', 8) => Scalar::Float64,
        ('c', 8) => Scalar::Complex64,
        ('c', 16) => Scalar::Complex128,
        // ml_dtypes has no other of two bytes.
        ('V', 2) => Scalar::Bfloat16,
        ('V', 1) => {
            return refuse(
                "which float8, float6, float4 and small integers share: say which with --source-dtype, \
                 e.g. --source-dtype float8_e4m3fn",
            );
        }
        ('W', 4) => return refuse("half-precision complex: say --source-dtype complex32 or bcomplex32"),
        ('V', _) => return refuse("raw bytes: say what they are with --source-dtype, e.g. float32"),
        ('M' | 'm', _) => return refuse("dates or times: take their counts with --source-dtype int64"),
        ('f' | 'c', _) => {
            return refuse("extended precision: save a.astype('float64') or a.astype('complex128') instead");
        }
        _ => return refuse("which is none of NumPy's numbers"),
    };
    Ok(scalar.dtype())
}

/// What a header says.
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<i64>,
}

/// The subset of Python literals that headers of plain arrays are made of. Nothing nests, so no
/// header can exhaust the stack.
struct Literal<'a> {
    text: &'a [u8],
    at: usize,
}

impl Literal<'_> {
    fn header(mut self) -> Result<Header, String> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.take(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            let twice = match key.as_str() {
                "descr" => descr.replace(self.descr()?).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.tuple()?).is_some(),
                _ => return Err(format!("has an unknown key {key:?} in its header")),
            };
            if twice {
                return Err(format!("has {key:?} twice in its header"));
            }
            if !self.take(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.broken("the end"));
        }
        let missing = |key| move || format!("has no {key:?} in its header");
        Ok(Header {
            descr: descr.ok_or_else(missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(missing("fortran_order"))?,
            shape: shape.ok_or_else(missing("shape"))?,
        })
    }

    fn descr(&mut self) -> Result<String, String> {
        if self.take(b'[') || self.take(b'(') {
            return Err(
                "has a structured dtype: save its fields one by one, e.g. np.save(path, a['x'])".into()
            );
        }
        self.string()
    }

    fn string(&mut self) -> Result<String, String> {
        self.skip_space();
        let quote = match self.text.get(self.at) {
            Some(quote @ (b'\'' | b'"')) => *quote,
            _ => return Err(self.broken("a string")),
        };
        let body = &self.text[self.at + 1..];
        let Some(length) = body.iter().position(|byte| *byte == quote) else {
            return Err(self.broken("a string that ends"));
        };
        self.at += length + 2;
        // What is quoted in a message is kept short.
        Ok(String::from_utf8_lossy(&body[..length.min(64)]).into_owned())
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.skip_space();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.broken("True or False"))
    }

    fn tuple(&mut self) -> Result<Vec<i64>, String> {
        let mut numbers = Vec::new();
        self.expect(b'(')?;
        while !self.take(b')') {
            if numbers.len() == MAX_NDIM {
                return Err(format!("has more than {MAX_NDIM} axes"));
            }
            numbers.push(self.number()?);
            if !self.take(b',') {
                self.expect(b')')?;
                if numbers.len() == 1 {
                    return Err("has a shape that is a number, not a tuple".into());
                }
                break;
            }
        }
        Ok(numbers)
    }

    fn number(&mut self) -> Result<i64, String> {
        self.skip_space();
        let start = self.at;
        let negative = self.take(b'-');
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit());
        let mut number = Some(0i64);
        for digit in digits {
            number = number.and_then(|number| number.checked_mul(10)?.checked_add(i64::from(digit - b'0')));
            self.at += 1;
        }
        if self.at == start + usize::from(negative) {
            return Err(self.broken("an extent"));
        }
        // Python 2 wrote some with an L.
        self.take(b'L');
        match number {
            _ if negative => Err("has an extent that is negative".into()),
            Some(number) => Ok(number),
            None => Err("has an extent beyond 63 bits".into()),
        }
    }

    fn skip_space(&mut self) {
        let space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c');
        self.at += self.text[self.at..].iter().take_while(space).count();
    }

    /// Takes a character, if it is next.
    fn take(&mut self, wanted: u8) -> bool {
        self.skip_space();
        let there = self.text.get(self.at) == Some(&wanted);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        if self.take(wanted) { Ok(()) } else { Err(self.broken(&format!("'{}'", wanted as char))) }
    }

    fn broken(&self, wanted: &str) -> String {
        match self.text.get(self.at..).filter(|rest| !rest.is_empty()) {
            Some(rest) => {
                let found = rest[..rest.len().min(8)].escape_ascii();
                format!("has a broken header: {wanted} is missing at character {}, \"{found}\"", self.at)
            }
            None => format!("has a broken header: it ends where {wanted} is missing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n";

    fn header(text: &[u8]) -> Result<Header, String> {
        Literal { text, at: 0 }.header()
    }

    #[test]
    fn what_is_written_reads_back() {
        let small = |code, bits| DLDataType { code, bits, lanes: 1 };
        let others =
            [small(code::INT, 4), small(code::UINT, 2), small(code::COMPLEX, 32), small(code::BCOMPLEX, 32)];
        for dtype in Scalar::all().map(Scalar::dtype).chain(others) {
            assert!(is_described(dtype));
            assert_eq!(dtype_of(&descr(dtype), Some(dtype)), Ok(dtype));
            for shape in [vec![], vec![0], vec![7], vec![i64::MAX; 64], vec![3; 64]] {
                let array = Array { dtype, shape, fortran_order: true };
                let bytes = array.header();
                assert_eq!(bytes.len() % ALIGNMENT, 0);
                let read = header(&bytes[10..]).expect("our own header");
                assert_eq!((read.shape, read.fortran_order), (array.shape, true));
                assert_eq!(read.descr, descr(dtype));
            }
        }
    }

    #[test]
    fn python_may_spell_a_header_in_many_ways() {
        for text in [
            "{'descr':'<f4','fortran_order':False,'shape':(3,4)}",
            "{ \"shape\" : ( 3L , 4L , ) ,\t'fortran_order' : False,\r\n'descr' : \"<f4\" , }  \n\n",
        ] {
            let read = header(text.as_bytes()).expect(text);
            assert_eq!((read.descr.as_str(), read.fortran_order, read.shape), ("<f4", false, vec![3, 4]));
        }
    }

    #[test]
    fn no_header_panics() {
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let mut text = HEADER.as_bytes().to_vec();
            for _ in 0..1 + random(4) {
                let at = random(text.len());
                match random(4) {
                    0 => text[at] = random(256) as u8,
                    1 => text.truncate(at + 1),
                    2 => text.insert(at, b"{}()[]',:-0123456789L \\"[random(23)]),
                    _ => drop(text.remove(at)),
                }
                if text.is_empty() {
                    break;
                }
            }
            if let Ok(read) = header(&text) {
                let _ = dtype_of(&read.descr, None);
            }
        }
    }
}
