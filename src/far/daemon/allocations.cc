#include "far/daemon/allocations.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/assert.h"

namespace farside::far {

namespace {

// A program that allocates again and again would otherwise make names for ever.
constexpr std::uint64_t kMaxPerSite = 100;

}  // namespace

Allocations::Allocations(Profile& profile, pid_t process, const PageRanges& ranges)
    : profile_(profile), program_(program_of(process)), ranges_(ranges) {
  for (const PageRanges::Piece& piece : ranges_.pieces()) {
    if (piece.address == ranges_.arena().address) continue;
    for (const StaticArray& array : static_arrays_in(process, {piece.address, piece.end() - piece.address})) {
      set(array.range, profile_.allocated(program_ + ": " + array.name, {}, array.range.bytes));
    }
  }
}

Allocations::Allocations(const Allocations& parent)
    : profile_(parent.profile_), program_(parent.program_), ranges_(parent.ranges_) {
  const MutexLock lock(parent.mutex_);
  sites_ = parent.sites_;
  calls_ = parent.calls_;
  at_ = parent.at_;
}

const Profile::Allocation* Allocations::allocated(const AddressRange& range, std::uint64_t caller, pid_t process) {
  if (!ranges_.page_of(range.address)) return nullptr;
  const Place site = site_of(caller, process);
  const MutexLock lock(mutex_);
  const std::uint64_t number = ++calls_[site.name];
  const std::string name = number < kMaxPerSite ? fmt::format("{}: {} #{}", program_, site.name, number)
                                                : fmt::format("{}: {} #{} and on", program_, site.name, kMaxPerSite);
  Profile::Allocation& allocation = profile_.allocated(name, site.function, range.bytes);
  set(range, allocation);
  return &allocation;
}

// To look it up takes a while, in which others fault.
Place Allocations::site_of(std::uint64_t caller, pid_t process) {
  {
    const MutexLock lock(mutex_);
    if (const auto known = sites_.find(caller); known != sites_.end()) return known->second;
  }
  Place site = place_of(process, caller);
  const MutexLock lock(mutex_);
  return sites_.try_emplace(caller, std::move(site)).first->second;
}

void Allocations::set(const AddressRange& range, Profile::Allocation& allocation) {
  ranges_.for_each_part(range, [&](PageNumber first, PageNumber count) {
    mutex_.assume_held();
    const auto behind = at_.upper_bound(first + count);
    Profile::Allocation* const next = behind == at_.begin() ? nullptr : std::prev(behind)->second;
    at_.erase(at_.lower_bound(first), behind);
    at_.emplace(first, &allocation);
    at_.emplace(first + count, next);
  });
}

std::vector<Allocations::Hinted> Allocations::hinted() const {
  const MutexLock lock(mutex_);
  std::vector<Hinted> all;
  for (auto part = at_.begin(); part != at_.end(); ++part) {
    if (part->second == nullptr || part->second->hint() == Hint::none) continue;
    const auto behind = std::next(part);
    assert_that(behind != at_.end(), "behind the last allocation there is a border");
    const PageNumber end = behind->first;
    all.push_back({{ranges_.address_of(part->first), std::uint64_t{end - part->first} * kPageBytes}, part->second});
  }
  return all;
}

void Allocations::note(PageEvent event, PageNumber page, std::uint64_t count) {
  const MutexLock lock(mutex_);
  const auto behind = at_.upper_bound(page);
  if (behind == at_.begin()) return;
  if (Profile::Allocation* const whose = std::prev(behind)->second; whose != nullptr) whose->note(event, count);
}

}  // namespace farside::far
