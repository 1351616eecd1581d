// The samples of docs/gas.md, word for word (guide_test compares them), as one program.
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>
#include <vector>

#include "farside/gas/patch.h"

namespace {

using namespace farside;

// No rank frees an array while another rank may use it.
void leave(comm::Comm& comm) {
  const Outcome met = comm.team().barrier(comm.team().fabric().in(std::chrono::seconds(60)));
  if (met != Outcome::done) throw Error({"leave", "a sample", "a rank is lost", ""});
}

void place(comm::Comm& comm) {
  // In 16 columns of pages, each at one rank.
  const auto by_column = [](gas::PageId page, std::uint64_t /*pages*/, team::Rank ranks) {
    return static_cast<team::Rank>(page % 16 * ranks / 16);
  };
  gas::GlobalArray<float> image(comm, 256 * 1024, {.page_bytes = 1024, .distribution = by_column});

  const auto located = image.locality({0, 2048});
  image.expect(located.status, "ask which ranks own it");
  for (const auto& [range, owner] : located.value) std::cout << range.first << ": rank " << owner << '\n';

  if (located.value.size() != 8) throw Error({"place", "an image", "its pages are not as the guide says", ""});

  leave(comm);
}

void move(comm::Comm& comm) {
  gas::GlobalArray<double> field(comm, 30'000);
  const team::Rank rank = field.rank();

  const gas::Moved moved =
      field.own_many(std::array{gas::Range{rank * 1000, 1000}, gas::Range{20'000 + rank * 3000, 3000}});
  field.expect(moved.status, "own two ranges");
  if (moved.full) std::cout << "only " << moved.pages << " pages came\n";

  const gas::Shape<2> shape{100, 300};
  std::vector<double> patch(4 * 8);
  field.expect(gas::get_patch(field, shape, gas::Patch<2>{{10, 20}, {4, 8}}, std::span(patch)), "get a patch");

  const std::string report = field.report();
  if (rank == 0) std::cout << report;
  field.expect(field.balance().status, "balance");  // each page moves to the rank that has used it most

  leave(comm);
}

void count(comm::Comm& comm) {
  gas::GlobalArray<std::uint64_t> tasks(comm, 8);

  const Result<std::uint64_t, comm::Status> next = tasks.fetch_add(0, 1);  // each number once, whichever rank asks
  tasks.expect(next.status, "take a number");
  const Result<std::uint64_t, comm::Status> claimed = tasks.compare_swap(1, 0, next.value + 1);
  tasks.expect(claimed.status, "claim");
  if (claimed.value == 0) std::cout << next.value << " was the first\n";

  leave(comm);
}

void compute_in_place(comm::Comm& comm) {
  gas::GlobalArray<double> field(comm, 30'000);

  if (const std::optional<gas::PinnedRange<double>> here = field.pin(512)) {  // none: it is elsewhere
    for (double& value : here->values) value += 1;
  }  // from here on it may go

  leave(comm);
}

void get_many(comm::Comm& comm) {
  gas::GlobalArray<double> field(comm, 30'000);

  std::vector<double> left(10);
  std::vector<double> right(10);
  field.begin_get(0, left);
  field.begin_get(20'000, right);
  field.expect(field.finish(), "get both");

  std::vector<double> some(3);
  field.expect(field.gather(std::vector<std::uint64_t>{7, 7000, 29'999}, some), "gather");

  leave(comm);
}

void share_with_a_thread(comm::Comm& comm) {
  gas::GlobalArray<double> field(comm, 30'000);

  std::thread reader([mine = field.another()]() mutable {
    const double value = mine[29'999];
    std::cout << value << '\n';
  });
  reader.join();

  leave(comm);
}

void read_copies(comm::Comm& comm) {
  gas::GlobalArray<double> table(comm, 30'000, {.read_cache_bytes = 1U << 20U});

  double sum = 0;
  for (int i = 0; i < 1000; ++i) sum += table[i];  // two pages are fetched, once
  table.acquire();                                 // what others had put before this is found from here on
  std::cout << sum << '\n';

  leave(comm);
}

void use_pages(comm::Comm& comm) {
  gas::Pages pages(comm.team(), "particles", {.pages = 1024, .page_bytes = 4096});
  gas::PageAccess mine(pages);
  const Deadline deadline = comm.team().fabric().in(std::chrono::seconds(60));

  std::uint64_t value = 5;
  const comm::Status put = mine.put({7, 128, LocalSpan(&value, sizeof value)}, deadline);
  if (put.outcome == Outcome::peer_lost) std::cout << "page 7 has gone with rank " << *put.lost << "\n";
  const gas::Moved moved = mine.own(std::array{gas::PageId{7}}, deadline);

  if (!put.done() || !moved.status.done()) throw Error({"use", "page 7", "it was not put or owned", ""});

  leave(comm);
}

}  // namespace

int main() {
  try {
    const auto team = team::join_team();
    comm::Comm comm(*team);
    gas::GlobalArray<double> field(comm, 100'000, {.page_bytes = 4096, .distribution = gas::blocked()});
    const auto meet = [&] { field.expect({team->barrier(team->fabric().in(std::chrono::seconds(60)))}, "meet"); };

    field.for_each_here([](std::uint64_t first, std::span<double> values) {  // in place, without copying
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(first + i);
    });
    meet();

    std::vector<double> row(1000);
    field.expect(field.get(50'000, row), "get a row");  // wherever it is: one READ for each page
    if (team->rank() == 0) {
      field.expect(field.own(50'000, 1000).status, "own a row");  // from now on it is at rank 0
      field[50'007] = -1;
    }
    meet();
    if (field[50'007] != -1) throw Error({"look at", "the row", "what rank 0 has put there is lost", ""});
    meet();  // no rank frees the array while another rank may use it

    for (const auto sample :
         {place, move, count, compute_in_place, get_many, share_with_a_thread, read_copies, use_pages}) {
      sample(comm);
    }
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
