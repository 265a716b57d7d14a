/* What the C tests share: checks that end the program, a source tensor that counts its deletions, and
 * calls of the library that check what every call promises. Include it first. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <arraybridge/arraybridge.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct DLManagedTensorVersioned managed; /* DLPack 1.0 and 1.1 have no typedef for it */

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define CHECK_AT(file, line, condition, ...) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: ", file, line); \
      fprintf(stderr, __VA_ARGS__); \
      fputc('\n', stderr); \
      exit(1); \
    } \
  } while (0)

#define CHECK(condition) CHECK_AT(__FILE__, __LINE__, condition, "%s", #condition)

#define CHECK_EQ(left, right) check_eq(__FILE__, __LINE__, #left " == " #right, (int64_t)(left), (int64_t)(right))

static inline void check_eq(const char *file, int line, const char *what, int64_t left, int64_t right) {
  CHECK_AT(file, line, left == right, "%s: %" PRId64 " and %" PRId64, what, left, right);
}

/* ---- errors ---- */

static ab_error error; /* of the latest call under EXPECT, CONVERT or REFUSED */

static inline ab_error *poisoned_error(void) {
  memset(&error, 0xA5, sizeof error);
  error.struct_size = sizeof error;
  return &error;
}

static inline void check_status(const char *file, int line, const char *what, ab_status expected, ab_status status) {
  int64_t poison;
  CHECK_AT(file, line, memchr(error.message, 0, sizeof error.message) != NULL,
           "%s: %s, wanted %s, and the message has no end", what, ab_status_name(status), ab_status_name(expected));
  CHECK_AT(file, line, status == expected, "%s: %s, wanted %s; \"%s\"", what, ab_status_name(status),
           ab_status_name(expected), error.message);
  CHECK_AT(file, line, error.code == status, "%s: error.code is %d", what, (int)error.code);
  CHECK_AT(file, line, error.struct_size == sizeof error, "%s: error.struct_size changed", what);
  memset(&poison, 0xA5, sizeof poison);
  CHECK_AT(file, line, error.native_code != poison, "%s: error.native_code was not written", what);
  CHECK_AT(file, line, status != AB_OK || error.native_code == 0, "%s: native_code on success", what);
  CHECK_AT(file, line, (error.message[0] == 0) == (status == AB_OK), "%s: %s with the message \"%s\"", what,
           ab_status_name(status), error.message);
}

