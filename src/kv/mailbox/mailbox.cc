#include "kv/mailbox/mailbox.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"

namespace farside::kv {

class MailboxRequests::Connection {
 public:
  Connection(Fabric& fabric, Channel& channel, const MailboxEnd& end, const MailboxShape& shape, Waking waking,
             const MailboxRules& rules)
      : fabric_(fabric),
        channel_(channel),
        shape_(shape),
        waking_(waking),
        sender_(fabric, channel, end, shape, bell_of(channel, end, waking), rules),
        receiver_(end, shape, rules) {}

  Outcome send(std::span<const std::byte> request, Deadline deadline);
  Result<Message> receive(Deadline deadline);
  Outcome await(Deadline deadline);
  [[nodiscard]] bool has_reply();

 private:
  /// The expected answer to a parcel.
  enum class Awaited : std::uint8_t { go_on, reply, rest_of_reply };
  struct Unanswered {
    Message reply;
    std::uint64_t rest = 0;
    bool begun = false;
    bool skipped = false;  ///< no caller waits for it any more

    [[nodiscard]] bool is_partial() const { return begun && rest > 0; }
    [[nodiscard]] bool is_whole() const { return begun && rest == 0; }
  };

  static MailboxSender::Ring bell_of(Channel& channel, const MailboxEnd& end, Waking waking) {
    if (waking == Waking::polled) return {};
    if (!end.bell) throw UsageError({"wake a server", end.other->name(), "no bell is known", "poll, or name its bell"});
    return [&channel, bell = *end.bell](std::uint64_t, Deadline deadline) {
      return channel.add_signal(bell, 1, deadline).status;
    };
  }

  Outcome post(const ParcelHead& head, std::span<const std::byte> piece, Awaited awaited, Deadline deadline);
  Outcome make_room(Deadline deadline);
  Outcome advance(Deadline deadline);
  Outcome fetch_rest(Deadline deadline);
  [[nodiscard]] bool accept(Awaited awaited, const Parcel& parcel);
  void forget_skipped();
  template <class Holds>
  [[nodiscard]] Unanswered* find(Holds holds) {
    const auto found = std::ranges::find_if(replies_, holds);
    return found == replies_.end() ? nullptr : &*found;
  }
  [[nodiscard]] Unanswered* find_partial() { return find(&Unanswered::is_partial); }
  [[nodiscard]] Unanswered* find_oldest() {
    return find([](const Unanswered& each) { return !each.skipped; });
  }

