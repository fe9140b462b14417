#include "runtime/supervise/line_assembler.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(LineAssembler, LinesAreWholeHoweverTheBytesCome) {
  const std::string text = "first\n\nthird line\nlast without end";
  const std::string want = "[3] first\n[3] \n[3] third line\n";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    SCOPED_TRACE(piece);
    LineAssembler lines("[3] ");
    std::string out;
    for (size_t at = 0; at < text.size(); at += piece) lines.feed(text.substr(at, piece), out);
    EXPECT_EQ(out, want);
    EXPECT_TRUE(lines.pending());
    lines.flush(out);
    EXPECT_EQ(out, want + "[3] last without end\n");
    lines.flush(out);
    EXPECT_FALSE(lines.pending());
  }
}

TEST(LineAssembler, EndlessLinesAreCutAtTheCap) {
  LineAssembler lines("> ");
  std::string out;
  const std::string blob(3 * kLongestLine + 10, 'x');
  for (size_t at = 0; at < blob.size(); at += 1000) lines.feed(blob.substr(at, 1000), out);
  lines.feed("\n", out);
  size_t begin = 0, count = 0, bytes = 0;
  for (size_t end; (end = out.find('\n', begin)) != std::string::npos; begin = end + 1, ++count) {
    EXPECT_EQ(out.substr(begin, 2), "> ");
    EXPECT_LE(end - begin - 2, kLongestLine);
    bytes += end - begin - 2;
  }
  EXPECT_EQ(bytes, blob.size());
  EXPECT_EQ(count, 4U);
}

TEST(LastLines, OfAnyText) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(last_lines_of("", 3), Lines{});
  EXPECT_EQ(last_lines_of("a", 3), Lines{"a"});
  EXPECT_EQ(last_lines_of("a\nb\n", 3), (Lines{"a", "b"}));
  EXPECT_EQ(last_lines_of("a\nb\nc\nd", 2), (Lines{"c", "d"}));
  EXPECT_EQ(last_lines_of("a\n\n", 2), (Lines{"a", ""}));
}

TEST(ExpandLabel, ReplacesWhatTorchrunReplaces) {
  EXPECT_EQ(expand_label("[${role_name}${local_rank}]:", 5, 1, "trainer"), "[trainer1]:");
  EXPECT_EQ(expand_label("[${rank}] ", 5, 1, "x"), "[5] ");
  EXPECT_EQ(expand_label("${unknown}", 5, 1, "x"), "${unknown}");
}

}  // namespace
}  // namespace muster
