/* Devices, contexts, and which of them is current. */
#include "fake.h"

int device_count;

static struct context *contexts;
static struct context *primaries[MAX_DEVICES];

#define STACK 32
static _Thread_local CUcontext stack[STACK];
static _Thread_local int depth;

bool device_exists(CUdevice device) { return device >= 0 && device < device_count; }

int capability(void) { return (int)setting("FAKE_CUDA_CAPABILITY", 90); }

static CUcontext new_context(int device, bool primary) {
  CUcontext context = calloc(1, sizeof *context);
  if (context == NULL) abort();
  context->device = device, context->primary = primary;
  context->peers[device] = true;
  context->next = contexts, contexts = context;
  live[CONTEXTS]++;
  return context;
}

bool is_context(CUcontext context) {
  for (CUcontext one = contexts; one != NULL; one = one->next)
    if (one == context) return !one->destroyed && (!one->primary || one->retained > 0);
  return false;
}

CUresult current_context(CUcontext *context) {
  *context = depth == 0 ? NULL : stack[depth - 1];
  return is_context(*context) ? 0 : INVALID_CONTEXT;
}

/* ---- devices ---------------------------------------------------------------------------------- */

CUresult cuDeviceGetCount(int *count) {
  MAY_FAIL;
  if (count == NULL) return INVALID_VALUE;
  *count = device_count;
  return 0;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  MAY_FAIL;
  if (device == NULL) return INVALID_VALUE;
  if (!device_exists(ordinal)) return INVALID_DEVICE;
  *device = ordinal;
  return 0;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  if (name == NULL || size <= 0) return INVALID_VALUE;
  snprintf(name, (size_t)size, "Fake GPU %d", device);
  return 0;
}

CUresult cuDeviceGetUuid(unsigned char *uuid, CUdevice device) {
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  memset(uuid, 0xfa, 16);
  uuid[15] = (unsigned char)device;
  return 0;
}

CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  memset(uuid, 0xfa, 16);
  uuid[15] = (unsigned char)device;
  return 0;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  if (value == NULL) return INVALID_VALUE;
  switch (attribute) {
  case 1: /* threads of a block */
  case 2: /* and of its axes */
  case 3: *value = 1024; return 0;
  case 4: *value = 64; return 0;
  case 5: *value = 0x7fffffff; return 0; /* blocks of the axes of a grid */
  case 6:
  case 7: *value = 65535; return 0;
  case 8: *value = 49152; return 0;       /* shared memory of a block */
  case 10: *value = 32; return 0;         /* warp */
  case 11: *value = 0x7fffffff; return 0; /* pitch */
  case 13: *value = 1000000; return 0;    /* kHz */
  case 14: *value = 512; return 0;        /* alignment of textures */
  case 15:
  case 40: *value = 2; return 0; /* copy engines */
  case 16: *value = 4; return 0; /* multiprocessors */
  case 18: *value = 0; return 0; /* integrated */
  case 19: *value = 1; return 0; /* maps host memory */
  case 20: *value = 0; return 0; /* compute mode */
  case 31:
  case 41: *value = 1; return 0;              /* concurrent kernels; unified addresses */
  case 33: *value = 1 + device; return 0;     /* PCI bus, device, domain */
  case 34:
  case 50: *value = 0; return 0;
  case 38: *value = 1 << 20; return 0;        /* second-level cache */
  case 39: *value = 2048; return 0;           /* threads of a multiprocessor */
  case 75: *value = capability() / 10; return 0;
  case 76: *value = capability() % 10; return 0;
  case 78: *value = 1; return 0; /* stream priorities */
  case 83:
  case 89: *value = 1; return 0; /* managed memory, concurrently */
  case 88: *value = (int)setting("FAKE_CUDA_PAGEABLE", 0); return 0;
  case 91: *value = 1; return 0; /* registered memory by its own address */
  case 100: *value = (int)setting("FAKE_CUDA_HOST_TABLES", 0); return 0;
  case 102: *value = 1; return 0; /* virtual memory management */
  case 115: *value = (int)setting("FAKE_CUDA_POOLS", 1); return 0;
  default: return attribute <= 0 || attribute > 200 ? INVALID_VALUE : (*value = 0, 0);
  }
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  MAY_FAIL;
  if (!device_exists(device) || !device_exists(peer)) return INVALID_DEVICE;
  *can = device != peer && setting("FAKE_CUDA_P2P", 1);
  return 0;
}

CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice source, CUdevice destination) {
  MAY_FAIL;
  if (!device_exists(source) || !device_exists(destination) || source == destination) return INVALID_DEVICE;
  *value = attribute == 1 ? 0 : setting("FAKE_CUDA_P2P", 1) != 0;
  return 0;
}

/* ---- contexts --------------------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  if (context == NULL) return INVALID_VALUE;
  if (primaries[device] == NULL) primaries[device] = new_context(device, true);
  primaries[device]->retained++;
  live[RETAINED]++;
  *context = primaries[device];
  return 0;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  SURE;
  if (!device_exists(device)) return INVALID_DEVICE;
  if (primaries[device] == NULL || primaries[device]->retained == 0) return INVALID_CONTEXT;
  primaries[device]->retained--;
  live[RETAINED]--;
  return 0;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  *flags = 0;
  *active = primaries[device] != NULL && primaries[device]->retained > 0;
  return 0;
}

static CUresult push(CUcontext context) {
  if (!is_context(context)) return INVALID_CONTEXT;
  if (depth == STACK) return OUT_OF_MEMORY;
  stack[depth++] = context;
  return 0;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
  (void)flags;
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  *context = new_context(device, false);
  return push(*context);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  SURE;
  if (!is_context(context) || context->primary) return INVALID_CONTEXT;
  TRY(finish_context(context));
  context->destroyed = true;
  live[CONTEXTS]--;
  if (depth > 0 && stack[depth - 1] == context) depth--;
  return 0;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  MAY_FAIL;
  return push(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  SURE;
  if (depth == 0) return INVALID_CONTEXT;
  depth--;
  if (context != NULL) *context = stack[depth];
  return 0;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  MAY_FAIL;
  if (context == NULL) {
    if (depth > 0) depth--;
    return 0;
  }
  if (!is_context(context)) return INVALID_CONTEXT;
  if (depth == 0) return push(context);
  stack[depth - 1] = context;
  return 0;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  MAY_FAIL;
  *context = depth == 0 ? NULL : stack[depth - 1];
  return 0;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  MAY_FAIL;
  CUcontext context;
  TRY(current_context(&context));
  *device = context->device;
  return 0;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  MAY_FAIL;
  CUcontext context;
  TRY(current_context(&context));
  if (least != NULL) *least = 0;
  if (greatest != NULL) *greatest = -5;
  return 0;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  MAY_FAIL;
  CUcontext context;
  TRY(current_context(&context));
  if (!is_context(peer) || flags != 0) return INVALID_VALUE;
  if (peer->device == context->device) return INVALID_DEVICE;
  if (!setting("FAKE_CUDA_P2P", 1)) return PEER_ACCESS_UNSUPPORTED;
  if (context->peers[peer->device]) return PEER_ACCESS_ALREADY_ENABLED;
  context->peers[peer->device] = true;
  return 0;
}

CUresult cuCtxSynchronize(void) {
  MAY_FAIL;
  CUcontext context;
  TRY(current_context(&context));
  return finish_context(context);
}

/* ---- names of errors -------------------------------------------------------------------------- */

static const struct { CUresult code; const char *name; } NAMES[] = {
    {0, "CUDA_SUCCESS"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
    {DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED"},
    {34, "CUDA_ERROR_STUB_LIBRARY"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
    {UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
    {NOT_READY, "CUDA_ERROR_NOT_READY"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
    {HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
    {CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
    {CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
    {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT"},
    {CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
};

/* Answers at any time, and of codes that a test has made up too: not. */
CUresult cuGetErrorName(CUresult code, const char **name) {
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
    if (NAMES[i].code == code) return *name = NAMES[i].name, 0;
  *name = NULL;
  return INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text) { return cuGetErrorName(code, text); }
