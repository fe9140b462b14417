// OracleCase, for tests: a folder with a Hugging Face model and a safetensors file of what a
// reference implementation computes from it: inputs, logits, losses, gradients. Loads both and
// holds the batch in the form the model takes. Expected values come as double whatever they are
// stored as.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sys/real_files.h"
#include "train/model/model.h"
#include "train/spec/hf_weights.h"

namespace muster {

// $MUSTER_SHARED, or ../shared beside the source tree.
inline std::string shared_folder() {
  const char* given = std::getenv("MUSTER_SHARED");
  return given != nullptr ? given : std::string(MUSTER_SOURCE_DIR) + "/../shared";
}

// Tokens of one micro-batch that owns its arrays.
struct OwnedBatch {
  std::vector<int32_t> ids, targets, positions, segments;

  BatchView view() const {
    return {static_cast<int64_t>(ids.size()), ids.data(),
            targets.empty() ? nullptr : targets.data(), positions.data(), segments};
  }
  int64_t valid() const {
    return std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; });
  }
  // Whole sequences of `length`, targets one to the left inside each; the last token of each has
  // none.
  static OwnedBatch sequences(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels,
                              int64_t length) {
    OwnedBatch b;
    b.ids = ids;
    for (size_t t = 0; t < ids.size(); ++t) {
      const bool last = (t + 1) % static_cast<size_t>(length) == 0;
      b.targets.push_back(last || labels[t + 1] < 0 ? -1 : labels[t + 1]);
      b.positions.push_back(static_cast<int32_t>(t % static_cast<size_t>(length)));
      if (t % static_cast<size_t>(length) == 0) b.segments.push_back(static_cast<int32_t>(t));
    }
    b.segments.push_back(static_cast<int32_t>(ids.size()));
    return b;
  }
};

class OracleCase {
 public:
  // Files of absolute paths. Empty when the folder is not there.
  static std::unique_ptr<OracleCase> open(const std::string& folder, const std::string& expected) {
    if (!std::filesystem::exists(folder + "/" + expected)) return nullptr;
    auto oracle = std::unique_ptr<OracleCase>(new OracleCase(folder));
    auto file = SafetensorsFile::open(oracle->files_, expected);
    EXPECT_TRUE(file.ok()) << file.error().to_string();
    oracle->expected_ = std::make_unique<SafetensorsFile>(std::move(file).value());
    return oracle;
  }

  template <class T>
  std::unique_ptr<Model<T>> load_model() {
    auto config = read_hf_config(files_, ".");
    EXPECT_TRUE(config.ok()) << config.error().to_string();
    auto model = Model<T>::make(*config);
    EXPECT_TRUE(model.ok()) << model.error().to_string();
    auto weights = HfWeights::open(files_, ".", (*model)->spec());
    EXPECT_TRUE(weights.ok()) << weights.error().to_string();
    for (const Param& p : (*model)->spec().params) {
      const auto status = weights->read(p, (*model)->view(p));
      EXPECT_TRUE(status.ok()) << status.error().to_string();
    }
    return std::move(model).value();
  }

  std::vector<double> values(const std::string& name) {
    const SafetensorsTensor* t = expected_->header().find(name);
    EXPECT_NE(t, nullptr) << name;
    if (t == nullptr) return {};
    std::vector<std::byte> raw(t->bytes());
    EXPECT_TRUE(expected_->read(*t, 0, raw).ok());
    std::vector<double> out(raw.size() / static_cast<size_t>(dtype_bytes(t->dtype)));
    for (size_t i = 0; i < out.size(); ++i) {
      if (t->dtype == Dtype::f64) std::memcpy(&out[i], raw.data() + 8 * i, 8);
      if (t->dtype == Dtype::f32) out[i] = at<float>(raw, i);
      if (t->dtype == Dtype::i64) out[i] = static_cast<double>(at<int64_t>(raw, i));
    }
    return out;
  }
  std::vector<int32_t> integers(const std::string& name) {
    std::vector<int32_t> out;
    for (double v : values(name)) out.push_back(static_cast<int32_t>(v));
    return out;
  }

 private:
  template <class S>
  static S at(const std::vector<std::byte>& raw, size_t i) {
    S value;
    std::memcpy(&value, raw.data() + sizeof(S) * i, sizeof(S));
    return value;
  }
  explicit OracleCase(const std::string& folder) : files_(folder) {}

  RealFiles files_;
  std::unique_ptr<SafetensorsFile> expected_;
};

// |got - want| <= atol + rtol * max |want|, elementwise: cancellation inside a tensor is judged on
// its scale.
template <class T>
void expect_close(const std::string& name, const T* got, const std::vector<double>& want,
                  double atol, double rtol) {
  double scale = 0, worst = 0;
  size_t worst_at = 0;
  for (double w : want) scale = std::max(scale, std::abs(w));
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(difference <= worst)) {
      worst = difference;
      worst_at = i;
      if (std::isnan(difference)) break;
    }
  }
  ASSERT_FALSE(want.empty()) << name;
  EXPECT_LE(worst, atol + rtol * scale)
      << name << ": element " << worst_at << " is " << +got[worst_at] << ", expected "
      << want[worst_at] << " (scale " << scale << ")";
}

// Tolerances of docs/design/model.md.
template <class T>
constexpr double oracle_atol() {
  return sizeof(T) == 8 ? 1e-10 : 1e-6;
}
template <class T>
constexpr double oracle_rtol() {
  return sizeof(T) == 8 ? 0 : 5e-6;
}

}  // namespace muster
