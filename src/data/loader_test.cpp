#include "data/loader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "sys/real_files.h"
#include "text/tokenizer.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "muster-data-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((fs::path(path_) / name).parent_path());
    std::ofstream(fs::path(path_) / name, std::ios::binary) << text;
    return path_ + "/" + name;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void encode_bytes(std::string_view text, std::vector<int32_t>& ids) {
  for (const char c : text) ids.push_back(10 + static_cast<unsigned char>(c));
}
DocumentEncoder encoder(int64_t length) {
  return DocumentEncoder(encode_bytes, {0, 1, 2, 3}, 0.5, length);
}

Result<Corpus> open_corpus(Files& files, const CorpusSpec& spec) {
  RealRandom random;
  return Corpus::open(files, random, spec);
}

CorpusSpec folder_spec(const Folder& folder) {
  CorpusSpec spec;
  spec.kind = CorpusSpec::Kind::files;
  spec.paths = {folder.path()};
  spec.held_out_share = 0;
  return spec;
}

TEST(Corpus, SkipsWhatIsNotTextAndSaysSo) {
  const Folder folder;
  folder.write("a.py", "a = 1\n");
  folder.write("deep/b.py", "b = 2\n");
  folder.write("deep/test/c.py", "c = 3\n");
  folder.write("idlelib/d.py", "d = 4\n");
  folder.write("site-packages/e.py", "e = 5\n");
  folder.write("latin1.py", "caf\xe9\n");
  folder.write("empty.py", "");
  folder.write("notes.txt", "no python");
  fs::create_symlink("a.py", folder.path() + "/link.py");
  RealFiles files("");
  CorpusSpec spec = folder_spec(folder);
  spec.kind = CorpusSpec::Kind::stdlib;
  const Corpus corpus = open_corpus(files, spec).value();
  EXPECT_EQ(corpus.size(Corpus::Part::train), 2);
  EXPECT_EQ(corpus.read(Corpus::Part::train, 0).value(), "a = 1\n");
  EXPECT_EQ(corpus.read(Corpus::Part::train, 1).value(), "b = 2\n");
  EXPECT_EQ(corpus.counts().skipped_links, 1);
  EXPECT_EQ(corpus.counts().skipped_not_utf8, 1);
  EXPECT_EQ(corpus.counts().skipped_empty, 1);
  EXPECT_EQ(corpus.counts().skipped_folders, 3);
  EXPECT_EQ(corpus.counts().skipped_names, 1);
  EXPECT_EQ(corpus.counts().skipped_text(),
            "1 symbolic links, 1 not UTF-8, 1 empty, 3 folders by name, 1 files by ending");
}

// Every entry of a folder is either read or counted.
TEST(Corpus, CountsWhatIsNoFileAndWhatIsHidden) {
  const Folder folder;
  folder.write("a.txt", "text");
  folder.write(".git/config", "x");
  folder.write("deep/__pycache__/a.pyc", "x");
  ASSERT_EQ(mkfifo((folder.path() + "/fifo").c_str(), 0600), 0);
  RealFiles files("");
  const Corpus corpus = open_corpus(files, folder_spec(folder)).value();
  EXPECT_EQ(corpus.size(Corpus::Part::train), 1);
  EXPECT_EQ(corpus.counts().skipped_folders, 2);
  EXPECT_EQ(corpus.counts().skipped_special, 1);
}

TEST(Corpus, SkipsADocumentThatIsTooLargeToEncode) {
  const Folder folder;
  folder.write("a.txt", "text");
  folder.write("huge.txt", "");
  fs::resize_file(folder.path() + "/huge.txt", kMaxTextBytes + 1);  // a hole, no room on the disk
  RealFiles files("");
  const Corpus corpus = open_corpus(files, folder_spec(folder)).value();
  EXPECT_EQ(corpus.size(Corpus::Part::train), 1);
  EXPECT_EQ(corpus.counts().skipped_too_large, 1);
}

