// unit_of_work.h — what one command, or all of a MULTI, reads and writes: one atomic get before, one atomic put after.
//
// A unit is certain that no other client wrote in between to keys that it has read and writes; it is not for keys that
// it has only read.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "farside/kv/session.h"

namespace farside::kv {

class UnitOfWork {
 public:
  explicit UnitOfWork(Session& session) : session_(&session) {}

  /// For what begins then.
  void use(Session& session) { session_ = &session; }

  struct Value {
    std::string_view bytes;
    std::uint64_t expires_ns = 0;  ///< 0: never
  };

  /// Forgets everything. Keys and values that the unit is told of must live until then.
  void begin();
  /// Forgets everything, and gives back memory that only large units need.
  void release_memory();
  /// Says that `key` will be looked for.
  void want(std::string_view key) { entry(key).wanted = true; }
  /// Reads all that is wanted. False: no answer in time.
  [[nodiscard]] bool load();

  /// A key that was wanted, as it is after what this unit writes. Null: absent. Valid until the key is written.
  [[nodiscard]] const Value* find(std::string_view key) const;
  /// An `expires_ns` that has passed erases.
  void set(std::string_view key, std::string_view value, std::uint64_t expires_ns);
  void erase(std::string_view key);
  /// For values that are made, not given.
  [[nodiscard]] std::string_view keep(std::string value) { return kept_.emplace_back(std::move(value)); }
  [[nodiscard]] std::uint64_t now_ns() const noexcept { return now_ns_; }

  /// The unit's writes. Valid until it is told of something else.
  [[nodiscard]] std::span<const Write> writes();
  /// Writes it. `differs`: another client wrote one of the keys, or is at it; begin again.
  [[nodiscard]] PutOutcome commit();

 private:
  struct Entry {
    std::string_view key;
    bool wanted = false;
    bool present = false;
    bool written = false;
    Timestamp version{};  // as it was read
    Value value{};
  };
  static constexpr std::size_t kFewestPlaces = 64;  ///< a power of two

  /// That of the key, made if there is none.
  [[nodiscard]] Entry& entry(std::string_view key);
  /// The place where that of the key is noted, or would be.
  [[nodiscard]] std::uint32_t& place_of(std::string_view key);
  [[nodiscard]] std::uint32_t place_of(std::string_view key) const {
    return const_cast<UnitOfWork*>(this)->place_of(key);
  }
  void make_room();

  Session* session_;
  std::uint64_t now_ns_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> places_ =
      std::vector<std::uint32_t>(kFewestPlaces);  // of entries, by their keys' hashes; number + 1; 0: none
  std::deque<std::string> kept_;
  std::vector<std::string_view> keys_;
  std::vector<Write> writes_;
};

}  // namespace farside::kv
