//===- CpuKernelTest.cpp - Compiled kernels against the oracle ------------===//
//
// Random problems go all the way: through the compiler to an object, into this
// process, onto random data with poisoned outputs, and against the oracle. Each
// kernel runs again, and on one and three threads, and must give the same bits.
//
// A failure prints its seed: ATTN_TEST_SEED=... runs that problem first, for
// each target. ATTN_TEST_COUNT=... sets the number of problems, ATTN_TEST_SAVE=
// names a folder that failing modules and their inputs are written to, with
// the command line of attn-run that repeats them.
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/Cpu/CpuKernel.h"
#include "CaseTensors.h"
#include "Provocation.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Runtime/Npy.h"
#include "attn/Target/KnownTargets.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include "gtest/gtest.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace attn;
using namespace mlir;

namespace {

/// Segments, mask, mask_mod, and keys of no length: false leaves them out.
constexpr bool kLowersElementMasksAndNoKeys = true;

constexpr int kMostFailures = 20;

CaseRange shortRange() {
  static constexpr int64_t lengths[] = {1,  2,  3,  5,   7,   17,  31, 33,
                                        63, 65, 97, 113, 129, 203, 257};
  static constexpr int64_t depths[] = {1,  2,  8,  16, 24, 40,  48,
                                       59, 64, 72, 80, 96, 111, 128};
  static constexpr int64_t ratios[] = {1, 1, 2, 3, 4, 5, 6, 7, 8};
  CaseRange range;
  range.lengths = lengths;
  range.depths = depths;
  range.ratios = ratios;
  range.mostWork = 50'000'000;
  range.statedTilings = 0.1;
  static constexpr const char *softmaxes[] = {"exact", "stale"};
  range.softmaxes = softmaxes;
  range.hasElementMasks = range.hasNoKeys = kLowersElementMasksAndNoKeys;
  return range;
}

CaseRange longRange() {
  static constexpr int64_t lengths[] = {1,   2,   3,   5,   7,    17,
                                        31,  33,  63,  65,  97,   113,
                                        129, 203, 257, 799, 1023, 1025};
  static constexpr int64_t depths[] = {1,   2,   8,   16,  24,  40,
                                       48,  59,  64,  72,  80,  96,
                                       111, 128, 160, 192, 256, 512};
  CaseRange range = shortRange();
  range.lengths = lengths;
  range.depths = depths;
  range.mostWork = 2'000'000'000;
  return range;
}

/// How many threads the following kernels run on; false when the OpenMP
/// runtime cannot be told.
bool setThreads(int count) {
  auto set = reinterpret_cast<void (*)(int)>(
      dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set)
    set(count);
  return set;
}

class CpuKernels : public ::testing::TestWithParam<const char *> {
protected:
  CpuKernels() {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }
  static void SetUpTestSuite() { llvm::EnablePrettyStackTrace(); }
  void SetUp() override;

  /// Runs one problem and says in one line what is wrong with it, or nothing.
  std::string check(const CheckedCase &checked,
                    std::vector<HostTensor> &tensors, double slack = 1);
  std::string checkProvoked(uint64_t seed, AttentionCase c, double slack = 1,
                            bool saves = false);
  std::string save(uint64_t seed, const AttentionCase &c,
                   llvm::ArrayRef<HostTensor> tensors);
  void checkMany(uint64_t seed, int64_t count, const CaseRange &range);

