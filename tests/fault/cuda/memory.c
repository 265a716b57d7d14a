/* Memory of devices, which the host cannot touch, and of the host, which devices can.
 *
 * Each device has one stretch of addresses, mapped twice: at its own addresses, closed to everyone but
 * running kernels, and at others through which the driver works. Allocations are filled with a pattern
 * when they begin and when they end, and have red zones behind them. */
#define _GNU_SOURCE
#include "fake.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARENA (1ull << 30) /* what a device has */
#define SPAN (4ull << 30)  /* of addresses */
#define GRAIN 512ull /* of addresses, and the size of a red zone */
#define PAGE 4096ull
enum { FRESH = 0xa5, RED = 0xfd, STALE = 0xdd };

static struct arena {
  uint8_t *start, *alias;
  uint64_t used;        /* addresses from `start` that were ever given out */
  struct block *blocks; /* by address */
  bool open;
} arenas[MAX_DEVICES];

static struct block *host_blocks; /* pinned, registered and managed */

struct pool {
  int device;
  bool own; /* made by a program */
  uint64_t threshold;
};
static struct pool default_pools[MAX_DEVICES];

/* As of malloc in fake.h. */
static void *map_pages(uint64_t size, int protection, int flags, int file) {
  return (void *)syscall(SYS_mmap, NULL, size, (long)protection, (long)flags, (long)file, 0L);
}

static void unmap_pages(uint64_t start, uint64_t size) { syscall(SYS_munmap, start, size); }

static uint64_t round_up(uint64_t size, uint64_t to) { return (size + to - 1) / to * to; }

