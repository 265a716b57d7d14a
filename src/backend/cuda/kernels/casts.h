/* Changes of type, a kernel for all pairs whose sources are of one kind: what is read and what is written is
 * a number in the parameters, and a work item branches on each once, as all the others do. A kernel for each
 * of the pairs would be many times the text.
 *
 *   ab_cast_K         elements of any strides        K: a kind of numbers.h
 *   ab_transpose_K    the same by tiles
 *   ab_cast_K_any, ab_transpose_K_any   the same with all that is rare: exactness, complex numbers, elements
 *                     that are not aligned or start within bytes
 *   ab_pack           to a format of less than a byte, of any source */

/* params.types: AB_TYPE_* of the source, and eight bits above it of the destination. */
#define AB_TYPE_b8 0
#define AB_TYPE_i8 1
#define AB_TYPE_i16 2
#define AB_TYPE_i32 3
#define AB_TYPE_i64 4
#define AB_TYPE_u8 5
#define AB_TYPE_u16 6
#define AB_TYPE_u32 7
#define AB_TYPE_u64 8
#define AB_TYPE_f16 9
#define AB_TYPE_bf16 10
#define AB_TYPE_f32 11
#define AB_TYPE_f64 12
#define AB_TYPE_x8 13
#define AB_FROM_TYPE (p.types & 0xff)
#define AB_TO_TYPE (p.types >> 8)

typedef i32 ab_kind_i;
typedef i64 ab_kind_l;
typedef u64 ab_kind_u;
typedef u32 ab_kind_f;
typedef u64 ab_kind_d;

/* X(type) for the sources of a kind; the last one needs no comparison. */
#define AB_SOURCES_i(X, LAST) X(b8) X(i8) X(i16) X(u8) X(u16) LAST(i32)
#define AB_SOURCES_l(X, LAST) X(i64) LAST(u32)
#define AB_SOURCES_u(X, LAST) LAST(u64)
#define AB_SOURCES_f(X, LAST) X(f16) X(bf16) X(x8) LAST(f32)
#define AB_SOURCES_d(X, LAST) LAST(f64)

/* For every type that may be written, of a kind. */
#define AB_TARGETS(X, K)                                                                                         \
  X(b8, K) X(i8, K) X(i16, K) X(i32, K) X(i64, K) X(u8, K) X(u16, K) X(u32, K) X(u64, K)                         \
  X(f16, K) X(bf16, K) X(f32, K) X(f64, K) X(x8, K)

/* ---- the usual ---- */

#define AB_LOAD_EACH(FROM)                                                                                       \
  AB_UNROLL                                                                                                      \
  for (u32 k = 0; k < AB_EACH; k++) {                                                                            \
    if (first + k * AB_GROUP < p.count)                                                                          \
      wide[k] = ab_widen_##FROM(AB_LOADER(FROM)(source + from[k], 0), p.from);                                   \
  }
#define AB_LOAD_CASE(FROM) case AB_TYPE_##FROM: AB_LOAD_EACH(FROM) break;
#define AB_LOAD_LAST(FROM) default: AB_LOAD_EACH(FROM)

