# attn_add_library(NAME sources... [DEPENDS targets...] [LINK libraries...])
#
# A static library of this project. LINK names what the layer may use: other
# attn layers, and the shared libraries MLIR and LLVM. Component libraries such
# as MLIRIR are never named: they would be linked statically beside the shared
# one, and every registry would exist twice.
function(attn_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:include>)
  set_property(GLOBAL APPEND PROPERTY ATTN_LIBRARIES ${name})
endfunction()

# attn_add_tool(NAME sources... [LINK libraries...])
function(attn_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# attn_add_unit_test(NAME sources... [LINK libraries...])
#
# A GoogleTest program; ctest knows each of its tests by name. A test named
# Long.* runs by `make test-long` only.
function(attn_add_unit_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/unit")
  gtest_discover_tests(${name} TEST_FILTER "-*Long.*" DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS unit)
  gtest_discover_tests(${name} TEST_FILTER "*Long.*" DISCOVERY_TIMEOUT 60
    TEST_LIST ${name}_LONG_TESTS PROPERTIES LABELS long)
endfunction()
