//===- NpyTest.cpp - NumPy's array files ----------------------------------===//

#include "attn/Runtime/Npy.h"
#include "attn/Artifact/File.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace attn;

namespace {

/// A file of the given version around a dictionary.
std::string file(StringRef dictionary, StringRef elements, int version = 1) {
  std::string header = dictionary.str() + "\n", bytes = "\x93NUMPY";
  bytes += char(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes += char(header.size() >> (8 * i));
  return bytes + header + elements.str();
}

std::string dictionary(StringRef descr, StringRef shape,
                       StringRef order = "False") {
  return ("{'descr': '" + descr + "', 'fortran_order': " + order +
          ", 'shape': " + shape + ", }")
      .str();
}

HostTensor parse(StringRef bytes) {
  Expected<HostTensor> tensor = parseNpy(bytes, "x.npy");
  if (tensor)
    return std::move(*tensor);
  ADD_FAILURE() << toString(tensor.takeError());
  return HostTensor();
}

std::string errorOf(StringRef bytes) {
  Expected<HostTensor> tensor = parseNpy(bytes, "x.npy");
  return tensor ? "no error" : toString(tensor.takeError());
}

TEST(Npy, ReadsEachVersion) {
  float values[] = {1, 2, 3, 4, 5, 6};
  StringRef elements(reinterpret_cast<char *>(values), sizeof(values));
  for (int version : {1, 2, 3}) {
    HostTensor t = parse(file(dictionary("<f4", "(2, 3)"), elements, version));
    EXPECT_EQ(t.shape(), ArrayRef<int64_t>({2, 3}));
    EXPECT_EQ(t.toDoubles(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(Npy, TurnsFortranOrder) {
  int32_t values[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  StringRef elements(reinterpret_cast<char *>(values), sizeof(values));
  HostTensor t = parse(file(dictionary("<i4", "(2, 3, 2)", "True"), elements));
  // Element (a, b, c) lies at a + 2 b + 6 c.
  EXPECT_EQ(t.toDoubles(),
            (std::vector<double>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
}

TEST(Npy, ReadsOddHeaders) {
  EXPECT_EQ(parse(file(dictionary("|b1", "()"), "\x07")).get(0), 1);
  EXPECT_EQ(parse(file(dictionary("|i1", "(1,)"), "\xff")).get(0), -1);
  EXPECT_EQ(
      parse(file(dictionary("<V2", "(1,)"), StringRef("\x80\x3f", 2))).get(0),
      1.0);
  EXPECT_EQ(parse(file(dictionary("<f8", "(3, 0)"), "")).size(), 0);
  EXPECT_EQ(parse(file("{\"shape\":(2L,),\"descr\":\"|i1\","
                       "\"fortran_order\":False}",
                       "ab"))
                .get(1),
            'b');
}

TEST(Npy, EachFaultHasItsMessage) {
  std::string good = file(dictionary("<f4", "(2,)"), "12345678");
  EXPECT_EQ(errorOf("PK\x03\x04"),
            "'x.npy' is no .npy file: it does not start with \\x93NUMPY");
  for (size_t length : {6, 7, 8, 9, 10, 30})
    EXPECT_EQ(errorOf(StringRef(good).take_front(length)),
              "'x.npy' is truncated inside the header");
  EXPECT_EQ(errorOf(StringRef(good).drop_back()),
            "'x.npy' is truncated: shape 2 takes 8 bytes, got 7");
  EXPECT_EQ(errorOf(good + "x"),
            "'x.npy' is too long: shape 2 takes 8 bytes, got 9");
  EXPECT_EQ(errorOf(file(dictionary("<f4", "(2,)"), "", 9)),
            "'x.npy' has .npy version 9, expected 1, 2 or 3; save it again "
            "with numpy.save");
  for (StringRef descr : {">f4", "<u4", "<c8", "<f16", "|O", "<U3"})
    EXPECT_EQ(errorOf(file(dictionary(descr, "(2,)"), "")),
              ("'x.npy' has element type '" + descr +
               "', expected little-endian f2, f4, f8, i1, i4, i8, b1 or V2 "
               "(bfloat16); convert it with numpy's astype")
                  .str());
  EXPECT_NE(errorOf(file("{'descr': [('a', '<f4')], 'fortran_order': False, "
                         "'shape': (2,)}",
                         ""))
                .find("element type 'record'"),
            std::string::npos);
  EXPECT_NE(errorOf(file(dictionary("<f4", "(9223372036854775807, 4)"), ""))
                .find("more elements than 64 bits can count"),
            std::string::npos);
}

TEST(Npy, BadHeadersDoNotParse) {
  for (StringRef header :
       {"", "{}", "{", "{'descr': '<f4'}",
        "{'descr': '<f4', 'descr': '<f4', "
        "'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': "
        "(99999999999999999999,)}"})
    EXPECT_EQ(errorOf(file(header, "12345678")),
              "'x.npy' has a header that does not parse: expected a dictionary "
              "of 'descr', 'fortran_order' and 'shape'")
        << header.str();
}

TEST(Npy, WhatIsWrittenReadsBack) {
  SmallString<128> folder;
  ASSERT_FALSE(sys::fs::createUniqueDirectory("attn-npy", folder));
  std::string path = (folder + "/t.npy").str();
  for (ElementType type :
       {ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64,
        ElementType::i1, ElementType::i8, ElementType::i32, ElementType::i64})
    for (std::vector<int64_t> shape :
         {std::vector<int64_t>{}, {3}, {2, 0}, {2, 3, 4, 5}}) {
      Expected<HostTensor> t = HostTensor::create(type, shape);
      ASSERT_TRUE(bool(t));
      if (isFloat(type))
        t->fillNormal(1);
      else
        t->fillIntegers(1, 0, 1);
      ASSERT_FALSE(bool(writeNpy(path, *t)));
      Expected<HostTensor> read = readNpy(path);
      ASSERT_TRUE(bool(read)) << toString(read.takeError());
      EXPECT_EQ(read->type(), type);
      EXPECT_EQ(read->shape(), t->shape());
      EXPECT_EQ(StringRef(read->data(), read->bytes()),
                StringRef(t->data(), t->bytes()));
      // numpy asks for elements at a multiple of 64 bytes.
      uint64_t bytes;
      ASSERT_FALSE(sys::fs::file_size(path, bytes));
      EXPECT_EQ((bytes - t->bytes()) % 64, 0u);
    }
  EXPECT_EQ(
      toString(writeNpy((folder + "/none/t.npy").str(), HostTensor())),
      ("cannot write '" + folder + "/none/t.npy': No such file or directory")
          .str());
  sys::fs::remove_directories(folder);
}

} // namespace
