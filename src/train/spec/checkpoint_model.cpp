#include "train/spec/checkpoint_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "ckpt/shard_writer.h"

namespace muster {
namespace {

Dtype dtype_of_real(Real real) {
  return real == Real::f32 ? Dtype::f32 : Dtype::f64;
}

template <class Stored, class T>
Status load_as(CheckpointReader& reader, const StoredTensor& tensor, std::span<T> out) {
  if constexpr (std::is_same_v<Stored, T>) {
    return reader.load(tensor, whole_box(tensor.info.shape), std::as_writable_bytes(out));
  } else {
    std::vector<Stored> stored(out.size());
    MUSTER_TRY(reader.load(tensor, whole_box(tensor.info.shape),
                           std::as_writable_bytes(std::span(stored))));
    std::transform(stored.begin(), stored.end(), out.begin(),
                   [](Stored v) { return static_cast<T>(v); });
    return {};
  }
}

template <class T>
Status load(CheckpointReader& reader, const Param& param, std::span<T> out) {
  MUSTER_CHECK(out.size() == static_cast<size_t>(param.count()), param.name, out.size());
  const StoredTensor* tensor = reader.manifest().find(param.name);
  if (tensor == nullptr || tensor->info.shape != param.shape)
    return Error(Code::corrupt, fmt::format("{}: no parameter {} of shape [{}]", reader.folder(),
                                            param.name, fmt::join(param.shape, ", ")));
  if (tensor->info.dtype == Dtype::f32) return load_as<float>(reader, *tensor, out);
  if (tensor->info.dtype == Dtype::f64) return load_as<double>(reader, *tensor, out);
  return Error(Code::unsupported,
               fmt::format("{}: parameter {} has dtype {}; readable: F32, F64", reader.folder(),
                           param.name, dtype_name(tensor->info.dtype)));
}

}  // namespace

TensorInfo parameter_info(const Param& param, Real real) {
  const bool rotated =
      param.name.ends_with(".q_proj.weight") || param.name.ends_with(".k_proj.weight");
  return {param.name, dtype_of_real(real), param.shape, Role::parameter,
          rotated ? std::string(kRopeHalves) : std::string()};
}

TensorInfo moment_info(const Param& param, Real real, Moment moment) {
  TensorInfo info = parameter_info(param, real);
  info.name = (moment == Moment::first ? "m." : "v.") + param.name;
  info.role = Role::moment;
  return info;
}

std::vector<Attachment> model_attachments(const ModelSpec& spec, std::string tokenizer_json) {
  std::vector<Attachment> attachments = {
      {std::string(kModelConfigFile),
       format_hf_config(spec.config, spec.real == Real::f32 ? "float32" : "float64")}};
  if (!tokenizer_json.empty())
    attachments.push_back({std::string(kTokenizerFile), std::move(tokenizer_json)});
  return attachments;
}

Result<ModelConfig> read_checkpoint_config(CheckpointReader& reader) {
  MUSTER_TRY(const std::string text,
             reader.attachment(kModelConfigFile).context("the checkpoint's model"));
  MUSTER_TRY(ModelConfig config, parse_hf_config(text).context(reader.folder()));
  MUSTER_TRY(const ModelSpec spec, make_model_spec(config, Real::f32));
  size_t stored = 0;
  for (const StoredTensor& tensor : reader.manifest().tensors) {
    if (tensor.info.role != Role::parameter) continue;
    ++stored;
    const Param* param = spec.find(tensor.info.name);
    if (param == nullptr || param->shape != tensor.info.shape)
      return Error(
          Code::corrupt,
          fmt::format("{}: tensor {} [{}] is none of the model in config.json", reader.folder(),
                      tensor.info.name, fmt::join(tensor.info.shape, ", ")));
    if (tensor.info.layout != parameter_info(*param, Real::f32).layout)
      return Error(Code::unsupported,
                   fmt::format("{}: tensor {} is laid out as \"{}\"; readable: \"{}\"",
                               reader.folder(), tensor.info.name, tensor.info.layout,
                               parameter_info(*param, Real::f32).layout));
  }
  if (stored != spec.params.size())
    return Error(Code::corrupt, fmt::format("{}: {} parameters, the model in config.json has {}",
                                            reader.folder(), stored, spec.params.size()));
  return config;
}

Status load_parameter(CheckpointReader& reader, const Param& param, std::span<float> out) {
  return load(reader, param, out);
}
Status load_parameter(CheckpointReader& reader, const Param& param, std::span<double> out) {
  return load(reader, param, out);
}

Status write_model_checkpoint(
    Files& files, const Clock& clock, Random& random, std::string folder, const ModelSpec& spec,
    const std::function<std::span<const std::byte>(const Param&)>& elements,
    std::string tokenizer_json, std::string tokenizer_fingerprint) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  if (files.stat(folder).ok())
    return Error(Code::already_exists,
                 fmt::format("{} is there already; give another name or remove it", folder));
  State state;
  for (const Param& param : spec.params) {
    StateTensor tensor;
    tensor.info = parameter_info(param, spec.real);
    tensor.held = whole_box(param.shape);
    // The writer only reads; State is also what a restore writes to.
    tensor.data = const_cast<std::byte*>(elements(param).data());
    state.tensors.push_back(std::move(tensor));
  }
  // The checkpoint is made in a folder of its own, so that LATEST and half-written files never
  // stand beside `folder`. Its name is new, so that nobody else's files are touched.
  const std::string uuid = new_uuid(random);
  const std::string parent(parent_path(folder));
  const std::string name = folder.substr(folder.rfind('/') + 1);
  const std::string workshop = join_path(parent, fmt::format(".{}-{}.tmp", name, uuid));
  MUSTER_TRY(files.make_directory(workshop).context("make a folder to write in"));
  const auto make = [&]() -> Status {
    MUSTER_TRY(const std::string open, begin_checkpoint(files, workshop, 0, uuid));
    RingOptions ring;
    ring.buffers = 2;
    ring.buffer_bytes = size_t{8} << 20;
    MUSTER_TRY(const auto writer, ShardWriter::make(files, ring));
    MUSTER_TRY(writer->begin({open, uuid, 0, 1, slices_of_shard(state, 0, 1)}));
    MUSTER_TRY(ShardReport report, writer->wait());
    CommitRequest request;
    request.folder = open;
    request.manifest.uuid = uuid;
    request.manifest.created = clock.wall().count();
    request.manifest.tokenizer = std::move(tokenizer_fingerprint);
    request.reports.push_back(std::move(report));
    request.expected = tensor_infos(state);
    request.attachments = model_attachments(spec, std::move(tokenizer_json));
    MUSTER_TRY(const Committed committed, commit_checkpoint(files, request));
    MUSTER_TRY(files.rename(committed.folder, folder));
    return files.sync_directory(parent);
  };
  const Status status = make();
  static_cast<void>(remove_tree(files, workshop));
  return status;
}

}  // namespace muster
