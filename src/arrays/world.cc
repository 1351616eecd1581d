#include "farside/arrays/world.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/base/mix.h"
#include "farside/comm/barrier.h"

#include "arrays/arena.h"
#include "arrays/route.h"
#include "base/assert.h"
#include "comm/status.h"

namespace farside::arrays {

namespace {

using team::Rank;

// Operations of a sender that have words of their own at a receiver. Before a word is used again the sender waits for
// what it last sent under it, so that the order of its transfers does not matter.
constexpr std::uint64_t kWords = 64;

// A word names the operation (40 bits) and what its sender had done before (24).
constexpr unsigned kHistoryBits = 24;
std::uint64_t operation_in(std::uint64_t word) { return word >> kHistoryBits; }
std::uint64_t word_of(std::uint64_t operation, std::uint64_t history) {
  return operation << kHistoryBits | (history & ((1U << kHistoryBits) - 1));
}

// Shorter rows are packed where they can be: each row is an operation of its own on the network.
constexpr std::int64_t kRowBytes = 4096;

/// The cores of the host for each of its ranks.
unsigned default_threads(team::Team& team) {
  unsigned ranks = 0;
  for (Rank rank = 0; rank < team.size(); ++rank) ranks += team.fabric().reaches_by_memory(rank) ? 1 : 0;
  return std::max(1U, std::thread::hardware_concurrency() / std::max(1U, ranks));
}

}  // namespace

class World::Impl {
 public:
  Impl(team::Team& of, const WorldOptions& given)
      : team(of),
        options(given),
        threads(given.threads != 0 ? given.threads : default_threads(of)),
        comm(of),
        channel(comm.open_channel()),
        collectives(comm),
        barriers(comm),
        all_ranks(of.size()),
        sent(kWords) {
    words = of.allocate(comm.next_name("array words"), 8 * kWords * of.size());
    std::iota(all_ranks.begin(), all_ranks.end(), 0);
  }

  [[nodiscard]] comm::Status status_among(Outcome outcome) {
    return farside::comm::status_among(team, all_ranks, outcome);
  }

  [[nodiscard]] Deadline deadline() { return team.fabric().in(options.time_out); }

  [[noreturn]] void fail(const char* tried, const std::string& why, const std::string& remedy) {
    failed = true;
    throw Error({tried, "arrays of " + std::to_string(team.size()) + " ranks", why, remedy});
  }

  void expect(const comm::Status& status, const char* tried) {
    if (status.done()) return;
    if (status.outcome == Outcome::timed_out) {
      fail(tried, "timed out after " + std::to_string(options.time_out.count()) + " s waiting for the other ranks",
           "see whether all ranks do the same, or set a longer time_out");
    }
    if (status.outcome == Outcome::link_lost) fail(tried, "the connection to a rank broke", "start again");
    fail(tried, status.lost ? "rank " + std::to_string(*status.lost) + " is lost" : "a rank is lost", "start again");
  }

  [[noreturn]] void refuse_difference() {
    fail("go on", "ranks issued different operations", "have all call the same operations");
  }

  void pass_barrier() { expect(barriers.pass(*channel, deadline()), "meet at a barrier"); }

  /// For all that ranks must do alike; `what` tells it from others.
  std::uint64_t note(std::uint64_t what) { return history = mix(history ^ what); }

  std::uint64_t begin_barrier() {
    const comm::Barrier::Begun begun = barriers.begin(*channel, deadline());
    expect(begun.status, "begin a barrier");
    sent_before.push_back(std::exchange(sending, {}));
    return begun.number;
  }

  /// Barriers are waited for in order. Then what was sent before has left, too.
  void wait_for_barrier(std::uint64_t number) {
    expect(barriers.wait(*channel, number, deadline()), "meet at a barrier");
    assert_that(!sent_before.empty(), "a barrier under way has its record of what was sent before it");
    expect(comm.wait(*channel, sent_before.front(), deadline()), "send elements");
    sent_before.pop_front();
  }

  void grow(std::uint64_t bytes) { segments.push_back(team.allocate(comm.next_name("arrays"), bytes)); }

  Arena::Backing backing() {
    return {.grow = [this](std::uint64_t bytes) { grow(bytes); },
            .begin_barrier = [this] { return begin_barrier(); },
            .has_ended = [this](std::uint64_t number) { return barriers.ended(number); },
            .wait = [this](std::uint64_t number) { wait_for_barrier(number); }};
  }

  /// The word of operation `number` of `sender`, at its receivers.
  [[nodiscard]] std::uint64_t word_offset(Rank sender, std::uint64_t number) const {
    return 8 * (kWords * sender + number % kWords);
  }

  /// Bytes to send, until they have left.
  struct Buffer {
    comm::Request request;
    std::vector<std::byte> bytes;
  };

