/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest's grammar and the order of layers, without any file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/load/load_int.h"
#include "tn_test.h"

#define HEAD "tenon 1\nname p\nversion 1\nabi 1 0 0\nlicense MIT\n"

static tn_status parse(const char *text, tni_manifest **out_manifest) {
  return tni_manifest_parse(tni_strdup(text), out_manifest);
}

TN_TEST(manifest, reads_every_key) {
  tni_manifest *m;
  TN_CHECK_OK(parse(HEAD
                    "device acme alias privateuse1\nlayer spy class mode above autocast,other below front\n"
                    "kernel acme mul.Tensor half,bool -3\nkernel acme add.Tensor float32 1\n"
                    "kernel acme add.Tensor float64 1\noperator acme::f(Tensor a) -> Tensor\n"
                    "interface acme.tuning 2\nneeds-path /dev/null\nconflicts other\noverride cpu\r\n"
                    "thread-runtime libgomp\n"
                    "\n  \nfuture-key 1 2 3\n",
                    &m));
  TN_CHECK_STR(m->name, "p");
  TN_CHECK_INT(m->devices.count, 1);
  TN_CHECK(m->devices.items[0].privateuse1);
  TN_CHECK_STR(m->layers.items[0].above, "autocast,other");
  TN_CHECK_INT(m->kernels.count, 2);
  const tni_manifest_kernel *add = tni_manifest_find(m, "acme", "add.Tensor");
  TN_CHECK_NOT_NULL(add);
  TN_CHECK_INT(add->dtypes, TN_DTYPE_BIT(TN_FLOAT32) | TN_DTYPE_BIT(TN_FLOAT64));
  TN_CHECK_INT(tni_manifest_find(m, "acme", "mul.Tensor")->priority, -3);
  TN_CHECK_PTR_NULL(tni_manifest_find(m, "acme", "sub.Tensor"));
  TN_CHECK_PTR_NULL(tni_manifest_find(m, "cpu", "add.Tensor"));
  TN_CHECK_STR(m->operators.items[0], "acme::f(Tensor a) -> Tensor");
  TN_CHECK(tni_strings_have(&m->overrides, "cpu"));
  TN_CHECK_STR(m->thread_runtime, "libgomp");
  tni_manifest_free(m);
}

TN_TEST(manifest, bad_lines_are_named) {
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"", "does not begin with `tenon 1`"},
      {"tenon 2\n", "manifest format 2, this host reads format 1"},
      {"tenon 1\nname p\nversion 1\nlicense MIT\n", "lacks the required line `abi`"},
      {HEAD "name q\n", "line 6: given twice (\"p\" before)"},
      {HEAD "thread-runtime a\nthread-runtime b\n", "line 7: given twice (\"a\" before)"},
      {HEAD "thread-runtime\n", "line 6: thread runtime \"\" is not a name"},
      {HEAD "device a b\n", "line 6: \"b\" after the device name, expected `alias`"},
      {HEAD "device a/b\n", "line 6: device name \"a/b\" is not a name"},
      {HEAD "device a\ndevice a\n", "line 7: device a is listed twice"},
      {HEAD "kernel cpu add.Tensor float31 0\n", "line 6: \"float31\" is no dtype"},
      {HEAD "kernel cpu add.Tensor all\n", "line 6: priority \"\" is not a number"},
      {HEAD "kernel cpu add.Tensor all 1 2\n", "line 6: \"2\" is left over"},
      {HEAD "layer a above\n", "line 6: `above` has no value"},
      {HEAD "layer a class high\n", "line 6: class \"high\" is none of"},
      {HEAD "operator\n", "line 6: the value is missing"},
      {HEAD "sanitizer fuzzy\n", "line 6: sanitizer \"fuzzy\""},
      {HEAD "interface x y\n", "line 6: interface version \"y\" is not a number"},
      {HEAD "interface x 1\ninterface y 1\ninterface x 2\ninterface x 1\n", "line 9: interface x 1 is listed twice"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    tni_manifest *m;
    TN_CHECK_FAILS(parse(cases[i].text, &m), TN_ERR_DATA, cases[i].words);
    TN_CHECK_PTR_NULL(m);
  }
}

