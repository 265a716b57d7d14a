/* arraybridge: brings any DLPack tensor to the device, dtype and layout that you need, zero copy when
 * possible, else in one pass.
 *
 * Every function may be called from any number of threads on distinct tensors. Nothing is printed, and
 * nothing panics, throws or exits. On failure inputs are as they were, *out is NULL, and `error`, which
 * may be NULL everywhere, holds a message that names the field, its value, and what would have worked.
 *
 * Structs whose first field is struct_size: set it to sizeof. An older program works with a newer
 * library, which takes the fields that it lacks as zero; a newer one with an older library as long as it
 * leaves those fields zero.
 *
 * Loading the library starts no thread and no driver; a driver is started by the first call that needs
 * it. The library stays loaded once it is, because deleters outlive dlclose.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */

#ifndef ARRAYBRIDGE_H
#define ARRAYBRIDGE_H

/* Written by build.rs from src/ffi: change it there. */

#include <stddef.h>
#include <stdint.h>
#include "dlpack.h"

/**
 * Major version of the ABI: differs when a program must be compiled again. It is the soname's number.
 */
#define AB_ABI_MAJOR 1

/**
 * Minor version of the ABI: grows when functions, tail fields, flag bits or constants are added.
 */
#define AB_ABI_MINOR 0

/**
 * The call did what it says.
 */
#define AB_OK 0

/**
 * NULL where it is not allowed, a bad option value, shapes that differ.
 */
#define AB_E_INVALID_ARGUMENT -1

/**
 * A malformed DLTensor: the message names the field and its value.
 */
#define AB_E_INVALID_TENSOR -2

/**
 * A DLPack major version other than 1, or a struct_size from a newer ABI with fields set that this library does not know.
 */
#define AB_E_VERSION -3

/**
 * No backend for this device type, or no such device id.
 */
#define AB_E_UNSUPPORTED_DEVICE -4

/**
 * A dtype that cannot be cast, or that a named consumer does not take.
 */
#define AB_E_UNSUPPORTED_DTYPE -5

/**
 * A layout or rank that a named consumer does not take.
 */
#define AB_E_UNSUPPORTED_LAYOUT -6

/**
 * Built in or registered, but unusable here: the message says why.
 */
#define AB_E_BACKEND_UNAVAILABLE -7

/**
 * AB_COPY_NEVER, and zero copy is impossible: the message names every reason.
 */
#define AB_E_COPY_REQUIRED -8

/**
 * A read-only tensor where it would be written to, or where its flag would be lost.
 */
#define AB_E_READ_ONLY -9

/**
 * A destination that overlaps itself or its source.
 */
#define AB_E_OVERLAP -10

/**
 * An allocation failed.
 */
#define AB_E_OUT_OF_MEMORY -11

/**
 * The driver failed: native_code is its error number.
 */
#define AB_E_DEVICE -12

/**
 * The casting rule forbids this cast, or a value did not survive it.
 */
#define AB_E_LOSSY -13

/**
 * A bug in arraybridge, caught at the boundary.
 */
#define AB_E_INTERNAL -14

/**
 * Compact row-major; size-1 axes and empty tensors never disqualify.
 */
#define AB_TENSOR_C_CONTIGUOUS 0x1u

/**
 * Compact column-major.
 */
#define AB_TENSOR_F_CONTIGUOUS 0x2u

/**
 * Compact under some axis permutation: no gap, no overlap.
 */
#define AB_TENSOR_DENSE 0x4u

/**
 * A stride of 0 on an axis longer than 1.
 */
#define AB_TENSOR_BROADCAST 0x8u

/**
 * A negative stride on an axis longer than 1.
 */
#define AB_TENSOR_NEGATIVE_STRIDE 0x10u

/**
 * Two indices may share an element (broadcast included).
 */
#define AB_TENSOR_OVERLAPPING 0x20u

/**
 * Some axis is 0.
 */
#define AB_TENSOR_EMPTY 0x40u

/**
 * It must not be written to.
 */
#define AB_TENSOR_READ_ONLY 0x80u

/**
 * Elements of less than a byte share bytes with their neighbours.
 */
