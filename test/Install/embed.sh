#!/usr/bin/env bash
# Installs into a fresh prefix, builds examples/embed against it alone, runs it.
#
#   embed.sh SOURCE BUILD CXX
set -euo pipefail
source=$1 build=$2 cxx=$3
work="$build/test/Install"
rm -rf "$work"
mkdir -p "$work"
fail() { echo "install test: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" ||
  fail "cmake --install failed, see $work/install.log"
for file in bin/attn-opt lib/AttnPlugin.so lib/libAttnIR.a \
  lib/cmake/Attn/AttnConfig.cmake include/attn/IR/AttnOps.td \
  include/attn/IR/AttnOps.h.inc; do
  [ -e "$work/prefix/$file" ] || fail "$file is not installed"
done
# The targets must not lead back to where they were built.
if grep -l -r -F -e "$source" -e "$build" "$work/prefix/lib/cmake"; then
  fail "the files above name the build tree"
fi

cmake -S "$source/examples/embed" -B "$work/embed" -G Ninja \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/configure.log" ||
  { cat "$work/configure.log"; fail "find_package(Attn) failed"; }
cmake --build "$work/embed" >"$work/build.log" ||
  { cat "$work/build.log"; fail "the embedding project does not build"; }
"$work/embed/embed" >"$work/embed.mlir" || fail "the embedding project failed"
grep -q 'llvm.func @attention' "$work/embed.mlir" ||
  fail "no function of the LLVM dialect in its output"
"$work/prefix/bin/attn-opt" "$work/embed.mlir" -o "$work/again.mlir" ||
  fail "the installed attn-opt does not read its output"
echo "install test: installed, found, built, run"
