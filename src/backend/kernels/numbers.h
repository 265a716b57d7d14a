/* How values change their type, in integer arithmetic alone: no device has to have float64 or float16, keep
 * subnormal numbers, or convert correctly. The rules are those of tests/vectors/README.md.
 *
 * A type T is stored as ab_bits_T. ab_widen_T gives the value in one of five kinds, all of them exact:
 *   i  an int32        l  an int64        u  a uint64
 *   f  the bits of a float32              d  the bits of a float64
 * and ab_T_of_K rounds a value of kind K to T. x8 stands for every format of at most 8 bits, which an
 * ab_format describes. */

/* A format of at most 8 bits: sign, exponent, fraction; exponent 0 is subnormal. */
typedef struct {
  u32 fraction; /* its bits; 0: float8_e8m0fnu, a power of two */
  u32 bias;
  u32 largest;  /* largest finite code without its sign */
  u32 overflow; /* code without its sign of what is larger: infinity, NaN, or the largest */
  u32 positive_nan, negative_nan;
  u32 sign;          /* its bit */
  u32 first_special; /* codes from here on, without the sign, are no finite numbers */
  u32 unsigned_zero; /* whether the negative zero's code is NaN */
  u32 bits;
} ab_format;

/* ---- float32 and float64, by their bits ---- */

#define AB_F32_INFINITY 0x7f800000u
#define AB_F32_LARGEST 0x7f7fffffu
#define AB_F64_INFINITY AB_U64(0x7ff0000000000000)
#define AB_F64_LARGEST AB_U64(0x7fefffffffffffff)

/* `kept`, and whether to add one: `lost` are the bits behind it, left-aligned. Rounding to odd sets the last
 * bit instead, which leaves a later rounding to fewer bits correct. */
AB_DEVICE u32 ab_round(u32 kept, u64 lost, u32 odd) {
  const u64 tie = AB_U64(0x8000000000000000);
  if (odd) return kept | (lost != 0);
  return kept + (lost > tie || (lost == tie && (kept & 1)));
}

AB_DEVICE u32 ab_f32_of_magnitude(u32 sign, u64 magnitude, u32 odd) {
  if (magnitude == 0) return 0;
  const u32 top = 63 - AB_CLZ64(magnitude);
  const u32 exponent = (126 + top) << 23; /* the leading bit adds one */
  if (top <= 23) return sign | (exponent + (u32)(magnitude << (23 - top)));
  const u32 shift = top - 23;
  return sign | ab_round(exponent + (u32)(magnitude >> shift), magnitude << (64 - shift), odd);
}

AB_DEVICE u64 ab_f64_of_magnitude(u64 sign, u64 magnitude) {
  if (magnitude == 0) return 0;
  const u32 top = 63 - AB_CLZ64(magnitude);
  const u64 exponent = (u64)(1022 + top) << 52;
  if (top <= 52) return sign | (exponent + (magnitude << (52 - top)));
  const u32 shift = top - 52;
  const u64 kept = exponent + (magnitude >> shift), lost = magnitude << (64 - shift);
  const u64 tie = AB_U64(0x8000000000000000);
  return sign | (kept + (lost > tie || (lost == tie && (kept & 1))));
}

AB_DEVICE u32 ab_f32_of_f64(u64 bits, u32 odd) {
  const u32 sign = (u32)(bits >> 32) & 0x80000000u;
  const u64 magnitude = bits & AB_U64(0x7fffffffffffffff);
  const u32 exponent = (u32)(magnitude >> 52);
  if (magnitude > AB_F64_INFINITY) return sign | 0x7fc00000u | ((u32)(magnitude >> 29) & 0x3fffffu);
  if (magnitude == AB_F64_INFINITY) return sign | AB_F32_INFINITY;
  if (exponent > 1150) return sign | (odd ? AB_F32_LARGEST : AB_F32_INFINITY);
  if (exponent >= 897) {
    return sign | ab_round((u32)(magnitude >> 29) - (896u << 23), magnitude << 35, odd);
  }
  if (exponent < 872) return sign | (odd && magnitude != 0);
  const u64 fraction = (magnitude & AB_U64(0xfffffffffffff)) | AB_U64(0x10000000000000);
  const u32 shift = 926 - exponent; /* 30 to 54 */
  return sign | ab_round((u32)(fraction >> shift), fraction << (64 - shift), odd);
}

