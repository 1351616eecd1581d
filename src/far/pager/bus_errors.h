// bus_errors.h — SIGBUS of the whole process, shared out among those whose memory it is.
//
// A process has one handler for a signal, so this is global: the one place of farside that must be.
#pragma once

#include <cstddef>

#include <sys/types.h>

namespace farside::far {

class BusErrorServer {
 public:
  virtual ~BusErrorServer() = default;
  [[nodiscard]] virtual bool owns(const void* address) const = 0;
  /// In the thread that faulted, which tries again afterwards.
  virtual void serve_bus_error(void* address, bool is_write) = 0;
};

/// While it lives, `server` is asked about each SIGBUS. A SIGBUS at an address that no server owns goes to the handler
/// that was there before.
class BusErrorRegistration {
 public:
  /// Throws Error when there are too many.
  explicit BusErrorRegistration(BusErrorServer& server);
  ~BusErrorRegistration();
  BusErrorRegistration(const BusErrorRegistration&) = delete;
  BusErrorRegistration& operator=(const BusErrorRegistration&) = delete;

 private:
  const pid_t process_;
  std::size_t place_;
};

/// Whether this thread would be told of a fault, rather than killed.
[[nodiscard]] bool lets_bus_errors_through();

}  // namespace farside::far
