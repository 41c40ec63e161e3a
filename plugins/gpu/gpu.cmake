# gpu_add_sources(target): the shared body of the GPU plugins becomes part of a plugin. The folder that holds plugins/ is on the
# include path, in this tree as in a copy of plugins/gpu and plugins/opencl elsewhere.
set(GPU_DIR ${CMAKE_CURRENT_LIST_DIR})
function(gpu_add_sources target)
  file(GLOB sources CONFIGURE_DEPENDS ${GPU_DIR}/*.c)
  file(GLOB device CONFIGURE_DEPENDS ${GPU_DIR}/device/*.h)
  tenon_use_expressions(${target})
  target_sources(${target} PRIVATE ${sources})
  target_include_directories(${target} PRIVATE ${GPU_DIR}/../.. ${GPU_DIR}/include)
  target_link_libraries(${target} PRIVATE m)
  # The assembler takes device text in; the compiler does not see that it depends on it.
  set_property(SOURCE ${GPU_DIR}/text.c PROPERTY OBJECT_DEPENDS "${device};${TENON_EXPRESSIONS}")
  set_property(SOURCE ${GPU_DIR}/text.c APPEND PROPERTY COMPILE_DEFINITIONS "GPU_DEVICE_DIR=\"${GPU_DIR}/device\"")
  set_property(SOURCE ${GPU_DIR}/text.c APPEND PROPERTY COMPILE_DEFINITIONS "GPU_EXPRESSIONS=\"${TENON_EXPRESSIONS}\"")
endfunction()