AB_DEVICE u64 ab_f64_of_f32(u32 bits) {
  const u64 sign = (u64)(bits & 0x80000000u) << 32;
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > AB_F32_INFINITY) return sign | AB_U64(0x7ff8000000000000) | (u64)(magnitude & 0x7fffffu) << 29;
  if (magnitude == AB_F32_INFINITY) return sign | AB_F64_INFINITY;
  if (magnitude >= 0x800000u) return sign | (((u64)magnitude << 29) + (AB_U64(896) << 52));
  if (magnitude == 0) return sign;
  const u32 top = 31 - AB_CLZ32(magnitude);
  return sign | (((u64)(873 + top) << 52) + ((u64)magnitude << (52 - top)));
}

AB_DEVICE u32 ab_is_nan_f(u32 bits) { return (bits & 0x7fffffffu) > AB_F32_INFINITY; }
AB_DEVICE u32 ab_is_nan_d(u64 bits) { return (bits & AB_U64(0x7fffffffffffffff)) > AB_F64_INFINITY; }

/* Infinity becomes the largest finite number, where a cast saturates. */
AB_DEVICE u32 ab_finite_f(u32 bits, u32 saturate) {
  return saturate && (bits & 0x7fffffffu) == AB_F32_INFINITY ? bits - 1 : bits;
}
AB_DEVICE u64 ab_finite_d(u64 bits, u32 saturate) {
  return saturate && (bits & AB_U64(0x7fffffffffffffff)) == AB_F64_INFINITY ? bits - 1 : bits;
}

/* The integer part of a float32 or float64 without its sign, at most 2^64 - 1; NaN is 0. */
AB_DEVICE u64 ab_cut_f(u32 bits) {
  const u32 magnitude = bits & 0x7fffffffu, exponent = magnitude >> 23;
  if (magnitude > AB_F32_INFINITY || exponent < 127) return 0;
  if (exponent > 190) return ~(u64)0;
  const u64 fraction = (magnitude & 0x7fffffu) | 0x800000u;
  return exponent >= 150 ? fraction << (exponent - 150) : fraction >> (150 - exponent);
}
AB_DEVICE u64 ab_cut_d(u64 bits) {
  const u64 magnitude = bits & AB_U64(0x7fffffffffffffff);
  const u32 exponent = (u32)(magnitude >> 52);
  if (magnitude > AB_F64_INFINITY || exponent < 1023) return 0;
  if (exponent > 1086) return ~(u64)0;
  const u64 fraction = (magnitude & AB_U64(0xfffffffffffff)) | AB_U64(0x10000000000000);
  return exponent >= 1075 ? fraction << (exponent - 1075) : fraction >> (1075 - exponent);
}

/* ---- float16, bfloat16 and the formats of at most 8 bits, from and to float32 ---- */

/* A float32, exact or rounded to odd, as a number of units of 2^(lowest - 23 - 127), `shift` above its own,
 * nearest and ties to even. */
AB_DEVICE u32 ab_units(u32 magnitude, u32 shift) {
  const u32 exponent = magnitude >> 23;
  const u32 fraction = exponent == 0 ? magnitude : (magnitude & 0x7fffffu) | 0x800000u;
  if (shift > 25) return 0;
  return (fraction + ((1u << (shift - 1)) - 1) + ((fraction >> shift) & 1)) >> shift;
}

AB_DEVICE u32 ab_f16_of_f32(u32 bits, u32 saturate) {
  const u32 sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > AB_F32_INFINITY) return sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  /* 65520 is halfway to what would be the next finite value. */
  if (magnitude >= 0x477ff000u) return sign | (saturate ? 0x7bffu : 0x7c00u);
  if (magnitude < 0x38800000u) return sign | ab_units(magnitude, 126 - (magnitude >> 23));
  return sign | ((magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1)) >> 13);
}

AB_DEVICE u32 ab_f32_of_f16(u32 bits) {
  const u32 sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u) return sign | 0x7fc00000u | (magnitude << 13);
  if (magnitude == 0x7c00u) return sign | AB_F32_INFINITY;
  if (magnitude >= 0x400u) return sign | ((magnitude << 13) + (112u << 23));
  if (magnitude == 0) return sign;
  const u32 top = 31 - AB_CLZ32(magnitude);
  return sign | (((102 + top) << 23) + (magnitude << (23 - top)));
}

AB_DEVICE u32 ab_bf16_of_f32(u32 bits, u32 saturate) {
  const u32 sign = (bits >> 16) & 0x8000u;
  if (ab_is_nan_f(bits)) return sign | 0x7fc0u;
  const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  return saturate && (rounded & 0x7fffu) > 0x7f7fu ? sign | 0x7f7fu : rounded;
}

