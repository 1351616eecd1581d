#include "fabric/host/host_region.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/base/memory.h"
#include "farside/base/rounding.h"
#include "farside/base/units.h"
#include "farside/fabric/host.h"

#include "base/assert.h"

namespace farside {

namespace {

constexpr std::size_t kMaxNameBytes = 128;

constexpr int kMadviseCollapse = 25;  // MADV_COLLAPSE, which Debian 12's libc does not name

RegionHeader& header_at(const Mapping& mapping) { return *reinterpret_cast<RegionHeader*>(mapping.base()); }

const HostRegion& host_region(const Region& region) {
  const auto* const host = dynamic_cast<const HostRegion*>(&region);
  if (host == nullptr) throw Error({"reach the file of region", region.name(), "it is not one of the host fabric", ""});
  return *host;
}

/// Opens the memory file through the peer's descriptor table and makes sure that it is the one that was meant.
Fd open_file_of(const ProcessId& process, const RegionHandle& handle) {
  const std::string path = "/proc/" + std::to_string(process.pid) + "/fd/" + std::to_string(handle.fd);
  const std::string on = handle.name + " through " + path;
  Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) throw errno_error("attach region", on, "is its owner alive, and does it run as the same user?");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw errno_error("look at region", on);
  if (status.st_dev != handle.device || status.st_ino != handle.inode) {
    throw Error(
        {"attach region", on, "the descriptor is another file by now", "the region is gone; attach its successor"});
  }
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      static_cast<std::uint64_t>(status.st_size) != kRegionHeaderBytes + handle.bytes) {
    throw Error({"attach region", on, "it is not a sealed memory file of the size its handle says", ""});
  }
  return file;
}

}  // namespace

void RegionSet::add(RegionHeader& header) {
  const MutexLock lock(mutex_);
  headers_.insert(&header);
}

void RegionSet::remove(RegionHeader& header) {
  const MutexLock lock(mutex_);
  const std::size_t removed = headers_.erase(&header);
  assert_that(removed == 1, "a region can be woken until it goes");
}

void RegionSet::wake_all() {
  const MutexLock lock(mutex_);
  for (RegionHeader* header : headers_) wake_sleepers(*header);
}

std::unique_ptr<HostRegion> HostRegion::create(std::string name, std::uint64_t bytes, RegionSet& regions,
                                               UcxEngine* ucx) {
  const auto refuse = [&](std::string why, std::string remedy) {
    throw Error({"create region", name, std::move(why), std::move(remedy)});
  };
  if (name.empty() || name.size() > kMaxNameBytes) refuse("a region's name has 1 to 128 bytes", "rename it");
  if (bytes == 0) refuse("a region has at least 1 byte", "ask for some memory");
  // Pages are taken when they are first touched, and a touch that finds none ends the process: ask before.
  const std::uint64_t available = available_memory_bytes();
  if (bytes > available) {
    refuse("it needs " + format_bytes(bytes) + " and the machine has " + format_bytes(available) + " available",
           "ask for less, or free memory");
  }
  Fd file = make_memfd("farside:" + name, kRegionHeaderBytes + bytes);
  Mapping mapping(file, kRegionHeaderBytes + bytes, Mapping::Access::read_write);
  header_at(mapping) = {.magic = kRegionMagic, .bytes = bytes, .sequence = 0, .waiters = 0};
  return std::unique_ptr<HostRegion>(
      new HostRegion(std::move(name), bytes, std::move(file), std::move(mapping), regions, ucx));
}

HostRegion::HostRegion(std::string name, std::uint64_t bytes, Fd file, Mapping mapping, RegionSet& regions,
                       UcxEngine* ucx)
    : Region(std::move(name), mapping.base() + kRegionHeaderBytes, bytes, nullptr),
      file_(std::move(file)),
      mapping_(std::move(mapping)),
      ucx_(ucx),
      ucx_memory_(ucx == nullptr ? nullptr : ucx->offer(mapping_.base() + kRegionHeaderBytes, bytes)),
      regions_(regions) {
  regions_.add(header());
}

HostRegion::~HostRegion() {
  regions_.remove(header());
  ucx_memory_.reset();
  if (ucx_ != nullptr) ucx_->retire(std::move(mapping_));
}

