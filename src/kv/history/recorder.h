// recorder.h — writes down what a session does and sees, for read_history.
#pragma once

#include <cstdint>
#include <string>

#include "farside/base/fd.h"

#include "kv/history/history.h"

namespace farside::kv {

/// Appends to a file, a line a call, in one system call: what was recorded survives the process, and any number of
/// sessions, of threads and of processes, may have the same file. Every call may throw Error: the file cannot be
/// written.
///
/// Record a transaction's writes before they can be seen, its reads when they are done, and an outcome only where it is
/// not committed. A transaction of which nothing more is recorded because its client died needs none. After that, and
/// whenever a client starts anew, it is another session.
class HistoryRecorder {
 public:
  HistoryRecorder(const std::string& file, std::uint64_t session);

  void write(std::int64_t transaction, std::uint64_t key, std::uint64_t value);
  void read(std::int64_t transaction, std::uint64_t key, std::uint64_t value);
  /// It never took effect, and never will.
  void aborted(std::int64_t transaction);
  /// A deadline passed or a server died: it is unknown whether it took effect.
  void unknown(std::int64_t transaction);

 private:
  void append(const std::string& line);

  std::string file_;
  std::uint64_t session_;
  Fd fd_;
};

}  // namespace farside::kv
