// Benchmark of the training kernels against the libraries PyTorch uses, in one process,
// alternating, one thread, thread CPU time, medians: matrix products against MKL, attention against
// SDPA with autograd, AdamW against PyTorch's fused kernel. The shapes are those of the two models
// of the training bar. One JSON object on standard output; a table on standard error.
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/philox.h"
#include "bench_peers.h"
#include "train/ops/fma_peak.h"
#include "train/ops/gemm.h"
#include "train/vendor/vendor_gemm.h"

namespace muster {
namespace {

using ops::Trans;

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Seconds of each body, alternating, after one warm-up each.
std::vector<double> race(int rounds, const std::vector<std::function<void()>>& bodies) {
  std::vector<std::vector<double>> times(bodies.size());
  for (const auto& body : bodies) body();
  for (int r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < bodies.size(); ++i) {
      const double start = cpu_seconds();
      bodies[i]();
      times[i].push_back(cpu_seconds() - start);
    }
  }
  std::vector<double> medians;
  for (auto& t : times) medians.push_back(median(t));
  return medians;
}

float* random_array(Arena& arena, int64_t n, uint64_t key) {
  float* x = arena.take_array<float>(n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(unit_double(philox_u64(key, static_cast<uint64_t>(i), 0)) - 0.5);
  }
  return x;
}

struct Shape {
  const char* model;
  const char* what;
  const char* form;  // NT forward, NN input gradient, TN weight gradient
  int64_t M, N, K;
};

// Tokens 2,048 (mini) and 256 (gpt2); the vocabulary head of mini in chunks of 512 tokens.
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  const auto linear = [&](const char* model, const char* what, int64_t tokens, int64_t out,
                          int64_t in) {
    all.push_back({model, what, "NT", tokens, out, in});
    all.push_back({model, what, "NN", tokens, in, out});
    all.push_back({model, what, "TN", out, in, tokens});
  };
  linear("mini", "qkv", 2048, 384, 256);
  linear("mini", "out", 2048, 256, 256);
  linear("mini", "gate_up", 2048, 1376, 256);
  linear("mini", "down", 2048, 256, 688);
  linear("mini", "head", 512, 4096, 256);
  linear("gpt2", "qkv", 256, 2304, 768);
  linear("gpt2", "out", 256, 768, 768);
  linear("gpt2", "up", 256, 3072, 768);
  linear("gpt2", "down", 256, 768, 3072);
  linear("gpt2", "head", 256, 50257, 768);
  return all;
}

