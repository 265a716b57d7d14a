/* What the files of the native module share.
 *
 * One idea runs through all of it: memory that somebody lends is a Holder, counted without Python; a
 * Tensor and every capsule made of it hold the Holder, never each other. Only what a Python object owns
 * needs the GIL when it ends (release_python), and that function alone knows about interpreters that
 * are going away. */

#ifndef ARRAYBRIDGE_NATIVE_H
#define ARRAYBRIDGE_NATIVE_H

#include "python.h"

#include <stdint.h>

#include <arraybridge/arraybridge.h>

#define INTERNAL __attribute__((visibility("hidden")))

typedef struct DLManagedTensorVersioned Managed;

/* owner.c ------------------------------------------------------------------------------------------- */

/* Memory on loan: a managed tensor and the number of those who use it. Any thread, no GIL. */
typedef struct Holder Holder;

/* Takes `managed` over, with one user; NULL with MemoryError set (then `managed` is the caller's). */
INTERNAL Holder *holder_new(Managed *managed);
INTERNAL void holder_keep(Holder *holder);
INTERNAL void holder_drop(Holder *holder);
INTERNAL Managed *holder_managed(Holder *holder);

/* A managed tensor of its own over the Holder's memory; legacy when `legacy`, then the pointer is to a
 * DLManagedTensor. NULL with an exception set. */
INTERNAL Managed *share(Holder *holder);
INTERNAL PyObject *share_capsule(Holder *holder, int legacy, uint64_t more_flags);
/* A loan may be ended by whoever made it, where it is not known whether the one it was made for has. */
INTERNAL uintptr_t share_loan(const Managed *tensor);
INTERNAL void share_end(Managed *tensor, uintptr_t loan);
/* late_capsule(tensor): as __dlpack__(max_version=(1, 0)), for consumers whose deleters must not call another's. */
INTERNAL PyObject *py_late_capsule(PyObject *, PyObject *);

/* For ab_wrap: lets go of a Python object from any thread, also while an exception is pending and
 * while or after the interpreter ends (then the object is left alone). */
INTERNAL void release_python(void *object);
/* The same for a Py_buffer from PyMem_RawMalloc. */
INTERNAL void release_buffer(void *buffer);

/* The tensor in a capsule, which is marked as used; legacy ones are wrapped. NULL with an exception. */
INTERNAL Managed *take_capsule(PyObject *capsule);

/* errors.c ------------------------------------------------------------------------------------------ */

/* Sets the exception of arraybridge.errors that stands for `error`; returns NULL. */
INTERNAL void *raise_error(const ab_error *error);
/* Sets the named class of arraybridge.errors, formatted as PyErr_Format; returns NULL. */
INTERNAL void *raise_named(const char *name, const char *format, ...);
/* An attribute of a Python module of the package, imported when it is first needed. New reference. */
INTERNAL PyObject *package_attribute(const char *module, const char *name);

/* tensor.c ------------------------------------------------------------------------------------------ */

typedef struct {
  PyObject_HEAD
  Holder *holder;
  ab_tensor_info info;
  PyObject *weak_references;
} Tensor;

INTERNAL extern PyTypeObject *tensor_type;
INTERNAL int tensor_init(PyObject *module);
/* Takes `managed` over: on failure it is released. */
INTERNAL PyObject *tensor_new(Managed *managed);
INTERNAL PyObject *tensor_from_holder(Holder *holder);

/* imports.c: objects to tensors --------------------------------------------------------------------- */

