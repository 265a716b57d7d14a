/* struct_size, by which callers and libraries of different minor versions understand each other. */
#include "check.h"

enum { TAIL = 24 };

static int is_filled(const void *memory, int byte, size_t size) {
  const unsigned char *bytes = memory;
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != byte) return 0;
  return 1;
}

static const uint32_t too_small[] = {0, 1, 4, 8};

/* Options from a newer header are understood as long as they ask for nothing new. */
static void inputs(void) {
  struct {
    ab_convert_options known;
    unsigned char newer[TAIL];
  } convert;
  struct {
    ab_context_options known;
    unsigned char newer[TAIL];
  } context;
  source s;
  ab_context *made = NULL;

  memset(&convert, 0, sizeof convert);
  convert.known.struct_size = sizeof convert;
  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  ab_release(CONVERT(&s, &convert.known, NULL));
  for (size_t i = 0; i < TAIL; i++) {
    convert.newer[i] = 1;
    source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
    REFUSED(AB_E_VERSION, &s, &convert.known);
    NAMES("struct_size");
    convert.newer[i] = 0;
  }
  convert.newer[0] = 1; /* beyond what struct_size covers */
  convert.known.struct_size = sizeof convert.known;
  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  ab_release(CONVERT(&s, &convert.known, NULL));
  for (size_t i = 0; i < COUNT(too_small); i++) {
    convert.known.struct_size = too_small[i];
    source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
    REFUSED(AB_E_INVALID_ARGUMENT, &s, &convert.known);
    NAMES("struct_size");
  }
  convert.known.struct_size = sizeof convert.known - 1;
  REFUSED(AB_E_INVALID_ARGUMENT, &s, &convert.known);

  memset(&context, 0, sizeof context);
  context.known.struct_size = sizeof context;
  EXPECT(AB_OK, ab_context_create(&context.known, &made, &error));
  ab_context_release(made);
  context.newer[TAIL - 1] = 1;
  EXPECT(AB_E_VERSION, ab_context_create(&context.known, &made, &error));
  NAMES("struct_size");
  CHECK(made == NULL);
  for (size_t i = 0; i < COUNT(too_small); i++) {
    context.known.struct_size = too_small[i];
    made = (ab_context *)mem(0);
    EXPECT(AB_E_INVALID_ARGUMENT, ab_context_create(&context.known, &made, &error));
    NAMES("struct_size");
    CHECK(made == NULL);
  }
}

/* Runs `call` on an output struct `known` that is too long, which must be left alone where it is unknown,
 * and on ones that are too short, which must be left alone altogether. */
#define OUTPUT(type, call) \
  do { \
    struct { \
      type known; \
      unsigned char newer[TAIL]; \
    } long_one; \
    type *out = &long_one.known; \
    memset(&long_one, 0x6B, sizeof long_one); \
    out->struct_size = sizeof long_one; \
    EXPECT(AB_OK, call); \
    CHECK(is_filled(long_one.newer, 0x6B, TAIL)); \
    CHECK(!is_filled((unsigned char *)out + 4, 0x6B, sizeof *out - 4)); \
    for (size_t i_ = 0; i_ <= COUNT(too_small); i_++) { \
      memset(&long_one, 0x6B, sizeof long_one); \
      out->struct_size = i_ < COUNT(too_small) ? too_small[i_] : (uint32_t)sizeof *out - 1; \
      EXPECT(AB_E_INVALID_ARGUMENT, call); \
      NAMES("struct_size"); \
      CHECK(is_filled((unsigned char *)out + 4, 0x6B, sizeof long_one - 4)); \
    } \
  } while (0)

static source *fresh(void) {
  static source s;
  return source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
}

static ab_status convert_and_release(ab_report *report) {
  source *s = fresh();
  managed *result = NULL;
  ab_status status = ab_convert(NULL, &s->tensor, NULL, &result, report, &error);
  CHECK((status == AB_OK) == (result != NULL));
  CHECK_EQ(s->deleted, 0);
  ab_release(result);
  return status;
}

static ab_status copy_and_release(ab_report *report) {
  managed *result = NULL;
  ab_status status = ab_copy(NULL, &fresh()->tensor.dl_tensor, 0, NULL, &result, report, &error);
  ab_release(result);
  return status;
}

static void outputs(void) {
  source to;
  size_t count;
  source_set(&to, mem(PAGE), F32, 1, DIMS(4), NULL);
  OUTPUT(ab_tensor_info, ab_detect(&fresh()->tensor.dl_tensor, 0, out, &error));
  OUTPUT(ab_pointer_info, ab_detect_pointer(NULL, mem(0), out, &error));
  OUTPUT(ab_report, ab_plan(NULL, &fresh()->tensor.dl_tensor, 0, NULL, out, &error));
  OUTPUT(ab_report, convert_and_release(out));
  OUTPUT(ab_report, copy_and_release(out));
  OUTPUT(ab_report, ab_copy_into(NULL, &fresh()->tensor.dl_tensor, 0, &to.tensor.dl_tensor, 0, NULL, out, &error));
  OUTPUT(ab_backend_info, ab_list_backends(NULL, out, 1, &count, &error));
  OUTPUT(ab_device_info, ab_list_devices(NULL, out, 1, &count, &error));
}

/* An error cannot tell that it is itself too short, so the status does. */
static void errors(void) {
  struct {
    ab_error known;
    unsigned char newer[TAIL];
  } e;
  source *s;
  managed *result;
  DLDataType dtype;

  memset(&e, 0x6B, sizeof e);
  e.known.struct_size = sizeof e;
  CHECK_EQ(ab_dtype_parse("no such thing", &dtype, &e.known), AB_E_UNSUPPORTED_DTYPE);
  CHECK_EQ(e.known.code, AB_E_UNSUPPORTED_DTYPE);
  CHECK_EQ(e.known.native_code, 0);
  CHECK(e.known.message[0] != 0);
  CHECK(is_filled(e.newer, 0x6B, TAIL));
  CHECK_EQ(ab_dtype_parse("float32", &dtype, &e.known), AB_OK);
  CHECK_EQ(e.known.code, AB_OK);
  CHECK_EQ(e.known.message[0], 0);

  for (size_t i = 0; i < COUNT(too_small); i++) {
    memset(&e, 0x6B, sizeof e);
    e.known.struct_size = too_small[i];
    s = fresh();
    result = &s->tensor;
    CHECK_EQ(ab_convert(NULL, &s->tensor, NULL, &result, NULL, &e.known), AB_E_INVALID_ARGUMENT);
    CHECK(result == NULL);
    CHECK_EQ(s->deleted, 0);
    CHECK(is_filled((unsigned char *)&e + 4, 0x6B, sizeof e - 4));
    CHECK_EQ(ab_dtype_parse("float32", &dtype, &e.known), AB_E_INVALID_ARGUMENT);
  }
}

int main(void) {
  inputs();
  outputs();
  errors();
  return 0;
}
