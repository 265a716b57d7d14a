/* arraybridge._native: the library's C ABI for Python. */

#include "native.h"

#include <stdlib.h>

static PyObject *py_backends(PyObject *module, PyObject *nothing) {
  (void)module;
  (void)nothing;
  ab_error error = {.struct_size = sizeof error};
  ab_backend_info infos[16] = {{.struct_size = sizeof *infos}};
  size_t count;
  if (ab_list_backends(NULL, infos, 16, &count, &error) != AB_OK) return raise_error(&error);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count && i < 16; i++) {
    PyObject *item = Py_BuildValue("sNs", infos[i].name, PyBool_FromLong(infos[i].available), infos[i].detail);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

static PyObject *py_devices(PyObject *module, PyObject *nothing) {
  (void)module;
  (void)nothing;
  enum { MANY = 64 };
  ab_error error = {.struct_size = sizeof error};
  ab_device_info *infos = calloc(MANY, sizeof *infos);
  size_t count;
  if (!infos) return PyErr_NoMemory();
  infos->struct_size = sizeof *infos;
  ab_status status;
  PyThreadState *thread = PyEval_SaveThread();
  status = ab_list_devices(NULL, infos, MANY, &count, &error);
  PyEval_RestoreThread(thread);
  PyObject *list = status == AB_OK ? PyList_New(0) : raise_error(&error);
  for (size_t i = 0; list && i < count && i < MANY; i++) {
    const ab_device_info *info = &infos[i];
    PyObject *item = Py_BuildValue("iissKK", (int)info->device.device_type, (int)info->device.device_id, info->name,
                                   info->backend, (unsigned long long)info->total_memory,
                                   (unsigned long long)info->free_memory);
    if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  free(infos);
  return list;
}

static PyObject *py_parse_dtype(PyObject *module, PyObject *text) {
  (void)module;
  PyObject *bytes = PyUnicode_AsUTF8String(text);
  if (!bytes) return NULL;
  DLDataType dtype;
  ab_error error = {.struct_size = sizeof error};
  char *characters, name[64];
  Py_ssize_t length; /* PyBytes_AsStringAndSize refuses a NUL inside only without a length */
  ab_status status = AB_OK;
  int failed = PyBytes_AsStringAndSize(bytes, &characters, NULL) || PyBytes_AsStringAndSize(bytes, &characters, &length);
  if (!failed) status = ab_dtype_parse(characters, &dtype, &error);
  Py_DECREF(bytes);
  if (failed) return NULL;
  if (status != AB_OK) return raise_error(&error);
  ab_dtype_format(&dtype, name, sizeof name);
  return PyUnicode_FromString(name);
}

static PyObject *py_status_name(PyObject *module, PyObject *status) {
  (void)module;
  long number = PyLong_AsLong(status);
  if (number == -1 && PyErr_Occurred()) return NULL;
  return PyUnicode_FromString(ab_status_name((ab_status)number));
}

static PyObject *py_version(PyObject *module, PyObject *nothing) {
  (void)module;
  (void)nothing;
  return Py_BuildValue("sI", ab_version(), ab_abi_version());
}

static PyMethodDef methods[] = {
    {"convert", (PyCFunction)(void (*)(void))py_convert, METH_FASTCALL | METH_KEYWORDS,
     "convert(x, to=None, *, device=None, dtype=None, copy=None, layout=None, stream=None, writable=False, "
     "report=False)\n--\n\n"
     "Brings any array to any framework, device, dtype and layout: shared where the two sides can share memory, else\n"
     "made in one pass.\n\n"
     "x: an array of a known framework, an object with any of the array protocols, a buffer, or nested numbers.\n"
     "to: a framework's name or module; None: the same framework as x.\n"
     "device: \"cpu\", \"cuda:1\", \"opencl:0\", a pair of DLPack's numbers, or a framework's device object; None: where\n"
     "x is, if the target can use it there.\n"
     "dtype: a name, or a framework's dtype. copy: None as needed, False never (CopyRequiredError), True always.\n"
     "layout: \"C\", \"F\", \"keep\" or None. stream: the consumer's, if not its current one. writable: whether the result\n"
     "must be. report: return (array, Report).\n\n"
     "Raises a MemoryConversionError that says what to do instead; see arraybridge.errors."},
    {"asdlpack", py_asdlpack, METH_O,
     "asdlpack(x, /)\n--\n\nThe memory of x, without a copy, as a Tensor that speaks every protocol. x: as for convert."},
    {"from_capsule", py_from_capsule, METH_O, NULL},
    {"from_buffer", py_from_buffer, METH_O, NULL},
    {"from_exchange", py_from_exchange, METH_O, NULL},
    {"from_ndarray", py_from_ndarray, METH_O, NULL},
    {"late_capsule", py_late_capsule, METH_O, NULL},
    {"to_ndarray", py_to_ndarray, METH_O, NULL},
    {"to_exchange", (PyCFunction)(void (*)(void))py_to_exchange, METH_FASTCALL, NULL},
    {"current_stream", (PyCFunction)(void (*)(void))py_current_stream, METH_FASTCALL, NULL},
    {"wrap", (PyCFunction)(void (*)(void))py_wrap, METH_FASTCALL, NULL},
    {"add_source", (PyCFunction)(void (*)(void))py_add_source, METH_FASTCALL, NULL},
    {"add_target", (PyCFunction)(void (*)(void))py_add_target, METH_FASTCALL, NULL},
    {"backends", py_backends, METH_NOARGS, NULL},
    {"devices", py_devices, METH_NOARGS, NULL},
    {"parse_dtype", py_parse_dtype, METH_O, NULL},
    {"status_name", py_status_name, METH_O, NULL},
    {"version", py_version, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module) {
  /* Memory is released on any thread, for which PyGILState_Ensure knows the main interpreter only: in another one,
   * Python 3.10 and 3.11 wait there for ever. */
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError, "arraybridge can be imported by the main interpreter of a process only, not by a "
                                       "subinterpreter (with mod_wsgi, set WSGIApplicationGroup %{GLOBAL})");
    return -1;
  }
  /* One set of caches and types a process. */
  if (tensor_type) {
    PyErr_SetString(PyExc_ImportError, "arraybridge has been imported already: a process can import it once");
    return -1;
  }
  if (ab_abi_version() >> 16 != AB_ABI_MAJOR) {
    PyErr_Format(PyExc_ImportError, "libarraybridge has ABI %u.%u: this module needs %d.%d",
                 ab_abi_version() >> 16, ab_abi_version() & 0xffff, AB_ABI_MAJOR, AB_ABI_MINOR);
    return -1;
  }
  return numpy_init() || imports_init() || shortcut_init(module) || tensor_init(module) ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "arraybridge._native",
    .m_doc = "The library's C ABI for Python; what users need of it is in arraybridge.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
