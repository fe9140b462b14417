#include "insight/ledger/mfu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace muster {
namespace {

constexpr std::array<std::pair<FlopCount, std::string_view>, 6> kLabels = {{
    {FlopCount::six_n, "6n"},
    {FlopCount::palm, "palm"},
    {FlopCount::full, "full"},
    {FlopCount::window, "window"},
    {FlopCount::causal, "causal"},
    {FlopCount::exact, "exact"},
}};

// Vendors' data sheets, dense, as torchtitan tabulates them. The longer name stands first.
struct Published {
  std::string_view part, label;
  double tflops;
};
constexpr Published kPublished[] = {
    {"H100 NVL", "H100 NVL dense bf16", 835}, {"H100 PCIe", "H100 PCIe dense bf16", 756},
    {"H100", "H100 SXM dense bf16", 989},     {"H200", "H200 dense bf16", 989},
    {"A100", "A100 dense bf16", 312},         {"H20", "H20 dense bf16", 148},
    {"B200", "B200 dense bf16", 2250},
};

double real(int64_t x) {
  return static_cast<double>(x);
}

}  // namespace

std::string_view flop_count_label(FlopCount count) {
  for (const auto& [c, label] : kLabels)
    if (c == count) return label;
  return "?";
}

std::optional<FlopCount> flop_count_from_label(std::string_view label) {
  for (const auto& [c, l] : kLabels)
    if (l == label) return c;
  return std::nullopt;
}

double mean_visible_keys(int64_t context, int64_t window) {
  MUSTER_CHECK(context > 0 && window >= 0, context, window);
  if (window == 0 || window > context) return (real(context) + 1) / 2;
  return real(window) - real(window) * (real(window) - 1) / (2 * real(context));
}

double mean_visible_keys_packed(const std::vector<int64_t>& document_lengths) {
  double pairs = 0, tokens = 0;
  for (const int64_t n : document_lengths) {
    MUSTER_CHECK(n >= 0, n);
    pairs += real(n) * (real(n) + 1) / 2;
    tokens += real(n);
  }
  return tokens == 0 ? 0 : pairs / tokens;
}

double flops_per_token(FlopCount count, const FlopShape& s) {
  const double layers = real(static_cast<int64_t>(s.windows.size()));
  const double width = real(s.heads) * real(s.head_size);  // H Q
  const double value_size = real(s.value_size == 0 ? s.head_size : s.value_size);
  switch (count) {
    case FlopCount::six_n:
      return 6 * real(s.parameters);
    case FlopCount::palm:
      return 6 * real(s.parameters) + 12 * layers * width * real(s.context);
    case FlopCount::full:
      return 6 * real(s.matmul_parameters) +
             6 * layers * real(s.heads) * (real(s.head_size) + value_size) * real(s.context);
    case FlopCount::causal:
      return 6 * real(s.matmul_parameters) + 6 * layers * width * real(s.context);
    case FlopCount::window:
    case FlopCount::exact:
      break;
  }
  double keys = 0;
  for (const int64_t w : s.windows)
    keys += count == FlopCount::exact ? mean_visible_keys(s.context, w)
            : w == 0                  ? real(s.context)
                                      : real(std::min(w, s.context));
  return 6 * real(s.matmul_parameters) + 12 * width * keys;
}

std::optional<PeakRate> published_peak(std::string_view device_name) {
  for (const Published& p : kPublished) {
    const size_t at = device_name.find(p.part);
    if (at == std::string_view::npos) continue;
    // "H20" is not a part of "H200".
    const size_t end = at + p.part.size();
    if (end < device_name.size() && device_name[end] >= '0' && device_name[end] <= '9') continue;
    return PeakRate{p.tflops * 1e12, std::string(p.label)};
  }
  return std::nullopt;
}

std::optional<Mfu> mfu(std::string_view count_label, double flops_per_token, double tokens_per_s,
                       int64_t devices, const std::optional<PeakRate>& peak) {
  if (!peak || peak->flops_per_s <= 0 || devices <= 0) return std::nullopt;
  return Mfu{fmt::format("{}/{}", count_label, peak->label),
             flops_per_token * tokens_per_s / (real(devices) * peak->flops_per_s)};
}

std::optional<Mfu> hfu(std::string_view count_label, double flops_per_token,
                       double recomputed_flops_per_token, double tokens_per_s, int64_t devices,
                       const std::optional<PeakRate>& peak) {
  return mfu(fmt::format("hfu[{}]", count_label), flops_per_token + recomputed_flops_per_token,
             tokens_per_s, devices, peak);
}

std::string mfu_text(const Mfu& m) {
  return fmt::format("{} {:.1f} %", m.label, m.value * 100);
}

}  // namespace muster