TEST(Corpus, APathThatIsGivenAndCannotBeReadIsAnError) {
  const Folder folder;
  const std::string fifo = folder.path() + "/fifo.jsonl";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink(fifo, folder.path() + "/link.jsonl");
  folder.write("good.txt", "text");
  RealFiles files("");
  const struct {
    const char* name;
    std::string path;
    CorpusSpec::Kind kind;
    const char* want;
  } cases[] = {
      {"a FIFO", fifo, CorpusSpec::Kind::files, "is a FIFO, socket or device"},
      {"a FIFO of lines", fifo, CorpusSpec::Kind::jsonl, "is a FIFO, socket or device"},
      {"a link to a FIFO", folder.path() + "/link.jsonl", CorpusSpec::Kind::jsonl, "fifo.jsonl"},
      {"a file whose bytes cannot be read", "/proc/self/mem", CorpusSpec::Kind::files, "read"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    CorpusSpec spec = folder_spec(folder);
    spec.kind = c.kind;
    spec.paths = {folder.path() + "/good.txt", c.path};
    const auto corpus = open_corpus(files, spec);
    ASSERT_FALSE(corpus.ok());
    EXPECT_NE(corpus.error().to_string().find(c.want), std::string::npos)
        << corpus.error().to_string();
  }
}

TEST(Corpus, RunDirectoriesInsideItAreSkippedAndCounted) {
  const Folder folder;
  folder.write("a.py", "a = 1\n");
  folder.write("config.toml", "the project's own");
  folder.write("logs/run.log", "the project's own too");
  folder.write("runs/one/config.toml", "steps = 3\n");
  folder.write("runs/one/config-origins.json", "{}");
  folder.write("runs/one/logs/attempt_0/0/stderr.log", "step 1\n");
  folder.write("runs/one/report.md", "# one\n");
  folder.write("job/events.sqlite", "SQLite");
  folder.write("job/logs/0.log", "hello\n");
  RealFiles files("");
  const Corpus corpus = open_corpus(files, folder_spec(folder)).value();
  EXPECT_EQ(corpus.size(Corpus::Part::train), 3);
  EXPECT_EQ(corpus.counts().skipped_runs, 2);
  // What a run writes changes nothing.
  folder.write("runs/one/report.md", "# changed\n");
  EXPECT_EQ(open_corpus(files, folder_spec(folder))->fingerprint(), corpus.fingerprint());
}

TEST(Corpus, AnEmptyOrMissingCorpusIsAnErrorThatSaysWhy) {
  const Folder folder;
  RealFiles files("");
  const auto empty = open_corpus(files, folder_spec(folder));
  ASSERT_FALSE(empty);
  EXPECT_NE(empty.error().to_string().find("no document to train on"), std::string::npos);
  CorpusSpec missing = folder_spec(folder);
  missing.paths = {folder.path() + "/none"};
  EXPECT_EQ(open_corpus(files, missing).error().code(), Code::not_found);
}

TEST(Corpus, HoldsOutTheSameDocumentsWhateverElseItHolds) {
  const Folder small, large;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "f" + std::to_string(i) + ".py";
    large.write(name, "x = " + std::to_string(i));
    if (i < 100) small.write(name, "x = " + std::to_string(i));
  }
  RealFiles files("");
  CorpusSpec spec = folder_spec(small);
  spec.held_out_share = 0.2;
  const Corpus a = open_corpus(files, spec).value();
  spec.paths = {large.path()};
  const Corpus b = open_corpus(files, spec).value();
  EXPECT_GT(a.size(Corpus::Part::held_out), 5);
  EXPECT_NEAR(static_cast<double>(b.size(Corpus::Part::held_out)), 60, 25);
  std::set<uint64_t> held_out;
  for (int64_t i = 0; i < b.size(Corpus::Part::held_out); ++i)
    held_out.insert(b.id(Corpus::Part::held_out, i));
  for (int64_t i = 0; i < a.size(Corpus::Part::held_out); ++i) {
    EXPECT_EQ(held_out.count(a.id(Corpus::Part::held_out, i)), 1u);
  }
}

TEST(Corpus, TheTailIsCutAtTheShareOfBytes) {
  const Folder folder;
  folder.write("one.txt", "0123456789\xc3\xa9" + std::string(8, 'z'));  // 20 bytes, é at 10
  RealFiles files("");
  CorpusSpec spec = folder_spec(folder);
  spec.hold_out = CorpusSpec::HoldOut::tail;
  const struct {
    double share;
    size_t train;
  } cases[] = {{0.1, 18}, {0.45, 10}, {0.9, 2}};  // 0.45 would cut inside é
  for (const auto& c : cases) {
    spec.held_out_share = c.share;
    const Corpus corpus = open_corpus(files, spec).value();
    const std::string train = corpus.read(Corpus::Part::train, 0).value();
    const std::string held_out = corpus.read(Corpus::Part::held_out, 0).value();
    EXPECT_EQ(train.size(), c.train) << c.share;
    EXPECT_EQ(train.size() + held_out.size(), 20u);
    EXPECT_EQ(corpus.counts().held_out_bytes, static_cast<int64_t>(held_out.size()));
  }
}

