# tenon_install_package(NAME file...): lib/cmake/NAME with the config made from cmake/NAMEConfig.cmake.in, a version
# file, and further files of the package.
include(CMakePackageConfigHelpers)
function(tenon_install_package name)
  set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set(destination ${CMAKE_INSTALL_LIBDIR}/cmake/${name})
  configure_package_config_file(${here}/${name}Config.cmake.in ${CMAKE_BINARY_DIR}/packages/${name}Config.cmake
    INSTALL_DESTINATION ${destination} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/packages/${name}ConfigVersion.cmake
    COMPATIBILITY SameMajorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/packages/${name}Config.cmake
                ${CMAKE_BINARY_DIR}/packages/${name}ConfigVersion.cmake ${ARGN} DESTINATION ${destination})
endfunction()
