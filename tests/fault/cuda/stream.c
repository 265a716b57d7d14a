/* Streams, events and graphs.
 *
 * What is put into a stream runs when somebody waits for it, and not before: for the stream, for an event
 * behind it, for another stream that waits for it. So what a program forgets to order, or to wait for, has
 * not happened when it looks. A question (cuStreamQuery, cuEventQuery) is answered with "not ready" once,
 * and the next time everything asked for has run. */
#include "fake.h"

struct event {
  CUcontext context;
  struct stream *stream; /* of its last record; NULL: none */
  uint64_t until;
  struct capture *capture; /* it was recorded in one */
  unsigned long long capture_id;
  uint64_t known[MAX_STREAMS_OF_CAPTURE];
  unsigned flags;
  bool asked;
  struct event *next;
};

struct graph {
  struct op *ops;
  CUcontext context;
};

static struct stream *streams;
static struct event *events;
static struct capture *captures;
static _Thread_local int capture_mode; /* GLOBAL */
enum { GLOBAL, THREAD_LOCAL, RELAXED };

/* ---- handles ---------------------------------------------------------------------------------- */

static struct stream *new_stream(CUcontext context, bool blocking) {
  struct stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) abort();
  stream->context = context, stream->blocking = blocking;
  stream->last = &stream->ops;
  stream->next = streams, streams = stream;
  return stream;
}

static struct stream *legacy_of(CUcontext context) {
  if (context->legacy == NULL) context->legacy = new_stream(context, true);
  return context->legacy;
}

static bool is_legacy(const struct stream *stream) { return stream == stream->context->legacy; }

/* A thread's own stream of a context. */
static struct stream *own_of(CUcontext context) {
  static _Thread_local struct { CUcontext context; struct stream *stream; } own[16];
  for (int i = 0; i < 16; i++) {
    if (own[i].stream == NULL) own[i].context = context, own[i].stream = new_stream(context, true);
    if (own[i].context == context) return own[i].stream;
  }
  abort();
}

CUresult stream_of(CUstream handle, CUstream *stream) {
  if (handle == NULL || handle == LEGACY || handle == PER_THREAD) {
    CUcontext context;
    TRY(current_context(&context));
    *stream = handle == PER_THREAD ? own_of(context) : legacy_of(context);
    return 0;
  }
  for (struct stream *one = streams; one != NULL; one = one->next)
    if (one == handle && !one->destroyed && !is_legacy(one)) return *stream = one, is_context(one->context) ? 0 : INVALID_CONTEXT;
  return INVALID_HANDLE;
}

CUresult working_stream(CUstream handle, CUstream *stream) {
  CUcontext context;
  TRY(current_context(&context));
  TRY(stream_of(handle, stream));
  return (*stream)->context == context ? 0 : INVALID_HANDLE;
}

static CUresult event_of(CUevent handle, CUevent *event) {
  for (struct event *one = events; one != NULL; one = one->next)
    if (one == handle) return *event = one, 0;
  return INVALID_HANDLE;
}

/* ---- running ---------------------------------------------------------------------------------- */

static CUresult run(struct stream *stream, uint64_t until);

static bool copy_box(const struct op *op) {
  const struct box *box = &op->box;
  uint64_t row = 0;
  for (uint64_t z = 0; z < box->depth; z++)
    for (uint64_t y = 0; y < box->height; y++, row++) {
      uint8_t *to = reach(box->to.address + z * box->to.slice + y * box->to.pitch, box->width);
      const uint8_t *from = op->staged != NULL
                                ? op->staged + row * box->width
                                : reach(box->from.address + z * box->from.slice + y * box->from.pitch, box->width);
      if (to == NULL || from == NULL) return false;
      memmove(to, from, box->width);
    }
  return true;
}

static bool fill_box(const struct op *op) {
  for (uint64_t y = 0; y < op->box.height; y++) {
    uint8_t *to = reach(op->box.to.address + y * op->box.to.pitch, op->box.width);
    if (to == NULL) return false;
    for (uint64_t at = 0; at < op->box.width; at += op->value_size)
      memcpy(to + at, &op->value, op->value_size);
  }
  return true;
}

