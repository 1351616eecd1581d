// farside's comm, on the fabric that FARSIDE_FABRIC names: a job of `farside run`.
#include <exception>
#include <vector>

#include "farside/comm/barrier.h"

#include "bench/comm/work.h"

namespace farside::bench {
namespace {

constexpr Duration kPatience = std::chrono::minutes(1);

// The command.
constexpr std::uint64_t kOrder = 0;  ///< its number: written last
constexpr std::uint64_t kOperation = 8;
constexpr std::uint64_t kRounds = 16;
constexpr std::uint64_t kCommandBytes = 24;

// In another region, on which nobody sleeps: a word to set, one to add to, and the data.
constexpr std::uint64_t kFlag = 0;
constexpr std::uint64_t kCount = 64;
constexpr std::uint64_t kData = 4096;

void check(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + " failed");
}

class Job {
 public:
  Job()
      : team_(join_team()),
        comm_(*team_),
        barrier_(comm_),
        channel_(comm_.open_channel()),
        commands_(team_->allocate("commands", kCommandBytes)),
        memory_(team_->allocate("bench", kData + kLargestBytes)),
        source_(kLargestBytes, std::byte{1}) {}

  void run() {
    if (team_->rank() == 0) {
      answer_questions(
          [this](Operation operation, std::uint64_t bytes, std::uint64_t rounds) { alone(operation, bytes, rounds); },
          [this](Command command) { tell(command); }, [this](Operation operation) { round(operation); });
    } else {
      while (obey()) {
      }
    }
    check(team_->barrier(patience()) == Outcome::done, "the end");
  }

 private:
  [[nodiscard]] Deadline patience() { return team_->fabric().in(kPatience); }

  void alone(Operation operation, std::uint64_t bytes, std::uint64_t rounds) {
    const RemoteRegion& target = memory_->of(1);
    const RemoteSpan to = target.span(kData, bytes);
    const LocalSpan from(source_.data(), bytes);
    const Deadline deadline = patience();
    for (; rounds != 0; --rounds) {
      Notice notice;
      if (operation == Operation::put_signal) notice = SetWord{target.word<ControlWord>(kFlag), ++signals_};
      if (operation == Operation::put_count) notice = AddToWord{target.word<AtomicWord>(kCount), 1};
      const Request put = comm_.put(*channel_, to, from, notice);
      if (operation != Operation::issue) check(comm_.wait(*channel_, put, deadline).done(), "put");
    }
    if (operation == Operation::issue) check(comm_.wait(*channel_, comm_.issued(), deadline).done(), "put");
  }

  void round(Operation operation) {
    if (operation == Operation::barrier) return check(barrier_.pass(*channel_, patience()).done(), "barrier");
    const Barrier::Begun begun = barrier_.begin(*channel_, patience());
    check(begun.ended.done() && barrier_.wait(*channel_, begun.number, patience()).done(), "barrier");
  }

  void tell(Command command) {
    ++orders_;
    for (Rank rank = 1; rank < team_->size(); ++rank) {
      const RemoteRegion& other = commands_->of(rank);
      const auto operation = static_cast<std::uint64_t>(command.operation);
      check(channel_->store(other.word<ControlWord>(kOperation), operation, patience()) == Outcome::done &&
                channel_->store(other.word<ControlWord>(kRounds), command.rounds, patience()) == Outcome::done &&
                channel_->write_signal(other.word<ControlWord>(kOrder), orders_, patience()) == Outcome::done,
            "telling the others");
    }
  }

  bool obey() {
    const Region& own = commands_->local();
    ++orders_;
    const auto is_given = [this](std::uint64_t order) { return order >= orders_; };
    // Rank 0 may be silent for as long as the other contenders take.
    const Deadline deadline = team_->fabric().in(std::chrono::hours(1));
    const Rank master = 0;
    check(channel_->wait_until(own, own.word<ControlWord>(kOrder), is_given, deadline, {&master, 1}) == Outcome::done,
          "waiting for rank 0");
    const auto operation = static_cast<Operation>(own.word<ControlWord>(kOperation).load());
    for (std::uint64_t rounds = own.word<ControlWord>(kRounds).load(); rounds != 0; --rounds) round(operation);
    return operation != Operation::end;
  }

  std::unique_ptr<Team> team_;
  Comm comm_;
  Barrier barrier_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<SymmetricRegion> commands_;
  std::unique_ptr<SymmetricRegion> memory_;
  std::vector<std::byte> source_;
  std::uint64_t signals_ = 0;
  std::uint64_t orders_ = 0;
};

}  // namespace
}  // namespace farside::bench

int main() {
  try {
    farside::bench::Job().run();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
