/* Loading the library does nothing but load it, and what it made outlives the handle, while its threads sleep
 * too. Run with its path; not linked with it. */
#include "check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <time.h>

static int entries(const char *folder) {
  int count = 0;
  DIR *directory = opendir(folder);
  CHECK(directory != NULL);
  while (readdir(directory) != NULL) count++;
  closedir(directory);
  return count;
}

/* As large as threads are for. */
enum { LARGE = 4 << 20 };
static float many[LARGE];

static int maps_name(const char *library) {
  char line[4096];
  int found = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, library) != NULL;
  fclose(maps);
  return found;
}

int main(int argc, char **argv) {
  int threads, files;
  void *library;
  uint32_t (*abi_version)(void);
  ab_status (*convert)(ab_context *, managed *, const ab_convert_options *, managed **, ab_report *, ab_error *);
  source kept, copied, large;
  managed *view = NULL, *copy = NULL, *wide = NULL;
  ab_convert_options options = to_dtype(F64);
  float *data = mem(0);
  const struct timespec a_while = {0, 20000000};

  CHECK_EQ(argc, 2);
  threads = entries("/proc/self/task");
  files = entries("/proc/self/fd");
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK_AT(__FILE__, __LINE__, library != NULL, "%s", dlerror());
  CHECK_EQ(entries("/proc/self/task"), threads);
  CHECK_EQ(entries("/proc/self/fd"), files);
  CHECK(!maps_name("libcuda.so"));
  CHECK(!maps_name("libOpenCL.so"));

  /* The way that POSIX gives for functions, which ISO C does not convert to. */
  *(void **)&abi_version = dlsym(library, "ab_abi_version");
  *(void **)&convert = dlsym(library, "ab_convert");
  CHECK(abi_version != NULL && convert != NULL);
  CHECK_EQ(abi_version() >> 16, AB_ABI_MAJOR);

  data[3] = 7;
  source_set(&kept, data, F32, 1, DIMS(4), NULL);
  source_set(&copied, data, F32, 1, DIMS(4), NULL);
  CHECK_EQ(convert(NULL, &kept.tensor, NULL, &view, NULL, poisoned_error()), AB_OK);
  CHECK_EQ(convert(NULL, &copied.tensor, &options, &copy, NULL, poisoned_error()), AB_OK);
  CHECK(!maps_name("libcuda.so")); /* nothing here was for a device */
  CHECK(!maps_name("libOpenCL.so"));

  /* Where there are processors for workers, they sleep in its code when the handle goes. */
  source_set(&large, many, F32, 1, DIMS(LARGE), NULL);
  CHECK_EQ(convert(NULL, &large.tensor, &options, &wide, NULL, poisoned_error()), AB_OK);

  CHECK_EQ(dlclose(library), 0);
  CHECK(maps_name(argv[1]));
  nanosleep(&a_while, NULL);
  CHECK(((double *)copy->dl_tensor.data)[3] == 7 && ((double *)wide->dl_tensor.data)[LARGE - 1] == 0);
  wide->deleter(wide);
  copy->deleter(copy);
  view->deleter(view);
  CHECK_EQ(kept.deleted, 1);
  return 0;
}
