/* Copies and fills. Those of pinned memory and of devices run when their stream gets to them. Of pageable
 * memory, the bytes to be read are taken at once, and a copy to it is done when the call returns. */
#include "fake.h"

/* Enqueues, or does it at once where the driver does. */
static CUresult copy(struct box box, CUstream handle, bool synchronous, const char *what) {
  CUstream stream;
  TRY(working_stream(handle, &stream));
  note(" %s %llu bytes", what, (unsigned long long)(box.width * box.height * box.depth));
  if (box.width == 0 || box.height == 0 || box.depth == 0) return 0;
  for (int end = 0; end < 2; end++) {
    uint64_t address = end ? box.from.address : box.to.address;
    if (address == 0) return INVALID_VALUE;
    if (!is_pageable(address)) {
      struct block *block = block_of(address);
      if (block == NULL || block->freed) return INVALID_VALUE;
      const struct side *side = end ? &box.from : &box.to;
      uint64_t last = (box.depth - 1) * side->slice + (box.height - 1) * side->pitch + box.width;
      if (last > block->size - (address - block->start)) return INVALID_VALUE;
    }
  }
  bool from_pages = is_pageable(box.from.address), to_pages = is_pageable(box.to.address);
  if (synchronous && stream->capture != NULL) {
    stream->capture->invalid = true;
    return CAPTURE_UNSUPPORTED;
  }
  struct op op = {.kind = OP_COPY, .box = box};
  if (from_pages && stream->capture == NULL) {
    op.staged = malloc(box.width * box.height * box.depth);
    if (op.staged == NULL) return OUT_OF_MEMORY;
    uint8_t *to = op.staged;
    for (uint64_t z = 0; z < box.depth; z++)
      for (uint64_t y = 0; y < box.height; y++, to += box.width)
        memcpy(to, (uint8_t *)box.from.address + z * box.from.slice + y * box.from.pitch, box.width);
  }
  CUresult code = enqueue(stream, op);
  if (code) {
    free(op.staged);
    return code;
  }
  if (stream->capture == NULL && (synchronous || to_pages)) return finish(stream);
  return 0;
}

static struct box flat(uint64_t to, uint64_t from, size_t size) {
  return (struct box){{to, 0, 0}, {from, 0, 0}, size, 1, 1};
}

static bool of_devices(uint64_t address) {
  return !is_pageable(address);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
  MAY_FAIL;
  if (size > 0 && !of_devices(to)) return INVALID_VALUE;
  return copy(flat(to, (uint64_t)from, size), LEGACY, true, "host to device");
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
  MAY_FAIL;
  if (size > 0 && !of_devices(from)) return INVALID_VALUE;
  return copy(flat((uint64_t)to, from, size), LEGACY, true, "device to host");
}

/* Between devices, which is asynchronous for the host. */
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) {
  MAY_FAIL;
  if (size > 0 && (!of_devices(to) || !of_devices(from))) return INVALID_VALUE;
  return copy(flat(to, from, size), LEGACY, false, "device to device");
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  MAY_FAIL;
  return copy(flat(to, from, size), LEGACY, true, "any");
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
  MAY_FAIL;
  if (size > 0 && !of_devices(to)) return INVALID_VALUE;
  return copy(flat(to, (uint64_t)from, size), stream, false,
              is_pageable((uint64_t)from) ? "pageable to device" : "pinned to device");
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream) {
  MAY_FAIL;
  if (size > 0 && !of_devices(from)) return INVALID_VALUE;
  return copy(flat((uint64_t)to, from, size), stream, false,
              is_pageable((uint64_t)to) ? "device to pageable" : "device to pinned");
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  MAY_FAIL;
  if (size > 0 && (!of_devices(to) || !of_devices(from))) return INVALID_VALUE;
  return copy(flat(to, from, size), stream, false, "device to device");
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  MAY_FAIL;
  return copy(flat(to, from, size), stream, false, "any");
}

static CUresult peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size,
                     CUstream stream, bool synchronous) {
  if (!is_context(to_context) || !is_context(from_context)) return INVALID_CONTEXT;
  const struct block *target = block_of(to), *source = block_of(from);
  if (target == NULL || source == NULL || target->device != to_context->device || source->device != from_context->device)
    return INVALID_VALUE;
  return copy(flat(to, from, size), stream, synchronous, "peer");
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size) {
  MAY_FAIL;
  return peer(to, to_context, from, from_context, size, LEGACY, false);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t size, CUstream stream) {
  MAY_FAIL;
  return peer(to, to_context, from, from_context, size, stream, false);
}

/* ---- rectangles and boxes --------------------------------------------------------------------- */

enum { HOST = 1, DEVICE = 2, UNIFIED = 4 };

struct end_2d {
  size_t x, y;
  unsigned type;
  uint64_t host, device;
  void *array;
  size_t pitch;
};

struct copy_2d {
  struct end_2d from, to;
  size_t width, height;
};

