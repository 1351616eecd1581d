// What is in a server's directory when it is started (kv/journal): files that another program may have changed, and
// entries whose checksums are right and whose contents are not. It is refused with an Error; or recovered, and then
// what was recovered is recovered again.
//
// Input: which file (1 byte: even the first log, odd a snapshot, before a log without entries), and for each thing in
// it its kind (1): even, bytes as they are; odd, an entry, the next one: a request, or beyond 127 an end; then how many
// (1), and the bytes.
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "farside/base/error.h"

#include "kv/journal/directory.h"
#include "kv/journal/recovery.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scratch_directory.h"
#include "tests/fuzz/small_store.h"

namespace farside::fuzz {
namespace {

using namespace kv;

constexpr Partition kPartition{.server = 0, .servers = 2};
constexpr std::uint64_t kSnapshot = 2;

void write_file(const JournalDirectory& directory, const JournalFileId& file, Input& input) {
  const JournalFileHead head = JournalFileHead::of(file, kPartition);
  const auto head_bytes = std::as_bytes(std::span(&head, 1));
  std::vector<std::byte> bytes(head_bytes.begin(), head_bytes.end());
  for (std::uint64_t sequence = 1; !input.is_over();) {
    const std::uint64_t kind = input.byte();
    const auto body = input.bytes(input.byte());
    if (kind % 2 == 0) {
      bytes.insert(bytes.end(), body.begin(), body.end());
      continue;
    }
    const auto entry = kind > 127 ? JournalEntryHead::Kind::end : JournalEntryHead::Kind::request;
    write_entry(bytes, file, {.checksum = 0, .sequence = sequence++, .synced = 0, .bytes = 0, .kind = entry}, body);
  }
  write_bytes(directory.path_of(file), bytes);
}

/// As a server that is started, and killed at once.
bool recovers(Fabric& fabric, const std::string& path) {
  SmallStore store(fabric);
  try {
    JournalFile log = recover(JournalDirectory(path), kPartition, *store);
    return log.write();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  static const auto fabric = make_host_fabric({.mode = FabricMode::direct});
  fuzz::Input input(std::as_bytes(std::span(data, size)));
  const fuzz::ScratchDirectory place;
  {
    const kv::JournalDirectory directory(place.path());
    const bool is_snapshot = input.byte() % 2 != 0;
    const kv::JournalFileId snapshot{kv::JournalFileKind::snapshot, fuzz::kSnapshot};
    const kv::JournalFileId log{kv::JournalFileKind::log, is_snapshot ? fuzz::kSnapshot : 1};
    if (is_snapshot && !directory.make_log(log, fuzz::kPartition)) std::abort();
    fuzz::write_file(directory, is_snapshot ? snapshot : log, input);
  }
  if (fuzz::recovers(*fabric, place.path()) && !fuzz::recovers(*fabric, place.path())) std::abort();
  return 0;
}
