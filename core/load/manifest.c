/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest's text form, into a struct. The grammar stands in docs/manifest.md: lines of `key values`.
 *
 * A key that this host does not know is skipped with a debug line, so that plugins written for a newer host
 * load in an older one; a known key with bad values, or a missing required key, rejects the file. Whether the
 * claims hold (ABI, CPU, names taken) is judged elsewhere. Start reads whatever lies in a root: no work grows with the
 * square of a text.
 */
#include <stdlib.h>

#include "core/load/load_int.h"

typedef struct parser {
  tni_manifest *m;
  size_t line;
} parser;

/* ------------------------------------------------------------------ words of a line */

/* Cuts the next word off *rest; "" at the end of the line. */
static char *next_word(char **rest) {
  char *word = *rest + strspn(*rest, " \t");
  char *end = word + strcspn(word, " \t");
  *rest = *end ? end + 1 : end;
  *end = 0;
  return word;
}

static bool is_name(const char *s) {
  for (const char *c = s; *c; ++c) {
    bool ok =
        (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("._-", *c);
    if (!ok) return false;
  }
  return *s != 0;
}

static tn_status want_name(parser *p, char **rest, const char *what, const char **out_name) {
  char *word = next_word(rest);
  if (!is_name(word))
    return TN_FAIL(TN_ERR_DATA,
                   "manifest line %zu: %s \"%s\" is not a name of letters, digits, '.', '_', '-'", p->line,
                   what, word);
  *out_name = word;
  return TN_OK;
}

static tn_status want_int(parser *p, char **rest, const char *what, long least, long most, long *out_value) {
  char *word = next_word(rest), *end;
  long value = strtol(word, &end, 10);
  if (!*word || *end || value < least || value > most)
    return TN_FAIL(TN_ERR_DATA, "manifest line %zu: %s \"%s\" is not a number from %ld to %ld", p->line, what,
                   word, least, most);
  *out_value = value;
  return TN_OK;
}

static tn_status want_end(parser *p, char *rest) {
  rest += strspn(rest, " \t");
  if (*rest) return TN_FAIL(TN_ERR_DATA, "manifest line %zu: \"%s\" is left over", p->line, rest);
  return TN_OK;
}

/* Devices and layers take bits, and there are not more of them than these. */
static tn_status want_room(parser *p, size_t count, size_t most, const char *what) {
  if (count < most) return TN_OK;
  return TN_FAIL(TN_ERR_DATA, "manifest line %zu: more %s than the %zu that a process can have", p->line, what, most);
}

static tn_status strings_add(tni_strings *list, const char *s) {
  TN_TRY(tni_grow(&list->items, &list->capacity, list->count, sizeof *list->items));
  list->items[list->count++] = s;
  return TN_OK;
}

/* The rest of the line as one value, without blanks around it. */
static tn_status add_rest(parser *p, char *rest, tni_strings *list) {
  rest += strspn(rest, " \t");
  if (!*rest) return TN_FAIL(TN_ERR_DATA, "manifest line %zu: the value is missing", p->line);
  return strings_add(list, rest);
}

static tn_status set_once(parser *p, const char **field, const char *value) {
  if (*field) return TN_FAIL(TN_ERR_DATA, "manifest line %zu: given twice (\"%s\" before)", p->line, *field);
  *field = value;
  return TN_OK;
}

/* ------------------------------------------------------------------ one function per key */

static tn_status parse_tenon(parser *p, char *rest) {
  long format;
  TN_TRY(want_int(p, &rest, "format", 0, 1000000, &format));
  if (format != 1) return TN_FAIL(TN_ERR_DATA, "manifest format %ld, this host reads format 1", format);
  return want_end(p, rest);
}

static tn_status parse_name(parser *p, char *rest) {
  const char *name;
  TN_TRY(want_name(p, &rest, "plugin name", &name));
  TN_TRY(set_once(p, &p->m->name, name));
  return want_end(p, rest);
}

static tn_status parse_version(parser *p, char *rest) {
  char *word = next_word(&rest);
  if (!*word) return TN_FAIL(TN_ERR_DATA, "manifest line %zu: the version is missing", p->line);
  TN_TRY(set_once(p, &p->m->version, word));
  return want_end(p, rest);
}

static tn_status parse_license(parser *p, char *rest) {
  rest += strspn(rest, " \t");
  if (!*rest) return TN_FAIL(TN_ERR_DATA, "manifest line %zu: the license is missing", p->line);
  return set_once(p, &p->m->license, rest);
}

static tn_status parse_abi(parser *p, char *rest) {
  long major, minor, needs;
  if (p->m->has_abi) return TN_FAIL(TN_ERR_DATA, "manifest line %zu: `abi` is given twice", p->line);
  TN_TRY(want_int(p, &rest, "ABI major", 0, 1000000, &major));
  TN_TRY(want_int(p, &rest, "ABI minor", 0, 1000000, &minor));
  TN_TRY(want_int(p, &rest, "needed ABI minor", 0, 1000000, &needs));
  p->m->has_abi = true;
  p->m->abi_major = (uint32_t)major;
  p->m->abi_minor = (uint32_t)minor;
  p->m->needs_minor = (uint32_t)needs;
  return want_end(p, rest);
}

static tn_status parse_sanitizer(parser *p, char *rest) {
  char *word = next_word(&rest);
  if (strcmp(word, "address") == 0)
    p->m->sanitizer = TN_SANITIZER_ADDRESS;
  else if (strcmp(word, "thread") == 0)
    p->m->sanitizer = TN_SANITIZER_THREAD;
  else if (strcmp(word, "none") == 0)
    p->m->sanitizer = TN_SANITIZER_NONE;
  else
    return TN_FAIL(TN_ERR_DATA, "manifest line %zu: sanitizer \"%s\" is none of none, address, thread",
                   p->line, word);
  return want_end(p, rest);
}

static tn_status parse_device(parser *p, char *rest) {
  tni_manifest_device device = {0};
  TN_TRY(want_room(p, p->m->devices.count, TN_BACKEND_LIMIT, "devices"));
  TN_TRY(want_name(p, &rest, "device name", &device.name));
  if (tni_manifest_has_device(p->m, device.name))
    return TN_FAIL(TN_ERR_DATA, "manifest line %zu: device %s is listed twice", p->line, device.name);
  char *word = next_word(&rest);
  if (strcmp(word, "alias") == 0) {
    const char *alias;
    TN_TRY(want_name(p, &rest, "alias", &alias));
    if (strcmp(alias, "privateuse1") != 0)
      return TN_FAIL(TN_ERR_DATA, "manifest line %zu: alias \"%s\"; the only alias is privateuse1", p->line,
                     alias);
    device.privateuse1 = true;
  } else if (*word) {
    return TN_FAIL(TN_ERR_DATA, "manifest line %zu: \"%s\" after the device name, expected `alias`", p->line,
                   word);
  }
  TN_TRY(tni_grow(&p->m->devices.items, &p->m->devices.capacity, p->m->devices.count, sizeof device));
  p->m->devices.items[p->m->devices.count++] = device;
  return want_end(p, rest);
}

static tn_status parse_class(parser *p, const char *word, uint8_t *out_class) {
  static const char *const names[] = {"kernel", "record", "trace", "mode"};
  for (uint8_t i = 0; i < 4; ++i) {
    if (strcmp(word, names[i]) != 0) continue;
    *out_class = i;
    return TN_OK;
  }
  return TN_FAIL(TN_ERR_DATA, "manifest line %zu: class \"%s\" is none of kernel, record, trace, mode",
                 p->line, word);
}

static tn_status parse_layer(parser *p, char *rest) {
  tni_manifest_layer layer = {.above = "", .below = "", .class_ = TNI_CLASS_MODE};
  TN_TRY(want_room(p, p->m->layers.count, 64 - TN_BACKEND_LIMIT, "layers"));
  TN_TRY(want_name(p, &rest, "layer name", &layer.name));
  for (char *word = next_word(&rest); *word; word = next_word(&rest)) {
    char *value = next_word(&rest);
    if (!*value) return TN_FAIL(TN_ERR_DATA, "manifest line %zu: `%s` has no value", p->line, word);
    if (strcmp(word, "class") == 0)
      TN_TRY(parse_class(p, value, &layer.class_));
    else if (strcmp(word, "above") == 0)
      layer.above = value;
    else if (strcmp(word, "below") == 0)
      layer.below = value;
    else
      return TN_FAIL(TN_ERR_DATA, "manifest line %zu: \"%s\" is none of class, above, below", p->line, word);
  }
  TN_TRY(tni_grow(&p->m->layers.items, &p->m->layers.capacity, p->m->layers.count, sizeof layer));
  p->m->layers.items[p->m->layers.count++] = layer;
  return TN_OK;
}

static tn_dtype_mask dtype_word(const char *word) {
  static const struct {
    const char *word;
    tn_dtype_mask mask;
  } words[] = {{"all", TN_DTYPES_ALL},
               {"int", TN_DTYPES_INT},
               {"float", TN_DTYPES_FLOAT},
               {"half", TN_DTYPES_HALF},
               {"bool", TN_DTYPE_BIT(TN_BOOL)}};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strcmp(word, words[i].word) == 0) return words[i].mask;
  tn_dtype dtype = tn_dtype_find(word);
  return dtype == TN_DTYPE_NONE ? 0 : TN_DTYPE_BIT(dtype);
}

