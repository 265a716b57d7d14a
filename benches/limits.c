/* What limits.py times: what a conversion has to do at least, every address of it decided beforehand.
 *
 * - limits_moves reads pieces of the source into a buffer and writes pieces of the result from it, each line
 *   once, and computes nothing: the result is garbage. For what memory limits.
 * - limits_tiles permutes, rightly: tiles in vectors, at addresses from ready-made tables. For what the caches
 *   hold. Without its shuffles it is loads and stores alone.
 * - limits_runs copies runs, rightly, from a table.
 * - limits_memcpy is memcpy.
 *
 * The three last look at two tensors in each repetition, as a library has to. On several threads each has a share,
 * decided beforehand, too, and none sleeps. Nothing here is of the library.
 * Compiled with -march=native. */
#define _GNU_SOURCE
#include <arraybridge/arraybridge.h> /* DLTensor */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define BUFFER (4 << 20)

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---- what a call must look at --------------------------------------------------------------------- */

/* Where a tensor's bytes lie, as far as it makes sense. */
static int span(const DLTensor *t, uintptr_t *begin, uintptr_t *end, int64_t *count) {
  __int128 low = 0, high = 0, all = 1;
  if (t->device.device_type != kDLCPU || t->ndim < 0 || t->ndim > 64 || t->dtype.lanes != 1 ||
      t->dtype.bits % 8)
    return 0;
  for (int i = 0; i < t->ndim; i++) {
    __int128 reach = (__int128)(t->shape[i] - 1) * t->strides[i];
    if (t->shape[i] <= 0)
      return 0;
    *(reach < 0 ? &low : &high) += reach;
    all *= t->shape[i];
  }
  int64_t size = t->dtype.bits / 8;
  if (all > INT64_MAX / size || low < -(INT64_MAX >> 8) || high > INT64_MAX >> 8 || !t->data)
    return 0;
  uintptr_t first = (uintptr_t)t->data + t->byte_offset;
  *begin = first + (int64_t)low * size, *end = first + ((int64_t)high + 1) * size, *count = (int64_t)all;
  return *begin <= first && first < *end;
}

static int look(const DLTensor *a, const DLTensor *b) {
  uintptr_t a0, a1, b0, b1;
  int64_t m, n;
  if (a->ndim != b->ndim || memcmp(a->shape, b->shape, a->ndim * sizeof *a->shape))
    return 0;
  return span(a, &a0, &a1, &m) && span(b, &b0, &b1, &n) && (a1 <= b0 || b1 <= a0);
}

/* ---- threads -------------------------------------------------------------------------------------- */

#define MAX_THREADS 64

/* What one thread of several does in each repetition. */
typedef void (*share_fn)(const void *plan, int share, int shares);

/* A thread that never sleeps while the time is taken. */
typedef struct {
  share_fn work;
  const void *plan;
  int share, shares;
  int64_t reps;
  _Alignas(128) atomic_llong *begun, *done;
} helper;

static void *help(void *argument) {
  helper *h = argument;
  for (int64_t i = 1; i <= h->reps; i++) {
    while (atomic_load_explicit(h->begun, memory_order_acquire) < i)
      ;
    h->work(h->plan, h->share, h->shares);
    atomic_fetch_add(h->done, 1);
  }
  return NULL;
}

/* Nanoseconds of all repetitions; below 0 where there is something wrong. Looks at the tensors, if there are such. */
INLINE int64_t timed(share_fn work, const void *plan, int threads, const DLTensor *a, const DLTensor *b,
                     int64_t reps) {
  static _Alignas(128) atomic_llong begun, done;
  pthread_t ids[MAX_THREADS];
  helper helpers[MAX_THREADS];
  if (threads > MAX_THREADS)
    return -1;
  begun = done = 0;
  for (int t = 1; t < threads; t++) {
    helpers[t] = (helper){work, plan, t, threads, reps, &begun, &done};
    if (pthread_create(&ids[t], NULL, help, &helpers[t]))
      return -2;
  }
  int wrong = 0;
  int64_t begin = now();
  for (int64_t i = 1; i <= reps; i++) {
    __asm__ volatile("" : : "r"(a), "r"(b), "r"(plan) : "memory");
    if (a && !look(a, b))
      wrong = 1;
    if (threads > 1)
      atomic_store(&begun, i);
    work(plan, 0, threads);
    while (threads > 1 && atomic_load(&done) < i * (threads - 1))
      ;
  }
  int64_t took = now() - begin;
  for (int t = 1; t < threads; t++)
    pthread_join(ids[t], NULL);
  return wrong ? -3 : took;
}

