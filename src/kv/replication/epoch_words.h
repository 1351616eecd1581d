// epoch_words.h — the words by which a standby tells the processes that have joined it that it serves: one of each, in
// that process's own memory, where it looks after whatever came from the primary (homes.h). Between hosts it says so in
// its own memory as well, where they look when their leases are over.
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/protocol/lease.h"
#include "kv/protocol/rules.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

struct TellingTimeouts {
  /// On one host: of a process that does not answer, which is cut off then.
  Duration answer = time_limits::kTell;
  Duration between_attempts = time_limits::kBetweenCutOffs;  ///< to cut a process off
};

class EpochWords {
 public:
  using Word = RemoteWord<ControlWord>;
  /// Takes the access of a process away that cannot be told. Returns whether it has none any more.
  using CutOff = std::function<bool(PeerId)>;
  /// Leases of readers. Once the lease time is over no process has one: neither one that could not be told, nor one
  /// that was removed and may still exist.
  struct Leases {
    LocalWord<ControlWord> own;  ///< READ by a process that wants a lease, which it has while this is 0
    Duration lease = kLease;
  };

  /// Without `leases`, on one host, a process that cannot be told is cut off.
  EpochWords(Fabric& fabric, Channel& channel, std::optional<Leases> leases, CutOff cut_off,
             const ReplicaRules& rules = {}, const TellingTimeouts& timeouts = {})
      : fabric_(fabric),
        channel_(channel),
        leases_(leases),
        cut_off_(std::move(cut_off)),
        rules_(rules),
        timeouts_(timeouts) {}

  /// Its region stays until it is removed.
  void add(Word word) { words_.push_back(word); }
  /// Those in this region.
  void remove(const RemoteRegion& region) {
    std::erase_if(words_, [&region](const Word& each) { return each.region == &region; });
  }

  /// When it returns no process that has joined believes the primary any more: each has `epoch`, or, on one host, is
  /// lost or was cut off. Between hosts, where a process may exist that is not known any more, no lease is left.
  /// Blocks as long as a process can be neither told nor cut off: to serve would be wrong, and a client that was told
  /// asks already, so that nothing else can be done between two attempts.
  void write(std::uint64_t epoch);

 private:
  [[nodiscard]] Duration telling_timeout() const;
  void tell_all(std::uint64_t epoch, Deadline deadline);

  Fabric& fabric_;
  Channel& channel_;
  const std::optional<Leases> leases_;
  const CutOff cut_off_;
  const ReplicaRules rules_;
  const TellingTimeouts timeouts_;
  std::vector<Word> words_;
};

}  // namespace farside::kv