static tn_status parse_dtypes(parser *p, char *list, tn_dtype_mask *out_mask) {
  *out_mask = 0;
  for (char *word = list; word;) {
    char *comma = strchr(word, ',');
    if (comma) *comma = 0;
    tn_dtype_mask mask = dtype_word(word);
    /* A plugin built with a newer contract may name a dtype that this host does not know. */
    if (!mask && p->m->abi_minor <= TN_ABI_MINOR)
      return TN_FAIL(TN_ERR_DATA, "manifest line %zu: \"%s\" is no dtype", p->line, word);
    *out_mask |= mask;
    word = comma ? comma + 1 : NULL;
  }
  return TN_OK;
}

static tn_status parse_kernel(parser *p, char *rest) {
  tni_manifest_kernel kernel;
  long priority;
  TN_TRY(want_name(p, &rest, "key", &kernel.key));
  kernel.op = next_word(&rest);
  TN_TRY(parse_dtypes(p, next_word(&rest), &kernel.dtypes));
  TN_TRY(want_int(p, &rest, "priority", INT32_MIN, INT32_MAX, &priority));
  kernel.priority = (int32_t)priority;
  TN_TRY(tni_grow(&p->m->kernels.items, &p->m->kernels.capacity, p->m->kernels.count, sizeof kernel));
  p->m->kernels.items[p->m->kernels.count++] = kernel;
  return want_end(p, rest);
}

