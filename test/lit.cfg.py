# The lit suite. Tools are found on PATH: ours first, then LLVM 22's.
import glob
import os
import platform
import shutil

import lit.formats

config.name = "attn"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.join(config.attn_source, "test")
config.test_exec_root = os.path.join(config.attn_build, "test")
config.excludes = ["Inputs", "bench", "data", "embed", "fuzz", "unit"]

config.environment["PATH"] = os.pathsep.join(
    [
        os.path.join(config.attn_build, "bin"),
        config.llvm_tools,
        config.environment.get("PATH", ""),
    ]
)
for variable in ("OMP_NUM_THREADS", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

# Longest names first: lit replaces in order.
config.substitutions += [
    ("%attn_plugin", os.path.join(config.attn_build, "lib", "AttnPlugin.so")),
    ("%attn_source", config.attn_source),
    ("%attn_build", config.attn_build),
    ("%attn_data", os.path.join(config.test_source_root, "data")),
    ("%python", config.python),
]

# What this machine's CPU can execute, for REQUIRES: lines. Compiling for a CPU
# needs no feature, running its code does.
FEATURES = {
    "avx2": {"avx2", "fma"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
    "avx512bf16": {"avx512_bf16"},
    "avx512fp16": {"avx512_fp16"},
    "amx": {"amx_tile", "amx_bf16"},
    "neon": {"asimd"},
}


def cpu_flags():
    try:
        with open("/proc/cpuinfo") as cpuinfo:
            for line in cpuinfo:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return set(value.split())
    except OSError:
        pass
    return set()


flags = cpu_flags()
config.available_features |= {f for f, needs in FEATURES.items() if needs <= flags}
config.available_features.add("host-" + platform.machine())

# Mesa's software device, under the validation layers, unless the environment
# names drivers already.
names = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
drivers = {name: os.environ[name] for name in names if name in os.environ}
for software in glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json"):
    drivers = drivers or dict.fromkeys(names, software)
config.environment.update(drivers)
if drivers:
    config.available_features.add("vulkan")
config.environment["ATTN_VULKAN_VALIDATION"] = "1"

# A device behind OpenCL's loader, and what makes SPIR-V of use to it.
if glob.glob("/etc/OpenCL/vendors/*.icd") and shutil.which("llvm-spirv-15"):
    config.available_features.add("opencl")

if shutil.which("spirv-val") and shutil.which("spirv-dis"):
    config.available_features.add("spirv-val")

# NVIDIA's assembler, where attn-opt looks for it.
places = ["/usr/local/cuda/bin", None]
if "CUDA_HOME" in os.environ:
    config.environment["CUDA_HOME"] = os.environ["CUDA_HOME"]
    places.insert(0, os.path.join(os.environ["CUDA_HOME"], "bin"))
if any(shutil.which("ptxas", path=place) for place in places):
    config.available_features.add("ptxas")

# Code for another machine runs where an emulator, and a compiler that links for
# it without that machine's libraries, are installed.
clang = shutil.which("clang-22") or shutil.which("clang")
lld = shutil.which("ld.lld", path=config.environment["PATH"])
if clang and lld and shutil.which("qemu-aarch64"):
    config.available_features.add("qemu-aarch64")
    flags = "--target=aarch64-linux-gnu -ffreestanding -fno-builtin -nostdlib -static"
    config.substitutions.append(("%clang_aarch64", f"{clang} {flags} -fuse-ld={lld} -O1"))
