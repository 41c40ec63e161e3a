# tenon_add_plugin(target [NO_INSTALL] source...): one plugin, one .so, on the SDK and the kit alone. This tree and
# the installed package TenonSDK use this same file. Only tenon_plugin_query is exported, and nothing may stay
# undefined but the C library's names.
#   NO_INSTALL  neither installed nor put among the built-in plugins (test plugins)
function(tenon_add_plugin target)
  cmake_parse_arguments(ARG "NO_INSTALL" "" "" ${ARGN})
  set(map ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/tenon_plugin.map)
  add_library(${target} MODULE ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE TenonSDK::kit)
  set_target_properties(${target} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden C_STANDARD 11
                                             POSITION_INDEPENDENT_CODE ON LINK_DEPENDS ${map})
  target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,--exclude-libs,ALL -Wl,-z,relro -Wl,-z,now)
  # A sanitizer's own names come from the program.
  if(NOT TN_SANITIZE AND NOT CMAKE_C_FLAGS MATCHES "-fsanitize")
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  if(ARG_NO_INSTALL)
    return()
  endif()
  if(TN_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${TN_PLUGIN_OUTPUT_DIRECTORY})
  endif()
  if(TARGET tenon_builtin_plugins)
    add_dependencies(tenon_builtin_plugins ${target})
  endif()
  include(GNUInstallDirs)
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tenon/plugins)
endfunction()
