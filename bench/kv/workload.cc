#include "bench/kv/workload.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>

#include "farside/base/mix.h"

namespace farside::bench {

Mix ycsb(char name) {
  switch (name) {
    case 'A': return {.read = 0.5, .update = 0.5, .keys = KeyDistribution::zipfian};
    case 'B': return {.read = 0.95, .update = 0.05, .keys = KeyDistribution::zipfian};
    case 'C': return {.read = 1, .keys = KeyDistribution::zipfian};
    case 'D': return {.read = 0.95, .insert = 0.05, .keys = KeyDistribution::latest};
    case 'E': return {.read = 0, .insert = 0.05, .scan = 0.95, .keys = KeyDistribution::zipfian};
    case 'F': return {.read = 0.5, .read_modify_write = 0.5, .keys = KeyDistribution::zipfian};
    default: throw std::invalid_argument(std::string("YCSB has no workload ") + name);
  }
}

Mix reads_of(unsigned percent) { return {.read = percent / 100.0, .update = 1 - percent / 100.0}; }

Zipfian::Zipfian(std::uint64_t ranks) : ranks_(ranks), zeta_(0) {
  for (std::uint64_t i = 1; i <= ranks; ++i) zeta_ += 1 / std::pow(static_cast<double>(i), kTheta);
  const double zeta_of_two = 1 + std::pow(0.5, kTheta);
  eta_ = (1 - std::pow(2 / static_cast<double>(ranks), 1 - kTheta)) / (1 - zeta_of_two / zeta_);
}

std::uint64_t Zipfian::draw(Dice& dice) const {
  const double u = std::uniform_real_distribution<double>()(dice);
  const double share = u * zeta_;
  if (share < 1) return 0;
  if (share < 1 + std::pow(0.5, kTheta)) return 1;
  const double rank = static_cast<double>(ranks_) * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta));
  return std::min(static_cast<std::uint64_t>(rank), ranks_ - 1);
}

Workload::Workload(const Mix& mix, std::uint64_t rows, std::uint64_t client, std::uint64_t clients)
    : mix_(mix), rows_(rows), next_insert_(rows + client), clients_(clients), dice_(client + 1) {
  if (mix.keys != KeyDistribution::uniform) zipfian_.emplace(rows);
}

Operation Workload::operation() {
  double point = std::uniform_real_distribution<double>()(dice_);
  const auto is_within = [&point](double share) {
    point -= share;
    return point < 0;
  };
  if (is_within(mix_.read)) return Operation::read;
  if (is_within(mix_.update)) return Operation::update;
  if (is_within(mix_.insert)) return Operation::insert;
  if (is_within(mix_.scan)) return Operation::scan;
  return mix_.read_modify_write > 0 ? Operation::read_modify_write : Operation::read;
}

std::uint64_t Workload::existing_row() {
  switch (mix_.keys) {
    case KeyDistribution::uniform: return dice_() % rows_;
    case KeyDistribution::zipfian: return farside::mix(zipfian_->draw(dice_)) % rows_;
    case KeyDistribution::latest: break;
  }
  // Its own inserts, which are there for certain, and then the rows that were there.
  const std::uint64_t inserted = (next_insert_ - rows_) / clients_;
  const std::uint64_t age = zipfian_->draw(dice_);
  return age < inserted ? next_insert_ - (age + 1) * clients_ : rows_ - 1 - (age - inserted);
}

void Workload::rows_of(Operation operation, std::size_t count, std::vector<std::uint64_t>& rows) {
  rows.clear();
  if (operation == Operation::scan) {
    const std::uint64_t first = existing_row();
    for (std::uint64_t i = 0; i < count; ++i) rows.push_back((first + i) % rows_);
    return;
  }
  while (rows.size() < count) {
    std::uint64_t row = 0;
    if (operation == Operation::insert) {
      row = next_insert_;
      next_insert_ += clients_;
    } else {
      row = existing_row();
    }
    if (std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
  }
}

RowKey key_of_row(std::uint64_t table, std::uint64_t row) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::uint64_t number = farside::mix(farside::mix(table) + row);
  RowKey key{};
  for (char& digit : key) {
    digit = kDigits[number % kDigits.size()];
    number /= kDigits.size();
  }
  return key;
}

}  // namespace farside::bench
