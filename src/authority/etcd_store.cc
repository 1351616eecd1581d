#include "authority/etcd_store.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include "farside/base/error.h"

namespace farside::authority {

namespace {

using Json = nlohmann::json;

/// For one server's answer. A leader is elected within a second or two; the next attempt finds it.
constexpr std::chrono::milliseconds kServerAnswer{700};
/// A page of a range: with RecordStore::kMaxValue it stays below what etcd sends at once.
constexpr std::size_t kPage = 64;
constexpr std::size_t kMaxPages = 4096;

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // and a zero
  const int length =
      ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::string from_base64(const std::string& text) {
  std::string bytes(3 * (text.size() / 4) + 3, '\0');
  const int length =
      ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                        reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (length < 0) throw Error({"read", "etcd's answer", "a text of it is not base64", "check what answers there"});
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(length) - padding);
  return bytes;
}

Json encode_range(const KeyRange& range) { return {{"key", base64(range.begin)}, {"range_end", base64(range.end)}}; }

Json encode_condition(const Condition& condition) {
  if (!condition.value) {
    return {{"key", base64(condition.key)}, {"target", "VERSION"}, {"result", "EQUAL"}, {"version", "0"}};
  }
  return {
      {"key", base64(condition.key)}, {"target", "VALUE"}, {"result", "EQUAL"}, {"value", base64(*condition.value)}};
}

std::string first_line_of(std::string_view text) {
  constexpr std::size_t kMax = 200;
  return std::string(text.substr(0, std::min(text.find('\n'), kMax)));
}

std::string read_password(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  if (!std::getline(file, line))
    throw Error({"read the password in", path, "there is no such file, or it is empty", ""});
  return line;
}

}  // namespace

EtcdStore::EtcdStore(EtcdAddress address)
    : address_(std::move(address)), client_({.ca = address_.ca, .own = address_.certificate, .key = address_.key}) {
  if (!address_.password_file.empty()) (void)read_password(address_.password_file);  // it is there
}

std::nullopt_t EtcdStore::fail(const std::string& member, const std::string& why) {
  why_ = member + ": " + why;
  return std::nullopt;
}

std::optional<Json> EtcdStore::ask(const std::string& path, const Json& request) {
  const std::string text = request.dump();
  deadline_ = Clock::now() + kAnswer;
  for (std::size_t tried = 0; tried < address_.members.size() && Clock::now() < deadline_; ++tried) {
    if (auto answer = ask_member(address_.members[member_], path, text)) return answer;
    member_ = (member_ + 1) % address_.members.size();
  }
  return std::nullopt;
}

// A token is forgotten by servers that were started again, and after some minutes. The password may have been changed.
std::optional<Json> EtcdStore::ask_member(const std::string& member, const std::string& path,
                                          const std::string& request) {
  if (address_.user.empty()) return post(member, path, request);
  if (token_.empty() && !authenticate(member)) return std::nullopt;
  auto answer = post(member, path, request);
  if (answer || !is_token_refused_ || !authenticate(member)) return answer;
  return post(member, path, request);
}

// Returns how much is left of the time for all servers.
std::chrono::milliseconds EtcdStore::left() const {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()), std::chrono::milliseconds(1));
}

bool EtcdStore::authenticate(const std::string& member) {
  token_.clear();
  std::string password;
  try {
    password = read_password(address_.password_file);
  } catch (const Error& error) {
    fail(member, error.what());
    return false;
  }
  const auto answer = post(member, "auth/authenticate", Json{{"name", address_.user}, {"password", password}}.dump());
  if (answer) token_ = answer->value("token", "");
  return !token_.empty();
}

std::optional<Json> EtcdStore::post(const std::string& member, const std::string& path, const std::string& request) {
  std::vector<std::string> headers{"Content-Type: application/json", "Grpc-Metadata-hasleader: true", "Expect:"};
  if (!token_.empty()) headers.push_back("Authorization: " + token_);
  const std::string url = (address_.is_tls ? "https://" : "http://") + member + "/v3/" + path;
  const HttpClient::Reply reply = client_.post(url, headers, request, std::min(kServerAnswer, left()));
  is_token_refused_ = false;
  if (reply.status == 0) return fail(member, reply.body);
  Json answer = Json::parse(reply.body, nullptr, false);
  constexpr long kOk = 200;
  if (reply.status == kOk && answer.is_object() && !answer.contains("error")) return answer;
  constexpr int kUnauthenticated = 16;
  if (!answer.is_object())
    return fail(member,
                "it answers with HTTP status " + std::to_string(reply.status) + ": " + first_line_of(reply.body));
  is_token_refused_ = answer.value("code", 0) == kUnauthenticated;
  return fail(member, answer.value("error", answer.value("message", reply.body)));
}

// All pages as of the revision of the first.
std::optional<std::vector<Record>> EtcdStore::read(const KeyRange& range) try {
  std::vector<Record> records;
  Json request = encode_range(range);
  request["limit"] = std::to_string(kPage);
  for (std::size_t pages = 0; pages < kMaxPages; ++pages) {
    const auto answer = ask("kv/range", request);
    if (!answer) return std::nullopt;
    if (pages == 0) request["revision"] = answer->at("header").at("revision");
    const Json page = answer->value("kvs", Json::array());
    for (const Json& record : page) {
      records.push_back({from_base64(record.at("key").get<std::string>()), from_base64(record.value("value", ""))});
    }
    if (!answer->value("more", false)) return records;
    if (page.empty()) return fail(address_.members[member_], "it says that there is more, and does not send it");
    request["key"] = base64(records.back().key + '\0');
  }
  return fail(address_.members[member_], "it has more records than any pool");
} catch (const std::exception& error) {  // its answer makes no sense
  return fail(address_.members[member_], error.what());
}

Commit EtcdStore::commit(std::span<const Condition> conditions, std::span<const Record> written,
                         std::span<const KeyRange> removed) try {
  Json compare = Json::array();
  for (const Condition& condition : conditions) compare.push_back(encode_condition(condition));
  Json success = Json::array();
  for (const KeyRange& range : removed) success.push_back({{"request_delete_range", encode_range(range)}});
  for (const Record& record : written)
    success.push_back({{"request_put", {{"key", base64(record.key)}, {"value", base64(record.value)}}}});
  const auto answer = ask("kv/txn", {{"compare", compare}, {"success", success}});
  if (!answer) return Commit::unknown;
  return answer->value("succeeded", false) ? Commit::done : Commit::conflict;
} catch (const std::exception& error) {  // as above
  fail(address_.members[member_], error.what());
  return Commit::unknown;
}

}  // namespace farside::authority
