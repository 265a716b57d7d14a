/* The kernels of src/backend/cuda/kernels, as C: what CUDA runs with many threads is called for one of them.
 * Accesses that are not aligned, which a GPU refuses, trap. */
#include "kernels.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef u32 u128 __attribute__((vector_size(16)));
#define AB_U64(literal) literal##ull
#define AB_DEVICE static inline
#define AB_GLOBAL
#define AB_LOCAL static
#define AB_CLZ32(x) ((u32)__builtin_clz(x))
#define AB_CLZ64(x) ((u32)__builtin_clzll(x))
#define AB_PRODUCT(a, b) ((i64)(a) * (b))
#define AB_GROUP 256
#define AB_GROUP_ID (fake_thread.block[0])
#define AB_EACH_ITEM for (u32 item = fake_thread.thread[0], once = 1; once; once = 0)
#define AB_BARRIER fake_barrier();
#define AB_UNROLL
#define AB_NO_UNROLL
#define AB_KERNEL(name)                                                                                          \
  static void name(const u8 *source, u8 *destination, u32 *lost, const ab_params p);                             \
  static void call_##name(void **a) {                                                                            \
    name(*(const u8 **)a[0], *(u8 **)a[1], *(u32 **)a[2], *(const ab_params *)a[3]);                             \
  }                                                                                                              \
  static void name(const u8 *source, u8 *destination, u32 *lost, const ab_params p)

#include "../../../src/backend/kernels/numbers.h"

#include "../../../src/backend/kernels/jobs.h"

#include "../../../src/backend/cuda/kernels/casts.h"

AB_COPY(1, u8)
AB_COPY(2, u16)
AB_COPY(4, u32)
AB_COPY(8, u64)
AB_COPY(16, u128)
AB_TRANSPOSE(1, u8, 64)
AB_TRANSPOSE(2, u16, 64)
AB_TRANSPOSE(4, u32, 32)
AB_TRANSPOSE(8, u64, 32)
AB_TRANSPOSE(16, u128, 32)
AB_PACK_BITS
AB_PACK_ANY

#define KINDS(X) X(i) X(l) X(u) X(f) X(d)
#define KIND(K) AB_CAST_KIND(K) AB_CAST_ANY(K) AB_TRANSPOSE_KIND(K) AB_TRANSPOSE_ANY(K)
KINDS(KIND)

#define ENTRY(name) {#name, call_##name},
#define ENTRIES(K)                                                                                               \
  ENTRY(ab_cast_##K) ENTRY(ab_cast_##K##_any) ENTRY(ab_transpose_##K) ENTRY(ab_transpose_##K##_any)
const struct fake_kernel fake_kernels[] = {
    ENTRY(ab_copy_1) ENTRY(ab_copy_2) ENTRY(ab_copy_4) ENTRY(ab_copy_8) ENTRY(ab_copy_16)
    ENTRY(ab_transpose_1) ENTRY(ab_transpose_2) ENTRY(ab_transpose_4) ENTRY(ab_transpose_8) ENTRY(ab_transpose_16)
    ENTRY(ab_pack_bits) ENTRY(ab_pack)
    KINDS(ENTRIES)
    {0, 0}};
