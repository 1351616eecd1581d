// Stands in for libFuzzer in the tests: gives a target each file of its corpus, each beginning of it, and it with each
// byte changed in a few ways.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes);

namespace {

std::size_t runs = 0;

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(input.data()), input.size());
  ++runs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t bytes = 0; bytes <= input.size(); ++bytes) run(input.substr(0, bytes));
    for (std::size_t at = 0; at < input.size(); ++at) {
      for (const int flip : {0x01, 0x80, 0xff}) {
        std::string changed = input;
        changed[at] = static_cast<char>(changed[at] ^ flip);
        run(changed);
      }
    }
  }
  std::printf("%zu runs\n", runs);
  return runs == 0 ? 1 : 0;  // an empty corpus proves nothing
}
