// Kernels against ATen and its autograd: double tightly, float within the tolerance of fp32 (atol
// 1e-6, rtol 5e-6, the latter relative to the largest element of the tensor).
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include <cmath>

#include "train/ops/ops_fixture.h"

namespace muster::ops {
namespace {

template <class T>
at::Tensor tensor(const std::vector<T>& v, at::IntArrayRef shape, bool gradient) {
  const auto type = sizeof(T) == 4 ? at::kFloat : at::kDouble;
  return at::from_blob(const_cast<T*>(v.data()), shape, at::TensorOptions().dtype(type))
      .clone()
      .requires_grad_(gradient);
}

template <class T>
void expect_close(const char* what, const T* got, const at::Tensor& want) {
  const at::Tensor flat = want.detach().contiguous();
  const T* w = flat.const_data_ptr<T>();
  const double largest = flat.numel() == 0 ? 0 : flat.abs().max().template item<double>();
  const double bound = sizeof(T) == 8 ? 1e-13 * (1 + 10 * largest) : 1e-6 + 5e-6 * largest;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), static_cast<double>(w[i]), bound) << what << " " << i;
  }
}

template <class T>
class KernelsOracle : public testing::Test {
 protected:
  Bench bench_{2, best_isa()};
  Exec& exec_ = bench_.exec;
  static std::vector<T> room(int64_t n) { return std::vector<T>(static_cast<size_t>(n)); }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelsOracle, Types);

TYPED_TEST(KernelsOracle, RmsNorm) {
  using T = TypeParam;
  const int64_t t = 70, d = 96;
  const auto x = numbers<T>(t * d, 1), w = numbers<T>(d, 2), dy = numbers<T>(t * d, 3);
  auto y = this->room(t * d), r = this->room(t), dx = y, dw = this->room(d);
  rms_norm_forward<T>(this->exec_, t, d, x.data(), nullptr, w.data(), T(1e-5), nullptr, y.data(),
                      r.data());
  rms_norm_backward<T>(this->exec_, t, d, dy.data(), x.data(), r.data(), w.data(), nullptr,
                       dx.data(), dw.data(), T(0));
  at::Tensor tx = tensor(x, {t, d}, true), tw = tensor(w, {d}, true);
  const at::Tensor ty = at::rms_norm(tx, {d}, tw, 1e-5);
  ty.backward(tensor(dy, {t, d}, false));
  expect_close("y", y.data(), ty);
  expect_close("dx", dx.data(), tx.grad());
  expect_close("dweight", dw.data(), tw.grad());
}

TYPED_TEST(KernelsOracle, LayerNorm) {
  using T = TypeParam;
  const int64_t t = 70, d = 96;
  const auto x = numbers<T>(t * d, 1), w = numbers<T>(d, 2), b = numbers<T>(d, 4),
             dy = numbers<T>(t * d, 3);
  auto y = this->room(t * d), m = this->room(t), r = m, dx = y, dw = this->room(d), db = dw;
  layer_norm_forward<T>(this->exec_, t, d, x.data(), nullptr, w.data(), b.data(), T(1e-5), nullptr,
                        y.data(), m.data(), r.data());
  layer_norm_backward<T>(this->exec_, t, d, dy.data(), x.data(), m.data(), r.data(), w.data(),
                         nullptr, dx.data(), dw.data(), db.data(), T(0));
  at::Tensor tx = tensor(x, {t, d}, true), tw = tensor(w, {d}, true), tb = tensor(b, {d}, true);
  const at::Tensor ty = at::layer_norm(tx, {d}, tw, tb, 1e-5);
  ty.backward(tensor(dy, {t, d}, false));
  expect_close("y", y.data(), ty);
  expect_close("dx", dx.data(), tx.grad());
  expect_close("dweight", dw.data(), tw.grad());
  expect_close("dbias", db.data(), tb.grad());
}

