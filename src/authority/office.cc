#include "authority/office.h"

#include <array>
#include <utility>
#include <vector>

#include "base/hexadecimal.h"
#include "base/random_bits.h"
#include "base/wire.h"

namespace farside::authority {

namespace {

struct Renewal {
  std::uint64_t nonce;  ///< the holder's
  std::uint64_t number;
};

std::string encode_renewal(const Renewal& renewal) {
  return Encoder().number(renewal.nonce).number(renewal.number).take();
}

Renewal decode_renewal(std::string_view bytes) {
  Decoder from(bytes, "a renewal of the office");
  const Renewal renewal{.nonce = from.number<std::uint64_t>(), .number = from.number<std::uint64_t>()};
  from.expect_end();
  return renewal;
}

Record vacated(const OfficeKeys& keys, const Holder& former) {
  return {keys.holder(), encode_holder({.term = former.term, .nonce = former.nonce, .address = {}, .owner = {}})};
}

std::optional<std::string> encoded(const std::optional<Holder>& holder) {
  return holder ? std::optional(encode_holder(*holder)) : std::nullopt;
}

}  // namespace

std::string encode_holder(const Holder& holder) {
  return Encoder().number(holder.term).number(holder.nonce).text(holder.address).text(holder.owner).take();
}

Holder decode_holder(std::string_view bytes) {
  Decoder from(bytes, "which process coordinates the team");
  Holder holder{.term = from.number<std::uint64_t>(),
                .nonce = from.number<std::uint64_t>(),
                .address = from.text(),
                .owner = from.text()};
  from.expect_end();
  return holder;
}

KeyRange OfficeKeys::beginning_with(const std::string& prefix) {
  std::string end = prefix;
  end.back() = static_cast<char>(end.back() + 1);  // it is a slash
  return {prefix, end};
}

std::string OfficeKeys::log_prefix(std::uint64_t number) const { return prefix_ + "log/" + hexadecimal(number) + "/"; }

std::string OfficeKeys::part(std::uint64_t log, std::uint64_t entry, std::uint32_t part) const {
  return log_prefix(log) + hexadecimal(entry) + "/" + hexadecimal(part);
}

Tenure examine(RecordStore& store, const OfficeKeys& keys, const Holder& held) {
  const auto records = store.read(KeyRange::only(keys.holder()));
  if (!records) return Tenure::unknown;
  const std::optional<std::string> seen = records->empty() ? std::nullopt : std::optional(records->front().value);
  if (seen == encode_holder(held)) return Tenure::held;
  if (seen && decode_holder(*seen).term >= held.term) return Tenure::superseded;
  const Condition is_as_seen{keys.holder(), seen};
  const Record restored{keys.holder(), encode_holder(held)};
  return store.commit({&is_as_seen, 1}, {&restored, 1}, {}) == Commit::done ? Tenure::rewound : Tenure::unknown;
}

Commit remove_pool(RecordStore& store, const OfficeKeys& keys, std::span<const Condition> as_seen,
                   const Holder& former) {
  const std::array removed{KeyRange::only(keys.renewal()), keys.logs(), KeyRange::only(keys.present())};
  const Record vacant = vacated(keys, former);
  return store.commit(as_seen, {&vacant, 1}, removed);
}

std::optional<Office::View> Office::look() {
  const auto records = store_.read(keys_.office());
  if (!records) return std::nullopt;
  View view;
  for (const Record& record : *records) {
    if (record.key == keys_.holder()) view.holder = decode_holder(record.value);
    if (record.key == keys_.renewal()) view.renewal = record.value;
  }
  return view;
}

std::optional<Holder> Office::take(const View& seen, const std::string& address, const std::string& owner) {
  const Holder taken{.term = seen.holder ? seen.holder->term + 1 : 1,
                     .nonce = random_bits<std::uint64_t>(),
                     .address = address,
                     .owner = owner};
  const std::array as_seen{Condition{keys_.holder(), encoded(seen.holder)}, Condition{keys_.renewal(), seen.renewal}};
  const Record record{keys_.holder(), encode_holder(taken)};
  if (store_.commit(as_seen, {&record, 1}, {}) != Commit::done) return std::nullopt;
  renewal_ = seen.renewal;
  tried_ = confirmed_ = 0;
  was_rewound_ = false;
  return taken;
}

Tenure Office::renew(const Holder& held, const std::optional<Record>& last) {
  const Record next{keys_.renewal(), encode_renewal({held.nonce, ++tried_})};
  std::vector<Condition> conditions{{keys_.holder(), encode_holder(held)}, {keys_.renewal(), renewal_}};
  if (last) conditions.push_back({last->key, last->value});
  const Commit commit = store_.commit(conditions, {&next, 1}, {});
  if (commit == Commit::unknown) return Tenure::unknown;
  if (commit == Commit::done) {
    confirmed_ = tried_;
    renewal_ = next.value;
    return std::exchange(was_rewound_, false) ? Tenure::rewound : Tenure::held;
  }
  const Tenure tenure = examine(store_, keys_, held);
  if (tenure == Tenure::superseded || tenure == Tenure::unknown) return tenure;
  was_rewound_ = was_rewound_ || tenure == Tenure::rewound;
  const auto view = look();
  if (!view || view->holder != held) return Tenure::unknown;  // it has changed meanwhile: the next renewal finds out
  const bool was_known = renewal_ == view->renewal;           // so that `last` is missing
  if (!take_renewal(view->renewal, held) || was_known) was_rewound_ = true;
  return std::exchange(was_rewound_, false) ? Tenure::rewound : Tenure::held;
}

// Returns whether it is the one that was confirmed last, or a later one, that had no answer.
bool Office::take_renewal(std::optional<std::string> seen, const Holder& held) {
  renewal_ = std::move(seen);
  if (!renewal_) return confirmed_ == 0;
  const Renewal renewal = decode_renewal(*renewal_);
  if (renewal.nonce != held.nonce) return confirmed_ == 0;
  return renewal.number >= std::exchange(confirmed_, renewal.number);
}

bool Office::resign(const Holder& held) {
  const Condition is_held{keys_.holder(), encode_holder(held)};
  const Record vacant = vacated(keys_, held);
  return store_.commit({&is_held, 1}, {&vacant, 1}, {}) != Commit::unknown;
}

}  // namespace farside::authority
