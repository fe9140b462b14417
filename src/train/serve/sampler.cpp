#include "train/serve/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/philox.h"
#include "base/strict_math.h"

namespace muster {
namespace {

struct Candidate {
  double score;  // logit / temperature, later weight
  int32_t id;
};

bool likelier(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

}  // namespace

Status validate(const Sampling& s) {
  const auto bad = [](std::string text) { return Error(Code::invalid_argument, std::move(text)); };
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature))
    return bad(fmt::format("temperature = {} must be 0 (greedy) or more", s.temperature));
  if (s.top_k < 0) return bad(fmt::format("top_k = {} must be 0 (no limit) or more", s.top_k));
  if (!(s.top_p > 0 && s.top_p <= 1))
    return bad(fmt::format("top_p = {} must be in (0, 1]", s.top_p));
  return {};
}

template <class T>
Result<int32_t> sample(std::span<const T> logits, const Sampling& sampling, int64_t position) {
  MUSTER_CHECK(!logits.empty());
  for (size_t i = 0; i < logits.size(); ++i)
    if (!std::isfinite(logits[i]))
      return Error(
          Code::corrupt,
          fmt::format("logit of token {} is {}: the model's weights are broken or overflow", i,
                      logits[i]));
  if (sampling.temperature == 0)  // max_element returns the first of equals
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());

  std::vector<Candidate> kept(logits.size());
  for (size_t i = 0; i < kept.size(); ++i)
    kept[i] = {static_cast<double>(logits[i]) / sampling.temperature, static_cast<int32_t>(i)};
  const size_t limit = sampling.top_k == 0
                           ? kept.size()
                           : std::min<size_t>(kept.size(), static_cast<size_t>(sampling.top_k));
  std::partial_sort(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(limit), kept.end(),
                    likelier);
  kept.resize(limit);

  const double top = kept[0].score;
  double total = 0;
  for (Candidate& c : kept) total += c.score = strict::exp(c.score - top);
  if (sampling.top_p < 1) {
    double sum = 0;
    size_t count = 0;
    while (count < kept.size() && sum < sampling.top_p * total) sum += kept[count++].score;
    kept.resize(count);
    total = sum;
  }
  double left = total * unit_double(philox_u64(sampling.seed, static_cast<uint64_t>(position), 0));
  for (const Candidate& c : kept) {
    left -= c.score;
    if (left < 0) return c.id;
  }
  return kept.back().id;  // rounding left a crumb
}

template Result<int32_t> sample(std::span<const float>, const Sampling&, int64_t);
template Result<int32_t> sample(std::span<const double>, const Sampling&, int64_t);

}  // namespace muster
