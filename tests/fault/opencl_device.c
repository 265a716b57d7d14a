/* An OpenCL library of our own, of four devices in the host's memory: 0 and 3 have memory of their own, 1 is a
 * processor that runs functions of the host, 2 shares the host's memory. It stands behind the kernels as C
 * (src/backend/kernels, with host.h), of which KERNELS lists those that there are. It asks for no memory, so that
 * none of what runs out is its own; tells object_count() of all that lives; and looks at what it gets: handles,
 * their contexts, sizes, and who may touch what. Commands are done at once; programs take a moment to go. When the
 * process exits all of it goes, as what C++ has made when it is loaded. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of whoever loads this: how many objects there are more. */
void object_count(long more) __attribute__((weak));

typedef int32_t code;
typedef uint32_t uint;
typedef uint64_t flags_t;

enum { DEVICES = 4, CONTEXT = 1, QUEUE, BUFFER, EVENT, PROGRAM, KERNEL };
enum { OBJECTS = 4096, ARENA = 192 << 20 };
enum { CL_READ_ONLY = 4, CL_WRITE_ONLY = 2, CL_USE_HOST_PTR = 8, CL_HOST_WRITE_ONLY = 128, CL_HOST_READ_ONLY = 256, CL_HOST_NO_ACCESS = 512 };

typedef struct object object;
struct object {
  void *dispatch;
  int kind, references, device;
  object *context;
  flags_t flags;
  uint8_t *memory;
  size_t size;
  int mapped;
  /* of a kernel */
  kernel_function *run;
  object *buffers[3];
  ab_params params;
};

static object objects[OBJECTS];
static struct {
  int unused;
} devices[DEVICES], platform;
static uint8_t arena[ARENA] __attribute__((aligned(4096)));
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

#define NEED(condition)                                                     \
  do {                                                                      \
    if (!(condition)) {                                                     \
      fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #condition);       \
      abort();                                                              \
    }                                                                       \
  } while (0)

/* It takes a moment, in which whoever is still at it is found. */
static int gone;
static void at_exit(void) {
  __atomic_store_n(&gone, 1, __ATOMIC_SEQ_CST);
  poll(NULL, 0, 5);
}
__attribute__((constructor)) static void at_load(void) { NEED(atexit(at_exit) == 0); }

static object *is(void *handle, int kind) {
  object *o = handle;
  NEED(!__atomic_load_n(&gone, __ATOMIC_SEQ_CST));
  NEED(o >= objects && o < objects + OBJECTS && o->references > 0 && o->kind == kind);
  return o;
}

static int device_of(void *handle) {
  for (int i = 0; i < DEVICES; i++)
    if (handle == &devices[i]) return i;
  NEED(!"a device");
  return -1;
}

static object *retain(object *o) {
  __atomic_add_fetch(&o->references, 1, __ATOMIC_SEQ_CST);
  return o;
}

static object *make(int kind, object *context) {
  object *made = NULL;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < OBJECTS && made == NULL; i++)
    if (objects[i].references == 0) made = &objects[i];
  NEED(made != NULL);
  memset(made, 0, sizeof *made);
  made->kind = kind;
  made->references = 1;
  pthread_mutex_unlock(&lock);
  made->context = context == NULL ? NULL : retain(context);
  if (object_count != NULL) object_count(1);
  return made;
}

static code let_go(object *o) {
  object *context = o->context;
  if (o->kind == PROGRAM) poll(NULL, 0, 1);
  NEED(!__atomic_load_n(&gone, __ATOMIC_SEQ_CST));
  if (o->references == 1) {
    NEED(o->mapped == 0);
    if (object_count != NULL) object_count(-1);
    __atomic_store_n(&o->references, 0, __ATOMIC_SEQ_CST);
    return context == NULL ? 0 : let_go(context);
  }
  __atomic_sub_fetch(&o->references, 1, __ATOMIC_SEQ_CST);
  return 0;
}

/* Room that no buffer has. */
static uint8_t *room(size_t size) {
  uint8_t *at = arena;
  for (int i = 0; i < OBJECTS; i++) {
    object *o = &objects[i];
    if (o->references > 0 && o->kind == BUFFER && at < o->memory + o->size && o->memory < at + size) {
      at = (uint8_t *)(((uintptr_t)(o->memory + o->size) + 255) & ~(uintptr_t)255);
      i = -1;
    }
  }
  return size <= ARENA && (size_t)(at - arena) <= ARENA - size ? at : NULL;
}

