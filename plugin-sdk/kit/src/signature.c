/* SPDX-License-Identifier: Apache-2.0
 *
 * A schema's text, as far as layers ask: arguments are separated by commas outside of brackets, a written one has
 * `!` in its alias set, and a form that writes repeats the set in its result.
 */
#include <tenon/kit/signature.h>

/* The end of the item at p: the comma or bracket that closes it. */
static const char *item_end(const char *p) {
  int depth = 0;
  for (; *p; ++p) {
    if (depth == 0 && (*p == ',' || *p == ')')) break;
    if (*p == '(' || *p == '[') ++depth;
    if (*p == ')' || *p == ']') --depth;
  }
  return p;
}

static bool has(const char *p, const char *end, char c) {
  for (; p < end; ++p)
    if (*p == c) return true;
  return false;
}

/* Items of a list that begins after its bracket; calls them results. */
static uint32_t count_items(const char *p) {
  uint32_t n = 0;
  while (*p && *p != ')') {
    p = item_end(p);
    ++n;
    while (*p == ',' || *p == ' ') ++p;
  }
  return n;
}

tn_kit_signature tn_kit_signature_read(const char *schema) {
  tn_kit_signature s = {0, 0, 0, 0};
  const char *p = strchr(schema, '(');
  if (!p) return s;
  bool by_name = false; /* behind the star: a written one there is a target, whatever it is called */
  for (++p; *p && *p != ')';) {
    const char *end = item_end(p);
    if (*p == '*') { /* no argument */
      by_name = true;
    } else {
      uint64_t bit = s.n_args < 64 ? (uint64_t)1 << s.n_args : 0;
      if (has(p, end, '!')) s.written |= bit;
      if (has(p, end, '!') && by_name) s.targets |= bit;
      ++s.n_args;
    }
    for (p = end; *p == ',' || *p == ' ';) ++p;
  }
  const char *result = strstr(p, "-> ");
  if (!result || strchr(result, '!')) return s; /* the written arguments again */
  result += 3;
  s.n_results = *result == '(' ? count_items(result + 1) : 1;
  return s;
}
