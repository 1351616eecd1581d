// Writes a file to standard output. Linked statically nothing can be preloaded into it; linked to the library it needs
// none.
#include <fcntl.h>
#include <unistd.h>

int main(int count, char** words) {
  static char buffer[65536];
  const int file = count == 2 ? open(words[1], O_RDONLY) : -1;
  ssize_t got = 0;
  while ((got = read(file, buffer, sizeof buffer)) > 0) {
    if (write(STDOUT_FILENO, buffer, static_cast<size_t>(got)) != got) return 1;
  }
  return got == 0 ? 0 : 1;
}
