# How the tree is installed and packed. Two components: `runtime` (what programs need; the default) and `sdk` (what
# building an application or a plugin needs).
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME runtime)
# A search root that others may write is refused, so the builder's umask has no say.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)

# tenon_install_package(NAME file...): lib/cmake/NAME with the config made from cmake/NAMEConfig.cmake.in, a version
# file, and further files of the package.
include(CMakePackageConfigHelpers)
function(tenon_install_package name)
  set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  set(destination ${CMAKE_INSTALL_LIBDIR}/cmake/${name})
  # Found through a link (/lib where /usr is one folder), a config would take the wrong prefix for its own.
  file(RELATIVE_PATH TN_PREFIX_FROM_PACKAGE /p/${destination} /p)
  set(TN_PACKAGE_INIT "get_filename_component(PACKAGE_PREFIX_DIR \"\${CMAKE_CURRENT_LIST_DIR}\" REALPATH)
get_filename_component(PACKAGE_PREFIX_DIR \"\${PACKAGE_PREFIX_DIR}/${TN_PREFIX_FROM_PACKAGE}\" ABSOLUTE)")
  configure_package_config_file(${here}/${name}Config.cmake.in ${CMAKE_BINARY_DIR}/packages/${name}Config.cmake
    INSTALL_DESTINATION ${destination} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_BINDIR)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/packages/${name}ConfigVersion.cmake
    COMPATIBILITY SameMajorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/packages/${name}Config.cmake
                ${CMAKE_BINARY_DIR}/packages/${name}ConfigVersion.cmake ${ARGN}
          DESTINATION ${destination} COMPONENT sdk)
endfunction()

# tenon_install_pkgconfig(NAME...): lib/pkgconfig/NAME.pc made from cmake/NAME.pc.in, for other build systems. Its prefix
# is where it lies, so that an installed tree may be moved.
function(tenon_install_pkgconfig)
  set(destination ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH TN_PREFIX_FROM_PC /p/${destination} /p)
  string(REGEX REPLACE "/$" "" TN_PREFIX_FROM_PC ${TN_PREFIX_FROM_PC})
  foreach(name ${ARGN})
    configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${name}.pc.in ${CMAKE_BINARY_DIR}/packages/${name}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/packages/${name}.pc DESTINATION ${destination} COMPONENT sdk)
  endforeach()
endfunction()
