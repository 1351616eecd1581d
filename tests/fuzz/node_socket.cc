// A program sends packets to its node's socket (node/socket_server.h): any bytes, and requests of any kind with any
// fields, with any descriptors. It is answered or disconnected, and the next program is answered.
//
// Input: each packet: its kind (1 byte), 0 mod 3: how many bytes (1), the bytes; 1: a request, its kind (1), and a key,
// whose fields are a byte each; 2: a request to bring a block of a file, its number (1), with the file's true key. Then
// how many descriptors come with it (1), and for each its number in Node::files_ (1).
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farside/cache/cache.h"

#include "net/runtime_dir.h"
#include "node/socket_client.h"
#include "node/socket_packet.h"
#include "node/socket_server.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scratch_directory.h"
#include "tests/support/in_process_team.h"

namespace farside::fuzz {
namespace {

namespace node_socket = cache::node_socket;

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kSlots = 8;
constexpr std::uint64_t kFileBytes = 2 * kBlock + 96;
constexpr std::size_t kMaxFds = 8;  // more than the node takes
constexpr auto kTimeout = std::chrono::seconds(20);

/// More descriptors than send_packet sends.
bool send(const Fd& socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg reads only
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

class Node {
 public:
  Node() {
    write_bytes(directory_.path() / "file", std::vector<std::byte>(kFileBytes));
    const std::string file = directory_.path() / "file";
    files_[0] = Fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    files_[1] = Fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    files_[2] = Fd(::open(file.c_str(), O_PATH | O_CLOEXEC));
    files_[3] = Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    key_.file = node::FileSystems().identify(files_[0]).value_or(cache::FileIdentity{});
  }

  void serve_program(Input& input) {
    const Fd program = node::connect_to_node(path_, kTimeout);
    if (!program) std::abort();
    while (!input.is_over()) {
      const std::vector<std::byte> packet = next_packet(input);
      std::vector<int> with;
      for (std::uint64_t left = input.byte() % kMaxFds; left > 0; --left) {
        with.push_back(files_.at(input.byte() % files_.size()).get());
      }
      if (!send(program, packet, with) || !takes_reply(program)) break;
    }
    if (node::ask_status(path_, kTimeout).state != node::SocketStatus::State::answered) std::abort();
  }

 private:
  std::vector<std::byte> next_packet(Input& input) {
    const std::uint64_t kind = input.byte() % 3;
    if (kind == 0) {
      const auto bytes = input.bytes(input.byte());
      return {bytes.begin(), bytes.end()};
    }
    node_socket::Request request{.magic = node_socket::kMagic,
                                 .version = node_socket::kVersion,
                                 .kind = node_socket::RequestKind::acquire,
                                 .zero = 0,
                                 .key = key_};
    if (kind == 1) {
      request.kind = static_cast<node_socket::RequestKind>(input.byte());
      request.key = {{input.byte(), input.byte(), input.byte() * kBlock, static_cast<std::int64_t>(input.byte()),
                      static_cast<std::int64_t>(input.byte())},
                     input.byte()};
    } else {
      request.key.index = input.byte();
    }
    const auto bytes = std::as_bytes(std::span(&request, 1));
    return {bytes.begin(), bytes.end()};
  }

  /// False when the node has hung up.
  static bool takes_reply(const Fd& program) {
    std::array<std::byte, sizeof(node_socket::StatusReply) + 1> into{};
    const auto reply = node::receive_packet(program, into);
    if (!reply) std::abort();
    if (reply->bytes == 0) return false;
    node_socket::Answer answer{};
    std::memcpy(&answer, into.data(), sizeof answer);
    const bool is_known = answer >= node_socket::Answer::here && answer <= node_socket::Answer::busy;
    const bool is_reply = reply->bytes == sizeof(node_socket::Reply) || reply->bytes == sizeof(node_socket::MapReply) ||
                          reply->bytes == sizeof(node_socket::StatusReply);
    if (!reply->whole || !is_known || !is_reply) std::abort();
    return true;
  }

  const net::JobDir directory_;
  const std::string path_ = directory_.path() / "node.sock";
  std::array<Fd, 4> files_;
  cache::BlockKey key_{};
  std::unique_ptr<test::InProcessTeam> team_ = std::move(test::make_teams(1).front());
  cache::Cache cache_{*team_, {.cache_bytes = kSlots * kBlock, .block_bytes = kBlock}};
  const node::Board board_{kSlots};
  node::Prefaulter prefaulter_{cache_.region(), cache_.layout()};
  node::RequestHandler handler_{*team_, cache_, board_, prefaulter_};
  node::SocketServer server_{team_->fabric(), handler_, path_};
};

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static farside::fuzz::Node node;
  farside::fuzz::Input input(std::as_bytes(std::span(data, size)));
  node.serve_program(input);
  return 0;
}
