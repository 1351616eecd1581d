#include "figures/anco_claims.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace farside::figures {

namespace {

double gigabytes_per_s(const Measured& measured) { return measured.bytes_per_s() / 1e9; }
double gigabytes_per_s(const Figure& figure, std::string_view curve, double x) {
  return gigabytes_per_s(figure.at(curve, x));
}

/// The share of the blocks that the programs asked for which the node had.
double hit_share(const Measured& measured) {
  return static_cast<double>(measured.hits) / static_cast<double>(measured.hits + measured.copies + measured.loads);
}

double milliseconds_a_copy(const Measured& measured) {
  return measured.copies == 0 ? 0 : 1e3 * measured.copying_seconds / static_cast<double>(measured.copies);
}

/// How near a curve is to the best one, on average over the sizes.
double standing(const Figure& figure, const std::string& curve) {
  double sum = 0;
  for (const double x : figure.xs()) {
    double best = 0;
    for (const std::string& other : figure.curves()) best = std::max(best, gigabytes_per_s(figure, other, x));
    sum += gigabytes_per_s(figure, curve, x) / best;
  }
  return sum / static_cast<double>(figure.xs().size());
}

/// "a 1.0, b 2.0": a value of each of some curves.
template <class Value>
std::string list(const std::vector<std::string>& curves, const Value& value, const char* format = "{} {:.2f}") {
  std::string text;
  for (const std::string& curve : curves) {
    text += (text.empty() ? "" : ", ") + fmt::format(fmt::runtime(format), curve, value(curve));
  }
  return text;
}

}  // namespace

std::vector<Claim> claims_of_singlet_ratios(const Figure& figure) {
  const std::vector<std::string> curves = figure.curves();
  const auto mean = [&](const std::string& curve) { return standing(figure, curve); };
  const auto by_mean = [&](const std::string& a, const std::string& b) { return mean(a) < mean(b); };
  const std::string standings = "share of the best one's bandwidth, mean over the sizes: " + list(curves, mean);
  const double largest = figure.xs().back();
  const auto at_largest = [&](const std::string& curve) { return gigabytes_per_s(figure, curve, largest); };
  const auto hits = [&](const std::string& curve) { return 100 * hit_share(figure.at(curve, largest)); };
  const auto loads = [&](const std::string& curve) { return figure.at(curve, largest).loads_per_block(); };

  double widest = 0;
  for (const double x : figure.xs()) {
    const auto [low, high] =
        std::minmax({gigabytes_per_s(figure, "ratio 0.3", x), gigabytes_per_s(figure, "ratio 0.5", x),
                     gigabytes_per_s(figure, "ratio 0.6", x)});
    widest = std::max(widest, high / low - 1);
  }
  return {
      {"Ratio 0.0 is the worst throughout.", *std::ranges::min_element(curves, by_mean) == "ratio 0.0", standings, ""},
      {"Ratio 0.9 is efficient for large files.",
       std::ranges::all_of(curves, [&](const auto& curve) { return at_largest("ratio 0.9") >= at_largest(curve); }),
       fmt::format("GB/s at {} GiB: {}", largest, list(curves, at_largest)), ""},
      {"From 0.3 to 0.6 there are small variations only.", widest < 0.25,
       fmt::format("at most {:.0f} % between the three at one size", 100 * widest),
       "Where the file begins not to fit, a little room more or less decides whether a block is read again; elsewhere "
       "the three are close."},
      {"0.5 does best on the whole.", *std::ranges::max_element(curves, by_mean) == "ratio 0.5", standings,
       fmt::format(
           "When every place is drawn anew, a block that the node has just used is no likelier to be wanted than "
           "another, so that the general list earns nothing: of the reads at {} GiB, the node itself had (in %) "
           "{}. But each slot that keeps a singlet saves reads of the file system: each block was loaded (times) "
           "{}. Only a program that comes back to what it has read lately gains from a smaller ratio.",
           largest, list(curves, hits, "{} {:.1f}"), list(curves, loads))},
  };
}

