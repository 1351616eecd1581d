// office_store.h — the decisions of the process that holds the office (office.h), in the records of the same store. The
// keys and values are pictured in docs/protocols/authority.md.
//
// A call waits until the store has answered, however long that takes: what is decided meanwhile is decided by no
// process. It ends early when `pause` says so.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "authority/decision_store.h"
#include "authority/office.h"
#include "base/mutex.h"

namespace farside::authority {

class OfficeStore final : public DecisionStore {
 public:
  /// Waits so long before the next attempt. False: there is to be none.
  using Pause = std::function<bool(std::chrono::milliseconds)>;

  OfficeStore(std::unique_ptr<RecordStore> store, OfficeKeys keys, Holder held, Pause pause,
              const OfficeRules& rules = {});

  [[nodiscard]] std::vector<std::string> read() override;
  Kept replace(std::span<const std::string> entries) override;
  Kept append(std::string_view entry) override;
  [[nodiscard]] bool remove() noexcept override;
  /// To read it takes well less than the silence time: it is not renewed meanwhile.
  [[nodiscard]] std::uint64_t large_bytes() const override { return 256U << 10U; }

  /// Returns a record that is there as long as no snapshot is restored: the end of the log, unless another log takes
  /// its place at this moment. Thread safety: any thread.
  [[nodiscard]] std::optional<Record> last() const;

  /// Returns why, if a call has waited for the store for longer than `limit`. Thread safety: any thread.
  [[nodiscard]] std::optional<std::string> why_waiting(std::chrono::milliseconds limit) const;

  [[nodiscard]] std::string name() const override { return store_->name(); }
  [[nodiscard]] std::string why() const override { return why_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Clock::time_point since;
    std::string why;
  };

  /// A commit of which it is known whether it was done. None: there is to be no further attempt.
  struct Step;
  [[nodiscard]] std::optional<bool> commit(const Step& step);
  template <class Attempt>
  auto until_answered(Attempt attempt) -> decltype(attempt());
  void note_wait(bool waits);
  [[nodiscard]] std::optional<std::vector<Record>> read_surely(const KeyRange& range);
  [[nodiscard]] std::vector<std::string> assemble(const std::vector<Record>& records) const;
  [[nodiscard]] std::vector<Record> parts_of(std::uint64_t log, std::uint64_t entry, std::string_view bytes) const;
  /// Writes them by several commits, if need be, each of which needs the part before.
  Kept write(std::span<const Record> parts);
  Kept replace_once(std::span<const std::string> entries);
  Kept after_conflict();
  void set_last(std::optional<Record> part);
  Kept fail();

  const std::unique_ptr<RecordStore> store_;
  const OfficeKeys keys_;
  const Holder held_;
  const Pause pause_;
  const OfficeRules rules_;
  std::uint64_t log_ = 0;         ///< the present one
  std::uint64_t next_entry_ = 0;  ///< of it
  mutable Mutex mutex_;
  std::optional<Waiting> waiting_ GUARDED_BY(mutex_);
  std::optional<Record> last_part_ GUARDED_BY(mutex_);  ///< that was written; none: the next is the first of a log
  std::string why_;
};

}  // namespace farside::authority
