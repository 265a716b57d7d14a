/* Callers that do not keep still, or come back while they are called. */
#include "check.h"

#include <pthread.h>

/* ---- a producer that changes its tensor while it is read ---- */

enum { ROWS = 24, COLUMNS = 36 }; /* and the other way round: both are within the same memory */

static uint8_t elements[8 * COLUMNS * COLUMNS];
static int64_t shared_shape[2] = {ROWS, COLUMNS}, shared_strides[2] = {COLUMNS, 1};
static DLTensor shared;
static int stop;

#define STORE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)

static void *change(void *unused) {
  (void)unused;
  for (int turn = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); turn++) {
    int wide = turn & 1, broken = turn % 5 == 0;
    STORE(shared_shape[0], broken ? -1 : wide ? ROWS : COLUMNS);
    STORE(shared_strides[0], wide ? COLUMNS : 1);
    STORE(shared.ndim, turn % 11 == 0 ? 1 : 2);
    STORE(shared.byte_offset, turn % 3 == 0 ? 128 : 0);
    STORE(shared.strides, turn % 7 == 0 ? NULL : shared_strides);
    STORE(shared.dtype.bits, turn % 13 == 0 ? 0 : wide ? 8 : 16);
    STORE(shared_shape[1], wide ? COLUMNS : ROWS);
    STORE(shared_strides[1], broken ? INT64_MAX : wide ? 1 : COLUMNS);
  }
  return NULL;
}

/* Whichever of its states a call sees, it sees one, and its result is of that. */
static void changes_meanwhile(void) {
  /* Every mix stays within (36 * 36 + 36) * 2 + 128 bytes. */
  pthread_t thread;
  int copied = 0, refused = 0;
  for (size_t i = 0; i < sizeof elements; i++) elements[i] = (uint8_t)(i * 7);
  memset(&shared, 0, sizeof shared);
  shared.data = elements;
  shared.device = CPU;
  shared.dtype = U8;
  shared.ndim = 2;
  shared.shape = shared_shape;
  shared.strides = shared_strides;
  CHECK_EQ(pthread_create(&thread, NULL, change, NULL), 0);
  for (int round = 0; round < 3000; round++) {
    ab_convert_options options = to_dtype(round % 2 ? I32 : dt(0, 0));
    managed *out = NULL;
    ab_status status;
    options.layout = round % 4;
    status = ab_copy(NULL, &shared, 0, &options, &out, NULL, poisoned_error());
    if (status != AB_OK) {
      CHECK_EQ(status, AB_E_INVALID_TENSOR);
      CHECK(out == NULL);
      refused += 1;
      continue;
    }
    copied += 1;
    CHECK(out->dl_tensor.ndim == 1 || out->dl_tensor.ndim == 2);
    for (int axis = 0; axis < out->dl_tensor.ndim; axis++)
      CHECK(out->dl_tensor.shape[axis] == ROWS || out->dl_tensor.shape[axis] == COLUMNS);
    CHECK(out->dl_tensor.dtype.bits == (round % 2 ? 32 : 8) || (round % 2 == 0 && out->dl_tensor.dtype.bits == 16));
    ab_release(out);
  }
  STORE(stop, 1);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(copied + refused, 3000);
}

/* ---- deleters and allocators that call the library ---- */

static int inner_deleted;

static void call_back(void) {
  static float data[10];
  source s;
  ab_context *context = NULL;
  ab_convert_options options = to_dtype(F64);
  managed *out = NULL, *again = NULL;
  ab_error e;
  memset(&e, 0, sizeof e);
  e.struct_size = sizeof e;
  source_set(&s, data, F32, 1, DIMS(10), NULL);
  CHECK_EQ(ab_context_create(NULL, &context, &e), AB_OK);
  CHECK_EQ(ab_convert(context, &s.tensor, &options, &out, NULL, &e), AB_OK);
  CHECK_EQ(ab_convert(NULL, out, NULL, &again, NULL, &e), AB_OK);
  ab_context_release(context);
  ab_release(again);
  inner_deleted += s.deleted;
}

static void deletes_and_calls(managed *self) {
  call_back();
  count_deletion(self);
}

static void *allocate(void *user, int32_t type, int32_t id, size_t size, size_t alignment, int64_t stream) {
  (void)user, (void)type, (void)id, (void)size, (void)alignment, (void)stream;
  call_back();
  return mem(8 * PAGE);
}

