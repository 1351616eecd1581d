#include "figures/nicam_runs.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "farside/base/error.h"

#include "comm/protocol/meeting.h"
#include "sim/world.h"

namespace farside::figures {

namespace {

using team::Rank;

constexpr Duration kLimit = std::chrono::hours(24);
constexpr std::uint64_t kRounds = 20;
constexpr std::uint64_t kLine = 64;

// A program that all ranks run, in rounds that are counted from 1.
class Program {
 public:
  Program(const Conditions& conditions, Rank ranks)
      : machine_(conditions.machine), ranks_(ranks), world_(conditions.seed, ranks, machine_) {}
  virtual ~Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  double seconds_per_round() {
    inboxes_.resize(ranks_);
    channels_.resize(ranks_);
    barriers_.resize(ranks_);
    for (Rank rank = 0; rank < ranks_; ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    if (!world_.run(kLimit)) throw Error({"run", "a simulated program", "it did not finish", "this is a defect"});
    return std::chrono::duration<double>(end_ - begin_).count() / kRounds;
  }

 protected:
  /// Prepares what is known when the program begins.
  virtual void prepare(Rank /*rank*/) {}
  virtual void round(Rank rank, std::uint64_t number) = 0;

  void allocate(Rank rank, std::uint64_t bytes) { inboxes_[rank] = world_.team(rank).allocate("inbox", bytes); }
  void compute(Rank rank, Duration duration) { world_.fabric(rank).sleep(duration); }
  /// As the service thread does it: the caller only pays for the call.
  void in_background(Rank rank, std::function<void(Channel&)> task) {
    compute(rank, machine_.network.overhead);
    world_.on(rank, [this, rank, task = std::move(task)] { task(*world_.fabric(rank).open_channel()); });
  }
  /// The bytes from `offset` on, and then `number` into a word.
  void put(Channel& by, Rank to, Rank from, std::uint64_t word, std::uint64_t offset, std::uint64_t bytes,
           std::uint64_t number) {
    std::vector<std::byte> row(bytes);
    expect(by.write(inboxes_[from]->of(to).span(offset, bytes), LocalSpan(row.data(), bytes), deadline(from)));
    signal(by, to, from, word, number);
  }
  void signal(Channel& by, Rank to, Rank from, std::uint64_t word, std::uint64_t number) {
    expect(by.write_signal(inboxes_[from]->of(to).word<ControlWord>(word), number, deadline(from)));
  }
  void await(Rank rank, std::uint64_t word, std::uint64_t number) {
    const Region& region = inboxes_[rank]->local();
    const auto has_come = [number](std::uint64_t seen) { return seen >= number; };
    expect(channels_[rank]->wait_until(region, region.word<ControlWord>(word), has_come, deadline(rank)));
  }
  std::uint64_t begin_barrier(Channel& by, Rank rank) {
    const Result<std::uint64_t> opened = barriers_[rank]->open(by, deadline(rank));
    expect(opened.status);
    expect(barriers_[rank]->arrive(by, opened.value, deadline(rank)));
    return opened.value;
  }
  void wait(Rank rank, std::uint64_t barrier) {
    expect(barriers_[rank]->wait(*channels_[rank], barrier, deadline(rank)));
  }
  [[nodiscard]] Deadline deadline(Rank rank) { return world_.fabric(rank).in(kLimit); }
  static void expect(Outcome outcome) {
    if (outcome != Outcome::done)
      throw Error({"simulate", "a program", std::string(to_string(outcome)), "this is a defect"});
  }

  const sim::Machine& machine_;
  const Rank ranks_;
  sim::World world_;
  std::vector<std::unique_ptr<team::SymmetricRegion>> inboxes_;
  std::vector<std::unique_ptr<Channel>> channels_;

 private:
  void live(Rank rank) {
    std::vector<Rank> all_ranks(ranks_);
    std::iota(all_ranks.begin(), all_ranks.end(), 0);
    barriers_[rank] = std::make_unique<comm::Meeting>(world_.team(rank), all_ranks, "barrier");
    channels_[rank] = world_.fabric(rank).open_channel();
    prepare(rank);
    expect(world_.team(rank).barrier(deadline(rank)));
    begin_ = std::max(begin_, world_.fabric(rank).now());
    for (std::uint64_t number = 1; number <= kRounds; ++number) round(rank, number);
    end_ = std::max(end_, world_.fabric(rank).now());
  }

  std::vector<std::unique_ptr<comm::Meeting>> barriers_;
  Time begin_{};
  Time end_{};
};

// ---- Laplace

class LaplaceProgram final : public Program {
 public:
  LaplaceProgram(const Conditions& conditions, const Laplace& laplace)
      : Program(conditions, laplace.ranks), laplace_(laplace), row_bytes_(laplace.size * sizeof(double)) {}

