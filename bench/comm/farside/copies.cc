#include "bench/comm/farside/copies.h"

namespace farside::bench {

namespace {

constexpr std::uint64_t kFlag = 0;
constexpr std::uint64_t kCount = 64;
constexpr std::uint64_t kData = 4096;

}  // namespace

Copies::Copies(CommSeat& seat) : seat_(seat), memory_(seat.team->allocate("copies", kData + kLargestBytes)) {}

template <class NoticeOfRound>
void Copies::put(std::uint64_t bytes, std::uint64_t rounds, NoticeOfRound notice) {
  const Deadline deadline = seat_.deadline();
  const LocalSpan from(seat_.source.data(), bytes);
  for (; rounds != 0; --rounds) {
    check(seat_.comm.wait(*seat_.channel, seat_.comm.put(*seat_.channel, target(bytes), from, notice()), deadline),
          "put");
  }
}

// Not waited for, but all in the end.
template <class NoticeOfRound>
void Copies::issue(std::uint64_t bytes, std::uint64_t rounds, NoticeOfRound notice) {
  const LocalSpan from(seat_.source.data(), bytes);
  for (; rounds != 0; --rounds) static_cast<void>(seat_.comm.put(*seat_.channel, target(bytes), from, notice()));
  check(seat_.comm.wait(*seat_.channel, seat_.comm.issued(), seat_.deadline()), "issue");
}

// The floor of a put: the same by the fabric, without comm.
void Copies::write_and_flush(std::uint64_t bytes, std::uint64_t rounds) {
  const Deadline deadline = seat_.deadline();
  const LocalSpan from(seat_.source.data(), bytes);
  for (; rounds != 0; --rounds) {
    check(comm::status_with(seat_.channel->write(target(bytes), from, deadline), 1), "write");
    check(comm::status_with(seat_.channel->flush(1, deadline), 1), "flush");
  }
}

template <class T>
void Copies::fetch_add(std::uint64_t rounds) {
  const Deadline deadline = seat_.deadline();
  for (; rounds != 0; --rounds) check(seat_.comm.fetch_add<T>(*seat_.channel, count(), 1, deadline).status, "add");
}

void Copies::offer(Work& work) {
  const auto nothing = [] { return comm::Notice{}; };
  const auto set = [this] { return comm::Notice(comm::SetWord{memory_->of(1).word<ControlWord>(kFlag), ++signals_}); };
  const auto add = [this] { return comm::Notice(comm::AddToWord{count(), 1}); };
  work.alone("put", [this, nothing](std::uint64_t bytes, std::uint64_t rounds) { put(bytes, rounds, nothing); });
  work.alone("put+signal", [this, set](std::uint64_t bytes, std::uint64_t rounds) { put(bytes, rounds, set); });
  work.alone("put+count", [this, add](std::uint64_t bytes, std::uint64_t rounds) { put(bytes, rounds, add); });
  work.alone("issue", [this, nothing](std::uint64_t bytes, std::uint64_t rounds) { issue(bytes, rounds, nothing); });
  work.alone("issue+count", [this, add](std::uint64_t bytes, std::uint64_t rounds) { issue(bytes, rounds, add); });
  work.alone("get", [this](std::uint64_t bytes, std::uint64_t rounds) { get(bytes, rounds); });
  work.alone("write+flush", [this](std::uint64_t bytes, std::uint64_t rounds) { write_and_flush(bytes, rounds); });
  work.alone("fetch_add", [this](std::uint64_t, std::uint64_t rounds) { fetch_add<std::uint64_t>(rounds); });
  work.alone("fetch_add_double", [this](std::uint64_t, std::uint64_t rounds) { fetch_add<double>(rounds); });
}

RemoteSpan Copies::target(std::uint64_t bytes) const { return memory_->of(1).span(kData, bytes); }

RemoteWord<AtomicWord> Copies::count() const { return memory_->of(1).word<AtomicWord>(kCount); }

void Copies::get(std::uint64_t bytes, std::uint64_t rounds) {
  const Deadline deadline = seat_.deadline();
  const LocalSpan into(seat_.source.data(), bytes);
  for (; rounds != 0; --rounds) {
    check(seat_.comm.wait(*seat_.channel, seat_.comm.get(*seat_.channel, into, target(bytes)), deadline), "get");
  }
}

}  // namespace farside::bench
