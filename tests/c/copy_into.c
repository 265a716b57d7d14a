/* ab_copy_into: between two pieces of memory that the caller owns. */
#include "check.h"

#define COPY_INTO(from, to, options, report) \
  ab_copy_into(NULL, &(from)->tensor.dl_tensor, (from)->tensor.flags, &(to)->tensor.dl_tensor, (to)->tensor.flags, \
               options, report, &error)

static void elements_copied(void) {
  int32_t *from = mem(0);
  int32_t *to = mem(PAGE);
  source a, b;
  ab_report report = poisoned_report();

  for (int i = 0; i < 100; i++) from[i] = i;
  memset(to, 0x7F, 100 * sizeof *to);

  /* Transposed, into rows with gaps, which stay as they are. */
  source_set(&a, from, I32, 2, DIMS(4, 3), DIMS(1, 4));
  source_set(&b, to, I32, 2, DIMS(4, 3), DIMS(5, 1));
  b.tensor.dl_tensor.byte_offset = 8;
  EXPECT(AB_OK, COPY_INTO(&a, &b, NULL, &report));
  CHECK_EQ(report.route, AB_ROUTE_HOST);
  CHECK_EQ(report.passes, 1);
  CHECK_EQ(report.bytes_read, 48);
  CHECK_EQ(report.bytes_written, 48);
  for (int i = 0; i < 100; i++) {
    int row = (i - 2) / 5, column = (i - 2) % 5;
    if (i >= 2 && row < 4 && column < 3)
      CHECK_EQ(to[i], row + 4 * column);
    else
      CHECK_EQ(to[i], 0x7F7F7F7F);
  }

  /* Backwards, and a broadcast source. */
  source_set(&a, from + 5, I32, 2, DIMS(2, 3), DIMS(0, 1));
  source_set(&b, to + 5, I32, 2, DIMS(2, 3), DIMS(-3, -1));
  EXPECT(AB_OK, COPY_INTO(&a, &b, NULL, NULL));
  for (int i = 0; i < 6; i++) CHECK_EQ(to[5 - i], 5 + i % 3);

  /* Scalars, and nothing at all. */
  source_set(&a, from + 42, I32, 0, NULL, NULL);
  source_set(&b, to, I32, 0, NULL, NULL);
  EXPECT(AB_OK, COPY_INTO(&a, &b, NULL, NULL));
  CHECK_EQ(to[0], 42);
  source_set(&a, NULL, I32, 2, DIMS(0, 3), NULL);
  source_set(&b, NULL, F64, 2, DIMS(0, 3), NULL);
  EXPECT(AB_OK, COPY_INTO(&a, &b, NULL, NULL));
  CHECK_EQ(a.deleted + b.deleted, 0); /* both stay the caller's */
}

static void casts(void) {
  double *from = mem(0);
  int16_t *to = mem(PAGE);
  source a, b;
  ab_convert_options options = keep_all();

  for (int i = 0; i < 10; i++) from[i] = i + 0.5;
  from[9] = 1e9;
  source_set(&a, from, F64, 1, DIMS(10), NULL);
  source_set(&b, to, I16, 1, DIMS(10), DIMS(2));
  memset(to, 0, 64);
  EXPECT(AB_OK, COPY_INTO(&a, &b, NULL, NULL));
  for (int i = 0; i < 9; i++) CHECK_EQ(to[2 * i], i);
  CHECK_EQ(to[18], INT16_MAX);
  for (int i = 0; i < 9; i++) CHECK_EQ(to[2 * i + 1], 0);

  options.casting = AB_CAST_SAME_KIND;
  memset(to, 0x11, 64);
  EXPECT(AB_E_LOSSY, COPY_INTO(&a, &b, &options, NULL));
  for (int i = 0; i < 32; i++) CHECK_EQ(to[i], 0x1111); /* refused by type: nothing was written */
  options.casting = AB_CAST_EXACT;
  EXPECT(AB_E_LOSSY, COPY_INTO(&a, &b, &options, NULL));

  /* What belongs to new tensors does not matter here. */
  options = keep_all();
  options.dtype = dt(kDLFloat, 16);
  options.device = dev(kDLCUDA, 0);
  options.copy = AB_COPY_NEVER;
  options.layout = AB_LAYOUT_F;
  options.alignment = 4096;
  options.consumers = AB_CONSUMER_JAX;
  EXPECT(AB_OK, COPY_INTO(&a, &b, &options, NULL));
  CHECK_EQ(to[2], 1);
}