static tn_status parse_interface(parser *p, char *rest) {
  const char *name;
  long version;
  TN_TRY(want_name(p, &rest, "interface name", &name));
  TN_TRY(want_int(p, &rest, "interface version", 0, 1000000, &version));
  TN_TRY(tni_grow(&p->m->interfaces.items, &p->m->interfaces.capacity, p->m->interfaces.count,
                  sizeof *p->m->interfaces.items));
  p->m->interfaces.items[p->m->interfaces.count++] = (tni_manifest_interface){name, (uint32_t)version, (uint32_t)p->line};
  return want_end(p, rest);
}

static tn_status add_name(parser *p, char *rest, const char *what, tni_strings *list) {
  const char *name;
  TN_TRY(want_name(p, &rest, what, &name));
  TN_TRY(strings_add(list, name));
  return want_end(p, rest);
}
static tn_status parse_operator(parser *p, char *rest) { return add_rest(p, rest, &p->m->operators); }
static tn_status parse_needs_path(parser *p, char *rest) { return add_rest(p, rest, &p->m->needs_path); }
static tn_status parse_thread_runtime(parser *p, char *rest) {
  const char *name;
  TN_TRY(want_name(p, &rest, "thread runtime", &name));
  TN_TRY(set_once(p, &p->m->thread_runtime, name));
  return want_end(p, rest);
}
static tn_status parse_needs_cpu(parser *p, char *rest) {
  return add_name(p, rest, "CPU feature", &p->m->needs_cpu);
}
static tn_status parse_environment(parser *p, char *rest) {
  return add_name(p, rest, "variable", &p->m->environment);
}
static tn_status parse_conflicts(parser *p, char *rest) {
  return add_name(p, rest, "plugin name", &p->m->conflicts);
}
static tn_status parse_override(parser *p, char *rest) {
  return add_name(p, rest, "plugin name", &p->m->overrides);
}

