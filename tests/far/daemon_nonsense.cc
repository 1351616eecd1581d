// A program that joins as it should, and then says to the daemon whatever comes to its mind: packets of all kinds, with
// its token or another, of ranges that are its own, of no program, and no ranges at all, with descriptors or without,
// on as many connections as it likes. How it ends is its own affair.
//
//   far_daemon_nonsense SOCKET PAGES SEED
#include <cstdlib>
#include <random>
#include <string>

#include <poll.h>

#include "tests/far/daemon_client.h"

namespace farside::far::client {
namespace {

constexpr unsigned kMaxSeconds = 20;
constexpr unsigned kConnections = 24;

class Talker {
 public:
  Talker(const char* path, std::size_t pages, std::uint64_t seed)
      : path_(path), memory_(path), tokens_{memory_.token()}, pages_(pages), random_(seed) {
    void* const place =
        ::mmap(nullptr, pages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) give_up("mmap");
    spare_ = {reinterpret_cast<std::uint64_t>(place), pages * kPageBytes};
  }

  void touch() {
    for (std::size_t page = 0; page < pages_; ++page) memory_.word(page, 0) = page + 1;
  }

  /// Some packets on a connection of their own, to all of which an answer may come or not.
  void talk() {
    DaemonPacket answer{};
    const int socket = connect_to_daemon(path_, answer);
    for (std::uint64_t packets = below(5); packets != 0; --packets) {
      const DaemonPacket packet = any_packet();
      say(socket, packet, below(4) == 0 ? below(sizeof packet) : DaemonPacket::bytes(packet.count % 65));
      pollfd wait{socket, POLLIN, 0};
      if (below(2) == 0 || ::poll(&wait, 1, 20) <= 0 || !receive(socket, answer)) continue;
      if (answer.kind == DaemonPacketKind::joined) tokens_.push_back(answer.value);
    }
    ::close(socket);
  }

 private:
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  [[nodiscard]] DaemonPacket any_packet() {
    DaemonPacket packet =
        packet_of(static_cast<DaemonPacketKind>(below(16)), below(8) == 0 ? random_() : tokens_[below(tokens_.size())]);
    if (below(16) == 0) packet.version = static_cast<std::uint32_t>(random_());
    packet.extra = below(4) == 0 ? random_() : below(7);
    packet.count = below(8) == 0 ? random_() : below(4);
    for (AddressRange& range : packet.ranges) range = any_range();
    return packet;
  }

  [[nodiscard]] AddressRange any_range() {
    const AddressRange& arena = memory_.arena();
    switch (below(8)) {
      case 0: return arena;
      case 1: return {random_(), random_()};
      case 2: return {random_() / kPageBytes * kPageBytes, random_() / kPageBytes * kPageBytes};
      case 3: return {arena.address + arena.bytes - kPageBytes, below(8) * kPageBytes};
      case 4:
      case 5: return spare_;
      default: return {arena.address + below(pages_) * kPageBytes, below(16) * kPageBytes};
    }
  }

  void say(int socket, const DaemonPacket& packet, std::size_t bytes) {
    iovec data{const_cast<DaemonPacket*>(&packet), bytes};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> control{};
    std::vector<int> descriptors;
    for (std::uint64_t count = below(3) == 0 ? 1 + below(3) : 0; count != 0; --count) {
      descriptors.push_back(below(2) == 0 ? open_userfaultfd() : ::open("/dev/zero", O_RDWR | O_CLOEXEC));
    }
    if (!descriptors.empty()) {
      const std::size_t size = descriptors.size() * sizeof(int);
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(size);
      cmsghdr* const part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(size);
      std::memcpy(CMSG_DATA(part), descriptors.data(), size);
    }
    (void)!::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (const int descriptor : descriptors) ::close(descriptor);
  }

  const char* path_;
  FarMemory memory_;
  std::vector<std::uint64_t> tokens_;  ///< of this process, which joins anew with other memory
  AddressRange spare_{};
  std::size_t pages_;
  std::mt19937_64 random_;
};

}  // namespace
}  // namespace farside::far::client

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  using farside::far::client::kConnections;
  ::alarm(farside::far::client::kMaxSeconds);
  farside::far::client::Talker talker(argv[1], std::strtoull(argv[2], nullptr, 10),
                                      std::strtoull(argv[3], nullptr, 10));
  talker.touch();
  for (unsigned i = 0; i < kConnections; ++i) talker.talk();
  std::_Exit(0);
}
