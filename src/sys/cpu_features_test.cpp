#include "sys/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace muster {
namespace {

TEST(CpuFeatures, AgreeWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().find("flags") == std::string::npos) GTEST_SKIP() << "no /proc/cpuinfo flags";
  const auto has = [&](const std::string& flag) {
    return text.str().find(" " + flag + " ") != std::string::npos;
  };
  EXPECT_EQ(cpu_features().avx2, has("avx2") && has("fma") && has("bmi1") && has("bmi2"));
  EXPECT_EQ(cpu_features().avx512, cpu_features().avx2 && has("avx512f") && has("avx512bw") &&
                                       has("avx512dq") && has("avx512vl") && has("avx512cd"));
}

}  // namespace
}  // namespace muster