static const struct {
  const char *key;
  tn_status (*fn)(parser *p, char *rest);
} keys[] = {{"kernel", parse_kernel},
            {"operator", parse_operator},
            {"device", parse_device},
            {"layer", parse_layer},
            {"interface", parse_interface},
            {"needs-cpu", parse_needs_cpu},
            {"needs-path", parse_needs_path},
            {"environment", parse_environment},
            {"conflicts", parse_conflicts},
            {"override", parse_override},
            {"thread-runtime", parse_thread_runtime},
            {"name", parse_name},
            {"version", parse_version},
            {"abi", parse_abi},
            {"license", parse_license},
            {"sanitizer", parse_sanitizer},
            {"tenon", parse_tenon}};

/* ------------------------------------------------------------------ the whole text */

static tn_status parse_line(parser *p, char *line) {
  for (size_t n = strlen(line); n && strchr(" \t\r", line[n - 1]); --n) line[n - 1] = 0;
  char *rest = line;
  char *key = next_word(&rest);
  if (!*key) return TN_OK;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i)
    if (strcmp(key, keys[i].key) == 0) return keys[i].fn(p, rest);
  tn_log(TN_LOG_DEBUG, "manifest of %s, line %zu: key \"%s\" is unknown to this host and skipped",
         p->m->name ? p->m->name : "?", p->line, key);
  return TN_OK;
}

static tn_status parse_lines(tni_manifest *m) {
  parser p = {.m = m};
  if (strncmp(m->text, "tenon ", 6) != 0)
    return TN_FAIL(TN_ERR_DATA, "manifest does not begin with `tenon 1`");
  for (char *line = m->text; line;) {
    char *end = strchr(line, '\n');
    if (end) *end = 0;
    ++p.line;
    TN_TRY(parse_line(&p, line));
    line = end ? end + 1 : NULL;
  }
  const char *missing = !m->name      ? "name"
                        : !m->version ? "version"
                        : !m->has_abi ? "abi"
                        : !m->license ? "license"
                                      : NULL;
  if (missing) return TN_FAIL(TN_ERR_DATA, "manifest lacks the required line `%s`", missing);
  return TN_OK;
}

static int kernel_order(const void *a, const void *b) {
  const tni_manifest_kernel *x = a, *y = b;
  int c = strcmp(x->key, y->key);
  if (c == 0) c = strcmp(x->op, y->op);
  return c ? c : (x->priority > y->priority) - (x->priority < y->priority);
}

static void sort_kernels(tni_manifest *m) {
  tni_manifest_kernel *k = m->kernels.items;
  if (m->kernels.count < 2) return;
  qsort(k, m->kernels.count, sizeof *k, kernel_order);
  size_t last = 0;
  for (size_t i = 1; i < m->kernels.count; ++i) {
    if (kernel_order(&k[last], &k[i]) == 0)
      k[last].dtypes |= k[i].dtypes;
    else
      k[++last] = k[i];
  }
  m->kernels.count = last + 1;
}

static int interface_order(const void *a, const void *b) {
  const tni_manifest_interface *x = *(const tni_manifest_interface *const *)a, *y = *(const tni_manifest_interface *const *)b;
  int c = strcmp(x->name, y->name);
  if (c == 0) c = (x->version > y->version) - (x->version < y->version);
  return c ? c : (x->line > y->line) - (x->line < y->line);
}

