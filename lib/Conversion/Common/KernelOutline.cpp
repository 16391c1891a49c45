//===- KernelOutline.cpp - A task loop's function as a GPU kernel ---------===//

#include "KernelOutline.h"
#include "attn/IR/Fallback.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace attn;

FailureOr<std::string> attn::toSizeExpression(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return std::to_string(constant.getSExtValue());
  Operation *op = value.getDefiningOp();
  if (!op)
    return emitError(value.getLoc(), "expected a size of an argument, got a "
                                     "scalar argument");
  if (auto dim = dyn_cast<memref::DimOp>(op)) {
    auto argument = dyn_cast<BlockArgument>(dim.getSource());
    std::optional<int64_t> position = dim.getConstantIndex();
    if (argument && position)
      return "arg" + std::to_string(argument.getArgNumber()) + "_dim" +
             std::to_string(*position);
  }
  auto binary = [&](StringRef before,
                    StringRef between) -> FailureOr<std::string> {
    FailureOr<std::string> x = toSizeExpression(op->getOperand(0));
    FailureOr<std::string> y = toSizeExpression(op->getOperand(1));
    if (failed(x) || failed(y))
      return failure();
    return (before + *x + between + *y + ")").str();
  };
  if (isa<arith::AddIOp>(op))
    return binary("(", " + ");
  if (isa<arith::SubIOp>(op))
    return binary("(", " - ");
  if (isa<arith::MulIOp>(op))
    return binary("(", " * ");
  if (isa<arith::DivUIOp>(op))
    return binary("(", " / ");
  if (isa<arith::CeilDivUIOp>(op))
    return binary("ceildiv(", ", ");
  if (isa<arith::MinSIOp>(op))
    return binary("min(", ", ");
  if (isa<arith::MaxSIOp>(op))
    return binary("max(", ", ");
  return op->emitOpError("has no place in the grid of a kernel; expected "
                         "arithmetic on the sizes of its arguments");
}

/// A part of the attention: a task loop, or the memory of what one leaves to
/// the next. The condition that bufferization frees it under is left out with
/// it.
static bool isPart(Operation &op) {
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return branch->getNumResults() == 0 && !branch.elseBlock() &&
           llvm::all_of(branch.thenBlock()->without_terminator(), isPart);
  return op.hasAttr(kTilingAttrName) ||
         isa<memref::AllocOp, memref::DeallocOp>(op);
}

/// Ops in front of the task loop that a kernel can repeat in every thread.
static LogicalResult verifyOnlyAttends(func::FuncOp function,
                                       scf::ForallOp tasks) {
  if (tasks->getParentOp() != function || !function.getBody().hasOneBlock())
    return function.emitOpError("has control flow around its attention, and a "
                                "GPU kernel is the attention alone; move it "
                                "to the caller");
  for (Operation &op : function.getBody().front()) {
    if (isPart(op) || op.hasTrait<OpTrait::IsTerminator>() || isPure(&op))
      continue;
    return op.emitOpError("stands beside the attention, and a GPU kernel is "
                          "the attention alone; move it to a function of its "
                          "own");
  }
  return success();
}

/// Beside the function. A fallback's kernel stands in the module of the
/// function that it can replace.
static gpu::GPUModuleOp findOrCreateModule(func::FuncOp function,
                                           scf::ForallOp tasks) {
  FlatSymbolRefAttr fallback = getFallback(function);
  StringRef owner = fallback ? fallback.getValue() : function.getName();
  auto name = StringAttr::get(function.getContext(), owner + "_kernels");
  if (auto known = SymbolTable::lookupNearestSymbolFrom<gpu::GPUModuleOp>(
          function, name))
    return known;
  OpBuilder b(function);
  auto module = gpu::GPUModuleOp::create(b, tasks.getLoc(), name);
  module->setAttr(kTargetAttrName, tasks->getAttr(kTargetAttrName));
  return module;
}

FailureOr<KernelOutline> attn::outlineKernel(scf::ForallOp tasks,
                                             const Launch &launch) {
  gpu::GPUModuleOp module;
  auto function = tasks->getParentOfType<func::FuncOp>();
  return addKernel(tasks, launch, function.getName(), module);
}

FailureOr<KernelOutline> attn::addKernel(scf::ForallOp tasks,
                                         const Launch &launch, StringRef name,
                                         gpu::GPUModuleOp &module,
                                         Type workspaceType) {
  auto function = tasks->getParentOfType<func::FuncOp>();
  if (failed(verifyOnlyAttends(function, tasks)))
    return failure();
  Location loc = tasks.getLoc();
  OpBuilder b(function);
  if (!module)
    module = findOrCreateModule(function, tasks);
  KernelOutline outline;
  outline.module = module;
  b.setInsertionPointToEnd(module.getBody());

  SmallVector<Type> types(function.getArgumentTypes());
  unsigned workspace = types.size();
  if (!launch.workspace.empty())
    types.push_back(MemRefType::get(
        ShapedType::kDynamic, workspaceType ? workspaceType : b.getF32Type()));
  unsigned firstMap = types.size();
  if (!launch.tensorMaps.empty())
    types.append(launch.tensorMaps.size(),
                 LLVM::LLVMPointerType::get(b.getContext()));
  outline.kernel = gpu::GPUFuncOp::create(
      b, loc, name, b.getFunctionType(types, TypeRange()));
  outline.kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                          b.getUnitAttr());
  setLaunch(outline.kernel, launch);
  if (FlatSymbolRefAttr fallback = getFallback(function))
    outline.kernel->setAttr(kFallbackAttrName, fallback);

  Block &body = outline.kernel.getBody().front();
  for (BlockArgument argument : function.getArguments())
    outline.values.map(argument, body.getArgument(argument.getArgNumber()));
  if (workspace != firstMap)
    outline.workspace = body.getArgument(workspace);
  for (unsigned i = firstMap; i < types.size(); ++i)
    outline.tensorMaps.push_back(body.getArgument(i));
  b.setInsertionPointToStart(&body);
  for (Operation &op : function.getBody().front()) {
    if (&op == tasks)
      break;
    // What depends on scratch of the tiled form finds its own in the workspace.
    if (!isPart(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
          return outline.values.contains(operand);
        }))
      b.clone(op, outline.values);
  }
  gpu::ReturnOp::create(b, loc);
  return outline;
}
