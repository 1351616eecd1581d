// A client of the Redis protocol before it has said the password (kv/resp/client.h). Until then it reaches no key, and
// the server keeps little for it. The number of pieces in which its bytes arrive makes no difference.
//
// Input: the size of a piece (1 byte, 0 as 1), and the client's bytes. The password is "p".
#include <algorithm>
#include <cstdlib>

#include "kv/resp/client.h"
#include "tests/fuzz/decode.h"
#include "tests/kv/resp/memory_session.h"

namespace farside::fuzz {
namespace {

// What a client may make the server keep: a request at the limit, and the places of its arguments.
constexpr std::size_t kMaxKept = 4096;

struct Said {
  std::string output;
  bool is_open = true;
  bool is_known = false;  ///< it has said the password, and what came later was not looked at

  friend bool operator==(const Said&, const Said&) = default;
};

/// What a client is told that sends `bytes`, so many at a time.
Said say(std::string_view bytes, std::size_t at_a_time) {
  test::MemoryKeys keys;
  test::MemorySession session(keys);
  kv::RespStatus status{kv::RespSettings{.password = "p"}};
  kv::RespClient client(session, status, 1, "fuzzer:1");
  Said said;
  for (std::string input; !bytes.empty() && said.is_open && !said.is_known;) {
    input += bytes.substr(0, at_a_time);
    bytes.remove_prefix(std::min(at_a_time, bytes.size()));
    std::size_t before = 0;
    do {  // a wrong password ends the call
      before = input.size();
      said.is_open = client.obey(input, said.output);
      said.is_known = client.ever_authenticated();
    } while (said.is_open && !said.is_known && input.size() != before);
    if (said.is_known) return said;
    if (keys.gets + keys.puts != 0) std::abort();
    if (input.size() + client.buffered_bytes() > kMaxKept + at_a_time) std::abort();
  }
  return said;
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside::fuzz;
  if (size == 0) return 0;
  const std::string_view bytes = text(data + 1, size - 1);
  const Said whole = say(bytes, std::max<std::size_t>(bytes.size(), 1));
  const Said in_pieces = say(bytes, std::max<std::size_t>(data[0], 1));
  if (whole.is_known != in_pieces.is_known) std::abort();
  if (!whole.is_known && whole != in_pieces) std::abort();
  return 0;
}
