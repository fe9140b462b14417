// HfWeights: the weights of a Hugging Face folder (config.json with model.safetensors, or shards
// with model.safetensors.index.json) read by the names of a ModelSpec, and the writer of such a
// folder.
//
// Reading is complete or refused: every parameter of the spec must be there with its shape, and
// nothing else may be, except what is known to hold no weights (rotary frequencies, GPT-2's mask
// buffers) and a stored copy of a tied head, which must equal the embedding. Stored types F32, F64,
// BF16 and F16 are converted; names may lack GPT-2's leading "transformer.". Pickled files are
// never opened.
//
// One thread at a time. Errors: not_found (no such file), unsupported (pickled weights, other
// dtypes), corrupt (names, shapes or bytes that do not fit), io.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ckpt/safetensors.h"
#include "sys/files.h"
#include "train/spec/block_spec.h"

namespace muster {

// Reads and checks `folder`/config.json.
Result<ModelConfig> read_hf_config(Files& files, std::string_view folder);

class HfWeights {
 public:
  static Result<HfWeights> open(Files& files, std::string_view folder, const ModelSpec& spec);

  // All elements of `param`, row-major. out.size() = param.count().
  Status read(const Param& param, std::span<float> out);
  Status read(const Param& param, std::span<double> out);

 private:
  struct Place {
    size_t file;
    SafetensorsTensor tensor;
  };
  explicit HfWeights(std::vector<SafetensorsFile> files) : files_(std::move(files)) {}
  static Result<std::vector<std::string>> weight_files(Files& files, std::string_view folder);
  Status match(const ModelSpec& spec, std::map<std::string, Place> stored);
  Status check_copy(const Place& a, const Place& b);
  template <class T>
  Status read_converted(const Place& place, std::span<T> out);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place> places_;  // by parameter name
};

// Writes `folder`/config.json and `folder`/model.safetensors (metadata format = pt, as transformers
// wants it). The folder is made when missing. `elements` gives the row-major bytes of a parameter,
// float32 or float64 as the spec says; they must stay valid until the call returns.
Status write_hf_folder(Files& files, std::string_view folder, const ModelSpec& spec,
                       const std::function<std::span<const std::byte>(const Param&)>& elements);

}  // namespace muster
