/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in files: safetensors, NumPy's npy and npz, and checkpoints, from which training goes on as if it had
 * not stopped.
 *
 * Reading. TN_ERR_NOT_FOUND: no such file; TN_ERR_IO: it cannot be read; TN_ERR_DATA: it is malformed, and the
 * words say at which byte; TN_ERR_UNSUPPORTED: well formed, but something that Tenon lacks. Headers are checked
 * whole before memory is taken for what they claim. Tensors are read-only and on the CPU; they lie in the mapped
 * file where its alignment allows, so do not change the file in place while they live (replacing it by a rename,
 * as the writers here do, is safe).
 *
 * Writing. The file is written beside its place, synced and renamed: `path` holds the old contents or the new,
 * never a part, whatever fails. A process that is killed while it writes leaves `path` as it was, and beside it a
 * file PATH.tmp-PID-N.
 */
#ifndef TENON_FILES_H
#define TENON_FILES_H

#include <tenon/nn.h>
#include <tenon/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the writers here could begin a file there now; says why not. Leaves nothing behind. For those who have hours of
 * work to save at the end. */
TN_EXPORT tn_status tn_file_check_place(const char *path);

/* ------------------------------------------------------------------ safetensors */

/* An open file: its header, checked whole. */
typedef struct tn_safetensors tn_safetensors;
TN_EXPORT tn_status tn_safetensors_open(const char *path, tn_safetensors **out_file); /* owned */
TN_EXPORT void tn_safetensors_close(tn_safetensors *file); /* tensors stay; NULL is allowed */
TN_EXPORT size_t tn_safetensors_count(const tn_safetensors *file);
/* Name of tensor i in the order of the data; NULL past the end. Borrowed until close. */
TN_EXPORT const char *tn_safetensors_name(const tn_safetensors *file, size_t i);
/* A value of the file's "__metadata__"; NULL if there is none. Borrowed until close. */
TN_EXPORT const char *tn_safetensors_note(const tn_safetensors *file, const char *key);
/* TN_ERR_NOT_FOUND: no tensor of that name. */
TN_EXPORT tn_status tn_safetensors_tensor(tn_safetensors *file, const char *name, tn_tensor **out_tensor);
/* Every tensor of a file. */
TN_EXPORT tn_status tn_safetensors_read(const char *path, tn_state_dict **out_dict);

/* An entry of "__metadata__". */
typedef struct tn_file_note {
  const char *key;
  const char *value;
} tn_file_note;
/* Any device, any strides. Names and notes must be UTF-8; tensors are ordered by falling alignment, then name. */
TN_EXPORT tn_status tn_safetensors_write(const char *path, const tn_state_dict *dict,
                                         const tn_file_note *notes, size_t n_notes);

/* ------------------------------------------------------------------ npy, npz */

/* Versions 1.0 to 3.0, either byte order, C and Fortran order. */
TN_EXPORT tn_status tn_npy_read(const char *path, tn_tensor **out_tensor);
/* Version 1.0. TN_ERR_UNSUPPORTED: bfloat16, which the format lacks. */
TN_EXPORT tn_status tn_npy_write(const char *path, tn_tensor *tensor);
/* Every array of an npz, named without ".npy"; stored or deflated, zip64 too. */
TN_EXPORT tn_status tn_npz_read(const char *path, tn_state_dict **out_dict);

/* ------------------------------------------------------------------ checkpoints */

/* A moment of training. As a file: safetensors with "model.", "optimizer.", "random." (one for each generator) and
 * "progress." in front of the names. */
typedef struct tn_checkpoint {
  tn_module *model;
  tn_optimizer *optimizer; /* NULL: none */
  tn_device device;        /* its default generator and the CPU's are part */
  int64_t epoch;           /* the epoch that runs, as tn_loader_begin counts */
  int64_t batch;           /* batches of it that are done: tn_loader_begin_at */
  int64_t step;            /* optimiser steps done: tn_schedule_apply */
  const tn_file_note *notes;
  size_t n_notes;
} tn_checkpoint;
TN_EXPORT tn_status tn_checkpoint_write(const char *path, const tn_checkpoint *checkpoint);
/* Fills model, optimizer and generators, and sets epoch, batch and step. Nothing is changed if the file is malformed
 * or does not fit. A generator that the file lacks (another device) keeps its state. `file` may be open for its
 * notes already: that is what these two take. */
TN_EXPORT tn_status tn_checkpoint_load(tn_safetensors *file, tn_checkpoint *inout_checkpoint);
/* The model alone, of a checkpoint or of a file that holds nothing but a module's state dict. */
TN_EXPORT tn_status tn_checkpoint_load_model(tn_safetensors *file, tn_module *model);

#ifdef __cplusplus
}
#endif
#endif
