#include "kv/service/server_link.h"

#include "farside/base/log.h"

namespace farside::kv {

namespace {

constexpr auto kCloseLimit = std::chrono::seconds(1);
constexpr Duration kReadLimit = std::chrono::seconds(10);

}  // namespace

Secret kv_secret(const Secret& pool) { return pool.for_purpose("farside kv"); }

ServerLink::ServerLink(const std::string& address, const Secret& secret, SetupClock::time_point deadline)
    : link_({"reach the key-value server at", address}, secret, kLinkBodyLimit, deadline),
      welcome_(decode_welcome(receive(LinkKind::welcome, deadline))) {
  welcome_.greeting.expect_compatible(link_.what());
}

ServerLink::~ServerLink() {
  if (fabric_ != nullptr && !lost()) fabric_->mark_lost(welcome_.self);
}

void ServerLink::join(Fabric& fabric, SetupClock::time_point deadline) {
  fabric.connect(welcome_.self, welcome_.greeting.fabric);
  fabric_ = &fabric;
  memory_region_ = fabric.attach(welcome_.self, welcome_.memory);
  bells_ = fabric.attach(welcome_.self, welcome_.bells);
  const std::lock_guard lock(mutex_);
  link_.send(encode_join(fabric.address()), deadline);
  (void)receive(LinkKind::joined, deadline);
  memory_ = read_head(*memory_region_);
}

ServerMemory ServerLink::read_head(const RemoteRegion& memory) const {
  const auto read = ServerMemory::read(*fabric_->open_channel(), memory, fabric_->in(kReadLimit));
  if (!read) throw failure("its memory cannot be read");
  return *read;
}

void ServerLink::watch(EventLoop& loop, const std::shared_ptr<ServerLink>& link) {
  link->link_.watch(loop, [link] {
    link->fabric_->mark_lost(link->welcome_.self);
    link->lost_.store(true, std::memory_order_release);
  });
}

ServerLink::Mailbox ServerLink::open(const Region& rings, std::uint64_t offset, Waking waking,
                                     SetupClock::time_point deadline) {
  Opened opened;
  {
    const std::lock_guard lock(mutex_);
    link_.send(OpenRequest{rings.handle(), offset, waking}.encode(), deadline);
    for (++late_; late_ != 0; --late_) {
      if (opened.mailbox != 0) link_.send(encode_close(opened.mailbox), deadline);
      opened = decode_opened(receive(LinkKind::opened, deadline));
    }
  }
  Mailbox mailbox{opened.mailbox, fabric_->attach(welcome_.self, opened.ring), {}};
  mailbox.end = {.own = &rings,
                 .own_offset = offset,
                 .other = mailbox.ring.get(),
                 .other_offset = 0,
                 .by_memory = fabric_->reaches_by_memory(welcome_.self),
                 .bell = bells_->word<AtomicWord>(0)};
  return mailbox;
}

void ServerLink::close(std::uint64_t mailbox) noexcept {
  if (lost()) return;
  try {
    const std::lock_guard lock(mutex_);
    link_.send(encode_close(mailbox), SetupClock::now() + kCloseLimit);
  } catch (const std::exception& error) {  // it ends with the socket at the latest
    log::debug(error.what());
  }
}

std::string ServerLink::receive(LinkKind wanted, SetupClock::time_point deadline) {
  std::string message = link_.receive(deadline);
  const LinkKind kind = kind_of(message);
  if (kind == wanted) return message;
  throw failure(kind == LinkKind::refused ? decode_text(message) : "it answers something else");
}

Error ServerLink::failure(const std::string& why) const {
  return Error({link_.what().tried, link_.what().address, why, "see farside status"});
}

}  // namespace farside::kv
