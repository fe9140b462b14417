#include "base/hash.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, GivesTheCheckValuesOfRfc3720) {
  EXPECT_EQ(crc32c(bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  const std::vector<std::byte> zeros(32), ones(32, std::byte{0xff});
  EXPECT_EQ(crc32c(zeros), 0x8A9136AAu);
  EXPECT_EQ(crc32c(ones), 0x62A8AB43u);
}

TEST(Crc32c, ContinuesWhereItStopped) {
  const std::string_view text = "the quick brown fox jumps over the lazy dog";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32c(bytes(text.substr(cut)), crc32c(bytes(text.substr(0, cut)))),
              crc32c(bytes(text)));
  }
}

TEST(Xxh3, StreamingEqualsOneShot) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 31);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}, text.size()}) {
    Xxh3 hash;
    for (size_t i = 0; i < text.size(); i += piece)
      hash.update(std::string_view(text).substr(i, piece));
    EXPECT_EQ(hash.digest(), xxh3_128(text)) << piece;
  }
}

TEST(Xxh3, GivesTheKnownHashOfNothing) {
  // XXH3_128bits of the empty input, from the xxHash specification's sanity tests.
  EXPECT_EQ(xxh3_128(std::string_view()).hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash128, HexRoundTripsAndRefusesOtherText) {
  const Hash128 h = xxh3_128("x");
  EXPECT_EQ(Hash128::from_hex(h.hex()), h);
  EXPECT_FALSE(Hash128::from_hex("12"));
  EXPECT_FALSE(Hash128::from_hex(std::string(32, 'G')));
  EXPECT_FALSE(Hash128::from_hex(std::string(31, '0') + "A"));
}

}  // namespace
}  // namespace muster