/* HEAD, then n lines; %zu of the format is the number. */
static char *many(const char *format, size_t n) {
  const size_t most = 64;
  char *text = malloc(sizeof HEAD + n * most), *at = text + sizeof HEAD - 1;
  memcpy(text, HEAD, sizeof HEAD);
  for (size_t i = 0; i < n; ++i) at += snprintf(at, most, format, i);
  return text;
}

/* There are so many bits; and start reads what any file says, so nothing may grow with the square of it. */
TN_TEST(manifest, its_size_cannot_hold_up_a_start) {
  static const struct {
    const char *line, *words;
  } cases[] = {{"device d%zu\n", "line 30: more devices than the 24 that a process can have"},
               {"layer l%zu\n", "line 46: more layers than the 40 that a process can have"}};
  tni_manifest *m;
  for (size_t i = 0; i < 2; ++i) {
    char *text = many(cases[i].line, 100);
    TN_CHECK_FAILS(parse(text, &m), TN_ERR_DATA, cases[i].words);
    free(text);
  }
#ifdef __SANITIZE_ADDRESS__ /* which looks for the end of a text whenever a function of the C library is given it */
  enum { LINES = 10000 };
#else
  enum { LINES = 200000 }; /* minutes, if each were held against all before it */
#endif
  char *text = many("interface i%zu 1\n", LINES);
  TN_CHECK_OK(parse(text, &m));
  TN_CHECK_INT(m->interfaces.count, LINES);
  TN_CHECK_STR(m->interfaces.items[7].name, "i7");
  tni_manifest_free(m);
  free(text);
}

TN_TEST(manifest, a_newer_plugin_may_name_newer_dtypes) {
  tni_manifest *m;
  TN_CHECK_OK(
      parse("tenon 1\nname p\nversion 1\nabi 1 7 0\nlicense MIT\nkernel cpu mm float4,float32 0\n", &m));
  TN_CHECK_INT(m->kernels.items[0].dtypes, TN_DTYPE_BIT(TN_FLOAT32));
  tni_manifest_free(m);
}

TN_TEST(manifest, needs_of_the_machine) {
  tni_manifest *m;
  TN_CHECK_OK(parse(HEAD "needs-path /no/such/device\n", &m));
  TN_CHECK_FAILS(tni_needs_check(m), TN_ERR_UNAVAILABLE, "needs /no/such/device: No such file or directory");
  tni_manifest_free(m);
  TN_CHECK_OK(parse(HEAD "needs-cpu warp-drive\n", &m));
  TN_CHECK_FAILS(tni_needs_check(m), TN_ERR_DATA,
                 "needs the CPU feature warp-drive, which this host does not know");
  tni_manifest_free(m);
}

/* ------------------------------------------------------------------ layers */

static tni_plugin *add_layers(tni_plugin_list *list, const char *name, const char *lines) {
  char text[512];
  tni_plugin *p;
  snprintf(text, sizeof text, "tenon 1\nname %s\nversion 1\nabi 1 0 0\nlicense MIT\n%s", name, lines);
  TN_CHECK_OK(tni_list_add(list, name, 0, &p));
  TN_CHECK_OK(parse(text, &p->manifest));
  p->name = p->manifest->name;
  atomic_store(&p->state, TN_PLUGIN_LOADABLE);
  return p;
}

