// Refusals of #attn.target and #attn.tiling.
// RUN: attn-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{unknown field 'nickname', expected one of: name, family, arch}}
func.func private @f() attributes {t = #attn.target<nickname = "cpu">}

// -----

// expected-error@+1 {{field 'name' is given twice}}
func.func private @f() attributes {t = #attn.target<name = "cpu", name = "cpu">}

// -----

// expected-error@+1 {{expected true or false}}
func.func private @f() attributes {t = #attn.tiling<block_query = 4, block_key = 4, pack = 1>}

// -----

// expected-error@+1 {{expected string}}
func.func private @f() attributes {t = #attn.target<name = cpu>}

// -----

// A matrix unit is [kind, type, m, n, k, multiply-adds per cycle].
// expected-error@+1 {{expected ','}}
func.func private @f() attributes {t = #attn.target<matrix_units = [["fma", "f32", 1, 8, 1]]>}

// -----

// expected-error@+1 {{expects clock_mhz of 0 or more, got -1}}
func.func private @f() attributes {t = #attn.target<clock_mhz = -1>}

// -----

// expected-error@+1 {{expects matrix_units of 0 or more, got -8}}
func.func private @f() attributes {t = #attn.target<matrix_units = [["fma", "f32", 1, -8, 1, 16]]>}

// -----

// expected-error@+1 {{expects block_query of 1 to 65536, got 0}}
func.func private @f() attributes {t = #attn.tiling<block_key = 4>}

// -----

// expected-error@+1 {{expects block_key of 1 to 65536, got -4}}
func.func private @f() attributes {t = #attn.tiling<block_query = 4, block_key = -4>}

// -----

// expected-error@+1 {{expects stages of 1 to 1024, got 0}}
func.func private @f() attributes {t = #attn.tiling<block_query = 4, block_key = 4, stages = 0>}

// -----

// expected-error@+1 {{expects register_rows of 0 to 256, got -1}}
func.func private @f() attributes {t = #attn.tiling<block_query = 4, block_key = 4, register_rows = -1>}

// -----

// expected-error@+1 {{expects softmax to be exact, conditional, stale or raised, got rough}}
func.func private @f() attributes {t = #attn.tiling<block_query = 4, block_key = 4, softmax = "rough">}

// -----

// expected-error@+1 {{expected}}
func.func private @f() attributes {t = #attn.tiling<block_query>}

// -----

// expected-error@+1 {{expects block_query of 1 to 65536, got 4294967296}}
func.func private @f() attributes {t = #attn.tiling<block_query = 4294967296, block_key = 4>}

// -----

// A number that does not fit.
// expected-error@+1 {{integer value too large}}
func.func private @f() attributes {t = #attn.tiling<block_query = 99999999999999999999999, block_key = 4>}
