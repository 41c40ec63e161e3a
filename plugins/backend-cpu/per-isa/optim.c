/* SPDX-License-Identifier: Apache-2.0
 *
 * One optimiser step over one contiguous tensor: every array is read and written once. The arithmetic is
 * that of the unfused formulas in the element type; numbers that depend on the step alone come precomputed
 * in cpu_step. The usual float32 steps may have a way of their own (QUICK: true if it did the step), optim_vector.h.
 */
#include "plugins/backend-cpu/per-isa/math.h"
#include "plugins/backend-cpu/per-isa/optim_vector.h"
#include "plugins/backend-cpu/per-isa/per_isa.h"

/* Adam (weight decay into the gradient) and AdamW (decoupled: param shrinks first). correction1 = 1 -
 * beta1^t, correction2_sqrt = sqrt(1 - beta2^t). */
#define ADAM(name, T, P, QUICK)                                                                         \
  void CPU_FN(cpu_adam_##name)(const cpu_step *s, void *param, const void *grad, void *exp_avg,         \
                               void *exp_avg_sq, void *max_exp_avg_sq, int64_t n) {                     \
    T *p = param, *m = exp_avg, *v = exp_avg_sq, *most = s->amsgrad ? max_exp_avg_sq : exp_avg_sq;      \
    const T *g = grad;                                                                                  \
    if (QUICK) return;                                                                                  \
    const T b1 = (T)s->beta1, b2 = (T)s->beta2, rest1 = (T)(1 - s->beta1), rest2 = (T)(1 - s->beta2);   \
    const T step = (T)(s->lr / s->correction1), scale2 = (T)(1 / s->correction2_sqrt), eps = (T)s->eps; \
    const T keep = (T)(s->decoupled ? 1 - s->lr * s->weight_decay : 1);                                 \
    const T decay = (T)(s->decoupled ? 0 : s->weight_decay), sign = (T)s->grad_scale;                   \
    const int amsgrad = s->amsgrad;                                                                     \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) {                                                   \
      const T x = p[i] * keep, d = g[i] * sign + decay * p[i];                                          \
      const T mi = b1 * m[i] + rest1 * d, vi = b2 * v[i] + rest2 * d * d;                               \
      const T top = amsgrad ? P##_max(most[i], vi) : vi;                                                \
      m[i] = mi;                                                                                        \
      v[i] = vi;                                                                                        \
      most[i] = top;                                                                                    \
      p[i] = x - step * mi / (P##_sqrt(top) * scale2 + eps);                                            \
    }                                                                                                   \
  }
ADAM(f32, float, f32, adam_quickly(s, p, g, m, v, n))
ADAM(f64, double, f64, false)

/* b = momentum * b + (1 - dampening) * d; the first step sets b = d. Without momentum b is not touched. */
#define SGD(name, T)                                                                                   \
  void CPU_FN(cpu_sgd_##name)(const cpu_step *s, void *param, const void *grad, void *momentum_buffer, \
                              int64_t n) {                                                             \
    T *p = param, *b = momentum_buffer;                                                                \
    const T *g = grad;                                                                                 \
    const T lr = (T)s->lr, decay = (T)s->weight_decay, sign = (T)s->grad_scale;                        \
    const T momentum = (T)(s->first ? 0 : s->momentum), fresh = (T)(s->first ? 1 : 1 - s->dampening);  \
    const T ahead = (T)s->momentum;                                                                    \
    const int nesterov = s->nesterov;                                                                  \
    if (s->no_momentum) {                                                                              \
      CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) p[i] -= lr * (g[i] * sign + decay * p[i]);       \
      return;                                                                                          \
    }                                                                                                  \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) {                                                  \
      const T d = g[i] * sign + decay * p[i];                                                          \
      const T bi = (s->first ? (T)0 : momentum * b[i]) + fresh * d;                                    \
      b[i] = bi;                                                                                       \
      p[i] -= lr * (nesterov ? d + ahead * bi : bi);                                                   \
    }                                                                                                  \
  }
SGD(f32, float)
SGD(f64, double)

/* sq = alpha sq + (1 - alpha) d^2; the step is d / (sqrt(sq - ga^2) + eps), or the momentum buffer that gathers it. ga,
 * the mean of the gradients, is there if the step is centred; rounding may leave sq - ga^2 below 0, where it is 0. */
#define RMSPROP(name, T, P, QUICK)                                                                    \
  void CPU_FN(cpu_rmsprop_##name)(const cpu_step *s, void *param, const void *grad, void *square_avg, \
                                  void *grad_avg, void *momentum_buffer, int64_t n) {                 \
    T *p = param, *sq = square_avg, *ga = grad_avg ? grad_avg : square_avg;                           \
    T *b = momentum_buffer ? momentum_buffer : square_avg;                                            \
    const T *g = grad;                                                                                \
    if (QUICK) return;                                                                                \
    const T lr = (T)s->lr, alpha = (T)s->beta2, rest = (T)(1 - s->beta2), eps = (T)s->eps;            \
    const T decay = (T)s->weight_decay, sign = (T)s->grad_scale, momentum = (T)s->momentum;           \
    const int centered = grad_avg != 0, gathers = momentum_buffer != 0;                               \
    CPU_INDEPENDENT for (int64_t i = 0; i < n; ++i) {                                                 \
      const T d = g[i] * sign + decay * p[i];                                                         \
      const T mean = alpha * ga[i] + rest * d, kept = alpha * sq[i] + rest * d * d;                   \
      const T spread = centered ? kept - mean * mean : kept;                                          \
      const T unit = d / (P##_sqrt(spread < 0 ? (T)0 : spread) + eps);                                \
      const T step = gathers ? momentum * b[i] + unit : unit;                                         \
      if (centered) ga[i] = mean;                                                                     \
      if (gathers) b[i] = step;                                                                       \
      sq[i] = kept;                                                                                   \
      p[i] -= lr * step;                                                                              \
    }                                                                                                 \
  }
RMSPROP(f32, float, f32, rmsprop_quickly(s, p, g, sq, grad_avg, momentum_buffer, n))
RMSPROP(f64, double, f64, false)