TYPED_TEST(KernelsOracle, RotationAndGroupedAttentionOfPackedSegments) {
  using T = TypeParam;
  const int64_t first = 90, second = 41, t = first + second, H = 6, G = 2, c = 32;
  const int64_t width = (H + 2 * G) * c;
  const std::vector<int32_t> segments = {0, static_cast<int32_t>(first), static_cast<int32_t>(t)};
  std::vector<int32_t> positions;
  for (int64_t p = 0; p < t; ++p)
    positions.push_back(static_cast<int32_t>(p < first ? p : p - first));
  auto table = this->room(first * c);
  for (int64_t p = 0; p < first; ++p) {
    for (int64_t i = 0; i < c / 2; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * i / c);
      table[static_cast<size_t>(p * c + i)] = static_cast<T>(std::cos(angle));
      table[static_cast<size_t>(p * c + c / 2 + i)] = static_cast<T>(std::sin(angle));
    }
  }
  const auto qkv = numbers<T>(t * width, 1), dout = numbers<T>(t * H * c, 2);
  auto q = this->room(H * t * c), k = this->room(G * t * c), v = k, o = q, dq = q, dk = k, dv = k;
  auto lse = this->room(H * t), dqkv = this->room(t * width);
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(c)));
  rope_split_forward<T>(this->exec_, t, H, G, c, qkv.data(), positions.data(), table.data(),
                        q.data(), k.data(), v.data());
  attention_forward<T>(this->exec_, segments, t, H, G, c, scale, q.data(), k.data(), v.data(),
                       o.data(), lse.data());
  attention_backward<T>(this->exec_, segments, t, H, G, c, scale, q.data(), k.data(), v.data(),
                        o.data(), lse.data(), dout.data(), dq.data(), dk.data(), dv.data());
  rope_split_backward<T>(this->exec_, t, H, G, c, dq.data(), dk.data(), dv.data(), positions.data(),
                         table.data(), dqkv.data());

  at::Tensor all = tensor(qkv, {t, H + 2 * G, c}, true);
  const at::Tensor angles = tensor(table, {first, c}, false);
  std::vector<at::Tensor> outs;
  for (const auto& [begin, length] : {std::pair{int64_t{0}, first}, std::pair{first, second}}) {
    const at::Tensor part = all.narrow(0, begin, length).transpose(0, 1);  // [heads, T, c]
    const at::Tensor cosine = angles.narrow(0, 0, length).narrow(1, 0, c / 2);
    const at::Tensor sine = angles.narrow(0, 0, length).narrow(1, c / 2, c / 2);
    const auto rotate = [&](const at::Tensor& x) {
      const at::Tensor a = x.narrow(2, 0, c / 2), b = x.narrow(2, c / 2, c / 2);
      return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 2);
    };
    const at::Tensor tq = rotate(part.narrow(0, 0, H)).unsqueeze(0);
    const at::Tensor tk = rotate(part.narrow(0, H, G)).repeat_interleave(H / G, 0).unsqueeze(0);
    const at::Tensor tv = part.narrow(0, H + G, G).repeat_interleave(H / G, 0).unsqueeze(0);
    outs.push_back(
        at::scaled_dot_product_attention(tq, tk, tv, {}, 0.0, true).squeeze(0).transpose(0, 1));
  }
  const at::Tensor to = at::cat(outs, 0);
  to.backward(tensor(dout, {t, H, c}, false));
  expect_close("o", o.data(), to);
  expect_close("dqkv", dqkv.data(), all.grad());
}