#define AB_TENSOR_SUBBYTE_PACKED 0x100u

/**
 * By its declared device type, which is 1, 3, 11 or 13.
 */
#define AB_TENSOR_HOST_READABLE 0x200u

/**
 * data is a handle (device types 4, 7, 8, 15): never do arithmetic on it.
 */
#define AB_TENSOR_OPAQUE_HANDLE 0x400u

/**
 * Not aligned to its own element size (to the largest power of two in it).
 */
#define AB_TENSOR_MISALIGNED 0x800u

/**
 * numpy.from_dlpack. Consumers are importers whose rules the library knows:
 * ab_tensor_info.accepted_by says who takes a tensor without a copy as it stands,
 * ab_convert_options.consumers asks for a result that they all take. What an importer takes but
 * then gets wrong (writing through a read-only tensor, say) counts as refused.
 */
#define AB_CONSUMER_NUMPY 0x1u

/**
 * torch.from_dlpack.
 */
#define AB_CONSUMER_TORCH 0x2u

/**
 * jax.dlpack.from_dlpack.
 */
#define AB_CONSUMER_JAX 0x4u

/**
 * tf.experimental.dlpack.from_dlpack.
 */
#define AB_CONSUMER_TENSORFLOW 0x8u

/**
 * cupy.from_dlpack.
 */
#define AB_CONSUMER_CUPY 0x10u

/**
 * numba.cuda.as_cuda_array.
 */
#define AB_CONSUMER_NUMBA 0x20u

/**
 * pyclesperanto's OpenCL arrays.
 */
#define AB_CONSUMER_PYCLESPERANTO 0x40u

/**
 * paddle.utils.dlpack.from_dlpack.
 */
#define AB_CONSUMER_PADDLE 0x80u

/**
 * mlx.core.array, which copies whatever it takes: its bit says that it takes the tensor.
 */
#define AB_CONSUMER_MLX 0x100u

/**
 * tvm_ffi.from_dlpack.
 */
#define AB_CONSUMER_TVM_FFI 0x200u

/**
 * Nothing is known of the address.
 */
#define AB_MEMORY_UNKNOWN 0

/**
 * Ordinary host memory.
 */
#define AB_MEMORY_HOST 1

/**
 * Host memory that a device's driver has pinned.
 */
#define AB_MEMORY_PINNED 2

/**
 * Memory of a device.
 */
#define AB_MEMORY_DEVICE 3

/**
 * Memory that moves between host and device.
 */
#define AB_MEMORY_MANAGED 4

/**
 * Copy only where zero copy is impossible.
 */
#define AB_COPY_IF_NEEDED 0

/**
 * Always make new memory.
 */
#define AB_COPY_ALWAYS 1

/**
 * AB_E_COPY_REQUIRED rather than a copy.
 */
#define AB_COPY_NEVER 2

/**
 * Zero copy keeps the strides; a new tensor is row-major.
 */
#define AB_LAYOUT_ANY 0

/**
 * Row-major.
 */
#define AB_LAYOUT_C 1

/**
 * Column-major.
 */
#define AB_LAYOUT_F 2

/**
 * Zero copy keeps the strides; a new tensor is dense in the source's own axis order.
 */
#define AB_LAYOUT_KEEP 3

/**
 * Any cast. Integers wrap, fractions are cut off, numbers beyond an integer's range become its limit
 * and NaN 0; floats are rounded to nearest, ties to even, and overflow to infinity or, in formats
 * without one, to NaN.
 */
#define AB_CAST_UNSAFE 0

/**
 * As numpy.can_cast(..., 'same_kind'), with ml_dtypes.
 */
#define AB_CAST_SAME_KIND 1

/**
 * As numpy.can_cast(..., 'safe'), with ml_dtypes.
 */
#define AB_CAST_SAFE 2

/**
 * Any cast, but AB_E_LOSSY if a value is not the same number after it (NaN is NaN, -0 is 0).
 */
#define AB_CAST_EXACT 3

/**
 * Return once the work is ordered on dst_stream, not once it is done.
 */
#define AB_CONVERT_ASYNC 0x1u

/**
 * Numbers beyond the new dtype's range, infinities included, become its limits.
 */
