//===- AttentionProblem.cpp - An op and its arrays, checked ---------------===//
//
// The verifier has checked the types; what they leave open (`?`) is checked
// here on the arrays, with the op's constraint numbers.
//
//===----------------------------------------------------------------------===//

#include "AttentionProblem.h"
#include "ErrorText.h"
#include <cmath>

using namespace mlir;
using namespace attn;
using namespace attn::reference;

namespace {
/// The operand groups, numbered as in the definition of the forward op; the
/// backward op has the same up to the captures.
enum Segment : unsigned {
  Query,
  Key,
  Value,
  Bias,
  Mask,
  KvLengths,
  QuerySegments,
  KvSegments,
  Sinks,
  QueryOffset,
  Captures,
  Outs
};

class ProblemBuilder {
public:
  ProblemBuilder(AttentionOpInterface op, ArrayRef<Array> arrays)
      : arrays(arrays), op(op) {
    problem.op = op;
  }
  llvm::Expected<AttentionProblem> build();

private:
  llvm::Error checkTypes();
  llvm::Error checkSizes();
  llvm::Error checkBroadcast(Segment segment, BroadcastOperand &broadcast);
  llvm::Error checkVector(Segment segment, ArrayRef<int64_t> expected,
                          const Array *&array);
  llvm::Error checkDestinations();

  /// The arrays of an operand group. By position and not by value: one value
  /// may be the query and the key.
  ArrayRef<Array> arraysOf(Segment segment) {
    auto [first, length] = op.getODSOperandIndexAndLength(segment);
    return first + length <= arrays.size() ? arrays.slice(first, length)
                                           : ArrayRef<Array>();
  }
  StringRef name() { return op->getName().getStringRef(); }
  const Array &arrayOf(Segment segment) { return arraysOf(segment).front(); }
  HeadRows rowsOf(Segment segment, Layout layout) {
    const Array &array = arrayOf(segment);
    HeadRows rows;
    rows.data = array.data.data();
    int64_t strides[4] = {array.shape[1] * array.shape[2] * array.shape[3],
                          array.shape[2] * array.shape[3], array.shape[3], 1};
    rows.batchStride = strides[0];
    rows.headStride = strides[headDimension(layout)];
    rows.rowStride = strides[sequenceDimension(layout)];
    return rows;
  }

  ArrayRef<Array> arrays;
  AttentionOpInterface op;
  AttentionProblem problem;
};

StringRef nameOf(Segment segment) {
  constexpr StringRef names[] = {
      "query", "key",          "value",          "bias",
      "mask",  "kv_lengths",   "query segments", "key/value segments",
      "sinks", "query_offset", "captures",       "outs"};
  return names[segment];
}
} // namespace

/// Every array has the shape that its operand's type states.
llvm::Error ProblemBuilder::checkTypes() {
  unsigned all = op->getNumOperands(), inputs = all - op.getOuts().size();
  if (arrays.size() != inputs && arrays.size() != all)
    return errorText(name() + " has " + llvm::Twine(inputs) + " inputs, got " +
                     llvm::Twine(arrays.size()) + " arrays");
  for (auto [index, array] : llvm::enumerate(arrays)) {
    auto type = cast<ShapedType>(op->getOperand(index).getType());
    bool fits = type.getRank() == array.rank();
    if (fits)
      for (auto [given, size] : llvm::zip(array.shape, type.getShape()))
        fits &= ShapedType::isDynamic(size) || given == size;
    if (!fits)
      return errorText("operand #" + llvm::Twine(index) + " of " + name() +
                       " is " + shapeText(type.getShape()) +
                       ", got an array of " + shapeText(array.shape));
    if (Array(array.shape).size() != array.size())
      return errorText("operand #" + llvm::Twine(index) + " has " +
                       llvm::Twine(array.size()) + " elements for a shape of " +
                       shapeText(array.shape));
  }
  return llvm::Error::success();
}

