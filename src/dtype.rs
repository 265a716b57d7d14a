//! Dtypes: codes, sizes, names and casting rules.
#![forbid(unsafe_code)]

use std::fmt;

use crate::dlpack::raw::{DLDataType, dtype_code as code};
use crate::error::{Error, Excerpt};

/// The scalar types that can be cast to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Bfloat16,
    Float32,
    Float64,
    Complex64,
    Complex128,
    Float8E3m4,
    Float8E4m3,
    Float8E4m3b11fnuz,
    Float8E4m3fn,
    Float8E4m3fnuz,
    Float8E5m2,
    Float8E5m2fnuz,
    Float8E8m0fnu,
    Float6E2m3fn,
    Float6E3m2fn,
    Float4E2m1fn,
}

struct Row {
    scalar: Scalar,
    code: u8,
    bits: u8,
    name: &'static str,
    /// Bit `d` says whether `numpy.can_cast(self, d, 'safe')`, with ml_dtypes registered.
    safe: u32,
    /// Likewise for 'same_kind'.
    same_kind: u32,
}

const fn row(scalar: Scalar, code: u8, bits: u8, name: &'static str, safe: u32, same_kind: u32) -> Row {
    Row { scalar, code, bits, name, safe, same_kind }
}

/// In the order of [`Scalar`]. The casting columns are NumPy 2.4 with ml_dtypes 0.6, which
/// tests/vectors/can_cast.json holds cell by cell.
#[rustfmt::skip]
const TABLE: [Row; 26] = [
    row(Scalar::Bool,              code::BOOL,               8,   "bool",               0x3ffffff, 0x3ffffff),
    row(Scalar::Int8,              code::INT,                8,   "int8",               0x3fffe1e, 0x3fffe1e),
    row(Scalar::Int16,             code::INT,                16,  "int16",              0x000781c, 0x3fffe1e),
    row(Scalar::Int32,             code::INT,                32,  "int32",              0x0005018, 0x3fffe1e),
    row(Scalar::Int64,             code::INT,                64,  "int64",              0x0005010, 0x3fffe1e),
    row(Scalar::Uint8,             code::UINT,               8,   "uint8",              0x3fffffc, 0x3fffffe),
    row(Scalar::Uint16,            code::UINT,               16,  "uint16",             0x00079d8, 0x3fffffe),
    row(Scalar::Uint32,            code::UINT,               32,  "uint32",             0x0005190, 0x3fffffe),
    row(Scalar::Uint64,            code::UINT,               64,  "uint64",             0x0005100, 0x3fffffe),
    row(Scalar::Float16,           code::FLOAT,              16,  "float16",            0x0007a00, 0x3fffe00),
    row(Scalar::Bfloat16,          code::BFLOAT,             16,  "bfloat16",           0x0007c00, 0x3effc00),
    row(Scalar::Float32,           code::FLOAT,              32,  "float32",            0x0007800, 0x3fffe00),
    row(Scalar::Float64,           code::FLOAT,              64,  "float64",            0x0005000, 0x3fffe00),
    row(Scalar::Complex64,         code::COMPLEX,            64,  "complex64",          0x0006000, 0x3efe400),
    row(Scalar::Complex128,        code::COMPLEX,            128, "complex128",         0x0004000, 0x3efe400),
    row(Scalar::Float8E3m4,        code::FLOAT8_E3M4,        8,   "float8_e3m4",        0x3aff800, 0x3affc00),
    row(Scalar::Float8E4m3,        code::FLOAT8_E4M3,        8,   "float8_e4m3",        0x3aff800, 0x3affc00),
    row(Scalar::Float8E4m3b11fnuz, code::FLOAT8_E4M3B11FNUZ, 8,   "float8_e4m3b11fnuz", 0x3aff800, 0x3affc00),
    row(Scalar::Float8E4m3fn,      code::FLOAT8_E4M3FN,      8,   "float8_e4m3fn",      0x3aff800, 0x3affc00),
    row(Scalar::Float8E4m3fnuz,    code::FLOAT8_E4M3FNUZ,    8,   "float8_e4m3fnuz",    0x3aff800, 0x3affc00),
    row(Scalar::Float8E5m2,        code::FLOAT8_E5M2,        8,   "float8_e5m2",        0x0107800, 0x3bffe00),
    row(Scalar::Float8E5m2fnuz,    code::FLOAT8_E5M2FNUZ,    8,   "float8_e5m2fnuz",    0x3aff800, 0x3affc00),
    row(Scalar::Float8E8m0fnu,     code::FLOAT8_E8M0FNU,     8,   "float8_e8m0fnu",     0x0407800, 0x0407c00),
    row(Scalar::Float6E2m3fn,      code::FLOAT6_E2M3FN,      6,   "float6_e2m3fn",      0x3aff800, 0x3affc00),
    row(Scalar::Float6E3m2fn,      code::FLOAT6_E3M2FN,      6,   "float6_e3m2fn",      0x3aff800, 0x3affc00),
    row(Scalar::Float4E2m1fn,      code::FLOAT4_E2M1FN,      4,   "float4_e2m1fn",      0x3aff800, 0x3affc00),
];

