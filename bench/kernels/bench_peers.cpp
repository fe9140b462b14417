#include "bench_peers.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <vector>

namespace muster {
namespace {

at::Tensor view(float* data, const std::vector<int64_t>& sizes) {
  return at::from_blob(data, sizes, at::TensorOptions().dtype(at::kFloat));
}

}  // namespace

struct SdpaPeer::State {
  at::Tensor q, k, v, dout;
  double scale;
  bool grouped;
};

SdpaPeer::SdpaPeer(const SdpaShape& s, float* q, float* k, float* v, float* dout, double scale)
    : state_(new State{view(q, {s.B, s.H, s.T, s.c}).requires_grad_(true),
                       view(k, {s.B, s.G, s.T, s.c}).requires_grad_(true),
                       view(v, {s.B, s.G, s.T, s.c}).requires_grad_(true),
                       view(dout, {s.B, s.H, s.T, s.c}), scale, s.H != s.G}) {}
SdpaPeer::~SdpaPeer() = default;

void SdpaPeer::forward_backward() {
  State& s = *state_;
  for (at::Tensor* t : {&s.q, &s.k, &s.v}) t->mutable_grad().reset();
  at::scaled_dot_product_attention(s.q, s.k, s.v, {}, 0.0, true, s.scale, s.grouped)
      .backward(s.dout);
}

struct AdamWPeer::State {
  at::Tensor parameter, gradient, m, v, step;
};

AdamWPeer::AdamWPeer(int64_t n, float* parameter, float* gradient, float* m, float* v)
    : state_(new State{view(parameter, {n}), view(gradient, {n}), view(m, {n}), view(v, {n}),
                       at::full({}, 10.0, at::TensorOptions().dtype(at::kFloat))}) {}
AdamWPeer::~AdamWPeer() = default;

void AdamWPeer::step() {
  State& s = *state_;
  at::_fused_adamw_({s.parameter}, {s.gradient}, {s.m}, {s.v}, {}, {s.step}, 1e-3, 0.9, 0.95, 0.1,
                    1e-8, false, false);
}

}  // namespace muster