#define AB_CONVERT_SATURATE 0x2u

/**
 * The result must be writable: a read-only source is copied.
 */
#define AB_CONVERT_WRITABLE 0x4u

/**
 * Check the declared device against the driver first.
 */
#define AB_CONVERT_VERIFY_POINTER 0x8u

/**
 * The result is the source's own memory.
 */
#define AB_ROUTE_ZERO_COPY 0

/**
 * Host to host.
 */
#define AB_ROUTE_HOST 1

/**
 * Host to device.
 */
#define AB_ROUTE_UPLOAD 2

/**
 * Device to host.
 */
#define AB_ROUTE_DOWNLOAD 3

/**
 * Within one device.
 */
#define AB_ROUTE_DEVICE 4

/**
 * Device to device without the host.
 */
#define AB_ROUTE_PEER 5

/**
 * Device to host to device.
 */
#define AB_ROUTE_STAGED 6

/**
 * AB_COPY_ALWAYS was asked for, or the function always copies.
 */
#define AB_REASON_REQUESTED 0x1u

/**
 * The data is on another device.
 */
#define AB_REASON_DEVICE 0x2u

/**
 * The data has another dtype.
 */
#define AB_REASON_DTYPE 0x4u

/**
 * The strides are not those of the layout.
 */
#define AB_REASON_LAYOUT 0x8u

/**
 * The first element is not aligned as asked.
 */
#define AB_REASON_ALIGNMENT 0x10u

/**
 * The source is read-only and a writable result was asked for.
 */
#define AB_REASON_READ_ONLY 0x20u

/**
 * A named consumer does not take the tensor as it would be shared.
 */
#define AB_REASON_CONSUMER 0x40u

/**
 * Worker threads, staging buffers, device queues and registered backends. Every function takes NULL
 * for the process-wide default context, which is made at its first use. Safe to share between
 * threads. Results keep what they need of it alive, so it may be released before them.
 */
typedef struct ab_context ab_context;

/**
 * What a call came to: AB_OK, or one of the negative AB_E_*.
 */
typedef int32_t ab_status;

/**
 * Limits of a context. All zero, and struct_size: the defaults.
 */
typedef struct ab_context_options {
  /**
   * In: sizeof(ab_context_options).
   */
  uint32_t struct_size;
  /**
   * Host copies use at most this many threads; 0: the number that the process may run on.
   */
  uint32_t num_threads;
  /**
   * Upper bound of pinned staging memory a device, in bytes; 0: the default.
   */
  uint64_t staging_bytes;
} ab_context_options;

/**
 * Where a function tells what went wrong. The caller owns it and may pass NULL instead; every call
 * writes it anew. One thread at a time.
 */
typedef struct ab_error {
  /**
   * In: sizeof(ab_error).
   */
  uint32_t struct_size;
  /**
   * Out: what the function returned; AB_OK on success.
   */
  ab_status code;
  /**
   * Out: the driver's own error number, or 0.
   */
  int64_t native_code;
  /**
   * Out: NUL-terminated UTF-8, cut at a character boundary; empty on success. It names the field,
   * its value, and what would have worked.
   */
  char message[496];
} ab_error;

/**
 * A backend that is built in or registered.
 */
typedef struct ab_backend_info {
  /**
   * In, in the first entry: sizeof(ab_backend_info), which is the stride of the array.
   */
  uint32_t struct_size;
  /**
   * 1: usable now; 0: not.
   */
  int32_t available;
  /**
   * "host", "cuda", "opencl", or a registered backend's; NUL-terminated.
   */
  char name[32];
  /**
   * Version and library when available, else why it is not; NUL-terminated.
   */
  char detail[256];
} ab_backend_info;

/**
 * A device that a backend can use.
 */
typedef struct ab_device_info {
  /**
   * In, in the first entry: sizeof(ab_device_info), which is the stride of the array.
   */
  uint32_t struct_size;
  /**
   * 0.
   */
  uint32_t reserved;
  /**
   * Its DLPack pair.
   */
  DLDevice device;
  /**
   * The maker's name for it, NUL-terminated UTF-8.
   */
  char name[128];
  /**
   * The name of its backend.
   */
  char backend[32];
  /**
   * Bytes; 0: unknown.
   */
  uint64_t total_memory;
  /**
   * Bytes that are free or can be freed at once; 0: unknown.
   */
  uint64_t free_memory;
} ab_device_info;

