// A program that has devices write into its memory, as far as it may.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <aio.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/far_preload/far_program.h"

namespace far_program {

namespace {

constexpr std::size_t kFileBytes = 4 * kLarge;
constexpr std::size_t kPieceBytes = 24 * kPage;
constexpr std::size_t kStreamOperations = 21;
constexpr std::size_t kOverlayBytes = std::size_t{2} << 20U;  // more than is read at once

// A file on a disk, whose word at each place is known.
class File {
 public:
  File() {
    char name[] = "/tmp/far-program-XXXXXX";
    fd_ = mkstemp(name);
    REQUIRE(fd_ >= 0);
    direct_ = open(name, O_RDONLY | O_DIRECT);
    unlink(name);
    std::vector<std::uint64_t> words(kLarge / 8);
    for (std::uint64_t part = 0; part < kFileBytes / kLarge; ++part) {
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = part * words.size() + i + 1;
      REQUIRE(write(fd_, words.data(), kLarge) == static_cast<ssize_t>(kLarge));
    }
    REQUIRE(fsync(fd_) == 0);
  }

  [[nodiscard]] int plain() const { return fd_; }
  [[nodiscard]] int direct() const { return direct_; }  ///< or -1, where the file system has nothing of the kind

 private:
  int fd_;
  int direct_;
};

void check(const std::uint8_t* memory, std::size_t from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory + at, sizeof word);
    REQUIRE(word == (from + at) / 8 + 1);
  }
}

// By far memory's library, or by exec's, which calls far memory's. glibc keeps the address of a stream's operations
// behind its FILE.
bool is_hooked(FILE* stream) {
  void** const operations = *reinterpret_cast<void***>(stream + 1);
  return std::any_of(operations, operations + kStreamOperations, [](const void* operation) {
    Dl_info about{};
    return dladdr(operation, &about) != 0 && std::strstr(about.dli_fname, "farside") != nullptr;
  });
}

// Others' memory comes and goes while `read` runs.
template <class Read>
void among_others(Read read) {
  std::atomic<bool> is_done{false};
  std::thread other([&] {
    std::uint8_t* const memory = map(2 * kLarge);
    for (unsigned seed = 0; !is_done; ++seed) fill(memory, 2 * kLarge, seed);
  });
  read();
  is_done = true;
  other.join();
}

void make_known_file(const std::string& name) {
  const int file = open(name.c_str(), O_CREAT | O_WRONLY, 0600);
  std::vector<std::uint64_t> words(kOverlayBytes / 8);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i + 1;
  REQUIRE(write(file, words.data(), kOverlayBytes) == static_cast<ssize_t>(kOverlayBytes) && close(file) == 0);
}

// The same known words on an overlay and on the file system below it, both of which are this program's alone and have
// no name any more. Where nothing can be mounted the program ends here.
struct Layers {
  Layers() {
    char place[] = "/tmp/far-program-XXXXXX";
    REQUIRE(mkdtemp(place) != nullptr);
    const std::string below = place + std::string("/below");
    const std::string above = place + std::string("/above");
    const std::string empty = place + std::string("/empty");
    const std::string options = "lowerdir=" + below + ":" + empty;
    bool is_mounted = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      mount("tmpfs", place, "tmpfs", 0, nullptr) == 0;
    if (is_mounted) {
      for (const std::string& each : {below, empty, above}) REQUIRE(mkdir(each.c_str(), 0700) == 0);
      make_known_file(below + "/file");
      is_mounted = mount("overlay", above.c_str(), "overlay", MS_RDONLY, options.c_str()) == 0;
    }
    const int error = errno;
    if (is_mounted) {
      overlay = open((above + "/file").c_str(), O_RDONLY);
      plain = open((below + "/file").c_str(), O_RDONLY);
    }
    umount2(place, MNT_DETACH);
    REQUIRE(rmdir(place) == 0);
    if (is_mounted) return;
    std::printf("cannot mount an overlay: %s\n", std::strerror(error));
    std::fflush(stdout);
    _exit(kCannotBeTried);
  }

  int overlay = -1;
  int plain = -1;
};

// From here on system calls that read fail in this thread, but for the one by which far memory's library goes its way.
void forbid_all_reads_but_preadv2() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 3, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 2, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readv, 1, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EUCLEAN),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

}  // namespace

