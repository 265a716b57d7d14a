/* A library that stands before CUDA's driver, libcuda.so.1, and counts the calls of its functions: those that
 * NAMES has, `F(cuInit) F(cuMemAlloc_v2) ...`. AB_REAL_CUDA is the path of the driver. For x86-64. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

long counted = 0;

long counted_calls(void) { return __atomic_load_n(&counted, __ATOMIC_SEQ_CST); }

/* Every argument stays where it is. */
#define F(name)                                                                                                  \
  void *real_##name;                                                                                             \
  __asm__(".globl " #name "\n.type " #name ", @function\n" #name ":\n"                                         \
          "  push %rax\n  mov counted@GOTPCREL(%rip), %rax\n  lock incq (%rax)\n"                             \
          "  mov real_" #name "@GOTPCREL(%rip), %rax\n  mov (%rax), %rax\n"                                    \
          "  xchg %rax, (%rsp)\n  ret\n");
NAMES
#undef F

static __attribute__((constructor)) void find(void) {
  const char *path = getenv("AB_REAL_CUDA");
  void *driver = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (driver == NULL) {
    fprintf(stderr, "AB_REAL_CUDA: %s\n", path ? dlerror() : "is not set");
    exit(1);
  }
#define F(name)                                                                                                  \
  real_##name = dlsym(driver, #name);                                                                            \
  if (real_##name == NULL) fprintf(stderr, "the driver has no " #name "\n"), exit(1);
  NAMES
}
