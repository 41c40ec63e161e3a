# tenon_use_expressions(target): the registry's elementwise expressions for a backend of one's own. elementwise.inc, generated, is
# on the target's include path (TN_EW_LIST, TN_EXPR_FLT_..., TN_EXPR_INT_...; its head says what a consumer defines); the
# variable TENON_EXPRESSIONS names the file, for those who hand it to a device's compiler. This tree and the installed package
# TenonSDK use this same file.
function(tenon_use_expressions target)
  if(TARGET tenon_gen)
    set(file ${TN_GEN}/elementwise.inc)
    add_dependencies(${target} tenon_gen)
  else() # installed: lib/cmake/TenonSDK beside share/tenon
    set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
    find_file(TENON_EXPRESSIONS_FILE elementwise.inc NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH
              PATHS ${here}/../../../share/tenon ${here}/../../../../share/tenon)
    set(file ${TENON_EXPRESSIONS_FILE})
    if(NOT file)
      message(FATAL_ERROR "tenon_use_expressions: elementwise.inc was expected in share/tenon; it is not there")
    endif()
  endif()
  get_filename_component(folder ${file} DIRECTORY)
  target_include_directories(${target} PRIVATE ${folder})
  set(TENON_EXPRESSIONS ${file} PARENT_SCOPE)
endfunction()
