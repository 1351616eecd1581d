#include "figures/report.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "farside/base/error.h"

#include "plot/plot.h"

namespace farside::figures {

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

void write_svg(const Figure& figure, const std::filesystem::path& file) {
  Plot plot{figure.title, {figure.x_label}, {"aggregate bandwidth (GB/s)"}, {}};
  for (const std::string& name : figure.curves()) {
    Curve curve{name, {}};
    for (const Point& point : figure.points) {
      if (point.curve == name) curve.points.emplace_back(point.x, point.measured.bytes_per_s() / 1e9);
    }
    plot.curves.push_back(std::move(curve));
  }
  draw(plot, file);
}

void print(const Figure& figure, std::ostream& out) {
  fmt::print(out, "## Figure {}: {}\n\n{}\n\nGB/s by {}:\n\n| |", figure.number, figure.title, figure.setup,
             figure.x_label);
  for (const double x : figure.xs()) fmt::print(out, " {} |", x);
  out << "\n| --- |";
  for (std::size_t i = 0; i < figure.xs().size(); ++i) out << " ---: |";
  out << '\n';
  for (const std::string& curve : figure.curves()) {
    fmt::print(out, "| {} |", curve);
    for (const double x : figure.xs()) {
      const Measured* const measured = figure.find(curve, x);
      out << (measured == nullptr ? " |" : fmt::format(" {:.2f} |", measured->bytes_per_s() / 1e9));
    }
    out << '\n';
  }
  out << '\n';
  for (const Claim& claim : figure.claims) {
    fmt::print(out, "- **{}** {}: {}.{}{}\n", claim.says, claim.agrees ? "Agrees" : "Does not agree", claim.measured,
               claim.why.empty() ? "" : " ", claim.why);
  }
  out << '\n';
}

}  // namespace farside::figures
