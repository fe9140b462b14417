// Our side of the tokenizer benchmark: encodes every document of a file once on one thread with a
// new Encoder and reports the CPU time of that loop.
//
//   muster_bench_tokenizer TOKENIZER.json DOCUMENTS OUT.u32
//
// DOCUMENTS: for each, its length as a little-endian 64-bit integer and its bytes. OUT: all ids.
// Prints {"cpu_s": …, "ids": …}.
#include <time.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace {

std::string read_all(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: muster_bench_tokenizer TOKENIZER.json DOCUMENTS OUT.u32\n");
    return 2;
  }
  auto tokenizer = muster::tokenizer_from_json(read_all(argv[1]));
  if (!tokenizer) {
    std::fprintf(stderr, "%s: %s\n", argv[1], tokenizer.error().to_string().c_str());
    return 1;
  }
  const std::string packed = read_all(argv[2]);
  std::vector<std::string_view> documents;
  for (size_t at = 0; at + 8 <= packed.size();) {
    uint64_t length;
    std::memcpy(&length, packed.data() + at, 8);
    documents.push_back(std::string_view(packed).substr(at + 8, length));
    at += 8 + length;
  }
  std::vector<uint32_t> ids;
  ids.reserve(packed.size() / 2);
  const double start = cpu_seconds();
  muster::Encoder encoder(*tokenizer);
  for (const std::string_view document : documents) encoder.encode(document, ids);
  const double cpu_s = cpu_seconds() - start;
  std::ofstream out(argv[3], std::ios::binary);
  out.write(reinterpret_cast<const char*>(ids.data()),
            static_cast<std::streamsize>(ids.size() * sizeof(uint32_t)));
  if (!out.flush()) {
    std::fprintf(stderr, "cannot write %s\n", argv[3]);
    return 1;
  }
  std::printf("{\"cpu_s\": %.6f, \"ids\": %zu}\n", cpu_s, ids.size());
  return 0;
}
