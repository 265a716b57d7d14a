/* The kernels, one macro each. A kernel is made by naming it:
 *
 *   AB_COPY(4, u32)        ab_copy_4         elements of 4 bytes, any strides
 *   AB_TRANSPOSE(4, u32, 32)  ab_transpose_4 the same by tiles, for a job that is contiguous along one axis of
 *                                            the source and another one of the destination
 *   AB_CAST(f32, f16)      ab_cast_f32_f16   a change of type, any strides
 *   AB_CAST_TRANSPOSED(f32, f16)  ab_transpose_f32_f16  the same by tiles
 *   AB_PACK_BITS           ab_pack_bits      elements of some bits, to where they follow each other in bits
 *   AB_PACK(f32)           ab_pack_f32       a change of type to a format of less than a byte, likewise
 */

/* What divides by an extent: n / extent is 2n * magic >> 32 >> shift for n below 2^31. */
typedef struct {
  u32 extent, magic, shift, unused;
} ab_division;

typedef struct {
  i64 source, destination; /* steps */
  ab_division extent;
} ab_axis;

#define AB_MOST_AXES 16

/* What a launch does. `Params` in mod.rs is the same. */
typedef struct {
  i64 source, destination; /* the first element's bytes, or bits, from the pointers */
  u32 count;               /* elements; of AB_PACK*, bytes of the destination */
  u32 axes;                /* how many; 1 at least, outermost first */
  u32 flags;
  u32 types; /* Launches say which: source, and destination above its 8 bits */
  /* transposes: */
  i64 source_step;      /* from a row of the source to the next; elements of a row follow each other */
  i64 destination_step; /* likewise of the destination, whose rows are the source's columns */
  u32 rows, columns;    /* of the source */
  ab_division row_tiles, column_tiles;
  /* packing: */
  u32 elements;
  u32 bits;          /* of an element */
  u32 room;          /* bits that it takes in the destination */
  u32 first;         /* of the destination's first byte, bits that are not the job's */
  ab_division per_room; /* divides by the room */
  ab_format from, to;
  ab_axis axis[AB_MOST_AXES];
} ab_params;
typedef char ab_params_are_as_in_rust[sizeof(ab_params) == 712 ? 1 : -1];

/* params.flags */
#define AB_SATURATE 1u
#define AB_EXACT 2u        /* sets *lost where a value does not survive */
#define AB_FROM_COMPLEX 4u /* an imaginary part follows what is read */
#define AB_TO_COMPLEX 8u   /* an imaginary part, 0, follows what is written */
#define AB_SOURCE_BITS 16u /* the source counts bits */
#define AB_SOURCE_ODD 32u  /* elements of the source are not aligned */
#define AB_DESTINATION_ODD 64u
#define AB_WIDE 128u /* steps of an axis that 32 bits do not hold */

/* Elements of a work item, a group apart. */
#define AB_EACH 4

#define AB_DIVIDE(n, division) ((u32)((u64)((n) << 1) * (division).magic >> 32) >> (division).shift)

/* Places times a step. The product of two numbers of 32 bits is one instruction of a GPU, that of longer ones is
 * several: only steps that need it are taken for long. */
AB_DEVICE i64 ab_times_short(i32 places, i64 step) { return AB_PRODUCT(places, (i32)step); }
AB_DEVICE i64 ab_times_long(i32 places, i64 step) { return places * step; }

/* Adds to `from` and `to` where element `rest` is. */
#define AB_WALK(from, to, TIMES)                                                                                 \
  {                                                                                                              \
    for (u32 a = p.axes; a-- > 1;) {                                                                             \
      const u32 next = AB_DIVIDE(rest, p.axis[a].extent);                                                        \
      const i32 at = (i32)(rest - next * p.axis[a].extent.extent);                                               \
      from += TIMES(at, p.axis[a].source);                                                                       \
      to += TIMES(at, p.axis[a].destination);                                                                    \
      rest = next;                                                                                               \
    }                                                                                                            \
    from += TIMES((i32)rest, p.axis[0].source);                                                                  \
    to += TIMES((i32)rest, p.axis[0].destination);                                                               \
  }

