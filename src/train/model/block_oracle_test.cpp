// Every block against ATen's autograd in double: output (or losses), gradient of the input and of
// every parameter, for the double and the float block, both families, packed documents, ignored
// targets. The composite is written with plain tensor operations and shares no code with the
// kernels but the rotary table.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "base/hash.h"
#include "base/philox.h"
#include "base/strict_math.h"
#include "train/model/oracle_case.h"
#include "train/model/rope.h"

namespace muster {
namespace {

using at::Tensor;
constexpr double kLossScale = 0.25;

ModelConfig odd(Family family, bool tied) {
  ModelConfig c;
  c.family = family;
  c.vocab_size = 43;
  c.hidden_size = 18;
  c.layers = 1;
  c.heads = 3;
  c.kv_heads = family == Family::gpt2 ? 3 : 1;
  c.head_dim = 6;
  c.mlp_size = 21;
  c.context = 32;
  c.tie_embeddings = tied;
  return c;
}

template <class T>
Tensor wide(const T* data, at::IntArrayRef shape) {
  Tensor t = at::empty(shape, at::kDouble);
  auto* out = t.data_ptr<double>();
  for (int64_t i = 0; i < t.numel(); ++i) out[i] = static_cast<double>(data[i]);
  return t;
}

Tensor indices(const std::vector<int32_t>& values) {
  Tensor t = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  for (size_t i = 0; i < values.size(); ++i) t.data_ptr<int64_t>()[i] = std::max(values[i], 0);
  return t;
}

std::vector<double> plain(const Tensor& t) {
  const Tensor c = t.detach().contiguous();
  return {c.data_ptr<double>(), c.data_ptr<double>() + c.numel()};
}

// The composite: each method is one block's mathematics on tensors of doubles.
struct Composite {
  const ModelConfig& c;
  const OwnedBatch& batch;
  std::map<std::string, Tensor> params;  // leaves

  Tensor param(const std::string& end) const {
    for (const auto& [name, tensor] : params)
      if (name.ends_with(end)) return tensor;
    ADD_FAILURE() << end;
    return {};
  }
  bool gpt2() const { return c.family == Family::gpt2; }

  Tensor norm(const Tensor& x, const std::string& name) const {
    const Tensor centred = gpt2() ? x - x.mean(-1, true) : x;
    const Tensor normed =
        centred * (centred.pow(2).mean(-1, true) + c.norm_eps).rsqrt() * param(name + ".weight");
    return gpt2() ? normed + param(name + ".bias") : normed;
  }
  Tensor linear(const Tensor& x, const std::string& name) const {
    if (gpt2()) return x.matmul(param(name + ".weight")) + param(name + ".bias");
    return x.matmul(param(name + ".weight").t());
  }
  Tensor rotate(const Tensor& x) const {  // [T, heads, c]
    if (gpt2()) return x;
    const auto table = rope_table<double>(c, c.context);
    const Tensor rows =
        wide(table.data(), {c.context, 1, c.head_dim}).index_select(0, indices(batch.positions));
    const int64_t half = c.head_dim / 2;
    const Tensor cos = rows.narrow(2, 0, half), sin = rows.narrow(2, half, half);
    const Tensor a = x.narrow(2, 0, half), b = x.narrow(2, half, half);
    return at::cat({a * cos - b * sin, b * cos + a * sin}, 2);
  }
  Tensor mask(int64_t tokens) const {
    Tensor m = at::full({tokens, tokens}, -std::numeric_limits<double>::infinity(), at::kDouble);
    for (size_t s = 0; s + 1 < batch.segments.size(); ++s)
      for (int64_t t = batch.segments[s]; t < batch.segments[s + 1]; ++t)
        for (int64_t k = batch.segments[s]; k <= t; ++k) m.data_ptr<double>()[t * tokens + k] = 0;
    return m;
  }

