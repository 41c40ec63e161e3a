/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack: what we say of a tensor, what we take from others, who frees what.
 */
#include <tenon/dlpack.h>

#include "tools.h"

TN_TEST(frontends_dlpack, export_describes_the_tensor) {
  tn_tensor *t = NULL, *turned = NULL;
  tn_dl_managed_versioned *m = NULL;
  TN_CHECK_OK(tn_zeros((const tn_dim[]){2, 3}, 2, TN_OPTIONS(.dtype = TN_BFLOAT16), &t));
  TN_CHECK_OK(tn_transpose(t, 0, 1, &turned));
  TN_CHECK_OK(tn_dlpack_export(turned, &m));
  TN_CHECK_INT(m->version.major, 1);
  TN_CHECK_INT(m->flags, 0);
  TN_CHECK(m->tensor.data == tn_tensor_data(t));
  TN_CHECK_INT(m->tensor.device.type, TN_DL_CPU);
  TN_CHECK_INT(m->tensor.dtype.code, TN_DL_BFLOAT);
  TN_CHECK_INT(m->tensor.dtype.bits, 16);
  TN_CHECK_INT(m->tensor.ndim, 2);
  TN_CHECK_INT(m->tensor.shape[0], 3);
  TN_CHECK_INT(m->tensor.strides[0], 1);
  TN_CHECK_INT(m->tensor.strides[1], 3);
  tn_tensor_release(turned);
  tn_tensor_release(t);
  m->deleter(m); /* the memory lived until here */
}

TN_TEST(frontends_dlpack, round_trip_shares_memory) {
  tn_tensor *t = TT_VECTOR(1, 2, 3), *back = NULL;
  tn_dl_managed_versioned *m = NULL;
  tn_dl_managed *legacy = NULL;
  TN_CHECK_OK(tn_dlpack_export(t, &m));
  TN_CHECK_OK(tn_dlpack_import(m, &back));
  TN_CHECK(tn_tensor_data(back) == tn_tensor_data(t));
  TN_CHECK_OK(tn_fill_(t, tn_float(9)));
  TN_CHECK_DOUBLE(tt_at(back, 2), 9, 0);
  tn_tensor_release(back);
  TN_CHECK_OK(tn_dlpack_export_legacy(t, &legacy));
  tn_tensor_release(t);
  TN_CHECK_OK(tn_dlpack_import_legacy(legacy, true, &back));
  TN_CHECK_DOUBLE(tt_at(back, 0), 9, 0);
  TN_CHECK(tn_fill_(back, tn_float(1)) != TN_OK);
  TN_CHECK_DOUBLE(tt_at(back, 0), 9, 0);
  tn_tensor_release(back);
}

TN_TEST(frontends_dlpack, read_only_stays_read_only) {
  static float data[2] = {1, 2};
  const tn_dim size = 2;
  tn_tensor *t = NULL, *back = NULL;
  tn_dl_managed_versioned *m = NULL;
  tn_dl_managed *legacy = NULL;
  tn_foreign memory = {.data = data, .sizes = &size, .ndim = 1, .dtype = TN_FLOAT32, .read_only = true};
  TN_CHECK_OK(tn_tensor_from_memory(&memory, &t));
  TN_CHECK_OK(tn_dlpack_export(t, &m));
  TN_CHECK_INT(m->flags, TN_DL_READ_ONLY);
  TN_CHECK_OK(tn_dlpack_import(m, &back));
  TN_CHECK(tn_tensor_view(back)->flags & TN_VIEW_READ_ONLY);
  TN_CHECK_FAILS(tn_dlpack_export_legacy(t, &legacy), TN_ERR_UNSUPPORTED, "read-only");
  tn_tensor_release(back);
  tn_tensor_release(t);
}

TN_TEST(frontends_dlpack, tensors_with_history_are_refused) {
  tn_tensor *t = TT_VECTOR(1);
  tn_dl_managed_versioned *m = NULL;
  TN_CHECK_OK(tn_set_requires_grad(t, true));
  TN_CHECK_FAILS(tn_dlpack_export(t, &m), TN_ERR_INVALID_ARGUMENT, "requires grad");
  TN_CHECK_PTR_NULL(m);
  tn_tensor_release(t);
}