/* ---- memcpy --------------------------------------------------------------------------------------- */

/* Runs of the source that lie in the result one after the other: each may write over the next one's bytes. */
typedef struct {
  const char *src;
  char *dst;
  const int32_t *src_at;
  int64_t count, bytes;
  int32_t vector; /* bytes of one */
} runs;

/* One of these for each thread, as of tiles. */
INLINE void copy_share(const void *plan, int share, int shares) {
  const runs *t = (const runs *)plan + share;
  (void)shares;
  memcpy(t->dst, t->src, t->bytes);
}

int64_t limits_memcpy(const runs *t, int threads, const DLTensor *a, const DLTensor *b, int64_t reps) {
  return timed(copy_share, t, threads, a, b, reps);
}

/* ---- moves ---------------------------------------------------------------------------------------- */

typedef char line __attribute__((vector_size(64), may_alias));
typedef char part __attribute__((vector_size(64), may_alias, aligned(1)));

/* All blocks of one form: where the pieces lie, from the block's beginning. */
typedef struct {
  int64_t reads, writes, read_bytes, write_bytes;
  const int32_t *src, *dst;
} form;

typedef struct {
  int64_t src, dst, form;
} block;

typedef struct {
  char *src, *dst;
  const block *blocks;
  const form *forms;
  int64_t count;
  int32_t around; /* the caches */
  int32_t ahead;  /* the next block is asked for */
  int32_t fold;   /* lines that are read for one that is kept: where the result is smaller */
  int32_t step;   /* bytes of the buffer for each line that is written: fewer than 64 where it is larger */
} moves;

typedef struct {
  const char *base;
  const int32_t *at;
  int64_t left, bytes;
  const char *p, *end;
} cursor;

/* The lines that begin in a piece, so that each line is in one piece: no line is read or written twice. */
INLINE char *line_of(const char *p) { return (char *)(((uintptr_t)p + 63) & ~(uintptr_t)63); }

INLINE cursor pieces(const char *base, const int32_t *at, int64_t count, int64_t bytes) {
  return (cursor){base, at, count, bytes, NULL, NULL};
}

INLINE const char *next_line(cursor *c) {
  while (c->p == c->end) {
    if (!c->left)
      return NULL;
    const char *piece = c->base + *c->at++;
    c->left--, c->p = line_of(piece), c->end = line_of(piece + c->bytes);
  }
  return (c->p += 64) - 64;
}

INLINE void put(char *p, line v, const int around) {
#if defined(__AVX512F__)
  if (around) {
    _mm512_stream_si512((__m512i *)p, (__m512i)v);
    return;
  }
#elif defined(__AVX__)
  if (around) {
    __m256i *halves = (__m256i *)&v;
    _mm256_stream_si256((__m256i *)p, halves[0]), _mm256_stream_si256((__m256i *)p + 1, halves[1]);
    return;
  }
#endif
  *(line *)p = v;
}

