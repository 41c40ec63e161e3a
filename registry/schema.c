/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema text to struct: `name.overload(Type name=default, *, ...) -> results`, the grammar of ATen. Used for
 * the built-in operators at start and for operators and kernels that a plugin registers at run time, so every
 * mistake in the text is a status that names the column.
 *
 * One walk, left to right, without recursion. All memory of a schema is one block, whose size is bounded before
 * the walk from the text alone (Note [Size of a schema]). Not here: what the generator makes of a schema
 * (registry/gen/schema.py reads the same grammar at build time).
 */
#include "registry/schema.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kit/dtype.h>

/* libtenon's allocator (core/base), which the stress build can make fail; the registry stands below the core
 * and does not include it. */
void *tni_alloc(size_t size_bytes);
void tni_free(void *p);

enum { MAX_ITEMS = 64 }; /* arguments are named by bits of 64-bit masks (tn_saves, tn_op) */

typedef struct parser {
  const char *text;
  const char *p;
  unsigned char *next; /* free memory of the block */
  tni_schema *schema;
} parser;

static const char *const type_names[] = {[TNI_T_TENSOR] = "Tensor",
                                         [TNI_T_SCALAR] = "Scalar",
                                         [TNI_T_INT] = "int",
                                         [TNI_T_FLOAT] = "float",
                                         [TNI_T_BOOL] = "bool",
                                         [TNI_T_STR] = "str",
                                         [TNI_T_DTYPE] = "ScalarType",
                                         [TNI_T_LAYOUT] = "Layout",
                                         [TNI_T_DEVICE] = "Device",
                                         [TNI_T_MEMORY_FORMAT] = "MemoryFormat",
                                         [TNI_T_GENERATOR] = "Generator"};
enum { N_TYPES = sizeof type_names / sizeof type_names[0] };

/* Words that stand for numbers in defaults. */
static const struct {
  uint8_t type;
  uint8_t kind;
  const char *name;
  int64_t value;
} words[] = {
    {TNI_T_INT, TN_VAL_INT, "Mean", 1},
    {TNI_T_INT, TN_VAL_INT, "Sum", 2},
    {TNI_T_LAYOUT, TN_VAL_LAYOUT, "strided", TN_STRIDED},
    {TNI_T_MEMORY_FORMAT, TN_VAL_MEMORY_FORMAT, "contiguous_format", TN_CONTIGUOUS_FORMAT},
    {TNI_T_MEMORY_FORMAT, TN_VAL_MEMORY_FORMAT, "preserve_format", TN_PRESERVE_FORMAT},
    {TNI_T_MEMORY_FORMAT, TN_VAL_MEMORY_FORMAT, "channels_last", TN_CHANNELS_LAST},
    {TNI_T_MEMORY_FORMAT, TN_VAL_MEMORY_FORMAT, "channels_last_3d", TN_CHANNELS_LAST_3D},
};

/* ------------------------------------------------------------------ words and signs */

static tn_status fail_at(const parser *s, const char *expected) {
  size_t column = (size_t)(s->p - s->text) + 1;
  if (!*s->p)
    return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "schema '%s', column %zu: %s was expected, the text ends",
                   s->text, column, expected);
  return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "schema '%s', column %zu: %s was expected, '%.12s' came", s->text,
                 column, expected, s->p);
}

static void skip_space(parser *s) {
  while (*s->p == ' ' || *s->p == '\t' || *s->p == '\n') s->p++;
}

/* Steps over one sign if it stands next. */
static bool eat(parser *s, char sign) {
  skip_space(s);
  if (*s->p != sign) return false;
  s->p++;
  return true;
}

static bool is_word_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Length of the word that stands next, 0 if none does. */
static size_t word_length(parser *s) {
  skip_space(s);
  size_t n = 0;
  if (isdigit((unsigned char)*s->p)) return 0;
  while (is_word_char(s->p[n])) n++;
  return n;
}

static void *take(parser *s, size_t size_bytes) {
  void *p = s->next;
  s->next += (size_bytes + 7) / 8 * 8;
  return p;
}

static char *take_string(parser *s, const char *from, size_t n) {
  char *copy = take(s, n + 1);
  memcpy(copy, from, n);
  copy[n] = 0;
  return copy;
}

static tn_status read_word(parser *s, const char *expected, char **out_word) {
  size_t n = word_length(s);
  if (n == 0) return fail_at(s, expected);
  *out_word = take_string(s, s->p, n);
  s->p += n;
  return TN_OK;
}

