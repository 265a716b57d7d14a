/* Makes every allocation fail in turn: the first, the second, and so on to the last of each scenario, alone and
 * with all that follow it. Each time in a new process, where the library has done nothing yet. Whatever fails,
 * the status says so, the source is as it was, nothing leaks, and the next call works.
 *
 * Run with the path of the library, which is opened as languages do it, and the name of a scenario. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../c/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the allocator ---- */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long left = -1;      /* allocations until one fails; below 0: none does */
static int all_that_follow; /* that too */
static long fired;          /* how many have failed */
static long seen;           /* how many were asked for since armed */
static int armed;
static long live, mapped; /* blocks and mapped bytes that are out */

#define ADD(counter, n) __atomic_add_fetch(&(counter), n, __ATOMIC_SEQ_CST)

static int fails(void) {
  long at;
  if (!__atomic_load_n(&armed, __ATOMIC_SEQ_CST)) return 0;
  at = ADD(seen, 1) - 1;
  if (left < 0 || at < left || (at > left && !all_that_follow)) return 0;
  ADD(fired, 1);
  errno = ENOMEM;
  return 1;
}

static void *counted(void *block) {
  if (block != NULL) ADD(live, 1);
  return block;
}

void *malloc(size_t size) { return fails() ? NULL : counted(__libc_malloc(size)); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : counted(__libc_calloc(n, size)); }
void *memalign(size_t align, size_t size) { return fails() ? NULL : counted(__libc_memalign(align, size)); }
void *aligned_alloc(size_t align, size_t size) { return fails() ? NULL : counted(__libc_memalign(align, size)); }

int posix_memalign(void **out, size_t align, size_t size) {
  if (fails()) return ENOMEM;
  *out = counted(__libc_memalign(align, size));
  return *out == NULL ? ENOMEM : 0;
}

void *realloc(void *block, size_t size) {
  void *moved;
  if (fails()) return NULL;
  moved = __libc_realloc(block, size);
  if (block == NULL) counted(moved);
  return moved;
}