INTERNAL Managed *import_buffer(PyObject *object);
/* Describes a buffer, with room for 64 axes in `shape` and `strides`. -1 with an exception: no tensor can be it. */
INTERNAL int read_buffer(const Py_buffer *buffer, DLTensor *view, int64_t *shape, int64_t *strides);
INTERNAL Managed *import_exchange(const DLPackExchangeAPI *api, PyObject *object);
/* NULL, with or without an exception, where it is refused: nothing of it stays. */
INTERNAL PyObject *export_exchange(const DLPackExchangeAPI *api, Holder *holder);
INTERNAL Managed *import_dlpack(PyObject *object);
INTERNAL PyObject *py_from_capsule(PyObject *, PyObject *);
INTERNAL PyObject *py_from_buffer(PyObject *, PyObject *);
INTERNAL PyObject *py_from_exchange(PyObject *, PyObject *);
INTERNAL PyObject *py_wrap(PyObject *, PyObject *const *, Py_ssize_t);
INTERNAL int imports_init(void);
/* ab_wrap: a managed tensor over `view`, of `owner`'s memory, which it does not take when it fails. */
INTERNAL Managed *wrap(const DLTensor *view, int read_only, void *owner, void (*release)(void *));
/* Byte strides to element strides, in place. -1 with an exception if one is not a multiple. */
INTERNAL int divide_strides(int64_t *strides, const int64_t *shape, int ndim, int64_t itemsize);

/* numpy.c ------------------------------------------------------------------------------------------- */

INTERNAL int numpy_init(void);
/* 1 if the object is exactly a NumPy array whose struct can be read as it is. */
INTERNAL int is_plain_ndarray(PyObject *object);
INTERNAL Managed *import_numpy(PyObject *array);
/* An array over a Tensor in host memory. */
INTERNAL PyObject *numpy_array(PyObject *tensor);
/* An array over an object's buffer, held by a memoryview; NULL with or without an exception: not so. */
INTERNAL PyObject *numpy_of_buffer(PyObject *object, int read_only);
INTERNAL PyObject *py_from_ndarray(PyObject *, PyObject *);
INTERNAL PyObject *py_to_ndarray(PyObject *, PyObject *);

/* exchange.c: the C exchange API, both ways --------------------------------------------------------- */

/* The table that a type offers, or NULL, without an exception. */
INTERNAL const DLPackExchangeAPI *exchange_of(PyTypeObject *type);
INTERNAL PyObject *exchange_capsule(void);
INTERNAL PyObject *py_to_exchange(PyObject *, PyObject *const *, Py_ssize_t);
INTERNAL PyObject *py_current_stream(PyObject *, PyObject *const *, Py_ssize_t);

/* buffers.c ----------------------------------------------------------------------------------------- */

/* The PEP 3118 format and the array-interface typestr of a dtype that NumPy has; NULL without. */
INTERNAL const char *buffer_format(DLDataType dtype);
INTERNAL const char *array_typestr(DLDataType dtype);
INTERNAL int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
INTERNAL void tensor_releasebuffer(PyObject *self, Py_buffer *view);
INTERNAL PyObject *tensor_array_interface(PyObject *self, void *closure);
INTERNAL PyObject *tensor_cuda_array_interface(PyObject *self, void *closure);

/* convert.c ----------------------------------------------------------------------------------------- */

INTERNAL PyObject *tensor_convert(PyObject *self, PyObject *args, PyObject *keywords);
INTERNAL PyObject *tensor_plan(PyObject *self, PyObject *args, PyObject *keywords);
INTERNAL PyObject *tensor_copy_into(PyObject *self, PyObject *args, PyObject *keywords);
/* ab_convert, with the GIL released when there is work to do. Takes `source` over also on failure. */
INTERNAL Managed *convert_managed(Managed *source, const ab_convert_options *options, ab_report *report);
INTERNAL PyObject *report_tuple(const ab_report *report);

/* shortcut.c: conversions that need no Python code -------------------------------------------------- */

INTERNAL PyObject *py_convert(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
INTERNAL PyObject *py_asdlpack(PyObject *, PyObject *);
INTERNAL PyObject *py_add_source(PyObject *, PyObject *const *, Py_ssize_t);
INTERNAL PyObject *py_add_target(PyObject *, PyObject *const *, Py_ssize_t);
INTERNAL int shortcut_init(PyObject *module);

#endif
