/* What a kernel sees on the processor, and the table by which the fake driver finds it. */
#ifndef KERNELS_H
#define KERNELS_H

struct fake_kernel {
  const char *name;
  void (*call)(void **parameters);
};

/* Ends with a NULL name. */
extern const struct fake_kernel fake_kernels[];

struct fake_thread {
  unsigned thread[3], threads[3], block[3], blocks[3];
};

extern struct fake_thread fake_thread;

void fake_barrier(void);

#endif
