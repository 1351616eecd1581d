// What programs do by mmap and its relatives, with files and without.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/far_programs/hammer.h"

namespace hammer {

// Memory that is moved, grown, cut, discarded, covered and protected keeps the bytes that it must keep, and no others.
void mappings() {
  const auto move = [](Page* area, std::size_t from, std::size_t to) {
    void* moved = ::mremap(area, from * kPage, to * kPage, MREMAP_MAYMOVE);
    require(moved != MAP_FAILED, "mremap failed");
    return static_cast<Page*>(moved);
  };
  Page* area = map(kPages / 2);
  write_all(area, 1, kPages / 2);
  Page* wall = map(1024);  // so that it can hardly grow where it is
  area = move(area, kPages / 2, kPages);
  check_all(area, 1, "a byte is wrong after mremap", kPages / 2);
  for (std::size_t page = kPages / 2; page < kPages; ++page) require(area[page][0] == 0, "not zero after mremap", page);
  write_all(area, 2);
  area = move(area, kPages, kPages * 3 / 4);
  check_all(area, 2, "a byte is wrong after it was cut", kPages * 3 / 4);

  require(::madvise(area[100], 1000 * kPage, MADV_DONTNEED) == 0, "madvise failed");
  require(::munmap(area[2000], 1000 * kPage) == 0, "munmap failed");
  map(1000, area[4000], MAP_FIXED);
  require(::mprotect(area[6000], 1000 * kPage, PROT_READ) == 0, "mprotect failed");
  for (std::size_t page = 0; page < kPages * 3 / 4; ++page) {
    if ((page >= 100 && page < 1100) || (page >= 4000 && page < 5000)) {
      require(area[page][0] == 0 && area[page][kWords - 1] == 0, "not zero after it was discarded or covered", page);
    } else if (page < 2000 || page >= 3000) {
      check_page(area, page, 2, "a neighbour of what was discarded, covered or protected is wrong");
    }
  }
  require(::mprotect(area[6000], 1000 * kPage, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
  Page* hole = map(1000, area[2000], MAP_FIXED);
  require(hole == area + 2000, "the hole was not filled");
  write_all(area, 3, kPages * 3 / 4);
  check_all(area, 3, "a byte is wrong after all that", kPages * 3 / 4);
  require(wall[5][0] == 0 && ::munmap(wall, 1024 * kPage) == 0 && ::munmap(area, kPages * 3 / 4 * kPage) == 0,
          "munmap failed");
}

// Files mapped over a part of the memory, one of a disk and one that lies in memory, are the program's and its
// children's as without farside; so is what lies beside them.
void files_mapped_over() {
  constexpr std::size_t kFilePages = 1000;
  Page* area = map(kPages);
  write_all(area, 1);
  char name[] = "/tmp/hammer-XXXXXX";
  const int files[] = {::mkstemp(name), ::memfd_create("hammer", 0)};
  ::unlink(name);
  const std::size_t places[] = {2000, 6000};
  for (std::size_t i = 0; i < 2; ++i) {
    require(::ftruncate(files[i], kFilePages * kPage) == 0, "ftruncate failed");
    void* mapped =
        ::mmap(area[places[i]], kFilePages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, files[i], 0);
    require(mapped == area[places[i]], "a file was not mapped");
  }
  const auto check = [&](std::uint64_t version, const char* what) {
    for (std::size_t page = 0; page < kPages; ++page) check_page(area, page, version, what);
  };
  write_all(area, 2);
  check(2, "a byte is wrong beside or in a mapped file");
  const pid_t child = ::fork();
  require(child >= 0, "fork failed");
  if (child == 0) {
    check(2, "a child's byte is wrong beside or in a mapped file");
    write_all(area, 3);
    check(3, "a child's own byte is wrong beside or in a mapped file");
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      check(3, "a grandchild's byte is wrong beside or in a mapped file");
      ::_exit(0);
    }
    wait_for(grandchild, "the grandchild failed");
    ::_exit(0);
  }
  write_all(area, 4);
  wait_for(child, "the child failed");
  check(4, "a parent's byte is wrong beside or in a mapped file");
}

// Of a budget of 12 MiB nine may be pinned; what is pinned twice counts once.
void pins() {
  constexpr std::size_t kBytes = 6U << 20U;
  Page* area = map(kPages);
  for (int i = 0; i < 2; ++i) require(::mlock(area, kBytes) == 0, "mlock failed");
  require(::mlock(area[kPages / 2], kBytes) == -1 && errno == ENOMEM, "more is pinned than may be");
  write_all(area, 1);
  check_all(area, 1, "a byte is wrong");
  require(::munlock(area, kBytes) == 0 && ::mlock(area[kPages / 2], kBytes) == 0, "it counts still");
}

// A mapping that is refused changes nothing of what lies where it was to be.
void refused_mappings() {
  Page* area = map(kPages);
  write_all(area, 1);
  const auto fails = [&](int file, off_t offset, int error) {
    return ::mmap(area[2000], 1000 * kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, offset) == MAP_FAILED &&
           errno == error;
  };
  char name[] = "/tmp/hammer-XXXXXX";
  const int file = ::mkstemp(name);
  const int write_only = ::open(name, O_WRONLY);
  ::unlink(name);
  require(fails(-1, 0, EBADF), "no file was mapped");
  require(fails(write_only, 0, EACCES), "a file that cannot be read was mapped");
  require(fails(file, 1, EINVAL), "half a page was mapped");
  void* nothing = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file, 0);
  require(::munmap(nothing, kPage) == 0, "munmap failed");
  require(::mremap(nothing, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, area[4000]) == MAP_FAILED && errno == EFAULT,
          "what is not there was moved");
  check_all(area, 1, "a byte is wrong where nothing was mapped");
}

// A file over the highest memory that was touched is known to a child's child.
void file_at_the_end() {
  constexpr std::size_t kFilePages = 1000;
  Page* area = map(kPages);
  write_all(area, 1);
  char name[] = "/tmp/hammer-XXXXXX";
  const int file = ::mkstemp(name);
  ::unlink(name);
  require(::ftruncate(file, kFilePages * kPage) == 0, "ftruncate failed");
  void* place = area[kPages - kFilePages];
  require(::mmap(place, kFilePages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == place,
          "a file was not mapped");
  write_all(area, 2);
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      check_all(area, 2, "a grandchild's byte is wrong beside or in a mapped file");
      write_page(area, kPages - 1, 3);
      ::_exit(0);
    }
    wait_for(grandchild, "the grandchild failed");
    ::_exit(0);
  }
  wait_for(child, "the child failed");
  check_page(area, kPages - 1, 3, "what the grandchild wrote to a file is wrong");
}