struct call {
  void (*function)(void *);
  void *user;
};

static void *call_back(void *user) {
  const struct call *call = user;
  enter_callback();
  call->function(call->user);
  return NULL;
}

static CUresult execute(struct op *op) {
  bool done = true;
  switch (op->kind) {
  case OP_COPY: done = copy_box(op); break;
  case OP_SET: done = fill_box(op); break;
  case OP_LAUNCH: return launch_runs(op->launch);
  case OP_WAIT: return run(op->stream, op->until);
  case OP_BEGIN: block_begins(op->block); break;
  case OP_END: block_ends(op->block); break;
  case OP_HOST: {
    struct call call = {op->callback, op->user};
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_back, &call) != 0) abort();
    pthread_join(thread, NULL);
    break;
  }
  case OP_MARK: break;
  }
  return done ? 0 : ILLEGAL_ADDRESS;
}

static void end_op(struct op *op) {
  free(op->staged);
  if (op->launch != NULL) launch_ends(op->launch);
  free(op);
}

static CUresult run(struct stream *stream, uint64_t until) {
  while (stream->done < until && stream->ops != NULL) {
    struct op *op = stream->ops;
    stream->ops = op->next;
    if (stream->ops == NULL) stream->last = &stream->ops;
    CUresult code = execute(op);
    if (code == ILLEGAL_ADDRESS && op->kind != OP_WAIT)
      complain("%s touched memory that is not there", op->kind == OP_COPY   ? "a copy"
                                                      : op->kind == OP_SET ? "a fill"
                                                                           : "a kernel");
    stream->done++;
    end_op(op);
    if (code) {
      stick(code);
      return code;
    }
  }
  return 0;
}

CUresult finish(CUstream stream) { return run(stream, stream->issued); }

CUresult finish_context(CUcontext context) {
  for (struct stream *stream = streams; stream != NULL; stream = stream->next)
    if (stream->context == context) TRY(finish(stream));
  return 0;
}

CUresult finish_device(int device) {
  for (struct stream *stream = streams; stream != NULL; stream = stream->next)
    if (stream->context->device == device) TRY(finish(stream));
  return 0;
}

static void push(struct stream *stream, struct op op) {
  struct op *kept = malloc(sizeof op);
  if (kept == NULL) abort();
  *kept = op;
  kept->next = NULL;
  *stream->last = kept;
  stream->last = &kept->next;
  stream->issued++;
}

static void push_wait(struct stream *stream, struct stream *other) {
  if (other->done < other->issued)
    push(stream, (struct op){.kind = OP_WAIT, .stream = other, .until = other->issued});
}

/* ---- capture ---------------------------------------------------------------------------------- */

static int place_in(struct capture *capture, const struct stream *stream) {
  for (int i = 0; i < capture->stream_count; i++)
    if (capture->streams[i] == stream) return i;
  return -1;
}

static void join(struct capture *capture, struct stream *stream) {
  if (capture->stream_count == MAX_STREAMS_OF_CAPTURE) abort();
  capture->counts[capture->stream_count] = 0;
  capture->streams[capture->stream_count++] = stream;
  stream->capture = capture;
  memset(stream->known, 0, sizeof stream->known);
}

/* Captures that work in the legacy stream of a context would wait for. */
CUresult captures_of_legacy(CUcontext context, bool invalidate) {
  CUresult code = 0;
  for (struct stream *stream = streams; stream != NULL; stream = stream->next)
    if (stream->context == context && stream->blocking && stream->capture != NULL) {
      if (invalidate) stream->capture->invalid = true;
      code = CAPTURE_IMPLICIT;
    }
  return code;
}

CUresult unsafe_during_capture(void) {
  CUresult code = 0;
  for (struct capture *capture = captures; capture_mode != RELAXED && capture != NULL; capture = capture->next) {
    bool own = pthread_equal(capture->thread, pthread_self());
    if (own ? capture->mode != RELAXED : capture_mode == GLOBAL && capture->mode == GLOBAL) {
      capture->invalid = true;
      code = CAPTURE_UNSUPPORTED;
    }
  }
  return code;
}