struct end_3d {
  size_t x, y, z, level;
  unsigned type;
  uint64_t host, device;
  void *array, *context;
  size_t pitch, height;
};

struct copy_3d {
  struct end_3d from, to;
  size_t width, height, depth;
};

static bool side_of(unsigned type, uint64_t host, uint64_t device, uint64_t *address) {
  *address = type == HOST ? host : device;
  if (type != HOST && type != DEVICE && type != UNIFIED) return false;
  return type != DEVICE || of_devices(device);
}

static CUresult copy_2d(const struct copy_2d *c, CUstream stream, bool synchronous) {
  struct box box = {{0, c->to.pitch, 0}, {0, c->from.pitch, 0}, c->width, c->height, 1};
  if (c->to.pitch > 0x7fffffff || c->from.pitch > 0x7fffffff) return INVALID_VALUE;
  if (c->height > 1 && (c->to.pitch < c->width + c->to.x || c->from.pitch < c->width + c->from.x)) return INVALID_VALUE;
  if (!side_of(c->to.type, c->to.host, c->to.device, &box.to.address) ||
      !side_of(c->from.type, c->from.host, c->from.device, &box.from.address))
    return INVALID_VALUE;
  box.to.address += c->to.y * c->to.pitch + c->to.x;
  box.from.address += c->from.y * c->from.pitch + c->from.x;
  return copy(box, stream, synchronous, "rectangle");
}

CUresult cuMemcpy2D_v2(const struct copy_2d *c) {
  MAY_FAIL;
  return copy_2d(c, LEGACY, true);
}

CUresult cuMemcpy2DUnaligned_v2(const struct copy_2d *c) {
  MAY_FAIL;
  return copy_2d(c, LEGACY, true);
}

CUresult cuMemcpy2DAsync_v2(const struct copy_2d *c, CUstream stream) {
  MAY_FAIL;
  return copy_2d(c, stream, false);
}

static CUresult copy_3d(const struct copy_3d *c, CUstream stream, bool synchronous) {
  struct box box = {{0, c->to.pitch, c->to.pitch * c->to.height},
                    {0, c->from.pitch, c->from.pitch * c->from.height},
                    c->width,
                    c->height,
                    c->depth};
  if (c->to.pitch > 0x7fffffff || c->from.pitch > 0x7fffffff) return INVALID_VALUE;
  bool rows = c->height > 1 || c->depth > 1;
  if (rows && (c->to.pitch < c->width + c->to.x || c->from.pitch < c->width + c->from.x)) return INVALID_VALUE;
  if (c->depth > 1 && (c->to.height < c->height + c->to.y || c->from.height < c->height + c->from.y))
    return INVALID_VALUE;
  if (c->to.level != 0 || c->from.level != 0) return INVALID_VALUE;
  if (!side_of(c->to.type, c->to.host, c->to.device, &box.to.address) ||
      !side_of(c->from.type, c->from.host, c->from.device, &box.from.address))
    return INVALID_VALUE;
  box.to.address += c->to.z * box.to.slice + c->to.y * box.to.pitch + c->to.x;
  box.from.address += c->from.z * box.from.slice + c->from.y * box.from.pitch + c->from.x;
  return copy(box, stream, synchronous, "box");
}

CUresult cuMemcpy3D_v2(const struct copy_3d *c) {
  MAY_FAIL;
  return copy_3d(c, LEGACY, true);
}

CUresult cuMemcpy3DAsync_v2(const struct copy_3d *c, CUstream stream) {
  MAY_FAIL;
  return copy_3d(c, stream, false);
}

CUresult cuMemcpy3DPeerAsync(const struct copy_3d *c, CUstream stream) {
  MAY_FAIL;
  if (!is_context(c->from.context) || !is_context(c->to.context)) return INVALID_CONTEXT;
  return copy_3d(c, stream, false);
}

/* ---- fills ------------------------------------------------------------------------------------ */

static CUresult fill(CUdeviceptr to, size_t pitch, uint32_t value, uint32_t size, size_t width, size_t height,
                     CUstream handle) {
  CUstream stream;
  TRY(working_stream(handle, &stream));
  if (width == 0 || height == 0) return 0;
  struct block *block = block_of(to);
  uint64_t last = (height - 1) * pitch + width * size;
  if (to % size != 0 || block == NULL || block->freed || last > block->size - (to - block->start)) return INVALID_VALUE;
  struct box box = {{to, pitch, 0}, {0, 0, 0}, width * size, height, 1};
  return enqueue(stream, (struct op){.kind = OP_SET, .box = box, .value = value, .value_size = size});
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  MAY_FAIL;
  return fill(to, 0, value, 1, count, 1, LEGACY);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  MAY_FAIL;
  return fill(to, 0, value, 1, count, 1, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  MAY_FAIL;
  return fill(to, 0, value, 2, count, 1, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  MAY_FAIL;
  return fill(to, 0, value, 4, count, 1, stream);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream) {
  MAY_FAIL;
  return fill(to, pitch, value, 1, width, height, stream);
}
