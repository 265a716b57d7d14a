/* Modules, and kernels on the processor: the text that the PTX was made from, compiled for it.
 *
 * A module is what its PTX says: only its entries are found, and their parameters have the sizes that are
 * declared there. The threads of a block run one after the other; in a kernel with barriers each has a
 * stack of its own, and they take turns between barriers. Blocks run one after the other. */
#define _GNU_SOURCE
#include "fake.h"

#include <ctype.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include "kernels.h"

#define MAX_PARAMETERS 16
#define STACK_SIZE 65536

struct function {
  char name[96];
  CUmodule module;
  const struct fake_kernel *kernel;
  int count;
  size_t sizes[MAX_PARAMETERS];
  bool pointers[MAX_PARAMETERS]; /* of 8 bytes each */
  bool barriers;
  unsigned most_threads; /* of a block; 0: any number */
  struct function *next;
};

struct module {
  CUcontext context;
  struct function *functions;
  struct module *next;
};

struct launch {
  const struct function *function;
  CUcontext context;
  unsigned grid[3], block[3];
  size_t size;
  _Alignas(16) uint8_t parameters[];
};

static struct module *modules;

/* Set for each thread that runs. */
struct fake_thread fake_thread;

__attribute__((weak)) const struct fake_kernel fake_kernels[] = {{NULL, NULL}};

static const struct fake_kernel *kernel_named(const char *name) {
  for (const struct fake_kernel *kernel = fake_kernels; kernel->name != NULL; kernel++)
    if (strcmp(kernel->name, name) == 0) return kernel;
  return NULL;
}

/* ---- modules ---------------------------------------------------------------------------------- */

static const char *after(const char *text, const char *words) {
  const char *found = strstr(text, words);
  return found == NULL ? NULL : found + strlen(words);
}

/* Sizes of the types that end in so many bits; .pred has none. */
static size_t type_size(const char *type) {
  while (*type != 0 && !isdigit((unsigned char)*type))
    type++;
  return (size_t)strtol(type, NULL, 10) / 8;
}

/* Reads `.param .u64 name`, `.param .align 8 .b8 name[128]`, ... up to the closing parenthesis. */
static const char *read_parameters(const char *text, struct function *function) {
  const char *end = strchr(text, ')');
  while (end != NULL && (text = strstr(text, ".param")) != NULL && text < end) {
    text += strlen(".param");
    if (function->count == MAX_PARAMETERS) return NULL;
    char type[16] = "";
    const char *comma = strpbrk(text, ",)");
    for (const char *word = text; word < comma; word++)
      if (*word == '.' && sscanf(word, ".%15[a-z0-9]", type) == 1 && strcmp(type, "align") != 0) {
        text = word;
        break;
      }
    const char *bracket = memchr(text, '[', (size_t)(comma - text));
    function->pointers[function->count] = strcmp(type, "u64") == 0;
    function->sizes[function->count++] =
        type_size(type) * (bracket == NULL ? 1 : (size_t)strtol(bracket + 1, NULL, 10));
    text = comma;
  }
  return end;
}

static CUresult load(CUmodule *made, const char *text) {
  CUcontext context;
  TRY(current_context(&context));
  TRY(unsafe_during_capture());
  const char *version = after(text, ".version "), *target = after(text, ".target sm_");
  if (version == NULL || target == NULL) return INVALID_PTX;
  /* The first driver that takes a version of PTX, for those that could be meant. */
  static const struct { double ptx; long driver; } SINCE[] = {
      {4.0, 6000}, {6.0, 9000}, {7.0, 11000}, {7.4, 11040}, {8.0, 12000}, {8.7, 12080}, {8.8, 12090}, {9.0, 13000}};
  double number = strtod(version, NULL);
  long needed = 99999;
  for (size_t i = sizeof SINCE / sizeof *SINCE; i-- > 0;)
    if (number <= SINCE[i].ptx) needed = SINCE[i].driver;
  if (needed > setting("FAKE_CUDA_VERSION", 12080)) return UNSUPPORTED_PTX_VERSION;
  if (strtol(target, NULL, 10) > capability()) return NO_BINARY_FOR_GPU;

  struct module *module = calloc(1, sizeof *module);
  if (module == NULL) abort();
  module->context = context;
  module->next = modules, modules = module;
  live[MODULES]++;
  while ((text = after(text, ".entry ")) != NULL) {
    struct function *function = calloc(1, sizeof *function);
    if (function == NULL) abort();
    function->module = module;
    function->next = module->functions, module->functions = function;
    if (sscanf(text, "%95[A-Za-z0-9_]", function->name) != 1) return INVALID_PTX;
    const char *end = strstr(text, "\n}");
    if (end == NULL || (text = read_parameters(text, function)) == NULL) return INVALID_PTX;
    const char *most = memmem(text, (size_t)(end - text), ".maxntid", 8);
    if (most != NULL) function->most_threads = (unsigned)strtoul(most + 8, NULL, 10);
    function->barriers = memmem(text, (size_t)(end - text), "bar.sync", 8) != NULL;
    function->kernel = kernel_named(function->name);
  }
  *made = module;
  return 0;
}

