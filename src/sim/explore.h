// explore.h — every schedule of a small program.
//
// A schedule is the order in which the steps happen: a thread that goes on, a word that arrives, a store that leaves a
// buffer. Two that differ only in the order of neighbours that have nothing to do with each other are the same schedule
// (dynamic partial-order reduction with source sets and sleep sets: Abdulla, Aronis, Jonsson, Sagonas, "Optimal dynamic
// partial order reduction", 2014). Steps have to do with each other when both touch a place and one of them stores
// there, or when one makes the other; constant words are ignored.
//
// It does not cover time. Deadlines, leases and pauses run out only when nothing else can happen. A process has one
// thread, since what threads share outside of the fabric's memory is not seen.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/scheduler.h"

namespace farside::sim {

/// Runs once from the beginning to the end under what `chooser` says; returns what went wrong. The same each time but
/// for the order of steps.
using SmallProgram = std::function<std::optional<std::string>(Chooser& chooser)>;

struct Exploration {
  std::uint64_t schedules = 0;           ///< that were run to the end
  bool complete = false;                 ///< there are no more
  std::optional<std::string> violation;  ///< the first
};

/// Until a violation, to the end, or to `most_schedules`.
[[nodiscard]] Exploration explore(const SmallProgram& program, std::uint64_t most_schedules);

}  // namespace farside::sim
