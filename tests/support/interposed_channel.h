// interposed_channel.h — a channel that stops before chosen operations and lets the test act in between.
//
// It turns "what if another process comes exactly here?" into a deterministic test.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "farside/fabric/channel.h"

namespace farside::test {

class InterposedChannel final : public Channel {
 public:
  using Hook = std::function<void(const Operation&)>;
  using PeerHook = std::function<Outcome(PeerId, Deadline)>;
  using WaitHook = std::function<void(Deadline)>;

  explicit InterposedChannel(std::unique_ptr<Channel> inner) : inner_(std::move(inner)) {}

  /// `hook` is called before each operation, and may use other channels. An empty one is none.
  void before_each(Hook hook) { hook_ = std::move(hook); }
  /// The same before each word of a signal, with its target. The words of one call then follow each other. Where `hook`
  /// returns a failure, the word is not stored.
  void before_each_signal(PeerHook hook) { signal_hook_ = std::move(hook); }
  /// The same before each flush of a peer. Where `hook` returns a failure, nothing is flushed.
  void before_each_flush(PeerHook hook) { flush_hook_ = std::move(hook); }
  /// The same before each flush_all, with its deadline.
  void before_each_flush_all(std::function<Outcome(Deadline)> hook) { flush_all_hook_ = std::move(hook); }
  /// `hook` is called before each wait for operations, of which each has begun by then, with its deadline.
  void before_each_wait(WaitHook hook) { wait_hook_ = std::move(hook); }
  /// From now on each operation takes effect and then ends with `outcome`.
  void end_each_with(Outcome outcome) { ends_with_ = outcome; }

  Outcome fence(PeerId peer, Deadline deadline) override { return inner_->fence(peer, deadline); }
  Outcome flush(PeerId peer, Deadline deadline) override {
    const Outcome before = flush_hook_ ? flush_hook_(peer, deadline) : Outcome::done;
    return before == Outcome::done ? inner_->flush(peer, deadline) : before;
  }
  Outcome flush_all(Deadline deadline) override {
    if (flush_all_hook_) {
      if (const Outcome before = flush_all_hook_(deadline); before != Outcome::done) return before;
    }
    return inner_->flush_all(deadline);
  }
  Outcome flush_each(std::span<const PeerId> peers, Deadline deadline) override {
    return inner_->flush_each(peers, deadline);
  }
  void local_fence() override { inner_->local_fence(); }
  Outcome write_signals(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                        Deadline deadline) override {
    if (!signal_hook_) return inner_->write_signals(words, value, deadline);
    Completion all;
    for (const RemoteWord<ControlWord>& word : words) {
      const Outcome before = signal_hook_(word.region->peer(), deadline);
      all.record(before == Outcome::done ? inner_->write_signals({&word, 1}, value, deadline) : before);
    }
    return all.outcome;
  }
  Result<std::uint64_t> add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) override {
    return inner_->add_signal(word, addend, deadline);
  }

 private:
  void post(const Operation& operation, Completion& completion) override {
    // A hook may itself change the hook, so it is called by copy.
    if (const Hook hook = hook_) hook(operation);
    Outcome outcome = forward(operation);
    if (ends_with_ != Outcome::done) outcome = ends_with_;
    if (completion.outcome == Outcome::done) completion.outcome = outcome;
    if (wait_hook_) ++completion.pending;  // what has ended is waited for all the same
  }
  void finish(Completion& completion, Deadline deadline) override {
    wait_hook_(deadline);
    completion.pending = 0;
  }
  Outcome wait_change(const Region&, std::uint64_t, std::uint64_t, Deadline, const Awaited&) override {
    return Outcome::timed_out;
  }
  std::uint64_t lives_of(std::span<const PeerId>) const override { return 0; }

  Outcome forward(const Operation& operation) {
    const Deadline deadline{Time{INT64_MAX}};  // direct only: nothing waits
    const RemoteRegion& region = *operation.region;
    const LocalSpan local(operation.local, operation.bytes);
    std::uint64_t old = 0;
    Batch batch(*inner_);
    switch (operation.kind) {
      case Operation::Kind::read: return inner_->read(local, region.span(operation.offset, operation.bytes), deadline);
      case Operation::Kind::write:
        return inner_->write(region.span(operation.offset, operation.bytes), local, deadline);
      case Operation::Kind::fetch_add:
        batch.fetch_add(region.word<AtomicWord>(operation.offset), operation.operand, old);
        break;
      case Operation::Kind::compare_swap:
        batch.compare_swap(region.word<AtomicWord>(operation.offset), operation.expected, operation.operand, old);
        break;
      case Operation::Kind::swap: batch.swap(region.word<AtomicWord>(operation.offset), operation.operand, old); break;
    }
    const Outcome outcome = batch.wait(deadline);
    *reinterpret_cast<std::uint64_t*>(operation.local) = old;
    return outcome;
  }

  std::unique_ptr<Channel> inner_;
  Hook hook_;
  PeerHook signal_hook_;
  PeerHook flush_hook_;
  std::function<Outcome(Deadline)> flush_all_hook_;
  WaitHook wait_hook_;
  Outcome ends_with_ = Outcome::done;
};

}  // namespace farside::test
