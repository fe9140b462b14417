// One save, from memory to a verified checkpoint and back; failures and their retries.
#include <gtest/gtest.h>

#include <cerrno>

#include "ckpt/digest.h"
#include "ckpt/retention.h"
#include "ckpt/scan.h"
#include "ckpt/state_rig.h"
#include "sys/real_files.h"
#include "sys/sim_files.h"

namespace muster {
namespace {

const std::string kUuid = "00112233445566778899aabbccddeeff";
const std::string kUuid2 = "ffeeddccbbaa99887766554433221100";

class SaveTest : public testing::Test {
 protected:
  SimClock clock_;
  SimFiles files_{clock_};
  TestState state_{small_specs(), 1};
  std::unique_ptr<ShardWriter> writer_ = ShardWriter::make(files_, small_ring()).value();

  std::string save(const std::string& uuid, int shards) {
    auto committed = save_all(files_, *writer_, "checkpoints", state_.state, uuid, shards);
    return committed.ok() ? committed->folder : "error: " + committed.error().to_string();
  }
  Hash128 digest_on_disk(const std::string& folder) {
    CheckpointReader reader = CheckpointReader::open(files_, folder).value();
    return digest_of(reader).value();
  }
};

TEST_F(SaveTest, TheEngineIsKnownBeforeTheFirstSave) {
  ASSERT_TRUE(files_.make_directory("run").ok());
  for (const bool refused : {false, true}) {
    files_.refuse_direct(refused);
    const auto engine = ShardWriter::probe_engine(files_, "run");
    ASSERT_TRUE(engine.ok()) << engine.error().to_string();
    EXPECT_EQ(*engine, refused ? "sim, buffered" : "sim, direct");
    EXPECT_TRUE(files_.list("run").value().empty());
    save(refused ? kUuid : kUuid2, 1);
    EXPECT_EQ(*engine, writer_->engine());
  }
  EXPECT_EQ(ShardWriter::probe_engine(files_, "none").error().code(), Code::not_found);
}

TEST_F(SaveTest, ASavedStateVerifiesAndIsRestoredExactly) {
  const std::string folder = save(kUuid, 1);
  EXPECT_EQ(folder, "checkpoints/step-00000001-" + kUuid);
  const Verdict verdict = verify_checkpoint(files_, folder, Depth::full);
  EXPECT_TRUE(verdict.valid()) << verdict.problems[0];
  EXPECT_EQ(read_file(files_, "checkpoints/LATEST").value(), "step-00000001-" + kUuid + "\n");

  TestState other(small_specs(), 9);
  CheckpointReader reader = CheckpointReader::open(files_, folder).value();
  ASSERT_TRUE(restore_state(reader, other.state).ok());
  EXPECT_EQ(other.state.scalars, state_.state.scalars);
  EXPECT_EQ(digest_of(other.state), digest_of(state_.state));
  EXPECT_EQ(reader.attachment("tokenizer.json").value(), "{\"version\":\"1.0\"}");
  EXPECT_EQ(reader.attachment("absent").error().code(), Code::not_found);
  EXPECT_EQ(files_.buffers_changed_in_flight(), 0u);
}

TEST_F(SaveTest, TheDigestDoesNotDependOnTheNumberOfShards) {
  const Hash128 wanted = digest_of(state_.state);
  std::string uuid = kUuid;
  for (const int shards : {1, 2, 3, 4, 7, 40}) {
    uuid[0] = static_cast<char>("0123456789abcdef"[shards % 16]);
    EXPECT_EQ(digest_on_disk(save(uuid, shards)), wanted) << shards;
  }
  state_.fill(2);
  EXPECT_NE(digest_of(state_.state), wanted);
}

TEST_F(SaveTest, TheDigestSeesEveryPartOfTheStateItNames) {
  const Hash128 wanted = digest_of(state_.state);
  const auto changed = [&](auto change) {
    State copy = state_.state;
    change(copy);
    return digest_of(copy) != wanted;
  };
  EXPECT_TRUE(changed([](State& s) { s.tensors[0].info.name = "x"; }));
  EXPECT_TRUE(changed([](State& s) { s.tensors[0].info.dtype = Dtype::i32; }));
  EXPECT_TRUE(changed([](State& s) {
    s.tensors[0].info.shape = {16, 50};
    s.tensors[0].held = whole_box({16, 50});
  }));
  EXPECT_TRUE(changed([](State& s) { ++s.scalars.step; }));
  EXPECT_TRUE(changed([](State& s) { ++s.scalars.schedule_step; }));
  EXPECT_TRUE(changed([](State& s) { s.scalars.loss_scale = 2; }));
  EXPECT_TRUE(changed([](State& s) { ++s.scalars.rng_seed; }));
  EXPECT_TRUE(changed([](State& s) { ++s.scalars.rng_step; }));
  EXPECT_TRUE(changed([](State& s) { s.scalars.loader_cursor += 'x'; }));
  EXPECT_FALSE(changed([](State& s) { s.scalars.others.clear(); }));
  EXPECT_FALSE(changed([](State& s) { std::swap(s.tensors[0], s.tensors[1]); }));
  EXPECT_FALSE(changed([](State& s) { s.tensors[4].info.name = "other role"; }));
}

TEST_F(SaveTest, AStateLargerThanTheRingIsSavedWhileItIsHeldConstant) {
  TestState large({{"w", Dtype::f32, {3 * 1024 * 1024 + 5}, Role::parameter},
                   {"b", Dtype::f32, {1024 * 1024}, Role::moment}},
                  5);
  const auto committed = save_all(files_, *writer_, "c", large.state, kUuid, 1);
  ASSERT_TRUE(committed.ok()) << committed.error().to_string();
  EXPECT_TRUE(verify_checkpoint(files_, committed->folder, Depth::full).valid());
  EXPECT_EQ(digest_on_disk(committed->folder), digest_of(large.state));
}

TEST_F(SaveTest, UpdatesAfterBeforeUpdateDoNotLeakIntoTheSave) {
  TestState large({{"w", Dtype::f32, {2 * 1024 * 1024}, Role::parameter}}, 5);
  const Hash128 wanted = digest_of(large.state);
  const Manifest manifest = manifest_of(large.state, kUuid);
  const std::string folder = begin_checkpoint(files_, "c", 5, kUuid).value();
  ASSERT_TRUE(writer_->begin({folder, kUuid, 0, 1, slices_of_shard(large.state, 0, 1)}).ok());
  writer_->before_update();
  large.fill(6);
  const ShardReport report = writer_->wait().value();
  const auto committed =
      commit_checkpoint(files_, {folder, manifest, {report}, tensor_infos(large.state), {}});
  ASSERT_TRUE(committed.ok()) << committed.error().to_string();
  EXPECT_EQ(digest_on_disk(committed->folder), wanted);
}

TEST_F(SaveTest, OneSaveAtATime) {
  const std::string folder = begin_checkpoint(files_, "c", 1, kUuid).value();
  const SaveRequest request{folder, kUuid, 0, 1, slices_of_shard(state_.state, 0, 1)};
  EXPECT_EQ(writer_->wait().error().code(), Code::invalid_argument);
  EXPECT_FALSE(writer_->poll().has_value());
  ASSERT_TRUE(writer_->begin(request).ok());
  EXPECT_EQ(writer_->begin(request).error().code(), Code::busy);
  EXPECT_TRUE(writer_->in_flight());
  EXPECT_TRUE(writer_->wait().ok());
  EXPECT_FALSE(writer_->in_flight());
  writer_->before_update();  // nothing to wait for
}

TEST_F(SaveTest, AWriterThatIsDestroyedInMidSaveStops) {
  const std::string folder = begin_checkpoint(files_, "c", 1, kUuid).value();
  ASSERT_TRUE(writer_->begin({folder, kUuid, 0, 1, slices_of_shard(state_.state, 0, 1)}).ok());
  writer_.reset();
  const auto scan = scan_checkpoints(files_, "c", Depth::quick).value();
  EXPECT_TRUE(scan.valid.empty());
}

TEST_F(SaveTest, ShortTransfersAndFileSystemsWithoutDirectAreServed) {
  files_.make_transfers_short(true);
  TestState large({{"w", Dtype::f32, {3 * 1024 * 1024 + 5}, Role::parameter}}, 5);
  const auto committed = save_all(files_, *writer_, "c", large.state, kUuid, 1);
  ASSERT_TRUE(committed.ok()) << committed.error().to_string();
  EXPECT_EQ(digest_on_disk(committed->folder), digest_of(large.state));
  EXPECT_EQ(writer_->engine(), "sim, direct");
  files_.refuse_direct(true);
  const auto again = save_all(files_, *writer_, "c", large.state, kUuid2, 2);
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(digest_on_disk(again->folder), digest_of(large.state));
  EXPECT_EQ(writer_->engine(), "sim, buffered");
}

// Every operation of a save fails once: the save is an error or (behind the commit point) a
// warning, the checkpoint before it stays usable, and the next save succeeds.
TEST_F(SaveTest, EveryFailingOperationIsSurvived) {
  for (const int errno_value : {EIO, ENOSPC}) {
    for (uint64_t n = 0;; ++n) {
      SCOPED_TRACE(n);
      SimFiles files(clock_);
      auto writer = ShardWriter::make(files, small_ring()).value();
      state_.fill(1);
      ASSERT_TRUE(save_all(files, *writer, "c", state_.state, kUuid, 2).ok());
      const Hash128 first = digest_of(state_.state);
      state_.fill(2);
      const uint64_t from = files.operations();
      files.fail_operations(from + n, 1, errno_value);
      const auto second = save_all(files, *writer, "c", state_.state, kUuid2, 2);
      const bool hit = files.operations() > from + n;
      files.clear_faults();

      const auto scan = scan_checkpoints(files, "c", Depth::full).value();
      ASSERT_FALSE(scan.valid.empty());
      CheckpointReader reader = CheckpointReader::open(files, scan.valid[0].folder).value();
      EXPECT_EQ(digest_of(reader).value(), second.ok() ? digest_of(state_.state) : first);
      EXPECT_TRUE(!hit || !second.ok() || !second->warnings.empty());

      std::string uuid3 = kUuid2;
      uuid3[0] = '3';
      state_.fill(3);
      const auto third = save_all(files, *writer, "c", state_.state, uuid3, 2);
      ASSERT_TRUE(third.ok()) << third.error().to_string();
      const auto kept = apply_retention(files, "c", 1, {}).value();
      EXPECT_TRUE(kept.problems.empty());
      EXPECT_EQ(scan_checkpoints(files, "c", Depth::full)->valid.size(), 1u);
      EXPECT_EQ(files.list("c")->size(), 2u);  // the checkpoint and LATEST: nothing left behind
      if (!hit) break;
    }
  }
}

TEST_F(SaveTest, AFullDiskIsAnErrorThatNamesTheNeedAndTheNextSaveWorks) {
  for (const int64_t room : {int64_t{0}, int64_t{2000}, int64_t{6000}, int64_t{15'000}}) {
    SCOPED_TRACE(room);
    files_.set_capacity(files_.disk().used_bytes() + room);
    const auto failed = save_all(files_, *writer_, "c", state_.state, kUuid, 2);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code(), Code::no_space) << failed.error().to_string();
    EXPECT_TRUE(files_.list("c")->empty());
  }
  files_.set_capacity(INT64_MAX);
  EXPECT_TRUE(save_all(files_, *writer_, "c", state_.state, kUuid, 2).ok());
}

TEST_F(SaveTest, TheCoordinatorRefusesReportsThatDoNotMakeAWholeState) {
  const std::string folder = begin_checkpoint(files_, "c", 1, kUuid).value();
  std::vector<ShardReport> reports;
  for (int shard = 0; shard < 2; ++shard) {
    ASSERT_TRUE(
        writer_->begin({folder, kUuid, shard, 2, slices_of_shard(state_.state, shard, 2)}).ok());
    reports.push_back(writer_->wait().value());
  }
  const auto outcome = [&](auto change) -> std::string {
    CommitRequest request{
        folder, manifest_of(state_.state, kUuid), reports, tensor_infos(state_.state), {}};
    change(request);
    const auto committed = commit_checkpoint(files_, request);
    return committed.ok() ? "committed" : committed.error().to_string();
  };
  const struct {
    const char* says;
    void (*change)(CommitRequest&);
  } cases[] = {
      {"written", [](CommitRequest& r) { r.reports.pop_back(); }},
      {"repeated", [](CommitRequest& r) { r.reports.push_back(r.reports[0]); }},
      {"belongs to save", [](CommitRequest& r) { r.reports[0].uuid = kUuid2; }},
      {"disagree",
       [](CommitRequest& r) {
         for (auto& report : r.reports)
           for (auto& tensor : report.tensors) tensor.info.layout = report.file.name;
       }},
      {"overlap",
       [](CommitRequest& r) {
         for (auto& tensor : r.reports[1].tensors)
           if (tensor.info.name == "m.embed.weight") --tensor.boxes[0].box.offset[0];
       }},
      {"the state has", [](CommitRequest& r) { r.expected.pop_back(); }},
      {"was not written", [](CommitRequest& r) { r.expected[0].name = "unknown"; }},
      {"checksums", [](CommitRequest& r) { r.reports[0].file.crc32c.clear(); }},
      {"not UTF-8", [](CommitRequest& r) { r.manifest.config = "\xFF"; }},
      {"cannot be the name", [](CommitRequest& r) { r.attachments = {{"../x", ""}}; }},
      {"cannot be the name", [](CommitRequest& r) { r.attachments = {{"manifest.json", ""}}; }},
  };
  for (const auto& c : cases) {
    const std::string got = outcome(c.change);
    EXPECT_NE(got.find(c.says), std::string::npos) << c.says << ": " << got;
  }
  EXPECT_FALSE(files_.stat(folder + "/manifest.json").ok());
  EXPECT_EQ(outcome([](CommitRequest&) {}), "committed");
}

TEST_F(SaveTest, RestoreRefusesACheckpointOfAnotherModel) {
  const std::string folder = save(kUuid, 2);
  const auto outcome = [&](auto change) {
    auto specs = small_specs();
    change(specs);
    TestState other(specs, 3);
    CheckpointReader reader = CheckpointReader::open(files_, folder).value();
    const Status restored = restore_state(reader, other.state);
    return restored.ok() ? std::string("restored") : restored.error().to_string();
  };
  using Specs = std::vector<TensorSpec>;
  EXPECT_EQ(outcome([](Specs&) {}), "restored");
  EXPECT_NE(outcome([](Specs& s) { s[0].shape = {50, 17}; }).find("'embed.weight' is F32"),
            std::string::npos);
  EXPECT_NE(outcome([](Specs& s) { s[0].dtype = Dtype::f64; }).find("wanted F64"),
            std::string::npos);
  EXPECT_NE(outcome([](Specs& s) { s[0].name = "new"; }).find("no tensor 'new'"),
            std::string::npos);
  EXPECT_NE(outcome([](Specs& s) { s.pop_back(); }).find("6 tensors"), std::string::npos);
}

TEST_F(SaveTest, AnyBoxIsLoadedFromAnySharding) {
  TestState grid({{"g", Dtype::i32, {7, 6, 5}, Role::parameter}}, 3);
  const auto* numbers = reinterpret_cast<const int32_t*>(grid.state.tensors[0].data);
  for (const int shards : {1, 3}) {
    std::string uuid = kUuid;
    uuid[0] = static_cast<char>('0' + shards);
    const auto committed = save_all(files_, *writer_, "c", grid.state, uuid, shards);
    ASSERT_TRUE(committed.ok());
    CheckpointReader reader = CheckpointReader::open(files_, committed->folder).value();
    const StoredTensor& stored = *reader.manifest().find("g");
    const Box boxes[] = {{{0, 0, 0}, {7, 6, 5}}, {{2, 0, 0}, {3, 6, 5}}, {{1, 2, 1}, {5, 3, 2}},
                         {{0, 5, 4}, {7, 1, 1}}, {{6, 0, 0}, {1, 1, 5}}, {{3, 3, 3}, {0, 2, 2}}};
    for (const Box& box : boxes) {
      std::vector<int32_t> got(static_cast<size_t>(elements_of(box)));
      ASSERT_TRUE(reader.load(stored, box, std::as_writable_bytes(std::span(got))).ok());
      size_t at = 0;
      for (int64_t i = 0; i < box.extent[0]; ++i)
        for (int64_t j = 0; j < box.extent[1]; ++j)
          for (int64_t k = 0; k < box.extent[2]; ++k)
            ASSERT_EQ(
                got[at++],
                numbers[((box.offset[0] + i) * 6 + box.offset[1] + j) * 5 + box.offset[2] + k])
                << describe(box);
    }
    std::byte one[4];
    EXPECT_FALSE(reader.load(stored, {{7, 0, 0}, {1, 1, 1}}, one).ok());
    EXPECT_FALSE(reader.load(stored, {{0, 0, 0}, {1, 1, 2}}, one).ok());
  }
}

TEST(SaveToRealDisk, BothEnginesWriteTheSameCheckpoint) {
  TestState state({{"w", Dtype::f32, {5 * 1024 * 1024 + 7}, Role::parameter},
                   {"m", Dtype::f32, {1024, 1024}, Role::moment}},
                  5);
  for (const IoEngine engine : {IoEngine::automatic, IoEngine::threads}) {
    char pattern[] = "/var/tmp/muster-ckpt-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    RealFiles files("", engine);
    auto writer = ShardWriter::make(files, {4, size_t{2} << 20, size_t{1} << 20, true}).value();
    const auto committed =
        save_all(files, *writer, join_path(pattern, "checkpoints"), state.state, kUuid, 2);
    ASSERT_TRUE(committed.ok()) << committed.error().to_string();
    EXPECT_TRUE(verify_checkpoint(files, committed->folder, Depth::full).valid());
    CheckpointReader reader = CheckpointReader::open(files, committed->folder).value();
    EXPECT_EQ(digest_of(reader).value(), digest_of(state.state)) << writer->engine();
    EXPECT_TRUE(remove_tree(files, pattern).ok());
  }
}

// Under ThreadSanitizer: the buffers go round many times while the owner changes the state in
// between.
TEST(SaveToRealDisk, BuffersAreReusedSaveAfterSave) {
  char pattern[] = "/var/tmp/muster-ckpt-XXXXXX";
  ASSERT_NE(mkdtemp(pattern), nullptr);
  RealFiles files("");
  auto writer = ShardWriter::make(files, small_ring()).value();
  TestState state({{"w", Dtype::f32, {1200 * 1024}, Role::parameter}}, 1);
  const std::string checkpoints = join_path(pattern, "checkpoints");
  for (uint64_t step = 1; step <= 4; ++step) {
    state.fill(step);
    const Hash128 wanted = digest_of(state.state);
    std::string uuid = kUuid;
    uuid[0] = static_cast<char>('0' + step);
    const Manifest manifest = manifest_of(state.state, uuid);
    const std::string folder =
        begin_checkpoint(files, checkpoints, static_cast<int64_t>(step), uuid).value();
    ASSERT_TRUE(writer->begin({folder, uuid, 0, 1, slices_of_shard(state.state, 0, 1)}).ok());
    writer->before_update();
    state.fill(100 + step);  // the next update
    const ShardReport report = writer->wait().value();
    const auto committed =
        commit_checkpoint(files, {folder, manifest, {report}, tensor_infos(state.state), {}});
    ASSERT_TRUE(committed.ok());
    CheckpointReader reader = CheckpointReader::open(files, committed->folder).value();
    EXPECT_EQ(digest_of(reader).value(), wanted);
  }
  EXPECT_EQ(apply_retention(files, checkpoints, 2, {})->removed.size(), 2u);
  EXPECT_TRUE(remove_tree(files, pattern).ok());
}

}  // namespace
}  // namespace muster
