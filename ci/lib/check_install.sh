#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_install.sh BUILD PREFIX: installs a build into an empty prefix and uses it from there: devices, the
# text of an operator, a C program and the example plugins against the installed headers, and the sizes that the README promises.
set -euo pipefail
build=$1
prefix=$(realpath -m "$2")
rm -rf "$prefix"
cmake --install "$build" --prefix "$prefix"
tenon=$prefix/bin/tenon

"$tenon" --version
"$tenon" devices --json | grep '"cpu"'
"$tenon" plugins --json | grep 'backend-cpu'
"$tenon" explain mul.Tensor | grep 'mul.Tensor'
for folder in include/tenon lib/tenon/plugins lib/cmake/Tenon lib/cmake/TenonSDK; do
  [ -d "$prefix/$folder" ] || { echo "the installed tree has no $folder"; exit 1; }
done

[ -x "$prefix/libexec/tenon/tenon-probe" ] || { echo "the installed tree has no libexec/tenon/tenon-probe"; exit 1; }
# The installed library finds its helper: a plugin that dies is quarantined, and the library lives to tell.
if [ -f "$build/tests/load/plugins/segfaults.so" ]; then
  mkdir -p "$prefix/probe"
  ln -s "$(realpath "$build/tests/load/plugins/segfaults.so")" "$prefix/probe/"
  answer=$(XDG_CACHE_HOME="$prefix/probe" TENON_PLUGIN_PATH="$(realpath "$prefix/probe")" \
    "$tenon" why add.Tensor segfaults float32 2>&1 || true)
  grep 'is quarantined: a child process' <<<"$answer"
  rm -r "$prefix/probe"
fi

# A program of an application, and the skeleton plugin, built against what was installed alone.
scratch=$prefix/check
mkdir -p "$scratch"
cat >"$scratch/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.20)
project(check LANGUAGES C)
find_package(Tenon REQUIRED)
add_executable(check check.c)
target_link_libraries(check PRIVATE Tenon::tenon)
PROJECT
cat >"$scratch/check.c" <<'PROGRAM'
#include <tenon/tenon.h>
int main(void) {
  tn_tensor *x = NULL, *y = NULL;
  tn_status status = tn_tensor_from_host((float[]){1, 2}, (tn_dim[]){2}, 1, NULL, &x);
  if (status == TN_OK) status = tn_mul(x, x, &y);
  if (status == TN_OK) status = tn_tensor_print(y, stdout);
  if (status != TN_OK) fprintf(stderr, "%s\n", tn_error_message());
  tn_tensor_release(y);
  tn_tensor_release(x);
  return status != TN_OK;
}
PROGRAM
generator=() # make need not be there
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S "$scratch" -B "$scratch/build" "${generator[@]}" -DCMAKE_PREFIX_PATH="$prefix"
cmake --build "$scratch/build"
"$scratch/build/check"

# The OpenCL backend as a vendor builds one: its sources, elsewhere, against what was installed alone.
if echo '#include <CL/cl.h>' | cc -E - >/dev/null 2>&1; then
  mkdir -p "$scratch/vendor/plugins"
  cp -r "$(dirname "$0")"/../../plugins/{gpu,opencl} "$scratch/vendor/plugins"
  cmake -S "$scratch/vendor/plugins/opencl" -B "$scratch/vendor/build" "${generator[@]}" -DCMAKE_PREFIX_PATH="$prefix"
  cmake --build "$scratch/vendor/build"
  TENON_PLUGIN_PATH=$(realpath "$scratch/vendor/build/plugins") "$tenon" plugins | grep 'loadable.*vendor/build/plugins/opencl.so'
fi
# The example plugins, each a project of its own, against what was installed alone.
examples=$(dirname "$0")/../../examples
roots=
for example in layer-nan-finder layer-call-log operators-softmax; do
  cmake -S "$examples/$example" -B "$scratch/$example" "${generator[@]}" -DCMAKE_PREFIX_PATH="$prefix"
  cmake --build "$scratch/$example"
  roots=$roots${roots:+:}$scratch/$example
done
TENON_PLUGIN_PATH=$roots "$tenon" layers | grep '^40 *nan_finder'
TENON_PLUGIN_PATH=$roots "$tenon" why acme::row_softmax cpu float32 | grep 'row-softmax runs'
if "$tenon" devices --open | grep '^opencl *ready'; then
  TENON_PLUGIN_PATH=$roots "$tenon" why acme::row_softmax opencl bfloat16 | grep 'row-softmax runs'
else
  echo "no OpenCL device here: the fused softmax is checked on the CPU only"
fi
"$tenon" check plugin "$scratch/operators-softmax/row_softmax.so" | tail -n 1 | grep ' 0 failed'
TENON_PLUGIN_PATH=$roots TENON_CALL_LOG=$scratch/calls.jsonl "$tenon" bench --loop add_1_grad 3 \
  --plugin-layers call_log,nan_finder
grep '"op":"add.Tensor"' "$scratch/calls.jsonl"

# libtenon and the CPU plugin, stripped, stay under 4 MB together.
total=0
for file in "$prefix"/lib/libtenon.so "$prefix"/lib/tenon/plugins/*backend-cpu*.so; do
  strip -o "$scratch/stripped" "$(realpath "$file")"
  total=$((total + $(stat -c %s "$scratch/stripped")))
done
echo "libtenon and backend-cpu, stripped: $total bytes"
[ $total -lt 4194304 ] || { echo "4194304 is the limit"; exit 1; }
python3 "$(dirname "$0")/../check_symbols.py" "$prefix"
