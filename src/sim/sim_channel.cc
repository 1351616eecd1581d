#include "sim/sim_channel.h"

#include <algorithm>

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
  for (const auto& flight : flights_) flight->abandon();
}

void SimChannel::post(const Operation& operation, Completion& completion) {
  fabric_.begins(&operation);
  const PeerId peer = operation.region->peer();
  const Network& network = fabric_.wires().network();
  if (network.stalls_before_posting && scheduler_.one_in(kStallOneIn)) {
    fabric_.sleep(scheduler_.up_to(network.long_latency));
  }
  const auto& access = static_cast<const SimAccess&>(*operation.region->access());
  if (fabric_.lost(peer) || access.memory()->owner() != fabric_.life_of(peer)) {
    completion.outcome = Outcome::peer_lost;
    return;
  }
  forget_what_is_over();
  auto flight =
      std::make_shared<Flight>(fabric_.wires(), fabric_.process(), operation, access.memory(), completion, waiter_);
  Flights predecessors = network.reorders ? fenced_[peer] : under_way(peer);
  flights_.push_back(flight);
  flight->begin(std::move(predecessors));
}

void SimChannel::finish(Completion& completion, Deadline deadline) {
  if (wait_for([&] { return completion.pending == 0; }, deadline)) return;
  for (const auto& flight : flights_) {
    if (flight->belongs_to(completion)) flight->abandon();
  }
  completion.pending = 0;
  completion.outcome = Outcome::timed_out;
}

void SimChannel::local_fence() {
  fabric_.begins(nullptr);
  fabric_.drain_own_stores();
}

Outcome SimChannel::fence(PeerId peer, Deadline deadline) {
  fabric_.begins(nullptr);
  const Flights earlier = under_way(peer);
  fenced_[peer] = earlier;
  const auto fetches_are_over = [&] {
    return std::ranges::all_of(earlier, [](const auto& flight) { return flight->is_write() || flight->over(); });
  };
  if (!wait_for(fetches_are_over, deadline)) return Outcome::timed_out;
  forget_what_is_over();
  if (failed_.contains(peer) && fence_told_.insert(peer).second) return Outcome::peer_lost;
  return Outcome::done;
}

Outcome SimChannel::flush(PeerId peer, Deadline deadline) {
  fabric_.begins(nullptr);
  const Flights earlier = under_way(peer);
  const auto all_over = [&] { return std::ranges::all_of(earlier, [](const auto& flight) { return flight->over(); }); };
  if (!wait_for(all_over, deadline)) return Outcome::timed_out;
  forget_what_is_over();
  fence_told_.erase(peer);
  if (failed_.erase(peer) != 0 || fabric_.lost(peer)) return Outcome::peer_lost;
  waiter_->flushed[peer] = fabric_.wires().last_operation();
  return Outcome::done;
}

Outcome SimChannel::flush_all(Deadline deadline) {
  std::set<PeerId> written = failed_;
  for (const auto& flight : flights_) {
    if (flight->is_write()) written.insert(flight->peer());
  }
  Outcome all = Outcome::done;
  for (const PeerId peer : written) {
    const Outcome flushed = flush(peer, deadline);
    if (all == Outcome::done) all = flushed;
  }
  return all;
}

Outcome SimChannel::write_signals(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                                  Deadline deadline) {
  Batch batch(*this);
  for (const auto& word : words) {
    fenced_[word.region->peer()] = under_way(word.region->peer());
    batch.store(word, value);
  }
  return batch.wait(deadline);
}

Fetched SimChannel::add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) {
  fenced_[word.region->peer()] = under_way(word.region->peer());
  return fetch_add(word, addend, deadline);
}

Outcome SimChannel::wait_change(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                                const Awaited& awaited) {
  const Call call(*waiter_);
  return fabric_.watch(region, offset, seen, deadline, awaited.peers, awaited.lives);
}

// But not that a WRITE failed, perhaps when its poster had been told that it completed.
void SimChannel::forget_what_is_over() {
  std::erase_if(flights_, [this](const auto& flight) {
    if (flight->failed() && flight->is_write()) failed_.insert(flight->peer());
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
  while (!holds() && fabric_.now() < deadline.at) {
    waiter_->ticket = scheduler_.ticket();
    scheduler_.sleep_until(fabric_.moment_of(deadline.at));
    waiter_->ticket.reset();
  }
  return holds();
}

}  // namespace farside::sim