nlohmann::json bench_gemm(ops::Exec& exec, int rounds, double peak, const std::string& only) {
  nlohmann::json rows = nlohmann::json::array();
  double log_ratio = 0, log_own = 0, log_vendor = 0;
  int count = 0;
  const ops::VendorGemm vendor = vendor_gemm();
  fmt::print(stderr, "{:<6}{:<8}{:<4}{:>7}{:>7}{:>7}{:>10}{:>10}{:>8}\n", "model", "product", "",
             "M", "N", "K", "own/peak", "MKL/peak", "own/MKL");
  for (const Shape& s : shapes()) {
    if (!only.empty() &&
        fmt::format("{} {} {}", s.model, s.what, s.form).find(only) == std::string::npos)
      continue;
    Arena::Scope scope(exec.arena);
    const bool ta = s.form[0] == 'T', tb = s.form[1] == 'T';
    const int64_t lda = ta ? s.M : s.K, ldb = tb ? s.K : s.N;
    const float* a = random_array(exec.arena, s.M * s.K, 1);
    const float* b = random_array(exec.arena, s.N * s.K, 2);
    float* c = random_array(exec.arena, s.M * s.N, 3);
    const double flops =
        2.0 * static_cast<double>(s.M) * static_cast<double>(s.N) * static_cast<double>(s.K);
    const int repeat = std::max(1, static_cast<int>(2e9 / flops));
    std::vector<std::function<void()>> bodies;
    bodies.push_back([&] {
      for (int i = 0; i < repeat; ++i) {
        ops::own_gemm<float>(exec, ta ? Trans::yes : Trans::no, tb ? Trans::yes : Trans::no, s.M,
                             s.N, s.K, a, lda, b, ldb, 0.0f, c, s.N, nullptr);
      }
    });
    if (vendor != nullptr) {
      bodies.push_back([&] {
        for (int i = 0; i < repeat; ++i) {
          vendor(ta, tb, s.M, s.N, s.K, a, lda, b, ldb, 0.0f, c, s.N);
        }
      });
    }
    const std::vector<double> t = race(rounds, bodies);
    const double own = flops * repeat / t[0] / peak;
    const double mkl = vendor == nullptr ? NAN : flops * repeat / t[1] / peak;
    fmt::print(stderr, "{:<6}{:<8}{:<4}{:>7}{:>7}{:>7}{:>10.3f}{:>10.3f}{:>8.3f}\n", s.model,
               s.what, s.form, s.M, s.N, s.K, own, mkl, own / mkl);
    rows.push_back({{"model", s.model},
                    {"product", s.what},
                    {"form", s.form},
                    {"M", s.M},
                    {"N", s.N},
                    {"K", s.K},
                    {"own_of_peak", own},
                    {"vendor_of_peak", mkl},
                    {"own_over_vendor", own / mkl}});
    log_ratio += std::log(own / mkl);
    log_own += std::log(own);
    log_vendor += std::log(mkl);
    ++count;
  }
  const nlohmann::json means = {{"own_of_peak", std::exp(log_own / count)},
                                {"vendor_of_peak", std::exp(log_vendor / count)},
                                {"own_over_vendor", std::exp(log_ratio / count)}};
  fmt::print(stderr, "geometric mean: own {:.3f} of peak, MKL {:.3f} of peak, own / MKL {:.3f}\n",
             std::exp(log_own / count), std::exp(log_vendor / count), std::exp(log_ratio / count));
  return {{"shapes", rows}, {"geometric_mean", means}};
}

nlohmann::json bench_attention(ops::Exec& exec, int rounds) {
  nlohmann::json rows = nlohmann::json::array();
  struct Case {
    const char* model;
    int64_t B, T, H, G, c;
  };
  for (const Case& s : {Case{"mini", 8, 256, 8, 2, 32}, Case{"gpt2", 4, 64, 12, 12, 64},
                        Case{"long", 1, 1024, 8, 2, 64}}) {
    Arena::Scope scope(exec.arena);
    const int64_t tokens = s.B * s.T, nq = s.H * tokens * s.c, nk = s.G * tokens * s.c;
    std::vector<int32_t> segments;
    for (int64_t b = 0; b <= s.B; ++b) segments.push_back(static_cast<int32_t>(b * s.T));
    float *q = random_array(exec.arena, nq, 1), *k = random_array(exec.arena, nk, 2),
          *v = random_array(exec.arena, nk, 3), *dout = random_array(exec.arena, nq, 4),
          *o = random_array(exec.arena, nq, 5), *lse = random_array(exec.arena, s.H * tokens, 6),
          *dq = random_array(exec.arena, nq, 7), *dk = random_array(exec.arena, nk, 8),
          *dv = random_array(exec.arena, nk, 9);
    const float scale = 1.0f / std::sqrt(static_cast<float>(s.c));
    SdpaPeer sdpa({s.B, s.T, s.H, s.G, s.c}, q, k, v, dout, scale);
    const auto forward = [&] {
      ops::attention_forward<float>(exec, segments, tokens, s.H, s.G, s.c, scale, q, k, v, o, lse);
    };
    const std::vector<double> t =
        race(rounds, {[&] {
                        forward();
                        ops::attention_backward<float>(exec, segments, tokens, s.H, s.G, s.c, scale,
                                                       q, k, v, o, lse, dout, dq, dk, dv);
                      },
                      [&] { sdpa.forward_backward(); }, forward});
    fmt::print(stderr,
               "attention {} T{} c{}: forward {:.2f} ms, forward + backward {:.2f} ms, SDPA {:.2f} "
               "ms, {:.2f}x\n",
               s.model, s.T, s.c, 1e3 * t[2], 1e3 * t[0], 1e3 * t[1], t[1] / t[0]);
    rows.push_back({{"model", s.model},
                    {"T", s.T},
                    {"head", s.c},
                    {"own_s", t[0]},
                    {"own_forward_s", t[2]},
                    {"sdpa_s", t[1]},
                    {"ratio", t[1] / t[0]}});
  }
  return rows;
}

