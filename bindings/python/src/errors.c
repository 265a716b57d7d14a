/* Exceptions: the classes are Python's, in arraybridge.errors; here they are found and raised. */

#include "native.h"

#include <stdarg.h>
#include <stdio.h>

PyObject *package_attribute(const char *module, const char *name) {
  PyObject *imported = PyImport_ImportModule(module);
  if (!imported) return NULL;
  PyObject *attribute = PyObject_GetAttrString(imported, name);
  Py_DECREF(imported);
  return attribute;
}

void *raise_error(const ab_error *error) {
  PyObject *make = package_attribute("arraybridge.errors", "from_status");
  if (!make) return NULL;
  PyObject *exception = PyObject_CallFunction(make, "is", (int)error->code, error->message);
  Py_DECREF(make);
  if (!exception) return NULL;
  PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
  Py_DECREF(exception);
  return NULL;
}

void *raise_named(const char *name, const char *format, ...) {
  PyObject *class = package_attribute("arraybridge.errors", name);
  if (!class) return NULL;
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(class, format, arguments);
  va_end(arguments);
  Py_DECREF(class);
  return NULL;
}
