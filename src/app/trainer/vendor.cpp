#include "app/trainer/vendor.h"

#ifdef MUSTER_HAVE_VENDOR
#include "train/vendor/vendor_gemm.h"
#endif

namespace muster {

ops::VendorGemm open_vendor([[maybe_unused]] int threads) {
#ifdef MUSTER_HAVE_VENDOR
  set_vendor_threads(threads);
  return vendor_gemm();
#else
  return nullptr;
#endif
}

std::string vendor_text() {
#ifdef MUSTER_HAVE_VENDOR
  return vendor_version();
#else
  return "none: built without libtorch";
#endif
}

}  // namespace muster