/* ------------------------------------------------------------------ types */

static bool word_is(const parser *s, size_t n, const char *word) {
  return strlen(word) == n && memcmp(s->p, word, n) == 0;
}

static tn_status read_base_type(parser *s, tni_arg *arg) {
  size_t n = word_length(s);
  for (uint8_t type = TNI_T_TENSOR; type < N_TYPES; type++) {
    if (!word_is(s, n, type_names[type])) continue;
    arg->type = type;
    s->p += n;
    return TN_OK;
  }
  if (!word_is(s, n, "SymInt")) return fail_at(s, "a type (Tensor, Scalar, int, float, bool, str, ...)");
  arg->type = TNI_T_INT;
  s->p += n;
  return TN_OK;
}

/* `(a)`, `(a!)`, `(a -> *)` behind Tensor. */
static tn_status read_alias(parser *s, tni_arg *arg) {
  if (*s->p != '(' || arg->type != TNI_T_TENSOR) return TN_OK;
  s->p++;
  skip_space(s);
  if (*s->p < 'a' || *s->p > 'z') return fail_at(s, "an alias set's letter");
  arg->alias = (uint8_t)*s->p++;
  arg->writes = eat(s, '!');
  skip_space(s);
  if (s->p[0] == '-' && s->p[1] == '>') {
    s->p += 2;
    if (!eat(s, '*')) return fail_at(s, "* (any set)");
    arg->alias_any = true;
  }
  return eat(s, ')') ? TN_OK : fail_at(s, ") behind the alias set");
}

/* `[]` or `[3]`. */
static tn_status read_list_mark(parser *s, tni_arg *arg) {
  if (*s->p != '[') return TN_OK;
  s->p++;
  arg->list = true;
  const char *digits = s->p;
  while (isdigit((unsigned char)*s->p)) {
    arg->fixed_size = arg->fixed_size * 10 + (*s->p++ - '0');
    if (arg->fixed_size > MAX_ITEMS) return s->p = digits, fail_at(s, "a list size of at most 64");
  }
  return eat(s, ']') ? TN_OK : fail_at(s, "] behind the list's size");
}

static tn_status read_type(parser *s, tni_arg *arg) {
  TN_TRY(read_base_type(s, arg));
  TN_TRY(read_alias(s, arg));
  bool optional = *s->p == '?';
  if (optional) s->p++;
  const char *mark = s->p;
  TN_TRY(read_list_mark(s, arg));
  arg->optional_elem = arg->list && optional;
  arg->optional = !arg->list && optional;
  if (!arg->list) return TN_OK;
  bool has_lists = arg->type == TNI_T_TENSOR || arg->type == TNI_T_SCALAR || arg->type == TNI_T_INT ||
                   arg->type == TNI_T_FLOAT || arg->type == TNI_T_BOOL;
  if (!has_lists) return s->p = mark, fail_at(s, "no [ (there are no lists of that type)");
  arg->optional = *s->p == '?';
  if (arg->optional) s->p++;
  return TN_OK;
}

/* ------------------------------------------------------------------ defaults */

static tn_status read_string(parser *s, tn_value *out_value) {
  char quote = *s->p;
  if (quote != '\'' && quote != '"') return fail_at(s, "a string in quotes");
  const char *end = strchr(s->p + 1, quote);
  if (!end) return fail_at(s, "a string with a closing quote");
  size_t n = (size_t)(end - s->p) - 1;
  out_value->kind = TN_VAL_STRING;
  out_value->count = (uint32_t)n;
  out_value->u.s = take_string(s, s->p + 1, n);
  s->p = end + 1;
  return TN_OK;
}

typedef struct decimal {
  int64_t digits; /* all of them, without the point */
  int32_t scale;  /* power of ten */
  bool is_int;
} decimal;

/* Digits with a point and an exponent. By hand, because strtod reads the process's locale. */
static tn_status read_decimal(parser *s, decimal *out) {
  uint32_t n = 0;
  bool point = false;
  for (; isdigit((unsigned char)*s->p) || (*s->p == '.' && !point); s->p++) {
    if (*s->p == '.') {
      point = true;
      continue;
    }
    if (++n > 18) return fail_at(s, "a number of at most 18 digits");
    out->digits = out->digits * 10 + (*s->p - '0');
    out->scale -= point;
  }
  out->is_int = !point;
  if (n == 0) return fail_at(s, "a number");
  if (*s->p != 'e' && *s->p != 'E') return TN_OK;
  s->p++;
  out->is_int = false;
  int32_t sign = *s->p == '-' ? -1 : 1, exponent = 0;
  if (*s->p == '-' || *s->p == '+') s->p++;
  if (!isdigit((unsigned char)*s->p)) return fail_at(s, "an exponent");
  for (; isdigit((unsigned char)*s->p) && exponent < 1000; s->p++) exponent = exponent * 10 + (*s->p - '0');
  out->scale += sign * exponent;
  return TN_OK;
}

