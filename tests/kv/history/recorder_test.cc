// What is recorded is what is read, by whatever number of processes it was written and however they ended.
#include "kv/history/recorder.h"

#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "tests/kv/client/recorded.h"

namespace farside::test {
namespace {

using Outcome = kv::HistoryTransaction::Outcome;

/// The lines of a history, as a recorder for each session writes them.
void record_again(const kv::History& history, const std::string& file) {
  for (const kv::HistoryTransaction& transaction : history.transactions) {
    kv::HistoryRecorder recorder(file, transaction.session);
    for (const auto& [kind, key, value, line] : transaction.operations) {
      if (kind == kv::HistoryOperation::Kind::write) {
        recorder.write(transaction.id, key, value);
      } else {
        recorder.read(transaction.id, key, value);
      }
    }
    if (transaction.outcome == Outcome::unknown) recorder.unknown(transaction.id);
    if (transaction.outcome == Outcome::aborted && transaction.id != kv::kNoHistoryId) recorder.aborted(transaction.id);
  }
}

std::string lines_of(const kv::History& history) {
  std::string lines;
  for (kv::HistoryIndex each = 1; each < history.transactions.size(); ++each) {
    for (const kv::HistoryOperation& operation : history.transactions[each].operations) {
      const auto& [session, id, file, outcome, operations] = history.transactions[each];
      lines += kv::history_line(operation.kind, operation.key, operation.value, session, id) + ' ' +
               std::to_string(static_cast<int>(outcome)) + '\n';
    }
  }
  return lines;
}

TEST(KvRecorder, WritesWhatIsRead) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "again.txt";
  const kv::History history = recorded(
      "w(1,2,7,0)\n"
      "r(1,0,3,0)\n"
      "w(18446744073709551615,18446744073709551615,18446744073709551615,9223372036854775807)\n"
      "r(1,2,7,1)\n"
      "a(7,1)\n"
      "w(5,5,7,-1)\n"
      "w(6,6,7,2)\n"
      "u(7,2)\n");
  record_again(history, file);
  EXPECT_EQ(lines_of(kv::read_history(std::vector{file})), lines_of(history));
}

TEST(KvRecorder, RefusesAFileItCannotWrite) {
  EXPECT_THROW(kv::HistoryRecorder("/nowhere/at/all", 0), Error);
  kv::HistoryRecorder full("/dev/full", 0);
  EXPECT_THROW(full.write(0, 1, 1), Error);
}

// Lines of threads that share a file stay whole.
TEST(KvRecorder, ManySessionsMayShareAFile) {
  constexpr std::uint64_t kSessions = 4;
  constexpr std::int64_t kTransactions = 500;
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "shared.txt";
  std::vector<std::jthread> threads;
  for (std::uint64_t session = 0; session < kSessions; ++session) {
    threads.emplace_back([&file, session] {
      kv::HistoryRecorder recorder(file, session);
      for (std::int64_t id = 1; id <= kTransactions; ++id) recorder.write(id, session, static_cast<std::uint64_t>(id));
    });
  }
  threads.clear();
  const kv::History history = kv::read_history(std::vector{file});
  EXPECT_EQ(history.transactions.size() - 1, kSessions * kTransactions);
  EXPECT_FALSE(kv::check_read_atomic(history));
}

// A client that is killed leaves every line that it recorded.
TEST(KvRecorder, KeepsWhatAKilledProcessRecorded) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() / "killed.txt";
  const pid_t client = ::fork();
  if (client == 0) {
    kv::HistoryRecorder recorder(file, 1);
    recorder.write(1, 1, 5);
    recorder.write(2, 1, 6);
    ::raise(SIGKILL);
  }
  ASSERT_GT(client, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(client, &status, 0), client);
  ASSERT_TRUE(WIFSIGNALED(status));

  kv::HistoryRecorder(file, 2).read(1, 1, 6);
  EXPECT_FALSE(kv::check_read_atomic(kv::read_history(std::vector{file})));
  kv::HistoryRecorder(file, 2).read(2, 1, 5);
  EXPECT_EQ(kv::check_read_atomic(kv::read_history(std::vector{file}))->kind,
            kv::HistoryAnomaly::Kind::non_monotonic_read);
}

}  // namespace
}  // namespace farside::test
