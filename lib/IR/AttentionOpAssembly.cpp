//===- AttentionOpAssembly.cpp - Custom syntax of attn.attention ----------===//
//
//   attn.attention %q, %k, %v clause* attr-dict : q-type, k-type, v-type
//       [-> output-type [, lse-type]]
//
// Clauses may come in any order when read and come in this one when printed:
//
//   bias(%x : type)  mask(%x : type)  kv_lengths(%x : type)
//   segments(%q, %kv : type, type)  sinks(%x : type)  query_offset(%x : type)
//   layout(bshd) | layout(query = bshd, ...)
//   scale(0.125)  softcap(20.0)  causal  window(127, 0)  bottom_right
//   target(#attn.target<...>)  tiling(#attn.tiling<...>)
//   outs(%o, ... : type, ...)  captures(%c, ... : type, ...)
//   score_mod(%s, %b, %h, %i, %j, ...) { ... }
//   mask_mod(%b, %h, %i, %j, ...) { ... }
//
//===----------------------------------------------------------------------===//

#include "attn/IR/Attn.h"
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
  AttentionParser(OpAsmParser &parser, OperationState &result)
      : parser(parser), result(result) {}
  ParseResult parse();

private:
  ParseResult parseClause(StringRef keyword);
  ParseResult parseOperands(StringRef group);
  ParseResult parseLayout();
  ParseResult parseFloat(StringRef name);
  ParseResult parseWindow();
  template <typename AttributeType> ParseResult parseAttribute(StringRef name);
  ParseResult parseDiscardableAttributes();
  ParseResult parseRegion(StringRef name, bool isScore, Region &region);

  OpAsmParser &parser;
  OperationState &result;
  llvm::StringMap<OperandGroup> groups;
  std::unique_ptr<Region> scoreMod = std::make_unique<Region>();
  std::unique_ptr<Region> maskMod = std::make_unique<Region>();
};
} // namespace

/// Optional operand groups, in the order of the definition.
static const StringRef kOperandClauses[] = {"bias",     "mask",  "kv_lengths",
                                            "segments", "sinks", "query_offset",
                                            "captures", "outs"};

static const StringRef kClauses[] = {
    "bias",         "mask",      "kv_lengths", "segments",     "sinks",
    "query_offset", "captures",  "outs",       "layout",       "scale",
    "softcap",      "causal",    "window",     "bottom_right", "target",
    "tiling",       "score_mod", "mask_mod"};

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
  if (llvm::is_contained(kOperandClauses, keyword))
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
  if (keyword == "causal")
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
    if (llvm::is_contained(AttentionOp::getAttributeNames(),
                           attribute.getName().strref()))
      return parser.emitError(loc)
             << "'" << attribute.getName().strref()
             << "' is written as a clause before the colon, not in the "
                "attribute dictionary";
  result.attributes.append(attributes);
  return success();
}