AB_DEVICE u32 ab_power_of_f32(u32 bits, u32 saturate) {
  /* Zero, NaN, and everything with its sign set. */
  if (bits == 0 || bits > AB_F32_INFINITY) return 0xffu;
  if (bits == AB_F32_INFINITY) return saturate ? 0xfeu : 0xffu;
  if (bits < 0x800000u) return bits > 0x400000u;
  const u32 code = (bits + 0x400000u) >> 23;
  return saturate && code > 0xfeu ? 0xfeu : code;
}

AB_DEVICE u32 ab_x8_of_f32(u32 bits, u32 saturate, const ab_format format) {
  if (format.fraction == 0) return ab_power_of_f32(bits, saturate);
  const u32 negative = bits >> 31, magnitude = bits & 0x7fffffffu;
  if (magnitude > AB_F32_INFINITY) return negative ? format.negative_nan : format.positive_nan;
  const u32 lost = 23 - format.fraction, rebias = (127 - format.bias) << 23;
  const u32 smallest = rebias + (1u << 23);
  /* All that is certainly beyond the largest counts as the code after it. */
  const u32 beyond = ((format.largest + 1) << lost) + rebias;
  const u32 inside = magnitude < beyond ? magnitude : beyond;
  u32 code;
  if (inside < smallest) {
    const u32 exponent = inside >> 23;
    code = ab_units(inside, lost + (smallest >> 23) - (exponent == 0 ? 1 : exponent));
  } else {
    code = (inside - rebias + ((1u << (lost - 1)) - 1) + ((inside >> lost) & 1)) >> lost;
  }
  if (code > format.largest) code = saturate ? format.largest : format.overflow;
  if (format.unsigned_zero && (code == 0 || code == 0x80u)) return code;
  return negative ? code | format.sign : code;
}

AB_DEVICE u32 ab_f32_of_x8(u32 code, const ab_format format) {
  if (format.fraction == 0) {
    return code == 0xffu ? 0x7fc00000u : code == 0 ? 0x400000u : code << 23;
  }
  const u32 magnitude = code & (format.sign - 1), negative = code & format.sign;
  const u32 sign = negative ? 0x80000000u : 0;
  if (format.unsigned_zero && negative && magnitude == 0) return 0xffc00000u;
  if (magnitude >= format.first_special) {
    const u32 infinite = magnitude == format.overflow && format.overflow != format.positive_nan;
    return sign | (infinite ? AB_F32_INFINITY : 0x7fc00000u);
  }
  if (magnitude >> format.fraction) {
    return sign | ((magnitude << (23 - format.fraction)) + ((127 - format.bias) << 23));
  }
  if (magnitude == 0) return sign;
  const u32 top = 31 - AB_CLZ32(magnitude);
  return sign | (((127 + top - format.bias - format.fraction) << 23) + (magnitude << (23 - top)));
}

/* ---- the types ---- */

/* How a type is stored, its bytes, and the kind of its values. */
#define AB_TYPE(T, STORED, WIDE)                                                                                 \
  typedef STORED ab_bits_##T;                                                                                    \
  typedef WIDE ab_wide_##T;
AB_TYPE(b8, u8, i32)
AB_TYPE(i8, u8, i32)
AB_TYPE(i16, u16, i32)
AB_TYPE(i32, u32, i32)
AB_TYPE(i64, u64, i64)
AB_TYPE(u8, u8, i32)
AB_TYPE(u16, u16, i32)
AB_TYPE(u32, u32, i64)
AB_TYPE(u64, u64, u64)
AB_TYPE(f16, u16, u32)
AB_TYPE(bf16, u16, u32)
AB_TYPE(f32, u32, u32)
AB_TYPE(f64, u64, u64)
AB_TYPE(x8, u8, u32)
#define AB_KIND_b8 i
#define AB_KIND_i8 i
#define AB_KIND_i16 i
#define AB_KIND_i32 i
#define AB_KIND_i64 l
#define AB_KIND_u8 i
#define AB_KIND_u16 i
#define AB_KIND_u32 l
#define AB_KIND_u64 u
#define AB_KIND_f16 f
#define AB_KIND_bf16 f
#define AB_KIND_f32 f
#define AB_KIND_f64 d
#define AB_KIND_x8 f

#define AB_WIDEN(T, expression)                                                                                  \
  AB_DEVICE ab_wide_##T ab_widen_##T(ab_bits_##T bits, const ab_format format) {                                 \
    (void)format;                                                                                                \
    return expression;                                                                                           \
  }
