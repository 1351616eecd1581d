#include "figures/report.h"

#include <algorithm>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "farside/base/error.h"

namespace farside::figures {

void write_csv(const Chart& chart, const std::filesystem::path& file) {
  std::ofstream out(file);
  fmt::print(out, "curve,x,{}\n", chart.unit);
  for (const Curve& curve : chart.plot.curves) {
    for (const auto& [x, y] : curve.points) fmt::print(out, "\"{}\",{},{:.4f}\n", curve.name, x, y);
  }
  if (!out.flush()) throw errno_error("write", file);
}

void print(const Chart& chart, std::ostream& out) {
  std::set<double> xs;
  for (const Curve& curve : chart.plot.curves) {
    for (const auto& point : curve.points) xs.insert(point.first);
  }
  fmt::print(out, "## Figure {}: {}\n\n{}\n\n{} by {}:\n\n| |", chart.number, chart.plot.title, chart.setup, chart.unit,
             chart.plot.x.label);
  for (const double x : xs) fmt::print(out, " {} |", x);
  out << "\n| --- |";
  for (std::size_t i = 0; i < xs.size(); ++i) out << " ---: |";
  out << '\n';
  for (const Curve& curve : chart.plot.curves) {
    fmt::print(out, "| {} |", curve.name);
    for (const double x : xs) {
      const auto point = std::ranges::find(curve.points, x, &std::pair<double, double>::first);
      out << (point == curve.points.end() ? " |" : fmt::format(" {:.2f} |", point->second));
    }
    out << '\n';
  }
  out << '\n';
  for (const Claim& claim : chart.claims) {
    fmt::print(out, "- **{}** {}: {}.{}{}\n", claim.says, claim.agrees ? "Agrees" : "Does not agree", claim.measured,
               claim.why.empty() ? "" : " ", claim.why);
  }
  out << '\n';
}

}  // namespace farside::figures
