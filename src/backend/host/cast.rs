//! Casts of rows. Thirteen real types are cast to each other directly; the formats of at most 8 bits
//! go through float32, which holds each of them exactly; complex numbers are pairs of reals.

mod kernel;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::mem::MaybeUninit;

pub use self::kernel::CastKernel;
use super::float::{self, Bf16, F16, SMALL, finite_f32, finite_f64, round_to_odd};
use super::isa::Isa;
#[cfg(target_arch = "x86_64")]
use super::stream::Memory;
use super::transpose::LoadFn;
use crate::backend::job::Cast;
use crate::dtype::Scalar;

/// Reads, casts and writes `n` elements that follow each other: source, destination, n.
type RowFn = unsafe fn(*const u8, *mut u8, usize);
/// Whether `n` elements have equal values on both sides.
type SameFn = unsafe fn(*const u8, isize, *const u8, isize, usize) -> bool;
/// A float32 anywhere in memory.
type Float = MaybeUninit<[u8; 4]>;
/// Rounds float32, all of them written, to codes, a byte each.
type EncodeFn = unsafe fn(&[Float], &mut [u8]);
/// What codes stand for.
type DecodeFn = unsafe fn(&[u8], &mut [Float]);

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
    u32 => u32, v => v;
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

/// What `as` does (truncate, clamp to the range, NaN to 0), in a form that is vectorised on x86-64. AArch64
/// has instructions for `as`; its maximum of a signalling NaN and a number, which the comparisons below
/// would become, is NaN.
macro_rules! narrow_float {
    ($type:ty, through $through:ty: $($float:ty)*) => {$(
        impl Narrow<$float> for $type {
            #[inline(always)]
            fn narrow<const SATURATE: bool>(wide: $float) -> $type {
                if cfg!(target_arch = "aarch64") {
                    return wide as $type;
                }
                const LOWEST: $float = <$type>::MIN as $float;
                const HIGHEST: $float = <$type>::MAX as $float;
                // A power of two that the range ends before, exact in every float.
                const END: $float = 2.0 * (<$type>::MAX / 2 + 1) as $float;
                // NaN becomes the lowest, which is 0 already where there is no sign.
                let inside = if wide > LOWEST { wide } else { LOWEST };
                let cut = if HIGHEST < END {
                    let inside = if inside < HIGHEST { inside } else { HIGHEST };
                    // SAFETY: it is a number that truncates to one of the type.
                    unsafe { inside.to_int_unchecked::<$through>() as $type }
                } else {
                    let below = if inside < END { inside } else { 0.0 };
                    // SAFETY: as above.
                    let cut = unsafe { below.to_int_unchecked::<$through>() as $type };
                    if inside < END { cut } else { <$type>::MAX }
                };
                if LOWEST == 0.0 {
                    return cut;
                }
                if wide.is_nan() { 0 } else { cut }
            }
        }
    )*};
}

macro_rules! integers {
    ($($type:ty, through $through:ty;)*) => {$(
        narrow_integer! { $type: i32 i64 u32 u64 }
        narrow_float! { $type, through $through: f32 f64 }
    )*};
}

integers! {
    i8, through i32; i16, through i32; i32, through i32; i64, through i64;
    u8, through i32; u16, through i32; u32, through u32; u64, through u64;
}

narrow! { Bool, S:
    i32, v => Bool((v != 0).into());
    i64, v => Bool((v != 0).into());
    u32, v => Bool((v != 0).into());
    u64, v => Bool((v != 0).into());
    f32, v => Bool((v != 0.0).into());
    f64, v => Bool((v != 0.0).into());
}

narrow! { f32, S:
    i32, v => v as f32;
    i64, v => v as f32;
    u32, v => v as f32;
    u64, v => v as f32;
    f32, v => if S { finite_f32(v) } else { v };
    f64, v => if S { finite_f32(v as f32) } else { v as f32 };
}

narrow! { f64, S:
    i32, v => v.into();
    i64, v => v as f64;
    u32, v => v.into();
    u64, v => v as f64;
    f32, v => if S { finite_f64(v.into()) } else { v.into() };
    f64, v => if S { finite_f64(v) } else { v };
}

