/* NumPy by its C ABI, which is the same for NumPy 1 and 2: arrays are read where they lie and made without
 * a call of Python's. What is used of it is declared here, and tried once before it is relied upon. */

#include "native.h"

#include <string.h>

typedef struct {
  PyObject_HEAD
  PyTypeObject *scalar_type;
  char kind, type, byte_order, former_flags;
  int type_number;
} Descr;

typedef struct {
  PyObject_HEAD
  char *data;
  int ndim;
  Py_ssize_t *dimensions, *strides;
  PyObject *base;
  Descr *descr;
  int flags;
} Array;

enum { WRITEABLE = 0x0400, MAX_NDIM = 32 /* of NumPy 1 */ };

static PyTypeObject *ndarray_type;
static PyObject *(*descr_from_type)(int type_number);
static PyObject *(*new_from_descr)(PyTypeObject *type, PyObject *descr, int ndim, Py_ssize_t const *dimensions,
                                   Py_ssize_t const *strides, void *data, int flags, PyObject *object);
static int (*set_base_object)(PyObject *array, PyObject *base);
static PyObject *from_dlpack;

/* By type number. Those that DLPack has not are {0, 0}. */
static const uint8_t DTYPES[24][2] = {
    {kDLBool, 8},
    {kDLInt, 8},
    {kDLUInt, 8},
    {kDLInt, 16},
    {kDLUInt, 16},
    {kDLInt, 8 * sizeof(int)},
    {kDLUInt, 8 * sizeof(int)},
    {kDLInt, 8 * sizeof(long)},
    {kDLUInt, 8 * sizeof(long)},
    {kDLInt, 64},
    {kDLUInt, 64},
    {kDLFloat, 32},
    {kDLFloat, 64},
    {0, 0},
    {kDLComplex, 64},
    {kDLComplex, 128},
    [23] = {kDLFloat, 16},
};

static int read_dtype(const Descr *descr, DLDataType *dtype) {
  int number = descr->type_number;
  if (descr->byte_order != '=' && descr->byte_order != '|') return 0;
  if (number < 0 || number >= 24 || !DTYPES[number][1]) return 0;
  *dtype = (DLDataType){DTYPES[number][0], DTYPES[number][1], 1};
  return 1;
}

/* The type number of a dtype; -1 if NumPy has none. */
static int type_number(DLDataType dtype) {
  for (int number = 0; number < 24 && dtype.lanes == 1; number++)
    if (DTYPES[number][1] == dtype.bits && DTYPES[number][0] == dtype.code && dtype.bits) return number;
  return -1;
}

int is_plain_ndarray(PyObject *object) {
  DLDataType dtype;
  return ndarray_type && Py_TYPE(object) == ndarray_type && read_dtype(((Array *)object)->descr, &dtype);
}

Managed *import_numpy(PyObject *object) {
  const Array *array = (const Array *)object;
  int64_t strides[64];
  DLTensor view = {.data = array->data, .device = {kDLCPU, 0}, .ndim = array->ndim, .strides = strides};
  read_dtype(array->descr, &view.dtype);
  if (array->ndim > 64) return raise_named("InvalidTensorError", "ndim is %d: expected 64 at most", array->ndim);
  view.shape = (int64_t *)array->dimensions;
  for (int i = 0; i < array->ndim; i++) strides[i] = array->strides[i];
  if (divide_strides(strides, view.shape, array->ndim, view.dtype.bits / 8)) return NULL;
  Py_INCREF(object);
  Managed *managed = wrap(&view, !(array->flags & WRITEABLE), object, release_python);
  if (!managed) Py_DECREF(object);
  return managed;
}

PyObject *py_from_ndarray(PyObject *module, PyObject *object) {
  (void)module;
  if (!is_plain_ndarray(object)) Py_RETURN_NONE;
  return tensor_new(import_numpy(object));
}

/* An array over what `view` describes, kept alive by `base`; NULL without an exception: NumPy cannot be told
 * so in its own terms. */
