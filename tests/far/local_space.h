// local_space.h — a Space over one region of this very process, through the fabric's loopback: real one-sided
// operations, and no pool. Tests may be told of what is under way, and make it fail.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "farside/fabric/fabric.h"
#include "farside/far/space.h"

namespace farside::test {

class LocalSpace final : public far::Space {
 public:
  explicit LocalSpace(std::uint64_t bytes)
      : fabric_(make_host_fabric({.mode = FabricMode::direct})), region_(fabric_->create_region("space", bytes)) {
    fabric_->connect(0, fabric_->address());
    remote_ = fabric_->attach(0, region_->handle());
  }

  [[nodiscard]] std::uint64_t bytes() const override { return region_->bytes(); }
  [[nodiscard]] Fabric& fabric() override { return *fabric_; }
  [[nodiscard]] std::unique_ptr<far::IoContext> open_io() override { return std::make_unique<LocalIo>(*this); }

  std::atomic<far::Status> reads_end_with{far::Status::done};
  std::atomic<far::Status> writes_end_with{far::Status::done};
  std::function<void()> before_discards;  ///< set before the space is used

 private:
  class LocalIo final : public far::IoContext {
   public:
    explicit LocalIo(LocalSpace& space) : space_(space), channel_(space.fabric_->open_channel()) {}

    [[nodiscard]] far::Status read(std::span<const far::Transfer> list, Deadline deadline) override {
      for (const far::Transfer& one : list) {
        if (channel_->read(one.local, at(one), deadline) != Outcome::done) return far::Status::lost;
      }
      return space_.reads_end_with;
    }
    [[nodiscard]] far::Status write(std::span<const far::Transfer> list, Deadline deadline) override {
      for (const far::Transfer& one : list) {
        if (channel_->write(at(one), one.local, deadline) != Outcome::done) return far::Status::lost;
      }
      if (channel_->flush(0, deadline) != Outcome::done) return far::Status::lost;
      return space_.writes_end_with;
    }
    [[nodiscard]] far::Status discard(std::uint64_t offset, std::uint64_t bytes, Deadline deadline) override {
      if (space_.before_discards) space_.before_discards();
      std::vector<std::byte> zeros(bytes);
      const far::Transfer whole{offset, LocalSpan(zeros.data(), zeros.size())};
      return write({&whole, 1}, deadline);
    }

   private:
    [[nodiscard]] RemoteSpan at(const far::Transfer& one) const {
      return space_.remote_->span(one.offset, one.local.bytes());
    }

    LocalSpace& space_;
    std::unique_ptr<Channel> channel_;
  };

  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<RemoteRegion> remote_;
};

}  // namespace farside::test
