//===- ArtifactTest.cpp - The artifact on disk ----------------------------===//

#include "attn/Artifact/Artifact.h"
#include "attn/Artifact/File.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace attn;

namespace {

LaunchDescription sample() {
  LaunchDescription d;
  d.format = "ptx";
  d.name = "attention";
  d.entry = "attention_kernel";
  d.target = "sm_90a";
  d.triple = "nvptx64-nvidia-cuda";
  d.arch = "sm_90a";
  d.features = "+ptx80";
  d.abi = "memref-parameters";
  ArgumentDescription query;
  query.name = "query";
  query.type = ElementType::bf16;
  query.shape = {int64_t(1), std::string("Hq"), std::string("Sq"), int64_t(64)};
  query.strides = {kAnyStride, 64, 512, 1};
  query.offset = 16;
  ArgumentDescription lengths;
  lengths.name = "kv_lengths";
  lengths.type = ElementType::i32;
  lengths.shape = {int64_t(1)};
  lengths.values = {"0", "Skv"};
  ArgumentDescription output;
  output.name = "output";
  output.shape = query.shape;
  output.access = Access::Out;
  d.arguments = {query, lengths, output};
  d.tensorMaps = {{0, {1, 1, 128, 64}, 128}};
  d.grid = {"ceildiv(Sq, 64)", "Hq", "1"};
  d.workgroup = {"128", "1", "1"};
  d.sharedMemoryBytes = "49152";
  d.workspaceBytes = "4*Sq";
  d.flops = "4*Hq*Sq*Sq*64";
  return d;
}

LaunchDescription vulkanSample() {
  using Field = ScalarDescription::Field;
  LaunchDescription d = sample();
  d.format = "spv";
  d.features = "Float16,StorageBuffer16BitAccess";
  d.abi = "vulkan-buffers";
  d.tensorMaps.clear();
  d.environment = "vulkan1.1";
  d.scalars = {
      {0, Field::Size, 2}, {0, Field::Stride, 1}, {2, Field::Offset, 0}};
  d.scalarsIn = ScalarsIn::Buffer;
  d.subgroupSize = 32;
  return d;
}

std::string errorOf(StringRef text) {
  Expected<LaunchDescription> d = LaunchDescription::fromJSON(text, "x.json");
  return d ? "no error" : toString(d.takeError());
}

/// The sample with the first `from` replaced.
std::string sampleWith(StringRef from, StringRef to,
                       LaunchDescription description = sample()) {
  std::string text = description.toJSON();
  size_t position = text.find(from.str());
  EXPECT_NE(position, std::string::npos) << from.str();
  return text.replace(position, from.size(), to.str());
}

TEST(LaunchDescription, SurvivesTheRoundTrip) {
  std::string text = sample().toJSON();
  Expected<LaunchDescription> read = LaunchDescription::fromJSON(text, "x");
  ASSERT_TRUE(bool(read)) << toString(read.takeError());
  EXPECT_EQ(read->toJSON(), text);
  EXPECT_EQ(read->arguments[0].shape, sample().arguments[0].shape);
  EXPECT_EQ(read->arguments[0].strides, sample().arguments[0].strides);
  EXPECT_EQ(read->arguments[0].offset, 16);
  EXPECT_EQ(read->arguments[2].access, Access::Out);
  ASSERT_EQ(read->tensorMaps.size(), 1u);
  EXPECT_EQ(read->tensorMaps[0].argument, 0);
  EXPECT_EQ(read->tensorMaps[0].box, (std::vector<int64_t>{1, 1, 128, 64}));
  EXPECT_EQ(read->tensorMaps[0].swizzle, 128);
}

TEST(LaunchDescription, SeveralKernelsSurviveTheRoundTrip) {
  LaunchDescription d = sample();
  KernelLaunch &next = d.then.emplace_back();
  next.entry = "second";
  next.tensorMaps = {{2, {1, 1, 64, 64}, 64}};
  next.grid[0] = "ceildiv(Sq, 32)";
  next.sharedMemoryBytes = "1024";
  KernelLaunch &other = d.otherwise.emplace_back();
  other.entry = "fallback";
  other.grid[0] = "Sq";
  std::string text = d.toJSON();
  Expected<LaunchDescription> read = LaunchDescription::fromJSON(text, "x");
  ASSERT_TRUE(bool(read)) << toString(read.takeError());
  EXPECT_EQ(read->toJSON(), text);
  ASSERT_EQ(read->otherwise.size(), 1u);
  EXPECT_EQ(read->otherwise[0].entry, "fallback");
  EXPECT_EQ(read->otherwise[0].grid[0], "Sq");
  EXPECT_EQ(errorOf(sampleWith("\"fallback\"", "2", d)),
            "launch description 'x.json' kernel 2 expected 'entry' to be a "
            "string, got 2");
  ASSERT_EQ(read->then.size(), 1u);
  EXPECT_EQ(read->then[0].entry, "second");
  EXPECT_EQ(read->then[0].grid[0], "ceildiv(Sq, 32)");
  EXPECT_EQ(read->then[0].tensorMaps[0].argument, 2);
  EXPECT_EQ(errorOf(sampleWith("\"second\"", "2", d)),
            "launch description 'x.json' kernel 1 expected 'entry' to be a "
            "string, got 2");
  EXPECT_EQ(errorOf(sampleWith("\"ceildiv(Sq, 32)\",", "", d)),
            "launch description 'x.json' kernel 1 expected 'grid' to be 3 "
            "strings, got [\"1\",\"1\"]");
}

TEST(LaunchDescription, VulkanSurvivesTheRoundTrip) {
  std::string text = vulkanSample().toJSON();
  Expected<LaunchDescription> read = LaunchDescription::fromJSON(text, "x");
  ASSERT_TRUE(bool(read)) << toString(read.takeError());
  EXPECT_EQ(read->toJSON(), text);
  EXPECT_EQ(read->environment, "vulkan1.1");
  EXPECT_EQ(read->features, "Float16,StorageBuffer16BitAccess");
  EXPECT_EQ(read->scalarsIn, ScalarsIn::Buffer);
  EXPECT_EQ(read->subgroupSize, 32);
  ASSERT_EQ(read->scalars.size(), 3u);
  EXPECT_EQ(read->scalars[1].argument, 0);
  EXPECT_EQ(read->scalars[1].field, ScalarDescription::Field::Stride);
  EXPECT_EQ(read->scalars[1].dimension, 1);
  EXPECT_EQ(read->scalars[2].argument, 2);
  EXPECT_EQ(read->scalars[2].field, ScalarDescription::Field::Offset);
}

TEST(LaunchDescription, OpenCLSurvivesTheRoundTrip) {
  LaunchDescription d = vulkanSample();
  d.abi = "opencl-arguments";
  d.environment = "opencl2.1";
  d.scalarsIn = ScalarsIn::Arguments;
  std::string text = d.toJSON();
  Expected<LaunchDescription> read = LaunchDescription::fromJSON(text, "x");
  ASSERT_TRUE(bool(read)) << toString(read.takeError());
  EXPECT_EQ(read->toJSON(), text);
  EXPECT_EQ(read->scalarsIn, ScalarsIn::Arguments);
  EXPECT_EQ(errorOf(sampleWith("\"arguments\",", "\"buffer\",", d)),
            "launch description 'x.json' expected 'scalars_in' to be "
            "arguments, got 'buffer'");
}

TEST(LaunchDescription, NamesWhatIsWrongForVulkan) {
  auto errorWith = [](StringRef from, StringRef to) {
    return errorOf(sampleWith(from, to, vulkanSample()));
  };
  // JSON keeps no order, so any of the four may be the first.
  EXPECT_NE(errorWith("\"vulkan-buffers\"", "\"memref-parameters\"")
                .find("has an unknown field"),
            std::string::npos);
  EXPECT_EQ(errorWith("\"environment\"", "\"environ\""),
            "launch description 'x.json' has no 'environment', expected a "
            "string");
  EXPECT_EQ(errorWith("\"argument\": 2", "\"argument\": 3"),
            "launch description 'x.json' scalar 2 names argument 3 of 3");
  EXPECT_EQ(errorWith("\"dimension\": 1", "\"dimension\": 4"),
            "launch description 'x.json' scalar 1 names dimension 4 of 4");
  EXPECT_EQ(errorWith("\"stride\"", "\"pitch\""),
            "launch description 'x.json' scalar 1 expected 'field' to be size, "
            "stride or offset, got 'pitch'");
  EXPECT_EQ(errorWith("\"offset\"\n", "\"offset\", \"dimension\": 0\n"),
            "launch description 'x.json' scalar 2 has an unknown field "
            "'dimension'");
  EXPECT_EQ(
      errorWith("\"scalars_in\": \"buffer\"", "\"scalars_in\": \"image\""),
      "launch description 'x.json' expected 'scalars_in' to be "
      "push_constants or buffer, got 'image'");
  EXPECT_EQ(errorWith("\"subgroup_size\": 32", "\"subgroup_size\": -1"),
            "launch description 'x.json' expected 'subgroup_size' to be a "
            "number of 0 or more, got -1");
}

TEST(LaunchDescription, EveryTruncationIsAnError) {
  std::string text = sample().toJSON();
  // The last character is the newline after the closing brace.
  for (size_t length = 0; length + 1 < text.size(); ++length) {
    std::string error = errorOf(StringRef(text).take_front(length));
    ASSERT_NE(error.find("is no complete JSON text"), std::string::npos)
        << length << ": " << error;
    ASSERT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(LaunchDescription, NamesWhatIsWrong) {
  EXPECT_EQ(errorOf("[]"), "launch description 'x.json' is no JSON object");
  EXPECT_EQ(errorOf("{}"), "launch description 'x.json' has no 'version'");
  EXPECT_EQ(errorOf(sampleWith("\"version\": 1", "\"version\": 7")),
            "launch description 'x.json' has version 7, expected 1; compile "
            "the kernel again");
  EXPECT_EQ(errorOf(sampleWith("\"entry\"", "\"entri\"")),
            "launch description 'x.json' has no 'entry', expected a string");
  EXPECT_EQ(errorOf(sampleWith("\"version\": 1", "\"version\": 1, \"a\": 2")),
            "launch description 'x.json' has an unknown field 'a'");
  EXPECT_EQ(errorOf(sampleWith("\"bf16\"", "\"bf17\"")),
            "launch description 'x.json' argument 0 has the unknown element "
            "type 'bf17'");
  EXPECT_EQ(errorOf(sampleWith("\"in\"", "\"both\"")),
            "launch description 'x.json' argument 0 expected 'access' to be "
            "in, out or inout, got 'both'");
  EXPECT_EQ(errorOf(sampleWith("\"Hq\",\n        \"Sq\"", "-3, \"Sq\"")),
            "launch description 'x.json' argument 0 expected 'shape' to be a "
            "list of sizes and size names, got -3");
  EXPECT_EQ(errorOf(sampleWith("\"49152\"", "49152")),
            "launch description 'x.json' expected 'shared_memory_bytes' to be "
            "a string, got 49152");
  EXPECT_EQ(errorOf(sampleWith("\"argument\": 0", "\"argument\": 3")),
            "launch description 'x.json' tensor map 0 names argument 3 of 3");
  EXPECT_EQ(errorOf(sampleWith("\"argument\": 0", "\"argument\": 1")),
            "launch description 'x.json' tensor map 0 has a box of 4 sizes, "
            "but its argument has 1");
}

TEST(LaunchDescription, BindsShapesToNames) {
  LaunchDescription d = sample();
  SizeMap sizes;
  EXPECT_FALSE(bool(d.bindShape(0, {1, 8, 100, 64}, sizes)));
  EXPECT_EQ(sizes["Hq"], 8);
  EXPECT_EQ(sizes["Sq"], 100);
  Expected<std::vector<int64_t>> output = d.shapeOf(2, sizes);
  ASSERT_TRUE(bool(output));
  EXPECT_EQ(*output, (std::vector<int64_t>{1, 8, 100, 64}));
  EXPECT_EQ(toString(d.bindShape(0, {2, 8, 100, 64}, sizes)),
            "argument 'query': expected shape 1xHqxSqx64, got 2x8x100x64");
  EXPECT_EQ(toString(d.bindShape(2, {1, 8, 101, 64}, sizes)),
            "argument 'output' of shape 1x8x101x64 makes Sq 101, but it is 100 "
            "already; give arguments that agree");
  EXPECT_EQ(toString(d.shapeOf(2, {}).takeError()),
            "argument 'output': size Hq of shape 1xHqxSqx64 is not known");
}

class ArtifactFiles : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("attn-artifact", folder));
  }
  void TearDown() override { sys::fs::remove_directories(folder); }
  std::string path(StringRef name) {
    SmallString<128> joined(folder);
    sys::path::append(joined, name);
    return joined.str().str();
  }
  SmallString<128> folder;
};

