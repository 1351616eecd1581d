#include "team/linked_libraries.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include "farside/base/fd.h"

namespace farside::team {

namespace {

constexpr std::size_t kMaxEntries = 4096;  // of what is read of a file
constexpr std::size_t kMaxNameBytes = 256;

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

  template <class T>
  [[nodiscard]] std::optional<T> read(std::uint64_t offset) const {
    T value;
    const ssize_t got = ::pread(file_.get(), &value, sizeof value, static_cast<off_t>(offset));
    return got == static_cast<ssize_t>(sizeof value) ? std::optional(value) : std::nullopt;
  }
  [[nodiscard]] std::string text(std::uint64_t offset) const {
    std::array<char, kMaxNameBytes> bytes{};
    (void)::pread(file_.get(), bytes.data(), bytes.size() - 1, static_cast<off_t>(offset));
    return bytes.data();
  }
  /// Empty where it is no 64-bit ELF file.
  [[nodiscard]] std::vector<Elf64_Phdr> segments() const {
    const auto header = read<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) {
      return {};
    }
    std::vector<Elf64_Phdr> segments;
    for (std::uint64_t each = 0; each < header->e_phnum && each < kMaxEntries; ++each) {
      const auto segment = read<Elf64_Phdr>(header->e_phoff + each * sizeof(Elf64_Phdr));
      if (!segment) return {};
      segments.push_back(*segment);
    }
    return segments;
  }
  [[nodiscard]] std::vector<Elf64_Dyn> dynamic_entries(const Elf64_Phdr& segment) const {
    std::vector<Elf64_Dyn> entries;
    for (std::uint64_t each = 0; each < segment.p_filesz / sizeof(Elf64_Dyn) && each < kMaxEntries; ++each) {
      const auto entry = read<Elf64_Dyn>(segment.p_offset + each * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      entries.push_back(*entry);
    }
    return entries;
  }

 private:
  Fd file_;
};

/// Returns the offset in the file of what is loaded at `address`.
std::optional<std::uint64_t> offset_of(const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    const bool is_here = address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz;
    if (segment.p_type == PT_LOAD && is_here) return segment.p_offset + (address - segment.p_vaddr);
  }
  return std::nullopt;
}

}  // namespace

std::string find_program(const std::string& command) {
  if (command.find('/') != std::string::npos) return command;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string program = (folder.empty() ? "." : folder) + "/" + command;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

std::vector<std::string> linked_libraries(const std::string& path) {
  const ElfFile file(path);
  const std::vector<Elf64_Phdr> segments = file.segments();
  std::vector<std::string> libraries;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::vector<Elf64_Dyn> entries = file.dynamic_entries(segment);
    std::optional<std::uint64_t> names;
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_STRTAB) names = offset_of(segments, entry.d_un.d_ptr);
    }
    if (!names) continue;
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_NEEDED) libraries.push_back(file.text(*names + entry.d_un.d_val));
    }
  }
  return libraries;
}

}  // namespace farside::team