/// Rows of [`TABLE`] by code and by the logarithm of their width, which no two rows of a code share.
const BY_CODE: [[u8; 8]; code::BCOMPLEX as usize + 1] = {
    let mut rows = [[u8::MAX; 8]; code::BCOMPLEX as usize + 1];
    let mut index = 0;
    while index < TABLE.len() {
        let place = &mut rows[TABLE[index].code as usize][TABLE[index].bits.ilog2() as usize];
        assert!(*place == u8::MAX);
        *place = index as u8;
        index += 1;
    }
    rows
};

impl Scalar {
    /// Every scalar, in order.
    pub fn all() -> impl Iterator<Item = Scalar> {
        TABLE.iter().map(|row| row.scalar)
    }

    /// The one in that place.
    pub(crate) const fn nth(index: usize) -> Option<Scalar> {
        if index < TABLE.len() { Some(TABLE[index].scalar) } else { None }
    }

    /// The scalar of a dtype, its lanes aside; None where values cannot be interpreted: opaque
    /// handles, integers of other widths, complex numbers of two 16-bit floats, unknown codes.
    #[inline]
    pub fn of(dtype: DLDataType) -> Option<Scalar> {
        let widths = BY_CODE.get(usize::from(dtype.code))?;
        let row = TABLE.get(usize::from(widths[dtype.bits.checked_ilog2()? as usize]))?;
        (row.bits == dtype.bits).then_some(row.scalar)
    }

    /// The dtype of one such scalar.
    pub const fn dtype(self) -> DLDataType {
        let row = &TABLE[self as usize];
        DLDataType { code: row.code, bits: row.bits, lanes: 1 }
    }

    /// NumPy's and ml_dtypes' name.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].name
    }

    /// Bits of one scalar.
    pub fn bits(self) -> u32 {
        TABLE[self as usize].bits.into()
    }

    /// For a complex scalar, the type of its two parts.
    pub fn complex_part(self) -> Option<Scalar> {
        match self {
            Scalar::Complex64 => Some(Scalar::Float32),
            Scalar::Complex128 => Some(Scalar::Float64),
            _ => None,
        }
    }
}

/// Which casts are allowed; the names are those of `numpy.can_cast`, and [`Casting::Exact`] is ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Casting {
    /// Any.
    #[default]
    Unsafe,
    /// Those that NumPy calls 'same_kind'.
    SameKind,
    /// Those that NumPy calls 'safe'.
    Safe,
    /// Any, as long as every value that is there survives it.
    Exact,
}

impl Casting {
    /// Whether the rule lets `from` become `to`, by their types alone.
    pub fn allows(self, from: Scalar, to: Scalar) -> bool {
        let row = &TABLE[from as usize];
        match self {
            Casting::Unsafe | Casting::Exact => true,
            Casting::SameKind => row.same_kind >> to as u32 & 1 == 1,
            Casting::Safe => row.safe >> to as u32 & 1 == 1,
        }
    }

    /// The C constant's name.
    pub fn name(self) -> &'static str {
        match self {
            Casting::Unsafe => "AB_CAST_UNSAFE",
            Casting::SameKind => "AB_CAST_SAME_KIND",
            Casting::Safe => "AB_CAST_SAFE",
            Casting::Exact => "AB_CAST_EXACT",
        }
    }
}

/// How elements of a dtype lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Bits from one element to the next of a compact tensor.
    pub bits: u64,
}

impl Storage {
    /// Elements of less than a byte are packed unless `padded`; all others take whole bytes.
    #[inline]
    pub fn of(dtype: DLDataType, padded: bool) -> Storage {
        let bits = u64::from(dtype.bits) * u64::from(dtype.lanes);
        if is_subbyte(dtype) { Storage::of_subbyte(bits, padded) } else { Storage::of_whole_bytes(bits) }
    }

    #[inline(always)]
    fn of_whole_bytes(bits: u64) -> Storage {
        Storage { bits: (bits + 7) & !7 }
    }

    #[cold]
    fn of_subbyte(bits: u64, padded: bool) -> Storage {
        if padded { Storage::of_whole_bytes(bits) } else { Storage { bits } }
    }