static code tell(const void *value, size_t size, size_t room, void *out, size_t *needed) {
  if (needed != NULL) *needed = size;
  if (out == NULL) return 0;
  if (room < size) return -30;
  memcpy(out, value, size);
  return 0;
}
#define SAY(type, v)                                             \
  do {                                                           \
    type value_ = (v);                                           \
    return tell(&value_, sizeof value_, size, out, needed);      \
  } while (0)
#define TEXT(text) return tell(text, strlen(text) + 1, size, out, needed)
#define UNUSED(x) (void)(x)

static void done(object *queue, void **event) {
  if (event != NULL) *event = make(EVENT, queue->context);
}

/* ---- what there is ---- */

code clGetPlatformIDs(uint n, void **out, uint *count) {
  if (out != NULL && n > 0) out[0] = &platform;
  if (count != NULL) *count = 1;
  return 0;
}

code clGetPlatformInfo(void *p, uint what, size_t size, void *out, size_t *needed) {
  NEED(p == &platform);
  UNUSED(what);
  TEXT("OpenCL 1.2 of the tests");
}

code clGetDeviceIDs(void *p, flags_t type, uint n, void **out, uint *count) {
  NEED(p == &platform);
  UNUSED(type);
  for (uint i = 0; out != NULL && i < n && i < DEVICES; i++) out[i] = &devices[i];
  if (count != NULL) *count = DEVICES;
  return 0;
}

code clGetDeviceInfo(void *d, uint what, size_t size, void *out, size_t *needed) {
  int device = device_of(d);
  switch (what) {
  case 0x1000: SAY(uint64_t, device == 1 ? 2 : 4);           /* TYPE: a processor, or a GPU */
  case 0x1004: SAY(size_t, 1024);                            /* MAX_WORK_GROUP_SIZE */
  case 0x101F: SAY(uint64_t, ARENA);                         /* GLOBAL_MEM_SIZE */
  case 0x1026: SAY(uint, 1);                                 /* ENDIAN_LITTLE */
  case 0x1029: SAY(uint64_t, device == 1 ? 3 : 1);           /* EXECUTION_CAPABILITIES */
  case 0x102B: TEXT("a device of the tests");                /* NAME */
  case 0x1035: SAY(uint, device == 1 || device == 2);        /* HOST_UNIFIED_MEMORY */
  default: NEED(!"a known question"); return -30;
  }
}

/* ---- contexts and queues ---- */

void *clCreateContext(const void *properties, uint n, void *const *list, void *notify, void *user, code *status) {
  object *made = make(CONTEXT, NULL);
  UNUSED(properties), UNUSED(notify), UNUSED(user);
  for (uint i = 0; i < n; i++) made->flags |= 1u << device_of(list[i]);
  *status = 0;
  return made;
}

code clRetainContext(void *c) { return retain(is(c, CONTEXT)), 0; }
code clReleaseContext(void *c) { return let_go(is(c, CONTEXT)); }

code clGetContextInfo(void *c, uint what, size_t size, void *out, size_t *needed) {
  object *context = is(c, CONTEXT);
  void *list[DEVICES];
  uint count = 0;
  for (int i = 0; i < DEVICES; i++)
    if (context->flags >> i & 1) list[count++] = &devices[i];
  if (what == 0x1083) SAY(uint, count);
  NEED(what == 0x1081);
  return tell(list, count * sizeof *list, size, out, needed);
}

void *clCreateCommandQueue(void *c, void *d, flags_t properties, code *status) {
  object *made = make(QUEUE, is(c, CONTEXT));
  UNUSED(properties);
  made->device = device_of(d);
  NEED(made->context->flags >> made->device & 1);
  *status = 0;
  return made;
}

code clReleaseCommandQueue(void *q) { return let_go(is(q, QUEUE)); }

code clGetCommandQueueInfo(void *q, uint what, size_t size, void *out, size_t *needed) {
  object *queue = is(q, QUEUE);
  if (what == 0x1090) SAY(void *, queue->context);
  NEED(what == 0x1091);
  SAY(void *, &devices[queue->device]);
}

code clFlush(void *q) { return is(q, QUEUE), 0; }
code clFinish(void *q) { return is(q, QUEUE), 0; }

