/* ab_convert: when it copies, when it does not, and who owns what after it. Every CONVERT also compares
 * the report with ab_plan's. */
#include "check.h"

#include <math.h>

/* ---- zero copy ---- */

static void zero_copy(void) {
  source s;
  ab_report report;
  ab_convert_options options = keep_all();
  managed *out;

  source_set(&s, mem(0), F32, 2, DIMS(4, 4), DIMS(8, 2));
  out = CONVERT(&s, NULL, &report);
  CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
  CHECK_EQ(report.scratch_bytes, 0);
  CHECK(out->dl_tensor.data == mem(0));
  CHECK_EQ(out->dl_tensor.ndim, 2);
  CHECK(out->dl_tensor.shape[0] == 4 && out->dl_tensor.shape[1] == 4);
  CHECK(out->dl_tensor.strides[0] == 8 && out->dl_tensor.strides[1] == 2);
  CHECK_EQ(out->flags, 0);
  CHECK_EQ(s.deleted, 0);
  ab_release(out);
  CHECK_EQ(s.deleted, 1);

  /* All that fits already, asked for by name; and never is kept to. */
  options.device = CPU;
  options.dtype = F32;
  options.copy = AB_COPY_NEVER;
  options.layout = AB_LAYOUT_C;
  options.casting = AB_CAST_EXACT;
  options.alignment = 64;
  options.consumers = AB_CONSUMER_NUMPY | AB_CONSUMER_TORCH | AB_CONSUMER_JAX | AB_CONSUMER_TENSORFLOW;
  options.flags = AB_CONVERT_WRITABLE | AB_CONVERT_VERIFY_POINTER | AB_CONVERT_SATURATE | AB_CONVERT_ASYNC;
  source_set(&s, mem(64), F32, 2, DIMS(4, 4), DIMS(4, 1));
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
  CHECK(out->dl_tensor.data == mem(64));

  /* The deleter itself, and not only ab_release, frees the result. */
  out->deleter(out);
  CHECK_EQ(s.deleted, 1);

  /* Results are sources too; the chain ends in one deletion. */
  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  out = CONVERT(&s, NULL, NULL);
  for (int i = 0; i < 3; i++) {
    managed *next = NULL;
    EXPECT(AB_OK, ab_convert(NULL, out, NULL, &next, NULL, &error));
    CHECK_EQ(s.deleted, 0);
    out = next;
  }
  ab_release(out);
  CHECK_EQ(s.deleted, 1);

  /* Neither report nor error need be given. */
  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  CHECK_EQ(ab_convert(NULL, &s.tensor, NULL, &out, NULL, NULL), AB_OK);
  ab_release(out);
  CHECK_EQ(s.deleted, 1);
}

/* What is accepted comes out in one form. */
static void normalised(void) {
  source s;
  managed *out;
  ab_convert_options options = keep_all();

  source_set(&s, mem(0), F32, 3, DIMS(2, 3, 4), NULL); /* NULL strides */
  s.tensor.dl_tensor.byte_offset = 64;
  s.tensor.dl_tensor.device = dev(kDLCPU, 3);
  s.tensor.version.minor = 99;
  out = CONVERT(&s, NULL, NULL);
  CHECK(out->dl_tensor.data == mem(64)); /* the offset is folded in */
  CHECK(has_compact_strides(&out->dl_tensor, 0));
  ab_release(out);

  source_set(&s, mem(0), F32, 3, DIMS(2, 1, 3), DIMS(3, 999, 1)); /* an axis that is never stepped along */
  out = CONVERT(&s, NULL, NULL);
  CHECK(has_compact_strides(&out->dl_tensor, 0));
  ab_release(out);

  source_set(&s, mem(0), F64, 0, NULL, NULL);
  out = CONVERT(&s, NULL, NULL);
  CHECK_EQ(out->dl_tensor.ndim, 0);
  CHECK(out->dl_tensor.data == mem(0));
  ab_release(out);

  for (int policy = AB_COPY_IF_NEEDED; policy <= AB_COPY_ALWAYS; policy++) {
    options.copy = policy;
    source_set(&s, mem(8), F64, 2, DIMS(0, 3), DIMS(-4, 1234567)); /* no element, so no address */
    out = CONVERT(&s, &options, NULL);
    CHECK(out->dl_tensor.shape[0] == 0 && out->dl_tensor.shape[1] == 3);
    ab_release(out);
    CHECK_EQ(s.deleted, 1);
  }

  source_set(&s, mem(0), F32, 1, DIMS(4), DIMS(-1)); /* a view from the far end */
  s.tensor.dl_tensor.byte_offset = 12;
  out = CONVERT(&s, NULL, NULL);
  CHECK(out->dl_tensor.data == mem(12) && out->dl_tensor.strides[0] == -1);
  ab_release(out);

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL); /* no deleter */
  s.tensor.deleter = NULL;
  out = CONVERT(&s, NULL, NULL);
  ab_release(out);
  options.copy = AB_COPY_ALWAYS;
  ab_release(CONVERT(&s, &options, NULL));

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL); /* a flag of a later DLPack */
  s.tensor.flags = UINT64_C(1) << 40;
  ab_release(CONVERT(&s, NULL, NULL));
}

