#include "train/model/rope.h"

#include "base/strict_math.h"

namespace muster {

template <class T>
std::vector<T> rope_table(const ModelConfig& config, int64_t positions) {
  if (config.family == Family::gpt2) return {};
  const int64_t c = config.head_dim, half = c / 2;
  std::vector<T> table(static_cast<size_t>(positions * c));
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        1.0 / strict::pow(config.rope_theta, 2.0 * static_cast<double>(i) / static_cast<double>(c));
    for (int64_t p = 0; p < positions; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      table[static_cast<size_t>(p * c + i)] = static_cast<T>(strict::cos(angle));
      table[static_cast<size_t>(p * c + half + i)] = static_cast<T>(strict::sin(angle));
    }
  }
  return table;
}

template std::vector<float> rope_table(const ModelConfig&, int64_t);
template std::vector<double> rope_table(const ModelConfig&, int64_t);

}  // namespace muster
