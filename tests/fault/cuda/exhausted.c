/* Memory that runs out on the ways of CUDA, at every allocation in turn, on the fake driver: as
 * tests/fault/memory.c, which says how. The driver's own memory is not the program's, and does not run out.
 *
 * Run as that one, with LD_LIBRARY_PATH where the fake driver is. */
#define _GNU_SOURCE
#include "../../c/check.h"

static ab_status up_and_down(void), small_ways(void), device_ways(void), peer_ways(void), kinds_of_memory(void), lists(void);
#define MORE_SCENARIOS                                                                                           \
  {"up_and_down", up_and_down}, {"small_ways", small_ways}, {"device_ways", device_ways}, {"peer_ways", peer_ways}, \
  {"kinds_of_memory", kinds_of_memory}, {"lists", lists},
#include "../memory.c"

/* ---- the fake driver ---- */

enum { KINDS_OF_OBJECTS = 2 }; /* device and host memory */

static void *driver(const char *name) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *found;
  CHECK(library != NULL);
  found = dlsym(library, name);
  CHECK(found != NULL);
  dlclose(library);
  return found;
}

/* How many threads fill slots; 0: as many as there are. */
static uint32_t threads;

enum { RING = 256 << 10, SLOTS = 4 };

/* The end of a scenario. After the last call of a child nothing of the driver's is left that is not left where
 * nothing fails; but which slots of a ring have come to need memory of the device's is the threads' affair. */
static ab_status done(void) {
  static int calls;
  long *usual = (long *)(shared + 1); /* in the page that the children share */
  const char *(*complaints)(void);
  long (*objects)(int);
  if (armed || ++calls < 2) return AB_OK;
  *(void **)&complaints = driver("fake_complaints");
  *(void **)&objects = driver("fake_live");
  CHECK_AT(__FILE__, __LINE__, complaints()[0] == 0, "%s", complaints());
  for (int kind = 0; kind < KINDS_OF_OBJECTS; kind++) {
    long now = objects(kind);
    if (usual[KINDS_OF_OBJECTS] == 0) usual[kind] = now;
    CHECK_AT(__FILE__, __LINE__, now <= usual[kind] + (threads == 1 ? 0 : SLOTS), "%ld of kind %d are out, and else %ld", now, kind, usual[kind]);
  }
  usual[KINDS_OF_OBJECTS] = 1;
  return AB_OK;
}

/* ---- ways ---- */

enum { BIG = 150000 };

typedef struct step {
  int device_type, device_id;
  DLDataType dtype; /* 0 bits keeps it */
  int layout, casting;
  uint32_t flags;
} step;

#define KEEP {0, 0, 0}
#define F16 {kDLFloat, 16, 1}
#define SINGLE {kDLFloat, 32, 1}

/* From the host's bytes, as a matrix, along these steps; the last one is on the host and gives the bytes again. */
static ab_status along(int64_t rows, int64_t columns, const step *steps, size_t count) {
  ab_context_options limits = {.struct_size = sizeof limits, .num_threads = threads, .staging_bytes = RING};
  ab_context *context = NULL;
  managed *at = NULL;
  ab_status status = p_ab_context_create(&limits, &context, poisoned_error());
  s.deleted = 0;
  if (status != AB_OK) return failed(status, context);
  for (size_t i = 0; i < count && status == AB_OK; i++) {
    ab_convert_options options = keep_all();
    managed *next = NULL;
    options.device.device_type = (DLDeviceType)steps[i].device_type;
    options.device.device_id = steps[i].device_id;
    options.dtype = steps[i].dtype;
    options.layout = steps[i].layout;
    options.casting = steps[i].casting;
    options.flags = steps[i].flags;
    options.copy = AB_COPY_ALWAYS;
    if (i == 0) {
      source_set(&s, bytes, U8, 2, DIMS(rows, columns), NULL);
      status = p_ab_copy(context, &s.tensor.dl_tensor, 0, &options, &next, &report, poisoned_error());
    } else {
      status = p_ab_convert(context, at, &options, &next, &report, poisoned_error());
    }
    if (status == AB_OK)
      at = next;
    else
      failed(status, next); /* and `at` is still ours */
  }
  if (status == AB_OK) {
    const uint8_t *data = at->dl_tensor.data;
    for (int64_t i = 0; i < rows * columns; i++) CHECK_EQ(data[i], i & 0xFF);
  }
  p_ab_release(at);
  p_ab_context_release(context);
  return status;
}