/* A number for int, float or Scalar. Powers of ten up to 22 are exact doubles, so one rounding is made. */
static tn_status read_number(parser *s, uint8_t type, tn_value *out_value) {
  decimal number = {0};
  const char *begin = s->p;
  bool negative = *s->p == '-';
  if (negative) s->p++;
  TN_TRY(read_decimal(s, &number));
  if (is_word_char(*s->p) || (type == TNI_T_INT && !number.is_int))
    return s->p = begin, fail_at(s, type == TNI_T_INT ? "a whole number" : "a number");
  if (number.scale < -22 || number.scale > 22)
    return s->p = begin, fail_at(s, "a number between 1e-22 and 1e22");
  if (negative) number.digits = -number.digits;
  if (number.is_int && type != TNI_T_FLOAT) {
    *out_value = tn_value_int(number.digits);
    return TN_OK;
  }
  double power = 1;
  for (int32_t i = 0; i < abs(number.scale); i++) power *= 10;
  double digits = (double)number.digits;
  *out_value = tn_value_float(number.scale < 0 ? digits / power : digits * power);
  return TN_OK;
}

/* True, False, Mean, contiguous_format, long, ...; *out_found says whether one stood there. */
static void read_named(parser *s, uint8_t type, tn_value *out_value, bool *out_found) {
  size_t n = word_length(s);
  bool is_true = word_is(s, n, "True");
  *out_found = true;
  if ((type == TNI_T_BOOL || type == TNI_T_SCALAR) && (is_true || word_is(s, n, "False"))) {
    *out_value = tn_value_bool(is_true);
    s->p += n;
    return;
  }
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (words[i].type != type || !word_is(s, n, words[i].name)) continue;
    *out_value = (tn_value){.u = {.i = words[i].value}, .kind = words[i].kind};
    s->p += n;
    return;
  }
  char name[32];
  *out_found = false;
  if (type != TNI_T_DTYPE || n == 0 || n >= sizeof name) return;
  memcpy(name, s->p, n);
  name[n] = 0;
  *out_value = tn_value_dtype(tn_kit_dtype_find(name));
  *out_found = out_value->kind == TN_VAL_DTYPE;
  if (*out_found) s->p += n;
}

static tn_status read_atom(parser *s, uint8_t type, tn_value *out_value) {
  bool found;
  skip_space(s);
  read_named(s, type, out_value, &found);
  if (found) return TN_OK;
  if (type == TNI_T_STR) return read_string(s, out_value);
  if (type == TNI_T_INT || type == TNI_T_FLOAT || type == TNI_T_SCALAR)
    return read_number(s, type, out_value);
  if (type == TNI_T_BOOL) return fail_at(s, "True or False");
  return fail_at(s, "None or a name of that type");
}

static const uint8_t list_elem[N_TYPES] = {
    [TNI_T_TENSOR] = TN_VAL_TENSOR, [TNI_T_SCALAR] = TN_VAL_SCALAR, [TNI_T_INT] = TN_VAL_INT,
    [TNI_T_FLOAT] = TN_VAL_FLOAT,   [TNI_T_BOOL] = TN_VAL_BOOL,
};

/* Puts value at entry i of a list's array. */
static void store_entry(void *array, uint8_t type, uint32_t i, const tn_value *value) {
  if (type == TNI_T_BOOL) ((uint8_t *)array)[i] = (uint8_t)value->u.i;
  if (type == TNI_T_INT) ((int64_t *)array)[i] = value->u.i;
  if (type == TNI_T_FLOAT) ((double *)array)[i] = value->u.f;
  if (type == TNI_T_SCALAR) ((tn_value *)array)[i] = *value;
}

