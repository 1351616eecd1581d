// pages.h — pages of memory that belong to all ranks, and move from one to another while all go on using them (Endo,
// Taura: relocatable PGAS; the protocol is in docs/protocols/gas.md). The low level, on which programs build their own
// structures; GlobalArray (global_array.h) has elements and indices.
//
//   Pages pages(*team, "particles", {.pages = 1024, .page_bytes = 4096});
//   PageAccess mine(pages);
//   mine.put({7, 0, LocalSpan(value)}, deadline);   // wherever page 7 is
//   mine.own(std::array{PageId{7}}, deadline);      // here, from now on; its owner takes no part
//
// Guarantees. A put that returned done is seen by every get that begins later, on any rank, whatever has been moved
// meanwhile. A get of an aligned word (8 bytes) finds what the word was at some moment between call and return; a
// larger one finds in each word bytes that it had then, over a network perhaps of different moments. While a page
// moves, gets go on and puts wait. Owns of one page come one after the other. Each rank remembers where pages are: then
// a get or put is one operation on the page's bytes; after a move it is refused once and asks the page's home.
//
// Deaths. Pages whose owner or home has died are lost: operations on them end with peer_lost. All other work goes on:
// the operation of a rank that died or was stopped is ended for it after the lease. A rank that is stopped in the
// middle of a put for longer than the lease, while another rank wants to own the page, is evicted from the team.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "farside/comm/comm.h"
#include "farside/gas/page.h"

namespace farside::gas {

/// The same at all ranks.
struct PagesOptions {
  std::uint64_t pages = 0;          ///< 1 to 2^40
  std::uint64_t page_bytes = 4096;  ///< a multiple of 8, 64 to 16 Mi
  /// The owner of a page in the beginning; in turn when it is not given.
  std::function<team::Rank(PageId)> first_owner = {};
  /// Pages that a rank has room for; 0: twice as many as it begins with, and some. Room that nothing was moved to takes
  /// no memory (but with an RDMA card, which pins it).
  std::uint64_t slots = 0;
  /// Places of pages that a rank remembers; 0: of all pages, up to 65,536.
  std::uint64_t remembered_places = 0;
  /// For copies of remote pages at each PageAccess, see PageAccess::acquire; 0: none are kept.
  std::uint64_t read_cache_bytes = 0;
  /// After so long without a sign of life, what others wait for is ended for it.
  std::chrono::milliseconds lease = kDefaultLease;
};

/// The state that the threads of a rank share. It outlives every PageAccess to it.
/// Thread safety: every call, from any thread.
class Pages {
 public:
  /// Collective. Throws UsageError for options that make no sense, Error when it cannot be set up.
  Pages(team::Team& team, const std::string& name, const PagesOptions& options);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] team::Team& team() const noexcept;
  [[nodiscard]] std::uint64_t pages() const noexcept;
  [[nodiscard]] std::uint64_t page_bytes() const noexcept;

 private:
  friend class PageAccess;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The place of a page.
struct PagePlace {
  team::Rank owner = 0;
  RemoteSpan bytes{};         ///< at its owner; for the owner, or while no rank can move the page
  std::uint64_t version = 0;  ///< another one after each move, of kPageVersionBits
};

/// One thread's gets, puts and atomics on a page.
struct PageTraffic {
  PageId page;
  std::uint64_t operations;
  std::uint64_t bytes;
  std::uint64_t remote_operations;  ///< of these, those while another rank owned it
  std::uint64_t remote_bytes;
};

/// The bytes of a page of this rank, which no rank moves until this is destroyed. Others may get and put in that time.
/// It belongs to the thread of its PageAccess, which outlives it.
class PagePin {
 public:
  PagePin(PagePin&&) noexcept;
  PagePin& operator=(PagePin&&) noexcept;
  ~PagePin();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  friend class PageAccess;
  class Impl;
  PagePin(std::unique_ptr<Impl> impl, std::span<std::byte> bytes);

