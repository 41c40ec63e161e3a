# find_package(TenonOpenBLAS): the target OpenBLAS::openblas. Debian keeps header and library of each build (over
# OpenMP, over pthreads, without threads) in folders of their own. Any of them will do to build against: which one
# a process gets is decided when it is loaded, by the name libopenblas.so.0 alone.
set(builds openblas-openmp openblas-serial openblas-pthread openblas)
find_path(TenonOpenBLAS_INCLUDE_DIR openblas_config.h PATH_SUFFIXES ${builds})
find_library(TenonOpenBLAS_LIBRARY NAMES openblas PATH_SUFFIXES ${builds})
mark_as_advanced(TenonOpenBLAS_INCLUDE_DIR TenonOpenBLAS_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TenonOpenBLAS DEFAULT_MSG TenonOpenBLAS_LIBRARY TenonOpenBLAS_INCLUDE_DIR)
if(TenonOpenBLAS_FOUND AND NOT TARGET OpenBLAS::openblas)
  add_library(OpenBLAS::openblas UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::openblas PROPERTIES IMPORTED_LOCATION ${TenonOpenBLAS_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${TenonOpenBLAS_INCLUDE_DIR})
endif()
