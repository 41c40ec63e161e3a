/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens oneDNN, chooses its instruction set, keeps it from starting threads, makes and runs primitives.
 *
 * Note [No region of OpenMP]
 * oneDNN is built over OpenMP and would start libgomp's pool beside the host's. Here each call runs on the thread
 * that makes it, on a piece whose borders come from shapes alone: a primitive that is made while its thread may use
 * one thread never enters a parallel region. So results do not depend on the number of threads, a forked child
 * has nothing to wait for, and the host's pool is the only one. libgomp is asked for the calling thread's
 * setting, which is put back: other users of OpenMP see nothing.
 *
 * Note [Which instructions]
 * oneDNN looks at CPUID and at ONEDNN_MAX_CPU_ISA. The choice here is by CPUID and TENON_CPU_ISA, as the CPU
 * plugin's is, and it must be made before anybody's first primitive; if somebody was earlier, theirs stays and is
 * used where it is not wider than what is wanted. ONEDNN_DEFAULT_FPMATH_MODE, which would compute float32 in bfloat16, is
 * answered by each primitive's own attribute.
 */
#include "plugins/onednn/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/status.h>

/* Of the library's OpenMP runtime; NULL in a build over something else, which is refused. */
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int n) __attribute__((weak));

enum { PRIMITIVES_MOST = 512 };

static dnnl_engine_t engine;
static od_cache primitives;
static od_isa isa_now;
static char words[96];

od_isa od_library_isa(void) { return isa_now; }
const char *od_library_words(void) { return words; }

/* ------------------------------------------------------------------ threads, fork */

int od_single_begin(void) {
  int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  return before;
}

void od_single_end(int before) {
  if (before != 1) omp_set_num_threads(before);
}

/* See Note [Made under the lock]. */
static void lock_before_fork(void) { od_cache_lock(&primitives); }
static void unlock_after_fork(void) { od_cache_unlock(&primitives); }

/* ------------------------------------------------------------------ statuses */

tn_status od_status(dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return TN_OK;
  if (status == dnnl_out_of_memory) return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "oneDNN had no memory to %s", what);
  return TN_FAIL(TN_ERR_INTERNAL, "oneDNN could not %s (its status %d)", what, (int)status);
}

/* ------------------------------------------------------------------ instructions */

static const char *const isa_words[] = {
    [OD_AVX2] = "AVX2", [OD_AVX512] = "AVX-512", [OD_AVX512_BF16] = "AVX-512 with bfloat16"};

static bool has(dnnl_cpu_isa_t all, dnnl_cpu_isa_t part) {
  return ((unsigned)all & (unsigned)part) == (unsigned)part;
}

/* See Note [Which instructions]. */
static tn_status choose_isa(void) {
  const char *isa = getenv("TENON_CPU_ISA");
  bool scalar = isa && strcmp(isa, "scalar") == 0, avx2 = isa && strcmp(isa, "avx2") == 0;
  if (!scalar) dnnl_set_max_cpu_isa(avx2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_all);
  dnnl_cpu_isa_t now = dnnl_get_effective_cpu_isa();
  if (scalar || !has(now, dnnl_cpu_isa_avx2))
    return TN_FAIL(TN_ERR_UNAVAILABLE,
                   "oneDNN is used from AVX2 on; this processor (or TENON_CPU_ISA) allows less, and "
                   "there the CPU plugin's own kernels are as good");
  bool wide = has(now, dnnl_cpu_isa_avx512_core);
  if (wide && avx2)
    return TN_FAIL(TN_ERR_UNAVAILABLE,
                   "oneDNN runs AVX-512 kernels here, because another part of this process used it "
                   "before this plugin; TENON_CPU_ISA asks for AVX2");
  isa_now = !wide ? OD_AVX2 : has(now, dnnl_cpu_isa_avx512_core_bf16) ? OD_AVX512_BF16 : OD_AVX512;
  return TN_OK;
}

tn_status od_library_open(void) {
  const dnnl_version_t *v = dnnl_version();
  if (v->major != DNNL_VERSION_MAJOR)
    return TN_FAIL(TN_ERR_UNAVAILABLE, "oneDNN %d.%d was found; this plugin was built for %d.x", v->major,
                   v->minor, DNNL_VERSION_MAJOR);
  if (v->cpu_runtime != DNNL_RUNTIME_OMP || !omp_get_max_threads || !omp_set_num_threads)
    return TN_FAIL(TN_ERR_UNAVAILABLE,
                   "this oneDNN is not built over OpenMP, so it cannot be held to the calling thread");
  TN_TRY(choose_isa());
  if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
    return TN_FAIL(TN_ERR_UNAVAILABLE, "oneDNN gives no engine for this processor");
  static bool guarded; /* an init that failed for want of memory is called again */
  od_cache_open(&primitives, PRIMITIVES_MOST);
  if (!guarded && pthread_atfork(lock_before_fork, unlock_after_fork, unlock_after_fork) != 0)
    return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "onednn: no memory for a fork handler");
  guarded = true;
  snprintf(words, sizeof words, "oneDNN %d.%d.%d, %s", v->major, v->minor, v->patch, isa_words[isa_now]);
  tn_kit_host()->log(TN_LOG_INFO, "onednn: %s", words);
  return TN_OK;
}

void od_library_close(void) {
  od_cache_close(&primitives);
  if (engine) dnnl_engine_destroy(engine);
  engine = NULL;
}

