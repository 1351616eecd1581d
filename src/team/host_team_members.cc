// Members of a HostTeam that are lost, and those that come back (docs/protocols/team.md, "Liveness" and
// "Incarnations").
#include <numeric>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "team/host_team.h"
#include "team/time_limits.h"

namespace farside::team {

using net::SetupClock;

namespace {

// Returns the part of `exchange` in `blobs`, which a rank that has come back gave. Throws Error when there is none.
const std::string& part_of(const std::vector<std::string>& blobs, std::size_t exchange) {
  if (exchange < blobs.size()) return blobs[exchange];
  throw Error({"read", "what it gave to exchange " + std::to_string(exchange), "it gave nothing", ""});
}

}  // namespace

Outcome HostTeam::evict(Rank rank, Deadline deadline) {
  if (rank == this->rank() || rank >= size()) {
    throw Error({"evict", named(rank), "it is not another member of this team", ""});
  }
  // The member that is meant, for the fabric and for the coordinator: its successor may come meanwhile.
  PeerLife life = 0;
  std::uint16_t incarnation = 0;
  {
    const MutexLock lock(membership_);
    life = fabric_->life(rank);
    incarnation = cards_[rank].incarnation;
  }
  bootstrap_->evict(rank, incarnation);
  if (!bootstrap_->tells_of_evictions()) out_[rank].store(true, std::memory_order_release);
  lose(rank, Loss::died, life);  // revoked here, to tell the caller how it went
  return fabric_->revoke(rank, life, deadline);
}

// The kernel tells of every death on this host, at no cost until then.
void HostTeam::watch_process(Rank rank, Backoff<std::chrono::milliseconds> backoff) try {
  ProcessId id;
  std::uint16_t incarnation = 0;
  {
    const MutexLock lock(membership_);
    // A rank that was lost meanwhile is watched, too: has_died waits for the end of its process.
    if (rank == this->rank() || !on_this_host(rank)) return;
    id = cards_[rank].process;
    incarnation = cards_[rank].incarnation;
  }
  Fd& process = processes_[rank];
  if (process) loop_.forget(process.get());
  process = open_process(id);
  if (!process) return take_for_dead(rank, Loss::died, incarnation);
  loop_.watch(process.get(), EPOLLIN, [this, rank, incarnation, fd = process.get()](std::uint32_t) {
    pollfd now{fd, POLLIN, 0};
    if (::poll(&now, 1, 0) <= 0) return;  // the news was of a predecessor, whose descriptor had this number
    loop_.forget(fd);
    take_for_dead(rank, Loss::died, incarnation);
  });
} catch (const Error& error) {
  log::warn(named(rank) + " is not watched, and tried again later: " + error.what());
  processes_[rank].reset();
  const auto pause = backoff.next();
  loop_.after(pause, [this, rank, backoff] { watch_process(rank, backoff); });
}

void HostTeam::hear_of_loss(Rank rank, Loss loss) {
  ++notices_[rank];
  take_for_dead(rank, loss);
}

// It was decided, by the kernel or the coordinator.
void HostTeam::take_for_dead(Rank rank, Loss loss, std::optional<std::uint16_t> incarnation) {
  if (rank != this->rank()) {
    {
      const MutexLock lock(membership_);
      const std::uint32_t next = incarnation.value_or(incarnations_[rank]) + 1U;
      dead_before_[rank] = std::max(dead_before_[rank].load(), next);
    }
    died_[rank].store(true, std::memory_order_release);
    out_[rank].store(true, std::memory_order_release);
    return lose(rank, loss);
  }
  // The others took this process for dead: it must not go on as if it were a member.
  if (loss != Loss::evicted) return;
  std::vector<Rank> others(size());
  std::iota(others.begin(), others.end(), 0);
  std::erase(others, rank);
  cut_off(others, "they took this process for dead");
}

void HostTeam::lose(Rank rank, Loss loss, std::optional<PeerLife> seen) {
  {
    const MutexLock lock(membership_);
    if (seen && fabric_->life(rank) != *seen) return;
    const bool is_news = gone_.insert(rank).second;
    if (!connected_) return;
    if (is_news && loss != Loss::left) lost_.add();
    // A death on this host is reported by the process that started the rank.
    if (is_news && !is_cut_off_ && !on_this_host(rank) && loss != Loss::left) {
      log::warn(named(rank) +
                " is lost: " + (loss == Loss::died ? "it died" : "it was silent for too long, or evicted"));
    }
    fabric_->mark_lost(rank);
  }
  if (loss == Loss::evicted) (void)take_access(rank);
}

bool HostTeam::take_access(Rank rank) try {
  const Outcome outcome = fabric_->revoke(rank, fabric_->in(team::time_limits::kRevoke));
  if (outcome != Outcome::done) log::warn("the access of " + named(rank) + ", which is lost, is not gone yet");
  return outcome == Outcome::done;
} catch (const Error& error) {
  log::warn(error.what());
  return false;
}

// A new process has the rank.
void HostTeam::take_back(Rank rank, const std::vector<std::string>& blobs) try {
  ++notices_[rank];
  if (rank == this->rank()) {
    const MutexLock lock(membership_);
    ++returns_[rank];
    return;
  }
  MemberCard card = MemberCard::decode(part_of(blobs, kCards));
  own_card_.expect_compatible(card, rank);
  {
    const MutexLock lock(membership_);
    newer_[rank] = blobs;
    incarnations_[rank] = std::max(incarnations_[rank], card.incarnation);
    dead_before_[rank] = std::max(dead_before_[rank].load(), std::uint32_t{card.incarnation});  // it has a successor
    if (!connected_) {  // this process is coming back itself, and will meet the new one only
      if (rank < cards_.size()) cards_[rank] = std::move(card);
      gone_.erase(rank);
      ++returns_[rank];
      return;
    }
  }
  finish_return({.rank = rank, .notice = notices_[rank], .deadline = SetupClock::now() + team::time_limits::kReturn});
} catch (const Error& error) {
  log::warn(named(rank) + " has come back, but cannot be reached: " + error.what());
  lose(rank, Loss::died);
}

// Whatever fails here, this process alone lacks something that it may have again: it tries until the deadline.
void HostTeam::finish_return(Return returned) {
  const Rank rank = returned.rank;
  if (notices_[rank] != returned.notice) return;
  std::string why = "its predecessor's access is not gone";
  try {
    // The access of the one that has the number now must not be taken when this is tried again.
    if (!returned.is_access_gone) returned.is_access_gone = take_access(rank);
    if (returned.is_access_gone) {
      replace_member(rank, newer_blobs(rank));
      return watch_process(rank);
    }
  } catch (const std::exception& error) {
    lose(rank, Loss::died);
    why = error.what();
  }
  const auto pause = returned.pauses.next();
  if (SetupClock::now() + pause < returned.deadline) return loop_.after(pause, [=, this] { finish_return(returned); });
  log::warn(named(rank) + " has come back, but stays lost to this process: " + why);
}

// All of it, or nothing but a connection that the fabric has to be told to be lost.
void HostTeam::replace_member(Rank rank, const std::vector<std::string>& blobs) {
  const MutexLock lock(membership_);
  MemberCard card = MemberCard::decode(part_of(blobs, kCards));
  out_[rank].store(false, std::memory_order_release);  // before it is not lost any more
  fabric_->connect(rank, part_of(blobs, kAddresses));
  gone_.erase(rank);  // attach_piece looks there
  std::vector<std::pair<std::shared_ptr<Pieces>, std::unique_ptr<RemoteRegion>>> replaced;
  for (std::size_t i = 0; i < regions_.size() && kFirstRegion + i < blobs.size(); ++i) {
    const std::shared_ptr<Pieces> pieces = regions_[i].lock();
    if (pieces == nullptr) continue;  // freed
    const RemoteRegion& own = pieces->of(this->rank());
    replaced.emplace_back(pieces, attach_piece(rank, blobs[kFirstRegion + i], own.name(), own.bytes()));
  }
  for (auto& [pieces, piece] : replaced) pieces->replace(rank, std::move(piece));
  cards_[rank] = std::move(card);
  ++returns_[rank];
  came_back_.add();
}

// Counts the ranks on other hosts as lost: without the coordinator no process reports the deaths there.
void HostTeam::lose_other_hosts(const std::string& why) {
  std::vector<Rank> others;
  {
    const MutexLock lock(membership_);
    if (!connected_) return;
    for (Rank rank = 0; rank < size(); ++rank) {
      if (!on_this_host(rank)) others.push_back(rank);
    }
  }
  cut_off(others, why);
}

void HostTeam::cut_off(const std::vector<Rank>& from, const std::string& why) {
  if (from.empty()) return;
  std::string names;
  for (const Rank rank : from) names += (names.empty() ? "" : ", ") + named(rank);
  log::warn("cut off from " + names + ": " + why);
  {
    const MutexLock lock(membership_);
    is_cut_off_ = true;
  }
  for (const Rank rank : from) lose(rank, Loss::died);
  if (const auto handler = std::exchange(on_cut_off_, {})) handler();
}

void HostTeam::on_cut_off(const std::function<void()>& handler) {
  loop_.post([this, handler] {
    if (is_cut_off()) return handler();
    on_cut_off_ = handler;
  });
}

}  // namespace farside::team
