#include "kv/service/server_link.h"

#include <sys/epoll.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

namespace farside::kv {

namespace {

// Claims of kv's clients name no rank.
constexpr std::uint32_t kNoRank = 0;
constexpr auto kCloseLimit = std::chrono::seconds(1);
constexpr Duration kReadLimit = std::chrono::seconds(10);

}  // namespace

Secret kv_secret(const Secret& pool) { return pool.for_purpose("farside kv"); }

ServerLink::ServerLink(const std::string& address, const Secret& secret, SetupClock::time_point deadline)
    : what_{"reach the key-value server at", address},
      socket_(connect_to(address, deadline)),
      session_(introduce(socket_, what_, secret, kNoRank, kLinkBodyLimit, deadline)),
      welcome_(decode_welcome(receive(LinkKind::welcome, deadline))) {
  keep_alive(socket_);
  expect_compatible();
}

ServerLink::~ServerLink() {
  if (fabric_ != nullptr && !lost()) fabric_->mark_lost(welcome_.self);
}

void ServerLink::expect_compatible() const {
  if (welcome_.version != FARSIDE_VERSION) {
    throw Error({what_.tried, what_.address,
                 "it uses farside " + welcome_.version + " and this program " + FARSIDE_VERSION,
                 "install one version everywhere"});
  }
  if (welcome_.mode != fabric_mode_from_environment()) {
    throw Error({what_.tried, what_.address, "its FARSIDE_FABRIC is another than this program's",
                 "set FARSIDE_FABRIC alike for the pool and its clients"});
  }
}

void ServerLink::join(Fabric& fabric, SetupClock::time_point deadline) {
  fabric.connect(welcome_.self, welcome_.fabric);
  fabric_ = &fabric;
  memory_region_ = fabric.attach(welcome_.self, welcome_.memory);
  bells_ = fabric.attach(welcome_.self, welcome_.bells);
  const std::lock_guard lock(mutex_);
  send(encode_join(fabric.address()), deadline);
  (void)receive(LinkKind::joined, deadline);
  memory_ = read_head(*memory_region_);
}

ServerMemory ServerLink::read_head(const RemoteRegion& memory) const {
  const auto read = ServerMemory::read(*fabric_->open_channel(), memory, fabric_->in(kReadLimit));
  if (!read) throw Error({what_.tried, what_.address, "its memory cannot be read", "see farside status"});
  return *read;
}

// Nothing comes on the socket but answers, for which whoever asked waits; so it is watched for its end alone. The loop
// keeps the link until then: a descriptor stays open until it is forgotten.
void ServerLink::watch(EventLoop& loop, const std::shared_ptr<ServerLink>& link) {
  loop.post([&loop, link] {
    const int descriptor = link->socket_.get();
    loop.watch(descriptor, EPOLLRDHUP, [&loop, link, descriptor](std::uint32_t) {
      link->fabric_->mark_lost(link->welcome_.self);
      link->lost_.store(true, std::memory_order_release);
      loop.forget(descriptor);
    });
  });
}

ServerLink::Mailbox ServerLink::open(const Region& rings, std::uint64_t offset, Waking waking,
                                     SetupClock::time_point deadline) {
  Opened opened;
  {
    const std::lock_guard lock(mutex_);
    send(OpenRequest{rings.handle(), offset, waking}.encode(), deadline);
    for (++late_; late_ != 0; --late_) {
      if (opened.mailbox != 0) send(encode_close(opened.mailbox), deadline);
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
    send(encode_close(mailbox), SetupClock::now() + kCloseLimit);
  } catch (const std::exception& error) {  // it ends with the socket at the latest
    log::debug(error.what());
  }
}

void ServerLink::send(const std::string& message, SetupClock::time_point deadline) {
  write_all(socket_, session_.seal(FrameKind::service, message), deadline);
}

std::string ServerLink::receive(SetupClock::time_point deadline) {
  Frame frame = read_frame(socket_, what_, session_, kLinkBodyLimit, deadline);
  if (frame.kind != FrameKind::service) {
    throw Error({what_.tried, what_.address, "it is another service", "check the address"});
  }
  if (kind_of(frame.fields) == LinkKind::refused)
    throw Error({what_.tried, what_.address, decode_text(frame.fields), ""});
  return std::move(frame.fields);
}

std::string ServerLink::receive(LinkKind wanted, SetupClock::time_point deadline) {
  std::string message = receive(deadline);
  if (kind_of(message) != wanted) throw Error({what_.tried, what_.address, "it answers something else", ""});
  return message;
}

}  // namespace farside::kv
