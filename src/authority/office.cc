#include "authority/office.h"

#include <array>
#include <utility>

#include "base/random_bits.h"
#include "base/wire.h"

namespace farside::authority {

namespace {

// In which keys are ordered as their numbers are.
template <class Number>
std::string hexadecimal(Number number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(2 * sizeof number, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4U) *digit = kDigits[number & 15U];
  return text;
}

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

std::optional<std::string> encoded(const std::optional<Holder>& holder) {
  return holder ? std::optional(encode_holder(*holder)) : std::nullopt;
}

}  // namespace

std::string encode_holder(const Holder& holder) {
  return Encoder().number(holder.term).number(holder.nonce).text(holder.address).take();
}

Holder decode_holder(std::string_view bytes) {
  Decoder from(bytes, "which process coordinates the team");
  Holder holder{.term = from.number<std::uint64_t>(), .nonce = from.number<std::uint64_t>(), .address = from.text()};
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
  const auto records = store.read({keys.holder(), keys.holder() + '\0'});
  if (!records) return Tenure::unknown;
  const std::optional<std::string> seen = records->empty() ? std::nullopt : std::optional(records->front().value);
  if (seen == encode_holder(held)) return Tenure::held;
  if (seen && decode_holder(*seen).term >= held.term) return Tenure::superseded;
  const Condition is_as_seen{keys.holder(), seen};
  const Record restored{keys.holder(), encode_holder(held)};
  return store.commit({&is_as_seen, 1}, {&restored, 1}, {}) == Commit::done ? Tenure::rewound : Tenure::unknown;
}

std::optional<Office::View> Office::look() {
  const auto records = store_.read({keys_.holder(), keys_.renewal() + '\0'});  // no other key lies between the two
  if (!records) return std::nullopt;
  View view;
  for (const Record& record : *records) {
    if (record.key == keys_.holder()) view.holder = decode_holder(record.value);
    if (record.key == keys_.renewal()) view.renewal = record.value;
  }
  return view;
}

std::optional<Holder> Office::take(const View& seen, const std::string& address) {
  const Holder taken{
      .term = seen.holder ? seen.holder->term + 1 : 1, .nonce = random_bits<std::uint64_t>(), .address = address};
  const Condition is_as_seen{keys_.holder(), encoded(seen.holder)};
  const Record record{keys_.holder(), encode_holder(taken)};
  if (store_.commit({&is_as_seen, 1}, {&record, 1}, {}) != Commit::done) return std::nullopt;
  renewal_ = seen.renewal;
  tried_ = confirmed_ = 0;
  return taken;
}

Tenure Office::renew(const Holder& held) {
  const Record next{keys_.renewal(), encode_renewal({held.nonce, ++tried_})};
  const std::array conditions{Condition{keys_.holder(), encode_holder(held)}, Condition{keys_.renewal(), renewal_}};
  const Commit commit = store_.commit(conditions, {&next, 1}, {});
  if (commit == Commit::unknown) return Tenure::unknown;
  if (commit == Commit::done) {
    confirmed_ = tried_;
    renewal_ = next.value;
    return Tenure::held;
  }
  const Tenure standing = examine(store_, keys_, held);
  if (standing == Tenure::superseded || standing == Tenure::unknown) return standing;
  const auto view = look();
  if (!view || view->holder != held) return Tenure::unknown;  // it has changed meanwhile: the next renewal finds out
  return take_renewal(view->renewal, held) ? standing : Tenure::rewound;
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
  const Record vacant{keys_.holder(), encode_holder({.term = held.term, .nonce = held.nonce, .address = ""})};
  return store_.commit({&is_held, 1}, {&vacant, 1}, {}) != Commit::unknown;
}

}  // namespace farside::authority
