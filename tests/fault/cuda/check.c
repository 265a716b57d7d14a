/* Checks that the fake driver is as strict as it is meant to be: a mistake in its use is seen. */
#define _GNU_SOURCE
#include "fake.h"
#include "kernels.h"

#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                                          \
  do {                                                                                                       \
    if (!(what)) return fprintf(stderr, "check.c:%d: %s\n", __LINE__, #what), 1;                              \
  } while (0)

CUresult cuInit(unsigned), cuDeviceGetCount(int *), cuDevicePrimaryCtxRetain(CUcontext *, CUdevice),
    cuCtxPushCurrent_v2(CUcontext), cuCtxPopCurrent_v2(CUcontext *), cuCtxGetCurrent(CUcontext *),
    cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemFree_v2(CUdeviceptr), cuMemHostAlloc(void **, size_t, unsigned),
    cuMemFreeHost(void *), cuMemAllocAsync(CUdeviceptr *, size_t, CUstream), cuMemFreeAsync(CUdeviceptr, CUstream),
    cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream), cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t),
    cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t),
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream), cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream),
    cuStreamCreate(CUstream *, unsigned), cuStreamSynchronize(CUstream), cuStreamQuery(CUstream), cuStreamDestroy_v2(CUstream),
    cuStreamWaitEvent(CUstream, CUevent, unsigned), cuEventCreate(CUevent *, unsigned), cuEventDestroy_v2(CUevent),
    cuEventRecord(CUevent, CUstream), cuEventSynchronize(CUevent), cuEventQuery(CUevent),
    cuStreamBeginCapture_v2(CUstream, int), cuStreamEndCapture(CUstream, CUgraph *), cuStreamIsCapturing(CUstream, int *),
    cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long), cuGraphLaunch(CUgraphExec, CUstream),
    cuGraphDestroy(CUgraph), cuGraphExecDestroy(CUgraphExec), cuModuleLoadData(CUmodule *, const void *),
    cuModuleGetFunction(CUfunction *, CUmodule, const char *), cuModuleUnload(CUmodule), cuCtxSynchronize(void),
    cuLaunchHostFunc(CUstream, void (*)(void *), void *), cuPointerGetAttributes(unsigned, int *, void **, CUdeviceptr),
    cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
                   void **);
void fake_fail(long, int, int, const char *);
const char *fake_failed(void), *fake_complaints(void), *fake_log(void);
void fake_log_start(void), fake_shut_down(int);
long fake_live(int);
int fake_peek(void *, uint64_t, size_t);

/* A kernel that reverses a block through shared memory, and one that writes where it is told. */
static void reverse(void **parameters) {
  static int shared[256];
  int *data = *(int **)parameters[0];
  unsigned me = fake_thread.thread[0], count = fake_thread.threads[0];
  shared[me] = data[fake_thread.block[0] * count + me];
  fake_barrier();
  data[fake_thread.block[0] * count + me] = shared[count - 1 - me];
}

static void poke(void **parameters) {
  char *data = *(char **)parameters[0];
  data[*(int64_t *)parameters[1]] = 1;
}

const struct fake_kernel fake_kernels[] = {{"reverse", reverse}, {"poke", poke}, {NULL, NULL}};

static const char PTX[] = ".version 4.0\n.target sm_50\n.address_size 64\n"
                          ".visible .entry reverse(\n\t.param .u64 reverse_param_0\n)\n{\n\tbar.sync 0;\n}\n"
                          ".visible .entry poke(\n\t.param .u64 poke_param_0,\n\t.param .align 8 .b8 poke_param_1[8]\n)\n{\n}\n";

