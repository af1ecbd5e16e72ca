# SPDX-License-Identifier: Apache-2.0
# Simulated: the package that installs itself, which CPack's External generator is told to make. A shell script with an
# archive behind it, in the folder `output` beside the build folder.
set(_output "${CPACK_PACKAGE_DIRECTORY}/../output")
file(MAKE_DIRECTORY "${_output}")
execute_process(COMMAND bash "${CMAKE_CURRENT_LIST_DIR}/util/package.sh" "${CPACK_TEMPORARY_DIRECTORY}"
  "${_output}/${CPACK_PACKAGE_FILE_NAME}" RESULT_VARIABLE _failed)
if(_failed)
  message(FATAL_ERROR "the package could not be made")
endif()
file(COPY "${_output}/${CPACK_PACKAGE_FILE_NAME}" DESTINATION "${CPACK_TEMPORARY_DIRECTORY}")
