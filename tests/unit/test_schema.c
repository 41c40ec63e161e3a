/* SPDX-License-Identifier: Apache-2.0
 *
 * registry/schema.c: every part of the grammar, defaults as values, words with the column for every kind of
 * mistake, and the rule by which an older kernel's schema still fits.
 */
#include <string.h>
#include <tenon/error.h>

#include "registry/schema.h"
#include "tests/support/tn_test.h"

static tni_schema *parse(const char *text) {
  tni_schema *schema = NULL;
  TN_CHECK_OK(tni_schema_parse(text, &schema));
  TN_CHECK_STR(schema->text, text);
  return schema;
}

TN_TEST(schema, name_and_overload) {
  tni_schema *s = parse("mul.Tensor(Tensor self, Tensor other) -> Tensor");
  TN_CHECK_STR(s->name, "mul.Tensor");
  TN_CHECK_STR(s->base, "mul");
  TN_CHECK_STR(s->overload, "Tensor");
  TN_CHECK_INT(s->n_args, 2);
  TN_CHECK_INT(s->n_results, 1);
  TN_CHECK_STR(s->args[1].name, "other");
  TN_CHECK_INT(s->args[1].type, TNI_T_TENSOR);
  TN_CHECK(!s->args[1].has_default && !s->args[1].keyword_only);
  tni_schema_release(s);

  s = parse("onednn_relu(Tensor self)->(Tensor, Tensor mask)");
  TN_CHECK_STR(s->name, "onednn_relu");
  TN_CHECK_STR(s->overload, "");
  TN_CHECK_INT(s->n_results, 2);
  TN_CHECK_PTR_NULL(s->results[0].name);
  TN_CHECK_STR(s->results[1].name, "mask");
  tni_schema_release(s);

  s = parse("f() -> ()");
  TN_CHECK_INT(s->n_args + s->n_results, 0);
  tni_schema_release(s);
  tni_schema_release(NULL);
}

TN_TEST(schema, types_and_marks) {
  tni_schema *s =
      parse("f(Tensor? a, Tensor?[] b, SymInt[]? c, int[2] d, Scalar? e, float[] f, bool[3] g, *, "
            "Generator? h, Device? i, Layout? j, MemoryFormat? k, ScalarType l, str m) -> Tensor[]");
  TN_CHECK(s->args[0].optional && !s->args[0].list);
  TN_CHECK(s->args[1].list && s->args[1].optional_elem && !s->args[1].optional);
  TN_CHECK(s->args[2].list && s->args[2].optional && s->args[2].type == TNI_T_INT);
  TN_CHECK_INT(s->args[3].fixed_size, 2);
  TN_CHECK(s->args[4].type == TNI_T_SCALAR && s->args[4].optional);
  TN_CHECK(s->args[5].type == TNI_T_FLOAT && s->args[5].list && s->args[5].fixed_size == 0);
  TN_CHECK(s->args[6].type == TNI_T_BOOL && s->args[6].fixed_size == 3);
  TN_CHECK(!s->args[6].keyword_only && s->args[7].keyword_only && s->args[12].keyword_only);
  static const uint8_t types[] = {TNI_T_GENERATOR,     TNI_T_DEVICE, TNI_T_LAYOUT,
                                  TNI_T_MEMORY_FORMAT, TNI_T_DTYPE,  TNI_T_STR};
  for (int i = 0; i < 6; i++) TN_CHECK_INT(s->args[7 + i].type, types[i]);
  TN_CHECK(s->results[0].list);
  tni_schema_release(s);
}

TN_TEST(schema, alias_sets) {
  tni_schema *s =
      parse("f_(Tensor(a!) self, Tensor(b!)[] other, Tensor(c -> *) base) -> (Tensor(a!), Tensor(c)[])");
  TN_CHECK_INT(s->args[0].alias, 'a');
  TN_CHECK(s->args[0].writes);
  TN_CHECK(s->args[1].writes && s->args[1].list && s->args[1].alias == 'b');
  TN_CHECK(s->args[2].alias == 'c' && s->args[2].alias_any && !s->args[2].writes);
  TN_CHECK(s->results[0].writes && s->results[0].alias == 'a');
  TN_CHECK(s->results[1].list && s->results[1].alias == 'c');
  tni_schema_release(s);
}

