#include "ckpt/manifest.h"

#include <gtest/gtest.h>

#include "ckpt/base64.h"
#include "ckpt/state_rig.h"

namespace muster {
namespace {

Manifest small_manifest() {
  Manifest m;
  m.uuid = "00112233445566778899aabbccddeeff";
  m.created = 1'700'000'000'000'000'000;
  m.scalars = {40,
               41,
               65536.0,
               0xFFFFFFFFFFFFFFFF,
               40,
               std::string("\0\xFF{", 3),
               {{"ema", "f64", 0x3FF0000000000000}}};
  m.config = "a = \"\u00e9\"\n";
  m.numerics = {"strict", 8, 4, {{"gemm", "own"}, {"attention", "own"}}};
  m.files = {{"s0", 100, {1}}, {"s1", kChecksumChunk + 1, {2, 3}}};
  const TensorInfo info{"w", Dtype::f32, {4, 6}, Role::parameter, "rope_halves"};
  m.tensors = {
      {info,
       {{{{0, 0}, {1, 6}}, 0, 0, 24, Hash128{1, 2}}, {{{1, 0}, {3, 6}}, 1, 8, 80, Hash128{3, 4}}}},
      {{"x", Dtype::f64, {}, Role::moment, ""}, {{{{}, {}}, 0, 24, 32, Hash128{5, 6}}}}};
  return m;
}

TEST(Manifest, IsReadBackEqual) {
  const Manifest m = small_manifest();
  const std::string text = manifest_text(m).value();
  EXPECT_EQ(parse_manifest(text).value(), m);
  EXPECT_EQ(manifest_text(parse_manifest(text).value()).value(), text);
  EXPECT_TRUE(text.starts_with("{\"format\":\"muster-checkpoint-1\",\"xxh3\":\"")) << text;
}

TEST(Manifest, EveryChangedInsertedOrRemovedByteIsRefused) {
  const std::string text = manifest_text(small_manifest()).value();
  for (size_t at = 0; at <= text.size(); ++at) {
    std::string longer = text;
    longer.insert(at, 1, ' ');
    ASSERT_FALSE(parse_manifest(longer).ok()) << at;
    if (at == text.size()) break;
    std::string shorter = text;
    shorter.erase(at, 1);
    ASSERT_FALSE(parse_manifest(shorter).ok()) << at;
    for (const int change : {1, 2, 4, 8, 16, 32, 64, 128}) {
      std::string flipped = text;
      flipped[at] = static_cast<char>(flipped[at] ^ change);
      ASSERT_FALSE(parse_manifest(flipped).ok()) << at << " " << change;
    }
  }
}

// The same, by somebody who computes the right digest for the changed body.
std::string resealed(const std::string& text) {
  const std::string marker = "\"xxh3\":\"";
  const size_t digits = text.find(marker) + marker.size();
  std::string before = text.substr(0, digits), after = text.substr(digits + 32);
  return before + xxh3_128(before + after).hex() + after;
}

TEST(Manifest, NonCanonicalTextIsRefusedEvenWithTheRightDigest) {
  const std::string text = manifest_text(small_manifest()).value();
  EXPECT_TRUE(parse_manifest(resealed(text)).ok());
  const auto swapped = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    MUSTER_CHECK(at != std::string::npos, from);
    return parse_manifest(resealed(changed.replace(at, from.size(), to)));
  };
  EXPECT_FALSE(swapped("\"epoch\":0", "\"epoch\": 0").ok());
  EXPECT_FALSE(swapped("\"epoch\":0", "\"epoch\":0.0").ok());
  EXPECT_FALSE(swapped("\"epoch\":0", "\"epoch\":00").ok());
  EXPECT_FALSE(swapped("\"epoch\":0", "\"epoch\":0,\"epoch\":0").ok());
  EXPECT_FALSE(swapped("\"epoch\":0", "\"epoch\":0,\"extra\":0").ok());
  EXPECT_FALSE(swapped("\"role\":\"parameter\"", "\"role\":\"Parameter\"").ok());
  EXPECT_FALSE(swapped("\u00e9", "\\u00e9").ok());
  EXPECT_FALSE(swapped("muster-checkpoint-1", "muster-checkpoint-2").ok());
  EXPECT_FALSE(swapped("\"schedule_step\":41", "\"schedule_step\":-41").ok());
  EXPECT_FALSE(swapped("\"step\":40", "\"step\":-1").ok());
  EXPECT_TRUE(swapped("\"epoch\":0", "\"epoch\":7").ok());  // what the digest is for
}

TEST(Manifest, EveryFieldMutatedToNonsenseIsRefused) {
  const struct {
    const char* name;
    void (*mutate)(Manifest&);
  } cases[] = {
      {"uuid", [](Manifest& m) { m.uuid = "xyz"; }},
      {"negative step", [](Manifest& m) { m.scalars.step = -1; }},
      {"file name with a folder", [](Manifest& m) { m.files[0].name = "a/b"; }},
      {"file name of the parent", [](Manifest& m) { m.files[0].name = ".."; }},
      {"empty file name", [](Manifest& m) { m.files[0].name = ""; }},
      {"file name of the manifest", [](Manifest& m) { m.files[0].name = "manifest.json"; }},
      {"two files of one name", [](Manifest& m) { m.files[1].name = "s0"; }},
      {"files out of order", [](Manifest& m) { m.files[0].name = "z"; }},
      {"negative length", [](Manifest& m) { m.files[0].size = -1; }},
      {"missing checksum", [](Manifest& m) { m.files[0].crc32c.clear(); }},
      {"surplus checksum", [](Manifest& m) { m.files[0].crc32c.push_back(0); }},
      {"two tensors of one name", [](Manifest& m) { m.tensors[1].info.name = "w"; }},
      {"negative extent", [](Manifest& m) { m.tensors[0].info.shape[0] = -4; }},
      {"shape overflows", [](Manifest& m) { m.tensors[0].info.shape = {INT64_MAX, INT64_MAX}; }},
      {"other dtype", [](Manifest& m) { m.tensors[0].info.dtype = Dtype::f64; }},
      {"larger shape", [](Manifest& m) { m.tensors[0].info.shape = {5, 6}; }},
      {"no boxes", [](Manifest& m) { m.tensors[0].boxes.clear(); }},
      {"box missing", [](Manifest& m) { m.tensors[0].boxes.pop_back(); }},
      {"box of other dims", [](Manifest& m) { m.tensors[0].boxes[0].box = {{0}, {6}}; }},
      {"box outside", [](Manifest& m) { m.tensors[0].boxes[1].box.offset[0] = 2; }},
      {"boxes overlap", [](Manifest& m) { m.tensors[0].boxes[1].box.offset[0] = 0; }},
      {"negative offset", [](Manifest& m) { m.tensors[0].boxes[0].box.offset[0] = -1; }},
      {"offset near 2^63", [](Manifest& m) { m.tensors[0].boxes[0].box.offset[0] = INT64_MAX; }},
      {"file index", [](Manifest& m) { m.tensors[0].boxes[0].file = 2; }},
      {"range outside the file", [](Manifest& m) { m.tensors[0].boxes[0].end = 101; }},
      {"range reversed", [](Manifest& m) { m.tensors[0].boxes[0].begin = 25; }},
      {"range of another length", [](Manifest& m) { m.tensors[0].boxes[0].end = 20; }},
      {"ranges overlap",
       [](Manifest& m) { m.tensors[1].boxes[0].begin -= 1, m.tensors[1].boxes[0].end -= 1; }},
  };
  ASSERT_TRUE(check_manifest(small_manifest()).ok());
  for (const auto& c : cases) {
    Manifest m = small_manifest();
    c.mutate(m);
    EXPECT_FALSE(check_manifest(m).ok()) << c.name;
    EXPECT_FALSE(manifest_text(m).ok()) << c.name;
  }
}

TEST(Manifest, OtherJsonIsRefusedWithAReason) {
  for (const char* text : {"", "{", "null", "[]", "{}", "{\"format\":1}", "{\"format\":\"x\"}",
                           "{\"format\":\"muster-checkpoint-1\",\"xxh3\":\"\",\"body\":[]}"}) {
    const auto parsed = parse_manifest(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code(), Code::corrupt);
  }
}

TEST(ShardReport, IsReadBackAndNonsenseIsRefused) {
  const Manifest m = small_manifest();
  const ShardReport report{m.uuid, 3, m.files[1], m.tensors};
  const ShardReport back = decode_report(encode_report(report)).value();
  EXPECT_EQ(back.uuid, report.uuid);
  EXPECT_EQ(back.shard, 3);
  EXPECT_EQ(back.file, report.file);
  EXPECT_EQ(back.tensors, report.tensors);
  for (const char* text :
       {"", "{}", "[1]", "{\"uuid\":\"\",\"shard\":0,\"file\":[],\"tensors\":[]}"})
    EXPECT_FALSE(decode_report(text).ok()) << text;
}

TEST(Base64, IsStrict) {
  for (const std::string bytes : {"", "a", "ab", "abc", "abcd"})
    EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
  EXPECT_EQ(base64_encode("ab"), "YWI=");
  for (const char* text : {"YWI", "YWJ=", "YW=I", "====", "Y===", "YWI=YWI=", "YW I", "YWI\n"})
    EXPECT_FALSE(base64_decode(text).has_value()) << text;
}

TEST(Box, CoverageIsProved) {
  const std::vector<int64_t> shape = {4, 4};
  const auto ok = [&](const std::vector<Box>& boxes) {
    return check_coverage(boxes, shape, "t").ok();
  };
  EXPECT_TRUE(ok({{{0, 0}, {4, 4}}}));
  EXPECT_TRUE(ok({{{0, 0}, {2, 2}}, {{0, 2}, {2, 2}}, {{2, 0}, {2, 4}}}));
  EXPECT_TRUE(ok({{{0, 0}, {4, 4}}, {{1, 1}, {0, 2}}}));  // an empty box covers nothing
  EXPECT_FALSE(ok({}));
  EXPECT_FALSE(ok({{{0, 0}, {4, 3}}}));
  EXPECT_FALSE(ok({{{0, 0}, {4, 4}}, {{3, 3}, {1, 1}}}));
  // Volumes add up, but one element is covered twice and one not at all.
  EXPECT_FALSE(ok({{{0, 0}, {4, 3}}, {{0, 2}, {4, 1}}}));
  EXPECT_TRUE(check_coverage({{{}, {}}}, {}, "scalar").ok());
  EXPECT_FALSE(check_coverage({{{}, {}}, {{}, {}}}, {}, "scalar").ok());
  EXPECT_TRUE(check_coverage({}, {0, 3}, "empty").ok());
}

TEST(State, ShardsDivideTheBytesEvenlyAndCompletely) {
  TestState state(small_specs(), 1);
  for (int shards = 1; shards <= 9; ++shards) {
    std::map<std::string, std::vector<Box>> boxes;
    int64_t most = 0, total = 0;
    for (int shard = 0; shard < shards; ++shard) {
      int64_t bytes = 0;
      for (const StateSlice& slice : slices_of_shard(state.state, shard, shards)) {
        EXPECT_TRUE(is_contiguous(slice.box, slice.info.shape));
        boxes[slice.info.name].push_back(slice.box);
        bytes += elements_of(slice.box) * dtype_bytes(slice.info.dtype);
      }
      most = std::max(most, bytes);
      total += bytes;
    }
    for (const StateTensor& tensor : state.state.tensors)
      EXPECT_TRUE(
          check_coverage(boxes[tensor.info.name], tensor.info.shape, tensor.info.name).ok());
    EXPECT_LE(most, total / shards + 128) << shards;  // within two rows of even
  }
}

}  // namespace
}  // namespace muster
