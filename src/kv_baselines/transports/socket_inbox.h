// socket_inbox.h — a server's clients over TCP.
//
// Thread safety: one thread at a time.
#pragma once

#include <string>
#include <unordered_map>

#include "farside/base/fd.h"
#include "farside/fabric/fabric.h"

#include "kv_baselines/transports/served_stream.h"

namespace farside::kv_baselines {

class SocketInbox final : public kv::Inbox {
 public:
  /// Listens on `address` ("127.0.0.1:0": the kernel chooses a port). Throws Error.
  SocketInbox(const Fabric& fabric, const std::string& address);

  /// With the port that was chosen.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  bool serve(const Answer& answer, Duration pause) override;
  void release(const Revision& revision) override;

 private:
  struct Client {
    ServedStream stream;
    bool awaited_room = false;  ///< what the kernel was told to look for
  };

  void accept();
  void watch(int descriptor, Client& client);

  const Fabric& fabric_;
  Fd listener_;
  std::string address_;
  Fd epoll_;
  std::unordered_map<int, Client> clients_;  // by descriptor
};

}  // namespace farside::kv_baselines
