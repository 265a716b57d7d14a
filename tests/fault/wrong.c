/* Wrong on purpose, for tests/sanitize to see that its tools see it: without an argument two threads write one
 * destination, with one it has been freed. */
#include <arraybridge/arraybridge.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 10, ROUNDS = 1000 };

static float *data[2];

static void *copy(void *unused) {
  int64_t shape = COUNT;
  DLTensor side[2];
  memset(side, 0, sizeof side);
  for (int i = 0; i < 2; i++) {
    side[i].data = data[i];
    side[i].device.device_type = kDLCPU;
    side[i].ndim = 1;
    side[i].dtype.code = kDLFloat;
    side[i].dtype.bits = 32;
    side[i].dtype.lanes = 1;
    side[i].shape = &shape;
  }
  for (int round = 0; round < ROUNDS; round++) {
    if (ab_copy_into(NULL, &side[0], 0, &side[1], 0, NULL, NULL, NULL) != AB_OK) abort();
  }
  return unused;
}

int main(int count, char **arguments) {
  pthread_t threads[2];
  (void)arguments;
  for (int i = 0; i < 2; i++) data[i] = calloc(COUNT, sizeof *data[i]);
  if (count > 1) free(data[1]);
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, copy, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
