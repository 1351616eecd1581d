#include "net/local_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::net {

sockaddr_un local_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Error({"use the socket", path,
                 "its path is longer than " + std::to_string(sizeof address.sun_path - 1) + " bytes",
                 "set FARSIDE_RUNTIME_DIR to a shorter path"});
  }
  path.copy(address.sun_path, path.size());
  return address;
}

void listen_for_this_user(const Fd& socket, const std::string& path) {
  const sockaddr_un address = local_address(path);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    throw errno_error("listen on", path);
  }
}

bool is_of_this_user(const Fd& connection) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  return peer.uid == ::geteuid();
}

}  // namespace farside::net
