#include "kv/service/server_link.h"

#include <algorithm>

#include "base/assert.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

net::Secret kv_secret(const net::Secret& pool) { return pool.for_purpose("farside kv"); }

std::uint64_t identity_of(const Welcome& welcome) {
  return std::max<std::uint64_t>(key_id(welcome.hello.fabric + welcome.bells).high, Homes::kIsAlone + 1);
}

ServerLink::ServerLink(const std::string& address, const net::Secret& secret, net::SetupClock::time_point deadline)
    : link_({"reach the key-value server at", address}, secret, deadline),
      welcome_(decode_welcome(link_.receive(kLinkMessages, LinkKind::welcome, deadline))) {
  welcome_.hello.expect_compatible(link_.what());
}

ServerLink::~ServerLink() {
  if (fabric_ != nullptr && !lost()) mark_lost();
}

void ServerLink::join(Fabric& fabric, Channel& channel, bool is_told, net::SetupClock::time_point deadline) {
  assert_that(fabric_ == nullptr, "a link is joined once");
  fabric.connect(peer(), welcome_.hello.fabric);
  life_ = fabric.life(peer());
  fabric_ = &fabric;
  memory_region_ = fabric.attach(peer(), welcome_.memory);
  bells_ = fabric.attach(peer(), welcome_.bells);
  if (is_told) told_ = fabric.create_region("kv epoch", sizeof(ControlWord));
  const MutexLock lock(mutex_);
  link_.send(Join{fabric.address(), is_told ? told_->handle() : ""}.encode(), deadline);
  epoch_when_joined_ = kLinkMessages.number_of<std::uint64_t>(link_.receive(kLinkMessages, LinkKind::joined, deadline));
  memory_ = read_head(channel, deadline);
}

std::optional<std::uint64_t> ServerLink::serves_since() const {
  const std::uint64_t epoch = std::max(epoch_when_joined_, told_ == nullptr ? 0 : told().load());
  return epoch == 0 && welcome_.follows() ? std::nullopt : std::optional(epoch);
}

std::unique_ptr<RemoteRegion> ServerLink::ship(std::uint16_t incarnation, net::SetupClock::time_point deadline) {
  const MutexLock lock(mutex_);
  link_.send(encode_ship(incarnation), deadline);
  ring_ = kLinkMessages.text_of(link_.receive(kLinkMessages, LinkKind::shipping, deadline));
  return fabric_->attach(peer(), ring_);
}

// The standby is told nothing: its memory is as it was, and it lets this process in unless it has taken its place.
std::unique_ptr<RemoteRegion> ServerLink::ship_again(const Welcome& now) {
  if (identity_of(now) != identity()) throw constant_link().failure("another process than before answers there");
  fabric_->connect(peer(), welcome_.hello.fabric);
  life_ = fabric_->life(peer());
  auto bells = fabric_->attach(peer(), welcome_.bells);
  auto ring = fabric_->attach(peer(), ring_);
  bells_ = std::move(bells);  // only now is nothing used any more of what was attached before
  return ring;
}

Result<std::uint64_t> ServerLink::ask_alone(Channel& channel) const {
  return channel.load(alone(), fabric_->in(time_limits::kAskStanding));
}

bool ServerLink::ask_whether_gave_up(Channel& channel) {
  const Result<std::uint64_t> said =
      channel.load(bells_->word<ControlWord>(kGaveUp), fabric_->in(time_limits::kAskStanding));
  if (said.done()) gave_up_.store(said.value != 0, std::memory_order_release);
  return gave_up();
}

ServerMemory ServerLink::read_head(Channel& channel, net::SetupClock::time_point deadline) const {
  const auto left = std::chrono::duration_cast<Duration>(deadline - net::SetupClock::now());
  const auto read =
      ServerMemory::read(channel, *memory_region_, fabric_->in(std::clamp(left, Duration{}, time_limits::kReadHead)));
  if (!read) throw constant_link().failure("its memory cannot be read");
  return *read;
}

void ServerLink::watch(net::EventLoop& loop, const std::shared_ptr<ServerLink>& link) {
  link->constant_link().watch(loop, [link] {
    link->mark_lost();
    link->lost_.store(true, std::memory_order_release);
  });
}

ServerLink::Mailbox ServerLink::open(const Region& rings, std::uint64_t offset, Waking waking,
                                     net::SetupClock::time_point deadline) {
  assert_that(fabric_ != nullptr, "a link is joined before a mailbox is opened");
  Opened opened;
  {
    const MutexLock lock(mutex_);
    link_.send(OpenRequest{rings.handle(), offset, waking}.encode(), deadline);
    for (++late_; late_ != 0; --late_) {
      if (opened.mailbox != 0) link_.send(encode_close(opened.mailbox), deadline);
      opened = decode_opened(link_.receive(kLinkMessages, LinkKind::opened, deadline));
    }
  }
  Mailbox mailbox{opened.mailbox, fabric_->attach(peer(), opened.ring), {}};
  mailbox.end = {.own = &rings,
                 .own_offset = offset,
                 .other = mailbox.ring.get(),
                 .other_offset = 0,
                 .by_memory = fabric_->reaches_by_memory(peer()),
                 .bell = bell()};
  return mailbox;
}

void ServerLink::close(std::uint64_t mailbox) noexcept {
  if (!lost()) try_to_say(encode_close(mailbox));  // it ends with the socket at the latest
}

void ServerLink::leave() noexcept { try_to_say(encode_leave()); }

void ServerLink::try_to_say(const std::string& message) noexcept {
  const MutexLock lock(mutex_);
  link_.try_to_send(message);
}

}  // namespace farside::kv
