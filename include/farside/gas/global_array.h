// global_array.h — an array that is spread over all ranks in pages, which any rank can move to itself while every index
// stays valid (Endo, Taura: relocatable PGAS).
//
//   Comm comm(*team);
//   GlobalArray<double> field(comm, 1'000'000, {.page_bytes = 4096, .distribution = blocked()});
//   std::vector<double> row(1000);
//   field.get(5'000, row);               // wherever these elements are; one READ for each page
//   field.own(5'000, 1000);              // from now on they are here
//   field.for_each_here([](std::uint64_t first, std::span<double> values) { ... });  // without copying
//
// Guarantees, costs and what deaths do: pages.h. Elements of 8 bytes or less, at their natural places, are read and
// written whole, if by themselves and not through the read cache.
//
// Each call waits for at most GlobalArrayOptions::time_out, and returns how it ended; those that return a value throw
// Error instead. UsageError is thrown for indices that there are not.
//
// A rank must not destroy its array while another rank may use it: all meet before that (Team::barrier).
//
// Thread safety: one thread at a time; `another` gives the array to another thread of the rank. Collective calls are
// made by the first thread's.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "farside/base/error.h"
#include "farside/gas/distribution.h"
#include "farside/gas/global_pointer.h"
#include "farside/gas/page_use.h"
#include "farside/gas/pages.h"

namespace farside::gas {

/// The same at all ranks.
struct GlobalArrayOptions {
  std::uint64_t page_bytes = 4096;  ///< 64 B to 16 MiB, a multiple of 8; elements do not cross pages
  Distribution distribution = cyclic();
  std::uint64_t slots = 0;              ///< as PagesOptions
  std::uint64_t remembered_places = 0;  ///< as PagesOptions
  std::uint64_t read_cache_bytes = 0;   ///< as PagesOptions
  std::chrono::milliseconds lease = kDefaultLease;
  std::chrono::milliseconds time_out = kDefaultCallTimeout;  ///< of each call
};

/// Elements that follow each other.
struct Range {
  std::uint64_t first;
  std::uint64_t count;
};

/// Elements of one page: they are at `owner`.
struct LocatedRange {
  Range range;
  team::Rank owner;
};

/// Elements in this rank's memory, which no rank moves until this is destroyed.
template <class T>
struct PinnedRange {
  PagePin pin;
  std::uint64_t first;
  std::span<T> values;
};

template <comm::Sendable T>
class GlobalArray {
 public:
  /// Collective. `comm` outlives it.
  GlobalArray(comm::Comm& comm, std::uint64_t elements, const GlobalArrayOptions& options = {})
      : shared_(std::make_shared<Shared>(comm, elements, options)), access_(shared_->pages) {}

  /// The same array, for another thread of this rank.
  [[nodiscard]] GlobalArray another() const { return GlobalArray(shared_); }

  [[nodiscard]] std::uint64_t size() const noexcept { return shared_->elements; }
  [[nodiscard]] std::uint64_t elements_per_page() const noexcept { return shared_->per_page; }
  [[nodiscard]] team::Rank rank() const noexcept { return shared_->pages.team().rank(); }

  // Elements.

  comm::Status get(std::uint64_t first, std::span<T> into) {
    access_.check_closed();
    check(first, into.size());
    if (is_in_one_page(first, into.size())) return access_.get(part_of(first, into.data(), into.size()), deadline());
    begin_get(first, into);
    return finish();
  }
  comm::Status put(std::uint64_t first, std::span<const T> from) {
    access_.check_closed();
    check(first, from.size());
    const std::span<T> source = source_of(from);
    if (is_in_one_page(first, from.size())) return access_.put(part_of(first, source.data(), from.size()), deadline());
    begin_put(first, from);
    return finish();
  }
  /// Begun now, and under way together until `finish`. The spans stay until then, and other calls throw UsageError.
  /// When a call throws, nothing is under way any more. For exceptions from elsewhere: OpenTransfers
  /// open(array.pages()).
  void begin_get(std::uint64_t first, std::span<T> into) {
    for_each_part(first, into, [this](const PagePart& part) { access_.begin_get(part); });
  }
  void begin_put(std::uint64_t first, std::span<const T> from) {
    for_each_part(first, source_of(from), [this](const PagePart& part) { access_.begin_put(part); });
  }
  comm::Status finish() { return access_.finish(deadline()); }

