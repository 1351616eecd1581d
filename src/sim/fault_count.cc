#include "sim/fault_count.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace farside::sim {

namespace {

constexpr std::array<std::string_view, FaultCount::kFaults> kNames{
    "stalled",         "late",           "poster stopped", "poster died",  "landed orphaned", "timed out",
    "landed given up", "target stopped", "target died",    "link cut",     "link replaced",   "access taken",
    "answered late",   "answer lost",    "link broke",     "signal missed"};

constexpr std::uint32_t bit(Fault fault) { return 1U << static_cast<std::uint32_t>(fault); }

// A signal is missed by a call that waits for it.
constexpr std::uint32_t kMetByOperations = bit(Fault::signal_missed) - 1;

std::string_view to_string(Operation::Kind kind) {
  switch (kind) {
    case Operation::Kind::read: return "READ";
    case Operation::Kind::write: return "WRITE";
    default: return "atomic";
  }
}

bool can_meet(const FaultCount::Step& step, std::size_t fault) { return (step.can_meet >> fault & 1U) != 0; }

/// "row 3 cell" and "row 4 cell" are one: "row cell".
std::string without_digits(const std::string& name) {
  std::string plain;
  for (const char each : name) {
    if (std::isdigit(static_cast<unsigned char>(each)) != 0) continue;
    if (each != ' ' || (!plain.empty() && plain.back() != ' ')) plain += each;
  }
  if (plain.ends_with(' ')) plain.pop_back();
  return plain;
}

}  // namespace

std::string_view to_string(Fault fault) { return kNames.at(static_cast<std::size_t>(fault)); }

FaultCount::Step& FaultCount::step(Operation::Kind kind, const std::string& region, std::uint64_t offset) {
  Step*& known = known_[{kind, region, place_name_ ? offset : 0}];
  if (known == nullptr) {
    const std::string place = place_name_ ? place_name_(region, offset) : region;
    known = &steps_[std::string(to_string(kind)) + " " + without_digits(place)];
    known->can_meet = kMetByOperations;
  }
  return *known;
}

FaultCount::Step& FaultCount::call(const std::string& name, std::initializer_list<Fault> can_meet) {
  Step& step = steps_[without_digits(name)];
  for (const Fault fault : can_meet) step.can_meet |= bit(fault);
  return step;
}

std::string FaultCount::table() const {
  std::ostringstream out;
  out << "| step | posted |";
  for (const std::string_view name : kNames) out << ' ' << name << " |";
  out << "\n| --- | --- |";
  for (std::size_t fault = 0; fault < kFaults; ++fault) out << " --- |";
  for (const auto& [name, step] : steps_) {
    out << "\n| " << name << " | " << step.posted << " |";
    for (std::size_t fault = 0; fault < kFaults; ++fault) {
      out << ' ' << (can_meet(step, fault) ? std::to_string(step.met.at(fault)) : "") << " |";
    }
  }
  out << '\n';
  return std::move(out).str();
}

std::uint64_t FaultCount::count(const std::string& step, Fault fault) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? 0 : found->second.met.at(static_cast<std::size_t>(fault));
}

std::set<std::string> FaultCount::pairs(bool were_met) const {
  std::set<std::string> pairs;
  for (const auto& [name, step] : steps_) {
    for (std::size_t fault = 0; fault < kFaults; ++fault) {
      if (!can_meet(step, fault)) continue;
      if ((step.met.at(fault) != 0) == were_met) pairs.insert(name + ": " + std::string(kNames.at(fault)));
    }
  }
  return pairs;
}

}  // namespace farside::sim
