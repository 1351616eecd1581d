#include "farside/comm/messages.h"

#include <optional>
#include <string>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "base/mutex.h"
#include "comm/protocol/message_rings.h"
#include "comm/thrown.h"
#include "comm/time_limits.h"

namespace farside::comm {

static_assert(std::is_same_v<Messages::Words, MessageWords>);

class Messages::Impl {
 public:
  Impl(Comm& through, std::vector<Handler> table, const MessagesOptions& shape)
      : comm(through),
        handlers(std::move(table)),
        options(checked(shape, comm.team().size())),
        rings(comm.team(), comm.next_name("messages"),
              {static_cast<std::uint32_t>(handlers.size()), options.places, options.payload_bytes, options.outbox},
              [this](Channel& by, team::Rank rank, Deadline deadline) { return comm.ring(by, rank, deadline); }) {}

  // By the service thread.
  void serve(Channel& channel) {
    const MutexLock lock(serving_);
    if (closed_) return;
    rings.receive(channel, [this](const MessageRings::Arrived& arrived) { deliver(arrived); });
    rings.carry_all(channel);
  }

  // If the service thread does not hear it, its nap ends soon.
  void ring_here(Channel& channel) const {
    (void)comm.ring(channel, comm.team().rank(), comm.team().fabric().in(comm::time_limits::kRing));
  }

  void close() {
    const MutexLock lock(serving_);
    closed_ = true;
  }

  [[nodiscard]] MessageRecord record_of(team::Rank to, const Message& message) const {
    const auto refuse = [&](const std::string& why, const std::string& remedy) {
      throw UsageError({"send a message to", "rank " + std::to_string(to), why, remedy});
    };
    if (to >= comm.team().size()) refuse("there are " + std::to_string(comm.team().size()) + " ranks", "");
    if (message.handler >= handlers.size()) {
      refuse("it is for handler " + std::to_string(message.handler) + " of " + std::to_string(handlers.size()), "");
    }
    if (message.payload.size() > options.payload_bytes) {
      refuse("its payload has " + std::to_string(message.payload.size()) + " bytes",
             "send at most " + std::to_string(options.payload_bytes) + ", or raise MessagesOptions::payload_bytes");
    }
    return make_record(message.handler, message.words, message.payload);
  }

  [[nodiscard]] Counters counters() const {
    const MutexLock lock(counting_);
    return {delivered_, failed_, rings.refused()};
  }

  Comm& comm;
  const std::vector<Handler> handlers;
  const MessagesOptions options;
  MessageRings rings;

 private:
  class RunningCall final : public Call {
   public:
    RunningCall(Impl& impl, const MessageRings::Arrived& arrived)
        : Call(arrived.source, {arrived.handler, arrived.words, arrived.payload}), impl_(impl) {}
    Status send(team::Rank to, const Message& message) override {
      return status_with(impl_.rings.leave(to, impl_.record_of(to, message)), to);
    }

   private:
    Impl& impl_;
  };

  static const MessagesOptions& checked(const MessagesOptions& shape, team::Rank ranks) {
    if (shape.places == 0) {
      throw UsageError({"send messages through", "rings", "they have no places", "set MessagesOptions::places"});
    }
    if (shape.payload_bytes > kMaxPayloadBytes ||
        shape.places > kMaxRingsBytes / ranks / (shape.payload_bytes + 128U)) {
      throw UsageError(
          {"send messages through",
           "rings of " + std::to_string(shape.places) + " places of " + std::to_string(shape.payload_bytes) + " bytes",
           "their memory cannot be counted", "use fewer or smaller ones"});
    }
    return shape;
  }

  static constexpr std::uint32_t kMaxPayloadBytes = 1U << 30U;
  static constexpr std::uint64_t kMaxRingsBytes = std::uint64_t{1} << 48U;  // at a rank

  // Whatever a handler throws: the service thread has others to serve.
  void deliver(const MessageRings::Arrived& arrived) {
    assert_that(arrived.handler < handlers.size(), "the rings deliver to handlers that exist");
    const std::exception_ptr error = thrown_by([&] {
      RunningCall call(*this, arrived);
      handlers[arrived.handler](call);
    });
    {
      const MutexLock lock(counting_);
      ++delivered_;
      if (error != nullptr) ++failed_;
    }
    if (error == nullptr) return;
    log::error("messages: handler " + std::to_string(arrived.handler) + ", called by rank " +
               std::to_string(arrived.source) + ", threw: " + text_of(error));
  }

  Mutex serving_;  // held while handlers run
  bool closed_ GUARDED_BY(serving_) = false;

  mutable Mutex counting_;
  std::uint64_t delivered_ GUARDED_BY(counting_) = 0;
  std::uint64_t failed_ GUARDED_BY(counting_) = 0;
};

Messages::Messages(Comm& comm, std::vector<Handler> handlers, const MessagesOptions& options)
    : impl_(std::make_shared<Impl>(comm, std::move(handlers), options)) {
  // The Comm may call for as long as it lives, which is longer than this does.
  comm.on_ring([weak = std::weak_ptr(impl_)](Channel& channel) {
    if (const auto impl = weak.lock()) impl->serve(channel);
  });
}

Messages::~Messages() { impl_->close(); }

Status Messages::send(Channel& channel, team::Rank to, const Message& message, Deadline deadline) {
  if (impl_->comm.on_service_thread()) {
    throw UsageError({"send a message to", "rank " + std::to_string(to),
                      "on the service thread it cannot wait for room",
                      "send it with the Call that the handler was given"});
  }
  const Outcome left = impl_->rings.send(channel, to, impl_->record_of(to, message), deadline);
  if (left != Outcome::done) return status_with(left, to);
  if (impl_->comm.team().fabric().reaches_by_memory(to)) return status_with(impl_->rings.carry(channel, to), to);
  impl_->ring_here(channel);
  return {};
}

Messages::Counters Messages::counters() const { return impl_->counters(); }

}  // namespace farside::comm
