#include "far/pager/end.h"

#include <array>
#include <csignal>

#include <sys/uio.h>
#include <unistd.h>

namespace farside::far {

void end_process(std::string_view tried, std::string_view why) {
  const auto part = [](std::string_view text) { return iovec{const_cast<char*>(text.data()), text.size()}; };
  const std::array<iovec, 5> line{part("farside: cannot "), part(tried), part(": "), part(why), part("\n")};
  (void)!::writev(STDERR_FILENO, line.data(), static_cast<int>(line.size()));
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGBUS, &action, nullptr);
  sigset_t bus;
  sigemptyset(&bus);
  sigaddset(&bus, SIGBUS);
  ::pthread_sigmask(SIG_UNBLOCK, &bus, nullptr);
  ::raise(SIGBUS);
  ::_exit(128 + SIGBUS);
}

}  // namespace farside::far