std::vector<Claim> claims_of_sequential_reads(const Figure& figure) {
  const std::vector<double> nodes = figure.xs();
  const double most = nodes.back();
  std::vector<std::string> cached = figure.curves();
  std::erase(cached, "POSIX");
  const auto at_most = [&](const std::string& curve) { return gigabytes_per_s(figure, curve, most); };
  const auto busiest = [&](const std::string& curve) {
    const Measured& measured = figure.at(curve, most);
    return 100 * static_cast<double>(measured.busiest_bytes) / static_cast<double>(measured.copies << 20U);
  };

  const double fewer = *std::ranges::lower_bound(nodes, most / 8);
  const double posix_before = gigabytes_per_s(figure, "POSIX", fewer);
  const double posix = gigabytes_per_s(figure, "POSIX", most);
  const auto at_fewer = [&](const std::string& curve) { return gigabytes_per_s(figure, curve, fewer); };
  const auto loads_at_fewer = [&](const std::string& curve) { return figure.at(curve, fewer).loads_per_block(); };
  const auto loses_to_fewer = [&](const std::string& a, const std::string& b) {
    return at_most(b) < 0.95 * at_most(a);
  };
  const auto grows = [&](const std::string& curve) {
    const auto measured = [&](double x) { return x >= 4 && figure.find(curve, x) != nullptr; };
    return at_most(curve) > 1.5 * gigabytes_per_s(figure, curve, *std::ranges::find_if(nodes, measured));
  };
  return {
      {"POSIX stays flat, however many nodes there are.", posix < 1.5 * posix_before,
       fmt::format("{:.2f} GB/s on {} nodes, {:.2f} on {}", posix_before, fewer, posix, most),
       "The file system is used up; on fewer nodes it is not yet."},
      {"Anco's bandwidth grows with the number of nodes.", std::ranges::all_of(cached, grows),
       fmt::format("GB/s on {} nodes: {}", most, list(cached, at_most)), ""},
      {"With more groups it scales better.",
       std::ranges::adjacent_find(cached, loses_to_fewer) == cached.end() &&
           at_most(cached.back()) > at_most(cached[0]),
       fmt::format("GB/s on {} nodes: {}; on {}: {}", most, list(cached, at_most), fewer, list(cached, at_fewer)),
       fmt::format(
           "One node runs ahead: it meets each block first and loads it, and the others copy from it. It sends, in "
           "% of all that is copied: {}. So a group more is a NIC more, where the NIC is what they wait for. On "
           "fewer nodes they wait for the file system, of which each group asks for itself: loads of a block on {} "
           "nodes: {}.",
           list(cached, busiest, "{} {:.0f}"), fewer, list(cached, loads_at_fewer))},
  };
}

std::vector<Claim> claims_of_random_reads(const Figure& figure, double pool_gib) {
  const std::string curve = "1 group";
  const std::vector<double> sizes = figure.xs();
  const auto speed = [&](double x) { return gigabytes_per_s(figure, curve, x); };
  const double peak = std::ranges::max(sizes, {}, speed);
  double plateau_end = peak;
  for (const double x : sizes) {
    if (speed(x) >= 0.5 * speed(peak)) plateau_end = x;
  }
  const auto next = std::ranges::upper_bound(sizes, plateau_end);
  std::string text;
  for (const double x : sizes) text += fmt::format("{}{} GiB {:.1f}", text.empty() ? "" : ", ", x, speed(x));

  std::string why =
      "It is flat up to there: each process reads as much as the file has, so that the time for loading the "
      "file and the time for everything else grow alike. (The paper does not say how much is read, nor what "
      "its smaller files lose their time with.)";
  if (next != sizes.end()) {
    const Measured& after = figure.at(curve, *next);
    why += fmt::format(
        " At {} GiB, {} of the {} slots are in use at the end, for {} different blocks of {}: {:.0f} % are "
        "second copies, as the paper supposed, and each block was loaded {:.1f} times.",
        *next, after.held, after.held, after.distinct, after.blocks_in_file,
        100 - 100 * static_cast<double>(after.distinct) / static_cast<double>(after.held), after.loads_per_block());
  }
  const double last_fitting = *std::prev(std::ranges::upper_bound(sizes, pool_gib));
  return {
      {fmt::format("The high bandwidth is not kept up to the size of all caches together ({} GiB).", pool_gib),
       speed(last_fitting) < 0.5 * speed(peak), "GB/s: " + text, ""},
      {"It stays high up to a file of less than half of that, and falls from there on.",
       plateau_end <= 0.5 * pool_gib && plateau_end >= 0.25 * pool_gib,
       fmt::format("at least half of the highest up to {} GiB", plateau_end), why},
      {"That size is the peak.", peak == plateau_end,
       fmt::format("highest at {} GiB, {:.1f} GB/s; {:.1f} GB/s at {} GiB", peak, speed(peak), speed(plateau_end),
                   plateau_end),
       "Small files gain from what the node itself has, and the model has nothing that slows them down."},
  };
}

