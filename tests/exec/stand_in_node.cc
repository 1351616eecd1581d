// A node's socket without a node: slots, an index and a board in memory files, and blocks read from the descriptor that
// comes with a request. One thread and few lines: what it does to a program is plain, and plain to make go wrong.
//
//   stand_in_node SOCKET BLOCK_BYTES SLOTS [busy]
//
// Given fewer slots than the blocks in use, it recycles them all the time. Signals kill and stop it. A busy one has no
// time for any block, and prints a line each time that it says so.
#include <atomic>
#include <bit>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"
#include "farside/cache/node_socket.h"

namespace farside::cache_preload {
namespace {

namespace node_socket = cache::node_socket;

cache::FileIdentity identity_of(const Fd& file) {
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) throw errno_error("look at", "a program's file");
  const auto in_ns = [](const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; };
  return {.file_system = found.st_dev,
          .inode = found.st_ino,
          .bytes = static_cast<std::uint64_t>(found.st_size),
          .modified_ns = in_ns(found.st_mtim),
          .changed_ns = in_ns(found.st_ctim)};
}

node_socket::Reply answer(node_socket::Answer what, std::uint64_t slot = 0, std::uint64_t token = 0,
                          std::uint64_t file_system = 0) {
  return {what, 0, slot, token, file_system};
}

class Slots {
 public:
  Slots(std::uint64_t block_bytes, std::uint64_t count, bool is_busy)
      : is_busy_(is_busy),
        layout_{.answer = node_socket::Answer::here,
                .rank = 0,
                .block_bytes = block_bytes,
                .slot_count = count,
                .slots_file_bytes =
                    count * cache::slot_stride(block_bytes) + std::bit_ceil(count) * sizeof(cache::IndexBucket),
                .slots_offset = 0,
                .index_offset = count * cache::slot_stride(block_bytes),
                .index_buckets = std::bit_ceil(count),
                .board_bytes = node_socket::board_bytes(count)},
        file_(make_memfd("slots", layout_.slots_file_bytes)),
        board_file_(make_memfd("board", layout_.board_bytes)),
        memory_(file_, layout_.slots_file_bytes, Mapping::Access::read_write),
        board_(board_file_, layout_.board_bytes, Mapping::Access::read_only) {}

  [[nodiscard]] const node_socket::MapReply& layout() const { return layout_; }
  [[nodiscard]] std::vector<int> files() const { return {file_.get(), board_file_.get()}; }

  node_socket::Reply acquire(const cache::BlockKey& key, const Fd& file) {
    if (is_busy_) {
      std::cout << "busy" << std::endl;
      return answer(node_socket::Answer::busy);
    }
    if (identity_of(file) != key.file) return answer(node_socket::Answer::around);
    if (const auto known = find(key)) return *known;
    const std::uint64_t number = next_++ % layout_.slot_count;
    std::byte* const start = slot(number);
    cache::SlotHeader& header = *reinterpret_cast<cache::SlotHeader*>(start);
    unindex(header.block_id.bits, number);
    store(header.token, 0);
    const auto wanted = std::min(layout_.block_bytes, key.file.bytes - key.index * layout_.block_bytes);
    const ssize_t got =
        ::pread(file.get(), start + sizeof header, wanted, static_cast<off_t>(key.index * layout_.block_bytes));
    if (got != static_cast<ssize_t>(wanted) || identity_of(file) != key.file)
      return answer(node_socket::Answer::around);
    const cache::BlockLabel label{key, wanted, 0};
    std::memcpy(&header.key, &label, sizeof label);
    store(header.token, next_);
    store(header.block_id, cache::block_id(key));
    index(cache::block_id(key), number);
    loaded_bytes_ += wanted;
    return answer(node_socket::Answer::here, number, next_);
  }

  [[nodiscard]] node_socket::StatusReply status() const {
    node_socket::StatusReply reply{};
    reply.answer = node_socket::Answer::here;
    for (const auto& stripe :
         std::span(reinterpret_cast<const node_socket::HitStripe*>(board_.base()), node_socket::kStripes)) {
      reply.hits_local += stripe.hits;
      reply.hit_bytes_local += stripe.bytes;
      reply.mappings += stripe.mappings;
      reply.mapped_bytes += stripe.mapped_bytes;
      reply.direct += stripe.direct;
      reply.writable += stripe.writable;
      reply.fresh += stripe.fresh;
    }
    reply.blocks_from_files = next_;
    reply.bytes_from_files = loaded_bytes_;
    return reply;
  }

