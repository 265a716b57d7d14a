/* The DLPack 1.3 ABI: the structs by which array libraries lend each other memory.
 *
 * Types, names and values are those of the official dlpack.h, and so is the include guard: whichever
 * of the two comes first is used and the other adds nothing. An official header of any 1.x version
 * will do; another major version is refused below, because its structs differ.
 *
 * The structs are frozen for all of DLPack 1; minor versions only add values to the enums, so a reader
 * must expect values that are not listed here. Needs C99 or C++11. */

#if defined(DLPACK_DLPACK_H_) && !defined(DLPACK_MAJOR_VERSION)
#error "arraybridge needs DLPack 1.x, but a dlpack.h older than 1.0 was included first"
#elif defined(DLPACK_DLPACK_H_) && DLPACK_MAJOR_VERSION != 1
#error "arraybridge needs DLPack 1.x, but a dlpack.h of another major version was included first"
#endif

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3

/* Not used here. They exist because code written for the official header may use them. */
#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif
#if defined(_WIN32) && defined(DLPACK_EXPORTS)
#define DLPACK_DLL __declspec(dllexport)
#elif defined(_WIN32)
#define DLPACK_DLL __declspec(dllimport)
#else
#define DLPACK_DLL
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The DLPack version a struct was made with. A consumer that does not know `major` may call the
 * deleter and read nothing else. */
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

/* Where memory is. 5 and 6 are not in use. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3, /* pinned host memory of CUDA */
  kDLOpenCL = 4,   /* data is a cl_mem */
  kDLVulkan = 7,   /* data is a buffer handle */
  kDLMetal = 8,    /* data is a buffer object */
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,    /* pinned host memory of ROCm */
  kDLExtDev = 12,      /* a device with no number of its own; meaning is between the two parties */
  kDLCUDAManaged = 13, /* unified memory, readable from host and device */
  kDLOneAPI = 14,
  kDLWebGPU = 15, /* data is a buffer object */
  kDLHexagon = 16,
  kDLMAIA = 17,
  kDLTrn = 18,
  kDLTPU = 19,
  kDLTPUHost = 20, /* pinned host memory of a TPU */
  kDLAscend = 21
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id; /* 0 for host, pinned and managed memory */
} DLDevice;

/* How the bits of one element are read. */
typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U, /* of two floats; DLDataType.bits counts both parts */
  kDLBool = 6U,    /* 8 bits by convention */
  kDLFloat8_e3m4 = 7U,
  kDLFloat8_e4m3 = 8U,
  kDLFloat8_e4m3b11fnuz = 9U,
  kDLFloat8_e4m3fn = 10U,
  kDLFloat8_e4m3fnuz = 11U,
  kDLFloat8_e5m2 = 12U,
  kDLFloat8_e5m2fnuz = 13U,
  kDLFloat8_e8m0fnu = 14U,
  kDLFloat6_e2m3fn = 15U, /* bits must be 6 */
  kDLFloat6_e3m2fn = 16U, /* bits must be 6 */
  kDLFloat4_e2m1fn = 17U, /* bits must be 4 */
  kDLBcomplex = 18U       /* of two bfloat16: bits 32 */
} DLDataTypeCode;

/* Elements are in native byte order. Those narrower than a byte are packed, the first one in the low
 * bits, unless DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED is set. */
typedef struct {
  uint8_t code; /* DLDataTypeCode */
  uint8_t bits; /* of one lane */
  uint16_t lanes;
} DLDataType;

/* A strided view of memory that somebody else owns. */
typedef struct {
  void *data; /* an address, or the device's handle for its memory; NULL when there are no elements */
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;       /* ndim extents; may be NULL when ndim is 0 */
  int64_t *strides;     /* ndim steps, counted in elements; NULL, until DLPack 1.2, for compact row-major */
  uint64_t byte_offset; /* from data to the element at index 0 of every axis */
} DLTensor;

/* A tensor with its owner's destructor, from before DLPack 1.0: no version, no flags. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;                             /* the owner's */
  void (*deleter)(struct DLManagedTensor *self); /* frees self too; may be NULL */
} DLManagedTensor;

/* Bits of DLManagedTensorVersioned.flags. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL) /* made for this consumer; nobody else sees its memory */
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL) /* each sub-byte element has bytes of its own */

