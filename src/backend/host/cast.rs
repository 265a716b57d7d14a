//! Casts of rows. Thirteen real types are cast to each other directly; the formats of at most 8 bits
//! go through float32, which holds each of them exactly; complex numbers are pairs of reals.

use std::mem::MaybeUninit;

use super::bits;
use super::float::{self, Bf16, Decoded, F16, finite_f32, finite_f64, round_to_odd};
use crate::backend::job::Cast;
use crate::dtype::Scalar;

/// Reads, casts and writes `n` elements: source, its step in bytes, destination, its step, n.
type RowFn = unsafe fn(*const u8, isize, *mut u8, isize, usize);
/// Whether `n` elements have equal values on both sides.
type SameFn = unsafe fn(*const u8, isize, *const u8, isize, usize) -> bool;
/// Rounds `n` float32 to codes, a byte each.
type EncodeFn = fn(&[f32], &mut [u8]);

/// A real type as it lies in memory.
trait Real: Copy {
    /// The type whose arithmetic casts it: each value is exact there.
    type Wide: Copy;
    fn widen(self) -> Self::Wide;
}

/// How a wide value becomes a real type, by the rules of the C API.
trait Narrow<W> {
    fn narrow<const SATURATE: bool>(wide: W) -> Self;
}

/// A float32 that was rounded to odd, on its way to a smaller format.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Odd(f32);

/// Any byte but 0 is true.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bool(u8);

macro_rules! real {
    ($($type:ty => $wide:ty, $value:ident => $widen:expr;)*) => {$(
        impl Real for $type {
            type Wide = $wide;
            #[inline(always)]
            fn widen(self) -> $wide {
                let $value = self;
                $widen
            }
        }
    )*};
}

real! {
    Bool => i32, v => i32::from(v.0 != 0);
    i8 => i32, v => v.into();
    i16 => i32, v => v.into();
    i32 => i32, v => v;
    i64 => i64, v => v;
    u8 => i32, v => v.into();
    u16 => i32, v => v.into();
    u32 => i64, v => v.into();
    u64 => u64, v => v;
    F16 => f32, v => v.widen();
    Bf16 => f32, v => v.widen();
    f32 => f32, v => v;
    f64 => f64, v => v;
}

macro_rules! narrow_integer {
    ($type:ty: $($wide:ty)*) => {$(
        impl Narrow<$wide> for $type {
            #[inline(always)]
            fn narrow<const SATURATE: bool>(wide: $wide) -> $type {
                const LOWEST: $wide =
                    if <$type>::MIN as i128 > <$wide>::MIN as i128 { <$type>::MIN as $wide } else { <$wide>::MIN };
                const HIGHEST: $wide =
                    if (<$type>::MAX as i128) < <$wide>::MAX as i128 { <$type>::MAX as $wide } else { <$wide>::MAX };
                if SATURATE { wide.clamp(LOWEST, HIGHEST) as $type } else { wide as $type }
            }
        }
    )*};
}

macro_rules! narrow {
    ($type:ty, $saturate:ident: $($wide:ty, $value:ident => $narrow:expr;)*) => {$(
        impl Narrow<$wide> for $type {
            #[inline(always)]
            fn narrow<const $saturate: bool>($value: $wide) -> $type {
                $narrow
            }
        }
    )*};
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        narrow_integer! { $type: i32 i64 u64 }
        // `as` truncates, clamps to the range, and makes NaN 0.
        narrow! { $type, S: f32, v => v as $type; f64, v => v as $type; }
    )*};
}

integers! { i8 i16 i32 i64 u8 u16 u32 u64 }

narrow! { Bool, S:
    i32, v => Bool((v != 0).into());
    i64, v => Bool((v != 0).into());
    u64, v => Bool((v != 0).into());
    f32, v => Bool((v != 0.0).into());
    f64, v => Bool((v != 0.0).into());
}

narrow! { f32, S:
    i32, v => v as f32;
    i64, v => v as f32;
    u64, v => v as f32;
    f32, v => if S { finite_f32(v) } else { v };
    f64, v => if S { finite_f32(v as f32) } else { v as f32 };
}

narrow! { f64, S:
    i32, v => v.into();
    i64, v => v as f64;
    u64, v => v as f64;
    f32, v => if S { finite_f64(v.into()) } else { v.into() };
    f64, v => if S { finite_f64(v) } else { v };
}

