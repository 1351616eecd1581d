// write_counts_at_exit.cc — _exit that writes how often lines ran, which gcov does only at exit. Forked members of a
// Fleet end by _exit. With FARSIDE_COVERAGE the library and the test programs contain it, since each has its own
// counts.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" void __gcov_dump();  // gcov.h of GCC 12 declares it for C alone

extern "C" [[noreturn]] void _exit(int code) {
  __gcov_dump();
  // In a test program the next one is that of the library.
  if (void* const next = ::dlsym(RTLD_NEXT, "_exit")) reinterpret_cast<void (*)(int)>(next)(code);
  for (;;) ::syscall(SYS_exit_group, code);
}
