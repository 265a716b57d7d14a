/* Makes every allocation of OpenCL's ways fail in turn, as memory.c does, on the devices of opencl_device.c: from
 * the first use, where platforms and devices are listed, contexts made and kernels built. And, as "exits N", lets so
 * many processes exit while programs are kept, on whatever devices there are. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../c/check.h"

static ab_status round_0(void), round_1(void), round_2(void);
static ab_status staged(void), mixed(void), packed(void), foreign(void), listed(void);
#define MORE_SCENARIOS \
  {"apart", round_0}, {"native", round_1}, {"mapped", round_2}, {"staged", staged}, {"mixed", mixed}, \
      {"packed", packed}, {"foreign", foreign}, {"listed", listed},
#define main each_allocation
#include "memory.c"
#undef main

#include <poll.h>
#include <sys/stat.h>
#include <time.h>

/* Opened before anything fails: where a path of the linker's has no memory it takes the next one, which may lead
 * to another driver. */
static void *opened;
__attribute__((constructor)) static void open_driver(void) {
  opened = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  CHECK_AT(__FILE__, __LINE__, opened != NULL, "%s", dlerror());
}

/* Of opencl_device.c: what lives there counts like blocks. */
static long objects;
static int counts; /* whether that is the driver */
void object_count(long more) {
  counts = 1;
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

/* What the library keeps for a while it lets go soon: its thread sleeps for a thousandth of the time. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wait, struct timespec *left_over) {
  struct timespec short_wait = *wait;
  if (flags == 0 && (wait->tv_sec > 0 || wait->tv_nsec >= 100000000)) {
    short_wait.tv_sec = 0;
    short_wait.tv_nsec = wait->tv_sec * 1000000 + wait->tv_nsec / 1000;
  }
  return syscall(SYS_clock_nanosleep, clock, flags, &short_wait, left_over) == 0 ? 0 : errno;
}

int nanosleep(const struct timespec *wait, struct timespec *left_over) {
  int code = clock_nanosleep(CLOCK_MONOTONIC, 0, wait, left_over);
  if (code == 0) return 0;
  errno = code;
  return -1;
}

/* ---- contexts that are not the library's ---- */

static struct {
  void *(*create_context)(void *, uint32_t, void **, void *, void *, int32_t *);
  void *(*create_buffer)(void *, uint64_t, size_t, void *, int32_t *);
  int32_t (*get_platforms)(uint32_t, void **, uint32_t *);
  int32_t (*get_devices)(void *, uint64_t, uint32_t, void **, uint32_t *);
  int32_t (*release_context)(void *), (*release_buffer)(void *);
} cl;

/* The devices, of four at most. */
static void find_devices(void *devices[4]) {
  void *platform;
#define DRIVER(place, name) *(void **)&cl.place = dlsym(opened, name)
  DRIVER(create_context, "clCreateContext");
  DRIVER(create_buffer, "clCreateBuffer");
  DRIVER(get_platforms, "clGetPlatformIDs");
  DRIVER(get_devices, "clGetDeviceIDs");
  DRIVER(release_context, "clReleaseContext");
  DRIVER(release_buffer, "clReleaseMemObject");
  CHECK_EQ(cl.get_platforms(1, &platform, NULL), 0);
  CHECK_EQ(cl.get_devices(platform, 0xFFFFFFFF, 4, devices, NULL), 0);
}

/* How many threads this process has. */
static long threads(void) {
  struct stat tasks;
  CHECK_EQ(stat("/proc/self/task", &tasks), 0);
  return (long)tasks.st_nlink - 2;
}

/* Waits until the library has let go of programs, and the thread that does it has ended. */
static void settle(long threads_before) {
  for (int i = 0; i < 20000 && (ADD(objects, 0) > 0 || threads() > threads_before); i++) poll(NULL, 0, 1);
  CHECK_EQ(ADD(objects, 0), 0);
  CHECK_EQ(threads(), threads_before);
}

/* What is converted in a context of ours, on one device: when all is released, nothing of that is left. Device 0 has
 * kernels, whose programs go a little later; on the others all goes with the last tensor. */
static ab_status foreign_on(int id, void **devices) {
  static const int64_t wide[] = {SIZE / 4};
  void *context, *buffer;
  managed *down = NULL, *beside = NULL;
  DLTensor tensor;
  int32_t code;
  long before = threads();
  ab_status status;
  s.deleted = 0;
  context = cl.create_context(NULL, 1, devices + id, NULL, NULL, &code);
  buffer = cl.create_buffer(context, 1, SIZE, bytes, &code);
  source_set(&s, buffer, F32, 1, wide, NULL);
  tensor = s.tensor.dl_tensor;
  tensor.device.device_type = kDLOpenCL;
  tensor.device.device_id = id;
  status = to(NULL, &tensor, kDLCPU, 0, dt(kDLFloat, 16), &down);
  if (status == AB_OK) {
    p_ab_release(down);
    CHECK_EQ(cl.release_buffer(buffer), 0);
    CHECK_EQ(cl.release_context(context), 0);
    /* No result lives there: the library lets it go. */
    if (id == 0) settle(before);
    CHECK_EQ(ADD(objects, 0), 0);
    context = cl.create_context(NULL, 1, devices + id, NULL, NULL, &code);
    buffer = cl.create_buffer(context, 1, SIZE, bytes, &code);
    tensor.data = buffer;
    status = to(NULL, &tensor, kDLOpenCL, id, F32, &beside);
  }
  CHECK_EQ(cl.release_buffer(buffer), 0);
  CHECK_EQ(cl.release_context(context), 0);
  p_ab_release(beside);
  if (id == 0) settle(before);
  CHECK_EQ(ADD(objects, 0), 0);
  return status;
}

static ab_status foreign(void) {
  void *devices[4];
  ab_status status = AB_OK;
  find_devices(devices);
  for (int id = 0; id < 3 && status == AB_OK; id++) status = foreign_on(id, devices);
  return status;
}

/* ---- exits ---- */

/* Converts in a context of its own, of which nothing stays but programs. */
static void convert_abroad(void *device) {
  static uint8_t data[SIZE];
  int64_t shape[] = {SIZE / 4}, strides[] = {1};
  ab_convert_options options = to_dtype(dt(kDLFloat, 16));
  ab_error told = {.struct_size = sizeof told};
  DLTensor tensor = {.device = {kDLOpenCL, 0}, .ndim = 1, .dtype = F32, .shape = shape, .strides = strides};
  managed *beside = NULL;
  int32_t code;
  void *context = cl.create_context(NULL, 1, &device, NULL, NULL, &code);
  ab_status status;
  tensor.data = cl.create_buffer(context, 1 | 32, SIZE, data, &code);
  CHECK_EQ(code, 0);
  options.device = tensor.device;
  status = p_ab_copy(NULL, &tensor, 0, &options, &beside, NULL, &told);
  CHECK_AT(__FILE__, __LINE__, status == AB_OK, "%d: %s", status, told.message);
  p_ab_release(beside);
  CHECK_EQ(cl.release_buffer(tensor.data), 0);
  CHECK_EQ(cl.release_context(context), 0);
}

static pthread_t second;
static int over;

static void *convert_until_over(void *device) {
  while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) convert_abroad(device);
  return NULL;
}

