/* Transposes and casts with the library that it was linked with, and prints its version. */
#include <arraybridge/arraybridge.h>
#include <stdio.h>

int main(void) {
  int16_t data[6] = {1, 2, 3, 4, 5, 6};
  float want[6] = {1, 4, 2, 5, 3, 6};
  int64_t shape[2] = {3, 2}, strides[2] = {1, 3};
  DLTensor tensor = {0};
  ab_convert_options options = {0};
  struct DLManagedTensorVersioned *result = NULL;
  int i, wrong = 0;
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 2;
  tensor.dtype.code = kDLInt;
  tensor.dtype.bits = 16;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  tensor.strides = strides;
  options.struct_size = sizeof options;
  options.dtype.code = kDLFloat;
  options.dtype.bits = 32;
  options.dtype.lanes = 1;
  options.layout = AB_LAYOUT_C;
  if (ab_copy(NULL, &tensor, 0, &options, &result, NULL, NULL) != AB_OK) return 2;
  for (i = 0; i < 6; i++) wrong |= ((float *)result->dl_tensor.data)[i] != want[i];
  ab_release(result);
  puts(ab_version());
  return wrong || ab_abi_version() >> 16 != AB_ABI_MAJOR;
}
