/* ab_convert, ab_plan and ab_copy_into for Python: options in, reports out, the GIL let go for real work. */

#include "native.h"

/* Below this many bytes letting the GIL go costs more than the work. */
enum { SMALL = 1 << 16 };

static int is_large(const DLTensor *view) {
  uint64_t bytes = (uint64_t)view->dtype.bits * view->dtype.lanes / 8;
  for (int32_t i = 0; i < view->ndim && bytes < SMALL; i++)
    if (view->shape[i] > 1) bytes *= (uint64_t)view->shape[i];
  return bytes >= SMALL;
}

/* Whether the call will move data that is worth another thread's time. */
static int is_work(const Managed *source, const ab_convert_options *options) {
  if (!options || source->version.major != 1 || source->dl_tensor.ndim < 0 || source->dl_tensor.ndim > 64) return 0;
  if (source->dl_tensor.ndim && !source->dl_tensor.shape) return 0;
  if (source->dl_tensor.device.device_type != kDLCPU) return 1;
  if (options->device.device_type > kDLCPU) return 1;
  if (!is_large(&source->dl_tensor)) return 0;
  ab_report plan = {.struct_size = sizeof plan};
  return ab_plan(NULL, &source->dl_tensor, source->flags, options, &plan, NULL) == AB_OK && plan.passes > 0;
}

Managed *convert_managed(Managed *source, const ab_convert_options *options, ab_report *report) {
  Managed *result = NULL;
  ab_status status;
  ab_error error = {.struct_size = sizeof error};
  if (is_work(source, options)) {
    PyThreadState *thread = PyEval_SaveThread();
    status = ab_convert(NULL, source, options, &result, report, &error);
    PyEval_RestoreThread(thread);
  } else {
    status = ab_convert(NULL, source, options, &result, report, &error);
  }
  if (status == AB_OK) return result;
  ab_release(source);
  return raise_error(&error);
}

PyObject *report_tuple(const ab_report *report) {
  return Py_BuildValue("iIIKKK", (int)report->route, report->reasons, report->passes,
                       (unsigned long long)report->bytes_read, (unsigned long long)report->bytes_written,
                       (unsigned long long)report->nanoseconds);
}

static int read_options(PyObject *args, PyObject *keywords, ab_convert_options *options) {
  static char *names[] = {"device_type", "device_id", "dtype",     "copy",  "layout",     "casting",
                          "alignment",   "consumers", "flags", "src_stream", "dst_stream", NULL};
  int type = 0, id = 0;
  const char *dtype = NULL;
  long long source = 0, destination = 0;
  *options = (ab_convert_options){.struct_size = sizeof *options};
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$iiziiiIIILL", names, &type, &id, &dtype, &options->copy,
                                   &options->layout, &options->casting, &options->alignment, &options->consumers,
                                   &options->flags, &source, &destination))
    return -1;
  options->device = (DLDevice){(DLDeviceType)type, id};
  options->src_stream = source;
  options->dst_stream = destination;
  ab_error error = {.struct_size = sizeof error};
  if (!dtype || ab_dtype_parse(dtype, &options->dtype, &error) == AB_OK) return 0;
  raise_error(&error);
  return -1;
}

PyObject *tensor_convert(PyObject *self, PyObject *args, PyObject *keywords) {
  ab_convert_options options;
  ab_report report = {.struct_size = sizeof report};
  if (read_options(args, keywords, &options)) return NULL;
  Managed *source = share(((Tensor *)self)->holder);
  PyObject *tensor = source ? tensor_new(convert_managed(source, &options, &report)) : NULL;
  PyObject *tuple = tensor ? report_tuple(&report) : NULL;
  if (tuple) return Py_BuildValue("NN", tensor, tuple);
  Py_XDECREF(tensor);
  return NULL;
}

PyObject *tensor_plan(PyObject *self, PyObject *args, PyObject *keywords) {
  ab_convert_options options;
  ab_report report = {.struct_size = sizeof report};
  ab_error error = {.struct_size = sizeof error};
  if (read_options(args, keywords, &options)) return NULL;
  const Managed *managed = holder_managed(((Tensor *)self)->holder);
  if (ab_plan(NULL, &managed->dl_tensor, managed->flags, &options, &report, &error) != AB_OK) return raise_error(&error);
  return report_tuple(&report);
}

/* _copy_into(destination, **options): writes the tensor's values to another tensor's memory. */
PyObject *tensor_copy_into(PyObject *self, PyObject *args, PyObject *keywords) {
  ab_convert_options options;
  ab_report report = {.struct_size = sizeof report};
  ab_error error = {.struct_size = sizeof error};
  PyObject *destination, *none = PyTuple_New(0);
  if (!none) return NULL;
  int failed = !PyArg_ParseTuple(args, "O!:_copy_into", tensor_type, &destination) ||
               read_options(none, keywords, &options);
  Py_DECREF(none);
  if (failed) return NULL;
  const Managed *from = holder_managed(((Tensor *)self)->holder), *into = holder_managed(((Tensor *)destination)->holder);
  ab_status status;
  PyThreadState *thread = PyEval_SaveThread();
  status = ab_copy_into(NULL, &from->dl_tensor, from->flags, &into->dl_tensor, into->flags, &options, &report, &error);
  PyEval_RestoreThread(thread);
  return status == AB_OK ? report_tuple(&report) : raise_error(&error);
}
