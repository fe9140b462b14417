// Every backward kernel against central differences of its forward kernel, in double: the gradient
// of f(x) = sum(dy forward(x)).
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "train/ops/ops_fixture.h"

namespace muster::ops {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector room(int64_t n) {
  return Vector(static_cast<size_t>(n), 0.0);
}

void expect_gradient(const char* what, Vector& x, const Vector& gradient,
                     const std::function<double()>& f) {
  ASSERT_EQ(x.size(), gradient.size());
  const size_t stride = x.size() / 400 + 1;  // big arrays are sampled
  for (size_t i = 0; i < x.size(); i += stride) {
    const double kept = x[i], step = 1e-5;
    x[i] = kept + step;
    const double above = f();
    x[i] = kept - step;
    const double below = f();
    x[i] = kept;
    ASSERT_NEAR(gradient[i], (above - below) / (2 * step), 2e-8 * (1 + std::abs(gradient[i])))
        << what << " element " << i;
  }
}

class Gradients : public testing::Test {
 protected:
  Bench bench_{1, best_isa()};
  Exec& exec_ = bench_.exec;
};

TEST_F(Gradients, RmsNorm) {
  const int64_t t = 37, d = 19;
  Vector x = numbers<double>(t * d, 1), w = numbers<double>(d, 2);
  const Vector dy = numbers<double>(t * d, 3), zero = room(t * d);
  Vector y = room(t * d), r = room(t), dx = room(t * d), dw = room(d);
  const auto f = [&] {
    rms_norm_forward<double>(exec_, t, d, x.data(), nullptr, w.data(), 1e-5, nullptr, y.data(),
                             r.data());
    return dot(y, dy);
  };
  f();
  rms_norm_backward<double>(exec_, t, d, dy.data(), x.data(), r.data(), w.data(), nullptr,
                            dx.data(), dw.data(), 0.0);
  expect_gradient("x", x, dx, f);
  expect_gradient("weight", w, dw, f);
}

TEST_F(Gradients, LayerNorm) {
  const int64_t t = 35, d = 18;
  Vector x = numbers<double>(t * d, 1), w = numbers<double>(d, 2), b = numbers<double>(d, 4);
  const Vector dy = numbers<double>(t * d, 3);
  Vector y = room(t * d), m = room(t), r = room(t), dx = room(t * d), dw = room(d), db = room(d);
  const auto f = [&] {
    layer_norm_forward<double>(exec_, t, d, x.data(), nullptr, w.data(), b.data(), 1e-5, nullptr,
                               y.data(), m.data(), r.data());
    return dot(y, dy);
  };
  f();
  layer_norm_backward<double>(exec_, t, d, dy.data(), x.data(), m.data(), r.data(), w.data(),
                              nullptr, dx.data(), dw.data(), db.data(), 0.0);
  expect_gradient("x", x, dx, f);
  expect_gradient("weight", w, dw, f);
  expect_gradient("bias", b, db, f);
}

TEST_F(Gradients, Activations) {
  const int64_t t = 3, F = 21;
  Vector gate_up = numbers<double>(t * 2 * F, 1), x = numbers<double>(t * F, 2);
  for (double& a : x) a *= 4;
  const Vector dy = numbers<double>(t * F, 3);
  Vector y = room(t * F), dgate_up = room(t * 2 * F), dx = room(t * F);
  swiglu_backward<double>(exec_, t, F, gate_up.data(), dy.data(), dgate_up.data());
  expect_gradient("gate_up", gate_up, dgate_up, [&] {
    swiglu_forward<double>(exec_, t, F, gate_up.data(), y.data());
    return dot(y, dy);
  });
  gelu_backward<double>(exec_, t, F, x.data(), dy.data(), dx.data());
  expect_gradient("gelu", x, dx, [&] {
    gelu_forward<double>(exec_, t, F, x.data(), y.data());
    return dot(y, dy);
  });
}

TEST_F(Gradients, RotationAndAttention) {
  const int64_t t = 75, H = 4, G = 2, c = 6, width = (H + 2 * G) * c;
  const std::vector<int32_t> segments = {0, 5, 75};
  std::vector<int32_t> positions(static_cast<size_t>(t));
  Vector table = room(t * c);
  for (int64_t p = 0; p < t; ++p) {
    positions[static_cast<size_t>(p)] = static_cast<int32_t>(p < 5 ? p : p - 5);
    for (int64_t i = 0; i < c / 2; ++i) {
      table[static_cast<size_t>(p * c + i)] = std::cos(static_cast<double>(p) * (1.0 + 0.3 * i));
      table[static_cast<size_t>(p * c + c / 2 + i)] =
          std::sin(static_cast<double>(p) * (1.0 + 0.3 * i));
    }
  }
  Vector qkv = numbers<double>(t * width, 1);
  const Vector dout = numbers<double>(t * H * c, 2);
  Vector q = room(H * t * c), k = room(G * t * c), v = k, o = room(t * H * c), lse = room(H * t);
  Vector dq = q, dk = k, dv = k, dqkv = qkv;
  const auto f = [&] {
    rope_split_forward<double>(exec_, t, H, G, c, qkv.data(), positions.data(), table.data(),
                               q.data(), k.data(), v.data());
    attention_forward<double>(exec_, segments, t, H, G, c, 0.6, q.data(), k.data(), v.data(),
                              o.data(), lse.data());
    return dot(o, dout);
  };
  f();
  attention_backward<double>(exec_, segments, t, H, G, c, 0.6, q.data(), k.data(), v.data(),
                             o.data(), lse.data(), dout.data(), dq.data(), dk.data(), dv.data());
  rope_split_backward<double>(exec_, t, H, G, c, dq.data(), dk.data(), dv.data(), positions.data(),
                              table.data(), dqkv.data());
  expect_gradient("qkv", qkv, dqkv, f);
}

TEST_F(Gradients, CrossEntropy) {
  const int64_t t = 4, V = 37;
  Vector logits = numbers<double>(t * V, 1);
  const int32_t targets[] = {0, 36, -1, 5};
  Vector gradient = logits, loss = room(t), copy;
  softmax_cross_entropy<double>(exec_, t, V, V, gradient.data(), targets, 0.5, loss.data());
  expect_gradient("logits", logits, gradient, [&] {
    copy = logits;
    softmax_cross_entropy<double>(exec_, t, V, V, copy.data(), targets, 0.0, loss.data());
    return 0.5 * (loss[0] + loss[1] + loss[2] + loss[3]);
  });
}

TEST_F(Gradients, Embedding) {
  const int64_t t = 11, d = 5, rows = 6;
  const std::vector<int32_t> ids = {0, 1, 1, 5, 0, 2, 2, 2, 5, 1, 0};
  Vector table = numbers<double>(rows * d, 1), y = room(t * d), dtable = room(rows * d);
  const Vector dy = numbers<double>(t * d, 2);
  embedding_backward<double>(exec_, t, d, rows, ids.data(), dy.data(), 0.0, dtable.data());
  expect_gradient("table", table, dtable, [&] {
    embedding_forward<double>(exec_, t, d, ids.data(), table.data(), nullptr, nullptr, y.data());
    return dot(y, dy);
  });
}

}  // namespace
}  // namespace muster::ops
