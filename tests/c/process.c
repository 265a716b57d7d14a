/* The ends and beginnings of threads and processes: fork before the first use, and deleters that run while a
 * thread or the process ends. */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 1 << 20 };

static managed *convert_large(void) {
  static uint8_t data[ELEMENTS];
  source s;
  managed *out = NULL;
  ab_convert_options options = to_dtype(F32);
  memset(data, 5, sizeof data);
  source_set(&s, data, U8, 1, DIMS(ELEMENTS), NULL);
  EXPECT(AB_OK, ab_convert(NULL, &s.tensor, &options, &out, NULL, &error));
  CHECK_EQ(((float *)out->dl_tensor.data)[ELEMENTS - 1], 5);
  return out;
}

static managed *until_exit;

static void at_exit(void) { ab_release(until_exit); }

static void at_thread_exit(void *tensor) { ab_release(tensor); }

static pthread_key_t key;

static void *leave_to_thread_exit(void *tensor) {
  CHECK_EQ(pthread_setspecific(key, tensor), 0);
  return NULL;
}

int main(void) {
  pthread_t thread;
  pid_t child;
  int status = 0;

  /* Loaded, but not used: a child can use it, and so can we after it. */
  CHECK(ab_abi_version() != 0);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    ab_release(convert_large());
    _exit(0);
  }
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_AT(__FILE__, __LINE__, WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %d", status);

  /* Registered before the library registers anything of its own, so run after it. */
  CHECK_EQ(atexit(at_exit), 0);
  until_exit = convert_large();

  CHECK_EQ(pthread_key_create(&key, at_thread_exit), 0);
  CHECK_EQ(pthread_create(&thread, NULL, leave_to_thread_exit, convert_large()), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  return 0;
}