  MLIRContext context;
};

/// The host runs its own code; of the known targets, those that it can.
void CpuKernels::SetUp() {
  llvm::Expected<TargetDescription> target = lookupTarget(GetParam());
  ASSERT_TRUE(bool(target)) << llvm::toString(target.takeError());
  LaunchDescription launch;
  launch.name = launch.target = target->name;
  launch.triple = llvm::sys::getProcessTriple();
  launch.arch = target->arch;
  launch.features = target->features;
  if (llvm::Error error = checkHostRuns(launch)) {
    std::string text = llvm::toString(std::move(error));
    ASSERT_NE(llvm::StringRef(GetParam()), "cpu") << text;
    GTEST_SKIP() << text;
  }
}

std::string CpuKernels::check(const CheckedCase &checked,
                              std::vector<HostTensor> &tensors, double slack) {
  const AttentionCase &c = checked.problem;
  std::vector<const CaseOperand *> operands = argumentsOf(c);
  for (const CaseOperand *operand : operands) {
    auto tensor = toTensor(typeOf(*operand), operand->data);
    if (!tensor)
      return llvm::toString(tensor.takeError());
    tensors.push_back(std::move(*tensor));
  }
  llvm::Expected<Artifact> artifact =
      compile(*checked.module, {GetParam(), ""});
  if (!artifact)
    return "does not compile: " + llvm::toString(artifact.takeError());
  if (artifact->launch.arguments.size() != operands.size())
    return "takes another number of arguments";
  stateDistances(c, *artifact);
  auto kernel = loadKernel(*artifact);
  if (!kernel)
    return llvm::toString(kernel.takeError());

  size_t firstOut = operands.size() - c.outs.size();
  std::vector<std::vector<char>> before, first;
  for (const HostTensor &tensor : tensors)
    before.push_back(bytesOf(tensor));
  // The second run is as the first; 0 leaves the number of threads.
  for (int threads : {0, 0, 1, 3}) {
    // A kernel of no task needs no threads, and its runtime may not be there.
    if (threads && !setThreads(threads) && c.shape.batch != 0 &&
        c.shape.queryHeads != 0 && c.shape.queryLength != 0)
      return "the OpenMP runtime has no omp_set_num_threads";
    for (HostTensor &out : llvm::MutableArrayRef(tensors).drop_front(firstOut))
      out.poison();
    if (llvm::Error error = (*kernel)->launch(tensors))
      return llvm::toString(std::move(error));
    for (size_t a = firstOut; a < tensors.size(); ++a) {
      if (int64_t unwritten = tensors[a].countPoisoned())
        return operands[a]->name + ": " + std::to_string(unwritten) +
               " elements were not written";
      if (first.size() < c.outs.size())
        first.push_back(bytesOf(tensors[a]));
      else if (first[a - firstOut] != bytesOf(tensors[a]))
        return operands[a]->name + " differs between runs" +
               (threads ? ", with " + std::to_string(threads) + " threads"
                        : std::string());
    }
  }
  for (size_t a = 0; a < firstOut; ++a)
    if (bytesOf(tensors[a]) != before[a])
      return operands[a]->name + " was changed";
  return checked.compare(toArray(tensors[firstOut]), toArray(tensors.back()),
                         slack);
}

/// The command that repeats the problem, once its files are written.
std::string CpuKernels::save(uint64_t seed, const AttentionCase &c,
                             llvm::ArrayRef<HostTensor> tensors) {
  const char *folder = std::getenv("ATTN_TEST_SAVE");
  if (!folder)
    return "";
  std::string target = GetParam();
  std::replace(target.begin(), target.end(), ':', '-');
  std::string base =
      std::string(folder) + "/" + target + "-" + std::to_string(seed);
  std::string command = "attn-run " + base + ".mlir --target=" + GetParam();
  std::error_code code = llvm::sys::fs::create_directories(folder);
  llvm::raw_fd_ostream file(base + ".mlir", code);
  file << c.text();
  size_t inputs = c.operands.size() + c.captures.size();
  for (auto [index, tensor] : llvm::enumerate(tensors.take_front(inputs))) {
    std::string path = base + "-" + std::to_string(index) + ".npy";
    if (llvm::Error error = writeNpy(path, tensor))
      return llvm::toString(std::move(error));
    command += " --input=" + path;
  }
  return command;
}

void CpuKernels::checkMany(uint64_t seed, int64_t count,
                           const CaseRange &range) {
  int failures = 0;
  for (int64_t n = 0; n < count && failures < kMostFailures; ++n, ++seed) {
    CaseGenerator generator(seed, range);
    std::mt19937_64 random(seed * 7919 + 1);
    AttentionCase c = generator.next();
    std::string name = "ATTN_TEST_SEED=" + std::to_string(seed) +
                       " --target=" + GetParam() + "\n" + c.text();
    // What a crash prints.
    llvm::PrettyStackTraceString onCrash(name.c_str());
    std::vector<HostTensor> tensors;
    std::string problem;
    auto checked =
        CheckedCase::create(std::move(c), context, random, 20'000'000);
    if (checked)
      problem = check(*checked, tensors);
    else
      problem = "no oracle: " + llvm::toString(checked.takeError());
    if (problem.empty())
      continue;
    ++failures;
    ADD_FAILURE() << problem << "\n"
                  << name
                  << (checked ? save(seed, checked->problem, tensors) : "");
  }
}

TEST_P(CpuKernels, RandomProblems) {
  checkMany(firstSeed(), problemCount(25), shortRange());
}

TEST_P(CpuKernels, LongRandomProblems) {
  checkMany(firstSeed(), problemCount(600), longRange());
}

std::string CpuKernels::checkProvoked(uint64_t seed, AttentionCase c,
                                      double slack, bool saves) {
  std::mt19937_64 random(seed * 7919 + 1);
  std::string names = provoke(c, random);
  std::string text = c.text();
  std::vector<HostTensor> tensors;
  auto checked = CheckedCase::create(std::move(c), context, random, 20'000'000);
  if (!checked)
    return "no oracle: " + llvm::toString(checked.takeError());
  std::string problem = check(*checked, tensors, slack);
  if (problem.empty() || !saves)
    return problem;
  return problem + "\nATTN_TEST_SEED=" + std::to_string(seed) +
         " --target=" + GetParam() + names + "\n" + text +
         save(seed, checked->problem, tensors);
}

/// Small key blocks, so that a stale reference is kept, and left behind, often.
/// But not of a few keys: equal probabilities that are no power of two round
/// alike when they are added one by one, which f64 shows (docs/Rationale.md).
TEST_P(CpuKernels, ProvokedReferences) {
  TargetDescription target = *lookupTarget(GetParam());
  const char *product = target.has("amx-bf16")     ? "amx"
                        : target.has("avx512bf16") ? "dot"
                                                   : "fma";
  int64_t count = problemCount(40), beyond = 0;
  uint64_t seed = firstSeed();
  for (int64_t n = 0; n < count && !HasFailure(); ++n, ++seed) {
    CaseRange range = shortRange();
    range.statedTilings = 1;
    AttentionCase c = CaseGenerator(seed, range).next();
    c.softmax = "stale";
    c.blockKey = 16 << seed % 3;
    if (c.element == "bf16" && seed % 4 != 0) {
      c.product = product;
      c.blockKey = std::max<int64_t>(c.blockKey, 32); // as the planner has them
    }
    if (checkProvoked(seed, c).empty())
      continue;
    ++beyond;
    AttentionCase exact = c;
    exact.softmax = "exact";
    if (!checkProvoked(seed, exact).empty())
      continue;
    std::string problem = checkProvoked(seed, c, kProvokedSlack, true);
    if (!problem.empty())
      ADD_FAILURE() << problem;
  }
  EXPECT_LE(beyond, mostBeyond(count));
}

/// Tables that hold what visible pairs read and no more, at both ends of a
/// page: %place says where. No visible pair divides by 0.
constexpr llvm::StringLiteral kTablesInPages = R"(
func.func @f(%q: memref<1x2x40x8xf32>, %k: memref<1x2x40x8xf32>, %v: memref<1x2x40x8xf32>,
             %pages: memref<?xf32>, %place: memref<2xi64>, %o: memref<1x2x40x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = memref.load %place[%c0] : memref<2xi64>
  %last = memref.load %place[%c1] : memref<2xi64>
  %x = arith.index_cast %first : i64 to index
  %y = arith.index_cast %last : i64 to index
  %low = memref.subview %pages[%x] [13] [1] : memref<?xf32> to memref<13xf32, strided<[1], offset: ?>>
  %high = memref.subview %pages[%y] [13] [1] : memref<?xf32> to memref<13xf32, strided<[1], offset: ?>>
  %rows = memref.subview %pages[%x] [37] [1] : memref<?xf32> to memref<37xf32, strided<[1], offset: ?>>
  attn.attention %q, %k, %v window(5, 7) outs(%o : memref<1x2x40x8xf32>)
    captures(%low, %high, %rows : memref<13xf32, strided<[1], offset: ?>>,
      memref<13xf32, strided<[1], offset: ?>>, memref<37xf32, strided<[1], offset: ?>>)
    score_mod(%s, %b, %h, %i, %j, %l, %g, %t) {
      %five = arith.constant 5 : index
      %three = arith.constant 3 : index
      %d = arith.subi %j, %i : index
      %p = arith.addi %d, %five : index
      %n = arith.subi %i, %three : index
      %e = memref.load %l[%p] : memref<13xf32, strided<[1], offset: ?>>
      %f = memref.load %g[%p] : memref<13xf32, strided<[1], offset: ?>>
      %r = memref.load %t[%n] : memref<37xf32, strided<[1], offset: ?>>
      %one = arith.constant 1 : index
      %distance = arith.addi %p, %one : index
      %quotient = arith.divsi %i, %distance : index
      %w = arith.index_cast %quotient : index to i32
      %z = arith.sitofp %w : i32 to f32
      %s1 = arith.addf %s, %e : f32
      %s2 = arith.addf %s1, %f : f32
      %s3 = arith.addf %s2, %r : f32
      %s4 = arith.addf %s3, %z : f32
      attn.yield %s4 : f32
    } mask_mod(%b, %h, %i, %j, %l, %g, %t) {
      %three = arith.constant 3 : index
      %isSeen = arith.cmpi uge, %i, %three : index
      attn.yield %isSeen : i1
    } : memref<1x2x40x8xf32>, memref<1x2x40x8xf32>, memref<1x2x40x8xf32>
  return
}
)";

