#!/usr/bin/env bash
# Installs what is missing on Debian 12, and nothing else.
#
#   scripts/install-deps.sh                          compilers, LLVM and MLIR 22, test tools
#   scripts/install-deps.sh asan                     these and the sanitizers
#   scripts/install-deps.sh python VENV WHEEL...     Python packages into a folder of the build
#
# LLVM and MLIR 22 are in Debian's security archive. Everything present is left
# alone, so a second call takes a fraction of a second and needs no network.
set -euo pipefail

# LLVM's CMake files name the targets of zlib and zstd, found or not; they look for
# libedit and curl too, but do without.
packages=(
  cmake ninja-build git g++ clang-22 lld-22
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools libomp-22-dev zlib1g-dev libzstd-dev
  libgtest-dev clang-format-22 codespell python3 python3-numpy qemu-user
  libvulkan-dev mesa-vulkan-drivers vulkan-validationlayers spirv-tools
  pocl-opencl-icd ocl-icd-libopencl1 llvm-spirv-15
)
say() { printf '%s\n' "$*"; }
fail() { printf 'install-deps: %s\n' "$*" >&2; exit 1; }

# Prints those of its arguments that are not installed.
missing() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
      grep -qx installed || printf '%s ' "$package"
  done
}

install_debian() {
  command -v dpkg-query >/dev/null ||
    fail "this is not a Debian system; install LLVM and MLIR 22 yourself and use 'make DEPS=no CMAKE_FLAGS=-DMLIR_DIR=...'"
  local wanted
  wanted=$(missing "$@")
  if [ -z "$wanted" ]; then
    say "Debian packages: all $# present"
    return
  fi
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      fail "missing: $wanted; install them as root (apt-get install --no-install-recommends $wanted) and try again"
    root=(sudo)
  fi
  say "Debian packages to install: $wanted"
  "${root[@]}" apt-get update -qq
  # shellcheck disable=SC2086 # one word a package
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends $wanted >/dev/null ||
    fail "apt-get could not install: $wanted"
  say "Debian packages: installed"
}

install_python() {
  local venv=$1 wheel wanted=()
  shift
  [ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv"
  for wheel in "$@"; do
    compgen -G "$venv/lib/python3*/site-packages/${wheel//-/_}-*.dist-info" \
      >/dev/null || wanted+=("$wheel")
  done
  if [ ${#wanted[@]} -gt 0 ]; then
    say "Python packages to install in $venv: ${wanted[*]}"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "${wanted[@]}"
  fi
  say "Python packages: all $# present"
}

case "${1:-build}" in
build) install_debian "${packages[@]}" ;;
asan) install_debian "${packages[@]}" libclang-rt-22-dev ;;
python)
  shift
  [ $# -ge 2 ] || fail "usage: install-deps.sh python VENV WHEEL..."
  install_debian python3-venv
  install_python "$@"
  ;;
*) fail "expected 'build', 'asan' or 'python VENV WHEEL...', got '$1'" ;;
esac
