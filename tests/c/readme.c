/* The lines of C that the README shows. */
#include "check.h"

int main(void) {
  /* [readme] */
  uint8_t pixels[] = {10, 20, 30, 11, 21, 31}; /* two RGB pixels: 2 x 3 in memory, 3 x 2 by these strides */
  int64_t shape[] = {3, 2}, strides[] = {1, 3};
  DLTensor picture = {pixels, {kDLCPU, 0}, 2, {kDLUInt, 8, 1}, shape, strides, 0};
  ab_convert_options options = {.struct_size = sizeof options, .dtype = {kDLFloat, 32, 1}, .layout = AB_LAYOUT_C};
  struct DLManagedTensorVersioned *planes; /* float32, row-major: ab_release it, or hand it on as DLPack */
  ab_status status = ab_copy(NULL, &picture, 0, &options, &planes, NULL, NULL);
  /* [/readme] */
  static const float expected[] = {10, 11, 20, 21, 30, 31};
  CHECK_EQ(status, AB_OK);
  CHECK(memcmp(planes->dl_tensor.data, expected, sizeof expected) == 0);
  ab_release(planes);
  return 0;
}
