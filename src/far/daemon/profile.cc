#include "far/daemon/profile.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "farside/base/error.h"

namespace farside::far {

namespace {

constexpr std::array<std::pair<std::string_view, Hint>, 5> kHints{{{"none", Hint::none},
                                                                   {"read_mostly", Hint::read_mostly},
                                                                   {"updated", Hint::updated},
                                                                   {"sequential", Hint::sequential},
                                                                   {"pinned", Hint::pinned}}};

constexpr std::array<std::string_view, kPageEvents> kCounts{"pages_fetched", "pages_used_ahead", "pages_written",
                                                            "pages_stored"};

std::string_view text(Hint hint) {
  return std::ranges::find(kHints, hint, &decltype(kHints)::value_type::second)->first;
}

// ---- What follows from the counts

// Returns the bytes of all allocations that have the name, as if they existed at the same time.
std::uint64_t bytes_of_all(const AllocationUse& use) { return use.bytes * use.times; }

// Each page that came back tells something; a quarter of an allocation is not enough to judge it by.
Hint hint_for(const AllocationUse& use) {
  if (use.hint == Hint::pinned) return use.hint;  // a person said so
  const std::uint64_t pages = bytes_of_all(use) / kPageBytes;
  const std::uint64_t fetched = use.count(PageEvent::fetched);
  const std::uint64_t written = use.count(PageEvent::written);
  if (fetched == 0 || fetched < pages / 4) return use.hint;
  if (written >= fetched / 4) return Hint::updated;  // what is written once a round may come twice
  if (written > fetched / 8) return Hint::none;
  const bool is_walk = use.count(PageEvent::used_ahead) >= fetched / 2;
  return is_walk && fetched < pages + pages / 2 ? Hint::sequential : Hint::read_mostly;
}

}  // namespace

std::vector<Hint> deduce_hints(std::span<const AllocationUse> uses, std::uint64_t budget_bytes) {
  std::vector<Hint> hints(uses.size());
  std::ranges::transform(uses, hints.begin(), hint_for);
  // If all leave last, none does: those stay that have it already, and then those that gain most by the byte.
  std::vector<std::size_t> updated;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (hints[i] == Hint::updated) updated.push_back(i);
  }
  const auto gain = [&](std::size_t i) {
    const auto written = static_cast<double>(uses[i].count(PageEvent::written));
    return std::pair(uses[i].hint == Hint::updated,
                     written / static_cast<double>(std::max<std::uint64_t>(bytes_of_all(uses[i]), 1)));
  };
  std::ranges::stable_sort(updated, std::ranges::greater{}, gain);
  std::uint64_t room = budget_bytes / 4 * 3;
  for (const std::size_t i : updated) {
    const std::uint64_t bytes = bytes_of_all(uses[i]);
    if (bytes > room) {
      hints[i] = Hint::none;
    } else {
      room -= bytes;
    }
  }
  return hints;
}

// ---- The file

namespace {

class HintsFile {
 public:
  explicit HintsFile(std::filesystem::path path) : path_(std::move(path)) {}

  /// Calls `then(name, hint)` for each that it has.
  template <class Then>
  void for_each(Then&& then) const {
    const nlohmann::json root = parse();
    if (!root.is_object() || !root.contains("allocations") || !root["allocations"].is_array()) {
      fail("it has no list \"allocations\"");
    }
    std::size_t number = 0;
    for (const nlohmann::json& one : root["allocations"]) {
      const std::string where = fmt::format("allocations[{}]", number++);
      const std::string name = text_in(one, "name", where);
      const std::string wanted = text_in(one, "hint", where);
      const auto* const known = std::ranges::find(kHints, wanted, &decltype(kHints)::value_type::first);
      if (known == kHints.end()) fail(fmt::format(R"({}.hint, of "{}": there is no hint "{}")", where, name, wanted));
      if (!then(name, known->second)) fail(fmt::format(R"({}.name: "{}" was named before)", where, name));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw UsageError({"read hints from", path_, why,
                      "farside far --profile FILE writes such files; a hint is none, read_mostly, updated, sequential "
                      "or pinned"});
  }

  [[nodiscard]] nlohmann::json parse() const {
    std::ifstream in(path_);
    if (!in) throw UsageError(errno_error("read hints from", path_).failure());
    try {
      return nlohmann::json::parse(in);
    } catch (const std::exception& error) {  // of text that is no JSON it names line and column
      fail(error.what());
    }
  }

  [[nodiscard]] std::string text_in(const nlohmann::json& one, const char* field, const std::string& where) const {
    if (!one.is_object() || !one.contains(field) || !one[field].is_string()) {
      fail(where + "." + field + ": a text is missing there");
    }
    return one[field];
  }

  const std::filesystem::path path_;
};

}  // namespace

void expect_writable(const std::filesystem::path& file) {
  if (!std::ofstream(file, std::ios::app)) throw errno_error("write a profile into", file);
}

AllocationUse Profile::Allocation::use() const {
  AllocationUse use{.bytes = bytes_, .times = times_, .pages = {}, .hint = hint_};
  std::ranges::transform(pages_, use.pages.begin(), [](const auto& count) { return count.load(); });
  return use;
}

Profile::Allocation& Profile::find(const std::string& name) {
  Allocation*& found = by_name_[name];
  if (found == nullptr) found = &allocations_.emplace_back(name);
  return *found;
}

void Profile::read_hints(const std::filesystem::path& file) {
  const MutexLock lock(mutex_);
  HintsFile(file).for_each([this](const std::string& name, Hint hint) {
    mutex_.assume_held();
    Allocation& allocation = find(name);
    allocation.hint_ = hint;
    return !std::exchange(allocation.is_named_by_file_, true);
  });
}

Profile::Allocation& Profile::allocated(const std::string& name, const std::string& function, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  Allocation& allocation = find(name);
  allocation.function_ = function;
  allocation.bytes_ = std::max(allocation.bytes_, bytes);
  ++allocation.times_;
  return allocation;
}

Profile::HintsGiven Profile::hints_given() {
  const MutexLock lock(mutex_);
  HintsGiven given;
  for (const Allocation& allocation : allocations_) {
    if (!allocation.is_named_by_file_) continue;
    ++given.names;
    if (allocation.times_ == 0) ++given.unknown;
    if (allocation.hint_ != Hint::none) given.allocations += allocation.times_;
  }
  return given;
}

void Profile::write(const std::filesystem::path& file) {
  const MutexLock lock(mutex_);
  std::vector<AllocationUse> uses;
  for (const Allocation& allocation : allocations_) uses.push_back(allocation.use());
  const std::vector<Hint> hints = deduce_hints(uses, budget_bytes_);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < uses.size(); ++i) {
    nlohmann::ordered_json one{{"name", allocations_[i].name_},
                               {"hint", text(hints[i])},
                               {"function", allocations_[i].function_},
                               {"bytes", uses[i].bytes},
                               {"times", uses[i].times}};
    for (std::size_t event = 0; event < kPageEvents; ++event)
      one[std::string(kCounts.at(event))] = uses[i].pages.at(event);
    list.push_back(std::move(one));
  }
  std::ofstream out(file);
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;  // names are files', of any bytes
  out << nlohmann::ordered_json{{"local_bytes", budget_bytes_}, {"allocations", std::move(list)}}.dump(2, ' ', false,
                                                                                                       kReplace)
      << '\n';
  if (!out.flush()) throw errno_error("write a profile into", file);
}

}  // namespace farside::far
