/* Callers that do not keep still, or come back while they are called. */
#include "check.h"

#include <pthread.h>

/* ---- a producer that changes its tensor while it is read ---- */

enum { ROWS = 24, COLUMNS = 36 }; /* and the other way round: both are within the same memory */

static int64_t shared_shape[2] = {ROWS, COLUMNS}, shared_strides[2] = {COLUMNS, 1};
static int stop;

static void store(int64_t *place, int64_t value) { __atomic_store_n(place, value, __ATOMIC_RELAXED); }

static void *change(void *unused) {
  (void)unused;
  for (int turn = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); turn++) {
    int wide = turn & 1, broken = turn % 5 == 0;
    store(&shared_shape[0], broken ? -1 : wide ? ROWS : COLUMNS);
    store(&shared_strides[0], wide ? COLUMNS : 1);
    store(&shared_shape[1], wide ? COLUMNS : ROWS);
    store(&shared_strides[1], broken ? INT64_MAX : wide ? 1 : COLUMNS);
  }
  return NULL;
}

/* Whichever of its states a call sees, it sees one, and its result is of that. */
static void changes_meanwhile(void) {
  /* Every mix of the two shapes and strides stays within 36 * 36 + 36 elements. */
  static uint8_t elements[2 * COLUMNS * COLUMNS];
  pthread_t thread;
  int copied = 0, refused = 0;
  for (size_t i = 0; i < sizeof elements; i++) elements[i] = (uint8_t)(i * 7);
  CHECK_EQ(pthread_create(&thread, NULL, change, NULL), 0);
  for (int round = 0; round < 3000; round++) {
    ab_convert_options options = to_dtype(round % 2 ? I32 : U8);
    DLTensor tensor;
    managed *out = NULL;
    ab_status status;
    memset(&tensor, 0, sizeof tensor);
    tensor.data = elements;
    tensor.device = CPU;
    tensor.dtype = U8;
    tensor.ndim = 2;
    tensor.shape = shared_shape;
    tensor.strides = shared_strides;
    options.layout = round % 4;
    status = ab_copy(NULL, &tensor, 0, &options, &out, NULL, poisoned_error());
    if (status != AB_OK) {
      CHECK_EQ(status, AB_E_INVALID_TENSOR);
      CHECK(out == NULL);
      refused += 1;
      continue;
    }
    copied += 1;
    CHECK(out->dl_tensor.shape[0] == ROWS || out->dl_tensor.shape[0] == COLUMNS);
    CHECK(out->dl_tensor.shape[1] == ROWS || out->dl_tensor.shape[1] == COLUMNS);
    ab_release(out);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
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
  static const int devices[] = {kDLCUDA, kDLROCM, kDLVulkan, kDLMetal, kDLHexagon, 99, 0, -1};
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

int main(void) {
  changes_meanwhile();
  calls_back();
  wrong_devices();
  return 0;
}