    /// Bytes of so many elements, packed ones packed; None where they do not fit 63 bits.
    #[inline(always)]
    pub fn num_bytes(self, num_elements: i64) -> Option<u64> {
        if self.is_bytes() {
            return num_elements.checked_mul(self.bytes() as i64).map(|bytes| bytes as u64);
        }
        let bits = u128::from(num_elements.unsigned_abs()) * u128::from(self.bits);
        i64::try_from(bits.div_ceil(8)).ok().map(i64::unsigned_abs)
    }

    /// Whether each element starts at a byte.
    #[inline]
    pub fn is_bytes(self) -> bool {
        self.bits.is_multiple_of(8)
    }

    /// Bytes of an element; only where [`Storage::is_bytes`].
    #[inline]
    pub fn bytes(self) -> u64 {
        debug_assert!(self.is_bytes());
        self.bits / 8
    }
}

/// Whether a scalar of the dtype is smaller than a byte.
pub fn is_subbyte(dtype: DLDataType) -> bool {
    dtype.bits < 8
}

/// Whether DLPack 1.3 names the code.
pub fn is_known_code(dtype: DLDataType) -> bool {
    dtype.code <= code::BCOMPLEX
}

/// For a code that allows a single width, that width.
pub fn only_width(dtype: DLDataType) -> Option<u8> {
    match dtype.code {
        code::FLOAT6_E2M3FN | code::FLOAT6_E3M2FN => Some(6),
        code::FLOAT4_E2M1FN => Some(4),
        _ => None,
    }
}

/// Families whose names are a stem and a width.
const STEMS: [(&str, u8); 7] = [
    ("bfloat", code::BFLOAT),
    ("bcomplex", code::BCOMPLEX),
    ("bool", code::BOOL),
    ("uint", code::UINT),
    ("int", code::INT),
    ("float", code::FLOAT),
    ("complex", code::COMPLEX),
];
const HANDLE: (&str, u8) = ("handle", code::OPAQUE_HANDLE);

impl fmt::Display for DLDataType {
    /// "float32", "bfloat16", "int4", "float32x4"; "dtype(code=99, bits=16)" for an unknown code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scalar) = Scalar::of(*self) {
            f.write_str(scalar.name())?;
        } else if let Some((stem, _)) = STEMS.iter().chain([&HANDLE]).find(|(_, code)| *code == self.code) {
            write!(f, "{stem}{}", self.bits)?;
        } else {
            write!(f, "dtype(code={}, bits={})", self.code, self.bits)?;
        }
        if self.lanes == 1 { Ok(()) } else { write!(f, "x{}", self.lanes) }
    }
}

impl std::str::FromStr for DLDataType {
    type Err = Error;

    /// Reads a name ("float32"), an array-interface typestr ("<f4") or a PEP 3118 format ("Zd").
    fn from_str(text: &str) -> Result<DLDataType, Error> {
        parse(text).map_err(|why| Error::DtypeText { text: Excerpt::new(text), why })
    }
}

const NO_SPELLING: &str = "no dtype is spelled so; try \"float32\", \"<f4\" or \"f\"";
const FOREIGN: &str = "its byte order is not this machine's; swap the bytes first";
const NO_SCALAR: &str = "DLPack carries plain booleans and numbers only";

fn parse(text: &str) -> Result<DLDataType, &'static str> {
    if let Some(dtype) = parse_name(text) {
        return Ok(dtype);
    }
    let (order, body) = match text.as_bytes().first() {
        Some(order @ (b'<' | b'>' | b'|' | b'=' | b'@' | b'!')) => (*order, &text[1..]),
        _ => (b'@', text),
    };
    let dtype = match parse_typestr(body, order)? {
        Some(dtype) => dtype,
        None => parse_format(body, order)?,
    };
    let foreign = if cfg!(target_endian = "little") { matches!(order, b'>' | b'!') } else { order == b'<' };
    if foreign && dtype.bits > 8 { Err(FOREIGN) } else { Ok(dtype) }
}

fn parse_name(text: &str) -> Option<DLDataType> {
    parse_scalar_name(text).or_else(|| {
        let (name, lanes) = text.rsplit_once('x')?;
        Some(DLDataType { lanes: parse_number(lanes)?, ..parse_scalar_name(name)? })
    })
}

fn parse_scalar_name(name: &str) -> Option<DLDataType> {
    if let Some(row) = TABLE.iter().find(|row| row.name == name) {
        return Some(row.scalar.dtype());
    }
    let (width, code) = STEMS
        .iter()
        .chain([&HANDLE])
        .find_map(|(stem, code)| Some((name.strip_prefix(stem).filter(|width| !width.is_empty())?, *code)))?;
    let bits = u8::try_from(parse_number(width)?).ok()?;
    let plausible = match code {
        code::FLOAT => matches!(bits, 16 | 32 | 64),
        code::BFLOAT => bits == 16,
        code::BCOMPLEX => bits == 32,
        code::COMPLEX => matches!(bits, 32 | 64 | 128),
        _ => bits.is_power_of_two(),
    };
    plausible.then_some(DLDataType { code, bits, lanes: 1 })
}

