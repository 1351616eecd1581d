#include "node/file_system.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "farside/base/error.h"

namespace farside {

namespace {

using namespace std::string_view_literals;

constexpr std::array kNetworkTypes{
    "nfs"sv, "nfs4"sv,  "cifs"sv, "smb3"sv,           "ceph"sv,       "lustre"sv,       "gpfs"sv,          "beegfs"sv,
    "afs"sv, "pvfs2"sv, "gfs2"sv, "fuse.glusterfs"sv, "fuse.sshfs"sv, "fuse.juicefs"sv, "fuse.ceph-fuse"sv};

constexpr std::array kLocalTypes{"ext2"sv,  "ext3"sv,     "ext4"sv,    "xfs"sv,   "btrfs"sv,   "f2fs"sv,
                                 "zfs"sv,   "jfs"sv,      "vfat"sv,    "exfat"sv, "ntfs3"sv,   "bcachefs"sv,
                                 "erofs"sv, "squashfs"sv, "iso9660"sv, "udf"sv,   "overlay"sv, "virtiofs"sv,
                                 "9p"sv,    "fuse"sv,     "fuseblk"sv};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
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

std::int64_t nanoseconds(const statx_timestamp& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

}  // namespace

std::optional<MountLine> parse_mount_line(std::string_view line) {
  const auto mount_id = parse_number(next_field(line));
  next_field(line);  // the parent's id
  const auto device_major = parse_number(next_field(line, ':'));
  const auto device_minor = parse_number(next_field(line));
  const std::size_t separator = line.find(" - ");  // optional fields of any number come before it
  if (!mount_id || !device_major || !device_minor || separator == std::string_view::npos) return std::nullopt;
  line.remove_prefix(separator + 3);
  const std::string_view type = next_field(line);
  return MountLine{*mount_id, makedev(*device_major, *device_minor), type, next_field(line)};
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

std::optional<FileIdentity> FileSystems::identify(const Fd& file) {
  constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_MNT_ID;
  struct statx status {};
  if (::statx(file.get(), "", AT_EMPTY_PATH, kWanted, &status) != 0) return std::nullopt;
  if ((status.stx_mask & kWanted) != kWanted || !S_ISREG(status.stx_mode)) return std::nullopt;
  const auto tagged = tag({status.stx_mnt_id, makedev(status.stx_dev_major, status.stx_dev_minor)});
  if (!tagged) return std::nullopt;
  return FileIdentity{*tagged, status.stx_ino, status.stx_size, nanoseconds(status.stx_mtime),
                      nanoseconds(status.stx_ctime)};
}

std::optional<std::uint64_t> FileSystems::tag(MountKey mount) {
  const std::lock_guard lock(mutex_);
  if (mounts_changed()) tags_.clear();
  const auto known = tags_.find(mount);
  if (known != tags_.end()) return known->second;
  return tags_[mount] = derive(mount);
}

std::optional<std::uint64_t> FileSystems::derive(MountKey mount) const {
  const std::string host_device = boot_id_ + " " + std::to_string(mount.second);
  std::optional<std::uint64_t> by_device;
  if (major(mount.second) != 0) by_device = hash_text(0, host_device);  // a disk, whether or not it is in the table
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    const std::optional<MountLine> parsed = parse_mount_line(line);
    if (!parsed || (parsed->mount_id != mount.first && parsed->device != mount.second)) continue;
    const auto found = file_system_tag(parsed->type, parsed->source, host_device);
    if (parsed->mount_id == mount.first) return found;
    by_device = found;
  }
  return by_device;
}

bool FileSystems::mounts_changed() const {
  pollfd event{mount_table_.get(), POLLPRI, 0};
  return ::poll(&event, 1, 0) != 0;
}

}  // namespace farside