narrow! { Odd, S:
    // Cut to a multiple of 256, an odd one where any was lost: exact in float32, whatever the sign.
    i32, v => {
        let cut = v & !0xff;
        let odd = cut | i32::from(v != cut) << 8;
        Odd(if v.unsigned_abs() < 1 << 24 { v } else { odd } as f32)
    };
    i64, v => {
        let magnitude = odd_to_53_bits(v.unsigned_abs()) as f64;
        Odd(round_to_odd(if v < 0 { -magnitude } else { magnitude }))
    };
    u32, v => {
        let cut = v & !0xff;
        let odd = cut | u32::from(v != cut) << 8;
        Odd(if v < 1 << 24 { v } else { odd } as f32)
    };
    u64, v => Odd(round_to_odd(odd_to_53_bits(v) as f64));
    f32, v => Odd(v);
    f64, v => Odd(round_to_odd(v));
}

narrow! { Bf16, S:
    i32, v => Bf16::round::<S>(<Odd as Narrow<i32>>::narrow::<S>(v).0);
    i64, v => Bf16::round::<S>(<Odd as Narrow<i64>>::narrow::<S>(v).0);
    u32, v => Bf16::round::<S>(<Odd as Narrow<u32>>::narrow::<S>(v).0);
    u64, v => Bf16::round::<S>(<Odd as Narrow<u64>>::narrow::<S>(v).0);
    f32, v => Bf16::round::<S>(v);
    f64, v => Bf16::round::<S>(round_to_odd(v));
}

// Every integer that float32 rounds is beyond float16 anyway.
narrow! { F16, S:
    i32, v => F16::round::<S>(v as f32);
    i64, v => F16::round::<S>(v as f32);
    u32, v => F16::round::<S>(v as f32);
    u64, v => F16::round::<S>(v as f32);
    f32, v => F16::round::<S>(v);
    f64, v => F16::round::<S>(round_to_odd(v));
}

/// The upper 53 bits of a large number, the last one set where any was lost: exact in float64.
#[inline(always)]
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

same_integers! { i32: i32 i64 u32 u64; i64: i32 i64 u32 u64; u32: i32 i64 u32 u64; u64: i32 i64 u32 u64; }
same_mixed! { i32 i64 u32 u64 }
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
/// `n` elements that follow each other are readable and writable.
#[inline(always)]
unsafe fn row<S: Real, D: Output + Narrow<S::Wide>, const SATURATE: bool>(
    source: *const u8,
    destination: *mut u8,
    n: usize,
) {
    // SAFETY: index stays below n.
    in_blocks(n, |index| unsafe {
        let value = source.cast::<S>().add(index).read_unaligned();
        destination.cast::<D>().add(index).write_unaligned(D::narrow::<SATURATE>(value.widen()));
    });
}

/// Makes complex numbers of their real parts.
///
/// # Safety
/// `n` parts that follow each other are readable, and as many numbers writable.
#[inline(always)]
unsafe fn pair<P: Copy + Default>(parts: *const u8, numbers: *mut u8, n: usize) {
    // SAFETY: index stays below n.
    in_blocks(n, |index| unsafe {
        let part = parts.cast::<P>().add(index).read_unaligned();
        numbers.cast::<[P; 2]>().add(index).write_unaligned([part, P::default()]);
    });
}

/// Takes one part of complex numbers, real or imaginary as that of the first is.
///
/// # Safety
/// `n` parts, two apart, are readable, and as many that follow each other writable.
#[inline(always)]
unsafe fn part<P: Copy>(numbers: *const u8, parts: *mut u8, n: usize) {
    // SAFETY: index stays below n.
    in_blocks(n, |index| unsafe {
        let part = numbers.cast::<P>().add(2 * index).read_unaligned();
        parts.cast::<P>().add(index).write_unaligned(part);
    });
}

/// Does something to each of `n` elements, and may do it to some of them twice.
#[inline(always)]
fn in_blocks(n: usize, mut each: impl FnMut(usize)) {
    if n < BLOCK {
        (0..n).for_each(each);
    } else {
        each_range::<BLOCK>(n, n, |start, end| (start..end).for_each(&mut each));
    }
}

