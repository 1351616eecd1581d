#include "farside/base/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/units.h"

namespace farside {

void Fd::reset() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Fd make_memfd(const std::string& name, std::size_t bytes) {
  Fd file(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw errno_error("create shared memory", name);
  // The kernel makes it 0777: a descriptor for reading could be opened anew for writing by every user that got it.
  if (::fchmod(file.get(), S_IRUSR | S_IWUSR) != 0) throw errno_error("restrict shared memory to its user", name);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    throw errno_error("size shared memory to " + format_bytes(bytes), name, "ask for less memory");
  }
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) throw errno_error("seal shared memory", name);
  return file;
}

namespace {

/// Free addresses that suit large pages, or null for any. A hint: another thread may take them first.
void* place_for(std::size_t bytes) {
  if (bytes < kLargePageBytes) return nullptr;
  const std::size_t room = bytes + kLargePageBytes;
  void* const free = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (free == MAP_FAILED) return nullptr;  // NOLINT(performance-no-int-to-ptr): the system's own macro
  ::munmap(free, room);
  return static_cast<std::byte*>(free) + -reinterpret_cast<std::uintptr_t>(free) % kLargePageBytes;
}

}  // namespace

// The mapping is removed when a later step throws: the object is complete after the first constructor.
Mapping::Mapping(const Fd& file, std::size_t bytes, Access access) : Mapping() {
  const auto expect = [&](bool is_done) {
    if (is_done) return;
    throw errno_error("map shared memory of " + format_bytes(bytes), "descriptor " + std::to_string(file.get()),
                      "check ulimit -v and the machine's free memory");
  };
  const bool is_private = access == Access::private_to_process;
  const int protection = access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const base = ::mmap(place_for(bytes), bytes, is_private ? PROT_NONE : protection, MAP_SHARED, file.get(), 0);
  expect(base != MAP_FAILED);  // NOLINT(performance-no-int-to-ptr): the system's own macro
  base_ = static_cast<std::byte*>(base);
  bytes_ = bytes;
  // A child of a fork before the first of these calls has a mapping that it cannot use.
  if (is_private) {
    expect(::madvise(base, bytes, MADV_DONTFORK) == 0 && ::madvise(base, bytes, MADV_DONTDUMP) == 0 &&
           ::mprotect(base, bytes, protection) == 0);
  }
}

bool Mapping::blank() noexcept {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return ::mmap(base_, bytes_, PROT_READ | PROT_WRITE, kFlags, -1, 0) == base_;
}

Mapping::~Mapping() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

}  // namespace farside