/* ---- events ---- */

static object *begin(void *q, uint n, void *const *events) {
  object *queue = is(q, QUEUE);
  NEED((n == 0) == (events == NULL));
  for (uint i = 0; i < n; i++) NEED(is(events[i], EVENT)->context == queue->context);
  return queue;
}

code clWaitForEvents(uint n, void *const *events) {
  for (uint i = 0; i < n; i++) is(events[i], EVENT);
  return 0;
}

code clGetEventInfo(void *e, uint what, size_t size, void *out, size_t *needed) {
  is(e, EVENT);
  NEED(what == 0x11D3); /* COMMAND_EXECUTION_STATUS */
  SAY(code, 0);
}

code clReleaseEvent(void *e) { return let_go(is(e, EVENT)); }

code clEnqueueMarkerWithWaitList(void *q, uint n, void *const *events, void **event) {
  return done(begin(q, n, events), event), 0;
}

code clEnqueueBarrierWithWaitList(void *q, uint n, void *const *events, void **event) {
  return done(begin(q, n, events), event), 0;
}

/* ---- buffers ---- */

void *clCreateBuffer(void *c, flags_t flags, size_t size, void *host, code *status) {
  object *context = is(c, CONTEXT), *made;
  uint8_t *memory;
  pthread_mutex_lock(&lock);
  memory = room(size);
  *status = memory == NULL ? -4 : 0;
  made = memory == NULL ? NULL : make(BUFFER, context);
  if (made != NULL) {
    made->memory = memory;
    made->size = size;
    made->flags = flags;
  }
  pthread_mutex_unlock(&lock);
  if (made == NULL) return NULL;
  if (host != NULL) memcpy(memory, host, size);
  return made;
}

code clRetainMemObject(void *m) { return retain(is(m, BUFFER)), 0; }
code clReleaseMemObject(void *m) { return let_go(is(m, BUFFER)); }

code clGetMemObjectInfo(void *m, uint what, size_t size, void *out, size_t *needed) {
  object *buffer = is(m, BUFFER);
  switch (what) {
  case 0x1100: SAY(uint, 0x10F0);
  case 0x1101: SAY(flags_t, buffer->flags);
  case 0x1102: SAY(size_t, buffer->size);
  case 0x1103: SAY(void *, NULL);
  case 0x1106: SAY(void *, buffer->context);
  case 0x1107: SAY(void *, NULL);
  case 0x1108: SAY(size_t, 0);
  default: NEED(!"a known question"); return -30;
  }
}

/* A buffer of a command, of which so many bytes are touched. */
static uint8_t *reach(object *queue, void *m, size_t offset, size_t size) {
  object *buffer = is(m, BUFFER);
  NEED(buffer->context == queue->context && offset <= buffer->size && size <= buffer->size - offset && size > 0);
  return buffer->memory + offset;
}

static code may(void *m, flags_t not) { return is(m, BUFFER)->flags & (not | CL_HOST_NO_ACCESS) ? -59 : 0; }

void *clEnqueueMapBuffer(void *q, void *m, uint blocking, flags_t access, size_t offset, size_t size, uint n,
                         void *const *events, void **event, code *status) {
  object *queue = begin(q, n, events);
  uint8_t *at = reach(queue, m, offset, size);
  UNUSED(blocking);
  *status = may(m, (access & 1 ? CL_HOST_WRITE_ONLY : 0) | (access & 6 ? CL_HOST_READ_ONLY : 0));
  if (*status != 0) return NULL;
  __atomic_add_fetch(&is(m, BUFFER)->mapped, 1, __ATOMIC_SEQ_CST);
  done(queue, event);
  return at;
}

code clEnqueueUnmapMemObject(void *q, void *m, void *at, uint n, void *const *events, void **event) {
  object *queue = begin(q, n, events), *buffer = is(m, BUFFER);
  NEED((uint8_t *)at >= buffer->memory && (uint8_t *)at < buffer->memory + buffer->size && buffer->mapped > 0);
  __atomic_sub_fetch(&buffer->mapped, 1, __ATOMIC_SEQ_CST);
  return done(queue, event), 0;
}

/* Rows of slices, between two first bytes. */
static void rows(uint8_t *to, const uint8_t *from, const size_t *region, size_t to_row, size_t to_slice,
                 size_t from_row, size_t from_slice) {
  for (size_t z = 0; z < region[2]; z++)
    for (size_t y = 0; y < region[1]; y++)
      memcpy(to + z * to_slice + y * to_row, from + z * from_slice + y * from_row, region[0]);
}

