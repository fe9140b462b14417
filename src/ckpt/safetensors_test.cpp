#include "ckpt/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/philox.h"
#include "sys/real_files.h"
#include "sys/sim_files.h"

namespace muster {
namespace {

std::string file_of(std::string_view json, size_t data_bytes) {
  const uint64_t length = json.size();
  std::string file(reinterpret_cast<const char*>(&length), 8);
  file += json;
  file.append(data_bytes, 'd');
  return file;
}

Result<SafetensorsHeader> parse(std::string_view file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size(), "t");
}

constexpr std::string_view kGood =
    R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"BF16","shape":[],"data_offsets":[24,26]}})";

TEST(Safetensors, AValidHeaderIsRead) {
  const auto header = parse(file_of(kGood, 26)).value();
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.metadata.at("k"), "v");
  const SafetensorsTensor& a = *header.find("a");
  EXPECT_EQ(a.dtype, Dtype::f32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(a.begin, 8 + kGood.size());
  EXPECT_EQ(header.find("b")->bytes(), 2u);
  EXPECT_EQ(header.find("c"), nullptr);
}

TEST(Safetensors, WhatTheFormatAllowsIsAccepted) {
  const struct {
    const char* name;
    std::string json;
    size_t data;
  } cases[] = {
      {"no tensors", "{}", 0},
      {"padding", "{}     ", 0},
      {"white space",
       "{ \"a\" : { \"dtype\" : \"U8\" ,\n\"shape\":[ 1 ],\"data_offsets\":[0 ,1] } }", 1},
      {"empty tensor", R"({"e":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}})", 0},
      {"fields in another order", R"({"a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}})", 1},
      {"names out of data order",
       R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       2},
      {"escapes", R"({"\u00e9\ud83d\ude00\n":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1},
  };
  for (const auto& c : cases) {
    const auto header = parse(file_of(c.json, c.data));
    EXPECT_TRUE(header.ok()) << c.name << ": " << header.error().to_string();
  }
  EXPECT_EQ(parse(file_of(cases[6].json, 1)).value().tensors[0].name, "\u00e9\U0001F600\n");
}

