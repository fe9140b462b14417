#include "insight/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "insight/report/heat_strip.h"
#include "insight/report/ledger_bar.h"
#include "insight/report/line_chart.h"
#include "insight/report/markup.h"

namespace muster {
namespace {

size_t count_of(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Checks that tags nest and close, as an XML parser would: our HTML keeps to that, apart from the
// document type and void elements.
::testing::AssertionResult well_formed(std::string_view html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string_view::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (end == std::string_view::npos) return ::testing::AssertionFailure() << "a tag never ends";
    std::string_view tag = html.substr(at + 1, end - at - 1);
    if (tag.starts_with("!") || tag.ends_with("/") || tag.starts_with("meta")) continue;
    const bool closes = tag.starts_with("/");
    if (closes) tag.remove_prefix(1);
    const std::string name(tag.substr(0, tag.find_first_of(" \n")));
    if (!closes) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return ::testing::AssertionFailure()
             << "</" << name << "> closes <" << (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  if (!open.empty())
    return ::testing::AssertionFailure() << "<" << open.back() << "> is never closed";
  return ::testing::AssertionSuccess();
}

TEST(Markup, TextCanDoNothingInHtml) {
  EXPECT_EQ(escape_html("<script>\"a\" & 'b'</script>"),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;");
  EXPECT_EQ(escape_html(std::string("a\0b\x1b", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("\xE2\x82\xAC"), "\xE2\x82\xAC");
  // A lone byte, an overlong '/', a surrogate, a cut sequence.
  EXPECT_EQ(escape_html("\xFF"), "\xEF\xBF\xBD");
  EXPECT_EQ(count_of(escape_html("\xC0\xAF"), "\xEF\xBF\xBD"), 2u);
  EXPECT_EQ(count_of(escape_html("\xED\xA0\x80"), "\xEF\xBF\xBD"), 3u);
  EXPECT_EQ(escape_html("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Markup, TextCanDoNothingInMarkdown) {
  EXPECT_EQ(escape_markdown("a|b\nc `x` <b>"), "a\\|b c \\`x\\` &lt;b\\>");
  EXPECT_EQ(markdown_code_block("x\n```\ny"), "````\nx\n```\ny\n````\n");
}

TEST(Markup, TicksAreRoundAndCover) {
  EXPECT_EQ(nice_ticks(0, 10), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  for (const auto& [low, high] :
       {std::pair{0.0, 1.0}, {2.1, 8.4}, {-5.0, 5.0}, {3.0, 3.0}, {1e-9, 2e-9}}) {
    const auto ticks = nice_ticks(low, high);
    EXPECT_LE(ticks.front(), low + 1e-12);
    EXPECT_GE(ticks.back(), high - 1e-12);
    EXPECT_GE(ticks.size(), 3u);
    EXPECT_LE(ticks.size(), 10u);
  }
}

TEST(Markup, DurationsReadAsPeopleSayThem) {
  const struct {
    double seconds;
    const char* want;
  } cases[] = {{0, "0 s"},       {0.0123, "12.3 ms"}, {1.5, "1.5 s"},
               {59.9, "59.9 s"}, {65, "1 min 05 s"},  {3725, "1 h 02 min"}};
  for (const auto& c : cases) EXPECT_EQ(span_text(c.seconds), c.want);
}

TEST(LineChart, AValueThatIsNotFiniteIsAGap) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = line_chart_svg(
      {.id = "x", .series = {{.css_class = "main", .points = {{1, 1}, {2, nan}, {3, 2}, {4, 3}}}}});
  EXPECT_TRUE(well_formed(svg));
  const size_t path = svg.find("<path");
  EXPECT_EQ(count_of(svg.substr(path), "M"), 2u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(line_chart_svg({.id = "x", .series = {{.points = {{1, nan}}}}}), "");
}

TEST(LineChart, ALongSeriesKeepsItsSpikes) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 100'000; ++i) points.emplace_back(i, i == 77'777 ? 50.0 : 1.0);
  const std::string svg =
      line_chart_svg({.id = "x", .series = {{.css_class = "main", .points = points}}});
  EXPECT_LT(svg.size(), 100'000u);
  EXPECT_NE(svg.find(" 14.0"), std::string::npos);  // the top of the frame
}

TEST(HeatStrip, LevelsTellHowAStepComparesWithTheMedian) {
  EXPECT_EQ(heat_level(0.9, 1), 0);
  EXPECT_EQ(heat_level(1.0, 1), 1);
  EXPECT_EQ(heat_level(1.2, 1), 3);
  EXPECT_EQ(heat_level(5.0, 1), 7);
  const std::string svg = heat_strip_svg({{0, 1, 1.0}, {0, 2, 1.0}, {1, 1, 1.0}, {1, 2, 3.0}});
  EXPECT_TRUE(well_formed(svg));
  EXPECT_EQ(count_of(svg, "x median</title>"), 4u);
  EXPECT_NE(svg.find("rank 1, step 2: 3 s, 3.00 x median"), std::string::npos);
  EXPECT_EQ(heat_strip_svg({}), "");
}

TEST(HeatStrip, ALongRunIsJoinedByItsSlowestSteps) {
  std::vector<ReportRankStep> steps;
  for (int32_t rank = 0; rank < 200; ++rank)
    for (int64_t step = 1; step <= 1000; ++step)
      steps.push_back({rank, step, rank == 123 && step == 500 ? 9.0 : 1.0});
  const std::string svg = heat_strip_svg(steps);
  EXPECT_LT(count_of(svg, "<rect"), 30'000u);
  EXPECT_NE(svg.find("rank 123, step 500: 9 s"), std::string::npos);
}

Ledger ledger_of(std::initializer_list<std::pair<Leaf, int64_t>> times) {
  Ledger l{.ranks = 1};
  for (const auto& [leaf, ns] : times) {
    l.times[static_cast<size_t>(leaf)] = ns;
    l.end_ns += ns;
  }
  return l;
}

TEST(LedgerBar, EveryLeafWithTimeIsThereAndTheBarIsFull) {
  const Ledger l =
      ledger_of({{Leaf::step_compute, 900'000'000}, {Leaf::hang, 1}, {Leaf::evict, 99'999'999}});
  const std::string svg = ledger_bar_svg(l);
  EXPECT_TRUE(well_formed(svg));
  EXPECT_EQ(count_of(svg, "<rect"), 3u);
  double x_end = 0;
  for (size_t at = svg.find("<rect x=\""); at != std::string::npos;
       at = svg.find("<rect x=\"", at + 1)) {
    double x = 0, y = 0, width = 0;
    ASSERT_EQ(
        std::sscanf(svg.c_str() + at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\"", &x, &y, &width),
        3);
    EXPECT_GT(width, 1);
    EXPECT_GE(x, x_end);
    x_end = x + width;
  }
  EXPECT_NEAR(x_end, 920, 0.1);
  EXPECT_EQ(ledger_bar_svg(Ledger{}), "");
}

const char kNasty[] = "</pre><script>alert(1)</script>\"'&|`";

ReportInput full_input() {
  ReportInput in;
  in.title = "code-tiny";
  in.run_dir = "runs/code-tiny-7";
  in.started = "2031-05-04 12:00:00 UTC";
  in.outcome = "240 steps, one restart, held-out loss still falling.";
  in.final_loss_nats = 2.41;
  in.validation_bits_per_byte = 1.234;
  in.tokens_per_second = 18'342;
  in.mfu = Mfu{"exact/measured-peak", 0.612};
  in.tokens = 3'932'160;
  for (int64_t s = 1; s <= 240; ++s) {
    const double t = static_cast<double>(s);
    in.steps.push_back({s, 2.3 + 6 * std::exp(-t / 30) + 0.12 * std::sin(t * 1.7),
                        0.85 + 0.05 * std::sin(t * 0.9) + (s == 121 ? 0.6 : 0), 16'384,
                        s > 120 ? 1 : 0, s == 60});
    for (int32_t rank = 0; rank < 2; ++rank)
      in.rank_steps.push_back({rank, s,
                               0.85 + 0.08 * std::sin(t * 0.9 + rank) + (s == 121 ? 0.6 : 0) +
                                   (rank == 1 && s % 40 == 0 ? 0.5 : 0)});
  }
  in.validations = {{120, 2.7}, {240, 2.45}};
  in.ledger = ledger_of({{Leaf::provision, 1'200'000'000},
                         {Leaf::init_device, 900'000'000},
                         {Leaf::init_compile, 6'000'000'000},
                         {Leaf::restore, 400'000'000},
                         {Leaf::step_compute, 331'000'000'000},
                         {Leaf::step_exposed_comm, 19'000'000'000},
                         {Leaf::step_straggler_wait, 12'000'000'000},
                         {Leaf::step_exposed_data, 800'000'000},
                         {Leaf::step_exposed_ckpt, 1'100'000'000},
                         {Leaf::step_host_gap, 9'000'000'000},
                         {Leaf::eval, 14'000'000'000},
                         {Leaf::hang, 30'000'000},
                         {Leaf::evict, 260'000'000},
                         {Leaf::rework, 11'000'000'000},
                         {Leaf::idle, 2'000'000'000},
                         {Leaf::other, 700'000'000}});
  in.ledger.ranks = 2;
  in.ledger.end_ns /= 2;
  in.restarts = {{.attempt = 0,
                  .rank = 1,
                  .at_seconds = 104.2,
                  .cause = "fatal_signal",
                  .message = "rank 1 was killed by SIGKILL",
                  .restarted = true,
                  .started_from = 120,
                  .detection = 0.03,
                  .restart = 0.52,
                  .reload = 0.4,
                  .rework = 11}};
  in.configuration = {{"train.steps", "240", "examples/code-tiny.toml:12"},
                      {"optimizer.lr", "0.003", "--set optimizer.lr=3e-3"},
                      {"model.layers", "6", "default"}};
  in.samples = {{"completion", "def fibonacci(n):\n", "    if n < 2:\n        return n\n", ""},
                {"infill", "def add(a, b):\n", "    return a + b\n", "\nprint(add(1, 2))\n"}};
  in.numerics = {{"mode", "fast"}, {"gemm.NT 64 16 32 0", "vendor"}};
  in.environment = {{"processor", "x86-64, 2 cores, AVX2"}, {"corpus", "1,234 files, 12.3 MB"}};
  return in;
}

TEST(Report, ThePageIsWholeAndLoadsNothing) {
  const std::string html = report_html(full_input());
  EXPECT_TRUE(well_formed(html));
  for (const char* outside : {"http:", "https:", "<script", "<link", "@import", "url(", "src="})
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  for (const char* part : {"Loss by step", "Step time by rank", "gemm.NT 64 16 32 0",
                           "Goodput ledger", "examples/code-tiny.toml:12", "exact/measured-peak",
                           "1.234", "fatal_signal", "return a + b", "prefers-color-scheme"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(count_of(html, "role=\"img\""), count_of(html, "<desc"));
  if (const char* out = std::getenv("MUSTER_REPORT_SAMPLE")) std::ofstream(out) << html;
}

TEST(Report, TheMarkdownSaysTheSame) {
  const std::string text = report_markdown(full_input());
  for (const char* part :
       {"# code-tiny", "1.2340", "gemm.NT 64 16 32 0", "exact/measured-peak", "step.compute",
        "fatal\\_signal", "examples/code-tiny.toml:12", "return a + b"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(Report, NoTextOfTheInputBecomesMarkup) {
  ReportInput in = full_input();
  EXPECT_TRUE(well_formed(report_html(in)));
  in.title = in.run_dir = in.started = in.outcome = kNasty;
  in.restarts[0].cause = in.restarts[0].message = kNasty;
  in.configuration.push_back({kNasty, kNasty, kNasty});
  in.samples.push_back({kNasty, kNasty, kNasty, kNasty});
  in.numerics.push_back({kNasty, kNasty});
  in.environment.push_back({kNasty, kNasty});
  in.problems.push_back(kNasty);
  in.mfu->label = kNasty;
  const std::string html = report_html(in);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_TRUE(well_formed(html));
  EXPECT_EQ(report_markdown(in).find("| </pre>"), std::string::npos);
}

TEST(Report, AnEmptyRunStillGivesAPage) {
  const std::string html = report_html(ReportInput{});
  EXPECT_TRUE(well_formed(html));
  EXPECT_NE(html.find("No step was recorded"), std::string::npos);
  EXPECT_FALSE(report_markdown(ReportInput{}).empty());
}

TEST(Report, ATimelineFillsLedgerRestartsAndStepTimes) {
  JobTimeline timeline;
  timeline.ledger = {
      .ranks = 1, .launch_ns = 0, .end_ns = 10'000'000'000, .ended = true, .succeeded = true};
  RankLife a{.rank = 0, .attempt = 0, .last_progress_ns = 3'000'000'000};
  a.verdict_ns = 4'000'000'000;
  a.steps = {{1, {0, 2'000'000'000}, true}, {2, {2'000'000'000, 3'000'000'000}, true}};
  RankLife b{.rank = 0, .attempt = 1, .placed_ns = 5'000'000'000, .first_record_ns = 6'000'000'000};
  b.spans = {{Leaf::restore, {6'000'000'000, 7'000'000'000}}};
  b.steps = {{2, {7'000'000'000, 10'000'000'000}, true}};
  timeline.ledger.lives = {a, b};
  timeline.ledger.started_from = {{0, 0}, {1, 1}};
  timeline.failures = {{.attempt = 0,
                        .culprit = 0,
                        .verdict_ns = 4'000'000'000,
                        .cause = "hang",
                        .restarted = true,
                        .next_started_from = 1}};
  ReportInput in;
  add_timeline(in, timeline);
  ASSERT_EQ(in.restarts.size(), 1u);
  EXPECT_DOUBLE_EQ(in.restarts[0].detection, 1);
  EXPECT_DOUBLE_EQ(in.restarts[0].restart, 2);
  EXPECT_DOUBLE_EQ(in.restarts[0].reload, 1);
  EXPECT_DOUBLE_EQ(in.restarts[0].rework, 1);
  ASSERT_EQ(in.rank_steps.size(), 2u);
  EXPECT_DOUBLE_EQ(in.rank_steps[1].seconds, 3);  // the last execution of step 2
  EXPECT_DOUBLE_EQ(in.ledger.goodput(), 0.5);
}

}  // namespace
}  // namespace muster
