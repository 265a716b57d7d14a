/* Loops that bench.py times from inside C, so that no call through ctypes is counted: the memcpy that
 * everything is measured against, on one thread and on several, and calls of the library through
 * function pointers. Every function but the set-up returns nanoseconds for all its repetitions. */
#define _GNU_SOURCE
#include <arraybridge/arraybridge.h>
#include <pthread.h>
#ifdef __linux__
#include <sched.h>
#endif
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#define MAX_THREADS 64
#define SPIN_NS 20000         /* as the library's pool: then sleep */
#define MIN_PER_THREAD 524288 /* bytes that are worth a thread */

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Makes the compiler believe that all memory is read and written here. */
static void escape(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); }

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("" : : : "memory");
#endif
}

/* Adds, as many at a time as a core can do: they take longer while somebody else uses the other thread of it. */
int64_t bench_adds(int64_t reps) {
  uint64_t sums[8] = {0};
  int64_t begin = now();
  for (int64_t i = 0; i < reps; i++)
    for (int k = 0; k < 8; k++) {
      sums[k]++;
      __asm__ volatile("" : "+r"(sums[k]));
    }
  return now() - begin;
}

/* ---- memcpy, and writing alone, on several threads ---------------------------------------------- */

/* Copies; without a source it writes, around the caches where there are instructions for that. */
static void copy(char *dst, const char *src, size_t size) {
  if (src) {
    memcpy(dst, src, size);
    return;
  }
#ifdef __x86_64__
  char *end = dst + size, *line = dst + (-(uintptr_t)dst & 63);
  for (; line + 64 <= end; line += 64)
    for (int i = 0; i < 64; i += 16)
      _mm_stream_si128((__m128i *)(line + i), _mm_set1_epi8(1));
  _mm_sfence();
#else
  memset(dst, 1, size);
#endif
}

typedef struct {
  _Alignas(128) atomic_uint wanted; /* rounds asked for */
  _Alignas(128) atomic_uint done;   /* rounds done */
  atomic_int asleep;
  pthread_t thread;
  char *dst;
  const char *src;
  size_t size;
} worker;

static worker workers[MAX_THREADS];
static int started;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

/* Some systems wake a thread on the processor of who wakes it, where it would wait for that one: as the library's pool,
 * before it is woken it is kept off there, and afterwards no longer. */
#ifdef __linux__
static cpu_set_t all;

static void keep_off(pthread_t thread, int processor) {
  cpu_set_t others = all;
  if (processor >= 0)
    CPU_CLR(processor, &others);
  if (CPU_COUNT(&others))
    pthread_setaffinity_np(thread, sizeof others, &others);
}

static int here(void) { return sched_getcpu(); }
#else
static void keep_off(pthread_t thread, int processor) { (void)thread, (void)processor; }

static int here(void) { return -1; }
#endif

static void *work(void *argument) {
  worker *w = argument;
  for (unsigned round = 1;; round++) {
    int64_t until = now() + SPIN_NS;
    while (atomic_load(&w->wanted) < round && now() < until)
      pause_cpu();
    if (atomic_load(&w->wanted) < round) {
      pthread_mutex_lock(&lock);
      atomic_store(&w->asleep, 1);
      while (atomic_load(&w->wanted) < round)
        pthread_cond_wait(&wake, &lock);
      atomic_store(&w->asleep, 0);
      pthread_mutex_unlock(&lock);
      keep_off(w->thread, -1);
    }
    copy(w->dst, w->src, w->size);
    atomic_store(&w->done, round);
  }
  return NULL;
}

static int start(int threads) {
#ifdef __linux__
  if (!started && sched_getaffinity(0, sizeof all, &all))
    return -1;
#endif
  for (; started < threads - 1; started++) {
    worker *w = &workers[started];
    if (pthread_create(&w->thread, NULL, work, w))
      return -1;
    pthread_detach(w->thread);
  }
  return 0;
}

static void parallel_copy(char *dst, const char *src, size_t size, int threads) {
  if ((size_t)threads > size / MIN_PER_THREAD)
    threads = (int)(size / MIN_PER_THREAD);
  if (threads < 2 || start(threads)) {
    copy(dst, src, size);
    return;
  }
  size_t part = size / threads & ~(size_t)4095;
  int sleepers = 0;
  for (int i = 0; i < threads - 1; i++) {
    worker *w = &workers[i];
    w->dst = dst + i * part, w->src = src ? src + i * part : NULL, w->size = part;
    atomic_fetch_add(&w->wanted, 1);
    if (atomic_load(&w->asleep)) {
      keep_off(w->thread, here());
      sleepers = 1;
    }
  }
  if (sleepers) {
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
  }
  size_t rest = (threads - 1) * part;
  copy(dst + rest, src ? src + rest : NULL, size - rest);
  for (int i = 0; i < threads - 1; i++)
    while (atomic_load(&workers[i].done) != atomic_load(&workers[i].wanted))
      pause_cpu();
}

/* Repetitions before those that are counted, so that threads are awake: the interpreter may take longer between two calls than
 * they stay so. */
static int64_t uncounted;

void bench_uncounted(int64_t reps) { uncounted = reps; }

/* Repetition i works `span` bytes further than the one before, and begins again after `around` bytes: with
 * span 0 always in the same place, else out of cache. No source: writing alone. */