INLINE void move(const moves *m, int64_t begin, int64_t end, char *buffer, const int around, const int ahead,
                 const int fold) {
  const int step = m->step;
  for (int64_t b = begin; b < end; b++) {
    const block *at = &m->blocks[b], *then = b + 1 < end ? at + 1 : at;
    const form *f = &m->forms[at->form], *g = &m->forms[then->form];
    char *kept = buffer;
    for (int64_t i = 0; i < f->reads; i++) {
      const char *piece = m->src + at->src + f->src[i], *p = line_of(piece),
                 *e = line_of(piece + f->read_bytes);
      for (; p + 64 * fold <= e; p += 64 * fold, kept += 64) {
        line v = *(const line *)p;
        for (int k = 1; k < fold; k++)
          v ^= *(const line *)(p + 64 * k);
        *(line *)kept = v;
      }
      if (fold > 1 && p < e) { /* the rest of the piece */
        line v = *(const line *)p;
        for (p += 64; p < e; p += 64)
          v ^= *(const line *)p;
        *(line *)kept = v, kept += 64;
      }
    }
    cursor reads = pieces(m->src + then->src, g->src, g->reads, g->read_bytes);
    cursor writes = pieces(m->dst + then->dst, g->dst, g->writes, g->write_bytes);
    const char *taken = buffer;
    int credit = 0;
    for (int64_t i = 0; i < f->writes; i++) {
      char *piece = m->dst + at->dst + f->dst[i], *p = line_of(piece), *e = line_of(piece + f->write_bytes);
      for (; p < e; p += 64, taken += step) {
        put(p, *(const part *)taken, around);
        if (ahead) {
          for (credit += step * fold; credit >= 64; credit -= 64) {
            const char *wanted = next_line(&reads);
            if (wanted)
              __builtin_prefetch(wanted);
          }
          const char *wanted = around ? NULL : next_line(&writes);
          if (wanted)
            __builtin_prefetch(wanted, 1);
        }
      }
    }
  }
#ifdef __x86_64__
  _mm_sfence();
#endif
}

static char *buffers;

static void move_share(const void *plan, int share, int shares) {
  const moves *m = plan;
  char *buffer = buffers + (size_t)BUFFER * share;
  int64_t begin = m->count * share / shares, end = m->count * (share + 1) / shares;
  switch (m->fold << 2 | (m->around != 0) << 1 | (m->ahead != 0)) {
#define CASE(around, ahead, fold)                                                                              \
  case fold << 2 | around << 1 | ahead:                                                                        \
    move(m, begin, end, buffer, around, ahead, fold);                                                          \
    break;
#define CASES(fold) CASE(0, 0, fold) CASE(0, 1, fold) CASE(1, 0, fold) CASE(1, 1, fold)
    CASES(1) CASES(2) CASES(4) CASES(8)
  }
}

int64_t limits_moves(const moves *m, int threads, int64_t reps) {
  if (threads > MAX_THREADS || m->fold > 8 || (m->fold & (m->fold - 1)))
    return -1;
  if (!buffers) {
    buffers = aligned_alloc(1 << 21, (size_t)BUFFER * MAX_THREADS);
    memset(buffers, 0, (size_t)BUFFER * threads);
  }
  return timed(move_share, m, threads, NULL, NULL, reps);
}

/* ---- tiles ---------------------------------------------------------------------------------------- */

#ifdef __AVX2__

/* Matrices of `m` rows and `n` columns: row r is at rows[r] of the source, column c at cols[c] of the result.
 */
typedef struct {
  const char *src;
  char *dst;
  int64_t matrices, m, n, main; /* rows in whole tiles of the first kernel */
  const int32_t *src_at, *dst_at, *rows, *cols;
  int32_t kernel, rest; /* rest: for the rows that are left, or -1 */
  int32_t across;       /* the tiles of one row after the other */
} tiles;

#define LOAD(type, p)                                                                                          \
  ({                                                                                                           \
    type v_;                                                                                                   \
    memcpy(&v_, p, sizeof v_);                                                                                 \
    v_;                                                                                                        \
  })

