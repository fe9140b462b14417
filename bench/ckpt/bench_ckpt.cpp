// The measuring half of bench/ckpt/run: one task per call, one JSON object on standard output.
//   bench_ckpt wait DIR ROUNDS       time the step thread waits for a 64 MiB save against one copy
//   of it bench_ckpt save DIR BYTES        one durable save; seconds, engine, memory beyond the
//   state bench_ckpt flips DIR COUNT       random single-byte changes of a checkpoint's files,
//   found by verify bench_ckpt crash IMAGES          crash images resumed from
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "ckpt/crash_trial_rig.h"
#include "ckpt/digest.h"
#include "ckpt/state_rig.h"
#include "ckpt/verify.h"
#include "sys/real_files.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

double seconds(Nanos duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// "VmRSS", "VmHWM": kibibytes of this process.
int64_t status_kib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::atoll(line.c_str() + key.size() + 1);
  return 0;
}

// Parameters and two moments of 12 matrices and 12 vectors, like a model's, of about `bytes` in
// all.
std::vector<TensorSpec> model_specs(int64_t bytes) {
  std::vector<TensorSpec> specs;
  const int64_t rows = bytes / (3 * 12) / (4 * 1024);
  for (int layer = 0; layer < 12; ++layer) {
    for (const char* kind : {"", "m.", "v."}) {
      const Role role = *kind == '\0' ? Role::parameter : Role::moment;
      const std::string name = std::string(kind) + "layer" + std::to_string(layer);
      specs.push_back({name + ".weight", Dtype::f32, {rows, 1024}, role});
      specs.push_back({name + ".norm", Dtype::f32, {1023}, role});
    }
  }
  return specs;
}

int64_t bytes_of(const State& state) {
  int64_t bytes = 0;
  for (const StateTensor& tensor : state.tensors)
    bytes += elements_of(tensor.held) * dtype_bytes(tensor.info.dtype);
  return bytes;
}

std::string uuid_of(int n) {
  return Hash128{static_cast<uint64_t>(n), 0}.hex();
}

Json measure_wait(const std::string& directory, int rounds) {
  RealFiles files("");
  RealClock clock;
  TestState state(model_specs(int64_t{64} << 20), 1);
  const int64_t bytes = bytes_of(state.state);
  auto writer = ShardWriter::make(files, RingOptions{}).value();
  Arena copy = Arena::make(static_cast<size_t>(bytes), true).value();
  auto* target = static_cast<std::byte*>(copy.take(static_cast<size_t>(bytes)));
  std::vector<double> waits, copies, ratios;
  for (int round = 0; round < rounds; ++round) {
    Nanos start = clock.now();
    size_t at = 0;
    for (const StateTensor& tensor : state.state.tensors) {
      const auto length =
          static_cast<size_t>(elements_of(tensor.held) * dtype_bytes(tensor.info.dtype));
      std::memcpy(target + at, tensor.data, length);
      at += length;
    }
    copies.push_back(seconds(clock.now() - start));

    const std::string folder = begin_checkpoint(files, directory, round, uuid_of(round)).value();
    SaveRequest request{folder, uuid_of(round), 0, 1, slices_of_shard(state.state, 0, 1)};
    // The worst case: the update comes at once, with no computation to hide the copy behind.
    start = clock.now();
    writer->begin(std::move(request)).value();
    writer->before_update();
    waits.push_back(seconds(clock.now() - start));
    ratios.push_back(waits.back() / copies.back());
    writer->wait().value();
    abandon_checkpoint(files, folder).value();
  }
  return {{"bytes", bytes},
          {"rounds", rounds},
          {"wait_s", median(waits)},
          {"copy_s", median(copies)},
          {"ratio_of_medians", median(waits) / median(copies)},
          {"median_ratio", median(ratios)}};
}