TN_TEST(schema, defaults_are_values) {
  tni_schema *s =
      parse("f(int a=-3, float b=1, float c=1e-5, Scalar d=2, Scalar e=0.5, bool f=True, str g='no, ne', "
            "int h=Mean, ScalarType i=long, MemoryFormat j=contiguous_format, int? k=None, Scalar l=False, "
            "float m=-0.125) -> Tensor");
  TN_CHECK(s->args[0].has_default && s->args[0].default_value.kind == TN_VAL_INT);
  TN_CHECK_INT(s->args[0].default_value.u.i, -3);
  TN_CHECK_INT(s->args[1].default_value.kind, TN_VAL_FLOAT);
  TN_CHECK_DOUBLE(s->args[1].default_value.u.f, 1.0, 0);
  TN_CHECK_DOUBLE(s->args[2].default_value.u.f, 1e-5, 0);
  TN_CHECK_INT(s->args[3].default_value.kind, TN_VAL_INT);
  TN_CHECK_INT(s->args[4].default_value.kind, TN_VAL_FLOAT);
  TN_CHECK_INT(s->args[5].default_value.kind, TN_VAL_BOOL);
  TN_CHECK_INT(s->args[5].default_value.u.i, 1);
  TN_CHECK_STR(s->args[6].default_value.u.s, "no, ne");
  TN_CHECK_INT(s->args[6].default_value.count, 6);
  TN_CHECK_INT(s->args[7].default_value.u.i, 1);
  TN_CHECK_INT(s->args[8].default_value.kind, TN_VAL_DTYPE);
  TN_CHECK_INT(s->args[8].default_value.u.i, TN_INT64);
  TN_CHECK_INT(s->args[9].default_value.u.i, TN_CONTIGUOUS_FORMAT);
  TN_CHECK(s->args[10].has_default && s->args[10].default_value.kind == TN_VAL_NONE);
  TN_CHECK_INT(s->args[11].default_value.kind, TN_VAL_BOOL);
  TN_CHECK_DOUBLE(s->args[12].default_value.u.f, -0.125, 0);
  tni_schema_release(s);
}

TN_TEST(schema, default_lists) {
  tni_schema *s = parse(
      "f(int[2] a=1, int[] b=[0, -1, 2], float[] c=[1, 0.5], bool[3] d=True, int[]? e=None, int[] f=[], "
      "Tensor[] g=[], int[2] h=[3, 4]) -> Tensor");
  TN_CHECK_INT(s->args[0].default_value.kind, TN_VAL_LIST);
  TN_CHECK_INT(s->args[0].default_value.elem, TN_VAL_INT);
  TN_CHECK_INT(s->args[0].default_value.count, 2);
  TN_CHECK_INT(s->args[0].default_value.u.ints[1], 1);
  TN_CHECK_INT(s->args[1].default_value.count, 3);
  TN_CHECK_INT(s->args[1].default_value.u.ints[1], -1);
  TN_CHECK_DOUBLE(s->args[2].default_value.u.floats[1], 0.5, 0);
  TN_CHECK_INT(s->args[3].default_value.u.bools[2], 1);
  TN_CHECK_INT(s->args[4].default_value.kind, TN_VAL_NONE);
  TN_CHECK(s->args[5].default_value.kind == TN_VAL_LIST && s->args[5].default_value.count == 0);
  TN_CHECK(s->args[6].default_value.kind == TN_VAL_LIST && s->args[6].default_value.elem == TN_VAL_TENSOR);
  TN_CHECK_INT(s->args[7].default_value.u.ints[1], 4);
  tni_schema_release(s);
}

static void check_fails(const char *text, const char *words) {
  tni_schema *schema;
  TN_CHECK_FAILS(tni_schema_parse(text, &schema), TN_ERR_INVALID_ARGUMENT, words);
  TN_CHECK_PTR_NULL(schema);
}

TN_TEST(schema, mistakes_name_the_column) {
  check_fails(NULL, "NULL");
  check_fails("", "column 1: an operator's name was expected, the text ends");
  check_fails("3f(Tensor a) -> Tensor", "column 1: an operator's name");
  check_fails("f.(Tensor a) -> Tensor", "column 3: an overload's name");
  check_fails("f Tensor a", "column 3: ( behind the name");
  check_fails(
      "f(Tenso a) -> Tensor",
      "column 3: a type (Tensor, Scalar, int, float, bool, str, ...) was expected, 'Tenso a) -> ' came");
  check_fails("f(Tensor) -> Tensor", "column 9: the argument's name");
  check_fails("f(Tensor a Tensor b) -> Tensor", "column 12: , or ) behind an argument");
  check_fails("f(Tensor a, Tensor a) -> Tensor", "a name that no other argument has");
  check_fails("f(Tensor a", "column 11: , or ) behind an argument was expected, the text ends");
  check_fails("f(Tensor a)", "-> and the results");
  check_fails("f(Tensor a) -> Tensor x y", "the end was expected, 'y' came");
  check_fails("f(Tensor(A) a) -> Tensor", "an alias set's letter");
  check_fails("f(Tensor(a a) -> Tensor", ") behind the alias set");
  check_fails("f(Tensor(a -> b) a) -> Tensor", "* (any set)");
  check_fails("f(int[65] a) -> Tensor", "column 7: a list size of at most 64");
  check_fails("f(int[99999999999999999999] a) -> Tensor", "a list size of at most 64");
  check_fails("f(int[2 a) -> Tensor", "] behind the list's size");
  check_fails("f(str[] a) -> Tensor", "there are no lists of that type");
  check_fails("f(*, *, int a) -> Tensor", "no second *");
  check_fails("f(int a=) -> Tensor", "a number");
  check_fails("f(int a=1.5) -> Tensor", "column 9: a whole number");
  check_fails("f(int a=2x) -> Tensor", "a whole number");
  check_fails("f(int a=None) -> Tensor", "a value (the argument is not optional)");
  check_fails("f(bool a=1) -> Tensor", "True or False");
  check_fails("f(str a=mean) -> Tensor", "a string in quotes");
  check_fails("f(str a='mean) -> Tensor", "a closing quote");
  check_fails("f(ScalarType a=longer) -> Tensor", "None or a name of that type");
  check_fails("f(int[] a=1) -> Tensor", "a list in brackets");
  check_fails("f(int[] a=[1 2]) -> Tensor", ", or ] in the list");
  check_fails("f(Tensor[] a=[1]) -> Tensor", "a list of tensors is empty by default");
  check_fails("f(float a=1e99) -> Tensor", "between 1e-22 and 1e22");
  check_fails("f(float a=1e) -> Tensor", "an exponent");
  check_fails("f(int a=12345678901234567890) -> Tensor", "at most 18 digits");
}

