// laplace.cc — Laplace's equation on a square by Jacobi's method, each rank with a band of rows (NICAM, section 5.1).
//
//   farside run -n 4 -- build/release/bin/example_laplace
//
// A rank computes its outermost rows first and puts them into its neighbours' memory; while they are on their way it
// computes the rest. No barrier is needed: a rank that has sent its row of this iteration has used those of the last
// one.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <vector>

#include "farside/comm/collectives.h"

namespace {

using namespace farside;

constexpr std::size_t kSize = 1024;  // inner rows and columns
constexpr std::size_t kWidth = kSize + 2;
constexpr std::uint64_t kRowBytes = kWidth * sizeof(double);
constexpr std::uint64_t kIterations = 100;

using Rows = std::vector<double>;  // some rows of kWidth, with the row above them and the row below

// One edge is hot.
Rows start(std::size_t rows, bool at_the_top) {
  Rows grid((rows + 2) * kWidth, 0.0);
  if (at_the_top) std::fill_n(grid.begin(), kWidth, 1.0);
  return grid;
}

void update(const Rows& old, Rows& updated, std::size_t first, std::size_t last) {
  for (std::size_t row = first; row <= last; ++row) {
    const double* const at = &old[row * kWidth];
    for (std::size_t column = 1; column <= kSize; ++column) {
      updated[row * kWidth + column] =
          (at[column - kWidth] + at[column + kWidth] + at[column - 1] + at[column + 1]) / 4;
    }
  }
}

// What the neighbours send: by turns into two sets of a row from above and one from below, with a word for each.
struct Inbox {
  enum Side : std::uint64_t { above, below };
  static constexpr std::uint64_t kBytes = 128 + 4 * kRowBytes;
  static std::uint64_t word(Side side) { return 64 * side; }
  static std::uint64_t row(Side side, std::uint64_t iteration) { return 128 + (iteration % 2 * 2 + side) * kRowBytes; }
};

class Band {
 public:
  explicit Band(team::Team& team)
      : team_(team),
        first_(kSize * team.rank() / team.size()),
        rows_(kSize * (team.rank() + 1) / team.size() - first_),
        inbox_(team.allocate("inbox", Inbox::kBytes)),
        grid_(start(rows_, is_top())),
        next_(grid_),
        comm_(team),
        channel_(comm_.open_channel()) {}

  void iterate(std::uint64_t iteration) {
    update(grid_, next_, 1, 1);
    update(grid_, next_, rows_, rows_);
    if (!is_top()) send(team_.rank() - 1, Inbox::below, 1, iteration);
    if (!is_bottom()) send(team_.rank() + 1, Inbox::above, rows_, iteration);
    if (rows_ > 2) update(grid_, next_, 2, rows_ - 1);
    if (!is_top()) receive(Inbox::above, 0, iteration);
    if (!is_bottom()) receive(Inbox::below, rows_ + 1, iteration);
    expect(comm_.wait(*channel_, comm_.issued(), deadline()).done(), "sending");
    grid_.swap(next_);
  }

  // Over all ranks, from what one process alone computes.
  double largest_difference() {
    Rows reference = start(kSize, true);
    Rows other = reference;
    for (std::uint64_t iteration = 0; iteration < kIterations; ++iteration) {
      update(reference, other, 1, kSize);
      reference.swap(other);
    }
    double largest = 0;
    for (std::size_t i = kWidth; i < (rows_ + 1) * kWidth; ++i) {
      largest = std::max(largest, std::abs(grid_[i] - reference[first_ * kWidth + i]));
    }
    comm::Collectives all(comm_);
    expect(all.all_reduce(*channel_, std::span(&largest, 1), deadline(), comm::Max()).done(), "the largest of all");
    expect(team_.barrier(deadline()) == Outcome::done, "the end");
    return largest;
  }

 private:
  [[nodiscard]] bool is_top() const { return team_.rank() == 0; }
  [[nodiscard]] bool is_bottom() const { return team_.rank() + 1 == team_.size(); }
  [[nodiscard]] Deadline deadline() const { return team_.fabric().in(std::chrono::seconds(30)); }

  static void expect(bool done, const char* what) {
    if (!done) throw std::runtime_error(std::string(what) + " failed");
  }

  void send(team::Rank to, Inbox::Side side, std::size_t row, std::uint64_t iteration) {
    const RemoteRegion& there = inbox_->of(to);
    comm_.put(*channel_, there.span(Inbox::row(side, iteration), kRowBytes), LocalSpan(&next_[row * kWidth], kRowBytes),
              comm::SetWord{there.word<ControlWord>(Inbox::word(side)), iteration});
  }

  void receive(Inbox::Side side, std::size_t row, std::uint64_t iteration) {
    const auto has_come = [iteration](std::uint64_t newest) { return newest >= iteration; };
    const auto word = inbox_->local().word<ControlWord>(Inbox::word(side));
    expect(channel_->wait_until(inbox_->local(), word, has_come, deadline()) == Outcome::done, "receiving");
    inbox_->local().copy_out(Inbox::row(side, iteration),
                             std::as_writable_bytes(std::span(&next_[row * kWidth], kWidth)));
  }

  team::Team& team_;
  const std::size_t first_;  ///< how many rows are above this band
  const std::size_t rows_;
  std::unique_ptr<team::SymmetricRegion> inbox_;
  Rows grid_;
  Rows next_;
  comm::Comm comm_;  // after what it copies between, so that it goes first: an error may leave copies under way
  std::unique_ptr<Channel> channel_;
};

}  // namespace

int main() {
  try {
    const auto team = team::join_team();
    Band band(*team);
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t iteration = 1; iteration <= kIterations; ++iteration) band.iterate(iteration);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    const double difference = band.largest_difference();
    if (team->rank() == 0) {
      std::fprintf(stderr, "%.0f ms\n", took.count());
      std::printf("%u ranks, %llu iterations: largest difference to one process alone %g\n", team->size(),
                  static_cast<unsigned long long>(kIterations), difference);
    }
    return difference == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
