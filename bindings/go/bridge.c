#include "bridge.h"

#include <stdlib.h>

#include "_cgo_export.h"

static void release(void *handle) { arraybridgeRelease((uintptr_t)handle); }

ab_status ab_go_wrap(const DLTensor *view, uint64_t dl_flags, uintptr_t handle, ab_managed **out, ab_error *error) {
  return ab_wrap(view, dl_flags, (void *)handle, release, out, error);
}

DLTensor *ab_go_tensor(uintptr_t data, int32_t ndim, DLDataType dtype, int64_t **shape, int64_t **strides) {
  DLTensor *tensor = calloc(1, sizeof *tensor + 2 * sizeof(int64_t) * (size_t)ndim);
  if (tensor == NULL)
    return NULL;
  tensor->data = (void *)data;
  tensor->device.device_type = kDLCPU;
  tensor->ndim = ndim;
  tensor->dtype = dtype;
  tensor->shape = *shape = (int64_t *)(tensor + 1);
  tensor->strides = *strides = tensor->shape + ndim;
  return tensor;
}