/* 16 bytes of vector `v` of a tile: one piece of `bytes` of a row or several. */
INLINE __m128i load_pieces(const char *src, const int32_t *rows, int v, const int bytes) {
  if (bytes == 16)
    return _mm_loadu_si128((const __m128i *)(src + rows[v]));
  if (bytes == 8)
    return _mm_set_epi64x(LOAD(int64_t, src + rows[2 * v + 1]), LOAD(int64_t, src + rows[2 * v]));
  rows += 4 * v;
  return _mm_set_epi32(LOAD(int32_t, src + rows[3]), LOAD(int32_t, src + rows[2]), LOAD(int32_t, src + rows[1]),
                       LOAD(int32_t, src + rows[0]));
}

INLINE void store_piece(char *dst, __m128i x, int k, const int bytes) {
  if (bytes == 16)
    _mm_storeu_si128((__m128i *)dst, x);
  else if (bytes == 8 && k == 0)
    _mm_storel_epi64((__m128i *)dst, x);
  else if (bytes == 8)
    _mm_storeh_pd((double *)dst, _mm_castsi128_pd(x));
  else {
    int32_t e = k == 0   ? _mm_cvtsi128_si32(x)
                : k == 1 ? _mm_extract_epi32(x, 1)
                : k == 2 ? _mm_extract_epi32(x, 2)
                         : _mm_extract_epi32(x, 3);
    memcpy(dst, &e, 4);
  }
}

#define ZIP(P, half, w, a, b)                                                                                  \
  ((w) == 1   ? P##_unpack##half##_epi8(a, b)                                                                  \
   : (w) == 2 ? P##_unpack##half##_epi16(a, b)                                                                 \
   : (w) == 4 ? P##_unpack##half##_epi32(a, b)                                                                 \
              : P##_unpack##half##_epi64(a, b))

/* Tiles of r rows and c columns in the lanes of 16 bytes of as many vectors as one takes: rows become columns
 * by zipping the first half of a tile with the second as often as r can be halved. */
#define DEFINE_ZIP(lanes, VEC, P, SPREAD)                                                                      \
  INLINE void zip##lanes(VEC *x, const int w, const int r, const int c) {                                      \
    const int count = r * c * w / 16;                                                                          \
    if (r == 1 || c == 1)                                                                                      \
      return;                                                                                                  \
    if (count == 1) {                                                                                          \
      __m128i order;                                                                                           \
      char *o = (char *)&order;                                                                                \
      _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) o[i] =                                             \
          (char)((i / w % r * c + i / w / r) * w + i % w);                                                     \
      x[0] = P##_shuffle_epi8(x[0], SPREAD(order));                                                            \
      return;                                                                                                  \
    }                                                                                                          \
    _Pragma("GCC unroll 4") for (int s = 1; s < r; s *= 2) {                                                   \
      VEC y[16];                                                                                               \
      _Pragma("GCC unroll 8") for (int v = 0; v < count / 2; v++) {                                            \
        y[2 * v] = ZIP(P, lo, w, x[v], x[v + count / 2]);                                                      \
        y[2 * v + 1] = ZIP(P, hi, w, x[v], x[v + count / 2]);                                                  \
      }                                                                                                        \
      _Pragma("GCC unroll 16") for (int v = 0; v < count; v++) x[v] = y[v];                                    \
    }                                                                                                          \
  }

/* How the tiles of the lanes lie. */
enum { BESIDE, BELOW, SQUARE };

/* `lanes` tiles beside each other or one below the other, or as many squared, whose vectors go from one layout
 * to the other by whole lanes. Only the first `limit` columns are written. */
