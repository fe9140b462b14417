#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace muster {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s%s\n", file, line, condition,
               values.empty() ? "" : " [", values.c_str(), values.empty() ? "" : "]");
  std::fflush(stderr);
  std::abort();
}

}  // namespace muster
