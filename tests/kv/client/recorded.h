// recorded.h — histories written down by tests.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "kv/history/read_atomic.h"
#include "tests/support/pool.h"

namespace farside::test {

/// Each text as a file of its own: 0.txt, 1.txt and so on.
class RecordedFiles {
 public:
  explicit RecordedFiles(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      names_.push_back(directory_.path() / (std::to_string(names_.size()) + ".txt"));
      std::ofstream(names_.back()) << text;
    }
  }

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  TemporaryDirectory directory_;
  std::vector<std::string> names_;
};

inline kv::History recorded(const std::string& text) { return kv::read_history(RecordedFiles({text}).names()); }

}  // namespace farside::test
