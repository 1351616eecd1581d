// words.h — what others may do to a piece of shared memory, said by its type.
//
// Structures that lie in a Region are built from these and nothing else. They are never touched through a pointer: the
// owner goes through LocalWord and LocalSpan (region.h), every other process through a Channel (channel.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace farside {

/// 8 bytes that only remote atomics change, by their owner too (through its loopback).
struct AtomicWord {
  std::uint64_t bits;
};

/// 8 bytes with one writer at a time. It always travels alone: one store, one WRITE.
struct ControlWord {
  std::uint64_t bits;
};

/// Any bytes; no promise about order or wholeness while a process writes them.
template <std::size_t N>
struct Bulk {
  std::byte bytes[N];  // NOLINT(modernize-avoid-c-arrays): a layout on the wire
};

template <class Word>
concept SharedWord = std::is_same_v<Word, AtomicWord> || std::is_same_v<Word, ControlWord>;

static_assert(sizeof(AtomicWord) == 8 && std::has_unique_object_representations_v<AtomicWord>);
static_assert(sizeof(ControlWord) == 8 && std::has_unique_object_representations_v<ControlWord>);
static_assert(sizeof(Bulk<24>) == 24 && std::has_unique_object_representations_v<Bulk<24>>);

}  // namespace farside
