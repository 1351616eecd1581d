#include "tests/node/socket_probe.h"

#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>

#include "farside/base/error.h"

#include "node/socket_client.h"
#include "node/socket_packet.h"

namespace farside::test {

namespace {

namespace node_socket = cache::node_socket;

constexpr std::chrono::seconds kTimeout(60);

template <class Reply>
std::optional<Reply> receive(const Fd& socket, std::vector<Fd>* fds = nullptr) {
  Reply reply{};
  auto packet = node::receive_packet(socket, std::as_writable_bytes(std::span(&reply, 1)));
  if (!packet) throw std::runtime_error("the node did not answer");
  if (packet->bytes == 0) return std::nullopt;
  if (packet->bytes != sizeof reply) throw std::runtime_error("the node's answer has a wrong size");
  if (fds != nullptr) *fds = std::move(packet->fds);
  return reply;
}

}  // namespace

Fd open_file(const std::filesystem::path& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw errno_error("open", path);
  return file;
}

SocketProbe::SocketProbe(const std::filesystem::path& socket) : socket_(node::connect_to_node(socket, kTimeout)) {
  if (!socket_) throw errno_error("connect to", socket);
}

bool SocketProbe::send(std::span<const std::byte> packet, std::span<const Fd> fds) {
  return node::send_packet(socket_, packet, fds);
}

bool SocketProbe::send(const node_socket::Request& request, std::span<const Fd> fds) {
  return send(std::as_bytes(std::span(&request, 1)), fds);
}

std::optional<node_socket::Reply> SocketProbe::ask(const node_socket::Request& request, std::span<const Fd> fds) {
  if (!send(request, fds)) return std::nullopt;
  return receive<node_socket::Reply>(socket_);
}

bool SocketProbe::closed() {
  std::byte nothing{};
  const auto packet = node::receive_packet(socket_, std::span(&nothing, 1));
  return packet && packet->bytes == 0;
}

node_socket::Request SocketProbe::request(node_socket::RequestKind kind, const cache::BlockKey& key) {
  return {.magic = node_socket::kMagic, .version = node_socket::kVersion, .kind = kind, .zero = 0, .key = key};
}

std::optional<cache::FileIdentity> SocketProbe::identify(const Fd& file) {
  const auto reply = ask(request(node_socket::RequestKind::identify), std::span(&file, 1));
  if (!reply || reply->answer != node_socket::Answer::here) return std::nullopt;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw errno_error("look at", "a file");
  return cache::FileIdentity{.file_system = reply->file_system,
                             .inode = status.st_ino,
                             .bytes = static_cast<std::uint64_t>(status.st_size),
                             .modified_ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec,
                             .changed_ns = status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec};
}

std::optional<node_socket::Reply> SocketProbe::acquire(const Fd& file, const cache::BlockKey& key) {
  return ask(request(node_socket::RequestKind::acquire, key), std::span(&file, 1));
}

std::optional<std::string> SocketProbe::read_block(const Fd& file, std::uint64_t index) {
  const auto identity = identify(file);
  if (!identity) return std::nullopt;
  const cache::BlockKey key{*identity, index};
  map();
  for (;;) {
    const auto reply = acquire(file, key);
    if (!reply || reply->answer != node_socket::Answer::here) return std::nullopt;
    if (auto bytes = copy(*reply, key)) return bytes;  // else it was recycled meanwhile: ask again
  }
}

std::optional<std::string> SocketProbe::read_file(const std::filesystem::path& path) {
  const Fd file = open_file(path);
  map();
  std::string content;
  for (std::uint64_t index = 0; content.size() < std::filesystem::file_size(path); ++index) {
    const auto block = read_block(file, index);
    if (!block) return std::nullopt;
    content += *block;
  }
  return content;
}

void SocketProbe::map() {
  if (slots_.base() != nullptr) return;
  send(request(node_socket::RequestKind::map));
  std::vector<Fd> fds;
  const auto reply = receive<node_socket::MapReply>(socket_, &fds);
  if (!reply || fds.size() != 2) throw std::runtime_error("the node gave no mapping");
  layout_ = *reply;
  slots_ = Mapping(fds.front(), layout_.slots_file_bytes, Mapping::Access::read_only);
}

std::optional<std::string> SocketProbe::copy(const node_socket::Reply& at, const cache::BlockKey& key) const {
  const std::byte* const slot =
      slots_.base() + layout_.slots_offset + at.slot * cache::slot_stride(layout_.block_bytes);
  const auto token = [slot] {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(slot + offsetof(cache::SlotHeader, token)),
                           __ATOMIC_ACQUIRE);
  };
  if (token() != at.token) return std::nullopt;
  cache::BlockLabel label{};
  std::memcpy(&label, slot + offsetof(cache::SlotHeader, key), sizeof label);
  std::string bytes(std::min(label.bytes, layout_.block_bytes), '\0');
  std::memcpy(bytes.data(), slot + sizeof(cache::SlotHeader), bytes.size());
  __sync_synchronize();  // the bytes were loaded before the token is looked at again
  if (token() != at.token) return std::nullopt;
  if (label.key != key) throw std::runtime_error("the node gave the place of another block");
  return bytes;
}

}  // namespace farside::test
