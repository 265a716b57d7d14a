/* ab_detect on tensors that are in order; refusals.c has the others. */
#include "check.h"

#define LAYOUT_BITS \
  (AB_TENSOR_C_CONTIGUOUS | AB_TENSOR_F_CONTIGUOUS | AB_TENSOR_DENSE | AB_TENSOR_BROADCAST | AB_TENSOR_OVERLAPPING | \
   AB_TENSOR_EMPTY)
#define C AB_TENSOR_C_CONTIGUOUS
#define F AB_TENSOR_F_CONTIGUOUS
#define D AB_TENSOR_DENSE

static ab_tensor_info detect_at(int line, source *s, uint64_t flags) {
  ab_tensor_info info;
  source before;
  memcpy(&before, s, sizeof before);
  memset(&info, 0xA5, sizeof info);
  info.struct_size = sizeof info;
  check_status(__FILE__, line, "ab_detect", AB_OK, ab_detect(&s->tensor.dl_tensor, flags, &info, poisoned_error()));
  CHECK_AT(__FILE__, line, memcmp(&before, s, sizeof before) == 0, "ab_detect changed the tensor");
  CHECK_AT(__FILE__, line, info.struct_size == sizeof info, "ab_detect changed struct_size");
  return info;
}

#define DETECT(s, flags) detect_at(__LINE__, s, flags)

/* Exactly the layout flags wanted. NO stands for NULL strides. */
static void layouts(void) {
  enum { NO = -9999 };
  static const struct {
    int ndim;
    int64_t shape[4], strides[4];
    uint32_t wanted;
    int64_t begin, end; /* in elements */
  } cases[] = {
      {0, {0}, {0}, C | F | D, 0, 1},
      {1, {5}, {NO}, C | F | D, 0, 5},
      {1, {5}, {1}, C | F | D, 0, 5},
      {1, {5}, {2}, 0, 0, 9},
      {1, {1}, {77}, C | F | D, 0, 1},
      {1, {1}, {-77}, C | F | D, 0, 1},
      {2, {2, 3}, {NO}, C | D, 0, 6},
      {2, {2, 3}, {3, 1}, C | D, 0, 6},
      {2, {2, 3}, {1, 2}, F | D, 0, 6},
      {2, {2, 3}, {4, 1}, 0, 0, 7},
      {2, {1, 3}, {NO}, C | F | D, 0, 3},
      {2, {1, 3}, {-5, 1}, C | F | D, 0, 3},
      {3, {2, 1, 3}, {3, 999, 1}, C | D, 0, 6},
      {3, {2, 1, 3}, {1, 0, 2}, F | D, 0, 6},
      {3, {2, 3, 4}, {12, 1, 3}, D, 0, 24},
      {2, {2, 3}, {0, 1}, AB_TENSOR_BROADCAST | AB_TENSOR_OVERLAPPING, 0, 3},
      {1, {4}, {0}, AB_TENSOR_BROADCAST | AB_TENSOR_OVERLAPPING, 0, 1},
      {2, {3, 3}, {1, 1}, AB_TENSOR_OVERLAPPING, 0, 5},
      {2, {0, 3}, {NO}, C | F | D | AB_TENSOR_EMPTY, 0, 0},
      {2, {3, 0}, {-7, 12345}, C | F | D | AB_TENSOR_EMPTY, 0, 0},
      {1, {0}, {0}, C | F | D | AB_TENSOR_EMPTY, 0, 0},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const int64_t *strides = cases[i].strides[0] == NO ? NULL : cases[i].strides;
    source s;
    ab_tensor_info info;
    int64_t n = 1;
    for (int k = 0; k < cases[i].ndim; k++) n *= cases[i].shape[k];
    source_set(&s, n ? mem(0) : NULL, F32, cases[i].ndim, cases[i].shape, strides);
    info = DETECT(&s, 0);
    CHECK_AT(__FILE__, __LINE__, (info.flags & LAYOUT_BITS) == cases[i].wanted, "case %zu: flags 0x%x, wanted 0x%x", i,
             (unsigned)(info.flags & LAYOUT_BITS), (unsigned)cases[i].wanted);
    CHECK_EQ(info.flags & AB_TENSOR_NEGATIVE_STRIDE, 0);
    CHECK_EQ(info.ndim, cases[i].ndim);
    CHECK_EQ(info.num_elements, n);
    CHECK_EQ(info.num_bytes, 4 * n);
    if (n == 0) {
      CHECK_EQ(info.begin_offset, info.end_offset);
    } else {
      CHECK_EQ(info.begin_offset, 4 * cases[i].begin);
      CHECK_EQ(info.end_offset, 4 * cases[i].end);
    }
  }
}

