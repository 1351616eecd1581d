// A profile that a person has edited (far/daemon/profile.h). It is refused with an Error; or its hints are taken, and
// the profile that is written then can be read again.
#include "far/daemon/profile.h"

#include <cstdlib>

#include "farside/base/error.h"

#include "tests/fuzz/scratch_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  static const fuzz::ScratchDirectory place;
  constexpr std::uint64_t kBudget = 1U << 20U;
  const std::string file = place.path() + "/profile.json";
  fuzz::write_bytes(file, std::as_bytes(std::span(data, size)));
  far::Profile profile(kBudget);
  try {
    profile.read_hints(file);
  } catch (const Error&) {
    return 0;
  }
  profile.allocated("main.c:1", "main", kBudget).note(far::PageEvent::fetched, kBudget);
  const auto given = profile.hints_given();
  if (given.unknown > given.names || given.allocations > 1) std::abort();
  profile.write(file);
  far::Profile(kBudget).read_hints(file);
  return 0;
}
