#include "node/rank_watch.h"

#include <array>

namespace farside {

namespace {
constexpr Duration kLongest = std::chrono::hours(24 * 365);
constexpr Duration kWake = std::chrono::seconds(1);
}  // namespace

// One wait for all the time: it tells of a death also when somebody has come back by the time that anybody looks.
RankWatch::RankWatch(Team& team, Rank rank)
    : team_(team), end_(team.fabric().create_region("end of a watch", sizeof(ControlWord))), waiting_([this, rank] {
        const auto channel = team_.fabric().open_channel();
        const std::array peers{rank};
        const auto is_set = [](std::uint64_t value) { return value != 0; };
        Outcome outcome = Outcome::timed_out;
        while (outcome == Outcome::timed_out) {
          outcome = channel->wait_until(*end_, end_->word<ControlWord>(0), is_set, team_.fabric().in(kLongest), peers);
        }
        if (outcome == Outcome::peer_lost) has_died_.store(true, std::memory_order_release);
      }) {}

RankWatch::~RankWatch() {
  const auto own = team_.fabric().attach(team_.rank(), end_->handle());
  (void)team_.fabric().open_channel()->write_signal(own->word<ControlWord>(0), 1, team_.fabric().in(kWake));
  waiting_.join();
}

}  // namespace farside