int64_t bench_memcpy(char *dst, const char *src, size_t size, int threads, size_t span, size_t around,
                     int64_t reps) {
  size_t at = 0;
  if (threads > MAX_THREADS)
    threads = MAX_THREADS;
  int64_t begin = now();
  for (int64_t i = -uncounted; i < reps; i++) {
    if (!i)
      begin = now();
    parallel_copy(dst + at, src ? src + at : NULL, size, threads);
    escape(dst);
    at = at + span < around ? at + span : 0;
  }
  return now() - begin;
}

/* ---- the library: negative is its status --------------------------------------------------------- */

typedef ab_status (*copy_into_fn)(ab_context *, const DLTensor *, uint64_t, const DLTensor *, uint64_t,
                                  const ab_convert_options *, ab_report *, ab_error *);
typedef ab_status (*copy_fn)(ab_context *, const DLTensor *, uint64_t, const ab_convert_options *,
                             struct DLManagedTensorVersioned **, ab_report *, ab_error *);
typedef ab_status (*convert_fn)(ab_context *, struct DLManagedTensorVersioned *, const ab_convert_options *,
                                struct DLManagedTensorVersioned **, ab_report *, ab_error *);
typedef ab_status (*detect_fn)(const DLTensor *, uint64_t, ab_tensor_info *, ab_error *);

int64_t bench_copy_into(copy_into_fn call, ab_context *context, const DLTensor *src, const DLTensor *dst,
                        size_t span, size_t around, int64_t reps) {
  DLTensor from = *src, to = *dst;
  size_t at = 0;
  int64_t begin = now();
  for (int64_t i = -uncounted; i < reps; i++) {
    if (!i)
      begin = now();
    from.data = (char *)src->data + at, to.data = (char *)dst->data + at;
    ab_status status = call(context, &from, 0, &to, 0, NULL, NULL, NULL);
    if (status)
      return status;
    at = at + span < around ? at + span : 0;
  }
  return now() - begin;
}

/* One of several copies after another, so many in all. */
int64_t bench_by_turns(copy_into_fn call, ab_context *context, const DLTensor *const *src,
                       const DLTensor *const *dst, size_t count, int64_t reps) {
  int64_t begin = now();
  for (int64_t i = 0; i < reps; i++) {
    ab_status status = call(context, src[i % count], 0, dst[i % count], 0, NULL, NULL, NULL);
    if (status)
      return status;
  }
  return now() - begin;
}

/* Into new memory, and lets go of it. */
int64_t bench_copy(copy_fn call, ab_context *context, const DLTensor *src, const ab_convert_options *options,
                   int64_t reps) {
  int64_t begin = now();
  for (int64_t i = -uncounted; i < reps; i++) {
    if (!i)
      begin = now();
    struct DLManagedTensorVersioned *out;
    ab_status status = call(context, src, 0, options, &out, NULL, NULL);
    if (status)
      return status;
    out->deleter(out);
  }
  return now() - begin;
}

static void keep(struct DLManagedTensorVersioned *tensor) { escape(tensor); }

/* Zero copy: converts, deletes the result. The source is one whose deleter does nothing. */
int64_t bench_convert(convert_fn call, ab_context *context, const DLTensor *tensor,
                      const ab_convert_options *options, int64_t reps) {
  struct DLManagedTensorVersioned source = {
      .version = {1, 3}, .manager_ctx = NULL, .deleter = keep, .flags = 0, .dl_tensor = *tensor};
  int64_t begin = now();
  for (int64_t i = 0; i < reps; i++) {
    struct DLManagedTensorVersioned *out;
    ab_status status = call(context, &source, options, &out, NULL, NULL);
    if (status)
      return status;
    if (out->dl_tensor.data != tensor->data)
      return -100; /* it was copied */
    out->deleter(out);
  }
  return now() - begin;
}

/* The least that a library can do which hands out a header of its own: allocate it with its shape,
 * strides and owner, fill it in, free it. */
int64_t bench_header(const DLTensor *tensor, int64_t reps) {
  size_t axes = (size_t)tensor->ndim * sizeof(int64_t);
  int64_t begin = now();
  for (int64_t i = 0; i < reps; i++) {
    struct DLManagedTensorVersioned *out = malloc(sizeof *out + sizeof(void *) + 2 * axes);
    if (!out)
      return -1;
    void **owner = (void **)(out + 1);
    int64_t *shape = (int64_t *)(owner + 1), *strides = shape + tensor->ndim;
    out->version.major = 1, out->version.minor = 3;
    out->manager_ctx = owner, out->deleter = keep, out->flags = 0;
    out->dl_tensor = *tensor;
    out->dl_tensor.shape = shape, out->dl_tensor.strides = strides;
    *owner = (void *)tensor;
    memcpy(shape, tensor->shape, axes);
    memcpy(strides, tensor->strides, axes);
    escape(out);
    free(out);
  }
  return now() - begin;
}

int64_t bench_detect(detect_fn call, const DLTensor *tensor, int64_t reps) {
  ab_tensor_info info = {.struct_size = sizeof info};
  int64_t begin = now();
  for (int64_t i = 0; i < reps; i++) {
    ab_status status = call(tensor, 0, &info, NULL);
    if (status)
      return status;
    escape(&info);
  }
  return now() - begin;
}
