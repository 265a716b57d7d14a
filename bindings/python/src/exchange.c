/* The DLPack C exchange API: reading it from the types that have it, and offering Tensor's own. */

#include "native.h"

static const char CAPSULE[] = "dlpack_exchange_api";

/* ---- theirs ---------------------------------------------------------------------------------------- */

/* Attributes and encodings of the drafts and of DLPack 1.3: a capsule, or an int before. */
static const DLPackExchangeAPI *read_attribute(PyTypeObject *type, const char *name) {
  PyObject *attribute = PyObject_GetAttrString((PyObject *)type, name);
  void *found = NULL;
  if (attribute && PyCapsule_IsValid(attribute, CAPSULE)) found = PyCapsule_GetPointer(attribute, CAPSULE);
  if (attribute && PyLong_CheckExact(attribute)) found = PyLong_AsVoidPtr(attribute);
  /* Whether a number is an address cannot be told, but that some are not. */
  if ((uintptr_t)found < 4096 || (uintptr_t)found % _Alignof(DLPackExchangeAPI)) found = NULL;
  Py_XDECREF(attribute);
  PyErr_Clear();
  return found;
}

const DLPackExchangeAPI *exchange_of(PyTypeObject *type) {
  const DLPackExchangeAPI *api = read_attribute(type, "__dlpack_c_exchange_api__");
  if (!api) api = read_attribute(type, "__c_dlpack_exchange_api__");
  while (api && api->header.version.major != 1) api = (const DLPackExchangeAPI *)api->header.prev_api;
  if (api && (!api->managed_tensor_from_py_object_no_sync || !api->managed_tensor_to_py_object_no_sync)) return NULL;
  return api;
}

Managed *import_exchange(const DLPackExchangeAPI *api, PyObject *object) {
  Managed *managed = NULL;
  if (!api)
    return raise_named("InvalidTensorError", "%R has no __dlpack_c_exchange_api__ of DLPack 1",
                       (PyObject *)Py_TYPE(object));
  if (api->managed_tensor_from_py_object_no_sync(object, &managed) == 0 && managed) return managed;
  if (!PyErr_Occurred()) raise_named("InvalidTensorError", "the exchange API gave no tensor for %R", (PyObject *)Py_TYPE(object));
  return NULL;
}

PyObject *export_exchange(const DLPackExchangeAPI *api, Holder *holder) {
  Managed *managed = share(holder);
  PyObject *object = NULL;
  if (!managed) return NULL;
  uintptr_t loan = share_loan(managed);
  if (api->managed_tensor_to_py_object_no_sync(managed, (void **)&object) == 0 && object) return object;
  share_end(managed, loan); /* unless whoever refused it has ended it */
  return NULL;
}

/* to_exchange(type, tensor): an object of the type that shares the tensor's memory. */
PyObject *py_to_exchange(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != 2 || !PyType_Check(args[0]) || Py_TYPE(args[1]) != tensor_type) {
    PyErr_SetString(PyExc_TypeError, "to_exchange(type, tensor)");
    return NULL;
  }
  const DLPackExchangeAPI *api = exchange_of((PyTypeObject *)args[0]);
  if (!api) return raise_named("InvalidArgumentError", "%R has no __dlpack_c_exchange_api__ of DLPack 1", args[0]);
  PyObject *object = export_exchange(api, ((Tensor *)args[1])->holder);
  if (!object && !PyErr_Occurred()) raise_named("InvalidTensorError", "%R refused the tensor", args[0]);
  return object;
}

/* current_stream(type, device_type, device_id): a framework's own stream as an int, or None. */
PyObject *py_current_stream(PyObject *module, PyObject *const *args, Py_ssize_t count) {
  (void)module;
  if (count != 3 || !PyType_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "current_stream(type, device_type, device_id)");
    return NULL;
  }
  const DLPackExchangeAPI *api = exchange_of((PyTypeObject *)args[0]);
  long type = PyLong_AsLong(args[1]), id = PyErr_Occurred() ? 0 : PyLong_AsLong(args[2]);
  if (PyErr_Occurred()) return NULL;
  void *stream = NULL;
  if (!api || !api->current_work_stream) Py_RETURN_NONE;
  if (api->current_work_stream((DLDeviceType)type, (int32_t)id, &stream)) return NULL;
  return PyLong_FromVoidPtr(stream);
}

/* ---- ours ------------------------------------------------------------------------------------------ */

static int is_tensor(PyObject *object) {
  if (Py_TYPE(object) == tensor_type) return 1;
  PyErr_Format(PyExc_TypeError, "expected an arraybridge.Tensor, not %R", (PyObject *)Py_TYPE(object));
  return 0;
}

static int from_object(void *object, Managed **out) {
  *out = is_tensor(object) ? share(((Tensor *)object)->holder) : NULL;
  return *out ? 0 : -1;
}

static int borrow(void *object, DLTensor *out) {
  if (!is_tensor(object)) return -1;
  *out = holder_managed(((Tensor *)object)->holder)->dl_tensor;
  return 0;
}

static int to_object(Managed *tensor, void **out) {
  *out = NULL;
  ab_error error = {.struct_size = sizeof error};
  Managed *checked; /* with strides, and refused if it is malformed */
  if (ab_convert(NULL, tensor, NULL, &checked, NULL, &error) != AB_OK) {
    raise_error(&error);
    return -1;
  }
  *out = tensor_new(checked);
  return *out ? 0 : -1;
}

static int allocate(DLTensor *prototype, Managed **out, void *context,
                    void (*set_error)(void *context, const char *kind, const char *message)) {
  /* A copy of one element that is repeated: only shape, dtype and device matter, and its values to nobody. */
  static _Alignas(256) const char zero[256];
  int64_t strides[64] = {0};
  DLTensor view = *prototype;
  ab_convert_options options = {.struct_size = sizeof options, .layout = AB_LAYOUT_C};
  options.device = prototype->device;
  ab_error error = {.struct_size = sizeof error};
  view.data = (void *)zero;
  view.device = (DLDevice){kDLCPU, 0};
  view.strides = strides;
  view.byte_offset = 0;
  if (((size_t)view.dtype.bits * view.dtype.lanes + 7) / 8 > sizeof zero) {
    *out = NULL;
    if (set_error) set_error(context, "BufferError", "prototype.dtype is longer than 256 bytes");
    return -1;
  }
  if (ab_copy(NULL, &view, 0, &options, out, NULL, &error) == AB_OK) return 0;
  *out = NULL;
  if (set_error) set_error(context, error.code == AB_E_OUT_OF_MEMORY ? "MemoryError" : "BufferError", error.message);
  return -1;
}

static int current_stream(DLDeviceType type, int32_t id, void **out) {
  (void)type;
  (void)id;
  *out = NULL; /* the default stream: what this package makes is ready when it is handed out */
  return 0;
}

static const DLPackExchangeAPI API = {
    .header = {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, NULL},
    .managed_tensor_allocator = allocate,
    .managed_tensor_from_py_object_no_sync = from_object,
    .managed_tensor_to_py_object_no_sync = to_object,
    .dltensor_from_py_object_no_sync = borrow,
    .current_work_stream = current_stream,
};

PyObject *exchange_capsule(void) { return PyCapsule_New((void *)&API, CAPSULE, NULL); }
