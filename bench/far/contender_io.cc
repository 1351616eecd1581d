// Random reads and writes, one after the other, of a target's first BYTES. Arguments: BYTES and the target (target.h).
#include <cstdlib>
#include <random>

#include "bench/far/target.h"
#include "bench/harness/contend.h"
#include "bench/harness/work.h"

namespace farside::bench {
namespace {

constexpr std::uint64_t kLargestBytes = 4 << 20;
constexpr std::uint64_t kPieceBytes = 128 << 10;  ///< the most that many a block device takes at once
constexpr std::size_t kAlignment = 4096;          // of direct reads

/// Memory that requests are read into and written from.
class Buffer {
 public:
  Buffer() : memory_(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kLargestBytes)), &std::free) {
    for (std::size_t i = 0; i < kLargestBytes; ++i) memory_.get()[i] = static_cast<std::byte>(i * 131 >> 7U);
  }
  [[nodiscard]] std::span<std::byte> first(std::uint64_t bytes) const { return {memory_.get(), bytes}; }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
};

void run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::uint64_t all_bytes = std::stoull(words.at(0));
  const auto target = make_target(std::span(words).subspan(1), all_bytes);
  const Buffer buffer;
  for (std::uint64_t offset = 0; offset < all_bytes; offset += kLargestBytes) {
    target->write(buffer.first(kLargestBytes), offset);
  }

  std::mt19937_64 dice(1);
  const auto somewhere = [&](std::uint64_t bytes) { return dice() % (all_bytes / bytes) * bytes; };
  Work work;
  work.alone("read", [&](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) target->read(buffer.first(bytes), somewhere(bytes));
  });
  work.alone("write", [&](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) target->write(buffer.first(bytes), somewhere(bytes));
  });
  work.alone("read_in_pieces", [&](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) {
      const std::uint64_t offset = somewhere(bytes);
      for (std::uint64_t at = 0; at < bytes; at += kPieceBytes) {
        target->read(buffer.first(kPieceBytes), offset + at);
      }
    }
  });
  work.answer_questions([](const Command&) {});
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::contend([&] { farside::bench::run(argc, argv); });
}