/**
 * What the drivers know of an address.
 */
typedef struct ab_pointer_info {
  /**
   * In: sizeof(ab_pointer_info).
   */
  uint32_t struct_size;
  /**
   * AB_MEMORY_*.
   */
  int32_t memory;
  /**
   * Where it lives, as the driver says; {0, 0}: no driver was asked or none knows it.
   */
  DLDevice device;
  /**
   * Start of its allocation; 0: unknown.
   */
  uint64_t base;
  /**
   * Size of its allocation in bytes; 0: unknown.
   */
  uint64_t size;
} ab_pointer_info;

/**
 * What a tensor is.
 */
typedef struct ab_tensor_info {
  /**
   * In: sizeof(ab_tensor_info).
   */
  uint32_t struct_size;
  /**
   * AB_TENSOR_*.
   */
  uint32_t flags;
  /**
   * As declared, CPU ids normalised to 0.
   */
  DLDevice device;
  /**
   * As declared.
   */
  DLDataType dtype;
  /**
   * Number of axes.
   */
  int32_t ndim;
  /**
   * Product of the extents.
   */
  int64_t num_elements;
  /**
   * Bytes of the elements, packed sub-byte types counted packed.
   */
  uint64_t num_bytes;
  /**
   * Bytes from `data`: every element lies in [begin_offset, end_offset).
   */
  int64_t begin_offset;
  /**
   * See begin_offset.
   */
  int64_t end_offset;
  /**
   * Largest power of two up to 4096 that divides the first element's address; 0: opaque or NULL.
   */
  uint32_t alignment;
  /**
   * AB_CONSUMER_* that take the tensor without a copy as it stands.
   */
  uint32_t accepted_by;
} ab_tensor_info;

/**
 * Where results come from instead of the library's own memory. The struct is copied; `user` and the
 * functions must outlive every result. Both are called from any thread.
 */
typedef struct ab_allocator {
  /**
   * Passed to both functions.
   */
  void *user;
  /**
   * Returns `size` bytes, aligned to `alignment`, on the device; NULL on failure. The stream is as in
   * ab_convert_options.dst_stream.
   */
  void *(*allocate)(void *user,
                    int32_t device_type,
                    int32_t device_id,
                    size_t size,
                    size_t alignment,
                    int64_t stream);
  /**
   * Takes back what `allocate` returned, once.
   */
  void (*deallocate)(void *user,
                     int32_t device_type,
                     int32_t device_id,
                     void *pointer,
                     size_t size,
                     int64_t stream);
} ab_allocator;

/**
 * What a result must be. All zero, and struct_size: keep everything, zero copy when possible.
 */
typedef struct ab_convert_options {
  /**
   * In: sizeof(ab_convert_options).
   */
  uint32_t struct_size;
  /**
   * AB_CONVERT_*.
   */
  uint32_t flags;
  /**
   * device_type 0: keep (unless a named consumer takes nothing there: then the nearest device that
   * all of them take).
   */
  DLDevice device;
  /**
   * bits 0: keep.
   */
  DLDataType dtype;
  /**
   * AB_COPY_*.
   */
  int32_t copy;
  /**
   * AB_LAYOUT_*.
   */
  int32_t layout;
  /**
   * AB_CAST_*.
   */
  int32_t casting;
  /**
   * Bytes, a power of two up to 1 GiB, that the first element's address must be a multiple of; 0:
   * whatever the consumers need.
   */
  uint32_t alignment;
  /**
   * AB_CONSUMER_* that must all take the result without a copy of their own; 0: none named.
   */
  uint32_t consumers;
  /**
   * The stream after which the source is ready, in the array API's numbers: CUDA 1 legacy default, 2
   * per-thread default, above 2 a handle, -1 no ordering; 0: not given (CUDA: legacy default).
   * OpenCL: a cl_command_queue; 0: the producer has finished its own.
   */
  int64_t src_stream;
  /**
   * The stream on which the result is used, numbered alike. OpenCL 0: our own queue, finished.
   */
  int64_t dst_stream;
  /**
   * Where results come from; NULL: the library's own memory, 256-byte aligned.
   */
  const struct ab_allocator *allocator;
} ab_convert_options;

