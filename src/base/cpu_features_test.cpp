#include "base/cpu_features.h"

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
  // The kernel calls LZCNT by AMD's name.
  EXPECT_EQ(cpu_features().avx2, has("avx2") && has("fma") && has("bmi1") && has("bmi2") &&
                                     has("f16c") && has("abm") && has("popcnt"));
  EXPECT_EQ(cpu_features().avx512, cpu_features().avx2 && has("avx512f") && has("avx512bw") &&
                                       has("avx512dq") && has("avx512vl") && has("avx512cd"));
}

// The flags of the build and the names asked for at run time, so that neither grows alone.
TEST(CpuFeatures, CoverEveryFlagOfTheBuild) {
  const auto text_of = [](const std::string& path) {
    std::ifstream file(std::string(MUSTER_SOURCE_DIR) + path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const std::string rules = text_of("/cmake/MusterRoom.cmake");
  const std::string source = text_of("/src/base/cpu_features.cpp");
  int flags = 0;
  for (const char* list : {"set(MUSTER_AVX2_FLAGS ", "set(MUSTER_AVX512_FLAGS "}) {
    const size_t at = rules.find(list);
    ASSERT_NE(at, std::string::npos);
    const size_t begin = at + std::string(list).size();
    std::istringstream words(rules.substr(begin, rules.find(')', begin) - begin));
    for (std::string word; words >> word;) {
      if (!word.starts_with("-m")) continue;  // the other list
      ++flags;
      EXPECT_NE(source.find("__builtin_cpu_supports(\"" + word.substr(2) + "\")"),
                std::string::npos)
          << word;
    }
  }
  EXPECT_EQ(flags, 12);
}

}  // namespace
}  // namespace muster
