#include "train/loop/kernel_choices.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "train/ops/gemm_chooser.h"

namespace muster {
namespace {

const std::string kRanks[] = {"NN 1 2 3 0 own\nNT 4 5 6 1 vendor\n",
                              "NN 1 2 3 0 own\nNT 4 5 6 1 own\nTN 7 8 9 0 vendor\n"};

TEST(KernelChoices, AreOneWordWhereRanksAgreeElseOneARank) {
  EXPECT_EQ(join_kernel_choices(kRanks),
            (std::map<std::string, std::string>{{"gemm.NN 1 2 3 0", "own"},
                                                {"gemm.NT 4 5 6 1", "vendor own"},
                                                {"gemm.TN 7 8 9 0", "vendor"}}));
  EXPECT_TRUE(join_kernel_choices(std::span<const std::string>{}).empty());
  const std::string nothing[] = {"", ""};
  EXPECT_TRUE(join_kernel_choices(nothing).empty());
}

TEST(KernelChoices, EveryRankGetsBackWhatItChose) {
  auto choices = join_kernel_choices(kRanks);
  choices["batch.virtual_shards"] = "8";
  const struct {
    int rank;
    const char* want;
  } cases[] = {{0, "NN 1 2 3 0 own\nNT 4 5 6 1 vendor\nTN 7 8 9 0 vendor\n"},
               {1, "NN 1 2 3 0 own\nNT 4 5 6 1 own\nTN 7 8 9 0 vendor\n"},
               {2, "NN 1 2 3 0 own\nNT 4 5 6 1 vendor\nTN 7 8 9 0 vendor\n"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.rank);
    const std::string text = kernel_choices_of(choices, c.rank);
    EXPECT_EQ(text, c.want);
    SimClock clock;
    ops::GemmChooser chooser(clock);
    EXPECT_TRUE(chooser.restore(text).ok());
    EXPECT_EQ(chooser.to_text(), text);
  }
}

TEST(KernelChoices, AShapeThatARankHasNotMetStaysOpenWhereTheOthersDisagree) {
  const std::string texts[] = {"NN 1 1 1 0 own\n", "", "NN 1 1 1 0 vendor\n"};
  const auto choices = join_kernel_choices(texts);
  EXPECT_EQ(choices.at("gemm.NN 1 1 1 0"), "own - vendor");
  EXPECT_EQ(kernel_choices_of(choices, 1), "");
  EXPECT_EQ(kernel_choices_of(choices, 2), "NN 1 1 1 0 vendor\n");
}

}  // namespace
}  // namespace muster