/* ------------------------------------------------------------------ primitives */

tn_status od_attributes(double alpha, double beta, dnnl_primitive_attr_t *out) {
  dnnl_post_ops_t sum = NULL;
  float scale = (float)alpha;
  dnnl_status_t s = dnnl_primitive_attr_create(out);
  if (s != dnnl_success) return od_status(s, "make attributes");
  s = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
  if (s == dnnl_success) s = dnnl_primitive_attr_set_fpmath_mode(*out, dnnl_fpmath_mode_strict);
  if (s == dnnl_success && alpha != 1) s = dnnl_primitive_attr_set_output_scales(*out, 1, 0, &scale);
  if (s == dnnl_success && beta != 0) {
    s = dnnl_post_ops_create(&sum);
    if (s == dnnl_success) s = dnnl_post_ops_append_sum(sum, (float)beta);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(*out, sum);
    if (sum) dnnl_post_ops_destroy(sum);
  }
  if (s == dnnl_success) return TN_OK;
  dnnl_primitive_attr_destroy(*out);
  return od_status(s, "set attributes");
}

/* Reference code computes with one element at a time: whoever is next in the chain is faster. */
static bool is_reference(dnnl_primitive_desc_t description) {
  const char *name = "";
  if (dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name) != dnnl_success) return true;
  return strncmp(name, "ref", 3) == 0 || strstr(name, ":ref") != NULL;
}

static tn_status finish(dnnl_primitive_desc_t description, od_primitive *out) {
  const dnnl_memory_desc_t *scratch = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
  if (scratch) out->scratch = *scratch;
  out->scratch_bytes = (dnnl_memory_desc_get_size(&out->scratch) + 63) / 64 * 64;
  return od_status(dnnl_primitive_create(&out->handle, description), "make a primitive");
}

tn_status od_primitive_make(const_dnnl_op_desc_t descriptor, dnnl_primitive_attr_t attributes,
                            const_dnnl_primitive_desc_t hint, od_primitive *out,
                            dnnl_primitive_desc_t *out_description) {
  dnnl_primitive_desc_t description = NULL;
  dnnl_status_t s = dnnl_primitive_desc_create(&description, descriptor, attributes, engine, hint);
  if (out_description) *out_description = NULL;
  if (s == dnnl_unimplemented || s == dnnl_invalid_arguments) return TN_OK;
  if (s != dnnl_success) return od_status(s, "describe a primitive");
  tn_status status = is_reference(description) ? TN_OK : finish(description, out);
  if (status == TN_OK && out->handle && out_description)
    *out_description = description;
  else
    dnnl_primitive_desc_destroy(description);
  return status;
}

tn_status od_reorder_make(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, od_primitive *out) {
  dnnl_primitive_attr_t attributes;
  dnnl_primitive_desc_t description = NULL;
  out->mds[0] = *from;
  out->mds[1] = *to;
  if (dnnl_memory_desc_equal(from, to)) return TN_OK;
  TN_TRY(od_attributes(1, 0, &attributes));
  dnnl_status_t s = dnnl_reorder_primitive_desc_create(&description, from, engine, to, engine, attributes);
  tn_status status = s == dnnl_success ? finish(description, out) : od_status(s, "describe a reorder");
  if (description) dnnl_primitive_desc_destroy(description);
  dnnl_primitive_attr_destroy(attributes);
  return status;
}

void od_primitive_drop(od_primitive *primitive) {
  if (primitive->handle) dnnl_primitive_destroy(primitive->handle);
  primitive->handle = NULL;
}

tn_status od_run(const od_primitive *primitive, uint32_t n, const od_operand *operands, void *scratch) {
  enum { MOST = 6 };
  dnnl_exec_arg_t args[MOST];
  dnnl_stream_t stream = NULL;
  uint32_t made = 0;
  dnnl_status_t s = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
  uint32_t wanted = n + (primitive->scratch_bytes > 0);
  while (s == dnnl_success && made < wanted && wanted <= MOST) {
    od_operand o =
        made < n ? operands[made] : (od_operand){DNNL_ARG_SCRATCHPAD, &primitive->scratch, scratch};
    args[made].arg = o.arg;
    s = dnnl_memory_create(&args[made].memory, o.md, engine, o.data);
    made += s == dnnl_success;
  }
  if (s == dnnl_success && made < wanted) s = dnnl_invalid_arguments;
  if (s == dnnl_success) s = dnnl_primitive_execute(primitive->handle, stream, (int)made, args);
  for (uint32_t i = 0; i < made; ++i) dnnl_memory_destroy(args[i].memory);
  if (stream) dnnl_stream_destroy(stream);
  return od_status(s, "run a primitive");
}

tn_status od_reorder(const od_primitive *reorder, const void *from, void *to, void *scratch) {
  const od_operand operands[] = {{DNNL_ARG_FROM, &reorder->mds[0], (void *)(uintptr_t)from},
                                 {DNNL_ARG_TO, &reorder->mds[1], to}};
  return od_run(reorder, 2, operands, scratch);
}

/* ------------------------------------------------------------------ cache */

tn_status od_take(const od_kind *kind, const void *key, const void **out_value) {
  int before = od_single_begin();
  tn_status status = od_cache_take(&primitives, kind, key, out_value);
  od_single_end(before);
  return status;
}

void od_give(const void *value) { od_cache_give(&primitives, value); }
uint32_t od_cached(void) { return od_cache_count(&primitives); }