/* Where element `index` is on both sides. */
#define AB_LOCATE(index, from, to)                                                                               \
  {                                                                                                              \
    u32 rest = (index);                                                                                          \
    from = p.source;                                                                                             \
    to = p.destination;                                                                                          \
    if (p.flags & AB_WIDE)                                                                                       \
      AB_WALK(from, to, ab_times_long)                                                                           \
    else                                                                                                         \
      AB_WALK(from, to, ab_times_short)                                                                          \
  }

/* ---- one element ---- */

AB_DEVICE u8 ab_load_u8(AB_GLOBAL const u8 *at, u32 odd) { return (void)odd, *at; }
AB_DEVICE void ab_store_u8(AB_GLOBAL u8 *at, u8 value, u32 odd) { (void)odd, *at = value; }
#define AB_ACCESS(T)                                                                                             \
  AB_DEVICE T ab_load_##T(AB_GLOBAL const u8 *at, u32 odd) {                                                     \
    if (!odd) return *(AB_GLOBAL const T *)at;                                                                   \
    T value = 0;                                                                                                 \
    for (u32 byte = 0; byte < sizeof(T); byte++) value |= (T)((T)at[byte] << 8 * byte);                          \
    return value;                                                                                                \
  }                                                                                                              \
  AB_DEVICE void ab_store_##T(AB_GLOBAL u8 *at, T value, u32 odd) {                                              \
    if (!odd) {                                                                                                  \
      *(AB_GLOBAL T *)at = value;                                                                                \
    } else {                                                                                                     \
      for (u32 byte = 0; byte < sizeof(T); byte++) at[byte] = (u8)(value >> 8 * byte);                           \
    }                                                                                                            \
  }
AB_ACCESS(u16)
AB_ACCESS(u32)
AB_ACCESS(u64)

/* At most 8 bits; the second byte is read only where it holds some of them. */
AB_DEVICE u32 ab_load_bits(AB_GLOBAL const u8 *source, i64 at, u32 bits) {
  const u32 shift = (u32)(at & 7);
  AB_GLOBAL const u8 *byte = source + (at >> 3);
  u32 word = byte[0];
  if (shift + bits > 8) word |= (u32)byte[1] << 8;
  return (word >> shift) & ((1u << bits) - 1);
}

#define AB_STORED_b8 u8
#define AB_STORED_i8 u8
#define AB_STORED_i16 u16
#define AB_STORED_i32 u32
#define AB_STORED_i64 u64
#define AB_STORED_u8 u8
#define AB_STORED_u16 u16
#define AB_STORED_u32 u32
#define AB_STORED_u64 u64
#define AB_STORED_f16 u16
#define AB_STORED_bf16 u16
#define AB_STORED_f32 u32
#define AB_STORED_f64 u64
#define AB_STORED_x8 u8

#define AB_IS_x8 1
#define AB_IS_b8 2
#define AB_IS_i8 0
#define AB_IS_i16 0
#define AB_IS_i32 0
#define AB_IS_i64 0
#define AB_IS_u8 0
#define AB_IS_u16 0
#define AB_IS_u32 0
#define AB_IS_u64 0
#define AB_IS_f16 0
#define AB_IS_bf16 0
#define AB_IS_f32 0
#define AB_IS_f64 0

#define AB_PASTE(a, b, c, d) a##b##c##d
#define AB_JOIN(a, b, c, d) AB_PASTE(a, b, c, d)
/* Names whose arguments are expanded first. */
#define AB_LOADER(T) AB_JOIN(ab_load_, AB_STORED_##T, , )
#define AB_STORER(T) AB_JOIN(ab_store_, AB_STORED_##T, , )
#define AB_NARROWER(FROM, TO) AB_JOIN(ab_, TO, _of_, AB_KIND_##FROM)
#define AB_NUMBER(T) AB_JOIN(ab_number_, AB_KIND_##T, , )
#define AB_TRUTH(T) AB_JOIN(ab_truth_, AB_KIND_##T, , )

