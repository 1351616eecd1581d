// line_editor.h — lines that a person types at a terminal, with history and completion (libedit).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <histedit.h>

namespace farside::cli {

class LineEditor {
 public:
  /// Returns what the last word of `line` may become.
  using Complete = std::function<std::vector<std::string>(std::string_view line)>;

  /// The history is read from `history_file` and kept there; without one it is forgotten.
  LineEditor(std::string prompt, std::string history_file, Complete complete);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Without its end. None: the end of the input.
  [[nodiscard]] std::optional<std::string> read();

 private:
  static LineEditor& of(EditLine* edit);
  static char* prompt_of(EditLine* edit);
  static unsigned char complete_in(EditLine* edit, int key);
  unsigned char complete();

  std::string prompt_;
  std::string history_file_;
  Complete complete_;
  std::unique_ptr<::History, decltype(&::history_end)> history_;
  std::unique_ptr<EditLine, decltype(&::el_end)> edit_;
};

/// Returns the longest text that follows `word` in all of `candidates`. Requires: each candidate begins with `word`.
[[nodiscard]] std::string common_rest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace farside::cli
