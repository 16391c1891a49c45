// Code that uses tile registers says so, also when the processor model implies
// them, and they are asked for before it runs.
// REQUIRES: amx

// RUN: attn-opt %s --target=cpu --emit=obj -o %t.o
// RUN: FileCheck %s < %t.o.json
// CHECK: "features": "{{.*}}+amx-tile
// RUN: attn-run %s --target=cpu --seed=1 | FileCheck %s --check-prefix=ROWS
// RUN: attn-run %s --target=cpu:amx --seed=1 | FileCheck %s --check-prefix=ROWS
// RUN: attn-launch %t.o --seed=1
// ROWS: check all 512 rows checked

// Where Linux does not grant them, the host is a chip without them.
// RUN: %python %S/Inputs/without-tiles.py attn-opt %s --target=cpu --emit=configured | FileCheck %s --check-prefix=NONE
// NONE: features = "{{.*}}-amx-tile
// NONE-SAME: matrix_units = {{\[\["dot", "bf16"}}
// RUN: %python %S/Inputs/without-tiles.py attn-run %s --target=cpu --seed=1 | FileCheck %s --check-prefix=ROWS
// RUN: not %python %S/Inputs/without-tiles.py attn-run %s --target=cpu:amx --seed=1 2>&1 | FileCheck %s --check-prefix=REFUSED
// REFUSED: {{^}}attn-run: error: the Linux kernel refuses the AMX tile registers
func.func @attention(%q: tensor<1x4x128x64xbf16>, %k: tensor<1x4x128x64xbf16>,
                     %v: tensor<1x4x128x64xbf16>) -> tensor<1x4x128x64xbf16> {
  %o = attn.attention %q, %k, %v causal
    : tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>, tensor<1x4x128x64xbf16>
    -> tensor<1x4x128x64xbf16>
  return %o : tensor<1x4x128x64xbf16>
}