TN_TEST(layers, stand_where_their_constraints_say) {
  tni_plugin_list list = {0};
  add_layers(&list, "pa", "layer la above lb\n");
  add_layers(&list, "pb", "layer lb above autocast\nlayer lc class kernel\nlayer ld below autograd\n");
  add_layers(&list, "pc", "layer le class trace below lf\nlayer lf below autocast above autograd\n");
  TN_CHECK_OK(tni_order_layers(&list));
  TN_CHECK(tni_key_find("la") > tni_key_find("lb"));
  TN_CHECK(tni_key_find("lb") > TNI_BIT_AUTOCAST);
  TN_CHECK(tni_key_find("la") < TNI_BIT_FRONT);
  TN_CHECK(tni_key_find("lc") > TNI_BIT_BACK && tni_key_find("lc") < TNI_BIT_AUTOGRAD);
  TN_CHECK(tni_key_find("ld") > TNI_BIT_BACK && tni_key_find("ld") < TNI_BIT_AUTOGRAD);
  TN_CHECK(tni_key_find("lf") > tni_key_find("le"));
  TN_CHECK(tni_key_find("lf") < TNI_BIT_AUTOCAST);
  TN_CHECK(tni_key_find("le") > TNI_BIT_TRACE);
  tni_list_deinit(&list);
}

TN_TEST(layers, a_circle_names_its_plugins) {
  tni_plugin_list list = {0};
  tni_plugin *a = add_layers(&list, "ring-a", "layer ra above rb\n");
  tni_plugin *b = add_layers(&list, "ring-b", "layer rb above rc\n");
  tni_plugin *c = add_layers(&list, "ring-c", "layer rc above ra\n");
  tni_plugin *d = add_layers(&list, "outside", "layer rd above ra\n");
  TN_CHECK_OK(tni_order_layers(&list));
  TN_CHECK_INT(tni_plugin_state(a), TN_PLUGIN_REJECTED);
  TN_CHECK_INT(tni_plugin_state(b), TN_PLUGIN_REJECTED);
  TN_CHECK_INT(tni_plugin_state(c), TN_PLUGIN_REJECTED);
  TN_CHECK_INT(tni_plugin_state(d), TN_PLUGIN_LOADABLE);
  TN_CHECK_CONTAINS(tni_plugin_reason(a), "ring-a");
  TN_CHECK_CONTAINS(tni_plugin_reason(a), "stand in a circle of above and below");
  TN_CHECK(tni_key_find("rd") > 0);
  TN_CHECK_INT(tni_key_find("ra"), -1);
  tni_list_deinit(&list);
}

TN_TEST(layers, impossible_places_and_taken_names) {
  tni_plugin_list list = {0};
  tni_plugin *a = add_layers(&list, "squeezed", "layer sa above autocast below autograd\n");
  tni_plugin *b = add_layers(&list, "core-name", "layer autograd\n");
  add_layers(&list, "first", "layer sc\n");
  tni_plugin *c = add_layers(&list, "second", "layer sc\n");
  TN_CHECK_OK(tni_order_layers(&list));
  TN_CHECK_CONTAINS(tni_plugin_reason(a), "its above and below leave no place");
  TN_CHECK_CONTAINS(tni_plugin_reason(b), "layer autograd: the name is a key of the core");
  TN_CHECK_CONTAINS(tni_plugin_reason(c), "layer sc: the name is taken by first");
  TN_CHECK(tni_key_find("sc") > TNI_BIT_AUTOCAST);
  tni_list_deinit(&list);
}

TN_TEST(layers, a_full_region_refuses) {
  tni_plugin_list list = {0};
  tni_plugin *last = NULL;
  for (int i = 0; i < 8; ++i) {
    char name[32], lines[64];
    snprintf(name, sizeof name, "full%d", i);
    snprintf(lines, sizeof lines, "layer f%d class record\n", i);
    last = add_layers(&list, name, lines);
  }
  TN_CHECK_OK(tni_order_layers(&list));
  TN_CHECK_INT(tni_plugin_state(last), TN_PLUGIN_REJECTED);
  TN_CHECK_CONTAINS(tni_plugin_reason(last), "no free bit is left in its region");
  for (int i = 0; i < 7; ++i) {
    char name[32];
    snprintf(name, sizeof name, "f%d", i);
    TN_CHECK_INT(tni_key_find(name), TNI_BIT_AUTOGRAD + 1 + i);
  }
  tni_list_deinit(&list);
}