narrow! { Odd, S:
    i32, v => Odd(round_to_odd(v.into()));
    i64, v => {
        let magnitude = odd_to_53_bits(v.unsigned_abs()) as f64;
        Odd(round_to_odd(if v < 0 { -magnitude } else { magnitude }))
    };
    u64, v => Odd(round_to_odd(odd_to_53_bits(v) as f64));
    f32, v => Odd(v);
    f64, v => Odd(round_to_odd(v));
}

narrow! { Bf16, S:
    i32, v => Bf16::round::<S>(<Odd as Narrow<i32>>::narrow::<S>(v).0);
    i64, v => Bf16::round::<S>(<Odd as Narrow<i64>>::narrow::<S>(v).0);
    u64, v => Bf16::round::<S>(<Odd as Narrow<u64>>::narrow::<S>(v).0);
    f32, v => Bf16::round::<S>(v);
    f64, v => Bf16::round::<S>(round_to_odd(v));
}

// Every integer that float32 rounds is beyond float16 anyway.
narrow! { F16, S:
    i32, v => F16::round::<S>(v as f32);
    i64, v => F16::round::<S>(v as f32);
    u64, v => F16::round::<S>(v as f32);
    f32, v => F16::round::<S>(v);
    f64, v => F16::round::<S>(round_to_odd(v));
}

/// The upper 53 bits of a large number, the last one set where any was lost: exact in float64.
fn odd_to_53_bits(value: u64) -> u64 {
    let cut = value & !0x7ff;
    let odd = cut | u64::from(value != cut) << 11;
    if value < 1 << 53 { value } else { odd }
}

/// Whether two wide values are the same number, NaN equal to NaN.
trait Same<W> {
    fn same(self, other: W) -> bool;
}

macro_rules! same {
    ($($a:ty, $b:ty: $x:ident $y:ident => $same:expr;)*) => {$(
        impl Same<$b> for $a {
            #[inline(always)]
            fn same(self, other: $b) -> bool {
                let ($x, $y) = (self, other);
                $same
            }
        }
    )*};
}

macro_rules! same_integers {
    ($($a:ty: $($b:ty)*;)*) => {$($(
        same! { $a, $b: x y => i128::from(x) == i128::from(y); }
    )*)*};
}

macro_rules! same_mixed {
    ($($integer:ty)*) => {$(
        same! {
            $integer, f32: x y => integer_is_float(x.into(), y.into());
            $integer, f64: x y => integer_is_float(x.into(), y);
            f32, $integer: x y => integer_is_float(y.into(), x.into());
            f64, $integer: x y => integer_is_float(y.into(), x);
        }
    )*};
}

same_integers! { i32: i32 i64 u64; i64: i32 i64 u64; u64: i32 i64 u64; }
same_mixed! { i32 i64 u64 }
same! {
    f32, f32: x y => x == y || x.is_nan() && y.is_nan();
    f32, f64: x y => f64::from(x) == y || x.is_nan() && y.is_nan();
    f64, f32: x y => x == f64::from(y) || x.is_nan() && y.is_nan();
    f64, f64: x y => x == y || x.is_nan() && y.is_nan();
}

#[inline(always)]
fn integer_is_float(integer: i128, float: f64) -> bool {
    // The cast back is exact for what is no fraction, and clamps far beyond any 64-bit integer.
    float as i128 == integer && float.trunc() == float
}

/// Casts a row of reals.
///
/// # Safety
/// `n` elements are readable and writable at their steps.
unsafe fn row<S: Real, D: Output + Narrow<S::Wide>, const SATURATE: bool>(
    source: *const u8,
    source_step: isize,
    destination: *mut u8,
    destination_step: isize,
    n: usize,
) {
    let (source_size, destination_size) = (size_of::<S>(), size_of::<D>());
    // SAFETY: index stays below n.
    unsafe {
        // The same loop twice: with constant steps it is vectorised.
        if source_step == source_size as isize && destination_step == destination_size as isize {
            for index in 0..n {
                let value = source.add(index * source_size).cast::<S>().read_unaligned();
                let value = D::narrow::<SATURATE>(value.widen());
                destination.add(index * destination_size).cast::<D>().write_unaligned(value);
            }
        } else {
            for index in 0..n as isize {
                let value = source.offset(index * source_step).cast::<S>().read_unaligned();
                let value = D::narrow::<SATURATE>(value.widen());
                destination.offset(index * destination_step).cast::<D>().write_unaligned(value);
            }
        }
    }
}

