#include "kv/history/recorder.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::kv {

namespace {
constexpr mode_t kReadableByAll = 0644;
}

HistoryRecorder::HistoryRecorder(const std::string& file, std::uint64_t session)
    : file_(file),
      session_(session),
      fd_(::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kReadableByAll)) {
  if (!fd_) throw errno_error("open the history", file);
}

void HistoryRecorder::write(std::int64_t transaction, std::uint64_t key, std::uint64_t value) {
  append(history_line(HistoryOperation::Kind::write, key, value, session_, transaction));
}

void HistoryRecorder::read(std::int64_t transaction, std::uint64_t key, std::uint64_t value) {
  append(history_line(HistoryOperation::Kind::read, key, value, session_, transaction));
}

void HistoryRecorder::aborted(std::int64_t transaction) { append(fmt::format("a({},{})", session_, transaction)); }

void HistoryRecorder::unknown(std::int64_t transaction) { append(fmt::format("u({},{})", session_, transaction)); }

void HistoryRecorder::append(const std::string& line) {
  const std::string whole = line + '\n';
  const ssize_t written = ::write(fd_.get(), whole.data(), whole.size());
  if (written < 0) throw errno_error("write the history", file_);
  if (static_cast<std::size_t>(written) != whole.size()) {
    throw Error({"write the history", file_, "a line was cut short", "make room on the disk"});
  }
}

}  // namespace farside::kv
