/* ab_plan, which does nothing, and ab_report_describe. That plans come true is checked by every CONVERT of
 * the other tests. */
#include "check.h"

static void plans(void) {
  source s, before;
  ab_report report = poisoned_report();
  ab_convert_options options = to_dtype(F64);

  /* Nothing is behind this address, so a plan that read it would end here. */
  source_set(&s, (void *)(uintptr_t)PAGE, F32, 2, DIMS(1000, 1000), DIMS(1, 1000));
  memcpy(&before, &s, sizeof s);
  EXPECT(AB_OK, ab_plan(NULL, &s.tensor.dl_tensor, 0, &options, &report, &error));
  CHECK_EQ(report.route, AB_ROUTE_HOST);
  CHECK_EQ(report.passes, 1);
  CHECK_EQ(report.bytes_read, 4000000);
  CHECK_EQ(report.bytes_written, 8000000);
  CHECK_EQ(report.nanoseconds, 0);
  CHECK(memcmp(&before, &s, sizeof s) == 0);

  EXPECT(AB_OK, ab_plan(NULL, &s.tensor.dl_tensor, 0, NULL, &report, &error));
  CHECK_EQ(report.route, AB_ROUTE_ZERO_COPY);
  CHECK_EQ(report.reasons, 0);
  CHECK_EQ(report.passes, 0);

  options = keep_all();
  options.alignment = 1u << 30; /* the most that can be asked for */
  EXPECT(AB_OK, ab_plan(NULL, &s.tensor.dl_tensor, 0, &options, &report, &error));
  CHECK_EQ(report.reasons, AB_REASON_ALIGNMENT);

  EXPECT(AB_OK, ab_plan(NULL, &s.tensor.dl_tensor, 0, NULL, NULL, &error)); /* the status alone */
  EXPECT(AB_E_INVALID_ARGUMENT, ab_plan(NULL, NULL, 0, NULL, &report, &error));
  NAMES("source");
  CHECK_EQ(ab_plan(NULL, &s.tensor.dl_tensor, 0, NULL, &report, NULL), AB_OK);
  CHECK_EQ(s.deleted, 0);
}

static void describe(void) {
  static const char wanted[] = "upload, 1 pass, 12.0 MiB read, 6.0 MiB written (device, dtype)";
  ab_report report;
  char text[256];
  size_t length;

  memset(&report, 0, sizeof report);
  report.struct_size = sizeof report;
  report.route = AB_ROUTE_UPLOAD;
  report.reasons = AB_REASON_DEVICE | AB_REASON_DTYPE;
  report.passes = 1;
  report.bytes_read = 12 << 20;
  report.bytes_written = 6 << 20;

  length = ab_report_describe(&report, text, sizeof text);
  CHECK_AT(__FILE__, __LINE__, strcmp(text, wanted) == 0, "\"%s\", wanted \"%s\"", text, wanted);
  CHECK_EQ(length, strlen(wanted));

  /* As snprintf: the length that was needed, and always an end. */
  CHECK_EQ(ab_report_describe(&report, NULL, 0), length);
  for (size_t capacity = 1; capacity <= length + 1; capacity++) {
    memset(text, '#', sizeof text);
    CHECK_EQ(ab_report_describe(&report, text, capacity), length);
    CHECK_EQ(strlen(text), capacity - 1);
    CHECK(memcmp(text, wanted, capacity - 1) == 0);
    CHECK_EQ(text[capacity], '#');
  }

  /* Whatever is in a report, one line comes out. */
  for (int route = -1; route <= 8; route++) {
    for (uint32_t reasons = 0; reasons < 256; reasons += 15) {
      report.route = route;
      report.reasons = reasons;
      report.passes = (uint32_t)(route + 1);
      report.bytes_read = report.bytes_written = report.scratch_bytes = UINT64_MAX >> (8 * (route + 1) % 64);
      length = ab_report_describe(&report, text, sizeof text);
      CHECK(length > 0 && length < sizeof text && strlen(text) == length);
      CHECK(strchr(text, '\n') == NULL);
    }
  }

  /* There is no error to return: nothing is written. */
  CHECK_EQ(ab_report_describe(NULL, text, sizeof text), 0);
  CHECK_EQ(ab_report_describe(NULL, NULL, 0), 0);
  report.struct_size = 8;
  CHECK_EQ(ab_report_describe(&report, text, sizeof text), 0);
}

int main(void) {
  plans();
  describe();
  return 0;
}