#define DEFINE_TILE(lanes, VEC, P, SET, GET, LOAD_WIDE, STORE_WIDE, TURN)                                      \
  INLINE void tile##lanes(const char *src, char *dst, const int32_t *rows, const int32_t *cols, int limit,     \
                          const int w, const int r, const int c, const int lie, const int shuffles) {          \
    const int count = r * c * w / 16, in = c * w, out = r * w, per = 16 / out,                                 \
              sets = lie == SQUARE ? lanes : 1;                                                                \
    VEC x[lanes][16];                                                                                          \
    _Pragma("GCC unroll 16") for (int v = 0; v < count; v++) {                                                 \
      if (lie == SQUARE) {                                                                                     \
        VEC a[lanes];                                                                                          \
        _Pragma("GCC unroll 4") for (int l = 0; l < lanes; l++) a[l] =                                         \
            LOAD_WIDE((const void *)(src + rows[v + l * r]));                                                  \
        if (shuffles)                                                                                          \
          TURN(a);                                                                                             \
        _Pragma("GCC unroll 4") for (int l = 0; l < lanes; l++) x[l][v] = a[l];                                \
      } else if (lie == BESIDE && in == 16)                                                                    \
        x[0][v] = LOAD_WIDE((const void *)(src + rows[v]));                                                    \
      else {                                                                                                   \
        __m128i lane[lanes];                                                                                   \
        _Pragma("GCC unroll 4") for (int l = 0; l < lanes; l++) lane[l] =                                      \
            load_pieces(src + (lie == BELOW ? 0 : l * in), rows + (lie == BELOW ? l * r : 0), v, in);          \
        x[0][v] = SET(lane);                                                                                   \
      }                                                                                                        \
    }                                                                                                          \
    if (shuffles)                                                                                              \
      _Pragma("GCC unroll 4") for (int l = 0; l < sets; l++) zip##lanes(x[l], w, r, c);                        \
    if (out == 16 && lie != BESIDE) {                                                                          \
      _Pragma("GCC unroll 4") for (int l = 0; l < sets; l++)                                                   \
          _Pragma("GCC unroll 16") for (int v = 0; v < count; v++) if (l * c + v < limit)                      \
              STORE_WIDE((void *)(dst + cols[l * c + v]), x[l][v]);                                            \
      return;                                                                                                  \
    }                                                                                                          \
    _Pragma("GCC unroll 16") for (int v = 0; v < count; v++)                                                   \
        _Pragma("GCC unroll 4") for (int l = 0; l < lanes; l++)                                                \
            _Pragma("GCC unroll 4") for (int k = 0; k < per; k++) {                                            \
      int column = (lie == BELOW ? 0 : l * c) + v * per + k;                                                   \
      if (column < limit)                                                                                      \
        store_piece(dst + cols[column] + (lie == BELOW ? l * out : 0), GET(x[0][v], l), k, out);               \
    }                                                                                                          \
  }

#define TURN1(a) (void)0
#define TURN2(a)                                                                                               \
  ({                                                                                                           \
    __m256i b = a[0];                                                                                          \
    a[0] = _mm256_permute2x128_si256(b, a[1], 0x20), a[1] = _mm256_permute2x128_si256(b, a[1], 0x31);          \
  })
#define TURN4(a)                                                                                               \
  ({                                                                                                           \
    __m512i b = _mm512_shuffle_i32x4(a[0], a[1], 0x44), d = _mm512_shuffle_i32x4(a[2], a[3], 0x44);            \
    __m512i e = _mm512_shuffle_i32x4(a[0], a[1], 0xee), f = _mm512_shuffle_i32x4(a[2], a[3], 0xee);            \
    a[0] = _mm512_shuffle_i32x4(b, d, 0x88), a[1] = _mm512_shuffle_i32x4(b, d, 0xdd);                          \
    a[2] = _mm512_shuffle_i32x4(e, f, 0x88), a[3] = _mm512_shuffle_i32x4(e, f, 0xdd);                          \
  })
#define SET1(a) a[0]
#define GET1(x, l) x
#define SPREAD1(x) x
#define SET2(a) _mm256_inserti128_si256(_mm256_castsi128_si256(a[0]), a[1], 1)
#define GET2(x, l) ((l) ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x))
#define SET4(a)                                                                                                \
  _mm512_inserti64x4(_mm512_castsi256_si512(SET2(a)),                                                          \
                     _mm256_inserti128_si256(_mm256_castsi128_si256(a[2]), a[3], 1), 1)
