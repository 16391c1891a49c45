//===- AttnAttributes.cpp - #attn.target and #attn.tiling -----------------===//

#include "StructAttribute.h"
#include "attn/IR/Attn.h"
#include <limits>

using namespace attn;

llvm::hash_code attn::hash_value(const TargetDescription &target) {
  return detail::hashStruct(target);
}

llvm::hash_code attn::hash_value(const Tiling &tiling) {
  return detail::hashStruct(tiling);
}

/// Equality by the printed form: it names every field once.
template <typename Struct>
static bool equalByFields(const Struct &a, const Struct &b) {
  std::string textA, textB;
  llvm::raw_string_ostream streamA(textA), streamB(textB);
  detail::printStruct(a, streamA);
  detail::printStruct(b, streamB);
  return textA == textB;
}

bool TargetDescription::operator==(const TargetDescription &o) const {
  return equalByFields(*this, o);
}

bool Tiling::operator==(const Tiling &o) const {
  return equalByFields(*this, o);
}

namespace {
using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// Refuses a number out of range; fields of other types pass.
struct CheckNumbers {
  EmitError emitError;
  int64_t least;
  int64_t most = std::numeric_limits<int64_t>::max();
  bool failed = false;

  void operator()(llvm::StringRef name, int64_t value) {
    if ((value >= least && value <= most) || failed)
      return;
    failed = true;
    mlir::InFlightDiagnostic error = emitError();
    error << "expects " << name << " of " << least;
    if (most == std::numeric_limits<int64_t>::max())
      error << " or more, got " << value;
    else
      error << " to " << most << ", got " << value;
  }
  void operator()(llvm::StringRef name, const std::vector<MatrixUnit> &units) {
    for (const MatrixUnit &unit : units)
      for (int64_t number : {unit.m, unit.n, unit.k, unit.macsPerCycle})
        (*this)(name, number);
  }
  template <typename T> void operator()(llvm::StringRef, const T &) {}
};
} // namespace

mlir::LogicalResult TargetAttr::verify(EmitError emitError,
                                       TargetDescription value) {
  CheckNumbers check{emitError, /*least=*/0};
  TargetDescription::visitFields(
      value, [&](llvm::StringRef name, auto &field) { check(name, field); });
  return mlir::failure(check.failed);
}

/// The passes divide and step by these sizes and unroll register tiles: none is
/// zero, and none is beyond what any chip holds.
mlir::LogicalResult TilingAttr::verify(EmitError emitError, Tiling value) {
  CheckNumbers block{emitError, /*least=*/1, /*most=*/65536};
  block("block_query", value.blockQuery);
  block("block_key", value.blockKey);
  CheckNumbers few{emitError, /*least=*/1, /*most=*/1024, block.failed};
  few("stages", value.stages);
  few("query_stages", value.queryStages);
  few("groups", value.groups);
  CheckNumbers registers{emitError, /*least=*/0, /*most=*/256, few.failed};
  registers("register_rows", value.registerRows);
  registers("register_columns", value.registerColumns);
  if (registers.failed)
    return mlir::failure();
  if (value.softmax != "exact" && value.softmax != "conditional" &&
      value.softmax != "stale" && value.softmax != "raised")
    return emitError()
           << "expects softmax to be exact, conditional, stale or raised, got "
           << value.softmax;
  return mlir::success();
}

void TargetAttr::print(mlir::AsmPrinter &printer) const {
  detail::printStruct(getValue(), printer.getStream());
}

mlir::Attribute TargetAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  TargetDescription value;
  if (detail::parseStruct(parser, value))
    return {};
  return parser.getChecked<TargetAttr>(loc, parser.getContext(), value);
}

void TilingAttr::print(mlir::AsmPrinter &printer) const {
  detail::printStruct(getValue(), printer.getStream());
}

mlir::Attribute TilingAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  Tiling value;
  if (detail::parseStruct(parser, value))
    return {};
  return parser.getChecked<TilingAttr>(loc, parser.getContext(), value);
}
