#include "node/files/file_system.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "farside/base/error.h"

namespace farside::node {

namespace {

using namespace std::string_view_literals;

constexpr std::array kNetworkTypes{"nfs"sv,    "nfs4"sv,           "cifs"sv,         "smb3"sv,          "ceph"sv,
                                   "lustre"sv, "gpfs"sv,           "beegfs"sv,       "afs"sv,           "pvfs2"sv,
                                   "gfs2"sv,   "fuse.glusterfs"sv, "fuse.juicefs"sv, "fuse.ceph-fuse"sv};

constexpr std::array kLocalTypes{"ext2"sv,  "ext3"sv,     "ext4"sv,    "xfs"sv,   "btrfs"sv,   "f2fs"sv,
                                 "zfs"sv,   "jfs"sv,      "vfat"sv,    "exfat"sv, "ntfs3"sv,   "bcachefs"sv,
                                 "erofs"sv, "squashfs"sv, "iso9660"sv, "udf"sv,   "overlay"sv, "virtiofs"sv,
                                 "9p"sv,    "fuse"sv,     "fuseblk"sv};

// The local types whose times are not kept by this kernel; FUSE besides.
constexpr std::array kServedTypes{"virtiofs"sv, "9p"sv, "fuse"sv, "fuseblk"sv};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

TimesFrom times_of(std::string_view type) {
  if (type == "overlay") return TimesFrom::overlay;
  const bool served = contains(kNetworkTypes, type) || contains(kServedTypes, type) || type.starts_with("fuse.");
  return served ? TimesFrom::server : TimesFrom::kernel;
}

std::uint64_t hash_text(std::uint64_t hash, std::string_view text) {
  for (const char letter : text) hash = mix(hash ^ static_cast<unsigned char>(letter));
  return mix(hash + text.size());  // the length ends the text: "ab", "c" differs from "a", "bc"
}

std::string read_boot_id() {
  const char* const path = "/proc/sys/kernel/random/boot_id";
  std::ifstream file(path);
  std::string id;
  if (!(file >> id)) throw Error({"read", path, "it is not readable", "mount /proc"});
  return id;
}

std::string_view next_field(std::string_view& rest, char separator = ' ') {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return field;
}

std::optional<unsigned> parse_number(std::string_view text) {
  unsigned number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// mountinfo(5) writes what would end a field as three octal digits behind a backslash.
std::string unescaped(std::string_view field) {
  std::string text;
  while (!field.empty()) {
    const bool escaped = field.front() == '\\' && field.size() > 3;
    unsigned code = 0;
    if (escaped) std::from_chars(field.data() + 1, field.data() + 4, code, 8);
    text += escaped ? static_cast<char>(code) : field.front();
    field.remove_prefix(escaped ? 4 : 1);
  }
  return text;
}

// One that forgets to write back (overlay's) gives no hold on what is in its files.
bool is_volatile(std::string_view options) {
  while (!options.empty()) {
    if (next_field(options, ',') == "volatile") return true;
  }
  return false;
}

std::int64_t nanoseconds(const statx_timestamp& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

}  // namespace

std::optional<MountLine> parse_mount_line(std::string_view line) {
  const auto mount_id = parse_number(next_field(line));
  next_field(line);  // the parent's id
  const auto device_major = parse_number(next_field(line, ':'));
  const auto device_minor = parse_number(next_field(line));
  next_field(line);  // what of the file system is mounted
  const std::string_view mount_point = next_field(line);
  const std::size_t separator = line.find(" - ");  // optional fields of any number come before it
  if (!mount_id || !device_major || !device_minor || separator == std::string_view::npos) return std::nullopt;
  line.remove_prefix(separator + 3);
  const std::string_view type = next_field(line);
  const std::string_view source = next_field(line);
  return MountLine{*mount_id, makedev(*device_major, *device_minor), mount_point, type, source, line};
}

std::optional<std::uint64_t> file_system_tag(std::string_view type, std::string_view source,
                                             std::string_view host_device) {
  const std::uint64_t named = hash_text(hash_text(0, type), source);
  if (contains(kNetworkTypes, type)) return named;
  if (contains(kLocalTypes, type) || type.starts_with("fuse.")) return hash_text(named, host_device);
  return std::nullopt;
}

FileSystems::FileSystems()
    : boot_id_(read_boot_id()), mount_table_(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)) {
  if (!mount_table_) throw errno_error("open", "/proc/self/mountinfo", "mount /proc");
}

std::optional<IdentifiedFile> FileSystems::examine(const Fd& file) {
  constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_MNT_ID;
  struct statx status {};
  if (::statx(file.get(), "", AT_EMPTY_PATH, kWanted, &status) != 0) return std::nullopt;
  if ((status.stx_mask & kWanted) != kWanted || !S_ISREG(status.stx_mode)) return std::nullopt;
  const auto found = find(file, {status.stx_mnt_id, makedev(status.stx_dev_major, status.stx_dev_minor)});
  if (!found) return std::nullopt;
  return IdentifiedFile{{.file_system = found->tag,
                         .inode = status.stx_ino,
                         .bytes = status.stx_size,
                         .modified_ns = nanoseconds(status.stx_mtime),
                         .changed_ns = nanoseconds(status.stx_ctime)},
                        found->times};
}

std::optional<cache::FileIdentity> FileSystems::identify(const Fd& file) {
  const auto found = examine(file);
  if (!found) return std::nullopt;
  return found->identity;
}

std::optional<FileSystems::MountKey> FileSystems::mount_of(const Fd& file) {
  struct statx status {};
  if (::statx(file.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &status) != 0) return std::nullopt;
  if ((status.stx_mask & STATX_MNT_ID) == 0) return std::nullopt;
  return MountKey{status.stx_mnt_id, makedev(status.stx_dev_major, status.stx_dev_minor)};
}

std::optional<FileSystems::FileSystem> FileSystems::find(const Fd& file, MountKey mount) {
  MutexLock lock(mutex_);
  if (mounts_changed()) known_.clear();
  const auto place = known_.find(mount);
  std::optional<std::optional<FileSystem>> known;
  if (place != known_.end()) known.emplace(place->second);
  lock.unlock();
  if (known && (!*known || !(*known)->mount || mount_watch_.is_mounted(*(*known)->mount))) return *known;
  const auto derived = derive(file, mount);  // may wait for a file system
  lock.lock();
  return known_[mount] = derived;
}

std::optional<FileSystems::FileSystem> FileSystems::derive(const Fd& file, MountKey mount) const {
  std::string text;  // of the mount's line, or of another mount's of the device
  std::optional<MountLine> line;
  std::ifstream table("/proc/self/mountinfo");
  for (std::string next; std::getline(table, next);) {
    const std::optional<MountLine> parsed = parse_mount_line(next);
    if (!parsed || (parsed->mount_id != mount.first && parsed->device != mount.second)) continue;
    const bool is_itself = parsed->mount_id == mount.first;
    text = next;
    line = parse_mount_line(text);
    if (is_itself) break;
  }
  if (!line && major(mount.second) == 0) return std::nullopt;  // no disk, and not in the table

  const TimesFrom times = line ? times_of(line->type) : TimesFrom::kernel;
  if (line && contains(kNetworkTypes, line->type)) {
    return FileSystem{*file_system_tag(line->type, line->source, ""), times, std::nullopt};
  }
  if (line && is_volatile(line->options)) return std::nullopt;
  const auto watched = watch(file, mount, line ? unescaped(line->mount_point) : "");
  if (!watched) return std::nullopt;
  const std::string host_device = boot_id_ + " " + std::to_string(mount.second) + " " + std::to_string(watched->name);
  const auto tag = line ? file_system_tag(line->type, line->source, host_device) : hash_text(0, host_device);
  if (!tag) return std::nullopt;
  return FileSystem{*tag, times, watched};
}

// The mount's root stays for as long as the file system is mounted, which a file may not. Where it cannot be had, the
// file gives the name, and with it the cached blocks of its file system go when it is deleted.
std::optional<MountWatch::Mount> FileSystems::watch(const Fd& file, MountKey mount,
                                                    const std::string& mount_point) const {
  const Fd root(::open(mount_point.c_str(), O_PATH | O_CLOEXEC));
  struct statx status {};
  if (root && ::statx(root.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &status) == 0) {
    const bool is_same_mount = status.stx_mnt_id == mount.first;
    const bool is_same_device = makedev(status.stx_dev_major, status.stx_dev_minor) == mount.second;
    const auto found = is_same_mount || is_same_device ? mount_watch_.find(root) : std::nullopt;
    if (found) return found;
  }
  return mount_watch_.find(file);
}

bool FileSystems::mounts_changed() const {
  pollfd event{mount_table_.get(), POLLPRI, 0};
  return ::poll(&event, 1, 0) != 0;
}

}  // namespace farside::node
