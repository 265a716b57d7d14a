/* ab_abi_version, ab_version, ab_status_name. */
#include "check.h"

int main(void) {
  static const struct {
    ab_status status;
    const char *name;
  } names[] = {
      {AB_OK, "AB_OK"},
      {AB_E_INVALID_ARGUMENT, "AB_E_INVALID_ARGUMENT"},
      {AB_E_INVALID_TENSOR, "AB_E_INVALID_TENSOR"},
      {AB_E_VERSION, "AB_E_VERSION"},
      {AB_E_UNSUPPORTED_DEVICE, "AB_E_UNSUPPORTED_DEVICE"},
      {AB_E_UNSUPPORTED_DTYPE, "AB_E_UNSUPPORTED_DTYPE"},
      {AB_E_UNSUPPORTED_LAYOUT, "AB_E_UNSUPPORTED_LAYOUT"},
      {AB_E_BACKEND_UNAVAILABLE, "AB_E_BACKEND_UNAVAILABLE"},
      {AB_E_COPY_REQUIRED, "AB_E_COPY_REQUIRED"},
      {AB_E_READ_ONLY, "AB_E_READ_ONLY"},
      {AB_E_OVERLAP, "AB_E_OVERLAP"},
      {AB_E_OUT_OF_MEMORY, "AB_E_OUT_OF_MEMORY"},
      {AB_E_DEVICE, "AB_E_DEVICE"},
      {AB_E_LOSSY, "AB_E_LOSSY"},
      {AB_E_INTERNAL, "AB_E_INTERNAL"},
      {1, "AB_E_UNKNOWN"},
      {-15, "AB_E_UNKNOWN"},
      {INT32_MAX, "AB_E_UNKNOWN"},
      {INT32_MIN, "AB_E_UNKNOWN"},
  };
  const char *version = ab_version();
  int major, minor, patch, length = 0;

  CHECK_EQ(ab_abi_version(), (uint32_t)AB_ABI_MAJOR << 16 | AB_ABI_MINOR);
  CHECK(sscanf(version, "%d.%d.%d%n", &major, &minor, &patch, &length) == 3 && version[length] == 0);
  CHECK(ab_version() == version);

  for (size_t i = 0; i < COUNT(names); i++) {
    const char *name = ab_status_name(names[i].status);
    CHECK(name != NULL);
    CHECK_AT(__FILE__, __LINE__, strcmp(name, names[i].name) == 0, "%s, wanted %s", name, names[i].name);
    CHECK(ab_status_name(names[i].status) == name);
  }
  return 0;
}
