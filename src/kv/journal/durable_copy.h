// durable_copy.h — one of a partition's two copies in a directory: what it claims (copy_record.h), and a journal in a
// folder of its own (docs/protocols/kv_journal.md, "Two copies").
//
//   lock, copy            the directory is held by one process
//   journal-0000…0003/    of the copy that `copy` names
//   journal-0000…0004/    of one that is being made, and will take its place; removed at the next start if it does not
//
// Thread safety: one thread at a time.
#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <vector>

#include "kv/journal/copy_record.h"
#include "kv/journal/directory.h"
#include "kv/journal/file_journal.h"
#include "kv/server/copy_on_disk.h"

namespace farside::kv {

class DurableCopy final : public CopyOnDisk {
 public:
  /// The directory of `settings`, which is made if it is missing. A journal that a server without a standby has left
  /// there becomes the copy of one that is alone. Throws Error when another process has it, it cannot be used, or what
  /// it claims is not there.
  DurableCopy(JournalSettings settings, const Partition& partition, unsigned seat);

  [[nodiscard]] std::uint64_t recover(Store& store) override;
  void prepare_to_copy(Store& store) override { store_ = &store; }
  [[nodiscard]] bool begin_copy(std::uint64_t store_number, std::uint64_t epoch) override;

  void append(std::span<const std::byte> request) override;
  void append_version(std::span<const std::byte> request) override;
  void append_forgotten(const Store::Forgotten& forgotten) override;
  [[nodiscard]] bool keep() override;

  [[nodiscard]] CopyClaim claim() const override { return record_.claim(); }
  [[nodiscard]] bool claim(CopyStanding standing, std::uint64_t epoch) override;

  [[nodiscard]] bool takes() const override { return !has_failed_ && (!journal_ || journal_->takes()); }
  [[nodiscard]] bool takes_erasures() const override {
    return !has_failed_ && (!journal_ || journal_->takes_erasures());
  }
  [[nodiscard]] MemoryUse with_state(MemoryUse use) const override;
  bool step() override { return journal_ && journal_->step(); }

  /// Throws Error when `directory` has, or had, one of two copies: a server that has no standby may not go on with it.
  static void expect_none_in(const std::filesystem::path& directory);

 private:
  /// A copy that is not claimed is synced whenever so much of it was written, so that little is left to be synced when
  /// it is: its primary waits then.
  static constexpr std::uint64_t kMaxUnsynced = std::uint64_t{8} << 20U;

  [[nodiscard]] bool is_claimed() const noexcept { return open_folder_ == record_.folder(); }
  [[nodiscard]] std::filesystem::path folder(std::uint64_t number) const;
  void expect_record() const;
  void adopt_sole_journal();
  void expect_what_is_claimed() const;
  [[nodiscard]] std::vector<std::filesystem::path> folders_but(std::uint64_t number) const;
  void open_journal(std::uint64_t folder_number, Store& store);
  [[nodiscard]] bool write(const CopyClaim& claim, std::uint64_t folder_number);
  bool give_up(std::string_view why);

  const JournalSettings settings_;
  const Partition partition_;
  const JournalDirectory directory_;
  CopyRecord record_;
  Store* store_ = nullptr;         ///< of which a copy may be begun
  std::uint64_t open_folder_ = 0;  ///< the journal's; 0: none
  std::uint64_t unsynced_ = 0;     ///< bytes of a copy that is not claimed
  bool has_failed_ = false;        ///< nothing more is kept
  std::unique_ptr<FileJournal> journal_;
  std::future<void> removing_;  ///< what a claim has replaced
};

}  // namespace farside::kv
