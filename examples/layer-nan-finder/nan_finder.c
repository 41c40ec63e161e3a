/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that finds the operator that made a NaN or an infinity. It knows no device: whether a tensor is finite it
 * asks the operators isfinite and all, which run below it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/call.h>
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/kit/register.h>
#include <tenon/kit/shape.h>
#include <tenon/kit/signature.h>
#include <tenon/plugin_layer.h>

TN_MANIFEST(TN_MANIFEST_HEADER_NEEDS("nan-finder", "1.0", "Apache-2.0", 2)
            "layer nan_finder class record\n"
            "kernel nan_finder * all 0\n")

TN_KIT_OP(op_isfinite, "isfinite");
TN_KIT_OP(op_isnan, "isnan");
TN_KIT_OP(op_all, "all");
TN_KIT_OP(op_any, "any");

static bool report_only, nan_only; /* TENON_NAN_FINDER; set once, in init */

/* *out_bad: it has an element that is no finite number. */
static tn_status has_bad(tn_tensor *t, bool *out_bad) {
  *out_bad = false;
  const tn_view *v = tn_tensor_view(t);
  if (!(TN_DTYPES_FLOAT & TN_DTYPE_BIT(v->dtype)) || !v->numel || v->backend == TN_BACKEND_META) return TN_OK;
  tn_tensor *each, *one = NULL;
  uint8_t answer = !nan_only;
  TN_TRY(TN_KIT_CALL(nan_only ? &op_isnan : &op_isfinite, &each, tn_value_tensor(t)));
  tn_status status = TN_KIT_CALL(nan_only ? &op_any : &op_all, &one, tn_value_tensor(each));
  if (status == TN_OK) status = tn_kit_read(one, &answer, sizeof answer);
  tn_kit_host()->tensor_release(one);
  tn_kit_host()->tensor_release(each);
  *out_bad = nan_only ? answer : !answer;
  return status;
}

/* ------------------------------------------------------------------ words */

/* A growing text; NULL when memory ran out or nothing was said. */
static void append(char **text, unsigned at, const tn_view *v, bool bad) {
  char shape[TN_SHAPE_TEXT_BYTES];
  size_t length = *text ? strlen(*text) : 0, room = length + sizeof shape + 96;
  char *longer = realloc(*text, room);
  if (!longer) return;
  snprintf(longer + length, room - length, "%sinput %u %s %s%s", length ? ", " : "", at,
           tn_kit_host()->dtype_name(v->dtype), tn_shape_format(v->ndim, v->sizes, shape, sizeof shape),
           bad ? " had one already" : "");
  *text = longer;
}

/* Written arguments are judged by what they held before: bit i of bad_before. */
static tn_status describe_inputs(const tn_kit_signature *s, const tn_value *args, uint64_t bad_before, char **out_text) {
  unsigned at = 0;
  for (uint32_t i = 0; i < s->n_args && i < 64; i++) {
    tn_tensor *const *ts;
    uint32_t n = s->targets >> i & 1 ? 0 : tn_kit_tensors(&args[i], &ts);
    for (uint32_t k = 0; k < n; k++, at++) {
      bool bad = bad_before >> i & 1;
      if (!ts[k]) continue;
      if (!(s->written >> i & 1)) TN_TRY(has_bad(ts[k], &bad));
      append(out_text, at, tn_tensor_view(ts[k]), bad);
    }
  }
  return TN_OK;
}

static tn_status tell(const tn_call *call, const tn_kit_signature *s, const tn_value *args, uint64_t bad_before,
                      const tn_tensor *result) {
  const tn_host *host = tn_kit_host();
  const tn_view *v = tn_tensor_view(result);
  const char *what = nan_only ? "a NaN" : "a NaN or an infinity";
  char *inputs = NULL;
  tn_status status = describe_inputs(s, args, bad_before, &inputs);
  if (status == TN_OK && report_only)
    host->log(TN_LOG_WARN, "nan_finder: the %s %s result of %s has %s (%s)", host->dtype_name(v->dtype),
              tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT), host->op_name(call->op), what, inputs ? inputs : "");
  else if (status == TN_OK)
    status = TN_FAIL(TN_ERR_DATA, "nan_finder: the %s %s result of %s has %s (%s)", host->dtype_name(v->dtype),
                     tn_shape_format(v->ndim, v->sizes, TN_SHAPE_TEXT), host->op_name(call->op), what,
                     inputs ? inputs : "");
  free(inputs);
  return status;
}

