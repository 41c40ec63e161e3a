/* SPDX-License-Identifier: Apache-2.0
 *
 * Device text as strings: the files of device/ and the registry's expressions, taken in by the assembler as they are. The
 * build says where they lie (GPU_DEVICE_DIR, GPU_EXPRESSIONS) and that this file depends on them.
 */
#include "plugins/gpu/text.h"

#define TEXT(name, path)                                       \
  __asm__(".pushsection .rodata\n"                             \
          ".globl gpu_text_" #name "\n"                        \
          ".hidden gpu_text_" #name "\n"                       \
          ".type gpu_text_" #name ", @object\n"                \
          "gpu_text_" #name ":\n"                              \
          ".incbin \"" path "\"\n"                             \
          ".byte 0\n"                                          \
          ".size gpu_text_" #name ", . - gpu_text_" #name "\n" \
          ".popsection\n");

TEXT(dialect, GPU_DEVICE_DIR "/dialect.h")
TEXT(types, GPU_DEVICE_DIR "/types.h")
TEXT(math, GPU_DEVICE_DIR "/math.h")
TEXT(random, GPU_DEVICE_DIR "/random.h")
TEXT(elementwise, GPU_DEVICE_DIR "/elementwise.h")
TEXT(reduce, GPU_DEVICE_DIR "/reduce.h")
TEXT(matmul, GPU_DEVICE_DIR "/matmul.h")
TEXT(rows, GPU_DEVICE_DIR "/rows.h")
TEXT(loss, GPU_DEVICE_DIR "/loss.h")
TEXT(optim, GPU_DEVICE_DIR "/optim.h")
TEXT(pick, GPU_DEVICE_DIR "/pick.h")
TEXT(expressions, GPU_EXPRESSIONS)
