/* SPDX-License-Identifier: Apache-2.0
 *
 * What one check of `tenon check plugin FILE.so` is, and what it may say. A check runs in a process of its own
 * (run.c starts it, child.c is its inside): a crash, a hang or an exit inside the plugin is a finding of that check
 * and of no other.
 *
 * To add one: define a `const tni_check tni_check_AREA_NAME` in a file of this folder and a line in checks.inc.
 */
#ifndef TENON_CHECK_CHECK_H
#define TENON_CHECK_CHECK_H

#include <tenon/plugin_backend.h>
#include <tenon/tenon.h>

typedef struct tni_check_report tni_check_report;

/* What the manifest claims, as text; the host's own reading is not used, so that a file which it rejects can still be
 * described. All of it lives as long as the process. */
typedef struct tni_claim_kernel {
  const char *key; /* device or layer */
  const char *op;  /* functional name, or "*" */
  tn_dtype_mask dtypes;
  int32_t priority;
} tni_claim_kernel;

typedef struct tni_claim_layer {
  const char *name;
  const char *constraints; /* the rest of the line, "" if there is none */
} tni_claim_layer;

typedef struct tni_claim_interface {
  const char *name;
  uint32_t version;
} tni_claim_interface;

typedef struct tni_check_context {
  const char *file;    /* the file under test: absolute path, its folder without links */
  const char *plugin;  /* its name by its manifest; the file's name where it has none */
  const char *version; /* "" where it has none */
  const char *self;    /* path of this program */
  const char *second;  /* path of the second backend, device "tenoncheck", or NULL if it is not installed */
  const char *
      folder; /* of this run, empty at first, removed with all in it at the end; its `root` is the search root
                        * in which the file under test stands */
  const char *stage;          /* NULL; in a process that tni_check_stage started: its word */
  const char *const *devices; /* that it registers: the manifest's `device` lines */
  size_t n_devices;
  const tni_claim_kernel *kernels;
  size_t n_kernels;
  const tni_claim_layer *layers;
  size_t n_layers;
  const char *const *operators; /* schema texts that it adds */
  size_t n_operators;
  const tni_claim_interface *interfaces;
  size_t n_interfaces;
  uint32_t abi_major, abi_minor, needs_minor; /* the `abi` line */
  unsigned kinds;                             /* TNI_CHECK_... bits that hold for it */
  char *manifest_text;                        /* owned by the context; claims point into it */
  const char *manifest_error;                 /* why the manifest could not be read, or NULL */
  const struct tni_check *check;              /* the one that runs; NULL in the runner */
} tni_check_context;

/* tni_check.kinds: what a plugin must be for the check to run. 0: any plugin. Several: one of them. */
enum {
  TNI_CHECK_BACKEND = 1u << 0, /* registers a device */
  TNI_CHECK_KERNELS = 1u << 1, /* lists kernels of a device, its own or another's */
  TNI_CHECK_LAYER = 1u << 2,
  TNI_CHECK_OPERATORS = 1u << 3 /* adds operators */
};

typedef struct tni_check {
  const char *name;  /* "ops.forward" */
  const char *about; /* one line: what it proves */
  unsigned kinds;
  int timeout_s; /* 0: 20 s. Of the whole check; one that hangs is ended and named */
  void (*run)(tni_check_report *r, const tni_check_context *c);
} tni_check;

/* item: what was tried, as a line of an expected-failures file names it: "add.Tensor float32 broadcast". One line. Any
 * thread of the check's process. An item should be named once by a check; the worst that was said of it counts. */
void tni_check_pass(tni_check_report *r, const char *item);
void tni_check_fail(tni_check_report *r, const char *item, const char *format, ...) TN_PRINTF(3, 4);
void tni_check_skip(tni_check_report *r, const char *item, const char *format, ...) TN_PRINTF(3, 4);
/* Worth a line, no finding. */
void tni_check_note(tni_check_report *r, const char *item, const char *format, ...) TN_PRINTF(3, 4);
/* What is tried next: if the process dies, the words name it and the finding's item is this. Copied. */
void tni_check_at(tni_check_report *r, const char *item);

/* condition holds: pass, else fail with the words. Answers the condition. */
bool tni_check_that(tni_check_report *r, bool condition, const char *item, const char *format, ...)
    TN_PRINTF(4, 5);
/* status is TN_OK: true and nothing is said; else a failure of the item with `what` and the thread's error words. */
bool tni_check_ok(tni_check_report *r, tn_status status, const char *item, const char *what);

/* Opens a device by name ("acme", "cpu"). false: a failure was reported, or a skip if the machine has no such device. */
bool tni_check_device(tni_check_report *r, const char *name, tn_device *out_device);

/* How a process that tni_check_stage started has ended. */
typedef struct tni_check_end {
  bool timed_out;
  int exit_status; /* -1: by a signal */
  int signal;      /* 0: by exit */
  bool finished;   /* the check's run() returned in it */
  char words[600]; /* "was ended by SIGSEGV at 'add.Tensor'", "did not end within 5 s", "exit status 3" */
} tni_check_end;

/* Runs the same check in a further process, with c->stage = stage; what it reports joins this report. `settings`:
 * NAME=VALUE texts (VALUE empty: unset) on top of this process's environment, ended by NULL; NULL: none. Whatever the
 * end is, it is the caller's to judge. Failures to start it at all are reported. */
bool tni_check_stage(tni_check_report *r, const tni_check_context *c, const char *stage,
                     const char *const *settings, int timeout_s, tni_check_end *out_end);

/* In name order, ended by NULL: checks.inc. */
extern const tni_check *const tni_checks[];

#endif
