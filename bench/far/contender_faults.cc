// Faults on pages of far memory, one after the other. Arguments: how they are served, "heap" (by the pager), "bare" (by
// a loop that does no more than UFFDIO_COPY) or "read" (the same after a READ of the page from the pool), and how many
// pages. Each question is answered with the time of one pass over all pages.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "farside/far/heap.h"
#include "farside/far/pool.h"

#include "bench/far/bare_faults.h"
#include "bench/harness/contend.h"
#include "bench/harness/work.h"

namespace farside::bench {
namespace {

constexpr std::size_t kPageBytes = BareFaults::kPageBytes;

std::unique_ptr<far::Space> open_space(std::size_t pages) {
  return far::open_pool({.bytes = pages * kPageBytes, .protection = far::Protection::trust_nodes});
}

/// Touches the pages in this order: reads, or writes too.
Nanoseconds pass(std::byte* base, const std::vector<std::size_t>& order, bool writes) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::size_t page : order) {
    auto* const word = reinterpret_cast<volatile std::uint64_t*>(base + page * kPageBytes);
    if (writes) {
      *word = page + 1;
    } else if (*word == 0) {
      throw std::runtime_error("a page has lost its contents");
    }
  }
  return std::chrono::steady_clock::now() - start;
}

std::vector<std::size_t> in_order(std::size_t pages) {
  std::vector<std::size_t> order(pages);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

std::vector<std::size_t> shuffled(std::size_t pages) {
  std::vector<std::size_t> order = in_order(pages);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  return order;
}

void time_passes(Work& work, const std::string& name, std::function<Nanoseconds()> pass) {
  work.together_in_part(name, [pass = std::move(pass)](std::uint64_t /*amount*/, std::uint64_t rounds) {
    Nanoseconds sum{0};
    for (; rounds != 0; --rounds) sum += pass();
    return sum;
  });
}

/// A heap with room for twice the pages, and others that drive them out.
class OfHeap {
 public:
  explicit OfHeap(std::size_t pages)
      : pages_(pages),
        heap_(open_space(pages * 16), {.local_bytes = pages * 2 * kPageBytes}),
        base_(take(pages)),
        loop_(take(pages * 4)) {
    pass(base_, in_order(pages_), true);
    pass(loop_, in_order(pages_ * 4), true);
  }

  void offer(Work& work) {
    time_passes(work, "random", [this, order = shuffled(pages_)] { return after_leaving(order); });
    time_passes(work, "in_order", [this, order = in_order(pages_)] { return after_leaving(order); });
    for (const bool writes : {false, true}) {
      const std::string what = writes ? "write" : "read";
      time_passes(work, "loop_" + what,
                  [this, writes, order = in_order(pages_ * 4)] { return pass(loop_, order, writes) / 4; });
      time_passes(work, "random_loop_" + what,
                  [this, writes, order = shuffled(pages_ * 4)] { return pass(loop_, order, writes) / 4; });
    }
  }

 private:
  [[nodiscard]] std::byte* take(std::size_t pages) {
    return static_cast<std::byte*>(heap_.allocate(pages * kPageBytes, kPageBytes));
  }

  // With room for all of them, so that nothing leaves meanwhile.
  Nanoseconds after_leaving(const std::vector<std::size_t>& order) {
    heap_.advise(base_, pages_ * kPageBytes, far::Hint::done);
    std::byte* const others = take(pages_ * 3);
    pass(others, in_order(pages_ * 3), true);
    heap_.deallocate(others);
    const std::uint64_t before = heap_.statistics().bytes_in;
    const Nanoseconds time = pass(base_, order, false);
    if (heap_.statistics().bytes_in - before < pages_ * kPageBytes) throw std::runtime_error("a page had not left");
    return time;
  }

  std::size_t pages_;
  far::Heap heap_;
  std::byte* base_;
  std::byte* loop_;  ///< twice as large as the budget
};

/// Pages that are copied from a buffer, into which they were READ or not.
class OfBareLoop {
 public:
  OfBareLoop(std::size_t pages, bool reads)
      : pages_(pages),
        space_(open_space(pages)),
        io_(space_->open_io()),
        region_(space_->fabric().create_region("page", kPageBytes)),
        local_(region_->span(0, kPageBytes)),
        faults_(pages, local_.adapter_data(), [this, reads](std::size_t page) {
          if (reads) read(page);
        }) {
    for (std::size_t i = 0; i < kPageBytes; ++i) local_.adapter_data()[i] = std::byte{1};
    for (std::size_t page = 0; page < pages; ++page) {
      const far::Transfer transfer{page * kPageBytes, local_};
      if (io_->write({&transfer, 1}, deadline()) != far::Status::done) throw std::runtime_error("cannot write");
    }
  }

  void offer(Work& work) {
    time_passes(work, "random", [this, order = shuffled(pages_)] {
      faults_.drop();
      return pass(faults_.base(), order, false);
    });
  }

 private:
  [[nodiscard]] Deadline deadline() const { return space_->fabric().in(std::chrono::minutes(1)); }
  void read(std::size_t page) {
    const far::Transfer transfer{page * kPageBytes, local_};
    if (io_->read({&transfer, 1}, deadline()) != far::Status::done) std::abort();
  }

  std::size_t pages_;
  std::unique_ptr<far::Space> space_;
  std::unique_ptr<far::IoContext> io_;
  std::unique_ptr<Region> region_;
  LocalSpan local_;
  BareFaults faults_;
};

void run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::size_t pages = std::stoull(words.at(1));
  Work work;
  if (words[0] == "heap") {
    OfHeap heap(pages);
    heap.offer(work);
    work.answer_questions([](const Command&) {});
  } else {
    OfBareLoop loop(pages, words[0] == "read");
    loop.offer(work);
    work.answer_questions([](const Command&) {});
  }
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::contend([&] { farside::bench::run(argc, argv); });
}
