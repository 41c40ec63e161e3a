/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema text to struct and back. Grammar: ATen's (`name.overload(args) -> results`), see registry/schema.c.
 */
#ifndef TENON_REGISTRY_SCHEMA_H
#define TENON_REGISTRY_SCHEMA_H

#include <tenon/kit/status.h>

/* Base type of an argument; lists are the base type with list = 1. */
enum {
  TNI_T_TENSOR = 1,
  TNI_T_SCALAR,
  TNI_T_INT, /* also SymInt */
  TNI_T_FLOAT,
  TNI_T_BOOL,
  TNI_T_STR,
  TNI_T_DTYPE,
  TNI_T_LAYOUT,
  TNI_T_DEVICE,
  TNI_T_MEMORY_FORMAT,
  TNI_T_GENERATOR
};

typedef struct tni_arg {
  const char *name;
  tn_value default_value; /* kind NONE if there is none or it is None: see has_default */
  uint8_t type;           /* TNI_T_... */
  bool list;
  bool optional;          /* the argument itself: `Tensor?`, `int[]?` */
  bool optional_elem;     /* `Tensor?[]` */
  bool has_default;
  bool keyword_only;
  uint8_t alias;          /* 0 none, else the set's letter: 'a', 'b', ... */
  bool writes;            /* (a!) */
  bool alias_any;         /* (a -> *) */
  int32_t fixed_size;     /* int[2] -> 2, else 0: a single number stands for all entries */
} tni_arg;

typedef struct tni_schema {
  char *name;     /* "mul.Tensor" */
  char *base;     /* "mul" */
  char *overload; /* "Tensor" or "" */
  char *text;     /* as given */
  uint32_t n_args;
  uint32_t n_results;
  tni_arg *args;
  tni_arg *results; /* type, list, alias, writes, name (may be NULL) */
} tni_schema;

/* Owned; one tni-style block, free with tni_schema_release. TN_ERR_INVALID_ARGUMENT names the place. */
tn_status tni_schema_parse(const char *text, tni_schema **out_schema);
void tni_schema_release(tni_schema *schema); /* NULL is allowed */
/* Do two schemas differ only in appended arguments that have defaults? Then an older kernel may serve calls
 * that leave those at default: *out_extra says how many were appended (0: equal). false: they do not fit. */
bool tni_schema_extends(const tni_schema *newer, const tni_schema *older, uint32_t *out_extra);

#endif
