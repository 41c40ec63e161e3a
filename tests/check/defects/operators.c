/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that adds operators and keeps its word, and, compiled with DEFECT=..., one that breaks it in one way. By hand
 * and not through tenon_add_operators, so that every field can be wrong.
 *
 *   acme::scaled   a body with a formula of its own and a default
 *   acme::cubed    a body alone: its gradient is that of its parts
 *   acme::twice_   writes its argument
 *   acme::sign     says that it has no gradient
 *   acme::plain    gives no samples
 */
#include <tenon/kit/manifest.h>
#include <tenon/kit/plugin.h>
#include <tenon/operator.h>

enum {
  DEFECT_NONE,
  DEFECT_META,     /* acme::scaled: the meta rule says float32, whatever comes */
  DEFECT_ALIAS,    /* acme::scaled: by 1 it hands its argument back */
  DEFECT_WRITES,   /* acme::cubed: computes in its argument */
  DEFECT_SILENT,   /* acme::cubed: the result has lost its history */
  DEFECT_GRADIENT, /* acme::scaled: the formula forgets the factor */
  DEFECT_SECOND,   /* acme::scaled: the formula cuts the history of what it gives */
  DEFECT_VERSION,  /* acme::twice_: writes in two steps */
  DEFECT_SAMPLES   /* acme::sign: a sample for more arguments than it has */
};
#ifndef DEFECT
#define DEFECT DEFECT_NONE
#endif
#define HAS(defect) (DEFECT == (defect))

#define SCALED "acme::scaled(Tensor self, Scalar factor=2) -> Tensor"
#define CUBED  "acme::cubed(Tensor self) -> Tensor"
#define TWICE  "acme::twice_(Tensor(a!) self) -> Tensor(a!)"
#define SIGN   "acme::sign(Tensor self) -> Tensor"
#define PLAIN  "acme::plain(Tensor self, int n, Tensor? other=None) -> Tensor"

TN_MANIFEST(TN_MANIFEST_HEADER("acme-operators", "1.0", "Apache-2.0") "operator " SCALED "\n"
                                                                      "operator " CUBED "\n"
                                                                      "operator " TWICE "\n"
                                                                      "operator " SIGN "\n"
                                                                      "operator " PLAIN "\n")

/* ------------------------------------------------------------------ calling others */

static tn_status call_by_name(const char *name, const tn_value *args, tn_value *out) {
  const tn_op *op;
  TN_TRY(tn_kit_host()->find_op(name, &op));
  return tn_kit_host()->call(op, args, out);
}

static tn_status times(tn_tensor *t, tn_scalar factor, tn_value *out) {
  const tn_value args[] = {tn_value_tensor(t), factor};
  return call_by_name("mul.Scalar", args, out);
}

static tn_status without_history(tn_value *v) {
  const tn_value args[] = {*v};
  tn_value cut;
  tn_status status = call_by_name("detach", args, &cut);
  tn_kit_host()->tensor_release(v->u.t);
  if (status == TN_OK) *v = cut;
  return status;
}

/* ------------------------------------------------------------------ acme::scaled */

static tn_status scaled_meta(tn_meta *meta, const tn_value *args) {
  const tn_view *self = args[0].u.v;
  tn_desc *out = &meta->out[0];
  out->dtype = HAS(DEFECT_META) ? TN_FLOAT32 : self->dtype == TN_BOOL ? TN_INT64 : self->dtype; /* times an int */
  out->ndim = self->ndim;
  memcpy(out->sizes, self->sizes, self->ndim * sizeof *self->sizes);
  out->layout = TN_DESC_LIKE_SELF;
  return TN_OK;
}

static bool is_one(const tn_value *v) { return v->kind == TN_VAL_FLOAT ? v->u.f == 1 : v->u.i == 1; }

static tn_status scaled(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  if (!HAS(DEFECT_ALIAS) || !is_one(&args[1])) return times(args[0].u.t, args[1], out);
  tn_kit_host()->tensor_retain(args[0].u.t);
  *out = args[0];
  return TN_OK;
}

static tn_status scaled_backward(const tn_backward *ctx, tn_tensor *const *grad_outs, tn_tensor **grad_ins) {
  tn_value out;
  TN_TRY(times(grad_outs[0], HAS(DEFECT_GRADIENT) ? tn_int(1) : ctx->args[1], &out));
  if (HAS(DEFECT_SECOND)) TN_TRY(without_history(&out));
  grad_ins[0] = out.u.t;
  return TN_OK;
}

/* ------------------------------------------------------------------ the others */

