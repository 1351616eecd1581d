#include "farside/fabric/region.h"

#include <cstring>

#include "farside/base/error.h"

#include "fabric/bulk_copy.h"

namespace farside {

namespace {

[[noreturn]] void refuse_range(const std::string& name, std::uint64_t region_bytes, std::uint64_t offset,
                               std::uint64_t bytes) {
  throw Error({"access region", name,
               "the range of " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                   " is out of range or misaligned in its " + std::to_string(region_bytes) + " bytes",
               ""});
}

}  // namespace

LocalSpan Region::span(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset) refuse(offset, bytes);
  return {base_ + offset, bytes};
}

void Region::refuse(std::uint64_t offset, std::uint64_t bytes) const { refuse_range(name_, bytes_, offset, bytes); }

void Region::copy_in(std::uint64_t offset, std::span<const std::byte> bytes) const {
  const LocalSpan to = span(offset, bytes.size());
  if (observer_ != nullptr) return observer_->copy_in(offset, bytes);
  bulk_copy(to.adapter_data(), bytes.data(), bytes.size());
}

void Region::copy_out(std::uint64_t offset, std::span<std::byte> bytes) const {
  const LocalSpan from = span(offset, bytes.size());
  if (observer_ != nullptr) return observer_->copy_out(offset, bytes);
  bulk_copy(bytes.data(), from.adapter_data(), bytes.size());
}

void RemoteRegion::refuse(std::uint64_t offset, std::uint64_t bytes) const {
  refuse_range(name_ + " of peer " + std::to_string(peer_), bytes_, offset, bytes);
}

}  // namespace farside
