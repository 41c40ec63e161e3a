/* SPDX-License-Identifier: Apache-2.0
 *
 * The words in which OpenCL C, CUDA C and HIP differ, so that all other device text is one text for the three: address spaces,
 * numbers of items and groups, barriers, fixed-width types, the few functions that have other names.
 *
 * Device text is not compiled with the plugin: the plugin carries it as a string and hands it to the device's compiler
 * behind a handful of defines (NAME, TO, T0, ...), which say what kernel is wanted. Hence no include guards and no includes.
 */
#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)

#pragma OPENCL FP_CONTRACT OFF
#if HAS_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define KERNEL                     __kernel
#define DEVICE                     static
#define GLOBAL                     __global
#define LOCAL                      __local
#define LOCAL_ARRAY(type, name, n) __local type name[n]
#define BARRIER()                  barrier(CLK_LOCAL_MEM_FENCE)
#define ITEM(dim)                  ((i32)get_local_id(dim))
#define GROUP_AT(dim)              ((i64)get_group_id(dim))
#define PLACE(dim)                 ((i64)get_global_id(dim))
#define FLOAT_BITS(x)              as_uint(x)
#define FLOAT_OF(bits)             as_float(bits)
#define HIGH_PRODUCT(a, b)         mul_hi((u64)(a), (u64)(b))
#define FIRST_TO_SET(word, value)  (atomic_cmpxchg((volatile __global int *)(word), 0, value) == 0)
typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;

#else /* CUDA C, HIP */

#define KERNEL                     extern "C" __global__
#define DEVICE                     static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define LOCAL_ARRAY(type, name, n) __shared__ type name[n]
#define BARRIER()                  __syncthreads()
#define ITEM_0                     threadIdx.x
#define ITEM_1                     threadIdx.y
#define ITEM_2                     threadIdx.z
#define GROUP_0                    blockIdx.x
#define GROUP_1                    blockIdx.y
#define GROUP_2                    blockIdx.z
#define WIDTH_0                    blockDim.x
#define WIDTH_1                    blockDim.y
#define WIDTH_2                    blockDim.z
#define ITEM(dim)                  ((i32)ITEM_##dim)
#define GROUP_AT(dim)              ((i64)GROUP_##dim)
#define PLACE(dim)                 ((i64)GROUP_##dim * WIDTH_##dim + ITEM_##dim)
#define FLOAT_BITS(x)              __float_as_uint(x)
#define FLOAT_OF(bits)             __uint_as_float(bits)
#define HIGH_PRODUCT(a, b)         __umul64hi(a, b)
#define FIRST_TO_SET(word, value)  (atomicCAS((int *)(word), 0, value) == 0)
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#endif
typedef float f32;
#if HAS_DOUBLE
typedef double f64;
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)
#define RANK         8 /* dims that one launch walks, as GPU_RANK on the host */
#define I64_MIN      ((i64)((u64)1 << 63))
#define POS_INF      FLOAT_OF((u32)0x7f800000)