  Tensor attention(const Tensor& x) const {
    const int64_t T = x.size(0);
    const Tensor normed = norm(x, gpt2() ? "ln_1" : "input_layernorm");
    Tensor q, k, v;
    if (gpt2()) {
      const Tensor all = linear(normed, "c_attn");
      q = all.narrow(1, 0, c.hidden_size);
      k = all.narrow(1, c.hidden_size, c.hidden_size);
      v = all.narrow(1, 2 * c.hidden_size, c.hidden_size);
    } else {
      q = linear(normed, "q_proj");
      k = linear(normed, "k_proj");
      v = linear(normed, "v_proj");
    }
    q = rotate(q.reshape({T, c.heads, c.head_dim}));
    k = rotate(k.reshape({T, c.kv_heads, c.head_dim}));
    v = v.reshape({T, c.kv_heads, c.head_dim});
    std::vector<Tensor> heads;
    for (int64_t h = 0; h < c.heads; ++h) {
      const int64_t g = h / (c.heads / c.kv_heads);
      const Tensor scores =
          q.select(1, h).matmul(k.select(1, g).t()) / std::sqrt(static_cast<double>(c.head_dim));
      heads.push_back(at::softmax(scores + mask(T), -1).matmul(v.select(1, g)));
    }
    return x + linear(at::cat(heads, 1), gpt2() ? "attn.c_proj" : "o_proj");
  }
  Tensor mlp(const Tensor& x) const {
    const Tensor normed = norm(x, gpt2() ? "ln_2" : "post_attention_layernorm");
    if (gpt2()) return x + linear(at::gelu(linear(normed, "c_fc"), "tanh"), "mlp.c_proj");
    return x +
           linear(at::silu(linear(normed, "gate_proj")) * linear(normed, "up_proj"), "down_proj");
  }
  Tensor embedding() const {
    const Tensor rows =
        param(gpt2() ? "wte.weight" : "embed_tokens.weight").index_select(0, indices(batch.ids));
    return gpt2() ? rows + param("wpe.weight").index_select(0, indices(batch.positions)) : rows;
  }
  Tensor losses(const Tensor& x) const {
    const std::string head =
        c.tie_embeddings ? (gpt2() ? "wte.weight" : "embed_tokens.weight") : "lm_head.weight";
    const Tensor logits = norm(x, gpt2() ? "ln_f" : "model.norm").matmul(param(head).t());
    const Tensor all =
        -at::log_softmax(logits, -1).gather(1, indices(batch.targets).unsqueeze(1)).squeeze(1);
    Tensor valid = at::empty({x.size(0)}, at::kDouble);
    for (int64_t t = 0; t < x.size(0); ++t)
      valid.data_ptr<double>()[t] = batch.targets[static_cast<size_t>(t)] >= 0;
    return all * valid;
  }
};

template <class T>
class BlockOracle : public ::testing::Test {
 protected:
  void check(Family family, bool tied) {
    auto model = *Model<T>::make(odd(family, tied));
    for (const Param& p : model->spec().params)
      for (size_t i = 0; i < model->view(p).size(); ++i)
        model->view(p)[i] =
            static_cast<T>((p.init.kind == InitKind::ones ? 1.0 : 0.0) +
                           0.3 * strict::normal(xxh3_64(p.name), static_cast<uint64_t>(i), 2));
    for (int b = 0; b < model->block_count(); ++b) check_block(*model, model->block(b));
  }