/* ------------------------------------------------------------------ the layer */

static tn_status check_value(const tn_call *call, const tn_kit_signature *s, const tn_value *args, uint64_t bad_before,
                             const tn_value *value) {
  tn_tensor *const *ts;
  for (uint32_t k = 0, n = tn_kit_tensors(value, &ts); k < n; k++) {
    bool bad = false;
    if (ts[k]) TN_TRY(has_bad(ts[k], &bad));
    if (bad) return tell(call, s, args, bad_before, ts[k]);
  }
  return TN_OK;
}

static tn_status check_results(const tn_call *call, const tn_kit_signature *s, const tn_value *args, uint64_t bad_before,
                               const tn_value *out) {
  for (uint32_t i = 0; i < s->n_results; i++) TN_TRY(check_value(call, s, args, bad_before, &out[i]));
  for (uint32_t i = 0; i < s->n_args && i < 64; i++)
    if (s->written >> i & 1) TN_TRY(check_value(call, s, args, bad_before, &args[i]));
  return TN_OK;
}

static tn_status look_before(const tn_kit_signature *s, const tn_value *args, uint64_t *out_bad) {
  *out_bad = 0;
  for (uint32_t i = 0; i < s->n_args && i < 64; i++) {
    tn_tensor *const *ts;
    if (!((s->written & ~s->targets) >> i & 1)) continue;
    for (uint32_t k = 0, n = tn_kit_tensors(&args[i], &ts); k < n; k++) {
      bool bad = false;
      if (ts[k]) TN_TRY(has_bad(ts[k], &bad));
      if (bad) *out_bad |= (uint64_t)1 << i;
    }
  }
  return TN_OK;
}

/* On failure the caller owns nothing in out. */
static void release_results(const tn_kit_signature *s, tn_value *out) {
  for (uint32_t i = 0; i < s->n_results; i++) {
    tn_tensor *const *ts;
    for (uint32_t k = 0, n = tn_kit_tensors(&out[i], &ts); k < n; k++) tn_kit_host()->tensor_release(ts[k]);
    if (out[i].kind == TN_VAL_TENSOR) out[i] = tn_value_none();
    if (out[i].kind == TN_VAL_LIST) out[i].count = 0;
  }
}

/* Memory that nobody has written yet holds anything. */
static bool is_unwritten(const char *name) {
  return strncmp(name, "empty", 5) == 0 || strncmp(name, "new_empty", 9) == 0 || strncmp(name, "resize_", 7) == 0;
}

static tn_status watch(tn_call *call, const tn_value *args, tn_value *out) {
  const tn_host *host = tn_kit_host();
  if (is_unwritten(host->op_name(call->op))) return TN_DECLINED; /* the call goes on below */
  tn_kit_signature s = tn_kit_signature_read(host->op_schema(call->op));
  uint64_t bad_before;
  TN_TRY(look_before(&s, args, &bad_before));
  TN_TRY(host->redispatch(call, args, out));
  tn_status status = check_results(call, &s, args, bad_before, out);
  if (status != TN_OK) release_results(&s, out);
  return status;
}

static tn_status init(const tn_host *host, tn_registration *reg) {
  const tn_layer_def layer = {.struct_size = sizeof layer, .name = "nan_finder"};
  const tn_kernel_def kernel = TN_KERNEL("nan_finder", "*", watch, 0, .flags = TN_KERNEL_LAYER_FALLBACK);
  const char *settings = secure_getenv("TENON_NAN_FINDER");
  report_only = settings && strstr(settings, "report");
  nan_only = settings && strstr(settings, "nan");
  TN_TRY(host->register_layer(reg, &layer));
  return host->register_kernel(reg, &kernel);
}

TN_PLUGIN(.name = "nan-finder", .version = "1.0", .init = init, .needs_minor = 2)