// As many mappings as the kernel allows. What would take another fails as it always does, and changes nothing; all else
// goes on.
void too_many_mappings() {
  std::FILE* const setting = std::fopen("/proc/sys/vm/max_map_count", "r");
  std::size_t most = 0;
  require(setting != nullptr && std::fscanf(setting, "%zu", &most) == 1, "the kernel does not say how many it allows");
  std::fclose(setting);
  Page* area = map(kPages);
  write_all(area, 1);
  Page* frozen = map(1024);
  write_all(frozen, 1, 1024);
  require(::mprotect(frozen, 1024 * kPage, PROT_READ) == 0, "mprotect failed");
  Page* split = map(most + 1000);
  std::size_t page = 0;
  while (::mprotect(split[page], kPage, PROT_READ) == 0) page += 2;
  require(errno == ENOMEM && page > most / 2, "mprotect failed for another reason");

  const auto fails = [](int result) { return result == -1 && errno == ENOMEM; };
  require(fails(::mprotect(area[100], kPage, PROT_READ)), "one more mapping than the kernel allows");
  const auto covers = [](Page* at, std::size_t pages, int flags, int file) {
    return ::mmap(at, pages * kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED | flags, file, 0) != MAP_FAILED;
  };
  require(!covers(area + 200, 1, MAP_ANONYMOUS, -1) && errno == ENOMEM, "zeros in one more mapping");
  const int file = ::memfd_create("hammer", 0);
  require(!covers(area + 300, 1, 0, file) && errno == ENOMEM, "a file in one more mapping");
  require(fails(::munmap(frozen[256], 512 * kPage)), "to unmap would take a mapping more, and did not fail");
  check_all(area, 1, "a byte is wrong");
  require(!covers(frozen, 1024, 0, file) && errno == ENOMEM, "a file where mappings have run out");
  ::close(file);
  check_all(frozen, 1, "what was not unmapped or covered is wrong", 1024);
  write_all(area, 2);
  const pid_t child = ::fork();
  require(child >= 0, "fork failed");
  if (child == 0) {
    check_all(area, 2, "the child's bytes are wrong");
    ::_exit(0);
  }
  wait_for(child, "the child failed");
  Page* more = map(kPages);
  write_all(more, 3);
  check_all(area, 2, "a byte is wrong after that");
  require(::munmap(split, (most + 1000) * kPage) == 0, "munmap failed");
  require(::munmap(frozen[256], 512 * kPage) == 0, "munmap still fails");
  write_all(map(kPages), 4);
  check_all(more, 3, "a byte is wrong in the end");
}

}  // namespace hammer