TEST_P(CpuKernels, HiddenPairsReadNothingBesideCaptures) {
  auto module = parseSourceString<ModuleOp>(kTablesInPages, &context);
  ASSERT_TRUE(module);
  llvm::Expected<Artifact> artifact = compile(*module, {GetParam(), ""});
  ASSERT_TRUE(bool(artifact)) << llvm::toString(artifact.takeError());
  auto kernel = loadKernel(*artifact);
  ASSERT_TRUE(bool(kernel)) << llvm::toString(kernel.takeError());

  const int64_t page = sysconf(_SC_PAGESIZE), perPage = page / sizeof(float);
  std::vector<HostTensor> tensors;
  for (const ArgumentDescription &argument : artifact->launch.arguments) {
    SmallVector<int64_t> shape;
    for (const Dimension &size : argument.shape)
      shape.push_back(size.isDynamic() ? 4 * perPage : size.size);
    tensors.push_back(llvm::cantFail(HostTensor::create(argument.type, shape)));
    tensors.back().fillNormal(tensors.size());
  }
  HostTensor &pages = tensors[3], &output = tensors[5];
  auto *begin = reinterpret_cast<float *>(pages.data());
  // A page with another one in front of it and behind it.
  auto *middle = reinterpret_cast<float *>(
      (reinterpret_cast<uintptr_t>(begin) + 2 * page - 1) / page * page);
  tensors[4].set(0, middle - begin);
  tensors[4].set(1, middle - begin + perPage - 13);
  output.poison();
  auto protect = [&](int how) {
    return mprotect(middle - perPage, page, how) == 0 &&
           mprotect(middle + perPage, page, how) == 0;
  };
  ASSERT_TRUE(protect(PROT_NONE));
  llvm::Error error = (*kernel)->launch(tensors);
  ASSERT_TRUE(protect(PROT_READ | PROT_WRITE));
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  EXPECT_EQ(output.countPoisoned(), 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuKernels,
#if defined(__x86_64__)
                         ::testing::Values("cpu", "cpu:avx2", "cpu:avx512",
                                           "cpu:amx", "cpu:avx512-bf16"),
#else
    ::testing::Values("cpu", "cpu:neon", "cpu:neon-bf16"),
#endif
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
