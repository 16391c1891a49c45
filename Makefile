# One command each. `make demo` and `make test` are all that a fresh Debian 12
# needs: they install what is missing, build, and end in a plain summary.
#
#   make demo         one attention module for every target, run on this CPU
#   make test         every test: unit, lit, install, plugin, format, spelling
#   make build        tools in build/bin, and the tests
#   make bench-cpu    speed against the machine's limit and the peers; BENCH=--avx2,
#                     --gradients, --memory or --compile for the other figures
#   make docs         docs/Dialect.md and docs/Passes.md from the definitions
#   make lint         format, spelling, stray paths
#   make format       rewrite the sources with clang-format
#   make fuzz         mutated modules for FUZZ_SECONDS (600)
#   make test-long    the randomised tests with their large budget
#   make install      into PREFIX (/usr/local)
#   make clean        remove the build folder
#
# BUILD names the build folder, PRESET the configuration (CMakePresets.json),
# CMAKE_FLAGS what else to tell CMake; DEPS=no leaves the machine as it is.

PRESET ?= release
BUILD ?= $(if $(filter release,$(PRESET)),build,build-$(PRESET))
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 600
DEPS ?= yes
JOBS ?= $(shell nproc)

# clang-22 where it is installed, else the machine's compiler; one that the
# caller names wins. By the environment, which CMake reads the first time only:
# a compiler named on its command line again makes it start over.
ifeq ($(origin CXX),default)
  COMPILER = $$(command -v clang++-22 >/dev/null && echo CC=clang-22 CXX=clang++-22)
endif

# PRESET=asan: libLLVM is not instrumented, so what it does to the memory of its
# allocators and containers is not seen.
export ASAN_OPTIONS ?= allow_user_poisoning=0:detect_container_overflow=0

.DEFAULT_GOAL := build
.PHONY: demo test tools build bench-cpu docs lint format format-check fuzz test-long \
        install clean deps configure

# make forgets the clock between recipes; the summary wants the whole time.
START := $(shell date +%s)
step = @printf '\n== %s\n' "$(1)"
done = @printf '\n== %s (%s s)\n' "$(1)" "$$(( $$(date +%s) - $(START) ))"

deps:
	$(call step,Tools and libraries)
	@if [ "$(DEPS)" = no ]; then echo "not looked at (DEPS=no)"; \
	 else scripts/install-deps.sh $(if $(filter asan,$(PRESET)),asan,build); fi

configure: deps
	$(call step,Configure: preset $(PRESET) in $(BUILD))
	@env $(COMPILER) cmake --preset $(PRESET) -B $(BUILD) $(CMAKE_FLAGS) \
	  > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

tools: configure
	$(call step,Build the tools with $(JOBS) jobs)
	@cmake --build $(BUILD) -j $(JOBS) --target attn-tools
	$(call done,Built: tools are in $(BUILD)/bin)

build: configure
	$(call step,Build with $(JOBS) jobs)
	@cmake --build $(BUILD) -j $(JOBS)
	$(call done,Built: tools are in $(BUILD)/bin)

test: build
	$(call step,Tests)
	@ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure -LE long \
	  --no-tests=error
	$(call done,All tests passed)

test-long: build
	$(call step,Long tests)
	@ctest --test-dir $(BUILD) --output-on-failure -L long --no-tests=error
	$(call done,All long tests passed)

# The OpenBLAS of numpy's wheel, not held back, measures the machine's limit.
demo: tools
	@[ "$(DEPS)" = no ] || scripts/install-deps.sh python $(BUILD)/venv numpy
	$(call step,Demo)
	@env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE \
	  $(BUILD)/venv/bin/python scripts/demo.py $(BUILD)
	$(call done,Demo finished)

bench-cpu: tools
	@[ "$(DEPS)" = no ] || scripts/install-deps.sh python $(BUILD)/venv \
	  numpy threadpoolctl onnx onnxruntime openvino torch
	$(call step,CPU benchmark)
	@$(BUILD)/venv/bin/python test/bench/bench_cpu.py --build $(BUILD) $(BENCH)
	$(call done,CPU benchmark finished)

docs: configure
	$(call step,Reference pages from the definitions)
	@cmake --build $(BUILD) -j $(JOBS) --target attn-docs
	$(call done,Written: docs/Dialect.md and docs/Passes.md)

lint: deps
	$(call step,Format spelling and stray paths)
	@scripts/lint.sh
	$(call done,Lint passed)

format-check: deps
	@scripts/lint.sh format

format: deps
	@scripts/lint.sh fix

fuzz: build
	$(call step,Fuzz for $(FUZZ_SECONDS) s)
	@$(BUILD)/test/fuzz/attn-fuzz --seed=$(START) --seconds=$(FUZZ_SECONDS) \
	  '--pipeline=attn-to-tiled{target=cpu:avx2}' test/IR/*.mlir test/Transforms/tile*.mlir
	$(call done,Fuzz finished)

install: build
	$(call step,Install into $(PREFIX))
	@cmake --install $(BUILD) --prefix $(PREFIX)
	$(call done,Installed: find_package(Attn) with CMAKE_PREFIX_PATH=$(PREFIX))

clean:
	rm -rf $(BUILD)
