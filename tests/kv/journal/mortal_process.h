// mortal_process.h — what a server's process is made of in a test that ends it anywhere: a disk at each of whose calls
// it may die, and requests of one client.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <span>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "kv/protocol/inbox.h"
#include "kv/server/copy_on_disk.h"

namespace farside::kv::test {

/// A process ends here.
struct Died {};

/// A disk of a process that may end at each of its calls, before it takes effect or after.
class FatalDisk final : public CopyOnDisk {
 public:
  FatalDisk(CopyOnDisk& disk, std::function<void()> maybe_die) : disk_(disk), maybe_die_(std::move(maybe_die)) {}

  [[nodiscard]] std::uint64_t recover(Store& store) override {
    return between_deaths([&] { return disk_.recover(store); });
  }
  void prepare_to_copy(Store& store) override { disk_.prepare_to_copy(store); }
  [[nodiscard]] bool begin_copy(std::uint64_t store_number, std::uint64_t epoch) override {
    return between_deaths([&] { return disk_.begin_copy(store_number, epoch); });
  }
  void append(std::span<const std::byte> request) override { disk_.append(request); }
  void append_version(std::span<const std::byte> request) override { disk_.append_version(request); }
  void append_forgotten(const Store::Forgotten& forgotten) override { disk_.append_forgotten(forgotten); }
  [[nodiscard]] bool keep() override {
    return between_deaths([&] { return disk_.keep(); });
  }
  [[nodiscard]] CopyClaim claim() const override { return disk_.claim(); }
  [[nodiscard]] bool claim(CopyStanding standing, std::uint64_t epoch) override {
    return between_deaths([&] { return disk_.claim(standing, epoch); });
  }
  [[nodiscard]] bool takes() const override { return disk_.takes(); }
  [[nodiscard]] bool takes_erasures() const override { return disk_.takes_erasures(); }
  [[nodiscard]] MemoryUse with_state(MemoryUse use) const override { return disk_.with_state(use); }
  bool step() override { return disk_.step(); }

 private:
  template <class Call>
  std::invoke_result_t<Call> between_deaths(Call call) {
    maybe_die_();
    const auto result = call();
    maybe_die_();
    return result;
  }

  CopyOnDisk& disk_;
  const std::function<void()> maybe_die_;
};

/// One client's requests, and the replies.
class OneClient final : public Inbox {
 public:
  bool serve(const Answer& answer, Duration /*pause*/) override {
    if (requests_.empty()) return false;
    const Message request = std::move(requests_.front());
    requests_.pop_front();
    Said said = answer(request);
    (said.is_held ? held_ : replies_).push_back(std::move(said.reply));
    return true;
  }
  void release(const Revision& revision) override {
    for (Message& each : held_) replies_.push_back(revision(std::move(each)));
    held_.clear();
  }

  void ask(Message request) { requests_.push_back(std::move(request)); }
  [[nodiscard]] std::vector<Message> take_replies() { return std::exchange(replies_, {}); }

 private:
  std::deque<Message> requests_;
  std::vector<Message> held_;
  std::vector<Message> replies_;
};

/// What the process leaves, in which a thread of it may be removing a journal that was replaced.
inline void copy_directory(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (std::error_code error(1, std::generic_category()); error;) {
    std::filesystem::remove_all(to);
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
  }
}

}  // namespace farside::kv::test
