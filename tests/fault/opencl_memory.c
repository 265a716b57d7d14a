/* Makes every allocation of OpenCL's ways fail in turn, as memory.c does, on the devices of opencl_device.c: from
 * the first use, where platforms and devices are listed, contexts made and kernels built. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../c/check.h"

static ab_status round_0(void), round_1(void), round_2(void);
static ab_status staged(void), mixed(void), packed(void), foreign(void), listed(void);
#define MORE_SCENARIOS \
  {"apart", round_0}, {"native", round_1}, {"mapped", round_2}, {"staged", staged}, {"mixed", mixed}, \
      {"packed", packed}, {"foreign", foreign}, {"listed", listed},
#include "memory.c"

/* Opened before anything fails: where a path of the linker's has no memory it takes the next one, which may lead
 * to another driver. */
static void *opened;
__attribute__((constructor)) static void open_driver(void) {
  opened = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  CHECK_AT(__FILE__, __LINE__, opened != NULL, "%s", dlerror());
}

/* Of opencl_device.c: what lives there counts like blocks. */
static long objects;
void object_count(long more) {
  ADD(live, more);
  ADD(objects, more);
}

enum { ROWS = 300, COLUMNS = 200, SIZE = ROWS * COLUMNS };
static const int64_t SHAPE[] = {ROWS, COLUMNS}, TURNED[] = {COLUMNS, ROWS}, TURNED_STRIDES[] = {1, COLUMNS};

/* A new tensor of a borrowed one, on a device. */
static ab_status to(ab_context *context, const DLTensor *from, int type, int id, DLDataType dtype, managed **out) {
  ab_convert_options options = keep_all();
  ab_status status;
  options.device.device_type = (DLDeviceType)type;
  options.device.device_id = id;
  options.dtype = dtype;
  *out = NULL;
  status = p_ab_copy(context, from, 0, &options, out, &report, poisoned_error());
  return status == AB_OK ? AB_OK : failed(status, *out);
}

/* All of them, or an error: never a part. */
static ab_status listed(void) {
  ab_device_info list[16] = {{.struct_size = sizeof *list}};
  size_t count = 0, found = 0;
  ab_status status = p_ab_list_devices(NULL, list, COUNT(list), &count, poisoned_error());
  s.deleted = 0;
  if (status != AB_OK) return failed(status, NULL);
  for (size_t i = 0; i < count; i++) found += list[i].device.device_type == kDLOpenCL;
  CHECK_EQ(found, 4);
  return AB_OK;
}

/* Of few and small slots, so that jobs have several parts. */
static ab_status small_ring(ab_context **out) {
  ab_context_options options = {sizeof options, 1, 256 << 10};
  ab_status status;
  *out = NULL;
  s.deleted = 0;
  status = p_ab_context_create(&options, out, poisoned_error());
  return status == AB_OK ? AB_OK : failed(status, *out);
}

/* Up as float32, turned round on the way to a second device or on the first one, and down again. */
static ab_status there_and_back(int first, int second) {
  managed *up = NULL, *turned = NULL, *down = NULL;
  ab_context *context;
  DLTensor view;
  ab_status status = small_ring(&context);
  if (status != AB_OK) return status;
  source_set(&s, bytes, U8, 2, SHAPE, NULL);
  status = to(context, &s.tensor.dl_tensor, kDLOpenCL, first, F32, &up);
  if (status == AB_OK) {
    view = up->dl_tensor;
    view.shape = (int64_t *)TURNED;
    view.strides = (int64_t *)TURNED_STRIDES;
    status = to(context, &view, kDLOpenCL, second, F32, &turned);
  }
  if (status == AB_OK) {
    if (first != second) CHECK_EQ(report.route, AB_ROUTE_STAGED);
    status = to(context, &turned->dl_tensor, kDLCPU, 0, U8, &down);
  }
  if (status == AB_OK)
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < COLUMNS; j++)
        CHECK_EQ(((uint8_t *)down->dl_tensor.data)[j * ROWS + i], (i * COLUMNS + j) & 0xFF);
  p_ab_release(up);
  p_ab_release(turned);
  p_ab_release(down);
  p_ab_context_release(context);
  return status;
}

static ab_status round_0(void) { return there_and_back(0, 0); }
static ab_status round_1(void) { return there_and_back(1, 1); }
static ab_status round_2(void) { return there_and_back(2, 2); }
static ab_status staged(void) { return there_and_back(0, 3); }
static ab_status mixed(void) {
  ab_status status = there_and_back(0, 1);
  return status == AB_OK ? there_and_back(2, 3) : status;
}

