#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# check_sdk.sh BUILD: what a vendor does who has the installed SDK and no source tree. Installs a build, moves the tree
# elsewhere, and there, with an empty environment, lets `tenon new-plugin` write a project of each kind, builds it, and
# runs its tests, which end with the conformance report. Then the packages: the archive unpacked and used the same way,
# the Debian packages unpacked over each other. Each step says how long it took.
set -euo pipefail
source_tree=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jobs=$(nproc 2>/dev/null || echo 2)
python=$(sed -n 's/^_\?Python3_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt" | head -n 1)
started=$SECONDS

step() {
  echo "== $* ($((SECONDS - started)) s)"
}
fail() {
  echo "error: $*" >&2
  exit 1
}

# stranger PREFIX COMMAND...: with nothing of this session's environment. Warnings are errors in what the templates hold.
stranger() {
  local prefix=$1
  shift
  env -i PATH=/usr/bin:/bin HOME="$work/home" CMAKE_PREFIX_PATH="$prefix" CMAKE_BUILD_PARALLEL_LEVEL="$jobs" \
    CFLAGS="-Wall -Wextra -Wno-unused-parameter -Werror" "$@"
}

# project PREFIX KIND: from the template to the report.
project() {
  local prefix=$1 kind=$2 name=acme-$2 found
  step "$kind, by $prefix"
  mkdir -p "$work/home" "$work/projects"
  cd "$work/projects"
  rm -rf "$name"
  stranger "$prefix" "$prefix/bin/tenon" new-plugin "$name" --kind "$kind"
  cd "$name"
  stranger "$prefix" cmake -B b -DCMAKE_EXPORT_COMPILE_COMMANDS=ON ${python:+-DPython3_EXECUTABLE="$python"}
  stranger "$prefix" cmake --build b
  if grep -F "$source_tree" b/compile_commands.json; then fail "$name was compiled with the source tree"; fi
  grep -qF -- "$prefix/include" b/compile_commands.json || fail "$name was compiled without $prefix/include"
  found=$(find b -name '*.so')
  [ "$found" = "b/$name.so" ] || fail "one b/$name.so was expected, there is: $found"
  stranger "$prefix" ctest --test-dir b --output-on-failure -j "$jobs"
}

# holds PACKAGE FILE...: the Debian package has these, below /usr.
holds() {
  local package=$1 name
  shift
  dpkg-deb -c "$work/packed/${package}_"*.deb >"$work/$package.list"
  for name in "$@"; do grep -q " \./usr/$name" "$work/$package.list" || fail "$package has no /usr/$name"; done
}

step "install, and move"
cmake --install "$build" --prefix "$work/first" >/dev/null
prefix=$work/moved
mv "$work/first" "$prefix"
if grep -rlF -e "$source_tree" -e "$work/first" "$prefix"/lib/cmake "$prefix"/lib/pkgconfig "$prefix"/share/tenon; then
  fail "these files name the place that they were built or installed at"
fi
for kind in backend layer operators; do project "$prefix" $kind; done

step "headers and declarations"
TENON_SDK_PREFIX=$prefix "${python:-python3}" "$source_tree/tests/sdk/test_headers.py"

if command -v pkg-config >/dev/null; then
  step "pkg-config alone"
  cd "$work/projects"
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  mkdir -p by_hand
  # shellcheck disable=SC2046
  cc $(pkg-config --variable=plugin_flags tenon-sdk) $(pkg-config --cflags tenon-sdk) acme-backend/acme-backend.c \
    $(pkg-config --libs tenon-sdk) -o by_hand/acme-backend.so
  TENON_PLUGIN_PATH=$PWD/by_hand "$prefix/bin/tenon" devices --open | grep 'acme-backend .*ready'
  # shellcheck disable=SC2046
  cc acme-operators/tests/test_acme_operators.c $(pkg-config --cflags --libs tenon-nn) -lm -o by_hand/program
  TENON_PLUGIN_PATH=$PWD/acme-operators/b LD_LIBRARY_PATH=$prefix/lib by_hand/program
  unset PKG_CONFIG_PATH
fi

if command -v man >/dev/null; then
  step "man pages"
  for page in "$prefix"/share/man/man1/*; do
    words=$(man -l --warnings -E UTF-8 "$page" 2>&1 >/dev/null) || fail "$page cannot be shown"
    [ -z "$words" ] || fail "$page: $words"
  done
fi

step "packages"
(cd "$build" && cpack -G TGZ -B "$work/packed" >/dev/null)
mkdir "$work/archive"
tar -xzf "$work"/packed/tenon-*.tar.gz -C "$work/archive" --strip-components 1
diff <(cd "$prefix" && find . | sort) <(cd "$work/archive" && find . | sort) || fail "the archive has other files"
project "$work/archive" backend

if command -v dpkg-deb >/dev/null; then
  step "Debian packages"
  (cd "$build" && cpack -G DEB -B "$work/packed" >/dev/null)
  mkdir "$work/debian"
  for package in "$work"/packed/*.deb; do dpkg-deb -x "$package" "$work/debian"; done
  dpkg-deb -f "$work"/packed/tenon_*.deb Depends | grep libc6 || fail "tenon depends on nothing"
  dpkg-deb -f "$work"/packed/tenon-dev_*.deb Depends | grep 'tenon (= ' || fail "tenon-dev does not depend on tenon"
  holds tenon bin/tenon lib/libtenon.so.0 lib/tenon/plugins/backend-cpu.so share/man/man1/tenon.1.gz \
    share/doc/tenon/copyright
  holds tenon-dev lib/libtenon.so include/tenon/plugin.h lib/libtenon_kit.a lib/cmake/TenonSDK/TenonSDKConfig.cmake \
    share/tenon/template/backend/NAME.c share/tenon/registry/gen/add_operators.py share/tenon/docs/manifest.md lib/pkgconfig/tenon-sdk.pc
  if grep -E ' \./usr/(include|lib/cmake|share/tenon/template)' "$work/tenon.list"; then
    fail "the runtime package has what only building needs"
  fi
  # Debian's /lib is a link into /usr: a package found there must not take / for its prefix.
  ln -s usr/lib "$work/debian/lib"
  sed -i 's/find_package(TenonSDK.*/&\nmessage(STATUS "found in ${TenonSDK_DIR}")/' "$work/projects/acme-operators/CMakeLists.txt"
  cd "$work/projects/acme-operators"
  stranger "$work/debian" cmake -B by_link -DTenonSDK_DIR="$work/debian/lib/cmake/TenonSDK" \
    ${python:+-DPython3_EXECUTABLE="$python"} -DTenon_DIR="$work/debian/lib/cmake/Tenon"
  stranger "$work/debian" cmake --build by_link
  TENON_PLUGIN_PATH=$PWD/by_link by_link/tests/test_acme_operators
fi
step "done"