  /// A new one; what was sent under its word before has left.
  void begin_operation(std::uint64_t what);
  /// The parts, from `packed` or from memory that stays, and then the word of the operation.
  comm::Request put(std::vector<comm::Part> parts, std::vector<Buffer> packed, Rank to);
  /// The parts of a put of `piece`, whose elements have `element_bytes`.
  void add_parts(std::vector<comm::Part>& parts, const Piece& piece, std::size_t element_bytes, std::byte* from,
                 const RemoteRegion& there, std::uint64_t offset) const;
  /// The notice of the operation follows the pieces.
  comm::Request send(const std::vector<Piece>& to_send, std::size_t element_bytes, std::byte* from,
                     const RemoteRegion& there, std::uint64_t offset);
  void receive(Rank from, std::uint64_t word_to_come);

  team::Team& team;
  const WorldOptions options;
  const Threads threads;
  // Background work reads and writes these. After a failure no call waits for it, but it ends with `comm`.
  std::unique_ptr<team::SymmetricRegion> words;
  std::vector<std::unique_ptr<team::SymmetricRegion>> segments;
  std::deque<Buffer> buffers;
  comm::Comm comm;
  std::unique_ptr<Channel> channel;
  comm::Collectives collectives;
  comm::Barrier barriers;
  std::vector<Rank> all_ranks;
  std::vector<comm::Request> sent;        ///< by word: what was issued under it
  comm::Request sending;                  ///< what was issued since the last barrier
  std::deque<comm::Request> sent_before;  ///< each barrier under way, and after the one before
  std::uint64_t operation = 0;
  std::uint64_t history = 0;
  bool failed = false;  ///< an error was thrown that the other ranks may not have
  const int exceptions = std::uncaught_exceptions();
  Arena arena{{options.held_bytes, options.segment_bytes, options.strict}, backing()};
};

void World::Impl::add_parts(std::vector<comm::Part>& parts, const Piece& piece, std::size_t element_bytes,
                            std::byte* from, const RemoteRegion& there, std::uint64_t offset) const {
  const auto bytes = static_cast<std::int64_t>(element_bytes);
  const std::int64_t run = piece.run();
  const auto length = static_cast<std::uint64_t>(run * bytes);
  for (std::int64_t i = 0; i < piece.extents[0]; ++i) {
    for (std::int64_t j = 0; j < piece.extents[1]; ++j) {
      for (std::int64_t k = 0; k < piece.extents[2]; k += run) {
        const auto steps = [=](const Index& strides) { return i * strides[0] + j * strides[1] + k * strides[2]; };
        const std::int64_t source = (piece.from + steps(piece.from_strides)) * bytes;
        const std::int64_t target = (piece.to + steps(piece.to_strides)) * bytes;
        parts.push_back(
            {there.span(offset + static_cast<std::uint64_t>(target), length), LocalSpan(from + source, length)});
      }
    }
  }
}

comm::Request World::Impl::send(const std::vector<Piece>& to_send, std::size_t element_bytes, std::byte* from,
                                const RemoteRegion& there, std::uint64_t offset) {
  std::vector<comm::Part> parts;
  std::vector<Buffer> packed;
  for (const Piece& piece : to_send) {
    const bool short_rows = piece.run() * static_cast<std::int64_t>(element_bytes) < kRowBytes;
    const bool is_one_row = piece.run() == static_cast<std::int64_t>(piece.size());
    if (short_rows && !is_one_row && (piece.arrives_whole() || piece.from_strides[2] != 1)) {
      packed.push_back({{}, std::vector<std::byte>(piece.size() * element_bytes)});
      copy_elements(piece.packed(), element_bytes, from, packed.back().bytes.data(), threads);
      add_parts(parts, piece.unpacked(), element_bytes, packed.back().bytes.data(), there, offset);
    } else {
      add_parts(parts, piece, element_bytes, from, there, offset);
    }
  }
  return put(std::move(parts), std::move(packed), there.peer());
}

comm::Request World::Impl::put(std::vector<comm::Part> parts, std::vector<Buffer> packed, Rank to) {
  const auto word = words->of(to).word<ControlWord>(word_offset(team.rank(), operation));
  // First: once the put has begun nothing may fail, and free what it reads.
  const std::size_t first = buffers.size();
  std::ranges::move(packed, std::back_inserter(buffers));
  const comm::Request request = comm.put(*channel, std::move(parts), comm::SetWord{word, word_of(operation, history)});
  if (request.none()) return request;
  comm::Request& under_word = sent[operation % kWords];
  under_word = joined(under_word, request);
  sending = joined(sending, request);
  for (std::size_t at = first; at < buffers.size(); ++at) buffers[at].request = request;
  return request;
}

void World::Impl::begin_operation(std::uint64_t what) {
  if (options.strict) pass_barrier();
  note(what);
  ++operation;
  while (!buffers.empty() && comm.finished(buffers.front().request)) buffers.pop_front();
  comm::Request& last = sent[operation % kWords];
  expect(comm.wait(*channel, std::exchange(last, comm::Request{}), deadline()), "send elements");
}

void World::Impl::receive(Rank from, std::uint64_t word_to_come) {
  const std::uint64_t number = operation_in(word_to_come);
  const auto word = words->local().word<ControlWord>(word_offset(from, number));
  const auto has_come = [number](std::uint64_t seen) { return operation_in(seen) >= number; };
  const Outcome waited = channel->wait_until(words->local(), word, has_come, deadline(), all_ranks);
  expect(status_among(waited), "get elements from another rank");
  const std::uint64_t seen = word.load();
  if (operation_in(seen) == number && seen != word_to_come) refuse_difference();
}

// ---- Block

Block& Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  release();
  world_ = std::exchange(other.world_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  place_ = other.place_;
  sent_ = other.sent_;
  return *this;
}

void Block::release() noexcept {
  if (world_ == nullptr) return;
  world_->impl_->note(place_.bytes);
  world_->impl_->arena.give_back(place_);
  world_ = nullptr;
}

// ---- Transfer

void Transfer::end() {
  World::Impl& world = *world_->impl_;
  for (const Rank sender : senders_) world.receive(sender, word_);
  if (!senders_.empty()) world.channel->local_fence();
  if (world.options.strict) world.pass_barrier();
}

// ---- World

World::World(team::Team& team, const WorldOptions& options) : impl_(std::make_unique<Impl>(team, options)) {}

World::~World() {
  // No rank's memory goes while another rank may write to it. After a failure no rank is waited for.
  if (impl_->failed || std::uncaught_exceptions() > impl_->exceptions) return;
  try {
    impl_->expect(impl_->comm.wait(channel(), impl_->comm.issued(), deadline()), "finish");
    impl_->expect({impl_->team.barrier(deadline()), {}}, "leave together");
  } catch (const std::exception& error) {
    log::warn(error.what());
  } catch (...) {  // an operator of the program's
    log::warn("a reduction threw something that is no std::exception");
  }
}

Rank World::rank() const noexcept { return impl_->team.rank(); }
Rank World::size() const noexcept { return impl_->team.size(); }
comm::Comm& World::comm() noexcept { return impl_->comm; }
Channel& World::channel() noexcept { return *impl_->channel; }
const Threads& World::threads() const noexcept { return impl_->threads; }
MemoryUse World::memory() const { return impl_->arena.use(); }
Deadline World::deadline() const { return impl_->deadline(); }
comm::Collectives& World::collectives() { return impl_->collectives; }
std::uint64_t World::note(std::uint64_t what) { return impl_->note(what); }
void World::refuse_difference() { impl_->refuse_difference(); }
void World::expect(const comm::Status& status, const char* tried) { impl_->expect(status, tried); }

void World::barrier() {
  (void)all_reduce(false, [](bool, bool) { return false; });
}

Block World::allocate(std::uint64_t bytes) {
  impl_->note(bytes);
  Block block;
  block.place_ = impl_->arena.take(bytes);
  block.world_ = this;
  const Region& memory = impl_->segments[block.place_.segment]->local();
  block.data_ = memory.span(block.place_.offset, block.place_.bytes).adapter_data();
  return block;
}

void World::about_to_change(Block& block) {
  expect(impl_->comm.wait(channel(), std::exchange(block.sent_, comm::Request{}), deadline()), "send elements");
}

Transfer World::begin_transfer(const Layout& layout, Block& source, std::size_t element_bytes, const Wants& wants,
                               Block& destination, const Order& order) {
  Impl& impl = *impl_;
  impl.begin_operation(layout.capacity() * element_bytes);
  const team::SymmetricRegion& memory = *impl.segments[destination.place_.segment];
  for (Rank step = 1; step < size(); ++step) {  // not all to the same rank at once
    const Rank to = (rank() + step) % size();
    const std::vector<Piece> to_send = pieces(layout, rank(), wants(to), order);
    if (to_send.empty()) continue;
    const comm::Request request =
        impl.send(to_send, element_bytes, source.data(), memory.of(to), destination.place_.offset);
    source.sent_ = joined(source.sent_, request);
  }

  Transfer transfer;
  transfer.world_ = this;
  transfer.word_ = word_of(impl.operation, impl.history);
  const std::vector<Want> mine = wants(rank());
  for (const Piece& piece : pieces(layout, rank(), mine, order)) {
    copy_elements(piece, element_bytes, source.data(), destination.data(), impl.threads);
  }
  for (Rank from = 0; from < size(); ++from) {
    if (from != rank() && !pieces(layout, from, mine, order).empty()) transfer.senders_.push_back(from);
  }
  return transfer;
}

Transfer World::begin_letters(std::vector<Letter> letters, std::vector<Rank> senders, Block& destination) {
  Impl& impl = *impl_;
  impl.begin_operation(destination.place_.bytes);
  const team::SymmetricRegion& memory = *impl.segments[destination.place_.segment];
  for (Letter& letter : letters) {
    const LocalSpan bytes(letter.bytes.data(), letter.bytes.size());
    std::vector<comm::Part> parts = {
        {memory.of(letter.to).span(destination.place_.offset + letter.at, bytes.bytes()), bytes}};
    std::vector<Impl::Buffer> buffers;
    buffers.push_back({{}, std::move(letter.bytes)});  // its bytes stay where they are
    (void)impl.put(std::move(parts), std::move(buffers), letter.to);
  }
  Transfer transfer;
  transfer.world_ = this;
  transfer.word_ = word_of(impl.operation, impl.history);
  transfer.senders_ = std::move(senders);
  return transfer;
}

}  // namespace farside::arrays