 private:
  // Rows arrive by turns in two sets of a row from above and one from below, with a word for each: the neighbour that
  // has sent its row of this round has used those of the one before.
  enum Side : std::uint64_t { above, below };
  static std::uint64_t word(Side side) { return kLine * side; }
  [[nodiscard]] std::uint64_t row(Side side, std::uint64_t number) const {
    return 2 * kLine + (number % 2 * 2 + side) * row_bytes_;
  }

  void prepare(Rank rank) override { allocate(rank, 2 * kLine + 4 * row_bytes_); }

  void round(Rank rank, std::uint64_t number) override {
    const std::uint64_t rows = laplace_.size * (rank + 1) / ranks_ - laplace_.size * rank / ranks_;
    const std::uint64_t outer = laplace_.overlaps ? std::min<std::uint64_t>(rows, 2) : rows;
    if (laplace_.overlaps) {
      in_background(rank, [this, rank, number](Channel& by) { send(by, rank, number); });
      compute(rank, static_cast<std::int64_t>((rows - outer) * laplace_.size) * laplace_.cell);
    } else {
      send(*channels_[rank], rank, number);
    }
    if (rank > 0) await(rank, word(above), number);
    if (rank + 1 < ranks_) await(rank, word(below), number);
    compute(rank, static_cast<std::int64_t>(outer * laplace_.size) * laplace_.cell);
  }

  void send(Channel& by, Rank rank, std::uint64_t number) {
    if (rank > 0) put(by, rank - 1, rank, word(below), row(below, number), row_bytes_, number);
    if (rank + 1 < ranks_) put(by, rank + 1, rank, word(above), row(above, number), row_bytes_, number);
  }

  const Laplace laplace_;
  const std::uint64_t row_bytes_;
};

// ---- Shift

class ShiftProgram final : public Program {
 public:
  ShiftProgram(const Conditions& conditions, const Shift& shift)
      : Program(conditions, shift.ranks), shift_(shift), row_bytes_(shift.size * sizeof(double)) {}

 private:
  static constexpr std::uint64_t kUnderWay = 4;  ///< results that are held back until their barrier has ended

  void prepare(Rank rank) override { allocate(rank, kLine + (kUnderWay + 2) * row_bytes_); }

  void round(Rank rank, std::uint64_t number) override {
    if (!shift_.relaxed) wait(rank, begin_barrier(*channels_[rank], rank));
    in_background(rank, [this, rank, number](Channel& by) {
      const std::uint64_t result = kLine + number % (kUnderWay + 2) * row_bytes_;
      put(by, (rank + 1) % ranks_, rank, 0, result, row_bytes_, number);
    });
    compute(rank, sim::time_for((shift_.size / ranks_ - 1) * row_bytes_, machine_.copy_bytes_per_s));
    await(rank, 0, number);
    if (!shift_.relaxed) return;
    in_background(rank, [this, rank](Channel& by) { (void)begin_barrier(by, rank); });
    if (number > kUnderWay) wait(rank, number - kUnderWay);
  }

  const Shift shift_;
  const std::uint64_t row_bytes_;
};

// ---- Barriers

class MeetingProgram final : public Program {
 public:
  using Program::Program;

 private:
  void round(Rank rank, std::uint64_t /*number*/) override { wait(rank, begin_barrier(*channels_[rank], rank)); }
};

class MessageProgram final : public Program {
 public:
  using Program::Program;

 private:
  void prepare(Rank rank) override { allocate(rank, 64 * kLine); }
  void round(Rank rank, std::uint64_t number) override {
    std::uint64_t word = 0;
    for (Rank step = 1; step < ranks_; step *= 2, word += kLine) {
      signal(*channels_[rank], (rank + step) % ranks_, rank, word, number);
      await(rank, word, number);
    }
  }
};

}  // namespace

double seconds_per_round(const Conditions& conditions, const Laplace& laplace) {
  return LaplaceProgram(conditions, laplace).seconds_per_round();
}

double seconds_per_round(const Conditions& conditions, const Shift& shift) {
  return ShiftProgram(conditions, shift).seconds_per_round();
}

double seconds_per_round(const Conditions& conditions, const Barriers& barriers) {
  if (barriers.kind == Barriers::Kind::meeting) return MeetingProgram(conditions, barriers.ranks).seconds_per_round();
  return MessageProgram(conditions, barriers.ranks).seconds_per_round();
}

}  // namespace farside::figures