static PyObject *array_over(const DLTensor *view, int writeable, PyObject *base) {
  int number = type_number(view->dtype);
  if (!new_from_descr || number < 0 || view->ndim > MAX_NDIM || !view->data) return NULL;
  Py_ssize_t dimensions[MAX_NDIM], strides[MAX_NDIM], itemsize = view->dtype.bits / 8, compact = itemsize;
  for (int i = view->ndim - 1; i >= 0; i--) {
    dimensions[i] = (Py_ssize_t)view->shape[i];
    strides[i] = view->strides ? (Py_ssize_t)view->strides[i] * itemsize : compact;
    compact *= dimensions[i];
  }
  PyObject *descr = descr_from_type(number); /* new_from_descr takes it over */
  if (!descr) return NULL;
  PyObject *array = new_from_descr(ndarray_type, descr, view->ndim, dimensions, strides,
                                   (char *)view->data + view->byte_offset, writeable ? WRITEABLE : 0, NULL);
  if (!array) return NULL;
  Py_INCREF(base); /* set_base_object takes it over, also when it fails */
  if (set_base_object(array, base)) Py_CLEAR(array);
  return array;
}

PyObject *numpy_array(PyObject *tensor) {
  const Managed *managed = holder_managed(((Tensor *)tensor)->holder);
  int writeable = !(managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
  PyObject *array = array_over(&managed->dl_tensor, writeable, tensor);
  if (array || PyErr_Occurred()) return array;
  return PyObject_VectorcallDict(from_dlpack, &tensor, 1, NULL);
}

PyObject *numpy_of_buffer(PyObject *object, int read_only) {
  PyObject *owner = PyMemoryView_FromObject(object), *array = NULL;
  Py_buffer buffer;
  if (owner && !PyObject_GetBuffer(owner, &buffer, PyBUF_FULL_RO)) {
    int64_t shape[64], strides[64];
    DLTensor view = {0};
    ab_tensor_info info = {.struct_size = sizeof info};
    if (!read_buffer(&buffer, &view, shape, strides) && ab_detect(&view, 0, &info, NULL) == AB_OK)
      array = array_over(&view, !read_only && !buffer.readonly, owner);
    PyBuffer_Release(&buffer);
  }
  Py_XDECREF(owner);
  return array;
}

PyObject *py_to_ndarray(PyObject *module, PyObject *tensor) {
  (void)module;
  if (Py_TYPE(tensor) == tensor_type) return numpy_array(tensor);
  PyErr_SetString(PyExc_TypeError, "to_ndarray(tensor)");
  return NULL;
}

/* Whether an array that has been made says in its struct what it was made as. */
static int is_as_expected(PyObject *object) {
  const Array *array = (const Array *)object;
  DLDataType dtype;
  return Py_TYPE(object) == ndarray_type && array->ndim == 2 && array->dimensions[0] == 2 && array->dimensions[1] == 3 &&
         array->strides[0] == 24 && array->strides[1] == -8 && read_dtype(array->descr, &dtype) && dtype.bits == 64 &&
         dtype.code == kDLFloat && array->flags & WRITEABLE;
}

/* Finds NumPy's functions in the table that it offers to C, at the places that are part of its ABI. */
static void find_functions(void) {
  static const char *const MODULES[] = {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"};
  PyObject *capsule = NULL;
  for (int i = 0; i < 2 && !capsule; i++) {
    capsule = package_attribute(MODULES[i], "_ARRAY_API");
    PyErr_Clear();
  }
  void **table = capsule && PyCapsule_IsValid(capsule, NULL) ? PyCapsule_GetPointer(capsule, NULL) : NULL;
  Py_XDECREF(capsule);
  if (!table || table[2] != (void *)ndarray_type) return;
  memcpy(&descr_from_type, &table[45], sizeof descr_from_type);
  memcpy(&set_base_object, &table[282], sizeof set_base_object);
  memcpy(&new_from_descr, &table[94], sizeof new_from_descr);
}

int numpy_init(void) {
  PyObject *numpy = PyImport_ImportModule("numpy");
  from_dlpack = numpy ? PyObject_GetAttrString(numpy, "from_dlpack") : NULL;
  PyObject *type = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
  PyObject *zeros = numpy ? PyObject_CallMethod(numpy, "zeros", "((ii))", 2, 3) : NULL;
  PyObject *slices = zeros ? Py_BuildValue("(NN)", PySlice_New(NULL, NULL, NULL),
                                           PySlice_New(NULL, NULL, PyLong_FromLong(-1))) : NULL;
  PyObject *reversed = slices ? PyObject_GetItem(zeros, slices) : NULL;
  int failed = !from_dlpack || !type || !reversed;
  ndarray_type = (PyTypeObject *)type; /* kept */
  if (!failed && is_as_expected(reversed))
    find_functions();
  else
    ndarray_type = NULL;
  Py_XDECREF(reversed);
  Py_XDECREF(slices);
  Py_XDECREF(zeros);
  Py_XDECREF(numpy);
  return failed ? -1 : 0;
}
