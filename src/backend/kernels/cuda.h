/* What the kernels are written in, as CUDA C++: for clang without any header of CUDA's, nvcc and NVRTC. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
#define AB_U64(literal) literal##ull
#if defined(__clang__)
#define AB_DEVICE static inline __attribute__((device))
#define AB_LOCAL static __attribute__((shared))
#define AB_CLZ32(x) ((u32)__builtin_clz(x))
#define AB_CLZ64(x) ((u32)__builtin_clzll(x))
#define AB_BARRIER __nvvm_bar_sync(0);
#define AB_GROUP_ID ((u32)__nvvm_read_ptx_sreg_ctaid_x())
#define AB_ITEM_ID ((u32)__nvvm_read_ptx_sreg_tid_x())
#define AB_ENTRY extern "C" __attribute__((global)) __attribute__((launch_bounds(AB_GROUP))) void
typedef u32 u128 __attribute__((ext_vector_type(4)));
#else
#define AB_DEVICE static __device__ __forceinline__
#define AB_LOCAL __shared__
#define AB_CLZ32(x) ((u32)__clz((int)(x)))
#define AB_CLZ64(x) ((u32)__clzll((long long)(x)))
#define AB_BARRIER __syncthreads();
#define AB_GROUP_ID ((u32)blockIdx.x)
#define AB_ITEM_ID ((u32)threadIdx.x)
#define AB_ENTRY extern "C" __global__ __launch_bounds__(AB_GROUP) void
typedef uint4 u128;
#endif
#define AB_GLOBAL
#define AB_UNROLL _Pragma("unroll")
#define AB_NO_UNROLL _Pragma("nounroll")

/* Compilers lose sight of the numbers' being short. */
AB_DEVICE i64 ab_product(i32 a, i32 b) {
  i64 product;
  asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}
#define AB_PRODUCT(a, b) ab_product(a, b)

/* Work items of a group. */
#define AB_GROUP 256
#define AB_EACH_ITEM for (u32 item = AB_ITEM_ID, once = 1; once; once = 0)
#define AB_KERNEL(name) AB_ENTRY name(const u8 *source, u8 *destination, u32 *lost, const ab_params p)
