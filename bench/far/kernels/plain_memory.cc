#include "bench/far/kernels/plain_memory.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace farside::bench {

namespace {

constexpr std::size_t kPage = 4096;

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

std::uint64_t counted_by_kernel(const std::string& counter) {
  std::ifstream file("/proc/vmstat");
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value;) {
    if (name == counter) return value;
  }
  return 0;
}

class PlainMemory final : public Memory {
 public:
  explicit PlainMemory(bool locks) : locks_(locks) {}
  ~PlainMemory() override {
    for (void* const begin : taken_) std::free(begin);
  }

  void* take(std::size_t bytes, Use use) override {
    void* const begin = std::calloc(bytes, 1);
    if (begin == nullptr) throw std::bad_alloc();
    taken_.push_back(begin);
    if (locks_ && use == Use::updated && ::mlock(begin, bytes) != 0) fail("lock memory");
    return begin;
  }
  /// To and from all swap of this machine.
  [[nodiscard]] Traffic traffic() const override {
    return {counted_by_kernel("pswpin") * kPage, counted_by_kernel("pswpout") * kPage};
  }

 private:
  bool locks_;
  std::vector<void*> taken_;
};

class MappedFile final : public Memory {
 public:
  MappedFile(const std::filesystem::path& path, bool locks, std::uint64_t bytes)
      : bytes_(bytes + kSlackBytes), locks_(locks) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail("make the file " + path.string());
    const int refused = ::posix_fallocate(file, 0, static_cast<off_t>(bytes_));
    void* const place =
        refused != 0 ? MAP_FAILED : ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (refused != 0) errno = refused;
    const int error = errno;
    ::close(file);
    errno = error;
    if (place == MAP_FAILED) fail("map the file " + path.string());
    base_ = static_cast<std::byte*>(place);
  }
  ~MappedFile() override { ::munmap(base_, bytes_); }

  void* take(std::size_t bytes, Use use) override {
    std::byte* const begin = base_ + used_;
    const std::size_t whole_pages = (bytes + kPage - 1) / kPage * kPage;
    if (whole_pages > bytes_ - used_) throw std::bad_alloc();
    used_ += whole_pages;
    if (locks_ && use == Use::updated && ::mlock(begin, bytes) != 0) fail("lock memory");
    return begin;
  }
  /// To and from all block devices of this machine.
  [[nodiscard]] Traffic traffic() const override {
    constexpr std::uint64_t kUnit = 1024;
    return {counted_by_kernel("pgpgin") * kUnit, counted_by_kernel("pgpgout") * kUnit};
  }

 private:
  static constexpr std::size_t kSlackBytes = 1 << 20;

  std::size_t bytes_;
  std::size_t used_ = 0;
  bool locks_;
  std::byte* base_ = nullptr;
};

}  // namespace

std::unique_ptr<Memory> open_plain_memory(const PlainMemoryOptions& options, std::uint64_t bytes) {
  if (options.map.empty()) return std::make_unique<PlainMemory>(options.locks);
  return std::make_unique<MappedFile>(options.map, options.locks, bytes);
}

}  // namespace farside::bench