static CUresult not_captured(struct stream *stream) {
  if (stream->capture == NULL) return 0;
  stream->capture->invalid = true;
  return CAPTURE_UNSUPPORTED;
}

CUresult enqueue(CUstream stream, struct op op) {
  struct capture *capture = stream->capture;
  if (capture != NULL) {
    if (capture->invalid) return CAPTURE_INVALIDATED;
    struct op *kept = malloc(sizeof op);
    if (kept == NULL) abort();
    *kept = op;
    kept->next = NULL;
    *capture->last = kept;
    capture->last = &kept->next;
    int place = place_in(capture, stream);
    stream->known[place] = ++capture->counts[place];
    return 0;
  }
  if (is_legacy(stream)) {
    TRY(captures_of_legacy(stream->context, true));
    for (struct stream *other = streams; other != NULL; other = other->next)
      if (other->context == stream->context && other->blocking && other != stream) push_wait(stream, other);
  } else if (stream->blocking && stream->context->legacy != NULL) {
    push_wait(stream, stream->context->legacy);
  }
  push(stream, op);
  stream->asked = false;
  return 0;
}

static CUresult begin_capture(CUstream handle, int mode) {
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  if (is_legacy(stream)) return CAPTURE_UNSUPPORTED;
  if (stream->capture != NULL || mode < GLOBAL || mode > RELAXED) return INVALID_VALUE;
  static unsigned long long ids;
  struct capture *capture = calloc(1, sizeof *capture);
  if (capture == NULL) abort();
  capture->origin = stream, capture->mode = mode, capture->thread = pthread_self(), capture->id = ++ids;
  capture->last = &capture->ops;
  capture->next = captures, captures = capture;
  join(capture, stream);
  return 0;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, int mode) {
  MAY_FAIL;
  return begin_capture(handle, mode);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  MAY_FAIL;
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  *graph = NULL;
  struct capture *capture = stream->capture;
  if (capture == NULL) return INVALID_VALUE;
  if (capture->origin != stream) return CAPTURE_UNMATCHED;
  if (capture->mode != RELAXED && !pthread_equal(capture->thread, pthread_self())) return CAPTURE_WRONG_THREAD;
  CUresult code = capture->invalid ? CAPTURE_INVALIDATED : 0;
  for (int i = 0; i < capture->stream_count; i++) {
    if (code == 0 && stream->known[i] < capture->counts[i]) code = CAPTURE_UNJOINED;
    capture->streams[i]->capture = NULL;
  }
  for (struct event *event = events; event != NULL; event = event->next)
    if (event->capture == capture) event->capture = NULL;
  struct capture **place = &captures;
  while (*place != capture)
    place = &(*place)->next;
  *place = capture->next;
  if (code == 0) {
    *graph = calloc(1, sizeof **graph);
    (*graph)->ops = capture->ops, (*graph)->context = stream->context;
  } else {
    for (struct op *op = capture->ops, *next; op != NULL; op = next)
      next = op->next, end_op(op);
  }
  free(capture);
  return code;
}

static CUresult capture_status(CUstream handle, int *status, unsigned long long *id) {
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  if (is_legacy(stream)) TRY(captures_of_legacy(stream->context, false));
  *status = stream->capture == NULL ? 0 : stream->capture->invalid ? 2 : 1;
  if (id != NULL && stream->capture != NULL) *id = stream->capture->id;
  return 0;
}

CUresult cuStreamIsCapturing(CUstream handle, int *status) {
  MAY_FAIL;
  return capture_status(handle, status, NULL);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, int *status, uint64_t *id, CUgraph *graph, const void **nodes,
                                   size_t *count) {
  (void)graph, (void)nodes, (void)count;
  MAY_FAIL;
  unsigned long long number = 0;
  TRY(capture_status(handle, status, &number));
  if (id != NULL) *id = number;
  return 0;
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  MAY_FAIL;
  if (*mode < GLOBAL || *mode > RELAXED) return INVALID_VALUE;
  int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return 0;
}