/* A declared device is trusted, and a zero copy needs no driver. */
static void other_devices(void) {
  static const int host_types[] = {kDLCUDAHost, kDLCUDAManaged};
  source s;
  managed *out;
  ab_report report;
  ab_convert_options to_cpu = keep_all();
  to_cpu.device = CPU;

  for (size_t i = 0; i < COUNT(host_types); i++) {
    source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
    s.tensor.dl_tensor.device = dev(host_types[i], 0);
    out = CONVERT(&s, NULL, NULL);
    CHECK_EQ(out->dl_tensor.device.device_type, host_types[i]);
    ab_release(out);

    source_set(&s, mem(0), F32, 1, DIMS(4), NULL); /* relabelled, not copied */
    s.tensor.dl_tensor.device = dev(host_types[i], 0);
    out = CONVERT(&s, &to_cpu, &report);
    CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
    CHECK_EQ(out->dl_tensor.device.device_type, kDLCPU);
    CHECK(out->dl_tensor.data == mem(0));
    ab_release(out);
  }

  source_set(&s, (void *)(uintptr_t)4096, F32, 2, DIMS(4, 4), NULL); /* nothing is behind this address */
  s.tensor.dl_tensor.device = dev(kDLCUDA, 0);
  out = CONVERT(&s, NULL, &report);
  CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
  CHECK_EQ(out->dl_tensor.device.device_type, kDLCUDA);
  ab_release(out);
  CHECK_EQ(s.deleted, 1);

  source_set(&s, (void *)(uintptr_t)4096, F32, 2, DIMS(4, 4), NULL); /* a handle: no arithmetic on it */
  s.tensor.dl_tensor.device = dev(kDLMetal, 0);
  s.tensor.dl_tensor.byte_offset = 16;
  out = CONVERT(&s, NULL, &report);
  CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
  CHECK((uintptr_t)out->dl_tensor.data == 4096);
  CHECK_EQ(out->dl_tensor.byte_offset, 16);
  ab_release(out);
  CHECK_EQ(s.deleted, 1);

  source_set(&s, (void *)(uintptr_t)4096, F32, 2, DIMS(4, 4), NULL); /* no backend can move this */
  s.tensor.dl_tensor.device = dev(kDLMetal, 0);
  REFUSED(AB_E_UNSUPPORTED_DEVICE, &s, &to_cpu);
  NAMES("device");
}

/* ---- copies ---- */

