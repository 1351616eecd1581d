#include "farside/gas/pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "farside/base/error.h"

#include "gas/protocol/accessor.h"
#include "gas/protocol/mover.h"
#include "gas/protocol/pieces.h"
#include "gas/read_cache.h"
#include "gas/time_limits.h"
#include "gas/traffic.h"

namespace farside::gas {

namespace {

using comm::Status;

constexpr std::uint64_t kMaxRemembered = 65'536;
constexpr std::uint64_t kSpareSlots = 16;
constexpr std::uint64_t kMaxPages = std::uint64_t{1} << 40U;

std::uint64_t slots_for(const PagesOptions& options, const std::function<team::Rank(PageId)>& first_owner,
                        team::Rank ranks) {
  if (options.slots != 0) return options.slots;
  std::vector<std::uint64_t> begun(ranks);
  for (PageId page = 0; page < options.pages; ++page) {
    const team::Rank owner = first_owner(page);
    if (owner < ranks) ++begun[owner];
  }
  return std::min(options.pages + kSpareSlots, 2 * std::ranges::max(begun) + kSpareSlots);
}

PageSettings settings_of(const std::string& name, const PagesOptions& options, team::Rank ranks) {
  if (options.page_bytes < 64 || options.page_bytes > (16U << 20U)) {
    throw UsageError({"make global pages", name, "a page of " + std::to_string(options.page_bytes) + " bytes",
                      "make it 64 B to 16 MiB"});
  }
  if (options.pages == 0 || options.pages > kMaxPages) {
    throw UsageError({"make global pages", name, std::to_string(options.pages) + " pages", "make it from 1 to 2^40"});
  }
  const auto in_turn = [ranks](PageId page) { return static_cast<team::Rank>(page % ranks); };
  const std::function<team::Rank(PageId)> first_owner = options.first_owner ? options.first_owner : in_turn;
  const std::uint64_t remembered = options.remembered_places != 0
                                       ? std::min(options.remembered_places, options.pages)
                                       : std::clamp<std::uint64_t>(options.pages, 1, kMaxRemembered);
  return {.shape = {.pages = options.pages,
                    .page_bytes = options.page_bytes,
                    .slots = slots_for(options, first_owner, ranks),
                    .cached_places = remembered},
          .first_owner = first_owner,
          .lease = options.lease};
}

}  // namespace

// ---- Pages

class Pages::Impl {
 public:
  Impl(team::Team& team, const std::string& name, const PagesOptions& options)
      : read_cache_bytes(options.read_cache_bytes), memory(team, name, settings_of(name, options, team.size())) {}

