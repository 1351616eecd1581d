#include "bench/kv/clients.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "bench/harness/statistics.h"
#include "bench/kv/workload.h"

namespace farside::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kLoadedAtOnce = 8;  // keys of a transaction

bool is_ycsb(const std::string& mix) { return mix.size() == 1 && mix[0] >= 'A'; }

Mix mix_of(const std::string& name) {
  return is_ycsb(name) ? ycsb(name[0]) : reads_of(static_cast<unsigned>(std::stoul(name)));
}

/// A table is known by its rows and the bytes of their values.
std::uint64_t table_of(const KvQuestion& question) { return question.rows << 32U | question.value_bytes; }

std::string_view text(const RowKey& key) { return {key.data(), key.size()}; }

/// Runs `work(thread)` in so many threads. The first exception is thrown again when all have ended.
template <class Work>
void in_threads(unsigned count, Work work) {
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::jthread> threads;
  for (unsigned thread = 0; thread < count; ++thread) {
    threads.emplace_back([&, thread] {
      try {
        work(thread);
      } catch (...) {
        failures[thread] = std::current_exception();
      }
    });
  }
  threads.clear();
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

/// One thread's part of a run.
class Worker {
 public:
  Worker(const KvQuestion& question, KvClient& client, unsigned thread)
      : question_(question),
        client_(client),
        workload_(mix_of(question.mix), question.rows, thread, question.threads),
        value_(question.value_bytes, static_cast<char>('a' + thread)) {}

  /// At least one transaction, however late it is.
  void work_until(Clock::time_point end) {
    Clock::time_point done;
    do {
      choose();
      const Clock::time_point chosen = Clock::now();
      act();
      done = Clock::now();
      times_ns_.push_back(std::chrono::duration<double, std::nano>(done - chosen).count());
    } while (done < end);
  }
  [[nodiscard]] const std::vector<double>& times_ns() const { return times_ns_; }

 private:
  void choose() {
    operation_ = workload_.operation();
    workload_.rows_of(operation_, question_.keys, rows_);
    names_.resize(rows_.size());
    keys_.clear();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      names_[i] = key_of_row(table_of(question_), rows_[i]);
      keys_.push_back(text(names_[i]));
    }
  }
  void act() {
    switch (operation_) {
      case Operation::read:
      case Operation::scan: return client_.read(keys_, value_.size());
      case Operation::update:
      case Operation::insert: return client_.write(keys_, value_);
      case Operation::read_modify_write: return client_.modify(keys_, value_);
    }
  }

  const KvQuestion& question_;
  KvClient& client_;
  Workload workload_;
  std::string value_;
  Operation operation_ = Operation::read;
  std::vector<std::uint64_t> rows_;
  std::vector<RowKey> names_;
  std::vector<std::string_view> keys_;
  std::vector<double> times_ns_;
};

}  // namespace

void KvClients::answer_questions() {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const KvQuestion question = KvQuestion::from_line(line);
    load(question);
    std::cout << run(question).to_line() << std::endl;
  }
}

void KvClients::load(const KvQuestion& question) {
  if (!loaded_.insert(table_of(question)).second) return;
  std::atomic<std::uint64_t> next = 0;
  const std::string value(question.value_bytes, 'v');
  std::vector<KvClient*> clients;
  for (unsigned thread = 0; thread < question.threads; ++thread) clients.push_back(&client_of_(thread, question.way));
  in_threads(question.threads, [&](unsigned thread) {
    for (std::uint64_t first = 0; (first = next.fetch_add(kLoadedAtOnce)) < question.rows;) {
      std::vector<RowKey> names;
      std::vector<std::string_view> keys;
      for (std::uint64_t row = first; row < std::min(first + kLoadedAtOnce, question.rows); ++row) {
        names.push_back(key_of_row(table_of(question), row));
      }
      for (const RowKey& name : names) keys.push_back(text(name));
      clients[thread]->write(keys, value);
    }
  });
}

KvFigures KvClients::run(const KvQuestion& question) {
  const auto budget = std::chrono::milliseconds(question.budget_ms);
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned thread = 0; thread < question.threads; ++thread) {
    workers.push_back(std::make_unique<Worker>(question, client_of_(thread, question.way), thread));
  }
  Clock::time_point start;
  const double served_before = server_time();
  std::barrier begin(question.threads, [&start]() noexcept { start = Clock::now(); });
  in_threads(question.threads, [&](unsigned thread) {
    begin.arrive_and_wait();
    workers[thread]->work_until(start + budget);
  });
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double served = server_time() - served_before;
  std::vector<double> times;
  for (const auto& worker : workers) times.insert(times.end(), worker->times_ns().begin(), worker->times_ns().end());
  std::ranges::sort(times);
  const auto transactions = static_cast<double>(times.size());
  return {transactions / seconds, quantile(times, 0.5), quantile(times, 0.99), quantile(times, 0.999),
          served / transactions};
}

// Of all their threads.
double KvClients::server_time() const {
  double total = 0;
  for (const int server : servers_) {
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(server) + "/task")) {
      double busy = 0;
      std::ifstream(task.path() / "schedstat") >> busy;
      total += busy;
    }
  }
  return total;
}

}  // namespace farside::bench