void direct_reads() {
  const File file;
  if (file.direct() < 0) return;
  std::uint8_t* const memory = map(kFileBytes);
  among_others([&] {
    const auto whole = [&](int fd, auto read_piece) {
      REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
      std::memset(memory, 0xee, kFileBytes);
      for (std::size_t at = 0; at < kFileBytes; at += kPieceBytes) {
        const std::size_t bytes = std::min(kPieceBytes, kFileBytes - at);
        REQUIRE(read_piece(fd, at, bytes) == static_cast<ssize_t>(bytes));
      }
      check(memory, 0, kFileBytes);
    };
    const auto parts = [&](std::size_t at, std::size_t bytes) {
      return std::vector<iovec>{{memory + at, kPage}, {memory + at + kPage, bytes - kPage}};
    };
    using Fd = int;
    const auto by_read = [&](Fd fd, auto at, auto bytes) { return read(fd, memory + at, bytes); };
    whole(file.direct(), by_read);
    whole(dup(file.direct()), [&](Fd fd, auto at, auto bytes) { return pread(fd, memory + at, bytes, at); });
    REQUIRE(fcntl(file.plain(), F_SETFL, O_DIRECT) == 0);
    whole(file.plain(), [&](Fd fd, auto at, auto bytes) { return readv(fd, parts(at, bytes).data(), 2); });
    whole(file.plain(), [&](Fd fd, auto at, auto bytes) { return preadv(fd, parts(at, bytes).data(), 2, at); });
    whole(file.plain(), [&](Fd fd, auto at, auto bytes) { return preadv2(fd, parts(at, bytes).data(), 2, at, 0); });
    whole(file.plain(), [&](Fd fd, auto at, auto bytes) { return preadv2(fd, parts(at, bytes).data(), 2, -1, 0); });
    FILE* const stream = fdopen(dup(file.direct()), "r");
    REQUIRE(stream != nullptr && setvbuf(stream, nullptr, _IONBF, 0) == 0 && fseek(stream, 0, SEEK_SET) == 0);
    REQUIRE(is_hooked(stream));
    whole(fileno(stream),
          [&](Fd /*fd*/, auto at, auto bytes) { return static_cast<ssize_t>(fread(memory + at, 1, bytes, stream)); });
    REQUIRE(fclose(stream) == 0);
  });
  // More than is read at once; at the end of the file; nothing.
  const int fd = file.plain();
  std::memset(memory, 0xee, kFileBytes);
  REQUIRE(pread(fd, memory, kLarge, kLarge) == static_cast<ssize_t>(kLarge));
  check(memory, kLarge, kLarge);
  REQUIRE(pread(fd, memory, kLarge, kFileBytes - kPage) == static_cast<ssize_t>(kPage));
  check(memory, kFileBytes - kPage, kPage);
  REQUIRE(pread(fd, memory, kLarge, kFileBytes) == 0 && pread(fd, memory, 0, 0) == 0);
  REQUIRE(pread(fd, memory, kPage, -5) == -1 && errno == EINVAL);
  REQUIRE(pread(-1, memory, kPage, 0) == -1 && errno == EBADF);
  aiocb request{};
  request.aio_fildes = fd;
  request.aio_buf = memory;
  request.aio_nbytes = kPage;
  REQUIRE(aio_read(&request) == -1 && errno == EINVAL);
}

// Its layers may be of a file system whose devices write into memory: what is read goes the way through memory that
// stays.
void overlay_reads() {
  const Layers layers;
  std::uint8_t* const memory = map(kOverlayBytes);
  FILE* const stream = fdopen(dup(layers.overlay), "r");
  REQUIRE(stream != nullptr && setvbuf(stream, nullptr, _IONBF, 0) == 0);
  forbid_all_reads_but_preadv2();
  const auto is_refused = [](ssize_t result) { return result == -1 && errno == EUCLEAN; };
  std::uint64_t word = 0;
  REQUIRE(is_refused(read(layers.plain, memory, kPage)) && is_refused(read(layers.overlay, &word, sizeof word)));

  const auto came = [memory](auto result) {
    REQUIRE(result == static_cast<decltype(result)>(kOverlayBytes));
    check(memory, 0, kOverlayBytes);
    std::memset(memory, 0xee, kOverlayBytes);
  };
  const iovec parts[] = {{memory, kPage}, {memory + kPage, kOverlayBytes - kPage}};
  came(read(layers.overlay, memory, kOverlayBytes));
  came(pread(layers.overlay, memory, kOverlayBytes, 0));
  came(preadv(layers.overlay, parts, 2, 0));
  REQUIRE(lseek(layers.overlay, 0, SEEK_SET) == 0);
  came(readv(layers.overlay, parts, 2));
  REQUIRE(fseek(stream, 0, SEEK_SET) == 0);
  came(fread(memory, 1, kOverlayBytes, stream));
}

// What a page had that left is written, though it is written to the page again right after.
void direct_writes() {
  char name[] = "/tmp/far-program-XXXXXX";
  const int plain = mkstemp(name);
  REQUIRE(plain >= 0);
  const int direct = open(name, O_WRONLY | O_DIRECT);
  unlink(name);
  if (direct < 0) return;
  std::uint8_t* const memory = map(kLarge);
  among_others([&] {
    for (unsigned round = 0; round < 3; ++round) {
      for (std::size_t at = 0; at < kLarge; at += kPieceBytes) {
        const std::size_t bytes = std::min(kPieceBytes, kLarge - at);
        fill(memory + at, bytes, round);
        REQUIRE(pwrite(direct, memory + at, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes));
        std::memset(memory + at, 0xee, bytes);
      }
      std::vector<std::uint8_t> written(kLarge);
      REQUIRE(pread(plain, written.data(), kLarge, 0) == static_cast<ssize_t>(kLarge));
      for (std::size_t at = 0; at < kLarge; at += kPieceBytes) {
        REQUIRE(is_filled(written.data() + at, std::min(kPieceBytes, kLarge - at), round));
      }
    }
  });
}

// As a kernel answers that has none of it; so programs do it in another way.
void refused_calls() {
  const auto are_refused = [] {
    std::uint64_t word = 0;
    iovec part{&word, sizeof word};
    int ends[2];
    if (pipe(ends) != 0) return false;
    const auto fails = [](long result, int error) { return result == -1 && errno == error; };
    return fails(syscall(SYS_io_uring_setup, 8, map(kPage)), ENOSYS) &&
           fails(syscall(SYS_io_uring_enter, -1, 1, 0, 0, nullptr, 0), ENOSYS) &&
           fails(syscall(SYS_io_uring_register, -1, 0, nullptr, 0), ENOSYS) &&
           fails(syscall(SYS_io_setup, 8, &word), ENOSYS) &&
           fails(process_vm_writev(getpid(), &part, 1, &part, 1, 0), ENOSYS) &&
           fails(vmsplice(ends[1], &part, 1, 0), EINVAL);
  };
  fill(static_array, kLarge, 1);
  REQUIRE(are_refused());
  const pid_t child = fork();
  if (child == 0) _exit(are_refused() ? 0 : 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && status == 0 && is_filled(static_array, kLarge, 1));
}

}  // namespace far_program
