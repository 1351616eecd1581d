#include "bench/kv/question.h"

#include <sstream>
#include <stdexcept>

namespace farside::bench {

std::string KvQuestion::to_line() const {
  std::ostringstream line;
  line << way << ' ' << mix << ' ' << keys << ' ' << value_bytes << ' ' << rows << ' ' << threads << ' ' << budget_ms;
  return line.str();
}

KvQuestion KvQuestion::from_line(const std::string& line) {
  KvQuestion question;
  std::istringstream words(line);
  if (words >> question.way >> question.mix >> question.keys >> question.value_bytes >> question.rows >>
      question.threads >> question.budget_ms) {
    return question;
  }
  throw std::runtime_error("no question: \"" + line + "\"");
}

std::string KvFigures::to_line() const {
  std::ostringstream line;
  line.precision(17);
  line << per_second << ' ' << p50_ns << ' ' << p99_ns << ' ' << p999_ns << ' ' << server_ns;
  return line.str();
}

KvFigures KvFigures::from_line(const std::string& line) {
  KvFigures figures;
  std::istringstream words(line);
  if (words >> figures.per_second >> figures.p50_ns >> figures.p99_ns >> figures.p999_ns >> figures.server_ns) {
    return figures;
  }
  throw std::runtime_error("no figures: \"" + line + "\"");
}

}  // namespace farside::bench
