/* SPDX-License-Identifier: Apache-2.0
 *
 * Run-time compilation in a helper process. Two plugins that carry different LLVMs abort when both work in one process,
 * so nothing compiles in the host: a plugin asks host->compile, the host starts tenon-cc, tenon-cc opens the one plugin
 * that offers the compiler and calls it there. Source in; object and log out; a time limit; a cache on disk keyed by
 * everything that goes in and by the compiler's file.
 *
 * A compiler is an interface (host->register_interface) whose table is a tn_compiler, version 1.
 */
#ifndef TENON_PLUGIN_COMPILER_H
#define TENON_PLUGIN_COMPILER_H

#include <tenon/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request. Strings are borrowed for the call. */
typedef struct tn_compile_def {
  uint32_t struct_size;
  uint32_t timeout_ms;   /* 0: 60 s */
  const char *compiler;  /* name of the interface, e.g. "acme.compiler" */
  const char *options;   /* handed to the compiler as they are; NULL: none */
  const char *name;      /* of the source, for its messages; NULL: "source" */
  const void *source;
  uint64_t source_bytes;
  TN_FUTURE_FIELD
} tn_compile_def;

/* A result; owned by the caller until host->compiled_free. */
typedef struct tn_compiled {
  uint32_t struct_size;
  uint32_t cached;       /* 1: came from the disk */
  void *object;
  uint64_t object_bytes;
  char *log;             /* what the compiler said, "" if nothing; also given when compiling failed */
  TN_FUTURE_FIELD
} tn_compiled;

/* The interface that a compiler plugin offers; called in tenon-cc only, one call at a time. */
typedef struct tn_compiler {
  uint32_t struct_size;
  uint32_t reserved;
  void *ctx;
  /* Fills object (owned by the plugin until release) and log; a failure's words are the thread's. */
  tn_status (*compile)(void *ctx, const tn_compile_def *request, tn_compiled *out_compiled);
  void (*release)(void *ctx, tn_compiled *compiled);
  TN_FUTURE_FIELD
} tn_compiler;

#ifdef __cplusplus
}
#endif
#endif
