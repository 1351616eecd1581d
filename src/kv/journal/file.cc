#include "kv/journal/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

namespace farside::kv {

namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t kAlignment = 8;

}  // namespace

// ---- Writing

JournalFile::JournalFile(Fd file, const JournalFileId& id, const Partition& partition, std::uint64_t last)
    : JournalFile(std::move(file), id, 0, last) {
  const JournalFileHead head = JournalFileHead::of(id, partition);
  const auto bytes = std::as_bytes(std::span(&head, 1));
  buffer_.assign(bytes.begin(), bytes.end());
}

void JournalFile::append(JournalEntryHead::Kind kind, std::span<const std::byte> body) {
  write_entry(buffer_, id_, {.checksum = 0, .sequence = ++last_, .synced = synced_, .bytes = 0, .kind = kind}, body);
}

bool JournalFile::write() {
  std::size_t written = 0;
  while (written < buffer_.size()) {
    const auto rest = std::span(buffer_).subspan(written);
    const ssize_t count = ::pwrite(fd_.get(), rest.data(), rest.size(), static_cast<off_t>(offset_));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
    offset_ += static_cast<std::uint64_t>(count);
  }
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(written));
  return buffer_.empty();
}

bool JournalFile::sync() {
  if (!write() || ::fdatasync(fd_.get()) != 0) return false;
  synced_ = last_;
  return true;
}

// ---- Reading

JournalReader::JournalReader(std::string path, const JournalFileId& id, const Partition& partition)
    : path_(std::move(path)), id_(id), fd_(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)) {
  struct stat status {};
  if (!fd_ || ::fstat(fd_.get(), &status) != 0) throw errno_error("recover from", path_);
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  JournalFileHead head{};
  const auto bytes = at(0, sizeof head);
  if (bytes.size() < sizeof head) throw damage("it is shorter than its head");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != JournalFileHead::kMagic || head.checksum != head.checksum_of()) throw damage("its head is damaged");
  if (head.version < JournalFileHead::kOldestVersion || head.version > JournalFileHead::kVersion) {
    throw Error(
        {"recover from", path_, "it is of version " + std::to_string(head.version), "use the farside that wrote it"});
  }
  if (head.kind != id.kind || head.number != id.number) throw damage("it is another file of a journal");
  if (head.server != partition.server || head.servers != partition.servers) {
    throw Error({"recover from", path_,
                 "it is that of server " + std::to_string(head.server) + " of " + std::to_string(head.servers) +
                     ", not of server " + std::to_string(partition.server) + " of " + std::to_string(partition.servers),
                 "start as many servers as there were, each with its own directory"});
  }
}

Error JournalReader::damage(const std::string& why) const {
  return Error({"recover from", path_, why, "put back a copy of the directory, or give up its keys by removing it"});
}

std::span<const std::byte> JournalReader::at(std::uint64_t offset, std::uint64_t bytes) {
  assert_that(offset <= bytes_, "what is read begins in the file");
  bytes = std::min(bytes, bytes_ - std::min(offset, bytes_));
  if (offset < window_offset_ || offset + bytes > window_offset_ + window_.size()) {
    window_.resize(std::min(std::max(bytes, kWindowBytes), bytes_ - offset));
    window_offset_ = offset;
    for (std::size_t done = 0; done < window_.size();) {
      const auto rest = std::span(window_).subspan(done);
      const ssize_t count = ::pread(fd_.get(), rest.data(), rest.size(), static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw errno_error("recover from", path_);
      if (count == 0) throw damage("it became shorter while it was read");
      done += static_cast<std::size_t>(count);
    }
  }
  return std::span<const std::byte>(window_).subspan(offset - window_offset_, bytes);
}

std::optional<JournalEntry> JournalReader::entry_at(std::uint64_t offset) {
  JournalEntryHead head{};
  const auto bytes = at(offset, sizeof head);
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.bytes > kMaxEntryBytes) return std::nullopt;
  return read_entry(at(offset, JournalEntry::whole_bytes(head.bytes)), id_);
}

std::optional<JournalEntry> JournalReader::next(std::uint64_t sequence) {
  const std::uint64_t before = offset_;
  auto entry = next();
  if (!entry || entry->head.sequence == sequence) return entry;
  offset_ = before;
  return std::nullopt;
}

std::optional<JournalEntry> JournalReader::next() {
  const auto entry = entry_at(offset_);
  if (entry) offset_ += JournalEntry::whole_bytes(entry->body.size());
  return entry;
}

// Before a checksum is computed, the sequence must be one that can be there.
bool JournalReader::has_proof_of(std::uint64_t sequence) {
  const std::uint64_t most = sequence + (bytes_ - offset_) / sizeof(JournalEntryHead);
  for (std::uint64_t offset = offset_; offset + sizeof(JournalEntryHead) <= bytes_; offset += kAlignment) {
    JournalEntryHead head{};
    std::memcpy(&head, at(offset, sizeof head).data(), sizeof head);
    if (head.sequence <= sequence || head.sequence > most || head.synced < sequence) continue;
    if (entry_at(offset)) return true;
  }
  return false;
}

}  // namespace farside::kv
