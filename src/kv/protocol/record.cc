#include "kv/protocol/record.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "farside/base/rounding.h"

namespace farside::kv {

namespace {

constexpr std::size_t kChecked = offsetof(RecordHead, timestamp);

/// The checksum of a record that fills `bytes`.
std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t generation) {
  const auto checked = bytes.subspan(kChecked);
  return XXH3_64bits_withSeed(checked.data(), checked.size(), generation);
}

std::string_view text(std::span<const std::byte> bytes) {
  return {static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size()};
}

bool has_sense(const RecordHead& head) {
  if ((head.flags & ~RecordHead::kErased) != 0) return false;
  if ((head.flags & RecordHead::kErased) != 0 && head.value_bytes != 0) return false;
  if (head.key_bytes == 0 || head.key_bytes > kMaxKeyBytes || head.value_bytes > kMaxValueBytes) return false;
  switch (head.siblings_kind) {
    case SiblingsKind::none: return head.siblings_bytes == 0;
    case SiblingsKind::list: return head.siblings_bytes % sizeof(KeyId) == 0;
    case SiblingsKind::filter: return true;
  }
  return false;
}

}  // namespace

std::uint64_t record_bytes(std::size_t siblings_bytes, std::size_t key_bytes, std::size_t value_bytes) {
  const std::uint64_t bytes = sizeof(RecordHead) + siblings_bytes + key_bytes + value_bytes;
  return round_up(bytes, RecordPlace::kGrain);
}

void make_record(RecordHead head, std::span<const std::byte> siblings, std::string_view key, std::string_view value,
                 std::vector<std::byte>& record) {
  record.resize(record_bytes(siblings.size(), key.size(), value.size()));
  std::fill(record.end() - static_cast<std::ptrdiff_t>(RecordPlace::kGrain), record.end(), std::byte{0});  // padding
  auto append = [at = record.data()](std::span<const std::byte> part) mutable {
    if (!part.empty()) std::memcpy(at, part.data(), part.size());
    at += part.size();
  };
  head.mark = mark_word(head.generation, 0);
  head.checksum = 0;
  append(std::as_bytes(std::span(&head, 1)));
  append(siblings);
  append(std::as_bytes(std::span(key)));
  append(std::as_bytes(std::span(value)));
  head.checksum = checksum_of(record, head.generation);
  std::memcpy(record.data() + offsetof(RecordHead, checksum), &head.checksum, sizeof head.checksum);
}

std::optional<Record> read_record(std::span<const std::byte> bytes, std::uint64_t generation, std::string_view key,
                                  bool compares_checksum) {
  Record record{};
  RecordHead& head = record.head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.generation == 0 || (generation != 0 && head.generation != generation)) return std::nullopt;
  if (head.mark != mark_word(head.generation, mark_bits(head.mark))) return std::nullopt;
  const std::uint64_t whole = record_bytes(head.siblings_bytes, head.key_bytes, head.value_bytes);
  if (whole > bytes.size() || !has_sense(head)) return std::nullopt;

  bytes = bytes.first(whole);
  auto rest = bytes.subspan(sizeof head);
  const auto take = [&rest](std::size_t count) {
    const auto taken = rest.first(count);
    rest = rest.subspan(count);
    return taken;
  };
  record.siblings = take(head.siblings_bytes);
  record.key = text(take(head.key_bytes));
  record.value = text(take(head.value_bytes));
  const bool is_padded = std::ranges::all_of(rest, [](std::byte padding) { return padding == std::byte{0}; });
  if (!is_padded || (!key.empty() && record.key != key) || key_id(record.key) != head.key) return std::nullopt;
  if (compares_checksum && checksum_of(bytes, head.generation) != head.checksum) return std::nullopt;
  return record;
}

}  // namespace farside::kv
