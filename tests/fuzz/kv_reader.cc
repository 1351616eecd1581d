// The memory of a kv server and its replies, as a client reads them (kv/client/atomic_reader.h): anything, and cells
// and records whose seals and checksums are right and whose contents are not. The client finds only what it asked for,
// and does not wait longer than it may.
//
// Input: the first half is what the server does, each its kind (1 byte), 0 mod 4: bytes are written: where (2), how
// many (1), the bytes; 1: a word of the index: its place (1), its key (1), the size of its cell (1, in units of
// IndexWord::kGrain), where that is (1, the same); 2: a cell: where (1, in units of IndexWord::kGrain), its key (1),
// and of each slot its time and state (1), the generation (1), where its record is (1, in units of kRecordUnit) and its
// size (1, in units of RecordPlace::kGrain); 3: a record: where, its key, generation, time, kind of siblings, how many
// bytes of siblings and of the value (1 each), these. After each the client gets all keys. The second half is the
// server's replies: how many bytes (1), the bytes.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "farside/base/error.h"

#include "kv/client/atomic_reader.h"
#include "kv/client/cell_source.h"
#include "kv/client/request_source.h"
#include "tests/fuzz/input.h"

namespace farside::fuzz {
namespace {

using namespace kv;

constexpr std::uint64_t kBytes = 8192;
constexpr std::uint64_t kBuckets = 4;
constexpr std::uint64_t kRecordUnit = 32;
constexpr std::array<std::string_view, 4> kKeys{"a", "b", "c", "a"};
constexpr PeerId kSelf = 0;

std::string_view key_of(Input& input) { return kKeys.at(input.byte() % kKeys.size()); }

/// What a server answers: what the input says.
class Replies final : public Requests {
 public:
  explicit Replies(std::span<const std::byte> input) : input_(input) {}

  [[nodiscard]] ServerNumber servers() const override { return 1; }
  Outcome send(ServerNumber /*server*/, std::span<const std::byte> /*request*/, Deadline /*deadline*/) override {
    return Outcome::done;
  }
  Result<Message> receive(ServerNumber /*server*/, Deadline /*deadline*/) override {
    if (input_.is_over()) return {Outcome::timed_out, {}};
    const auto bytes = input_.bytes(input_.byte());
    return {Outcome::done, {bytes.begin(), bytes.end()}};
  }
  [[nodiscard]] bool has_reply(ServerNumber /*server*/) override { return true; }

 private:
  Input input_;
};

class Server {
 public:
  Server() {
    fabric_->connect(kSelf, fabric_->address());
    remote_ = fabric_->attach(kSelf, memory_->handle());
  }
  void begin_anew() {
    memory_->copy_in(0, std::vector<std::byte>(kBytes));
    const MemoryHead head{MemoryHead::kMagic, kBytes, sizeof(MemoryHead), kBuckets, {}, 0, 0};
    memory_->copy_in(0, std::as_bytes(std::span(&head, 1)));
  }

  [[nodiscard]] Fabric& fabric() const { return *fabric_; }
  [[nodiscard]] Channel& channel() const { return *channel_; }
  [[nodiscard]] Deadline soon() const { return fabric_->in(std::chrono::microseconds(300)); }
  [[nodiscard]] std::optional<ServerMemory> memory() const { return ServerMemory::read(*channel_, *remote_, soon()); }

  void act(Input& input) {
    switch (input.byte() % 4) {
      case 0: {
        const std::uint64_t at = input.byte() << 8U | input.byte();
        return write(at, input.bytes(input.byte()));
      }
      case 1: return write_index(input);
      case 2: return write_cell(input);
      default: return write_record(input);
    }
  }

 private:
  void write(std::uint64_t at, std::span<const std::byte> bytes) {
    at %= kBytes;
    memory_->copy_in(at, bytes.first(std::min<std::uint64_t>(bytes.size(), kBytes - at)));
  }
  void write_index(Input& input) {
    const std::uint64_t place = input.byte() % IndexWord::kWordsInBucket;
    const KeyId key = key_id(key_of(input));
    const std::uint64_t bytes = input.byte() * IndexWord::kGrain;
    const IndexWord word{IndexWord::tag_of(key), bytes, input.byte() * IndexWord::kGrain};
    const std::uint64_t bits = word.word();
    const std::uint64_t bucket = bucket_of(key, kBuckets) * sizeof(IndexBucketWords);
    write(sizeof(MemoryHead) + bucket + 8 * place, std::as_bytes(std::span(&bits, 1)));
  }
  void write_cell(Input& input) {
    const std::uint64_t at = input.byte() * IndexWord::kGrain;
    CellHead cell{.key = key_id(key_of(input)), .generation = 1, .seal = 0, .slots = {}};
    for (CellSlot& slot : cell.slots) {
      const std::uint64_t time = input.byte();
      slot.timestamp = {time / 4, 1};
      slot.generation = input.byte();
      const std::uint64_t offset = input.byte() * kRecordUnit;
      slot.place = RecordPlace{static_cast<VersionState>(time % 4), input.byte() * RecordPlace::kGrain, offset}.word();
    }
    cell.seal = cell.seal_of();
    write(at, std::as_bytes(std::span(&cell, 1)));
  }
  void write_record(Input& input) {
    const std::uint64_t at = input.byte() * kRecordUnit;
    const std::string_view key = key_of(input);
    RecordHead head{};
    head.key = key_id(key);
    head.key_bytes = static_cast<std::uint32_t>(key.size());
    head.generation = input.byte();
    head.timestamp = {input.byte(), 1};
    head.siblings_kind = static_cast<SiblingsKind>(input.byte() % 4);
    const std::uint64_t siblings_bytes = input.byte();
    const std::uint64_t value_bytes = input.byte();
    const auto siblings = input.bytes(siblings_bytes);
    const auto value = input.bytes(value_bytes);
    head.siblings_bytes = static_cast<std::uint32_t>(siblings.size());
    head.value_bytes = static_cast<std::uint32_t>(value.size());
    std::vector<std::byte> record;
    make_record(head, siblings, key, {reinterpret_cast<const char*>(value.data()), value.size()}, record);
    write(at, record);
  }

  std::unique_ptr<Fabric> fabric_ = make_host_fabric({.mode = FabricMode::direct});
  std::unique_ptr<Channel> channel_ = fabric_->open_channel();
  std::unique_ptr<Region> memory_ = fabric_->create_region("memory of a server", kBytes);
  std::unique_ptr<RemoteRegion> remote_;
};

void expect_what_was_asked(std::span<const Search> found) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].found && found[i].record.key != kKeys.at(i)) std::abort();
  }
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) try {
  using namespace farside;
  const auto bytes = std::as_bytes(std::span(data, size));
  fuzz::Input acts(bytes.first(size / 2));
  fuzz::Replies replies(bytes.subspan(size / 2));
  static fuzz::Server server;
  server.begin_anew();
  const kv::Caller caller;
  kv::RequestSource asked(replies, caller);
  const auto memory = server.memory();
  if (!memory) return 0;  // it took too long
  const std::array memories{*memory};
  kv::CellSource source(server.channel(), memories, asked, fuzz::kKeys.size());
  kv::AtomicReader reader(server.fabric(), source, replies, caller, std::chrono::microseconds(100));
  while (!acts.is_over()) {
    server.act(acts);
    const auto found = reader.get_all(fuzz::kKeys, server.soon());
    if (found.done()) fuzz::expect_what_was_asked(found.value);
    (void)server.memory();
  }
  return 0;
} catch (const farside::Error&) {
  return 0;
}
