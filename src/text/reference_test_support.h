// For this room's tests: runs reference.py with MUSTER_PYTHON (default .venv/bin/python of the
// checkout), and makes texts that splitting and merging find hard.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace muster::test {

inline std::string environment_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

inline std::string python() {
  return environment_or("MUSTER_PYTHON", MUSTER_SOURCE_DIR "/.venv/bin/python");
}
inline std::string shared_folder() {
  return environment_or("MUSTER_SHARED", MUSTER_SOURCE_DIR "/../shared");
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

using Ids = std::vector<uint32_t>;

inline void write_records(const std::string& path, const std::vector<std::string>& records) {
  std::string all;
  for (const std::string& record : records) {
    const uint64_t size = record.size();
    all.append(reinterpret_cast<const char*>(&size), 8);
    all += record;
  }
  write_bytes(path, all);
}
inline std::vector<std::string> read_records(const std::string& path) {
  const std::string all = read_bytes(path);
  std::vector<std::string> records;
  for (size_t at = 0; at + 8 <= all.size();) {
    uint64_t size;
    std::memcpy(&size, all.data() + at, 8);
    records.push_back(all.substr(at + 8, size));
    at += 8 + size;
  }
  return records;
}
inline Ids as_ids(const std::string& bytes) {
  Ids ids(bytes.size() / 4);
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), ids.size() * 4);
  return ids;
}

// A folder of its own, removed with everything in it.
class Reference {
 public:
  Reference() {
    char name[] = "/tmp/muster-text-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Reference() { [[maybe_unused]] const int ignored = std::system(("rm -rf " + folder_).c_str()); }

  // Why tests with the reference cannot run here; empty when they can.
  std::string missing() const {
    if (access(python().c_str(), X_OK) != 0) return "no Python at " + python();
    if (std::system((python() + " -c 'import tokenizers' 2>/dev/null").c_str()) != 0)
      return "no tokenizers package for " + python();
    return "";
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  bool call(const std::string& words) const {
    const std::string line =
        python() + " " MUSTER_SOURCE_DIR "/src/text/reference.py " + words + " >&2";
    return std::system(line.c_str()) == 0;
  }

  // Ids of `texts` by the reference. `words`: "recognise", "around" or both.
  std::vector<Ids> encode(const std::string& tokenizer_json, const std::vector<std::string>& texts,
                          const std::string& words) const {
    write_bytes(path("tokenizer.json"), tokenizer_json);
    write_records(path("texts"), texts);
    EXPECT_TRUE(call("encode " + path("tokenizer.json") + " " + path("texts") + " " + path("ids") +
                     " " + words));
    std::vector<Ids> all;
    for (const std::string& record : read_records(path("ids"))) all.push_back(as_ids(record));
    return all;
  }

 private:
  std::string folder_;
};

// Texts around every border that splitting, caching and merging have.
inline std::vector<std::string> hard_texts() {
  std::vector<std::string> texts = {
      "",
      " ",
      "  ",
      "\n",
      "\r\n",
      "a",
      "Hello, world!",
      "  leading and trailing  ",
      "tabs\tand\t\ttabs \t mixed\t \tx",
      "line\nline\r\nline\n\n\nline \n \n x\n  y\r\r\nz",
      " \n\n  \n word   \n",
      "It's I'll you're we've I'd don't I'm IT'S I'LL YOU'RE WE'VE I'D DON'T I'M 'S 'tis 'Ve'rE 'x "
      "'' '",
      "'\u017f don'\u017ft",
      "1 12 123 1234 12345 123456 1234567 x1 1x ½⅓²³ ٣٤٥ 一二三 ⅷ",
      "!?.,;:()[]{}<>@#$%^&*-_=+|\\/~`\"",
      "a!b !c !!d\n!!\n\n ?\r\n?x ??\n",
      "snake_case camelCase x_1 __init__(self) -> None: ...",
      "\u00a0nbsp\u00a0\u00a0x\u3000ideographic\u3000\u3000space\u2003em\u2028line\u2029para\u0085n"
      "el",
      "\u200bzero\u200dwidth\u200c joiner\ufeffbom",
      "日本語のテキスト。漢字かな交じり文、カタカナも。「引用」１２３ＡＢＣ",
      "中文文本没有空格,标点符号。繁體字與簡體字。",
      "한국어 텍스트 조합형 \u1112\u1161\u11ab",
      "Привет, мир! Ελληνικά العربية עברית हिन्दी ไทย",
      "e\u0301 n\u0303 a\u0308\u0304 Å Å",
      "😀👍🏽👩‍👩‍👧‍👦🇩🇪🏴󠁧󠁢󠁥󠁮󠁧󠁿 ☃️ 1️⃣",
      "\u0378\ue000\U000F0000\U0010ffff\U0001ffff unassigned",
      "\U00020000\U0002a6df\U00030000 rare han \U000323af",
      std::string("nul\0byte\x01\x7f", 11),
      "exactly15bytes! exactly16bytes!! exactlyfifteenb exactlysixteenby",
      "<|endoftext|> <fim_prefix><fim_middle> <|begin_of_text|> <|eot_id|>x<|",
      "https://example.org/a/b?c=d&e=f#g 2024-01-02T03:04:05Z 3.14159e-10 0xDEADBEEF",
      "\xff invalid \xc3\x28 \xe2\x82 \xf0\x9f\x98 \xed\xa0\x80 \xc0\xaf \xf5\x80 \xe2",
  };
  for (const size_t length : {7u, 8u, 15u, 16u, 17u, 31u, 32u, 33u, 63u, 64u, 65u, 127u, 128u, 255u,
                              256u, 4095u, 4097u}) {
    texts.push_back(std::string(length, 'a'));
    texts.push_back(std::string(length, ' '));
    texts.push_back(std::string(length, ' ') + "x");
    texts.push_back(std::string(length, '\n') + "x");
    texts.push_back(std::string(length, '-'));
    texts.push_back(std::string(length, '7'));
    std::string han, alternating;
    for (size_t i = 0; i < length; ++i) {
      han += "的";
      alternating += i % 2 == 0 ? "a" : "b";
    }
    texts.push_back(han);
    texts.push_back(alternating);
  }
  return texts;
}

// Random text of characters that borders are made of; valid UTF-8.
inline std::string random_text(std::mt19937& random, size_t characters) {
  static const std::vector<std::string> alphabet = {
      "a",      "b",      "e",    "s",    "t",      "Z",      "l",     "v",      "r",   "d",
      "m",      "S",      "L",    "'",    "'",      "1",      "2",     "9",      " ",   " ",
      " ",      "\n",     "\r",   "\t",   "\v",     "!",      ".",     "_",      "-",   "\u00a0",
      "\u3000", "\u2028", "é",    "ß",    "\u017f", "д",      "の",    "漢",     "字",  "は",
      "한",     "\u0301", "½",    "٣",    "😀",     "\u200d", "𠀀",    "\u00ad", "the", "ing",
      " of",    "  ",     "\r\n", "\x7f", "{",      "=",      "\u0085"};
  std::string text;
  for (size_t i = 0; i < characters; ++i) text += alphabet[random() % alphabet.size()];
  return text;
}

}  // namespace muster::test
