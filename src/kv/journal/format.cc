#include "kv/journal/format.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"

namespace farside::kv {

namespace {

constexpr std::size_t kChecked = offsetof(JournalEntryHead, sequence);

std::uint64_t checksum_of(std::span<const std::byte> entry, const JournalFileId& file) {
  const auto checked = entry.subspan(kChecked);
  return XXH3_64bits_withSeed(checked.data(), checked.size(), file.seed());
}

}  // namespace

JournalFileHead JournalFileHead::of(const JournalFileId& file, const Partition& partition) {
  JournalFileHead head{kMagic, kVersion, file.kind, file.number, partition.server, partition.servers, 0};
  head.checksum = head.checksum_of();
  return head;
}

std::uint64_t JournalFileHead::checksum_of() const { return XXH3_64bits(this, offsetof(JournalFileHead, checksum)); }

void write_entry(std::vector<std::byte>& into, const JournalFileId& file, JournalEntryHead head,
                 std::span<const std::byte> body) {
  assert_that(body.size() <= kMaxEntryBytes, "an entry is no longer than a reader takes");
  const std::size_t begin = into.size();
  head.checksum = 0;
  head.bytes = static_cast<std::uint32_t>(body.size());
  const auto head_bytes = std::as_bytes(std::span(&head, 1));
  into.insert(into.end(), head_bytes.begin(), head_bytes.end());
  into.insert(into.end(), body.begin(), body.end());
  into.resize(begin + JournalEntry::whole_bytes(body.size()));
  head.checksum = checksum_of(std::span(into).subspan(begin), file);
  std::memcpy(into.data() + begin, &head.checksum, sizeof head.checksum);
}

std::optional<JournalEntry> read_entry(std::span<const std::byte> bytes, const JournalFileId& file) {
  JournalEntry entry{};
  if (bytes.size() < sizeof entry.head) return std::nullopt;
  std::memcpy(&entry.head, bytes.data(), sizeof entry.head);
  const std::uint64_t whole = JournalEntry::whole_bytes(entry.head.bytes);
  if (entry.head.bytes > kMaxEntryBytes || whole > bytes.size()) return std::nullopt;
  if (checksum_of(bytes.first(whole), file) != entry.head.checksum) return std::nullopt;
  entry.body = bytes.subspan(sizeof entry.head, entry.head.bytes);
  return entry;
}

}  // namespace farside::kv
