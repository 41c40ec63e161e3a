# find_package(TenonHwloc): TenonHwloc_INCLUDE_DIR. Only the header: the library is opened when it is needed, if the
# machine has it (core/base/topology_hwloc.c). Debian: libhwloc-dev.
find_path(TenonHwloc_INCLUDE_DIR hwloc.h)
mark_as_advanced(TenonHwloc_INCLUDE_DIR)

set(version "")
if(TenonHwloc_INCLUDE_DIR)
  file(STRINGS ${TenonHwloc_INCLUDE_DIR}/hwloc.h version REGEX "^#define HWLOC_API_VERSION 0x0002")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TenonHwloc REQUIRED_VARS TenonHwloc_INCLUDE_DIR version
  FAIL_MESSAGE "no hwloc.h of version 2")
