// lender_watch.h — finds nodes that live, as far as is known, and do not answer.
//
// A node counts as unresponsive when it did not answer one look: readers then prefer other copies. When it did not
// answer several in a row it is lost to this client for good, as one that died is, if everything that it has is on
// nodes that do answer (docs/protocols/far.md, "A node that does not answer").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "farside/fabric/fabric.h"

#include "far/protocol/slab_map.h"

namespace farside::far {

/// For one thread.
class LenderWatch {
 public:
  explicit LenderWatch(SlabMap& map);

  enum class News : std::uint8_t {
    unresponsive,  ///< and what it has, no other node has: that is waited for
    given_up,      ///< it is lost
    waited_for,    ///< it would be, but something has no other copy on a node that answers
    answers_again  ///< after one of these was told
  };
  struct Event {
    PeerId peer;
    News news;
  };
  /// Looks at each node once, for at most AnswerLimits::look. Returns what the user should be told, each thing once.
  [[nodiscard]] std::vector<Event> look();

 private:
  struct Silence {
    std::uint32_t looks = 0;  ///< that were not answered
    Time since{};             ///< the first of them
    bool told = false;        ///< the user was told of it
  };

  /// Whether the user is to be told before it is given up.
  [[nodiscard]] bool is_noticeable(const Silence& silence) const;
  void judge(LentMemory& node, const std::vector<LentMemory*>& answering, std::vector<Event>& events);

  SlabMap& map_;
  const std::unique_ptr<Channel> channel_;
  std::map<LentMemory*, Silence> silences_;  ///< of nodes that did not answer the last look
};

}  // namespace farside::far