/* `[0, 1]`, or one number for all entries of a fixed size. Entries take at most 16 bytes each. */
static tn_status read_list(parser *s, tni_arg *arg) {
  tn_value value;
  void *array = s->next;
  uint32_t n = 0;
  skip_space(s);
  bool brackets = eat(s, '[');
  if (!brackets && arg->fixed_size == 0) return fail_at(s, "a list in brackets");
  while (brackets && !eat(s, ']')) {
    if (arg->type == TNI_T_TENSOR) return fail_at(s, "] (a list of tensors is empty by default)");
    if (n > 0 && !eat(s, ',')) return fail_at(s, ", or ] in the list");
    TN_TRY(read_atom(s, arg->type, &value));
    store_entry(array, arg->type, n++, &value);
  }
  if (!brackets) {
    TN_TRY(read_atom(s, arg->type, &value));
    while (n < (uint32_t)arg->fixed_size) store_entry(array, arg->type, n++, &value);
  }
  take(s, n * sizeof(tn_value));
  arg->default_value = (tn_value){.u = {.p = array},
                                  .kind = TN_VAL_LIST,
                                  .elem = arg->optional_elem ? TN_VAL_OPTIONAL_TENSOR : list_elem[arg->type],
                                  .count = n};
  return TN_OK;
}

static tn_status read_default(parser *s, tni_arg *arg) {
  if (!eat(s, '=')) return TN_OK;
  arg->has_default = true;
  size_t n = word_length(s);
  if (word_is(s, n, "None")) {
    if (!arg->optional) return fail_at(s, "a value (the argument is not optional)");
    s->p += n;
    return TN_OK;
  }
  return arg->list ? read_list(s, arg) : read_atom(s, arg->type, &arg->default_value);
}

/* ------------------------------------------------------------------ the whole */

/* "mul", or with the namespace of who adds the operator: "onednn::linear". */
static tn_status read_base(parser *s, char **out_base) {
  size_t n = word_length(s);
  if (n && s->p[n] == ':' && s->p[n + 1] == ':' && is_word_char(s->p[n + 2]))
    for (n += 2; is_word_char(s->p[n]);) n++;
  if (n == 0) return fail_at(s, "an operator's name");
  *out_base = take_string(s, s->p, n);
  s->p += n;
  return TN_OK;
}

static tn_status read_name(parser *s) {
  tni_schema *schema = s->schema;
  TN_TRY(read_base(s, &schema->base));
  schema->overload = take_string(s, "", 0);
  if (eat(s, '.')) TN_TRY(read_word(s, "an overload's name", &schema->overload));
  size_t base = strlen(schema->base), overload = strlen(schema->overload);
  schema->name = take(s, base + overload + 2);
  memcpy(schema->name, schema->base, base);
  schema->name[base] = overload ? '.' : 0;
  memcpy(schema->name + base + (overload ? 1 : 0), schema->overload, overload + 1);
  return TN_OK;
}

static tn_status read_arg(parser *s, bool keyword_only) {
  tni_schema *schema = s->schema;
  if (schema->n_args == MAX_ITEMS) return fail_at(s, "at most 64 arguments");
  tni_arg *arg = &schema->args[schema->n_args];
  arg->keyword_only = keyword_only;
  char *name;
  TN_TRY(read_type(s, arg));
  TN_TRY(read_word(s, "the argument's name", &name));
  for (uint32_t i = 0; i < schema->n_args; i++) {
    if (strcmp(schema->args[i].name, name) == 0) return fail_at(s, "a name that no other argument has");
  }
  arg->name = name;
  schema->n_args++;
  return read_default(s, arg);
}

static tn_status read_args(parser *s) {
  bool keyword_only = false;
  if (!eat(s, '(')) return fail_at(s, "( behind the name");
  if (eat(s, ')')) return TN_OK;
  do {
    if (eat(s, '*')) {
      if (keyword_only) return fail_at(s, "no second *");
      keyword_only = true;
    } else {
      TN_TRY(read_arg(s, keyword_only));
    }
  } while (eat(s, ','));
  return eat(s, ')') ? TN_OK : fail_at(s, ", or ) behind an argument");
}

static tn_status read_result(parser *s) {
  tni_schema *schema = s->schema;
  if (schema->n_results == MAX_ITEMS) return fail_at(s, "at most 64 results");
  tni_arg *result = &schema->results[schema->n_results];
  TN_TRY(read_type(s, result));
  char *name = NULL;
  if (word_length(s)) TN_TRY(read_word(s, "a result's name", &name));
  result->name = name;
  schema->n_results++;
  return TN_OK;
}

