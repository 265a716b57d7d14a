/* Who keeps memory alive, and how it ends: holders, shared tensors, capsules, Python owners. */

#include "native.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- holders --------------------------------------------------------------------------------------- */

struct Holder {
  Managed *managed;
  atomic_size_t users;
};

Holder *holder_new(Managed *managed) {
  Holder *holder = malloc(sizeof *holder);
  if (!holder) return (void *)PyErr_NoMemory();
  holder->managed = managed;
  atomic_init(&holder->users, 1);
  return holder;
}

void holder_keep(Holder *holder) { atomic_fetch_add_explicit(&holder->users, 1, memory_order_relaxed); }

void holder_drop(Holder *holder) {
  if (!holder || atomic_fetch_sub_explicit(&holder->users, 1, memory_order_acq_rel) != 1) return;
  ab_release(holder->managed);
  free(holder);
}

Managed *holder_managed(Holder *holder) { return holder->managed; }

/* ---- shared tensors -------------------------------------------------------------------------------- */

/* One managed tensor over a Holder's memory. Some consumers that refuse a capsule call the deleter and
 * leave the capsule as it was, so that the capsule's end comes after the tensor's; others take the
 * destructor off the capsule, so that its end is never told. Blocks are therefore recycled but never
 * returned: a capsule can always ask its block whether it is still on the loan that the capsule is for. */
typedef struct Shared {
  union {
    Managed versioned;
    DLManagedTensor legacy;
  } tensor;
  Holder *holder;
  struct Shared *next;
  atomic_uintptr_t loan; /* odd while it is out; every loan has a number of its own */
  atomic_int late;       /* whether its end is waiting */
} Shared;

static struct {
  pthread_mutex_t lock;
  Shared *first;
} recycled = {PTHREAD_MUTEX_INITIALIZER, NULL};

/* Ends the loan of that number, if it is still on. */
static void shared_end(Shared *shared, uintptr_t loan) {
  if (!atomic_compare_exchange_strong(&shared->loan, &loan, loan + 1)) return;
  Holder *holder = shared->holder;
  pthread_mutex_lock(&recycled.lock);
  shared->next = recycled.first;
  recycled.first = shared;
  pthread_mutex_unlock(&recycled.lock);
  holder_drop(holder);
}

static void shared_delete(Shared *shared) {
  uintptr_t loan = atomic_load(&shared->loan);
  if (loan & 1) shared_end(shared, loan);
}

static void delete_versioned(Managed *tensor) { shared_delete(tensor->manager_ctx); }
static void delete_legacy(DLManagedTensor *tensor) { shared_delete(tensor->manager_ctx); }

static Shared *shared_new(Holder *holder) {
  pthread_mutex_lock(&recycled.lock);
  Shared *shared = recycled.first;
  if (shared) recycled.first = shared->next;
  pthread_mutex_unlock(&recycled.lock);
  if (!shared) {
    if (!(shared = malloc(sizeof *shared))) return (void *)PyErr_NoMemory();
    atomic_init(&shared->loan, 0);
  }
  atomic_init(&shared->late, 0);
  holder_keep(holder);
  shared->holder = holder;
  atomic_fetch_add(&shared->loan, 1);
  return shared;
}

static void fill_versioned(Shared *shared, uint64_t more_flags) {
  const Managed *managed = shared->holder->managed;
  Managed *tensor = &shared->tensor.versioned;
  tensor->version = managed->version;
  tensor->manager_ctx = shared;
  tensor->deleter = delete_versioned;
  /* What others hold too is nobody's own copy. */
  tensor->flags = (managed->flags & ~(uint64_t)DLPACK_FLAG_BITMASK_IS_COPIED) | more_flags;
  tensor->dl_tensor = managed->dl_tensor; /* shape and strides live as long as the Holder */
}

Managed *share(Holder *holder) {
  Shared *shared = shared_new(holder);
  if (!shared) return NULL;
  fill_versioned(shared, 0);
  return &shared->tensor.versioned;
}

uintptr_t share_loan(const Managed *tensor) { return atomic_load(&((Shared *)tensor->manager_ctx)->loan); }

void share_end(Managed *tensor, uintptr_t loan) { shared_end(tensor->manager_ctx, loan); }

/* ---- capsules -------------------------------------------------------------------------------------- */

static const char VERSIONED[] = "dltensor_versioned", USED_VERSIONED[] = "used_dltensor_versioned";
static const char LEGACY[] = "dltensor", USED_LEGACY[] = "used_dltensor";

/* PyCapsule_IsValid, _GetPointer and _GetContext set no exception here, so that a pending one survives. */
static void destroy_capsule(PyObject *capsule) {
  const char *name = PyCapsule_IsValid(capsule, VERSIONED) ? VERSIONED : LEGACY;
  if (!PyCapsule_IsValid(capsule, name)) return; /* a consumer has taken the tensor */
  shared_end(PyCapsule_GetPointer(capsule, name), (uintptr_t)PyCapsule_GetContext(capsule));
}

