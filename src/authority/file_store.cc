#include "authority/file_store.h"

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

namespace farside::authority {

namespace {

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

std::vector<std::string> FileStore::read() {
  const Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file && errno == ENOENT) return {};
  if (!file) throw errno_error("open", path_);
  // The entries that it was begun with: a file has its name only with the first two, the head and the state.
  constexpr std::size_t kBegun = 2;
  const std::string bytes = read_all(file, path_);
  std::vector<std::string> entries;
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto entry = first_entry(rest);
    if (!entry || entry->sequence != entries.size()) {
      // A decision that was being written is the last one. Anything else that is not whole is damage.
      if (entries.size() >= kBegun && !has_entry(rest)) break;
      throw damage(bytes.size() - rest.size());
    }
    entries.emplace_back(entry->body);
    rest.remove_prefix(sizeof(EntryHead) + entry->body.size());
  }
  if (entries.size() < kBegun) throw damage(bytes.size());
  return entries;
}

Error FileStore::damage(std::size_t at) const {
  return Error({"take over the team whose decisions are in", path_, "it is damaged at byte " + std::to_string(at),
                "give the pool up: farside down, then farside up"});
}

Kept FileStore::replace(std::span<const std::string> entries) {
  const std::filesystem::path draft = path_.native() + ".new";
  constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  file_ = Fd(::open(draft.c_str(), kNew, 0600));
  sequence_ = 0;
  if (!file_) return fail();
  for (const std::string& entry : entries) {
    if (!write(entry)) return fail();
  }
  if (::rename(draft.c_str(), path_.c_str()) != 0 || !sync_directory_of(path_)) return fail();
  return Kept::kept;
}

Kept FileStore::append(std::string_view entry) { return write(entry) ? Kept::kept : fail(); }

bool FileStore::write(std::string_view body) {
  const EntryHead head{checksum(body, sequence_), sequence_, body.size()};
  std::string entry(reinterpret_cast<const char*>(&head), sizeof head);
  entry.append(body);
  if (!write_all(file_, entry) || ::fdatasync(file_.get()) != 0) return false;
  ++sequence_;
  return true;
}

Kept FileStore::fail() {
  why_ = errno_error("write", path_, "make room").what();
  return Kept::failed;
}

bool FileStore::remove() noexcept {
  std::error_code failed;  // then the next coordinator takes over a team that has no members
  std::filesystem::remove(path_, failed);
  return !failed;
}

}  // namespace farside::authority
