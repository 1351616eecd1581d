// region.h — memory that a process offers to others, and how each side names a place in it.
//
// Region        owned memory; the owner's own loads, stores and copies go through LocalWord and LocalSpan
// RemoteRegion  a Region of a peer, or an own one (the loopback for atomics), with what is needed to reach it
//
// Every place is bounds-checked when it is named, so that no operation that was posted can be out of range.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "farside/fabric/words.h"

namespace farside {

/// Numbers the processes that a Fabric was connected to. A team uses its ranks.
using PeerId = std::uint32_t;

/// Sees the owner's own accesses to a Region. Only the simulated fabric has one.
class LocalObserver {
 public:
  virtual ~LocalObserver() = default;
  virtual std::uint64_t load(std::uint64_t offset) = 0;
  virtual void store(std::uint64_t offset, std::uint64_t value) = 0;
  virtual void copy_in(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual void copy_out(std::uint64_t offset, std::span<std::byte> bytes) = 0;
};

class LocalSpan;
class Region;

/// Its bytes are what it says. (A span is copied, not pointed at.)
template <class T>
concept PlainValue = std::is_trivially_copyable_v<T> && !std::is_same_v<std::remove_const_t<T>, LocalSpan>;

/// Bytes on this side of an operation: a piece of an own Region, or private memory that no other process can see.
class LocalSpan {
 public:
  /// Private memory: a stack variable, a heap buffer.
  LocalSpan(void* data, std::size_t bytes) noexcept : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  template <PlainValue T>
  explicit LocalSpan(T& value) noexcept : LocalSpan(&value, sizeof value) {}

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Within it.
  [[nodiscard]] LocalSpan piece(std::size_t offset, std::size_t bytes) const noexcept {
    return {data_ + offset, bytes};
  }

  /// Fills it with zeros. For memory that no other process can see.
  void clear() const noexcept { std::memset(data_, 0, bytes_); }

  /// For fabrics and adapters (files, sockets) only; `make lint` refuses it in a protocol's folder.
  [[nodiscard]] std::byte* adapter_data() const noexcept { return data_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

/// One word of an own Region, as its owner's CPU sees it. Accesses are whole, but nothing orders them against other
/// places except Channel::local_fence.
template <SharedWord Word>
class LocalWord {
 public:
  LocalWord(const Region& region, std::byte* base, std::uint64_t offset, LocalObserver* observer) noexcept
      : word_(reinterpret_cast<std::uint64_t*>(base + offset)),
        offset_(offset),
        observer_(observer),
        region_(&region) {}

  [[nodiscard]] std::uint64_t load() const {
    if (observer_ != nullptr) [[unlikely]]
      return observer_->load(offset_);
    return std::atomic_ref(*word_).load(std::memory_order_acquire);
  }
  /// Only for words that have one writer at a time. An AtomicWord is changed through the loopback.
  void store(std::uint64_t value) const requires std::is_same_v<Word, ControlWord> {
    if (observer_ != nullptr) [[unlikely]]
      return observer_->store(offset_, value);
    std::atomic_ref(*word_).store(value, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] const Region& region() const noexcept { return *region_; }

 private:
  std::uint64_t* word_;
  std::uint64_t offset_;
  LocalObserver* observer_;
  const Region* region_;
};

/// Memory that this process offers. Zeroed when made; its peers' access ends when it is destroyed.
class Region {
 public:
  virtual ~Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  /// Returns what a peer needs to attach this region; opaque, of at most 1 KiB. Carry it over any trusted channel.
  [[nodiscard]] virtual std::string handle() const = 0;

  /// A place in this region, for the local side of a READ or WRITE. Throws Error when out of range.
  [[nodiscard]] LocalSpan span(std::uint64_t offset, std::uint64_t bytes) const;

  /// An aligned word of this region. Throws Error when out of range or misaligned.
  template <SharedWord Word>
  [[nodiscard]] LocalWord<Word> word(std::uint64_t offset) const {
    if (offset % 8 != 0 || offset > bytes_ || 8 > bytes_ - offset) [[unlikely]]
      refuse(offset, 8);
    return {*this, base_, offset, observer_};
  }

  /// The owner's own bulk copies. Racing accesses of others may be mixed in, word by word.
  void copy_in(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void copy_out(std::uint64_t offset, std::span<std::byte> bytes) const;

  /// Wakes the threads of this process that wait for a word of this region. A store by its owner wakes none: call
  /// local_fence after it, then this.
  virtual void wake() const = 0;

 protected:
  Region(std::string name, std::byte* base, std::uint64_t bytes, LocalObserver* observer)
      : name_(std::move(name)), base_(base), bytes_(bytes), observer_(observer) {}

 private:
  [[noreturn]] void refuse(std::uint64_t offset, std::uint64_t bytes) const;

  std::string name_;
  std::byte* base_;
  std::uint64_t bytes_;
  LocalObserver* observer_;
};

/// The state that a fabric keeps to reach one remote region.
class RemoteAccess {
 public:
  virtual ~RemoteAccess() = default;
};

class RemoteRegion;

/// A piece of a remote region. In range by construction. Valid while the RemoteRegion lives.
struct RemoteSpan {
  const RemoteRegion* region;
  std::uint64_t offset;
  std::uint64_t bytes;
};

/// An aligned word of a remote region. In range by construction. Valid while the RemoteRegion lives.
template <SharedWord Word>
struct RemoteWord {
  const RemoteRegion* region;
  std::uint64_t offset;
};

/// A region of a peer, or of this process. Move-only; channels must not have operations under way to it when it goes.
class RemoteRegion {
 public:
  RemoteRegion(std::string name, PeerId peer, std::uint64_t bytes, std::byte* mapped,
               std::unique_ptr<RemoteAccess> access)
      : name_(std::move(name)), peer_(peer), bytes_(bytes), mapped_(mapped), access_(std::move(access)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] PeerId peer() const noexcept { return peer_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  /// Throw Error, naming region and range, when out of range or misaligned.
  [[nodiscard]] RemoteSpan span(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > bytes_ || bytes > bytes_ - offset) [[unlikely]]
      refuse(offset, bytes);
    return {this, offset, bytes};
  }
  template <SharedWord Word>
  [[nodiscard]] RemoteWord<Word> word(std::uint64_t offset) const {
    if (offset % 8 != 0 || offset > bytes_ || 8 > bytes_ - offset) [[unlikely]]
      refuse(offset, 8);
    return {this, offset};
  }

  /// For fabrics only: where the region is mapped here (null when it is not), and the rest of the way to it.
  [[nodiscard]] std::byte* mapped() const noexcept { return mapped_; }
  [[nodiscard]] RemoteAccess* access() const noexcept { return access_.get(); }

 private:
  [[noreturn]] void refuse(std::uint64_t offset, std::uint64_t bytes) const;

  std::string name_;
  PeerId peer_;
  std::uint64_t bytes_;
  std::byte* mapped_;
  std::unique_ptr<RemoteAccess> access_;
};

}  // namespace farside
