#include "tests/support/in_process_team.h"

#include <thread>

namespace farside::test {

using team::Rank;

InProcessTeam::InProcessTeam(Rank rank, Rank size, std::uint16_t incarnation, std::shared_ptr<MeetingPoint> meeting)
    : rank_(rank),
      size_(size),
      incarnation_(incarnation),
      meeting_(std::move(meeting)),
      fabric_(make_host_fabric({.mode = FabricMode::direct})) {}

std::unique_ptr<team::SymmetricRegion> InProcessTeam::allocate(const std::string& name, std::uint64_t bytes) {
  auto local = fabric_->create_region(name, bytes);
  meeting_->handles[rank_] = local->handle();
  meeting_->barrier.arrive_and_wait();
  std::vector<std::unique_ptr<RemoteRegion>> remotes;
  for (Rank other = 0; other < size_; ++other) remotes.push_back(fabric_->attach(other, meeting_->handles[other]));
  meeting_->barrier.arrive_and_wait();
  return std::make_unique<team::SymmetricRegion>(std::move(local), std::make_shared<team::Pieces>(std::move(remotes)));
}

Outcome InProcessTeam::barrier(Deadline) {
  meeting_->barrier.arrive_and_wait();
  return Outcome::done;
}

Outcome InProcessTeam::evict(Rank rank, Deadline) {
  fabric_->mark_lost(rank);
  return Outcome::done;
}

std::vector<std::unique_ptr<InProcessTeam>> make_teams(Rank size, std::uint16_t incarnation) {
  const auto meeting = std::make_shared<MeetingPoint>(size);
  std::vector<std::unique_ptr<InProcessTeam>> teams;
  for (Rank rank = 0; rank < size; ++rank) {
    teams.push_back(std::make_unique<InProcessTeam>(rank, size, incarnation, meeting));
  }
  for (const auto& team : teams) {
    for (Rank other = 0; other < size; ++other) team->fabric().connect(other, teams[other]->fabric().address());
  }
  return teams;
}

void on_all_ranks(Rank size, const std::function<void(Rank)>& body) {
  std::vector<std::jthread> threads;
  threads.reserve(size);
  for (Rank rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
}

}  // namespace farside::test