#define AB_READ(FROM, at)                                                                                        \
  (AB_IS_##FROM == 1 && (p.flags & AB_SOURCE_BITS)                                                               \
       ? (ab_bits_##FROM)ab_load_bits(source, at, p.from.bits)                                                   \
       : AB_LOADER(FROM)(source + (at), p.flags & AB_SOURCE_ODD))

/* What `in`, which was read at `at`, becomes. */
#define AB_CHANGE(FROM, TO, in, at, out)                                                                         \
  {                                                                                                              \
    const ab_wide_##FROM wide = ab_widen_##FROM(in, p.from);                                                     \
    out = AB_NARROWER(FROM, TO)(wide, p.flags & AB_SATURATE, p.to);                                              \
    if (p.flags & AB_EXACT) {                                                                                    \
      const ab_wide_##TO back = ab_widen_##TO(out, p.to);                                                        \
      if (!ab_same(AB_NUMBER(FROM)(wide), AB_NUMBER(TO)(back))) *lost = 1;                                       \
    }                                                                                                            \
    if (p.flags & AB_FROM_COMPLEX) {                                                                             \
      const ab_bits_##FROM part = AB_READ(FROM, (at) + (i64)sizeof(ab_bits_##FROM));                             \
      const ab_wide_##FROM imaginary = ab_widen_##FROM(part, p.from);                                            \
      if (AB_IS_##TO == 2 && AB_TRUTH(FROM)(imaginary)) out = 1;                                                 \
      if ((p.flags & AB_EXACT) && AB_TRUTH(FROM)(imaginary)) *lost = 1;                                          \
    }                                                                                                            \
  }

#define AB_WRITE(TO, at, out)                                                                                    \
  {                                                                                                              \
    AB_STORER(TO)(destination + (at), out, p.flags & AB_DESTINATION_ODD);                                        \
    if (p.flags & AB_TO_COMPLEX) {                                                                               \
      AB_STORER(TO)(destination + (at) + sizeof(ab_bits_##TO), 0, p.flags & AB_DESTINATION_ODD);                 \
    }                                                                                                            \
  }

/* ---- copies and casts of any strides ---- */

#define AB_COPY(BYTES, WORD)                                                                                     \
  AB_KERNEL(ab_copy_##BYTES) {                                                                                   \
    (void)lost;                                                                                                  \
    AB_EACH_ITEM {                                                                                               \
      const u32 first = AB_GROUP_ID * (AB_GROUP * AB_EACH) + item;                                               \
      WORD words[AB_EACH];                                                                                       \
      i64 to[AB_EACH];                                                                                           \
      AB_UNROLL                                                                                                  \
      for (u32 k = 0; k < AB_EACH; k++) {                                                                        \
        const u32 index = first + k * AB_GROUP;                                                                  \
        if (index < p.count) {                                                                                   \
          i64 from;                                                                                              \
          AB_LOCATE(index, from, to[k])                                                                          \
          words[k] = *(AB_GLOBAL const WORD *)(source + from);                                                   \
        }                                                                                                        \
      }                                                                                                          \
      AB_UNROLL                                                                                                  \
      for (u32 k = 0; k < AB_EACH; k++) {                                                                        \
        if (first + k * AB_GROUP < p.count) *(AB_GLOBAL WORD *)(destination + to[k]) = words[k];                 \
      }                                                                                                          \
    }                                                                                                            \
  }

#define AB_CAST(FROM, TO)                                                                                        \
  AB_KERNEL(ab_cast_##FROM##_##TO) {                                                                             \
    AB_EACH_ITEM {                                                                                               \
      const u32 first = AB_GROUP_ID * (AB_GROUP * AB_EACH) + item;                                               \
      ab_bits_##FROM in[AB_EACH];                                                                                \
      i64 from[AB_EACH], to[AB_EACH];                                                                            \
      AB_UNROLL                                                                                                  \
      for (u32 k = 0; k < AB_EACH; k++) {                                                                        \
        const u32 index = first + k * AB_GROUP;                                                                  \
        if (index < p.count) {                                                                                   \
          AB_LOCATE(index, from[k], to[k])                                                                       \
          in[k] = AB_READ(FROM, from[k]);                                                                        \
        }                                                                                                        \
      }                                                                                                          \
      AB_UNROLL                                                                                                  \
      for (u32 k = 0; k < AB_EACH; k++) {                                                                        \
        if (first + k * AB_GROUP < p.count) {                                                                    \
          ab_bits_##TO out;                                                                                      \
          AB_CHANGE(FROM, TO, in[k], from[k], out)                                                               \
          AB_WRITE(TO, to[k], out)                                                                               \
        }                                                                                                        \
      }                                                                                                          \
    }                                                                                                            \
  }

/* ---- transposes ---- */

/* The tile of this group: where it starts on both sides, its rows and columns in the source. `rest` is then
 * which of the matrices it is of. */
#define AB_TILE(SIZE, FROM_BYTES, TO_BYTES)                                                                      \
  u32 rest = AB_GROUP_ID, next = AB_DIVIDE(rest, p.column_tiles);                                                \
  const u32 column = (rest - next * p.column_tiles.extent) * (SIZE);                                             \
  rest = next;                                                                                                   \
  next = AB_DIVIDE(rest, p.row_tiles);                                                                           \
  const u32 row = (rest - next * p.row_tiles.extent) * (SIZE);                                                   \
  i64 tile_from, tile_to;                                                                                        \
  AB_LOCATE(next, tile_from, tile_to)                                                                            \
  tile_from += row * p.source_step + column * (i64)(FROM_BYTES);                                                 \
  tile_to += column * p.destination_step + row * (i64)(TO_BYTES);

/* An item's places in a tile: `near` along what follows each other in memory, and `far` from row to row, each of
 * them so many bytes behind the last. `at` is where that is: in the loop, steps are only added. */
#define AB_TILE_PLACE(SIZE, START, STEP, BYTES)                                                                  \
  const u32 near = item % (SIZE);                                                                                \
  i64 at = (START) + (i64)(item / (SIZE)) * (STEP) + near * (i64)(BYTES);
#define AB_EACH_FAR(SIZE, STEP)                                                                                  \
  for (u32 turn = 0, far = item / (SIZE); turn < (SIZE) * (SIZE) / AB_GROUP;                                     \
       turn++, far += AB_GROUP / (SIZE), at += AB_GROUP / (SIZE) * (STEP))
#define AB_IN_TILE(r, c) (row + (r) < p.rows && column + (c) < p.columns)

#define AB_TRANSPOSE(BYTES, WORD, SIZE)                                                                          \
  AB_KERNEL(ab_transpose_##BYTES) {                                                                              \
    AB_LOCAL WORD tile[(SIZE) * ((SIZE) + 1)];                                                                   \
    (void)lost;                                                                                                  \
    AB_TILE(SIZE, BYTES, BYTES)                                                                                  \
    AB_EACH_ITEM {                                                                                               \
      AB_TILE_PLACE(SIZE, tile_from, p.source_step, BYTES)                                                       \
      AB_EACH_FAR(SIZE, p.source_step) {                                                                         \
        if (AB_IN_TILE(far, near)) tile[far * ((SIZE) + 1) + near] = *(AB_GLOBAL const WORD *)(source + at);     \
      }                                                                                                          \
    }                                                                                                            \
    AB_BARRIER                                                                                                   \
    AB_EACH_ITEM {                                                                                               \
      AB_TILE_PLACE(SIZE, tile_to, p.destination_step, BYTES)                                                    \
      AB_EACH_FAR(SIZE, p.destination_step) {                                                                    \
        if (AB_IN_TILE(near, far)) *(AB_GLOBAL WORD *)(destination + at) = tile[near * ((SIZE) + 1) + far];      \
      }                                                                                                          \
    }                                                                                                            \
  }

#define AB_CAST_TRANSPOSED(FROM, TO)                                                                             \
  AB_KERNEL(ab_transpose_##FROM##_##TO) {                                                                        \
    AB_LOCAL ab_bits_##TO tile[32 * 33];                                                                         \
    AB_TILE(32, sizeof(ab_bits_##FROM), sizeof(ab_bits_##TO))                                                    \
    AB_EACH_ITEM {                                                                                               \
      AB_TILE_PLACE(32, tile_from, p.source_step, sizeof(ab_bits_##FROM))                                        \
      AB_EACH_FAR(32, p.source_step) {                                                                           \
        if (AB_IN_TILE(far, near)) {                                                                             \
          const ab_bits_##FROM in = AB_READ(FROM, at);                                                           \
          ab_bits_##TO out;                                                                                      \
          AB_CHANGE(FROM, TO, in, at, out)                                                                       \
          tile[far * 33 + near] = out;                                                                           \
        }                                                                                                        \
      }                                                                                                          \
    }                                                                                                            \
    AB_BARRIER                                                                                                   \
    AB_EACH_ITEM {                                                                                               \
      AB_TILE_PLACE(32, tile_to, p.destination_step, sizeof(ab_bits_##TO))                                       \
      AB_EACH_FAR(32, p.destination_step) {                                                                      \
        if (AB_IN_TILE(near, far))                                                                               \
          AB_STORER(TO)(destination + at, tile[near * 33 + far], p.flags & AB_DESTINATION_ODD);                  \
      }                                                                                                          \
    }                                                                                                            \
  }

/* ---- elements that follow each other in bits, one item for each byte of them ---- */

/* Between these two a kernel adds each element of a byte of the destination to `byte`, from bit `at` on:
 * `some` bits, which follow the first `skipped` of element `index`. */
#define AB_PARTS_BEGIN                                                                                           \
  AB_EACH_ITEM {                                                                                                 \
    const u32 place = AB_GROUP_ID * AB_GROUP + item;                                                             \
    if (place < p.count) {                                                                                       \
      const u32 end = p.first + p.elements * p.room;                                                             \
      const u32 low = place == 0 ? p.first : place * 8, high = place * 8 + 8 < end ? place * 8 + 8 : end;        \
      AB_GLOBAL u8 *target = destination + p.destination + place;                                                \
      u32 byte = 0, bit = low;                                                                                   \
      u32 index = AB_DIVIDE(low - p.first, p.per_room), skipped = low - p.first - index * p.room;                \
      while (bit < high) {                                                                                       \
        const u32 left = p.room - skipped, here = high - bit, some = left < here ? left : here, at = bit & 7;
#define AB_PARTS_END                                                                                             \
        bit += some;                                                                                             \
        index++;                                                                                                 \
        skipped = 0;                                                                                             \
      }                                                                                                          \
      /* Bits around the job stay as they are. */                                                                \
      const u32 mask = ((1u << (high - low)) - 1) << (low & 7);                                                  \
      *target = (u8)(mask == 0xff ? byte : (*target & ~mask) | (byte & mask));                                   \
    }                                                                                                            \
  }

#define AB_PACK_BITS                                                                                             \
  AB_KERNEL(ab_pack_bits) {                                                                                      \
    (void)lost;                                                                                                  \
    AB_PARTS_BEGIN                                                                                               \
    if (skipped < p.bits) {                                                                                      \
      const u32 there = p.bits - skipped, wanted = there < some ? there : some;                                  \
      i64 from, unused;                                                                                          \
      AB_LOCATE(index, from, unused)                                                                             \
      (void)unused;                                                                                              \
      byte |= ab_load_bits(source, from + skipped, wanted) << at;                                                \
    }                                                                                                            \
    AB_PARTS_END                                                                                                 \
  }

#define AB_PACK(FROM)                                                                                            \
  AB_KERNEL(ab_pack_##FROM) {                                                                                    \
    AB_PARTS_BEGIN                                                                                               \
    i64 from, unused;                                                                                            \
    AB_LOCATE(index, from, unused)                                                                               \
    (void)unused;                                                                                                \
    const ab_bits_##FROM in = AB_READ(FROM, from);                                                               \
    ab_bits_x8 out;                                                                                              \
    AB_CHANGE(FROM, x8, in, from, out)                                                                           \
    byte |= (((u32)out >> skipped) & ((1u << some) - 1)) << at;                                                  \
    AB_PARTS_END                                                                                                 \
  }