static struct op *ops_again(const struct op *ops) {
  struct op *first = NULL, **last = &first;
  for (; ops != NULL; ops = ops->next, last = &(*last)->next) {
    *last = malloc(sizeof **last);
    if (*last == NULL) abort();
    **last = *ops;
    (*last)->next = NULL;
    if (ops->launch != NULL) (*last)->launch = launch_again(ops->launch);
  }
  return first;
}

static CUresult instantiate(CUgraphExec *made, CUgraph graph) {
  *made = calloc(1, sizeof **made);
  (*made)->context = graph->context, (*made)->ops = ops_again(graph->ops);
  return 0;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph, unsigned long long flags) {
  (void)flags;
  MAY_FAIL;
  return instantiate(made, graph);
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream handle) {
  MAY_FAIL;
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  struct op *ops = ops_again(graph->ops);
  for (struct op *op = ops, *next; op != NULL; op = next) {
    next = op->next;
    TRY(enqueue(stream, *op));
    free(op);
  }
  return 0;
}

static void destroy_graph(struct graph *graph) {
  for (struct op *op = graph->ops, *next; op != NULL; op = next)
    next = op->next, end_op(op);
  free(graph);
}

CUresult cuGraphDestroy(CUgraph graph) {
  SURE;
  destroy_graph(graph);
  return 0;
}

CUresult cuGraphExecDestroy(CUgraphExec graph) {
  SURE;
  destroy_graph(graph);
  return 0;
}

/* ---- streams ---------------------------------------------------------------------------------- */

static CUresult create(CUstream *made, unsigned flags, int priority) {
  CUcontext context;
  TRY(current_context(&context));
  if (made == NULL || flags > 1) return INVALID_VALUE;
  *made = new_stream(context, flags == 0);
  (*made)->priority = priority;
  live[STREAMS]++;
  return 0;
}

