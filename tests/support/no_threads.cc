// In programs of pure logic, which the thread sanitizer leaves out (tests/CMakeLists.txt, farside_logic_test).
#include <cstdio>
#include <cstdlib>

#include <pthread.h>

extern "C" int pthread_create(pthread_t* /*thread*/, const pthread_attr_t* /*attributes*/, void* (* /*body*/)(void*),
                              void* /*argument*/) noexcept {
  std::fputs("this program starts a thread, so it is no farside_logic_test: make it a farside_test\n", stderr);
  std::abort();
}