static void always(void) {
  unsigned char *data = mem(0);
  source s;
  ab_report report;
  managed *out;
  ab_convert_options options = keep_all();
  options.copy = AB_COPY_ALWAYS;

  for (int i = 0; i < 1000; i++) data[i] = (unsigned char)(i * 7);
  source_set(&s, data, U8, 1, DIMS(1000), NULL);
  s.tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(s.deleted, 1); /* nothing reads it any more */
  CHECK_EQ(report.route, AB_ROUTE_HOST);
  CHECK_EQ(report.reasons, AB_REASON_REQUESTED);
  CHECK_EQ(report.passes, 1);
  CHECK_EQ(report.bytes_read, 1000);
  CHECK_EQ(report.bytes_written, 1000);
  CHECK(out->dl_tensor.data != (void *)data);
  CHECK(memcmp(out->dl_tensor.data, data, 1000) == 0);
  CHECK_EQ(out->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  memset(out->dl_tensor.data, 0, 1000); /* and writable */
  ab_release(out);
  CHECK_EQ(s.deleted, 1);
}

static void layouts(void) {
  float *data = mem(0);
  source s;
  ab_report report;
  managed *out;
  ab_convert_options options = keep_all();
  const float *d;

  for (int i = 0; i < 64; i++) data[i] = (float)i;

  /* C to F and back */
  options.layout = AB_LAYOUT_F;
  source_set(&s, data, F32, 2, DIMS(3, 4), NULL);
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(report.reasons, AB_REASON_LAYOUT);
  CHECK_EQ(report.passes, 1);
  CHECK(has_compact_strides(&out->dl_tensor, 1));
  d = out->dl_tensor.data;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++) CHECK_EQ(d[i + 3 * j], 4 * i + j);
  options.layout = AB_LAYOUT_C;
  {
    managed *back = NULL;
    EXPECT(AB_OK, ab_convert(NULL, out, &options, &back, NULL, &error));
    CHECK(has_compact_strides(&back->dl_tensor, 0));
    CHECK(memcmp(back->dl_tensor.data, data, 12 * sizeof *data) == 0);
    ab_release(back);
  }

  /* One layout is both when at most one axis is longer than 1. */
  options.layout = AB_LAYOUT_F;
  source_set(&s, data, F32, 3, DIMS(1, 6, 1), NULL);
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
  ab_release(out);

  /* ANY and KEEP leave what needs no copy ... */
  for (int layout = AB_LAYOUT_ANY; layout <= AB_LAYOUT_KEEP; layout += AB_LAYOUT_KEEP) {
    options.layout = layout;
    source_set(&s, data, F32, 3, DIMS(2, 3, 4), DIMS(12, 1, 3));
    out = CONVERT(&s, &options, &report);
    CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
    CHECK(out->dl_tensor.strides[1] == 1 && out->dl_tensor.strides[2] == 3);
    ab_release(out);
  }

  /* ... and differ in what they make new. */
  options = to_dtype(F64);
  source_set(&s, data, F32, 3, DIMS(2, 3, 4), DIMS(12, 1, 3));
  out = CONVERT(&s, &options, NULL);
  CHECK(has_compact_strides(&out->dl_tensor, 0));
  CHECK_EQ(((double *)out->dl_tensor.data)[1 * 12 + 2 * 4 + 3], 12 + 2 + 9);
  ab_release(out);
  options.layout = AB_LAYOUT_KEEP;
  source_set(&s, data, F32, 3, DIMS(2, 3, 4), DIMS(12, 1, 3));
  out = CONVERT(&s, &options, NULL);
  CHECK(out->dl_tensor.strides[0] == 12 && out->dl_tensor.strides[1] == 1 && out->dl_tensor.strides[2] == 3);
  CHECK_EQ(((double *)out->dl_tensor.data)[23], 23);
  ab_release(out);
  source_set(&s, data, F32, 2, DIMS(3, 2), DIMS(1, 8)); /* its gaps do not come along */
  out = CONVERT(&s, &options, NULL);
  CHECK(has_compact_strides(&out->dl_tensor, 1));
  CHECK_EQ(((double *)out->dl_tensor.data)[5], 10);
  ab_release(out);

  /* Sources that only a copy makes compact: broadcast, backwards, overlapping. */
  options = keep_all();
  options.layout = AB_LAYOUT_C;
  source_set(&s, data, F32, 2, DIMS(2, 3), DIMS(0, 1));
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(report.reasons, AB_REASON_LAYOUT);
  CHECK_EQ(report.bytes_written, 24);
  CHECK_EQ(((float *)out->dl_tensor.data)[5], 2);
  ab_release(out);
  source_set(&s, data, F32, 2, DIMS(2, 3), DIMS(-3, -1));
  s.tensor.dl_tensor.byte_offset = 5 * sizeof *data;
  out = CONVERT(&s, &options, NULL);
  for (int i = 0; i < 6; i++) CHECK_EQ(((float *)out->dl_tensor.data)[i], 5 - i);
  ab_release(out);
  source_set(&s, data, F32, 2, DIMS(3, 3), DIMS(1, 1));
  out = CONVERT(&s, &options, NULL);
  CHECK_EQ(((float *)out->dl_tensor.data)[8], 4);
  ab_release(out);
}

