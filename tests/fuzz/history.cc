// Files of a history (kv/history), as other programs record them. They are refused with an Error; or they are checked,
// and a history that is written from them is the same.
//
// Input: two files, the second one behind the first NUL.
#include <array>
#include <cstdlib>

#include "farside/base/error.h"

#include "kv/history/read_atomic.h"
#include "tests/fuzz/decode.h"
#include "tests/fuzz/scratch_directory.h"

namespace farside::fuzz {
namespace {

/// The operations as a history has them, by transaction.
std::string written_again(const kv::History& history) {
  std::string lines;
  for (const kv::HistoryTransaction& transaction : history.transactions) {
    for (const kv::HistoryOperation& each : transaction.operations) {
      lines += kv::history_line(each.kind, each.key, each.value, transaction.session, transaction.id) + "\n";
    }
  }
  return lines;
}

void check(std::span<const std::string> files) try {
  const kv::History history = kv::read_history(files);
  (void)kv::check_read_atomic(history);
  for (kv::HistoryIndex i = 0; i < history.transactions.size(); ++i) {
    (void)kv::describe(history, i);
    for (const kv::HistoryOperation& each : history.transactions[i].operations) (void)kv::describe(history, i, each);
  }
  const std::string lines = written_again(history);
  write_bytes(files.front(), std::as_bytes(std::span(lines)));
  if (written_again(kv::read_history(files.first(1))) != lines) std::abort();
} catch (const Error&) {
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  static const fuzz::ScratchDirectory place;
  const std::array files{place.path() + "/first", place.path() + "/second"};
  const std::string_view both = fuzz::text(data, size);
  const std::size_t first = std::min(both.find('\0'), size);
  fuzz::write_bytes(files[0], std::as_bytes(std::span(data, first)));
  fuzz::write_bytes(files[1], std::as_bytes(std::span(data, size)).subspan(std::min(first + 1, size)));
  fuzz::check(files);
  return 0;
}
