# A thin face on CMake and scripts/. Every target does its own set-up.
BUILD_TYPES := release asan tsan

.PHONY: demo test bench lint install setup build $(BUILD_TYPES)

demo: release
	scripts/demo

test: $(BUILD_TYPES)
	scripts/test

bench: release
	scripts/bench

lint: setup
	scripts/lint

# PREFIX=/usr/local unless said otherwise.
install: release
	cmake --install build/release --prefix $(or $(PREFIX),/usr/local)

build: release

setup:
	scripts/setup

$(BUILD_TYPES): setup
	cmake --preset $@ --log-level=WARNING
	cmake --build --preset $@
