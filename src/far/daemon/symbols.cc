#include "far/daemon/symbols.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>

#include "farside/base/rounding.h"

#include "far/pager/page_table.h"

namespace farside::far {

namespace {

constexpr std::uint64_t kLeastBytes = 16 * kPageBytes;
constexpr char kUnknown[] = "unknown";

// The information in the files themselves suffices: nothing is looked for elsewhere, or fetched.
int no_debug_information(Dwfl_Module* /*module*/, void** /*data*/, const char* /*name*/, Dwarf_Addr /*base*/,
                         const char* /*file*/, const char* /*link*/, GElf_Word /*crc*/, char** /*found*/) {
  return -1;
}

constexpr Dwfl_Callbacks kCallbacks{.find_elf = dwfl_linux_proc_find_elf,
                                    .find_debuginfo = no_debug_information,
                                    .section_address = nullptr,
                                    .debuginfo_path = nullptr};

std::filesystem::path executable_of(pid_t process) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + std::to_string(process) + "/exe", error);
}

/// The files that a process has mapped now.
class Files {
 public:
  explicit Files(pid_t process) : session_(dwfl_begin(&kCallbacks), dwfl_end) {
    if (session_ == nullptr) return;
    (void)dwfl_linux_proc_report(session_.get(), process);
    (void)dwfl_report_end(session_.get(), nullptr, nullptr);
  }

  [[nodiscard]] Dwfl_Module* with(std::uint64_t address) const { return dwfl_addrmodule(session_.get(), address); }
  [[nodiscard]] Dwfl_Module* named(const std::string& name) const {
    struct Search {
      const std::string& name;
      Dwfl_Module* found = nullptr;
    } search{name};
    const auto look = [](Dwfl_Module* module, void** /*data*/, const char* file, Dwarf_Addr /*begin*/, void* argument) {
      auto& wanted = *static_cast<Search*>(argument);
      if (wanted.name != file) return static_cast<int>(DWARF_CB_OK);
      wanted.found = module;
      return static_cast<int>(DWARF_CB_ABORT);
    };
    (void)dwfl_getmodules(session_.get(), look, &search, 0);
    return search.found;
  }

 private:
  const std::unique_ptr<Dwfl, void (*)(Dwfl*)> session_;
};

std::string name_of(Dwfl_Module* module, std::uint64_t address) {
  if (module == nullptr) return kUnknown;
  Dwarf_Addr begin = 0;
  const char* const file = dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
  return fmt::format("{}+{:#x}", std::filesystem::path(file).filename().string(), address - begin);
}

std::string readable(const char* symbol) {
  if (symbol == nullptr) return {};
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : symbol;
}

AddressRange in_pages(std::uint64_t begin, std::uint64_t end, const AddressRange& within) {
  begin = std::max(begin / kPageBytes * kPageBytes, within.address);
  end = std::min(round_up(end, kPageBytes), within.address + within.bytes);
  return {begin, end > begin ? end - begin : 0};
}

}  // namespace

std::string program_of(pid_t process) {
  const std::string name = executable_of(process).filename();
  return name.empty() ? kUnknown : name;
}

Place place_of(pid_t process, std::uint64_t address) {
  const Files files(process);
  Dwfl_Module* const module = files.with(address);
  // An address to return to may be that of the next function.
  const char* const symbol = module != nullptr ? dwfl_module_addrname(module, address - 1) : nullptr;
  return {.name = name_of(module, address), .function = readable(symbol)};
}

std::vector<StaticArray> static_arrays_in(pid_t process, const AddressRange& range) {
  const Files files(process);
  Dwfl_Module* const module = files.named(executable_of(process));
  std::vector<StaticArray> arrays;
  const int count = module != nullptr ? dwfl_module_getsymtab(module) : 0;
  for (int i = 0; i < count; ++i) {
    GElf_Sym symbol{};
    GElf_Addr begin = 0;
    const char* const name = dwfl_module_getsym_info(module, i, &symbol, &begin, nullptr, nullptr, nullptr);
    if (name == nullptr || GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size < kLeastBytes) continue;
    const AddressRange pages = in_pages(begin, begin + symbol.st_size, range);
    if (pages.bytes != 0) arrays.push_back({pages, readable(name)});
  }
  if (arrays.empty()) arrays.push_back({range, name_of(module, range.address)});
  return arrays;
}

}  // namespace farside::far
