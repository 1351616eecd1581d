#include "tests/node/door_probe.h"

#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>

#include "farside/base/error.h"

#include "node/door_client.h"
#include "node/door_packet.h"

namespace farside::test {

namespace {

constexpr std::chrono::seconds kTimeout(60);

template <class Reply>
std::optional<Reply> receive(const Fd& socket, std::vector<Fd>* fds = nullptr) {
  Reply reply{};
  auto packet = receive_packet(socket, std::as_writable_bytes(std::span(&reply, 1)));
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

DoorProbe::DoorProbe(const std::filesystem::path& socket) : socket_(connect_to_door(socket, kTimeout)) {
  if (!socket_) throw errno_error("connect to", socket);
}

bool DoorProbe::send(std::span<const std::byte> packet, std::span<const Fd> fds) {
  return send_packet(socket_, packet, fds);
}

bool DoorProbe::send(const door::Request& request, std::span<const Fd> fds) {
  return send(std::as_bytes(std::span(&request, 1)), fds);
}

std::optional<door::Reply> DoorProbe::ask(const door::Request& request, std::span<const Fd> fds) {
  if (!send(request, fds)) return std::nullopt;
  return receive<door::Reply>(socket_);
}

bool DoorProbe::closed() {
  std::byte nothing{};
  const auto packet = receive_packet(socket_, std::span(&nothing, 1));
  return packet && packet->bytes == 0;
}

door::Request DoorProbe::request(door::RequestKind kind, const BlockKey& key) {
  return {.magic = door::kMagic, .version = door::kVersion, .kind = kind, .zero = 0, .key = key};
}

std::optional<FileIdentity> DoorProbe::identify(const Fd& file) {
  const auto reply = ask(request(door::RequestKind::identify), std::span(&file, 1));
  if (!reply || reply->answer != door::Answer::here) return std::nullopt;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw errno_error("look at", "a file");
  return FileIdentity{.file_system = reply->file_system,
                      .inode = status.st_ino,
                      .bytes = static_cast<std::uint64_t>(status.st_size),
                      .modified_ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec,
                      .changed_ns = status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec};
}

std::optional<door::Reply> DoorProbe::acquire(const Fd& file, const BlockKey& key) {
  return ask(request(door::RequestKind::acquire, key), std::span(&file, 1));
}

std::optional<std::string> DoorProbe::read_block(const Fd& file, std::uint64_t index) {
  const auto identity = identify(file);
  if (!identity) return std::nullopt;
  const BlockKey key{*identity, index};
  map();
  for (;;) {
    const auto reply = acquire(file, key);
    if (!reply || reply->answer != door::Answer::here) return std::nullopt;
    if (auto bytes = copy(*reply, key)) return bytes;  // else it was recycled meanwhile: ask again
  }
}

std::optional<std::string> DoorProbe::read_file(const std::filesystem::path& path) {
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

void DoorProbe::map() {
  if (slots_.base() != nullptr) return;
  send(request(door::RequestKind::map));
  std::vector<Fd> fds;
  const auto reply = receive<door::MapReply>(socket_, &fds);
  if (!reply || fds.size() != 2) throw std::runtime_error("the node gave no mapping");
  layout_ = *reply;
  slots_ = Mapping(fds.front(), layout_.slots_file_bytes, Mapping::Access::read_only);
}

std::optional<std::string> DoorProbe::copy(const door::Reply& at, const BlockKey& key) const {
  const std::byte* const slot = slots_.base() + layout_.slots_offset + at.slot * slot_stride(layout_.block_bytes);
  const auto token = [slot] {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(slot + offsetof(SlotHeader, token)),
                           __ATOMIC_ACQUIRE);
  };
  if (token() != at.token) return std::nullopt;
  BlockLabel label{};
  std::memcpy(&label, slot + offsetof(SlotHeader, key), sizeof label);
  std::string bytes(std::min(label.bytes, layout_.block_bytes), '\0');
  std::memcpy(bytes.data(), slot + sizeof(SlotHeader), bytes.size());
  __sync_synchronize();  // the bytes were loaded before the token is looked at again
  if (token() != at.token) return std::nullopt;
  if (label.key != key) throw std::runtime_error("the node gave the place of another block");
  return bytes;
}

}  // namespace farside::test
