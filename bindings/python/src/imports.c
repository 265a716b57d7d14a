/* Objects to tensors: buffers, capsules, the exchange API. Each gives a managed tensor
 * that keeps what it needs of the object alive, checked by the library. */

#include "native.h"

#include <stdlib.h>
#include <string.h>

Managed *wrap(const DLTensor *view, int read_only, void *owner, void (*release)(void *)) {
  Managed *managed = NULL;
  ab_error error = {.struct_size = sizeof error};
  uint64_t flags = read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  if (ab_wrap(view, flags, owner, release, &managed, &error) != AB_OK) return raise_error(&error);
  return managed;
}

int divide_strides(int64_t *strides, const int64_t *shape, int ndim, int64_t itemsize) {
  for (int i = 0; i < ndim; i++) {
    if (strides[i] % itemsize && shape[i] > 1) {
      raise_named("UnsupportedLayoutError",
                  "axis %d has a stride of %lld bytes, which is no multiple of the %lld bytes of an element (a field of a "
                  "packed struct, perhaps): copy the array first, with numpy.ascontiguousarray for example",
                  i, (long long)strides[i], (long long)itemsize);
      return -1;
    }
    strides[i] /= itemsize;
  }
  return 0;
}

/* ---- buffers ------------------------------------------------------------------------------------------- */

static int buffer_dtype(const Py_buffer *buffer, DLDataType *dtype) {
  const char *format = buffer->format ? buffer->format : "B";
  if (format[0] == '@' || format[0] == '=') format++;
  if (format[0] && !format[1]) {
    uint8_t bits = (uint8_t)(8 * buffer->itemsize), code = 255;
    switch (format[0]) {
      case 'B': case 'H': case 'I': case 'L': case 'Q': case 'N': case 'c': code = kDLUInt; break;
      case 'b': case 'h': case 'i': case 'l': case 'q': case 'n': code = kDLInt; break;
      case 'e': case 'f': case 'd': code = kDLFloat; break;
      case '?': code = kDLBool; break;
    }
    if (code != 255 && buffer->itemsize >= 1 && buffer->itemsize <= 8) {
      *dtype = (DLDataType){code, bits, 1};
      return 0;
    }
  }
  ab_error error = {.struct_size = sizeof error};
  if (ab_dtype_parse(buffer->format, dtype, &error) != AB_OK) {
    raise_error(&error);
    return -1;
  }
  if (dtype->bits * dtype->lanes == 8 * buffer->itemsize) return 0;
  raise_named("UnsupportedDtypeError", "the buffer's format \"%s\" has items of %zd bytes", buffer->format, buffer->itemsize);
  return -1;
}

int read_buffer(const Py_buffer *buffer, DLTensor *view, int64_t *shape, int64_t *strides) {
  if (buffer->ndim < 0 || buffer->ndim > 64 || buffer->suboffsets) {
    raise_named("UnsupportedLayoutError", buffer->suboffsets ? "the buffer has suboffsets: copy it first"
                                                             : "the buffer has more than 64 axes");
    return -1;
  }
  if (buffer_dtype(buffer, &view->dtype)) return -1;
  view->ndim = buffer->ndim;
  int64_t compact = 1;
  for (int i = buffer->ndim - 1; i >= 0; i--) {
    shape[i] = buffer->shape ? buffer->shape[i] : buffer->len / buffer->itemsize;
    strides[i] = buffer->strides ? buffer->strides[i] : compact * buffer->itemsize;
    compact *= shape[i];
  }
  if (divide_strides(strides, shape, buffer->ndim, buffer->itemsize)) return -1;
  view->data = buffer->buf;
  view->device = (DLDevice){kDLCPU, 0};
  view->shape = shape;
  view->strides = strides;
  return 0;
}

Managed *import_buffer(PyObject *object) {
  Py_buffer *buffer = malloc(sizeof *buffer);
  if (!buffer) return (void *)PyErr_NoMemory();
  if (PyObject_GetBuffer(object, buffer, PyBUF_FULL_RO)) {
    free(buffer);
    return NULL;
  }
  int64_t shape[64], strides[64];
  DLTensor view = {0};
  Managed *managed = NULL;
  if (!read_buffer(buffer, &view, shape, strides)) managed = wrap(&view, buffer->readonly, buffer, release_buffer);
  if (!managed) {
    PyBuffer_Release(buffer);
    free(buffer);
  }
  return managed;
}

