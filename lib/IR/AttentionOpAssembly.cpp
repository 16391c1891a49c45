//===- AttentionOpAssembly.cpp - Custom syntax of the attention ops -------===//
//
//   attn.attention %q, %k, %v clause* attr-dict : q-type, k-type, v-type
//       [-> output-type [, lse-type]]
//   attn.attention_backward %q, %k, %v, %o, %lse, %do clause* attr-dict
//       : q-type, k-type, v-type, o-type, lse-type, do-type
//       [-> gradient-type, ...]
//
// Clauses may come in any order when read and come in this one when printed:
//
//   bias(%x : type)  mask(%x : type)  kv_lengths(%x : type)
//   segments(%q, %kv : type, type)  sinks(%x : type)  query_offset(%x : type)
//   lse_gradient(%x : type)                              backward only
//   layout(bshd) | layout(query = bshd, ...)
//   scale(0.125)  softcap(20.0)  causal  window(127, 0)  bottom_right
//   gradients(bias, sinks, captures[0, 2])  deterministic      backward only
//   target(#attn.target<...>)  tiling(#attn.tiling<...>)
//   outs(%o, ... : type, ...)  captures(%c, ... : type, ...)
//   score_mod(%s, %b, %h, %i, %j, ...) { ... }
//   mask_mod(%b, %h, %i, %j, ...) { ... }
//
//===----------------------------------------------------------------------===//

#include "AttentionSyntax.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace attn;

namespace {
using Unresolved = OpAsmParser::UnresolvedOperand;

/// An operand group as read: names and types side by side.
struct OperandGroup {
  SmallVector<Unresolved> names;
  SmallVector<Type> types;
};

/// Reads one op. Operand groups are kept by name and resolved at the end, in
/// the order of the definition.
class AttentionParser {
public:
  AttentionParser(const Syntax &syntax, OpAsmParser &parser,
                  OperationState &result)
      : syntax(syntax), parser(parser), result(result) {}
  /// Leaves the sizes of the operand groups in `segmentSizes`.
  ParseResult parse(MutableArrayRef<int32_t> segmentSizes);

private:
  ParseResult parseClause(StringRef keyword);
  ParseResult parseOperands(StringRef group);
  ParseResult parseLayout();
  ParseResult parseFloat(StringRef name);
  ParseResult parseWindow();
  ParseResult parseGradients();
  template <typename AttributeType> ParseResult parseAttribute(StringRef name);
  ParseResult parseDiscardableAttributes();
  ParseResult parseRegion(StringRef name, bool isScore, Region &region);

  const Syntax &syntax;
  OpAsmParser &parser;
  OperationState &result;
  llvm::StringMap<OperandGroup> groups;
  std::unique_ptr<Region> scoreMod = std::make_unique<Region>();
  std::unique_ptr<Region> maskMod = std::make_unique<Region>();
};
} // namespace

const Syntax &attn::forwardSyntax() {
  static const StringRef positional[] = {"query", "key", "value"};
  static const StringRef groups[] = {
      "query",    "key",   "value",        "bias",     "mask", "kv_lengths",
      "segments", "sinks", "query_offset", "captures", "outs"};
  static const StringRef clauses[] = {
      "bias",         "mask",      "kv_lengths", "segments",     "sinks",
      "query_offset", "captures",  "outs",       "layout",       "scale",
      "softcap",      "causal",    "window",     "bottom_right", "target",
      "tiling",       "score_mod", "mask_mod"};
  static const Syntax syntax = {positional, "three types (query, key, value)",
                                groups, clauses,
                                AttentionOp::getAttributeNames()};
  return syntax;
}

const Syntax &attn::backwardSyntax() {
  static const StringRef positional[] = {"query",  "key", "value",
                                         "output", "lse", "output_gradient"};
  static const StringRef groups[] = {
      "query",      "key",      "value",           "bias",         "mask",
      "kv_lengths", "segments", "sinks",           "query_offset", "captures",
      "output",     "lse",      "output_gradient", "lse_gradient", "outs"};
  static const StringRef clauses[] = {
      "bias",         "mask",     "kv_lengths",   "segments",
      "sinks",        "captures", "query_offset", "lse_gradient",
      "outs",         "layout",   "scale",        "softcap",
      "causal",       "window",   "bottom_right", "gradients",
      "target",       "tiling",   "score_mod",    "mask_mod",
      "deterministic"};
  static const Syntax syntax = {
      positional, "six types (query, key, value, output, lse, output gradient)",
      groups, clauses, AttentionBackwardOp::getAttributeNames()};
  return syntax;
}