TEST(Safetensors, HostileHeadersAreRefused) {
  const auto one = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  const struct {
    const char* name;
    std::string json;
    size_t data;
    const char* says;
  } cases[] = {
      {"not an object", "[]", 0, "'{'"},
      {"leading space", " {}", 0, "'{'"},
      {"trailing bytes", "{}x", 0, "bytes follow"},
      {"zero padding", std::string("{}\0", 3), 0, "bytes follow"},
      {"unclosed", "{\"a\":", 0, "expected"},
      {"duplicate name",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0, "twice"},
      {"same name, other spelling",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0, "twice"},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"},
      {"metadata key twice", R"({"__metadata__":{"a":"1","a":"1"}})", 0, "twice"},
      {"metadata value not text", R"({"__metadata__":{"a":1}})", 0, "'\"' expected"},
      {"repeated field", one(R"("dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0])"), 0,
       "repeated"},
      {"unknown field", one(R"("dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1)"), 0,
       "unknown"},
      {"missing field", one(R"("dtype":"U8","shape":[0])"), 0, "missing"},
      {"unknown dtype", one(R"("dtype":"F33","shape":[0],"data_offsets":[0,0])"), 0, "F33"},
      {"negative extent", one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,0])"), 0, "integer"},
      {"fraction", one(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1, "integer"},
      {"leading zero", one(R"("dtype":"U8","shape":[01],"data_offsets":[0,1])"), 1, "leading zero"},
      {"above 2^64", one(R"("dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1])"), 1,
       "above"},
      {"shape overflows to 0",
       one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0, "2^63"},
      {"shape and range differ", one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4,
       "need 8"},
      {"range reversed", one(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1, "range"},
      {"range near 2^64",
       one(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615])"),
       1, "begin at 0"},
      {"hole before", one(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2, "begin at 0"},
      {"behind the end", one(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"), 1, "truncated"},
      {"bytes left over", one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 2, "end at 1"},
      {"overlap",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "begin at 2"},
      {"invalid UTF-8", "{\"\xC3\x28\":{}}", 0, "UTF-8"},
      {"overlong UTF-8", "{\"\xC0\x80\":{}}", 0, "UTF-8"},
      {"surrogate in UTF-8", "{\"\xED\xA0\x80\":{}}", 0, "UTF-8"},
      {"lone surrogate", R"({"\ud800":{}})", 0, "surrogate"},
      {"control character", "{\"a\nb\":{}}", 0, "control"},
      {"deep nesting", "{\"a\":" + std::string(100'000, '['), 0, "expected"},
  };
  for (const auto& c : cases) {
    const auto header = parse(file_of(c.json, c.data));
    ASSERT_FALSE(header.ok()) << c.name;
    EXPECT_EQ(header.error().code(), Code::corrupt) << c.name;
    EXPECT_NE(header.error().to_string().find(c.says), std::string::npos)
        << c.name << ": " << header.error().to_string();
  }
}

TEST(Safetensors, HostileLengthsAreRefused) {
  std::string file = file_of(kGood, 26);
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, kMaxSafetensorsHeader + 1,
                                uint64_t{kGood.size() + 27}, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::memcpy(file.data(), &length, 8);
    EXPECT_FALSE(parse(file).ok()) << length;
  }
  for (size_t size = 0; size < 8; ++size) EXPECT_FALSE(parse(std::string(size, '\0')).ok());
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string file = file_of(kGood, 26);
  ASSERT_TRUE(parse(file).ok());
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_FALSE(parse(std::string_view(file).substr(0, size)).ok()) << size;
}

// Every byte of the header changed to every other value: the parser must refuse the file or read
// ranges that still tile it.
TEST(Safetensors, EveryOneByteMutationIsRefusedOrHarmless) {
  const std::string good = file_of(kGood, 26);
  int accepted = 0;
  for (size_t at = 0; at < good.size() - 26; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string file = good;
      if (static_cast<uint8_t>(file[at]) == value) continue;
      file[at] = static_cast<char>(value);
      const auto header = parse(file);
      if (!header.ok()) continue;
      ++accepted;
      uint64_t end = header->data_begin;
      for (const auto& tensor : header->tensors) {
        ASSERT_EQ(tensor.begin, end) << at << " " << value;
        ASSERT_EQ(tensor.bytes(), tensor_bytes(tensor.dtype, tensor.shape).value());
        end = tensor.end;
      }
      ASSERT_EQ(end, file.size());
    }
  }
  EXPECT_GT(accepted, 0);  // names and metadata may change
}

// Random splices of the header's own tokens: the deterministic small form of the fuzzer.
TEST(Safetensors, RandomTokenSplicesNeverBreakTheParser) {
  const std::string_view tokens[] = {"{",
                                     "}",
                                     "[",
                                     "]",
                                     ",",
                                     ":",
                                     "\"a\"",
                                     "\"dtype\"",
                                     "\"U8\"",
                                     "\"shape\"",
                                     "\"data_offsets\"",
                                     "0",
                                     "1",
                                     "-1",
                                     "\"\\u",
                                     "18446744073709551615",
                                     "\"__metadata__\"",
                                     " "};
  for (uint64_t i = 0; i < 20'000; ++i) {
    std::string json(kGood);
    for (uint64_t edit = 0; edit <= philox_below(3, 1, i, 0); ++edit) {
      const uint64_t at = philox_below(json.size(), 2, i, edit * 64);
      const uint64_t gone = philox_below(12, 3, i, edit * 64);
      json.replace(at, gone, tokens[philox_below(std::size(tokens), 4, i, edit * 64)]);
    }
    const auto header = parse(file_of(json, 26));
    if (header.ok()) {
      EXPECT_EQ(header->tensors.empty() ? 0 : header->tensors.back().end, header->file_size);
    }
  }
}

TEST(Safetensors, TheWriterAlignsDataAndItsFileIsReadBack) {
  SimClock clock;
  SimFiles files(clock);
  const std::vector<SafetensorsTensor> tensors = {
      {"small", Dtype::f32, {3}, 0, 0}, {"page", Dtype::u8, {8192}, 0, 0},
      {"empty", Dtype::f64, {0}, 0, 0}, {"half", Dtype::u8, {2048}, 0, 0},
      {"odd", Dtype::u8, {7}, 0, 0},    {"caf\u00e9 \"q\"", Dtype::i64, {1}, 0, 0},
  };
  std::vector<std::vector<std::byte>> data;
  std::vector<std::span<const std::byte>> spans;
  for (const auto& tensor : tensors)
    data.emplace_back(tensor_bytes(tensor.dtype, tensor.shape).value(),
                      static_cast<std::byte>(data.size() + 1));
  spans.assign(data.begin(), data.end());
  ASSERT_TRUE(write_safetensors(files, "f", tensors, spans, {{"format", "pt"}}).ok());

  SafetensorsFile file = SafetensorsFile::open(files, "f").value();
  EXPECT_EQ(file.header().data_begin % 4096, 0u);
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  EXPECT_EQ(file.header().tensors[1].name, "page");
  EXPECT_EQ(file.header().tensors[2].name, "half");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const SafetensorsTensor* tensor = file.header().find(tensors[i].name);
    ASSERT_NE(tensor, nullptr) << tensors[i].name;
    EXPECT_EQ(tensor->begin % dtype_bytes(tensor->dtype), 0u);
    std::vector<std::byte> read(tensor->bytes());
    ASSERT_TRUE(file.read(*tensor, 0, read).ok());
    EXPECT_EQ(read, data[i]);
    EXPECT_FALSE(file.read(*tensor, 1, read).ok() && !read.empty());
  }
}

TEST(Safetensors, TheWriterRefusesBadNamesAndShapes) {
  const auto code = [](std::vector<SafetensorsTensor> tensors) {
    const auto layout = lay_out_safetensors(std::move(tensors), {});
    return layout.ok() ? Code::internal : layout.error().code();
  };
  EXPECT_EQ(code({{"a", Dtype::u8, {1}, 0, 0}, {"a", Dtype::u8, {1}, 0, 0}}),
            Code::invalid_argument);
  EXPECT_EQ(code({{"__metadata__", Dtype::u8, {1}, 0, 0}}), Code::invalid_argument);
  EXPECT_EQ(code({{"a", Dtype::u8, {-1}, 0, 0}}), Code::invalid_argument);
  EXPECT_EQ(code({{"a", Dtype::f64, {INT64_MAX, 2}, 0, 0}}), Code::invalid_argument);
}

TEST(Safetensors, FilesOfTheReferenceLibraryAreAccepted) {
  const char* shared = std::getenv("MUSTER_SHARED");
  const std::string root =
      std::string(shared != nullptr ? shared : MUSTER_SOURCE_DIR "/../shared") + "/oracles/model";
  if (!std::filesystem::is_directory(root)) GTEST_SKIP() << "no shared data at " << root;
  RealFiles files("");
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = SafetensorsFile::open(files, entry.path().string());
    EXPECT_TRUE(file.ok()) << file.error().to_string();
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(Safetensors, TheReferenceLibraryReadsOurFiles) {
  const char* chosen = std::getenv("MUSTER_PYTHON");
  const std::string python = chosen != nullptr ? chosen : MUSTER_SOURCE_DIR "/.venv/bin/python";
  if (std::system((python + " -c 'import safetensors, numpy' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << python << " has no safetensors";
  RealFiles files("");
  char folder[] = "/tmp/muster-safetensors-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/f.safetensors";
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  const std::vector<std::byte> page(4096, std::byte{7});
  ASSERT_TRUE(write_safetensors(files, path,
                                {{"n[0:2]", Dtype::f32, {2, 3}, 0, 0},
                                 {"page", Dtype::u8, {4096}, 0, 0},
                                 {"none", Dtype::f64, {0}, 0, 0}},
                                {std::as_bytes(std::span(numbers)), page, {}}, {{"k", "v"}})
                  .ok());
  const std::string script =
      "import sys; from safetensors import safe_open; f = safe_open(sys.argv[1], 'np'); "
      "assert f.metadata() == {'k': 'v'}; "
      "assert f.get_tensor('n[0:2]').tolist() == [[1, 2, 3], [4, 5, 6]]; "
      "assert f.get_tensor('page').sum() == 7 * 4096; assert f.get_tensor('none').shape == (0,)";
  EXPECT_EQ(std::system((python + " -c \"" + script + "\" " + path).c_str()), 0);
  EXPECT_TRUE(remove_tree(files, folder).ok());
}

}  // namespace
}  // namespace muster
