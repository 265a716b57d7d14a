/* What the kernels are written in, as OpenCL C 1.2. */
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef uint4 u128;
#define AB_U64(literal) literal##ul
#define AB_DEVICE static inline
#define AB_GLOBAL __global
#define AB_LOCAL __local
#define AB_CLZ32(x) ((u32)clz((u32)(x)))
#define AB_CLZ64(x) ((u32)clz((u64)(x)))
#define AB_PRODUCT(a, b) ((i64)(a) * (b))
#define AB_UNROLL
#define AB_NO_UNROLL

/* Work items of a group. */
#ifndef AB_GROUP
#define AB_GROUP 256
#endif
#define AB_GROUP_ID ((u32)get_group_id(0))
#define AB_EACH_ITEM for (u32 item = (u32)get_local_id(0), once = 1; once; once = 0)
#define AB_BARRIER barrier(CLK_LOCAL_MEM_FENCE);
#define AB_KERNEL(name)                                                                                          \
  __kernel __attribute__((reqd_work_group_size(AB_GROUP, 1, 1))) void name(                                      \
      __global const u8 *source, __global u8 *destination, __global u32 *lost, const ab_params p)