ParseResult AttentionParser::parseOperands(StringRef name) {
  OperandGroup &group = groups[name];
  return failure(parser.parseLParen() || parser.parseOperandList(group.names) ||
                 parser.parseColonTypeList(group.types) ||
                 parser.parseRParen());
}

ParseResult AttentionParser::parseLayout() {
  static const StringRef all[] = {"query", "key", "value", "output"};
  // `operand = layout`, or one layout for all four.
  auto parseOne = [&]() -> ParseResult {
    ArrayRef<StringRef> operands = all;
    StringRef operand;
    SMLoc loc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalKeyword(&operand, all))) {
      operands = operand;
      if (parser.parseEqual())
        return failure();
    }
    SMLoc wordLoc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    std::optional<Layout> layout = symbolizeLayout(word);
    if (!layout)
      return parser.emitError(wordLoc)
             << "expected layout bhsd or bshd, got " << word;
    for (StringRef name : operands) {
      std::string attribute = (name + "_layout").str();
      if (result.attributes.get(attribute))
        return parser.emitError(loc)
               << "layout of " << name << " is given twice";
      result.addAttribute(attribute,
                          LayoutAttr::get(parser.getContext(), *layout));
    }
    return success();
  };
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                        parseOne);
}

ParseResult AttentionParser::parseFloat(StringRef name) {
  FloatAttr value;
  if (parser.parseLParen() ||
      parser.parseAttribute(value, parser.getBuilder().getF64Type()) ||
      parser.parseRParen())
    return failure();
  result.addAttribute(name, value);
  return success();
}

ParseResult AttentionParser::parseWindow() {
  int64_t left, right;
  if (parser.parseLParen() || parser.parseInteger(left) ||
      parser.parseComma() || parser.parseInteger(right) || parser.parseRParen())
    return failure();
  result.addAttribute("window_left",
                      parser.getBuilder().getI64IntegerAttr(left));
  result.addAttribute("window_right",
                      parser.getBuilder().getI64IntegerAttr(right));
  return success();
}

/// bias, sinks, captures[numbers]: each at most once.
ParseResult AttentionParser::parseGradients() {
  Builder &b = parser.getBuilder();
  static const StringRef words[] = {"bias", "sinks", "captures"};
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    if (!llvm::is_contained(words, word))
      return parser.emitError(loc)
             << "expected gradients of bias, sinks or captures[...], got "
             << word;
    bool isCaptures = word == "captures";
    std::string name =
        (isCaptures ? "capture_gradients" : word + "_gradient").str();
    if (result.attributes.get(name))
      return parser.emitError(loc) << word << " is given twice";
    if (!isCaptures) {
      result.addAttribute(name, b.getUnitAttr());
      return success();
    }
    SmallVector<int64_t> numbers;
    auto parseNumber = [&]() -> ParseResult {
      return parser.parseInteger(numbers.emplace_back());
    };
    if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square,
                                       parseNumber))
      return failure();
    result.addAttribute(name, b.getDenseI64ArrayAttr(numbers));
    return success();
  };
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                        parseOne);
}

template <typename AttributeType>
ParseResult AttentionParser::parseAttribute(StringRef name) {
  AttributeType attribute;
  if (parser.parseLParen() || parser.parseAttribute(attribute) ||
      parser.parseRParen())
    return failure();
  result.addAttribute(name, attribute);
  return success();
}

/// The types of the arguments follow from the query and the captures, which
/// may be read later: captures(...) must precede a region that reads them.
ParseResult AttentionParser::parseRegion(StringRef name, bool isScore,
                                         Region &region) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<OpAsmParser::Argument> arguments;
  auto parseArgument = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    if (parser.parseArgument(argument))
      return failure();
    return succeeded(parser.parseOptionalColon())
               ? parser.parseType(argument.type)
               : ParseResult(success());
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                     parseArgument))
    return failure();
  Builder &b = parser.getBuilder();
  SmallVector<Type> types;
  if (isScore)
    types.push_back(b.getF32Type());
  types.append(kMaskModArguments, b.getIndexType());
  llvm::append_range(types, groups["captures"].types);
  if (arguments.size() != types.size())
    return parser.emitError(loc)
           << name << " takes " << types.size() << " arguments ("
           << (isScore ? "score, " : "")
           << "batch, head, query index, key index, then one per value of a "
              "preceding captures(...)), got "
           << arguments.size();
  for (auto [argument, type] : llvm::zip(arguments, types))
    if (!argument.type)
      argument.type = type;
  return parser.parseRegion(region, arguments);
}

