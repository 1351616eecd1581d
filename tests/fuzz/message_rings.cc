// A peer writes into the rings of comm's messages (comm/protocol/message_rings.h): anything, anywhere, and records
// whose checksums are right and whose contents are not. The receiver delivers only what has the shape of a message.
//
// Input: each thing that is written: its kind (1 byte): even, bytes as they are (team_of_two.h); odd, the next record
// and the tail behind it: its handler (1), the bytes that it claims (1), how many (1), the bytes. After each both ranks
// receive, and rank 0 sends.
#include "comm/protocol/message_rings.h"

#include <cstdlib>

#include "comm/protocol/lines.h"
#include "tests/fuzz/team_of_two.h"

namespace farside::fuzz {
namespace {

constexpr comm::MessageRings::Shape kShape{.handlers = 2, .places = 4, .payload_bytes = 64, .outbox = 4};
constexpr std::uint64_t kWordsBytes = 3 * TeamOfTwo::kSize * comm::kLineBytes;
const std::uint64_t kRecordBytes = comm::in_lines(sizeof(comm::MessageHeader) + kShape.payload_bytes);

/// A record of rank 1 in the memory of rank 0, and the tail of its ring.
void write_record(Input& input, const Region& memory, std::uint64_t number) {
  comm::MessageHeader header{.number = number, .handler = static_cast<std::uint32_t>(input.byte())};
  header.payload_bytes = static_cast<std::uint32_t>(input.byte());
  const auto payload = input.bytes(std::min<std::uint64_t>(input.byte(), kShape.payload_bytes));
  header.check = comm::check_of(header, payload.first(std::min<std::size_t>(payload.size(), header.payload_bytes)));
  const std::uint64_t at = kWordsBytes + (kShape.places + number % kShape.places) * kRecordBytes;
  memory.copy_in(at, std::as_bytes(std::span(&header, 1)));
  memory.copy_in(at + sizeof header, payload);
  memory.word<ControlWord>(comm::kLineBytes).store(number);
}

void expect_message(const comm::MessageRings::Arrived& arrived) {
  if (arrived.source >= TeamOfTwo::kSize || arrived.handler >= kShape.handlers) std::abort();
  if (arrived.payload.size() > kShape.payload_bytes) std::abort();
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  using fuzz::TeamOfTwo;
  fuzz::Input input(std::as_bytes(std::span(data, size)));
  const TeamOfTwo team;
  std::array<std::unique_ptr<comm::MessageRings>, TeamOfTwo::kSize> rings;
  std::array<std::unique_ptr<Channel>, TeamOfTwo::kSize> channels;
  const auto no_bell = [](Channel&, team::Rank, Deadline) { return Outcome::done; };
  for (team::Rank rank = 0; rank < TeamOfTwo::kSize; ++rank) {
    rings.at(rank) = std::make_unique<comm::MessageRings>(team[rank], "messages", fuzz::kShape, no_bell);
    channels.at(rank) = team[rank].fabric().open_channel();
  }
  for (std::uint64_t number = 1; !input.is_over();) {
    if (input.byte() % 2 == 0) {
      team.write(input);
    } else {
      fuzz::write_record(input, team[0].memory(), number++);
    }
    for (team::Rank rank = 0; rank < TeamOfTwo::kSize; ++rank)
      rings.at(rank)->receive(*channels.at(rank), fuzz::expect_message);
    (void)rings[0]->leave(1, comm::make_record(1, {}, {}));
    rings[0]->carry_all(*channels[0]);
  }
  return 0;
}