#define GET4(x, l)                                                                                             \
  ((l) == 0   ? _mm512_castsi512_si128(x)                                                                      \
   : (l) == 1 ? _mm512_extracti32x4_epi32(x, 1)                                                                \
   : (l) == 2 ? _mm512_extracti32x4_epi32(x, 2)                                                                \
              : _mm512_extracti32x4_epi32(x, 3))
DEFINE_ZIP(1, __m128i, _mm, SPREAD1)
DEFINE_TILE(1, __m128i, _mm, SET1, GET1, _mm_loadu_si128, _mm_storeu_si128, TURN1)
DEFINE_ZIP(2, __m256i, _mm256, _mm256_broadcastsi128_si256)
DEFINE_TILE(2, __m256i, _mm256, SET2, GET2, _mm256_loadu_si256, _mm256_storeu_si256, TURN2)
#ifdef __AVX512BW__
DEFINE_ZIP(4, __m512i, _mm512, _mm512_broadcast_i32x4)
DEFINE_TILE(4, __m512i, _mm512, SET4, GET4, _mm512_loadu_si512, _mm512_storeu_si512, TURN4)
#endif

/* Tiles of all matrices from row `begin` on; the last ones overlap those before. */
#define KERNEL(lanes, w, r, c, lie, shuffles)                                                                  \
  static void kernel_##lanes##_##w##_##r##_##c##_##lie##_##shuffles(const tiles *t, int64_t begin,             \
                                                                    int64_t end) {                             \
    const int high = HIGH(lanes, r, lie), wide = WIDE(lanes, c, lie);                                          \
    int64_t tall = (end - begin + high - 1) / high, broad = (t->n + wide - 1) / wide, total = tall * broad;    \
    for (int64_t i = 0; i < t->matrices; i++) {                                                                \
      const char *src = t->src + t->src_at[i];                                                                 \
      char *dst = t->dst + t->dst_at[i];                                                                       \
      int64_t x = 0, y = begin;                                                                                \
      for (int64_t left = total; left; left--) {                                                               \
        int64_t at = y + high > end ? end - high : y;                                                          \
        const char *from = src + x * w;                                                                        \
        char *to = dst + at * w;                                                                               \
        if (x + wide <= t->n)                                                                                  \
          tile##lanes(from, to, t->rows + at, t->cols + x, wide, w, r, c, lie, shuffles);                      \
        else                                                                                                   \
          tile##lanes(from, to, t->rows + at, t->cols + x, (int)(t->n - x), w, r, c, lie, shuffles);           \
        if (t->across) {                                                                                       \
          if ((x += wide) >= t->n)                                                                             \
            x = 0, y += high;                                                                                  \
        } else if ((y += high) >= end)                                                                         \
          y = begin, x += wide;                                                                                \
      }                                                                                                        \
    }                                                                                                          \
  }

#define HIGH(lanes, r, lie) (lie == BESIDE ? r : lanes * r)
#define WIDE(lanes, c, lie) (lie == BELOW ? c : lanes * c)
#ifdef __AVX512BW__
#define EACH_LANES(X, w, r, c)                                                                                 \
  X(1, w, r, c, BESIDE) X(2, w, r, c, BESIDE) X(2, w, r, c, BELOW) X(4, w, r, c, BESIDE) X(4, w, r, c, BELOW)
