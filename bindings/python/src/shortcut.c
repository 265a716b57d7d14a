/* arraybridge.convert and asdlpack. What needs no decision is done here, in well under a microsecond:
 * an object and a target that are known, nothing else asked for, host memory. All the rest, every
 * refusal included, is arraybridge.core's: a shortcut that does not work out leaves no trace. */

#include "native.h"

#include <stdatomic.h>

/* How the adapters say (arraybridge/adapters) that an object's tensor is had. */
enum Source { SOURCE_NDARRAY = 1, SOURCE_EXCHANGE = 2, SOURCE_DLPACK = 3 };

/* How a target makes its array. */
enum Target { TARGET_NUMPY = 1, TARGET_EXCHANGE = 2, TARGET_CALL = 3 };

enum { MAX_SOURCES = 64, MAX_TARGETS = 64, MAX_GUARDS = 4 };

typedef struct {
  long adapter;
  enum Source kind;
  const DLPackExchangeAPI *api;
  int buffer_to_numpy;              /* to NumPy it goes by its buffer */
  int immutable;                    /* its NumPy views are read-only */
  PyObject *attributes[MAX_GUARDS]; /* must all be false */
  PyObject *checks[MAX_GUARDS];     /* methods that must all return false */
} SourceRow;

typedef struct {
  long adapter;
  enum Target kind;
  uint32_t consumer;
  const DLPackExchangeAPI *api;
  PyObject *call; /* takes a Tensor, or, if legacy, a capsule */
  int legacy;
} TargetRow;

/* Rows are added, never changed or removed; one is complete before an index leads to it. */
static SourceRow sources[MAX_SOURCES];
static TargetRow targets[MAX_TARGETS];
static atomic_int source_count, target_count;
static PyObject *source_index, *target_index; /* type, or name or module: number of its row */

static void *row_of(PyObject *index, PyObject *key, void *rows, size_t size) {
  PyObject *number = PyDict_GetItemWithError(index, key);
  if (number) return (char *)rows + size * PyLong_AsSize_t(number);
  PyErr_Clear(); /* not hashable, or its __hash__ raised: core names it */
  return NULL;
}

static int guards_pass(const SourceRow *row, PyObject *object) {
  for (int i = 0; i < MAX_GUARDS && row->attributes[i]; i++) {
    PyObject *value = PyObject_GetAttr(object, row->attributes[i]);
    int set = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    if (set) return 0;
  }
  for (int i = 0; i < MAX_GUARDS && row->checks[i]; i++) {
    PyObject *value = PyObject_VectorcallMethod(row->checks[i], &object, 1, NULL);
    int set = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    if (set) return 0;
  }
  return 1;
}

static Managed *import_object(const SourceRow *row, PyObject *object) {
  Managed *managed = NULL;
  switch (row->kind) {
    case SOURCE_NDARRAY: managed = is_plain_ndarray(object) ? import_numpy(object) : NULL; break;
    case SOURCE_EXCHANGE: managed = import_exchange(row->api, object); break;
    case SOURCE_DLPACK: managed = import_dlpack(object); break;
  }
  if (managed && (managed->version.major != 1 || managed->dl_tensor.device.device_type != kDLCPU)) {
    ab_release(managed);
    return NULL;
  }
  return managed;
}

/* NumPy takes host memory of any strides as it is, if only the dtype is one of its own. */
static PyObject *deliver_to_numpy(Managed *managed) {
  ab_tensor_info info = {.struct_size = sizeof info};
  if (ab_detect(&managed->dl_tensor, managed->flags, &info, NULL) != AB_OK) {
    ab_release(managed);
    return NULL;
  }
  PyObject *tensor = tensor_new(managed), *array = tensor ? numpy_array(tensor) : NULL;
  Py_XDECREF(tensor);
  return array;
}

/* Takes `managed` over. */
static PyObject *deliver(const TargetRow *row, Managed *managed) {
  PyObject *object = NULL;
  if (row->kind == TARGET_EXCHANGE) {
    Holder *holder = holder_new(managed);
    if (!holder) {
      ab_release(managed);
      return NULL;
    }
    object = export_exchange(row->api, holder);
    holder_drop(holder);
    return object;
  }
  PyObject *tensor = tensor_new(managed);
  if (!tensor) return NULL;
  PyObject *argument = tensor;
  if (row->legacy) {
    argument = share_capsule(((Tensor *)tensor)->holder, 1, 0);
    Py_DECREF(tensor);
    if (!argument) return NULL;
  }
  object = PyObject_VectorcallDict(row->call, &argument, 1, NULL);
  Py_DECREF(argument);
  return object;
}

/* NULL, with or without an exception: to be done by core. */
static PyObject *shortcut(PyObject *object, PyObject *to) {
  const SourceRow *source = row_of(source_index, (PyObject *)Py_TYPE(object), sources, sizeof *sources);
  if (!source) return NULL;
  const TargetRow *target = to && to != Py_None ? row_of(target_index, to, targets, sizeof *targets) : NULL;
  if (!to || to == Py_None || (target && target->adapter == source->adapter)) {
    Py_INCREF(object);
    return object;
  }
  if (!target) return NULL;
  int for_numpy = target->kind == TARGET_NUMPY;
  if (!guards_pass(source, object)) return NULL;
  if (for_numpy && source->buffer_to_numpy) return numpy_of_buffer(object, source->immutable);
  Managed *managed = import_object(source, object);
  if (!managed) return NULL;
  if (for_numpy && source->immutable) managed->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  if (for_numpy) return deliver_to_numpy(managed);
  ab_convert_options options = {.struct_size = sizeof options, .consumers = target->consumer};
  managed = convert_managed(managed, &options, NULL);
  return managed ? deliver(target, managed) : NULL;
}