  /// The elements with these indices, in the order of `into`, which is as long.
  comm::Status gather(std::span<const std::uint64_t> indices, std::span<T> into) {
    access_.check_closed();
    check_all(indices, into.size());
    std::vector<PagePart> parts;
    parts.reserve(indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) parts.push_back(part_of(indices[i], &into[i], 1));
    return access_.get(parts, deadline());
  }
  /// Among equal indices, the value of any one stays.
  comm::Status scatter(std::span<const std::uint64_t> indices, std::span<const T> from) {
    access_.check_closed();
    check_all(indices, from.size());
    const std::span<T> source = source_of(from);
    for (std::size_t i = 0; i < indices.size(); ++i) access_.begin_put(part_of(indices[i], &source[i], 1));
    return finish();
  }

  comm::Status fill(std::uint64_t first, std::uint64_t count, const T& value) {
    access_.check_closed();
    check(first, count);
    const std::vector<T> values(std::min(count, kAtOnce), value);
    return in_pieces(count, [&](std::uint64_t at, std::uint64_t length) {
      return put(first + at, std::span(values).first(length));
    });
  }
  /// From `source`, which may be this array, if the two ranges have nothing in common.
  comm::Status copy(std::uint64_t first, GlobalArray& source, Range from) {
    access_.check_closed();
    check(first, from.count);
    source.check(from.first, from.count);
    std::vector<T> values(std::min(from.count, kAtOnce));
    return in_pieces(from.count, [&](std::uint64_t at, std::uint64_t length) {
      const comm::Status got = source.get(from.first + at, std::span(values).first(length));
      return got.done() ? put(first + at, std::span<const T>(values).first(length)) : got;
    });
  }
  /// In the order of the indices, by this rank alone.
  template <class Value, class Operator>
  Result<Value, comm::Status> reduce(Range range, Value value, Operator combine) {
    access_.check_closed();
    check(range.first, range.count);
    std::vector<T> values(std::min(range.count, kAtOnce));
    const comm::Status status = in_pieces(range.count, [&](std::uint64_t at, std::uint64_t length) {
      const std::span<T> piece = std::span(values).first(length);
      const comm::Status got = get(range.first + at, piece);
      if (got.done()) {
        for (const T& each : piece) value = combine(value, each);
      }
      return got;
    });
    return {status, value};
  }

  // Atomics, with respect to each other, on elements that no rank puts to.

  Result<T, comm::Status> fetch_add(std::uint64_t index, T addend) requires std::integral<T> && comm::Number64<T> {
    check(index, 1);
    return as_element(
        access_.fetch_add(page_of(index), offset_of(index), std::bit_cast<std::uint64_t>(addend), deadline()));
  }
  Result<T, comm::Status> fetch_add(std::uint64_t index,
                                    T addend) requires std::floating_point<T> && comm::Number64<T> {
    T expected{};
    if (const comm::Status got = get(index, std::span(&expected, 1)); !got.done()) return {got, {}};
    for (;;) {
      const Result<T, comm::Status> old = compare_swap(index, expected, expected + addend);
      if (!old.status.done() || std::bit_cast<std::uint64_t>(old.value) == std::bit_cast<std::uint64_t>(expected))
        return old;
      expected = old.value;
    }
  }
  /// The swap took place if the value returned is `expected`, bit by bit.
  Result<T, comm::Status> compare_swap(std::uint64_t index, T expected, T desired) requires comm::Number64<T> {
    check(index, 1);
    return as_element(access_.compare_swap(page_of(index), offset_of(index), std::bit_cast<std::uint64_t>(expected),
                                           std::bit_cast<std::uint64_t>(desired), deadline()));
  }

  // One element as a value. Throws Error when it is lost.

  [[nodiscard]] GlobalReference<T> operator[](std::uint64_t index) { return {*this, index}; }
  [[nodiscard]] GlobalPointer<T> pointer(std::uint64_t index) { return {*this, index}; }
  /// For range-for: reads page by page.
  [[nodiscard]] GlobalIterator<T> begin() { return {*this, 0}; }
  [[nodiscard]] GlobalIterator<T> end() { return {*this, size()}; }

  // Places.

