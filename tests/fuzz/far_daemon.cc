// What an unmodified program says to farside far (far/daemon/packets.h), and where it says that its memory is.
#include <array>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>

#include "far/daemon/packets.h"
#include "far/daemon/program_memory.h"
#include "tests/fuzz/decode.h"

namespace farside::fuzz {
namespace {

using namespace far;

void require(bool promised) {
  if (!promised) std::abort();
}

// Each page has one number, and each number one page.
void expect_numbered(std::span<const AddressRange> named) {
  try {
    const PageRanges ranges(named);
    for (const PageRanges::Piece& piece : ranges.pieces()) {
      const PageNumber last = piece.first + piece.count - 1;
      require(ranges.address_of(piece.first) == piece.address && ranges.address_of(last) == piece.end() - kPageBytes);
      require(ranges.page_of(piece.address) == piece.first && ranges.page_of(piece.end() - 1) == last);
      require(last < ranges.pages());
    }
  } catch (const Error&) {
  }
}

// Not understood, or whole: of this version, with the ranges that it claims, and of those each some whole pages.
void expect_not_understood_or_whole(std::string_view bytes) {
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const Fd program(ends[0]);
  const Fd server(ends[1]);
  if (::send(program.get(), bytes.data(), bytes.size(), 0) < 0) return;  // more than a packet can be
  const auto received = receive(server);
  if (!received) return;
  require(received->packet.version == kDaemonVersion && DaemonPacket::bytes(received->ranges().size()) == bytes.size());
  require(std::memcmp(&received->packet, bytes.data(), bytes.size()) == 0);
  for (const AddressRange& range : received->ranges()) {
    require(range.address % kPageBytes == 0 && range.bytes % kPageBytes == 0 && range.bytes != 0);
    require(range.address + range.bytes > range.address);
  }
  expect_numbered(received->ranges());
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  farside::fuzz::expect_not_understood_or_whole(farside::fuzz::text(data, bytes));
  return 0;
}
