/* arraybridge.Tensor: a tensor that speaks every protocol. */

#include "native.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

PyTypeObject *tensor_type;

PyObject *tensor_from_holder(Holder *holder) {
  Tensor *self = PyObject_New(Tensor, tensor_type);
  if (!self) {
    holder_drop(holder);
    return NULL;
  }
  self->holder = holder;
  self->weak_references = NULL;
  return (PyObject *)self;
}

PyObject *tensor_new(Managed *managed) {
  if (!managed) return NULL;
  Holder *holder = holder_new(managed);
  if (!holder) {
    ab_release(managed);
    return NULL;
  }
  return tensor_from_holder(holder);
}

static const Managed *managed_of(PyObject *self) { return holder_managed(((Tensor *)self)->holder); }
static const DLTensor *view_of(PyObject *self) { return &managed_of(self)->dl_tensor; }

static void tensor_dealloc(PyObject *self) {
  Tensor *tensor = (Tensor *)self;
  PyTypeObject *type = Py_TYPE(self);
  if (tensor->weak_references) PyObject_ClearWeakRefs(self);
  holder_drop(tensor->holder);
  PyObject_Free(self);
  Py_DECREF(type);
}

/* ---- what it is ------------------------------------------------------------------------------------ */

static PyObject *int_tuple(const int64_t *values, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple && i < count; i++) {
    PyObject *value = PyLong_FromLongLong(values[i]);
    if (!value || PyTuple_SetItem(tuple, i, value)) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *get_shape(PyObject *self, void *closure) {
  (void)closure;
  return int_tuple(view_of(self)->shape, view_of(self)->ndim);
}

static PyObject *get_strides(PyObject *self, void *closure) {
  (void)closure;
  return int_tuple(view_of(self)->strides, view_of(self)->ndim);
}

static PyObject *get_ndim(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromLong(view_of(self)->ndim);
}

static PyObject *get_dtype(PyObject *self, void *closure) {
  (void)closure;
  char name[64];
  ab_dtype_format(&view_of(self)->dtype, name, sizeof name);
  return PyUnicode_FromString(name);
}

static PyObject *get_device(PyObject *self, void *closure) {
  (void)closure;
  const DLDevice *device = &view_of(self)->device;
  PyObject *class = package_attribute("arraybridge.info", "Device");
  PyObject *result =
      class ? PyObject_CallFunction(class, "ii", (int)device->device_type, (int)device->device_id) : NULL;
  Py_XDECREF(class);
  return result;
}

static int describe(PyObject *self, ab_tensor_info *info) {
  ab_error error = {.struct_size = sizeof error};
  info->struct_size = sizeof *info;
  if (ab_detect(view_of(self), managed_of(self)->flags, info, &error) == AB_OK) return 0;
  raise_error(&error);
  return -1;
}

static PyObject *get_nbytes(PyObject *self, void *closure) {
  (void)closure;
  ab_tensor_info info;
  return describe(self, &info) ? NULL : PyLong_FromUnsignedLongLong(info.num_bytes);
}

static PyObject *get_size(PyObject *self, void *closure) {
  (void)closure;
  ab_tensor_info info;
  return describe(self, &info) ? NULL : PyLong_FromLongLong(info.num_elements);
}

static PyObject *get_read_only(PyObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong((managed_of(self)->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
}

static PyObject *get_data_ptr(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromVoidPtr(view_of(self)->data);
}

/* (flags of AB_TENSOR_*, alignment, consumers): what Python turns into a TensorInfo. */
static PyObject *get_facts(PyObject *self, void *closure) {
  (void)closure;
  ab_tensor_info info;
  return describe(self, &info) ? NULL : Py_BuildValue("III", info.flags, info.alignment, info.accepted_by);
}

static PyObject *tensor_repr(PyObject *self) {
  PyObject *shape = get_shape(self, NULL), *strides = get_strides(self, NULL), *device = get_device(self, NULL);
  PyObject *dtype = get_dtype(self, NULL), *result = NULL;
  if (shape && strides && device && dtype)
    result = PyUnicode_FromFormat("arraybridge.Tensor(shape=%R, strides=%R, dtype='%S', device='%S'%s)", shape, strides,
                                  dtype, device,
                                  managed_of(self)->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? ", read_only=True" : "");
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  Py_XDECREF(device);
  Py_XDECREF(dtype);
  return result;
}

/* ---- DLPack ---------------------------------------------------------------------------------------- */

static int is_host(DLDeviceType type) {
  return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost || type == kDLCUDAManaged;
}

/* Reads a pair of ints, such as an enum's member and an id. */
static int read_pair(PyObject *pair, const char *name, long *first, long *second) {
  PyObject *tuple = PyUnicode_Check(pair) ? NULL : PySequence_Tuple(pair);
  PyErr_Clear();
  if (tuple && PyTuple_Size(tuple) == 2) {
    *first = PyLong_AsLong(PyTuple_GetItem(tuple, 0));
    *second = PyErr_Occurred() ? 0 : PyLong_AsLong(PyTuple_GetItem(tuple, 1));
    Py_DECREF(tuple);
    if (!PyErr_Occurred()) return 0;
    PyErr_Clear();
  } else {
    Py_XDECREF(tuple);
  }
  raise_named("InvalidArgumentError", "%s is %R: expected a pair of ints", name, pair);
  return -1;
}

/* The stream of a consumer, in the array API's numbers; 0: none given. */
static int read_stream(PyObject *stream, DLDeviceType device, int64_t *out) {
  *out = 0;
  if (stream == Py_None) return 0;
  if (is_host(device) && device != kDLCUDAManaged) {
    raise_named("InvalidArgumentError", "stream is %R: host memory has none, leave it None", stream);
    return -1;
  }
  *out = PyLong_AsLongLong(stream);
  if (!PyErr_Occurred() && *out >= -1 && !(*out == 0 && (device == kDLCUDA || device == kDLCUDAManaged))) return 0;
  PyErr_Clear();
  raise_named("InvalidArgumentError",
              "stream is %R: expected None, -1, 1 (legacy default), 2 (per-thread default) or a handle", stream);
  return -1;
}

static PyObject *dlpack_keywords[4]; /* interned, so that a comparison of addresses finds nearly all */

static int read_dlpack_keywords(PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject **values) {
  if (count) {
    PyErr_SetString(PyExc_TypeError, "__dlpack__() takes keyword arguments only");
    return -1;
  }
  for (Py_ssize_t i = 0, given = names ? PyTuple_Size(names) : 0; i < given; i++) {
    PyObject *name = PyTuple_GetItem(names, i);
    int found = 0;
    while (found < 4 && dlpack_keywords[found] != name) found++;
    for (int k = 0; found == 4 && k < 4; k++)
      if (PyUnicode_Compare(dlpack_keywords[k], name) == 0) found = k;
    if (found == 4) {
      PyErr_Format(PyExc_TypeError, "__dlpack__() has no keyword argument %R", name);
      return -1;
    }
    values[found] = args[i];
  }
  return 0;
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
  PyObject *values[4] = {Py_None, Py_None, Py_None, Py_None};
  if (read_dlpack_keywords(args, count, names, values)) return NULL;
  PyObject *stream = values[0], *version = values[1], *device = values[2], *copy = values[3];
  Holder *holder = ((Tensor *)self)->holder;
  const DLTensor *view = view_of(self);
  long major = 0, minor = 0, type = view->device.device_type, id = view->device.device_id;
  if (version != Py_None && read_pair(version, "max_version", &major, &minor)) return NULL;
  if (device != Py_None && read_pair(device, "dl_device", &type, &id)) return NULL;
  if (copy != Py_None && !PyBool_Check(copy))
    return raise_named("InvalidArgumentError", "copy is %R: expected True, False or None", copy);
  int64_t order;
  if (read_stream(stream, (DLDeviceType)type, &order)) return NULL;
  int elsewhere = type != (long)view->device.device_type || id != view->device.device_id;
  if (!elsewhere && copy != Py_True && order == 0) return share_capsule(holder, major < 1, 0);

  ab_convert_options options = {.struct_size = sizeof options, .dst_stream = order};
  options.device = (DLDevice){(DLDeviceType)type, (int32_t)id};
  options.copy = copy == Py_True ? AB_COPY_ALWAYS : copy == Py_False ? AB_COPY_NEVER : AB_COPY_IF_NEEDED;
  if (order != 0) options.flags = AB_CONVERT_ASYNC;
  Managed *shared = share(holder);
  Managed *converted = shared ? convert_managed(shared, &options, NULL) : NULL;
  Holder *result = converted ? holder_new(converted) : NULL;
  if (!result) {
    ab_release(converted);
    return NULL;
  }
  PyObject *capsule = share_capsule(result, major < 1, converted->flags & DLPACK_FLAG_BITMASK_IS_COPIED);
  holder_drop(result);
  return capsule;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *nothing) {
  (void)nothing;
  const DLDevice *device = &view_of(self)->device;
  return Py_BuildValue("ii", (int)device->device_type, (int)device->device_id);
}

/* ---- what Python code does better ------------------------------------------------------------------ */

static PyObject *call_python(const char *name, PyObject *self, PyObject *args, PyObject *keywords) {
  PyObject *function = package_attribute("arraybridge.core", name), *result = NULL;
  Py_ssize_t count = PyTuple_Size(args);
  PyObject *all = function ? PyTuple_New(count + 1) : NULL;
  if (all) {
    Py_INCREF(self);
    PyTuple_SetItem(all, 0, self);
    for (Py_ssize_t i = 0; i < count; i++) {
      PyObject *item = PyTuple_GetItem(args, i);
      Py_INCREF(item);
      PyTuple_SetItem(all, i + 1, item);
    }
    result = PyObject_Call(function, all, keywords);
  }
  Py_XDECREF(all);
  Py_XDECREF(function);
  return result;
}

static PyObject *tensor_to(PyObject *self, PyObject *args, PyObject *keywords) {
  return call_python("convert", self, args, keywords);
}

static PyObject *tensor_array(PyObject *self, PyObject *args, PyObject *keywords) {
  return call_python("tensor_as_array", self, args, keywords);
}

/* _as_read_only(): the same memory, marked. */
static PyObject *tensor_as_read_only(PyObject *self, PyObject *nothing) {
  (void)nothing;
  Managed *shared = share(((Tensor *)self)->holder);
  if (shared) shared->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  return tensor_new(shared);
}

/* ---- the type -------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A capsule that shares the tensor's memory, as the array API standard defines it. Without max_version it is of\n"
     "the form from before DLPack 1.0, which a read-only tensor does not have (BufferError)."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\nDLPack's device type and the device's number."},
    {"__array__", (PyCFunction)(void (*)(void))tensor_array, METH_VARARGS | METH_KEYWORDS,
     "__array__($self, dtype=None, copy=None)\n--\n\nThe tensor as a NumPy array: a view of host memory, else a copy."},
    {"to", (PyCFunction)(void (*)(void))tensor_to, METH_VARARGS | METH_KEYWORDS,
     "to($self, to=None, *, device=None, dtype=None, copy=None, layout=None, stream=None, writable=False, "
     "report=False)\n--\n\nThe same as arraybridge.convert(self, ...)."},
    {"_convert", (PyCFunction)(void (*)(void))tensor_convert, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_plan", (PyCFunction)(void (*)(void))tensor_plan, METH_VARARGS | METH_KEYWORDS, NULL},
    {"_as_read_only", tensor_as_read_only, METH_NOARGS, NULL},
    {"_copy_into", (PyCFunction)(void (*)(void))tensor_copy_into, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, "Extents of the axes.", NULL},
    {"strides", get_strides, NULL, "Steps along the axes, in elements.", NULL},
    {"ndim", get_ndim, NULL, "Number of axes.", NULL},
    {"size", get_size, NULL, "Number of elements.", NULL},
    {"dtype", get_dtype, NULL, "Name of the elements' type, \"float32\" for example.", NULL},
    {"device", get_device, NULL, "Where the memory is: an arraybridge.Device.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"read_only", get_read_only, NULL, "Whether the memory must not be written to.", NULL},
    {"data_ptr", get_data_ptr, NULL, "Address of the first element, or the device's handle; 0 when empty.", NULL},
    {"_facts", get_facts, NULL, NULL, NULL},
    {"__array_interface__", tensor_array_interface, NULL, "For host memory: version 3 of NumPy's array interface.", NULL},
    {"__cuda_array_interface__", tensor_cuda_array_interface, NULL, "For CUDA memory: version 3 of the interface.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Memory on loan, with its shape: what every function of this package reads and makes.\n\n"
                "It speaks DLPack (with and without versions, and the C exchange API), the buffer protocol,\n"
                "__array_interface__ or __cuda_array_interface__, and __array__. The memory's owner lives until the\n"
                "last of its consumers lets go. Made by asdlpack, from_dlpack and convert; may be used from any thread."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {Py_bf_getbuffer, tensor_getbuffer},
    {Py_bf_releasebuffer, tensor_releasebuffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "arraybridge.Tensor",
    .basicsize = sizeof(Tensor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int tensor_init(PyObject *module) {
  static const char *const NAMES[] = {"stream", "max_version", "dl_device", "copy"};
  for (int i = 0; i < 4; i++)
    if (!(dlpack_keywords[i] = PyUnicode_InternFromString(NAMES[i]))) return -1;
  PyObject *type = PyType_FromSpec(&spec);
  if (!type) return -1;
  tensor_type = (PyTypeObject *)type;
  PyObject *capsule = exchange_capsule();
  int failed = !capsule || PyObject_SetAttrString(type, "__dlpack_c_exchange_api__", capsule);
  Py_XDECREF(capsule);
  if (failed) return -1;
  Py_INCREF(type);
  return PyModule_AddObject(module, "Tensor", type);
}
