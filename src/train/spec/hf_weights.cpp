#include "train/spec/hf_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace muster {
namespace {

constexpr size_t kChunkElements = size_t{1} << 20;

float float_of_bf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

float float_of_f16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float tiny = static_cast<float>(fraction) * 0x1p-24f;  // subnormal or zero: exact in float
  return std::bit_cast<float>(std::bit_cast<uint32_t>(tiny) | sign);
}

template <class T>
void convert(Dtype dtype, const std::byte* from, size_t count, T* to) {
  const auto each = [&](auto sample, auto&& widen) {
    using S = decltype(sample);
    for (size_t i = 0; i < count; ++i) {
      S value;
      std::memcpy(&value, from + i * sizeof(S), sizeof(S));
      to[i] = static_cast<T>(widen(value));
    }
  };
  const auto same = [](auto value) { return value; };
  switch (dtype) {
    case Dtype::f32:
      return each(float{}, same);
    case Dtype::f64:
      return each(double{}, same);
    case Dtype::bf16:
      return each(uint16_t{}, float_of_bf16);
    case Dtype::f16:
      return each(uint16_t{}, float_of_f16);
    default:
      MUSTER_CHECK(false, "dtype was checked at open");
  }
}

bool readable(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::bf16 || dtype == Dtype::f16;
}

// Stored names that carry no weight.
bool is_buffer(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

// The spec's name for a stored one: GPT-2 files may lack the prefix of the language-model wrapper.
std::string spec_name(const ModelSpec& spec, const std::string& stored) {
  if (spec.config.family == Family::gpt2 && spec.find(stored) == nullptr &&
      stored != "lm_head.weight")
    return "transformer." + stored;
  return stored;
}

bool exists(Files& files, std::string_view path) {
  return files.stat(path).ok();
}

}  // namespace

Result<ModelConfig> read_hf_config(Files& files, std::string_view folder) {
  const std::string path = join_path(folder, "config.json");
  MUSTER_TRY(const std::string text,
             read_file(files, path).context("reading the model's configuration"));
  MUSTER_TRY(ModelConfig config, parse_hf_config(text).context(path));
  return config;
}

Result<std::vector<std::string>> HfWeights::weight_files(Files& files, std::string_view folder) {
  const std::string index = join_path(folder, "model.safetensors.index.json");
  const std::string single = join_path(folder, "model.safetensors");
  if (exists(files, single)) return std::vector<std::string>{single};
  if (!exists(files, index)) {
    if (exists(files, join_path(folder, "pytorch_model.bin")) ||
        exists(files, join_path(folder, "pytorch_model.bin.index.json")))
      return Error(Code::unsupported,
                   fmt::format("{} holds pickled weights (pytorch_model.bin), which can run code "
                               "when read; save them with safe_serialization=True",
                               folder));
    return Error(
        Code::not_found,
        fmt::format("{}: neither model.safetensors nor model.safetensors.index.json", folder));
  }
  MUSTER_TRY(const std::string text, read_file(files, index));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return Error(Code::corrupt, fmt::format("{}: no object \"weight_map\"", index));
  std::set<std::string> names;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || file.get<std::string>().empty() ||
        file.get<std::string>().find('/') != std::string::npos)
      return Error(Code::corrupt,
                   fmt::format("{}: tensor {} lies in {}, which is not a plain file name", index,
                               tensor, file.dump()));
    names.insert(file.get<std::string>());
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(join_path(folder, name));
  return paths;
}

Result<HfWeights> HfWeights::open(Files& files, std::string_view folder, const ModelSpec& spec) {
  MUSTER_TRY(const std::vector<std::string> paths, weight_files(files, folder));
  std::vector<SafetensorsFile> opened;
  std::map<std::string, Place> stored;
  for (const std::string& path : paths) {
    MUSTER_TRY(SafetensorsFile file, SafetensorsFile::open(files, path));
    for (const SafetensorsTensor& t : file.header().tensors) {
      if (is_buffer(t.name) && spec.find(t.name) == nullptr) continue;
      if (!stored.emplace(spec_name(spec, t.name), Place{opened.size(), t}).second)
        return Error(Code::corrupt, fmt::format("{}: tensor {} is stored twice", path, t.name));
    }
    opened.push_back(std::move(file));
  }
  HfWeights weights(std::move(opened));
  MUSTER_TRY(weights.match(spec, std::move(stored)).context(fmt::format("weights of {}", folder)));
  return weights;
}