  /// Brings the pages with these elements to this rank.
  Moved own(std::uint64_t first, std::uint64_t count) { return own_many(std::array{Range{first, count}}); }
  /// The same for many ranges, in one round.
  Moved own_many(std::span<const Range> ranges) {
    access_.check_closed();
    std::vector<PageId> pages;
    for (const Range& range : ranges) {
      check(range.first, range.count);
      if (range.count == 0) continue;
      for (PageId page = page_of(range.first); page <= page_of(range.first + range.count - 1); ++page) {
        pages.push_back(page);
      }
    }
    return access_.own(pages, deadline());
  }
  /// Finds the owners, page by page.
  Result<std::vector<LocatedRange>, comm::Status> locality(Range range) {
    access_.check_closed();
    check(range.first, range.count);
    std::vector<PageId> pages;
    std::vector<LocatedRange> located;
    for_each_page(range, [&](PageId page, Range piece) {
      pages.push_back(page);
      located.push_back({piece, 0});
    });
    const auto places = access_.locate(pages, deadline());
    if (!places.done()) return {places.status, {}};
    for (std::size_t i = 0; i < located.size(); ++i) located[i].owner = places.value[i].owner;
    return {{}, std::move(located)};
  }
  /// The page with this element, in place; none when this rank does not own it. Throws Error when it is lost.
  [[nodiscard]] std::optional<PinnedRange<T>> pin(std::uint64_t index) {
    check(index, 1);
    return pin_page(page_of(index));
  }
  /// Calls `visit(first, values)` for each page that is here, in place.
  template <class Visit>
  void for_each_here(Visit visit) {
    access_.check_closed();
    std::vector<PageId> pages = access_.pages_here();
    std::ranges::sort(pages);
    for (const PageId page : pages) {
      if (std::optional<PinnedRange<T>> here = pin_page(page)) visit(here->first, here->values);
    }
  }

  /// Collective: each rank owns what it has used most since the last time, of the `most` pages that each has used most.
  Moved balance(std::uint64_t most = 1024) {
    access_.check_closed();
    const auto gathered = gather_use(access_, shared_->collectives, most, deadline());
    if (!gathered.status.done()) return {.status = gathered.status};
    access_.clear_traffic();
    return access_.own(pages_to_own(gathered.value, rank()), deadline());
  }
  /// Collective: why was this remote? A table of the `most` pages of each rank. Throws Error when a rank is lost.
  [[nodiscard]] std::string report(std::uint64_t most = 16) {
    access_.check_closed();
    const auto gathered = gather_use(access_, shared_->collectives, most, deadline());
    expect(gathered.status, "gather the use of pages");
    return report_of(gathered.value, shared_->pages.page_bytes());
  }

  /// With a read cache: later gets find what others had put before this.
  void acquire() { access_.acquire(); }
  void invalidate(Range range) {
    check(range.first, range.count);
    std::vector<PageId> pages;
    for_each_page(range, [&](PageId page, Range /*piece*/) { pages.push_back(page); });
    access_.invalidate(pages);
  }

  [[nodiscard]] PageAccess& pages() noexcept { return access_; }

  /// Throws Error, naming the rank that is lost.
  static void expect(const comm::Status& status, const std::string& tried) {
    if (status.done()) return;
    throw Error({tried, "a global array",
                 std::string(to_string(status.outcome)) + (status.lost ? ": rank " + std::to_string(*status.lost) : ""),
                 "go on without that rank's pages, or start again"});
  }

 private:
  struct Shared {
    Shared(comm::Comm& comm, std::uint64_t of_elements, const GlobalArrayOptions& options)
        : elements(of_elements),
          per_page(per_page_of(options)),
          time_out(options.time_out),
          pages(comm.team(), comm.next_name("global array"), pages_options(comm.team().size(), options)),
          collectives(comm) {}

    static std::uint64_t per_page_of(const GlobalArrayOptions& options) {
      if (options.page_bytes >= sizeof(T)) return options.page_bytes / sizeof(T);
      throw UsageError({"make a global array", "pages of " + std::to_string(options.page_bytes) + " bytes",
                        "an element has " + std::to_string(sizeof(T)), "use larger pages"});
    }
    [[nodiscard]] PagesOptions pages_options(team::Rank ranks, const GlobalArrayOptions& options) const {
      const std::uint64_t count = std::max<std::uint64_t>(elements / per_page + (elements % per_page != 0 ? 1 : 0), 1);
      return {.pages = count,
              .page_bytes = options.page_bytes,
              .first_owner = [=, of = options.distribution](PageId page) { return of(page, count, ranks); },
              .slots = options.slots,
              .remembered_places = options.remembered_places,
              .read_cache_bytes = options.read_cache_bytes,
              .lease = options.lease};
    }

