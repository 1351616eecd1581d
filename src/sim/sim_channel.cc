#include "sim/sim_channel.h"

#include <algorithm>
#include <map>
#include <utility>

namespace farside::sim {

namespace {

constexpr std::uint64_t kStallOneIn = 100;  // postings

// While it lasts, what the thread has posted makes progress.
class Call {
 public:
  explicit Call(Waiter& waiter) : waiter_(waiter) { waiter_.in_call = true; }
  ~Call() { waiter_.in_call = false; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  Waiter& waiter_;
};

}  // namespace

SimChannel::~SimChannel() {
  std::erase(fabric_.channels_, this);
  for (const auto& flight : flights_) flight->abandon();
}

void SimChannel::post(const Operation& operation, Completion& completion) {
  fabric_.begins(&operation);
  const PeerId peer = operation.region->peer();
  const Network& network = fabric_.wires().network();
  const bool stalls = network.stalls_before_posting && scheduler_.one_in(kStallOneIn);
  if (stalls) fabric_.sleep(scheduler_.up_to(network.long_latency));
  const auto& access = static_cast<const SimAccess&>(*operation.region->access());
  if (fabric_.lost(peer) || access.memory()->owner() != fabric_.life_of(peer)) {
    completion.outcome = Outcome::peer_lost;
    return;
  }
  forget_what_is_over();
  auto flight =
      std::make_shared<Flight>(fabric_.wires(), fabric_.process(), operation, access.memory(), completion, waiter_);
  Flights predecessors = network.reorders ? fenced_[peer] : under_way(peer);
  if (stalls) flight->meet(Fault::stalled);
  if (signals_) flight->set_signal();
  if (flight->is_write()) unflushed_.insert(peer);
  flights_.push_back(flight);
  flight->begin(std::move(predecessors));
}

void SimChannel::finish(Completion& completion, Deadline deadline) {
  if (wait_for([&] { return completion.pending == 0; }, deadline)) return;
  std::set<PeerId> involved;
  for (const auto& flight : flights_) {
    if (!flight->belongs_to(completion)) continue;
    involved.insert(flight->peer());
    flight->meet(Fault::timed_out);
    flight->abandon();
  }
  completion.pending = 0;
  completion.outcome = Outcome::timed_out;
  if (!fabric_.wires().network().replaces_links) return;
  for (const PeerId peer : involved) replace_link(peer, Outcome::timed_out);
}

void SimChannel::end_broken_links() {
  for (const PeerId peer : std::exchange(waiter_->broken, {})) replace_link(peer, Outcome::link_lost);
}

// Operations under way to `peer` end, and completed ones that were not flushed may be lost.
void SimChannel::replace_link(PeerId peer, Outcome outcome) {
  ++waiter_->links[peer];
  if (unflushed_.erase(peer) != 0) failed_.insert_or_assign(peer, Failed{outcome});
  for (const auto& flight : under_way(peer)) flight->lose_link(outcome);
}

void SimChannel::local_fence() {
  fabric_.begins(nullptr);
  fabric_.drain_own_stores();
}

CountedCall SimChannel::counted(const std::string& call) const {
  return {fabric_.wires().fault_count(), call, {Fault::timed_out, Fault::link_replaced, Fault::target_died}};
}

Outcome SimChannel::fence(PeerId peer, Deadline deadline) {
  fabric_.begins(nullptr);
  const CountedCall call = counted("fence");
  const Flights earlier = under_way(peer);
  fenced_[peer] = earlier;
  const auto fetches_are_over = [&] {
    return std::ranges::all_of(earlier, [](const auto& flight) { return flight->is_write() || flight->over(); });
  };
  if (!wait_for(fetches_are_over, deadline)) {
    call.meets(Fault::timed_out);
    return Outcome::timed_out;
  }
  if (fabric_.wires().network().fences_flush && unflushed_.contains(peer) && !wait_until_over(earlier, deadline)) {
    call.meets(Fault::timed_out);
    return ran_out(peer, &Failed::fence_told);
  }
  forget_what_is_over();
  return told_before(peer, &Failed::fence_told, call);
}

// Each kind of call reports a failure once. After its report it is done only when nothing from before can land.
Outcome SimChannel::told_before(PeerId peer, bool Failed::*told, const CountedCall& call) {
  const auto failed = failed_.find(peer);
  if (failed == failed_.end()) return Outcome::done;
  if (!std::exchange(failed->second.*told, true)) {
    call.meets(failed->second.outcome == Outcome::peer_lost ? Fault::target_died : Fault::link_replaced);
    return failed->second.outcome;
  }
  waiter_->flushed[peer] = fabric_.wires().last_operation();
  return Outcome::done;
}

Outcome SimChannel::flush(PeerId peer, Deadline deadline) {
  fabric_.begins(nullptr);
  const CountedCall call = counted("flush");
  if (!wait_until_over(under_way(peer), deadline)) {
    call.meets(Fault::timed_out);
    return ran_out(peer, &Failed::flush_told);
  }
  forget_what_is_over();
  unflushed_.erase(peer);
  if (const Outcome before = told_before(peer, &Failed::flush_told, call); before != Outcome::done) return before;
  failed_.erase(peer);
  if (fabric_.lost(peer)) {
    call.meets(Fault::target_died);
    return Outcome::peer_lost;
  }
  waiter_->flushed[peer] = fabric_.wires().last_operation();
  return Outcome::done;
}

bool SimChannel::wait_until_over(const Flights& flights, Deadline deadline) {
  const auto is_over = [this](const auto& each) { return each->over() || fabric_.given_up(each->peer()); };
  return wait_for([&] { return std::ranges::all_of(flights, is_over); }, deadline);
}

// That is the report, by a call of this kind, of what was lost with the link.
Outcome SimChannel::ran_out(PeerId peer, bool Failed::*told) {
  const Flights left = under_way(peer);
  const bool has_begun = std::ranges::all_of(left, [](const auto& flight) { return flight->completed(); });
  if (!fabric_.wires().network().flushes_replace_links || !has_begun) return Outcome::timed_out;
  replace_link(peer, Outcome::timed_out);
  if (const auto failed = failed_.find(peer); failed != failed_.end()) failed->second.*told = true;
  return Outcome::timed_out;
}

Outcome SimChannel::flush_all(Deadline deadline) {
  Outcome all = Outcome::done;
  for (const PeerId peer : written()) all = graver(all, flush(peer, deadline));
  return all;
}

Outcome SimChannel::flush_each(std::span<const PeerId> peers, Deadline deadline) {
  Outcome all = Outcome::done;
  for (const PeerId peer : written()) {
    if (std::ranges::find(peers, peer) != peers.end()) all = graver(all, flush(peer, deadline));
  }
  return all;
}

std::set<PeerId> SimChannel::written() const {
  std::set<PeerId> peers = unflushed_;
  for (const auto& [peer, failed] : failed_) peers.insert(peer);
  for (const auto& flight : flights_) {
    if (flight->is_write()) peers.insert(flight->peer());
  }
  return peers;
}

Outcome SimChannel::write_signals(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                                  Deadline deadline) {
  Batch batch(*this);
  Completion all;
  std::map<PeerId, Outcome> before;
  for (const auto& word : words) {
    const auto [of_peer, is_first] = before.try_emplace(word.region->peer());
    if (is_first) of_peer->second = begin_signal(of_peer->first);
    all.record(of_peer->second);
    signals_ = of_peer->second == Outcome::done;
    if (signals_) batch.store(word, value);
    signals_ = false;
  }
  all.record(batch.wait(deadline));
  return all.outcome;
}

// It comes after all that was posted to `peer`. Of what was lost with a link it tells as a flush does.
Outcome SimChannel::begin_signal(PeerId peer) {
  const CountedCall call(fabric_.wires().fault_count(), "signal", {Fault::link_replaced, Fault::target_died});
  forget_what_is_over();
  if (const Outcome before = told_before(peer, &Failed::signal_told, call); before != Outcome::done) return before;
  fenced_[peer] = under_way(peer);
  signals_ = true;
  return Outcome::done;
}

Result<std::uint64_t> SimChannel::add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) {
  if (const Outcome before = begin_signal(word.region->peer()); before != Outcome::done) return {before, 0};
  const Result<std::uint64_t> old = fetch_add(word, addend, deadline);
  signals_ = false;
  return old;
}

Outcome SimChannel::wait_change(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                                const Awaited& awaited) {
  const Call call(*waiter_);
  return fabric_.watch(region, offset, seen, deadline, awaited.peers, awaited.lives);
}

// But not that a WRITE failed, perhaps when its poster had been told that it completed.
void SimChannel::forget_what_is_over() {
  end_broken_links();
  std::erase_if(flights_, [this](const auto& flight) {
    const bool is_news = flight->failed() && !flight->lost_link();
    if (is_news && flight->is_write()) failed_.insert_or_assign(flight->peer(), Failed{Outcome::peer_lost});
    return flight->over();
  });
}

SimChannel::Flights SimChannel::under_way(PeerId peer) const {
  Flights found;
  std::ranges::copy_if(flights_, std::back_inserter(found),
                       [peer](const auto& flight) { return flight->peer() == peer && !flight->over(); });
  return found;
}

template <class Condition>
bool SimChannel::wait_for(Condition holds, Deadline deadline) {
  const Call call(*waiter_);
  end_broken_links();
  while (!holds() && fabric_.now() < deadline.at) {
    waiter_->ticket = scheduler_.ticket();
    scheduler_.sleep_until(fabric_.moment_of(deadline.at));
    waiter_->ticket.reset();
    end_broken_links();
  }
  return holds();
}

}  // namespace farside::sim