ParseResult AttentionParser::parseClause(StringRef keyword) {
  if (llvm::is_contained(syntax.groups, keyword))
    return parseOperands(keyword);
  if (keyword == "layout")
    return parseLayout();
  if (keyword == "scale" || keyword == "softcap")
    return parseFloat(keyword);
  if (keyword == "window")
    return parseWindow();
  if (keyword == "target")
    return parseAttribute<TargetAttr>(keyword);
  if (keyword == "tiling")
    return parseAttribute<TilingAttr>(keyword);
  if (keyword == "score_mod")
    return parseRegion(keyword, /*isScore=*/true, *scoreMod);
  if (keyword == "mask_mod")
    return parseRegion(keyword, /*isScore=*/false, *maskMod);
  if (keyword == "gradients")
    return parseGradients();
  if (keyword == "causal" || keyword == "deterministic")
    result.addAttribute(keyword, parser.getBuilder().getUnitAttr());
  else if (keyword == "bottom_right")
    result.addAttribute(
        "alignment",
        AlignmentAttr::get(parser.getContext(), Alignment::bottom_right));
  return success();
}

/// Attributes of other dialects. Those of the op have their clauses: in the
/// dictionary, one of the wrong kind would be dropped without a word.
ParseResult AttentionParser::parseDiscardableAttributes() {
  SMLoc loc = parser.getCurrentLocation();
  NamedAttrList attributes;
  if (parser.parseOptionalAttrDict(attributes))
    return failure();
  for (NamedAttribute attribute : attributes)
    if (llvm::is_contained(syntax.attributes, attribute.getName().strref()))
      return parser.emitError(loc)
             << "'" << attribute.getName().strref()
             << "' is written as a clause before the colon, not in the "
                "attribute dictionary";
  result.attributes.append(attributes);
  return success();
}

ParseResult AttentionParser::parse(MutableArrayRef<int32_t> segmentSizes) {
  SmallVector<Unresolved> positional;
  if (parser.parseOperandList(positional, syntax.positional.size()))
    return failure();

  llvm::StringSet<> seen;
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  while (succeeded(parser.parseOptionalKeyword(&keyword, syntax.clauses))) {
    if (!seen.insert(keyword).second)
      return parser.emitError(loc) << keyword << " is given twice";
    if (parseClause(keyword))
      return failure();
    loc = parser.getCurrentLocation();
  }

  if (succeeded(parser.parseOptionalKeyword(&keyword)))
    return parser.emitError(loc)
           << "unknown clause '" << keyword
           << "', expected one of: " << llvm::join(syntax.clauses, ", ");

  SmallVector<Type> types;
  if (parseDiscardableAttributes())
    return failure();
  loc = parser.getCurrentLocation();
  if (parser.parseColonTypeList(types))
    return failure();
  if (types.size() != positional.size())
    return parser.emitError(loc)
           << "expected " << syntax.typesText << ", got " << types.size();
  if (succeeded(parser.parseOptionalArrow()) &&
      parser.parseTypeList(result.types))
    return failure();
  for (auto [name, operand, type] :
       llvm::zip_equal(syntax.positional, positional, types))
    groups[name] = {{operand}, {type}};

  // Segments hold a pair; every other optional clause holds one value.
  SmallVector<int32_t> sizes;
  for (StringRef name : syntax.groups) {
    OperandGroup &group = groups[name];
    size_t given = group.names.size();
    if (parser.resolveOperands(group.names, group.types, loc, result.operands))
      return failure();
    if (name == "segments") {
      if (given != 0 && given != 2)
        return parser.emitError(loc)
               << "segments takes two values (query, key/value), got " << given;
      sizes.append(2, given / 2);
      continue;
    }
    bool isList = name == "captures" || name == "outs";
    if (!isList && given > 1)
      return parser.emitError(loc) << name << " takes one value, got " << given;
    sizes.push_back(given);
  }
  llvm::copy(sizes, segmentSizes.begin());
  result.addRegion(std::move(scoreMod));
  result.addRegion(std::move(maskMod));
  return success();
}

template <typename OpTy>
static ParseResult parseAttention(const Syntax &syntax, OpAsmParser &parser,
                                  OperationState &result) {
  auto &properties = result.getOrAddProperties<typename OpTy::Properties>();
  return AttentionParser(syntax, parser, result)
      .parse(properties.operandSegmentSizes);
}

ParseResult AttentionOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseAttention<AttentionOp>(forwardSyntax(), parser, result);
}

ParseResult AttentionBackwardOp::parse(OpAsmParser &parser,
                                       OperationState &result) {
  return parseAttention<AttentionBackwardOp>(backwardSyntax(), parser, result);
}
