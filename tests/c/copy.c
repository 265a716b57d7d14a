/* ab_copy: from a borrowed tensor to one that has nothing to do with it. */
#include "check.h"

static managed *copy(source *s, uint64_t flags, const ab_convert_options *options, ab_report *report) {
  managed *out = NULL;
  source before;
  memcpy(&before, s, sizeof before);
  *report = poisoned_report();
  EXPECT(AB_OK, ab_copy(NULL, &s->tensor.dl_tensor, flags, options, &out, report, &error));
  CHECK(out != NULL);
  CHECK(memcmp(&before, s, sizeof before) == 0);
  check_handed_out(__FILE__, __LINE__, out, report);
  CHECK(report->route == AB_ROUTE_HOST);
  CHECK(out->flags & DLPACK_FLAG_BITMASK_IS_COPIED);
  return out;
}

int main(void) {
  int32_t *data = mem(0);
  source s;
  ab_report report;
  managed *out;
  ab_convert_options options = keep_all();

  for (int i = 0; i < 100; i++) data[i] = i;

  /* Nothing asks for a copy but the function's name. */
  source_set(&s, data, I32, 2, DIMS(10, 10), NULL);
  out = copy(&s, DLPACK_FLAG_BITMASK_READ_ONLY, NULL, &report);
  CHECK_EQ(report.passes, 1);
  CHECK_EQ(report.bytes_read, 400);
  CHECK_EQ(report.bytes_written, 400);
  CHECK(!(out->flags & DLPACK_FLAG_BITMASK_READ_ONLY));
  CHECK(out->dl_tensor.data != (void *)data);
  data[99] = -1;
  CHECK_EQ(((int32_t *)out->dl_tensor.data)[99], 99);
  data[99] = 99;
  ab_release(out);

  options.copy = AB_COPY_ALWAYS;
  options.dtype = F64;
  options.layout = AB_LAYOUT_F;
  options.alignment = 1024;
  source_set(&s, data, I32, 2, DIMS(3, 5), DIMS(10, -2));
  s.tensor.dl_tensor.byte_offset = 9 * sizeof *data;
  out = copy(&s, 0, &options, &report);
  CHECK_EQ(report.passes, 1);
  CHECK(has_compact_strides(&out->dl_tensor, 1));
  CHECK_EQ((uintptr_t)out->dl_tensor.data % 1024, 0);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 5; j++) CHECK_EQ(((double *)out->dl_tensor.data)[i + 3 * j], 9 + 10 * i - 2 * j);
  ab_release(out);

  source_set(&s, NULL, I32, 1, DIMS(0), NULL);
  ab_release(copy(&s, 0, NULL, &report));
  source_set(&s, data + 7, I32, 0, NULL, NULL);
  out = copy(&s, 0, NULL, &report);
  CHECK_EQ(*(int32_t *)out->dl_tensor.data, 7);
  ab_release(out);

  source_set(&s, data, I32, 1, DIMS(4), NULL);
  options = keep_all();
  options.copy = AB_COPY_NEVER;
  out = &s.tensor;
  EXPECT(AB_E_COPY_REQUIRED, ab_copy(NULL, &s.tensor.dl_tensor, 0, &options, &out, NULL, &error));
  CHECK(out == NULL);
  out = &s.tensor;
  EXPECT(AB_E_INVALID_ARGUMENT, ab_copy(NULL, NULL, 0, NULL, &out, NULL, &error));
  CHECK(out == NULL);
  NAMES("source");
  EXPECT(AB_E_INVALID_ARGUMENT, ab_copy(NULL, &s.tensor.dl_tensor, 0, NULL, NULL, NULL, &error));
  NAMES("out");
  CHECK_EQ(ab_copy(NULL, &s.tensor.dl_tensor, 0, NULL, &out, NULL, NULL), AB_OK);
  ab_release(out);
  CHECK_EQ(s.deleted, 0);
  return 0;
}