static void negative_strides_and_offsets(void) {
  source s;
  ab_tensor_info info;

  source_set(&s, mem(0), F32, 1, DIMS(4), DIMS(-1));
  s.tensor.dl_tensor.byte_offset = 12;
  info = DETECT(&s, 0);
  CHECK(info.flags & AB_TENSOR_NEGATIVE_STRIDE);
  CHECK(!(info.flags & (C | F | AB_TENSOR_OVERLAPPING | AB_TENSOR_BROADCAST)));
  CHECK_EQ(info.begin_offset, 0);
  CHECK_EQ(info.end_offset, 16);
  CHECK_EQ(info.alignment, 4); /* of the first element, not of data */

  /* Before data, which some producers do. */
  source_set(&s, mem(64), F32, 2, DIMS(2, 3), DIMS(-3, 1));
  info = DETECT(&s, 0);
  CHECK(info.flags & AB_TENSOR_NEGATIVE_STRIDE);
  CHECK_EQ(info.begin_offset, -12);
  CHECK_EQ(info.end_offset, 12);

  /* A negative stride on an axis of size 1 is no step at all. */
  source_set(&s, mem(0), F32, 2, DIMS(1, 3), DIMS(-3, 1));
  CHECK(!(DETECT(&s, 0).flags & AB_TENSOR_NEGATIVE_STRIDE));

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  s.tensor.dl_tensor.byte_offset = 16;
  info = DETECT(&s, 0);
  CHECK(info.flags & C);
  CHECK_EQ(info.begin_offset, 16);
  CHECK_EQ(info.end_offset, 32);
  CHECK_EQ(info.alignment, 16);
}

static void alignment(void) {
  source s;
  ab_tensor_info info;
  for (size_t k = 1; k <= PAGE; k *= 2) {
    source_set(&s, mem(k == PAGE ? 0 : k), F64, 1, DIMS(1), NULL);
    info = DETECT(&s, 0);
    CHECK_EQ(info.alignment, k);
    CHECK_EQ((info.flags & AB_TENSOR_MISALIGNED) != 0, k < 8);
  }
  source_set(&s, mem(1), U8, 1, DIMS(4), NULL);
  CHECK(!(DETECT(&s, 0).flags & AB_TENSOR_MISALIGNED));
  source_set(&s, mem(2), F32, 1, DIMS(4), NULL);
  CHECK(DETECT(&s, 0).flags & AB_TENSOR_MISALIGNED);
  s.tensor.dl_tensor.byte_offset = 2;
  CHECK(!(DETECT(&s, 0).flags & AB_TENSOR_MISALIGNED));
  source_set(&s, NULL, F32, 1, DIMS(0), NULL);
  CHECK_EQ(DETECT(&s, 0).alignment, 0);
}

