// team_of_two.h — two ranks in one thread, whose memory is written to as a peer may: anything, anywhere.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farside/team/team.h"

#include "tests/fuzz/input.h"

namespace farside::fuzz {

/// The rank that allocates first allocates for the other one as well, which finds it there: neither waits.
class OpenTeam final : public team::Team {
 public:
  static constexpr team::Rank kSize = 2;

  explicit OpenTeam(team::Rank rank) : rank_(rank) {}
  void connect(OpenTeam& other) {
    other_ = &other;
    fabric_->connect(rank_, fabric_->address());
    fabric_->connect(other.rank_, other.fabric_->address());
  }

  /// The memory that it allocated last, as long as it has it.
  [[nodiscard]] const Region& memory() const { return *memory_; }

  [[nodiscard]] team::Rank rank() const override { return rank_; }
  [[nodiscard]] team::Rank size() const override { return kSize; }
  [[nodiscard]] Fabric& fabric() override { return *fabric_; }
  [[nodiscard]] std::uint16_t incarnation() const override { return 1; }
  [[nodiscard]] std::unique_ptr<team::SymmetricRegion> allocate(const std::string& name, std::uint64_t bytes) override {
    if (next_ == nullptr) {
      make_next(name, bytes);
      other_->make_next(name, bytes);
    }
    std::vector<std::unique_ptr<RemoteRegion>> pieces(kSize);
    for (const OpenTeam* of : {this, other_}) pieces[of->rank_] = fabric_->attach(of->rank_, of->handle_);
    return std::make_unique<team::SymmetricRegion>(std::move(next_), std::make_shared<team::Pieces>(std::move(pieces)));
  }
  Outcome barrier(Deadline /*deadline*/) override { return Outcome::done; }
  [[nodiscard]] std::uint64_t epoch() const override { return 0; }
  Outcome evict(team::Rank rank, Deadline /*deadline*/) override {
    fabric_->mark_lost(rank);
    return Outcome::done;
  }

 private:
  void make_next(const std::string& name, std::uint64_t bytes) {
    next_ = fabric_->create_region(name, bytes);
    memory_ = next_.get();
    handle_ = next_->handle();
  }

  const team::Rank rank_;
  std::unique_ptr<Fabric> fabric_ = make_host_fabric({.mode = FabricMode::direct});
  OpenTeam* other_ = nullptr;
  std::unique_ptr<Region> next_;  ///< allocated, and not taken yet
  const Region* memory_ = nullptr;
  std::string handle_;
};

class TeamOfTwo {
 public:
  static constexpr team::Rank kSize = OpenTeam::kSize;

  TeamOfTwo() {
    ranks_[0]->connect(*ranks_[1]);
    ranks_[1]->connect(*ranks_[0]);
  }

  [[nodiscard]] OpenTeam& operator[](team::Rank rank) const { return *ranks_.at(rank); }

  struct Written {
    team::Rank rank;
    std::uint64_t at;
    std::uint64_t bytes;
  };
  /// Whose memory (1 byte), where (2), how many (1), the bytes.
  Written write(Input& input) const {
    const auto rank = static_cast<team::Rank>(input.byte() % kSize);
    const Region& memory = ranks_.at(rank)->memory();
    const std::uint64_t at = (input.byte() << 8U | input.byte()) % memory.bytes();
    const auto bytes = input.bytes(std::min(input.byte(), memory.bytes() - at));
    memory.copy_in(at, bytes);
    return {rank, at, bytes.size()};
  }

 private:
  std::array<std::unique_ptr<OpenTeam>, kSize> ranks_{std::make_unique<OpenTeam>(0), std::make_unique<OpenTeam>(1)};
};

}  // namespace farside::fuzz
