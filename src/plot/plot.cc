#include "plot/plot.h"

#include <cstdio>

#include <fmt/format.h>

#include "farside/base/error.h"

namespace farside {

namespace {

/// A string as gnuplot reads it between single quotes.
std::string quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

std::string axis_script(char name, int base, const Axis& axis) {
  return fmt::format("set {0}label {1}\nset format {0} {2}\n", name, quoted(axis.label), quoted(axis.format)) +
         (axis.logarithmic ? fmt::format("set logscale {} {}\n", name, base) : std::string());
}

std::string script(const Plot& plot, const std::filesystem::path& svg) {
  std::string text = fmt::format(
      "set terminal svg size 800,500 dynamic background 'white' noenhanced\n"
      "set output {}\nset title {}\nset key left top\nset grid\n"
      "set encoding utf8\nset micro\nset linetype 5 linecolor 'black' dashtype 2\n",
      quoted(svg), quoted(plot.title));
  text += axis_script('x', 2, plot.x) + axis_script('y', 10, plot.y);
  std::string list;
  for (std::size_t i = 0; i < plot.curves.size(); ++i) {
    text += fmt::format("$curve{} << END\n", i);
    for (const auto& [x, y] : plot.curves[i].points) text += fmt::format("{} {}\n", x, y);
    text += "END\n";
    list += fmt::format("{}$curve{} with linespoints linewidth 2 title {}", i == 0 ? "" : ", ", i,
                        quoted(plot.curves[i].name));
  }
  return text + "plot " + list + "\n";
}

}  // namespace

void draw(const Plot& plot, const std::filesystem::path& svg) {
  const std::string text = script(plot, svg);
  // When gnuplot is missing or ends early, the shell takes the rest: a process that writes into a pipe without a reader
  // is killed.
  std::FILE* const gnuplot = ::popen("gnuplot; code=$?; while read -r rest; do :; done; exit $code", "w");
  if (gnuplot == nullptr) throw errno_error("start gnuplot for", svg);
  std::fwrite(text.data(), 1, text.size(), gnuplot);
  if (::pclose(gnuplot) != 0)
    throw Error({"draw", svg, "gnuplot is missing or failed", "install gnuplot-nox, or look at what it wrote above"});
}

}  // namespace farside