nlohmann::json bench_adamw(ops::Exec& exec, int rounds) {
  Arena::Scope scope(exec.arena);
  const int64_t n = 20'000'000;
  float *p = random_array(exec.arena, n, 1), *g = random_array(exec.arena, n, 2),
        *m = random_array(exec.arena, n, 3), *v = random_array(exec.arena, n, 4);
  for (int64_t i = 0; i < n; ++i) v[i] = std::abs(v[i]);
  AdamWPeer peer(n, p, g, m, v);
  const ops::AdamWStep s{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.65, 0.40, 1.0};
  const std::vector<double> t =
      race(rounds, {[&] { ops::adamw<float>(exec, n, s, g, p, m, v); }, [&] { peer.step(); }});
  fmt::print(stderr, "AdamW {:.3f} ns a parameter, PyTorch fused {:.3f}, {:.2f}x\n",
             1e9 * t[0] / static_cast<double>(n), 1e9 * t[1] / static_cast<double>(n), t[1] / t[0]);
  return {{"own_ns_per_parameter", 1e9 * t[0] / static_cast<double>(n)},
          {"fused_ns_per_parameter", 1e9 * t[1] / static_cast<double>(n)},
          {"ratio", t[1] / t[0]}};
}

int run(const std::vector<std::string>& words) {
  std::string part, only;
  int rounds = 9;
  ops::Isa isa = ops::best_isa();
  for (size_t i = 0; i < words.size(); ++i) {
    const bool more = i + 1 < words.size();
    if (words[i] == "--rounds" && more) {
      rounds = std::max(1, std::stoi(words[++i]));
    } else if (words[i] == "--isa" && more) {
      const auto parsed = ops::isa_from(words[++i], isa);
      if (!parsed.ok()) {
        fmt::print(stderr, "{}\n", parsed.error().to_string());
        return 2;
      }
      isa = *parsed;
    } else if (words[i] == "--only" && more) {
      only = words[++i];
    } else if (words[i] == "gemm" || words[i] == "attention" || words[i] == "adamw") {
      part = words[i];
    } else {
      fmt::print(stderr,
                 "usage: muster_bench_kernels [gemm|attention|adamw] [--rounds N] [--isa NAME] "
                 "[--only 'MODEL PRODUCT FORM']\n");
      return 2;
    }
  }
  set_vendor_threads(1);
  ThreadTeam team(1);
  auto arena = Arena::make(size_t{1} << 30, true);
  if (!arena.ok()) {
    fmt::print(stderr, "{}\n", arena.error().to_string());
    return 1;
  }
  ops::Exec exec{team, *arena, isa, ops::Mode::strict};
  const double peak = ops::measure_fma_peak(isa);
  fmt::print(stderr, "{}; {} kernels; FMA peak {:.1f} GFLOP/s a thread\n", vendor_version(),
             ops::isa_name(isa), 1e-9 * peak);
  nlohmann::json report = {{"vendor", vendor_version()},
                           {"isa", ops::isa_name(isa)},
                           {"fma_peak_flops", peak},
                           {"rounds", rounds}};
  if (part.empty() || part == "gemm") report["gemm"] = bench_gemm(exec, rounds, peak, only);
  if (part.empty() || part == "attention") report["attention"] = bench_attention(exec, rounds);
  if (part.empty() || part == "adamw") report["adamw"] = bench_adamw(exec, rounds);
  fmt::print("{}\n", report.dump());
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  return muster::run(std::vector<std::string>(argv + 1, argv + argc));
}