TYPED_TEST(KernelsOracle, Activations) {
  using T = TypeParam;
  const int64_t t = 9, F = 50;
  auto gate_up = numbers<T>(t * 2 * F, 1), x = numbers<T>(t * F, 2);
  for (T& a : gate_up) a *= T(8);
  for (T& a : x) a *= T(6);
  const auto dy = numbers<T>(t * F, 3);
  auto y = this->room(t * F), dgate_up = this->room(t * 2 * F), dx = y;
  swiglu_forward<T>(this->exec_, t, F, gate_up.data(), y.data());
  swiglu_backward<T>(this->exec_, t, F, gate_up.data(), dy.data(), dgate_up.data());
  at::Tensor tg = tensor(gate_up, {t, 2 * F}, true);
  const at::Tensor ty = at::silu(tg.narrow(1, 0, F)) * tg.narrow(1, F, F);
  ty.backward(tensor(dy, {t, F}, false));
  expect_close("swiglu", y.data(), ty);
  expect_close("dgate_up", dgate_up.data(), tg.grad());

  gelu_forward<T>(this->exec_, t, F, x.data(), y.data());
  gelu_backward<T>(this->exec_, t, F, x.data(), dy.data(), dx.data());
  at::Tensor tx = tensor(x, {t, F}, true);
  const at::Tensor tz = at::gelu(tx, "tanh");
  tz.backward(tensor(dy, {t, F}, false));
  expect_close("gelu", y.data(), tz);
  expect_close("dx", dx.data(), tx.grad());
}

TYPED_TEST(KernelsOracle, EmbeddingAndCrossEntropy) {
  using T = TypeParam;
  const int64_t t = 40, V = 301, d = 24;
  std::vector<int32_t> ids;
  std::vector<int64_t> wide;
  for (int64_t i = 0; i < t; ++i) {
    ids.push_back(static_cast<int32_t>(i * i * 7 % V));
    wide.push_back(ids.back());
  }
  const at::Tensor tids = at::from_blob(wide.data(), {t}, at::TensorOptions().dtype(at::kLong));
  const auto table = numbers<T>(V * d, 1), dy = numbers<T>(t * d, 2);
  auto y = this->room(t * d), dtable = this->room(V * d);
  embedding_forward<T>(this->exec_, t, d, ids.data(), table.data(), nullptr, nullptr, y.data());
  embedding_backward<T>(this->exec_, t, d, V, ids.data(), dy.data(), T(0), dtable.data());
  at::Tensor tt = tensor(table, {V, d}, true);
  const at::Tensor ty = at::embedding(tt, tids);
  ty.backward(tensor(dy, {t, d}, false));
  expect_close("embedding", y.data(), ty);
  expect_close("dtable", dtable.data(), tt.grad());

  auto logits = numbers<T>(t * V, 3), loss = this->room(t);
  for (T& a : logits) a *= T(20);
  at::Tensor tl = tensor(logits, {t, V}, true);
  softmax_cross_entropy<T>(this->exec_, t, V, V, logits.data(), ids.data(), T(1) / T(t),
                           loss.data());
  expect_close("loss", loss.data(), at::cross_entropy_loss(tl, tids, {}, at::Reduction::None));
  at::cross_entropy_loss(tl, tids).backward();
  expect_close("dlogits", logits.data(), tl.grad());
}

TYPED_TEST(KernelsOracle, AdamWEqualsPyTorchsFusedKernel) {
  using T = TypeParam;
  const int64_t n = 1003;
  auto p = numbers<T>(n, 1), m = numbers<T>(n, 2), v = numbers<T>(n, 3);
  const auto g = numbers<T>(n, 4);
  for (T& a : v) a = std::abs(a);
  at::Tensor tp = tensor(p, {n}, false), tg = tensor(g, {n}, false), tm = tensor(m, {n}, false),
             tv = tensor(v, {n}, false);
  for (int step = 1; step <= 3; ++step) {
    const double bias1 = 1 - std::pow(0.9, step), bias2 = 1 - std::pow(0.95, step);
    adamw<T>(this->exec_, n, {1e-2, 0.9, 0.95, 1e-8, 0.1, bias1, bias2, 1.0}, g.data(), p.data(),
             m.data(), v.data());
    const at::Tensor count = at::full({}, step, at::TensorOptions().dtype(at::kFloat));
    at::_fused_adamw_({tp}, {tg}, {tm}, {tv}, {}, {count}, 1e-2, 0.9, 0.95, 0.1, 1e-8, false,
                      false);
  }
  expect_close("parameter", p.data(), tp);
  expect_close("m", m.data(), tm);
  expect_close("v", v.data(), tv);
}

}  // namespace
}  // namespace muster::ops
