// store_fixture.h — a store in memory of its own, and its memory as a remote reader sees it: by READs, through the
// loopback.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"
#include "farside/fabric/fabric.h"

#include "kv/protocol/index_words.h"
#include "kv/protocol/record.h"
#include "kv/server/store.h"
#include "tests/support/reduced.h"

namespace farside::kv::test {

using farside::test::extended;

/// Another fabric, whose clock the test sets.
class FabricWithClock final : public Fabric {
 public:
  explicit FabricWithClock(Fabric& fabric) : fabric_(fabric) {}

  std::function<void()> on_sleep{};  ///< what others do meanwhile

  void pass(Duration duration) { now_ = now_ + duration; }
  [[nodiscard]] Time now() const override { return now_; }

  [[nodiscard]] std::unique_ptr<Region> create_region(std::string name, std::uint64_t bytes) override {
    return fabric_.create_region(std::move(name), bytes);
  }
  [[nodiscard]] std::string address() override { return fabric_.address(); }
  void connect(PeerId peer, std::string_view address) override { fabric_.connect(peer, address); }
  [[nodiscard]] std::unique_ptr<RemoteRegion> attach(PeerId peer, std::string_view handle) override {
    return fabric_.attach(peer, handle);
  }
  [[nodiscard]] std::unique_ptr<Channel> open_channel() override { return fabric_.open_channel(); }
  using Fabric::mark_lost;
  using Fabric::revoke;
  [[nodiscard]] PeerLife life(PeerId peer) const override { return fabric_.life(peer); }
  void mark_lost(PeerId peer, PeerLife life) override { fabric_.mark_lost(peer, life); }
  [[nodiscard]] bool lost(PeerId peer) const override { return fabric_.lost(peer); }
  [[nodiscard]] bool reaches_by_memory(PeerId peer) const override { return fabric_.reaches_by_memory(peer); }
  Outcome revoke(PeerId peer, PeerLife life, Deadline deadline) override {
    return fabric_.revoke(peer, life, deadline);
  }
  void sleep(Duration duration) override {
    pass(duration);
    if (on_sleep) on_sleep();
  }
  [[nodiscard]] std::uint64_t random() override { return fabric_.random(); }

 private:
  Fabric& fabric_;
  Time now_{1'000'000'000};
};

class StoreUnderTest {
 public:
  static constexpr std::uint64_t kSession = 7;

  static constexpr Duration kGrace = std::chrono::seconds(2);

  static constexpr StoreSettings kSettings{.bytes = 1U << 20U, .grace = kGrace};

  explicit StoreUnderTest(const StoreSettings& settings = kSettings, const KvRules& rules = {}) : settings_(settings) {
    fabric_->connect(0, fabric_->address());
    remote_ = fabric_->attach(0, region_->handle());
    store_.emplace(clock_, *channel_, *region_, settings_, rules);
  }

  [[nodiscard]] Store& store() { return *store_; }
  [[nodiscard]] const Fabric& fabric() const { return clock_; }
  [[nodiscard]] Time now() const { return clock_.now(); }
  void clock_pass(Duration duration) { clock_.pass(duration); }
  /// Lets time pass, and the store free what is due.
  std::size_t pass(Duration duration) {
    clock_pass(duration);
    return store().reclaim(~std::size_t{0});
  }
  [[nodiscard]] static Timestamp at(std::uint64_t time, std::uint64_t session = kSession) { return {time, session}; }

  // Writing.

  /// Who has part in a transaction, unless it is put at once.
  static constexpr std::array<ServerNumber, 2> kServers{0, 1};

  /// The same value for all keys. Valid until the next call.
  [[nodiscard]] Prepare part(std::uint64_t time, std::initializer_list<std::string_view> keys, std::string_view value,
                             std::uint64_t session = kSession) {
    writes_.clear();
    for (const std::string_view key : keys) writes_.push_back({key, value});
    return {at(time, session), {}, kServers, writes_};
  }
  Answer prepare(std::uint64_t time, std::initializer_list<std::string_view> keys, std::string_view value) {
    return store().prepare(part(time, keys, value)).answer;
  }
  Answer commit(std::uint64_t time) { return store().commit(at(time)).answer; }
  Answer put(std::string_view key, std::string_view value, std::uint64_t time) {
    return store().put(at(time), {key, value}).answer;
  }
  Answer put_if(std::string_view key, std::string_view value, std::uint64_t time, const Timestamp& expected) {
    return store().put(at(time), {.key = key, .value = value, .expected = expected}).answer;
  }
  Answer prepare_if(std::string_view key, std::uint64_t time, const Timestamp& expected) {
    const Write write{.key = key, .value = "if", .expected = expected};
    return store().prepare({at(time), {}, kServers, {&write, 1}}).answer;
  }
  /// As a part of a transaction.
  Answer erase(std::string_view key, std::uint64_t time) {
    const Write write{.key = key, .value = {}, .erase = true};
    const Answer prepared = store().prepare({at(time), {}, kServers, {&write, 1}}).answer;
    return prepared == Answer::done ? commit(time) : prepared;
  }
  Answer erase_alone(std::string_view key, std::uint64_t time) {
    return store().put(at(time), {.key = key, .value = {}, .erase = true}).answer;
  }

