// What every block promises (block.h), on both families with small odd sizes: declared memory is
// what is touched, frames can be recomputed, B and W may interleave, bits do not depend on threads,
// instruction set or neighbours.
#include "train/model/block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/hash.h"
#include "base/philox.h"
#include "base/strict_math.h"
#include "train/model/oracle_case.h"
#include "train/model/straight_pass.h"

namespace muster {
namespace {

constexpr int64_t kTokens = 29;
constexpr int64_t kGuard = 256;  // bytes on both sides of each frame part
constexpr std::byte kPaint{0xA5};

ModelConfig odd(Family family, bool tied) {
  ModelConfig c;
  c.family = family;
  c.vocab_size = 43;
  c.hidden_size = 18;
  c.layers = 2;
  c.heads = 3;
  c.kv_heads = family == Family::gpt2 ? 3 : 1;
  c.head_dim = 6;
  c.mlp_size = 21;
  c.context = 32;
  c.tie_embeddings = tied;
  return c;
}

template <class T>
std::unique_ptr<Model<T>> random_model(const ModelConfig& config) {
  auto model = *Model<T>::make(config);
  for (const Param& p : model->spec().params) {
    auto view = model->view(p);
    for (size_t i = 0; i < view.size(); ++i)
      view[i] = static_cast<T>((p.init.kind == InitKind::ones ? 1.0 : 0.0) +
                               0.3 * strict::normal(xxh3_64(p.name), static_cast<uint64_t>(i), 2));
  }
  return model;
}

OwnedBatch random_batch(uint64_t seed, const std::vector<int32_t>& segments) {
  OwnedBatch b;
  b.segments = segments;
  for (int32_t t = 0; t < segments.back(); ++t) {
    b.ids.push_back(static_cast<int32_t>(philox_below(43, seed, static_cast<uint64_t>(t), 0)));
    b.targets.push_back(
        t % 6 == 1 ? -1
                   : static_cast<int32_t>(philox_below(43, seed, static_cast<uint64_t>(t), 1)));
  }
  for (size_t s = 0; s + 1 < segments.size(); ++s)
    for (int32_t t = segments[s]; t < segments[s + 1]; ++t) b.positions.push_back(t - segments[s]);
  return b;
}

template <class T>
std::vector<T> random_rows(uint64_t key, int64_t count) {
  std::vector<T> rows(static_cast<size_t>(count));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<T>(strict::normal(key, i, 3));
  return rows;
}

// One part of a frame between painted guards.
class Guarded {
 public:
  explicit Guarded(int64_t bytes)
      : size_(bytes), memory_(static_cast<size_t>(bytes + 2 * kGuard + kFrameAlignment), kPaint) {
    const auto at = reinterpret_cast<uintptr_t>(memory_.data()) + kGuard;
    base_ = memory_.data() + kGuard + (kFrameAlignment - at % kFrameAlignment) % kFrameAlignment;
  }
  std::byte* data() { return base_; }
  bool guards_whole() const {
    for (int64_t i = 1; i <= kGuard; ++i)
      if (base_[-i] != kPaint || base_[size_ + i - 1] != kPaint) return false;
    return true;
  }

 private:
  int64_t size_;
  std::vector<std::byte> memory_;
  std::byte* base_;
};

// A block with everything it needs, for one micro-batch.
template <class T>
struct Bench {
  Bench(const Model<T>& m, int index, const OwnedBatch& b, ops::Exec& e)
      : block(m.block(index)),
        batch(b),
        exec(e),
        params(m.unit(block.spec().unit)),
        rope(m.rope()),
        tokens(b.view().tokens),
        d(m.config().hidden_size),
        costly(block.spec().costly_bytes(tokens)),
        cheap(block.spec().cheap_bytes(tokens)),
        x(random_rows<T>(11, tokens * d)),
        dy(random_rows<T>(12, tokens * d)),
        y(x.size()),
        dx(x.size()),
        losses(static_cast<size_t>(tokens)),
        grads(static_cast<size_t>(m.spec().units[static_cast<size_t>(block.spec().unit)].elements),
              T{0}) {}

  Ctx<T> ctx() {
    Ctx<T> c{exec, batch.view()};
    c.params = params;
    c.grads = grads.data();
    c.rope = rope;
    c.x = x.data();
    c.dy = dy.data();
    c.dx = dx.data();
    c.y = block.spec().kind == BlockKind::head ? nullptr : y.data();
    c.costly = costly.data();
    c.cheap = cheap.data();
    c.token_loss = losses.data();
    c.loss_scale = T(0.125);
    return c;
  }
  void run() {
    Ctx<T> c = ctx();
    block.forward(c);
    block.backward_input(c);
    block.backward_weight(c);
  }