/// C1, C2.
llvm::Error ProblemBuilder::checkSizes() {
  ArrayRef<int64_t> q = arrayOf(Query).shape;
  ArrayRef<int64_t> k = arrayOf(Key).shape;
  ArrayRef<int64_t> v = arrayOf(Value).shape;
  Layout ql = op.getQueryLayout(), kl = op.getKeyLayout(),
         vl = op.getValueLayout();
  AttentionShape &shape = problem.shape;
  shape = {q[0],
           q[headDimension(ql)],
           k[headDimension(kl)],
           q[sequenceDimension(ql)],
           k[sequenceDimension(kl)],
           q[3],
           v[3]};
  struct Check {
    const char *what;
    int64_t given, expected;
  };
  Check checks[] = {{"key to have the query's batch size", k[0], q[0]},
                    {"key to have the query's head dimension", k[3], q[3]},
                    {"value to have the query's batch size", v[0], q[0]},
                    {"value to have the key's head count", v[headDimension(vl)],
                     shape.kvHeads},
                    {"value to have the key's sequence length",
                     v[sequenceDimension(vl)], shape.kvLength}};
  for (const Check &check : checks)
    if (check.given != check.expected)
      return errorText(name() + " expects the " + check.what + " " +
                       llvm::Twine(check.expected) + ", got " +
                       llvm::Twine(check.given));
  bool whole = shape.kvHeads == 0 ? shape.queryHeads == 0
                                  : shape.queryHeads % shape.kvHeads == 0;
  if (!whole)
    return errorText(name() +
                     " expects the query heads to be a whole "
                     "multiple of the key/value heads, got " +
                     llvm::Twine(shape.queryHeads) + " and " +
                     llvm::Twine(shape.kvHeads));
  problem.query = rowsOf(Query, ql);
  problem.key = rowsOf(Key, kl);
  problem.value = rowsOf(Value, vl);
  return llvm::Error::success();
}

/// C7. Which dimensions broadcast is said by the type: code is made for it, so
/// an open size never does, whatever it turns out to be.
llvm::Error ProblemBuilder::checkBroadcast(Segment segment,
                                           BroadcastOperand &broadcast) {
  if (arraysOf(segment).empty())
    return llvm::Error::success();
  const Array &array = arrayOf(segment);
  unsigned operand = op.getODSOperandIndexAndLength(segment).first;
  auto type = cast<ShapedType>(op->getOperand(operand).getType());
  int64_t full[] = {problem.shape.batch, problem.shape.queryHeads,
                    problem.shape.queryLength, problem.shape.kvLength};
  broadcast.data = array.data.data();
  int64_t stride = 1;
  for (int64_t d = array.rank() - 1; d >= 0; --d) {
    int64_t position = 4 - array.rank() + d, size = array.shape[d];
    bool broadcasts = type.getDimSize(d) == 1;
    if (!broadcasts && size != full[position])
      return errorText(name() + " expects the " + nameOf(segment) +
                       " to broadcast to " + shapeText(full) + ", got " +
                       shapeText(array.shape) +
                       (size == 1 ? "; a size that broadcasts must be 1 in the "
                                    "type"
                                  : ""));
    broadcast.strides[position] = broadcasts ? 0 : stride;
    stride *= size;
  }
  return llvm::Error::success();
}

llvm::Error ProblemBuilder::checkVector(Segment segment,
                                        ArrayRef<int64_t> expected,
                                        const Array *&array) {
  if (arraysOf(segment).empty())
    return llvm::Error::success();
  array = &arrayOf(segment);
  if (ArrayRef(array->shape) != expected)
    return errorText(name() + " expects " + nameOf(segment) + " of " +
                     shapeText(expected) + ", got " + shapeText(array->shape));
  return llvm::Error::success();
}