/* Their own order is that of the tables that init registers: sorted are pointers. */
static tn_status check_interfaces(const tni_manifest *m) {
  const size_t n = m->interfaces.count;
  if (n < 2) return TN_OK;
  const tni_manifest_interface **sorted = tni_alloc(n * sizeof *sorted);
  if (!sorted) return tni_oom(n * sizeof *sorted, "a manifest's interfaces");
  for (size_t i = 0; i < n; ++i) sorted[i] = &m->interfaces.items[i];
  qsort(sorted, n, sizeof *sorted, interface_order);
  tn_status status = TN_OK;
  for (size_t i = 1; i < n && status == TN_OK; ++i)
    if (sorted[i]->version == sorted[i - 1]->version && strcmp(sorted[i]->name, sorted[i - 1]->name) == 0)
      status = TN_FAIL(TN_ERR_DATA, "manifest line %u: interface %s %u is listed twice", sorted[i]->line, sorted[i]->name,
                       sorted[i]->version);
  tni_free(sorted);
  return status;
}

tn_status tni_manifest_parse(char *text, tni_manifest **out_manifest) {
  *out_manifest = NULL;
  tni_manifest *m = tni_alloc_zero(sizeof *m);
  if (!m) {
    tni_free(text);
    return tni_oom(sizeof *m, "a manifest");
  }
  m->text = text;
  tn_status status = parse_lines(m);
  if (status == TN_OK) status = check_interfaces(m);
  /* Words about the ABI say more than words about a line that another ABI gave a meaning. */
  if (status == TN_ERR_DATA && m->has_abi &&
      tni_abi_check(m->abi_major, m->abi_minor, m->needs_minor) != TN_OK)
    status = TN_ERR_VERSION;
  if (status != TN_OK) {
    tni_manifest_free(m);
    return status;
  }
  sort_kernels(m);
  *out_manifest = m;
  return TN_OK;
}

void tni_manifest_free(tni_manifest *m) {
  if (!m) return;
  tni_strings *lists[] = {&m->operators,  &m->needs_cpu,   &m->needs_path,
                          &m->conflicts, &m->environment, &m->overrides};
  tni_free(m->interfaces.items);
  for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i) tni_free(lists[i]->items);
  tni_free(m->kernels.items);
  tni_free(m->devices.items);
  for (size_t i = 0; i < m->layers.count; ++i) tni_free(m->layers.items[i].why);
  tni_free(m->layers.items);
  tni_free(m->text);
  tni_free(m);
}

/* ------------------------------------------------------------------ questions */

/* The first kernel line that does not stand before (key, op), or NULL. */
static const tni_manifest_kernel *first_from(const tni_manifest *m, const char *key, const char *op) {
  const tni_manifest_kernel want = {.key = key, .op = op, .priority = INT32_MIN};
  size_t low = 0, high = m->kernels.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (kernel_order(&m->kernels.items[middle], &want) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low == m->kernels.count ? NULL : &m->kernels.items[low];
}

const tni_manifest_kernel *tni_manifest_find(const tni_manifest *m, const char *key, const char *op) {
  const tni_manifest_kernel *found = first_from(m, key, op);
  return found && strcmp(found->key, key) == 0 && strcmp(found->op, op) == 0 ? found : NULL;
}

bool tni_manifest_has_kernels(const tni_manifest *m, const char *key) {
  const tni_manifest_kernel *found = first_from(m, key, "");
  return found && strcmp(found->key, key) == 0;
}

bool tni_manifest_has_device(const tni_manifest *m, const char *name) {
  for (size_t i = 0; i < m->devices.count; ++i)
    if (strcmp(m->devices.items[i].name, name) == 0) return true;
  return false;
}

bool tni_strings_have(const tni_strings *list, const char *s) {
  for (size_t i = 0; i < list->count; ++i)
    if (strcmp(list->items[i], s) == 0) return true;
  return false;
}
