# Plugins for the checks of operators: kernels.c is a right backend, operators.c a plugin that keeps its word; each is
# built once as it is and once for every defect. provider.c stands behind other providers.
set(TN_CHECK_KERNEL_DEFECTS tail in_order beyond rounding narrow empty mutates late_decline unsteady in_place overlap claims
    block backward scratch declines missing)
set(TN_CHECK_OPERATOR_DEFECTS meta alias writes silent gradient second version samples)

function(tn_check_variant source name defect)
  tenon_add_plugin(tests_check_${name} NO_INSTALL defects/${source}.c)
  target_link_libraries(tests_check_${name} PRIVATE m)
  if(defect)
    string(TOUPPER ${defect} upper)
    target_compile_definitions(tests_check_${name} PRIVATE DEFECT=DEFECT_${upper})
  endif()
  tn_check_plugin(${name})
  set(TN_CHECK_TARGETS ${TN_CHECK_TARGETS} PARENT_SCOPE)
endfunction()

tn_check_variant(kernels kernels "")
tn_check_variant(operators operators "")
tn_check_variant(provider provider "")
foreach(defect ${TN_CHECK_KERNEL_DEFECTS})
  tn_check_variant(kernels kernels_${defect} ${defect})
endforeach()
foreach(defect ${TN_CHECK_OPERATOR_DEFECTS})
  tn_check_variant(operators operators_${defect} ${defect})
endforeach()
