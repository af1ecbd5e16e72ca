# SPDX-License-Identifier: Apache-2.0
# Simulated: CANN's ascendc.cmake. `ascendc_library` compiles each source with the device compiler and links the results.
set(SIMULATED_SOCS ascend910_9391 ascend910_9381 ascend910_9372 ascend910_9392 ascend910_9382 ascend910_9362
    ascend910b1 ascend910b2 ascend910b2c ascend910b3 ascend910b4 ascend910b4-1
    ascend310p1 ascend310p3 ascend310p5 ascend310p7)
string(TOLOWER "${SOC_VERSION}" _soc)
if(NOT _soc IN_LIST SIMULATED_SOCS)
  message(FATAL_ERROR "SOC_VERSION ${SOC_VERSION} is not supported; expected one of ${SIMULATED_SOCS}")
endif()
if(NOT RUN_MODE STREQUAL "npu" OR NOT EXISTS "${ASCEND_CANN_PACKAGE_PATH}/compiler")
  message(FATAL_ERROR "RUN_MODE is '${RUN_MODE}', ASCEND_CANN_PACKAGE_PATH '${ASCEND_CANN_PACKAGE_PATH}'")
endif()
find_program(BISHENG bisheng REQUIRED)

function(ascendc_library target kind)
  set(objects)
  foreach(source IN LISTS ARGN)
    if(NOT EXISTS "${source}")
      message(FATAL_ERROR "ascendc_library ${target}: ${source} does not exist")
    endif()
    get_filename_component(name "${source}" NAME_WE)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.o")
    add_custom_command(OUTPUT "${object}" DEPENDS "${source}"
      COMMAND "${BISHENG}" -c "--cce-soc-version=${SOC_VERSION}" -o "${object}" "${source}")
    list(APPEND objects "${object}")
  endforeach()
  add_library(${target} ${kind} ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()