AB_WIDEN(b8, bits != 0)
AB_WIDEN(i8, (i8)bits)
AB_WIDEN(i16, (i16)bits)
AB_WIDEN(i32, (i32)bits)
AB_WIDEN(i64, (i64)bits)
AB_WIDEN(u8, bits)
AB_WIDEN(u16, bits)
AB_WIDEN(u32, bits)
AB_WIDEN(u64, bits)
AB_WIDEN(f16, ab_f32_of_f16(bits))
AB_WIDEN(bf16, (u32)bits << 16)
AB_WIDEN(f32, bits)
AB_WIDEN(f64, bits)
AB_WIDEN(x8, ab_f32_of_x8(bits, format))

/* Signs and magnitudes of the kinds. */
AB_DEVICE u32 ab_sign_i(i32 v) { return v < 0; }
AB_DEVICE u32 ab_sign_l(i64 v) { return v < 0; }
AB_DEVICE u32 ab_sign_u(u64 v) { return (void)v, 0; }
AB_DEVICE u32 ab_sign_f(u32 v) { return v >> 31; }
AB_DEVICE u32 ab_sign_d(u64 v) { return (u32)(v >> 63); }
AB_DEVICE u64 ab_cut_i(i32 v) { return v < 0 ? (u64)0 - (u64)(i64)v : (u64)v; }
AB_DEVICE u64 ab_cut_l(i64 v) { return v < 0 ? (u64)0 - (u64)v : (u64)v; }
AB_DEVICE u64 ab_cut_u(u64 v) { return v; }
AB_DEVICE u32 ab_truth_i(i32 v) { return v != 0; }
AB_DEVICE u32 ab_truth_l(i64 v) { return v != 0; }
AB_DEVICE u32 ab_truth_u(u64 v) { return v != 0; }
AB_DEVICE u32 ab_truth_f(u32 v) { return (v << 1) != 0; }
AB_DEVICE u32 ab_truth_d(u64 v) { return (v << 1) != 0; }
/* Integers wrap unless they saturate; floats always saturate. */
#define AB_WRAP_i(v) ((u64)(i64)(v))
#define AB_WRAP_l(v) ((u64)(v))
#define AB_WRAP_u(v) (v)
#define AB_WRAP_f(v) ((u64)0)
#define AB_WRAP_d(v) ((u64)0)
#define AB_WRAPS_i 1
#define AB_WRAPS_l 1
#define AB_WRAPS_u 1
#define AB_WRAPS_f 0
#define AB_WRAPS_d 0
AB_DEVICE u64 ab_clamp(u32 negative, u64 magnitude, u64 lowest, u64 highest) {
  if (negative) return (u64)0 - (magnitude < lowest ? magnitude : lowest);
  return magnitude < highest ? magnitude : highest;
}

/* A kind as the bits of a float32, to nearest or to odd, and of a float64, to nearest. */
#define AB_SIGNED(T, v) ((v) < 0 ? (T)1 << (sizeof(T) * 8 - 1) : 0)
AB_DEVICE u32 ab_single_i(i32 v, u32 odd) { return ab_f32_of_magnitude(AB_SIGNED(u32, v), ab_cut_i(v), odd); }
AB_DEVICE u32 ab_single_l(i64 v, u32 odd) { return ab_f32_of_magnitude(AB_SIGNED(u32, v), ab_cut_l(v), odd); }
AB_DEVICE u32 ab_single_u(u64 v, u32 odd) { return ab_f32_of_magnitude(0, v, odd); }
AB_DEVICE u32 ab_single_f(u32 v, u32 odd) { return (void)odd, v; }
AB_DEVICE u32 ab_single_d(u64 v, u32 odd) { return ab_f32_of_f64(v, odd); }
AB_DEVICE u64 ab_double_i(i32 v) { return ab_f64_of_magnitude(AB_SIGNED(u64, v), ab_cut_i(v)); }
AB_DEVICE u64 ab_double_l(i64 v) { return ab_f64_of_magnitude(AB_SIGNED(u64, v), ab_cut_l(v)); }
AB_DEVICE u64 ab_double_u(u64 v) { return ab_f64_of_magnitude(0, v); }
AB_DEVICE u64 ab_double_f(u32 v) { return ab_f64_of_f32(v); }
AB_DEVICE u64 ab_double_d(u64 v) { return v; }

#define AB_NARROW(T, K, WIDE, expression)                                                                        \
  AB_DEVICE ab_bits_##T ab_##T##_of_##K(WIDE v, u32 saturate, const ab_format format) {                          \
    (void)saturate;                                                                                              \
    (void)format;                                                                                                \
    return (ab_bits_##T)(expression);                                                                            \
  }
