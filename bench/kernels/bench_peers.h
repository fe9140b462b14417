// PyTorch's side of the kernel benchmark. Apart from the main file because libtorch's include
// folder carries another fmt.
#pragma once

#include <cstdint>
#include <memory>

namespace muster {

struct SdpaShape {
  int64_t B, T, H, G, c;
};

// scaled_dot_product_attention, causal, forward and backward through autograd.
class SdpaPeer {
 public:
  // q: [B, H, T, c], k and v: [B, G, T, c], dout as q; they must outlive the peer.
  SdpaPeer(const SdpaShape& shape, float* q, float* k, float* v, float* dout, double scale);
  ~SdpaPeer();
  void forward_backward();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The fused AdamW step of torch.optim.AdamW(fused=True).
class AdamWPeer {
 public:
  AdamWPeer(int64_t n, float* parameter, float* gradient, float* m, float* v);
  ~AdamWPeer();
  void step();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
