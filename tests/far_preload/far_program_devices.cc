// A program that has devices write into its memory, as far as it may.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <aio.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
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
  request.aio_lio_opcode = LIO_READ;
  aiocb* const list[] = {&request};
  REQUIRE(aio_read(&request) == -1 && errno == EINVAL);
  REQUIRE(lio_listio(LIO_WAIT, list, 1, nullptr) == -1 && errno == EINVAL);
  // Into memory that stays, and of a file that the kernel copies from.
  alignas(kPage) std::uint8_t page[kPage];
  request.aio_buf = page;
  REQUIRE(lio_listio(LIO_WAIT, list, 1, nullptr) == 0 && aio_return(&request) == static_cast<ssize_t>(kPage));
  check(page, 0, kPage);
  request.aio_fildes = memfd_create("far-program", MFD_CLOEXEC);
  request.aio_buf = memory;
  REQUIRE(write(request.aio_fildes, page, kPage) == static_cast<ssize_t>(kPage));
  std::memset(memory, 0xee, kPage);
  REQUIRE(lio_listio(LIO_WAIT, list, 1, nullptr) == 0 && aio_return(&request) == static_cast<ssize_t>(kPage));
  check(memory, 0, kPage);
}

// A thread that is cancelled ends within the read, as within libc's, and nothing stays of the read.
void cancelled_reads() {
  static const File file;
  if (file.direct() < 0) return;
  static std::uint8_t* const memory = map(kLarge);
  const auto addresses = [] {
    FILE* const statistics = std::fopen("/proc/self/statm", "r");
    std::size_t pages = 0;
    REQUIRE(statistics != nullptr && std::fscanf(statistics, "%zu", &pages) == 1 && std::fclose(statistics) == 0);
    return pages * kPage;
  };
  const auto read_as_cancelled = [](void*) -> void* {
    REQUIRE(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr) == 0);
    REQUIRE(pthread_cancel(pthread_self()) == 0);
    REQUIRE(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr) == 0);
    static_cast<void>(pread(file.direct(), memory, kLarge / 8, 0));
    return nullptr;
  };
  std::size_t before = 0;
  for (int i = 0; i <= 100; ++i) {
    if (i == 1) before = addresses();  // the first thread's stack is the others' as well
    pthread_t thread{};
    void* result = nullptr;
    REQUIRE(pthread_create(&thread, nullptr, read_as_cancelled, nullptr) == 0);
    REQUIRE(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  }
  REQUIRE(addresses() < before + 50 * kLarge / 8);
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

namespace {

// As a 32-bit program asks the kernel; any other may, too.
int call_as_i386(int number, long first = 0, long second = 0, long third = 0) {
  long result = number;
  asm volatile("int $0x80" : "+a"(result) : "b"(first), "c"(second), "d"(third) : "r8", "r9", "r10", "r11", "memory");
  return static_cast<int>(result);
}

// It is a fault where the kernel has no 32-bit calls.
bool has_calls_of_i386() {
  constexpr int kGetPid = 20;
  const pid_t child = fork();
  if (child == 0) _exit(call_as_i386(kGetPid) == getpid() ? 0 : 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status == 0;
}

bool are_refused_as_i386() {
  constexpr int kSocket = 359;
  constexpr int kIoUringSetup = 425;
  return call_as_i386(kIoUringSetup, 8) == -ENOSYS && call_as_i386(kSocket, AF_ALG, SOCK_SEQPACKET) == -EAFNOSUPPORT &&
         call_as_i386(kSocket, AF_XDP, SOCK_RAW) == -EAFNOSUPPORT && call_as_i386(kSocket, AF_UNIX, SOCK_STREAM) >= 0;
}

}  // namespace

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
           fails(vmsplice(ends[1], &part, 1, 0), EINVAL) && fails(socket(AF_ALG, SOCK_SEQPACKET, 0), EAFNOSUPPORT) &&
           fails(socket(AF_XDP, SOCK_RAW, 0), EAFNOSUPPORT) && socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
  };
  fill(static_array, kLarge, 1);
  REQUIRE(are_refused());
  REQUIRE(!has_calls_of_i386() || are_refused_as_i386());
  const pid_t child = fork();
  if (child == 0) _exit(are_refused() ? 0 : 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && status == 0 && is_filled(static_array, kLarge, 1));
}

}  // namespace far_program
