// Fills the tables of one instruction set; included by row_kernels_*.cpp after a vector type.
#pragma once

#include "train/ops/row_kernels.h"
#include "train/ops/rows_attention.h"
#include "train/ops/rows_loss.h"
#include "train/ops/rows_mlp.h"
#include "train/ops/rows_norm.h"
#include "train/ops/rows_rope.h"

namespace muster::ops::MUSTER_OPS_ISA {

template <class V>
constexpr RowKernels<typename V::Scalar> make_row_kernels() {
  RowKernels<typename V::Scalar> k{};
  k.rms_forward = NormRows<V>::rms_forward;
  k.rms_backward = NormRows<V>::rms_backward;
  k.layer_forward = NormRows<V>::layer_forward;
  k.layer_backward = NormRows<V>::layer_backward;
  k.column_sums = NormRows<V>::column_sums;
  k.accumulate = NormRows<V>::accumulate;
  k.add = NormRows<V>::add;
  k.rope_forward = RopeRows<V>::forward;
  k.rope_backward = RopeRows<V>::backward;
  k.attention_forward = AttentionRows<V>::forward;
  k.attention_backward = AttentionRows<V>::backward;
  k.attention_decode = AttentionRows<V>::decode;
  k.swiglu_forward = MlpRows<V>::swiglu_forward;
  k.swiglu_backward = MlpRows<V>::swiglu_backward;
  k.gelu_forward = MlpRows<V>::gelu_forward;
  k.gelu_backward = MlpRows<V>::gelu_backward;
  k.cross_entropy = LossRows<V>::cross_entropy;
  k.square_sum = LossRows<V>::square_sum;
  k.adamw = LossRows<V>::adamw;
  return k;
}

}  // namespace muster::ops::MUSTER_OPS_ISA
