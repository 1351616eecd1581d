// 4 bytes of each cache line, first written, then read (figure 4).
#include <stdexcept>

#include "bench/far/kernels/kernel.h"
#include "bench/far/kernels/numbers.h"

namespace farside::bench {
namespace {

constexpr std::size_t kLine = 64 / sizeof(std::uint32_t);

class Lines final : public Kernel {
 public:
  Lines(Memory& memory, KernelSize size, bool reads)
      : words_(take<std::uint32_t>(memory, size.bytes / sizeof(std::uint32_t), Use::updated)), reads_(reads) {}

  void prepare() override {
    if (reads_) write();
  }
  void run() override {
    if (reads_) {
      sum_ = sum_of_lines();
    } else {
      write();
    }
  }
  [[nodiscard]] std::uint64_t checked() const override {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < words_.size(); i += kLine) sum += word_of(i);
    if ((reads_ ? sum_ : sum_of_lines()) != sum) throw std::runtime_error("what was written was not read");
    return sum;
  }
  [[nodiscard]] double operations() const override { return static_cast<double>(words_.size_bytes()); }

 private:
  static std::uint32_t word_of(std::size_t place) { return static_cast<std::uint32_t>(place) * 2654435761U + 1; }
  void write() {
    for (std::size_t i = 0; i < words_.size(); i += kLine) words_[i] = word_of(i);
  }
  [[nodiscard]] std::uint64_t sum_of_lines() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < words_.size(); i += kLine) sum += words_[i];
    return sum;
  }

  std::span<std::uint32_t> words_;
  bool reads_;
  std::uint64_t sum_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_write_lines(Memory& memory, KernelSize size) {
  return std::make_unique<Lines>(memory, size, false);
}
std::unique_ptr<Kernel> make_reread_lines(Memory& memory, KernelSize size) {
  return std::make_unique<Lines>(memory, size, true);
}

}  // namespace farside::bench