static void deallocate(void *user, int32_t type, int32_t id, void *pointer, size_t size, int64_t stream) {
  (void)user, (void)type, (void)id, (void)size, (void)stream;
  CHECK(pointer == mem(8 * PAGE));
  call_back();
}

static void calls_back(void) {
  ab_allocator allocator = {NULL, allocate, deallocate};
  ab_convert_options options = to_dtype(F64);
  source s;
  managed *out = NULL;
  memset(mem(0), 0, 400);
  /* From a copy, which deletes its source. */
  source_set(&s, mem(0), F32, 1, DIMS(100), NULL);
  s.tensor.deleter = deletes_and_calls;
  EXPECT(AB_OK, ab_convert(NULL, &s.tensor, &options, &out, NULL, &error));
  CHECK_EQ(s.deleted, 1);
  ab_release(out);
  /* From a result that shares it. */
  source_set(&s, mem(0), F32, 1, DIMS(100), NULL);
  s.tensor.deleter = deletes_and_calls;
  EXPECT(AB_OK, ab_convert(NULL, &s.tensor, NULL, &out, NULL, &error));
  ab_release(out);
  CHECK_EQ(s.deleted, 1);
  /* From within an allocation. */
  options.allocator = &allocator;
  source_set(&s, mem(0), F32, 1, DIMS(100), NULL);
  EXPECT(AB_OK, ab_convert(NULL, &s.tensor, &options, &out, NULL, &error));
  ab_release(out);
  CHECK_EQ(inner_deleted, 4);
}

/* ---- devices that are not those that a tensor says ---- */

static void wrong_devices(void) {
  static const int devices[] = {kDLCUDA,  kDLCUDAHost, kDLCUDAManaged, kDLROCM, kDLVulkan,
                                kDLMetal, kDLHexagon,  99,             0,       -1};
  ab_convert_options options = keep_all();
  source s;
  managed *out = NULL;
  options.flags = AB_CONVERT_VERIFY_POINTER;
  for (size_t i = 0; i < COUNT(devices); i++) {
    ab_status status;
    source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
    s.tensor.dl_tensor.device = dev(devices[i], 0);
    out = &s.tensor;
    status = ab_convert(NULL, &s.tensor, &options, &out, NULL, poisoned_error());
    CHECK(status == AB_E_UNSUPPORTED_DEVICE || status == AB_E_BACKEND_UNAVAILABLE);
    CHECK(out == NULL);
    CHECK_EQ(s.deleted, 0);
  }
  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  ab_release(CONVERT(&s, &options, NULL));
}

/* ---- contexts that go before what was made with them ---- */

static void contexts_go_first(void) {
  enum { LARGE = 5 << 16 }; /* as complex128 several threads make it, in pages of its own */
  static uint8_t bytes[LARGE];
  ab_convert_options options = to_dtype(dt(kDLComplex, 128));
  managed *results[8];
  source s;
  memset(bytes, 9, sizeof bytes);
  for (int i = 0; i < 8; i++) {
    ab_context_options limits = {sizeof limits, (uint32_t)i, 0};
    ab_context *context = NULL;
    managed *first = NULL;
    EXPECT(AB_OK, ab_context_create(&limits, &context, &error));
    source_set(&s, bytes, U8, 1, DIMS(LARGE >> i), NULL);
    EXPECT(AB_OK, ab_convert(context, &s.tensor, &options, &first, NULL, &error));
    /* Shared by a second result, whose context goes too. */
    EXPECT(AB_OK, ab_convert(context, first, NULL, &results[i], NULL, &error));
    ab_context_release(context);
  }
  for (int i = 0; i < 8; i++) {
    managed *again = NULL;
    ab_convert_options back = to_dtype(U8);
    CHECK(((double (*)[2])results[i]->dl_tensor.data)[(LARGE >> i) - 1][0] == 9);
    EXPECT(AB_OK, ab_convert(NULL, results[i], &back, &again, NULL, &error));
    CHECK_EQ(((uint8_t *)again->dl_tensor.data)[0], 9);
    ab_release(again);
  }
}

int main(void) {
  changes_meanwhile();
  contexts_go_first();
  calls_back();
  wrong_devices();
  return 0;
}