  const Block<T>& block;
  const OwnedBatch& batch;
  ops::Exec& exec;
  const T* params;
  const T* rope;
  int64_t tokens, d;
  Guarded costly, cheap;
  std::vector<T> x, dy, y, dx, losses, grads;
};

class BlockTest : public ::testing::Test {
 protected:
  void each(const std::function<void(const Model<float>&, int)>& body) {
    for (Family family : {Family::llama, Family::gpt2}) {
      for (bool tied : {false, true}) {
        const auto model = random_model<float>(odd(family, tied));
        for (int b : {0, 1, 2, model->block_count() - 1}) {
          SCOPED_TRACE(std::string(family_name(family)) + (tied ? " tied " : " ") +
                       model->block(b).spec().name);
          body(*model, b);
        }
      }
    }
  }

  ThreadTeam team_{1};
  Arena arena_ = *Arena::make(size_t{96} << 20, false);
  ops::Exec exec_{team_, arena_, ops::best_isa(), ops::Mode::strict};
  OwnedBatch batch_ = random_batch(5, {0, 3, 20, 21, kTokens});
};

TEST_F(BlockTest, DeclaredFrameIsWhatIsWritten) {
  each([&](const Model<float>& model, int b) {
    Bench<float> bench(model, b, batch_, exec_);
    bench.run();
    EXPECT_TRUE(bench.costly.guards_whole());
    EXPECT_TRUE(bench.cheap.guards_whole());
    for (const Saved& saved : bench.block.spec().saved(kTokens)) {
      if (saved.cls == SavedClass::input) continue;
      const std::byte* at =
          (saved.cls == SavedClass::costly ? bench.costly : bench.cheap).data() + saved.offset;
      int painted = 0;  // a float of paint bytes is not a value that comes up
      for (int64_t i = 0; i < element_count(saved.shape); ++i) {
        uint32_t bits;
        std::memcpy(&bits, at + 4 * i, 4);
        painted += bits == 0xA5A5A5A5;
      }
      EXPECT_EQ(painted, 0) << saved.name;
    }
    EXPECT_EQ(arena_.used(), 0U) << "scratch was not given back";
  });
}

TEST_F(BlockTest, ScratchStaysWithinWhatIsDeclared) {
  // An arena of exactly the declared size: taking more ends the process.
  each([&](const Model<float>& model, int b) {
    for (int threads : {1, 3}) {
      ThreadTeam team(threads);
      const int64_t declared = StraightPass<float>::arena_bytes(model.spec(), kTokens, threads);
      Arena own = *Arena::make(static_cast<size_t>(declared), false);
      ops::Exec exec{team, own, ops::Isa::scalar, ops::Mode::strict};
      Bench<float> bench(model, b, batch_, exec);
      bench.run();
      if (b > 0) {
        EXPECT_GT(own.peak(), 0U);
      }
      EXPECT_LE(static_cast<int64_t>(own.peak()), declared);
    }
  });
}

TEST_F(BlockTest, AFrameCanBeRecomputed) {
  each([&](const Model<float>& model, int b) {
    Bench<float> whole(model, b, batch_, exec_), again(model, b, batch_, exec_),
        cheap(model, b, batch_, exec_);
    if (!whole.block.spec().recomputable()) return;
    whole.run();

    Ctx<float> c = again.ctx();
    c.y = nullptr;  // a frame made without output
    again.block.forward(c);
    again.block.backward_input(c);
    again.block.backward_weight(c);
    EXPECT_EQ(whole.dx, again.dx);
    EXPECT_EQ(whole.grads, again.grads);

    Ctx<float> k = cheap.ctx();
    cheap.block.forward(k);
    std::memset(k.cheap, 0xFF, static_cast<size_t>(cheap.block.spec().cheap_bytes(kTokens)));
    cheap.block.recompute_cheap(k);
    cheap.block.backward_input(k);
    cheap.block.backward_weight(k);
    EXPECT_EQ(whole.y, cheap.y);
    EXPECT_EQ(whole.dx, cheap.dx);
    EXPECT_EQ(whole.grads, cheap.grads);
  });
}

TEST_F(BlockTest, WithoutAFrameTheOutputIsTheSame) {
  each([&](const Model<float>& model, int b) {
    Bench<float> with(model, b, batch_, exec_), without(model, b, batch_, exec_);
    Ctx<float> c = with.ctx();
    with.block.forward(c);
    Ctx<float> bare = without.ctx();
    bare.costly = bare.cheap = nullptr;
    bare.grads = nullptr;
    bare.loss_scale = 0;
    without.block.forward(bare);
    EXPECT_EQ(with.y, without.y);
    EXPECT_EQ(with.losses, without.losses);
  });
}

TEST_F(BlockTest, WeightGradientsMayComeAtAnyTimeAfterTheInputGradient) {
  const OwnedBatch other = random_batch(6, {0, 10, kTokens});
  each([&](const Model<float>& model, int b) {
    Bench<float> first(model, b, batch_, exec_), second(model, b, other, exec_);
    first.run();
    second.run();

    Bench<float> late_first(model, b, batch_, exec_), late_second(model, b, other, exec_);
    Ctx<float> one = late_first.ctx(), two = late_second.ctx();
    late_first.block.forward(one);
    late_second.block.forward(two);
    late_second.block.backward_input(two);
    late_first.block.backward_input(one);
    late_first.block.backward_weight(one);
    late_second.block.backward_weight(two);
    EXPECT_EQ(first.grads, late_first.grads);
    EXPECT_EQ(second.grads, late_second.grads);
    EXPECT_EQ(first.dx, late_first.dx);
  });
}

TEST_F(BlockTest, OnlyTheBlocksOwnRangesOfTheLeafAreWritten) {
  each([&](const Model<float>& model, int b) {
    Bench<float> bench(model, b, batch_, exec_);
    const bool adds = bench.block.spec().kind == BlockKind::embedding && model.spec().tied();
    const float paint = 1e30F;
    std::fill(bench.grads.begin(), bench.grads.end(), paint);
    bench.run();
    std::vector<bool> own(bench.grads.size(), false);
    for (int index : bench.block.spec().params) {
      const Param& p = model.spec().params[static_cast<size_t>(index)];
      for (int64_t i = 0; i < p.count(); ++i) own[static_cast<size_t>(p.offset + i)] = true;
    }
    for (size_t i = 0; i < own.size(); ++i) {
      if (!own[i]) {
        EXPECT_EQ(bench.grads[i], paint) << i;
      }
      if (own[i] && !adds) {
        EXPECT_LT(std::abs(bench.grads[i]), 1e6F) << i;
      }
    }
  });
}

TEST_F(BlockTest, BetaOneAddsToTheLeaf) {
  each([&](const Model<float>& model, int b) {
    Bench<float> leaf(model, b, batch_, exec_), sum(model, b, batch_, exec_);
    leaf.run();
    const auto start = random_rows<float>(99, static_cast<int64_t>(sum.grads.size()));
    sum.grads = start;
    Ctx<float> c = sum.ctx();
    c.beta = 1;
    sum.block.forward(c);
    sum.block.backward_input(c);
    sum.block.backward_weight(c);
    for (size_t i = 0; i < start.size(); ++i)
      ASSERT_NEAR(sum.grads[i], start[i] + leaf.grads[i], 1e-5F * (1 + std::abs(leaf.grads[i])))
          << i;
  });
}

TEST_F(BlockTest, BitsDoNotDependOnThreadsOrInstructionSet) {
  each([&](const Model<float>& model, int b) {
    Bench<float> want(model, b, batch_, exec_);
    want.run();
    for (int threads : {1, 2, 3, 8}) {
      for (ops::Isa isa : {ops::Isa::scalar, ops::Isa::avx2, ops::Isa::avx512}) {
        if (isa > ops::best_isa()) continue;
        SCOPED_TRACE(testing::Message()
                     << threads << " threads, instruction set " << static_cast<int>(isa));
        ThreadTeam team(threads);
        ops::Exec exec{team, arena_, isa, ops::Mode::strict};
        Bench<float> got(model, b, batch_, exec);
        got.run();
        EXPECT_EQ(want.y, got.y);
        EXPECT_EQ(want.dx, got.dx);
        EXPECT_EQ(want.losses, got.losses);
        EXPECT_EQ(want.grads, got.grads);
      }
    }
  });
}

TEST_F(BlockTest, ASegmentsRowsDoNotDependOnItsNeighbours) {
  each([&](const Model<float>& model, int b) {
    Bench<float> whole(model, b, batch_, exec_);
    whole.run();
    for (size_t s = 0; s + 1 < batch_.segments.size(); ++s) {
      const int32_t begin = batch_.segments[s], end = batch_.segments[s + 1];
      OwnedBatch part;
      part.ids.assign(batch_.ids.begin() + begin, batch_.ids.begin() + end);
      part.targets.assign(batch_.targets.begin() + begin, batch_.targets.begin() + end);
      part.positions.assign(batch_.positions.begin() + begin, batch_.positions.begin() + end);
      part.segments = {0, end - begin};
      Bench<float> alone(model, b, part, exec_);
      const int64_t d = alone.d;
      std::copy_n(whole.x.begin() + begin * d, alone.x.size(), alone.x.begin());
      std::copy_n(whole.dy.begin() + begin * d, alone.dy.size(), alone.dy.begin());
      alone.run();
      const auto rows = [&](const std::vector<float>& all, int64_t width) {
        return std::vector<float>(all.begin() + begin * width, all.begin() + end * width);
      };
      EXPECT_EQ(rows(whole.y, d), alone.y);
      EXPECT_EQ(rows(whole.dx, d), alone.dx);
      EXPECT_EQ(rows(whole.losses, 1), alone.losses);
    }
  });
}

}  // namespace
}  // namespace muster
