// page_worker.h — who writes, reads and discards pages of a space at random, and compares.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "farside/far/space.h"

namespace farside::far {

/// Of `workers`, each with pages of its own. For one thread.
class Worker {
 public:
  Worker(Space& space, std::uint64_t number, std::uint64_t workers)
      : space_(space), io_(space.open_io()), number_(number), workers_(workers), random_(number) {}

  void work(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t kind = random_() % 8;
      if (kind == 0) {
        discard();
      } else if (kind < 4) {
        write();
      } else {
        read(any_pages());
      }
    }
  }
  void read_all() {
    for (const auto& [page, value] : pages_) read({page});
  }

 private:
  static constexpr std::uint64_t kPageBytes = 512;
  using Bytes = std::vector<std::uint64_t>;

  std::vector<std::uint64_t> any_pages() {
    std::vector<std::uint64_t> pages;
    const std::uint64_t count = 1 + random_() % 8;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t page = random_() % (space_.bytes() / kPageBytes / workers_) * workers_ + number_;
      if (std::ranges::find(pages, page) == pages.end()) pages.push_back(page);
    }
    return pages;
  }
  template <class Act>
  void with_buffers(const std::vector<std::uint64_t>& pages, Act act) {
    std::vector<Bytes> buffers(pages.size(), Bytes(kPageBytes / 8));
    std::vector<Transfer> list;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      list.push_back({pages[i] * kPageBytes, LocalSpan(buffers[i].data(), kPageBytes)});
    }
    act(buffers, list);
  }
  [[nodiscard]] Deadline soon() { return space_.fabric().in(std::chrono::seconds(60)); }

  void write() {
    const auto pages = any_pages();
    with_buffers(pages, [&](std::vector<Bytes>& buffers, const std::vector<Transfer>& list) {
      for (std::size_t i = 0; i < pages.size(); ++i) {
        const std::uint64_t value = ++last_ << 8U | number_;
        buffers[i].assign(kPageBytes / 8, value);
        pages_[pages[i]] = value;
      }
      ASSERT_EQ(io_->write(list, soon()), Status::done);
    });
  }
  void read(const std::vector<std::uint64_t>& pages) {
    with_buffers(pages, [&](std::vector<Bytes>& buffers, const std::vector<Transfer>& list) {
      ASSERT_EQ(io_->read(list, soon()), Status::done);
      for (std::size_t i = 0; i < pages.size(); ++i) {
        ASSERT_EQ(buffers[i], Bytes(kPageBytes / 8, pages_[pages[i]])) << "page " << pages[i];
      }
    });
  }
  void discard() {
    const std::uint64_t page = any_pages().front();
    ASSERT_EQ(io_->discard(page * kPageBytes, kPageBytes, soon()), Status::done);
    pages_[page] = 0;
  }

  Space& space_;
  const std::unique_ptr<IoContext> io_;
  const std::uint64_t number_;
  const std::uint64_t workers_;
  std::mt19937_64 random_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::uint64_t> pages_;
};

}  // namespace farside::far