TN_TEST(frontends_dlpack, empty_and_0_d) {
  tn_tensor *t = NULL, *back = NULL;
  tn_dl_managed_versioned *m = NULL;
  TN_CHECK_OK(tn_zeros((const tn_dim[]){0, 3}, 2, NULL, &t));
  TN_CHECK_OK(tn_dlpack_export(t, &m));
  TN_CHECK_PTR_NULL(m->tensor.data);
  TN_CHECK_OK(tn_dlpack_import(m, &back));
  TN_CHECK_INT(tn_tensor_numel(back), 0);
  tn_tensor_release(back);
  tn_tensor_release(t);
  TN_CHECK_OK(tn_full(NULL, 0, tn_float(4), NULL, &t));
  TN_CHECK_OK(tn_dlpack_export(t, &m));
  TN_CHECK_OK(tn_dlpack_import(m, &back));
  TN_CHECK_DOUBLE(tt_at(back, 0), 4, 0);
  tn_tensor_release(back);
  tn_tensor_release(t);
}

/* ------------------------------------------------------------------ from other producers */

static int deleted;
static void count_delete(tn_dl_managed_versioned *self) { deleted++; }

static tn_dl_managed_versioned producer(float *data, int64_t *shape, int64_t *strides) {
  tn_dl_managed_versioned m = {.version = {1, 3},
                               .deleter = count_delete,
                               .tensor = {data, {TN_DL_CPU, 0}, 2, {TN_DL_FLOAT, 32, 1}, shape, strides, 0}};
  deleted = 0;
  return m;
}

TN_TEST(frontends_dlpack, import_takes_offsets_and_strides) {
  float data[] = {0, 1, 2, 3, 4, 5, 6};
  int64_t shape[] = {2, 3}, strides[] = {1, 2};
  tn_dl_managed_versioned m = producer(data, shape, strides);
  tn_tensor *t = NULL;
  m.tensor.byte_offset = sizeof(float);
  TN_CHECK_OK(tn_dlpack_import(&m, &t));
  TN_CHECK_DOUBLE(tt_at(t, 0), 1, 0);
  TN_CHECK_DOUBLE(tt_at(t, 1), 3, 0);
  TN_CHECK_DOUBLE(tt_at(t, 3), 2, 0);
  TN_CHECK_INT(deleted, 0);
  tn_tensor_release(t);
  TN_CHECK_INT(deleted, 1);
  m = producer(data, shape, NULL); /* row-major, as old producers say it */
  TN_CHECK_OK(tn_dlpack_import(&m, &t));
  TN_CHECK_DOUBLE(tt_at(t, 3), 3, 0);
  tn_tensor_release(t);
  TN_CHECK_INT(deleted, 1);
}

TN_TEST(frontends_dlpack, what_is_refused_is_deleted_once) {
  float data[6] = {0};
  int64_t shape[] = {2, 3};
  tn_tensor *t = NULL;
  tn_dl_managed_versioned m = producer(data, shape, NULL);
  m.version.major = 2;
  TN_CHECK_FAILS(tn_dlpack_import(&m, &t), TN_ERR_VERSION, "2 came");
  TN_CHECK_INT(deleted, 1);
  m = producer(data, shape, NULL);
  m.tensor.dtype.lanes = 4;
  TN_CHECK_FAILS(tn_dlpack_import(&m, &t), TN_ERR_DTYPE, "4 lanes");
  TN_CHECK_INT(deleted, 1);
  m = producer(data, shape, NULL);
  m.tensor.device.type = TN_DL_CUDA;
  TN_CHECK_FAILS(tn_dlpack_import(&m, &t), TN_ERR_DEVICE, "device type 2");
  TN_CHECK_INT(deleted, 1);
  m = producer(data, shape, NULL);
  m.tensor.ndim = -1;
  TN_CHECK_FAILS(tn_dlpack_import(&m, &t), TN_ERR_INVALID_ARGUMENT, "-1 came");
  TN_CHECK_INT(deleted, 1);
  m = producer(NULL, shape, NULL);
  TN_CHECK_FAILS(tn_dlpack_import(&m, &t), TN_ERR_INVALID_ARGUMENT, "data is NULL");
  TN_CHECK_INT(deleted, 1);
  TN_CHECK_PTR_NULL(t);
}
