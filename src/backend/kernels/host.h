/* What the kernels are written in, as C99: a call is one group, whose items take turns. It serves tests. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef u32 u128 __attribute__((vector_size(16)));
#define AB_U64(literal) literal##ull
#define AB_DEVICE static inline
#define AB_GLOBAL
#define AB_LOCAL
#define AB_CLZ32(x) ((u32)__builtin_clz(x))
#define AB_CLZ64(x) ((u32)__builtin_clzll(x))
#define AB_PRODUCT(a, b) ((i64)(a) * (b))
#define AB_UNROLL
#define AB_NO_UNROLL

/* Work items of a group. */
#define AB_GROUP 256
#define AB_GROUP_ID group
#define AB_EACH_ITEM for (u32 item = 0; item < AB_GROUP; item++)
#define AB_BARRIER
#define AB_KERNEL(name)                                                                                          \
  void name(u32 group, const u8 *source, u8 *destination, u32 *lost, const ab_params p)
