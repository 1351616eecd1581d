// cellar.h — pages kept in this process, for what needs Shuttles and no pool.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "far/pager/shuttle.h"

namespace farside::test {

/// What Shuttles of one thread share: pages, what became of them last, and what the test wants to become of them.
struct Cellar {
  explicit Cellar(far::PageNumber pages) : bytes(std::size_t{pages} * far::kPageBytes) {}

  std::vector<std::byte> bytes;
  std::vector<far::PageNumber> fetched;  ///< the last list
  std::vector<far::PageNumber> stored;
  std::vector<std::pair<far::PageNumber, far::PageNumber>> erased;  ///< first and count, of all
  /// In the middle of a store: after the bytes were handed over, before the pager learns that they are safe.
  std::function<void()> during_store = [] {};
  std::function<bool(far::PageNumber)> has_room_for = [](far::PageNumber) { return true; };
  far::Result stores_end_with = far::Result::done;
};

class CellarShuttle final : public far::Shuttle {
 public:
  explicit CellarShuttle(Cellar& cellar) : cellar_(cellar) {}

  [[nodiscard]] std::byte* buffer() override { return buffer_.data(); }
  [[nodiscard]] far::Result fetch(std::span<const far::PageNumber> pages) override {
    cellar_.fetched.assign(pages.begin(), pages.end());
    for (std::size_t i = 0; i < pages.size(); ++i) std::memcpy(place(i), shelf(pages[i]), far::kPageBytes);
    return far::Result::done;
  }
  [[nodiscard]] far::Result store(std::span<const far::PageNumber> pages) override {
    if (!std::ranges::all_of(pages, cellar_.has_room_for)) return far::Result::full;
    cellar_.stored.assign(pages.begin(), pages.end());
    for (std::size_t i = 0; i < pages.size(); ++i) std::memcpy(shelf(pages[i]), place(i), far::kPageBytes);
    cellar_.during_store();
    return cellar_.stores_end_with;
  }
  [[nodiscard]] far::Result erase(far::PageNumber first, far::PageNumber count) override {
    cellar_.erased.emplace_back(first, count);
    std::memset(shelf(first), 0, count * far::kPageBytes);
    return far::Result::done;
  }

 private:
  [[nodiscard]] std::byte* place(std::size_t i) { return buffer_.data() + i * far::kPageBytes; }
  [[nodiscard]] std::byte* shelf(far::PageNumber page) {
    return cellar_.bytes.data() + std::size_t{page} * far::kPageBytes;
  }

  Cellar& cellar_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kPages * far::kPageBytes);
};

}  // namespace farside::test