static tn_status cubed(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  const tn_value square[] = {args[0], args[0]};
  tn_value squared;
  TN_TRY(call_by_name(HAS(DEFECT_WRITES) ? "mul_.Tensor" : "mul.Tensor", square, &squared));
  if (HAS(DEFECT_WRITES)) {
    tn_kit_host()->tensor_retain(args[0].u.t);
    squared = args[0];
  }
  const tn_value cube[] = {squared, args[0]};
  tn_status status = call_by_name("mul.Tensor", cube, out);
  tn_kit_host()->tensor_release(squared.u.t);
  return status == TN_OK && HAS(DEFECT_SILENT) ? without_history(out) : status;
}

/* An operator that exists in place only: its result is self, as the core has described it. */
static tn_status twice_meta(tn_meta *meta, const tn_value *args) {
  tn_desc *out = &meta->out[0];
  out->dtype = args[0].u.v->dtype;
  out->ndim = args[0].u.v->ndim;
  memcpy(out->sizes, args[0].u.v->sizes, out->ndim * sizeof *out->sizes);
  return TN_OK;
}

static tn_status twice(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  tn_value none;
  const tn_value add[] = {args[0], args[0], tn_int(1)};
  if (!HAS(DEFECT_VERSION)) return call_by_name("add_.Tensor", add, out);
  const tn_value zero[] = {args[0], tn_int(1)};
  TN_TRY(call_by_name("mul_.Scalar", zero, &none));
  return call_by_name("add_.Tensor", add, out);
}

static tn_status sign(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  return call_by_name("sign", args, out);
}

static tn_status plain(tn_call *call, const tn_value *args, tn_value *out) {
  (void)call;
  return times(args[0].u.t, args[1], out);
}

/* ------------------------------------------------------------------ samples and registration */

static const int64_t sizes[] = {3, 4};
static const tn_sample_tensor matrix[] = {{.sizes = sizes, .ndim = 2}};
static const tn_sample_tensor turned[] = {{.sizes = sizes, .ndim = 2, .layout = TN_SAMPLE_TRANSPOSED}};
#define TENSOR(which) {.kind = TN_SAMPLE_TENSOR, .n_tensors = 1, .tensors = which}
#define NUMBER(x) {.kind = TN_SAMPLE_VALUE, .value = {.u = {.i = x}, .kind = TN_VAL_INT}}
static const tn_sample_arg with_default[] = {TENSOR(matrix), {.kind = TN_SAMPLE_DEFAULT}};
static const tn_sample_arg by_three[] = {TENSOR(turned), NUMBER(3)};
static const tn_sample_arg by_one[] = {TENSOR(matrix), NUMBER(1)};
static const tn_sample_arg one[] = {TENSOR(matrix)};
static const tn_sample scaled_samples[] = {{"acme::scaled", "default", with_default, 2, false},
                                           {"acme::scaled", "transposed by 3", by_three, 2, false},
                                           {"acme::scaled", "by 1", by_one, 2, false},
                                           {0}};
static const tn_sample cubed_samples[] = {{"acme::cubed", "matrix", one, 1, false}, {0}};
static const tn_sample twice_samples[] = {{"acme::twice_", "matrix", one, 1, false}, {0}};
static const tn_sample sign_samples[] = {{"acme::sign", "matrix", one, 1, false}, {0}};
static const tn_sample bad_samples[] = {{"acme::sign", "matrix by 3", by_three, 2, false}, {0}};

static const uint8_t self_only[] = {0};
static const tn_saves saves[] = {{.values = 2}};
static const tn_grad_def scaled_grad = {.struct_size = sizeof scaled_grad, .n_inputs = 1, .input_args = self_only,
                                        .saves = saves, .fn = scaled_backward, .node_name = "ScaledBackward0"};

#define OPERATOR(text, ...) {.struct_size = sizeof(tn_operator_def), .schema = text, .file = __FILE__, .line = __LINE__, __VA_ARGS__}
static const tn_operator_def operators[] = {
    OPERATOR(SCALED, .meta = scaled_meta, .body = scaled, .grad = &scaled_grad, .doc = "self * factor", .samples = scaled_samples),
    OPERATOR(CUBED, .body = cubed, .doc = "self * self * self", .samples = cubed_samples),
    OPERATOR(TWICE, .form = TN_FORM_INPLACE, .meta = twice_meta, .body = twice, .doc = "self + self", .samples = twice_samples),
    OPERATOR(SIGN, .flags = TN_OP_NONDIFF, .body = sign, .doc = "-1, 0 or 1",
             .samples = HAS(DEFECT_SAMPLES) ? bad_samples : sign_samples),
    OPERATOR(PLAIN, .body = plain, .doc = "self * n")};

static tn_status init(const tn_host *host, tn_registration *reg) {
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) TN_TRY(host->register_operator(reg, &operators[i]));
  return TN_OK;
}

TN_PLUGIN(.name = "acme-operators", .version = "1.0", .init = init)
