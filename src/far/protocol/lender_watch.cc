#include "far/protocol/lender_watch.h"

#include <algorithm>

namespace farside::far {

LenderWatch::LenderWatch(SlabMap& map) : map_(map), channel_(map.fabric().open_channel()) {}

// All at once, so that one node's silence does not delay the look at the others.
std::vector<LenderWatch::Event> LenderWatch::look() {
  std::vector<LentMemory*> nodes = map_.living();
  const auto mapped =
      std::partition(nodes.begin(), nodes.end(), [](const auto* node) { return node->may_not_answer(); });
  std::vector<LentMemory*> answering(mapped, nodes.end());  // always
  nodes.erase(mapped, nodes.end());
  std::erase_if(silences_, [](const auto& each) { return each.first->lost(); });
  if (nodes.empty()) return {};

  const Time begin = map_.fabric().now();
  std::vector<std::uint64_t> words(nodes.size());
  Batch batch(*channel_);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i]->ask(batch, words[i]);
  (void)batch.wait({begin + map_.limits().look});

  std::vector<Event> events;
  std::vector<LentMemory*> others;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool answers = LentMemory::is_answer(words[i]);
    nodes[i]->set_unresponsive(!answers);
    (answers ? answering : others).push_back(nodes[i]);
  }
  for (LentMemory* const node : answering) {
    const auto silence = silences_.find(node);
    if (silence == silences_.end()) continue;
    if (silence->second.told) events.push_back({node->peer(), News::answers_again});
    silences_.erase(silence);
  }
  for (LentMemory* const node : others) {
    Silence& silence = silences_.try_emplace(node, Silence{.since = begin}).first->second;
    ++silence.looks;
    judge(*node, answering, events);
  }
  return events;
}

// With mirrors no thread waits for long.
bool LenderWatch::is_noticeable(const Silence& silence) const {
  const AnswerLimits& limits = map_.limits();
  return map_.shape().copies == 1 && silence.looks > 1 && map_.fabric().now() - silence.since >= limits.noticeable;
}

// Neither time alone, which passes also while this process is stopped, nor the number of looks alone, which are short
// when links break.
void LenderWatch::judge(LentMemory& node, const std::vector<LentMemory*>& answering, std::vector<Event>& events) {
  const AnswerLimits& limits = map_.limits();
  Silence& silence = silences_.at(&node);
  if (!silence.told && is_noticeable(silence)) {
    silence.told = true;
    events.push_back({node.peer(), News::unresponsive});
  }
  const bool is_long =
      silence.looks >= limits.looks && map_.fabric().now() - silence.since >= limits.looks * limits.look;
  if (!is_long || !map_.rules().gives_up_unresponsive) return;
  if (map_.give_up(node, answering)) {
    events.push_back({node.peer(), News::given_up});
    silences_.erase(&node);
  } else if (!silence.told) {
    silence.told = true;
    events.push_back({node.peer(), News::waited_for});
  }
}

}  // namespace farside::far
