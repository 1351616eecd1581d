// What a client of the Redis protocol sends (kv/resp/client.h), in two pieces, to a store that is empty.
#include "kv/resp/client.h"
#include "tests/fuzz/decode.h"
#include "tests/kv/resp/memory_session.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  test::MemoryKeys keys;
  test::MemorySession session(keys);
  kv::RespStatus status{kv::RespSettings{}};
  kv::RespClient client(session, status, 1, "fuzzer:1");
  const std::string_view bytes = fuzz::text(data, size);
  std::string input(bytes.substr(0, size / 2));
  std::string output;
  if (!client.obey(input, output)) return 0;
  input += bytes.substr(size / 2);
  (void)client.obey(input, output);
  return 0;
}
