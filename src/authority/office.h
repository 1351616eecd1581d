// office.h — which process coordinates a team, where any of several machines may: at most one holds the office. It says
// so in a record that changes by compare-and-swap, and every decision that it keeps (office_store.h) has that record as
// a condition. So no clock and no lease decides anything: one that hangs, is taken for dead and goes on keeps nothing.
//
// A holder renews a second record. A candidate that has seen no renewal for the silence time takes the office. That
// only moves the office; it says nothing of the members, who go on meanwhile.
//
// The steps, a picture and the proof are in docs/protocols/authority.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "authority/record_store.h"
#include "base/rule.h"

namespace farside::authority {

/// A holder of the office.
struct Holder {
  std::uint64_t term = 0;   ///< one more for each holder
  std::uint64_t nonce = 0;  ///< no other holder has it, whatever its term: records may have been put back
  std::string address;      ///< where members find the coordinator; empty: it has resigned
  std::string owner;        ///< what started the process: the next one there takes its office at once

  friend bool operator==(const Holder&, const Holder&) = default;
};

[[nodiscard]] std::string encode_holder(const Holder& holder);
/// Throws Error when the bytes are none.
[[nodiscard]] Holder decode_holder(std::string_view bytes);

/// The keys of one pool's records.
class OfficeKeys {
 public:
  explicit OfficeKeys(const std::string& pool) : prefix_("/farside/" + pool + "/") {}

  /// Says which process coordinates. It stays when the pool has ended, so that terms go on: a process that hung
  /// meanwhile is superseded.
  [[nodiscard]] std::string holder() const { return prefix_ + "office/holder"; }
  [[nodiscard]] std::string renewal() const { return prefix_ + "office/renewal"; }
  /// Both of the former, and nothing else.
  [[nodiscard]] KeyRange office() const { return beginning_with(prefix_ + "office/"); }
  /// Which log is the present one.
  [[nodiscard]] std::string present() const { return prefix_ + "present"; }
  [[nodiscard]] KeyRange logs() const { return beginning_with(prefix_ + "log/"); }
  [[nodiscard]] KeyRange log(std::uint64_t number) const { return beginning_with(log_prefix(number)); }
  [[nodiscard]] std::string part(std::uint64_t log, std::uint64_t entry, std::uint32_t part) const;

 private:
  [[nodiscard]] static KeyRange beginning_with(const std::string& prefix);
  [[nodiscard]] std::string log_prefix(std::uint64_t number) const;

  std::string prefix_;
};

/// The proof stands on these; tests break one at a time.
struct OfficeRules {
  Rule decides_as_holder = true;   ///< a decision needs the record of the holder
  Rule needs_entry_before = true;  ///< and the entry before it: the records may have been put back
  Rule numbers_logs_anew = true;   ///< no log has the number of one that was begun before
};

/// How it stands with a process that took the office.
enum class [[nodiscard]] Tenure : std::uint8_t{
    held,
    superseded,  ///< another process has taken it
    rewound,     ///< it is held, but the records had been put back to an earlier state: the log may lack entries
    unknown,     ///< the store does not answer
};

/// Reads the record of the holder. Where it is of an earlier term than that of `held`, the records had been put back
/// (a snapshot was restored), and `held` is written in its place.
Tenure examine(RecordStore& store, const OfficeKeys& keys, const Holder& held);

/// Removes all records of the pool, if the office is as it was seen, but that of the holder: it is vacant then.
[[nodiscard]] Commit remove_pool(RecordStore& store, const OfficeKeys& keys, std::span<const Condition> as_seen,
                                 const Holder& former);

/// One process's view of the office. Thread safety: one thread at a time.
class Office {
 public:
  /// As it was seen.
  struct View {
    std::optional<Holder> holder;  ///< none: there was none yet
    std::optional<std::string> renewal;

    /// No process coordinates, or the one that did has resigned.
    [[nodiscard]] bool is_vacant() const { return !holder || holder->address.empty(); }
    friend bool operator==(const View&, const View&) = default;
  };

  /// `store` outlives it.
  Office(RecordStore& store, OfficeKeys keys) : store_(store), keys_(std::move(keys)) {}

  /// None: the store does not answer. Throws Error when a record is damaged.
  [[nodiscard]] std::optional<View> look();
  /// Takes the office, as it was seen, for a coordinator of `owner` at `address`. None: it is not as it was seen, or
  /// the store does not answer; if it took effect all the same, the owner finds itself in the next view.
  [[nodiscard]] std::optional<Holder> take(const View& seen, const std::string& address, const std::string& owner);
  /// Tells candidates that `held`, which this process took, is there. `last`: the record that it wrote last, besides
  /// those of the office, which has to be there; none: no matter.
  Tenure renew(const Holder& held, const std::optional<Record>& last = {});
  /// Another process may take it at once. Returns false when the store does not answer.
  [[nodiscard]] bool resign(const Holder& held);

 private:
  [[nodiscard]] bool take_renewal(std::optional<std::string> seen, const Holder& held);

  RecordStore& store_;
  const OfficeKeys keys_;
  std::optional<std::string> renewal_;  ///< as the record was last known to be
  bool was_rewound_ = false;            ///< and the caller was not told yet
  std::uint64_t tried_ = 0;             ///< renewals by this holder
  std::uint64_t confirmed_ = 0;         ///< the last of them that is known to have been there
};

}  // namespace farside::authority
