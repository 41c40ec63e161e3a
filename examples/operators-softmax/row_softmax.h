/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this plugin share: its kernels for OpenCL devices.
 */
#ifndef ROW_SOFTMAX_H
#define ROW_SOFTMAX_H

#include <tenon/kit/status.h>

tn_status opencl_softmax(tn_call *call, const tn_value *args, tn_value *out);
tn_status opencl_backward(tn_call *call, const tn_value *args, tn_value *out);

#endif
