/* One module of the kernels, which regen.sh names: clang -D AB_MODULE='AB_CAST_KIND(f)' kernels.cu */
#include "../../kernels/cuda.h"
#include "../../kernels/numbers.h"
#include "../../kernels/jobs.h"
#include "casts.h"

/* Bytes, and bits that stay what they are. */
#define AB_MOVES                                                                                                 \
  AB_COPY(1, u8) AB_COPY(2, u16) AB_COPY(4, u32) AB_COPY(8, u64) AB_COPY(16, u128)                               \
  AB_TRANSPOSE(1, u8, 64) AB_TRANSPOSE(2, u16, 64) AB_TRANSPOSE(4, u32, 32) AB_TRANSPOSE(8, u64, 32)             \
  AB_TRANSPOSE(16, u128, 32) AB_PACK_BITS

AB_MODULE