Status HfWeights::match(const ModelSpec& spec, std::map<std::string, Place> stored) {
  const auto corrupt = [](std::string text) { return Error(Code::corrupt, std::move(text)); };
  if (spec.tied()) {
    const std::string& embedding = spec.params[0].name;
    const auto head = stored.find("lm_head.weight");
    if (head != stored.end()) {
      const auto table = stored.find(embedding);
      if (table == stored.end()) {
        stored.emplace(embedding, head->second);
      } else {
        MUSTER_TRY(check_copy(table->second, head->second));
      }
      stored.erase(head);
    }
  }
  std::vector<std::string> missing, unknown;
  for (const Param& p : spec.params) {
    const auto it = stored.find(p.name);
    if (it == stored.end()) {
      missing.push_back(p.name);
      continue;
    }
    const SafetensorsTensor& t = it->second.tensor;
    if (t.shape != p.shape)
      return corrupt(fmt::format("tensor {} has shape [{}], config.json asks for [{}]", t.name,
                                 fmt::join(t.shape, ", "), fmt::join(p.shape, ", ")));
    if (!readable(t.dtype))
      return Error(Code::unsupported,
                   fmt::format("tensor {} has dtype {}; readable: F32, F64, BF16, F16", t.name,
                               dtype_name(t.dtype)));
    places_.emplace(p.name, std::move(it->second));
    stored.erase(it);
  }
  for (const auto& [name, place] : stored) unknown.push_back(place.tensor.name);
  const auto few = [](std::vector<std::string> names) {
    const size_t count = names.size();
    names.resize(std::min<size_t>(count, 5));
    return fmt::format("{}{}", fmt::join(names, ", "),
                       count > 5 ? fmt::format(" and {} more", count - 5) : "");
  };
  if (!missing.empty())
    return corrupt(fmt::format("tensors that config.json asks for are missing: {}", few(missing)));
  if (!unknown.empty())
    return corrupt(fmt::format("tensors that this architecture does not have: {}", few(unknown)));
  return {};
}

Status HfWeights::check_copy(const Place& a, const Place& b) {
  if (a.tensor.shape != b.tensor.shape || a.tensor.dtype != b.tensor.dtype)
    return Error(Code::corrupt, fmt::format("{} and {} are tied but differ in shape or dtype",
                                            a.tensor.name, b.tensor.name));
  std::vector<std::byte> left(kChunkElements), right(kChunkElements);
  for (uint64_t at = 0; at < a.tensor.bytes(); at += kChunkElements) {
    const size_t count =
        static_cast<size_t>(std::min<uint64_t>(kChunkElements, a.tensor.bytes() - at));
    MUSTER_TRY(files_[a.file].read(a.tensor, at, std::span(left).first(count)));
    MUSTER_TRY(files_[b.file].read(b.tensor, at, std::span(right).first(count)));
    if (std::memcmp(left.data(), right.data(), count) != 0)
      return Error(
          Code::corrupt,
          fmt::format("{} and {} differ although config.json ties them (tie_word_embeddings)",
                      a.tensor.name, b.tensor.name));
  }
  return {};
}

template <class T>
Status HfWeights::read_converted(const Place& place, std::span<T> out) {
  const auto width = static_cast<size_t>(dtype_bytes(place.tensor.dtype));
  std::vector<std::byte> raw(std::min(out.size(), kChunkElements) * width);
  for (size_t at = 0; at < out.size(); at += kChunkElements) {
    const size_t count = std::min(kChunkElements, out.size() - at);
    const auto bytes = std::span(raw).first(count * width);
    MUSTER_TRY(files_[place.file].read(place.tensor, at * width, bytes));
    convert(place.tensor.dtype, bytes.data(), count, out.data() + at);
  }
  return {};
}

Status HfWeights::read(const Param& param, std::span<float> out) {
  MUSTER_CHECK(out.size() == static_cast<size_t>(param.count()), param.name, out.size());
  return read_converted(places_.at(param.name), out);
}

Status HfWeights::read(const Param& param, std::span<double> out) {
  MUSTER_CHECK(out.size() == static_cast<size_t>(param.count()), param.name, out.size());
  return read_converted(places_.at(param.name), out);
}

Status write_hf_folder(Files& files, std::string_view folder, const ModelSpec& spec,
                       const std::function<std::span<const std::byte>(const Param&)>& elements) {
  MUSTER_TRY(make_directories(files, folder));
  const bool f32 = spec.real == Real::f32;
  std::vector<SafetensorsTensor> tensors;
  std::vector<std::span<const std::byte>> data;
  for (const Param& p : spec.params) {
    tensors.push_back({p.name, f32 ? Dtype::f32 : Dtype::f64, p.shape, 0, 0});
    data.push_back(elements(p));
  }
  MUSTER_TRY(write_safetensors(files, join_path(folder, "model.safetensors"), tensors, data,
                               {{"format", "pt"}}));
  return write_file_durably(files, join_path(folder, "config.json"),
                            format_hf_config(spec.config, f32 ? "float32" : "float64"));
}

}  // namespace muster
