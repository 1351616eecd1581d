// A program that reads files whose bytes a device may write into its memory, for all that the library can tell.
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include <aio.h>
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
#include <unistd.h>

#include "tests/far_preload/far_program.h"

// What the compiler calls instead of read and pread when it knows how large the buffer is.
extern "C" {
ssize_t __read_chk(int fd, void* into, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void* into, size_t bytes, off_t offset, size_t room);
}

namespace far_program {

namespace {

std::vector<std::uint64_t> known_words() {
  std::vector<std::uint64_t> words(kKnownBytes / 8);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i + 1;
  return words;
}

void make_known_file(const std::string& name) {
  const int file = open(name.c_str(), O_CREAT | O_WRONLY, 0600);
  REQUIRE(write(file, known_words().data(), kKnownBytes) == static_cast<ssize_t>(kKnownBytes) && close(file) == 0);
}

// The known words on an overlay that is this program's alone and has no name any more. Where nothing can be mounted the
// program ends here.
int file_on_overlay() {
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
  const int file = is_mounted ? open((above + "/file").c_str(), O_RDONLY) : -1;
  umount2(place, MNT_DETACH);
  REQUIRE(rmdir(place) == 0);
  if (is_mounted) return file;
  std::printf("cannot mount an overlay: %s\n", std::strerror(error));
  std::fflush(stdout);
  _exit(kCannotBeTried);
}

// From here on this thread's system calls fail that would read into the block of memory, but for the one by which far
// memory's library goes its way.
void forbid_all_reads_but_preadv2(const std::uint8_t* memory) {
  static_assert(kKnownBytes == std::size_t{1} << 21U);  // whose addresses agree in all but the low 21 bits
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  constexpr std::uint32_t kInto = offsetof(seccomp_data, args) + sizeof(std::uint64_t);
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_readv, 8, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv, 7, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 1, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 6),
                          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kInto + 4),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(begin >> 32U), 0, 4),
                          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kInto),
                          BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~std::uint32_t{kKnownBytes - 1}),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(begin), 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EUCLEAN),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(filter), filter};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

// Whatever libc reads the file by goes through memory that stays; what its own threads would read is refused.
void all_reads_are_copied(int fd) {
  REQUIRE(fd >= 0);
  std::uint8_t* const mapped = map(2 * kKnownBytes);
  std::uint8_t* const memory = mapped + kKnownBytes - reinterpret_cast<std::uintptr_t>(mapped) % kKnownBytes;
  const int copied = memfd_create("far-program", MFD_CLOEXEC);  // by the kernel, for certain
  REQUIRE(copied >= 0 && ftruncate(copied, kPage) == 0);
  FILE* const stream = fdopen(dup(fd), "r");
  REQUIRE(stream != nullptr && setvbuf(stream, nullptr, _IONBF, 0) == 0);
  forbid_all_reads_but_preadv2(memory);
  const iovec parts[] = {{memory, kPage}, {memory + kPage, kKnownBytes - kPage}};
  const auto is_refused = [](ssize_t result) { return result == -1 && errno == EUCLEAN; };
  REQUIRE(is_refused(read(copied, memory + kPage, kPage)) && is_refused(pread(copied, memory, kPage, 0)));
  REQUIRE(is_refused(readv(copied, parts, 2)) && is_refused(preadv(copied, parts, 2, 0)));

  const auto came = [memory](auto result) {
    REQUIRE(result == static_cast<decltype(result)>(kKnownBytes));
    for (std::size_t at = 0; at < kKnownBytes; at += 8) {
      std::uint64_t found = 0;
      std::memcpy(&found, memory + at, sizeof found);
      REQUIRE(found == at / 8 + 1);
    }
    std::memset(memory, 0xee, kKnownBytes);
  };
  const auto from_start = [fd] {
    REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
  };
  came(read(from_start(), memory, kKnownBytes));
  came(__read_chk(from_start(), memory, kKnownBytes, kKnownBytes));
  came(readv(from_start(), parts, 2));
  came(preadv2(from_start(), parts, 2, -1, 0));
  came(pread(fd, memory, kKnownBytes, 0));
  came(__pread_chk(fd, memory, kKnownBytes, 0, kKnownBytes));
  came(preadv(fd, parts, 2, 0));
  came(preadv2(fd, parts, 2, 0, 0));
  REQUIRE(fseek(stream, 0, SEEK_SET) == 0);
  came(fread(memory, 1, kKnownBytes, stream));

  aiocb request{};
  request.aio_fildes = fd;
  request.aio_buf = memory;
  request.aio_nbytes = kPage;
  request.aio_lio_opcode = LIO_READ;
  aiocb* list[] = {nullptr, &request};
  REQUIRE(aio_read(&request) == -1 && errno == EINVAL);
  REQUIRE(lio_listio(LIO_WAIT, list, 2, nullptr) == -1 && errno == EINVAL);
}

}  // namespace

// Its layers may be of a file system whose devices write into memory.
void overlay_reads() { all_reads_are_copied(file_on_overlay()); }

// A file with the known words that the environment names.
void file_reads() { all_reads_are_copied(open(std::getenv("FAR_PROGRAM_FILE"), O_RDONLY)); }

}  // namespace far_program