static struct arena *arena_of(int device) {
  struct arena *arena = &arenas[device];
  if (arena->start == NULL) {
    int file = memfd_create("device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, SPAN) != 0) abort();
    arena->start = map_pages(SPAN, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file);
    arena->alias = map_pages(SPAN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file);
    if (arena->start == MAP_FAILED || arena->alias == MAP_FAILED) abort();
    close(file);
  }
  return arena;
}

static struct arena *arena_at(uint64_t address) {
  for (int device = 0; device < MAX_DEVICES; device++)
    if (arenas[device].start != NULL && address - (uint64_t)arenas[device].start < SPAN) return &arenas[device];
  return NULL;
}

static uint8_t *alias(struct arena *arena, uint64_t address) {
  return arena->alias + (address - (uint64_t)arena->start);
}

void block_begins(struct block *block) {
  if (block->begun_late) {
    block_ends(block);
    return;
  }
  struct arena *arena = arena_at(block->start);
  memset(alias(arena, block->start), FRESH, block->size);
  memset(alias(arena, block->start + block->size), RED, round_up(block->size, GRAIN) + GRAIN - block->size);
  block->live = true, block->pending = false;
}

static void check_red_zone(const struct block *block) {
  const uint8_t *zone = alias(arena_at(block->start), block->start + block->size);
  for (uint64_t at = 0; at < round_up(block->size, GRAIN) + GRAIN - block->size; at++)
    if (zone[at] != RED) {
      complain("byte %llu of an allocation of %llu bytes on device %d was written",
               (unsigned long long)(block->size + at), (unsigned long long)block->size, block->device);
      return;
    }
}

void check_red_zones(void) {
  for (int device = 0; device < MAX_DEVICES; device++)
    for (struct block *block = arenas[device].blocks; block != NULL; block = block->next)
      if (block->live) check_red_zone(block);
}

static struct block *put_block(struct arena *arena, int device, uint64_t at, uint64_t size, struct block **place) {
  struct block *block = calloc(1, sizeof *block);
  if (block == NULL) abort();
  block->start = at, block->size = size, block->kind = DEVICE_MEMORY, block->device = device;
  block->next = *place;
  *place = block;
  uint64_t used = at + round_up(size, GRAIN) + GRAIN - (uint64_t)arena->start;
  if (used > arena->used) arena->used = used;
  live[DEVICE_BLOCKS]++;
  return block;
}

static CUresult new_block(int device, uint64_t size, CUcontext context, struct block **made) {
  struct arena *arena = arena_of(device);
  if (size > ARENA) return OUT_OF_MEMORY;
  uint64_t room = round_up(size, GRAIN) + GRAIN, at = (uint64_t)arena->start;
  struct block **place = &arena->blocks;
  for (; *place != NULL && (*place)->start - at < room; place = &(*place)->next)
    at = (*place)->start + round_up((*place)->size, GRAIN) + GRAIN;
  if (at - (uint64_t)arena->start + room > ARENA) return OUT_OF_MEMORY;
  *made = put_block(arena, device, at, size, place);
  (*made)->context = context;
  return 0;
}

static void remove_block(struct block **list, struct block *block) {
  while (*list != block)
    list = &(*list)->next;
  *list = block->next;
  free(block);
}

void block_ends(struct block *block) {
  if (!block->live && block->pool != NULL && !block->begun_late && block->pending) {
    complain("an allocation of %llu bytes on device %d is released before it is there",
             (unsigned long long)block->size, block->device);
    block->begun_late = true;
    return;
  }
  struct arena *arena = arena_at(block->start);
  uint8_t *place = alias(arena, block->start);
  if (block->live) {
    check_red_zone(block);
    memset(place, STALE, block->size);
  }
  if (block->size >= 1 << 20) {
    uint8_t *first = (uint8_t *)round_up((uint64_t)place, PAGE);
    madvise(first, (uint64_t)(place + block->size - first) / PAGE * PAGE, MADV_REMOVE);
  }
  live[DEVICE_BLOCKS]--;
  remove_block(&arena->blocks, block);
}

struct block *block_of(uint64_t address) {
  struct arena *arena = arena_at(address);
  struct block *block = arena != NULL ? arena->blocks : host_blocks;
  while (block != NULL && address - block->start >= block->size)
    block = block->next;
  return block;
}

bool is_pageable(uint64_t address) { return arena_at(address) == NULL && block_of(address) == NULL; }

uint8_t *reach(uint64_t address, uint64_t size) {
  struct arena *arena = arena_at(address);
  struct block *block = block_of(address);
  if (block != NULL && (!block->live || size > block->size - (address - block->start))) return NULL;
  if (arena == NULL) return (uint8_t *)address;
  return block == NULL ? NULL : alias(arena, address);
}

void open_memory(CUcontext context, bool open) {
  for (int device = 0; device < device_count; device++) {
    struct arena *arena = &arenas[device];
    bool wanted = open && context->peers[device];
    if (arena->start == NULL || arena->open == wanted) continue;
    if (mprotect(arena->start, round_up(arena->used, PAGE), wanted ? PROT_READ | PROT_WRITE : PROT_NONE)) abort();
    arena->open = wanted;
  }
}

/* ---- allocations of devices ------------------------------------------------------------------- */

static CUresult allocate(CUdeviceptr *pointer, size_t size) {
  CUcontext context;
  TRY(current_context(&context));
  TRY(unsafe_during_capture());
  if (pointer == NULL || size == 0) return INVALID_VALUE;
  struct block *block;
  TRY(new_block(context->device, size, context, &block));
  block_begins(block);
  *pointer = block->start;
  return 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size) {
  MAY_FAIL;
  note(" %zu bytes", size);
  return allocate(pointer, size);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
  MAY_FAIL;
  if (element != 4 && element != 8 && element != 16) return INVALID_VALUE;
  *pitch = round_up(width, GRAIN);
  return allocate(pointer, *pitch * height);
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  SURE;
  CUcontext context;
  TRY(current_context(&context));
  if (pointer == 0) return 0;
  TRY(unsafe_during_capture());
  struct block *block = block_of(pointer);
  if (block == NULL || block->start != pointer || block->freed) return INVALID_VALUE;
  if (block->kind == MANAGED_MEMORY) {
    TRY(finish_context(context));
    unmap_pages(block->start, round_up(block->size, PAGE));
    live[DEVICE_BLOCKS]--;
    remove_block(&host_blocks, block);
    return 0;
  }
  if (block->kind != DEVICE_MEMORY) return INVALID_VALUE;
  TRY(finish_device(block->device));
  block_ends(block);
  return 0;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
  MAY_FAIL;
  CUcontext context;
  TRY(current_context(&context));
  size_t used = 0;
  for (struct block *block = arenas[context->device].blocks; block != NULL; block = block->next)
    used += block->size;
  *total = ARENA, *available = ARENA - used;
  return 0;
}

CUresult cuDeviceTotalMem_v2(size_t *total, CUdevice device) {
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  *total = ARENA;
  return 0;
}

/* ---- pools ------------------------------------------------------------------------------------ */

static CUmemoryPool default_pool(int device) {
  default_pools[device].device = device;
  return &default_pools[device];
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  *pool = default_pool(device);
  return 0;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
  MAY_FAIL;
  if (!device_exists(device)) return INVALID_DEVICE;
  *pool = default_pool(device);
  return 0;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  MAY_FAIL;
  if (pool == NULL) return INVALID_VALUE;
  if (attribute == 4) pool->threshold = *(uint64_t *)value;
  return 0;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
  MAY_FAIL;
  if (pool == NULL || attribute != 4) return INVALID_VALUE;
  *(uint64_t *)value = pool->threshold;
  return 0;
}

struct pool_properties {
  int allocation, handles, location, id;
};

CUresult cuMemPoolCreate(CUmemoryPool *pool, const struct pool_properties *properties) {
  MAY_FAIL;
  if (properties == NULL || !device_exists(properties->id)) return INVALID_VALUE;
  *pool = calloc(1, sizeof **pool);
  (*pool)->device = properties->id, (*pool)->own = true;
  return 0;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  SURE;
  if (pool == NULL || !pool->own) return INVALID_VALUE;
  free(pool);
  return 0;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  (void)keep;
  MAY_FAIL;
  return pool == NULL ? INVALID_VALUE : 0;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const void *access, size_t count) {
  (void)access, (void)count;
  MAY_FAIL;
  return pool == NULL ? INVALID_VALUE : 0;
}

/* The address is given at once; the memory is there when the stream gets to it. */
static CUresult allocate_async(CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream handle) {
  CUstream stream;
  TRY(working_stream(handle, &stream));
  if (pointer == NULL || size == 0) return INVALID_VALUE;
  if (!setting("FAKE_CUDA_POOLS", 1)) return NOT_SUPPORTED;
  struct block *block;
  TRY(new_block(pool->device, size, NULL, &block));
  block->pool = pool, block->pending = true;
  CUresult code = enqueue(stream, (struct op){.kind = OP_BEGIN, .block = block});
  if (code)
    block->pending = false, block_ends(block);
  else
    *pointer = block->start;
  return code;
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream handle) {
  MAY_FAIL;
  note(" %zu bytes", size);
  CUcontext context;
  TRY(current_context(&context));
  return allocate_async(pointer, size, default_pool(context->device), handle);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream handle) {
  MAY_FAIL;
  note(" %zu bytes", size);
  if (pool == NULL) return INVALID_VALUE;
  return allocate_async(pointer, size, pool, handle);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  SURE;
  CUstream stream;
  TRY(working_stream(handle, &stream));
  struct block *block = block_of(pointer);
  if (block == NULL || block->start != pointer || block->kind != DEVICE_MEMORY || block->freed) return INVALID_VALUE;
  TRY(enqueue(stream, (struct op){.kind = OP_END, .block = block}));
  block->freed = true;
  return 0;
}

/* ---- the host's ------------------------------------------------------------------------------- */

static struct block *new_host_block(uint64_t start, uint64_t size, enum kind kind, CUcontext context) {
  struct block *block = calloc(1, sizeof *block);
  if (block == NULL) abort();
  block->start = start, block->size = size, block->kind = kind, block->live = true;
  block->context = context, block->device = context->device;
  block->next = host_blocks, host_blocks = block;
  return block;
}

static CUresult map(uint64_t size, enum kind kind, uint64_t *address) {
  CUcontext context;
  TRY(current_context(&context));
  TRY(unsafe_during_capture());
  if (size == 0 || address == NULL) return INVALID_VALUE;
  if (size > ARENA) return OUT_OF_MEMORY;
  void *place = map_pages(round_up(size, PAGE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (place == MAP_FAILED) return OUT_OF_MEMORY;
  memset(place, FRESH, size);
  *address = new_host_block((uint64_t)place, size, kind, context)->start;
  live[kind == MANAGED_MEMORY ? DEVICE_BLOCKS : HOST_BLOCKS]++;
  return 0;
}

CUresult cuMemHostAlloc(void **pointer, size_t size, unsigned flags) {
  MAY_FAIL;
  note(" %zu bytes, flags %#x", size, flags);
  if (flags > 7) return INVALID_VALUE;
  return map(size, PINNED_MEMORY, (uint64_t *)pointer);
}

CUresult cuMemAllocHost_v2(void **pointer, size_t size) {
  MAY_FAIL;
  note(" %zu bytes", size);
  return map(size, PINNED_MEMORY, (uint64_t *)pointer);
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned flags) {
  MAY_FAIL;
  note(" %zu bytes", size);
  if (flags != 1 && flags != 2) return INVALID_VALUE;
  return map(size, MANAGED_MEMORY, pointer);
}

CUresult cuMemFreeHost(void *pointer) {
  SURE;
  CUcontext context;
  TRY(current_context(&context));
  TRY(unsafe_during_capture());
  struct block *block = block_of((uint64_t)pointer);
  if (block == NULL || block->start != (uint64_t)pointer || block->kind != PINNED_MEMORY) return INVALID_VALUE;
  TRY(finish_context(context));
  unmap_pages((uint64_t)pointer, round_up(block->size, PAGE));
  live[HOST_BLOCKS]--;
  remove_block(&host_blocks, block);
  return 0;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags) {
  MAY_FAIL;
  note(" %zu bytes", size);
  CUcontext context;
  TRY(current_context(&context));
  TRY(unsafe_during_capture());
  if (pointer == NULL || size == 0 || flags > 15) return INVALID_VALUE;
  uint64_t start = (uint64_t)pointer;
  for (struct block *block = host_blocks; block != NULL; block = block->next)
    if (start < block->start + block->size && block->start < start + size) return HOST_MEMORY_ALREADY_REGISTERED;
  new_host_block(start, size, REGISTERED_MEMORY, context);
  live[HOST_BLOCKS]++;
  return 0;
}

CUresult cuMemHostUnregister(void *pointer) {
  SURE;
  CUcontext context;
  TRY(current_context(&context));
  struct block *block = block_of((uint64_t)pointer);
  if (block == NULL || block->start != (uint64_t)pointer || block->kind != REGISTERED_MEMORY)
    return HOST_MEMORY_NOT_REGISTERED;
  TRY(finish_context(context));
  live[HOST_BLOCKS]--;
  remove_block(&host_blocks, block);
  return 0;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
  MAY_FAIL;
  struct block *block = block_of((uint64_t)host);
  if (block == NULL || flags != 0) return INVALID_VALUE;
  *device = (uint64_t)host;
  return 0;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *host) {
  MAY_FAIL;
  if (block_of((uint64_t)host) == NULL) return INVALID_VALUE;
  *flags = 1;
  return 0;
}

CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t size, CUdevice device, CUstream handle) {
  (void)size, (void)device;
  MAY_FAIL;
  CUstream stream;
  TRY(working_stream(handle, &stream));
  struct block *block = block_of(pointer);
  return block == NULL || block->kind != MANAGED_MEMORY ? INVALID_VALUE : 0;
}

/* ---- what a pointer is ------------------------------------------------------------------------ */

/* The highest attribute that the driver of this version knows. */
static int last_attribute(void) { return setting("FAKE_CUDA_VERSION", 12080) >= 12000 ? 20 : 17; }

static CUresult attribute_of(struct block *block, uint64_t pointer, int attribute, void *value) {
  switch (attribute) {
  case 1: *(CUcontext *)value = block == NULL ? NULL : block->context; return 0;
  case 2:
    *(unsigned *)value = block == NULL                                                   ? 0
                         : block->kind == PINNED_MEMORY || block->kind == REGISTERED_MEMORY ? 1
                                                                                         : 2;
    return 0;
  case 3: *(uint64_t *)value = block == NULL ? 0 : pointer; return 0;
  case 4: *(uint64_t *)value = block == NULL || block->kind == DEVICE_MEMORY ? 0 : pointer; return 0;
  case 6: *(unsigned char *)value = 0; return 0;
  case 7: *(uint64_t *)value = block == NULL ? 0 : (uint64_t)block; return 0;
  case 8: *(unsigned *)value = block != NULL && block->kind == MANAGED_MEMORY; return 0;
  case 9: *(int *)value = block == NULL ? -2 : block->device; return 0;
  case 11: *(uint64_t *)value = block == NULL ? 0 : block->start; return 0;
  case 12: *(size_t *)value = block == NULL ? 0 : block->size; return 0;
  case 13: *(unsigned *)value = block != NULL; return 0;
  case 17: *(CUmemoryPool *)value = block == NULL ? NULL : block->pool; return 0;
  default: return attribute > 0 && attribute <= last_attribute() ? NOT_SUPPORTED : INVALID_VALUE;
  }
}

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer) {
  MAY_FAIL;
  struct block *block = block_of(pointer);
  return block == NULL ? INVALID_VALUE : attribute_of(block, pointer, attribute, value);
}

/* Of a pointer that is not CUDA's: every value is null, and that is no error. */
CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr pointer) {
  MAY_FAIL;
  struct block *block = block_of(pointer);
  for (unsigned i = 0; i < count; i++)
    TRY(attribute_of(block, pointer, attributes[i], values[i]));
  return 0;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *size, CUdeviceptr pointer) {
  MAY_FAIL;
  struct block *block = block_of(pointer);
  if (block == NULL) return NOT_FOUND;
  if (start != NULL) *start = block->start;
  if (size != NULL) *size = block->size;
  return 0;
}

/* ---- for tests -------------------------------------------------------------------------------- */

/* Memory of no context, as mapped by hand from physical memory. 0: there is none. */
uint64_t fake_mapped(int device, size_t size) {
  struct block *block;
  if (!device_exists(device) || new_block(device, size, NULL, &block)) return 0;
  block_begins(block);
  return block->start;
}

/* The same, three GiB behind where a device's other memory begins. */
uint64_t fake_far(int device, size_t size) {
  if (!device_exists(device) || size > ARENA / 2) return 0;
  struct arena *arena = arena_of(device);
  uint64_t at = (uint64_t)arena->start + 3 * ARENA;
  struct block **place = &arena->blocks;
  for (; *place != NULL; place = &(*place)->next)
    if ((*place)->start >= at) return 0;
  block_begins(put_block(arena, device, at, size, place));
  return at;
}

/* What a device's memory holds now, with nothing waited for; only what has run is there. 0: it is read. */
int fake_peek(void *to, uint64_t pointer, size_t size) {
  uint8_t *place = reach(pointer, size);
  if (place == NULL) return INVALID_VALUE;
  memcpy(to, place, size);
  return 0;
}