#define ALONG(rows, columns, ...)                                                                                \
  do {                                                                                                           \
    const step steps[] = {__VA_ARGS__};                                                                          \
    ab_status status = along(rows, columns, steps, COUNT(steps));                                                \
    if (status != AB_OK) return status;                                                                          \
  } while (0)

/* What a thread keeps on the host, and OpenCL's loader, are not what is looked at here. */
static void start_others(void) {
  int was = armed;
  ab_convert_options options = to_dtype((DLDataType)SINGLE);
  managed *out = NULL;
  armed = 0;
  options.layout = AB_LAYOUT_F;
  source_set(&s, bytes, U8, 2, DIMS(20, 30), NULL);
  CHECK_EQ(p_ab_copy(NULL, &s.tensor.dl_tensor, 0, &options, &out, NULL, poisoned_error()), AB_OK);
  p_ab_release(out);
  options.device.device_type = kDLOpenCL;
  if (p_ab_copy(NULL, &s.tensor.dl_tensor, 0, &options, &out, NULL, poisoned_error()) == AB_OK) p_ab_release(out);
  armed = was;
}

/* Through the ring: as it is, gathered and scattered, cast on either side. */
static ab_status up_and_down(void) {
  ALONG(1, BIG, {2, 0, KEEP, 0, 0, 0}, {1, 0, KEEP, 0, 0, 0});
  ALONG(200, 400, {2, 0, F16, AB_LAYOUT_F, 0, 0}, {1, 0, U8, AB_LAYOUT_C, 0, 0});
  return done();
}

/* With the command itself; packed first; a value that is looked at. */
static ab_status small_ways(void) {
  threads = 1;
  start_others();
  ALONG(1, 100, {2, 0, KEEP, 0, 0, 0}, {1, 0, KEEP, 0, 0, 0});
  ALONG(20, 30, {2, 0, SINGLE, AB_LAYOUT_F, 0, 0}, {1, 0, U8, AB_LAYOUT_C, AB_CAST_EXACT, 0});
  return done();
}

static ab_status device_ways(void) {
  threads = 1;
  ALONG(20, 30, {2, 0, KEEP, 0, 0, 0}, {2, 0, KEEP, AB_LAYOUT_F, 0, 0}, {2, 0, F16, AB_LAYOUT_C, 0, 0},
        {2, 0, SINGLE, AB_LAYOUT_F, AB_CAST_EXACT, 0}, {2, 0, U8, 0, 0, AB_CONVERT_VERIFY_POINTER},
        {1, 0, KEEP, AB_LAYOUT_C, 0, 0});
  return done();
}

/* Which are staged where devices do not reach each other. */
static ab_status peer_ways(void) {
  threads = 1;
  ALONG(20, 30, {2, 0, KEEP, 0, 0, 0}, {2, 1, KEEP, 0, 0, 0}, {2, 0, F16, AB_LAYOUT_F, 0, 0},
        {2, 1, U8, AB_LAYOUT_C, 0, 0}, {1, 0, KEEP, AB_LAYOUT_C, 0, 0});
  ALONG(1, BIG, {2, 0, KEEP, 0, 0, 0}, {2, 1, F16, 0, 0, 0}, {1, 0, U8, 0, 0, 0});
  return done();
}

static ab_status kinds_of_memory(void) {
  threads = 1;
  ALONG(20, 30, {3, 0, KEEP, 0, 0, 0}, {2, 0, KEEP, AB_LAYOUT_F, 0, 0}, {13, 0, F16, 0, 0, 0},
        {3, 0, SINGLE, AB_LAYOUT_C, 0, 0}, {1, 0, U8, 0, 0, 0});
  return done();
}

/* Backends are there whether or not there is memory to look; of devices all are listed or none, with an error.
 * The next call finds them. */
static ab_status lists(void) {
  ab_device_info devices[8];
  ab_backend_info backends[8];
  size_t count = 0;
  ab_status status, first;
  start_others();
  for (size_t i = 0; i < COUNT(devices); i++) devices[i].struct_size = sizeof devices[i];
  for (size_t i = 0; i < COUNT(backends); i++) backends[i].struct_size = sizeof backends[i];
  CHECK_EQ(p_ab_list_backends(NULL, backends, COUNT(backends), &count, poisoned_error()), AB_OK);
  CHECK_EQ(count, 3);
  status = p_ab_list_devices(NULL, devices, COUNT(devices), &count, poisoned_error());
  if (status != AB_OK) failed(status, NULL);
  if (status == AB_OK) CHECK(count >= 3);
  first = done();
  return status == AB_OK ? first : status;
}
