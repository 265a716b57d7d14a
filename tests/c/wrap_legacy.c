/* ab_wrap, the two bridges between the generations of DLPack, and ab_release. */
#include "check.h"

#include <pthread.h>

static int released;

static void release(void *owner) {
  CHECK(owner == &released);
  released += 1;
}

static void *release_elsewhere(void *tensor) {
  ab_release(tensor);
  return NULL;
}

static void wrap(void) {
  int64_t shape[] = {2, 3}, strides[] = {1, 2};
  DLTensor view;
  managed *out = NULL;
  source s;
  pthread_t thread;

  source_set(&s, mem(0), F32, 2, shape, strides);
  view = s.tensor.dl_tensor;
  view.shape = shape;
  view.strides = strides;
  EXPECT(AB_OK, ab_wrap(&view, DLPACK_FLAG_BITMASK_READ_ONLY, &released, release, &out, &error));
  CHECK(out->version.major == 1 && out->version.minor == 3);
  CHECK(out->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
  CHECK(out->dl_tensor.data == mem(0));
  shape[0] = shape[1] = strides[0] = strides[1] = -1; /* shape and strides were copied */
  CHECK(out->dl_tensor.shape[0] == 2 && out->dl_tensor.shape[1] == 3);
  CHECK(out->dl_tensor.strides[0] == 1 && out->dl_tensor.strides[1] == 2);
  CHECK_EQ(released, 0);
  CHECK_EQ(pthread_create(&thread, NULL, release_elsewhere, out), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(released, 1);

  /* What comes out is normalised like every result. */
  source_set(&s, mem(0), dt(kDLInt, 4), 1, DIMS(8), NULL);
  s.tensor.dl_tensor.byte_offset = 16;
  EXPECT(AB_OK, ab_wrap(&s.tensor.dl_tensor, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, &released, release, &out,
                        &error));
  CHECK(out->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
  CHECK(out->dl_tensor.data == mem(16) && out->dl_tensor.byte_offset == 0);
  CHECK(out->dl_tensor.strides != NULL && out->dl_tensor.strides[0] == 1);
  out->deleter(out);
  CHECK_EQ(released, 2);

  /* No owner, nobody to tell. */
  source_set(&s, mem(0), F32, 0, NULL, NULL);
  s.tensor.dl_tensor.device = dev(kDLCUDAHost, 2);
  EXPECT(AB_OK, ab_wrap(&s.tensor.dl_tensor, 0, NULL, NULL, &out, &error));
  CHECK(out->deleter != NULL);
  CHECK(out->dl_tensor.device.device_type == kDLCUDAHost && out->dl_tensor.device.device_id == 0);
  ab_release(out);

  /* On failure release is not called. */
  out = &s.tensor;
  s.tensor.dl_tensor.ndim = -1;
  EXPECT(AB_E_INVALID_TENSOR, ab_wrap(&s.tensor.dl_tensor, 0, &released, release, &out, &error));
  CHECK(out == NULL);
  EXPECT(AB_E_INVALID_ARGUMENT, ab_wrap(NULL, 0, &released, release, &out, &error));
  NAMES("view");
  s.tensor.dl_tensor.ndim = 0;
  EXPECT(AB_E_INVALID_ARGUMENT, ab_wrap(&s.tensor.dl_tensor, 0, &released, release, NULL, &error));
  NAMES("out");
  CHECK_EQ(released, 2);

  /* A wrapped tensor through a copy: released once the data is read. */
  source_set(&s, mem(0), F32, 1, DIMS(16), NULL);
  EXPECT(AB_OK, ab_wrap(&s.tensor.dl_tensor, 0, &released, release, &out, &error));
  {
    ab_convert_options options = to_dtype(F64);
    managed *copy = NULL;
    EXPECT(AB_OK, ab_convert(NULL, out, &options, &copy, NULL, &error));
    CHECK_EQ(released, 3);
    ab_release(copy);
  }
  CHECK_EQ(released, 3);
}

/* ---- legacy ---- */

static int legacy_deleted;

static void delete_legacy(DLManagedTensor *self) {
  CHECK(self->manager_ctx == &legacy_deleted);
  legacy_deleted += 1;
}

static void from_legacy(void) {
  source s;
  DLManagedTensor legacy, before;
  managed *out = NULL;

  memset(&legacy, 0, sizeof legacy);
  source_set(&s, mem(0), F32, 2, DIMS(2, 3), DIMS(1, 2));
  legacy.dl_tensor = s.tensor.dl_tensor;
  legacy.manager_ctx = &legacy_deleted;
  legacy.deleter = delete_legacy;

  EXPECT(AB_OK, ab_from_legacy(&legacy, &out, &error));
  CHECK(out->version.major == 1 && out->version.minor == 3);
  CHECK_EQ(out->flags, 0);
  CHECK(out->dl_tensor.data == mem(0));
  CHECK(out->dl_tensor.shape[1] == 3 && out->dl_tensor.strides[1] == 2);
  CHECK_EQ(legacy_deleted, 0);
  ab_release(out);
  CHECK_EQ(legacy_deleted, 1);

  legacy.dl_tensor.strides = NULL;
  EXPECT(AB_OK, ab_from_legacy(&legacy, &out, &error));
  CHECK(has_compact_strides(&out->dl_tensor, 0));
  ab_release(out);
  CHECK_EQ(legacy_deleted, 2);

  legacy.deleter = NULL;
  EXPECT(AB_OK, ab_from_legacy(&legacy, &out, &error));
  CHECK(out->deleter != NULL);
  ab_release(out);
  legacy.deleter = delete_legacy;

  legacy.dl_tensor.dtype.bits = 0;
  memcpy(&before, &legacy, sizeof before);
  out = &s.tensor;
  EXPECT(AB_E_INVALID_TENSOR, ab_from_legacy(&legacy, &out, &error));
  CHECK(out == NULL);
  CHECK(memcmp(&before, &legacy, sizeof before) == 0);
  legacy.dl_tensor.dtype.bits = 32;
  EXPECT(AB_E_INVALID_ARGUMENT, ab_from_legacy(NULL, &out, &error));
  NAMES("source");
  EXPECT(AB_E_INVALID_ARGUMENT, ab_from_legacy(&legacy, NULL, &error));
  NAMES("out");
  CHECK_EQ(legacy_deleted, 2);

  ab_release_legacy(&legacy);
  CHECK_EQ(legacy_deleted, 3);
}

static void to_legacy(void) {
  source s, before;
  DLManagedTensor *out = NULL;
  managed *back = NULL;

  source_set(&s, mem(0), F32, 2, DIMS(2, 3), NULL);
  s.tensor.flags = DLPACK_FLAG_BITMASK_IS_COPIED; /* has no legacy form, and needs none */
  EXPECT(AB_OK, ab_to_legacy(&s.tensor, &out, &error));
  CHECK(out->deleter != NULL);
  CHECK(out->dl_tensor.data == mem(0));
  CHECK(has_compact_strides(&out->dl_tensor, 0));
  CHECK_EQ(s.deleted, 0);
  ab_release_legacy(out);
  CHECK_EQ(s.deleted, 1);

  /* There and back is the same tensor, deleted once, by its own deleter too. */
  source_set(&s, mem(0), F32, 2, DIMS(2, 3), DIMS(4, 1));
  EXPECT(AB_OK, ab_to_legacy(&s.tensor, &out, &error));
  EXPECT(AB_OK, ab_from_legacy(out, &back, &error));
  CHECK(back->dl_tensor.data == mem(0) && back->dl_tensor.strides[0] == 4);
  CHECK_EQ(s.deleted, 0);
  back->deleter(back);
  CHECK_EQ(s.deleted, 1);

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  s.tensor.deleter = NULL;
  EXPECT(AB_OK, ab_to_legacy(&s.tensor, &out, &error));
  out->deleter(out);

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  s.tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  memcpy(&before, &s, sizeof s);
  out = (DLManagedTensor *)mem(0);
  EXPECT(AB_E_READ_ONLY, ab_to_legacy(&s.tensor, &out, &error));
  CHECK(out == NULL);
  CHECK(memcmp(&before, &s, sizeof s) == 0);

  /* Without the flag the elements would be read as packed. */
  source_set(&s, mem(0), dt(kDLInt, 4), 1, DIMS(4), NULL);
  s.tensor.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  out = (DLManagedTensor *)mem(0);
  EXPECT(AB_E_UNSUPPORTED_DTYPE, ab_to_legacy(&s.tensor, &out, &error));
  NAMES("PADDED");
  CHECK(out == NULL);

  source_set(&s, mem(0), F32, 1, DIMS(4), NULL);
  s.tensor.flags = 0;
  s.tensor.version.major = FIRST_UNKNOWN_MAJOR;
  EXPECT(AB_E_VERSION, ab_to_legacy(&s.tensor, &out, &error));
  EXPECT(AB_E_INVALID_ARGUMENT, ab_to_legacy(NULL, &out, &error));
  NAMES("source");
  s.tensor.version.major = 1;
  EXPECT(AB_E_INVALID_ARGUMENT, ab_to_legacy(&s.tensor, NULL, &error));
  NAMES("out");
  CHECK_EQ(s.deleted, 0);
}

static void releases(void) {
  source s;
  DLManagedTensor legacy;

  ab_release(NULL);
  ab_release_legacy(NULL);

  source_set(&s, NULL, F32, 1, DIMS(0), NULL);
  s.tensor.deleter = NULL;
  ab_release(&s.tensor);
  memset(&legacy, 0, sizeof legacy);
  ab_release_legacy(&legacy);

  /* Of a tensor from a later DLPack the deleter is all that is known. */
  memset(&s, 0xFF, sizeof s);
  s.deleted = 0;
  s.tensor.manager_ctx = &s;
  s.tensor.deleter = count_deletion;
  s.tensor.version.major = FIRST_UNKNOWN_MAJOR;
  ab_release(&s.tensor);
  CHECK_EQ(s.deleted, 1);
}

int main(void) {
  wrap();
  from_legacy();
  to_legacy();
  releases();
  return 0;
}
