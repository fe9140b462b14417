#include "base/xxh3_kernels.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/cpu_features.h"
#include "base/hash.h"
#include "base/philox.h"

namespace muster {
namespace {

// Every instruction set that this CPU has gives the hash that the library gives.
TEST(Xxh3Kernels, AllInstructionSetsAgree) {
  std::vector<Xxh3Kernels> all = {xxh3_kernels_baseline()};
#if defined(__x86_64__)
  if (cpu_features().avx2) all.push_back(xxh3_kernels_avx2());
  if (cpu_features().avx512) all.push_back(xxh3_kernels_avx512());
#endif
  for (const size_t length :
       {0, 1, 16, 17, 128, 129, 240, 241, 1024, 1025, 4096, 65'537, 300'001}) {
    std::vector<std::byte> data(length);
    for (size_t i = 0; i < length; ++i) data[i] = static_cast<std::byte>(philox_u64(1, i, 0));
    const Hash128 wanted = xxh3_128(std::span<const std::byte>(data));
    for (const Xxh3Kernels& kernels : all) {
      Hash128 hash;
      kernels.hash(data.data(), length, &hash.low, &hash.high);
      EXPECT_EQ(hash, wanted) << length;
    }
    Xxh3 stream;  // pieces of uneven length
    for (size_t at = 0; at < length; at += 1000)
      stream.update(
          std::span<const std::byte>(data).subspan(at, std::min<size_t>(1000, length - at)));
    EXPECT_EQ(stream.digest(), wanted) << length;
  }
}

}  // namespace
}  // namespace muster
