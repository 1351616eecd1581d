#include "kv/protocol/epoch_words.h"

namespace farside::kv {

Duration EpochWords::patience() const {
  if (!leases_) return kPatience;
  return rules_.outwaits_leases ? outlasting(leases_->lease) : Duration{};
}

void EpochWords::write(std::uint64_t epoch) {
  if (leases_) leases_->own.store(epoch);
  channel_.local_fence();
  const Time began = fabric_.now();  // no lease begins from here on
  const Deadline over{began + patience()};
  const bool all_told = tell_all(epoch, over);
  const bool all_were_there = !last_removed_ || *last_removed_ + patience() < began;
  if (!leases_ || (all_told && all_were_there)) return;
  if (const Time now = fabric_.now(); now < over.at) fabric_.sleep(over.at - now);
}

// On one host who is lost is dead. Between hosts it may only be out of reach.
bool EpochWords::tell_all(std::uint64_t epoch, Deadline deadline) {
  Batch batch(channel_);
  for (const Word& word : words_) batch.store(word, epoch);
  (void)batch.wait(deadline);  // what failed the flush tells
  if (!rules_.serves_after_the_epoch) return true;
  bool all_told = true;
  for (const Word& word : words_) {
    const PeerId peer = word.region->peer();
    if (channel_.flush(peer, deadline) == Outcome::done) continue;
    all_told = false;
    if (!leases_ && !fabric_.lost(peer)) cut_off_(peer);
  }
  return all_told;
}

}  // namespace farside::kv
