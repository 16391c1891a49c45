//===- ArgumentsTest.cpp - Inputs from files and seeds --------------------===//

#include "attn/Runtime/Arguments.h"
#include "attn/Runtime/Npy.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace attn;

namespace {

class ArgumentsTest : public ::testing::Test {
protected:
  ArgumentsTest() {
    launch.name = "f";
    launch.arguments.resize(3);
    launch.arguments[0].name = "query";
    launch.arguments[0].shape = {std::string("Sq"), int64_t(2)};
    launch.arguments[1].name = "kv_lengths";
    launch.arguments[1].type = ElementType::i32;
    launch.arguments[1].shape = {int64_t(64)};
    launch.arguments[1].values = {"1", "Sq"};
    launch.arguments[2].name = "output";
    launch.arguments[2].access = Access::Out;
    launch.arguments[2].shape = launch.arguments[0].shape;
  }
  void SetUp() override {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("attn-arguments", folder));
  }
  void TearDown() override { sys::fs::remove_directories(folder); }

  std::string save(StringRef name, ElementType type, ArrayRef<int64_t> shape) {
    Expected<HostTensor> tensor = HostTensor::create(type, shape);
    EXPECT_TRUE(bool(tensor));
    std::string path = (folder + "/" + name).str();
    EXPECT_FALSE(bool(writeNpy(path, *tensor)));
    return path;
  }
  std::string errorOf(const ArgumentSources &sources) {
    auto arguments = makeArguments(launch, sources);
    return arguments ? "no error" : toString(arguments.takeError());
  }

  LaunchDescription launch;
  SmallString<128> folder;
};

TEST_F(ArgumentsTest, SizesComeFromFiles) {
  ArgumentSources sources;
  sources.inputs = {"query=" + save("q.npy", ElementType::f32, {5, 2})};
  sources.seed = 3;
  auto arguments = makeArguments(launch, sources);
  ASSERT_TRUE(bool(arguments)) << toString(arguments.takeError());
  EXPECT_EQ((*arguments)[2].shape(), ArrayRef<int64_t>({5, 2}));
  EXPECT_EQ((*arguments)[2].countPoisoned(), 10);
  for (double length : (*arguments)[1].toDoubles()) {
    EXPECT_GE(length, 1);
    EXPECT_LE(length, 5);
  }
}

TEST_F(ArgumentsTest, EachInputHasItsOwnNumbers) {
  launch.arguments[1] = launch.arguments[0];
  launch.arguments[1].name = "key";
  auto arguments = makeArguments(launch, {{}, {"Sq=4"}, 7});
  ASSERT_TRUE(bool(arguments));
  EXPECT_NE((*arguments)[0].toDoubles(), (*arguments)[1].toDoubles());
}

TEST_F(ArgumentsTest, EachFaultHasItsMessage) {
  std::string q = save("q.npy", ElementType::f32, {5, 2});
  std::string wide = save("wide.npy", ElementType::f64, {5, 2});
  std::string tall = save("tall.npy", ElementType::f32, {5, 3});
  EXPECT_EQ(errorOf({}), "no inputs: give --input=NAME=FILE.npy for 'query', "
                         "'kv_lengths', or --seed=N to make them up");
  EXPECT_EQ(errorOf({{"query=" + q}, {}, {}}),
            "no input for 'kv_lengths': give --input=kv_lengths=FILE.npy, or "
            "--seed=N to make it up");
  EXPECT_EQ(errorOf({{"qwery=" + q}, {}, {}}),
            "kernel 'f' has no input 'qwery'; it has 'query', 'kv_lengths'");
  EXPECT_EQ(errorOf({{"output=" + q}, {}, {}}),
            "kernel 'f' has no input 'output'; it has 'query', 'kv_lengths'");
  EXPECT_EQ(errorOf({{"query=" + q, "query=" + q}, {}, {}}),
            "two files for input 'query': '" + q + "' and '" + q + "'");
  EXPECT_EQ(errorOf({{q, q, q}, {}, {}}),
            "too many files: nothing takes '" + q +
                "'; the inputs are 'query', 'kv_lengths'");
  EXPECT_EQ(errorOf({{wide}, {}, 1}), "argument 'query': expected f32, '" +
                                          wide +
                                          "' holds f64; convert it with "
                                          "numpy's astype");
  EXPECT_EQ(errorOf({{tall}, {}, 1}),
            "argument 'query': expected shape Sqx2, got 5x3 from '" + tall +
                "'");
  EXPECT_EQ(errorOf({{}, {}, 1}), "argument 'query': size Sq of shape Sqx2 is "
                                  "not known; give --size=NAME=NUMBER");
  EXPECT_EQ(errorOf({{}, {"Sq=-1"}, 1}),
            "expected --size=NAME=NUMBER, got 'Sq=-1'");
  EXPECT_EQ(errorOf({{}, {"D=1"}, 1}),
            "kernel 'f' has no open size 'D'; it has Sq");
  EXPECT_EQ(errorOf({{q}, {"Sq=4"}, 1}),
            "argument 'query' of shape 5x2 makes Sq 5, but it is 4 already; "
            "give arguments that agree from '" +
                q + "'");
}

TEST_F(ArgumentsTest, OutputFiles) {
  auto files = assignOutputFiles(launch, {std::string("a=b/o.npy")});
  ASSERT_FALSE(bool(files));
  EXPECT_EQ(toString(files.takeError()),
            "kernel 'f' has no output 'a'; it has 'output'");
  files = assignOutputFiles(launch, {std::string("a/b=o.npy")});
  ASSERT_TRUE(bool(files));
  EXPECT_EQ((*files)[2], "a/b=o.npy");
}

} // namespace
