#include "far/pager/space_page_io.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "base/assert.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

class SpacePageIo final : public PageIo {
 public:
  explicit SpacePageIo(Space& space)
      : fabric_(space.fabric()),
        region_(fabric_.create_region("far buffer", kPages * kPageBytes)),
        io_(space.open_io()) {}

  [[nodiscard]] std::byte* buffer() override { return region_->span(0, kPages * kPageBytes).adapter_data(); }

  [[nodiscard]] Status fetch(std::span<const PageNumber> pages) override {
    return io_->read(list(pages), fabric_.in(time_limits::kPages));
  }
  [[nodiscard]] Status store(std::span<const PageNumber> pages) override {
    return io_->write(list(pages), fabric_.in(time_limits::kPages));
  }
  [[nodiscard]] Status erase(PageNumber first, PageNumber count) override {
    return io_->discard(std::uint64_t{first} * kPageBytes, std::uint64_t{count} * kPageBytes,
                        fabric_.in(time_limits::kPages));
  }

 private:
  // Neighbours that lie side by side in the buffer travel as one. Fault handlers come by: no memory is taken.
  [[nodiscard]] std::span<const Transfer> list(std::span<const PageNumber> pages) {
    assert_that(pages.size() <= kPages, "a list has no more pages than the buffer");
    std::size_t count = 0;
    for (std::size_t i = 0; i < pages.size();) {
      const std::size_t begin = i++;
      while (i < pages.size() && pages[i] == pages[i - 1] + 1) ++i;
      transfers_[count++] = {std::uint64_t{pages[begin]} * kPageBytes,
                             region_->span(begin * kPageBytes, (i - begin) * kPageBytes)};
    }
    return {transfers_.data(), count};
  }

  Fabric& fabric_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<IoContext> io_;
  std::vector<Transfer> transfers_{kPages, Transfer{0, LocalSpan(nullptr, 0)}};
};

}  // namespace

SpacePageIoSource::SpacePageIoSource(std::unique_ptr<Space> space) : space_(std::move(space)) {}

PageNumber SpacePageIoSource::pages() const {
  constexpr std::uint64_t kMaxPages = std::numeric_limits<PageNumber>::max();
  return static_cast<PageNumber>(std::min(space_->bytes() / kPageBytes, kMaxPages));
}

std::unique_ptr<PageIo> SpacePageIoSource::open() { return std::make_unique<SpacePageIo>(*space_); }

}  // namespace farside::far
