#include "kv/protocol/messages.h"

#include <concepts>
#include <cstring>
#include <type_traits>

#include "kv/protocol/layout.h"
#include "kv/protocol/timestamp.h"

namespace farside::kv {

namespace {

// ---- What lies in a message, in this order (docs/protocols/kv.md, "Messages")

struct RequestHead {
  std::uint64_t session;
  std::uint64_t settled;
  Timestamp timestamp;
  std::uint64_t cursor;
  std::uint32_t about;
  RequestKind kind;
  std::uint8_t zero;
  SiblingsKind siblings_kind;
  std::uint32_t siblings_bytes;
  std::uint32_t prefix_bytes;
  std::uint32_t candidates;  // how many there are, and so on
  std::uint16_t servers;
  std::uint16_t parts;
  std::uint32_t keys;
  std::uint32_t writes;
};
static_assert(sizeof(RequestHead) == 72 && std::has_unique_object_representations_v<RequestHead>);

struct WriteHead {
  std::uint64_t expires_ns;
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;
  std::uint32_t flags;
  std::uint32_t zero;
  Timestamp expected;  // 0 unless the flags say that it is

  static constexpr std::uint32_t kErase = 1;
  static constexpr std::uint32_t kConditional = 2;
};
static_assert(sizeof(WriteHead) == 40 && std::has_unique_object_representations_v<WriteHead>);

struct ReplyHead {
  Timestamp newest;
  Timestamp forgotten;
  std::uint64_t next;
  MemoryUse use;
  RequestKind kind;
  Answer answer;
  Fate fate;
  std::uint8_t zero;
  std::uint32_t versions;
  std::uint32_t keys;
  std::uint32_t parts;
};
static_assert(sizeof(ReplyHead) == 104 && std::has_unique_object_representations_v<ReplyHead>);

struct VersionHead {
  std::uint64_t generation;
  std::uint64_t place;
  std::uint32_t record_bytes;
  std::uint32_t zero;
};
static_assert(sizeof(VersionHead) == 24 && std::has_unique_object_representations_v<VersionHead>);

template <class Number = std::uint32_t, class T>
Number count(const T& many) {
  return static_cast<Number>(many.size());
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class Writer {
 public:
  explicit Writer(std::size_t bytes) { bytes_.reserve(bytes); }

  template <class Plain>
  void put(const Plain& value) requires std::has_unique_object_representations_v<Plain> {
    put(std::as_bytes(std::span(&value, 1)));
  }
  void put(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void put(std::string_view text) { put(bytes_of(text)); }
  [[nodiscard]] Message take() { return std::move(bytes_); }

 private:
  Message bytes_;
};

/// Once it was asked for more than there is, or told of something that cannot be, it has nothing more to give.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <class Plain>
  [[nodiscard]] Plain plain() requires std::has_unique_object_representations_v<Plain> {
    Plain value{};
    const std::span<const std::byte> taken = bytes(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  [[nodiscard]] std::span<const std::byte> bytes(std::size_t count) {
    expect(count <= rest_.size());
    const std::span<const std::byte> taken = failed_ ? std::span<const std::byte>() : rest_.first(count);
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  [[nodiscard]] std::string_view text(std::size_t count) {
    const std::span<const std::byte> taken = bytes(count);
    return {static_cast<const char*>(static_cast<const void*>(taken.data())), taken.size()};
  }
  /// `entries` of at least `least_bytes` each are still to come: no room is made for more than the message can hold.
  template <class Entry>
  void reserve(std::vector<Entry>& into, std::size_t entries, std::size_t least_bytes) {
    expect(entries <= rest_.size() / least_bytes);
    if (!failed_) into.reserve(entries);
  }
  void expect(bool holds) { failed_ = failed_ || !holds; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool ended_well() const noexcept { return !failed_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

bool is_key(std::size_t bytes) { return bytes > 0 && bytes <= kMaxKeyBytes; }

bool fits(SiblingsKind kind, std::size_t bytes) {
  switch (kind) {
    case SiblingsKind::none: return bytes == 0;
    case SiblingsKind::list: return bytes % sizeof(KeyId) == 0;
    case SiblingsKind::filter: return true;
  }
  return false;
}

bool is_of_a_transaction(RequestKind kind) {
  switch (kind) {
    case RequestKind::prepare:
    case RequestKind::commit:
    case RequestKind::abort:
    case RequestKind::put:
    case RequestKind::fate: return true;
    case RequestKind::get:
    case RequestKind::scan:
    case RequestKind::use:
    case RequestKind::several: break;
  }
  return false;
}

Write read_write(Reader& reader) {
  const auto head = reader.plain<WriteHead>();
  reader.expect(is_key(head.key_bytes) && head.value_bytes <= kMaxValueBytes && head.zero == 0);
  const bool erases = (head.flags & WriteHead::kErase) != 0;
  const bool is_conditional = (head.flags & WriteHead::kConditional) != 0;
  reader.expect((head.flags & ~(WriteHead::kErase | WriteHead::kConditional)) == 0);
  reader.expect(!erases || head.value_bytes == 0);
  reader.expect(is_conditional || head.expected == Timestamp{});
  reader.expect(head.expected.time <= kLatestTime);
  const std::string_view key = reader.text(head.key_bytes);
  const std::string_view value = reader.text(head.value_bytes);
  return {key, value, head.expires_ns, erases, is_conditional ? std::optional(head.expected) : std::nullopt};
}

ReplyVersion read_version(Reader& reader) {
  const auto head = reader.plain<VersionHead>();
  reader.expect(head.zero == 0);
  return {head.generation, head.place, reader.bytes(head.record_bytes)};
}

std::string_view read_key(Reader& reader) {
  const auto bytes = reader.plain<std::uint32_t>();
  reader.expect(is_key(bytes));
  return reader.text(bytes);
}

MessageView read_part(Reader& reader) { return reader.bytes(reader.plain<std::uint32_t>()); }

template <class Entry, class Read>
void read_all(Reader& reader, std::vector<Entry>& into, std::uint32_t entries, std::size_t least_bytes, Read read) {
  reader.reserve(into, entries, least_bytes);
  for (std::uint32_t i = 0; i < entries && !reader.failed(); ++i) into.push_back(read(reader));
}

void put_parts(Writer& writer, std::span<const MessageView> parts) {
  for (const MessageView part : parts) {
    writer.put(count(part));
    writer.put(part);
  }
}

}  // namespace

Message Request::encode() const {
  std::size_t bytes = sizeof(RequestHead) + siblings.bytes.size() + prefix.size() +
                      candidates.size() * sizeof(Timestamp) + servers.size() * sizeof(ServerNumber);
  for (const std::string_view key : keys) bytes += sizeof(std::uint32_t) + key.size();
  for (const Write& each : writes) bytes += sizeof(WriteHead) + each.key.size() + each.value.size();
  for (const MessageView part : parts) bytes += sizeof(std::uint32_t) + part.size();

  Writer writer(bytes);
  writer.put(RequestHead{session, settled, timestamp, cursor, about, kind, 0, siblings.kind, count(siblings.bytes),
                         count(prefix), count(candidates), count<std::uint16_t>(servers), count<std::uint16_t>(parts),
                         count(keys), count(writes)});
  writer.put(siblings.bytes);
  writer.put(prefix);
  writer.put(std::as_bytes(std::span(candidates)));
  writer.put(std::as_bytes(std::span(servers)));
  for (const std::string_view key : keys) {
    writer.put(count(key));
    writer.put(key);
  }
  for (const Write& each : writes) {
    const std::uint32_t erases = each.erase ? WriteHead::kErase : 0;
    const std::uint32_t is_conditional = each.expected ? WriteHead::kConditional : 0;
    writer.put(WriteHead{each.expires_ns, count(each.key), count(each.value), erases | is_conditional, 0,
                         each.expected.value_or(Timestamp{})});
    writer.put(each.key);
    writer.put(each.value);
  }
  put_parts(writer, parts);
  return writer.take();
}

std::optional<Request> Request::decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto head = reader.plain<RequestHead>();
  reader.expect(head.kind <= RequestKind::several && head.zero == 0);
  reader.expect(fits(head.siblings_kind, head.siblings_bytes));
  reader.expect(head.settled <= kLatestTime && head.timestamp.time <= kLatestTime);
  reader.expect(head.timestamp.time != 0 || !is_of_a_transaction(head.kind));

  Request request{.kind = head.kind,
                  .session = head.session,
                  .settled = head.settled,
                  .timestamp = head.timestamp,
                  .cursor = head.cursor,
                  .about = head.about};
  request.siblings = {head.siblings_kind, reader.bytes(head.siblings_bytes)};
  request.prefix = reader.text(head.prefix_bytes);
  read_all(reader, request.candidates, head.candidates, sizeof(Timestamp),
           [](Reader& from) { return from.plain<Timestamp>(); });
  read_all(reader, request.servers, head.servers, sizeof(ServerNumber),
           [](Reader& from) { return from.plain<ServerNumber>(); });
  read_all(reader, request.keys, head.keys, sizeof(std::uint32_t), read_key);
  read_all(reader, request.writes, head.writes, sizeof(WriteHead), read_write);
  read_all(reader, request.parts, head.parts, sizeof(std::uint32_t), read_part);
  if (!reader.ended_well()) return std::nullopt;
  return request;
}

Message Reply::encode() const {
  std::size_t bytes = sizeof(ReplyHead);
  for (const ReplyVersion& each : versions) bytes += sizeof(VersionHead) + each.record.size();
  for (const std::string_view key : keys) bytes += sizeof(std::uint32_t) + key.size();
  for (const MessageView part : parts) bytes += sizeof(std::uint32_t) + part.size();

  Writer writer(bytes);
  writer.put(
      ReplyHead{newest, forgotten, next, use, kind, answer, fate, 0, count(versions), count(keys), count(parts)});
  for (const ReplyVersion& each : versions) {
    writer.put(VersionHead{each.generation, each.place, count(each.record), 0});
    writer.put(each.record);
  }
  for (const std::string_view key : keys) {
    writer.put(count(key));
    writer.put(key);
  }
  put_parts(writer, parts);
  return writer.take();
}

std::optional<Reply> Reply::decode(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  const auto head = reader.plain<ReplyHead>();
  reader.expect(head.kind <= RequestKind::several && head.answer <= Answer::refused);
  reader.expect(head.fate <= Fate::aborted && head.zero == 0);
  reader.expect(head.newest.time <= kLatestTime && head.use.journal <= JournalState::damaged);
  reader.expect(head.use.copies <= Copies::copying && head.use.copied_permille <= 1000);

  Reply reply{.kind = head.kind,
              .answer = head.answer,
              .newest = head.newest,
              .forgotten = head.forgotten,
              .fate = head.fate,
              .next = head.next,
              .use = head.use};
  read_all(reader, reply.versions, head.versions, sizeof(VersionHead), read_version);
  read_all(reader, reply.keys, head.keys, sizeof(std::uint32_t), read_key);
  read_all(reader, reply.parts, head.parts, sizeof(std::uint32_t), read_part);
  if (!reader.ended_well()) return std::nullopt;
  return reply;
}

}  // namespace farside::kv