/// What a row can be cast to: the reals and [`Odd`].
trait Output: Copy {}
impl<T: Real> Output for T {}
impl Output for Odd {}

/// Compares two rows of reals.
///
/// # Safety
/// `n` elements are readable at their steps.
unsafe fn same_row<S: Real, D: Real>(
    source: *const u8,
    source_step: isize,
    destination: *const u8,
    destination_step: isize,
    n: usize,
) -> bool
where
    S::Wide: Same<D::Wide>,
{
    (0..n as isize).all(|index| {
        // SAFETY: index stays below n.
        let (a, b) = unsafe {
            (
                source.offset(index * source_step).cast::<S>().read_unaligned(),
                destination.offset(index * destination_step).cast::<D>().read_unaligned(),
            )
        };
        a.widen().same(b.widen())
    })
}

const REALS: usize = 13;

/// Calls a macro with all real types, in the order of [`Scalar`].
macro_rules! with_reals {
    ($macro:ident $($arguments:tt)*) => {
        $macro! { [Bool i8 i16 i32 i64 u8 u16 u32 u64 F16 Bf16 f32 f64] $($arguments)* }
    };
}

macro_rules! row_table {
    ([$($source:ident)*] $saturate:literal) => {
        [$(with_reals!(row_table_of $source $saturate)),*]
    };
}

macro_rules! row_table_of {
    ([$($destination:ident)*] $source:ident $saturate:literal) => {
        [$(row::<$source, $destination, $saturate> as RowFn,)* row::<$source, Odd, $saturate> as RowFn]
    };
}

macro_rules! same_table {
    ([$($source:ident)*]) => {
        [$(with_reals!(same_table_of $source)),*]
    };
}

macro_rules! same_table_of {
    ([$($destination:ident)*] $source:ident) => {
        [$(same_row::<$source, $destination> as SameFn),*]
    };
}

static ROWS: [[RowFn; REALS + 1]; REALS] = with_reals!(row_table false);
static SATURATING_ROWS: [[RowFn; REALS + 1]; REALS] = with_reals!(row_table true);
static SAME_ROWS: [[SameFn; REALS]; REALS] = with_reals!(same_table);
/// The column of [`Odd`].
const ODD: usize = REALS;
const FLOAT32: usize = Scalar::Float32 as usize;
const BOOL: usize = Scalar::Bool as usize;
const INT8: usize = Scalar::Int8 as usize;

/// The place of a real type in the tables.
fn real_index(scalar: Scalar) -> Option<usize> {
    let index = scalar as usize;
    (index < REALS).then_some(index)
}

/// How codes of a small format become float32.
fn decoder(scalar: Scalar) -> Option<&'static Decoded> {
    if scalar == Scalar::Float8E8m0fnu {
        return Some(&float::DECODED_E8M0);
    }
    small_index(scalar).map(|index| &float::DECODED[index])
}

fn small_index(scalar: Scalar) -> Option<usize> {
    Some(match scalar {
        Scalar::Float8E3m4 => float::FLOAT8_E3M4,
        Scalar::Float8E4m3 => float::FLOAT8_E4M3,
        Scalar::Float8E4m3b11fnuz => float::FLOAT8_E4M3B11FNUZ,
        Scalar::Float8E4m3fn => float::FLOAT8_E4M3FN,
        Scalar::Float8E4m3fnuz => float::FLOAT8_E4M3FNUZ,
        Scalar::Float8E5m2 => float::FLOAT8_E5M2,
        Scalar::Float8E5m2fnuz => float::FLOAT8_E5M2FNUZ,
        Scalar::Float6E2m3fn => float::FLOAT6_E2M3FN,
        Scalar::Float6E3m2fn => float::FLOAT6_E3M2FN,
        Scalar::Float4E2m1fn => float::FLOAT4_E2M1FN,
        _ => return None,
    })
}

fn encode<const FORMAT: usize, const SATURATE: bool>(values: &[f32], codes: &mut [u8]) {
    for (value, code) in values.iter().zip(codes) {
        *code = float::SMALL[FORMAT].round::<SATURATE>(*value);
    }
}

fn encode_e8m0<const SATURATE: bool>(values: &[f32], codes: &mut [u8]) {
    for (value, code) in values.iter().zip(codes) {
        *code = float::round_e8m0::<SATURATE>(*value);
    }
}

