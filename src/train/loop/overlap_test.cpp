// A save of a state that is larger than the ring, beside a step: a disk that takes nothing holds up
// the update alone, and the saved state is the one from before it.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "ckpt/commit.h"
#include "ckpt/digest.h"
#include "ckpt/reader.h"
#include "ckpt/shard_writer.h"
#include "sys/sim_files.h"
#include "train/execute/step_rig.h"
#include "train/model/model_checkpoint.h"
#include "train/spec/checkpoint_model.h"

namespace muster {
namespace {

using namespace step_rig;  // NOLINT: the vocabulary of these tests

// A disk on which files cannot be made to their length, and so not be written, before release().
class StuckFiles final : public Files {
 public:
  explicit StuckFiles(Files& below) : below_(below) {}
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

  Status truncate(FileHandle file, int64_t length) override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return released_; });
    }
    return below_.truncate(file, length);
  }
  Result<FileHandle> open(std::string_view path, OpenOptions options) override {
    return below_.open(path, options);
  }
  Status close(FileHandle file) override { return below_.close(file); }
  Result<size_t> read_at(FileHandle file, std::span<std::byte> out, int64_t offset) override {
    return below_.read_at(file, out, offset);
  }
  Status write_at(FileHandle file, std::span<const std::byte> data, int64_t offset) override {
    return below_.write_at(file, data, offset);
  }
  Status append(FileHandle file, std::span<const std::byte> data) override {
    return below_.append(file, data);
  }
  Result<int64_t> size(FileHandle file) override { return below_.size(file); }
  Status sync_data(FileHandle file) override { return below_.sync_data(file); }
  Status sync_file(FileHandle file) override { return below_.sync_file(file); }
  Status sync_directory(std::string_view path) override { return below_.sync_directory(path); }
  Result<std::unique_ptr<IoQueue>> make_queue(size_t depth) override {
    return below_.make_queue(depth);
  }
  Status rename(std::string_view from, std::string_view to) override {
    return below_.rename(from, to);
  }
  Status remove(std::string_view path) override { return below_.remove(path); }
  Status make_directory(std::string_view path) override { return below_.make_directory(path); }
  Result<std::vector<DirectoryEntry>> list(std::string_view path) override {
    return below_.list(path);
  }
  Result<FileStat> stat(std::string_view path) override { return below_.stat(path); }
  Result<DiskSpace> space(std::string_view path) override { return below_.space(path); }
  Result<std::unique_ptr<FileLock>> lock(std::string_view path) override {
    return below_.lock(path);
  }
  Result<bool> is_locked(std::string_view path) override { return below_.is_locked(path); }

 private:
  Files& below_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
};

Case larger_than_the_ring() {
  Case c;
  c.model.vocab_size = 9000;  // 2 x 9,000 x 24 parameters and their moments: 5 MiB
  c.micro_batches = c.lanes = 2;
  c.steps = 1;
  return c;
}
constexpr RingOptions kRing{2, size_t{1} << 20, size_t{1} << 20, true};

State state_of(Worker<float>& worker) {
  State state;
  state.tensors = parameter_tensors(*worker.model);
  for (const Param& param : worker.model->spec().params) {
    for (const Moment moment : {Moment::first, Moment::second}) {
      const auto view =
          moment == Moment::first ? worker.moments.first(param) : worker.moments.second(param);
      state.tensors.push_back({moment_info(param, Real::f32, moment), whole_box(param.shape),
                               reinterpret_cast<std::byte*>(view.data())});
    }
  }
  return state;
}

TEST(SaveBesideAStep, OfAStateLargerThanTheRingHoldsUpTheUpdateAlone) {
  const Case c = larger_than_the_ring();
  const Outcome want = execute<float>(c);
  SimClock clock;
  SimFiles disk(clock);
  StuckFiles files(disk);
  const std::string uuid = "00112233445566778899aabbccddeeff";
  auto writer = ShardWriter::make(files, kRing).value();
  on_ranks(1, group_options(), [&](Communicator& group) {
    int asked = 0;
    // Forward and backward are done when this is called: only now does the disk take anything.
    auto worker = Worker<float>::make(c, group, nullptr, nullptr, [&] {
      ++asked;
      files.release();
      writer->before_update();
    });
    const State state = state_of(*worker);
    int64_t bytes = 0;
    for (const StateTensor& t : state.tensors) bytes += elements_of(t.held) * 4;
    ASSERT_GT(bytes, static_cast<int64_t>(2 * kRing.buffers * kRing.buffer_bytes));
    const Hash128 before = digest_of(state);
    const std::string folder = begin_checkpoint(files, "checkpoints", 1, uuid).value();
    ASSERT_TRUE(writer->begin({folder, uuid, 0, 1, slices_of_shard(state, 0, 1)}).ok());
    const auto report = worker->run(1, worker->batches(1));
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(asked, 1);
    EXPECT_TRUE(worker->state() == want.state) << "a save changes no bit of the step";
    EXPECT_NE(digest_of(state), before);

    Manifest manifest;
    manifest.uuid = uuid;
    manifest.numerics.mode = "strict";
    const auto shard = writer->wait();
    ASSERT_TRUE(shard.ok()) << shard.error().to_string();
    const auto committed =
        commit_checkpoint(files, {folder, manifest, {*shard}, tensor_infos(state), {}});
    ASSERT_TRUE(committed.ok()) << committed.error().to_string();
    auto reader = CheckpointReader::open(files, committed->folder).value();
    EXPECT_EQ(digest_of(reader).value(), before) << "saved as it was before the update";
  });
}

}  // namespace
}  // namespace muster