/* The first byte of a rectangle of a buffer. */
static uint8_t *corner(object *queue, void *m, const size_t *origin, const size_t *region, size_t row, size_t slice) {
  size_t first = origin[0] + origin[1] * row + origin[2] * slice;
  NEED(row >= region[0] && slice >= row * region[1] && slice % row == 0);
  NEED(origin[0] + region[0] <= row);
  return reach(queue, m, first, (region[2] - 1) * slice + (region[1] - 1) * row + region[0]);
}

code clEnqueueReadBuffer(void *q, void *m, uint blocking, size_t offset, size_t size, void *host, uint n,
                         void *const *events, void **event) {
  object *queue = begin(q, n, events);
  UNUSED(blocking);
  if (may(m, CL_HOST_WRITE_ONLY) != 0) return -59;
  memcpy(host, reach(queue, m, offset, size), size);
  return done(queue, event), 0;
}

code clEnqueueWriteBuffer(void *q, void *m, uint blocking, size_t offset, size_t size, const void *host, uint n,
                          void *const *events, void **event) {
  object *queue = begin(q, n, events);
  UNUSED(blocking);
  if (may(m, CL_HOST_READ_ONLY) != 0) return -59;
  memcpy(reach(queue, m, offset, size), host, size);
  return done(queue, event), 0;
}

code clEnqueueReadBufferRect(void *q, void *m, uint blocking, const size_t *origin, const size_t *host_origin,
                             const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice,
                             void *host, uint n, void *const *events, void **event) {
  object *queue = begin(q, n, events);
  UNUSED(blocking);
  NEED(host_origin[0] == 0 && host_origin[1] == 0 && host_origin[2] == 0);
  if (may(m, CL_HOST_WRITE_ONLY) != 0) return -59;
  rows(host, corner(queue, m, origin, region, row, slice), region, host_row, host_slice, row, slice);
  return done(queue, event), 0;
}

code clEnqueueWriteBufferRect(void *q, void *m, uint blocking, const size_t *origin, const size_t *host_origin,
                              const size_t *region, size_t row, size_t slice, size_t host_row, size_t host_slice,
                              const void *host, uint n, void *const *events, void **event) {
  object *queue = begin(q, n, events);
  UNUSED(blocking);
  NEED(host_origin[0] == 0 && host_origin[1] == 0 && host_origin[2] == 0);
  if (may(m, CL_HOST_READ_ONLY) != 0) return -59;
  rows(corner(queue, m, origin, region, row, slice), host, region, row, slice, host_row, host_slice);
  return done(queue, event), 0;
}

code clEnqueueCopyBuffer(void *q, void *from, void *to, size_t offset, size_t to_offset, size_t size, uint n,
                         void *const *events, void **event) {
  object *queue = begin(q, n, events);
  NEED(from != to);
  memcpy(reach(queue, to, to_offset, size), reach(queue, from, offset, size), size);
  return done(queue, event), 0;
}

code clEnqueueCopyBufferRect(void *q, void *from, void *to, const size_t *origin, const size_t *to_origin,
                             const size_t *region, size_t row, size_t slice, size_t to_row, size_t to_slice, uint n,
                             void *const *events, void **event) {
  object *queue = begin(q, n, events);
  NEED(from != to);
  rows(corner(queue, to, to_origin, region, to_row, to_slice), corner(queue, from, origin, region, row, slice), region,
       to_row, to_slice, row, slice);
  return done(queue, event), 0;
}

code clEnqueueFillBuffer(void *q, void *m, const void *pattern, size_t length, size_t offset, size_t size, uint n,
                         void *const *events, void **event) {
  object *queue = begin(q, n, events);
  NEED(length == 1);
  memset(reach(queue, m, offset, size), *(const uint8_t *)pattern, size);
  return done(queue, event), 0;
}

/* ---- programs and kernels ---- */

static void *program(void *c, code *status) {
  *status = 0;
  return make(PROGRAM, is(c, CONTEXT));
}

void *clCreateProgramWithSource(void *c, uint n, const char **texts, const size_t *sizes, code *status) {
  for (uint i = 0; i < n; i++) NEED(texts[i] != NULL && sizes[i] > 0);
  return program(c, status);
}