static void refusals(void) {
  int32_t *from = mem(0);
  int32_t *to = mem(PAGE);
  source a, b;
  unsigned char before[400];

  memset(to, 0x33, sizeof before);
  memcpy(before, to, sizeof before);
  source_set(&a, from, I32, 2, DIMS(3, 4), NULL);

  source_set(&b, to, I32, 2, DIMS(3, 5), NULL);
  EXPECT(AB_E_INVALID_ARGUMENT, COPY_INTO(&a, &b, NULL, NULL));
  NAMES("shape");
  source_set(&b, to, I32, 2, DIMS(4, 3), NULL);
  EXPECT(AB_E_INVALID_ARGUMENT, COPY_INTO(&a, &b, NULL, NULL));
  source_set(&b, to, I32, 3, DIMS(1, 3, 4), NULL); /* nothing is broadcast */
  EXPECT(AB_E_INVALID_ARGUMENT, COPY_INTO(&a, &b, NULL, NULL));
  source_set(&b, to, I32, 1, DIMS(12), NULL);
  EXPECT(AB_E_INVALID_ARGUMENT, COPY_INTO(&a, &b, NULL, NULL));

  source_set(&b, to, I32, 2, DIMS(3, 4), NULL);
  b.tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  EXPECT(AB_E_READ_ONLY, COPY_INTO(&a, &b, NULL, NULL));

  source_set(&b, to, I32, 2, DIMS(3, 4), DIMS(0, 1));
  EXPECT(AB_E_OVERLAP, COPY_INTO(&a, &b, NULL, NULL));
  source_set(&b, to, I32, 2, DIMS(3, 4), DIMS(1, 1));
  EXPECT(AB_E_OVERLAP, COPY_INTO(&a, &b, NULL, NULL));
  source_set(&b, from + 2, I32, 2, DIMS(3, 4), NULL);
  EXPECT(AB_E_OVERLAP, COPY_INTO(&a, &b, NULL, NULL));
  source_set(&b, from + 11, I32, 2, DIMS(3, 4), NULL); /* by one element */
  EXPECT(AB_E_OVERLAP, COPY_INTO(&a, &b, NULL, NULL));
  source_set(&a, from + 11, I32, 2, DIMS(3, 4), NULL);
  source_set(&b, from, I32, 2, DIMS(3, 4), NULL); /* and from the other side */
  EXPECT(AB_E_OVERLAP, COPY_INTO(&a, &b, NULL, NULL));
  source_set(&a, from, I32, 2, DIMS(3, 4), NULL);
  source_set(&b, from, I32, 2, DIMS(3, 4), DIMS(1, 3)); /* a transposition in place */
  EXPECT(AB_E_OVERLAP, COPY_INTO(&a, &b, NULL, NULL));
  source_set(&b, from + 12, I32, 2, DIMS(3, 4), NULL); /* next to each other */
  EXPECT(AB_OK, COPY_INTO(&a, &b, NULL, NULL));

  /* lanes must agree */
  source_set(&b, to, I32, 2, DIMS(3, 4), NULL);
  b.tensor.dl_tensor.dtype.lanes = 2;
  CHECK(COPY_INTO(&a, &b, NULL, NULL) != AB_OK);

  source_set(&b, to, I32, 2, DIMS(3, 4), NULL);
  EXPECT(AB_E_INVALID_ARGUMENT, ab_copy_into(NULL, NULL, 0, &b.tensor.dl_tensor, 0, NULL, NULL, &error));
  NAMES("source");
  EXPECT(AB_E_INVALID_ARGUMENT, ab_copy_into(NULL, &a.tensor.dl_tensor, 0, NULL, 0, NULL, NULL, &error));
  NAMES("destination");
  CHECK(memcmp(to, before, sizeof before) == 0);
  CHECK_EQ(ab_copy_into(NULL, &a.tensor.dl_tensor, 0, &b.tensor.dl_tensor, 0, NULL, NULL, NULL), AB_OK);
}

int main(void) {
  elements_copied();
  casts();
  refusals();
  return 0;
}
