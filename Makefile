# A thin face on CMake and scripts/. Every target does its own set-up.
BUILD_TYPES := release breakable asan tsan

.PHONY: demo test test-long test-vm soak fuzz coverage bench lint install setup build $(BUILD_TYPES)

# Builds no tests and benchmarks, which take twice as long as the rest.
demo: setup
	cmake --preset release --log-level=WARNING
	cmake --build --preset release --target farside_cli farside-preload example_ring
	scripts/demo

test: setup
	scripts/test

# The simulators' guarantees under 20,000 seeds each, for hours; FARSIDE_SIM_SEEDS sets another number.
test-long: release
	scripts/test-long

# Part of the suites once more, over RDMA verbs in virtual machines.
test-vm: release
	scripts/test-vm

# For SOAK_MINUTES=10 unless said otherwise. Seeds that fail are kept in build/soak-failures.txt.
soak: release
	build/release/bin/farside-sim soak --minutes $(or $(SOAK_MINUTES),10) --failures build/soak-failures.txt

# Each fuzzer for FUZZ_SECONDS=60 unless said otherwise. What it finds is kept in build/fuzz/findings.
fuzz: setup
	cmake --preset fuzz --log-level=WARNING
	cmake --build --preset fuzz
	scripts/fuzz $(or $(FUZZ_SECONDS),60)

# Lines and branches of each module that the tests labelled unit and the simulators reach.
coverage: setup
	scripts/coverage

bench: release
	scripts/bench

lint: setup
	scripts/lint --analyze

# PREFIX=/usr/local unless said otherwise.
install: release
	cmake --install build/release --prefix $(or $(PREFIX),/usr/local)

build: release

setup:
	scripts/setup

$(BUILD_TYPES): setup
	cmake --preset $@ --log-level=WARNING
	cmake --build --preset $@
