// counting_fs — a file system that shows another directory and counts the bytes that were read from it.
//
//   counting_fs [--image | --skew SECONDS] SOURCE MOUNTPOINT [-o OPTIONS]     options of fuse
//
// The kernel keeps nothing: direct_io, and no attribute or entry outlives its use. So the count is what a file server
// would have been asked for. It stands in an attribute of the root that is always there:
// getxattr(MOUNTPOINT, "user.bytes_read"). Files can be read and created, and links followed; no more is needed.
//
// With --image it looks as a reproducible read-only image does: a file's inode number follows from its path, and all
// times are the same.
//
// With --skew it is a server whose clock is so far ahead of this host's, or behind it, and that keeps times in whole
// seconds.
//
// A read of the file /hung never returns, as on a server that went away; "user.reads_hung" counts those. Nor does the
// first read of the file /slow, until setxattr(MOUNTPOINT, "user.released"); others of it do. After
// setxattr(MOUNTPOINT, "user.hang_at_root") no question for the root's attributes is answered.
#define FUSE_USE_VERSION 31
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::string source;
bool is_image = false;
std::optional<time_t> skew;
std::atomic<std::uint64_t> bytes_read = 0;
std::atomic<std::uint64_t> reads_hung = 0;
std::atomic<bool> was_slow = false;
std::atomic<bool> is_released = false;
std::atomic<bool> hangs_at_root = false;

std::string behind(const char* path) { return source + path; }

int result(long answer) { return answer < 0 ? -errno : static_cast<int>(answer); }

void* start(fuse_conn_info*, fuse_config* config) {
  config->use_ino = 1;
  config->direct_io = 1;
  config->attr_timeout = 0;
  config->entry_timeout = 0;
  config->negative_timeout = 0;
  return nullptr;
}

int get_attributes(const char* path, struct stat* found, fuse_file_info*) {
  while (hangs_at_root && std::string_view(path) == "/") ::pause();
  if (::lstat(behind(path).c_str(), found) != 0) return -errno;
  if (skew) {
    for (timespec* const time : {&found->st_atim, &found->st_mtim, &found->st_ctim}) *time = {time->tv_sec + *skew, 0};
  }
  if (is_image) {
    found->st_ino = std::hash<std::string_view>()(path) | 2;  // 1 is the root's
    found->st_atim = found->st_mtim = found->st_ctim = {.tv_sec = 1'000'000'000, .tv_nsec = 0};
  }
  return 0;
}

int read_link(const char* path, char* into, std::size_t room) {
  const ssize_t length = ::readlink(behind(path).c_str(), into, room - 1);
  if (length >= 0) into[length] = '\0';
  return length < 0 ? -errno : 0;
}

int list(const char* path, void* into, fuse_fill_dir_t add, off_t, fuse_file_info*, fuse_readdir_flags) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(behind(path).c_str()), ::closedir);
  if (!directory) return -errno;
  while (const dirent* entry = ::readdir(directory.get())) {
    add(into, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  }
  return 0;
}

int open_file(const char* path, fuse_file_info* file) {
  const int fd = ::open(behind(path).c_str(), file->flags & ~O_DIRECT);
  file->fh = static_cast<std::uint64_t>(fd);
  return fd < 0 ? -errno : 0;
}

int create_file(const char* path, mode_t mode, fuse_file_info* file) {
  const int fd = ::open(behind(path).c_str(), file->flags, mode);
  file->fh = static_cast<std::uint64_t>(fd);
  return fd < 0 ? -errno : 0;
}

int read_file(const char* path, char* into, std::size_t bytes, off_t offset, fuse_file_info* file) {
  if (std::string_view(path) == "/hung") {
    ++reads_hung;
    for (;;) ::pause();
  }
  if (std::string_view(path) == "/slow" && !was_slow.exchange(true)) {
    ++reads_hung;
    is_released.wait(false);
  }
  const ssize_t got = ::pread(static_cast<int>(file->fh), into, bytes, offset);
  if (got > 0) bytes_read += static_cast<std::uint64_t>(got);
  return result(got);
}

int write_file(const char*, const char* from, std::size_t bytes, off_t offset, fuse_file_info* file) {
  return result(::pwrite(static_cast<int>(file->fh), from, bytes, offset));
}

int truncate_file(const char* path, off_t bytes, fuse_file_info*) {
  return result(::truncate(behind(path).c_str(), bytes));
}

int remove_file(const char* path) { return result(::unlink(behind(path).c_str())); }

int release_file(const char*, fuse_file_info* file) { return result(::close(static_cast<int>(file->fh))); }

int get_extended(const char* path, const char* name, char* into, std::size_t room) {
  const std::string_view wanted(name);
  const auto* const count = wanted == "user.bytes_read"   ? &bytes_read
                            : wanted == "user.reads_hung" ? &reads_hung
                                                          : nullptr;
  if (std::string_view(path) != "/" || count == nullptr) return -ENODATA;
  const std::string text = std::to_string(count->load());
  if (room == 0) return static_cast<int>(text.size());
  if (room < text.size()) return -ERANGE;
  std::ranges::copy(text, into);
  return static_cast<int>(text.size());
}

int set_extended(const char* path, const char* name, const char*, std::size_t, int) {
  if (std::string_view(path) != "/") return -ENODATA;
  if (std::string_view(name) == "user.hang_at_root") {
    hangs_at_root = true;
    return 0;
  }
  if (std::string_view(name) != "user.released") return -ENODATA;
  is_released = true;
  is_released.notify_all();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  is_image = count > 1 && std::string_view(words[1]) == "--image";
  if (is_image) {
    ++words;
    --count;
  }
  if (count > 2 && std::string_view(words[1]) == "--skew") {
    skew = std::stol(words[2]);
    words += 2;
    count -= 2;
  }
  if (count < 3) return EXIT_FAILURE;
  source = std::unique_ptr<char, void (*)(void*)>(::realpath(words[1], nullptr), std::free).get();
  fuse_operations operations{};
  operations.init = start;
  operations.getattr = get_attributes;
  operations.readlink = read_link;
  operations.readdir = list;
  operations.open = open_file;
  operations.create = create_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.truncate = truncate_file;
  operations.unlink = remove_file;
  operations.release = release_file;
  operations.getxattr = get_extended;
  operations.setxattr = set_extended;
  std::string words_before[] = {"counting_fs", "-f", "-o", "max_idle_threads=4,max_threads=64"};
  std::vector<char*> arguments;
  for (std::string& word : words_before) arguments.push_back(word.data());
  arguments.insert(arguments.end(), words + 2, words + count);
  return fuse_main(static_cast<int>(arguments.size()), arguments.data(), &operations, nullptr);
}
