#include "bench/gas/farside/transfers.h"

#include <algorithm>
#include <vector>

namespace farside::bench {

namespace {

constexpr std::uint64_t kSmallestPage = 64;
constexpr unsigned kOffsetBits = 40;  // of an answer; the rest is the question's number

gas::PagesOptions one_page(const GasSeat& seat, std::uint64_t bytes) {
  return {.pages = seat.size(),
          .page_bytes = std::max(bytes, kSmallestPage),
          .first_owner = [last = seat.last()](gas::PageId /*page*/) { return last; }};
}

}  // namespace

Transfers::Sized::Sized(GasSeat& seat, std::uint64_t bytes)
    : pages(*seat.team, "page of " + std::to_string(bytes), one_page(seat, bytes)),
      access(pages),
      stranger(pages),
      for_handlers(pages) {}

Transfers::Transfers(GasSeat& seat)
    : seat_(seat),
      answers_(seat.team->allocate("answers", 8)),
      handlers_channel_(seat.comm.open_channel()),
      messages_(seat.comm, {[this](comm::Messages::Call& call) { answer(call); }}) {
  for (const std::uint64_t bytes : kSizes) {
    Sized& sized = sized_.try_emplace(bytes, seat, bytes).first->second;
    if (seat.rank() == seat.last()) check(sized.access.put(whole(bytes), seat.deadline()), "the first put");
    sized.place = locate(sized.stranger).bytes;
  }
  seat.meet();
}

void Transfers::offer(Work& work) {
  work.alone("get", [this](std::uint64_t bytes, std::uint64_t rounds) { get(bytes, rounds); });
  work.alone("get-by-message", [this](std::uint64_t bytes, std::uint64_t rounds) { get_by_message(bytes, rounds); });
  work.alone("get-by-lookup", [this](std::uint64_t bytes, std::uint64_t rounds) { get_by_lookup(bytes, rounds); });
  work.alone("put", [this](std::uint64_t bytes, std::uint64_t rounds) { put(bytes, rounds); });
  work.alone("read", [this](std::uint64_t bytes, std::uint64_t rounds) { read(bytes, rounds); });
  work.alone("write", [this](std::uint64_t bytes, std::uint64_t rounds) { write(bytes, rounds); });
}

gas::PagePlace Transfers::locate(gas::PageAccess& access) const {
  const auto places = access.locate({&kPage, 1}, seat_.deadline());
  check(places.status, "locating a page");
  return places.value.front();
}

void Transfers::get(std::uint64_t bytes, std::uint64_t rounds) {
  gas::PageAccess& access = sized_.at(bytes).access;
  const Deadline deadline = seat_.deadline();
  const gas::PagePart part = whole(bytes);
  for (; rounds != 0; --rounds) check(access.get(part, deadline), "get");
}

void Transfers::put(std::uint64_t bytes, std::uint64_t rounds) {
  gas::PageAccess& access = sized_.at(bytes).access;
  const Deadline deadline = seat_.deadline();
  const gas::PagePart part = whole(bytes);
  for (; rounds != 0; --rounds) check(access.put(part, deadline), "put");
}

void Transfers::read(std::uint64_t bytes, std::uint64_t rounds) {
  const RemoteSpan from{sized_.at(bytes).place.region, sized_.at(bytes).place.offset, bytes};
  const Deadline deadline = seat_.deadline();
  const LocalSpan into(buffer_->bytes.data(), bytes);
  for (; rounds != 0; --rounds) check(seat_.channel->read(into, from, deadline), "READ");
}

void Transfers::write(std::uint64_t bytes, std::uint64_t rounds) {
  const RemoteSpan to{sized_.at(bytes).place.region, sized_.at(bytes).place.offset, bytes};
  const Deadline deadline = seat_.deadline();
  const LocalSpan from(buffer_->bytes.data(), bytes);
  for (; rounds != 0; --rounds) {
    check(seat_.channel->write(to, from, deadline), "WRITE");
    check(seat_.channel->flush(seat_.last(), deadline), "flush");
  }
}

// By one-sided operations, without remembering anything: the entry, the bytes, and the entry again, which shows whether
// the page was there all the time.
void Transfers::get_by_lookup(std::uint64_t bytes, std::uint64_t rounds) {
  gas::PageAccess& stranger = sized_.at(bytes).stranger;
  const Deadline deadline = seat_.deadline();
  const LocalSpan into(buffer_->bytes.data(), bytes);
  for (; rounds != 0; --rounds) {
    const gas::PagePlace before = locate(stranger);
    check(seat_.channel->read(into, {before.bytes.region, before.bytes.offset, bytes}, deadline), "READ");
    check(locate(stranger).version == before.version, "a page that stays");
  }
}

// As the paper's system did before it had a cache: the home is asked each time. Its answer is one WRITE of a word,
// which spares the requester's service thread, so this is the best that such a system can do here.
void Transfers::get_by_message(std::uint64_t bytes, std::uint64_t rounds) {
  const RemoteSpan place = sized_.at(bytes).place;
  const Deadline deadline = seat_.deadline();
  const LocalSpan into(buffer_->bytes.data(), bytes);
  const LocalWord<ControlWord> answer = answers_->local().word<ControlWord>(0);
  for (; rounds != 0; --rounds) {
    ++questions_;
    check(messages_.send(*seat_.channel, kHome, {.words = {bytes, questions_}}, deadline), "asking the home");
    const auto is_mine = [this](std::uint64_t word) { return word >> kOffsetBits == questions_; };
    check(seat_.channel->wait_until(answers_->local(), answer, is_mine, deadline), "an answer of the home");
    const std::uint64_t offset = answer.load() & ((std::uint64_t{1} << kOffsetBits) - 1);
    check(seat_.channel->read(into, {place.region, offset, bytes}, deadline), "READ");
  }
}

void Transfers::answer(comm::Messages::Call& call) {
  const auto [bytes, question, a, b, c] = call.words();
  const std::uint64_t offset = locate(sized_.at(bytes).for_handlers).bytes.offset;
  const RemoteWord<ControlWord> word = answers_->of(call.source()).word<ControlWord>(0);
  static_cast<void>(seat_.comm.notify(*handlers_channel_, comm::SetWord{word, question << kOffsetBits | offset}));
}

}  // namespace farside::bench
