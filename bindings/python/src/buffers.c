/* The host protocols on the way out: buffers and the array interfaces. */

#include "native.h"

#include <stdlib.h>

/* What NumPy calls a dtype: PEP 3118's format, and the array interface's typestr, native byte order. */
static const struct {
  uint8_t code, bits;
  const char *format, *typestr;
} NAMES[] = {
    {kDLBool, 8, "?", "|b1"},      {kDLInt, 8, "b", "|i1"},        {kDLInt, 16, "h", "<i2"},
    {kDLInt, 32, "i", "<i4"},      {kDLInt, 64, "q", "<i8"},       {kDLUInt, 8, "B", "|u1"},
    {kDLUInt, 16, "H", "<u2"},     {kDLUInt, 32, "I", "<u4"},      {kDLUInt, 64, "Q", "<u8"},
    {kDLFloat, 16, "e", "<f2"},    {kDLFloat, 32, "f", "<f4"},     {kDLFloat, 64, "d", "<f8"},
    {kDLComplex, 64, "Zf", "<c8"}, {kDLComplex, 128, "Zd", "<c16"},
};

static int name_index(DLDataType dtype) {
  for (int i = 0; i < (int)(sizeof NAMES / sizeof *NAMES); i++)
    if (NAMES[i].code == dtype.code && NAMES[i].bits == dtype.bits && dtype.lanes == 1) return i;
  return -1;
}

const char *buffer_format(DLDataType dtype) {
  int index = name_index(dtype);
  return index < 0 ? NULL : NAMES[index].format;
}

const char *array_typestr(DLDataType dtype) {
  int index = name_index(dtype);
  return index < 0 ? NULL : NAMES[index].typestr;
}

static int host_readable(const DLTensor *view) {
  DLDeviceType type = view->device.device_type;
  return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost || type == kDLCUDAManaged;
}

int tensor_getbuffer(PyObject *self, Py_buffer *buffer, int flags) {
  Holder *holder = ((Tensor *)self)->holder;
  const Managed *managed = holder_managed(holder);
  const DLTensor *view = &managed->dl_tensor;
  int read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  const char *format = buffer_format(view->dtype);
  buffer->obj = NULL;
  if (!host_readable(view)) {
    raise_named("UnsupportedDeviceError", "the tensor is not in host memory: convert it with device=\"cpu\" first");
    return -1;
  }
  if (!format) {
    raise_named("UnsupportedDtypeError", "the buffer protocol has no format for this dtype: numpy.asarray(tensor) gives "
                                         "an ml_dtypes array");
    return -1;
  }
  if (read_only && flags & PyBUF_WRITABLE) {
    raise_named("ReadOnlyError", "the tensor is read-only: convert it with writable=True first");
    return -1;
  }
  ab_tensor_info info = {.struct_size = sizeof info};
  ab_error error = {.struct_size = sizeof error};
  if (ab_detect(view, managed->flags, &info, &error) != AB_OK) {
    raise_error(&error);
    return -1;
  }
  int c = (info.flags & AB_TENSOR_C_CONTIGUOUS) != 0, f = (info.flags & AB_TENSOR_F_CONTIGUOUS) != 0;
  if (((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !c) || ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !c) ||
      ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !f) ||
      ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !c && !f)) {
    raise_named("UnsupportedLayoutError", "the tensor's strides are not what the buffer's consumer asks for: convert it "
                                          "with layout=\"C\" first");
    return -1;
  }
  int ndim = view->ndim;
  Py_ssize_t *numbers = NULL, itemsize = view->dtype.bits / 8;
  if (ndim && !(numbers = malloc(2 * (size_t)ndim * sizeof *numbers))) {
    PyErr_NoMemory();
    return -1;
  }
  for (int i = 0; i < ndim; i++) {
    numbers[i] = (Py_ssize_t)view->shape[i];
    numbers[ndim + i] = (Py_ssize_t)view->strides[i] * itemsize;
  }
  static char nowhere[16]; /* memoryview does not take NULL for an empty buffer */
  buffer->buf = view->data ? (char *)view->data : nowhere;
  buffer->len = (Py_ssize_t)info.num_elements * itemsize;
  buffer->itemsize = itemsize;
  buffer->readonly = read_only;
  buffer->ndim = ndim;
  buffer->format = flags & PyBUF_FORMAT ? (char *)format : NULL;
  buffer->shape = flags & PyBUF_ND ? numbers : NULL;
  buffer->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? numbers + ndim : NULL;
  buffer->suboffsets = NULL;
  buffer->internal = numbers;
  Py_INCREF(self);
  buffer->obj = self;
  return 0;
}

void tensor_releasebuffer(PyObject *self, Py_buffer *buffer) {
  (void)self;
  free(buffer->internal);
}

static PyObject *interface(PyObject *self, const char *name, int here, int cuda) {
  const Managed *managed = holder_managed(((Tensor *)self)->holder);
  const DLTensor *view = &managed->dl_tensor;
  const char *typestr = array_typestr(view->dtype);
  if (!here || !typestr) {
    PyErr_Format(PyExc_AttributeError, "%s: %s", name,
                 here ? "NumPy has no such dtype" : "the tensor's memory is elsewhere");
    return NULL;
  }
  PyObject *shape = PyObject_GetAttrString(self, "shape"), *strides = PyTuple_New(view->ndim), *result = NULL;
  for (int32_t i = 0; strides && i < view->ndim; i++) {
    PyObject *stride = PyLong_FromLongLong(view->strides[i] * (view->dtype.bits / 8));
    if (!stride || PyTuple_SetItem(strides, i, stride)) Py_CLEAR(strides);
  }
  if (shape && strides) {
    PyObject *data = Py_BuildValue("(NN)", PyLong_FromVoidPtr(view->data),
                                   PyBool_FromLong((managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0));
    if (data)
      result = Py_BuildValue("{sOsssNsOsi}", "shape", shape, "typestr", typestr, "data", data, "strides", strides,
                             "version", 3);
    /* What this package makes is ready when it is handed out. */
    if (result && cuda && PyDict_SetItemString(result, "stream", Py_None)) Py_CLEAR(result);
  }
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  return result;
}

PyObject *tensor_array_interface(PyObject *self, void *closure) {
  (void)closure;
  const DLTensor *view = &holder_managed(((Tensor *)self)->holder)->dl_tensor;
  return interface(self, "__array_interface__", host_readable(view), 0);
}

PyObject *tensor_cuda_array_interface(PyObject *self, void *closure) {
  (void)closure;
  DLDeviceType type = holder_managed(((Tensor *)self)->holder)->dl_tensor.device.device_type;
  return interface(self, "__cuda_array_interface__", type == kDLCUDA || type == kDLCUDAManaged, 1);
}
