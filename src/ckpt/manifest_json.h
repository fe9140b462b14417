// The two directions between manifest parts and JSON. Reading never trusts: a missing key or a
// value of another kind sets `problem` and yields a default. Only for this folder.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "ckpt/manifest.h"

namespace muster::manifest_json {

using Json = nlohmann::ordered_json;

Json write_tensors(const std::vector<StoredTensor>& tensors);
Json write_files(const std::vector<StoredFile>& files);
Json write_scalars(const ScalarState& scalars);
Json write_numerics(const Numerics& numerics);

class Reader {
 public:
  const std::string& problem() const { return problem_; }
  void fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  const Json& member(const Json& object, const char* key);
  std::string text(const Json& object, const char* key);
  int64_t integer(const Json& object, const char* key);
  int64_t count(const Json& object, const char* key);  // not negative
  uint64_t bits(const Json& object, const char* key);  // 16 hexadecimal digits
  Hash128 hash(const Json& object, const char* key);
  std::string bytes(const Json& object, const char* key);  // base64
  std::vector<int64_t> integers(const Json& object, const char* key);
  const Json& array(const Json& object, const char* key);

  std::vector<StoredTensor> tensors(const Json& object, const char* key);
  std::vector<StoredFile> files(const Json& object, const char* key);
  ScalarState scalars(const Json& object, const char* key);
  Numerics numerics(const Json& object, const char* key);

 private:
  std::string problem_;
};

}  // namespace muster::manifest_json
