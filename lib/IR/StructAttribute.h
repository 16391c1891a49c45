//===- StructAttribute.h - Print, parse and hash a plain struct -*- C++ -*-===//
//
// `#attn.target` and `#attn.tiling` hold a plain C++ struct whose
// `visitFields` names each field once. Printing, parsing, hashing and equality
// all follow from that one list: a field added to the struct is a field of the
// attribute.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_IR_STRUCTATTRIBUTE_H
#define ATTN_LIB_IR_STRUCTATTRIBUTE_H

#include "attn/IR/TargetDescription.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace attn::detail {

/// Writes a field as MLIR attribute syntax.
struct FieldPrinter {
  llvm::raw_ostream &os;
  void operator()(int64_t value) { os << value; }
  void operator()(bool value) { os << (value ? "true" : "false"); }
  void operator()(const std::string &value) {
    os << '"';
    llvm::printEscapedString(value, os);
    os << '"';
  }
  void operator()(const MatrixUnit &unit) {
    os << '[';
    (*this)(unit.kind);
    os << ", ";
    (*this)(unit.type);
    os << ", " << unit.m << ", " << unit.n << ", " << unit.k << ", "
       << unit.macsPerCycle << ']';
  }
  template <typename T> void operator()(const std::vector<T> &values) {
    os << '[';
    llvm::interleaveComma(values, os, [&](const T &value) { (*this)(value); });
    os << ']';
  }
};

/// Reads a field back.
struct FieldParser {
  mlir::AsmParser &parser;
  mlir::ParseResult operator()(int64_t &value) {
    return parser.parseInteger(value);
  }
  mlir::ParseResult operator()(bool &value) {
    if (mlir::succeeded(parser.parseOptionalKeyword("true")))
      value = true;
    else if (mlir::succeeded(parser.parseOptionalKeyword("false")))
      value = false;
    else
      return parser.emitError(parser.getCurrentLocation(),
                              "expected true or false");
    return mlir::success();
  }
  mlir::ParseResult operator()(std::string &value) {
    return parser.parseString(&value);
  }
  mlir::ParseResult operator()(MatrixUnit &unit) {
    if (parser.parseLSquare() || (*this)(unit.kind) || parser.parseComma() ||
        (*this)(unit.type))
      return mlir::failure();
    for (int64_t *number : {&unit.m, &unit.n, &unit.k, &unit.macsPerCycle})
      if (parser.parseComma() || parser.parseInteger(*number))
        return mlir::failure();
    return parser.parseRSquare();
  }
  template <typename T> mlir::ParseResult operator()(std::vector<T> &values) {
    return parser.parseCommaSeparatedList(
        mlir::AsmParser::Delimiter::Square,
        [&] { return (*this)(values.emplace_back()); });
  }
};

struct FieldHasher {
  llvm::hash_code operator()(const MatrixUnit &unit) {
    return llvm::hash_combine(unit.kind, unit.type, unit.m, unit.n, unit.k,
                              unit.macsPerCycle);
  }
  template <typename T>
  llvm::hash_code operator()(const std::vector<T> &values) {
    llvm::hash_code code = llvm::hash_value(values.size());
    for (const T &value : values)
      code = llvm::hash_combine(code, (*this)(value));
    return code;
  }
  template <typename T> llvm::hash_code operator()(const T &value) {
    using llvm::hash_value;
    return hash_value(value);
  }
};

template <typename Struct> llvm::hash_code hashStruct(const Struct &value) {
  llvm::hash_code code(0);
  Struct::visitFields(value, [&](llvm::StringRef, const auto &field) {
    code = llvm::hash_combine(code, FieldHasher()(field));
  });
  return code;
}

/// Prints the fields that differ from a default-constructed struct:
/// `<name = "cpu", compute_units = 2>`.
template <typename Struct>
void printStruct(const Struct &value, llvm::raw_ostream &os) {
  llvm::StringMap<std::string> defaults;
  auto text = [](const auto &field) {
    std::string result;
    llvm::raw_string_ostream stream(result);
    FieldPrinter{stream}(field);
    return result;
  };
  Struct empty;
  Struct::visitFields(empty, [&](llvm::StringRef name, const auto &field) {
    defaults[name] = text(field);
  });
  os << '<';
  llvm::ListSeparator comma;
  Struct::visitFields(value, [&](llvm::StringRef name, const auto &field) {
    std::string printed = text(field);
    if (printed != defaults[name])
      os << comma << name << " = " << printed;
  });
  os << '>';
}

/// Parses what printStruct prints; fields in any order, each at most once.
template <typename Struct>
mlir::ParseResult parseStruct(mlir::AsmParser &parser, Struct &value) {
  llvm::StringMap<bool> seen;
  return parser.parseCommaSeparatedList(
      mlir::AsmParser::Delimiter::LessGreater, [&]() -> mlir::ParseResult {
        llvm::SMLoc loc = parser.getCurrentLocation();
        llvm::StringRef name;
        if (parser.parseKeyword(&name) || parser.parseEqual())
          return mlir::failure();
        if (!seen.insert({name, true}).second)
          return parser.emitError(loc)
                 << "field '" << name << "' is given twice";
        bool known = false;
        mlir::ParseResult result = mlir::success();
        Struct::visitFields(value, [&](llvm::StringRef field, auto &place) {
          if (field != name)
            return;
          known = true;
          result = FieldParser{parser}(place);
        });
        if (!known) {
          mlir::InFlightDiagnostic error = parser.emitError(loc)
                                           << "unknown field '" << name
                                           << "', expected one of: ";
          llvm::ListSeparator comma;
          Struct::visitFields(value, [&](llvm::StringRef field, auto &) {
            error << std::string(llvm::StringRef(comma)) << field;
          });
          return error;
        }
        return result;
      });
}

} // namespace attn::detail

#endif // ATTN_LIB_IR_STRUCTATTRIBUTE_H