/**
 * What a call did, or would do.
 */
typedef struct ab_report {
  /**
   * In: sizeof(ab_report).
   */
  uint32_t struct_size;
  /**
   * AB_ROUTE_*.
   */
  int32_t route;
  /**
   * AB_REASON_*: every one that ruled out zero copy.
   */
  uint32_t reasons;
  /**
   * Times the data is read and written; 0 for zero copy, 1 is the aim for all else.
   */
  uint32_t passes;
  /**
   * Bytes read of the source, and of any scratch.
   */
  uint64_t bytes_read;
  /**
   * Bytes written.
   */
  uint64_t bytes_written;
  /**
   * Peak memory besides source and result, in bytes.
   */
  uint64_t scratch_bytes;
  /**
   * Host time of the call; 0 in a plan.
   */
  uint64_t nanoseconds;
} ab_report;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * AB_ABI_MAJOR << 16 | AB_ABI_MINOR of the library that is loaded. A program may use it when the
 * major numbers are equal and the library's minor is not below its own.
 */
uint32_t ab_abi_version(void);

/**
 * "MAJOR.MINOR.PATCH" of the library that is loaded; static.
 */
const char *ab_version(void);

/**
 * The name of a status, "AB_E_COPY_REQUIRED" for example; "AB_E_UNKNOWN" for a number that is none.
 * Static, never NULL.
 */
const char *ab_status_name(ab_status status);

/**
 * Makes a context with limits of its own.
 *
 * @param options  NULL: the defaults
 * @param out      set to the context, which the caller releases with ab_context_release; NULL on failure
 * @param error    may be NULL
 * @return AB_OK, AB_E_INVALID_ARGUMENT, AB_E_VERSION or AB_E_OUT_OF_MEMORY
 */
ab_status ab_context_create(const struct ab_context_options *options,
                            struct ab_context **out,
                            struct ab_error *error);

/**
 * Releases a context; NULL is allowed. Once, when no call uses it; what was made with it lives on.
 */
void ab_context_release(struct ab_context *context);

/**
 * Lists the backends that are built in or registered, usable or not.
 *
 * @param context   NULL: the default context
 * @param out       an array of `capacity` entries; the first one's struct_size is the stride. NULL when
 *                  capacity is 0
 * @param capacity  entries at most
 * @param count     set to the number of backends there are, however many were written
 * @param error     may be NULL
 */
ab_status ab_list_backends(struct ab_context *context,
                           struct ab_backend_info *out,
                           size_t capacity,
                           size_t *count,
                           struct ab_error *error);

/**
 * Lists the devices of the backends that are usable here. Starts their drivers.
 *
 * @param context   NULL: the default context
 * @param out       an array of `capacity` entries; the first one's struct_size is the stride. NULL when
 *                  capacity is 0
 * @param capacity  entries at most
 * @param count     set to the number of devices there are, however many were written
 * @param error     may be NULL
 */
ab_status ab_list_devices(struct ab_context *context,
                          struct ab_device_info *out,
                          size_t capacity,
                          size_t *count,
                          struct ab_error *error);

/**
 * Asks the drivers that are already initialised in this process what an address is. Initialises none,
 * reads nothing there. Without a driver that knows it, an address that the process has mapped is
 * AB_MEMORY_HOST, as long as no device's driver is loaded that could have mapped it.
 *
 * @param context  NULL: the default context
 * @param pointer  any address; NULL is AB_MEMORY_UNKNOWN. Never an OpenCL cl_mem, which is no address
 * @param out      the answer
 * @param error    may be NULL
 */
ab_status ab_detect_pointer(struct ab_context *context,
                            const void *pointer,
                            struct ab_pointer_info *out,
                            struct ab_error *error);

