/* Results from the caller's own memory. */
#include "check.h"

typedef struct pool {
  int allocated, deallocated;
  int device_type, device_id;
  size_t size, alignment;
  int64_t stream;
  void *pointer; /* what allocate returns */
} pool;

static void *allocate(void *user, int32_t device_type, int32_t device_id, size_t size, size_t alignment,
                      int64_t stream) {
  pool *p = user;
  p->allocated += 1;
  p->device_type = device_type;
  p->device_id = device_id;
  p->size = size;
  p->alignment = alignment;
  p->stream = stream;
  return p->pointer;
}

static void deallocate(void *user, int32_t device_type, int32_t device_id, void *pointer, size_t size, int64_t stream) {
  pool *p = user;
  p->deallocated += 1;
  CHECK_EQ(device_type, p->device_type);
  CHECK_EQ(device_id, p->device_id);
  CHECK(pointer == p->pointer);
  CHECK_EQ(size, p->size);
  CHECK_EQ(stream, p->stream);
}

static pool p;
static ab_allocator allocator;

/* To float64, by a pool that returns `pointer`. */
static ab_convert_options use(void *pointer) {
  ab_convert_options options = to_dtype(F64);
  memset(&p, 0, sizeof p);
  p.pointer = pointer;
  allocator.user = &p;
  allocator.allocate = allocate;
  allocator.deallocate = deallocate;
  options.allocator = &allocator;
  return options;
}

int main(void) {
  float *data = mem(0);
  source s;
  managed *out = NULL;
  ab_convert_options options;

  for (int i = 0; i < 100; i++) data[i] = (float)i;

  options = use(mem(2 * PAGE));
  source_set(&s, data, F32, 1, DIMS(100), NULL);
  EXPECT(AB_OK, ab_convert(NULL, &s.tensor, &options, &out, NULL, &error));
  CHECK_EQ(s.deleted, 1);
  CHECK_EQ(p.allocated, 1);
  CHECK_EQ(p.device_type, kDLCPU);
  CHECK_EQ(p.device_id, 0);
  CHECK(p.size >= 800);
  CHECK(p.alignment >= 8 && (p.alignment & (p.alignment - 1)) == 0);
  CHECK_EQ(p.stream, 0);
  CHECK(out->dl_tensor.data == mem(2 * PAGE));
  CHECK_EQ(((double *)mem(2 * PAGE))[99], 99);
  CHECK_EQ(out->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  memset(&allocator, 0xFF, sizeof allocator); /* only the call borrowed it */
  CHECK_EQ(p.deallocated, 0);
  ab_release(out);
  CHECK_EQ(p.deallocated, 1);

  /* ab_copy too, with an alignment and a stream of the caller's. */
  options = use(mem(2 * PAGE));
  options.alignment = PAGE;
  options.dst_stream = 2;
  EXPECT(AB_OK, ab_copy(NULL, &s.tensor.dl_tensor, 0, &options, &out, NULL, &error));
  CHECK(p.alignment >= PAGE);
  CHECK_EQ(p.stream, 2);
  ab_release(out);
  CHECK_EQ(p.allocated, 1);
  CHECK_EQ(p.deallocated, 1);

  /* Not asked for what needs no memory: zero copies, empty results, plans. */
  options = use(NULL);
  options.dtype = F32;
  source_set(&s, data, F32, 1, DIMS(100), NULL);
  ab_release(CONVERT(&s, &options, NULL));
  options.dtype = F64;
  source_set(&s, NULL, F32, 2, DIMS(0, 100), NULL);
  ab_release(CONVERT(&s, &options, NULL));
  source_set(&s, data, F32, 1, DIMS(100), NULL);
  EXPECT(AB_OK, ab_plan(NULL, &s.tensor.dl_tensor, 0, &options, NULL, &error));
  CHECK_EQ(p.allocated, 0);

  /* It has none left. */
  out = &s.tensor;
  EXPECT(AB_E_OUT_OF_MEMORY, ab_convert(NULL, &s.tensor, &options, &out, NULL, &error));
  CHECK(out == NULL);
  CHECK_EQ(p.allocated, 1);
  CHECK_EQ(p.deallocated, 0);
  CHECK_EQ(s.deleted, 0);

  /* Misaligned memory goes back. */
  options = use(mem(2 * PAGE + 4));
  options.alignment = 64;
  out = &s.tensor;
  EXPECT(AB_E_INVALID_ARGUMENT, ab_convert(NULL, &s.tensor, &options, &out, NULL, &error));
  NAMES("allocat");
  CHECK(out == NULL);
  CHECK_EQ(p.allocated, 1);
  CHECK_EQ(p.deallocated, 1);
  CHECK_EQ(s.deleted, 0);

  /* So does memory whose contents turned out to be of no use. */
  options = use(mem(2 * PAGE));
  options.dtype = I16;
  options.casting = AB_CAST_EXACT;
  data[50] = 0.5f;
  EXPECT(AB_E_LOSSY, ab_convert(NULL, &s.tensor, &options, &out, NULL, &error));
  CHECK_EQ(p.deallocated, p.allocated);
  CHECK_EQ(s.deleted, 0);
  return 0;
}