TEST_F(ArtifactFiles, SaveAndLoad) {
  Artifact artifact{sample(), std::string("co\0de", 5)};
  ASSERT_FALSE(bool(artifact.save(path("kernel"))));
  Expected<Artifact> read = Artifact::load(path("kernel"));
  ASSERT_TRUE(bool(read)) << toString(read.takeError());
  EXPECT_EQ(read->code, artifact.code);
  EXPECT_EQ(read->launch.toJSON(), artifact.launch.toJSON());

  // Nothing but the two files is left behind.
  std::error_code error;
  int files = 0;
  for (sys::fs::directory_iterator it(folder, error), end; it != end;
       it.increment(error))
    ++files;
  EXPECT_EQ(files, 2);
}

TEST_F(ArtifactFiles, MissingFilesAndFolders) {
  std::string error = toString(Artifact::load(path("none")).takeError());
  EXPECT_EQ(error,
            "cannot read '" + path("none") + "': No such file or directory");
  error = toString(Artifact{sample(), ""}.save(path("no/such")));
  EXPECT_EQ(error, "cannot write '" + path("no/such") +
                       "': No such file or directory");
}

TEST_F(ArtifactFiles, DevicesAreWrittenInPlace) {
  ASSERT_FALSE(bool(writeFile("/dev/null", {StringRef("x")})));
  sys::fs::file_status status;
  ASSERT_FALSE(sys::fs::status("/dev/null", status));
  EXPECT_EQ(status.type(), sys::fs::file_type::character_file);
}

} // namespace
