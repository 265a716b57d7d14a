/* ab_detect_pointer, which asks drivers and starts none. */
#include "check.h"

static int maps_name(const char *library) {
  char line[1024];
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) return 0; /* not Linux */
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, library) != NULL;
  fclose(maps);
  return found;
}

static ab_pointer_info detect_pointer(const void *pointer) {
  ab_pointer_info info;
  memset(&info, 0xA5, sizeof info);
  info.struct_size = sizeof info;
  EXPECT(AB_OK, ab_detect_pointer(NULL, pointer, &info, &error));
  CHECK_EQ(info.struct_size, sizeof info);
  CHECK(info.memory == AB_MEMORY_UNKNOWN || info.memory == AB_MEMORY_HOST);
  CHECK(info.device.device_type == 0 || info.device.device_type == kDLCPU);
  CHECK_EQ(info.device.device_id, 0);
  return info;
}

int main(void) {
  int local = 0;
  ab_pointer_info info;
  char *heap = malloc(100);

  (void)detect_pointer(&local);
  (void)detect_pointer(heap);
  (void)detect_pointer(heap + 50);
  (void)detect_pointer("text");
  (void)detect_pointer((void *)(uintptr_t)1); /* nobody's: asked about, not read */
  free(heap);

  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  EXPECT(AB_E_INVALID_ARGUMENT, ab_detect_pointer(NULL, &local, NULL, &error));
  info.struct_size = 0;
  EXPECT(AB_E_INVALID_ARGUMENT, ab_detect_pointer(NULL, &local, &info, &error));
  NAMES("struct_size");

  CHECK(!maps_name("libcuda.so"));
  CHECK(!maps_name("libOpenCL.so"));
  return 0;
}
