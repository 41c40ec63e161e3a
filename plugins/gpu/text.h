/* SPDX-License-Identifier: Apache-2.0
 *
 * Device text as strings inside the plugin.
 */
#ifndef GPU_TEXT_H
#define GPU_TEXT_H

#define GPU_TEXTS(X) \
  X(dialect)         \
  X(types)           \
  X(math) X(random) X(elementwise) X(reduce) X(matmul) X(rows) X(loss) X(optim) X(pick) X(expressions)
#define GPU_TEXT_DECLARE(name) extern const char gpu_text_##name[] __attribute__((visibility("hidden")));
GPU_TEXTS(GPU_TEXT_DECLARE)

#endif