  void check_block(const Model<T>& model, const Block<T>& block) {
    const BlockSpec& spec = block.spec();
    SCOPED_TRACE(std::string(family_name(spec.config.family)) + " " + spec.name);
    const int64_t tokens = batch_.view().tokens, d = spec.config.hidden_size;
    std::vector<T> x(static_cast<size_t>(tokens * d)), dy(x.size()), y(x.size()), dx(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<T>(strict::normal(1, i, 0));
      dy[i] = static_cast<T>(strict::normal(2, i, 0));
    }
    std::vector<T> grads(
        static_cast<size_t>(model.spec().units[static_cast<size_t>(spec.unit)].elements), T{0});
    std::vector<T> losses(static_cast<size_t>(tokens));
    std::vector<std::byte> costly(static_cast<size_t>(spec.costly_bytes(tokens)) + 64);
    std::vector<std::byte> cheap(static_cast<size_t>(spec.cheap_bytes(tokens)) + 64);
    Ctx<T> ctx{exec_, batch_.view()};
    ctx.params = model.unit(spec.unit);
    ctx.grads = grads.data();
    ctx.x = x.data();
    ctx.y = spec.kind == BlockKind::head ? nullptr : y.data();
    ctx.dy = dy.data();
    ctx.dx = dx.data();
    ctx.costly = costly.data() + (64 - reinterpret_cast<uintptr_t>(costly.data()) % 64) % 64;
    ctx.cheap = cheap.data() + (64 - reinterpret_cast<uintptr_t>(cheap.data()) % 64) % 64;
    ctx.rope = model.rope();
    ctx.token_loss = losses.data();
    ctx.loss_scale = static_cast<T>(kLossScale);
    block.forward(ctx);
    block.backward_input(ctx);
    block.backward_weight(ctx);

    Composite composite{spec.config, batch_, {}};
    for (int index : spec.params) {
      const Param& p = model.spec().params[static_cast<size_t>(index)];
      composite.params[p.name] = wide(model.view(p).data(), p.shape).requires_grad_(true);
    }
    const Tensor leaf = wide(x.data(), {tokens, d}).requires_grad_(true);
    const Tensor out = spec.kind == BlockKind::embedding   ? composite.embedding()
                       : spec.kind == BlockKind::attention ? composite.attention(leaf)
                       : spec.kind == BlockKind::mlp       ? composite.mlp(leaf)
                                                           : composite.losses(leaf);
    if (spec.kind == BlockKind::head) {
      (out.sum() * kLossScale).backward();
      near("losses", losses.data(), plain(out));
    } else {
      (out * wide(dy.data(), {tokens, d})).sum().backward();
      near("y", y.data(), plain(out));
    }
    if (spec.kind != BlockKind::embedding) near("dx", dx.data(), plain(leaf.grad()));
    for (int index : spec.params) {
      const Param& p = model.spec().params[static_cast<size_t>(index)];
      near(p.name, grads.data() + p.offset, plain(composite.params[p.name].grad()));
    }
  }
  static void near(const std::string& name, const T* got, const std::vector<double>& want) {
    expect_close(name, got, want, sizeof(T) == 8 ? 1e-11 : oracle_atol<T>(), oracle_rtol<T>());
  }

  void SetUp() override {
    batch_.segments = {0, 3, 20, 21, 29};
    for (int32_t t = 0; t < 29; ++t) {
      batch_.ids.push_back(static_cast<int32_t>(philox_below(43, 3, static_cast<uint64_t>(t), 0)));
      batch_.targets.push_back(
          t % 6 == 1 ? -1 : static_cast<int32_t>(philox_below(43, 3, static_cast<uint64_t>(t), 1)));
    }
    for (size_t s = 0; s + 1 < batch_.segments.size(); ++s)
      for (int32_t t = batch_.segments[s]; t < batch_.segments[s + 1]; ++t)
        batch_.positions.push_back(t - batch_.segments[s]);
  }

  OwnedBatch batch_;
  ThreadTeam team_{1};
  Arena arena_ = *Arena::make(size_t{32} << 20, false);
  ops::Exec exec_{team_, arena_, ops::best_isa(), ops::Mode::strict};
};

using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(BlockOracle, Reals);

TYPED_TEST(BlockOracle, LlamaUntied) {
  this->check(Family::llama, false);
}
TYPED_TEST(BlockOracle, LlamaTied) {
  this->check(Family::llama, true);
}
TYPED_TEST(BlockOracle, Gpt2Untied) {
  this->check(Family::gpt2, false);
}
TYPED_TEST(BlockOracle, Gpt2Tied) {
  this->check(Family::gpt2, true);
}

}  // namespace
}  // namespace muster
