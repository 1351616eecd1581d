#include "farside/comm/broadcast.h"

#include <algorithm>
#include <utility>

#include "base/mutex.h"
#include "comm/carry.h"
#include "comm/group.h"
#include "comm/protocol/spread.h"
#include "comm/status.h"

namespace farside::comm {

/// A rank that a broadcast goes to.
struct BroadcastReceiver {
  RemoteWord<ControlWord> discards;
  RemoteSpan to;
  RemoteWord<ControlWord> flag;

  [[nodiscard]] team::Rank rank() const { return to.region->peer(); }
};

namespace {

/// Keeps the first failure, with the rank that caused it.
void note(Status& worst, const Status& status) {
  if (worst.done()) worst = status;
}

/// The members that do not discard.
std::vector<BroadcastReceiver> wanting_receivers(Channel& channel, const std::vector<BroadcastReceiver>& receivers,
                                                 Status& worst, Deadline deadline) {
  std::vector<BroadcastReceiver> wanting;
  for (const BroadcastReceiver& receiver : receivers) {
    const Result<std::uint64_t> discards = channel.load(receiver.discards, deadline);
    note(worst, status_with(discards.status, receiver.rank()));
    if (discards.done() && discards.value == 0) wanting.push_back(receiver);
  }
  return wanting;
}

void write_to_each(Channel& channel, const std::vector<BroadcastReceiver>& receivers, RemoteSpan from,
                   std::uint64_t value, Status& worst, const NextDeadline& next) {
  std::vector<RemoteSpan> to;
  to.reserve(receivers.size());
  for (const BroadcastReceiver& receiver : receivers) to.push_back(receiver.to);
  const Status carried = carry(channel, to, from, next);
  note(worst, carried);
  // If the source was not read to its end, no receiver has it all.
  const bool may_be_cut_short = carried.outcome == Outcome::timed_out || carried.outcome == Outcome::link_lost;
  if (may_be_cut_short || carried.lost == from.region->peer()) return;
  const Deadline deadline = next();
  for (const BroadcastReceiver& receiver : receivers) {
    note(worst, status_with(channel.write_signal(receiver.flag, value, deadline), receiver.rank()));
  }
  for (const BroadcastReceiver& receiver : receivers) {
    note(worst, status_with(channel.flush(receiver.rank(), deadline), receiver.rank()));
  }
}

}  // namespace

class Broadcast::Impl {
 public:
  Impl(Comm& through, std::vector<team::Rank> of, const std::vector<const team::SymmetricRegion*>& known)
      : comm(through),
        members(ranks_or_all(comm.team(), std::move(of), "broadcast to")),
        discards(comm.team().allocate(comm.next_name("discards"), 8)),
        passed_on(known) {
    if (known.empty()) return;
    const auto ring = [this](Channel& by, team::Rank rank, Deadline deadline) { return comm.ring(by, rank, deadline); };
    spread = std::make_unique<Spread>(comm.team(), comm.next_name("spread"), known, ring, Spread::Options());
  }

  // By the service thread.
  void serve(Channel& channel) {
    const MutexLock lock(serving_);
    if (!closed_) spread->serve(channel);
  }

  void close() {
    const MutexLock lock(serving_);
    closed_ = true;
  }

  Comm& comm;
  const std::vector<team::Rank> members;
  const std::unique_ptr<team::SymmetricRegion> discards;  ///< a ControlWord at each rank
  const std::vector<const team::SymmetricRegion*> passed_on;
  std::unique_ptr<Spread> spread;  ///< null when nothing is passed on
  bool is_whole = true;            ///< the service thread's: no tree has failed

 private:
  Mutex serving_;
  bool closed_ GUARDED_BY(serving_) = false;
};

/// One broadcast.
class Broadcast::Sending {
 public:
  Sending(std::shared_ptr<Impl> by, std::vector<BroadcastReceiver> receivers, RemoteSpan from,
          const Spread::Order& order)
      : impl_(std::move(by)), receivers_(std::move(receivers)), from_(from), order_(order) {}

