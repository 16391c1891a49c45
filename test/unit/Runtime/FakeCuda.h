//===- FakeCuda.h - A driver without a GPU ----------------------*- C++ -*-===//
//
// A shared library with the entry points of libcuda.so.1 that the runtime uses.
// Device memory is the host's, a launch calls a function of the test's, and
// what came in is kept for the test to look at.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_RUNTIME_FAKECUDA_H
#define ATTN_TEST_UNIT_RUNTIME_FAKECUDA_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct FakeTensorMap {
  int type, interleave, swizzle, promotion, fill;
  uint64_t base;
  std::vector<uint64_t> sizes, strides;
  std::vector<uint32_t> box, steps;
};

struct FakeLaunch {
  std::string entry;
  unsigned grid[3], workgroup[3], sharedBytes;
};

struct FakeCuda {
  // What the test sets.
  /// The result of an entry point, by its name.
  std::map<std::string, int> results;
  /// Compute capabilities, one a GPU.
  std::vector<int> gpus = {90};
  std::string jitLog;
  /// What a launch does; gets the parameters that cuLaunchKernel got.
  void (*kernel)(void **parameters) = nullptr;

  // What the test reads.
  std::vector<std::string> images;
  std::vector<FakeTensorMap> maps;
  std::vector<FakeLaunch> launches;
  std::map<int, int> functionAttributes;
  int allocations = 0, modules = 0, contexts = 0, streams = 0, events = 0;
  int memsets = 0;
  /// Milliseconds between two events.
  float elapsed = 2.0f;
};

/// The state of the fake; found by this name in the library.
extern "C" FakeCuda *fakeCuda();

#endif // ATTN_TEST_UNIT_RUNTIME_FAKECUDA_H
