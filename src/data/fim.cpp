#include "data/fim.h"

#include <algorithm>

#include "base/philox.h"
#include "data/code_points.h"

namespace muster {
namespace {

// One stream of draws per purpose, so that the choice and the cuts are independent.
constexpr uint64_t kChoice = 0x46494d00, kFirstCut = 0x46494d01, kSecondCut = 0x46494d02;

uint64_t key_of(const FimKey& key, uint64_t purpose) {
  return philox_u64(key.seed, key.epoch, purpose);
}

}  // namespace

bool fim_chosen(const FimKey& key, double rate) {
  return unit_double(philox_u64(key_of(key, kChoice), key.document, 0)) < rate;
}

FimPieces fim_cut(const FimKey& key, uint64_t window, std::string_view text) {
  const auto offsets = code_point_offsets(text);
  const auto draw = [&](uint64_t purpose) {
    // The window takes the upper half of the counter; rejections count up below it.
    return offsets[philox_below(offsets.size(), key_of(key, purpose), key.document, window << 32)];
  };
  const uint32_t a = draw(kFirstCut), b = draw(kSecondCut);
  const uint32_t first = std::min(a, b), second = std::max(a, b);
  return {text.substr(0, first), text.substr(first, second - first), text.substr(second)};
}

}  // namespace muster
