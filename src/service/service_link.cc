#include "service/service_link.h"

#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

#include "farside/base/log.h"

#include "service/time_limits.h"

namespace farside::service {

namespace {

constexpr std::uint32_t kNoRank = 0;  // clients have none to claim

}  // namespace

ServiceLink::ServiceLink(const net::Introduced& what, const net::Secret& secret, net::SetupClock::time_point deadline)
    : ServiceLink(what, net::introduce(what, secret, kNoRank, kServiceBodyLimit, deadline)) {}

ServiceLink::ServiceLink(net::Introduced what, net::Acquaintance met)
    : what_(std::move(what)), socket_(std::move(met.socket)), session_(met.session), welcome_(std::move(met.first)) {
  net::keep_alive(socket_);
}

void ServiceLink::send(const std::string& message, net::SetupClock::time_point deadline) {
  net::write_all(socket_, session_.seal(net::FrameKind::service, message), deadline);
}

std::string ServiceLink::receive(net::SetupClock::time_point deadline) {
  net::Frame frame = welcome_ ? std::move(*std::exchange(welcome_, std::nullopt))
                              : net::read_frame(socket_, what_, session_, kServiceBodyLimit, deadline);
  if (frame.kind != net::FrameKind::service) {
    throw Error({what_.tried, what_.address, "it is another service", "check the address"});
  }
  return std::move(frame.fields);
}

void ServiceLink::try_to_send(const std::string& message) noexcept {
  try {
    send(message, net::SetupClock::now() + service::time_limits::kFarewell);
  } catch (const std::exception& error) {  // it is gone already
    log::debug(error.what());
  }
}

Error ServiceLink::failure(const std::string& why) const {
  return Error({what_.tried, what_.address, why, "see farside status"});
}

void ServiceLink::hang_up() const noexcept { (void)::shutdown(socket_.get(), SHUT_RDWR); }

void ServiceLink::watch(net::EventLoop& loop, const std::function<void()>& ended) const {
  loop.post([&loop, descriptor = socket_.get(), ended] {
    loop.watch(descriptor, EPOLLRDHUP, [&loop, descriptor, ended](std::uint32_t) {
      ended();
      loop.forget(descriptor);
    });
  });
}

bool may_answer_later(const Error& error, net::SetupClock::time_point end) {
  return net::SetupClock::now() >= end || dynamic_cast<const net::ClosedError*>(&error) != nullptr;
}

ServiceHello ServiceHello::of(Fabric& fabric, bool remote_peers) {
  return {.version = FARSIDE_VERSION,
          .mode = fabric_mode_from_environment(),
          .remote_peers = remote_peers,
          .fabric = fabric.address()};
}

void ServiceHello::expect_compatible(const net::Introduced& what) const {
  if (version != FARSIDE_VERSION) {
    throw Error({what.tried, what.address, "it uses farside " + version + " and this program " + FARSIDE_VERSION,
                 "install one version everywhere"});
  }
  if (mode != fabric_mode_from_environment()) {
    throw Error({what.tried, what.address, "its FARSIDE_FABRIC is another than this program's",
                 "set FARSIDE_FABRIC alike for the pool and its clients"});
  }
}

void ServiceHello::encode(Encoder& out) const { out.text(version).choice(mode).choice(remote_peers).text(fabric); }

ServiceHello ServiceHello::decode(Decoder& in) {
  ServiceHello hello;
  hello.version = in.text();
  hello.mode = in.choice(FabricMode::ucx);
  hello.remote_peers = in.flag();
  hello.fabric = in.text();
  return hello;
}

}  // namespace farside::service
