// epoch_words.h — the words by which a standby tells the processes that have joined it that it serves: one of each, in
// that process's own memory, where it looks after whatever came from the primary (homes.h).
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/protocol/rules.h"

namespace farside::kv {

class EpochWords {
 public:
  using Word = RemoteWord<ControlWord>;
  /// Takes the access of a process away that cannot be told.
  using CutOff = std::function<void(PeerId)>;

  EpochWords(Fabric& fabric, Channel& channel, CutOff cut_off, const ReplicaRules& rules = {})
      : fabric_(fabric), channel_(channel), cut_off_(std::move(cut_off)), rules_(rules) {}

  /// Its region stays until it is removed.
  void add(Word word) { words_.push_back(word); }
  /// Those in this region.
  void remove(const RemoteRegion& region) {
    std::erase_if(words_, [&region](const Word& each) { return each.region == &region; });
  }

  /// When it returns every process that has joined has `epoch`, or is lost, or was cut off.
  void write(std::uint64_t epoch);

 private:
  /// With a process that does not answer.
  static constexpr Duration kPatience = std::chrono::seconds(1);

  Fabric& fabric_;
  Channel& channel_;
  const CutOff cut_off_;
  const ReplicaRules rules_;
  std::vector<Word> words_;
};

}  // namespace farside::kv
