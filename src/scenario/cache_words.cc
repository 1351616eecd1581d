#include "scenario/cache_words.h"

#include "cache/cell.h"
#include "cache/directory.h"
#include "scenario/imaginary_files.h"
#include "sim/scheduler.h"

namespace farside::scenario {

namespace {

std::string cell(std::uint64_t word) {
  const cache::Cell cell = cache::Cell::from_word(word);
  const std::string change = ", change " + std::to_string(cell.nonce);
  if (cell.state == cache::Cell::State::invalid) return "invalid" + change;
  return std::string(cell.state == cache::Cell::State::loading ? "loading" : "loaded") + " at node " +
         std::to_string(cell.rank) + " slot " + std::to_string(cell.slot) + change;
}

}  // namespace

CacheWords::CacheWords(const cache::CacheOptions& options, team::Rank nodes, std::uint64_t blocks)
    : geometry_(options, nodes) {
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const std::string name = "block " + std::to_string(block);
    names_[cache::block_id(key_of(block))] = name;
    for (std::uint64_t word = 0; word < kBlockWords; ++word) {
      names_[word_of(key_of(block), word)] = "word " + std::to_string(word) + " of " + name;
    }
  }
}

std::string CacheWords::operator()(std::uint64_t offset, std::uint64_t value) const {
  const cache::CacheLayout& layout = geometry_.layout();
  if (offset >= layout.slots_offset) return in_slot(offset - layout.slots_offset, value);
  if (offset >= layout.index_offset) return "host index = " + sim::hexadecimal(value);
  if (offset < layout.slot_count * geometry_.bucket_bytes()) return in_bucket(offset, value);
  return "alternative entry " + std::to_string((offset - layout.slot_count * geometry_.bucket_bytes()) / 8) + " = " +
         sim::hexadecimal(value);
}

std::string CacheWords::place(std::uint64_t offset) const {
  const std::string word = (*this)(offset, 0);
  return word.substr(0, word.find(" = "));
}

std::string CacheWords::in_slot(std::uint64_t offset, std::uint64_t value) const {
  const std::uint64_t stride = cache::slot_stride(geometry_.layout().block_bytes);
  const std::uint64_t at = offset % stride;
  const std::string slot = "slot " + std::to_string(offset / stride) + " ";
  if (at == offsetof(cache::SlotHeader, block_id)) return slot + "id = " + id(value);
  if (at == offsetof(cache::SlotHeader, token)) return slot + "token = " + sim::hexadecimal(value);
  if (at >= sizeof(cache::SlotHeader))
    return slot + "word " + std::to_string((at - sizeof(cache::SlotHeader)) / 8) + " = " + id(value);
  if (at == offsetof(cache::SlotHeader, key) + offsetof(cache::FileIdentity, inode))
    return slot + "inode = " + std::to_string(value);
  return slot + "header byte " + std::to_string(at) + " = " + sim::hexadecimal(value);
}

std::string CacheWords::in_bucket(std::uint64_t offset, std::uint64_t value) const {
  const std::uint64_t at = offset % geometry_.bucket_bytes();
  const std::uint64_t word = at % geometry_.row_bytes() / 8;
  const std::string row = "bucket " + std::to_string(offset / geometry_.bucket_bytes()) + " row " +
                          std::to_string(at / geometry_.row_bytes()) + " ";
  if (word == 0) return row + "id = " + id(value);
  return row + "cell of group " + std::to_string(word - 1) + " = " + cell(value);
}

std::string CacheWords::id(std::uint64_t value) const {
  if (const auto found = names_.find(value); found != names_.end()) return found->second;
  if (const auto claimed = names_.find(value & ~cache::kClaiming); claimed != names_.end())
    return claimed->second + ", claimed";
  return sim::hexadecimal(value);
}

}  // namespace farside::scenario
