// mapped_writer FILE — stores into a file through a shared mapping when it is told to, a command a line:
//
//   store LETTER    into the file's first byte
//   close           the descriptor; the mapping stays
//   flush           msync
//   unmap
//
// Answers each line by one when it is done.
#include <cstdlib>
#include <iostream>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr std::size_t kBytes = 4096;

bool act(const std::string& command, int file, char* mapping) {
  if (command == "close") return ::close(file) == 0;
  if (command == "flush") return ::msync(mapping, kBytes, MS_SYNC) == 0;
  if (command == "unmap") return ::munmap(mapping, kBytes) == 0;
  char letter = '\0';
  if (command != "store" || !(std::cin >> letter)) return false;
  *static_cast<volatile char*>(mapping) = letter;
  return true;
}

}  // namespace

int main(int count, char** words) {
  const int file = count == 2 ? ::open(words[1], O_RDWR | O_CLOEXEC) : -1;
  void* const mapping = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapping == MAP_FAILED) return EXIT_FAILURE;  // NOLINT(performance-no-int-to-ptr): the system's own macro
  for (std::string command; std::cin >> command;) {
    if (!act(command, file, static_cast<char*>(mapping))) return EXIT_FAILURE;
    std::cout << command << std::endl;
  }
  return EXIT_SUCCESS;
}
