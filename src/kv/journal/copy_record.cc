#include "kv/journal/copy_record.h"

#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "farside/base/error.h"

namespace farside::kv {

namespace {

constexpr const char* kUnfinishedRecord = "copy.new";

std::string text_of(const Partition& partition, std::uint64_t seat) {
  return "copy " + std::to_string(seat + 1) + " of server " + std::to_string(partition.server) + " of " +
         std::to_string(partition.servers);
}

bool is_whole(const CopyRecordSlot& slot) {
  return slot.magic == CopyRecordSlot::kMagic && slot.checksum == slot.checksum_of();
}

bool write_at(const Fd& file, off_t offset, const CopyRecordSlot& slot) {
  const ssize_t written = ::pwrite(file.get(), &slot, sizeof slot, offset);
  if (written >= 0 && written != sizeof slot) errno = EIO;
  return written == sizeof slot;
}

}  // namespace

std::uint64_t CopyRecordSlot::checksum_of() const { return XXH3_64bits(this, offsetof(CopyRecordSlot, checksum)); }

CopyRecord::CopyRecord(const std::filesystem::path& directory, const Partition& partition, unsigned seat)
    : directory_(directory),
      file_(::open((directory / kName).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)),
      slot_{.magic = CopyRecordSlot::kMagic,
            .version = CopyRecordSlot::kVersion,
            .standing = CopyStanding::none,
            .epoch = 0,
            .store = 0,
            .folder = 0,
            .sequence = 0,
            .server = partition.server,
            .servers = partition.servers,
            .seat = seat,
            .checksum = 0} {
  if (!file_ && errno == ENOENT) {
    make();
    return;
  }
  if (!file_) throw errno_error("open", directory_ / kName);
  read();
  if (slot_.server == partition.server && slot_.servers == partition.servers && slot_.seat == seat) return;
  throw Error({"recover from", directory_,
               "it has " + text_of(this->partition(), slot_.seat) + ", not " + text_of(partition, seat),
               "start as many servers as there were, each with its own directory"});
}

CopyRecord::CopyRecord(const std::filesystem::path& directory)
    : directory_(directory), file_(::open((directory / kName).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)) {
  if (!file_) throw errno_error("open", directory_ / kName, "name a directory that has one of two copies");
  read();
}

void CopyRecord::read() {
  std::optional<CopyRecordSlot> newest;
  for (int number = 0; number < kSlots; ++number) {
    CopyRecordSlot slot{};
    const ssize_t bytes = ::pread(file_.get(), &slot, sizeof slot, number * kBetweenSlots);
    if (bytes < 0) throw errno_error("read", directory_ / kName);
    if (bytes != sizeof slot || !is_whole(slot) || (newest && slot.sequence <= newest->sequence)) continue;
    newest = slot;
    place_ = number;
  }
  const bool makes_sense =
      newest && newest->standing <= CopyStanding::alone && newest->server < newest->servers && newest->seat < 2;
  if (makes_sense && newest->version != CopyRecordSlot::kVersion) {
    throw Error({"read", directory_ / kName, "it is of version " + std::to_string(newest->version),
                 "use the farside that wrote it"});
  }
  if (!makes_sense) {
    throw Error({"read", directory_ / kName, "it is damaged",
                 "put back a copy of the directory, or give up what it has by removing it"});
  }
  slot_ = *newest;
}

// A file that has its name is whole.
void CopyRecord::make() {
  const auto path = directory_ / kUnfinishedRecord;
  file_ = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  const Fd directory(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file_ && directory && write(claim(), 0) && ::rename(path.c_str(), (directory_ / kName).c_str()) == 0 &&
      ::fsync(file_.get()) == 0 && ::fsync(directory.get()) == 0) {
    return;
  }
  throw errno_error("write", directory_ / kName, "make room on that disk, or name another directory");
}

bool CopyRecord::write(const CopyClaim& claim, std::uint64_t folder) {
  CopyRecordSlot next = slot_;
  next.standing = claim.standing;
  next.epoch = claim.epoch;
  next.store = claim.store;
  next.folder = folder;
  ++next.sequence;
  next.checksum = next.checksum_of();
  for (const int number : {kSlots - 1 - place_, place_}) {
    if (!write_at(file_, number * kBetweenSlots, next) || ::fdatasync(file_.get()) != 0) return false;
  }
  slot_ = next;
  return true;
}

}  // namespace farside::kv