Json measure_save(const std::string& directory, int64_t bytes) {
  RealFiles files("");
  RealClock clock;
  TestState state(model_specs(bytes), 1);
  const int64_t rss_before = status_kib("VmRSS");
  auto writer = ShardWriter::make(files, RingOptions{}).value();
  const int64_t rss_ring = status_kib("VmRSS");
  const Nanos start = clock.now();
  const std::string folder =
      save_all(files, *writer, directory, state.state, uuid_of(1), 1).value().folder;
  const double elapsed = seconds(clock.now() - start);
  const int64_t rss_peak = status_kib("VmHWM");
  remove_tree(files, folder).value();
  return {{"bytes", bytes_of(state.state)},
          {"seconds", elapsed},
          {"engine", writer->engine()},
          {"ring_kib", rss_ring - rss_before},
          {"extra_rss_kib", rss_peak - rss_before}};
}

Json measure_flips(const std::string& directory, int count) {
  RealFiles files("");
  auto writer = ShardWriter::make(files, RingOptions{}).value();
  TestState state(model_specs(int64_t{8} << 20), 1);
  const std::string folder =
      save_all(files, *writer, directory, state.state, uuid_of(1), 2).value().folder;
  const auto entries = files.list(folder).value();
  int found = 0;
  Json missed = Json::array(), by_file = Json::object();
  for (int i = 0; i < count; ++i) {
    const auto n = static_cast<uint64_t>(i);
    const std::string& name = entries[philox_below(entries.size(), 11, n, 0)].name;
    const std::string path = join_path(folder, name);
    const int64_t size = files.stat(path)->size;
    const auto offset = static_cast<int64_t>(philox_below(static_cast<uint64_t>(size), 12, n, 0));
    const FileHandle file = files.open(path, {OpenMode::write_existing, false}).value();
    std::byte good{};
    files.read_at(file, {&good, 1}, offset).value();
    const std::byte bad = good ^ static_cast<std::byte>(1 + philox_below(255, 13, n, 0));
    files.write_at(file, {&bad, 1}, offset).value();
    if (verify_checkpoint(files, folder, Depth::full).valid()) {
      missed.push_back({{"file", name}, {"offset", offset}});
    } else {
      ++found;
    }
    by_file[name] = by_file.value(name, 0) + 1;
    files.write_at(file, {&good, 1}, offset).value();
    files.close(file).value();
  }
  const bool whole = verify_checkpoint(files, folder, Depth::full).valid();
  remove_tree(files, folder).value();
  return {{"flips", count},
          {"found", found},
          {"missed", missed},
          {"by_file", by_file},
          {"valid_when_restored", whole}};
}

Json measure_crashes(size_t images) {
  CrashTrial sum;
  for (uint64_t seed = 1; sum.images < images; ++seed) {
    const CrashTrial trial = run_crash_trial({.shards = static_cast<int>(1 + seed % 3),
                                              .samples_per_point = 30,
                                              .enumerated_per_point = 60,
                                              .seed = seed});
    sum.points += trial.points;
    sum.images += trial.images;
    sum.resumed_from_old += trial.resumed_from_old;
    sum.resumed_from_new += trial.resumed_from_new;
    sum.failures.insert(sum.failures.end(), trial.failures.begin(), trial.failures.end());
  }
  return {{"images", sum.images},
          {"moments", sum.points},
          {"resumed_from_old", sum.resumed_from_old},
          {"resumed_from_new", sum.resumed_from_new},
          {"failures", sum.failures}};
}

int run(const std::vector<std::string>& words) {
  Json result;
  if (words.size() == 3 && words[0] == "wait") {
    result = measure_wait(words[1], std::atoi(words[2].c_str()));
  } else if (words.size() == 3 && words[0] == "save") {
    result = measure_save(words[1], std::atoll(words[2].c_str()));
  } else if (words.size() == 3 && words[0] == "flips") {
    result = measure_flips(words[1], std::atoi(words[2].c_str()));
  } else if (words.size() == 2 && words[0] == "crash") {
    result = measure_crashes(static_cast<size_t>(std::atoll(words[1].c_str())));
  } else {
    std::fprintf(stderr,
                 "usage: muster_bench_ckpt wait DIR ROUNDS | save DIR BYTES | "
                 "flips DIR COUNT | crash IMAGES\n");
    return 2;
  }
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  return muster::run({argv + 1, argv + argc});
}
