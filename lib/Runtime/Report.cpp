//===- Report.cpp - What the tools print of a run -------------------------===//

#include "attn/Runtime/Report.h"
#include "attn/Runtime/Arguments.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
using namespace attn;

Expected<std::string> attn::speedText(const LaunchDescription &launch,
                                      ArrayRef<HostTensor> arguments,
                                      const Timing &timing) {
  std::string text =
      formatv("median {0:f4} ms, minimum {1:f4} ms of {2} runs",
              timing.median * 1e3, timing.minimum * 1e3, timing.runs);
  if (!launch.flops.empty()) {
    Expected<SizeMap> sizes = bindSizes(launch, arguments);
    if (!sizes)
      return sizes.takeError();
    Expected<int64_t> flops = evaluateSize(launch.flops, *sizes);
    if (!flops)
      return flops.takeError();
    text += formatv(", {0:f4} TFLOP/s", *flops / timing.median * 1e-12);
  }
  double bytes = 0;
  for (const HostTensor &argument : arguments)
    bytes += argument.bytes();
  return text + formatv(", {0:f2} GB/s", bytes / timing.median * 1e-9).str();
}

Expected<int64_t> attn::parseRuns(StringRef text) {
  int64_t runs = 0;
  if (!text.empty() && (text.getAsInteger(10, runs) || runs < 1))
    return createStringError("expected --bench or --bench=RUNS with a number "
                             "of 1 or more, got '" +
                             text + "'");
  return runs;
}