/* Every second element of four bits, into a buffer where others stay as they are. */
static ab_status packed(void) {
  const DLDataType f4 = dt(kDLFloat4_e2m1fn, 4);
  static const int64_t all[] = {SIZE}, half[] = {SIZE / 2}, second[] = {2};
  managed *up = NULL, *down = NULL;
  ab_context *context;
  DLTensor view, piece;
  ab_status status = small_ring(&context);
  if (status != AB_OK) return status;
  source_set(&s, bytes, f4, 1, all, NULL);
  status = to(context, &s.tensor.dl_tensor, kDLOpenCL, 0, f4, &up);
  if (status == AB_OK) {
    piece = s.tensor.dl_tensor;
    piece.shape = (int64_t *)half;
    piece.data = bytes + 1;
    view = up->dl_tensor;
    view.shape = (int64_t *)half;
    view.strides = (int64_t *)second;
    status = p_ab_copy_into(context, &piece, 0, &view, 0, NULL, &report, poisoned_error());
    if (status != AB_OK) failed(status, NULL);
  }
  if (status == AB_OK) status = to(context, &up->dl_tensor, kDLCPU, 0, f4, &down);
  if (status == AB_OK)
    for (int i = 0; i < SIZE / 2; i++) {
      uint8_t low = bytes[1 + i / 2] >> (4 * (i % 2)) & 15;
      CHECK_EQ(((uint8_t *)down->dl_tensor.data)[i], (bytes[i] & 0xF0) | low);
    }
  p_ab_release(up);
  p_ab_release(down);
  p_ab_context_release(context);
  return status;
}

/* A buffer of a context that is not the library's: when all is released, nothing of that is left. */
static ab_status foreign(void) {
  static void *library, *(*create_context)(void *, uint32_t, void **, void *, void *, int32_t *);
  static void *(*create_buffer)(void *, uint64_t, size_t, void *, int32_t *);
  static int32_t (*get_devices)(void *, uint64_t, uint32_t, void **, uint32_t *);
  static int32_t (*release_context)(void *), (*release_buffer)(void *);
  static const int64_t wide[] = {SIZE / 4};
  void *devices[4], *context, *buffer;
  managed *down = NULL, *beside = NULL;
  DLTensor tensor;
  int32_t code;
  ab_status status;
  if (library == NULL) {
    library = opened;
    *(void **)&create_context = dlsym(library, "clCreateContext");
    *(void **)&create_buffer = dlsym(library, "clCreateBuffer");
    *(void **)&get_devices = dlsym(library, "clGetDeviceIDs");
    *(void **)&release_context = dlsym(library, "clReleaseContext");
    *(void **)&release_buffer = dlsym(library, "clReleaseMemObject");
  }
  s.deleted = 0;
  {
    void *platform;
    int32_t (*get_platforms)(uint32_t, void **, uint32_t *);
    *(void **)&get_platforms = dlsym(library, "clGetPlatformIDs");
    CHECK_EQ(get_platforms(1, &platform, NULL), 0);
    CHECK_EQ(get_devices(platform, ~0ull, 4, devices, NULL), 0);
  }
  context = create_context(NULL, 1, devices, NULL, NULL, &code);
  buffer = create_buffer(context, 1, SIZE, bytes, &code);
  source_set(&s, buffer, F32, 1, wide, NULL);
  tensor = s.tensor.dl_tensor;
  tensor.device.device_type = kDLOpenCL;
  status = to(NULL, &tensor, kDLCPU, 0, dt(kDLFloat, 16), &down);
  if (status == AB_OK) {
    p_ab_release(down);
    CHECK_EQ(release_buffer(buffer), 0);
    CHECK_EQ(release_context(context), 0);
    /* No result lives there: the library has let it go. */
    CHECK_EQ(objects, 0);
    context = create_context(NULL, 1, devices, NULL, NULL, &code);
    buffer = create_buffer(context, 1, SIZE, bytes, &code);
    tensor.data = buffer;
    status = to(NULL, &tensor, kDLOpenCL, 0, F32, &beside);
  }
  CHECK_EQ(release_buffer(buffer), 0);
  CHECK_EQ(release_context(context), 0);
  p_ab_release(beside);
  CHECK_EQ(objects, 0);
  return status;
}
