#include "kv/replication/shipped_entry.h"

#include <cstring>
#include <limits>

#include "base/assert.h"

namespace farside::kv {

namespace {

template <class Part>
void append(std::span<const Part> parts, Message& entry) {
  const auto bytes = std::as_bytes(parts);
  entry.insert(entry.end(), bytes.begin(), bytes.end());
}

template <class Part>
void take(std::span<const std::byte>& bytes, std::size_t count, std::vector<Part>& parts) {
  parts.resize(count);
  const std::span<std::byte> into = std::as_writable_bytes(std::span(parts));
  assert_that(into.size() <= bytes.size(), "an entry has all the parts that are taken from it");
  if (!into.empty()) std::memcpy(into.data(), bytes.data(), into.size());
  bytes = bytes.subspan(into.size());
}

}  // namespace

std::optional<ShippedEntry> ShippedEntry::decode(std::span<const std::byte> bytes) {
  ShippedEntryHead head{};
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes = bytes.subspan(sizeof head);
  const std::uint64_t lists = std::uint64_t{head.places} * sizeof(TakenPlace) + head.gone * sizeof(GoneKey);
  if (lists > bytes.size() || head.part > ShippedPart::begin_of_copy) return std::nullopt;
  ShippedEntry entry;
  entry.part = head.part;
  take(bytes, head.places, entry.places);
  take(bytes, head.gone, entry.gone);
  entry.request = bytes;
  return entry;
}

void encode_shipped(ShippedPart part, std::span<const TakenPlace> places, std::span<const GoneKey> gone,
                    std::span<const std::byte> request, Message& entry) {
  entry.clear();
  entry.reserve(sizeof(ShippedEntryHead) + places.size_bytes() + gone.size_bytes() + request.size());
  assert_that(gone.size() <= std::numeric_limits<std::uint16_t>::max(), "few gone keys are told at once");
  const ShippedEntryHead head{static_cast<std::uint32_t>(places.size()), static_cast<std::uint16_t>(gone.size()), part};
  append(std::span(&head, 1), entry);
  append(places, entry);
  append(gone, entry);
  append(request, entry);
  assert_that(entry.size() <= ShippedEntry::kMaxBytes, "an entry is no longer than a standby takes");
}

}  // namespace farside::kv