/* 64 axes, which is the limit, two of them longer than 1. */
static void many_axes(void) {
  int16_t *data = mem(0);
  int64_t shape[64], strides[64];
  source s;
  managed *out;
  ab_convert_options options = keep_all();
  options.layout = AB_LAYOUT_C;
  for (int i = 0; i < 64; i++) {
    shape[i] = i == 3 ? 5 : i == 60 ? 7 : 1;
    strides[i] = i == 3 ? 1 : i == 60 ? 5 : -i;
  }
  for (int i = 0; i < 35; i++) data[i] = (int16_t)i;
  source_set(&s, data, I16, 64, shape, strides);
  out = CONVERT(&s, &options, NULL);
  CHECK(has_compact_strides(&out->dl_tensor, 0));
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 7; j++) CHECK_EQ(((int16_t *)out->dl_tensor.data)[i * 7 + j], i + 5 * j);
  ab_release(out);
}

static void alignment(void) {
  source s;
  ab_report report;
  managed *out;
  ab_convert_options options = keep_all();

  memset(mem(0), 3, 512);
  options.alignment = 32;
  source_set(&s, mem(32), U8, 1, DIMS(100), NULL);
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
  ab_release(out);

  source_set(&s, mem(16), U8, 1, DIMS(100), NULL);
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(report.reasons, AB_REASON_ALIGNMENT);
  CHECK(memcmp(out->dl_tensor.data, mem(16), 100) == 0);
  ab_release(out);

  source_set(&s, mem(0), U8, 1, DIMS(100), NULL); /* it is the first element that counts */
  s.tensor.dl_tensor.byte_offset = 16;
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(report.reasons, AB_REASON_ALIGNMENT);
  ab_release(out);

  options.alignment = 1 << 16;
  options.copy = AB_COPY_ALWAYS;
  source_set(&s, mem(0), U8, 1, DIMS(100), NULL);
  out = CONVERT(&s, &options, &report);
  CHECK_EQ((uintptr_t)out->dl_tensor.data % (1 << 16), 0);
  ab_release(out);
}

