// The card of a member, which all others read first.
#include "team/member_card.h"
#include "tests/fuzz/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  farside::fuzz::expect_refused_or_understood<farside::team::MemberCard>(farside::fuzz::text(data, bytes));
  return 0;
}