  /// None while those in the tree have not all been reached.
  std::optional<Status> go_on(Channel& channel, Deadline deadline) {
    if (!std::exchange(begun_, true)) {
      begin(channel, deadline);
      until_ = next_();
    }
    if (in_tree_.empty()) return worst_;
    const std::optional<Outcome> spread = impl_->spread->go_on(channel);
    team::Team& team = impl_->comm.team();
    if (const std::uint64_t progress = impl_->spread->progress(); progress != progress_) {
      progress_ = progress;
      until_ = next_();
    }
    if (!spread && team.fabric().now() < until_.at) return std::nullopt;
    if (spread != Outcome::done) impl_->is_whole = false;
    in_tree_.push_back(from_.region->peer());
    note(worst_, status_among(team, in_tree_, spread.value_or(Outcome::timed_out)));
    return worst_;
  }

 private:
  void begin(Channel& channel, Deadline deadline) {
    std::vector<BroadcastReceiver> wanting = wanting_receivers(channel, receivers_, worst_, deadline);
    const auto is_near = [this](const BroadcastReceiver& to) {
      return impl_->comm.team().fabric().reaches_by_memory(to.rank());
    };
    const auto far = std::stable_partition(wanting.begin(), wanting.end(), is_near);
    if (is_large() && wanting.end() - far > Spread::kFanOut) {
      std::for_each(far, wanting.end(), [this](const BroadcastReceiver& to) { in_tree_.push_back(to.rank()); });
      wanting.erase(far, wanting.end());
      std::ranges::sort(in_tree_);
      impl_->spread->begin(order_, from_, in_tree_);
      (void)impl_->spread->go_on(channel);  // others pass it on meanwhile
    }
    if (!wanting.empty()) write_to_each(channel, wanting, from_, order_.value, worst_, next_);
  }

  [[nodiscard]] bool is_large() const {
    return from_.bytes >= kTreeBytes && impl_->is_whole && order_.region < impl_->passed_on.size();
  }

  const std::shared_ptr<Impl> impl_;
  const std::vector<BroadcastReceiver> receivers_;
  const RemoteSpan from_;
  const Spread::Order order_;
  const NextDeadline next_ = [&comm = impl_->comm] { return comm.next_deadline(); };
  bool begun_ = false;
  std::uint64_t progress_ = 0;  ///< of those in the tree, when it was last looked at
  Deadline until_{};            ///< that it goes on
  std::vector<team::Rank> in_tree_;
  Status worst_;
};

Broadcast::Broadcast(Comm& comm, std::vector<team::Rank> members,
                     const std::vector<const team::SymmetricRegion*>& passed_on)
    : impl_(std::make_shared<Impl>(comm, std::move(members), passed_on)) {
  if (passed_on.empty()) return;
  // The Comm may call for as long as it lives, which is longer than this does.
  comm.on_ring([weak = std::weak_ptr(impl_)](Channel& channel) {
    if (const auto impl = weak.lock()) impl->serve(channel);
  });
}

Broadcast::~Broadcast() { impl_->close(); }

Request Broadcast::send(Channel& channel, const team::SymmetricRegion& memory, std::uint64_t offset, RemoteSpan from,
                        Signal signal) {
  std::vector<BroadcastReceiver> receivers;
  const Fabric& fabric = impl_->comm.team().fabric();
  bool near = from.bytes * impl_->members.size() <= Comm::kInlineBytes && fabric.reaches_by_memory(from.region->peer());
  for (const team::Rank rank : impl_->members) {
    const RemoteRegion& there = memory.of(rank);
    receivers.push_back({impl_->discards->of(rank).word<ControlWord>(0), there.span(offset, from.bytes),
                         there.word<ControlWord>(signal.offset)});
    near = near && fabric.reaches_by_memory(rank);
  }
  const auto region =
      static_cast<std::uint64_t>(std::ranges::find(impl_->passed_on, &memory) - impl_->passed_on.begin());
  const Spread::Order order{0, region, offset, from.bytes, signal.offset, signal.value};
  const auto sending = std::make_shared<Sending>(impl_, std::move(receivers), from, order);
  return impl_->comm.act(channel, near,
                         [sending](Channel& by, Deadline deadline) { return sending->go_on(by, deadline); });
}

void Broadcast::discard(bool on) { impl_->discards->local().word<ControlWord>(0).store(on ? 1 : 0); }

}  // namespace farside::comm