PyObject *share_capsule(Holder *holder, int legacy, uint64_t more_flags) {
  const DLTensor *view = &holder->managed->dl_tensor;
  uint64_t flags = holder->managed->flags | more_flags;
  if (legacy && flags & DLPACK_FLAG_BITMASK_READ_ONLY)
    return raise_named("ReadOnlyError", "the tensor is read-only, which a capsule without version cannot say: ask "
                                        "with max_version=(1, 0), or convert it with writable=True");
  if (legacy && flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED && view->dtype.bits < 8)
    return raise_named("UnsupportedDtypeError", "elements of %d bits are padded to bytes, which a capsule without "
                                                "version cannot say: ask with max_version=(1, 1)",
                       (int)view->dtype.bits);
  Shared *shared = shared_new(holder);
  if (!shared) return NULL;
  if (legacy) {
    shared->tensor.legacy.dl_tensor = *view;
    shared->tensor.legacy.manager_ctx = shared;
    shared->tensor.legacy.deleter = delete_legacy;
  } else {
    fill_versioned(shared, more_flags);
  }
  PyObject *capsule = PyCapsule_New(&shared->tensor, legacy ? LEGACY : VERSIONED, NULL);
  if (!capsule || PyCapsule_SetContext(capsule, (void *)atomic_load(&shared->loan)) ||
      PyCapsule_SetDestructor(capsule, destroy_capsule)) {
    Py_XDECREF(capsule);
    shared_delete(shared);
    return NULL;
  }
  return capsule;
}

/* ---- late ends ------------------------------------------------------------------------------------- */

/* Paddle calls deleters with a lock held that the deleter of another of its tensors would wait for, and that
 * tensor may be what the memory came from. Its loans end when Python next runs on the main thread. */
static struct {
  pthread_mutex_t lock;
  Shared *first;
} waiting = {PTHREAD_MUTEX_INITIALIZER, NULL};

static int end_waiting(void *nothing) {
  (void)nothing;
  pthread_mutex_lock(&waiting.lock);
  Shared *shared = waiting.first;
  waiting.first = NULL;
  pthread_mutex_unlock(&waiting.lock);
  while (shared) {
    Shared *next = shared->next;
    shared_delete(shared);
    shared = next;
  }
  return 0;
}

static void delete_late(Managed *tensor) {
  Shared *shared = tensor->manager_ctx;
  if (atomic_exchange(&shared->late, 1)) return;
  pthread_mutex_lock(&waiting.lock);
  shared->next = waiting.first;
  waiting.first = shared;
  pthread_mutex_unlock(&waiting.lock);
  /* When many calls are pending already, the next one that is not too many ends this loan too. */
  if (Py_IsInitialized()) Py_AddPendingCall(end_waiting, NULL);
}

PyObject *py_late_capsule(PyObject *module, PyObject *tensor) {
  (void)module;
  if (Py_TYPE(tensor) != tensor_type) {
    PyErr_SetString(PyExc_TypeError, "late_capsule(tensor)");
    return NULL;
  }
  PyObject *capsule = share_capsule(((Tensor *)tensor)->holder, 0, 0);
  if (capsule) ((Managed *)PyCapsule_GetPointer(capsule, VERSIONED))->deleter = delete_late;
  return capsule;
}

/* ---- capsules of others ---------------------------------------------------------------------------- */

static Managed *take_open_capsule(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, VERSIONED)) {
    Managed *tensor = PyCapsule_GetPointer(capsule, VERSIONED);
    uint32_t major = tensor->version.major;
    if (major != 1) /* its owner's capsule releases it, as nothing is taken */
      return raise_named("DLPackVersionError", "the producer made a DLPack %u tensor: version 1 is what this library reads",
                         (unsigned)major);
    if (PyCapsule_SetName(capsule, USED_VERSIONED)) return NULL;
    return tensor;
  }
  if (PyCapsule_IsValid(capsule, LEGACY)) {
    DLManagedTensor *legacy = PyCapsule_GetPointer(capsule, LEGACY);
    Managed *tensor;
    ab_error error = {.struct_size = sizeof error};
    if (ab_from_legacy(legacy, &tensor, &error) != AB_OK) return raise_error(&error);
    if (PyCapsule_SetName(capsule, USED_LEGACY)) return NULL;
    return tensor;
  }
  if (!PyCapsule_CheckExact(capsule))
    return raise_named("InvalidTensorError", "__dlpack__ returned %R: expected a capsule", capsule);
  const char *name = PyCapsule_GetName(capsule);
  PyErr_Clear();
  if (name && (!strcmp(name, USED_VERSIONED) || !strcmp(name, USED_LEGACY)))
    return raise_named("InvalidTensorError", "the capsule is named \"%s\": its tensor has been taken already; ask "
                                             "the producer for another one", name);
  return raise_named("InvalidTensorError", "the capsule is named \"%.80s\": expected \"dltensor_versioned\" or "
                                           "\"dltensor\"", name ? name : "NULL");
}

Managed *take_capsule(PyObject *capsule) {
  Managed *tensor;
  Py_BEGIN_CRITICAL_SECTION(capsule); /* of threads that take it at once one gets it */
  tensor = take_open_capsule(capsule);
  Py_END_CRITICAL_SECTION();
  return tensor;
}

/* ---- Python owners --------------------------------------------------------------------------------- */

static void drop_object(void *object) { Py_DECREF((PyObject *)object); }

static void drop_buffer(void *buffer) {
  PyBuffer_Release(buffer);
  free(buffer);
}

/* Runs `drop`, which may run any Python code, if Python code may run on this thread now. */
static void release(void *owner, void (*drop)(void *)) {
  PyGILState_STATE state;
  if (!Py_IsInitialized()) return;
  /* Of an interpreter that is ending only the thread that ends it may ask for anything. */
  if (is_finalizing() && !PyGILState_Check()) return;
  state = PyGILState_Ensure();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  drop(owner);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(state);
}

void release_python(void *object) { release(object, drop_object); }
void release_buffer(void *buffer) { release(buffer, drop_buffer); }
