// record.h — a version's bytes: made once by the server, verified by the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kv/protocol/layout.h"

namespace farside::kv {

/// The contents of a record. Views point into the bytes that it was read from.
struct Record {
  RecordHead head;
  std::span<const std::byte> siblings;
  std::string_view key;
  std::string_view value;

  [[nodiscard]] bool erased() const { return (head.flags & RecordHead::kErased) != 0; }
};

/// The bytes of a record with these lengths, rounded up to RecordPlace::kGrain.
[[nodiscard]] std::uint64_t record_bytes(std::size_t siblings_bytes, std::size_t key_bytes, std::size_t value_bytes);

/// `head` says everything but its checksum and its mark, which are filled in (no bit is set).
void make_record(RecordHead head, std::span<const std::byte> siblings, std::string_view key, std::string_view value,
                 std::vector<std::byte>& record);

/// The record that `bytes` begin with, if it is one, whole, of that generation (0: of whichever) and key (empty: of
/// whichever); trusts nothing. (Tests of the protocol do without the checksum.)
[[nodiscard]] std::optional<Record> read_record(std::span<const std::byte> bytes, std::uint64_t generation,
                                                std::string_view key, bool compares_checksum = true);

}  // namespace farside::kv
