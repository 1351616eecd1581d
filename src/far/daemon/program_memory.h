// program_memory.h — the memory of another process: read through /proc, and taken away by the process itself, which
// alone may do that.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sys/types.h>

#include "farside/base/fd.h"

#include "base/mutex.h"
#include "far/daemon/messages.h"
#include "far/pager/paged_memory.h"

namespace farside::far {

/// Numbers the pages of some address ranges. A number that belongs to no page follows each range, so that neighbours in
/// number are neighbours in memory.
class PageRanges {
 public:
  /// The first, which is the arena, gets the highest numbers: most of it may never be touched. Throws Error when they
  /// overlap, or are too many pages.
  explicit PageRanges(std::span<const AddressRange> ranges);

  struct Piece {
    std::uint64_t address;
    PageNumber first;
    PageNumber count;

    [[nodiscard]] std::uint64_t end() const { return address + std::uint64_t{count} * kPageBytes; }
  };
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  [[nodiscard]] const Piece& arena() const { return pieces_.back(); }
  [[nodiscard]] PageNumber pages() const { return arena().first + arena().count + 1; }
  [[nodiscard]] std::uint64_t address_of(PageNumber page) const;
  [[nodiscard]] std::optional<PageNumber> page_of(std::uint64_t address) const;
  /// Calls `then(first, count)` for what of the range is numbered.
  template <class Then>
  void for_each_part(const AddressRange& range, Then&& then) const {
    for (const Piece& piece : pieces_) {
      const std::uint64_t begin = std::max(range.address, piece.address);
      const std::uint64_t end = std::min(range.address + range.bytes, piece.end());
      if (begin >= end) continue;
      then(piece.first + static_cast<PageNumber>((begin - piece.address) / kPageBytes),
           static_cast<PageNumber>((end - begin) / kPageBytes));
    }
  }
  [[nodiscard]] bool operator==(const PageRanges& other) const;

 private:
  std::vector<Piece> pieces_;
};

/// Thread safety: every call, from any thread.
class ProgramMemory final : public PagedMemory {
 public:
  /// For a process that just sent something over `connection`. Throws Error when it cannot be reached.
  ProgramMemory(pid_t process, std::shared_ptr<const Fd> connection, PageRanges ranges);

  [[nodiscard]] const PageRanges& ranges() const { return ranges_; }
  [[nodiscard]] PageNumber pages() const override { return ranges_.pages(); }
  [[nodiscard]] std::byte* at(PageNumber page) const override;
  [[nodiscard]] bool copy_out(std::span<const PageNumber> pages, std::byte* to) override;
  /// Returns when the process has done it, or its connection ended.
  void drop(std::span<const PageNumber> pages) override;
  /// By SIGBUS, and SIGKILL if it is still there a second later.
  void fail(std::string_view tried, std::string_view why) override;
  /// Its connection ended.
  [[nodiscard]] bool is_gone() const override;

  [[nodiscard]] bool is_of(pid_t process) const;
  /// Which of the pages the kernel has memory for, one after the other.
  [[nodiscard]] std::vector<bool> present(PageNumber first, PageNumber count) const;
  void kill() const;

 private:
  void ask_to_drop(std::span<const AddressRange> ranges) REQUIRES(dropping_);
  void signal(int number) const;

  const pid_t process_;
  const std::shared_ptr<const Fd> connection_;
  const PageRanges ranges_;
  Fd handle_;       ///< pidfd
  Fd bytes_;        ///< /proc/PID/mem
  Mutex dropping_;  ///< held from a request to its answer
  std::atomic<bool> failed_{false};
};

}  // namespace farside::far