  const std::uint64_t read_cache_bytes;
  PageMemory memory;
};

Pages::Pages(team::Team& team, const std::string& name, const PagesOptions& options)
    : impl_(std::make_unique<Impl>(team, name, options)) {}
Pages::~Pages() = default;

team::Team& Pages::team() const noexcept { return impl_->memory.team(); }
std::uint64_t Pages::pages() const noexcept { return impl_->memory.layout().shape().pages; }
std::uint64_t Pages::page_bytes() const noexcept { return impl_->memory.layout().shape().page_bytes; }

// ---- PagePin

class PagePin::Impl {
 public:
  Impl(PageMemory& memory, Channel& channel) : holder(memory, channel, Holder::For::a_span) {}
  ~Impl() { holder.let_go(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Holder holder;
};

PagePin::PagePin(std::unique_ptr<Impl> impl, std::span<std::byte> bytes) : impl_(std::move(impl)), bytes_(bytes) {}
PagePin::PagePin(PagePin&&) noexcept = default;
PagePin& PagePin::operator=(PagePin&&) noexcept = default;
PagePin::~PagePin() = default;

// ---- PageAccess

class PageAccess::Impl {
 public:
  explicit Impl(Pages& of)
      : pages(of),
        memory(of.impl_->memory),
        accessor(memory),
        mover(accessor),
        copies(of.impl_->read_cache_bytes, memory.layout().shape().page_bytes),
        counter(memory.layout().cached_places()) {}
  ~Impl() {
    if (accessor.is_open()) cancel();
    accessor.part(memory.fabric().in(gas::time_limits::kPart));
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void check(const PagePart& part) const { check(part.page, part.offset, part.local.bytes()); }
  void check(PageId page, std::uint64_t offset, std::uint64_t bytes) const {
    const PageShape& shape = memory.layout().shape();
    if (page >= shape.pages || offset > shape.page_bytes || bytes > shape.page_bytes - offset) [[unlikely]]
      refuse(page, offset, bytes);
  }
  [[noreturn]] void refuse(PageId page, std::uint64_t offset, std::uint64_t bytes) const {
    const PageShape& shape = memory.layout().shape();
    throw UsageError({"use global pages", "page " + std::to_string(page) + ", offset " + std::to_string(offset),
                      std::to_string(bytes) + " bytes from there are not within " + std::to_string(shape.pages) +
                          " pages of " + std::to_string(shape.page_bytes) + " bytes",
                      "split what is larger"});
  }
  void check_pieces(const PagePart& part) const {
    const PageShape& shape = memory.layout().shape();
    check(part.page, part.offset, 0);
    const std::uint64_t in_first = shape.page_bytes - part.offset;
    if (part.local.bytes() <= in_first) return;
    const std::uint64_t more_pages = (part.local.bytes() - in_first - 1) / shape.page_bytes + 1;
    if (more_pages >= shape.pages - part.page) refuse(part.page, part.offset, part.local.bytes());
  }
  /// Other calls would end what is under way, or let go of its hold.
  void check_closed() {
    if (accessor.is_open()) [[unlikely]]
      refuse_open();
  }
  [[noreturn]] void refuse_open() {
    cancel();
    throw UsageError(
        {"use global pages", "a PageAccess", "transfers are open that were begun with it", "finish them first"});
  }
  void cancel() noexcept {
    accessor.cancel();
    begun_unknown.clear();
  }
  /// When `act` throws, nothing is under way any more: the exception may take the buffers with it.
  template <class Act>
  auto ending_on_error(Act act) {
    try {
      return act();
    } catch (...) {
      cancel();
      throw;
    }
  }
  void check_word(PageId page, std::uint64_t offset) const {
    check(page, offset, 8);
    if (offset % 8 != 0) {
      throw UsageError({"change a word of a global page", "offset " + std::to_string(offset), "it is not aligned",
                        "use a multiple of 8"});
    }
  }
  void check(std::span<const PageId> all) const {
    for (const PageId page : all) check(page, 0, 0);
  }

  [[nodiscard]] bool is_here(const KnownPlace& known) const { return known.place.owner == memory.self(); }
  void count(const PagePart& part) { count(part.page, part.local.bytes()); }
  void count(PageId page, std::uint64_t bytes) {
    const KnownPlace* const known = accessor.known(page);
    counter.count(page, bytes, known == nullptr || !is_here(*known));
  }
  /// A page whose place was not asked for yet may turn out to be here.
  void count_begun(const PagePart& part) {
    if (accessor.known(part.page) != nullptr) {
      count(part);
    } else {
      begun_unknown.push_back(part);
    }
  }
  void count_finished() {
    for (const PagePart& part : begun_unknown) count(part);
    begun_unknown.clear();
  }
  Result<std::uint64_t, comm::Status> counted(PageId page, const Result<std::uint64_t, comm::Status>& old) {
    if (old.status.done()) count(page, sizeof(std::uint64_t));
    return old;
  }

  /// From the copy of the page, which is fetched when there is none.
  Status get_from_copy(const PagePart& part, Deadline deadline) {
    const Accessor::Found found = accessor.find(part.page, deadline);
    if (!found.status.done()) return found.status;
    if (is_here(*found.known)) return accessor.get(part, deadline);
    std::span<const std::byte> copy = copies.find(part.page);
    if (copy.empty()) {
      std::vector<std::byte> bytes(pages.page_bytes());
      const PagePart all{part.page, 0, LocalSpan(bytes.data(), bytes.size())};
      const Status fetched = ending_on_error([&] { return accessor.get(all, deadline); });  // before `bytes` goes
      if (!fetched.done()) return fetched;
      count(all);
      copy = copies.add(part.page, std::move(bytes));
    }
    std::memcpy(part.local.adapter_data(), copy.data() + part.offset, part.local.bytes());
    return {};
  }

  void begin_get(const PagePart& part) {
    const bool looks_for_copies = copies.is_on();
    if (!looks_for_copies) accessor.begin_get(part);
    for_each_piece(part, pages.page_bytes(),
                   [&](PageId page, std::uint64_t offset, std::uint64_t at, std::uint64_t bytes) {
                     const PagePart piece{page, offset, part.local.piece(at, bytes)};
                     const auto copy = looks_for_copies ? copies.find(page) : std::span<const std::byte>();
                     if (!copy.empty()) {
                       std::memcpy(piece.local.adapter_data(), copy.data() + offset, bytes);
                       return;
                     }
                     if (looks_for_copies) accessor.begin_get(piece);
                     count_begun(piece);
                   });
  }
  void begin_put(const PagePart& part) {
    accessor.begin_put(part);
    for_each_piece(part, pages.page_bytes(),
                   [&](PageId page, std::uint64_t offset, std::uint64_t at, std::uint64_t bytes) {
                     copies.drop(page);
                     count_begun({page, offset, part.local.piece(at, bytes)});
                   });
  }

  Pages& pages;
  PageMemory& memory;
  Accessor accessor;
  Mover mover;
  ReadCache copies;
  TrafficCounter counter;
  std::vector<PagePart> begun_unknown;
};

PageAccess::PageAccess(Pages& pages) : impl_(std::make_unique<Impl>(pages)) {}
PageAccess::~PageAccess() = default;
PageAccess::PageAccess(PageAccess&&) noexcept = default;
PageAccess& PageAccess::operator=(PageAccess&&) noexcept = default;

const Pages& PageAccess::pages() const noexcept { return impl_->pages; }
Channel& PageAccess::channel() {
  impl_->check_closed();
  return impl_->accessor.channel();
}

Status PageAccess::get(const PagePart& part, Deadline deadline) {
  impl_->check_closed();
  impl_->check(part);
  return impl_->ending_on_error([&] {
    if (impl_->copies.is_on()) return impl_->get_from_copy(part, deadline);
    const Status status = impl_->accessor.get(part, deadline);
    if (status.done()) impl_->count(part);
    return status;
  });
}

Status PageAccess::get(std::span<const PagePart> parts, Deadline deadline) {
  impl_->check_closed();
  for (const PagePart& part : parts) impl_->check(part);
  return impl_->ending_on_error([&] {
    if (impl_->copies.is_on()) {
      for (const PagePart& part : parts) impl_->begin_get(part);
      return finish(deadline);
    }
    const Status status = impl_->accessor.get(parts, deadline);
    if (!status.done()) return status;
    for (const PagePart& part : parts) impl_->count(part);
    return Status{};
  });
}

Status PageAccess::put(const PagePart& part, Deadline deadline) {
  impl_->check_closed();
  impl_->check(part);
  return impl_->ending_on_error([&] {
    impl_->copies.drop(part.page);
    const Status status = impl_->accessor.put(part, deadline);
    if (status.done()) impl_->count(part);
    return status;
  });
}

void PageAccess::begin_get(const PagePart& part) {
  impl_->ending_on_error([&] {
    impl_->check_pieces(part);
    impl_->begin_get(part);
  });
}

void PageAccess::begin_put(const PagePart& part) {
  impl_->ending_on_error([&] {
    impl_->check_pieces(part);
    impl_->begin_put(part);
  });
}

Status PageAccess::finish(Deadline deadline) {
  return impl_->ending_on_error([&] {
    const Status status = impl_->accessor.finish(deadline);
    impl_->count_finished();
    return status;
  });
}

void PageAccess::cancel() noexcept {
  if (impl_->accessor.is_open()) impl_->cancel();
}

bool PageAccess::is_open() const noexcept { return impl_->accessor.is_open(); }

void PageAccess::check_closed() { impl_->check_closed(); }

Result<std::uint64_t, comm::Status> PageAccess::fetch_add(PageId page, std::uint64_t offset, std::uint64_t addend,
                                                          Deadline deadline) {
  impl_->check_closed();
  impl_->check_word(page, offset);
  impl_->copies.drop(page);
  return impl_->counted(page, impl_->accessor.fetch_add(page, offset, addend, deadline));
}

Result<std::uint64_t, comm::Status> PageAccess::compare_swap(PageId page, std::uint64_t offset, std::uint64_t expected,
                                                             std::uint64_t desired, Deadline deadline) {
  impl_->check_closed();
  impl_->check_word(page, offset);
  impl_->copies.drop(page);
  return impl_->counted(page, impl_->accessor.compare_swap(page, offset, expected, desired, deadline));
}

Moved PageAccess::own(std::span<const PageId> pages, Deadline deadline) {
  impl_->check_closed();
  impl_->check(pages);
  invalidate(pages);
  return impl_->mover.own(pages, deadline);
}

Result<std::vector<PagePlace>, Status> PageAccess::locate(std::span<const PageId> pages, Deadline deadline) {
  impl_->check_closed();
  impl_->check(pages);
  const auto as_public = [this](const Location& place) {
    const PageMemory& memory = impl_->memory;
    return PagePlace{place.owner, memory.in_slot(place, 0, memory.layout().shape().page_bytes), place.version};
  };
  std::vector<PagePlace> places(pages.size());
  std::vector<PageId> unknown;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const KnownPlace* const known = impl_->accessor.known(pages[i]);
    if (known != nullptr && impl_->accessor.holds(*known)) {
      places[i] = as_public(known->place);
    } else {
      unknown.push_back(pages[i]);
    }
  }
  std::vector<Location> asked(unknown.size());
  const Status status = impl_->accessor.directory().look(unknown, asked, deadline);
  if (!status.done()) return {status, {}};
  for (std::size_t i = 0, at = 0; i < pages.size(); ++i) {
    if (places[i].bytes.region == nullptr) places[i] = as_public(asked[at++]);
  }
  return {{}, std::move(places)};
}

PageAccess::Pinned PageAccess::pin(PageId page, Deadline deadline) {
  impl_->check_closed();
  impl_->check(page, 0, 0);
  auto pin = std::make_unique<PagePin::Impl>(impl_->memory, impl_->accessor.channel());
  for (;;) {
    const Accessor::Found found = impl_->accessor.find(page, deadline);
    if (!found.status.done()) return {found.status};
    if (!impl_->is_here(*found.known)) return {};
    if (!pin->holder.cover(page, found.known->sampled)) continue;
    const LocalSpan bytes = impl_->memory.own_slot(found.known->place.slot);
    return {{}, PagePin(std::move(pin), {bytes.adapter_data(), bytes.bytes()})};
  }
}

std::vector<PageId> PageAccess::pages_here() const { return impl_->memory.slots().pages(); }

void PageAccess::acquire() { impl_->copies.clear(); }

void PageAccess::invalidate(std::span<const PageId> pages) {
  for (const PageId page : pages) impl_->copies.drop(page);
}

std::vector<PageTraffic> PageAccess::traffic() const { return impl_->counter.all(); }
void PageAccess::clear_traffic() { impl_->counter.clear(); }

}  // namespace farside::gas
