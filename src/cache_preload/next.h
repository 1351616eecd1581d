// next.h — the functions that our hooks stand before.
//
// Stands alone: the hooks of both preloaded libraries use it.
#pragma once

#include <atomic>

#include <dlfcn.h>

namespace farside::cache_preload {

/// The function of this name in libc, or in another library preloaded after us. Found at the first call, since hooks
/// are called before any constructor of ours runs.
template <class Function>
class Next {
 public:
  constexpr explicit Next(const char* name) : name_(name) {}

  template <class... Arguments>
  auto operator()(Arguments... arguments) {
    return find()(arguments...);
  }

  /// Waits for a dlopen that is under way in another thread, unless it was found before.
  Function* find() {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {
      function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_relaxed);
    }
    return function;
  }

 private:
  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

}  // namespace farside::cache_preload
