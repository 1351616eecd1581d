// contend.h — the main of a contender.
#pragma once

#include <exception>
#include <functional>
#include <iostream>

namespace farside::bench {

/// The exit code of a program that does `run`: 1, after saying why, if that throws.
inline int contend(const std::function<void()>& run) {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

}  // namespace farside::bench