/* Every beginning of a schema is a status, never a crash, and never a leak. */
TN_TEST(schema, every_prefix_is_refused) {
  static const char whole[] =
      "f.x(Tensor(a!)? self, int[2] a=[1, -2], *, str b='q', float c=1e-3) -> (Tensor(a!) r, Tensor)";
  char text[sizeof whole];
  for (size_t n = 0; n + 1 < sizeof whole; n++) {
    memcpy(text, whole, n);
    text[n] = 0;
    tni_schema *schema;
    TN_CHECK(tni_schema_parse(text, &schema) == TN_ERR_INVALID_ARGUMENT);
    TN_CHECK_PTR_NULL(schema);
  }
  tni_schema_release(parse(whole));
}

static size_t write_many(char *text, int n) {
  size_t at = 0;
  memcpy(text, "f(", 2);
  at = 2;
  for (int i = 0; i < n; i++) {
    text[at++] = 'i', text[at++] = 'n', text[at++] = 't', text[at++] = '[', text[at++] = '6',
    text[at++] = '4';
    text[at++] = ']', text[at++] = ' ', text[at++] = (char)('a' + i / 26), text[at++] = (char)('a' + i % 26);
    text[at++] = '=', text[at++] = '7', text[at++] = ',';
  }
  memcpy(text + at - 1, ") -> ()", 8);
  return at;
}

TN_TEST(schema, sixty_four_arguments_and_not_one_more) {
  char text[2048];
  write_many(text, 64);
  tni_schema *s = parse(text);
  TN_CHECK_INT(s->n_args, 64);
  TN_CHECK_INT(s->args[63].default_value.count, 64);
  TN_CHECK_INT(s->args[63].default_value.u.ints[63], 7);
  tni_schema_release(s);
  write_many(text, 65);
  check_fails(text, "at most 64 arguments");
}

static bool extends(const char *newer, const char *older, uint32_t *out_extra) {
  tni_schema *a = parse(newer), *b = parse(older);
  bool fits = tni_schema_extends(a, b, out_extra);
  tni_schema_release(a);
  tni_schema_release(b);
  return fits;
}

TN_TEST(schema, older_schema_fits_if_only_defaults_were_appended) {
  uint32_t extra = 9;
  TN_CHECK(extends("f(Tensor a) -> Tensor", "f(Tensor a)->Tensor", &extra));
  TN_CHECK_INT(extra, 0);
  TN_CHECK(extends("f(Tensor a, int b=0, *, bool c=False) -> Tensor", "f(Tensor a) -> Tensor", &extra));
  TN_CHECK_INT(extra, 2);
  TN_CHECK(!extends("f(Tensor a, int b) -> Tensor", "f(Tensor a) -> Tensor", &extra));
  TN_CHECK(!extends("f(Tensor a) -> Tensor", "f(Tensor a, int b=0) -> Tensor", &extra));
  TN_CHECK(!extends("f(Tensor b) -> Tensor", "f(Tensor a) -> Tensor", &extra));
  TN_CHECK(!extends("f(Tensor? a) -> Tensor", "f(Tensor a) -> Tensor", &extra));
  TN_CHECK(!extends("f(Tensor(a!) a) -> Tensor", "f(Tensor a) -> Tensor", &extra));
  TN_CHECK(!extends("f(Tensor a) -> (Tensor, Tensor)", "f(Tensor a) -> Tensor", &extra));
  TN_CHECK(!extends("g(Tensor a) -> Tensor", "f(Tensor a) -> Tensor", &extra));
}