/**
 * Validates and describes a tensor. Reads only the struct and its shape and strides: never the data,
 * never a driver; takes no lock and allocates nothing.
 *
 * @param tensor    borrowed for the call
 * @param dl_flags  DLPACK_FLAG_BITMASK_* of the managed tensor that it is part of; 0 for a legacy tensor
 * @param out       the answer
 * @param error     may be NULL
 * @return AB_OK, AB_E_INVALID_ARGUMENT, or AB_E_INVALID_TENSOR with a message that names the field
 */
ab_status ab_detect(const DLTensor *tensor,
                    uint64_t dl_flags,
                    struct ab_tensor_info *out,
                    struct ab_error *error);

/**
 * Converts a tensor, taking over `source` on success: a zero-copy result calls the source's deleter
 * when it is itself deleted; after a copy the deleter is called as soon as the data is no longer read.
 * On failure *out is NULL and source still belongs to the caller, untouched.
 *
 * The result is owned by the caller and freed by its own deleter (ab_release), on any thread. It has
 * version 1.3, strides, byte_offset 0 unless its data is a handle, IS_COPIED exactly when the library
 * copied, and READ_ONLY where it shares read-only memory. Safe from many threads on distinct tensors.
 *
 * A declared device is trusted unless AB_CONVERT_VERIFY_POINTER is set. For kDLOpenCL `data` must be a
 * cl_mem: another pointer cannot be told apart, and would crash the OpenCL loader.
 *
 * @param context  NULL: the default context
 * @param source   DLPack major version 1, else AB_E_VERSION
 * @param options  NULL: keep everything, zero copy when possible
 * @param out      set to the result; NULL on failure
 * @param report   what was done; may be NULL
 * @param error    may be NULL
 */
ab_status ab_convert(struct ab_context *context,
                     struct DLManagedTensorVersioned *source,
                     const struct ab_convert_options *options,
                     struct DLManagedTensorVersioned **out,
                     struct ab_report *report,
                     struct ab_error *error);

/**
 * As ab_convert, from a borrowed tensor: the result is always independent of it, so AB_COPY_NEVER is
 * AB_E_COPY_REQUIRED.
 *
 * @param context   NULL: the default context
 * @param source    borrowed for the call
 * @param dl_flags  DLPACK_FLAG_BITMASK_* of the managed tensor that it is part of; 0 for a legacy tensor
 * @param options   NULL: keep everything
 * @param out       set to the result, which the caller owns; NULL on failure
 * @param report    what was done; may be NULL
 * @param error     may be NULL
 */
ab_status ab_copy(struct ab_context *context,
                  const DLTensor *source,
                  uint64_t dl_flags,
                  const struct ab_convert_options *options,
                  struct DLManagedTensorVersioned **out,
                  struct ab_report *report,
                  struct ab_error *error);

/**
 * Copies into memory that the caller owns: any strides, dtype and device on either side, equal shapes.
 * The destination must not overlap itself or the source (AB_E_OVERLAP), nor be read-only.
 *
 * @param context            NULL: the default context
 * @param source             borrowed for the call
 * @param source_flags       DLPACK_FLAG_BITMASK_* of the source
 * @param destination        borrowed for the call; unchanged on failure, except that after AB_E_LOSSY for
 *                           a value its contents are unspecified
 * @param destination_flags  DLPACK_FLAG_BITMASK_* of the destination
 * @param options            its flags, casting and streams are used; NULL: none
 * @param report             what was done; may be NULL
 * @param error              may be NULL
 */
ab_status ab_copy_into(struct ab_context *context,
                       const DLTensor *source,
                       uint64_t source_flags,
                       const DLTensor *destination,
                       uint64_t destination_flags,
                       const struct ab_convert_options *options,
                       struct ab_report *report,
                       struct ab_error *error);

/**
 * What ab_convert would do, without doing it: the same status, and the same report but for
 * nanoseconds. (That a value does not survive AB_CAST_EXACT, or that memory runs out, only doing it
 * tells.)
 *
 * @param context   NULL: the default context
 * @param source    borrowed for the call; its data is not touched
 * @param dl_flags  DLPACK_FLAG_BITMASK_* of the managed tensor that it is part of; 0 for a legacy tensor
 * @param options   NULL: keep everything, zero copy when possible
 * @param report    what would be done; may be NULL
 * @param error     may be NULL
 */
