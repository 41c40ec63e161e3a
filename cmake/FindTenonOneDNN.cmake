# find_package(TenonOneDNN): the target oneDNN::onednn, of a library with the interface of version 2.
find_path(TenonOneDNN_INCLUDE_DIR oneapi/dnnl/dnnl_version.h)
find_library(TenonOneDNN_LIBRARY NAMES dnnl)
mark_as_advanced(TenonOneDNN_INCLUDE_DIR TenonOneDNN_LIBRARY)
if(TenonOneDNN_INCLUDE_DIR)
  file(READ ${TenonOneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h version)
  string(REGEX MATCH "DNNL_VERSION_MAJOR ([0-9]+)" _ "${version}")
  set(TenonOneDNN_VERSION ${CMAKE_MATCH_1})
  string(REGEX MATCH "DNNL_VERSION_MINOR ([0-9]+)" _ "${version}")
  set(TenonOneDNN_VERSION ${TenonOneDNN_VERSION}.${CMAKE_MATCH_1})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TenonOneDNN REQUIRED_VARS TenonOneDNN_LIBRARY TenonOneDNN_INCLUDE_DIR
                                  VERSION_VAR TenonOneDNN_VERSION HANDLE_VERSION_RANGE)
if(TenonOneDNN_FOUND AND NOT TARGET oneDNN::onednn)
  add_library(oneDNN::onednn UNKNOWN IMPORTED)
  set_target_properties(oneDNN::onednn PROPERTIES IMPORTED_LOCATION ${TenonOneDNN_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${TenonOneDNN_INCLUDE_DIR})
endif()