#define AB_INTEGER(T, K, WIDE, LOWEST, HIGHEST)                                                                  \
  AB_NARROW(T, K, WIDE,                                                                                          \
            AB_WRAPS_##K && !saturate ? AB_WRAP_##K(v) : ab_clamp(ab_sign_##K(v), ab_cut_##K(v), LOWEST, HIGHEST))
#define AB_NARROWS(K, WIDE)                                                                                      \
  AB_NARROW(b8, K, WIDE, ab_truth_##K(v))                                                                        \
  AB_INTEGER(i8, K, WIDE, 0x80, 0x7f)                                                                            \
  AB_INTEGER(i16, K, WIDE, 0x8000, 0x7fff)                                                                       \
  AB_INTEGER(i32, K, WIDE, 0x80000000u, 0x7fffffff)                                                              \
  AB_INTEGER(i64, K, WIDE, AB_U64(0x8000000000000000), AB_U64(0x7fffffffffffffff))                               \
  AB_INTEGER(u8, K, WIDE, 0, 0xff)                                                                               \
  AB_INTEGER(u16, K, WIDE, 0, 0xffff)                                                                            \
  AB_INTEGER(u32, K, WIDE, 0, 0xffffffffu)                                                                       \
  AB_INTEGER(u64, K, WIDE, 0, ~(u64)0)                                                                           \
  AB_NARROW(f16, K, WIDE, ab_f16_of_f32(ab_single_##K(v, 1), saturate))                                          \
  AB_NARROW(bf16, K, WIDE, ab_bf16_of_f32(ab_single_##K(v, 1), saturate))                                        \
  AB_NARROW(f32, K, WIDE, ab_finite_f(ab_single_##K(v, 0), saturate))                                            \
  AB_NARROW(f64, K, WIDE, ab_finite_d(ab_double_##K(v), saturate))                                               \
  AB_NARROW(x8, K, WIDE, ab_x8_of_f32(ab_single_##K(v, 1), saturate, format))
AB_NARROWS(i, i32)
AB_NARROWS(l, i64)
AB_NARROWS(u, u64)
AB_NARROWS(f, u32)
AB_NARROWS(d, u64)

/* ---- whether two values are the same number, NaN equal to NaN ---- */

typedef struct {
  u32 what; /* 0: zero; 1: a number, fraction * 2^exponent; 2: infinity; 3: NaN */
  u32 sign;
  i32 exponent;
  u64 fraction; /* its highest bit is set */
} ab_number;

AB_DEVICE ab_number ab_number_of(u32 what, u32 sign, i32 exponent, u64 fraction) {
  ab_number number;
  const u32 shift = what == 1 && fraction != 0 ? AB_CLZ64(fraction) : 0;
  number.what = what == 1 && fraction == 0 ? 0 : what;
  number.sign = number.what == 1 || number.what == 2 ? sign : 0;
  number.exponent = number.what == 1 ? exponent - (i32)shift : 0;
  number.fraction = number.what == 1 ? fraction << shift : 0;
  return number;
}
AB_DEVICE ab_number ab_number_d(u64 bits) {
  const u64 magnitude = bits & AB_U64(0x7fffffffffffffff), fraction = magnitude & AB_U64(0xfffffffffffff);
  const u32 exponent = (u32)(magnitude >> 52), sign = (u32)(bits >> 63);
  if (exponent == 2047) return ab_number_of(fraction ? 3 : 2, sign, 0, 0);
  if (exponent == 0) return ab_number_of(1, sign, 1, fraction);
  return ab_number_of(1, sign, (i32)exponent, fraction | AB_U64(0x10000000000000));
}
AB_DEVICE ab_number ab_number_f(u32 bits) { return ab_number_d(ab_f64_of_f32(bits)); }
/* In the units of a float64's fraction at exponent 0 of its bits. */
AB_DEVICE ab_number ab_number_i(i32 v) { return ab_number_of(1, v < 0, 1075, ab_cut_i(v)); }
AB_DEVICE ab_number ab_number_l(i64 v) { return ab_number_of(1, v < 0, 1075, ab_cut_l(v)); }
AB_DEVICE ab_number ab_number_u(u64 v) { return ab_number_of(1, 0, 1075, v); }

AB_DEVICE u32 ab_same(const ab_number a, const ab_number b) {
  return a.what == b.what && a.sign == b.sign && a.exponent == b.exponent && a.fraction == b.fraction;
}