RegionHeader& HostRegion::header() const noexcept { return header_at(mapping_); }

std::string HostRegion::handle() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) throw errno_error("look at region", name());
  return RegionHandle{.name = name(),
                      .bytes = bytes(),
                      .fd = file_.get(),
                      .device = status.st_dev,
                      .inode = status.st_ino,
                      .ucx = ucx_memory_ == nullptr ? std::string() : ucx_memory_->handle()}
      .encode();
}

void HostRegion::populate(std::uint64_t offset, std::uint64_t bytes) const {
  const LocalSpan wanted = span(offset, bytes);
  std::byte* const base = mapping_.base();
  const auto place = static_cast<std::size_t>(wanted.adapter_data() - base);
  const std::size_t first = place / kLargePageBytes * kLargePageBytes;
  const std::size_t end = std::min(mapping_.bytes(), round_up(place + wanted.bytes(), kLargePageBytes));
  // The kernel makes a large page of a small one, and refuses where there is none. Before Linux 6.1, where it has none
  // to spare, and at the region's end, small pages do.
  for (std::size_t page = first; page < end; page += kLargePageBytes)
    ::fallocate(file_.get(), 0, static_cast<off_t>(page), 1);
  ::madvise(base + first, end - first, kMadviseCollapse);
  ::madvise(base + first, end - first, MADV_POPULATE_WRITE);
}

void HostRegion::release(std::uint64_t offset, std::uint64_t bytes) const {
  const LocalSpan unwanted = span(offset, bytes);
  const auto place = static_cast<off_t>(unwanted.adapter_data() - mapping_.base());
  // The pages at its ends are shared with other bytes; the kernel zeroes only the part of them that lies in the hole.
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (ucx_ == nullptr && ::fallocate(file_.get(), kHole, place, static_cast<off_t>(bytes)) == 0) return;
  std::memset(unwanted.adapter_data(), 0, bytes);
}

DirectAccess::DirectAccess(const ProcessId& process, const RegionHandle& handle,
                           const std::atomic<std::uint32_t>& peer_word, AccessSet& accesses)
    : peer_word_(peer_word),
      connected_(peer_word.load()),
      accesses_(accesses),
      // A child of fork outlives the killing that takes this process's access away, and must not keep it.
      mapping_(open_file_of(process, handle), kRegionHeaderBytes + handle.bytes, Mapping::Access::private_to_process) {
  assert_that(connected_ != 0, "a peer whose region is attached was connected");
  if (header().magic != kRegionMagic || header().bytes != handle.bytes) {
    throw Error({"attach region", handle.name, "its header is not that of a farside region of this version",
                 "run the same version of farside everywhere"});
  }
  accesses_.add(*this);
}

DirectAccess::~DirectAccess() { accesses_.remove(*this); }

RegionHeader& DirectAccess::header() const noexcept { return header_at(mapping_); }

void DirectAccess::blank() {
  if (std::exchange(blank_, true) || mapping_.blank()) return;
  log::warn("the memory of a lost peer cannot be given back");
}

void AccessSet::add(DirectAccess& access) {
  const MutexLock lock(mutex_);
  accesses_.insert(&access);
}

void AccessSet::remove(DirectAccess& access) {
  const MutexLock lock(mutex_);
  const std::size_t removed = accesses_.erase(&access);
  assert_that(removed == 1, "a mapping of a peer's region can be given back until it goes");
}

void AccessSet::blank_lost() {
  const MutexLock lock(mutex_);
  for (DirectAccess* access : accesses_) {
    if (access->lost()) access->blank();
  }
}

RegionFile open_region_file(const Region& region) {
  // Opened anew: a duplicate would share the right to write.
  const std::string path = "/proc/self/fd/" + std::to_string(host_region(region).file().get());
  Fd read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!read_only) throw errno_error("open the file of region", region.name() + " through " + path, "mount /proc");
  return {.read_only = std::move(read_only),
          .file_bytes = kRegionHeaderBytes + region.bytes(),
          .offset = kRegionHeaderBytes};
}

void populate(const Region& region, std::uint64_t offset, std::uint64_t bytes) {
  host_region(region).populate(offset, bytes);
}

void release(const Region& region, std::uint64_t offset, std::uint64_t bytes) {
  host_region(region).release(offset, bytes);
}

}  // namespace farside