CUresult cuModuleLoadData(CUmodule *made, const void *image) {
  MAY_FAIL;
  return load(made, image);
}

CUresult cuModuleLoadDataEx(CUmodule *made, const void *image, unsigned count, int *options, void **values) {
  (void)count, (void)options, (void)values;
  MAY_FAIL;
  return load(made, image);
}

CUresult cuModuleUnload(CUmodule module) {
  SURE;
  struct module **place = &modules;
  while (*place != NULL && *place != module)
    place = &(*place)->next;
  if (*place == NULL) return INVALID_HANDLE;
  TRY(unsafe_during_capture());
  TRY(finish_context(module->context));
  *place = module->next;
  for (struct function *function = module->functions, *next; function != NULL; function = next)
    next = function->next, free(function);
  free(module);
  live[MODULES]--;
  return 0;
}

CUresult cuModuleGetFunction(CUfunction *made, CUmodule module, const char *name) {
  MAY_FAIL;
  note(" %s", name);
  for (struct module *one = modules; one != NULL; one = one->next)
    for (struct function *function = one->functions; one == module && function != NULL; function = function->next)
      if (strcmp(function->name, name) == 0) {
        if (function->kernel == NULL) complain("the PTX has %s, its source has not", name);
        *made = function;
        return function->kernel == NULL ? NOT_FOUND : 0;
      }
  return NOT_FOUND;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  (void)function;
  MAY_FAIL;
  *value = attribute == 0 ? 1024 : attribute == 4 ? 32 : 0;
  return 0;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  MAY_FAIL;
  return 0;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
  (void)function, (void)shared;
  MAY_FAIL;
  *blocks = threads <= 0 ? 0 : 2048 / threads;
  return 0;
}

/* ---- launches --------------------------------------------------------------------------------- */

static bool is_function(CUfunction function) {
  for (struct module *module = modules; module != NULL; module = module->next)
    for (struct function *one = module->functions; one != NULL; one = one->next)
      if (one == function) return true;
  return false;
}

static size_t place_of(const struct function *function, int parameter) {
  size_t at = 0;
  for (int i = 0; i < parameter; i++)
    at += (function->sizes[i] + 15) / 16 * 16;
  return at;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream handle, void **parameters,
                        void **extra) {
  MAY_FAIL;
  CUstream stream;
  TRY(working_stream(handle, &stream));
  if (!is_function(function) || function->module->context != stream->context) return INVALID_HANDLE;
  note(" %s, %u x %u x %u blocks of %u x %u x %u", function->name, grid_x, grid_y, grid_z, block_x, block_y, block_z);
  if (grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_x > 0x7fffffff || grid_y > 65535 || grid_z > 65535)
    return INVALID_VALUE;
  if (block_x == 0 || block_y == 0 || block_z == 0 || block_x > 1024 || block_y > 1024 || block_z > 64 ||
      block_x * block_y * block_z > 1024)
    return INVALID_VALUE;
  if (function->most_threads != 0 && block_x * block_y * block_z > function->most_threads) return OUT_OF_RESOURCES;
  if (shared > 49152 || extra != NULL || (parameters == NULL && function->count > 0)) return INVALID_VALUE;
  size_t size = place_of(function, function->count);
  struct launch *launch = malloc(sizeof *launch + size);
  if (launch == NULL) abort();
  *launch = (struct launch){function, stream->context, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, size};
  for (int i = 0; i < function->count; i++)
    memcpy(launch->parameters + place_of(function, i), parameters[i], function->sizes[i]);
  CUresult code = enqueue(stream, (struct op){.kind = OP_LAUNCH, .launch = launch});
  if (code) free(launch);
  return code;
}

struct launch *launch_again(const struct launch *launch) {
  struct launch *copy = malloc(sizeof *launch + launch->size);
  if (copy == NULL) abort();
  return memcpy(copy, launch, sizeof *launch + launch->size);
}

void launch_ends(struct launch *launch) { free(launch); }

/* ---- running ---------------------------------------------------------------------------------- */

static sigjmp_buf stopped;
static void *bad_address;
static int signal_number;