#define AB_STORE_CASE(TO, K)                                                                                     \
  case AB_TYPE_##TO:                                                                                             \
    AB_UNROLL                                                                                                    \
    for (u32 k = 0; k < AB_EACH; k++) {                                                                          \
      if (first + k * AB_GROUP < p.count)                                                                        \
        AB_STORER(TO)(destination + to[k], ab_##TO##_of_##K(wide[k], p.flags & AB_SATURATE, p.to), 0);           \
    }                                                                                                            \
    break;

#define AB_CAST_KIND(K)                                                                                          \
  AB_KERNEL(ab_cast_##K) {                                                                                       \
    (void)lost;                                                                                                  \
    AB_EACH_ITEM {                                                                                               \
      const u32 first = AB_GROUP_ID * (AB_GROUP * AB_EACH) + item;                                               \
      ab_kind_##K wide[AB_EACH];                                                                                 \
      i64 from[AB_EACH], to[AB_EACH];                                                                            \
      AB_UNROLL                                                                                                  \
      for (u32 k = 0; k < AB_EACH; k++) {                                                                        \
        if (first + k * AB_GROUP < p.count) AB_LOCATE(first + k * AB_GROUP, from[k], to[k])                      \
      }                                                                                                          \
      switch (AB_FROM_TYPE) { AB_SOURCES_##K(AB_LOAD_CASE, AB_LOAD_LAST) }                                       \
      switch (AB_TO_TYPE) { AB_TARGETS(AB_STORE_CASE, K) }                                                       \
    }                                                                                                            \
  }

#define AB_TILE_BYTES(T) (T == AB_TYPE_i64 || T == AB_TYPE_u64 || T == AB_TYPE_f64                     ? 8    \
                          : T == AB_TYPE_i32 || T == AB_TYPE_u32 || T == AB_TYPE_f32                   ? 4    \
                          : T == AB_TYPE_i16 || T == AB_TYPE_u16 || T == AB_TYPE_f16 || T == AB_TYPE_bf16 ? 2 \
                                                                                                          : 1)

/* A tile holds values of the kind: it is filled by the source's type, and emptied by the destination's. */
#define AB_FILL(FROM, ODD)                                                                                       \
  {                                                                                                              \
    AB_TILE_PLACE(32, tile_from, p.source_step, sizeof(ab_bits_##FROM))                                          \
    AB_UNROLL                                                                                                    \
    AB_EACH_FAR(32, p.source_step) {                                                                             \
      if (AB_IN_TILE(far, near))                                                                                 \
        tile[far * 33 + near] = ab_widen_##FROM(AB_LOADER(FROM)(source + at, ODD), p.from);                      \
    }                                                                                                            \
  }
#define AB_FILL_CASE(FROM) case AB_TYPE_##FROM: AB_FILL(FROM, 0) break;
#define AB_FILL_LAST(FROM) default: AB_FILL(FROM, 0)

#define AB_EMPTY_CASE(TO, K)                                                                                     \
  case AB_TYPE_##TO: {                                                                                           \
    AB_TILE_PLACE(32, tile_to, p.destination_step, sizeof(ab_bits_##TO))                                         \
    AB_NO_UNROLL                                                                                                 \
    AB_EACH_FAR(32, p.destination_step) {                                                                        \
      if (AB_IN_TILE(near, far))                                                                                 \
        AB_STORER(TO)(destination + at, ab_##TO##_of_##K(tile[near * 33 + far], p.flags & AB_SATURATE, p.to), 0);\
    }                                                                                                            \
    break;                                                                                                       \
  }

#define AB_TRANSPOSE_KIND(K)                                                                                     \
  AB_KERNEL(ab_transpose_##K) {                                                                                  \
    AB_LOCAL ab_kind_##K tile[32 * 33];                                                                          \
    (void)lost;                                                                                                  \
    AB_TILE(32, AB_TILE_BYTES(AB_FROM_TYPE), AB_TILE_BYTES(AB_TO_TYPE))                                          \
    AB_EACH_ITEM {                                                                                               \
      switch (AB_FROM_TYPE) { AB_SOURCES_##K(AB_FILL_CASE, AB_FILL_LAST) }                                       \
    }                                                                                                            \
    AB_BARRIER                                                                                                   \
    AB_EACH_ITEM {                                                                                               \
      switch (AB_TO_TYPE) { AB_TARGETS(AB_EMPTY_CASE, K) }                                                       \
    }                                                                                                            \
  }

/* ---- all that is rare ---- */

#define AB_READ_PARTS(FROM)                                                                                      \
  wide = ab_widen_##FROM(AB_READ(FROM, from), p.from);                                                           \
  if (p.flags & AB_FROM_COMPLEX)                                                                                 \
    imaginary = ab_widen_##FROM(AB_READ(FROM, from + (i64)sizeof(ab_bits_##FROM)), p.from);
#define AB_READ_CASE(FROM) case AB_TYPE_##FROM: AB_READ_PARTS(FROM) break;
#define AB_READ_LAST(FROM) default: AB_READ_PARTS(FROM)

/* `out`, and what it is as a value of its kind. */
#define AB_CHANGE_CASE(TO, K)                                                                                    \
  case AB_TYPE_##TO: {                                                                                           \
    const ab_bits_##TO bits = ab_##TO##_of_##K(wide, p.flags & AB_SATURATE, p.to);                               \
    out = bits;                                                                                                  \
    if (p.flags & AB_EXACT) again = (u64)ab_widen_##TO(bits, p.to);                                              \
    break;                                                                                                       \
  }

#define AB_CHANGE_ANY(K)                                                                                         \
  {                                                                                                              \
    u64 again = 0;                                                                                               \
    switch (AB_TO_TYPE) { AB_TARGETS(AB_CHANGE_CASE, K) }                                                        \
    if ((p.flags & AB_EXACT) && !ab_same(ab_number_##K(wide), ab_number_as(AB_TO_TYPE, again))) *lost = 1;       \
  }

/* The number that a value of a type's kind is. */
AB_DEVICE ab_number ab_number_as(u32 type, u64 value) {
  switch (type) {
  case AB_TYPE_i64:
  case AB_TYPE_u32: return ab_number_l((i64)value);
  case AB_TYPE_u64: return ab_number_u(value);
  case AB_TYPE_f64: return ab_number_d(value);
  case AB_TYPE_f16:
  case AB_TYPE_bf16:
  case AB_TYPE_x8:
  case AB_TYPE_f32: return ab_number_f((u32)value);
  default: return ab_number_i((i32)value);
  }
}

#define AB_WRITE_ANY(at)                                                                                         \
  {                                                                                                              \
    const u32 odd = p.flags & AB_DESTINATION_ODD;                                                                \
    switch (AB_TILE_BYTES(AB_TO_TYPE)) {                                                                         \
    case 1: AB_WRITE_AS(u8, at) break;                                                                           \
    case 2: AB_WRITE_AS(u16, at) break;                                                                          \
    case 4: AB_WRITE_AS(u32, at) break;                                                                          \
    default: AB_WRITE_AS(u64, at)                                                                                \
    }                                                                                                            \
  }
#define AB_WRITE_AS(WORD, at)                                                                                    \
  ab_store_##WORD(destination + (at), (WORD)out, odd);                                                           \
  if (p.flags & AB_TO_COMPLEX) ab_store_##WORD(destination + (at) + (i64)sizeof(WORD), 0, odd);

#define AB_CAST_ANY(K)                                                                                           \
  AB_KERNEL(ab_cast_##K##_any) {                                                                                 \
    AB_EACH_ITEM {                                                                                               \
      const u32 first = AB_GROUP_ID * (AB_GROUP * AB_EACH) + item;                                               \
      AB_NO_UNROLL                                                                                               \
      for (u32 k = 0; k < AB_EACH; k++) {                                                                        \
        if (first + k * AB_GROUP < p.count) {                                                                    \
          i64 from, to;                                                                                          \
          ab_kind_##K wide, imaginary = 0;                                                                       \
          u64 out = 0;                                                                                           \
          AB_LOCATE(first + k * AB_GROUP, from, to)                                                              \
          switch (AB_FROM_TYPE) { AB_SOURCES_##K(AB_READ_CASE, AB_READ_LAST) }                                   \
          AB_CHANGE_ANY(K)                                                                                       \
          if (ab_truth_##K(imaginary)) {                                                                         \
            if (AB_TO_TYPE == AB_TYPE_b8) out = 1;                                                               \
            if (p.flags & AB_EXACT) *lost = 1;                                                                   \
          }                                                                                                      \
          AB_WRITE_ANY(to)                                                                                       \
        }                                                                                                        \
      }                                                                                                          \
    }                                                                                                            \
  }

#define AB_FILL_ODD_CASE(FROM) case AB_TYPE_##FROM: AB_FILL(FROM, p.flags & AB_SOURCE_ODD) break;
#define AB_FILL_ODD_LAST(FROM) default: AB_FILL(FROM, p.flags & AB_SOURCE_ODD)

#define AB_TRANSPOSE_ANY(K)                                                                                      \
  AB_KERNEL(ab_transpose_##K##_any) {                                                                            \
    AB_LOCAL ab_kind_##K tile[32 * 33];                                                                          \
    AB_TILE(32, AB_TILE_BYTES(AB_FROM_TYPE), AB_TILE_BYTES(AB_TO_TYPE))                                          \
    AB_EACH_ITEM {                                                                                               \
      switch (AB_FROM_TYPE) { AB_SOURCES_##K(AB_FILL_ODD_CASE, AB_FILL_ODD_LAST) }                               \
    }                                                                                                            \
    AB_BARRIER                                                                                                   \
    AB_EACH_ITEM {                                                                                               \
      AB_TILE_PLACE(32, tile_to, p.destination_step, AB_TILE_BYTES(AB_TO_TYPE))                                  \
      AB_NO_UNROLL                                                                                               \
      AB_EACH_FAR(32, p.destination_step) {                                                                      \
        if (AB_IN_TILE(near, far)) {                                                                             \
          const ab_kind_##K wide = tile[near * 33 + far];                                                        \
          u64 out = 0;                                                                                           \
          AB_CHANGE_ANY(K)                                                                                       \
          AB_WRITE_ANY(at)                                                                                       \
        }                                                                                                        \
      }                                                                                                          \
    }                                                                                                            \
  }

#define AB_PACK_CASE(FROM)                                                                                       \
  case AB_TYPE_##FROM: {                                                                                         \
    const ab_wide_##FROM wide = ab_widen_##FROM(AB_READ(FROM, from), p.from);                                    \
    value = (u64)wide;                                                                                           \
    out = AB_NARROWER(FROM, x8)(wide, p.flags & AB_SATURATE, p.to);                                              \
    if ((p.flags & AB_FROM_COMPLEX) && (p.flags & AB_EXACT)) {                                                   \
      if (AB_TRUTH(FROM)(ab_widen_##FROM(AB_READ(FROM, from + (i64)sizeof(ab_bits_##FROM)), p.from))) *lost = 1; \
    }                                                                                                            \
    break;                                                                                                       \
  }

#define AB_PACK_ANY                                                                                              \
  AB_KERNEL(ab_pack) {                                                                                           \
    AB_PARTS_BEGIN                                                                                               \
    i64 from, unused;                                                                                            \
    u8 out = 0;                                                                                                  \
    u64 value = 0;                                                                                               \
    AB_LOCATE(index, from, unused)                                                                               \
    (void)unused;                                                                                                \
    switch (AB_FROM_TYPE) {                                                                                      \
      AB_PACK_CASE(b8) AB_PACK_CASE(i8) AB_PACK_CASE(i16) AB_PACK_CASE(i32) AB_PACK_CASE(i64)                    \
      AB_PACK_CASE(u8) AB_PACK_CASE(u16) AB_PACK_CASE(u32) AB_PACK_CASE(u64)                                     \
      AB_PACK_CASE(f16) AB_PACK_CASE(bf16) AB_PACK_CASE(f32) AB_PACK_CASE(f64) AB_PACK_CASE(x8)                  \
    }                                                                                                            \
    if (p.flags & AB_EXACT) {                                                                                    \
      if (!ab_same(ab_number_as(AB_FROM_TYPE, value), ab_number_f(ab_widen_x8(out, p.to)))) *lost = 1;           \
    }                                                                                                            \
    byte |= (((u32)out >> skipped) & ((1u << some) - 1)) << at;                                                  \
    AB_PARTS_END                                                                                                 \
  }
