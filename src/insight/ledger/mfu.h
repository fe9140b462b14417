// MFU: model FLOPs utilization, the share of the devices' peak that the model's own arithmetic
// took. Different projects count FLOPs differently, by up to 1.7x, so a value never goes without
// the label of its count and of its peak: "exact/measured-peak". Pure.
//
// N parameters, N_mm those in matrix products (output head in, embedding out), L layers, H query
// heads, Q head size, T context length. FLOPs per token, forward and backward:
//   6n      6 N
//   palm    6 N + 12 L H Q T                                   (PaLM, appendix B)
//   full    6 N_mm + 6 L H (d_qk + d_v) T                      (torchtitan)
//   window  6 N_mm + sum over layers 12 H Q min(T, W)          (nanochat)
//   causal  6 N_mm + 6 L H Q T                                 (Megatron, MaxText)
//   exact   6 N_mm + sum over layers 12 H Q c, c the mean number of visible keys: (T + 1) / 2, or
//           W - W (W - 1) / (2 T) in a window W <= T           (this project's step program)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class FlopCount { six_n, palm, full, window, causal, exact };
std::string_view flop_count_label(FlopCount count);
std::optional<FlopCount> flop_count_from_label(std::string_view label);

struct FlopShape {
  int64_t parameters = 0;         // N
  int64_t matmul_parameters = 0;  // N_mm; active experts only
  int64_t heads = 0, head_size = 0;
  int64_t value_size = 0;        // d_v; 0: head_size
  int64_t context = 0;           // T
  std::vector<int64_t> windows;  // per layer: 0 = all earlier tokens visible
};
double flops_per_token(FlopCount count, const FlopShape& shape);

// Mean number of keys a token sees, itself included. window 0: causal without a window.
double mean_visible_keys(int64_t context, int64_t window);
// The same for documents packed into one sequence: each token sees its own document only.
double mean_visible_keys_packed(const std::vector<int64_t>& document_lengths);

struct PeakRate {
  double flops_per_s = 0;  // per device
  std::string label;       // "measured-peak", "H100 SXM dense bf16"
};
// Published dense BF16 rates of accelerators by the name their driver gives; none when unknown.
std::optional<PeakRate> published_peak(std::string_view device_name);

struct Mfu {
  std::string label;  // "exact/measured-peak"
  double value = 0;   // 0..1; above 1 the peak is wrong
};
// None without a peak or without devices: a number without a base is none.
std::optional<Mfu> mfu(std::string_view count_label, double flops_per_token, double tokens_per_s,
                       int64_t devices, const std::optional<PeakRate>& peak);
// Hardware utilization: recomputed FLOPs counted too. Label "hfu[exact]/…".
std::optional<Mfu> hfu(std::string_view count_label, double flops_per_token,
                       double recomputed_flops_per_token, double tokens_per_s, int64_t devices,
                       const std::optional<PeakRate>& peak);

// "exact/measured-peak 41.2 %"
std::string mfu_text(const Mfu& mfu);

}  // namespace muster
