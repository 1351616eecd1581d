// pool.json with any content (node/pool/pool_directory.h), and a file of a server's progress beside it. It is refused
// with an Error; or it is understood: the record has the file's numbers, and so has the file when it is written again.
#include <cstdlib>
#include <tuple>

#include <nlohmann/json.hpp>

#include "node/pool/pool_directory.h"
#include "tests/fuzz/decode.h"
#include "tests/fuzz/scratch_directory.h"

namespace farside::fuzz {
namespace {

nlohmann::json as_json(const std::string& file) {
  std::ifstream in(file);
  return nlohmann::json::parse(in);
}

/// What was left out is no part of a record.
bool has_all_of(const nlohmann::json& whole, const nlohmann::json& part) {
  if (part.is_array()) {
    if (!whole.is_array() || whole.size() != part.size()) return false;
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (!has_all_of(whole[i], part[i])) return false;
    }
    return true;
  }
  if (!part.is_object()) return whole == part;
  for (const auto& [name, value] : part.items()) {
    if (!whole.contains(name) || !has_all_of(whole[name], value)) return false;
  }
  return true;
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  static const fuzz::ScratchDirectory place;
  const node::PoolDirectory directory(place.path());
  const std::string file = place.path() + "/pool.json";
  fuzz::write_bytes(file, std::as_bytes(std::span(data, size)));
  try {
    const auto record = directory.read_record();
    if (!record) std::abort();
    const nlohmann::json read = fuzz::as_json(file);
    directory.write_record(*record);
    if (!fuzz::has_all_of(read, fuzz::as_json(file))) std::abort();
  } catch (const Error&) {
  }
  fuzz::write_bytes(place.path() + "/kv-0.sock.recovered", std::as_bytes(std::span(data, size)));
  (void)directory.read_recovered(0);
  return 0;
}