  std::unique_ptr<Impl> impl_;
  std::span<std::byte> bytes_;
};

/// One thread's way to pages. At a rank, 256 of them and of PagePins at a time.
/// Thread safety: one thread at a time.
class PageAccess {
 public:
  explicit PageAccess(Pages& pages);
  ~PageAccess();
  PageAccess(PageAccess&&) noexcept;
  PageAccess& operator=(PageAccess&&) noexcept;

  [[nodiscard]] const Pages& pages() const noexcept;
  /// The channel that this posts through; for other work of the same thread between calls. Not while transfers are open
  /// (UsageError): a flush would take the report of a lost link, which `finish` has to give.
  [[nodiscard]] Channel& channel();

  // Transfers. UsageError is thrown for pages that there are not, and for a get or put that is not within one.

  comm::Status get(const PagePart& part, Deadline deadline);
  /// Gets many parts, all under way at once.
  comm::Status get(std::span<const PagePart> parts, Deadline deadline);
  comm::Status put(const PagePart& part, Deadline deadline);
  /// Begins a part, which may go on in the pages that follow. Many parts are under way at once; `finish` ends them all.
  /// Buffers stay until then. Before that every other transfer, own, locate and pin throws UsageError.
  ///
  /// When one of these calls throws, nothing is under way any more: what was begun before was awaited for a second at
  /// most and then abandoned, and it is not known what of it took place. For exceptions from elsewhere: OpenTransfers.
  void begin_get(const PagePart& part);
  void begin_put(const PagePart& part);
  comm::Status finish(Deadline deadline);
  /// The same for what was begun, without an exception. For OpenTransfers.
  void cancel() noexcept;
  [[nodiscard]] bool is_open() const noexcept;
  /// Throws UsageError when something was begun and not finished.
  void check_closed();

  /// On an aligned word, atomic against each other, not against puts.
  Result<std::uint64_t, comm::Status> fetch_add(PageId page, std::uint64_t offset, std::uint64_t addend,
                                                Deadline deadline);
  Result<std::uint64_t, comm::Status> compare_swap(PageId page, std::uint64_t offset, std::uint64_t expected,
                                                   std::uint64_t desired, Deadline deadline);

  // Places.

  /// Brings pages to this rank, all in one round, but for those that are lost. Pages that a program has pinned are
  /// waited for.
  Moved own(std::span<const PageId> pages, Deadline deadline);
  /// Finds the places of pages, as this rank remembers them, or else as their homes say.
  Result<std::vector<PagePlace>, comm::Status> locate(std::span<const PageId> pages, Deadline deadline);
  /// None when this rank does not own the page.
  struct Pinned {
    comm::Status status;
    std::optional<PagePin> pin{};
  };
  [[nodiscard]] Pinned pin(PageId page, Deadline deadline);
  /// Those that are, or have lately been, at this rank.
  [[nodiscard]] std::vector<PageId> pages_here() const;

  // Copies of remote pages, where PagesOptions::read_cache_bytes allows some: gets are served from them, so they find
  // what the page was at the last acquire or later, also when its owner has died since. Own puts and atomics are seen.

  /// From here on gets find what others had put before.
  void acquire();
  void invalidate(std::span<const PageId> pages);

  /// Since the last clear_traffic, by page. What was read from copies, and through pins, does not count.
  [[nodiscard]] std::vector<PageTraffic> traffic() const;
  void clear_traffic();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A guard for code that may throw between begin_get or begin_put and finish. Declare it after the buffers: once it is
/// destroyed, their memory is not touched any more, whatever has been begun (PageAccess::cancel).
class OpenTransfers {
 public:
  explicit OpenTransfers(PageAccess& access) noexcept : access_(access) {}
  ~OpenTransfers() { access_.cancel(); }
  OpenTransfers(const OpenTransfers&) = delete;
  OpenTransfers& operator=(const OpenTransfers&) = delete;

 private:
  PageAccess& access_;
};

}  // namespace farside::gas
