// profile.h — how programs used each of their large allocations, the hint that follows from it, and the file in which
// both are kept from one run to the next. docs/far_programs.md has its format.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "farside/far/hint.h"

#include "base/mutex.h"
#include "far/pager/page_observer.h"

namespace farside::far {

/// The use of one allocation, or of all allocations that have its name.
struct AllocationUse {
  std::uint64_t bytes = 0;  ///< of the largest
  std::uint64_t times = 0;  ///< that it was allocated
  std::array<std::uint64_t, kPageEvents> pages{};
  Hint hint = Hint::none;  ///< that it had

  [[nodiscard]] std::uint64_t count(PageEvent event) const { return pages.at(static_cast<std::size_t>(event)); }
};

/// The hints that such uses call for: of what is updated so much is kept as fits well into the budget.
[[nodiscard]] std::vector<Hint> deduce_hints(std::span<const AllocationUse> uses, std::uint64_t budget_bytes);

/// Thread safety: every call, from any thread.
class Profile {
 public:
  explicit Profile(std::uint64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  /// All allocations with one name.
  class Allocation {
   public:
    explicit Allocation(std::string name) : name_(std::move(name)) {}

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] Hint hint() const { return hint_; }
    void note(PageEvent event, std::uint64_t pages) {
      pages_.at(static_cast<std::size_t>(event)).fetch_add(pages, std::memory_order_relaxed);
    }

   private:
    friend class Profile;
    [[nodiscard]] AllocationUse use() const;

    const std::string name_;
    Hint hint_ = Hint::none;  ///< changed before any program runs
    bool is_named_by_file_ = false;
    std::array<std::atomic<std::uint64_t>, kPageEvents> pages_{};
    // Guarded by the profile's mutex.
    std::string function_;
    std::uint64_t bytes_ = 0;
    std::uint64_t times_ = 0;
  };

  /// Before any program runs. Throws UsageError, which says where the file is not as it should be.
  void read_hints(const std::filesystem::path& file);
  /// One more of that name, allocated in `function`. It stays as long as the profile.
  Allocation& allocated(const std::string& name, const std::string& function, std::uint64_t bytes);
  /// Throws Error.
  void write(const std::filesystem::path& file);

  struct HintsGiven {
    std::uint64_t names = 0;        ///< in the file
    std::uint64_t unknown = 0;      ///< of these, that nothing had
    std::uint64_t allocations = 0;  ///< that had a hint
  };
  [[nodiscard]] HintsGiven hints_given();

 private:
  Allocation& find(const std::string& name) REQUIRES(mutex_);

  const std::uint64_t budget_bytes_;
  Mutex mutex_;
  std::deque<Allocation> allocations_ GUARDED_BY(mutex_);  ///< in the order in which they appeared
  std::unordered_map<std::string, Allocation*> by_name_ GUARDED_BY(mutex_);
};

/// Throws Error when it cannot be written later, unless that changes meanwhile. What is in the file stays.
void expect_writable(const std::filesystem::path& file);

}  // namespace farside::far
