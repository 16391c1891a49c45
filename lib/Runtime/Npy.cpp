//===- Npy.cpp - NumPy's array files --------------------------------------===//
//
// The format: "\x93NUMPY", two version bytes, the header's length (two bytes
// in version 1, four after it, little-endian), a header that is a Python
// dictionary, then the elements. The dictionary holds exactly 'descr',
// 'fortran_order' and 'shape', so a full parser of Python is not needed.
//
//===----------------------------------------------------------------------===//

#include "attn/Runtime/Npy.h"
#include "attn/Artifact/File.h"
#include "attn/Artifact/LaunchDescription.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include <cstring>

using namespace llvm;
using namespace attn;

static constexpr StringLiteral kMagic = "\x93NUMPY";

namespace {
struct Header {
  std::string descr;
  bool fortranOrder = false;
  SmallVector<int64_t> shape;
};

/// Parses the dictionary. Every method consumes what it recognises and says
/// whether it did.
class HeaderParser {
public:
  explicit HeaderParser(StringRef text) : rest(text) {}

  bool parse(Header &header) {
    bool hasDescr = false, hasOrder = false, hasShape = false;
    if (!take("{"))
      return false;
    while (!take("}")) {
      std::string key;
      if (!string(key) || !take(":"))
        return false;
      bool *has = key == "descr"           ? &hasDescr
                  : key == "fortran_order" ? &hasOrder
                  : key == "shape"         ? &hasShape
                                           : nullptr;
      if (!has || *has)
        return false;
      *has = true;
      bool good = key == "descr"           ? descr(header.descr)
                  : key == "fortran_order" ? boolean(header.fortranOrder)
                                           : tuple(header.shape);
      if (!good)
        return false;
      if (!take(",")) {
        if (!take("}"))
          return false;
        break;
      }
    }
    return hasDescr && hasOrder && hasShape && rest.trim().empty();
  }

private:
  bool take(StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }

  bool string(std::string &out) {
    rest = rest.ltrim();
    if (rest.empty() || (rest.front() != '\'' && rest.front() != '"'))
      return false;
    size_t end = rest.find(rest.front(), 1);
    if (end == StringRef::npos)
      return false;
    out = rest.slice(1, end).str();
    rest = rest.drop_front(end + 1);
    return true;
  }

  /// A string; a list (the fields of a record) is kept as text to be refused
  /// by name.
  bool descr(std::string &out) {
    if (string(out))
      return true;
    if (!rest.starts_with("["))
      return false;
    size_t end = rest.rfind(']');
    if (end == StringRef::npos)
      return false;
    out = "record";
    rest = rest.drop_front(end + 1);
    return true;
  }

  bool boolean(bool &out) {
    out = take("True");
    return out || take("False");
  }

  bool tuple(SmallVector<int64_t> &out) {
    if (!take("("))
      return false;
    while (!take(")")) {
      rest = rest.ltrim();
      uint64_t size;
      if (rest.consumeInteger(10, size) || size > uint64_t(INT64_MAX))
        return false;
      take("L"); // Python 2 wrote long integers so
      out.push_back(int64_t(size));
      if (!take(",") && !rest.ltrim().starts_with(")"))
        return false;
    }
    return true;
  }

  StringRef rest;
};
} // namespace

static std::optional<ElementType> typeOfDescr(StringRef descr) {
  return StringSwitch<std::optional<ElementType>>(descr)
      .Case("<f2", ElementType::f16)
      .Case("<f4", ElementType::f32)
      .Case("<f8", ElementType::f64)
      .Cases({"|b1", "<b1", "?"}, ElementType::i1)
      .Cases({"|i1", "<i1"}, ElementType::i8)
      .Case("<i4", ElementType::i32)
      .Case("<i8", ElementType::i64)
      .Cases({"<V2", "|V2", "bfloat16"}, ElementType::bf16)
      .Default(std::nullopt);
}

static StringRef descrOfType(ElementType type) {
  switch (type) {
  case ElementType::f16:
    return "<f2";
  case ElementType::bf16:
    return "<V2";
  case ElementType::f32:
    return "<f4";
  case ElementType::f64:
    return "<f8";
  case ElementType::i1:
    return "|b1";
  case ElementType::i8:
    return "|i1";
  case ElementType::i32:
    return "<i4";
  case ElementType::i64:
    return "<i8";
  }
  llvm_unreachable("unknown element type");
}

