// A program that is linked statically, so nothing is preloaded into it. With the argument "stays" it stays until it is
// ended.
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

int main(int count, char** arguments) {
  constexpr std::size_t kBytes = std::size_t{160} << 20U;
  void* const memory = std::malloc(kBytes);
  if (memory == nullptr) return 1;
  std::memset(memory, 1, kBytes);
  while (count > 1 && std::strcmp(arguments[1], "stays") == 0) pause();
  return 0;
}