/// Elements for which a loop is vectorised whole.
const BLOCK: usize = 64;

/// Covers `n` elements, a block of so many at least, with ranges of whole blocks, of `most` or fewer. The last one
/// ends at the end, and may begin before the one before it ends: a block of its own, so that nothing is
/// left to a loop without vectors.
#[inline(always)]
fn each_range<const SIZE: usize>(n: usize, most: usize, mut range: impl FnMut(usize, usize)) {
    let whole = n / SIZE * SIZE;
    let (mut start, mut end) = (0, most.min(whole));
    // One loop for both kinds: by itself, the last block would be unrolled rather than vectorised.
    loop {
        range(start, end);
        if end == n {
            return;
        }
        (start, end) = if end < whole { (end, whole.min(end + most)) } else { (n - SIZE, n) };
    }
}

/// Rounds to a small format, by its place in [`SMALL`].
///
/// # Safety
/// All the values are written.
#[inline(always)]
unsafe fn encode<const FORMAT: usize, const SATURATE: bool>(values: &[Float], codes: &mut [u8]) {
    let n = values.len().min(codes.len());
    in_blocks(n, |index| {
        // SAFETY: index stays below n; the caller has written the value.
        let value = f32::from_ne_bytes(unsafe { values.get_unchecked(index).assume_init() });
        let code = match FORMAT {
            E8M0 => float::round_e8m0::<SATURATE>(value),
            _ => SMALL[FORMAT].round::<SATURATE>(value),
        };
        // SAFETY: as above.
        unsafe { *codes.get_unchecked_mut(index) = code };
    });
}

/// The other way.
///
/// # Safety
/// None needed: it is one of several.
#[inline(always)]
unsafe fn decode<const FORMAT: usize>(codes: &[u8], values: &mut [Float]) {
    let n = codes.len().min(values.len());
    in_blocks(n, |index| {
        // SAFETY: index stays below n.
        let (code, value) = unsafe { (*codes.get_unchecked(index), values.get_unchecked_mut(index)) };
        let float = match FORMAT {
            E8M0 => float::widen_e8m0(code),
            _ => SMALL[FORMAT].widen(code),
        };
        value.write(float.to_ne_bytes());
    });
}

/// The place of float8_e8m0fnu, behind [`SMALL`].
const E8M0: usize = SMALL.len();
const FORMATS: usize = SMALL.len() + 1;

/// The place of a small format in the tables.
fn format_index(scalar: Scalar) -> Option<usize> {
    match scalar {
        Scalar::Float8E8m0fnu => Some(E8M0),
        _ if scalar < Scalar::Float8E3m4 => None,
        _ if scalar < Scalar::Float8E8m0fnu => Some(scalar as usize - Scalar::Float8E3m4 as usize),
        _ => Some(scalar as usize - Scalar::Float8E3m4 as usize - 1),
    }
}

/// Everything that is compiled for a set of instructions.
struct Compiled {
    /// By source and destination; the second table saturates.
    rows: [[[RowFn; REALS + 1]; REALS]; 2],
    /// By format; the second table saturates.
    encode: [[EncodeFn; FORMATS]; 2],
    decode: [DecodeFn; FORMATS],
    /// Real parts of 4 and 8 bytes to complex numbers, whose imaginary parts are 0.
    pair: [RowFn; 2],
    /// Every second part of those sizes.
    part: [RowFn; 2],
}

impl Compiled {
    fn get(isa: Isa) -> &'static Compiled {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => &avx2::COMPILED,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if Memory::get() == Memory::Deep => &x86::DEEP,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => &avx512::COMPILED,
            // On AArch64 the baseline has NEON.
            _ => &baseline::COMPILED,
        }
    }
}

