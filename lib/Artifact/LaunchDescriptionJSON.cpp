//===- LaunchDescriptionJSON.cpp - The launch description as JSON ---------===//
//
// Reading is strict: every field must be there with the right type, and an
// unknown one is an error, so that a typo or a newer writer is noticed where
// it happens. Each error is one line that names the file and the field.
//
//===----------------------------------------------------------------------===//

#include "attn/Artifact/LaunchDescription.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/JSON.h"
#include <set>

using namespace llvm;
using namespace attn;

static StringRef accessName(Access access) {
  switch (access) {
  case Access::In:
    return "in";
  case Access::Out:
    return "out";
  case Access::InOut:
    return "inout";
  }
  llvm_unreachable("unknown access");
}

static StringRef fieldName(ScalarDescription::Field field) {
  switch (field) {
  case ScalarDescription::Field::Size:
    return "size";
  case ScalarDescription::Field::Stride:
    return "stride";
  case ScalarDescription::Field::Offset:
    return "offset";
  }
  llvm_unreachable("unknown field");
}

static StringRef placeName(ScalarsIn place) {
  switch (place) {
  case ScalarsIn::PushConstants:
    return "push_constants";
  case ScalarsIn::Buffer:
    return "buffer";
  case ScalarsIn::Arguments:
    return "arguments";
  }
  llvm_unreachable("unknown place");
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static void writeArgument(json::OStream &j, const ArgumentDescription &a) {
  j.object([&] {
    j.attribute("name", a.name);
    j.attribute("type", elementTypeName(a.type));
    j.attributeArray("shape", [&] {
      for (const Dimension &dimension : a.shape)
        if (dimension.isDynamic())
          j.value(dimension.name);
        else
          j.value(dimension.size);
    });
    if (!a.strides.empty())
      j.attributeArray("strides", [&] {
        for (int64_t stride : a.strides)
          if (stride == kAnyStride)
            j.value("any");
          else
            j.value(stride);
      });
    if (a.offset)
      j.attribute("offset", a.offset);
    j.attribute("access", accessName(a.access));
    if (!a.values.empty())
      j.attribute("values", json::Array(a.values));
  });
}

static void writeSpirv(json::OStream &j, const LaunchDescription &launch) {
  j.attribute("environment", launch.environment);
  j.attributeArray("scalars", [&] {
    for (const ScalarDescription &scalar : launch.scalars)
      j.object([&] {
        j.attribute("argument", scalar.argument);
        j.attribute("field", fieldName(scalar.field));
        if (scalar.field != ScalarDescription::Field::Offset)
          j.attribute("dimension", scalar.dimension);
      });
  });
  j.attribute("scalars_in", placeName(launch.scalarsIn));
  j.attribute("subgroup_size", launch.subgroupSize);
  if (!launch.layoutCheck.empty())
    j.attribute("layout_check", launch.layoutCheck);
}

static void writeTensorMaps(json::OStream &j, const KernelLaunch &kernel) {
  if (kernel.tensorMaps.empty())
    return;
  j.attributeArray("tensor_maps", [&] {
    for (const TensorMapDescription &map : kernel.tensorMaps)
      j.object([&] {
        j.attribute("argument", map.argument);
        j.attribute("box", json::Array(map.box));
        j.attribute("swizzle", map.swizzle);
      });
  });
}

static void writeSizes(json::OStream &j, const KernelLaunch &kernel) {
  j.attribute("grid", json::Array(kernel.grid));
  j.attribute("workgroup", json::Array(kernel.workgroup));
  j.attribute("shared_memory_bytes", kernel.sharedMemoryBytes);
}

static void writeKernels(json::OStream &j, StringRef field,
                         ArrayRef<KernelLaunch> kernels) {
  if (kernels.empty())
    return;
  j.attributeArray(field, [&] {
    for (const KernelLaunch &kernel : kernels)
      j.object([&] {
        j.attribute("entry", kernel.entry);
        writeTensorMaps(j, kernel);
        writeSizes(j, kernel);
      });
  });
}

std::string LaunchDescription::toJSON() const {
  std::string text;
  raw_string_ostream os(text);
  json::OStream j(os, /*IndentSize=*/2);
  j.object([&] {
    j.attribute("version", kVersion);
    j.attribute("format", format);
    j.attribute("name", name);
    j.attribute("entry", entry);
    j.attribute("target", target);
    j.attribute("triple", triple);
    j.attribute("arch", arch);
    j.attribute("features", features);
    j.attribute("abi", abi);
    j.attributeArray("arguments", [&] {
      for (const ArgumentDescription &a : arguments)
        writeArgument(j, a);
    });
    writeTensorMaps(j, *this);
    if (isSpirv())
      writeSpirv(j, *this);
    writeSizes(j, *this);
    writeKernels(j, "then", then);
    writeKernels(j, "otherwise", otherwise);
    j.attribute("workspace_bytes", workspaceBytes);
    j.attribute("flops", flops);
  });
  os << "\n";
  return text;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
/// Takes the fields of one object by name and remembers the first thing that
/// is wrong. After an error it takes nothing more.
class FieldReader {
public:
  FieldReader(const json::Object &object, std::string where,
              std::string &problem)
      : object(object), where(std::move(where)), problem(problem) {}

  void text(StringRef field, std::string &out) {
    if (const json::Value *value = get(field, "a string")) {
      if (std::optional<StringRef> s = value->getAsString())
        out = s->str();
      else
        wrongType(field, "a string", *value);
    }
  }

  void number(StringRef field, int64_t &out) {
    const json::Value *value = get(field, "a number of 0 or more");
    if (!value)
      return;
    std::optional<int64_t> n = value->getAsInteger();
    if (!n || *n < 0)
      return wrongType(field, "a number of 0 or more", *value);
    out = *n;
  }

  /// A list of strings; of exactly `count` when that is given.
  void texts(StringRef field, std::vector<std::string> &out,
             std::optional<size_t> count = std::nullopt) {
    std::string expected =
        count ? (Twine(*count) + " strings").str() : "a list of strings";
    const json::Value *value = get(field, expected);
    if (!value)
      return;
    const json::Array *array = value->getAsArray();
    if (!array || (count && array->size() != *count))
      return wrongType(field, expected, *value);
    for (const json::Value &element : *array) {
      if (!element.getAsString())
        return wrongType(field, expected, *value);
      out.push_back(element.getAsString()->str());
    }
  }

  const json::Array *array(StringRef field) {
    const json::Value *value = get(field, "a list");
    if (value && !value->getAsArray())
      wrongType(field, "a list", *value);
    return value ? value->getAsArray() : nullptr;
  }

  const json::Value *get(StringRef field, const Twine &expected) {
    if (!problem.empty())
      return nullptr;
    taken.insert(field.str());
    const json::Value *value = object.get(field);
    if (!value)
      fail("has no '" + field + "', expected " + expected);
    return value;
  }

  bool has(StringRef field) const { return object.get(field); }

  void wrongType(StringRef field, const Twine &expected,
                 const json::Value &given) {
    std::string shown;
    raw_string_ostream(shown) << given;
    if (shown.size() > 60)
      shown = shown.substr(0, 60) + "...";
    fail("expected '" + field + "' to be " + expected + ", got " + shown);
  }

  void fail(const Twine &what) {
    if (problem.empty())
      problem = (where + what).str();
  }

  /// Every field must have been asked for.
  void finish() {
    for (const auto &entry : object)
      if (!taken.count(entry.first.str()))
        fail("has an unknown field '" + entry.first.str() + "'");
  }

private:
  const json::Object &object;
  std::string where;
  std::string &problem;
  std::set<std::string> taken;
};
} // namespace

static void readShape(FieldReader &reader, std::vector<Dimension> &shape) {
  constexpr StringLiteral kExpected = "a list of sizes and size names";
  const json::Array *array = reader.array("shape");
  if (!array)
    return;
  for (const json::Value &element : *array) {
    if (std::optional<int64_t> size = element.getAsInteger();
        size && *size >= 0)
      shape.emplace_back(*size);
    else if (std::optional<StringRef> name = element.getAsString();
             name && isSizeName(*name))
      shape.emplace_back(name->str());
    else
      return reader.wrongType("shape", kExpected, element);
  }
}

static void readStrides(FieldReader &reader, ArgumentDescription &a) {
  constexpr StringLiteral kExpected = "one stride or \"any\" a dimension";
  const json::Array *array = reader.array("strides");
  if (!array)
    return;
  for (const json::Value &element : *array) {
    if (std::optional<int64_t> stride = element.getAsInteger();
        stride && *stride >= 0)
      a.strides.push_back(*stride);
    else if (element.getAsString() == "any")
      a.strides.push_back(kAnyStride);
    else
      return reader.wrongType("strides", kExpected, element);
  }
  if (a.strides.size() != a.shape.size())
    reader.wrongType("strides", kExpected, json::Value(json::Array(*array)));
}

static void readArgument(const json::Value &value, std::string where,
                         ArgumentDescription &a, std::string &problem) {
  if (!value.getAsObject()) {
    problem = where + "is no object";
    return;
  }
  FieldReader reader(*value.getAsObject(), where, problem);
  std::string type, access;
  reader.text("name", a.name);
  reader.text("type", type);
  readShape(reader, a.shape);
  if (reader.has("strides"))
    readStrides(reader, a);
  if (reader.has("offset"))
    reader.number("offset", a.offset);
  reader.text("access", access);
  if (reader.has("values"))
    reader.texts("values", a.values, 2);
  reader.finish();
  if (std::optional<ElementType> known = parseElementType(type))
    a.type = *known;
  else
    reader.fail("has the unknown element type '" + type + "'");
  std::optional<Access> known = StringSwitch<std::optional<Access>>(access)
                                    .Case("in", Access::In)
                                    .Case("out", Access::Out)
                                    .Case("inout", Access::InOut)
                                    .Default(std::nullopt);
  if (known)
    a.access = *known;
  else
    reader.fail("expected 'access' to be in, out or inout, got '" + access +
                "'");
}

static void readTensorMap(const json::Value &value, std::string where,
                          const LaunchDescription &launch,
                          TensorMapDescription &map, std::string &problem) {
  if (!value.getAsObject()) {
    problem = where + "is no object";
    return;
  }
  FieldReader reader(*value.getAsObject(), where, problem);
  reader.number("argument", map.argument);
  reader.number("swizzle", map.swizzle);
  if (const json::Array *box = reader.array("box")) {
    for (const json::Value &size : *box) {
      std::optional<int64_t> n = size.getAsInteger();
      if (!n || *n <= 0)
        return reader.wrongType("box", "positive numbers", size);
      map.box.push_back(*n);
    }
  }
  reader.finish();
  if (!problem.empty())
    return;
  if (map.argument >= int64_t(launch.arguments.size()))
    return reader.fail("names argument " + Twine(map.argument) + " of " +
                       Twine(launch.arguments.size()));
  if (map.box.size() != launch.arguments[map.argument].shape.size())
    reader.fail("has a box of " + Twine(map.box.size()) +
                " sizes, but its argument has " +
                Twine(launch.arguments[map.argument].shape.size()));
}

static void readScalar(const json::Value &value, std::string where,
                       const LaunchDescription &launch,
                       ScalarDescription &scalar, std::string &problem) {
  using Field = ScalarDescription::Field;
  if (!value.getAsObject()) {
    problem = where + "is no object";
    return;
  }
  FieldReader reader(*value.getAsObject(), where, problem);
  std::string name;
  reader.number("argument", scalar.argument);
  reader.text("field", name);
  std::optional<Field> field = StringSwitch<std::optional<Field>>(name)
                                   .Case("size", Field::Size)
                                   .Case("stride", Field::Stride)
                                   .Case("offset", Field::Offset)
                                   .Default(std::nullopt);
  if (field)
    scalar.field = *field;
  else
    reader.fail("expected 'field' to be size, stride or offset, got '" + name +
                "'");
  if (scalar.field != Field::Offset)
    reader.number("dimension", scalar.dimension);
  reader.finish();
  if (!problem.empty())
    return;
  if (scalar.argument >= int64_t(launch.arguments.size()))
    return reader.fail("names argument " + Twine(scalar.argument) + " of " +
                       Twine(launch.arguments.size()));
  int64_t rank = launch.arguments[scalar.argument].shape.size();
  if (scalar.field != Field::Offset && scalar.dimension >= rank)
    reader.fail("names dimension " + Twine(scalar.dimension) + " of " +
                Twine(rank));
}

static void readSpirv(FieldReader &reader, LaunchDescription &d,
                      std::string &problem) {
  reader.text("environment", d.environment);
  if (const json::Array *scalars = reader.array("scalars"))
    for (size_t i = 0; i < scalars->size() && problem.empty(); ++i)
      readScalar((*scalars)[i], ("scalar " + Twine(i) + " ").str(), d,
                 d.scalars.emplace_back(), problem);
  std::string place;
  reader.text("scalars_in", place);
  std::vector<ScalarsIn> known = {ScalarsIn::PushConstants, ScalarsIn::Buffer};
  if (d.isOpenCL())
    known = {ScalarsIn::Arguments};
  auto found =
      find_if(known, [&](ScalarsIn p) { return placeName(p) == place; });
  if (found != known.end())
    d.scalarsIn = *found;
  else
    reader.fail(
        "expected 'scalars_in' to be " +
        StringRef(d.isOpenCL() ? "arguments" : "push_constants or buffer") +
        ", got '" + place + "'");
  reader.number("subgroup_size", d.subgroupSize);
  if (reader.has("layout_check"))
    reader.text("layout_check", d.layoutCheck);
}

static void readTensorMaps(FieldReader &reader, const LaunchDescription &d,
                           KernelLaunch &kernel, std::string &problem) {
  if (!reader.has("tensor_maps"))
    return;
  if (const json::Array *maps = reader.array("tensor_maps"))
    for (size_t i = 0; i < maps->size() && problem.empty(); ++i)
      readTensorMap((*maps)[i], ("tensor map " + Twine(i) + " ").str(), d,
                    kernel.tensorMaps.emplace_back(), problem);
}

static void readSizes(FieldReader &reader, KernelLaunch &kernel) {
  std::vector<std::string> grid, workgroup;
  reader.texts("grid", grid, kernel.grid.size());
  reader.texts("workgroup", workgroup, kernel.workgroup.size());
  reader.text("shared_memory_bytes", kernel.sharedMemoryBytes);
  if (grid.size() == kernel.grid.size())
    copy(grid, kernel.grid.begin());
  if (workgroup.size() == kernel.workgroup.size())
    copy(workgroup, kernel.workgroup.begin());
}

static void readKernel(const json::Value &value, std::string where,
                       const LaunchDescription &d, KernelLaunch &kernel,
                       std::string &problem) {
  if (!value.getAsObject()) {
    problem = where + "is no object";
    return;
  }
  FieldReader reader(*value.getAsObject(), where, problem);
  reader.text("entry", kernel.entry);
  readTensorMaps(reader, d, kernel, problem);
  readSizes(reader, kernel);
  reader.finish();
}

/// Kernels beside the first, counted from `first` in errors.
static void readKernels(FieldReader &reader, StringRef field, size_t first,
                        const LaunchDescription &d,
                        std::vector<KernelLaunch> &kernels,
                        std::string &problem) {
  if (!reader.has(field))
    return;
  if (const json::Array *array = reader.array(field))
    for (size_t i = 0; i < array->size() && problem.empty(); ++i)
      readKernel((*array)[i], ("kernel " + Twine(first + i) + " ").str(), d,
                 kernels.emplace_back(), problem);
}

Expected<LaunchDescription> LaunchDescription::fromJSON(StringRef text,
                                                        StringRef source) {
  auto fail = [&](const Twine &what) {
    return createStringError("launch description '" + source + "' " + what);
  };
  Expected<json::Value> root = json::parse(text);
  if (!root) {
    // The parser says "[line:column, byte=n]: what".
    std::string what = toString(root.takeError());
    return fail("is no complete JSON text: " + what);
  }
  const json::Object *object = root->getAsObject();
  if (!object)
    return fail("is no JSON object");
  std::optional<int64_t> version = object->getInteger("version");
  if (!version)
    return fail("has no 'version'");
  if (*version != kVersion)
    return fail("has version " + Twine(*version) + ", expected " +
                Twine(kVersion) + "; compile the kernel again");

  LaunchDescription d;
  std::string problem;
  FieldReader reader(*object, "", problem);
  reader.get("version", "a number");
  reader.text("format", d.format);
  reader.text("name", d.name);
  reader.text("entry", d.entry);
  reader.text("target", d.target);
  reader.text("triple", d.triple);
  reader.text("arch", d.arch);
  reader.text("features", d.features);
  reader.text("abi", d.abi);
  if (const json::Array *arguments = reader.array("arguments"))
    for (size_t i = 0; i < arguments->size() && problem.empty(); ++i)
      readArgument((*arguments)[i], ("argument " + Twine(i) + " ").str(),
                   d.arguments.emplace_back(), problem);
  readTensorMaps(reader, d, d, problem);
  if (d.isSpirv())
    readSpirv(reader, d, problem);
  readSizes(reader, d);
  readKernels(reader, "then", 1, d, d.then, problem);
  readKernels(reader, "otherwise", 1 + d.then.size(), d, d.otherwise, problem);
  reader.text("workspace_bytes", d.workspaceBytes);
  reader.text("flops", d.flops);
  reader.finish();
  if (!problem.empty())
    return fail(problem);
  return d;
}