ab_status ab_plan(struct ab_context *context,
                  const DLTensor *source,
                  uint64_t dl_flags,
                  const struct ab_convert_options *options,
                  struct ab_report *report,
                  struct ab_error *error);

/**
 * Writes one English line: "upload, 1 pass, 12.0 MiB read, 6.0 MiB written (device, dtype)".
 *
 * @param report    from any of the functions above; NULL or a struct_size that is none: an empty line
 * @param buffer    gets as much as fits, NUL-terminated; NULL when capacity is 0
 * @param capacity  bytes of the buffer
 * @return the length of the whole line without its NUL, as snprintf
 */
size_t ab_report_describe(const struct ab_report *report, char *buffer, size_t capacity);

/**
 * Makes a managed tensor over memory that the caller owns.
 *
 * @param view      shape and strides are copied; the data is shared
 * @param dl_flags  DLPACK_FLAG_BITMASK_* that hold for it
 * @param owner     passed to `release`
 * @param release   called once, on any thread, when the tensor is deleted; NULL: there is nothing to do.
 *                  On failure it is not called
 * @param out       set to the tensor, which the caller owns; NULL on failure
 * @param error     may be NULL
 */
ab_status ab_wrap(const DLTensor *view,
                  uint64_t dl_flags,
                  void *owner,
                  void (*release)(void *owner),
                  struct DLManagedTensorVersioned **out,
                  struct ab_error *error);

/**
 * A legacy tensor as a versioned one over the same memory. Takes over `source` on success, whose
 * deleter the result's deleter calls; on failure *out is NULL and source is the caller's.
 *
 * @param source  as NumPy, JAX or TensorFlow make them
 * @param out     set to the result, which the caller owns
 * @param error   may be NULL
 */
ab_status ab_from_legacy(DLManagedTensor *source,
                         struct DLManagedTensorVersioned **out,
                         struct ab_error *error);

/**
 * A versioned tensor as a legacy one over the same memory. Takes over `source` on success, whose
 * deleter the result's deleter calls; on failure *out is NULL and source is the caller's. A read-only
 * tensor has no legacy form (AB_E_READ_ONLY), nor have padded elements of less than a byte
 * (AB_E_UNSUPPORTED_DTYPE).
 *
 * @param source  DLPack major version 1, else AB_E_VERSION
 * @param out     set to the result, which the caller owns and frees with ab_release_legacy
 * @param error   may be NULL
 */
ab_status ab_to_legacy(struct DLManagedTensorVersioned *source,
                       DLManagedTensor **out,
                       struct ab_error *error);

/**
 * Calls the tensor's deleter if there is one; NULL is allowed. Safe for any DLPack major version.
 */
void ab_release(struct DLManagedTensorVersioned *tensor);

/**
 * Calls the tensor's deleter if there is one; NULL is allowed.
 */
void ab_release_legacy(DLManagedTensor *tensor);

/**
 * Reads the name of a dtype: "float32", "bfloat16", "float8_e4m3fn", "complex64", "bool"; an
 * array-interface typestr ("<f4", "|b1"); a PEP 3118 format ("f", "Zd", "?"). Non-native byte order and
 * struct types are AB_E_UNSUPPORTED_DTYPE, as is what is no dtype at all.
 *
 * @param text   NUL-terminated
 * @param out    the dtype; unchanged on failure
 * @param error  may be NULL
 */
ab_status ab_dtype_parse(const char *text, DLDataType *out, struct ab_error *error);

/**
 * Writes the name of a dtype: "float32"; with lanes "float32x4"; "int4" and the like for other widths;
 * "dtype(code=99, bits=16)" for a code that is not known.
 *
 * @param dtype     NULL: an empty text
 * @param buffer    gets as much as fits, NUL-terminated; NULL when capacity is 0
 * @param capacity  bytes of the buffer
 * @return the length of the whole name without its NUL, as snprintf
 */
size_t ab_dtype_format(const DLDataType *dtype, char *buffer, size_t capacity);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ARRAYBRIDGE_H */
