// A node answers a program (cache_preload/node_client.h) with any bytes and any descriptors. The program takes a reply
// of the right size with at most two descriptors, and no other one, and keeps no descriptor, whatever comes.
//
// Input: each reply: its kind (1 byte), 0 mod 3: how many bytes (1), the bytes; 1: the description of a node's memory,
// how many slots it has (1); 2: an answer about a block: what (1), its slot (1). Then how many descriptors come with it
// (1), and for each its number in NodeFiles (1). The first one answers the question for the memory. Then the node ends.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farside/base/fd.h"

#include "cache_preload/node_client.cc"  // whose state begins anew with each input
#include "tests/fuzz/input.h"
#include "tests/fuzz/node_files.h"
#include "tests/fuzz/scratch_directory.h"

namespace farside::cache_preload::process {

bool is_ours() { return true; }
void warn(const char* /*what*/, const char* /*on*/, int /*error*/) {}

}  // namespace farside::cache_preload::process

namespace farside::fuzz {
namespace {

namespace node = cache_preload::node;
namespace node_socket = cache::node_socket;

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kMaxSlots = 8;
constexpr std::uint64_t kBuckets = 8;
constexpr std::uint64_t kIndexOffset = kMaxSlots * cache::slot_stride(kBlockBytes);
constexpr std::uint64_t kSlotsBytes = kIndexOffset + kBuckets * sizeof(cache::IndexBucket);
constexpr std::size_t kMaxDescriptors = 7;
constexpr std::size_t kTaken = 2;  // descriptors of a reply, at most

struct Reply {
  std::vector<std::byte> bytes;
  std::vector<int> descriptors;
  bool describes_memory = false;

  template <class Body>
  [[nodiscard]] bool fits() const {
    return bytes.size() == sizeof(Body) && descriptors.size() <= kTaken;
  }
};

class NodeFiles {
 public:
  [[nodiscard]] std::array<int, 3> all() const { return {slots_.get(), board_.get(), nothing_.get()}; }

 private:
  const Fd slots_ = make_memfd(kNodeFileName, kSlotsBytes);
  const Fd board_ = make_memfd(kNodeFileName, node_socket::board_bytes(kMaxSlots));
  const Fd nothing_{::open("/dev/null", O_RDWR | O_CLOEXEC)};
};

template <class Body>
std::vector<std::byte> bytes_of(const Body& body) {
  const auto bytes = std::as_bytes(std::span(&body, 1));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> description(std::uint64_t slots) {
  return bytes_of(node_socket::MapReply{.answer = node_socket::Answer::here,
                                        .rank = 0,
                                        .block_bytes = kBlockBytes,
                                        .slot_count = slots,
                                        .slots_file_bytes = kSlotsBytes,
                                        .slots_offset = 0,
                                        .index_offset = kIndexOffset,
                                        .index_buckets = kBuckets,
                                        .board_bytes = node_socket::board_bytes(slots)});
}

Reply next_reply(Input& input, const NodeFiles& files) {
  Reply reply;
  switch (input.byte() % 3) {
    case 0: {
      const auto bytes = input.bytes(input.byte());
      reply.bytes.assign(bytes.begin(), bytes.end());
      break;
    }
    case 1:
      reply.bytes = description(1 + input.byte() % kMaxSlots);
      reply.describes_memory = true;
      break;
    default: {
      const auto answer = static_cast<node_socket::Answer>(input.byte());
      reply.bytes = bytes_of(node_socket::Reply{answer, 0, input.byte(), 1, 2});
    }
  }
  const std::size_t descriptors = input.byte() % (kMaxDescriptors + 1);
  for (std::size_t i = 0; i < descriptors; ++i) reply.descriptors.push_back(files.all().at(input.byte() % 3));
  return reply;
}

/// The node's end of the one connection that the program has. What it answers has come before it is asked.
class NodeEnd {
 public:
  NodeEnd() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
    own_ = Fd(ends[0]);
    node::give_back({ends[1], node::inode_of(ends[1])});
  }
  ~NodeEnd() { node::forget_connections(); }
  NodeEnd(const NodeEnd&) = delete;
  NodeEnd& operator=(const NodeEnd&) = delete;

  /// False: no more has room.
  bool send(const Reply& reply) {
    SocketPacket<kMaxDescriptors> packet(std::span<const std::byte>(reply.bytes), reply.descriptors);
    return ::sendmsg(own_.get(), packet.message(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  }
  void end() { ::shutdown(own_.get(), SHUT_WR); }

 private:
  Fd own_;
};

void must(bool holds) {
  if (!holds) std::abort();
}

/// As a program does, until a reply is not taken.
void ask_for_each(const std::vector<Reply>& replies, const NodeFiles& files) {
  const auto [slots, board, nothing] = files.all();
  if (replies.empty()) return must(node::memory() == nullptr);
  const Reply& first = replies.front();
  const bool is_good = first.describes_memory && first.descriptors == std::vector{slots, board};
  const bool is_mapped = node::memory() != nullptr;
  must(is_mapped ? first.fits<node_socket::MapReply>() : !is_good);
  bool goes_on = is_mapped;
  for (std::size_t i = 1; goes_on && i <= replies.size(); ++i) {
    node_socket::Reply taken{};
    const auto kind = i % 2 == 0 ? node_socket::RequestKind::acquire : node_socket::RequestKind::identify;
    goes_on = node::ask(kind, {}, nothing, taken);
    must(goes_on == (i < replies.size() && replies[i].fits<node_socket::Reply>()));
    must(!goes_on || std::memcmp(&taken, replies[i].bytes.data(), sizeof taken) == 0);
  }
}

void forget_node() {
  if (const auto* memory = node::mapped.exchange(nullptr)) {
    ::munmap(const_cast<cache_preload::HostMemory*>(memory), sizeof *memory);
  }
  unmap_node_files();
  node::look_at_ns = 0;
  node::pause_ns = 0;
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  static const fuzz::NodeFiles files;
  static const fuzz::ScratchDirectory directory;
  static const bool is_named = (fuzz::node::name((directory.path() + "/node.sock").c_str()), true);
  fuzz::must(is_named);
  const std::ptrdiff_t before = fuzz::open_descriptors();
  fuzz::Input input(std::as_bytes(std::span(data, size)));
  {
    fuzz::NodeEnd node;
    std::vector<fuzz::Reply> replies;
    while (!input.is_over()) {
      fuzz::Reply reply = fuzz::next_reply(input, files);
      if (!node.send(reply)) break;
      replies.push_back(std::move(reply));
    }
    node.end();
    fuzz::ask_for_each(replies, files);
  }
  fuzz::forget_node();
  fuzz::must(fuzz::open_descriptors() == before);
  return 0;
}