  Fabric& fabric_;
  Channel& channel_;
  const MailboxShape shape_;
  const Waking waking_;
  MailboxSender sender_;
  MailboxReceiver receiver_;
  std::deque<Awaited> parcels_;     ///< sent, and not answered
  std::deque<Unanswered> replies_;  ///< in the order of the requests
  bool fetching_ = false;
  bool broken_ = false;  ///< what came made no sense
};

// ---- Out

Outcome MailboxRequests::Connection::send(std::span<const std::byte> request, Deadline deadline) {
  for (std::size_t sent = 0;;) {
    if (const Outcome room = make_room(deadline); room != Outcome::done) return room;
    const auto piece = request.subspan(sent, std::min<std::size_t>(request.size() - sent, shape_.piece_bytes()));
    const ParcelHead head{sent == 0 ? ParcelHead::Kind::begin : ParcelHead::Kind::go_on,
                          request.size() - sent - piece.size()};
    sent += piece.size();
    if (head.rest == 0) return post(head, piece, Awaited::reply, deadline);
    if (const Outcome posted = post(head, piece, Awaited::go_on, deadline); posted != Outcome::done) return posted;
    while (!parcels_.empty()) {
      if (const Outcome answered = advance(deadline); answered != Outcome::done) return answered;
    }
  }
}

Outcome MailboxRequests::Connection::post(const ParcelHead& head, std::span<const std::byte> piece, Awaited awaited,
                                          Deadline deadline) {
  if (broken_) return Outcome::peer_lost;
  if (const Outcome ready = sender_.make_ready(deadline); ready != Outcome::done) return ready;
  assert_that(parcels_.size() < shape_.slots, "what was in a slot is answered before the slot is used again");
  parcels_.push_back(awaited);
  if (awaited == Awaited::reply) replies_.emplace_back();
  if (awaited == Awaited::rest_of_reply) fetching_ = true;
  const Outcome sent = sender_.send(head, piece, deadline);
  if (sent != Outcome::done && awaited == Awaited::reply) replies_.back().skipped = true;
  return sent;
}

// While a reply is partial nothing but its rest is asked for, so that a server never keeps more than a ring of them.
Outcome MailboxRequests::Connection::make_room(Deadline deadline) {
  while (parcels_.size() == shape_.slots || find_partial() != nullptr) {
    if (const Outcome advanced = advance(deadline); advanced != Outcome::done) return advanced;
  }
  return Outcome::done;
}

// ---- In

Result<Message> MailboxRequests::Connection::receive(Deadline deadline) {
  if (find_oldest() == nullptr) {
    throw UsageError({"receive a reply", "a mailbox", "no request is unanswered", "send one"});
  }
  if (const Outcome came = await(deadline); came != Outcome::done) {
    find_oldest()->skipped = true;
    return {came, {}};
  }
  Message reply = std::move(find_oldest()->reply);
  find_oldest()->skipped = true;
  forget_skipped();
  return {Outcome::done, std::move(reply)};
}

Outcome MailboxRequests::Connection::await(Deadline deadline) {
  assert_that(find_oldest() != nullptr, "a reply is waited for when a request is unanswered");
  while (!find_oldest()->is_whole()) {
    if (const Outcome advanced = advance(deadline); advanced != Outcome::done) return advanced;
  }
  return Outcome::done;
}

bool MailboxRequests::Connection::has_reply() {
  while (find_oldest() != nullptr && !find_oldest()->is_whole()) {
    const Outcome advanced = advance({fabric_.now()});
    if (advanced != Outcome::done) return advanced == Outcome::peer_lost;
  }
  return find_oldest() != nullptr;
}

/// Takes one parcel.
Outcome MailboxRequests::Connection::advance(Deadline deadline) {
  if (broken_) return Outcome::peer_lost;
  if (const Outcome ready = sender_.make_ready(deadline); ready != Outcome::done) return ready;
  if (const Outcome fetched = fetch_rest(deadline); fetched != Outcome::done) return fetched;
  const auto parcel = receiver_.await(fabric_, channel_, waking_, deadline);
  if (!parcel.done()) return parcel.status;
  assert_that(!parcels_.empty(), "a parcel is taken when one was sent that is not answered");
  const Awaited awaited = parcels_.front();
  parcels_.pop_front();
  broken_ = !accept(awaited, parcel.value);
  forget_skipped();
  return broken_ ? Outcome::peer_lost : Outcome::done;
}

Outcome MailboxRequests::Connection::fetch_rest(Deadline deadline) {
  if (fetching_ || find_partial() == nullptr) return Outcome::done;
  return post({ParcelHead::Kind::fetch, 0}, {}, Awaited::rest_of_reply, deadline);
}

// False when no server would send that.
bool MailboxRequests::Connection::accept(Awaited awaited, const Parcel& parcel) {
  const auto [head, piece] = parcel;
  if (awaited == Awaited::go_on) return head.kind == ParcelHead::Kind::go_on && piece.empty() && head.rest == 0;
  if (awaited == Awaited::reply) {
    Unanswered* const begins = find([](const Unanswered& each) { return !each.begun; });
    assert_that(begins != nullptr, "each reply that is awaited has a request whose reply has not begun");
    if (head.kind != ParcelHead::Kind::begin || head.rest > kMaxMessageBytes - piece.size()) return false;
    begins->begun = true;
    begins->rest = head.rest;
    begins->reply.assign(piece.begin(), piece.end());
    return true;
  }
  Unanswered* const oldest = find_partial();
  assert_that(oldest != nullptr, "the rest of a reply is asked for while the reply is partial");
  Unanswered& partial = *oldest;
  fetching_ = false;
  if (head.kind != ParcelHead::Kind::go_on || piece.empty() || head.rest != partial.rest - piece.size()) return false;
  partial.reply.insert(partial.reply.end(), piece.begin(), piece.end());
  partial.rest = head.rest;
  return true;
}

void MailboxRequests::Connection::forget_skipped() {
  std::erase_if(replies_, [](const Unanswered& each) { return each.skipped && each.is_whole(); });
}

// ---- All servers

MailboxRequests::MailboxRequests(Fabric& fabric, Channel& channel, const std::vector<MailboxEnd>& servers,
                                 const MailboxShape& shape, Waking waking, const MailboxRules& rules)
    : fabric_(fabric), channel_(channel), shape_(shape), waking_(waking), rules_(rules) {
  for (const MailboxEnd& server : servers) connections_.push_back(connect(server));
}

std::unique_ptr<MailboxRequests::Connection> MailboxRequests::connect(const MailboxEnd& end) {
  return std::make_unique<Connection>(fabric_, channel_, end, shape_, waking_, rules_);
}

void MailboxRequests::replace(ServerNumber server, const MailboxEnd& end) { connections_.at(server) = connect(end); }

MailboxRequests::~MailboxRequests() = default;

Outcome MailboxRequests::send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) {
  check_request_bytes(server, request.size());
  return connections_.at(server)->send(request, deadline);
}

Result<Message> MailboxRequests::receive(ServerNumber server, Deadline deadline) {
  return connections_.at(server)->receive(deadline);
}

bool MailboxRequests::has_reply(ServerNumber server) { return connections_.at(server)->has_reply(); }

Outcome MailboxRequests::await(ServerNumber server, Deadline deadline) {
  return connections_.at(server)->await(deadline);
}

}  // namespace farside::kv