/* A tensor with its owner's destructor. Everything before dl_tensor keeps its place in all versions, so
 * that a consumer of any version can call the deleter. Official headers 1.0 and 1.1 have no typedef for
 * it: code that must compile with them says `struct DLManagedTensorVersioned`. */
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;                                      /* the owner's */
  void (*deleter)(struct DLManagedTensorVersioned *self); /* frees self too; may be NULL */
  uint64_t flags;                                         /* DLPACK_FLAG_BITMASK_* */
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

/* ---- exchange between Python array libraries, without Python calls ----------------------------------
 *
 * Found on a tensor type as the attribute __dlpack_c_exchange_api__, a capsule named
 * "dlpack_exchange_api" that holds a DLPackExchangeAPI. All functions return 0, or -1 for failure; all
 * but the allocator need the GIL and set a Python exception when they fail. None of them waits for work
 * on a device. */

/* Allocates in the producer's own way a tensor with the device, dtype, ndim and shape of `prototype`.
 * Failure is told by SetError(error_ctx, name of an exception, message). */
typedef int (*DLPackManagedTensorAllocator)(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                                            void (*SetError)(void *error_ctx, const char *kind, const char *message));

/* The tensor that a Python object holds; the caller owns *out. */
typedef int (*DLPackManagedTensorFromPyObjectNoSync)(void *py_object, DLManagedTensorVersioned **out);

/* The same without ownership: *out is valid as long as the caller can tell that py_object is alive. */
typedef int (*DLPackDLTensorFromPyObjectNoSync)(void *py_object, DLTensor *out);

/* The stream on which the library enqueues its work now; NULL for host devices. */
typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type, int32_t device_id, void **out_current_stream);

/* Makes a Python object that takes over `tensor`. */
typedef int (*DLPackManagedTensorToPyObjectNoSync)(DLManagedTensorVersioned *tensor, void **out_py_object);

typedef struct DLPackExchangeAPIHeader {
  DLPackVersion version;                    /* of the struct it starts; check `major` before reading on */
  struct DLPackExchangeAPIHeader *prev_api; /* the same for an older major version, or NULL */
} DLPackExchangeAPIHeader;

/* Lives as long as the process. Only dltensor_from_py_object_no_sync may be NULL. */
typedef struct DLPackExchangeAPI {
  DLPackExchangeAPIHeader header;
  DLPackManagedTensorAllocator managed_tensor_allocator;
  DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync;
  DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;
  DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync;
  DLPackCurrentWorkStream current_work_stream;
} DLPackExchangeAPI;

#ifdef __cplusplus
}
#endif

#endif /* DLPACK_DLPACK_H_ */

/* The layout that arraybridge was compiled for, whoever declared the types: an option such as
 * -fshort-enums would change it. */
#ifndef ARRAYBRIDGE_DLPACK_H
#define ARRAYBRIDGE_DLPACK_H

#if defined(__cplusplus)
#define AB_DLPACK_ASSERT(name, holds) static_assert(holds, "the layout of " #name " differs from DLPack's")
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define AB_DLPACK_ASSERT(name, holds) _Static_assert(holds, "the layout of " #name " differs from DLPack's")
#else
#define AB_DLPACK_ASSERT(name, holds) typedef char ab_layout_of_##name##_differs[(holds) ? 1 : -1]
#endif

AB_DLPACK_ASSERT(DLPackVersion, sizeof(DLPackVersion) == 8);
AB_DLPACK_ASSERT(DLDevice, sizeof(DLDevice) == 8);
AB_DLPACK_ASSERT(DLDataType, sizeof(DLDataType) == 4);
AB_DLPACK_ASSERT(DLTensor, sizeof(void *) != 8 || sizeof(DLTensor) == 48);
AB_DLPACK_ASSERT(DLManagedTensor, sizeof(void *) != 8 || sizeof(DLManagedTensor) == 64);
AB_DLPACK_ASSERT(DLManagedTensorVersioned, sizeof(void *) != 8 || sizeof(struct DLManagedTensorVersioned) == 80);

#undef AB_DLPACK_ASSERT

#endif /* ARRAYBRIDGE_DLPACK_H */