PyObject *py_from_buffer(PyObject *module, PyObject *object) {
  (void)module;
  return tensor_new(import_buffer(object));
}

/* ---- DLPack -------------------------------------------------------------------------------------------- */

/* A tensor as this library makes them: with strides, and refused if it is malformed. */
static Managed *checked(Managed *managed) {
  return managed ? convert_managed(managed, NULL, NULL) : NULL;
}

PyObject *py_from_capsule(PyObject *module, PyObject *capsule) {
  (void)module;
  return tensor_new(checked(take_capsule(capsule)));
}

PyObject *py_from_exchange(PyObject *module, PyObject *object) {
  (void)module;
  return tensor_new(checked(import_exchange(exchange_of(Py_TYPE(object)), object)));
}

static PyObject *dlpack_name, *dlpack_keywords, *dlpack_version;

Managed *import_dlpack(PyObject *object) {
  PyObject *arguments[] = {object, dlpack_version};
  PyObject *capsule = PyObject_VectorcallMethod(dlpack_name, arguments, 1, dlpack_keywords);
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_VectorcallMethod(dlpack_name, arguments, 1, NULL);
  }
  if (!capsule) return NULL;
  Managed *managed = take_capsule(capsule);
  Py_DECREF(capsule);
  return managed;
}

/* ---- addresses ----------------------------------------------------------------------------------------- */

static int read_numbers(PyObject *sequence, int64_t *numbers, const char *name) {
  PyObject *tuple = PySequence_Tuple(sequence);
  Py_ssize_t count = tuple ? PyTuple_Size(tuple) : -1;
  if (count > 64) {
    raise_named("InvalidTensorError", "%s has %zd numbers: expected 64 at most", name, count);
    count = -1;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    numbers[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (numbers[i] == -1 && PyErr_Occurred()) {
      count = -1;
      if (!PyErr_ExceptionMatches(PyExc_OverflowError)) break;
      PyErr_Clear();
      raise_named("InvalidTensorError", "%s is %R: expected numbers of 64 bits", name, sequence);
      break;
    }
  }
  Py_XDECREF(tuple);
  return (int)count;
}

/* wrap(data, shape, byte_strides or None, dtype, device_type, device_id, owner, read_only, byte_offset) */
PyObject *py_wrap(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != 9) {
    PyErr_SetString(PyExc_TypeError, "wrap() takes 9 arguments");
    return NULL;
  }
  int64_t shape[64], strides[64];
  DLTensor view = {.shape = shape, .strides = strides};
  ab_error error = {.struct_size = sizeof error};
  PyObject *name = PyUnicode_AsUTF8String(args[3]);
  if (!name) return NULL;
  ab_status status = ab_dtype_parse(PyBytes_AsString(name), &view.dtype, &error);
  Py_DECREF(name);
  if (status != AB_OK) return raise_error(&error);
  view.data = PyLong_AsVoidPtr(args[0]);
  if (!view.data && PyErr_Occurred()) return NULL;
  view.device.device_type = (DLDeviceType)PyLong_AsLong(args[4]);
  view.device.device_id = (int32_t)PyLong_AsLong(args[5]);
  view.byte_offset = PyLong_AsUnsignedLongLong(args[8]);
  if (PyErr_Occurred()) return NULL;
  if ((view.ndim = read_numbers(args[1], shape, "shape")) < 0) return NULL;
  if (args[2] == Py_None) {
    view.strides = NULL;
  } else {
    int strides_count = read_numbers(args[2], strides, "strides");
    if (strides_count < 0) return NULL;
    if (strides_count != view.ndim)
      return raise_named("InvalidTensorError", "strides are %R with a shape of %R", args[2], args[1]);
    if (divide_strides(strides, shape, view.ndim, (view.dtype.bits * view.dtype.lanes + 7) / 8)) return NULL;
  }
  Py_INCREF(args[6]);
  Managed *managed = wrap(&view, PyObject_IsTrue(args[7]), args[6], release_python);
  if (!managed) Py_DECREF(args[6]);
  return tensor_new(managed);
}

/* ---- set-up -------------------------------------------------------------------------------------------- */

int imports_init(void) {
  dlpack_name = PyUnicode_InternFromString("__dlpack__");
  dlpack_keywords = Py_BuildValue("(s)", "max_version");
  dlpack_version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  return dlpack_name && dlpack_keywords && dlpack_version ? 0 : -1;
}
