/* What the Go package adds to the C ABI: finding it at run time, and Go values as owners. */
#ifndef ARRAYBRIDGE_GO_BRIDGE_H
#define ARRAYBRIDGE_GO_BRIDGE_H

#include <arraybridge/arraybridge.h>
#include <stdint.h>

typedef struct DLManagedTensorVersioned ab_managed;

/* Opens a library and finds every function in it. NULL on success, else what is wrong, to be freed. */
char *ab_go_open(const char *path);

/* ab_wrap with a cgo.Handle as the owner. */
ab_status ab_go_wrap(const DLTensor *view, uint64_t dl_flags, uintptr_t handle, ab_managed **out, ab_error *error);

/* A DLTensor on the host with room for its shape and strides behind it, to be freed. The address of its
 * data is a number, as Go's rules want it for memory that Go may own. */
DLTensor *ab_go_tensor(uintptr_t data, int32_t ndim, DLDataType dtype, int64_t **shape, int64_t **strides);

#endif
