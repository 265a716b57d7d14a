/* Every function from many threads at once, and results that end on other threads than they began. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 50, ELEMENTS = 5000 };

static ab_context *shared;

/* The checks of check.h share one error, so they are not for threads. */
#define ALWAYS(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      abort(); \
    } \
  } while (0)

static void *work(void *argument) {
  int seed = *(int *)argument;
  int16_t *data = malloc(ELEMENTS * sizeof *data);
  managed *last = NULL;
  for (int i = 0; i < ELEMENTS; i++) data[i] = (int16_t)(i * seed);
  for (int round = 0; round < ROUNDS; round++) {
    ab_context *context = round % 2 ? shared : NULL;
    ab_convert_options options = to_dtype(F32);
    ab_error e;
    ab_tensor_info info;
    ab_report report = poisoned_report();
    source s;
    char text[200];
    size_t count;
    managed *out = NULL;
    memset(&e, 0, sizeof e);
    e.struct_size = sizeof e;
    info.struct_size = sizeof info;
    source_set(&s, data, I16, 1, DIMS(ELEMENTS), NULL);
    ALWAYS(ab_detect(&s.tensor.dl_tensor, 0, &info, &e) == AB_OK);
    ALWAYS(ab_plan(context, &s.tensor.dl_tensor, 0, &options, &report, &e) == AB_OK);
    ALWAYS(ab_convert(context, &s.tensor, &options, &out, &report, &e) == AB_OK);
    ALWAYS(s.deleted == 1);
    ALWAYS(ab_report_describe(&report, text, sizeof text) > 0);
    for (int i = 0; i < ELEMENTS; i++) ALWAYS(((float *)out->dl_tensor.data)[i] == data[i]);
    options.casting = 99;
    source_set(&s, data, I16, 1, DIMS(ELEMENTS), NULL);
    ALWAYS(ab_convert(context, &s.tensor, &options, &last, NULL, &e) == AB_E_INVALID_ARGUMENT && last == NULL);
    ALWAYS(e.code == AB_E_INVALID_ARGUMENT && e.message[0] != 0);
    ALWAYS(ab_list_backends(context, NULL, 0, &count, &e) == AB_OK && count > 0);
    last = out;
    if (round + 1 < ROUNDS) ab_release(out);
  }
  free(data);
  return last; /* released by the thread that joins this one */
}

int main(void) {
  pthread_t threads[THREADS];
  int seeds[THREADS];
  void *results[THREADS];
  EXPECT(AB_OK, ab_context_create(NULL, &shared, &error));
  for (int i = 0; i < THREADS; i++) {
    seeds[i] = i + 1;
    CHECK_EQ(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_join(threads[i], &results[i]), 0);
  ab_context_release(shared);
  for (int i = 0; i < THREADS; i++) {
    managed *out = results[i];
    CHECK_EQ(((float *)out->dl_tensor.data)[3], 3 * (i + 1));
    ab_release(out);
  }
  return 0;
}