 private:
  static void store(ControlWord& word, std::uint64_t bits) {
    std::atomic_ref(word.bits).store(bits, std::memory_order_seq_cst);
  }
  [[nodiscard]] std::span<ControlWord> bucket(cache::BlockId id) const {
    auto* const buckets = reinterpret_cast<cache::IndexBucket*>(memory_.base() + layout_.index_offset);
    return buckets[id & (layout_.index_buckets - 1)].words;
  }
  [[nodiscard]] std::byte* slot(std::uint64_t number) const {
    return memory_.base() + number * cache::slot_stride(layout_.block_bytes);
  }
  [[nodiscard]] std::optional<node_socket::Reply> find(const cache::BlockKey& key) const {
    for (const ControlWord& word : bucket(cache::block_id(key))) {
      const std::uint64_t number = (word.bits & cache::kIndexSlotMask) - 1;
      if (word.bits == 0 || word.bits != cache::index_word(cache::block_id(key), number)) continue;
      const cache::SlotHeader& header = *reinterpret_cast<const cache::SlotHeader*>(slot(number));
      if (std::memcmp(&header.key, &key, sizeof key) == 0)
        return answer(node_socket::Answer::here, number, header.token.bits);
    }
    return std::nullopt;
  }
  void index(cache::BlockId id, std::uint64_t number) {
    for (ControlWord& word : bucket(id)) {
      if (word.bits == 0) return store(word, cache::index_word(id, number));
    }
    store(bucket(id).front(), cache::index_word(id, number));
  }
  void unindex(cache::BlockId id, std::uint64_t number) {
    for (ControlWord& word : bucket(id)) {
      if (word.bits == cache::index_word(id, number)) store(word, 0);
    }
  }

  const bool is_busy_;
  node_socket::MapReply layout_;
  Fd file_;
  Fd board_file_;
  Mapping memory_;
  Mapping board_;
  std::uint64_t next_ = 0;
  std::uint64_t loaded_bytes_ = 0;
};

template <class Reply>
bool send(int socket, const Reply& reply, const std::vector<int>& files = {}) {
  alignas(cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = {};
  iovec part{const_cast<Reply*>(&reply), sizeof reply};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    *header = {CMSG_LEN(files.size() * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(header), files.data(), files.size() * sizeof(int));
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof reply;
}

// Answers one request; false when the connection is over.
bool serve(Slots& slots, const Fd& client) {
  node_socket::Request request{};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&request, sizeof request};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  if (::recvmsg(client.get(), &message, MSG_CMSG_CLOEXEC) != sizeof request) return false;
  Fd file;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof received);
    file = Fd(received);
  }
  switch (request.kind) {
    case node_socket::RequestKind::map: return send(client.get(), slots.layout(), slots.files());
    case node_socket::RequestKind::identify:
      return send(client.get(), answer(node_socket::Answer::here, 0, 0, identity_of(file).file_system));
    case node_socket::RequestKind::acquire: return send(client.get(), slots.acquire(request.key, file));
    case node_socket::RequestKind::status: return send(client.get(), slots.status());
  }
  return false;
}

Fd listen_on(const std::string& path) {
  Fd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), 128) != 0) {
    throw errno_error("listen on", path);
  }
  return listener;
}

[[noreturn]] void serve_all(Slots& slots, const Fd& listener) {
  std::vector<Fd> clients;
  while (true) {
    std::vector<pollfd> waiting{{listener.get(), POLLIN, 0}};
    for (const Fd& client : clients) waiting.push_back({client.get(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), -1);
    for (std::size_t i = clients.size(); i > 0; --i) {
      if (waiting[i].revents != 0 && !serve(slots, clients[i - 1]))
        clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(i - 1));
    }
    if (waiting[0].revents != 0) clients.emplace_back(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
}

}  // namespace
}  // namespace farside::cache_preload

int main(int count, char** words) try {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // goes with the test, however that ends
  const std::vector<std::string> arguments(words + 1, words + count);
  farside::cache_preload::Slots slots(std::stoull(arguments.at(1)), std::stoull(arguments.at(2)), arguments.size() > 3);
  const farside::Fd listener = farside::cache_preload::listen_on(arguments.at(0));
  farside::cache_preload::serve_all(slots, listener);
} catch (const std::exception& error) {
  std::cerr << "stand_in_node: " << error.what() << '\n';
  return EXIT_FAILURE;
}
