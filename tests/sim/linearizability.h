// linearizability.h — whether what many threads saw of one word can be told as a sequence, in which each operation
// takes effect at one moment between its call and its return (Wing, Gong: "Testing and verifying concurrent objects",
// 1993; with the memory of configurations of Lowe: "Testing for linearizability", 2017).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace farside::sim {

struct WordAction {
  enum class Kind : std::uint8_t { get, put, add, compare_swap };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  Kind kind = Kind::get;
  std::uint64_t value = 0;     ///< put, or the addend, or what a compare_swap stores
  std::uint64_t expected = 0;  ///< by a compare_swap
  std::uint64_t found = 0;     ///< what it returned; of a put nothing
  std::uint64_t begin = 0;     ///< moments: numbers that grow, each used once
  std::uint64_t end = kNever;  ///< kNever: it failed, or never returned. It may have taken effect, or do so yet
  bool repeats = false;        ///< a put whose word may be stored again before it returns

  [[nodiscard]] bool returned() const { return end != kNever; }
};

class WordHistory {
 public:
  /// Most configurations that are tried.
  static constexpr std::size_t kMaxStates = 200'000;

  /// A number to end it by.
  std::size_t begin(const WordAction& action) {
    actions_.push_back(action);
    return actions_.size() - 1;
  }
  void end(std::size_t number, std::uint64_t moment, std::uint64_t found = 0) {
    actions_[number].end = moment;
    actions_[number].found = found;
  }

  /// What cannot be told so, if there is something. The word begins with 0.
  [[nodiscard]] std::optional<std::string> violation() const {
    Search search(actions_);
    if (search.succeeds()) return std::nullopt;
    if (search.gave_up()) return "too many orders to try";
    return "no order of effects explains what was found: " + search.longest();
  }

 private:
  class Search {
   public:
    explicit Search(const std::vector<WordAction>& actions) : actions_(actions) {
      // A get that failed says nothing.
      std::erase_if(actions_, [](const WordAction& action) {
        return action.kind == WordAction::Kind::get && !action.returned();
      });
      std::ranges::sort(actions_, {}, &WordAction::begin);
    }

    bool succeeds() { return go_on({std::vector<bool>(actions_.size()), 0}); }
    [[nodiscard]] bool gave_up() const { return tried_.size() > kMaxStates; }
    /// The sequence that explains most, and what cannot follow.
    [[nodiscard]] std::string longest() const {
      std::string text = "after the value " + std::to_string(longest_.value) + " none of";
      for (std::size_t i = 0; i < actions_.size(); ++i) {
        if (can_be_next(longest_, i) && !longest_.done[i]) text += " " + name(actions_[i]);
      }
      return text;
    }

   private:
    struct Configuration {
      std::vector<bool> done;
      std::uint64_t value;
      friend auto operator<=>(const Configuration&, const Configuration&) = default;  // NOLINT(modernize-use-nullptr)
    };

    bool go_on(Configuration now) {
      take_gets(now);
      if (!tried_.insert(now).second || gave_up()) return false;
      const auto done = std::ranges::count(now.done, true);
      if (longest_.done.empty() || done > std::ranges::count(longest_.done, true)) longest_ = now;
      if (all_returned_are_done(now)) return true;
      for (std::size_t i = 0; i < actions_.size(); ++i) {
        if (!can_be_next(now, i)) continue;
        const std::optional<std::uint64_t> changed = effect(actions_[i], now.value);
        if (!changed) continue;
        Configuration next{now.done, *changed};
        next.done[i] = true;
        if (go_on(std::move(next))) return true;
      }
      return false;
    }

    // As early as can be: a get changes nothing. One that began when a put had returned that may be stored again comes
    // after that store, and is left to the search.
    void take_gets(Configuration& now) const {
      for (bool found = true; std::exchange(found, false);) {
        for (std::size_t i = 0; i < actions_.size(); ++i) {
          if (actions_[i].kind != WordAction::Kind::get || actions_[i].found != now.value) continue;
          if (now.done[i] || !can_be_next(now, i) || follows_a_repeat(now, i)) continue;
          now.done[i] = true;
          found = true;
        }
      }
    }

    // Nothing that is still to be done had returned when it was called; and it has not returned when what was done last
    // was called.
    [[nodiscard]] bool can_be_next(const Configuration& now, std::size_t at) const {
      const WordAction& action = actions_[at];
      if (now.done[at] && !action.repeats) return false;
      for (std::size_t i = 0; i < actions_.size(); ++i) {
        if (now.done[i] ? actions_[i].begin > action.end : actions_[i].end < action.begin) return false;
      }
      return true;
    }
    [[nodiscard]] bool follows_a_repeat(const Configuration& now, std::size_t get) const {
      for (std::size_t i = 0; i < actions_.size(); ++i) {
        if (now.done[i] && actions_[i].repeats && actions_[i].end < actions_[get].begin && can_be_next(now, i))
          return true;
      }
      return false;
    }
    [[nodiscard]] bool all_returned_are_done(const Configuration& now) const {
      for (std::size_t i = 0; i < actions_.size(); ++i) {
        if (actions_[i].returned() && !now.done[i]) return false;
      }
      return true;
    }
    /// What the word is then; nothing when the action would have found something else.
    static std::optional<std::uint64_t> effect(const WordAction& action, std::uint64_t value) {
      using Kind = WordAction::Kind;
      if (action.kind == Kind::put) return action.value;
      if (action.returned() && action.found != value) return std::nullopt;
      if (action.kind == Kind::get) return value;
      if (action.kind == Kind::add) return value + action.value;
      return value == action.expected ? action.value : value;
    }
    static std::string name(const WordAction& action) {
      static constexpr std::array kNames{"get", "put", "add", "compare_swap"};
      return std::string(kNames.at(static_cast<std::size_t>(action.kind))) + " " + std::to_string(action.value) +
             " that found " + std::to_string(action.found) + " [" + std::to_string(action.begin) + ", " +
             (action.returned() ? std::to_string(action.end) : "never") + "]";
    }

    std::vector<WordAction> actions_;
    std::set<Configuration> tried_;
    Configuration longest_{{}, 0};
  };

  std::vector<WordAction> actions_;
};

}  // namespace farside::sim
