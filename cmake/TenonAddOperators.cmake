# tenon_add_operators(target FILE.yaml): operators of a plugin. FILE.yaml holds entries as registry/ops does; the
# generator writes TARGET_operators.h and TARGET_operators.c (- and . in the target's name become _), the target
# gets the C file and the folder of the header. The plugin's init calls TARGET_register_operators(host, reg), its
# manifest has the literal TARGET_OPERATORS (in capitals). This tree and the installed package TenonSDK use this same file.
function(tenon_add_operators target yaml)
  set(here ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  get_filename_component(here ${here} REALPATH)
  set(registry "")
  # This tree's; installed: lib/cmake/TenonSDK, or lib/ARCHITECTURE/cmake/TenonSDK, beside share/tenon.
  foreach(place ../registry ../../../share/tenon/registry ../../../../share/tenon/registry)
    if(NOT registry AND EXISTS ${here}/${place}/gen/add_operators.py)
      get_filename_component(registry ${here}/${place} ABSOLUTE)
    endif()
  endforeach()
  if(NOT registry)
    message(FATAL_ERROR "tenon_add_operators: the generator was expected in share/tenon/registry/gen; it is not there")
  endif()
  find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
  string(REGEX REPLACE "[^A-Za-z0-9_]" "_" name ${target})
  get_filename_component(yaml ${yaml} ABSOLUTE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}_gen)
  file(GLOB inputs CONFIGURE_DEPENDS ${registry}/gen/*.py ${registry}/ops/*.yaml)
  add_custom_command(
    OUTPUT ${out}/${name}_operators.c ${out}/${name}_operators.h
    COMMAND ${Python3_EXECUTABLE} -B ${registry}/gen/add_operators.py --out ${out} --name ${name}
            --builtin ${registry}/ops ${yaml}
    DEPENDS ${yaml} ${inputs}
    COMMENT "Generating operators of ${target}"
    VERBATIM)
  target_sources(${target} PRIVATE ${out}/${name}_operators.c ${out}/${name}_operators.h)
  target_include_directories(${target} PRIVATE ${out})
endfunction()
