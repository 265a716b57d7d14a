/* What is refused, by every function that is given it, with its status and the name of the field. Nothing
 * that was refused has been read, changed or taken over. */
#include "check.h"

static int released;

static void release(void *owner) {
  (void)owner;
  released += 1;
}

/* One of the words, which are separated by '|', is in the message. */
static void check_names(const char *label, const char *function, const char *words) {
  char text[128], *word;
  CHECK(strlen(words) < sizeof text);
  strcpy(text, words);
  for (word = strtok(text, "|"); word != NULL; word = strtok(NULL, "|"))
    if (message_has(word)) return;
  CHECK_AT(__FILE__, __LINE__, 0, "%s of %s: the message lacks \"%s\": \"%s\"", function, label, words, error.message);
}

#define REFUSES(call) \
  do { \
    ab_status status_; \
    poisoned_error(); \
    status_ = call; \
    CHECK_AT(__FILE__, __LINE__, status_ == AB_E_INVALID_TENSOR, "%s: %s", label, ab_status_name(status_)); \
    check_status(__FILE__, __LINE__, #call, AB_E_INVALID_TENSOR, status_); \
    check_names(label, #call, words); \
    CHECK_AT(__FILE__, __LINE__, memcmp(&before, s, sizeof before) == 0, "%s: the source was changed", label); \
  } while (0)

#define REFUSES_OUT(call) \
  do { \
    out = (managed *)mem(0); \
    REFUSES(call); \
    CHECK_AT(__FILE__, __LINE__, out == NULL, "%s: *out was left", label); \
  } while (0)

/* Every function that takes a tensor. */
static void refused_by_all(const char *label, source *s, const char *words) {
  const DLTensor *t = &s->tensor.dl_tensor;
  ab_tensor_info info;
  ab_report report = poisoned_report();
  managed *out;
  DLManagedTensor legacy, legacy_before, *legacy_out = (DLManagedTensor *)mem(0);
  ab_convert_options always = keep_all();
  source before, good;

  always.copy = AB_COPY_ALWAYS;
  source_set(&good, mem(PAGE), F32, 2, DIMS(2, 2), NULL);
  memcpy(&before, s, sizeof before);
  memset(&legacy, 0, sizeof legacy);
  legacy.dl_tensor = *t;
  memcpy(&legacy_before, &legacy, sizeof legacy);
  info.struct_size = sizeof info;

  REFUSES(ab_detect(t, 0, &info, &error));
  REFUSES(ab_plan(NULL, t, 0, NULL, &report, &error));
  REFUSES(ab_plan(NULL, t, 0, &always, &report, &error));
  REFUSES_OUT(ab_convert(NULL, &s->tensor, NULL, &out, &report, &error));
  REFUSES_OUT(ab_convert(NULL, &s->tensor, &always, &out, &report, &error));
  REFUSES_OUT(ab_copy(NULL, t, 0, NULL, &out, &report, &error));
  REFUSES(ab_copy_into(NULL, t, 0, &good.tensor.dl_tensor, 0, NULL, &report, &error));
  REFUSES(ab_copy_into(NULL, &good.tensor.dl_tensor, 0, t, 0, NULL, &report, &error));
  REFUSES_OUT(ab_wrap(t, 0, NULL, release, &out, &error));
  REFUSES_OUT(ab_from_legacy(&legacy, &out, &error));
  CHECK(memcmp(&legacy, &legacy_before, sizeof legacy) == 0);
  REFUSES(ab_to_legacy(&s->tensor, &legacy_out, &error));
  CHECK(legacy_out == NULL);
  CHECK_EQ(released, 0);
}

static void tensors(void) {
  source s;
  DLTensor *t = &s.tensor.dl_tensor;
  int64_t huge[65];

#define GOOD() source_set(&s, mem(0), F32, 2, DIMS(2, 2), DIMS(2, 1))
  GOOD();
  t->ndim = -1;
  refused_by_all("ndim -1", &s, "ndim");
  NAMES("-1");
  GOOD();
  t->ndim = INT32_MIN;
  refused_by_all("the least ndim", &s, "ndim");
  for (int i = 0; i < 65; i++) huge[i] = 1;
  source_set(&s, mem(0), F32, 65, huge, huge);
  refused_by_all("ndim 65", &s, "ndim");
  NAMES("65");
  GOOD();
  t->ndim = INT32_MAX; /* nothing of such a shape may be read */
  t->shape = (int64_t *)(uintptr_t)8;
  refused_by_all("the greatest ndim", &s, "ndim");

  GOOD();
  t->shape = NULL;
  refused_by_all("NULL shape", &s, "shape");
  GOOD();
  t->data = NULL;
  refused_by_all("NULL data", &s, "data");
  source_set(&s, NULL, F32, 0, NULL, NULL);
  refused_by_all("NULL data of a scalar", &s, "data");

  GOOD();
  s.shape[1] = -3;
  refused_by_all("a negative extent", &s, "shape");
  NAMES("-3");
  GOOD();
  s.shape[0] = 0;
  s.shape[1] = INT64_MIN;
  refused_by_all("a negative extent of an empty tensor", &s, "shape");
  GOOD();
  s.shape[0] = s.shape[1] = INT64_C(1) << 40;
  refused_by_all("too many elements", &s, "shape");
  GOOD();
  s.shape[0] = s.shape[1] = INT64_MAX;
  t->strides = NULL;
  refused_by_all("far too many elements", &s, "shape");
  GOOD();
  s.shape[0] = INT64_C(1) << 61;
  s.shape[1] = 1;
  refused_by_all("too many bytes", &s, "shape|bytes");
  GOOD();
  s.strides[0] = INT64_C(1) << 62;
  refused_by_all("too wide", &s, "stride");
  GOOD();
  s.strides[0] = INT64_MIN;
  refused_by_all("too far back", &s, "stride");
  GOOD();
  s.strides[0] = s.strides[1] = INT64_C(1) << 60;
  refused_by_all("too wide in two axes", &s, "stride");
  GOOD();
  t->byte_offset = UINT64_MAX;
  refused_by_all("a byte_offset of 64 bits", &s, "byte_offset");
  GOOD();
  t->byte_offset = (uint64_t)INT64_MAX - 4;
  refused_by_all("a byte_offset near 63 bits", &s, "byte_offset|stride");

  GOOD();
  t->dtype.bits = 0;
  refused_by_all("bits 0", &s, "bits");
  GOOD();
  t->dtype.lanes = 0;
  refused_by_all("lanes 0", &s, "lanes");
  GOOD();
  t->dtype = dt(kDLFloat6_e2m3fn, 8);
  refused_by_all("float6 of 8 bits", &s, "bits");
  GOOD();
  t->dtype = dt(kDLFloat6_e3m2fn, 4);
  refused_by_all("float6 of 4 bits", &s, "bits");
  GOOD();
  t->dtype = dt(kDLFloat4_e2m1fn, 8);
  refused_by_all("float4 of 8 bits", &s, "bits");
#undef GOOD
}

/* A code of a later DLPack is bytes: they can be moved but not read. */
static void unknown_dtypes(void) {
  source s, to;
  managed *out;
  ab_convert_options options = keep_all();

  memset(mem(0), 0x42, 96);
  options.copy = AB_COPY_ALWAYS;
  source_set(&s, mem(0), dt(200, 24), 1, DIMS(32), NULL);
  out = CONVERT(&s, &options, NULL);
  CHECK(memcmp(out->dl_tensor.data, mem(0), 96) == 0);
  ab_release(out);

  options = to_dtype(F32);
  source_set(&s, mem(0), dt(200, 24), 1, DIMS(32), NULL);
  REFUSED(AB_E_INVALID_TENSOR, &s, &options);
  NAMES("200");
  source_set(&to, mem(PAGE), F32, 1, DIMS(32), NULL);
  EXPECT(AB_E_INVALID_TENSOR, ab_copy_into(NULL, &s.tensor.dl_tensor, 0, &to.tensor.dl_tensor, 0, NULL, NULL, &error));

  /* Known, but never cast. */
  source_set(&s, mem(0), dt(kDLOpaqueHandle, 64), 1, DIMS(4), NULL);
  REFUSED(AB_E_UNSUPPORTED_DTYPE, &s, &options);
  source_set(&s, mem(0), dt(kDLInt, 4), 1, DIMS(4), NULL);
  REFUSED(AB_E_UNSUPPORTED_DTYPE, &s, &options);
  source_set(&s, mem(0), dt(kDLComplex, 32), 1, DIMS(4), NULL);
  REFUSED(AB_E_UNSUPPORTED_DTYPE, &s, &options);
  source_set(&s, mem(0), dt(kDLBcomplex, 32), 1, DIMS(4), NULL);
  REFUSED(AB_E_UNSUPPORTED_DTYPE, &s, &options);

  /* A cast needs equal lanes. */
  options.dtype.lanes = 2;
  source_set(&s, mem(0), I16, 1, DIMS(4), NULL);
  (void)poisoned_error();
  out = &s.tensor;
  CHECK(ab_convert(NULL, &s.tensor, &options, &out, NULL, &error) != AB_OK);
  CHECK(out == NULL && s.deleted == 0);
}

/* Of another major version nothing but the deleter is touched. */
static void versions(void) {
  static const uint32_t majors[] = {0, FIRST_UNKNOWN_MAJOR, UINT32_MAX};
  source s;
  for (size_t i = 0; i < COUNT(majors); i++) {
    source before;
    managed *out = (managed *)mem(0);
    DLManagedTensor *legacy = (DLManagedTensor *)mem(0);
    memset(&s, 0xFF, sizeof s); /* every pointer a wild one */
    s.deleted = 0;
    s.tensor.version.major = majors[i];
    s.tensor.version.minor = 0;
    s.tensor.manager_ctx = &s;
    s.tensor.deleter = count_deletion;
    memcpy(&before, &s, sizeof s);
    EXPECT(AB_E_VERSION, ab_convert(NULL, &s.tensor, NULL, &out, NULL, &error));
    NAMES("version");
    CHECK(out == NULL);
    EXPECT(AB_E_VERSION, ab_to_legacy(&s.tensor, &legacy, &error));
    CHECK(legacy == NULL);
    CHECK(memcmp(&before, &s, sizeof s) == 0);
    ab_release(&s.tensor);
    CHECK_EQ(s.deleted, 1);
  }
}

static void options_of_no_meaning(void) {
  source s;
  ab_convert_options options;
  ab_allocator allocator;

#define BAD(field, value) \
  do { \
    options = keep_all(); \
    options.field = value; \
    REFUSED(AB_E_INVALID_ARGUMENT, &s, &options); \
    NAMES(#field); \
  } while (0)

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  BAD(copy, 3);
  NAMES("3");
  BAD(copy, -1);
  BAD(layout, 4);
  BAD(layout, INT32_MIN);
  BAD(casting, 4);
  BAD(casting, -1);
  BAD(alignment, 3);
  BAD(alignment, 96);
  BAD(alignment, 1u << 31);
  BAD(alignment, UINT32_MAX);
  BAD(flags, 0x10);
  BAD(flags, 0x80000000u);
  BAD(consumers, 0x400u);
  BAD(consumers, 0x80000000u);
#undef BAD

  memset(&allocator, 0, sizeof allocator); /* no allocate */
  options = keep_all();
  options.copy = AB_COPY_ALWAYS;
  options.allocator = &allocator;
  REFUSED(AB_E_INVALID_ARGUMENT, &s, &options);
  NAMES("allocat");
}

static void null_arguments(void) {
  source s;
  managed *out = (managed *)mem(0);
  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);

  EXPECT(AB_E_INVALID_ARGUMENT, ab_convert(NULL, NULL, NULL, &out, NULL, &error));
  NAMES("source");
  CHECK(out == NULL);
  EXPECT(AB_E_INVALID_ARGUMENT, ab_convert(NULL, &s.tensor, NULL, NULL, NULL, &error));
  NAMES("out");
  CHECK_EQ(ab_convert(NULL, NULL, NULL, NULL, NULL, NULL), AB_E_INVALID_ARGUMENT);
  CHECK_EQ(s.deleted, 0);
}

int main(void) {
  tensors();
  unknown_dtypes();
  versions();
  options_of_no_meaning();
  null_arguments();
  return 0;
}
