/* Contexts, and the lists of backends and devices. */
#include "check.h"

static void contexts(void) {
  ab_context_options options;
  ab_context *context = NULL, *other = NULL;
  source s;
  managed *out = NULL;
  ab_convert_options copy = keep_all();

  ab_context_release(NULL);
  EXPECT(AB_OK, ab_context_create(NULL, &context, &error));
  CHECK(context != NULL);

  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  EXPECT(AB_OK, ab_context_create(&options, &other, &error)); /* all zero: the defaults */
  CHECK(other != NULL && other != context);
  ab_context_release(other);

  options.num_threads = 2;
  options.staging_bytes = 1 << 20;
  CHECK_EQ(ab_context_create(&options, &other, NULL), AB_OK);
  CHECK(other != NULL);

  EXPECT(AB_E_INVALID_ARGUMENT, ab_context_create(NULL, NULL, &error));
  CHECK_EQ(ab_context_create(NULL, NULL, NULL), AB_E_INVALID_ARGUMENT);

  /* A result outlives its context. */
  memset(mem(0), 7, 64);
  copy.copy = AB_COPY_ALWAYS;
  source_set(&s, mem(0), U8, 1, DIMS(64), NULL);
  EXPECT(AB_OK, ab_convert(other, &s.tensor, &copy, &out, NULL, &error));
  ab_context_release(other);
  CHECK_EQ(((unsigned char *)out->dl_tensor.data)[63], 7);
  ab_release(out);
  ab_context_release(context);

  /* Many, unused: nothing is started for them that is not given back. */
  for (int i = 0; i < 100; i++) {
    EXPECT(AB_OK, ab_context_create(NULL, &context, &error));
    ab_context_release(context);
  }
}

static int ends(const char *text, size_t size) { return memchr(text, 0, size) != NULL; }

static void backends(ab_context *context) {
  ab_backend_info *all;
  ab_backend_info one;
  size_t count = 99, again = 0;
  int host = 0;

  EXPECT(AB_OK, ab_list_backends(context, NULL, 0, &count, &error));
  CHECK(count >= 1 && count < 99);
  all = calloc(count + 1, sizeof *all);
  CHECK(all != NULL);
  all[0].struct_size = sizeof *all;
  memset(&all[count], 0x5A, sizeof *all);
  EXPECT(AB_OK, ab_list_backends(context, all, count + 1, &again, &error));
  CHECK_EQ(again, count);
  for (size_t i = 0; i < sizeof *all; i++) CHECK_EQ(((unsigned char *)&all[count])[i], 0x5A);
  for (size_t i = 0; i < count; i++) {
    CHECK(ends(all[i].name, sizeof all[i].name) && all[i].name[0] != 0);
    CHECK(ends(all[i].detail, sizeof all[i].detail));
    CHECK(all[i].available == 0 || all[i].available == 1);
    CHECK(all[i].available || all[i].detail[0] != 0); /* why it is not */
    for (size_t k = 0; k < i; k++) CHECK(strcmp(all[i].name, all[k].name) != 0);
    if (strcmp(all[i].name, "host") == 0) host = all[i].available;
  }
  CHECK(host);

  memset(&one, 0, sizeof one);
  one.struct_size = sizeof one;
  EXPECT(AB_OK, ab_list_backends(context, &one, 1, &again, &error));
  CHECK_EQ(again, count);
  CHECK(strcmp(one.name, all[0].name) == 0);
  free(all);

  EXPECT(AB_E_INVALID_ARGUMENT, ab_list_backends(context, NULL, 0, NULL, &error));
  EXPECT(AB_E_INVALID_ARGUMENT, ab_list_backends(context, NULL, 1, &count, &error));
  one.struct_size = sizeof one - 1;
  EXPECT(AB_E_INVALID_ARGUMENT, ab_list_backends(context, &one, 1, &count, &error));
  NAMES("struct_size");
  CHECK_EQ(ab_list_backends(context, NULL, 0, &count, NULL), AB_OK);
}

static void devices(ab_context *context) {
  /* A caller from a newer version of the header, whose entries are longer. */
  struct {
    ab_device_info info;
    unsigned char newer[16];
  } *all;
  ab_device_info one;
  size_t count = 0, again = 0;
  int cpu = 0;

  EXPECT(AB_OK, ab_list_devices(context, NULL, 0, &count, &error));
  CHECK(count >= 1);
  all = malloc(count * sizeof *all);
  CHECK(all != NULL);
  memset(all, 0x5A, count * sizeof *all);
  all[0].info.struct_size = sizeof *all;
  EXPECT(AB_OK, ab_list_devices(context, &all->info, count, &again, &error));
  CHECK_EQ(again, count);
  for (size_t i = 0; i < count; i++) {
    const ab_device_info *d = &all[i].info;
    CHECK(ends(d->name, sizeof d->name) && d->name[0] != 0);
    CHECK(ends(d->backend, sizeof d->backend) && d->backend[0] != 0);
    CHECK(d->total_memory == 0 || d->free_memory <= d->total_memory);
    for (size_t k = 0; k < sizeof all[i].newer; k++) CHECK_EQ(all[i].newer[k], 0x5A);
    if (d->device.device_type == kDLCPU) {
      CHECK_EQ(d->device.device_id, 0);
      CHECK(strcmp(d->backend, "host") == 0);
      CHECK(d->total_memory > 0);
      cpu++;
    }
  }
  CHECK_EQ(cpu, 1);
  free(all);

  EXPECT(AB_E_INVALID_ARGUMENT, ab_list_devices(context, NULL, 0, NULL, &error));
  EXPECT(AB_E_INVALID_ARGUMENT, ab_list_devices(context, NULL, 1, &count, &error));
  memset(&one, 0, sizeof one);
  EXPECT(AB_E_INVALID_ARGUMENT, ab_list_devices(context, &one, 1, &count, &error));
  NAMES("struct_size");
}

int main(void) {
  ab_context *context = NULL;
  contexts();
  EXPECT(AB_OK, ab_context_create(NULL, &context, &error));
  backends(NULL);
  backends(context);
  devices(NULL);
  devices(context);
  ab_context_release(context);
  return 0;
}
