#include "kv/protocol/epoch_words.h"

namespace farside::kv {

void EpochWords::write(std::uint64_t epoch) {
  const Deadline deadline = fabric_.in(kPatience);
  Batch batch(channel_);
  for (const Word& word : words_) batch.store(word, epoch);
  (void)batch.wait(deadline);  // what failed the flush tells
  if (!rules_.serves_after_the_epoch) return;
  for (const Word& word : words_) {
    const PeerId peer = word.region->peer();
    const Outcome flushed = channel_.flush(peer, deadline);
    if (flushed != Outcome::done && !fabric_.lost(peer)) cut_off_(peer);
  }
}

}  // namespace farside::kv
