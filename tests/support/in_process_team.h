// in_process_team.h — a whole team in one process: each rank with a fabric of its own, and threads where needed.
//
// For tests that must interleave the ranks of a protocol step by step.
#pragma once

#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "farside/team/team.h"

namespace farside::test {

/// What the ranks exchange when they allocate together.
struct MeetingPoint {
  explicit MeetingPoint(team::Rank ranks) : handles(ranks), barrier(ranks) {}

  std::vector<std::string> handles;
  std::barrier<> barrier;
};

class InProcessTeam final : public team::Team {
 public:
  InProcessTeam(team::Rank rank, team::Rank size, std::uint16_t incarnation, std::shared_ptr<MeetingPoint> meeting);

  [[nodiscard]] team::Rank rank() const override { return rank_; }
  [[nodiscard]] team::Rank size() const override { return size_; }
  [[nodiscard]] Fabric& fabric() override { return *fabric_; }
  [[nodiscard]] std::uint16_t incarnation() const override { return incarnation_; }
  [[nodiscard]] std::unique_ptr<team::SymmetricRegion> allocate(const std::string& name, std::uint64_t bytes) override;
  Outcome barrier(Deadline deadline) override;
  [[nodiscard]] std::uint64_t epoch() const override { return 0; }
  Outcome evict(team::Rank rank, Deadline deadline) override;

 private:
  team::Rank rank_;
  team::Rank size_;
  std::uint16_t incarnation_;
  std::shared_ptr<MeetingPoint> meeting_;
  std::unique_ptr<Fabric> fabric_;
};

/// The teams of `size` ranks, by rank.
[[nodiscard]] std::vector<std::unique_ptr<InProcessTeam>> make_teams(team::Rank size, std::uint16_t incarnation = 1);

/// Runs `body(rank)` for each rank in a thread of its own and waits for all.
void on_all_ranks(team::Rank size, const std::function<void(team::Rank)>& body);

}  // namespace farside::test