static int touch(uint64_t address) { /* in a child, which may die of it */
  pid_t child = fork();
  if (child == 0) {
    *(volatile char *)address = 1;
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

static void call_driver(void *seen) { *(CUresult *)seen = cuCtxSynchronize(); }

int main(void) {
  CUcontext context, popped;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == NOT_INITIALIZED);
  CHECK(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0);
  CUdeviceptr a, b;
  CHECK(cuMemAlloc_v2(&a, 64) == INVALID_CONTEXT);
  CHECK(cuCtxPushCurrent_v2(context) == 0 && cuMemAlloc_v2(&a, 64) == 0 && cuMemAlloc_v2(&b, 1024) == 0);
  CHECK(touch(a));

  /* What is in a stream runs when it is waited for. */
  CUstream first, second;
  CUevent event;
  CHECK(cuStreamCreate(&first, 1) == 0 && cuStreamCreate(&second, 1) == 0 && cuEventCreate(&event, 2) == 0);
  char seen[64], *pinned;
  CHECK(cuMemHostAlloc((void **)&pinned, 64, 0) == 0);
  memset(pinned, 7, 64);
  CHECK(cuMemcpyHtoDAsync_v2(a, pinned, 64, first) == 0);
  CHECK(fake_peek(seen, a, 64) == 0 && seen[0] == (char)0xa5);
  CHECK(cuMemcpyDtoHAsync_v2(seen, a, 64, second) == 0 && seen[0] == (char)0xa5);
  CHECK(cuEventRecord(event, first) == 0 && cuStreamWaitEvent(second, event, 0) == 0);
  CHECK(cuMemcpyDtoHAsync_v2(seen, a, 64, second) == 0 && seen[0] == 7);
  /* Pinned memory is read when the copy runs; pageable memory when it is called. */
  CHECK(cuMemcpyHtoDAsync_v2(a, pinned, 64, first) == 0);
  memset(pinned, 8, 64);
  CHECK(cuStreamQuery(first) == NOT_READY && cuStreamQuery(first) == 0);
  CHECK(fake_peek(seen, a, 64) == 0 && seen[63] == 8);
  memset(seen, 9, 64);
  CHECK(cuMemcpyHtoDAsync_v2(a, seen, 64, first) == 0);
  memset(seen, 10, 64);
  CHECK(cuEventRecord(event, first) == 0 && cuEventQuery(event) == NOT_READY && cuEventSynchronize(event) == 0);
  CHECK(fake_peek(seen, a, 64) == 0 && seen[63] == 9);
  /* The legacy stream waits for those that block, not for others. */
  CUstream blocking;
  CHECK(cuStreamCreate(&blocking, 0) == 0);
  CHECK(cuMemsetD8Async(a, 1, 32, blocking) == 0 && cuMemsetD8Async(a + 32, 1, 32, first) == 0);
  CHECK(cuMemcpyDtoH_v2(seen, a, 64) == 0 && seen[0] == 1 && seen[63] == 9);
  CHECK(cuStreamSynchronize(first) == 0);
  CHECK(cuMemcpyHtoDAsync_v2(a + 1, seen, 64, first) == INVALID_VALUE);

  /* Memory of a pool is there from its allocation to its release, in the order of its stream. */
  CUdeviceptr c;
  CHECK(cuMemAllocAsync(&c, 16, first) == 0 && cuMemsetD8Async(c, 3, 16, first) == 0);
  CHECK(cuMemFreeAsync(c, first) == 0 && cuStreamSynchronize(first) == 0 && fake_peek(seen, c, 16) != 0);
  CHECK(cuMemAllocAsync(&c, 16, first) == 0 && cuMemcpyDtoHAsync_v2(seen, c, 16, second) == ILLEGAL_ADDRESS);
  CHECK(cuStreamSynchronize(first) == ILLEGAL_ADDRESS);
  fake_fail(-1, 0, 0, NULL);
  CHECK(cuMemFreeAsync(c, first) == 0 && cuStreamSynchronize(first) == 0);

  /* Kernels. */
  CUmodule module;
  CUfunction function;
  CHECK(cuModuleLoadData(&module, "not PTX") == INVALID_PTX && cuModuleLoadData(&module, PTX) == 0);
  CHECK(cuModuleGetFunction(&function, module, "none") == NOT_FOUND);
  CHECK(cuModuleGetFunction(&function, module, "reverse") == 0);
  int numbers[256];
  for (int i = 0; i < 256; i++) numbers[i] = i;
  CHECK(cuMemcpyHtoD_v2(b, numbers, 1024) == 0);
  void *one[] = {&b};
  CHECK(cuLaunchKernel(function, 2, 1, 1, 2048, 1, 1, 0, first, one, NULL) == INVALID_VALUE);
  CHECK(cuLaunchKernel(function, 2, 1, 1, 128, 1, 1, 0, first, one, NULL) == 0 && cuStreamSynchronize(first) == 0);
  CHECK(cuMemcpyDtoH_v2(numbers, b, 1024) == 0 && numbers[0] == 127 && numbers[127] == 0 && numbers[128] == 255);
  CHECK(strstr(fake_complaints(), "reverse") == NULL);
  CHECK(cuModuleGetFunction(&function, module, "poke") == 0);
  int64_t at = 64;
  void *two[] = {&a, &at};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, first, two, NULL) == 0 && cuStreamSynchronize(first) == 0);
  CHECK(strstr(fake_complaints(), "byte 64 of an allocation of 64 bytes") != NULL);
  at = 1ll << 40;
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, first, two, NULL) == 0);
  CHECK(cuStreamSynchronize(first) == ILLEGAL_ADDRESS && strstr(fake_complaints(), "poke touched") != NULL);
  fake_fail(-1, 0, 0, NULL);
  CHECK(touch(b));

  /* Graphs. */
  CUgraph graph;
  CUgraphExec exec;
  int status;
  CHECK(cuStreamBeginCapture_v2(first, 0) == 0);
  CHECK(cuMemsetD8Async(a, 4, 64, first) == 0 && cuEventRecord(event, first) == 0);
  CHECK(cuStreamWaitEvent(second, event, 0) == 0 && cuMemcpyDtoDAsync_v2(b, a, 64, second) == 0);
  CHECK(cuEventRecord(event, second) == 0 && cuStreamWaitEvent(first, event, 0) == 0);
  CHECK(cuStreamIsCapturing(second, &status) == 0 && status == 1);
  CHECK(cuStreamEndCapture(first, &graph) == 0 && cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
  CHECK(fake_peek(seen, b, 64) == 0 && seen[0] == 127);
  CHECK(cuGraphLaunch(exec, first) == 0 && cuStreamSynchronize(first) == 0);
  CHECK(fake_peek(seen, b, 64) == 0 && seen[0] == 4);
  CHECK(cuGraphExecDestroy(exec) == 0 && cuGraphDestroy(graph) == 0);
  CHECK(cuStreamBeginCapture_v2(first, 0) == 0 && cuStreamSynchronize(first) == CAPTURE_UNSUPPORTED);
  CHECK(cuMemsetD8Async(a, 4, 64, first) == CAPTURE_INVALIDATED && cuStreamEndCapture(first, &graph) == CAPTURE_INVALIDATED);
  CHECK(cuStreamBeginCapture_v2(first, 0) == 0 && cuMemAlloc_v2(&c, 8) == CAPTURE_UNSUPPORTED);
  CHECK(cuStreamEndCapture(first, &graph) == CAPTURE_INVALIDATED);
  CHECK(cuEventRecord(event, second) == 0 && cuStreamBeginCapture_v2(first, 0) == 0);
  CHECK(cuStreamWaitEvent(first, event, 0) == CAPTURE_ISOLATION && cuStreamEndCapture(first, &graph) == CAPTURE_INVALIDATED);
  CHECK(cuStreamBeginCapture_v2(blocking, 0) == 0 && cuMemcpyDtoH_v2(seen, a, 64) == CAPTURE_IMPLICIT);
  CHECK(cuStreamEndCapture(blocking, &graph) == CAPTURE_INVALIDATED);
  CHECK(cuStreamBeginCapture_v2(first, 0) == 0 && cuEventRecord(event, first) == 0);
  CHECK(cuStreamWaitEvent(second, event, 0) == 0 && cuMemsetD8Async(a, 4, 64, second) == 0);
  CHECK(cuStreamEndCapture(first, &graph) == CAPTURE_UNJOINED);

  /* Callbacks may not call the driver. */
  CUresult inside = 0;
  CHECK(cuLaunchHostFunc(first, call_driver, &inside) == 0 && cuStreamSynchronize(first) == 0);
  CHECK(inside == NOT_PERMITTED);

  /* What a pointer is. */
  int attributes[] = {1, 2, 8, 9, 11, 12};
  CUcontext of;
  unsigned type = 9, managed = 9;
  int ordinal = 9;
  uint64_t start;
  size_t size;
  void *values[] = {&of, &type, &managed, &ordinal, &start, &size};
  CHECK(cuPointerGetAttributes(6, attributes, values, a + 5) == 0);
  CHECK(of == context && type == 2 && managed == 0 && ordinal == 0 && start == a && size == 64);
  CHECK(cuPointerGetAttributes(6, attributes, values, (uint64_t)numbers) == 0 && of == NULL && type == 0 && size == 0);

  /* Failures, the log, and the end. */
  fake_fail(1, 719, 0, NULL);
  CHECK(cuStreamSynchronize(first) == 0 && cuStreamSynchronize(first) == 719 && cuStreamSynchronize(first) == 0);
  CHECK(strcmp(fake_failed(), "cuStreamSynchronize") == 0);
  fake_fail(0, 719, 1, "cuMemcpyDtoH_v2");
  fake_log_start();
  CHECK(cuStreamSynchronize(first) == 0 && cuMemcpyDtoH_v2(seen, a, 64) == 719 && cuStreamSynchronize(first) == 719);
  CHECK(strcmp(fake_log(), "cuStreamSynchronize\ncuMemcpyDtoH_v2 -> 719\ncuStreamSynchronize -> 719") == 0);
  fake_fail(-1, 0, 0, NULL);
  CHECK(cuMemFree_v2(a) == 0 && cuMemFree_v2(b) == 0 && cuMemFree_v2(b) == INVALID_VALUE && cuMemFreeHost(pinned) == 0);
  CHECK(cuStreamDestroy_v2(first) == 0 && cuStreamDestroy_v2(first) == INVALID_HANDLE && cuStreamDestroy_v2(second) == 0);
  CHECK(cuStreamDestroy_v2(blocking) == 0 && cuEventDestroy_v2(event) == 0 && cuModuleUnload(module) == 0);
  for (int kind = DEVICE_BLOCKS; kind <= MODULES; kind++) CHECK(fake_live(kind) == 0);
  CHECK(cuCtxPopCurrent_v2(&popped) == 0 && popped == context && cuCtxGetCurrent(&popped) == 0 && popped == NULL);
  pid_t child = fork();
  if (child == 0) _exit(cuCtxGetCurrent(&popped) == NOT_INITIALIZED ? 0 : 1);
  waitpid(child, &status, 0);
  CHECK(status == 0);
  fake_shut_down(1);
  CHECK(cuCtxGetCurrent(&popped) == DEINITIALIZED);
  return 0;
}