static tn_status read_results(parser *s) {
  skip_space(s);
  if (s->p[0] != '-' || s->p[1] != '>') return fail_at(s, "-> and the results");
  s->p += 2;
  if (!eat(s, '(')) return read_result(s);
  if (eat(s, ')')) return TN_OK;
  do TN_TRY(read_result(s));
  while (eat(s, ','));
  return eat(s, ')') ? TN_OK : fail_at(s, ", or ) behind a result");
}

static tn_status read_schema(parser *s) {
  TN_TRY(read_name(s));
  TN_TRY(read_args(s));
  TN_TRY(read_results(s));
  skip_space(s);
  return *s->p ? fail_at(s, "the end") : TN_OK;
}

/* Note [Size of a schema]
 * Strings: the text and copies of its words and quoted strings, each word at most once as a part and the name
 * once more, each rounded up to 8 bytes; a word and what ends it take two characters, so there are at most
 * length/2 + 1 of them: 3 * length + 8 * (length/2 + 4) bytes hold them all. Arguments, results and list entries
 * are separated by commas: commas + 2 of each. One number may stand for N entries of a type with [N], N <= 64:
 * the sum of those is read off the brackets. */
static size_t size_bound(const char *text, uint32_t *out_items) {
  size_t length = strlen(text), commas = 0, entries = 0;
  for (const char *p = text; *p; p++) {
    if (*p == ',') commas++;
    if (*p != '[') continue;
    size_t n = strtoul(p + 1, NULL, 10);
    entries += n <= MAX_ITEMS ? n : 0;
  }
  size_t items = commas + 2 < MAX_ITEMS ? commas + 2 : MAX_ITEMS;
  *out_items = (uint32_t)items;
  return sizeof(tni_schema) + 2 * items * sizeof(tni_arg) + (entries + commas + 2) * sizeof(tn_value) +
         3 * length + 8 * (length / 2 + 4);
}

tn_status tni_schema_parse(const char *text, tni_schema **out_schema) {
  *out_schema = NULL;
  if (!text) return TN_FAIL(TN_ERR_INVALID_ARGUMENT, "the schema is NULL; a text was expected");
  uint32_t items;
  size_t size_bytes = size_bound(text, &items);
  unsigned char *block = tni_alloc(size_bytes);
  if (!block)
    return TN_FAIL(TN_ERR_OUT_OF_MEMORY, "out of memory: %zu bytes for the schema '%.60s'", size_bytes, text);
  memset(block, 0, size_bytes);
  parser s = {.text = text, .p = text, .next = block};
  s.schema = take(&s, sizeof(tni_schema));
  s.schema->args = take(&s, items * sizeof(tni_arg));
  s.schema->results = take(&s, items * sizeof(tni_arg));
  s.schema->text = take_string(&s, text, strlen(text));
  tn_status status = read_schema(&s);
  if (status == TN_OK)
    *out_schema = s.schema;
  else
    tni_free(block);
  return status;
}

void tni_schema_release(tni_schema *schema) { tni_free(schema); }

/* ------------------------------------------------------------------ comparison */

/* Names count: keyword calls use them. Defaults do not: the core fills them before a kernel runs. */
static bool same_arg(const tni_arg *a, const tni_arg *b) {
  if (!a->name != !b->name || (a->name && strcmp(a->name, b->name) != 0)) return false;
  return a->type == b->type && a->list == b->list && a->optional == b->optional &&
         a->optional_elem == b->optional_elem && a->alias == b->alias && a->writes == b->writes &&
         a->alias_any == b->alias_any && a->fixed_size == b->fixed_size;
}

bool tni_schema_extends(const tni_schema *newer, const tni_schema *older, uint32_t *out_extra) {
  *out_extra = 0;
  if (strcmp(newer->name, older->name) != 0 || newer->n_args < older->n_args ||
      newer->n_results != older->n_results)
    return false;
  for (uint32_t i = 0; i < older->n_args; i++) {
    if (!same_arg(&newer->args[i], &older->args[i])) return false;
  }
  for (uint32_t i = 0; i < older->n_results; i++) {
    const tni_arg *a = &newer->results[i], *b = &older->results[i];
    if (a->type != b->type || a->list != b->list || a->alias != b->alias || a->writes != b->writes)
      return false;
  }
  for (uint32_t i = older->n_args; i < newer->n_args; i++) {
    if (!newer->args[i].has_default) return false;
  }
  *out_extra = newer->n_args - older->n_args;
  return true;
}
