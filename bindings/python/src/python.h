/* Python's headers, for the stable ABI of 3.10, and the few functions of it that every CPython since
 * 3.10 exports unchanged but declares stable only later (buffers in 3.11, vectorcall in 3.12). */

#ifndef ARRAYBRIDGE_PYTHON_H
#define ARRAYBRIDGE_PYTHON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef Py_LIMITED_API

typedef struct {
  void *buf;
  PyObject *obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char *format;
  Py_ssize_t *shape;
  Py_ssize_t *strides;
  Py_ssize_t *suboffsets;
  void *internal;
} Py_buffer;

#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define PyBUF_C_CONTIGUOUS (0x0020 | PyBUF_STRIDES)
#define PyBUF_F_CONTIGUOUS (0x0040 | PyBUF_STRIDES)
#define PyBUF_ANY_CONTIGUOUS (0x0080 | PyBUF_STRIDES)
#define PyBUF_FULL_RO (0x0100 | PyBUF_STRIDES | PyBUF_FORMAT)

#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2

#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))

PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject *object);
PyAPI_FUNC(PyObject *)
    PyObject_VectorcallMethod(PyObject *name, PyObject *const *args, size_t nargsf, PyObject *kwnames);
PyAPI_FUNC(PyObject *)
    PyObject_VectorcallDict(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwargs);
PyAPI_FUNC(int) PyGILState_Check(void);

#endif

/* Only a free-threaded Python has them to do. */
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

/* Public since 3.13, and under the other name before: one of the two is there. */
#ifdef Py_LIMITED_API
__attribute__((weak)) extern int Py_IsFinalizing(void);
__attribute__((weak)) extern int _Py_IsFinalizing(void);
static inline int is_finalizing(void) {
  return Py_IsFinalizing ? Py_IsFinalizing() : _Py_IsFinalizing ? _Py_IsFinalizing() : 0;
}
#elif PY_VERSION_HEX >= 0x030D0000
static inline int is_finalizing(void) { return Py_IsFinalizing(); }
#else
static inline int is_finalizing(void) { return _Py_IsFinalizing(); }
#endif

#endif