TEST(Corpus, TheFingerprintFollowsNamesAndContents) {
  const Folder a, b;
  a.write("x.py", "1");
  b.write("x.py", "1");
  RealFiles files("");
  const Hash128 same = open_corpus(files, folder_spec(a)).value().fingerprint();
  EXPECT_EQ(open_corpus(files, folder_spec(b)).value().fingerprint(), same);
  b.write("x.py", "2");
  EXPECT_NE(open_corpus(files, folder_spec(b)).value().fingerprint(), same);
}

TEST(Corpus, AFileThatChangesUnderARunIsNoticed) {
  const Folder folder;
  folder.write("x.py", "one");
  RealFiles files("");
  const Corpus corpus = open_corpus(files, folder_spec(folder)).value();
  folder.write("x.py", "two");
  EXPECT_EQ(corpus.read(Corpus::Part::train, 0).error().code(), Code::corrupt);
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

TEST(Corpus, ReadsJsonlPlainAndCompressedAlike) {
  const std::string lines =
      "{\"text\": \"first \\u00e9\", \"n\": 1}\n\n{\"text\": \"second\"}\nnot json\n{\"other\": "
      "1}\n{\"text\": \"\"}\n{\"text\": \"last\"}";
  const Folder plain, packed, cache;
  plain.write("d.jsonl", lines);
  // Two frames, as parallel compressors write them.
  packed.write("d.jsonl.zst", zstd(lines.substr(0, 40)) + zstd(lines.substr(40)));
  RealFiles files("");
  for (const Folder* folder : {&plain, &packed}) {
    CorpusSpec spec = folder_spec(*folder);
    spec.kind = CorpusSpec::Kind::jsonl;
    spec.cache_folder = cache.path() + "/spool";
    const Corpus corpus = open_corpus(files, spec).value();
    ASSERT_EQ(corpus.size(Corpus::Part::train), 3);
    EXPECT_EQ(corpus.read(Corpus::Part::train, 0).value(), "first é");
    EXPECT_EQ(corpus.read(Corpus::Part::train, 2).value(), "last");
    EXPECT_EQ(corpus.counts().skipped_bad_lines, 2);
    EXPECT_EQ(corpus.counts().skipped_empty, 1);
  }
}

TEST(Corpus, ADamagedArchiveOfAFolderIsSkippedAndCounted) {
  const Folder folder, cache;
  folder.write("a.jsonl", "{\"text\": \"good\"}\n");
  folder.write("b.jsonl.zst", "not zstd at all");
  folder.write("c.txt", "of another kind");
  RealFiles files("");
  CorpusSpec spec = folder_spec(folder);
  spec.kind = CorpusSpec::Kind::jsonl;
  spec.cache_folder = cache.path();
  const Corpus corpus = open_corpus(files, spec).value();
  EXPECT_EQ(corpus.size(Corpus::Part::train), 1);
  EXPECT_EQ(corpus.counts().skipped_unreadable, 1);
  EXPECT_EQ(corpus.counts().skipped_names, 1);
  // What would fail for every file is not the file's fault.
  spec.cache_folder = "";
  EXPECT_EQ(open_corpus(files, spec).error().code(), Code::invalid_argument);
}

TEST(Corpus, ADamagedArchiveIsRefusedAndLeavesNothingInTheCache) {
  const std::string good = zstd(std::string(100000, 'x') + "\n");
  RealFiles files("");
  for (const std::string& bytes :
       {good.substr(0, good.size() - 3), std::string("not zstd at all")}) {
    const Folder folder, cache;
    CorpusSpec spec = folder_spec(folder);
    spec.paths = {folder.write("d.jsonl.zst", bytes)};
    spec.kind = CorpusSpec::Kind::jsonl;
    spec.cache_folder = cache.path();
    EXPECT_EQ(open_corpus(files, spec).error().code(), Code::corrupt);
    EXPECT_TRUE(fs::is_empty(cache.path()));
  }
}

// Threads here, ranks in life: each has drawn a name of its own.
TEST(Corpus, ManyMayUnpackTheSameFileAtOnce) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += "{\"text\": \"document " + std::to_string(i) + "\"}\n";
  const Folder folder;
  folder.write("d.jsonl.zst", zstd(lines));
  RealFiles files("");
  for (int round = 0; round < 5; ++round) {
    const Folder cache;
    CorpusSpec spec = folder_spec(folder);
    spec.kind = CorpusSpec::Kind::jsonl;
    spec.cache_folder = cache.path() + "/spool";
    std::barrier together(4);
    std::vector<std::string> outcomes(4);
    std::vector<std::thread> threads;
    for (std::string& outcome : outcomes) {
      threads.emplace_back([&] {
        together.arrive_and_wait();
        const auto corpus = open_corpus(files, spec);
        outcome = !corpus.ok() ? corpus.error().to_string()
                  : corpus->size(Corpus::Part::train) == 20000
                      ? corpus->read(Corpus::Part::train, 19999).value()
                      : "documents are missing";
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(outcomes, std::vector<std::string>(4, "document 19999"));
    const auto left = files.list(spec.cache_folder).value();
    ASSERT_EQ(left.size(), 1u) << "one unpacked file and nothing unfinished";
    EXPECT_TRUE(left[0].name.ends_with(".jsonl"));
  }
}

class LoaderOrder : public testing::Test {
 protected:
  LoaderOrder() {
    for (int i = 0; i < 23; ++i) {
      std::string text;
      for (int k = 0; k <= i * 5; ++k) text += static_cast<char>('a' + (i + k) % 26);
      folder_.write("doc" + std::to_string(i) + ".py", text);
    }
  }
  static constexpr LoaderShape kShape{16, 2, 4, 5};
  Corpus open() { return open_corpus(files_, folder_spec(folder_)).value(); }
  static Hash128 encoding() { return encoding_fingerprint({1, 2}, 0.5, kShape); }

  std::unique_ptr<Loader> start(const Corpus& corpus, LoaderCursor cursor,
                                std::vector<int64_t> wanted, int64_t budget = 1 << 20) {
    return Loader::start(corpus, encoder(kShape.sequence_length), encoding(), kShape, cursor,
                         std::move(wanted), Bytes{budget})
        .value();
  }

  Folder folder_;
  RealFiles files_{""};
};

TEST_F(LoaderOrder, IsTheSameForAnyNumberOfWorkersAndAnyBudget) {
  const Corpus corpus = open();
  const LoaderCursor zero = Loader::start_cursor(corpus, encoding(), 7);
  const auto whole = start(corpus, zero, {0, 1, 2, 3});
  const std::unique_ptr<Loader> parts[] = {start(corpus, zero, {0, 2}, 1),
                                           start(corpus, zero, {1, 3})};
  for (int step = 0; step < 40; ++step) {  // several epochs of 23 documents
    const StepBatch all = whole->next().value();
    std::vector<MicroBatch> joined;
    for (const auto& part : parts) {
      StepBatch batch = part->next().value();
      EXPECT_EQ(batch.next, all.next);
      for (MicroBatch& m : batch.micro_batches) joined.push_back(std::move(m));
    }
    ASSERT_EQ(joined.size(), all.micro_batches.size());
    std::sort(joined.begin(), joined.end(),
              [](const MicroBatch& a, const MicroBatch& b) { return a.index < b.index; });
    for (size_t i = 0; i < joined.size(); ++i) {
      EXPECT_EQ(joined[i].index, all.micro_batches[i].index);
      EXPECT_EQ(joined[i].rows.tokens, all.micro_batches[i].rows.tokens);
      EXPECT_EQ(joined[i].rows.targets, all.micro_batches[i].rows.targets);
      EXPECT_EQ(joined[i].rows.segments, all.micro_batches[i].rows.segments);
    }
  }
}

TEST_F(LoaderOrder, ResumesAtTheCursorAfterAnyStep) {
  const Corpus corpus = open();
  const auto first = start(corpus, Loader::start_cursor(corpus, encoding(), 7), {0, 1, 2, 3});
  std::vector<StepBatch> steps;
  for (int i = 0; i < 12; ++i) steps.push_back(first->next().value());
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const std::string saved = steps[i].next.to_text();
    EXPECT_LT(saved.size(), 1024u);
    const auto resumed = start(corpus, LoaderCursor::from_text(saved).value(), {0, 1, 2, 3});
    const StepBatch step = resumed->next().value();
    EXPECT_EQ(step.micro_batches[3].rows.tokens, steps[i + 1].micro_batches[3].rows.tokens);
    EXPECT_EQ(step.next, steps[i + 1].next);
  }
}

// 23 documents in groups of 5: groups 0 to 4.
TEST_F(LoaderOrder, ACursorOutsideTheDataIsCorrupt) {
  const Corpus corpus = open();
  const LoaderCursor zero = Loader::start_cursor(corpus, encoding(), 7);
  const struct {
    const char* name;
    int64_t group, sequence, taken;
    bool valid;
  } cases[] = {
      {"the last group", 4, 0, 0, true},
      {"one behind the last group", 5, 0, 0, false},
      {"a group whose place overflows", INT64_MAX / 4, 0, 0, false},
      {"a negative group", -1, 0, 0, false},
      {"a negative sequence", 0, -1, 0, false},
      {"sequences taken below zero", 0, 0, -1, false},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    LoaderCursor cursor = zero;
    cursor.group = c.group;
    cursor.sequence = c.sequence;
    cursor.sequences_taken = c.taken;
    auto loader = Loader::start(corpus, encoder(kShape.sequence_length), encoding(), kShape, cursor,
                                {0}, Bytes{1});
    EXPECT_EQ(loader.ok(), c.valid);
    if (!loader.ok()) {
      EXPECT_EQ(loader.error().code(), Code::corrupt);
    }
  }
  LoaderCursor beyond = zero;
  beyond.sequence = int64_t{1} << 40;
  EXPECT_EQ(start(corpus, beyond, {0})->next().error().code(), Code::corrupt);

  const auto text = [&](const char* key, uint64_t value) {
    auto json = nlohmann::json::parse(zero.to_text());
    json[key] = value;
    return LoaderCursor::from_text(json.dump());
  };
  for (const char* key : {"group", "sequence", "sequences_taken"}) {
    EXPECT_EQ(text(key, (uint64_t{1} << 62) + 1).error().code(), Code::corrupt) << key;
    EXPECT_EQ(text(key, UINT64_MAX).error().code(), Code::corrupt) << key;
    EXPECT_TRUE(text(key, 12).ok()) << key;
  }
}

TEST_F(LoaderOrder, AnEpochShowsEveryByteOnceAndEpochsHaveOtherOrders) {
  const Corpus corpus = open();
  std::string all;
  for (int64_t i = 0; i < corpus.size(Corpus::Part::train); ++i) {
    all += corpus.read(Corpus::Part::train, i).value();
  }
  const LoaderShape shape{16, 1, 4, 5};
  const DocumentEncoder plain(encode_bytes, {0, 1, 2, 3}, 0.0, 16);
  const auto loader =
      Loader::start(corpus, plain, encoding(), shape, Loader::start_cursor(corpus, encoding(), 7),
                    {0, 1, 2, 3}, Bytes{1000})
          .value();
  std::vector<std::string> epochs(3);
  for (bool more = true; more;) {
    const StepBatch batch = loader->next().value();
    for (const MicroBatch& m : batch.micro_batches) {
      const auto epoch = static_cast<size_t>(std::stoi(m.first_sequence));
      more = more && epoch < 2;
      if (epoch >= 2) continue;
      for (const int32_t id : m.rows.tokens) {
        if (id >= 10) epochs[epoch] += static_cast<char>(id - 10);
      }
    }
  }
  EXPECT_NE(epochs[0], epochs[1]);
  std::sort(all.begin(), all.end());
  for (size_t e = 0; e < 2; ++e) {
    std::sort(epochs[e].begin(), epochs[e].end());
    EXPECT_EQ(epochs[e], all);
  }
}

TEST_F(LoaderOrder, OtherDataIsRefused) {
  const Corpus corpus = open();
  LoaderCursor cursor = Loader::start_cursor(corpus, encoding(), 7);
  cursor.corpus.low ^= 1;
  EXPECT_FALSE(
      Loader::start(corpus, encoder(16), encoding(), kShape, cursor, {0, 1, 2, 3}, Bytes{1000}));
  cursor = Loader::start_cursor(corpus, {9, 9}, 7);
  EXPECT_FALSE(
      Loader::start(corpus, encoder(16), encoding(), kShape, cursor, {0, 1, 2, 3}, Bytes{1000}));
}

TEST_F(LoaderOrder, AnErrorWhileReadingReachesTheConsumer) {
  const Corpus corpus = open();
  for (int i = 0; i < 23; ++i) folder_.write("doc" + std::to_string(i) + ".py", "changed");
  const auto loader = start(corpus, Loader::start_cursor(corpus, encoding(), 7), {0, 1, 2, 3});
  EXPECT_EQ(loader->next().error().code(), Code::corrupt);
}

TEST(LoaderCursor, RefusesDamagedText) {
  const std::string good = LoaderCursor{1, 2, 3, 4, 5, {6, 7}, {8, 9}}.to_text();
  EXPECT_TRUE(LoaderCursor::from_text(good));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string cut = good.substr(0, i);
    EXPECT_FALSE(LoaderCursor::from_text(cut)) << cut;
  }
  for (const char* text : {"[]", "{}", "{\"version\":2}", "{\"version\":1,\"seed\":-1}"})
    EXPECT_FALSE(LoaderCursor::from_text(text));
}

}  // namespace
}  // namespace muster