void *clCreateProgramWithBinary(void *c, uint n, void *const *list, const size_t *sizes, const uint8_t **binaries,
                                code *one, code *status) {
  NEED(n == 1 && device_of(list[0]) >= 0 && sizes[0] == 6 && memcmp(binaries[0], "binary", 6) == 0);
  *one = 0;
  return program(c, status);
}

code clBuildProgram(void *p, uint n, void *const *list, const char *options, void *notify, void *user) {
  UNUSED(options), UNUSED(notify), UNUSED(user);
  NEED(n == 1 && device_of(list[0]) >= 0);
  return is(p, PROGRAM), 0;
}

code clGetProgramBuildInfo(void *p, void *d, uint what, size_t size, void *out, size_t *needed) {
  UNUSED(what);
  is(p, PROGRAM), device_of(d);
  TEXT("a log");
}

code clGetProgramInfo(void *p, uint what, size_t size, void *out, size_t *needed) {
  object *context = is(p, PROGRAM)->context;
  if (what == 0x1163) return clGetContextInfo(context, 0x1081, size, out, needed);
  if (what == 0x1165) {
    size_t sizes[DEVICES] = {6, 6, 6, 6};
    NEED(size % sizeof *sizes == 0);
    return tell(sizes, size, size, out, needed);
  }
  NEED(what == 0x1166);
  for (size_t i = 0; i < size / sizeof(void *); i++)
    if (((void **)out)[i] != NULL) memcpy(((void **)out)[i], "binary", 6);
  return 0;
}

code clReleaseProgram(void *p) { return let_go(is(p, PROGRAM)); }

void *clCreateKernel(void *p, const char *name, code *status) {
  object *made = NULL;
  for (int i = 0; KERNELS[i].name != NULL; i++) {
    if (strcmp(KERNELS[i].name, name) != 0) continue;
    made = make(KERNEL, is(p, PROGRAM)->context);
    made->run = KERNELS[i].run;
  }
  if (made == NULL) fprintf(stderr, "there is no kernel %s\n", name);
  *status = made == NULL ? -46 : 0;
  return made;
}

code clReleaseKernel(void *k) { return let_go(is(k, KERNEL)); }

code clSetKernelArg(void *k, uint index, size_t size, const void *value) {
  object *kernel = is(k, KERNEL);
  if (index == 3) {
    NEED(size == sizeof kernel->params);
    memcpy(&kernel->params, value, size);
    return 0;
  }
  NEED(index < 3 && size == sizeof(void *));
  kernel->buffers[index] = value == NULL ? NULL : is(*(void *const *)value, BUFFER);
  return 0;
}

code clEnqueueNDRangeKernel(void *q, void *k, uint dims, const size_t *offset, const size_t *items, const size_t *group,
                            uint n, void *const *events, void **event) {
  object *queue = begin(q, n, events), *kernel = is(k, KERNEL), **b = kernel->buffers;
  NEED(dims == 1 && offset == NULL && *group == 256 && *items % *group == 0 && kernel->context == queue->context);
  NEED(!(b[0]->flags & CL_WRITE_ONLY) && !(b[1]->flags & CL_READ_ONLY));
  for (int i = 0; i < 3; i++) NEED(b[i] == NULL || b[i]->context == queue->context);
  for (size_t i = 0; i < *items / *group; i++)
    kernel->run((uint)i, b[0]->memory, b[1]->memory, b[2] == NULL ? NULL : (u32 *)b[2]->memory, kernel->params);
  return done(queue, event), 0;
}

code clEnqueueNativeKernel(void *q, void (*run)(void *), void *arguments, size_t size, uint count, void *const *list,
                           void **places, uint n, void *const *events, void **event) {
  object *queue = begin(q, n, events);
  uint8_t copy[256];
  NEED(queue->device == 1 && size <= sizeof copy && count >= 1);
  memcpy(copy, arguments, size);
  for (uint i = 0; i < count; i++) {
    size_t at = (size_t)((uint8_t *)places[i] - (uint8_t *)arguments);
    NEED(at + sizeof(void *) <= size && *(void *const *)places[i] == list[i]);
    memcpy(copy + at, &is(list[i], BUFFER)->memory, sizeof(void *));
  }
  run(copy);
  return done(queue, event), 0;
}
