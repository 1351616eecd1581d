#include "nbd/device.h"

#include <utility>

namespace farside::nbd {

class Device::Turn {
 public:
  explicit Turn(Device& device) : device_(device) {
    MutexLock lock(device.mutex_);
    // Each turn ends by a deadline, so this one comes.
    device.returned_.wait(lock, [&device]() REQUIRES(device.mutex_) { return !device.free_.empty(); });
    io_ = std::move(device.free_.back());
    device.free_.pop_back();
  }
  ~Turn() {
    {
      const MutexLock lock(device_.mutex_);
      device_.free_.push_back(std::move(io_));  // it has room for all
    }
    device_.returned_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  far::IoContext* operator->() const noexcept { return io_.get(); }

 private:
  Device& device_;
  std::unique_ptr<far::IoContext> io_;
};

Device::Device(std::unique_ptr<far::Space> space) : space_(std::move(space)), written_(space_->bytes()) {
  free_.reserve(kIoContexts);
  while (free_.size() < kIoContexts) free_.push_back(space_->open_io());
}

far::Status Device::read(std::span<std::byte> into, std::uint64_t offset) {
  const far::Transfer transfer{offset, {into.data(), into.size()}};
  return Turn(*this)->read({&transfer, 1}, deadline());
}

far::Status Device::write(std::span<std::byte> from, std::uint64_t offset) {
  const far::Transfer transfer{offset, {from.data(), from.size()}};
  const far::Status status = Turn(*this)->write({&transfer, 1}, deadline());
  written_.set(offset, from.size());  // if it failed, part of it may have been
  return status;
}

far::Status Device::discard(std::uint64_t offset, std::uint64_t bytes) {
  written_.clear(offset, bytes);
  const far::Status status = Turn(*this)->discard(offset, bytes, deadline());
  if (status != far::Status::done) written_.set(offset, bytes);
  return status;
}

}  // namespace farside::nbd