/// How float32 become codes of a small format.
fn encoder<const SATURATE: bool>(scalar: Scalar) -> Option<EncodeFn> {
    const fn table<const SATURATE: bool>() -> [EncodeFn; float::SMALL.len()] {
        [
            encode::<0, SATURATE>,
            encode::<1, SATURATE>,
            encode::<2, SATURATE>,
            encode::<3, SATURATE>,
            encode::<4, SATURATE>,
            encode::<5, SATURATE>,
            encode::<6, SATURATE>,
            encode::<7, SATURATE>,
            encode::<8, SATURATE>,
            encode::<9, SATURATE>,
        ]
    }
    if scalar == Scalar::Float8E8m0fnu {
        return Some(encode_e8m0::<SATURATE>);
    }
    small_index(scalar).map(|index| table::<SATURATE>()[index])
}

/// Elements that go through buffers at a time: they stay in the first cache.
const CHUNK: usize = 256;

/// A cast that is ready to run on rows.
pub struct Caster {
    /// From what is read or decoded to what is written or encoded.
    row: RowFn,
    same: SameFn,
    decoder: Option<&'static Decoded>,
    encoder: Option<(EncodeFn, &'static Decoded)>,
    /// Bits of a code, where a side counts bits.
    from_bits: Option<u32>,
    to_bits: Option<u32>,
    /// Bytes from the real to the imaginary part, where a side is complex and the other is not.
    from_imaginary: Option<isize>,
    to_imaginary: Option<isize>,
    /// The index of a complex source's parts, for comparing with 0 and for bool.
    part: usize,
    to_bool: bool,
    exact: bool,
}

impl Caster {
    /// Prepares a cast.
    pub fn new(cast: &Cast) -> Caster {
        let Cast { from, to, saturate, exact, .. } = *cast;
        let imaginary = |scalar: Scalar| scalar.complex_part().map(|part| (part.bits() / 8) as isize);
        let real = |scalar: Scalar| scalar.complex_part().unwrap_or(scalar);
        let decoder_of_to = decoder(real(to));
        let source = real_index(real(from)).unwrap_or(FLOAT32);
        let destination = real_index(real(to));
        // A part of equal type is moved; infinity is not out of its range.
        let saturate = saturate && real(from) != real(to);
        let rows = if saturate { &SATURATING_ROWS } else { &ROWS };
        let encoder = if saturate { encoder::<true>(real(to)) } else { encoder::<false>(real(to)) };
        Caster {
            row: rows[source][destination.unwrap_or(ODD)],
            same: SAME_ROWS[source][destination.unwrap_or(FLOAT32)],
            decoder: decoder(real(from)),
            encoder: encoder.zip(decoder_of_to),
            from_bits: cast.from_bits.then(|| from.bits()),
            to_bits: cast.to_bits.then(|| to.bits()),
            from_imaginary: imaginary(from),
            to_imaginary: imaginary(to),
            part: source,
            to_bool: to == Scalar::Bool,
            exact,
        }
    }

    /// Casts `n` elements, whose offsets and steps count what the job says: bytes or bits. False: a
    /// value was lost where none may be.
    ///
    /// # Safety
    /// `n` elements are readable from `source` at `from`, and writable from `destination` at `to`.
    pub unsafe fn run(
        &self,
        source: *const u8,
        (mut from, from_step): (i64, i64),
        destination: *mut u8,
        (mut to, to_step): (i64, i64),
        mut n: usize,
    ) -> bool {
        let direct = self.decoder.is_none()
            && self.encoder.is_none()
            && self.from_imaginary.is_none()
            && self.to_imaginary.is_none();
        if direct && !self.exact {
            // SAFETY: as the caller says; a side that counts bits has a decoder or an encoder.
            unsafe {
                (self.row)(
                    source.offset(from as isize),
                    from_step as isize,
                    destination.offset(to as isize),
                    to_step as isize,
                    n,
                );
            }
            return true;
        }
        while n > 0 {
            let some = n.min(CHUNK);
            // SAFETY: the chunks cover the caller's row.
            let kept = unsafe { self.chunk(source, (from, from_step), destination, (to, to_step), some) };
            if !kept {
                return false;
            }
            from += from_step * some as i64;
            to += to_step * some as i64;
            n -= some;
        }
        true
    }

