/* What the parts of the fake driver share. The names, numbers and layouts of the driver's own interface are
 * those of CUDA's public documentation; nothing of NVIDIA's is included. */
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)

/* Past what a test has put before the C library's: this memory is not the program's to fail. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
#define malloc __libc_malloc
#define calloc __libc_calloc
#define realloc __libc_realloc
#define free __libc_free

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef struct pool *CUmemoryPool;
typedef struct graph *CUgraph, *CUgraphExec;

enum {
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  DEINITIALIZED = 4,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209,
  PEER_ACCESS_UNSUPPORTED = 217,
  INVALID_PTX = 218,
  UNSUPPORTED_PTX_VERSION = 222,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  OUT_OF_RESOURCES = 701,
  PEER_ACCESS_ALREADY_ENABLED = 704,
  HOST_MEMORY_ALREADY_REGISTERED = 712,
  HOST_MEMORY_NOT_REGISTERED = 713,
  MISALIGNED_ADDRESS = 716,
  NOT_PERMITTED = 800,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_MERGE = 902,
  CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904,
  CAPTURE_ISOLATION = 905,
  CAPTURE_IMPLICIT = 906,
  CAPTURED_EVENT = 907,
  CAPTURE_WRONG_THREAD = 908,
};

#define MAX_DEVICES 8
#define LEGACY ((CUstream)1)
#define PER_THREAD ((CUstream)2)

/* ---- control.c: locks, failures, the log ------------------------------------------------------ */

CUresult enter(const char *name, bool may_fail);
void leave(int *entered);
/* Complains once about what no driver would notice, but a test must. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Adds to the log. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What has broken a device: every later call fails with it. */
void stick(CUresult code);
/* A whole number from the environment. */
long setting(const char *name, long otherwise);
/* Marks the thread as one of the driver's, which may not call it. */
void enter_callback(void);

/* Begins every function of the driver; `MAY_FAIL` ones are made to fail in turn, `SURE` ones are releases
 * and questions whose failure leaves a program nothing to do. */
#define CALL(name, may_fail)                                                                                 \
  CUresult call_code = enter(name, may_fail);                                                                \
  if (call_code) return call_code;                                                                           \
  __attribute__((cleanup(leave), unused)) int entered = 1
#define MAY_FAIL CALL(__func__, true)
#define SURE CALL(__func__, false)
#define TRY(expression)                                                                                      \
  do {                                                                                                       \
    CUresult try_code = (expression);                                                                        \
    if (try_code) return try_code;                                                                           \
  } while (0)

/* ---- device.c: devices and contexts ----------------------------------------------------------- */

struct context {
  int device;
  unsigned retained; /* of a primary context */
  bool primary, destroyed;
  bool peers[MAX_DEVICES]; /* whose memory it may reach */
  CUstream legacy;
  struct context *next;
};

extern int device_count;
CUresult current_context(CUcontext *context);
bool is_context(CUcontext context);
bool device_exists(CUdevice device);
int capability(void);

/* ---- memory.c --------------------------------------------------------------------------------- */

enum kind { DEVICE_MEMORY, PINNED_MEMORY, REGISTERED_MEMORY, MANAGED_MEMORY };

struct block {
  uint64_t start, size;
  enum kind kind;
  int device;
  CUcontext context; /* NULL: of a pool, or mapped by hand */
  CUmemoryPool pool;
  bool live;  /* a stream-ordered allocation has been reached by its stream */
  bool freed; /* the same of its release, which has been asked for */
  bool pending;    /* its stream has not reached it */
  bool begun_late; /* nor before its release was reached */
  struct block *next;
};

struct block *block_of(uint64_t address);
bool is_pageable(uint64_t address);
/* Where the driver reaches `size` bytes, or NULL: they are not all of one living allocation. */
uint8_t *reach(uint64_t address, uint64_t size);
/* Lets kernels of a context touch what it may reach, and no one afterwards. */
void open_memory(CUcontext context, bool open);
void block_begins(struct block *block);
void block_ends(struct block *block);
void check_red_zones(void);

/* ---- stream.c --------------------------------------------------------------------------------- */

enum op_kind { OP_COPY, OP_SET, OP_LAUNCH, OP_WAIT, OP_BEGIN, OP_END, OP_HOST, OP_MARK };

/* A box of bytes: rows of `width`, `height` of them `pitch` apart, `depth` slices `slice` apart. */
struct side {
  uint64_t address, pitch, slice;
};

struct box {
  struct side to, from;
  uint64_t width, height, depth;
};

struct op {
  enum op_kind kind;
  struct op *next;
  struct box box;              /* OP_COPY; of OP_SET, `to` and the extents */
  uint8_t *staged;             /* OP_COPY: the source's bytes, packed, when they were taken at once */
  uint32_t value, value_size;  /* OP_SET */
  struct stream *stream;       /* OP_WAIT: until it has done */
  uint64_t until;              /* this many */
  struct block *block;         /* OP_BEGIN, OP_END */
  struct launch *launch;       /* OP_LAUNCH */
  void (*callback)(void *);    /* OP_HOST */
  void *user;
};

#define MAX_STREAMS_OF_CAPTURE 16

struct capture {
  struct stream *origin;
  int mode;
  pthread_t thread;
  bool invalid;
  struct op *ops, **last;
  struct stream *streams[MAX_STREAMS_OF_CAPTURE];
  uint64_t counts[MAX_STREAMS_OF_CAPTURE]; /* operations of each */
  int stream_count;
  unsigned long long id;
  struct capture *next;
};

struct stream {
  CUcontext context;
  bool blocking; /* waits for the legacy stream, and is waited for by it */
  bool destroyed, asked;
  int priority;
  struct op *ops, **last;
  uint64_t issued, done;
  struct capture *capture;
  uint64_t known[MAX_STREAMS_OF_CAPTURE]; /* what of the capture's streams comes before what is next */
  struct stream *next;
};

/* The stream of a handle: NULL and LEGACY, PER_THREAD, or one that was made. */
CUresult stream_of(CUstream handle, CUstream *stream);
/* The same, for work: it must be of the current context. */
CUresult working_stream(CUstream handle, CUstream *stream);
CUresult enqueue(CUstream stream, struct op op);
CUresult finish(CUstream stream);
CUresult finish_context(CUcontext context);
CUresult finish_device(int device);
/* Calls that a capture does not allow. */
CUresult unsafe_during_capture(void);
CUresult captures_of_legacy(CUcontext context, bool invalidate);

/* ---- module.c --------------------------------------------------------------------------------- */

CUresult launch_runs(struct launch *launch);
struct launch *launch_again(const struct launch *launch);
void launch_ends(struct launch *launch);

/* ---- live objects, for tests that look for leaks ------------------------------------------------ */

enum object { DEVICE_BLOCKS, HOST_BLOCKS, STREAMS, EVENTS, MODULES, CONTEXTS, RETAINED, OBJECTS };
extern long live[OBJECTS];

#pragma GCC visibility pop
#endif