/* A program ends what it does itself before drivers go. */
static void end_second(void) {
  __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
  CHECK_EQ(pthread_join(second, NULL), 0);
}

/* Processes that exit while programs are kept, every second one with a thread that converts until then. When they
 * exit, the library's thread may be at anything; so it may when they fork, and the child
 * converts, where the driver has no threads. */
static int exits(char *path, int count) {
  open_library(path);
  for (int i = 0; i < count; i++) {
    int status = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      void *devices[4];
      alarm(120);
      find_devices(devices);
      convert_abroad(devices[0]);
      if (i % 2 == 1) {
        CHECK_EQ(pthread_create(&second, NULL, convert_until_over, devices[0]), 0);
        CHECK_EQ(atexit(end_second), 0);
      }
      for (int n = 0; n < i % 7; n++) convert_abroad(devices[0]);
      /* The thread lets programs go after a millisecond or so. */
      for (int n = 0; n < i % 40; n++) {
        struct timespec moment = {0, 50000};
        nanosleep(&moment, NULL);
      }
      if (i % 10 < 4 && i % 2 == 0 && counts) {
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) alarm(120);
        if (grandchild == 0) convert_abroad(devices[0]);
        if (grandchild > 0) CHECK_EQ(waitpid(grandchild, &status, 0), grandchild);
        CHECK_EQ(status, 0);
      }
      exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_AT(__FILE__, __LINE__, WIFEXITED(status) && WEXITSTATUS(status) == 0, "exit %d: the child's status is %#x", i,
             status);
  }
  printf("%d exits\n", count);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[2], "exits") == 0) return exits(argv[1], atoi(argv[3]));
  return each_allocation(argc, argv);
}
