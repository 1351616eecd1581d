#include "kv/replication/epoch_words.h"

namespace farside::kv {

Duration EpochWords::telling_timeout() const {
  if (!leases_) return timeouts_.answer;
  return rules_.outwaits_leases ? outlasting(leases_->lease) : Duration{};
}

void EpochWords::write(std::uint64_t epoch) {
  if (leases_) leases_->own.store(epoch);
  channel_.local_fence();
  const Time began = fabric_.now();  // no lease begins from here on
  const Deadline over{began + telling_timeout()};
  tell_all(epoch, over);
  if (!leases_ || !rules_.serves_after_the_epoch) return;
  if (const Time now = fabric_.now(); now < over.at) fabric_.sleep(over.at - now);
}

// On one host a process that is lost is dead. Between hosts it may only be out of reach, and its lease ends.
void EpochWords::tell_all(std::uint64_t epoch, Deadline deadline) {
  Batch batch(channel_);
  for (const Word& word : words_) batch.store(word, epoch);
  (void)batch.wait(deadline);  // what failed the flush tells
  if (!rules_.serves_after_the_epoch) return;
  for (const Word& word : words_) {
    const PeerId peer = word.region->peer();
    Outcome told = channel_.flush(peer, deadline);
    // The word may be lost with the link, also by what this channel waited for too long before.
    while ((told == Outcome::link_lost || told == Outcome::timed_out) && fabric_.now() < deadline.at) {
      (void)channel_.store(word, epoch, deadline);
      told = channel_.flush(peer, deadline);
    }
    if (told == Outcome::done || leases_ || !rules_.cuts_off_what_it_cannot_tell) continue;
    while (!fabric_.lost(peer) && !cut_off_(peer)) fabric_.sleep(timeouts_.between_attempts);
  }
}

}  // namespace farside::kv
