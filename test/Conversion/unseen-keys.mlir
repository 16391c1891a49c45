// Which keys some row sees is written before the values are multiplied, also
// where one flag of a mask stands for all keys and where a block is one key.

// RUN: attn-opt %s --target=cpu:avx512 --emit=mapped | FileCheck %s

// CHECK:     %[[SEEN:.+]] = memref.alloca() {{.*}} : memref<16xi8>
// CHECK:     vector.store %{{.+}}, %[[SEEN]][
// CHECK:     memref.load %[[SEEN]][
func.func @one_flag(%q: memref<1x2x17x40xf32>, %k: memref<1x2x33x40xf32>, %v: memref<1x2x33x48xf32>, %o: memref<1x2x17x48xf32>, %mask: memref<1xi1>) {
  attn.attention %q, %k, %v outs(%o : memref<1x2x17x48xf32>) mask(%mask : memref<1xi1>)
    tiling(#attn.tiling<block_query = 4, block_key = 1, product = "fma", softmax = "exact">)
    : memref<1x2x17x40xf32>, memref<1x2x33x40xf32>, memref<1x2x33x48xf32>
  return
}
