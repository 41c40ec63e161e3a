/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be wrong with the reference backend: one number a defect, for the preprocessor. CMakeLists.txt builds one
 * plugin for each.
 */
#ifndef TESTS_CHECK_DEFECTS_H
#define TESTS_CHECK_DEFECTS_H

#define DEFECT_NONE             0
#define DEFECT_ANY_MAJOR        1
#define DEFECT_ALIGNMENT        2
#define DEFECT_HALF_STREAMS     3
#define DEFECT_TABLE_END        4
#define DEFECT_MANIFEST_OMITS   5
#define DEFECT_MANIFEST_DTYPE   6
#define DEFECT_UNKNOWN_CPU      7
#define DEFECT_COUNT_FAILS      8
#define DEFECT_MISALIGNED       9
#define DEFECT_OVERLAPPING      10
#define DEFECT_OOM_CODE         11
#define DEFECT_COPY_ROUNDS      12
#define DEFECT_COPY_STRIDES     13
#define DEFECT_COPY_DTYPE       14
#define DEFECT_STREAM_ORDER     15
#define DEFECT_EVENT_NEVER      16
#define DEFECT_ELAPSED_NEGATIVE 17
#define DEFECT_SHARED_BUFFER    18
#define DEFECT_FORK_HANGS       19
#define DEFECT_ALLOC_LEAKS      20
#define DEFECT_KERNEL_LEAKS     21
#define DEFECT_EXIT_ABORTS      22
#define DEFECT_FIRST_ID         23
#define DEFECT_RNG_OFFSET       24
#define DEFECT_MISSING_UNNAMED  25
#define DEFECT_GRADIENT         26
#define DEFECT_CRASHES          27
#define DEFECT_EXITS            28
#define DEFECT_UNLOAD_ABORTS    29
#define DEFECT_REINIT_FORGETS   30
#define DEFECT_REINIT_MISSING   31

/* Of the layer. */
#define DEFECT_LAYER_SWAPS  101
#define DEFECT_LAYER_SHARED 102
#define DEFECT_LAYER_SPINS  103

#ifndef DEFECT
#define DEFECT DEFECT_NONE
#endif

#endif
