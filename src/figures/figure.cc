#include "figures/figure.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace farside::figures {

const Measured* Figure::find(std::string_view curve, double x) const {
  const auto found =
      std::ranges::find_if(points, [&](const Point& point) { return point.curve == curve && point.x == x; });
  return found == points.end() ? nullptr : &found->measured;
}

const Measured& Figure::at(std::string_view curve, double x) const {
  const Measured* const found = find(curve, x);
  if (found == nullptr) throw std::out_of_range("no point of " + std::string(curve));
  return *found;
}

std::vector<std::string> Figure::curves() const {
  std::vector<std::string> names;
  for (const Point& point : points) {
    if (std::ranges::find(names, point.curve) == names.end()) names.push_back(point.curve);
  }
  return names;
}

std::vector<double> Figure::xs() const {
  std::set<double> sorted;
  for (const Point& point : points) sorted.insert(point.x);
  return {sorted.begin(), sorted.end()};
}

}  // namespace farside::figures