CUresult cuStreamCreate(CUstream *made, unsigned flags) {
  MAY_FAIL;
  return create(made, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *made, unsigned flags, int priority) {
  MAY_FAIL;
  return create(made, flags, priority);
}

/* What is in it runs when somebody waits for it, as in a stream that lives. */
CUresult cuStreamDestroy_v2(CUstream handle) {
  SURE;
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  if (handle <= PER_THREAD) return INVALID_HANDLE;
  stream->destroyed = true;
  live[STREAMS]--;
  return 0;
}

CUresult cuStreamSynchronize(CUstream handle) {
  MAY_FAIL;
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  TRY(not_captured(stream));
  if (is_legacy(stream)) {
    TRY(captures_of_legacy(stream->context, true));
    for (struct stream *other = streams; other != NULL; other = other->next)
      if (other->context == stream->context && other->blocking) TRY(finish(other));
  }
  return finish(stream);
}

CUresult cuStreamQuery(CUstream handle) {
  MAY_FAIL;
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  TRY(not_captured(stream));
  if (stream->done == stream->issued) return 0;
  if (!stream->asked) return stream->asked = true, NOT_READY;
  return finish(stream);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
  MAY_FAIL;
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  *context = stream->context;
  return 0;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *device) {
  MAY_FAIL;
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  *device = stream->context->device;
  return 0;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *flags) {
  MAY_FAIL;
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  *flags = !stream->blocking;
  return 0;
}

CUresult cuStreamGetPriority(CUstream handle, int *priority) {
  MAY_FAIL;
  struct stream *stream;
  TRY(stream_of(handle, &stream));
  *priority = stream->priority;
  return 0;
}

CUresult cuLaunchHostFunc(CUstream handle, void (*callback)(void *), void *user) {
  MAY_FAIL;
  struct stream *stream;
  TRY(working_stream(handle, &stream));
  return enqueue(stream, (struct op){.kind = OP_HOST, .callback = callback, .user = user});
}

/* ---- events ----------------------------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *made, unsigned flags) {
  MAY_FAIL;
  CUcontext context;
  TRY(current_context(&context));
  if (flags > 7) return INVALID_VALUE;
  struct event *event = calloc(1, sizeof *event);
  if (event == NULL) abort();
  event->context = context, event->flags = flags;
  event->next = events, events = event;
  live[EVENTS]++;
  *made = event;
  return 0;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  SURE;
  struct event *event;
  TRY(event_of(handle, &event));
  struct event **place = &events;
  while (*place != event)
    place = &(*place)->next;
  *place = event->next;
  free(event);
  live[EVENTS]--;
  return 0;
}

static CUresult record(CUevent handle, CUstream to) {
  struct event *event;
  struct stream *stream;
  TRY(event_of(handle, &event));
  TRY(stream_of(to, &stream));
  if (event->context != stream->context) return INVALID_HANDLE;
  if (stream->capture != NULL) {
    if (stream->capture->invalid) return CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    memcpy(event->known, stream->known, sizeof event->known);
    return 0;
  }
  /* Of the legacy stream: after all that it would wait for. */
  TRY(enqueue(stream, (struct op){.kind = OP_MARK}));
  event->capture = NULL, event->stream = stream, event->until = stream->issued, event->asked = false;
  return 0;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
  MAY_FAIL;
  return record(handle, stream);
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags) {
  (void)flags;
  MAY_FAIL;
  return record(handle, stream);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent of, unsigned flags) {
  MAY_FAIL;
  struct event *event;
  struct stream *stream;
  if (flags > 1) return INVALID_VALUE;
  TRY(event_of(of, &event));
  TRY(stream_of(handle, &stream));
  struct capture *capture = event->capture;
  if (stream->capture != NULL && stream->capture->invalid) return CAPTURE_INVALIDATED;
  if (stream->capture != NULL && stream->capture != capture) {
    /* Nothing outside a capture orders what is in it, and an event that was never recorded orders nothing. */
    if (capture == NULL && event->stream == NULL) return 0;
    stream->capture->invalid = true;
    if (capture != NULL) capture->invalid = true;
    return capture != NULL ? CAPTURE_MERGE : CAPTURE_ISOLATION;
  }
  if (capture != NULL) {
    if (is_legacy(stream)) return capture->invalid = true, CAPTURE_IMPLICIT;
    if (stream->capture == NULL) join(capture, stream);
    for (int i = 0; i < MAX_STREAMS_OF_CAPTURE; i++)
      if (stream->known[i] < event->known[i]) stream->known[i] = event->known[i];
    return 0;
  }
  if (event->stream == NULL) return 0;
  return enqueue(stream, (struct op){.kind = OP_WAIT, .stream = event->stream, .until = event->until});
}

CUresult cuEventSynchronize(CUevent handle) {
  MAY_FAIL;
  struct event *event;
  TRY(event_of(handle, &event));
  if (event->capture != NULL) return event->capture->invalid = true, CAPTURED_EVENT;
  return event->stream == NULL ? 0 : run(event->stream, event->until);
}

CUresult cuEventQuery(CUevent handle) {
  MAY_FAIL;
  struct event *event;
  TRY(event_of(handle, &event));
  if (event->capture != NULL) return event->capture->invalid = true, CAPTURED_EVENT;
  TRY(unsafe_during_capture());
  if (event->stream == NULL || event->stream->done >= event->until) return 0;
  if (!event->asked) return event->asked = true, NOT_READY;
  return run(event->stream, event->until);
}

/* Time is not measured. */
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  MAY_FAIL;
  struct event *event;
  TRY(event_of(begin, &event));
  TRY(event_of(end, &event));
  *milliseconds = 1;
  return 0;
}

/* ---- for tests -------------------------------------------------------------------------------- */

/* How many operations have been put into a stream and have not run. */
long fake_pending(CUstream handle) {
  struct stream *stream;
  return stream_of(handle, &stream) ? -1 : (long)(stream->issued - stream->done);
}
