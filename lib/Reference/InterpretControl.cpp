//===- InterpretControl.cpp - scf and func --------------------------------===//

#include "Interpreter.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace attn::reference;

using Results = llvm::Expected<SmallVector<Datum>>;

static SmallVector<Datum> dataOf(Interpreter &interpreter, ValueRange values) {
  return llvm::map_to_vector(values,
                             [&](Value v) { return interpreter.get(v); });
}

static Datum indexDatum(int64_t value) {
  return Lanes::scalar(scalarOf(value));
}

static llvm::Error runFor(Interpreter &interpreter, scf::ForOp op) {
  int64_t lower = interpreter.integer(op.getLowerBound());
  int64_t upper = interpreter.integer(op.getUpperBound());
  int64_t step = interpreter.integer(op.getStep());
  if (step <= 0)
    return errorText(nameOf(op) + " has step " + llvm::Twine(step) +
                     "; expected a positive one");
  SmallVector<Datum> carried = dataOf(interpreter, op.getInitArgs());
  for (int64_t i = lower; i < upper; i += step) {
    SmallVector<Datum> arguments = {indexDatum(i)};
    arguments.append(carried);
    Results yielded = interpreter.runBlock(*op.getBody(), arguments);
    if (!yielded)
      return yielded.takeError();
    carried = std::move(*yielded);
  }
  interpreter.set(op.getResults(), carried);
  return llvm::Error::success();
}

static llvm::Error runIf(Interpreter &interpreter, scf::IfOp op) {
  Region &region = interpreter.integer(op.getCondition()) & 1
                       ? op.getThenRegion()
                       : op.getElseRegion();
  if (region.empty())
    return llvm::Error::success();
  Results yielded = interpreter.runBlock(region.front());
  if (!yielded)
    return yielded.takeError();
  interpreter.set(op.getResults(), *yielded);
  return llvm::Error::success();
}

static llvm::Error runWhile(Interpreter &interpreter, scf::WhileOp op) {
  SmallVector<Datum> carried = dataOf(interpreter, op.getInits());
  while (true) {
    Results before = interpreter.runBlock(*op.getBeforeBody(), carried);
    if (!before)
      return before.takeError();
    bool goesOn = before->front().lanes->lanes.front().i & 1;
    ArrayRef<Datum> passed = ArrayRef(*before).drop_front();
    if (!goesOn) {
      interpreter.set(op.getResults(), passed);
      return llvm::Error::success();
    }
    Results after = interpreter.runBlock(*op.getAfterBody(), passed);
    if (!after)
      return after.takeError();
    carried = std::move(*after);
  }
}

/// Runs `body(induction variables)` for each iteration, in either order.
static llvm::Error
forEachTask(Interpreter &interpreter, Operation *op, ArrayRef<int64_t> lower,
            ArrayRef<int64_t> upper, ArrayRef<int64_t> step,
            llvm::function_ref<llvm::Error(ArrayRef<Datum>)> body) {
  Shape counts;
  for (auto [lo, hi, by] : llvm::zip_equal(lower, upper, step)) {
    if (by <= 0)
      return errorText(nameOf(op) + " has step " + llvm::Twine(by) +
                       "; expected a positive one");
    counts.push_back(hi <= lo ? 0 : (hi - lo + by - 1) / by);
  }
  int64_t total = elementCount(counts);
  Shape strides = denseStrides(counts);
  for (int64_t t = 0; t < total; ++t) {
    int64_t task = interpreter.options.reverseParallel ? total - 1 - t : t;
    SmallVector<Datum> variables;
    for (size_t d = 0; d < counts.size(); ++d)
      variables.push_back(
          indexDatum(lower[d] + task / strides[d] % counts[d] * step[d]));
    if (llvm::Error error = body(variables))
      return error;
  }
  return llvm::Error::success();
}

static llvm::Error runForall(Interpreter &interpreter, scf::ForallOp op) {
  if (op.getNumResults() != 0)
    return errorText("the interpreter knows scf.forall without results only");
  return forEachTask(
      interpreter, op, interpreter.integers(op.getMixedLowerBound()),
      interpreter.integers(op.getMixedUpperBound()),
      interpreter.integers(op.getMixedStep()),
      [&](ArrayRef<Datum> variables) -> llvm::Error {
        return interpreter.runBlock(*op.getBody(), variables).takeError();
      });
}

static llvm::Error runParallel(Interpreter &interpreter, scf::ParallelOp op) {
  SmallVector<Datum> carried = dataOf(interpreter, op.getInitVals());
  auto reduce = cast<scf::ReduceOp>(op.getBody()->getTerminator());
  auto body = [&](ArrayRef<Datum> variables) -> llvm::Error {
    Results values = interpreter.runBlock(*op.getBody(), variables);
    if (!values)
      return values.takeError();
    for (auto [index, region] : llvm::enumerate(reduce.getReductions())) {
      Results sum = interpreter.runBlock(region.front(),
                                         {carried[index], (*values)[index]});
      if (!sum)
        return sum.takeError();
      carried[index] = sum->front();
    }
    return llvm::Error::success();
  };
  if (llvm::Error error =
          forEachTask(interpreter, op, interpreter.integers(op.getLowerBound()),
                      interpreter.integers(op.getUpperBound()),
                      interpreter.integers(op.getStep()), body))
    return error;
  interpreter.set(op.getResults(), carried);
  return llvm::Error::success();
}

static llvm::Error runCall(Interpreter &interpreter, func::CallOp op) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      op, op.getCalleeAttr());
  if (!callee || callee.isExternal())
    return errorText("func.call of @" + op.getCallee() + ", which has no body");
  Results results =
      interpreter.call(callee, dataOf(interpreter, op.getOperands()));
  if (!results)
    return results.takeError();
  interpreter.set(op.getResults(), *results);
  return llvm::Error::success();
}

/// Memory is freed with the interpreter.
static llvm::Error runAllocaScope(Interpreter &interpreter,
                                  memref::AllocaScopeOp op) {
  Results results = interpreter.runBlock(op.getBodyRegion().front());
  if (!results)
    return results.takeError();
  interpreter.set(op.getResults(), *results);
  return llvm::Error::success();
}

void attn::reference::addControlHandlers(HandlerTable &table) {
  table.add<runFor>();
  table.add<runIf>();
  table.add<runWhile>();
  table.add<runForall>();
  table.add<runParallel>();
  table.add<runCall>();
  table.add<runAllocaScope>();
}
