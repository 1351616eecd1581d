#include "figures/figure.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "farside/base/error.h"

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

Chart Figure::chart() const {
  Chart chart{number, setup, "GB/s", {title, {x_label}, {"aggregate bandwidth (GB/s)"}, {}}, claims};
  for (const std::string& name : curves()) {
    Curve curve{name, {}};
    for (const Point& point : points) {
      if (point.curve == name) curve.points.emplace_back(point.x, point.measured.bytes_per_s() / 1e9);
    }
    chart.plot.curves.push_back(std::move(curve));
  }
  return chart;
}

void write_csv(const Figure& figure, const std::filesystem::path& file) {
  std::ofstream out(file);
  out << "curve,x,gb_per_s,seconds,blocks_in_file,loads,copies,hits,operations,busiest_nic_bytes,loading_seconds,"
         "copying_seconds,file_system_busy,blocks_held,distinct_blocks_held\n";
  for (const auto& [curve, x, m] : figure.points) {
    fmt::print(out, "\"{}\",{},{:.4f},{:.6f},{},{},{},{},{},{},{:.6f},{:.6f},{:.4f},{},{}\n", curve, x,
               m.bytes_per_s() / 1e9, m.seconds, m.blocks_in_file, m.loads, m.copies, m.hits, m.operations,
               m.busiest_bytes, m.loading_seconds, m.copying_seconds, m.file_busy, m.held, m.distinct);
  }
  if (!out.flush()) throw errno_error("write", file);
}

}  // namespace farside::figures
