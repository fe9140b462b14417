// The vendor's kernels: the only code outside tests that sees libtorch. Fast mode alone uses it;
// strict mode runs no vendor operation.
//
// vendor_gemm is MKL's sgemm as exported by libtorch_cpu, found at run time: a libtorch built
// without it leaves fast mode with our own kernels.
#pragma once

#include <string>

#include "train/ops/exec.h"

namespace muster {

// Null where libtorch exports no sgemm.
ops::VendorGemm vendor_gemm();

// Threads of libtorch's and MKL's parallel regions in this thread. Call it before the first vendor
// operation, after any fork.
void set_vendor_threads(int threads);

// "PyTorch 2.13.0, <MKL's version line>, <capability>", for reports.
std::string vendor_version();

}  // namespace muster
