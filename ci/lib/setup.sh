# SPDX-License-Identifier: Apache-2.0
#
# What ci/demo and ci/test share: going to the root of the tree, getting packages, choosing a generator and a
# Python. Sourced, not run. On Debian and its kin missing packages are installed with apt (as root or through
# sudo); elsewhere each missing thing is named, and the script goes on only if nothing is missing.

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
jobs=$(nproc 2>/dev/null || echo 2)

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install_packages NAME...: Debian package names.
install_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} = 0 ] && return 0
  echo "installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" ||
    { echo "error: apt-get could not install ${missing[*]}" >&2; exit 1; }
}

header_there() { echo "#include <$1>" | cc -E - >/dev/null 2>&1; }
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import sys, yaml; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
    command -v "$candidate" && return 0
  done
  return 1
}

# check_parts TEST NAME ...: pairs of a shell test and what is missing if it fails.
check_parts() {
  local missing=()
  while [ $# -gt 0 ]; do
    eval "$1" >/dev/null 2>&1 || missing+=("$2")
    shift 2
  done
  [ ${#missing[@]} = 0 ] && return 0
  echo "error: this is not Debian, so nothing was installed; please install:" >&2
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
}

base_packages=(gcc libc6-dev cmake ninja-build python3 python3-yaml zlib1g-dev)
# Libraries behind optional plugins, and one that the core opens where it is: without them the tree builds and its
# tests pass.
provider_packages=(libdnnl-dev libhwloc-dev libopenblas-openmp-dev opencl-c-headers)
# OpenCL devices that are the CPU, for tests; the compiler behind them is large.
device_packages=(ocl-icd-libopencl1 pocl-opencl-icd)
base_parts=('command -v cc' 'a C compiler named cc (gcc 12 or clang 14, or newer)' 'command -v cmake' 'CMake 3.20'
  'command -v ninja || command -v make' 'ninja or make' 'find_python' 'Python 3.9 with PyYAML'
  'header_there zlib.h' 'zlib with its headers')

on_debian() { [ -f /etc/debian_version ] && command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

# Sets what every configuration and every build of these scripts is given. Ninja goes on after an error, so that
# one run shows all of them.
choose_tools() {
  local python
  python=$(find_python) || { echo "error: no Python 3.9 with PyYAML was found" >&2; exit 1; }
  build_options=()
  configure_options=("-DPython3_EXECUTABLE=$python")
  command -v ninja >/dev/null && configure_options+=(-G Ninja) && build_options=(-- -k 0)
  if command -v ccache >/dev/null; then
    configure_options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    export CCACHE_BASEDIR=${CCACHE_BASEDIR-$PWD} # what two trees compile alike is compiled once
  fi
  python3_with_yaml=$python
}