std::vector<Claim> claims_of_strided_reads(const Figure& figure) {
  const double most = figure.xs().back();
  const auto speed = [&](const char* block, const char* kind) {
    return gigabytes_per_s(figure, std::string(block) + ", " + kind, most);
  };
  const auto versus = [&](const char* block) {
    return fmt::format("{} on {} nodes: 1 group {:.2f} GB/s, 4 groups {:.2f}, POSIX {:.2f}", block, most,
                       speed(block, "1 group"), speed(block, "4 groups"), speed(block, "POSIX"));
  };
  const auto explain = [&](const char* block) {
    const Measured& one = figure.at(std::string(block) + ", 1 group", most);
    const Measured& four = figure.at(std::string(block) + ", 4 groups", most);
    return fmt::format(
        "{}: with 1 and with 4 groups, each block was loaded {:.2f} and {:.2f} times, the file system was {:.0f} % and "
        "{:.0f} % busy, a copy took {:.1f} ms and {:.1f} ms.",
        block, one.loads_per_block(), four.loads_per_block(), 100 * one.file_busy, 100 * four.file_busy,
        milliseconds_a_copy(one), milliseconds_a_copy(four));
  };
  const auto gain = [&](const char* block) { return speed(block, "1 group") / speed(block, "4 groups"); };
  const auto beats_posix = [&](const char* block) {
    return std::max(speed(block, "1 group"), speed(block, "4 groups")) >= 0.95 * speed(block, "POSIX");
  };
  return {
      {"At 16 KiB, 4 groups do better.", gain("16 KiB") < 1, versus("16 KiB"),
       explain("16 KiB") +
           " Up to 64 nodes want one block at once, and what they wait for is the NIC of the node that has it."},
      {"At 256 KiB, 1 group does better (the paper does not know why).", gain("256 KiB") > 1, versus("256 KiB"),
       explain("256 KiB") + " Four ranks that are neighbours want one block, at the same moment. Rank mod 4 puts them "
                            "into four different groups. Each finds its group's cell invalid and no other loaded "
                            "yet, so each becomes a representative and each reads the block from the file system, "
                            "which is the bottleneck. With 1 group, one loads and three copy."},
      {"At 4 MiB, 1 group does better by even more.", gain("4 MiB") > gain("256 KiB"), versus("4 MiB"),
       explain("4 MiB") +
           " A block is read by one rank only: nothing is ever copied, and no second group asks for it. Nothing in the "
           "protocol distinguishes the two but the longer rows of the directory. What the paper measured there must "
           "come from its implementation or its file system."},
      {"In each case, 1 group or 4 groups do well on the whole (not worse than POSIX).",
       beats_posix("16 KiB") && beats_posix("256 KiB") && beats_posix("4 MiB"),
       versus("16 KiB") + "; " + versus("256 KiB") + "; " + versus("4 MiB"),
       "At 16 KiB a node copies a block of 1 MiB for each 16 KiB that it wants, which costs more than a file system "
       "that serves small requests as fast as this one."},
  };
}

std::vector<Claim> claims_of_scaling(const Figure& figure, double nic_bytes_per_s) {
  const double most = figure.xs().back();
  std::vector<std::string> cached = figure.curves();
  std::erase(cached, "POSIX");
  const auto speed = [&](const std::string& curve) { return gigabytes_per_s(figure, curve, most); };
  const auto loads = [&](const std::string& curve) { return figure.at(curve, most).loads_per_block(); };
  const double nic = nic_bytes_per_s / 1e9;
  return {
      {fmt::format("One group stops at what one NIC sends, {:g} GB/s.", nic),
       speed("1 group") > 0.75 * nic && speed("1 group") < 1.25 * nic,
       fmt::format("1 group on {} nodes: {:.1f} GB/s", most, speed("1 group")), ""},
      {"As many groups as possible are best.", std::ranges::max(cached, {}, speed) == cached.back(),
       fmt::format("GB/s on {} nodes: {}", most, list(cached, speed)),
       fmt::format(
           "A group more is a NIC more, but each group reads a block from the file system until another one has "
           "it. Loads of a block: {}.",
           list(cached, loads))},
  };
}

std::vector<Claim> claims_of_grouping(const Figure& figure) {
  const auto point = [&](const char* curve, double kib) -> const Measured& { return figure.at(curve, kib); };
  const auto text = [&](double kib) {
    std::string result;
    for (const std::string& curve : figure.curves()) {
      const Measured& measured = figure.at(curve, kib);
      result += fmt::format("{}{} {:.2f} GB/s with {:.2f} loads of a block", result.empty() ? "" : ", ", curve,
                            gigabytes_per_s(measured), measured.loads_per_block());
    }
    return fmt::format("{} KiB: {}", kib, result);
  };
  return {
      {"Groups of neighbours are no good idea, since neighbours want the same blocks (section 2.4.1).",
       gigabytes_per_s(point("4 groups of neighbours", 256)) < gigabytes_per_s(point("4 groups, rank mod 4", 256)),
       text(256),
       "The paper fears that members of a group overwrite each other's cells. Here a cell changes by COMPARE_SWAP, so "
       "that one of them loads and the others wait for it; and ranks that want a block at the same moment had better "
       "be in one group, since every group loads for itself."},
      {"Where many want a block, ranks that are dealt out are better off.",
       gigabytes_per_s(point("4 groups of neighbours", 16)) < gigabytes_per_s(point("4 groups, rank mod 4", 16)),
       text(16),
       "At 16 KiB, 64 neighbours want a block. Dealt out, 16 of each group do, and it can be copied from four places; "
       "in a row, they are two groups of 32, and there are two."},
  };
}

}  // namespace farside::figures
