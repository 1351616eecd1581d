// copy_record.h — the file that says what one of a partition's two copies claims (protocol/copy_claim.h), and in which
// folder beside it the copy's journal is.
//
//   0                            4096
//   | slot, 72 B | ...           | slot, 72 B |     both are written, the older one first
//
// A slot that is being written when the machine loses power is damaged; the other one says what was claimed before.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <type_traits>

#include "farside/base/fd.h"

#include "kv/journal/format.h"
#include "kv/protocol/copy_claim.h"

namespace farside::kv {

struct CopyRecordSlot {
  static constexpr std::uint64_t kMagic = 0x64726f636572636b;  ///< "kcrecord"
  static constexpr std::uint32_t kVersion = 1;

  std::uint64_t magic;
  std::uint32_t version;
  CopyStanding standing;
  std::uint64_t epoch;
  std::uint64_t store;     ///< CopyClaim::store
  std::uint64_t folder;    ///< number of the journal's; 0: there is none
  std::uint64_t sequence;  ///< one more than what was written before
  ServerNumber server;
  ServerNumber servers;
  std::uint64_t seat;
  std::uint64_t checksum;  ///< XXH3 of all before it

  [[nodiscard]] std::uint64_t checksum_of() const;
};
static_assert(sizeof(CopyRecordSlot) == 72 && std::has_unique_object_representations_v<CopyRecordSlot>);

class CopyRecord {
 public:
  static constexpr const char* kName = "copy";

  /// Opens the one in `directory`, which the caller has for itself, or makes one that claims nothing. Throws Error when
  /// it is damaged, or another copy's.
  CopyRecord(const std::filesystem::path& directory, const Partition& partition, unsigned seat);
  /// The same, which there must be, whichever copy's it is.
  explicit CopyRecord(const std::filesystem::path& directory);

  [[nodiscard]] CopyClaim claim() const noexcept { return {slot_.standing, slot_.epoch, slot_.store}; }
  [[nodiscard]] std::uint64_t folder() const noexcept { return slot_.folder; }
  [[nodiscard]] Partition partition() const noexcept { return {slot_.server, slot_.servers}; }
  [[nodiscard]] unsigned seat() const noexcept { return static_cast<unsigned>(slot_.seat); }

  /// After true the disk has it. After false, with errno set, it is not known what the disk has.
  [[nodiscard]] bool write(const CopyClaim& claim, std::uint64_t folder);

 private:
  static constexpr int kSlots = 2;
  static constexpr off_t kBetweenSlots = 4096;  ///< no write of one touches the other's sector

  void read();
  void make();

  std::filesystem::path directory_;
  Fd file_;
  CopyRecordSlot slot_{};  ///< the newer one
  int place_ = 0;          ///< its place
};

}  // namespace farside::kv
