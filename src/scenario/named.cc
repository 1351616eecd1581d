#include "scenario/named.h"

#include <algorithm>
#include <array>

namespace farside::scenario {

namespace {

using cache::CacheRules;
using sim::Network;
using sim::Scheduler;

std::uint32_t between(Scheduler& dice, std::uint32_t least, std::uint32_t most) {
  return least + static_cast<std::uint32_t>(dice.random() % (most - least + 1));
}

// Network's switches but for the grain, each as likely on as off.
void draw_network(Scheduler& dice, Network& network) {
  network.grain_bytes = draw_grain(dice);
  for (const NamedSwitch& each : named_switches()) network.*each.on = dice.one_in(2);
}

// The lease of a scenario without deaths, pauses and stalls: longer than any load takes. A link that breaks leaves a
// loader's cell behind, for which others wait as long.
std::uint32_t undisturbed_lease_ms(const Network& network) { return network.breaks_links ? 5 : 1000; }

// Anything: the number of everything, the faults and the network.
CacheScenario draw_any(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  CacheScenario scenario;
  scenario.nodes = between(dice, 2, 4);
  scenario.threads = between(dice, 1, 2);
  scenario.reads = dice.one_in(2) ? 12 : 40;
  scenario.blocks = between(dice, 2, 9);
  scenario.slots = dice.one_in(2) ? between(dice, 2, 4) : 16;
  if (dice.one_in(4)) {  // a few slots that change hands all the time
    scenario.blocks = 3;
    scenario.slots = 2;
    scenario.reads = 60;
  }
  scenario.groups = between(dice, 1, 2);
  scenario.deaths = dice.one_in(2) ? 1 : 0;
  scenario.pauses = dice.one_in(2) ? 2 : 0;
  scenario.stalls = dice.one_in(2) ? 2 : 0;
  draw_network(dice, scenario.network);
  if (scenario.deaths + scenario.pauses + scenario.stalls == 0) {
    scenario.lease_ms = undisturbed_lease_ms(scenario.network);
  }
  scenario.restarts = dice.one_in(2) ? scenario.deaths : 0;
  return scenario;
}

// Nodes that die and come back all the time, and have the same few blocks in each life: what was posted to one life of
// a peer, or begun to be copied from it, ends in the next.
CacheScenario draw_restart(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  CacheScenario scenario;
  scenario.nodes = between(dice, 3, 4);
  scenario.threads = 2;
  scenario.reads = 60;
  scenario.blocks = 3;
  scenario.slots = 2;
  scenario.deaths = 100;
  scenario.restarts = 100;
  draw_network(dice, scenario.network);
  scenario.network.lands_late = true;
  scenario.network.dead_memory_answers = true;
  return scenario;
}

// Two slots a node through which three blocks pass, and one node whose operations are slow: while it copies a slot,
// that is recycled for other blocks and back.
CacheScenario draw_recycle(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  CacheScenario scenario;
  scenario.nodes = between(dice, 2, 3);
  scenario.threads = 1;
  scenario.reads = 60;
  scenario.blocks = 3;
  scenario.slots = 2;
  scenario.load_us = 1;
  draw_network(dice, scenario.network);
  scenario.lease_ms = undisturbed_lease_ms(scenario.network);
  scenario.network.lands_late = true;
  scenario.network.slow_process = 0;
  return scenario;
}

// More threads than slots, more blocks than rows, and links that stall: slots, rows and cells change hands all the
// time, and what was given up arrives late.
CacheScenario draw_jam(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  CacheScenario scenario;
  scenario.nodes = between(dice, 2, 3);
  scenario.threads = between(dice, 3, 4);
  scenario.reads = 12;
  scenario.blocks = between(dice, 6, 15);
  scenario.slots = 2;
  scenario.stalls = 2;
  draw_network(dice, scenario.network);
  return scenario;
}

// All threads of all nodes want the same blocks in the same order, and there is room for all.
CacheScenario draw_crowd(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  CacheScenario scenario;
  scenario.nodes = between(dice, 2, 4);
  scenario.threads = between(dice, 1, 2);
  scenario.blocks = between(dice, 1, 4);
  scenario.reads = scenario.blocks;
  scenario.slots = 8;
  scenario.groups = between(dice, 1, 2);
  scenario.all_at_once = true;
  draw_network(dice, scenario.network);
  scenario.lease_ms = undisturbed_lease_ms(scenario.network);
  return scenario;
}

// The same, and a load takes several leases, which a thread of the loader's node renews. Nothing else takes as long as
// a lease.
CacheScenario draw_slow(std::uint64_t seed) {
  CacheScenario scenario = draw_crowd(seed);
  scenario.lease_ms = 10;
  scenario.load_us = 4000;
  scenario.has_keepers = true;
  for (bool Network::*const late : {&Network::lands_late, &Network::stalls_before_posting, &Network::answers_late,
                                    &Network::clocks_stop, &Network::breaks_links}) {
    scenario.network.*late = false;
  }
  return scenario;
}

// As any, with many faults of each kind.
CacheScenario draw_storm(std::uint64_t seed) {
  CacheScenario scenario = draw_any(seed);
  scenario.reads = 60;
  scenario.lease_ms = 5;
  scenario.deaths = scenario.restarts = 10;
  scenario.pauses = 20;
  scenario.stalls = 40;
  scenario.impatient = true;
  scenario.network.stalls_before_posting = true;
  scenario.network.lands_late = true;
  return scenario;
}

constexpr std::array kScenarios{
    NamedScenario{"cache", "nodes read random blocks; with any fault", draw_any},
    NamedScenario{"recycle", "a slot is recycled for other blocks and back while it is copied", draw_recycle},
    NamedScenario{"jam", "more threads than slots, and links that stall", draw_jam},
    NamedScenario{"restart", "nodes die and come back, empty, all the time", draw_restart},
    NamedScenario{"storm", "many faults of each kind", draw_storm},
    NamedScenario{"crowd", "all nodes want the same blocks at once, and there is room for all", draw_crowd},
    NamedScenario{"slow", "the same, and the file system takes longer than a lease", draw_slow},
};

constexpr std::array kNumbers{
    NamedNumber{"nodes", &CacheScenario::nodes, 2},
    NamedNumber{"threads", &CacheScenario::threads, 1},
    NamedNumber{"reads", &CacheScenario::reads, 1},
    NamedNumber{"blocks", &CacheScenario::blocks, 1},
    NamedNumber{"slots", &CacheScenario::slots, 2},
    NamedNumber{"groups", &CacheScenario::groups, 1},
    NamedNumber{"deaths", &CacheScenario::deaths, 0},
    NamedNumber{"restarts", &CacheScenario::restarts, 0},
    NamedNumber{"pauses", &CacheScenario::pauses, 0},
    NamedNumber{"stalls", &CacheScenario::stalls, 0},
    NamedNumber{"max-stall-ms", &CacheScenario::max_stall_ms, 1, false},
    NamedNumber{"load-us", &CacheScenario::load_us, 0, false},
    NamedNumber{"lease-ms", &CacheScenario::lease_ms, 1, false},
};

// A new one comes last: a recorded seed counts them from the first (tests/sim/cache/cache_sim_test.cc).
constexpr std::array kSwitches{
    NamedSwitch{"stores_twice", &Network::stores_twice},
    NamedSwitch{"reorders", &Network::reorders},
    NamedSwitch{"completes_before_visible", &Network::completes_before_visible},
    NamedSwitch{"buffers_stores", &Network::buffers_stores},
    NamedSwitch{"splits_atomics", &Network::splits_atomics},
    NamedSwitch{"lands_late", &Network::lands_late},
    NamedSwitch{"stalls_before_posting", &Network::stalls_before_posting},
    NamedSwitch{"needs_calls_for_progress", &Network::needs_calls_for_progress},
    NamedSwitch{"clocks_drift", &Network::clocks_drift},
    NamedSwitch{"dead_memory_answers", &Network::dead_memory_answers},
    NamedSwitch{"interleaves_accesses", &Network::interleaves_accesses},
    NamedSwitch{"replaces_links", &Network::replaces_links},
    NamedSwitch{"clocks_stop", &Network::clocks_stop},
    NamedSwitch{"misses_plain_writes", &Network::misses_plain_writes},
    NamedSwitch{"revokes_slowly", &Network::revokes_slowly},
    NamedSwitch{"freed_reads_blank", &Network::freed_reads_blank},
    NamedSwitch{"prioritizes", &Network::prioritizes},
    NamedSwitch{"breaks_links", &Network::breaks_links},
    NamedSwitch{"flushes_replace_links", &Network::flushes_replace_links},
    NamedSwitch{"answers_late", &Network::answers_late},
    NamedSwitch{"fences_flush", &Network::fences_flush},
};

constexpr std::array kRules{
    NamedRule{"compares_ids", &CacheRules::compares_ids},
    NamedRule{"compares_tokens", &CacheRules::compares_tokens},
    NamedRule{"compares_keys", &CacheRules::compares_keys},
    NamedRule{"reads_header_again", &CacheRules::reads_header_again},
    NamedRule{"reads_header_words_alone", &CacheRules::reads_header_words_alone},
    NamedRule{"token_tells_lives", &CacheRules::token_tells_lives},
    NamedRule{"token_follows_bytes", &CacheRules::token_follows_bytes},
    NamedRule{"cells_are_exchanged", &CacheRules::cells_are_exchanged},
    NamedRule{"cell_follows_bytes", &CacheRules::cell_follows_bytes},
    NamedRule{"lease_expires", &CacheRules::lease_expires},
    NamedRule{"lease_is_waited_for", &CacheRules::lease_is_waited_for},
    NamedRule{"slot_outlives_lease", &CacheRules::slot_outlives_lease},
    NamedRule{"claims_look_again", &CacheRules::claims_look_again},
    NamedRule{"claims_are_alone", &CacheRules::claims_are_alone},
    NamedRule{"discard_looks_again", &CacheRules::discard_looks_again},
};

}  // namespace

std::uint32_t draw_grain(Scheduler& dice) {
  constexpr std::array<std::uint32_t, 4> kGrains{4, 4, 8, 64};
  return kGrains.at(dice.random() % kGrains.size());
}

std::span<const NamedScenario> named_scenarios() { return kScenarios; }
std::span<const NamedNumber> named_numbers() { return kNumbers; }
std::span<const NamedSwitch> named_switches() { return kSwitches; }
std::span<const NamedRule> named_rules() { return kRules; }

const NamedScenario* find_scenario(std::string_view name) {
  const auto found = std::ranges::find(kScenarios, name, &NamedScenario::name);
  return found == kScenarios.end() ? nullptr : &*found;
}

std::string command_for(std::uint64_t seed, const NamedScenario& drawn_from, const CacheScenario& scenario) {
  const CacheScenario drawn = drawn_from.draw(seed);
  std::string command = "farside-sim --seed " + std::to_string(seed) + " " + std::string(drawn_from.name);
  for (const NamedNumber& each : kNumbers) {
    if (drawn.*each.value == scenario.*each.value) continue;
    command += " --" + std::string(each.name) + " " + std::to_string(scenario.*each.value);
  }
  if (drawn.network.grain_bytes != scenario.network.grain_bytes) {
    command += " --grain " + std::to_string(scenario.network.grain_bytes);
  }
  for (const NamedSwitch& each : kSwitches) {
    if (drawn.network.*each.on == scenario.network.*each.on) continue;
    command += (scenario.network.*each.on ? " --with " : " --without ") + std::string(each.name);
  }
  for (const NamedRule& each : kRules) {
    if (!(scenario.rules.*each.kept)) command += " --break " + std::string(each.name);
  }
  return command;
}

}  // namespace farside::scenario