/// Copies elements from column-major to row-major order.
static void copyTransposed(StringRef from, HostTensor &to) {
  ArrayRef<int64_t> shape = to.shape();
  int64_t width = elementBytes(to.type());
  SmallVector<int64_t> index(shape.size(), 0), strides(shape.size(), 1);
  for (size_t d = 1; d < shape.size(); ++d)
    strides[d] = strides[d - 1] * shape[d - 1];
  int64_t source = 0;
  for (int64_t i = 0; i < to.size(); ++i) {
    std::memcpy(to.data() + i * width, from.data() + source * width, width);
    for (size_t d = shape.size(); d-- > 0;) {
      source += strides[d];
      if (++index[d] < shape[d])
        break;
      source -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

Expected<HostTensor> attn::parseNpy(StringRef bytes, StringRef source) {
  auto fail = [&](const Twine &what) {
    return createStringError("'" + source + "' " + what);
  };
  if (!bytes.starts_with(kMagic))
    return fail("is no .npy file: it does not start with \\x93NUMPY");
  if (bytes.size() < 8)
    return fail("is truncated inside the header");
  unsigned version = static_cast<uint8_t>(bytes[6]);
  if (version < 1 || version > 3)
    return fail("has .npy version " + Twine(version) +
                ", expected 1, 2 or 3; save it again with numpy.save");
  size_t start = version == 1 ? 10 : 12;
  if (bytes.size() < start)
    return fail("is truncated inside the header");
  size_t length = version == 1 ? support::endian::read16le(bytes.data() + 8)
                               : support::endian::read32le(bytes.data() + 8);
  if (bytes.size() - start < length)
    return fail("is truncated inside the header");
  Header header;
  if (!HeaderParser(bytes.substr(start, length)).parse(header))
    return fail("has a header that does not parse: expected a dictionary of "
                "'descr', 'fortran_order' and 'shape'");
  std::optional<ElementType> type = typeOfDescr(header.descr);
  if (!type)
    return fail("has element type '" + header.descr +
                "', expected little-endian f2, f4, f8, i1, i4, i8, b1 or V2 "
                "(bfloat16); convert it with numpy's astype");

  // The size is checked before anything is allocated for it.
  StringRef elements = bytes.drop_front(start + length);
  int64_t expected = elementBytes(*type);
  bool overflow = false;
  for (int64_t size : header.shape)
    overflow |= size != 0 && MulOverflow(expected, size, expected);
  if (is_contained(header.shape, 0))
    expected = 0;
  else if (overflow)
    return fail("has shape " + formatShape(ArrayRef<int64_t>(header.shape)) +
                ", more elements than 64 bits can count");
  if (elements.size() != size_t(expected))
    return fail(
        "is " +
        Twine(elements.size() < size_t(expected) ? "truncated" : "too long") +
        ": shape " + formatShape(ArrayRef<int64_t>(header.shape)) + " takes " +
        Twine(expected) + " bytes, got " + Twine(elements.size()));

  Expected<HostTensor> tensor = HostTensor::create(*type, header.shape);
  if (!tensor)
    return fail("is too large: " + toString(tensor.takeError()));
  if (header.fortranOrder)
    copyTransposed(elements, *tensor);
  else
    std::memcpy(tensor->data(), elements.data(), elements.size());
  // Kernels rely on a true of exactly 1.
  if (*type == ElementType::i1)
    for (int64_t i = 0; i < tensor->size(); ++i)
      tensor->data()[i] = tensor->data()[i] != 0;
  return tensor;
}

Expected<HostTensor> attn::readNpy(StringRef path) {
  Expected<std::unique_ptr<MemoryBuffer>> buffer = readFile(path);
  if (!buffer)
    return buffer.takeError();
  return parseNpy((*buffer)->getBuffer(), path);
}

Error attn::writeNpy(StringRef path, const HostTensor &tensor) {
  std::string shape;
  for (int64_t size : tensor.shape())
    shape += itostr(size) + ",";
  std::string dictionary =
      ("{'descr': '" + descrOfType(tensor.type()) +
       "', 'fortran_order': False, 'shape': (" + shape + "), }")
          .str();
  // Elements start at a multiple of 64 bytes; the header ends in a newline.
  constexpr size_t kPrefix = 10;
  size_t length = alignTo(kPrefix + dictionary.size() + 1, 64) - kPrefix;
  dictionary.resize(length - 1, ' ');
  std::string header = kMagic.str() + '\1' + '\0';
  header += char(length & 0xFF);
  header += char(length >> 8);
  header += dictionary + '\n';
  return writeFile(
      path, {StringRef(header), StringRef(tensor.data(), tensor.bytes())});
}
