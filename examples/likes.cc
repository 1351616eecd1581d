// Users and what they like: an association that can be asked from both ends, with a count, by several threads at once.
// After each like and unlike both lists and the count are true together, without a lock.
//
//   farside up -n 2 --kv 64M &
//   likes
#include <algorithm>
#include <atomic>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <farside/base/error.h>
#include <farside/kv/client.h>
#include <farside/kv/table.h>

namespace {

using namespace farside::kv;

constexpr int kThreads = 4;
constexpr int kLikes = 200;  // of each thread
constexpr int kUsers = 8;
constexpr int kPages = 4;

// A like is a row "like:USER:PAGE".
std::vector<std::string> user_of(std::string_view key, std::string_view /*value*/) {
  const auto begin = key.find(':') + 1;
  return {std::string(key.substr(begin, key.rfind(':') - begin))};
}
std::vector<std::string> page_of(std::string_view key, std::string_view /*value*/) {
  return {std::string(key.substr(key.rfind(':') + 1))};
}

std::vector<View> views() {
  return {{.name = "liked", .rows = "like:", .groups = user_of},
          {.name = "fans", .rows = "like:", .groups = page_of},
          {.name = "likes", .rows = "like:", .groups = page_of, .kind = View::Kind::count}};
}

void like_at_random(Session& session, unsigned seed) {
  Table likes(session, views());
  std::minstd_rand random(seed);
  for (int i = 0; i < kLikes; ++i) {
    const std::string key =
        "like:user" + std::to_string(random() % kUsers) + ":page" + std::to_string(random() % kPages);
    const auto outcome = random() % 3 == 0 ? likes.erase(key) : likes.put(key, "");
    if (outcome != PutOutcome::done) std::cerr << key << " was not written\n";
  }
}

// Both ends and the count, compared; the number of likes.
std::uint64_t audit(Table& likes) {
  std::uint64_t of_users = 0;
  std::uint64_t of_pages = 0;
  for (int user = 0; user < kUsers; ++user) {
    const auto liked = likes.keys("liked", "user" + std::to_string(user));
    if (liked.done()) of_users += liked.value.size();
  }
  for (int page = 0; page < kPages; ++page) {
    const std::string name = "page" + std::to_string(page);
    const auto fans = likes.keys("fans", name);
    const auto count = likes.count("likes", name);
    if (!fans.done() || !count.done()) continue;
    std::cout << name << " has " << count.value << " likes and " << fans.value.size() << " fans\n";
    of_pages += fans.value.size() == count.value ? count.value : 0;
  }
  return of_users == of_pages ? of_pages : 0;
}

}  // namespace

int main() {
  try {
    Client client;
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < kThreads; ++seed) {
      threads.emplace_back([&client, seed] { like_at_random(*client.open_session(), seed + 1); });
    }
    for (auto& thread : threads) thread.join();

    const auto session = client.open_session();
    Table likes(*session, views());
    const std::uint64_t total = audit(likes);
    std::cout << (total != 0 ? "both ends agree: " + std::to_string(total) + " likes\n" : "the two ends differ\n");
    return total != 0 ? 0 : 1;
  } catch (const farside::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
