// A program that uses each of its arrays in another way, and prints what it computed. `uses forks`: a child does the
// work.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kWordsOfPage = 4096 / sizeof(std::uint64_t);
constexpr std::size_t kTable = 16 * kMiB / sizeof(std::uint64_t);
constexpr std::size_t kCounters = 4 * kMiB / sizeof(std::uint64_t);
constexpr int kRounds = 6;

std::uint64_t next(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state >> 33U;
}

void fill(std::uint64_t* words, std::size_t count, std::uint64_t seed) {
  for (std::size_t i = 0; i < count; ++i) words[i] = next(seed);
}

}  // namespace

// Read from end to end, again and again.
std::uint64_t static_table[kTable];

// Each function that allocates has its name in the profile.
[[gnu::noinline]] std::uint64_t* take_table() {  // read here and there
  return static_cast<std::uint64_t*>(std::malloc(kTable * sizeof(std::uint64_t)));
}
[[gnu::noinline]] std::uint64_t* take_counters() { return new std::uint64_t[kCounters]; }  // updated
[[gnu::noinline]] std::uint64_t* take_input() {                                            // walked through, once
  void* const mapped =
      ::mmap(nullptr, kTable * sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<std::uint64_t*>(mapped);
}
[[gnu::noinline]] std::uint64_t* take_scratch() {  // hardly used at all
  return static_cast<std::uint64_t*>(std::calloc(kMiB, sizeof(std::uint64_t)));
}

int main(int count, char** arguments) {
  std::uint64_t* const table = take_table();
  std::uint64_t* const counters = take_counters();
  std::uint64_t* const input = take_input();
  std::uint64_t* const scratch = take_scratch();
  if (table == nullptr || input == nullptr || scratch == nullptr) return 2;
  fill(table, kTable, 1);
  fill(static_table, kTable, 2);
  fill(counters, kCounters, 3);
  fill(input, kTable, 4);

  if (count > 1 && std::strcmp(arguments[1], "forks") == 0) {
    const pid_t child = ::fork();
    if (child != 0) {
      int status = 0;
      return ::waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 3;
    }
  }

  std::uint64_t sum = 0;
  std::uint64_t state = 5;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t page = 0; page < kTable; page += kWordsOfPage) {
      sum += static_table[page] + table[next(state) % kTable];
      if (page % (4 * kWordsOfPage) == 0) ++counters[page / 4 + next(state) % kWordsOfPage];
    }
  }
  for (std::size_t i = 0; i < kTable; ++i) sum = sum * 31 + input[i];
  for (std::size_t i = 0; i < kCounters; ++i) sum = sum * 31 + counters[i];
  scratch[0] = sum;
  std::printf("%016llx\n", static_cast<unsigned long long>(scratch[0] ^ scratch[kMiB - 1]));
  return 0;
}
