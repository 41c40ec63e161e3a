/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest: text in an ELF note of the plugin's file, which the host reads without running code.
 *
 *   TN_MANIFEST(TN_MANIFEST_HEADER("acme", "1.2", "Apache-2.0")
 *               "device acme\n"
 *               "kernel acme add.Tensor all 0\n")
 *
 * The format is in docs/manifest.md: lines of a key and values. What init registers must be listed.
 * `readelf -n plugin.so` shows the note (owner Tenon, type 1).
 */
#ifndef TENON_KIT_MANIFEST_H
#define TENON_KIT_MANIFEST_H

#include <tenon/kit/sanitizer.h>

#define TN_MANIFEST_QUOTE_(x) #x
#define TN_MANIFEST_QUOTE(x) TN_MANIFEST_QUOTE_(x)

/* needs_minor: the oldest host minor that the plugin can work with; as in TN_PLUGIN. */
#define TN_MANIFEST_HEADER_NEEDS(name, version, license, needs_minor)                              \
  "tenon 1\n"                                                                                      \
  "name " name "\n"                                                                                \
  "version " version "\n"                                                                          \
  "abi " TN_MANIFEST_QUOTE(TN_ABI_MAJOR) " " TN_MANIFEST_QUOTE(TN_ABI_MINOR) " "                   \
  TN_MANIFEST_QUOTE(needs_minor) "\n"                                                              \
  "license " license "\n" TN_SANITIZER_LINE
#define TN_MANIFEST_HEADER(name, version, license) TN_MANIFEST_HEADER_NEEDS(name, version, license, 0)

/* Kept through --gc-sections (a note is no garbage; `retain` says so to linkers that ask) and through strip
 * (it is loaded). */
#if defined(__has_attribute)
#if __has_attribute(retain)
#define TN_MANIFEST_RETAIN , retain
#endif
#endif
#ifndef TN_MANIFEST_RETAIN
#define TN_MANIFEST_RETAIN
#endif

/* clang's address sanitizer would put a red zone into the note; gcc leaves named sections alone. */
#if defined(__clang__)
#define TN_MANIFEST_PLAIN , no_sanitize("address")
#else
#define TN_MANIFEST_PLAIN
#endif

/* text: one string literal. Once per plugin. The description's size includes the closing NUL. */
#define TN_MANIFEST(text)                                                                          \
  static const struct {                                                                            \
    uint32_t owner_size;                                                                           \
    uint32_t text_size;                                                                            \
    uint32_t type;                                                                                 \
    char owner[8];                                                                                 \
    char words[(sizeof(text) + 3) / 4 * 4];                                                        \
  } tn_manifest_note                                                                               \
      __attribute__((section(".note.tenon"), used, aligned(4) TN_MANIFEST_RETAIN TN_MANIFEST_PLAIN)) = { \
          6, sizeof(text), 1, "Tenon", text};

#endif
