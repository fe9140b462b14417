#include "base/config.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

Schema schema() {
  Schema s;
  s.integer("train.steps", 100, 1, 1'000'000, "optimizer steps");
  s.real("optimizer.lr", 1e-3, 0, 1, "peak learning rate");
  s.text("train.mode", "strict", "numerics", {"strict", "fast"});
  s.boolean("eval.enabled", true, "evaluate");
  s.bytes("checkpoint.buffer", Bytes{32 << 20}, Bytes{1 << 20}, Bytes{1 << 30}, "ring buffer");
  s.duration("train.timeout", std::chrono::seconds{60}, std::chrono::seconds{1},
             std::chrono::hours{1}, "time-out");
  s.text_list("data.paths", {}, "paths");
  return s;
}

Config::Sources file(std::string text) {
  return {"job.toml", std::move(text), {}, {}};
}

TEST(Config, LaterSourcesWinAndEveryValueKnowsItsOrigin) {
  Config::Sources sources = file("[train]\nsteps = 5\nmode = \"fast\"\n[optimizer]\nlr = 1\n");
  sources.environment = {
      {"MUSTER_TRAIN__STEPS", "6"}, {"MUSTER_TRAIN__MODE", "strict"}, {"PATH", "/bin"}};
  sources.sets = {"train.steps=7", "data.paths=[\"a\", \"b\"]", "checkpoint.buffer=2MiB",
                  "train.timeout=\"5s\""};
  const Config config = Config::resolve(schema(), sources).value();
  EXPECT_EQ(config.integer("train.steps"), 7);
  EXPECT_EQ(config.text("train.mode"), "strict");
  EXPECT_EQ(config.real("optimizer.lr"), 1.0);
  EXPECT_EQ(config.bytes("checkpoint.buffer").count, 2 << 20);
  EXPECT_EQ(config.duration("train.timeout"), std::chrono::seconds{5});
  EXPECT_EQ(config.text_list("data.paths"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.entries().at("train.steps").origin, "--set train.steps=7");
  EXPECT_EQ(config.entries().at("train.mode").origin, "MUSTER_TRAIN__MODE");
  EXPECT_EQ(config.entries().at("optimizer.lr").origin, "job.toml:5");
  EXPECT_EQ(config.entries().at("eval.enabled").origin, "default");
}

TEST(Config, AVariableThatLooksLikeASettingMustBeOne) {
  Config::Sources sources = file("");
  sources.environment = {{"MUSTER_TRAIN__STEPZ", "6"}};
  const auto config = Config::resolve(schema(), sources);
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.error().to_string().find(
                "MUSTER_TRAIN__STEPZ: unknown key 'train.stepz'; did you mean 'train.steps'?"),
            std::string::npos)
      << config.error().to_string();
  sources.environment = {{"MUSTER_SHARED", "x"}, {"MUSTER_ISA", "avx2"}, {"OTHER__NAME", "1"}};
  EXPECT_TRUE(Config::resolve(schema(), sources).ok());
}

TEST(Config, SaysWhatIsWrongWhereAndWhatWouldBeRight) {
  const struct {
    const char* text;
    const char* want;  // part of the message
  } cases[] = {
      {"[train]\nstep = 5", "job.toml:2: unknown key 'train.step'; did you mean 'train.steps'?"},
      {"lr = 1", "did you mean 'optimizer.lr'?"},
      {"[train]\nsteps = 0", "train.steps = 0 is outside its range, 1 to 1000000"},
      {"[train]\nsteps = 1.5", "train.steps must be an integer, not 1.5"},
      {"[train]\nsteps = \"5\"", "must be an integer"},
      {"[train]\nmode = \"quick\"", "\"quick\" is not one of: strict, fast"},
      {"[train]\ntimeout = 5", "must be a duration such as"},
      {"[train]\ntimeout = \"5\"", "units are ns"},
      {"[checkpoint]\nbuffer = \"1KiB\"",
       "checkpoint.buffer = 1.00 KiB is outside its range, 1.00 MiB to 1.00 GiB"},
      {"[train\n", "job.toml:1"},
      {"[optimizer]\nlr = nan", "outside its range"},
      {"[data]\npaths = [1]", "must be a list of texts"},
  };
  for (const auto& c : cases) {
    const auto result = Config::resolve(schema(), file(c.text));
    ASSERT_FALSE(result) << c.text;
    EXPECT_NE(result.error().to_string().find(c.want), std::string::npos)
        << result.error().to_string();
  }
}

TEST(Config, RefusesBadSets) {
  for (const char* set :
       {"train.steps", "train.steps=", "train.steps=x", "nothing=1", "train.steps=5=6"}) {
    Config::Sources sources;
    sources.sets = {set};
    EXPECT_FALSE(Config::resolve(schema(), sources)) << set;
  }
}

TEST(Config, WritesTomlThatReadsBackEqual) {
  Config::Sources sources;
  sources.sets = {"data.paths=[\"a\\\"b\", \"c\\\\d\"]", "optimizer.lr=0.1",
                  "checkpoint.buffer=3MB", "train.timeout=1500ms"};
  const Config config = Config::resolve(schema(), sources).value();
  const Config again = Config::resolve(schema(), file(config.to_toml())).value();
  EXPECT_EQ(again.to_toml(), config.to_toml());
  for (const auto& [key, entry] : config.entries()) {
    EXPECT_EQ(again.entries().at(key).value, entry.value) << key;
  }
}

}  // namespace
}  // namespace muster