static void stop(int number, siginfo_t *info, void *context) {
  (void)context;
  signal_number = number;
  bad_address = info->si_addr;
  siglongjmp(stopped, 1);
}

/* Threads of a block that take turns. */
static struct {
  ucontext_t main, threads[1024];
  uint8_t *stacks;
  bool done[1024];
  unsigned count, current;
  const struct launch *launch;
  void *parameters[MAX_PARAMETERS];
} block;

static void place_thread(unsigned index) {
  const unsigned *size = block.launch->block;
  fake_thread.thread[0] = index % size[0];
  fake_thread.thread[1] = index / size[0] % size[1];
  fake_thread.thread[2] = index / size[0] / size[1];
}

static void run_thread(void) {
  unsigned index = block.current;
  block.launch->function->kernel->call(block.parameters);
  block.done[index] = true;
  swapcontext(&block.threads[index], &block.main);
}

/* __syncthreads: the others have their turn. */
void fake_barrier(void) {
  unsigned index = block.current;
  if (!block.launch->function->barriers) {
    complain("%s has a barrier that its PTX has not", block.launch->function->name);
    return;
  }
  swapcontext(&block.threads[index], &block.main);
}

static void run_with_barriers(void) {
  if (block.stacks == NULL) block.stacks = malloc((size_t)1024 * STACK_SIZE);
  if (block.stacks == NULL) abort();
  for (unsigned i = 0; i < block.count; i++) {
    getcontext(&block.threads[i]);
    block.threads[i].uc_stack.ss_sp = block.stacks + (size_t)i * STACK_SIZE;
    block.threads[i].uc_stack.ss_size = STACK_SIZE;
    block.threads[i].uc_link = &block.main;
    makecontext(&block.threads[i], run_thread, 0);
    block.done[i] = false;
  }
  for (bool running = true; running;) {
    unsigned ended = 0;
    running = false;
    for (unsigned i = 0; i < block.count; i++) {
      if (block.done[i]) {
        ended++;
        continue;
      }
      block.current = i;
      place_thread(i);
      swapcontext(&block.main, &block.threads[i]);
      running |= !block.done[i];
    }
    /* On old devices a barrier that some threads never reach waits for ever. */
    if (running && ended > 0) complain("%s: %u threads left before a barrier", block.launch->function->name, ended);
  }
}

static void run_grid(const struct launch *launch) {
  memcpy(fake_thread.blocks, launch->grid, sizeof launch->grid);
  memcpy(fake_thread.threads, launch->block, sizeof launch->block);
  for (unsigned z = 0; z < launch->grid[2]; z++)
    for (unsigned y = 0; y < launch->grid[1]; y++)
      for (unsigned x = 0; x < launch->grid[0]; x++) {
        fake_thread.block[0] = x, fake_thread.block[1] = y, fake_thread.block[2] = z;
        if (launch->function->barriers) {
          run_with_barriers();
          continue;
        }
        for (block.current = 0; block.current < block.count; block.current++) {
          place_thread(block.current);
          launch->function->kernel->call(block.parameters);
        }
      }
}

CUresult launch_runs(struct launch *launch) {
  const struct function *function = launch->function;
  for (int i = 0; i < function->count; i++) {
    uint8_t *place = launch->parameters + place_of(function, i);
    block.parameters[i] = place;
    uint64_t address;
    if (!function->pointers[i]) continue;
    memcpy(&address, place, sizeof address);
    if (address >> 20 != 0 && reach(address, 1) != NULL && !is_pageable(address)) continue;
    if (address >> 20 == 0) continue;
    complain("%s: parameter %d is no memory of a device", function->name, i);
    return ILLEGAL_ADDRESS;
  }
  block.launch = launch, block.count = launch->block[0] * launch->block[1] * launch->block[2];
  struct sigaction action = {.sa_sigaction = stop, .sa_flags = SA_SIGINFO | SA_NODEFER}, segv, bus, ill;
  sigaction(SIGSEGV, &action, &segv);
  sigaction(SIGBUS, &action, &bus);
  sigaction(SIGILL, &action, &ill);
  open_memory(launch->context, true);
  CUresult code = 0;
  if (sigsetjmp(stopped, 1) == 0) {
    run_grid(launch);
  } else if (signal_number == SIGILL) {
    complain("%s touched what is not aligned", function->name);
    code = MISALIGNED_ADDRESS;
  } else {
    complain("%s touched %p, which is not its device's", function->name, bad_address);
    code = ILLEGAL_ADDRESS;
  }
  open_memory(launch->context, false);
  sigaction(SIGSEGV, &segv, NULL);
  sigaction(SIGBUS, &bus, NULL);
  sigaction(SIGILL, &ill, NULL);
  return code;
}
