#include "team/decision_log.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "farside/base/error.h"

#include "base/wire.h"

namespace farside::team {

namespace {

constexpr std::string_view kMagic = "farside team";
constexpr std::uint32_t kVersion = 2;

struct EntryHead {
  std::uint64_t checksum;  ///< XXH3 of the body, seeded with the sequence
  std::uint64_t sequence;  ///< of the entry: 0, 1, 2, ...
  std::uint64_t bytes;     ///< of the body
};
static_assert(sizeof(EntryHead) == 24 && std::has_unique_object_representations_v<EntryHead>);

struct Entry {
  std::uint64_t sequence;
  std::string_view body;
};

std::uint64_t checksum(std::string_view body, std::uint64_t sequence) {
  return XXH3_64bits_withSeed(body.data(), body.size(), sequence);
}

// Returns the entry that `bytes` begin with, if it is whole.
std::optional<Entry> first_entry(std::string_view bytes) {
  EntryHead head{};
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  if (head.bytes == 0 || head.bytes > bytes.size()) return std::nullopt;
  const Entry entry{head.sequence, bytes.substr(0, head.bytes)};
  return checksum(entry.body, entry.sequence) == head.checksum ? std::optional(entry) : std::nullopt;
}

// Whether a whole entry begins anywhere in `bytes`.
bool has_entry(std::string_view bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(1)) {
    if (first_entry(bytes)) return true;
  }
  return false;
}

std::string head_of_file(const std::string& terms, Rank size) {
  return Encoder().text(kMagic).number(kVersion).number(size).text(terms).take();
}

bool write_all(const Fd& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string read_all(const Fd& file, const std::filesystem::path& path) {
  std::string bytes;
  std::array<char, 64U << 10U> chunk;
  for (;;) {
    const ssize_t count = ::read(file.get(), chunk.data(), chunk.size());
    if (count == 0) return bytes;
    if (count < 0 && errno != EINTR) throw errno_error("read", path);
    if (count > 0) bytes.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

bool sync_directory_of(const std::filesystem::path& file) {
  const Fd directory(::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return directory && ::fsync(directory.get()) == 0;
}

}  // namespace

DecisionLog::DecisionLog(std::filesystem::path path, std::string terms, Membership& team, std::uint64_t large_bytes)
    : path_(std::move(path)), terms_(std::move(terms)), team_(team), large_bytes_(large_bytes) {
  const Fd former(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!former && errno != ENOENT) throw errno_error("open", path_);
  if (former) recover(read_all(former, path_));
  if (!begin_file()) throw errno_error("write", path_, "make room in the runtime directory");
}

// A decision that was being written when the process or the machine ended is the last one, and no process had learnt of
// it. Anything else that is not whole is damage.
void DecisionLog::recover(const std::string& bytes) {
  constexpr std::uint64_t kBegun = 2;  // the head and the state: a file has its name only with these on the disk
  std::string_view rest = bytes;
  std::uint64_t sequence = 0;
  for (; !rest.empty(); ++sequence) {
    const auto entry = first_entry(rest);
    if (!entry || entry->sequence != sequence) {
      if (sequence >= kBegun && !has_entry(rest)) return;
      throw refusal("it is damaged at byte " + std::to_string(bytes.size() - rest.size()));
    }
    if (sequence != 0) {
      team_.apply(decode_decision(entry->body, team_.size()));
    } else if (entry->body != head_of_file(terms_, team_.size())) {
      throw refusal("it is that of a pool with other options, or of another version of farside");
    }
    rest.remove_prefix(sizeof(EntryHead) + entry->body.size());
  }
  if (sequence < kBegun) throw refusal("it is damaged: its beginning is missing");
}

Error DecisionLog::refusal(const std::string& why) const {
  return Error({"take over the team whose decisions are in", path_, why,
                "start the pool with the options that it had, or give it up: farside down, then farside up"});
}

bool DecisionLog::append(const Decision& decision) {
  if (bytes_ > large_bytes_ && bytes_ / 4 > bytes_at_first_ && !begin_file()) return false;
  return write(encode_decision(decision));
}

bool DecisionLog::remove() noexcept {
  std::error_code failed;  // then the next coordinator takes over a team that has no members
  std::filesystem::remove(path_, failed);
  return !failed;
}

bool DecisionLog::begin_file() {
  const std::filesystem::path draft = path_.native() + ".new";
  constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  file_ = Fd(::open(draft.c_str(), kNew, 0600));
  sequence_ = bytes_ = 0;
  if (!file_ || !write(head_of_file(terms_, team_.size())) || !write(encode_decision(team_.state()))) return false;
  bytes_at_first_ = bytes_;
  return ::rename(draft.c_str(), path_.c_str()) == 0 && sync_directory_of(path_);
}

bool DecisionLog::write(std::string_view body) {
  const EntryHead head{checksum(body, sequence_), sequence_, body.size()};
  std::string entry(reinterpret_cast<const char*>(&head), sizeof head);
  entry.append(body);
  if (!write_all(file_, entry) || ::fdatasync(file_.get()) != 0) return false;
  bytes_ += entry.size();
  ++sequence_;
  return true;
}

}  // namespace farside::team
