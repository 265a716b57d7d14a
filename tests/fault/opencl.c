/* An OpenCL library that hands every call to the real one, and fails the nth after fault_arm(n, code), or all
 * from then on after fault_lose(n, code). With ARRAYBRIDGE_TEST_NO_DEVICE its platforms have no device.
 * All arguments of these functions are integers and pointers, so each is passed on as fourteen words. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

typedef long word;
typedef word function(word, word, word, word, word, word, word, word, word, word, word, word, word, word);

static long left = -1;
static int all;
static word code_of_failure;
static const char *failed;

void fault_arm(long nth, int code) {
  left = nth;
  all = 0;
  code_of_failure = code;
  failed = NULL;
}

void fault_lose(long nth, int code) {
  fault_arm(nth, code);
  all = 1;
}

/* How often a program was made from source. */
static long compilations;
long fault_compilations(void) { return compilations; }

/* How often a program was built, from source or from what a compiler made. */
static long builds;
long fault_builds(void) { return builds; }

/* Bytes of the largest buffer that was made since this was asked last. */
static long largest;
long fault_largest_buffer(void) {
  long bytes = largest;
  largest = 0;
  return bytes;
}

/* Whether programs are made of what no compiler takes. */
static int spoils;
void fault_spoil(int spoil) { spoils = spoil; }
static const char *spoiled = "this is no program";

/* The name of the first call that failed; NULL: none has. */
const char *fault_fired(void) { return failed; }

static function *real(const char *name) {
  static void *library;
  if (library == NULL) library = dlopen(getenv("ARRAYBRIDGE_TEST_OPENCL"), RTLD_NOW | RTLD_LOCAL);
  void *address = library == NULL ? NULL : dlsym(library, name);
  if (address == NULL) abort();
  function *found;
  *(void **)&found = address;
  return found;
}

static int fails(const char *name) {
  if (left < 0 || left > 0) {
    if (left > 0) left--;
    return 0;
  }
  if (!all) left = -1;
  if (failed == NULL) failed = name;
  return 1;
}

#define PASS(name, failure)                                                                                      \
  word name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l,      \
            word m, word n) {                                                                                    \
    failure return real(#name)(a, b, c, d, e, f, g, h, i, j, k, l, m, n);                                        \
  }
#define STATUS(name) PASS(name, if (fails(#name)) return code_of_failure;)
/* `code` is the argument that takes the status. */
#define MAKES(name, code)                                                                                        \
  PASS(name, if (fails(#name)) {                                                                                 \
    if (code != 0) *(int *)code = (int)code_of_failure;                                                          \
    return 0;                                                                                                    \
  })
#define NEVER(name) PASS(name, )

NEVER(clGetPlatformIDs)
NEVER(clGetPlatformInfo)
PASS(clGetDeviceIDs, if (getenv("ARRAYBRIDGE_TEST_NO_DEVICE") != NULL) return -1;)
STATUS(clGetDeviceInfo)
MAKES(clCreateContext, f)
STATUS(clRetainContext)
NEVER(clReleaseContext)
STATUS(clGetContextInfo)
MAKES(clCreateCommandQueue, d)
NEVER(clReleaseCommandQueue)
STATUS(clGetCommandQueueInfo)
PASS(clCreateBuffer, if (fails("clCreateBuffer")) {
  if (e != 0) *(int *)e = (int)code_of_failure;
  return 0;
} if (c > largest) largest = c;)
STATUS(clRetainMemObject)
NEVER(clReleaseMemObject)
STATUS(clGetMemObjectInfo)
MAKES(clEnqueueMapBuffer, j)
STATUS(clEnqueueUnmapMemObject)
STATUS(clEnqueueReadBuffer)
STATUS(clEnqueueReadBufferRect)
STATUS(clEnqueueWriteBuffer)
STATUS(clEnqueueWriteBufferRect)
STATUS(clEnqueueCopyBuffer)
STATUS(clEnqueueCopyBufferRect)
STATUS(clEnqueueFillBuffer)
STATUS(clEnqueueNativeKernel)
PASS(clCreateProgramWithSource, compilations++; if (spoils) {
  b = 1;
  c = (word)&spoiled;
  d = 0;
} if (fails("clCreateProgramWithSource")) {
  if (e != 0) *(int *)e = (int)code_of_failure;
  return 0;
})
MAKES(clCreateProgramWithBinary, g)
PASS(clBuildProgram, builds++; if (fails("clBuildProgram")) return code_of_failure;)
STATUS(clGetProgramBuildInfo)
STATUS(clGetProgramInfo)
NEVER(clReleaseProgram)
MAKES(clCreateKernel, c)
NEVER(clReleaseKernel)
STATUS(clSetKernelArg)
STATUS(clEnqueueNDRangeKernel)
STATUS(clEnqueueMarkerWithWaitList)
STATUS(clEnqueueBarrierWithWaitList)
STATUS(clFlush)
NEVER(clFinish)
STATUS(clWaitForEvents)
STATUS(clGetEventInfo)
NEVER(clReleaseEvent)