static void devices(void) {
  for (int type = 1; type <= 21; type++) {
    int host = type == 1 || type == 3 || type == 11 || type == 13;
    int opaque = type == 4 || type == 7 || type == 8 || type == 15;
    source s;
    ab_tensor_info info;
    source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
    s.tensor.dl_tensor.device = dev(type, 5);
    info = DETECT(&s, 0);
    CHECK_EQ(info.device.device_type, type);
    CHECK_EQ((info.flags & AB_TENSOR_HOST_READABLE) != 0, host);
    CHECK_EQ((info.flags & AB_TENSOR_OPAQUE_HANDLE) != 0, opaque);
    if (opaque) CHECK_EQ(info.alignment, 0);
    if (type == kDLCPU) CHECK_EQ(info.device.device_id, 0);
    if (type == kDLCUDA || type == kDLOpenCL) CHECK_EQ(info.device.device_id, 5);
  }
}

static void dtypes_and_flags(void) {
  source s;
  ab_tensor_info info;

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  CHECK(!(DETECT(&s, 0).flags & AB_TENSOR_READ_ONLY));
  CHECK(DETECT(&s, DLPACK_FLAG_BITMASK_READ_ONLY).flags & AB_TENSOR_READ_ONLY);
  (void)DETECT(&s, ~(uint64_t)7); /* bits of a later DLPack */

  source_set(&s, mem(0), dt(kDLInt, 4), 1, DIMS(5), NULL);
  info = DETECT(&s, 0);
  CHECK(info.flags & AB_TENSOR_SUBBYTE_PACKED);
  CHECK_EQ(info.num_elements, 5);
  CHECK_EQ(info.num_bytes, 3);
  CHECK_EQ(info.end_offset, 3);
  info = DETECT(&s, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
  CHECK(!(info.flags & AB_TENSOR_SUBBYTE_PACKED));
  CHECK_EQ(info.num_bytes, 5);
  CHECK_EQ(info.end_offset, 5);

  source_set(&s, mem(0), dt(kDLFloat6_e2m3fn, 6), 1, DIMS(3), NULL);
  CHECK_EQ(DETECT(&s, 0).num_bytes, 3); /* 18 bits */
  source_set(&s, mem(0), dt(kDLFloat4_e2m1fn, 4), 1, DIMS(3), NULL);
  s.tensor.dl_tensor.dtype.lanes = 2;
  info = DETECT(&s, 0);
  CHECK_EQ(info.num_bytes, 3);
  CHECK_EQ(info.num_elements, 3);
  CHECK_EQ(info.dtype.lanes, 2);

  source_set(&s, mem(0), F32, 2, DIMS(2, 3), NULL);
  s.tensor.dl_tensor.dtype.lanes = 4;
  info = DETECT(&s, 0);
  CHECK_EQ(info.num_elements, 6);
  CHECK_EQ(info.num_bytes, 96);
  CHECK_EQ(info.dtype.code, kDLFloat);
  CHECK_EQ(info.dtype.bits, 32);
  CHECK_EQ(info.dtype.lanes, 4);

  source_set(&s, mem(0), dt(kDLComplex, 128), 1, DIMS(2), NULL);
  CHECK_EQ(DETECT(&s, 0).num_bytes, 32);
  source_set(&s, mem(0), dt(200, 24), 1, DIMS(2), NULL); /* a code of a later DLPack: bytes all the same */
  CHECK_EQ(DETECT(&s, 0).num_bytes, 6);
}

/* The data is never read: these addresses are nobody's. */
static void data_is_not_read(void) {
  source s;
  int64_t ones[64];
  source_set(&s, (void *)(uintptr_t)64, F32, 2, DIMS(1 << 20, 1 << 20), NULL);
  CHECK_EQ(DETECT(&s, 0).num_elements, INT64_C(1) << 40);
  s.tensor.dl_tensor.device = dev(kDLCUDA, 7);
  CHECK_EQ(DETECT(&s, 0).alignment, 64);
  source_set(&s, NULL, F32, 1, DIMS(0), NULL);
  (void)DETECT(&s, 0);

  /* 64 axes are the limit. */
  for (int i = 0; i < 64; i++) ones[i] = 1;
  source_set(&s, mem(0), F32, 64, ones, NULL);
  CHECK_EQ(DETECT(&s, 0).ndim, 64);
}

#define ACCEPTS(who) CHECK_AT(__FILE__, __LINE__, DETECT(&s, 0).accepted_by & (who), #who " takes this")
#define REFUSES(who) CHECK_AT(__FILE__, __LINE__, !(DETECT(&s, 0).accepted_by & (who)), #who " does not take this")

static void consumers(void) {
  source s;
  source_set(&s, mem(0), F32, 2, DIMS(4, 4), DIMS(4, 1));
  ACCEPTS(AB_CONSUMER_NUMPY);
  ACCEPTS(AB_CONSUMER_TORCH);
  ACCEPTS(AB_CONSUMER_JAX);
  ACCEPTS(AB_CONSUMER_TENSORFLOW);
  ACCEPTS(AB_CONSUMER_PADDLE);
  ACCEPTS(AB_CONSUMER_TVM_FFI);
  REFUSES(AB_CONSUMER_CUPY); /* devices only */

  source_set(&s, mem(16), F32, 2, DIMS(4, 4), DIMS(4, 1)); /* 64 bytes are asked for */
  ACCEPTS(AB_CONSUMER_NUMPY);
  ACCEPTS(AB_CONSUMER_TORCH);
  REFUSES(AB_CONSUMER_JAX);

  source_set(&s, mem(0), F32, 2, DIMS(4, 4), DIMS(1, 4)); /* column-major */
  ACCEPTS(AB_CONSUMER_NUMPY);
  ACCEPTS(AB_CONSUMER_TORCH);
  ACCEPTS(AB_CONSUMER_JAX);
  REFUSES(AB_CONSUMER_TENSORFLOW);

  source_set(&s, mem(0), F32, 2, DIMS(4, 4), DIMS(8, 1)); /* padded rows */
  ACCEPTS(AB_CONSUMER_NUMPY);
  ACCEPTS(AB_CONSUMER_TORCH);
  REFUSES(AB_CONSUMER_JAX);
  REFUSES(AB_CONSUMER_TENSORFLOW);

  source_set(&s, mem(0), F32, 2, DIMS(4, 4), DIMS(-4, 1));
  ACCEPTS(AB_CONSUMER_NUMPY);
  REFUSES(AB_CONSUMER_TORCH);
  REFUSES(AB_CONSUMER_JAX);
  REFUSES(AB_CONSUMER_TENSORFLOW);
  REFUSES(AB_CONSUMER_PADDLE);

  source_set(&s, mem(0), dt(kDLBfloat, 16), 1, DIMS(4), NULL);
  ACCEPTS(AB_CONSUMER_TORCH);
  REFUSES(AB_CONSUMER_NUMPY);

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  s.tensor.dl_tensor.dtype.lanes = 2;
  REFUSES(AB_CONSUMER_NUMPY);
  REFUSES(AB_CONSUMER_TORCH);
  REFUSES(AB_CONSUMER_JAX);

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  s.tensor.dl_tensor.device = dev(kDLCUDA, 0);
  ACCEPTS(AB_CONSUMER_CUPY);
  ACCEPTS(AB_CONSUMER_TORCH);
  REFUSES(AB_CONSUMER_NUMPY);
}

int main(void) {
  source s;
  ab_tensor_info info;
  layouts();
  negative_strides_and_offsets();
  alignment();
  devices();
  dtypes_and_flags();
  data_is_not_read();
  consumers();

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  info.struct_size = sizeof info;
  EXPECT(AB_E_INVALID_ARGUMENT, ab_detect(NULL, 0, &info, &error));
  NAMES("tensor");
  EXPECT(AB_E_INVALID_ARGUMENT, ab_detect(&s.tensor.dl_tensor, 0, NULL, &error));
  NAMES("out");
  CHECK_EQ(ab_detect(&s.tensor.dl_tensor, 0, &info, NULL), AB_OK);
  CHECK_EQ(ab_detect(NULL, 0, &info, NULL), AB_E_INVALID_ARGUMENT);
  return 0;
}