/// A positive number in plain digits, without sign or leading zero.
fn parse_number(digits: &str) -> Option<u16> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    if plain { digits.parse().ok() } else { None }
}

/// The array interface's typestr without its byte order: a letter and a number of bytes. None: it
/// does not look like one.
fn parse_typestr(body: &str, order: u8) -> Result<Option<DLDataType>, &'static str> {
    let mut characters = body.chars();
    let Some(kind) = characters.next() else { return Err(NO_SPELLING) };
    let size = characters.as_str();
    if size.is_empty() || order == b'@' && body.len() == 1 {
        return Ok(None);
    }
    let bytes = parse_number(size);
    let code = match (kind, bytes) {
        ('b', Some(1)) => code::BOOL,
        ('i', Some(1 | 2 | 4 | 8)) => code::INT,
        ('u', Some(1 | 2 | 4 | 8)) => code::UINT,
        ('f', Some(2 | 4 | 8)) => code::FLOAT,
        ('c', Some(8 | 16)) => code::COMPLEX,
        ('f' | 'c' | 'O' | 'S' | 'a' | 'U' | 'V' | 't', Some(_)) | ('M' | 'm', _) => return Err(NO_SCALAR),
        _ => return Ok(None),
    };
    Ok(bytes.map(|bytes| DLDataType { code, bits: (bytes * 8) as u8, lanes: 1 }))
}

/// A PEP 3118 format without its byte order.
fn parse_format(body: &str, order: u8) -> Result<DLDataType, &'static str> {
    // The sizes of C's long, size_t and pointers hold without a prefix or after '@'; the others are
    // the standard sizes, which struct gives no 'n' and 'N'.
    let native = order == b'@';
    let long = if native && cfg!(not(windows)) { 8 * size_of::<isize>() as u8 } else { 32 };
    let word = 8 * size_of::<usize>() as u8;
    let (code, bits) = match body {
        "?" => (code::BOOL, 8),
        "b" => (code::INT, 8),
        "h" => (code::INT, 16),
        "i" => (code::INT, 32),
        "l" => (code::INT, long),
        "q" => (code::INT, 64),
        "n" if native => (code::INT, word),
        "B" => (code::UINT, 8),
        "H" => (code::UINT, 16),
        "I" => (code::UINT, 32),
        "L" => (code::UINT, long),
        "Q" => (code::UINT, 64),
        "N" if native => (code::UINT, word),
        "e" => (code::FLOAT, 16),
        "f" => (code::FLOAT, 32),
        "d" => (code::FLOAT, 64),
        "Zf" => (code::COMPLEX, 64),
        "Zd" => (code::COMPLEX, 128),
        "g" | "Zg" | "s" | "p" | "P" | "x" | "c" | "O" | "w" | "u" | "t" | "&" | "M" | "m" => {
            return Err(NO_SCALAR);
        }
        _ if body.starts_with(|c: char| c.is_ascii_digit() || c == '(') || body.starts_with("T{") => {
            return Err("it is a struct, a string or an array; give the type of one element");
        }
        _ => return Err(NO_SPELLING),
    };
    Ok(DLDataType { code, bits, lanes: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.scalar as usize, index);
            assert_eq!(Scalar::of(row.scalar.dtype()), Some(row.scalar));
            assert!(Casting::Safe.allows(row.scalar, row.scalar));
        }
    }

    #[test]
    fn every_name_reads_back() {
        let others = [(code::INT, 4, 1), (code::BOOL, 1, 1), (code::COMPLEX, 32, 1), (code::FLOAT, 32, 4)];
        let others = others.map(|(code, bits, lanes)| DLDataType { code, bits, lanes });
        for dtype in Scalar::all().map(Scalar::dtype).chain(others) {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
    }

    #[test]
    fn storage_is_packed_below_a_byte_only() {
        let bits = |bits, lanes, padded| Storage::of(DLDataType { code: 0, bits, lanes }, padded).bits;
        assert_eq!(bits(4, 1, false), 4);
        assert_eq!(bits(4, 1, true), 8);
        assert_eq!(bits(6, 3, false), 18);
        assert_eq!(bits(6, 3, true), 24);
        assert_eq!(bits(12, 1, false), 16);
        assert_eq!(bits(24, 2, false), 48);
    }
}