/// The same loops, compiled for a set of instructions.
macro_rules! compiled {
    ($name:ident $($decode:ident)::+ $(, $feature:literal $with:ident)?) => {
        mod $name {
            use super::*;

            /// # Safety
            /// As [`super::row`]; the processor has the instructions.
            $(#[target_feature(enable = $feature)])?
            pub(super) unsafe fn row<S: Real, D: Output + Narrow<S::Wide>, const SATURATE: bool>(
                source: *const u8,
                destination: *mut u8,
                n: usize,
            ) {
                // SAFETY: as the caller says.
                unsafe { super::row::<S, D, SATURATE>(source, destination, n) }
            }

            /// # Safety
            /// As [`super::encode`]; the processor has the instructions.
            $(#[target_feature(enable = $feature)])?
            unsafe fn encode<const FORMAT: usize, const SATURATE: bool>(
                values: &[Float],
                codes: &mut [u8],
            ) {
                // SAFETY: as the caller says.
                unsafe { super::encode::<FORMAT, SATURATE>(values, codes) }
            }

            /// # Safety
            /// The processor has the instructions.
            $(#[target_feature(enable = $feature)])?
            unsafe fn decode<const FORMAT: usize>(codes: &[u8], values: &mut [Float]) {
                // SAFETY: as the caller says.
                unsafe { $($decode)::+::<FORMAT>(codes, values) }
            }

            /// # Safety
            /// As [`super::pair`]; the processor has the instructions.
            $(#[target_feature(enable = $feature)])?
            unsafe fn pair<P: Copy + Default>(parts: *const u8, numbers: *mut u8, n: usize) {
                // SAFETY: as the caller says.
                unsafe { super::pair::<P>(parts, numbers, n) }
            }

            /// # Safety
            /// As [`super::part`]; the processor has the instructions.
            $(#[target_feature(enable = $feature)])?
            unsafe fn part<P: Copy>(numbers: *const u8, parts: *mut u8, n: usize) {
                // SAFETY: as the caller says.
                unsafe { super::part::<P>(numbers, parts, n) }
            }

            pub static COMPILED: Compiled = Compiled {
                rows: [with_reals!(row_table false), with_reals!(row_table true)],
                encode: [with_formats!(encode_table false), with_formats!(encode_table true)],
                decode: with_formats!(decode_table),
                pair: [pair::<u32>, pair::<u64>],
                part: [part::<u32>, part::<u64>],
            }$(.$with())?;
        }
    };
}

const REALS: usize = 13;

/// Calls a macro with all real types, in the order of [`Scalar`].
macro_rules! with_reals {
    ($macro:ident $($arguments:tt)*) => {
        $macro! { [Bool i8 i16 i32 i64 u8 u16 u32 u64 F16 Bf16 f32 f64] $($arguments)* }
    };
}

/// Calls a macro with the places of all small formats.
macro_rules! with_formats {
    ($macro:ident $($arguments:tt)*) => {
        $macro! { [0 1 2 3 4 5 6 7 8 9 10] $($arguments)* }
    };
}
#[cfg(target_arch = "x86_64")]
use with_formats;

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

macro_rules! encode_table {
    ([$($format:literal)*] $saturate:literal) => {
        [$(encode::<$format, $saturate> as EncodeFn),*]
    };
}

macro_rules! decode_table {
    ([$($format:literal)*]) => {
        [$(decode::<$format> as DecodeFn),*]
    };
}

compiled! { baseline super::decode }
#[cfg(target_arch = "x86_64")]
compiled! { avx2 x86::decode, "avx2,f16c,fma,bmi2" with_avx2 }
#[cfg(target_arch = "x86_64")]
compiled! { avx512 x86::decode, "avx2,f16c,fma,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi" with_avx512 }

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

/// Elements that go through buffers at a time: they stay in the first cache.
const CHUNK: usize = 256;

/// A cast that is ready to run.
#[derive(Clone, Copy)]
pub struct Caster {
    /// From what is read or decoded to what is written or encoded.
    row: RowFn,
    same: SameFn,
    /// From what is read to bool, for imaginary parts.
    truth: RowFn,
    decode: Option<DecodeFn>,
    /// Whether it is to encode float32, or to decode to it, and no more.
    direct: bool,
    /// And back, to compare.
    encode: Option<(EncodeFn, DecodeFn)>,
    /// Bytes of an element on each side; of a code, 1.
    source_size: usize,
    destination_size: usize,
    /// Where the source, or the destination, is complex and the other is not.
    from_complex: Option<RowFn>,
    to_complex: Option<RowFn>,
    /// Whether those have equal parts.
    same_part: bool,
    /// The index of a complex source's parts, for comparing with 0.
    part: usize,
    /// Its types, unless it saturates or is exact.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    types: Option<(Scalar, Scalar)>,
    to_bool: bool,
    exact: bool,
}

impl Caster {
    /// Prepares a cast.
    pub fn new(cast: &Cast) -> Caster {
        let Cast { from, to, saturate, exact, .. } = *cast;
        let real = |scalar: Scalar| scalar.complex_part().unwrap_or(scalar);
        let (from_real, to_real) = (real(from), real(to));
        let compiled = Compiled::get(Isa::get());
        let decode = |scalar| format_index(scalar).map(|format| compiled.decode[format]);
        let source = real_index(from_real).unwrap_or(FLOAT32);
        let destination = real_index(to_real);
        // A part of equal type is moved; infinity is not out of its range.
        let saturate = saturate && from_real != to_real;
        let rows = &compiled.rows[usize::from(saturate)];
        let encode = format_index(to_real).map(|format| compiled.encode[usize::from(saturate)][format]);
        let encodes = from == Scalar::Float32 && encode.is_some();
        let decodes = to == Scalar::Float32 && format_index(from).is_some() && !saturate;
        let size = |scalar: Scalar| scalar.bits().div_ceil(8) as usize;
        Caster {
            row: rows[source][destination.unwrap_or(ODD)],
            truth: rows[source][BOOL],
            same: SAME_ROWS[source][destination.unwrap_or(FLOAT32)],
            decode: decode(from_real),
            direct: !exact && (encodes || decodes),
            encode: encode.zip(decode(to_real)),
            source_size: size(from),
            destination_size: size(to),
            from_complex: from.complex_part().map(|_| compiled.part[usize::from(size(from) == 16)]),
            to_complex: to.complex_part().map(|_| compiled.pair[usize::from(size(to) == 16)]),
            same_part: from_real == to_real,
            part: source,
            types: (!saturate && !exact).then_some((from, to)),
            to_bool: to == Scalar::Bool,
            exact,
        }
    }

    /// Bytes of an element of the source and of the destination. A code of a small format has a byte.
    pub fn sizes(&self) -> (usize, usize) {
        (self.source_size, self.destination_size)
    }

    /// The transpose that casts so as it loads, which has AVX-512's instructions. None: there is none.
    pub fn as_loaded(&self) -> Option<LoadFn> {
        #[cfg(target_arch = "x86_64")]
        let load = self.types.and_then(|(from, to)| x86::loads::between(from, to));
        #[cfg(not(target_arch = "x86_64"))]
        let load = None;
        load
    }

    /// Whether it needs no buffers: both types are real, and of more than 8 bits or integers.
    pub fn is_plain(&self) -> bool {
        self.decode.is_none()
            && self.encode.is_none()
            && self.from_complex.is_none()
            && self.to_complex.is_none()
    }

    /// Casts `count` rows, which start so many bytes from each other, of `n` elements that follow each other on both sides.
    /// False: a value was lost where none may be.
    ///
    /// # Safety
    /// So many are readable and writable.
    pub unsafe fn rows(
        &self,
        (mut source, from_row): (*const u8, isize),
        (mut destination, to_row): (*mut u8, isize),
        n: usize,
        count: usize,
    ) -> bool {
        let is_simple = self.is_plain() && !self.exact;
        for _ in 0..count {
            // SAFETY: as the caller says.
            unsafe {
                if is_simple {
                    (self.row)(source, destination, n);
                } else if !self.run(source, destination, n) {
                    return false;
                }
            }
            // After the last row these are nowhere.
            source = source.wrapping_offset(from_row);
            destination = destination.wrapping_offset(to_row);
        }
        true
    }

    /// Casts `n` elements that follow each other on both sides. False: a value was lost where none may
    /// be.
    ///
    /// # Safety
    /// So many are readable and writable.
    pub unsafe fn run(&self, source: *const u8, destination: *mut u8, n: usize) -> bool {
        let (source_size, destination_size) = self.sizes();
        if self.is_plain() && !self.exact {
            // SAFETY: as the caller says.
            unsafe { (self.row)(source, destination, n) };
            return true;
        }
        if self.direct {
            // SAFETY: as the caller says; a Float and a code may be anywhere.
            unsafe {
                if let Some((encode, _)) = self.encode {
                    let values = std::slice::from_raw_parts(source.cast(), n);
                    encode(values, std::slice::from_raw_parts_mut(destination, n));
                } else if let Some(decode) = self.decode {
                    let values = std::slice::from_raw_parts_mut(destination.cast(), n);
                    decode(std::slice::from_raw_parts(source, n), values);
                }
            }
            return true;
        }
        (0..n).step_by(CHUNK).all(|done| {
            // SAFETY: the chunks cover the caller's elements.
            unsafe {
                let (source, destination) =
                    (source.add(done * source_size), destination.add(done * destination_size));
                self.chunk(source, destination, CHUNK.min(n - done))
            }
        })
    }

    /// # Safety
    /// As [`Caster::run`], with `n` at most [`CHUNK`].
    unsafe fn chunk(&self, source: *const u8, destination: *mut u8, n: usize) -> bool {
        let mut parts = Parts::new();
        let mut decoded = [const { MaybeUninit::uninit() }; CHUNK];
        let mut odd = [const { MaybeUninit::uninit() }; CHUNK];
        // SAFETY: every access is to one of the n elements that the caller vouches for, or to the first
        // n places of a buffer of CHUNK.
        unsafe {
            let (reals, size) = match self.decode {
                Some(decode) => {
                    decode(std::slice::from_raw_parts(source, n), &mut decoded[..n]);
                    (decoded.as_ptr().cast(), size_of::<f32>())
                }
                None => match self.from_complex {
                    Some(part) => {
                        part(source, parts.start(), n);
                        (parts.start().cast_const(), self.source_size / 2)
                    }
                    None => (source, self.source_size),
                },
            };
            let kept = if let Some((encode, decode)) = self.encode {
                let codes = std::slice::from_raw_parts_mut(destination, n);
                (self.row)(reals, odd.as_mut_ptr().cast(), n);
                encode(&odd[..n], codes);
                !self.exact || {
                    decode(codes, &mut odd[..n]);
                    (self.same)(reals, size as isize, odd.as_ptr().cast(), size_of::<f32>() as isize, n)
                }
            } else {
                match self.to_complex {
                    Some(pair) if self.same_part => pair(reals, destination, n),
                    Some(pair) => {
                        let mut parts = Parts::new();
                        (self.row)(reals, parts.start(), n);
                        pair(parts.start(), destination, n);
                    }
                    None => (self.row)(reals, destination, n),
                }
                let step = self.destination_size as isize;
                !self.exact || (self.same)(reals, size as isize, destination, step, n)
            };
            kept && self.from_complex.is_none_or(|part| self.mind_imaginary(part, source, destination, n))
        }
    }

    /// A complex number is true by its imaginary part too, and is kept only if that is 0.
    ///
    /// # Safety
    /// As [`Caster::chunk`].
    unsafe fn mind_imaginary(&self, part: RowFn, source: *const u8, destination: *mut u8, n: usize) -> bool {
        let zero = 0i8;
        // SAFETY: as the caller says; a step of 0 reads the one zero again and again.
        unsafe {
            let imaginary = source.add(self.source_size / 2);
            if self.to_bool {
                let (mut parts, mut truths) = (Parts::new(), [0u8; CHUNK]);
                part(imaginary, parts.start(), n);
                (self.truth)(parts.start(), truths.as_mut_ptr(), n);
                for (truth, imaginary) in
                    std::slice::from_raw_parts_mut(destination, n).iter_mut().zip(truths)
                {
                    *truth |= imaginary;
                }
            }
            let step = self.source_size as isize;
            !self.exact || (SAME_ROWS[self.part][INT8])(imaginary, step, (&raw const zero).cast(), 0, n)
        }
    }
}

/// Real or imaginary parts of complex numbers, one after the other.
struct Parts([MaybeUninit<u64>; CHUNK]);

impl Parts {
    fn new() -> Parts {
        Parts([const { MaybeUninit::uninit() }; CHUNK])
    }

    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}
