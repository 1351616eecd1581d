#include "net/listener.h"

#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "net/socket.h"

namespace farside::net {

namespace {

Fd listen_alone_on(const std::string& address) {
  if (!is_host_local(address)) return listen_on(address);
  struct stat old {};
  const bool is_socket = ::lstat(address.c_str(), &old) == 0 && S_ISSOCK(old.st_mode);
  if (is_socket && ::unlink(address.c_str()) != 0 && errno != ENOENT) {
    throw errno_error("remove the old socket", address);
  }
  return listen_on(address);
}

}  // namespace

// A failure after the first constructor leaves no name behind.
Listener::Listener(std::string address) : Listener(std::move(address), Fd()) {
  socket_ = listen_alone_on(address_);
  address_ = bound_address(socket_, address_);
}

Listener::~Listener() {
  if (is_host_local(address_)) ::unlink(address_.c_str());
}

}  // namespace farside::net
