#include "cli/kv/line_editor.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "farside/base/error.h"

namespace farside::cli {

namespace {

constexpr int kRemembered = 1000;

}  // namespace

LineEditor::LineEditor(std::string prompt, std::string history_file, Complete complete)
    : prompt_(std::move(prompt)),
      history_file_(std::move(history_file)),
      complete_(std::move(complete)),
      history_(::history_init(), ::history_end),
      edit_(::el_init("farside", stdin, stdout, stderr), ::el_end) {
  if (history_ == nullptr || edit_ == nullptr) throw errno_error("edit lines at", "the terminal");
  HistEvent event;
  ::history(history_.get(), &event, H_SETSIZE, kRemembered);
  ::history(history_.get(), &event, H_SETUNIQUE, 1);
  // There is none at first; it is written when this ends.
  if (!history_file_.empty()) ::history(history_.get(), &event, H_LOAD, history_file_.c_str());
  ::el_set(edit_.get(), EL_CLIENTDATA, this);
  ::el_set(edit_.get(), EL_PROMPT, prompt_of);
  ::el_set(edit_.get(), EL_EDITOR, "emacs");
  ::el_set(edit_.get(), EL_HIST, ::history, history_.get());
  ::el_set(edit_.get(), EL_ADDFN, "complete", "Complete the word", complete_in);
  ::el_set(edit_.get(), EL_BIND, "^I", "complete", nullptr);
  ::el_set(edit_.get(), EL_SIGNAL, 1);  // the terminal is itself again when a signal ends this
}

LineEditor::~LineEditor() {
  HistEvent event;
  if (history_file_.empty() || ::history(history_.get(), &event, H_SAVE, history_file_.c_str()) >= 0) return;
  std::cerr << "farside: the history cannot be written to " << history_file_ << '\n';
}

std::optional<std::string> LineEditor::read() {
  int count = 0;
  const char* line = ::el_gets(edit_.get(), &count);
  if (line == nullptr || count <= 0) return std::nullopt;
  std::string text(line, static_cast<std::size_t>(count));
  if (text.ends_with('\n')) text.pop_back();
  HistEvent event;
  if (!text.empty()) ::history(history_.get(), &event, H_ENTER, text.c_str());
  return text;
}

LineEditor& LineEditor::of(EditLine* edit) {
  LineEditor* self = nullptr;
  ::el_get(edit, EL_CLIENTDATA, &self);
  return *self;
}

char* LineEditor::prompt_of(EditLine* edit) { return of(edit).prompt_.data(); }

unsigned char LineEditor::complete_in(EditLine* edit, int /*key*/) { return of(edit).complete(); }

unsigned char LineEditor::complete() {
  const LineInfo* info = ::el_line(edit_.get());
  const std::string_view line(info->buffer, static_cast<std::size_t>(info->cursor - info->buffer));
  const std::string_view word = line.substr(line.rfind(' ') + 1);
  const std::vector<std::string> candidates = complete_(line);
  if (candidates.empty()) return CC_ERROR;
  const std::string rest = common_rest(word, candidates) + (candidates.size() == 1 ? " " : "");
  if (!rest.empty()) return ::el_insertstr(edit_.get(), rest.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  std::cout << '\n';
  for (const std::string& candidate : candidates) std::cout << candidate << '\n';
  std::cout.flush();
  return CC_REDISPLAY;
}

std::string common_rest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string_view common = candidates.front();
  for (const std::string& candidate : candidates) {
    const auto differ = std::ranges::mismatch(common, candidate).in1;
    common = common.substr(0, static_cast<std::size_t>(differ - common.begin()));
  }
  return std::string(common.substr(std::min(word.size(), common.size())));
}

}  // namespace farside::cli