/* Runs `call`, which passes &error on, and checks the status and the whole error. */
#define EXPECT(expected, call) \
  do { \
    (void)poisoned_error(); \
    check_status(__FILE__, __LINE__, #call, expected, call); \
  } while (0)

/* The latest error says `word`, in capitals or not. */
static inline int message_has(const char *word) {
  for (const char *start = error.message; *start; start++) {
    size_t n = 0;
    while (word[n] && tolower((unsigned char)start[n]) == tolower((unsigned char)word[n])) n++;
    if (!word[n]) return 1;
  }
  return 0;
}

#define NAMES(word) \
  CHECK_AT(__FILE__, __LINE__, message_has(word), "the message lacks \"%s\": \"%s\"", word, error.message)

/* ---- tensors ---- */

#define FIRST_UNKNOWN_MAJOR 2
#define PAGE 4096
#define ARENA (64 * PAGE)

/* Memory with a known alignment: `offset` bytes after a multiple of 4096. */
static inline void *mem(size_t offset) {
  static unsigned char arena[ARENA + PAGE];
  CHECK(offset < ARENA);
  return arena + (PAGE - (uintptr_t)arena % PAGE) + offset;
}

static inline DLDataType dt(int code, int bits) {
  DLDataType dtype;
  dtype.code = (uint8_t)code;
  dtype.bits = (uint8_t)bits;
  dtype.lanes = 1;
  return dtype;
}

static inline DLDevice dev(int type, int id) {
  DLDevice device;
  device.device_type = (DLDeviceType)type;
  device.device_id = id;
  return device;
}

#define I8 dt(kDLInt, 8)
#define U8 dt(kDLUInt, 8)
#define I16 dt(kDLInt, 16)
#define I32 dt(kDLInt, 32)
#define I64 dt(kDLInt, 64)
#define F32 dt(kDLFloat, 32)
#define F64 dt(kDLFloat, 64)
#define BOOL dt(kDLBool, 8)
#define CPU dev(kDLCPU, 0)

/* Axes as an argument: DIMS(2, 3). */
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* A managed tensor that owns nothing and counts its deletions. */
typedef struct source {
  managed tensor;
  int64_t shape[65];
  int64_t strides[65];
  int deleted;
} source;

static inline void count_deletion(managed *self) {
  source *s = (source *)self->manager_ctx;
  s->deleted += 1;
}

/* Fills in a tensor on the CPU; strides NULL leaves them NULL in the tensor too. */
static inline source *source_set(source *s, void *data, DLDataType dtype, int ndim, const int64_t *shape,
                                 const int64_t *strides) {
  memset(s, 0, sizeof *s);
  s->tensor.version.major = 1;
  s->tensor.version.minor = 3;
  s->tensor.manager_ctx = s;
  s->tensor.deleter = count_deletion;
  s->tensor.dl_tensor.data = data;
  s->tensor.dl_tensor.device = CPU;
  s->tensor.dl_tensor.ndim = ndim;
  s->tensor.dl_tensor.dtype = dtype;
  if (shape != NULL) {
    memcpy(s->shape, shape, (size_t)ndim * sizeof *shape);
    s->tensor.dl_tensor.shape = s->shape;
  }
  if (strides != NULL) {
    memcpy(s->strides, strides, (size_t)ndim * sizeof *strides);
    s->tensor.dl_tensor.strides = s->strides;
  }
  return s;
}

static inline int64_t count_elements(const DLTensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

/* Compact in the order axis 0 ... ndim - 1, or its reverse. */
static inline int has_compact_strides(const DLTensor *t, int column_major) {
  int64_t stride = 1;
  for (int k = 0; k < t->ndim; k++) {
    int axis = column_major ? k : t->ndim - 1 - k;
    if (t->strides[axis] != stride) return 0;
    stride *= t->shape[axis];
  }
  return 1;
}

/* ---- conversions ---- */

static inline ab_convert_options keep_all(void) {
  ab_convert_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

static inline ab_convert_options to_dtype(DLDataType dtype) {
  ab_convert_options options = keep_all();
  options.dtype = dtype;
  return options;
}

static inline ab_report poisoned_report(void) {
  ab_report report;
  memset(&report, 0xA5, sizeof report);
  report.struct_size = sizeof report;
  return report;
}

static inline void check_same_report(const char *file, int line, const ab_report *plan, const ab_report *report) {
  check_eq(file, line, "plan and report: struct_size", plan->struct_size, report->struct_size);
  check_eq(file, line, "plan and report: route", plan->route, report->route);
  check_eq(file, line, "plan and report: reasons", plan->reasons, report->reasons);
  check_eq(file, line, "plan and report: passes", plan->passes, report->passes);
  check_eq(file, line, "plan and report: bytes_read", (int64_t)plan->bytes_read, (int64_t)report->bytes_read);
  check_eq(file, line, "plan and report: bytes_written", (int64_t)plan->bytes_written, (int64_t)report->bytes_written);
  check_eq(file, line, "plan and report: scratch_bytes", (int64_t)plan->scratch_bytes, (int64_t)report->scratch_bytes);
  check_eq(file, line, "a plan's nanoseconds", (int64_t)plan->nanoseconds, 0);
}

/* What is promised of every tensor that is handed out. */
static inline void check_handed_out(const char *file, int line, const managed *out, const ab_report *report) {
  const DLTensor *t = &out->dl_tensor;
  int opaque = t->device.device_type == kDLOpenCL || t->device.device_type == kDLVulkan ||
               t->device.device_type == kDLMetal || t->device.device_type == kDLWebGPU;
  int host = t->device.device_type == kDLCPU || t->device.device_type == kDLCUDAHost ||
             t->device.device_type == kDLCUDAManaged;
  CHECK_AT(file, line, out->version.major == 1 && out->version.minor == 3, "a version that is not 1.3");
  CHECK_AT(file, line, out->deleter != NULL, "a result without a deleter");
  CHECK_AT(file, line, t->ndim == 0 || (t->shape != NULL && t->strides != NULL), "NULL shape or strides");
  CHECK_AT(file, line, opaque || t->byte_offset == 0, "a byte_offset of %" PRIu64, t->byte_offset);
  CHECK_AT(file, line, !host || t->device.device_id == 0, "device_id %d", t->device.device_id);
  CHECK_AT(file, line, count_elements(t) != 0 || t->data == NULL, "an empty result with data");
  if (report->route == AB_ROUTE_ZERO_COPY) {
    CHECK_AT(file, line, report->reasons == 0 && report->passes == 0, "a zero copy with reasons or passes");
    CHECK_AT(file, line, report->bytes_read == 0 && report->bytes_written == 0, "a zero copy that moved bytes");
    CHECK_AT(file, line, !(out->flags & DLPACK_FLAG_BITMASK_IS_COPIED), "a zero copy that is marked IS_COPIED");
  } else {
    CHECK_AT(file, line, report->reasons != 0, "a copy without a reason");
    CHECK_AT(file, line, out->flags & DLPACK_FLAG_BITMASK_IS_COPIED, "a copy that is not marked IS_COPIED");
    CHECK_AT(file, line, !(out->flags & DLPACK_FLAG_BITMASK_READ_ONLY), "a read-only copy");
    CHECK_AT(file, line, opaque || t->data == NULL || (uintptr_t)t->data % 256 == 0, "new memory that is not aligned");
  }
}

/* ab_plan and then ab_convert, which must agree. */
static inline managed *convert_at(const char *file, int line, ab_context *context, source *s,
                                  const ab_convert_options *options, ab_report *report) {
  ab_report plan = poisoned_report(), scratch;
  managed *out = NULL;
  if (report == NULL) report = &scratch;
  *report = poisoned_report();
  check_status(file, line, "ab_plan", AB_OK,
               ab_plan(context, &s->tensor.dl_tensor, s->tensor.flags, options, &plan, poisoned_error()));
  check_eq(file, line, "deletions after ab_plan", s->deleted, 0);
  check_status(file, line, "ab_convert", AB_OK,
               ab_convert(context, &s->tensor, options, &out, report, poisoned_error()));
  CHECK_AT(file, line, out != NULL, "ab_convert succeeded without a result");
  check_same_report(file, line, &plan, report);
  check_handed_out(file, line, out, report);
  check_eq(file, line, "deletions after ab_convert", s->deleted,
           report->route == AB_ROUTE_ZERO_COPY || s->tensor.deleter == NULL ? 0 : 1);
  return out;
}

#define CONVERT(s, options, report) convert_at(__FILE__, __LINE__, NULL, s, options, report)

/* ab_plan and ab_convert fail alike, and the source is as it was. */
static inline void refused_at(const char *file, int line, ab_status expected, source *s,
                              const ab_convert_options *options) {
  ab_report report = poisoned_report();
  managed *out = (managed *)mem(0);
  source before;
  memcpy(&before, s, sizeof before);
  check_status(file, line, "ab_plan", expected,
               ab_plan(NULL, &s->tensor.dl_tensor, s->tensor.flags, options, &report, poisoned_error()));
  check_status(file, line, "ab_convert", expected,
               ab_convert(NULL, &s->tensor, options, &out, &report, poisoned_error()));
  CHECK_AT(file, line, out == NULL, "ab_convert failed and left *out");
  CHECK_AT(file, line, memcmp(&before, s, sizeof before) == 0, "ab_convert failed and changed its source");
}

#define REFUSED(expected, s, options) refused_at(__FILE__, __LINE__, expected, s, options)

#endif /* CHECK_H */
