/* SPDX-License-Identifier: Apache-2.0
 *
 * The convolutions that oneDNN may serve: X(operator, function). Manifest, registration and prototypes are made from
 * this one list.
 */
#ifndef TENON_ONEDNN_CONV_H
#define TENON_ONEDNN_CONV_H

#include <tenon/plugin.h>

#define OD_CONVOLUTIONS(X)         \
  X("convolution", od_convolution) \
  X("convolution_backward", od_convolution_backward)

tn_status od_convolution(tn_call *call, const tn_value *args, tn_value *out);
tn_status od_convolution_backward(tn_call *call, const tn_value *args, tn_value *out);

#endif
