// The vendor's kernels, where this program was built with libtorch; nothing elsewhere.
#pragma once

#include <string>

#include "train/ops/exec.h"

namespace muster {

// Null without libtorch, or where it exports no matrix product. `threads`: of the vendor's own
// parallel regions.
ops::VendorGemm open_vendor(int threads);
// "PyTorch 2.13.0, …" or "none: built without libtorch".
std::string vendor_text();

}  // namespace muster