/// Destinations of the forward op, where they are given.
llvm::Error ProblemBuilder::checkDestinations() {
  const AttentionShape &s = problem.shape;
  problem.outputShape = {s.batch, s.queryHeads, s.queryLength, s.valueDim};
  if (op.getOutputLayout() == Layout::bshd)
    std::swap(problem.outputShape[1], problem.outputShape[2]);
  problem.lseShape = {s.batch, s.queryHeads, s.queryLength};
  if (!isa<AttentionOp>(*op))
    return llvm::Error::success();
  for (auto [index, array] : llvm::enumerate(arraysOf(Outs))) {
    ArrayRef<int64_t> expected = problem.lseShape;
    if (index == 0)
      expected = problem.outputShape;
    if (ArrayRef(array.shape) != expected)
      return errorText("attn.attention expects destination #" +
                       llvm::Twine(index) + " of " + shapeText(expected) +
                       ", got " + shapeText(array.shape));
  }
  return llvm::Error::success();
}

llvm::Expected<AttentionProblem> ProblemBuilder::build() {
  if (llvm::Error error = checkTypes())
    return std::move(error);
  if (llvm::Error error = checkSizes())
    return std::move(error);
  if (llvm::Error error = checkBroadcast(Bias, problem.bias))
    return std::move(error);
  if (llvm::Error error = checkBroadcast(Mask, problem.mask))
    return std::move(error);

  const AttentionShape &s = problem.shape;
  mlir::Value offsets = op.getQueryOffset();
  bool isOneOffset =
      offsets && cast<ShapedType>(offsets.getType()).getDimSize(0) == 1;
  struct Vector {
    Segment segment;
    SmallVector<int64_t> expected;
    const Array *&array;
  };
  Vector vectors[] = {
      {KvLengths, {s.batch}, problem.kvLengths},
      {QuerySegments, {s.batch, s.queryLength}, problem.querySegments},
      {KvSegments, {s.batch, s.kvLength}, problem.kvSegments},
      {Sinks, {s.queryHeads}, problem.sinks},
      {QueryOffset, {isOneOffset ? 1 : s.batch}, problem.queryOffset}};
  for (Vector &vector : vectors)
    if (llvm::Error error =
            checkVector(vector.segment, vector.expected, vector.array))
      return std::move(error);
  if (llvm::Error error = checkDestinations())
    return std::move(error);

  problem.captures = arraysOf(Captures);
  // Scores of an empty head dimension are zero at any scale.
  if (std::optional<APFloat> scale = op.getScale())
    problem.scale = scale->convertToDouble();
  else if (s.headDim != 0)
    problem.scale = 1.0 / std::sqrt(static_cast<double>(s.headDim));
  return problem;
}

llvm::Expected<AttentionProblem>
AttentionProblem::build(AttentionOpInterface op, ArrayRef<Array> operands) {
  return ProblemBuilder(op, operands).build();
}

bool AttentionProblem::isVisible(int64_t b, int64_t h, int64_t i,
                                 int64_t j) const {
  // C8.
  if (kvLengths && j >= static_cast<int64_t>(kvLengths->data[b]))
    return false;
  // C6. Distances, not bounds: a bound may be as large as an i64 holds.
  AttentionOpInterface attention = op;
  int64_t offset = 0;
  if (queryOffset)
    offset = static_cast<int64_t>(
        queryOffset->data[queryOffset->size() == 1 ? 0 : b]);
  else if (attention.getAlignment() == Alignment::bottom_right)
    offset = shape.kvLength - shape.queryLength;
  int64_t distance = j - (i + offset);
  if (std::optional<int64_t> left = attention.getBandLeft())
    if (-distance > *left)
      return false;
  if (std::optional<int64_t> right = attention.getBandRight())
    if (distance > *right)
      return false;
  // C9.
  if (querySegments && querySegments->data[b * shape.queryLength + i] !=
                           kvSegments->data[b * shape.kvLength + j])
    return false;
  return !mask || mask.at(b, h, i, j) != 0;
}

int64_t AttentionProblem::outputRow(int64_t b, int64_t h, int64_t i) const {
  AttentionOpInterface attention = op;
  int64_t row = attention.getOutputLayout() == Layout::bhsd
                    ? (b * shape.queryHeads + h) * shape.queryLength + i
                    : (b * shape.queryLength + i) * shape.queryHeads + h;
  return row * shape.valueDim;
}
