// A mailbox with an index of what is unread: mail arrives from several threads while its owner reads, and whatever the
// index names is there, whole and unread.
//
//   farside up -n 2 --kv 64M &
//   mailbox
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <farside/base/error.h>
#include <farside/kv/client.h>
#include <farside/kv/table.h>

namespace {

using namespace farside::kv;

constexpr int kSenders = 3;
constexpr int kMails = 100;  // of each sender

// A mail is a row "mail:OWNER:NUMBER", whose value begins with what it is.
constexpr std::string_view kUnread = "unread ";
constexpr std::string_view kRead = "read ";

std::vector<std::string> owner_of(std::string_view key, std::string_view /*value*/) {
  const auto begin = key.find(':') + 1;
  return {std::string(key.substr(begin, key.rfind(':') - begin))};
}
std::vector<std::string> owner_of_unread(std::string_view key, std::string_view value) {
  return value.starts_with(kUnread) ? owner_of(key, value) : std::vector<std::string>();
}

std::vector<View> views() {
  return {{.name = "unread", .rows = "mail:", .groups = owner_of_unread},
          {.name = "mails", .rows = "mail:", .groups = owner_of, .kind = View::Kind::count}};
}

void send(Session& session, int sender) {
  Table mails(session, views());
  for (int i = 0; i < kMails; ++i) {
    const std::string key = "mail:ann:" + std::to_string(sender) + "-" + std::to_string(i);
    const std::string text = std::string(kUnread) + "from " + std::to_string(sender);
    if (mails.put(key, text) != PutOutcome::done) std::cerr << key << " was not sent\n";
  }
}

// Reads what is unread until all has come; how many mails were not as the index said.
int read_all(Session& session) {
  Table mails(session, views());
  int wrong = 0;
  for (int read = 0; read < kSenders * kMails;) {
    const auto asked = mails.rows("unread", "ann");
    if (!asked.done()) return 1;
    const std::vector<Row>& unread = asked.value;
    std::vector<std::string> texts;
    for (const Row& mail : unread) {
      if (!mail.value.starts_with(kUnread)) ++wrong;
      texts.push_back(std::string(kRead) + mail.value.substr(kUnread.size()));
    }
    std::vector<Write> writes;
    for (std::size_t i = 0; i < unread.size(); ++i) writes.push_back({.key = unread[i].key, .value = texts[i]});
    const PutOutcome outcome = mails.put_all(writes);
    if (outcome == PutOutcome::done) read += static_cast<int>(unread.size());
    if (outcome != PutOutcome::done && outcome != PutOutcome::differs) return 1;
    if (unread.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return wrong;
}

}  // namespace

int main() {
  try {
    Client client;
    std::vector<std::thread> senders;
    for (int sender = 0; sender < kSenders; ++sender) {
      senders.emplace_back([&client, sender] { send(*client.open_session(), sender); });
    }
    const auto session = client.open_session();
    const int wrong = read_all(*session);
    for (auto& sender : senders) sender.join();

    Table mails(*session, views());
    const auto all = mails.count("mails", "ann");
    const auto unread = mails.keys("unread", "ann");
    std::cout << all.value << " mails, " << unread.value.size() << " unread, " << wrong << " not as the index said\n";
    const bool are_all_read = all.done() && all.value == kSenders * kMails && unread.done() && unread.value.empty();
    return are_all_read && wrong == 0 ? 0 : 1;
  } catch (const farside::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
