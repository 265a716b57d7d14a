/* Prints the layout of every struct: "sizeof NAME SIZE" and "STRUCT.FIELD OFFSET SIZE". With DLPACK_ONLY,
 * which names a dlpack.h, prints that header's structs and constants, as far as its minor version has them. */
#ifdef DLPACK_ONLY
#include DLPACK_ONLY
#else
#include <arraybridge/arraybridge.h>
#endif
#include <stddef.h>
#include <stdio.h>

typedef struct DLManagedTensorVersioned versioned;

#define SIZE(type) printf("sizeof %s %u\n", #type, (unsigned)sizeof(type))
#define FIELD(type, field) \
  printf("%s.%s %u %u\n", #type, #field, (unsigned)offsetof(type, field), (unsigned)sizeof(((type *)0)->field))
#define VALUE(name) printf("%s %lld\n", #name, (long long)(name))

int main(void) {
  SIZE(DLPackVersion);
  FIELD(DLPackVersion, major);
  FIELD(DLPackVersion, minor);
  SIZE(DLDevice);
  FIELD(DLDevice, device_type);
  FIELD(DLDevice, device_id);
  SIZE(DLDataType);
  FIELD(DLDataType, code);
  FIELD(DLDataType, bits);
  FIELD(DLDataType, lanes);
  SIZE(DLTensor);
  FIELD(DLTensor, data);
  FIELD(DLTensor, device);
  FIELD(DLTensor, ndim);
  FIELD(DLTensor, dtype);
  FIELD(DLTensor, shape);
  FIELD(DLTensor, strides);
  FIELD(DLTensor, byte_offset);
  SIZE(DLManagedTensor);
  FIELD(DLManagedTensor, dl_tensor);
  FIELD(DLManagedTensor, manager_ctx);
  FIELD(DLManagedTensor, deleter);
  SIZE(versioned);
  FIELD(versioned, version);
  FIELD(versioned, manager_ctx);
  FIELD(versioned, deleter);
  FIELD(versioned, flags);
  FIELD(versioned, dl_tensor);

#ifdef DLPACK_ONLY
  VALUE(kDLCPU);
  VALUE(kDLCUDA);
  VALUE(kDLCUDAHost);
  VALUE(kDLOpenCL);
  VALUE(DLPACK_FLAG_BITMASK_READ_ONLY);
  VALUE(DLPACK_FLAG_BITMASK_IS_COPIED);
#ifdef DLPACK_DLL /* a whole header, not a stand-in */
  VALUE(kDLVulkan);
  VALUE(kDLMetal);
  VALUE(kDLVPI);
  VALUE(kDLROCM);
  VALUE(kDLROCMHost);
  VALUE(kDLExtDev);
  VALUE(kDLCUDAManaged);
  VALUE(kDLOneAPI);
  VALUE(kDLWebGPU);
  VALUE(kDLHexagon);
  VALUE(kDLMAIA);
  VALUE(kDLInt);
  VALUE(kDLUInt);
  VALUE(kDLFloat);
  VALUE(kDLOpaqueHandle);
  VALUE(kDLBfloat);
  VALUE(kDLComplex);
  VALUE(kDLBool);
#if DLPACK_MINOR_VERSION >= 1
  VALUE(kDLFloat8_e3m4);
  VALUE(kDLFloat8_e4m3);
  VALUE(kDLFloat8_e4m3b11fnuz);
  VALUE(kDLFloat8_e4m3fn);
  VALUE(kDLFloat8_e4m3fnuz);
  VALUE(kDLFloat8_e5m2);
  VALUE(kDLFloat8_e5m2fnuz);
  VALUE(kDLFloat8_e8m0fnu);
  VALUE(kDLFloat6_e2m3fn);
  VALUE(kDLFloat6_e3m2fn);
  VALUE(kDLFloat4_e2m1fn);
  VALUE(DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
#endif
#if DLPACK_MINOR_VERSION >= 3
  VALUE(kDLTrn);
  SIZE(DLPackExchangeAPIHeader);
  FIELD(DLPackExchangeAPIHeader, version);
  FIELD(DLPackExchangeAPIHeader, prev_api);
  SIZE(DLPackExchangeAPI);
  FIELD(DLPackExchangeAPI, header);
  FIELD(DLPackExchangeAPI, managed_tensor_allocator);
  FIELD(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync);
  FIELD(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync);
  FIELD(DLPackExchangeAPI, dltensor_from_py_object_no_sync);
  FIELD(DLPackExchangeAPI, current_work_stream);
#endif
#endif
#else
  SIZE(ab_error);
  FIELD(ab_error, struct_size);
  FIELD(ab_error, code);
  FIELD(ab_error, native_code);
  FIELD(ab_error, message);
  SIZE(ab_context_options);
  FIELD(ab_context_options, struct_size);
  FIELD(ab_context_options, num_threads);
  FIELD(ab_context_options, staging_bytes);
  SIZE(ab_backend_info);
  FIELD(ab_backend_info, struct_size);
  FIELD(ab_backend_info, available);
  FIELD(ab_backend_info, name);
  FIELD(ab_backend_info, detail);
  SIZE(ab_device_info);
  FIELD(ab_device_info, struct_size);
  FIELD(ab_device_info, reserved);
  FIELD(ab_device_info, device);
  FIELD(ab_device_info, name);
  FIELD(ab_device_info, backend);
  FIELD(ab_device_info, total_memory);
  FIELD(ab_device_info, free_memory);
  SIZE(ab_tensor_info);
  FIELD(ab_tensor_info, struct_size);
  FIELD(ab_tensor_info, flags);
  FIELD(ab_tensor_info, device);
  FIELD(ab_tensor_info, dtype);
  FIELD(ab_tensor_info, ndim);
  FIELD(ab_tensor_info, num_elements);
  FIELD(ab_tensor_info, num_bytes);
  FIELD(ab_tensor_info, begin_offset);
  FIELD(ab_tensor_info, end_offset);
  FIELD(ab_tensor_info, alignment);
  FIELD(ab_tensor_info, accepted_by);
  SIZE(ab_pointer_info);
  FIELD(ab_pointer_info, struct_size);
  FIELD(ab_pointer_info, memory);
  FIELD(ab_pointer_info, device);
  FIELD(ab_pointer_info, base);
  FIELD(ab_pointer_info, size);
  SIZE(ab_allocator);
  FIELD(ab_allocator, user);
  FIELD(ab_allocator, allocate);
  FIELD(ab_allocator, deallocate);
  SIZE(ab_convert_options);
  FIELD(ab_convert_options, struct_size);
  FIELD(ab_convert_options, flags);
  FIELD(ab_convert_options, device);
  FIELD(ab_convert_options, dtype);
  FIELD(ab_convert_options, copy);
  FIELD(ab_convert_options, layout);
  FIELD(ab_convert_options, casting);
  FIELD(ab_convert_options, alignment);
  FIELD(ab_convert_options, consumers);
  FIELD(ab_convert_options, src_stream);
  FIELD(ab_convert_options, dst_stream);
  FIELD(ab_convert_options, allocator);
  SIZE(ab_report);
  FIELD(ab_report, struct_size);
  FIELD(ab_report, route);
  FIELD(ab_report, reasons);
  FIELD(ab_report, passes);
  FIELD(ab_report, bytes_read);
  FIELD(ab_report, bytes_written);
  FIELD(ab_report, scratch_bytes);
  FIELD(ab_report, nanoseconds);
#endif
  return 0;
}