void free(void *block) {
  if (block != NULL) ADD(live, -1);
  __libc_free(block);
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
  void *start;
  if (fails()) return MAP_FAILED;
  start = (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
  if (start != MAP_FAILED) ADD(mapped, (long)size);
  return start;
}

int munmap(void *start, size_t size) {
  ADD(mapped, -(long)size);
  return (int)syscall(SYS_munmap, start, size);
}

/* Threads need memory too. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (fails()) return EAGAIN;
  if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
  return real(thread, attributes, start, argument);
}

/* ---- the library ---- */

#define FUNCTIONS(f) \
  f(ab_convert) f(ab_copy) f(ab_copy_into) f(ab_plan) f(ab_detect) f(ab_detect_pointer) f(ab_wrap) f(ab_from_legacy) \
  f(ab_to_legacy) f(ab_release) f(ab_release_legacy) f(ab_context_create) f(ab_context_release) f(ab_dtype_parse) \
  f(ab_dtype_format) f(ab_report_describe) f(ab_status_name) f(ab_list_backends) f(ab_list_devices)

#define DECLARE(name) static __typeof__(&name) p_##name;
FUNCTIONS(DECLARE)

/* For check.h, which is written for programs that are linked with the library. */
const char *ab_status_name(ab_status status) { return p_ab_status_name(status); }

static void open_library(char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK_AT(__FILE__, __LINE__, library != NULL, "%s", dlerror());
#define FIND(name) \
  *(void **)&p_##name = dlsym(library, #name); \
  CHECK(p_##name != NULL);
  FUNCTIONS(FIND)
}

/* ---- scenarios: each returns the first failure, with everything released ---- */

enum { LARGE = 18 << 20, MEDIUM = 5 << 20 };
static uint8_t *bytes, *other; /* LARGE of each */

static source s;
static ab_report report = {.struct_size = sizeof report};

/* What a call that failed must have left behind. */
static ab_status failed(ab_status status, const void *out) {
  CHECK_EQ(status, error.code);
  CHECK_AT(__FILE__, __LINE__, status == AB_E_OUT_OF_MEMORY, "%d: %s", status, error.message);
  CHECK(message_has("memory"));
  CHECK(out == NULL);
  CHECK_EQ(s.deleted, 0);
  return status;
}

static ab_status convert(DLDataType dtype, int64_t n, const ab_convert_options *extra, int device) {
  ab_convert_options options = extra != NULL ? *extra : keep_all();
  managed *out = NULL;
  ab_status status;
  options.dtype = dtype;
  options.device.device_type = (DLDeviceType)device;
  source_set(&s, bytes, U8, 1, DIMS(n), NULL);
  status = p_ab_convert(NULL, &s.tensor, &options, &out, &report, poisoned_error());
  if (status != AB_OK) return failed(status, out);
  if (device <= 1 && dtype.bits == 32) CHECK_EQ(((float *)out->dl_tensor.data)[n - 1], (n - 1) & 0xFF);
  p_ab_release(out);
  CHECK_EQ(s.deleted, 1);
  return AB_OK;
}

static ab_status shares(void) {
  managed *out = NULL, *again = NULL;
  DLManagedTensor *legacy = NULL;
  ab_status status;
  source_set(&s, bytes, U8, 1, DIMS(100), NULL);
  status = p_ab_convert(NULL, &s.tensor, NULL, &out, &report, poisoned_error());
  if (status != AB_OK) return failed(status, out);
  status = p_ab_to_legacy(out, &legacy, poisoned_error());
  if (status != AB_OK) {
    failed(status, legacy);
    p_ab_release(out);
    CHECK_EQ(s.deleted, 1);
    return status;
  }
  status = p_ab_from_legacy(legacy, &again, poisoned_error());
  if (status != AB_OK) {
    failed(status, again);
    p_ab_release_legacy(legacy);
  } else {
    p_ab_release(again);
  }
  CHECK_EQ(s.deleted, 1);
  return status;
}

static int released;
static void release_owner(void *owner) { ++*(int *)owner; }

static ab_status wraps(void) {
  managed *out = NULL;
  ab_status status;
  released = 0;
  source_set(&s, bytes, U8, 1, DIMS(100), NULL);
  status = p_ab_wrap(&s.tensor.dl_tensor, 0, &released, release_owner, &out, poisoned_error());
  if (status != AB_OK) {
    CHECK_EQ(released, 0);
    return failed(status, out);
  }
  p_ab_release(out);
  CHECK_EQ(released, 1);
  return AB_OK;
}

static ab_status small(void) { return convert(F32, 100, NULL, 1); }
static ab_status medium(void) { return convert(F32, MEDIUM / 4, NULL, 1); }
static ab_status large(void) { return convert(F32, LARGE / 2 + 3, NULL, 1); }

static ab_status aligned(void) {
  ab_convert_options options = keep_all();
  options.alignment = 1 << 24;
  options.copy = AB_COPY_ALWAYS;
  return convert(U8, MEDIUM, &options, 1);
}

static ab_status transposes(void) {
  managed *out = NULL;
  ab_convert_options options = keep_all();
  ab_status status;
  options.layout = AB_LAYOUT_F;
  source_set(&s, bytes, U8, 2, DIMS(3000, 1701), NULL);
  status = p_ab_copy(NULL, &s.tensor.dl_tensor, 0, &options, &out, &report, poisoned_error());
  if (status != AB_OK) return failed(status, out);
  CHECK_EQ(((uint8_t *)out->dl_tensor.data)[1 + 7 * 3000], (1701 + 7) & 0xFF);
  p_ab_release(out);
  return AB_OK;
}

static ab_status copies_into(void) {
  static source to;
  ab_status status;
  /* So much that threads share it. */
  source_set(&s, bytes, U8, 1, DIMS(LARGE), NULL);
  source_set(&to, other, U8, 1, DIMS(LARGE), NULL);
  status = p_ab_copy_into(NULL, &s.tensor.dl_tensor, 0, &to.tensor.dl_tensor, 0, NULL, &report, poisoned_error());
  return status == AB_OK ? AB_OK : failed(status, NULL);
}

static ab_status contexts(void) {
  ab_context *context = NULL;
  managed *out = NULL;
  ab_convert_options options = to_dtype(F64);
  ab_status status = p_ab_context_create(NULL, &context, poisoned_error());
  s.deleted = 0;
  if (status != AB_OK) return failed(status, context);
  source_set(&s, bytes, U8, 1, DIMS(100), NULL);
  status = p_ab_convert(context, &s.tensor, &options, &out, NULL, poisoned_error());
  p_ab_context_release(context);
  if (status != AB_OK) return failed(status, out);
  CHECK_EQ(((double *)out->dl_tensor.data)[99], 99);
  p_ab_release(out);
  return AB_OK;
}

/* ---- every kind of kernel ---- */

typedef struct kind {
  const char *name;
  DLDataType from, to; /* to: 0 bits keeps it */
  int ndim;
  int64_t shape[4], strides[4];
  int layout, casting;
  uint32_t flags;
  uint64_t dl_flags;
} kind;

enum { PADDED = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED };
#define TO(code, bits) {code, bits, 1}
#define KEPT {0, 0, 0}

static const kind KINDS[] = {
    {"copy", TO(kDLUInt, 8), KEPT, 1, {5000}, {1}, 0, 0, 0, 0},
    {"no axes", TO(kDLFloat, 64), TO(kDLFloat, 32), 0, {0}, {0}, 0, 0, 0, 0},
    {"empty", TO(kDLFloat, 32), TO(kDLInt, 8), 2, {0, 7}, {7, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"reversed", TO(kDLInt, 16), KEPT, 1, {5000}, {-1}, 0, 0, 0, 0},
    {"broadcast", TO(kDLInt, 32), KEPT, 3, {10, 20, 30}, {0, 30, 1}, AB_LAYOUT_C, 0, 0, 0},
    {"gather", TO(kDLUInt, 8), KEPT, 3, {40, 50, 30}, {6000, 100, 3}, AB_LAYOUT_C, 0, 0, 0},
    {"transpose of 1", TO(kDLUInt, 8), KEPT, 2, {150, 170}, {170, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"transpose of 2", TO(kDLInt, 16), KEPT, 2, {150, 170}, {170, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"transpose of 4", TO(kDLFloat, 32), KEPT, 2, {150, 170}, {170, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"transpose of 8", TO(kDLFloat, 64), KEPT, 2, {150, 170}, {170, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"transpose of 16", TO(kDLComplex, 128), KEPT, 2, {150, 70}, {70, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"few columns", TO(kDLUInt, 8), KEPT, 2, {30000, 3}, {3, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"few rows", TO(kDLFloat, 32), KEPT, 2, {3, 30000}, {30000, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"far columns", TO(kDLFloat, 32), KEPT, 2, {600, 1024}, {1024, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"far columns of 8", TO(kDLFloat, 64), KEPT, 2, {600, 512}, {512, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"planes", TO(kDLUInt, 8), KEPT, 3, {300, 200, 3}, {600, 3, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"widens", TO(kDLUInt, 8), TO(kDLInt, 64), 1, {5000}, {1}, 0, 0, 0, 0},
    {"narrows", TO(kDLInt, 32), TO(kDLUInt, 8), 1, {5000}, {1}, 0, 0, AB_CONVERT_SATURATE, 0},
    {"to float16", TO(kDLFloat, 32), TO(kDLFloat, 16), 2, {90, 110}, {110, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"to bfloat16", TO(kDLFloat, 64), TO(kDLBfloat, 16), 1, {5000}, {2}, 0, 0, 0, 0},
    {"to fp8", TO(kDLFloat, 32), TO(kDLFloat8_e4m3fn, 8), 1, {5000}, {1}, 0, 0, 0, 0},
    {"to bool", TO(kDLInt, 32), TO(kDLBool, 8), 1, {5000}, {-3}, 0, 0, 0, 0},
    {"to complex", TO(kDLInt, 16), TO(kDLComplex, 64), 2, {50, 60}, {60, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"casts far columns", TO(kDLInt, 16), TO(kDLFloat, 32), 2, {600, 1024}, {1024, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"bits", TO(kDLInt, 4), KEPT, 2, {301, 203}, {203, 1}, AB_LAYOUT_F, 0, 0, 0},
    {"bits to bytes", TO(kDLFloat6_e2m3fn, 6), TO(kDLFloat, 32), 1, {4001}, {3}, 0, 0, 0, 0},
    {"bytes to bits", TO(kDLInt, 8), TO(kDLFloat6_e3m2fn, 6), 1, {4001}, {3}, 0, 0, 0, 0},
    {"padded bits", TO(kDLFloat4_e2m1fn, 4), TO(kDLFloat, 32), 1, {4001}, {2}, 0, 0, 0, PADDED},
    {"lanes", {kDLFloat, 32, 4}, {kDLFloat, 64, 4}, 2, {30, 40}, {1, 30}, AB_LAYOUT_C, 0, 0, 0},
    {"exact", TO(kDLUInt, 8), TO(kDLFloat, 32), 1, {5000}, {1}, 0, AB_CAST_EXACT, 0, 0},
    {"checked", TO(kDLUInt, 8), TO(kDLFloat, 32), 1, {5000}, {1}, 0, 0, AB_CONVERT_VERIFY_POINTER, 0},
};

static uint64_t hash(const void *memory, size_t size) {
  uint64_t sum = 0xcbf29ce484222325u, word;
  for (size_t at = 0; at < size; at += sizeof word) {
    word = 0;
    memcpy(&word, (const uint8_t *)memory + at, size - at < sizeof word ? size - at : sizeof word);
    sum = (sum ^ word) * 0x100000001b3u;
    sum ^= sum >> 29;
  }
  return sum;
}

static size_t size_of(const DLTensor *t, uint64_t dl_flags) {
  size_t bits = (size_t)t->dtype.bits * t->dtype.lanes;
  if (t->dtype.bits >= 8 || dl_flags & PADDED) bits = (bits + 7) / 8 * 8;
  return ((size_t)count_elements(t) * bits + 7) / 8;
}

static const kind *k; /* the one that is tried now */
static uint64_t *sums; /* what it gives where nothing fails: a copy, and a copy into memory of the caller's */

static DLTensor *source_of_kind(void) {
  source_set(&s, bytes, k->from, k->ndim, k->shape, k->strides);
  /* Backwards from the middle. */
  if (k->strides[0] < 0) s.tensor.dl_tensor.data = bytes + LARGE / 2;
  s.tensor.flags = k->dl_flags;
  return &s.tensor.dl_tensor;
}

static ab_convert_options options_of_kind(void) {
  ab_convert_options options = to_dtype(k->to);
  options.copy = AB_COPY_ALWAYS;
  options.layout = k->layout;
  options.casting = k->casting;
  options.flags = k->flags;
  return options;
}

static void check_sum(uint64_t *place, uint64_t sum) {
  if (*place == 0) *place = sum;
  CHECK_AT(__FILE__, __LINE__, *place == sum, "%s: not what it gives else", k->name);
}

static ab_status kinds(void) {
  ab_convert_options options = options_of_kind();
  managed *out = NULL;
  ab_status status =
      p_ab_copy(NULL, source_of_kind(), k->dl_flags, &options, &out, &report, poisoned_error());
  if (status != AB_OK) return failed(status, out);
  check_sum(&sums[0], hash(out->dl_tensor.data, size_of(&out->dl_tensor, out->flags)));
  p_ab_release(out);
  return AB_OK;
}

/* Into memory of the caller's, in C order. */
static ab_status kinds_into(void) {
  static source to;
  ab_convert_options options = options_of_kind();
  uint64_t to_flags = k->to.bits ? 0 : k->dl_flags;
  int64_t strides[4], step = 1;
  size_t size;
  ab_status status;
  for (int axis = k->ndim - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= k->shape[axis];
  }
  source_set(&to, other, k->to.bits ? k->to : k->from, k->ndim, k->shape, strides);
  size = size_of(&to.tensor.dl_tensor, to_flags);
  memset(other, 0x5A, size + 64);
  status = p_ab_copy_into(NULL, source_of_kind(), k->dl_flags, &to.tensor.dl_tensor, to_flags, &options, &report,
                          poisoned_error());
  if (status != AB_OK) {
    CHECK(other[0] == 0x5A && memcmp(other, other + 1, size + 63) == 0);
    return failed(status, NULL);
  }
  CHECK(other[size] == 0x5A && memcmp(other + size, other + size + 1, 63) == 0);
  check_sum(&sums[1], hash(other, size));
  return AB_OK;
}

/* A value that does not fit is found once the memory for it is there. */
static ab_status loses(void) {
  ab_convert_options options = to_dtype(U8);
  managed *out = NULL;
  ab_status status;
  options.casting = AB_CAST_EXACT;
  source_set(&s, bytes, I16, 1, DIMS(LARGE / 8), NULL);
  status = p_ab_convert(NULL, &s.tensor, &options, &out, &report, poisoned_error());
  CHECK(out == NULL);
  CHECK_EQ(s.deleted, 0);
  return status == AB_E_LOSSY ? AB_OK : failed(status, out);
}

/* The caller's own memory is there, but none for the rest. */
static long handed_out;

static void *allocate(void *user, int32_t type, int32_t id, size_t size, size_t alignment, int64_t stream) {
  (void)user, (void)type, (void)id, (void)alignment, (void)stream;
  CHECK(size <= LARGE);
  handed_out += 1;
  return other;
}

static void deallocate(void *user, int32_t type, int32_t id, void *pointer, size_t size, int64_t stream) {
  (void)user, (void)type, (void)id, (void)size, (void)stream;
  CHECK(pointer == other);
  handed_out -= 1;
}

static ab_status callers_memory(void) {
  static const ab_allocator allocator = {NULL, allocate, deallocate};
  ab_convert_options options = keep_all();
  ab_status status;
  options.allocator = &allocator;
  status = convert(F32, MEDIUM / 4, &options, 1);
  CHECK_EQ(handed_out, 0);
  return status;
}

/* Nothing here needs memory: it works without any. */
static ab_status without(void) {
  ab_tensor_info info;
  ab_pointer_info where;
  DLDataType dtype;
  ab_convert_options options = to_dtype(F32);
  managed *out = (managed *)bytes;
  char text[64];
  info.struct_size = sizeof info;
  where.struct_size = sizeof where;
  source_set(&s, bytes, U8, 1, DIMS(100), NULL);
  EXPECT(AB_OK, p_ab_detect(&s.tensor.dl_tensor, 0, &info, &error));
  EXPECT(AB_OK, p_ab_plan(NULL, &s.tensor.dl_tensor, 0, &options, &report, &error));
  CHECK(p_ab_report_describe(&report, text, sizeof text) > 0);
  EXPECT(AB_OK, p_ab_detect_pointer(NULL, bytes, &where, &error));
  EXPECT(AB_OK, p_ab_dtype_parse("float32", &dtype, &error));
  EXPECT(AB_E_UNSUPPORTED_DTYPE, p_ab_dtype_parse("no such dtype at all", &dtype, &error));
  CHECK(p_ab_dtype_format(&dtype, text, sizeof text) == 7);
  options.copy = AB_COPY_NEVER;
  EXPECT(AB_E_COPY_REQUIRED, p_ab_convert(NULL, &s.tensor, &options, &out, NULL, &error));
  CHECK(out == NULL);
  s.tensor.dl_tensor.ndim = -1;
  EXPECT(AB_E_INVALID_TENSOR, p_ab_convert(NULL, &s.tensor, NULL, &out, NULL, &error));
  CHECK_EQ(s.deleted, 0);
  return AB_OK;
}

/* Those of a file that includes this one. */
#ifndef MORE_SCENARIOS
#define MORE_SCENARIOS
#endif

static const struct {
  const char *name;
  ab_status (*run)(void);
} SCENARIOS[] = {
    MORE_SCENARIOS
    {"shares", shares},     {"wraps", wraps},         {"small", small},           {"medium", medium},
    {"large", large},       {"aligned", aligned},     {"transposes", transposes}, {"copies_into", copies_into},
    {"contexts", contexts}, {"kinds", kinds},       {"kinds_into", kinds_into}, {"loses", loses},
    {"without", without},   {"callers_memory", callers_memory},
};

/* ---- children ---- */

typedef struct outcome {
  long seen, fired, live, mapped;
} outcome;

static outcome *shared;

static void arm(long nth, int all) {
  left = nth;
  all_that_follow = all;
  seen = fired = 0;
  __atomic_store_n(&armed, 1, __ATOMIC_SEQ_CST);
}

static void disarm(void) { __atomic_store_n(&armed, 0, __ATOMIC_SEQ_CST); }

/* Fails the nth allocation of a scenario in a new process; nth below 0: none. */
static outcome in_child(ab_status (*scenario)(void), long nth, int all) {
  int status = 0;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    ab_status first;
    alarm(120);
    live = mapped = 0;
    arm(nth, all);
    first = scenario();
    shared->seen = seen;
    shared->fired = fired;
    disarm();
    CHECK(first == AB_OK || fired > 0);
    /* The next calls work, and give all of it back. */
    for (int i = 0; i < 2; i++) {
      CHECK_EQ(scenario(), AB_OK);
      for (int64_t at = 0; at < MEDIUM; at += 4099) CHECK_EQ(bytes[at], at & 0xFF);
    }
    shared->live = live;
    shared->mapped = mapped;
    _exit(0);
  }
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_AT(__FILE__, __LINE__, WIFEXITED(status) && WEXITSTATUS(status) == 0,
           "%s, allocation %ld%s: the child's status is %#x", k != NULL ? k->name : "alone", nth,
           all ? " and all that follow" : "", status);
  return *shared;
}

static long survived, allocations;

/* Every allocation of a scenario, alone and with all that follow. */
static void each(ab_status (*scenario)(void)) {
  outcome whole = in_child(scenario, -1, 0);
  allocations += whole.seen;
  for (int all = 0; all < 2; all++) {
    for (long nth = 0;; nth++) {
      outcome done = in_child(scenario, nth, all);
      if (done.fired == 0) break;
      survived += 1;
      /* How many workers came in time, each of which keeps its workspace, is chance; a large mapping that was freed is
       * kept for a while, which may be over when it is counted. */
      for (int try = 0; try < 40 && (done.live > whole.live || done.mapped > whole.mapped); try++) {
        outcome again = in_child(scenario, -1, 0);
        if (again.live > whole.live) whole.live = again.live;
        if (again.mapped > whole.mapped) whole.mapped = again.mapped;
      }
      CHECK_AT(__FILE__, __LINE__, done.live <= whole.live, "allocation %ld: %ld blocks are out, and without it %ld",
               nth, done.live, whole.live);
      CHECK_AT(__FILE__, __LINE__, done.mapped <= whole.mapped, "allocation %ld: %ld bytes are mapped, and without it %ld",
               nth, done.mapped, whole.mapped);
      CHECK(nth < 2000);
    }
  }
}

int main(int argc, char **argv) {
  ab_status (*scenario)(void) = NULL;

  CHECK_EQ(argc, 3);
  for (size_t i = 0; i < COUNT(SCENARIOS); i++)
    if (strcmp(SCENARIOS[i].name, argv[2]) == 0) scenario = SCENARIOS[i].run;
  CHECK(scenario != NULL);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  sums = mmap(NULL, 2 * sizeof *sums, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  bytes = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  other = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(bytes != MAP_FAILED && other != MAP_FAILED && (void *)shared != MAP_FAILED && (void *)sums != MAP_FAILED);
  for (int64_t i = 0; i < LARGE; i++) bytes[i] = (uint8_t)i;
  open_library(argv[1]);

  if (scenario == kinds || scenario == kinds_into) {
    for (k = KINDS; k < KINDS + COUNT(KINDS); k++) {
      sums[0] = sums[1] = 0;
      each(scenario);
    }
  } else {
    each(scenario);
  }
  printf("%s: %ld failures of %ld allocations\n", argv[2], survived, allocations);
  return 0;
}