    /// # Safety
    /// As [`Caster::run`], with `n` at most [`CHUNK`].
    unsafe fn chunk(
        &self,
        source: *const u8,
        (from, from_step): (i64, i64),
        destination: *mut u8,
        (to, to_step): (i64, i64),
        n: usize,
    ) -> bool {
        let mut decoded = [const { MaybeUninit::<f32>::uninit() }; CHUNK];
        let mut odd = [const { MaybeUninit::<f32>::uninit() }; CHUNK];
        let mut codes = [0u8; CHUNK];
        const F32_STEP: isize = size_of::<f32>() as isize;
        // SAFETY: every access below is to one of the n elements that the caller vouches for, or to
        // the first n places of a buffer of CHUNK.
        unsafe {
            let (row_source, row_source_step) = match self.decoder {
                Some(table) => {
                    self.gather(source, from, from_step, &mut codes[..n]);
                    for (place, code) in decoded.iter_mut().zip(&codes[..n]) {
                        place.write(f32::from_bits(table[usize::from(*code)]));
                    }
                    (decoded.as_ptr().cast::<u8>(), F32_STEP)
                }
                None => (source.offset(from as isize), from_step as isize),
            };
            if let Some((encode, table)) = self.encoder {
                (self.row)(row_source, row_source_step, odd.as_mut_ptr().cast(), F32_STEP, n);
                encode(odd[..n].assume_init_ref(), &mut codes[..n]);
                self.scatter(&codes[..n], destination, to, to_step);
                if self.exact {
                    for (place, code) in odd.iter_mut().zip(&codes[..n]) {
                        place.write(f32::from_bits(table[usize::from(*code)]));
                    }
                    if !(self.same)(row_source, row_source_step, odd.as_ptr().cast(), F32_STEP, n) {
                        return false;
                    }
                }
            } else {
                let row_destination = destination.offset(to as isize);
                (self.row)(row_source, row_source_step, row_destination, to_step as isize, n);
                if self.exact
                    && !(self.same)(row_source, row_source_step, row_destination, to_step as isize, n)
                {
                    return false;
                }
                if let Some(imaginary) = self.to_imaginary {
                    // The imaginary part is as many zero bytes as it is away.
                    for index in 0..n as isize {
                        let part = row_destination.offset(index * to_step as isize + imaginary);
                        part.write_bytes(0, imaginary as usize);
                    }
                }
            }
            match self.from_imaginary {
                Some(imaginary) => {
                    let imaginary = source.offset(from as isize + imaginary);
                    self.mind_imaginary(imaginary, from_step as isize, destination, (to, to_step), n)
                }
                None => true,
            }
        }
    }

    /// A complex number is true by its imaginary part too, and is kept only if that is 0.
    ///
    /// # Safety
    /// As [`Caster::run`]; `imaginary` is where the first such part is.
    unsafe fn mind_imaginary(
        &self,
        imaginary: *const u8,
        step: isize,
        destination: *mut u8,
        (to, to_step): (i64, i64),
        n: usize,
    ) -> bool {
        let zero = 0i8;
        // SAFETY: as the caller says; a step of 0 reads the one zero again and again.
        unsafe {
            if self.exact && !(SAME_ROWS[self.part][INT8])(imaginary, step, (&raw const zero).cast(), 0, n) {
                return false;
            }
            if self.to_bool {
                let mut truths = [0u8; CHUNK];
                (ROWS[self.part][BOOL])(imaginary, step, truths.as_mut_ptr(), 1, n);
                for (index, truth) in truths[..n].iter().enumerate() {
                    let place = destination.offset((to + index as i64 * to_step) as isize);
                    place.write(place.read() | truth);
                }
            }
        }
        true
    }

    /// Reads codes, a byte each.
    ///
    /// # Safety
    /// As [`Caster::run`], with `n` the length of `codes`.
    unsafe fn gather(&self, source: *const u8, from: i64, step: i64, codes: &mut [u8]) {
        for (index, code) in codes.iter_mut().enumerate() {
            let at = from + index as i64 * step;
            // SAFETY: the element is one of the caller's.
            *code = unsafe {
                match self.from_bits {
                    Some(count) => bits::read(source, at, count),
                    None => source.offset(at as isize).read(),
                }
            };
        }
    }

    /// Writes codes.
    ///
    /// # Safety
    /// As [`Caster::run`], with `n` the length of `codes`.
    unsafe fn scatter(&self, codes: &[u8], destination: *mut u8, to: i64, step: i64) {
        for (index, code) in codes.iter().enumerate() {
            let at = to + index as i64 * step;
            // SAFETY: the element is one of the caller's.
            unsafe {
                match self.to_bits {
                    Some(count) => bits::write(destination, at, count, *code),
                    None => destination.offset(at as isize).write(*code),
                }
            }
        }
    }
}
