// kv_writer.h — a client of a key-value store at work, whose history is recorded: each put writes two keys that all
// clients write and one of its own, the same number to all of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "farside/kv/client.h"

#include "kv/history/recorder.h"

namespace farside::test {

class KvWriter {
 public:
  static constexpr unsigned kMaxWriters = 16;

  /// Of those that work at once each has a `number` of its own.
  KvWriter(unsigned number, const std::string& file, std::chrono::milliseconds time_out)
      : number_(number),
        client_(client_options(time_out)),
        session_(client_.open_session(session_options(number, time_out))),
        recorder_(file, number) {}

  void act(std::uint64_t round) {
    const std::uint64_t first = (round * 7 + number_) % kSharedKeys;
    const std::vector<std::uint64_t> keys{first, (first + 1 + round % 3) % kSharedKeys, own()};
    if (round % 2 == 0) {
      put(keys, round + 1);
    } else {
      (void)get(keys);
    }
  }
  /// All keys, after its work. False: it could not be read, or what was acknowledged is not there.
  [[nodiscard]] bool sees_what_was_acknowledged() {
    std::vector<std::uint64_t> keys{own()};
    for (std::uint64_t key = 0; key < kSharedKeys; ++key) keys.push_back(key);
    const auto found = get(keys);
    return found.size() == keys.size() && found.front() >= acknowledged_;
  }
  [[nodiscard]] std::uint64_t done() const { return done_.load(); }
  [[nodiscard]] std::uint64_t failed_gets() const { return failed_gets_.load(); }
  [[nodiscard]] std::chrono::milliseconds longest_wait() const { return longest_wait_; }

 private:
  static constexpr std::uint64_t kSharedKeys = 10;

  static kv::ClientOptions client_options(std::chrono::milliseconds time_out) {
    kv::ClientOptions options;
    options.time_out = time_out;
    return options;
  }
  static kv::SessionOptions session_options(unsigned number, std::chrono::milliseconds time_out) {
    kv::SessionOptions options;
    options.way = static_cast<kv::ReadWay>(number % 3);
    options.time_out = time_out;
    return options;
  }

  [[nodiscard]] std::uint64_t own() const { return kSharedKeys + number_; }
  static std::string name(std::uint64_t key) { return "key " + std::to_string(key); }

  template <class Call>
  auto timed(Call call) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = call();
    const auto took = std::chrono::steady_clock::now() - begin;
    longest_wait_ = std::max(longest_wait_, std::chrono::duration_cast<std::chrono::milliseconds>(took));
    return result;
  }
  void put(const std::vector<std::uint64_t>& keys, std::uint64_t round) {
    const std::uint64_t number = round * kMaxWriters + number_;  // never another's
    const std::string value = std::to_string(number);
    std::vector<std::string> names;
    std::vector<kv::Write> writes;
    names.reserve(keys.size());
    writes.reserve(keys.size());
    for (const std::uint64_t key : keys) names.push_back(name(key));
    for (const std::string& each : names) writes.push_back({.key = each, .value = value});
    const std::int64_t transaction = ++transaction_;
    for (const std::uint64_t key : keys) recorder_.write(transaction, key, number);
    const auto outcome = timed([&] { return session_->put_all(writes); });
    if (outcome == kv::PutOutcome::done) {
      acknowledged_ = number;
      ++done_;
    } else if (outcome == kv::PutOutcome::unknown) {
      recorder_.unknown(transaction);
    } else {
      recorder_.aborted(transaction);
    }
  }
  /// Empty when it failed.
  std::vector<std::uint64_t> get(const std::vector<std::uint64_t>& keys) {
    std::vector<std::string> names;
    names.reserve(keys.size());
    for (const std::uint64_t key : keys) names.push_back(name(key));
    const std::vector<std::string_view> views(names.begin(), names.end());
    const auto got = timed([&] { return session_->get_all(views); });
    if (!got.done()) {
      ++failed_gets_;
      return {};
    }
    const std::int64_t transaction = ++transaction_;
    std::vector<std::uint64_t> found;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const kv::Got& each = got.value[i];
      found.push_back(each.present ? std::stoull(std::string(each.value)) : 0);
      recorder_.read(transaction, keys[i], found.back());
    }
    ++done_;
    return found;
  }

  const unsigned number_;
  kv::Client client_;
  std::unique_ptr<kv::Session> session_;
  kv::HistoryRecorder recorder_;
  std::int64_t transaction_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<std::uint64_t> failed_gets_ = 0;
  std::chrono::milliseconds longest_wait_{};
};

}  // namespace farside::test
