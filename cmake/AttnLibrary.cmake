# The headers that most translation units read, compiled once. They are stable
# (MLIR's and the standard library's, none of this project) and every user has
# the same flags.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/AttnPrecompiled.cpp" CONTENT "")
add_library(AttnPrecompiled OBJECT "${CMAKE_BINARY_DIR}/AttnPrecompiled.cpp")
target_precompile_headers(AttnPrecompiled PRIVATE
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/GPU/IR/GPUDialect.h> <mlir/Dialect/LLVMIR/NVVMDialect.h>
  <mlir/Dialect/Math/IR/Math.h> <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h> <mlir/Dialect/SPIRV/IR/SPIRVOps.h>
  <mlir/Dialect/Tensor/IR/Tensor.h> <mlir/Dialect/Vector/IR/VectorOps.h>
  <mlir/IR/PatternMatch.h> <mlir/Pass/PassManager.h> <llvm/Support/JSON.h>)

# attn_precompile(NAME libraries...): read them in this target's sources, unless
# all it uses is free of MLIR.
function(attn_precompile name)
  set(libraries ${ARGN})
  list(REMOVE_ITEM libraries AttnArtifact AttnRuntime LLVM ${CMAKE_DL_LIBS})
  if(libraries)
    target_precompile_headers(${name} REUSE_FROM AttnPrecompiled)
  endif()
endfunction()

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
  attn_precompile(${name} ${ARG_LINK})
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
  attn_precompile(${name} ${ARG_LINK})
  install(TARGETS ${name} RUNTIME DESTINATION bin)
  # What `make demo` builds: all that a user runs, and no test.
  if(NOT TARGET attn-tools)
    add_custom_target(attn-tools)
  endif()
  add_dependencies(attn-tools ${name})
endfunction()

# attn_add_unit_test(NAME sources... [LINK libraries...])
#
# A GoogleTest program; ctest knows each of its tests by name. A suite *Long or
# a case Long* runs by `make test-long` only.
function(attn_add_unit_test name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest_main)
  attn_precompile(${name} ${ARG_LINK})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test/unit")
  gtest_discover_tests(${name} TEST_FILTER "-*Long.*:*.Long*"
    DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit)
  gtest_discover_tests(${name} TEST_FILTER "*Long.*:*.Long*"
    DISCOVERY_TIMEOUT 60 TEST_LIST ${name}_LONG_TESTS PROPERTIES LABELS long)
endfunction()