ParseResult AttentionParser::parse() {
  SmallVector<Unresolved> qkv;
  if (parser.parseOperandList(qkv, 3))
    return failure();

  llvm::StringSet<> seen;
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  while (succeeded(parser.parseOptionalKeyword(&keyword, kClauses))) {
    if (!seen.insert(keyword).second)
      return parser.emitError(loc) << keyword << " is given twice";
    if (parseClause(keyword))
      return failure();
    loc = parser.getCurrentLocation();
  }

  if (succeeded(parser.parseOptionalKeyword(&keyword)))
    return parser.emitError(loc)
           << "unknown clause '" << keyword
           << "', expected one of: " << llvm::join(ArrayRef(kClauses), ", ");

  SmallVector<Type> types;
  if (parseDiscardableAttributes())
    return failure();
  loc = parser.getCurrentLocation();
  if (parser.parseColonTypeList(types))
    return failure();
  if (types.size() != 3)
    return parser.emitError(loc)
           << "expected three types (query, key, value), got " << types.size();
  if (succeeded(parser.parseOptionalArrow()) &&
      parser.parseTypeList(result.types))
    return failure();

  // Segments hold a pair; every other optional clause holds one value.
  SmallVector<int32_t> sizes = {1, 1, 1};
  if (parser.resolveOperands(qkv, types, loc, result.operands))
    return failure();
  for (StringRef name : kOperandClauses) {
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
  auto &properties = result.getOrAddProperties<AttentionOp::Properties>();
  llvm::copy(sizes, properties.operandSegmentSizes.begin());
  result.addRegion(std::move(scoreMod));
  result.addRegion(std::move(maskMod));
  return success();
}

ParseResult AttentionOp::parse(OpAsmParser &parser, OperationState &result) {
  return AttentionParser(parser, result).parse();
}

static void printOperands(OpAsmPrinter &p, StringRef name,
                          OperandRange operands) {
  if (operands.empty())
    return;
  p << ' ' << name << '(';
  p.printOperands(operands);
  p << " : ";
  llvm::interleaveComma(operands.getTypes(), p);
  p << ')';
}

static void printLayouts(OpAsmPrinter &p, AttentionOp op) {
  std::pair<StringRef, Layout> layouts[] = {{"query", op.getQueryLayout()},
                                            {"key", op.getKeyLayout()},
                                            {"value", op.getValueLayout()},
                                            {"output", op.getOutputLayout()}};
  auto isBshd = [](auto &entry) { return entry.second == Layout::bshd; };
  if (llvm::none_of(layouts, isBshd))
    return;
  p << " layout(";
  if (llvm::all_of(layouts, isBshd))
    p << "bshd";
  else
    llvm::interleaveComma(llvm::make_filter_range(layouts, isBshd), p,
                          [&](auto &entry) { p << entry.first << " = bshd"; });
  p << ')';
}

static void printRegionClause(OpAsmPrinter &p, StringRef name, Region &region) {
  if (region.empty())
    return;
  p << ' ' << name << '(';
  llvm::interleaveComma(region.getArguments(), p, [&](BlockArgument argument) {
    // A score is f32 unless it is said to be f64; the other types follow.
    p.printRegionArgument(argument, {}, !argument.getType().isF64());
  });
  p << ") ";
  p.printRegion(region, /*printEntryBlockArgs=*/false);
}

void AttentionOp::print(OpAsmPrinter &p) {
  p << ' ' << getQuery() << ", " << getKey() << ", " << getValue();
  auto one = [&](StringRef name, Value value, unsigned segment) {
    if (value)
      printOperands(p, name, getODSOperands(segment));
  };
  one("bias", getBias(), 3);
  one("mask", getMask(), 4);
  one("kv_lengths", getKvLengths(), 5);
  if (getQuerySegments() && getKvSegments()) {
    p << " segments(" << getQuerySegments() << ", " << getKvSegments() << " : "
      << getQuerySegments().getType() << ", " << getKvSegments().getType()
      << ')';
  }
  one("sinks", getSinks(), 8);
  one("query_offset", getQueryOffset(), 9);
  printLayouts(p, *this);
  if (FloatAttr scale = getScaleAttr())
    p << " scale(" << scale.getValue() << ')';
  if (FloatAttr softcap = getSoftcapAttr())
    p << " softcap(" << softcap.getValue() << ')';
  if (getCausal())
    p << " causal";
  if (getWindowLeft() != -1 || getWindowRight() != -1)
    p << " window(" << getWindowLeft() << ", " << getWindowRight() << ')';
  if (getAlignment() == Alignment::bottom_right)
    p << " bottom_right";
  if (TargetAttr target = getTargetAttr())
    p << " target(" << target << ')';
  if (TilingAttr tiling = getTilingAttr())
    p << " tiling(" << tiling << ')';
  printOperands(p, "outs", getOuts());
  printOperands(p, "captures", getCaptures());
  printRegionClause(p, "score_mod", getScoreMod());
  printRegionClause(p, "mask_mod", getMaskMod());

  SmallVector<StringRef> elided = {"scale",
                                   "softcap",
                                   "causal",
                                   "alignment",
                                   "window_left",
                                   "window_right",
                                   "query_layout",
                                   "key_layout",
                                   "value_layout",
                                   "output_layout",
                                   "target",
                                   "tiling",
                                   getOperandSegmentSizesAttrName()};
  p.printOptionalAttrDict((*this)->getAttrs(), elided);
  p << " : " << getQuery().getType() << ", " << getKey().getType() << ", "
    << getValue().getType();
  if (getNumResults() != 0) {
    p << " -> ";
    llvm::interleaveComma(getResultTypes(), p);
  }
}
