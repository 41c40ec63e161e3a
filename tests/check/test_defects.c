/* SPDX-License-Identifier: Apache-2.0
 *
 * For every structural check a plugin with exactly one defect, which that check catches and names. A defect may show in
 * other checks as well: those are listed, and no others may fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "tn_test.h"

/* Checks of the structure; operators have tests of their own. */
#define STRUCTURE                                                                                            \
  "--only "                                                                                                  \
  "'abi.*,manifest.*,load.*,memory.*,streams.*,events.*,threads.*,fork.*,unload.*,leaks.*,exit.*,coexist.*," \
  "serial.*,rng.*,fallback.*,autograd.*,layer.*'"

/* others: names, each with a blank after it. "*": the plugin does not open, so most checks fail. */
static void expect(const char *plugin, const char *check, const char *words, const char *others) {
  answer a = command("plugin %s " STRUCTURE, plugin_file(plugin));
  if (a.exit_status != 1 || !check_failed(&a, check) || !strstr(a.text, words))
    tn_test_fail(__FILE__, __LINE__, "%s: expected that %s fails with \"%s\"; exit status %d:\n%s", plugin,
                 check, words, a.exit_status, a.text);
  char *failed = failed_checks(&a), *state = NULL;
  for (char *name = strtok_r(failed, " ", &state); name; name = strtok_r(NULL, " ", &state)) {
    char with_blank[80];
    snprintf(with_blank, sizeof with_blank, "%s ", name);
    if (strcmp(name, check) && strcmp(others, "*") && !strstr(others, with_blank))
      tn_test_fail(__FILE__, __LINE__, "%s: %s failed as well:\n%s", plugin, name, a.text);
  }
  free(failed);
  command_free(&a);
}

/* The address sanitizer sees a leak at the end of every process that met it. */
#ifdef __SANITIZE_ADDRESS__
#define LEAKS_SHOW "*"
#else
#define LEAKS_SHOW ""
#endif

#define DEFECT(plugin, check, words, others) \
  TN_TEST(check_defects, plugin) { expect(#plugin, check, words, others); }

DEFECT(any_major, "abi.door", "newer major", "")
DEFECT(two_names, "abi.exports", "acme_helper", "")
DEFECT(executable_stack, "abi.exports", "stack of every thread", "")
DEFECT(lazy_tables, "abi.exports", "stay writable", "")
DEFECT(needs_core, "abi.exports", "links nothing of the core", "")
DEFECT(needs_driver, "abi.exports", "libcuda.so.1", "")
DEFECT(path_for_all, "abi.exports", "a folder that all may write", "")
DEFECT(table_end, "abi.structs", "oldest host", "")
DEFECT(half_streams, "abi.structs", "all or none", "*")
DEFECT(alignment, "abi.structs", "not a power of two", "*")
DEFECT(manifest_omits, "manifest.truth", "registered and not listed", "*")
DEFECT(manifest_dtype, "manifest.truth", "float64 is listed only", "*")
DEFECT(unknown_cpu, "load.idle", "telepathy", "*")
DEFECT(count_fails, "load.open", "cannot be counted", "*")
DEFECT(misaligned, "memory.alloc", "not a multiple of alignment_bytes",
       /* the core refuses such memory */
       "memory.pairs threads.calls fork.contract unload.refused leaks.cycle coexist.second serial.round rng.same "
       "fallback.named autograd.train ops.forward ops.meta ops.dtypes ops.forms ops.gradient ops.large ")
DEFECT(overlapping, "memory.alloc", "blocks overlap", "*")
DEFECT(oom_code, "memory.alloc", "only that makes the core", "")
DEFECT(copy_rounds, "memory.copies", "its bytes are wrong", "*")
DEFECT(copy_strides, "memory.pairs", "other values arrived", "serial.round autograd.train ")
DEFECT(stream_order, "streams.order", "did not see the write before it", "")
DEFECT(event_never, "events.order", "not done after all work", "")
DEFECT(elapsed_negative, "events.order", "longer than the host waited", "")
DEFECT(shared_buffer, "threads.calls", "copies share a buffer", "")
DEFECT(fork_hangs, "fork.contract", "the child hangs", "")
DEFECT(reinit_forgets, "fork.contract", "declared reinit, and in the child a new tensor", "")
DEFECT(reinit_missing, "abi.structs", "there is no reinit row", "*")
DEFECT(alloc_leaks, "leaks.cycle", "of heap a round", LEAKS_SHOW)
DEFECT(kernel_leaks, "leaks.cycle", "of heap a round", LEAKS_SHOW)
DEFECT(exit_aborts, "exit.quiet", "SIGABRT", "*")
DEFECT(first_id, "coexist.second", "is not mine", "")
DEFECT(copy_dtype, "serial.round", "other values came back", "")
DEFECT(rng_offset, "rng.same", "from the same seed", "")
DEFECT(missing_unnamed, "fallback.named", "expected \"missing kernel\"", "")
DEFECT(gradient, "autograd.train", "gradient of the first layer", "")
DEFECT(unload_aborts, "unload.refused", "SIGABRT at 'unload'", "leaks.cycle exit.quiet ")
DEFECT(layer_swaps, "layer.through", "results differ with the layer on", "layer.threads ")
DEFECT(layer_shared, "layer.threads", "another thread's result", "")
DEFECT(layer_spins, "layer.off", "never rests", "")
