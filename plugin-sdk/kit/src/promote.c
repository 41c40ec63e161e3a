/* SPDX-License-Identifier: Apache-2.0
 *
 * Promotion. The lattice of the ten computing dtypes is a table, because its holes are irregular (uint8 with
 * int8 is int16, float16 with bfloat16 is float32); the reserved dtypes follow rules.
 */
#include <tenon/kit/promote.h>

enum { TABLED = TN_FLOAT64 + 1 };

#define B   TN_BOOL
#define U8  TN_UINT8
#define I8  TN_INT8
#define I16 TN_INT16
#define I32 TN_INT32
#define I64 TN_INT64
#define F16 TN_FLOAT16
#define BF  TN_BFLOAT16
#define F32 TN_FLOAT32
#define F64 TN_FLOAT64
static const tn_dtype common[TABLED][TABLED] = {
    {TN_DTYPE_NONE, B, U8, I8, I16, I32, I64, F16, BF, F32, F64},
    {B, B, U8, I8, I16, I32, I64, F16, BF, F32, F64},
    {U8, U8, U8, I16, I16, I32, I64, F16, BF, F32, F64},
    {I8, I8, I16, I8, I16, I32, I64, F16, BF, F32, F64},
    {I16, I16, I16, I16, I16, I32, I64, F16, BF, F32, F64},
    {I32, I32, I32, I32, I32, I32, I64, F16, BF, F32, F64},
    {I64, I64, I64, I64, I64, I64, I64, F16, BF, F32, F64},
    {F16, F16, F16, F16, F16, F16, F16, F16, F32, F32, F64},
    {BF, BF, BF, BF, BF, BF, BF, F32, BF, F32, F64},
    {F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F64},
    {F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64},
};
#undef B
#undef U8
#undef I8
#undef I16
#undef I32
#undef I64
#undef F16
#undef BF
#undef F32
#undef F64

tn_dtype tn_promote_to_complex(tn_dtype dtype) {
  if (tn_kit_dtype_is_complex(dtype)) return dtype;
  return dtype == TN_FLOAT64 ? TN_COMPLEX128 : TN_COMPLEX64;
}

static bool is_float8(tn_dtype dtype) { return dtype >= TN_FLOAT8_E4M3FN && dtype <= TN_FLOAT8_E8M0FNU; }

tn_dtype tn_promote_types(tn_dtype a, tn_dtype b) {
  if (a < TABLED && b < TABLED) return common[a][b];
  if (a == b || b == TN_DTYPE_NONE) return a;
  if (a == TN_DTYPE_NONE) return b;
  uint8_t ca = tn_kit_dtype_category(a), cb = tn_kit_dtype_category(b);
  if (ca == TN_CATEGORY_NONE || cb == TN_CATEGORY_NONE || is_float8(a) || is_float8(b)) return TN_DTYPE_NONE;
  if (ca == TN_CATEGORY_COMPLEX || cb == TN_CATEGORY_COMPLEX) {
    bool wide = a == TN_FLOAT64 || b == TN_FLOAT64 || a == TN_COMPLEX128 || b == TN_COMPLEX128;
    return wide ? TN_COMPLEX128 : TN_COMPLEX64;
  }
  /* One of them is uint16, uint32 or uint64: a float takes it in, an integer or bool does not. */
  if (ca == TN_CATEGORY_FLOAT) return a;
  return cb == TN_CATEGORY_FLOAT ? b : TN_DTYPE_NONE;
}

static void join(tn_promote_state *state, tn_dtype *slot, tn_dtype dtype) {
  tn_dtype joined = tn_promote_types(*slot, dtype);
  if (joined == TN_DTYPE_NONE && !state->clash) {
    state->clash = 1;
    state->clash_a = *slot;
    state->clash_b = dtype;
  }
  *slot = joined;
}

void tn_promote_add_view(tn_promote_state *state, const tn_view *view, tn_dtype default_dtype) {
  tn_dtype dtype = view->dtype;
  if (view->flags & TN_VIEW_WRAPPED_NUMBER) {
    if (tn_kit_dtype_is_complex(dtype))
      dtype = tn_promote_to_complex(default_dtype);
    else if (tn_kit_dtype_is_float(dtype))
      dtype = default_dtype;
  }
  if (view->ndim > 0)
    join(state, &state->dims, dtype);
  else if (view->flags & TN_VIEW_WRAPPED_NUMBER)
    join(state, &state->wrapped, dtype);
  else
    join(state, &state->zero, dtype);
}

void tn_promote_add_scalar(tn_promote_state *state, const tn_scalar *scalar, tn_dtype default_dtype) {
  switch (scalar->kind) {
    case TN_VAL_BOOL: join(state, &state->wrapped, TN_BOOL); break;
    case TN_VAL_INT: join(state, &state->wrapped, TN_INT64); break;
    case TN_VAL_FLOAT: join(state, &state->wrapped, default_dtype); break;
    case TN_VAL_COMPLEX: join(state, &state->wrapped, tn_promote_to_complex(default_dtype)); break;
    default: break;
  }
}

/* The higher kind of operand keeps its dtype unless the lower one is of a higher category. */
static tn_dtype combine(tn_promote_state *state, tn_dtype higher, tn_dtype lower) {
  if (higher == TN_DTYPE_NONE) return lower;
  if (lower == TN_DTYPE_NONE) return higher;
  uint8_t ch = tn_kit_dtype_category(higher), cl = tn_kit_dtype_category(lower);
  if (ch >= cl && ch != TN_CATEGORY_BOOL) return higher;
  if (ch == TN_CATEGORY_FLOAT) return tn_promote_to_complex(higher);
  join(state, &higher, lower);
  return higher;
}

tn_status tn_promote_result(const tn_promote_state *state, tn_dtype *out_dtype) {
  tn_promote_state work = *state;
  tn_dtype dtype = combine(&work, work.dims, combine(&work, work.zero, work.wrapped));
  if (work.clash) {
    return TN_FAIL(TN_ERR_DTYPE, "no common dtype for %s and %s", tn_kit_dtype_name(work.clash_a),
                   tn_kit_dtype_name(work.clash_b));
  }
  if (dtype == TN_DTYPE_NONE) {
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT,
                   "a tensor or a number was expected to take the dtype from, found none");
  }
  *out_dtype = dtype;
  return TN_OK;
}

tn_status tn_promote_values(const tn_value *args, size_t n, tn_dtype default_dtype, tn_dtype *out_dtype) {
  tn_promote_state state = {0};
  for (size_t i = 0; i < n; i++) {
    const tn_value *arg = &args[i];
    if (arg->kind == TN_VAL_TENSOR) {
      tn_promote_add_view(&state, arg->u.v, default_dtype);
    } else if (arg->kind == TN_VAL_LIST &&
               (arg->elem == TN_VAL_TENSOR || arg->elem == TN_VAL_OPTIONAL_TENSOR)) {
      for (uint32_t k = 0; k < arg->count; k++) {
        if (arg->u.vs[k]) tn_promote_add_view(&state, arg->u.vs[k], default_dtype);
      }
    } else {
      tn_promote_add_scalar(&state, arg, default_dtype);
    }
  }
  return tn_promote_result(&state, out_dtype);
}
