// program_file.h — what an executable file tells of how it is linked.
//
// Stands alone: the library inside programs looks at the files that those execute.
#pragma once

#include <cstdint>
#include <cstring>

#include <elf.h>

namespace farside {

namespace program_file {

/// Whether the part of the file that the dynamic linker reads says that it is a program (and no library).
template <class ReadAt>
bool is_marked_as_program(const ReadAt& read_at, const Elf64_Phdr& dynamic) {
  constexpr std::uint64_t kMaxEntries = 1000;
  for (std::uint64_t i = 0; i < kMaxEntries && (i + 1) * sizeof(Elf64_Dyn) <= dynamic.p_filesz; ++i) {
    Elf64_Dyn entry;
    if (!read_at(dynamic.p_offset + i * sizeof entry, &entry, sizeof entry)) return false;
    if (entry.d_tag == DT_FLAGS_1) return (entry.d_un.d_val & DF_1_PIE) != 0;
  }
  return false;
}

}  // namespace program_file

/// Returns whether the file is a program that no dynamic linker starts, so that nothing can be preloaded into it. False
/// for a script, and for a dynamic linker itself, which can be executed with the name of a program.
/// `read_at(offset, into, bytes)` returns whether the file has all those bytes.
template <class ReadAt>
bool is_linked_statically(const ReadAt& read_at) {
  Elf64_Ehdr header;
  if (!read_at(0, &header, sizeof header) || std::memcmp(&header.e_ident[0], ELFMAG, SELFMAG) != 0) return false;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  Elf64_Phdr dynamic{};
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    if (!read_at(header.e_phoff + i * sizeof part, &part, sizeof part) || part.p_type == PT_INTERP) return false;
    if (part.p_type == PT_DYNAMIC) dynamic = part;
  }
  return header.e_type == ET_EXEC ||
         (header.e_type == ET_DYN && program_file::is_marked_as_program(read_at, dynamic));  // static, at any address
}

}  // namespace farside