static void read_only(void) {
  source s;
  ab_report report;
  managed *out;
  ab_convert_options options = keep_all();

  memset(mem(0), 9, 64);
  source_set(&s, mem(0), U8, 1, DIMS(64), NULL);
  s.tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  out = CONVERT(&s, NULL, &report);
  CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
  CHECK_EQ(out->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  ab_release(out);

  options.flags = AB_CONVERT_WRITABLE;
  source_set(&s, mem(0), U8, 1, DIMS(64), NULL);
  s.tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(report.reasons, AB_REASON_READ_ONLY);
  CHECK_EQ(out->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  CHECK_EQ(((unsigned char *)out->dl_tensor.data)[63], 9);
  ab_release(out);
}

static void consumers(void) {
  source s;
  ab_report report;
  managed *out;
  ab_tensor_info info;
  ab_convert_options options = keep_all();
  info.struct_size = sizeof info;
  memset(mem(0), 0, 1024);

  options.consumers = AB_CONSUMER_NUMPY | AB_CONSUMER_TORCH; /* both take gaps */
  source_set(&s, mem(0), F32, 2, DIMS(4, 4), DIMS(8, 1));
  out = CONVERT(&s, &options, &report);
  CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
  ab_release(out);

  options.consumers |= AB_CONSUMER_TENSORFLOW; /* which does not */
  source_set(&s, mem(0), F32, 2, DIMS(4, 4), DIMS(8, 1));
  out = CONVERT(&s, &options, &report);
  CHECK(report.reasons & AB_REASON_CONSUMER);
  CHECK_EQ(report.passes, 1);
  EXPECT(AB_OK, ab_detect(&out->dl_tensor, out->flags, &info, &error));
  CHECK_EQ(info.accepted_by & options.consumers, options.consumers);
  ab_release(out);

  options.consumers = AB_CONSUMER_TORCH;
  source_set(&s, mem(0), F32, 1, DIMS(4), DIMS(-1));
  s.tensor.dl_tensor.byte_offset = 12;
  out = CONVERT(&s, &options, &report);
  CHECK(report.reasons & AB_REASON_CONSUMER);
  CHECK_EQ(out->dl_tensor.strides[0], 1);
  ab_release(out);

  options.consumers = AB_CONSUMER_JAX; /* wants 64-byte alignment */
  source_set(&s, mem(16), F32, 1, DIMS(4), NULL);
  out = CONVERT(&s, &options, &report);
  CHECK(report.reasons & (AB_REASON_CONSUMER | AB_REASON_ALIGNMENT));
  EXPECT(AB_OK, ab_detect(&out->dl_tensor, out->flags, &info, &error));
  CHECK(info.accepted_by & AB_CONSUMER_JAX);
  ab_release(out);

  options.consumers = AB_CONSUMER_PADDLE | AB_CONSUMER_TENSORFLOW; /* neither heeds byte_offset, which we fold */
  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  s.tensor.dl_tensor.byte_offset = 64;
  ab_release(CONVERT(&s, &options, NULL));
}

/* ---- never ---- */

static void never(void) {
  source s;
  ab_convert_options options = keep_all();
  options.copy = AB_COPY_NEVER;

  options.dtype = F64;
  source_set(&s, mem(0), F32, 2, DIMS(4, 4), NULL);
  REFUSED(AB_E_COPY_REQUIRED, &s, &options);
  NAMES("dtype");

  options = keep_all();
  options.copy = AB_COPY_NEVER;
  options.layout = AB_LAYOUT_F;
  REFUSED(AB_E_COPY_REQUIRED, &s, &options);
  NAMES("layout");

  options = keep_all();
  options.copy = AB_COPY_NEVER;
  options.alignment = 64;
  source_set(&s, mem(8), F32, 2, DIMS(4, 4), NULL);
  REFUSED(AB_E_COPY_REQUIRED, &s, &options);
  NAMES("alignment");

  options = keep_all();
  options.copy = AB_COPY_NEVER;
  options.flags = AB_CONVERT_WRITABLE;
  source_set(&s, mem(0), F32, 2, DIMS(4, 4), NULL);
  s.tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  REFUSED(AB_E_COPY_REQUIRED, &s, &options);
  NAMES("read-only");

  options = keep_all();
  options.copy = AB_COPY_NEVER;
  options.consumers = AB_CONSUMER_TENSORFLOW;
  source_set(&s, mem(0), F32, 2, DIMS(4, 4), DIMS(8, 1));
  REFUSED(AB_E_COPY_REQUIRED, &s, &options);
  NAMES("consumer");

  /* Every reason, not the first one found. */
  options = keep_all();
  options.copy = AB_COPY_NEVER;
  options.dtype = I32;
  options.layout = AB_LAYOUT_C;
  options.alignment = 4096;
  options.flags = AB_CONVERT_WRITABLE;
  source_set(&s, mem(64), F32, 2, DIMS(4, 4), DIMS(1, 4));
  s.tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  REFUSED(AB_E_COPY_REQUIRED, &s, &options);
  NAMES("dtype");
  NAMES("layout");
  NAMES("alignment");
  NAMES("read-only");

  /* Equal width is not equal type. */
  options = keep_all();
  options.copy = AB_COPY_NEVER;
  options.dtype = BOOL;
  source_set(&s, mem(0), U8, 1, DIMS(4), NULL);
  REFUSED(AB_E_COPY_REQUIRED, &s, &options);
  options.dtype = I8;
  REFUSED(AB_E_COPY_REQUIRED, &s, &options);
}

/* The same reasons in a report. */
static void every_reason(void) {
  source s;
  ab_report report;
  ab_convert_options options = keep_all();
  memset(mem(0), 0, 1024);
  options.copy = AB_COPY_ALWAYS;
  options.dtype = I32;
  options.layout = AB_LAYOUT_C;
  options.alignment = 4096;
  options.flags = AB_CONVERT_WRITABLE;
  source_set(&s, mem(64), F32, 2, DIMS(4, 4), DIMS(1, 4));
  s.tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  ab_release(CONVERT(&s, &options, &report));
  CHECK_EQ(report.reasons, AB_REASON_REQUESTED | AB_REASON_DTYPE | AB_REASON_LAYOUT | AB_REASON_ALIGNMENT |
                               AB_REASON_READ_ONLY);
  CHECK_EQ(report.passes, 1);
}

/* ---- casts ---- */

static void casts(void) {
  source s;
  ab_report report;
  managed *out;
  ab_convert_options options = to_dtype(F32);

  {
    int16_t *data = mem(0);
    for (int i = 0; i < 1000; i++) data[i] = (int16_t)(i * 61 - 30000);
    source_set(&s, data, I16, 1, DIMS(1000), NULL);
    out = CONVERT(&s, &options, &report);
    CHECK_EQ(report.route, AB_ROUTE_HOST);
    CHECK_EQ(report.reasons, AB_REASON_DTYPE);
    CHECK_EQ(report.passes, 1);
    CHECK_EQ(report.bytes_read, 2000);
    CHECK_EQ(report.bytes_written, 4000);
    CHECK_EQ(out->dl_tensor.dtype.code, kDLFloat);
    CHECK_EQ(out->dl_tensor.dtype.bits, 32);
    CHECK_EQ(out->dl_tensor.dtype.lanes, 1);
    for (int i = 0; i < 1000; i++) CHECK_EQ(((float *)out->dl_tensor.data)[i], data[i]);
    ab_release(out);
  }
  {
    static const double data[] = {1.9, -1.9, 300.0, -300.0, NAN, INFINITY, -0.0, 127.5};
    static const int8_t wanted[] = {1, -1, 127, -128, 0, 127, 0, 127};
    options = to_dtype(I8);
    source_set(&s, (void *)(uintptr_t)data, F64, 1, DIMS(8), NULL);
    out = CONVERT(&s, &options, NULL);
    CHECK(memcmp(out->dl_tensor.data, wanted, sizeof wanted) == 0);
    ab_release(out);
  }
  {
    static const int32_t data[] = {300, -1, 255, 256};
    static const uint8_t wraps[] = {44, 255, 255, 0}, clamps[] = {255, 0, 255, 255};
    options = to_dtype(U8);
    source_set(&s, (void *)(uintptr_t)data, I32, 1, DIMS(4), NULL);
    out = CONVERT(&s, &options, NULL);
    CHECK(memcmp(out->dl_tensor.data, wraps, sizeof wraps) == 0);
    ab_release(out);
    options.flags = AB_CONVERT_SATURATE;
    source_set(&s, (void *)(uintptr_t)data, I32, 1, DIMS(4), NULL);
    out = CONVERT(&s, &options, NULL);
    CHECK(memcmp(out->dl_tensor.data, clamps, sizeof clamps) == 0);
    ab_release(out);
  }
  {
    static const uint8_t data[] = {0, 1, 2, 255}, wanted[] = {0, 1, 1, 1};
    options = to_dtype(BOOL);
    source_set(&s, (void *)(uintptr_t)data, U8, 1, DIMS(4), NULL);
    out = CONVERT(&s, &options, NULL);
    CHECK(memcmp(out->dl_tensor.data, wanted, sizeof wanted) == 0);
    ab_release(out);
    options = to_dtype(U8); /* any non-zero byte is true, and true is 1 */
    source_set(&s, (void *)(uintptr_t)data, BOOL, 1, DIMS(4), NULL);
    out = CONVERT(&s, &options, NULL);
    CHECK(memcmp(out->dl_tensor.data, wanted, sizeof wanted) == 0);
    ab_release(out);
  }
  {
    static const uint8_t packed[] = {0x21, 0xF7, 0x05}; /* low bits first */
    static const float wanted[] = {0.5f, 1, 6, -6, 3};
    options = to_dtype(F32);
    source_set(&s, (void *)(uintptr_t)packed, dt(kDLFloat4_e2m1fn, 4), 1, DIMS(5), NULL);
    out = CONVERT(&s, &options, &report);
    CHECK_EQ(report.bytes_read, 3);
    CHECK_EQ(report.bytes_written, 20);
    CHECK(memcmp(out->dl_tensor.data, wanted, sizeof wanted) == 0);
    ab_release(out);
  }
  {
    /* gathered and cast in one pass */
    int16_t *data = mem(0);
    for (int i = 0; i < 100; i++) data[i] = (int16_t)i;
    options = to_dtype(F32);
    options.layout = AB_LAYOUT_C;
    source_set(&s, data, I16, 2, DIMS(3, 4), DIMS(2, 10));
    out = CONVERT(&s, &options, &report);
    CHECK_EQ(report.passes, 1);
    CHECK_EQ(report.reasons & AB_REASON_DTYPE, AB_REASON_DTYPE);
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 4; j++) CHECK_EQ(((float *)out->dl_tensor.data)[4 * i + j], 2 * i + 10 * j);
    ab_release(out);
  }
}

static void casting_rules(void) {
  static double data[] = {1.0, 2.5, -3.0, 0.1};
  static int16_t small[] = {1, 2, 3};
  static double whole[] = {1.0, -2.0, NAN, -0.0};
  source s;
  managed *out;
  ab_convert_options options = to_dtype(F32);

  options.casting = AB_CAST_SAFE;
  source_set(&s, data, F64, 1, DIMS(4), NULL);
  REFUSED(AB_E_LOSSY, &s, &options);
  NAMES("float64");
  NAMES("float32");
  options.casting = AB_CAST_SAME_KIND;
  ab_release(CONVERT(&s, &options, NULL));

  options = to_dtype(I32);
  options.casting = AB_CAST_SAME_KIND;
  source_set(&s, data, F64, 1, DIMS(4), NULL);
  REFUSED(AB_E_LOSSY, &s, &options);

  options = to_dtype(F32);
  options.casting = AB_CAST_SAFE;
  source_set(&s, small, I16, 1, DIMS(3), NULL);
  ab_release(CONVERT(&s, &options, NULL));

  /* Exact depends on the values: a plan cannot know, a conversion tells. */
  options = to_dtype(F32);
  options.casting = AB_CAST_EXACT;
  source_set(&s, whole, F64, 1, DIMS(4), NULL);
  ab_release(CONVERT(&s, &options, NULL));
  options = to_dtype(I16);
  options.casting = AB_CAST_EXACT;
  source_set(&s, data, F64, 1, DIMS(1), NULL);
  ab_release(CONVERT(&s, &options, NULL));
  for (int bits = 16; bits <= 64; bits *= 2) {
    source before;
    options.dtype = dt(kDLInt, bits);
    source_set(&s, data, F64, 1, DIMS(4), NULL);
    memcpy(&before, &s, sizeof s);
    out = &s.tensor;
    EXPECT(AB_E_LOSSY, ab_convert(NULL, &s.tensor, &options, &out, NULL, &error));
    CHECK(out == NULL);
    CHECK(memcmp(&before, &s, sizeof s) == 0);
  }
}

/* ---- devices that this machine may lack ---- */

static void missing_devices(void) {
  static const int nowhere[] = {5, 6, kDLVulkan, kDLMetal, kDLVPI, kDLExtDev, kDLWebGPU, kDLHexagon, 77};
  static const struct {
    const char *backend;
    int type;
  } drivers[] = {{"cuda", kDLCUDA}, {"cuda", kDLCUDAHost}, {"cuda", kDLCUDAManaged}, {"opencl", kDLOpenCL}};
  ab_backend_info all[16];
  size_t count = 0;
  source s;
  ab_convert_options options = keep_all();

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  for (size_t i = 0; i < COUNT(nowhere); i++) {
    options.device = dev(nowhere[i], 0);
    REFUSED(AB_E_UNSUPPORTED_DEVICE, &s, &options);
    NAMES("device");
  }

  memset(all, 0, sizeof all);
  all[0].struct_size = sizeof all[0];
  EXPECT(AB_OK, ab_list_backends(NULL, all, COUNT(all), &count, &error));
  for (size_t i = 0; i < COUNT(drivers); i++) {
    options.device = dev(drivers[i].type, 0);
    for (size_t k = 0; k < count && k < COUNT(all); k++) {
      if (strcmp(all[k].name, drivers[i].backend) != 0) continue;
      if (all[k].available) {
        if (drivers[i].type == kDLOpenCL || drivers[i].type == kDLCUDA) {
          options.device = dev(drivers[i].type, 99);
          REFUSED(AB_E_UNSUPPORTED_DEVICE, &s, &options);
          NAMES("99");
        }
      } else {
        REFUSED(AB_E_BACKEND_UNAVAILABLE, &s, &options);
        NAMES(drivers[i].backend);
      }
    }
  }
}

int main(void) {
  zero_copy();
  normalised();
  other_devices();
  always();
  layouts();
  many_axes();
  alignment();
  read_only();
  consumers();
  never();
  every_reason();
  casts();
  casting_rules();
  missing_devices();
  return 0;
}
