//===- GradientSinks.cpp - The gradient of the sinks ----------------------===//

#include "../Common/SinkGradient.h"
#include "GradientKernels.h"

using namespace mlir;
using namespace attn;
using namespace attn::hopper;

LogicalResult hopper::emitSinkKernel(WarpgroupForm &form,
                                     gpu::GPUModuleOp &module) {
  FailureOr<Launch> launch = sinkLaunch(form);
  FailureOr<std::string> bytes = Workspace::bytes(form);
  if (failed(launch) || failed(bytes))
    return failure();
  launch->workspace = *bytes;
  FailureOr<KernelOutline> outline =
      addKernel(form.sinks.tasks, *launch,
                (form.function.getName() + "_sinks").str(), module);
  if (failed(outline))
    return failure();
  OpBuilder b(outline->kernel.getBody().front().getTerminator());
  GpuEmitter e{b, form.sinks.tasks.getLoc()};
  Workspace workspace(e, form, *outline);
  auto deltaOf = [&](Value batch, Value head, Value block, Value row) {
    Value place = e.add(
        workspace.delta(workspace.tile(batch, head, block)),
        arith::ExtUIOp::create(e.b, e.loc, e.b.getI64Type(), e.mul(row, 4)));
    return e.ptx("ld.global.f32 $0, [$1];", "=f,l,~{memory}",
                 {e.b.getF32Type()}, {place})[0];
  };
  return emitSinkGradient(e, form, *outline, deltaOf);
}