    const std::uint64_t elements;
    const std::uint64_t per_page;
    const std::chrono::milliseconds time_out;
    Pages pages;
    comm::Collectives collectives;
  };

  static constexpr std::uint64_t kAtOnce = std::max<std::uint64_t>((1U << 20U) / sizeof(T), 1);

  explicit GlobalArray(std::shared_ptr<Shared> shared) : shared_(std::move(shared)), access_(shared_->pages) {}

  [[nodiscard]] Deadline deadline() const { return shared_->pages.team().fabric().in(shared_->time_out); }
  [[nodiscard]] PageId page_of(std::uint64_t index) const { return index / shared_->per_page; }
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t index) const { return index % shared_->per_page * sizeof(T); }
  [[nodiscard]] PagePart part_of(std::uint64_t first, T* values, std::uint64_t count) const {
    return {page_of(first), offset_of(first), LocalSpan(values, count * sizeof(T))};
  }

  void check(std::uint64_t first, std::uint64_t count) {
    if (first <= size() && count <= size() - first) return;
    access_.cancel();  // the exception may take the buffers of what is under way with it
    throw UsageError({"use a global array", std::to_string(count) + " elements from " + std::to_string(first) + " on",
                      "it has " + std::to_string(size()), ""});
  }
  void check_all(std::span<const std::uint64_t> indices, std::uint64_t values) {
    for (const std::uint64_t index : indices) check(index, 1);
    if (indices.size() == values) return;
    access_.cancel();
    throw UsageError({"gather or scatter", std::to_string(values) + " values",
                      "there are " + std::to_string(indices.size()) + " indices", "give as many of both"});
  }

  [[nodiscard]] bool is_in_one_page(std::uint64_t first, std::uint64_t count) const {
    return count != 0 && count <= shared_->per_page - first % shared_->per_page;
  }
  /// The source of a put, which only reads it.
  static std::span<T> source_of(std::span<const T> from) { return {const_cast<T*>(from.data()), from.size()}; }

  /// Calls `visit(page, piece)` for the piece of `range` in each page.
  template <class Visit>
  void for_each_page(Range range, Visit visit) const {
    const std::uint64_t end = range.first + range.count;
    for (std::uint64_t at = range.first; at < end;) {
      const std::uint64_t count = std::min(end - at, shared_->per_page - at % shared_->per_page);
      visit(page_of(at), Range{at, count});
      at += count;
    }
  }
  /// Page by page, but where elements fill pages.
  template <class Visit>
  void for_each_part(std::uint64_t first, std::span<T> values, Visit visit) {
    check(first, values.size());
    if (values.empty()) return;
    if (shared_->per_page * sizeof(T) == shared_->pages.page_bytes()) {
      return visit(part_of(first, values.data(), values.size()));
    }
    for_each_page({first, values.size()}, [&](PageId /*page*/, Range piece) {
      visit(part_of(piece.first, values.data() + (piece.first - first), piece.count));
    });
  }
  /// Calls `act(at, length)` for pieces of `count` until one fails.
  template <class Act>
  static comm::Status in_pieces(std::uint64_t count, Act act) {
    for (std::uint64_t at = 0; at < count; at += kAtOnce) {
      if (const comm::Status status = act(at, std::min(count - at, kAtOnce)); !status.done()) return status;
    }
    return {};
  }

  [[nodiscard]] std::optional<PinnedRange<T>> pin_page(PageId page) {
    PageAccess::Pinned pinned = access_.pin(page, deadline());
    expect(pinned.status, "pin a page");
    if (!pinned.pin) return std::nullopt;
    const std::uint64_t first = page * shared_->per_page;
    T* const values = reinterpret_cast<T*>(pinned.pin->bytes().data());
    return PinnedRange<T>{std::move(*pinned.pin), first, {values, std::min(shared_->per_page, size() - first)}};
  }

  static Result<T, comm::Status> as_element(const Result<std::uint64_t, comm::Status>& bits) {
    return {bits.status, std::bit_cast<T>(bits.value)};
  }

  std::shared_ptr<Shared> shared_;
  PageAccess access_;
};

}  // namespace farside::gas