  // Asking.

  /// Of the newest committed version, unless it is erased.
  [[nodiscard]] std::optional<std::string> value(std::string_view key) {
    const auto found = store().newest(key);
    return found ? value(*found, key) : std::nullopt;
  }
  /// Fails the test when the record is not whole.
  [[nodiscard]] std::optional<std::string> value(const FoundVersion& version, std::string_view key) {
    const auto bytes = store().record(version);
    const auto record = read_record(bytes, version.generation, key);
    EXPECT_TRUE(record) << key;
    if (!record || record->erased()) return std::nullopt;
    return std::string(record->value);
  }
  [[nodiscard]] std::uint64_t mark(std::string_view key, std::uint64_t time) {
    const auto bytes = store().record(store().at(key, at(time)).value());
    return mark_bits(read_record(bytes, 0, key).value().head.mark);
  }
  [[nodiscard]] bool is_marked(std::string_view key, std::uint64_t time) {
    return (mark(key, time) & RecordHead::kNotNewest) != 0;
  }
  [[nodiscard]] bool is_everywhere(std::string_view key, std::uint64_t time) {
    return (mark(key, time) & RecordHead::kEverywhere) != 0;
  }
  [[nodiscard]] bool is_settled(std::string_view key, std::uint64_t time) {
    return (mark(key, time) & RecordHead::kSettled) != 0;
  }

  // Reading as others do.

  struct Cell {
    bool found = false;
    std::optional<std::string> newest;  ///< from its record
    std::optional<std::string> copied;  ///< from the copy, if that is the newest
    std::uint64_t copy_mark = 0;
    std::size_t slots = 0;  ///< that bear a version
  };
  [[nodiscard]] Cell read_cell(std::string_view key) {
    Cell cell;
    const auto word = find_cell(key_id(key));
    if (!word) return cell;
    cell.found = true;
    const auto bytes = read(word->offset, word->bytes);
    CellHead head;
    std::memcpy(&head, bytes.data(), sizeof head);
    EXPECT_EQ(head.seal, head.seal_of());
    const CellSlot* newest = nullptr;
    for (const CellSlot& slot : head.slots) {
      const VersionState state = RecordPlace::from_word(slot.place).state;
      cell.slots += state == VersionState::empty ? 0 : 1;
      if (state != VersionState::committed) continue;
      if (newest == nullptr || newest->timestamp < slot.timestamp) newest = &slot;
    }
    if (newest == nullptr) return cell;
    const RecordPlace place = RecordPlace::from_word(newest->place);
    const auto record_bytes = read(place.offset, place.bytes);
    const auto record = read_record(record_bytes, newest->generation, key);
    EXPECT_TRUE(record && record->head.timestamp == newest->timestamp);
    if (record && !record->erased()) cell.newest = record->value;
    const auto copy = read_record(std::span(bytes).subspan(sizeof head), newest->generation, key);
    if (copy && !copy->erased()) cell.copied = copy->value;
    if (copy) cell.copy_mark = mark_bits(copy->head.mark);
    return cell;
  }
  [[nodiscard]] MemoryHead memory_head() {
    MemoryHead head;
    std::memcpy(&head, read(0, sizeof head).data(), sizeof head);
    return head;
  }

 private:
  [[nodiscard]] std::optional<IndexWord> find_cell(const KeyId& key) {
    const MemoryHead head = memory_head();
    for (std::uint64_t bucket = bucket_of(key, head.index_buckets), seen = 0; seen < head.index_buckets; ++seen) {
      IndexBucketWords words;
      const auto bytes = read(head.index_offset + bucket * sizeof words, sizeof words);
      std::memcpy(words.data(), bytes.data(), sizeof words);
      const IndexCandidates candidates = index_candidates(words, key);
      for (std::size_t i = 0; i < candidates.count; ++i) {
        KeyId found;
        std::memcpy(&found, read(candidates.words.at(i).offset, sizeof found).data(), sizeof found);
        if (found == key) return candidates.words.at(i);
      }
      if (ends_search(words)) return std::nullopt;
      bucket = (bucket + 1) & (head.index_buckets - 1);
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t bytes) {
    std::vector<std::byte> into(bytes);
    const Deadline deadline = fabric_->in(extended(std::chrono::seconds(30)));
    EXPECT_EQ(channel_->read({into.data(), into.size()}, remote_->span(offset, bytes), deadline), Outcome::done);
    return into;
  }

  StoreSettings settings_;
  std::unique_ptr<Fabric> fabric_ = make_host_fabric({.mode = FabricMode::direct});
  FabricWithClock clock_{*fabric_};
  std::unique_ptr<Region> region_ = fabric_->create_region("kv", settings_.bytes);
  std::unique_ptr<Channel> channel_ = fabric_->open_channel();
  std::unique_ptr<RemoteRegion> remote_;
  std::optional<Store> store_;
  std::vector<Write> writes_;
};

class StoreTest : public testing::Test, protected StoreUnderTest {};

}  // namespace farside::kv::test
