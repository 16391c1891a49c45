//===- HostTensorTest.cpp - Conversions, fills and poison -----------------===//

#include "attn/Runtime/HostTensor.h"
#include "llvm/ADT/APFloat.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace llvm;
using namespace attn;

namespace {

HostTensor make(ElementType type, ArrayRef<int64_t> shape) {
  Expected<HostTensor> tensor = HostTensor::create(type, shape);
  EXPECT_TRUE(bool(tensor));
  return std::move(*tensor);
}

uint64_t referenceBits(double value, const fltSemantics &semantics) {
  APFloat number(value);
  bool losesInfo;
  number.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  return number.bitcastToAPInt().getZExtValue();
}

double referenceValue(uint16_t bits, const fltSemantics &semantics) {
  APFloat number(semantics, APInt(16, bits));
  bool losesInfo;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return number.convertToDouble();
}

TEST(SmallFloats, DecodeEveryPattern) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    double half = referenceValue(bits, APFloat::IEEEhalf());
    double brain = referenceValue(bits, APFloat::BFloat());
    ASSERT_TRUE(decodeF16(bits) == half ||
                (std::isnan(half) && std::isnan(decodeF16(bits))))
        << bits;
    ASSERT_TRUE(decodeBF16(bits) == brain ||
                (std::isnan(brain) && std::isnan(decodeBF16(bits))))
        << bits;
  }
}

/// Every value, its neighbours in double, and the ties between two values.
TEST(SmallFloats, EncodeRoundsOnceToNearestEven) {
  auto check = [](double value) {
    ASSERT_EQ(encodeF16(value), referenceBits(value, APFloat::IEEEhalf()))
        << value;
    ASSERT_EQ(encodeBF16(value), referenceBits(value, APFloat::BFloat()))
        << value;
  };
  for (unsigned bits = 0; bits < 0x10000; ++bits)
    for (double value : {decodeF16(bits), decodeBF16(bits)}) {
      if (std::isnan(value))
        continue;
      double next = bits + 1 < 0x8000 ? decodeF16(bits + 1) : value;
      for (double v : {value, (value + next) / 2}) {
        check(v);
        check(std::nextafter(v, HUGE_VAL));
        check(std::nextafter(v, -HUGE_VAL));
      }
    }
  for (double v : {0.0, -0.0, 5e-324, 65519.99, 65520.0, 1e300, -1e300,
                   HUGE_VAL, 3.3895313892515355e38, 3.4e38})
    check(v);
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i)
    check(std::ldexp(double(int64_t(random())), int(random() % 320) - 210));
}

TEST(SmallFloats, NaNStaysNaN) {
  for (double nan : {std::nan(""), -std::nan("1"), std::nan("0x7")}) {
    EXPECT_TRUE(std::isnan(decodeF16(encodeF16(nan))));
    EXPECT_TRUE(std::isnan(decodeBF16(encodeBF16(nan))));
  }
}

TEST(HostTensor, IntegersSaturate) {
  HostTensor t = make(ElementType::i8, {4});
  double values[] = {127.4, 1e9, -1e9, std::nan("")};
  for (int i = 0; i < 4; ++i)
    t.set(i, values[i]);
  EXPECT_EQ(t.toDoubles(), (std::vector<double>{127, 127, -128, 0}));
  HostTensor wide = make(ElementType::i64, {2});
  wide.set(0, 9.3e18);
  wide.set(1, -9.3e18);
  EXPECT_EQ(*reinterpret_cast<int64_t *>(wide.data()), INT64_MAX);
  EXPECT_EQ(*reinterpret_cast<int64_t *>(wide.data() + 8), INT64_MIN);
}

TEST(HostTensor, ShapesAreChecked) {
  EXPECT_EQ(make(ElementType::f32, {}).size(), 1);
  EXPECT_EQ(make(ElementType::f32, {3, 0, 5}).size(), 0);
  EXPECT_NE(make(ElementType::f32, {0}).data(), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(make(ElementType::i1, {3}).data()) % 64,
            0u);
  for (std::vector<int64_t> shape : {std::vector<int64_t>{-1},
                                     {int64_t(1) << 40, int64_t(1) << 40},
                                     {int64_t(1) << 60}}) {
    Expected<HostTensor> t = HostTensor::create(ElementType::f64, shape);
    ASSERT_FALSE(bool(t));
    EXPECT_NE(toString(t.takeError()).find("cannot allocate a tensor"),
              std::string::npos);
  }
}

TEST(HostTensor, NormalFillIsDocumented) {
  HostTensor t = make(ElementType::f64, {100000});
  t.fillNormal(42);
  // Element 3 by the formula of the header, written out once more.
  auto word = [](uint64_t k) {
    uint64_t x = 42 * 0x9E3779B97F4A7C15u + k + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  };
  double u0 = (double(word(6) >> 11) + 0.5) / 9007199254740992.0;
  double u1 = (double(word(7) >> 11) + 0.5) / 9007199254740992.0;
  EXPECT_DOUBLE_EQ(t.get(3), std::sqrt(-2 * std::log(u0)) *
                                 std::cos(2 * 3.14159265358979323846 * u1));
  double mean = 0, square = 0;
  for (double v : t.toDoubles()) {
    mean += v / t.size();
    square += v * v / t.size();
  }
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(square, 1, 0.02);
  HostTensor other = make(ElementType::f64, {3});
  other.fillNormal(43);
  EXPECT_NE(other.get(0), t.get(0));
}

TEST(HostTensor, IntegerFillStaysInRange) {
  HostTensor t = make(ElementType::i32, {1000});
  t.fillIntegers(1, -2, 3);
  std::vector<int> seen(6);
  for (double v : t.toDoubles()) {
    ASSERT_GE(v, -2);
    ASSERT_LE(v, 3);
    ++seen[int(v) + 2];
  }
  for (int count : seen)
    EXPECT_GT(count, 100);
}

TEST(HostTensor, PoisonIsCounted) {
  for (ElementType type : {ElementType::f16, ElementType::bf16,
                           ElementType::f32, ElementType::f64}) {
    HostTensor t = make(type, {5});
    EXPECT_EQ(t.countPoisoned(), 0);
    t.poison();
    EXPECT_EQ(t.countPoisoned(), 5);
    EXPECT_TRUE(std::isnan(t.get(4)));
    t.set(2, std::nan(""));
    EXPECT_EQ(t.countPoisoned(), 4);
  }
}

} // namespace