#define EACH_SQUARE(X, w, r) EACH_LANES(X, w, r, r) X(2, w, r, r, SQUARE) X(4, w, r, r, SQUARE)
#else
#define EACH_LANES(X, w, r, c) X(1, w, r, c, BESIDE) X(2, w, r, c, BESIDE) X(2, w, r, c, BELOW)
#define EACH_SQUARE(X, w, r) EACH_LANES(X, w, r, r) X(2, w, r, r, SQUARE)
#endif
#define EACH(X)                                                                                                \
  EACH_LANES(X, 1, 4, 4)                                                                                       \
  EACH_LANES(X, 1, 4, 8) EACH_LANES(X, 1, 4, 16) EACH_LANES(X, 1, 8, 4) EACH_LANES(X, 1, 8, 8)                 \
      EACH_LANES(X, 1, 8, 16) EACH_LANES(X, 1, 16, 4) EACH_LANES(X, 1, 16, 8) EACH_SQUARE(X, 1, 16)            \
          EACH_LANES(X, 2, 2, 4) EACH_LANES(X, 2, 2, 8) EACH_LANES(X, 2, 4, 2) EACH_LANES(X, 2, 4, 4)          \
              EACH_LANES(X, 2, 4, 8) EACH_LANES(X, 2, 8, 2) EACH_LANES(X, 2, 8, 4) EACH_SQUARE(X, 2, 8)        \
                  EACH_LANES(X, 4, 1, 4) EACH_LANES(X, 4, 2, 2) EACH_LANES(X, 4, 2, 4) EACH_LANES(X, 4, 4, 1)  \
                      EACH_LANES(X, 4, 4, 2) EACH_SQUARE(X, 4, 4) EACH_LANES(X, 8, 1, 2)                       \
                          EACH_LANES(X, 8, 2, 1) EACH_SQUARE(X, 8, 2) EACH_SQUARE(X, 16, 1)

#define BOTH(lanes, w, r, c, lie) KERNEL(lanes, w, r, c, lie, 0) KERNEL(lanes, w, r, c, lie, 1)
EACH(BOTH)

typedef void (*kernel_fn)(const tiles *, int64_t, int64_t);
typedef struct {
  int32_t w, rows, columns, shuffles;
  kernel_fn run;
} kernel;
#define ENTRY(lanes, w, r, c, lie, s)                                                                          \
  {w, HIGH(lanes, r, lie), WIDE(lanes, c, lie), s, kernel_##lanes##_##w##_##r##_##c##_##lie##_##s},
#define ENTRIES(lanes, w, r, c, lie) ENTRY(lanes, w, r, c, lie, 0) ENTRY(lanes, w, r, c, lie, 1)
const kernel limits_kernels[] = {EACH(ENTRIES){0}};

INLINE void tiles_share(const void *plan, int share, int shares) {
  const tiles *t = (const tiles *)plan + share;
  (void)shares;
  limits_kernels[t->kernel].run(t, 0, t->main);
  if (t->rest >= 0)
    limits_kernels[t->rest].run(t, t->main, t->m);
}

int64_t limits_tiles(const tiles *t, int threads, const DLTensor *a, const DLTensor *b, int64_t reps) {
  return timed(tiles_share, t, threads, a, b, reps);
}

/* ---- runs ----------------------------------------------------------------------------------------- */

#define RUN(size, times)                                                                                       \
  for (int64_t i = 0; i < t->count; i++, dst += t->bytes)                                                      \
    for (int64_t k = 0; k < (times); k++) {                                                                    \
      typedef char vector __attribute__((vector_size(size), may_alias, aligned(1)));                           \
      *(vector *)(dst + k * size) = *(const vector *)(t->src + t->src_at[i] + k * size);                       \
    }

INLINE void runs_share(const void *plan, int share, int shares) {
  const runs *t = (const runs *)plan + share;
  int64_t times = (t->bytes + t->vector - 1) / t->vector;
  char *dst = t->dst;
  (void)shares;
  switch (t->vector << 2 | (times < 4 ? times : 0)) {
#define VECTOR(size)                                                                                           \
  case size << 2 | 1:                                                                                          \
    RUN(size, 1) break;                                                                                        \
  case size << 2 | 2:                                                                                          \
    RUN(size, 2) break;                                                                                        \
  case size << 2 | 3:                                                                                          \
    RUN(size, 3) break;                                                                                        \
  case size << 2:                                                                                              \
    RUN(size, times) break;
    VECTOR(8) VECTOR(16) VECTOR(32) VECTOR(64)
  }
}

int64_t limits_runs(const runs *t, int threads, const DLTensor *a, const DLTensor *b, int64_t reps) {
  return timed(runs_share, t, threads, a, b, reps);
}

#endif