/* Whether a keyword says what convert would do without it. */
static int is_default(PyObject *name, PyObject *value) {
  static const char *const none[] = {"device", "dtype", "copy", "layout", "stream"}, *const no[] = {"writable", "report"};
  if (value == Py_None)
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
      if (!PyUnicode_CompareWithASCIIString(name, none[i])) return 1;
  if (value == Py_False)
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
      if (!PyUnicode_CompareWithASCIIString(name, no[i])) return 1;
  return 0;
}

PyObject *py_convert(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  (void)module;
  Py_ssize_t keywords = names ? PyTuple_Size(names) : 0;
  if (count == 2 || count == 1) {
    PyObject *to = count == 2 ? args[1] : NULL;
    int plain = 1;
    for (Py_ssize_t i = 0; i < keywords && plain; i++) {
      PyObject *name = PyTuple_GetItem(names, i), *value = args[count + i];
      if (!to && !PyUnicode_CompareWithASCIIString(name, "to")) to = value;
      else plain = is_default(name, value);
    }
    PyObject *result = plain ? shortcut(args[0], to) : NULL;
    if (result) return result;
    PyErr_Clear();
  }
  PyObject *tuple = PyTuple_New(count), *dict = keywords ? PyDict_New() : NULL, *result = NULL;
  if (!tuple || (keywords && !dict)) goto done;
  for (Py_ssize_t i = 0; i < count; i++) {
    Py_INCREF(args[i]);
    PyTuple_SetItem(tuple, i, args[i]);
  }
  for (Py_ssize_t i = 0; i < keywords; i++)
    if (PyDict_SetItem(dict, PyTuple_GetItem(names, i), args[count + i])) goto done;
  PyObject *convert = package_attribute("arraybridge.core", "convert");
  result = convert ? PyObject_Call(convert, tuple, dict) : NULL;
  Py_XDECREF(convert);
done:
  Py_XDECREF(tuple);
  Py_XDECREF(dict);
  return result;
}

PyObject *py_asdlpack(PyObject *module, PyObject *object) {
  (void)module;
  Managed *managed = NULL;
  if (is_plain_ndarray(object)) {
    managed = import_numpy(object);
  } else if (PyBytes_CheckExact(object) || PyByteArray_CheckExact(object)) {
    managed = import_buffer(object);
  } else {
    PyObject *asdlpack = package_attribute("arraybridge.core", "asdlpack");
    PyObject *tensor = asdlpack ? PyObject_CallFunctionObjArgs(asdlpack, object, NULL) : NULL;
    Py_XDECREF(asdlpack);
    return tensor;
  }
  return tensor_new(managed);
}

static int read_names(PyObject *tuple, PyObject **names) {
  Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
  if (count < 0 || count > MAX_GUARDS) {
    PyErr_SetString(PyExc_ValueError, "expected a tuple of up to 4 names");
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    names[i] = PyTuple_GetItem(tuple, i);
    Py_INCREF(names[i]);
  }
  return 0;
}

static int add_key(PyObject *index, PyObject *key, int number) {
  PyObject *value = PyLong_FromLong(number);
  int failed = !value || PyDict_SetItem(index, key, value);
  Py_XDECREF(value);
  return failed;
}

/* add_source(type, adapter, kind, buffer_to_numpy, immutable, attributes, methods) */
PyObject *py_add_source(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != 7 || !PyType_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "add_source(type, adapter, kind, buffer_to_numpy, immutable, attributes, methods)");
    return NULL;
  }
  int number = PyDict_GetItemWithError(source_index, args[0]) ? MAX_SOURCES : atomic_fetch_add(&source_count, 1);
  if (number >= MAX_SOURCES) Py_RETURN_NONE;
  SourceRow *row = &sources[number];
  row->adapter = PyLong_AsLong(args[1]);
  row->kind = (enum Source)PyLong_AsLong(args[2]);
  row->buffer_to_numpy = PyObject_IsTrue(args[3]);
  row->immutable = PyObject_IsTrue(args[4]);
  if (PyErr_Occurred() || read_names(args[5], row->attributes) || read_names(args[6], row->checks)) return NULL;
  if (row->kind == SOURCE_EXCHANGE && !(row->api = exchange_of((PyTypeObject *)args[0]))) Py_RETURN_NONE;
  if (add_key(source_index, args[0], number)) return NULL;
  Py_RETURN_NONE;
}

/* add_target(keys, adapter, kind, consumer, type or callable, legacy) */
PyObject *py_add_target(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != 6 || !PyTuple_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "add_target(keys, adapter, kind, consumer, type or callable, legacy)");
    return NULL;
  }
  int number = atomic_fetch_add(&target_count, 1);
  if (number >= MAX_TARGETS) Py_RETURN_NONE;
  TargetRow *row = &targets[number];
  row->adapter = PyLong_AsLong(args[1]);
  row->kind = (enum Target)PyLong_AsLong(args[2]);
  row->consumer = (uint32_t)PyLong_AsUnsignedLong(args[3]);
  row->legacy = PyObject_IsTrue(args[5]);
  if (PyErr_Occurred()) return NULL;
  if (row->kind == TARGET_EXCHANGE) {
    row->api = PyType_Check(args[4]) ? exchange_of((PyTypeObject *)args[4]) : NULL;
    if (!row->api) Py_RETURN_NONE;
  }
  row->call = args[4];
  Py_INCREF(row->call);
  for (Py_ssize_t i = 0; i < PyTuple_Size(args[0]); i++)
    if (add_key(target_index, PyTuple_GetItem(args[0], i), number)) return NULL;
  Py_RETURN_NONE;
}

int shortcut_init(PyObject *module) {
  (void)module;
  source_index = PyDict_New();
  target_index = PyDict_New();
  return source_index && target_index ? 0 : -1;
}
