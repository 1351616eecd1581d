// text.h — keys and values as lines of text: what holds neither blanks, nor quotes, nor anything that is not
// printable ASCII stands for itself, and everything else between quotes, as in C ("two words\n\x00").
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace farside::cli {

/// One word, which kv_words reads as `bytes` again.
[[nodiscard]] std::string kv_word(std::string_view bytes);

/// The words of a line. Throws UsageError naming `what` ("line 3") when a quoted one does not end, or says something
/// odd.
[[nodiscard]] std::vector<std::string> kv_words(std::string_view line, std::string_view what);

}  // namespace farside::cli
