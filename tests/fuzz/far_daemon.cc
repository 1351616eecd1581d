// A packet between an unmodified program and farside far, in either direction: what the program says and where it says
// that its memory is (far/daemon/packets.h), and what the library in the program takes for an answer
// (far_preload/connection.h).
#include <array>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>

#include "far/daemon/packets.h"
#include "far/daemon/program_memory.h"
#include "far_preload/connection.h"
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

/// Two ends, to one of which these bytes have been sent as a packet; none: they are more than a packet can be.
struct Sent {
  explicit Sent(std::string_view bytes) {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    from = Fd(ends[0]);
    to = Fd(ends[1]);
    is_sent = ::send(from.get(), bytes.data(), bytes.size(), 0) >= 0;
    ::shutdown(from.get(), SHUT_WR);
  }
  Fd from;
  Fd to;
  bool is_sent = false;
};

// Not understood, or whole: of this version, with the ranges that it claims, and of those each some whole pages.
void expect_not_understood_or_whole(std::string_view bytes) {
  const Sent sent(bytes);
  if (!sent.is_sent) return;
  const auto received = receive(sent.to);
  if (!received) return;
  require(received->packet.version == kDaemonVersion && DaemonPacket::bytes(received->ranges().size()) == bytes.size());
  require(std::memcmp(&received->packet, bytes.data(), bytes.size()) == 0);
  for (const AddressRange& range : received->ranges()) {
    require(range.address % kPageBytes == 0 && range.bytes % kPageBytes == 0 && range.bytes != 0);
    require(range.address + range.bytes > range.address);
  }
  expect_numbered(received->ranges());
}

// Of this version, and no longer than the packet that it is read into: ranges, or the text of a refusal.
void expect_no_answer_or_whole(std::string_view bytes) {
  const Sent sent(bytes);
  DaemonPacket answer;
  if (!sent.is_sent || !far_preload::receive(sent.to.get(), answer)) return;
  const std::size_t rest =
      answer.kind == DaemonPacketKind::refused ? answer.count : answer.count * sizeof(AddressRange);
  require(answer.version == kDaemonVersion && DaemonPacket::bytes(0) + rest == bytes.size());
  require(bytes.size() <= sizeof answer);
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  farside::fuzz::expect_not_understood_or_whole(farside::fuzz::text(data, bytes));
  farside::fuzz::expect_no_answer_or_whole(farside::fuzz::text(data, bytes));
  return 0;
}
