#include "ckpt/reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster {

Result<Manifest> read_manifest(Files& files, std::string_view folder) {
  MUSTER_TRY(const std::string text, read_file(files, join_path(folder, kManifestName)));
  auto manifest = parse_manifest(text);
  if (!manifest.ok()) return std::move(manifest).error().context(std::string(folder));
  return manifest;
}

Result<CheckpointReader> CheckpointReader::open(Files& files, std::string_view folder) {
  CheckpointReader reader(files, std::string(folder));
  MUSTER_TRY(reader.manifest_, read_manifest(files, folder));
  return reader;
}

CheckpointReader::~CheckpointReader() {
  for (const auto& [file, handle] : handles_) (void)files_->close(handle);  // read only
}

CheckpointReader::CheckpointReader(CheckpointReader&& other) noexcept
    : files_(other.files_),
      folder_(std::move(other.folder_)),
      manifest_(std::move(other.manifest_)),
      handles_(std::exchange(other.handles_, {})),
      chunk_(std::move(other.chunk_)),
      chunk_file_(std::exchange(other.chunk_file_, SIZE_MAX)),
      chunk_index_(other.chunk_index_) {}

Error CheckpointReader::damaged(size_t file, const std::string& problem) const {
  return Error(Code::corrupt,
               join_path(folder_, manifest_.files[file].name) + ": " + problem +
                   "; resume from another checkpoint (muster ckpt verify tells which are whole)");
}

Result<FileHandle> CheckpointReader::handle_of(size_t file) {
  const auto known = handles_.find(file);
  if (known != handles_.end()) return known->second;
  const StoredFile& stored = manifest_.files[file];
  auto handle = files_->open(join_path(folder_, stored.name), {OpenMode::read, false});
  if (!handle.ok()) {
    if (handle.error().code() == Code::not_found) return damaged(file, "the file is missing");
    return handle.error();
  }
  handles_[file] = *handle;
  MUSTER_TRY(const int64_t size, files_->size(*handle));
  if (size != stored.size)
    return damaged(file, "it has " + std::to_string(size) + " bytes, the manifest says " +
                             std::to_string(stored.size));
  return *handle;
}

Status CheckpointReader::read_chunk(size_t file, int64_t chunk, std::span<std::byte> out) {
  MUSTER_TRY(const FileHandle handle, handle_of(file));
  MUSTER_TRY(const size_t got, files_->read_at(handle, out, chunk * kChecksumChunk));
  if (got != out.size()) return damaged(file, "the file ends early");
  if (crc32c(out) != manifest_.files[file].crc32c[static_cast<size_t>(chunk)])
    return damaged(file, "checksum of MiB " + std::to_string(chunk) + " is wrong");
  return {};
}

Status CheckpointReader::read_range(size_t file, int64_t begin, std::span<std::byte> out) {
  while (!out.empty()) {
    const int64_t chunk = begin / kChecksumChunk, start = chunk * kChecksumChunk;
    const int64_t length = std::min(kChecksumChunk, manifest_.files[file].size - start);
    const auto in_chunk = static_cast<size_t>(begin - start);
    const size_t part = std::min(out.size(), static_cast<size_t>(length) - in_chunk);
    if (part == static_cast<size_t>(length)) {
      MUSTER_TRY(read_chunk(file, chunk, out.first(part)));  // whole: straight to its place
    } else {
      if (chunk_file_ != file || chunk_index_ != chunk) {
        chunk_file_ = SIZE_MAX;  // until it is found right
        chunk_.resize(static_cast<size_t>(length));
        MUSTER_TRY(read_chunk(file, chunk, chunk_));
        chunk_file_ = file;
        chunk_index_ = chunk;
      }
      std::memcpy(out.data(), chunk_.data() + in_chunk, part);
    }
    begin += static_cast<int64_t>(part);
    out = out.subspan(part);
  }
  return {};
}

Status CheckpointReader::load(const StoredTensor& tensor, const Box& wanted,
                              std::span<std::byte> out) {
  MUSTER_TRY(check_inside(wanted, tensor.info.shape, tensor.info.name));
  const int64_t element = dtype_bytes(tensor.info.dtype);
  if (out.size() != static_cast<size_t>(elements_of(wanted) * element)) {
    return Error(Code::invalid_argument, "tensor '" + tensor.info.name + "': box " +
                                             describe(wanted) + " does not fit " +
                                             std::to_string(out.size()) + " bytes");
  }
  // The manifest was checked: the stored boxes cover the tensor exactly once.
  for (const StoredBox& stored : tensor.boxes) {
    const auto part = intersection(stored.box, wanted);
    if (!part) continue;
    Status status;
    for_each_run(*part, stored.box, wanted, [&](int64_t from, int64_t to, int64_t count) {
      if (!status.ok()) return;
      status = read_range(
          stored.file, stored.begin + from * element,
          out.subspan(static_cast<size_t>(to * element), static_cast<size_t>(count * element)));
    });
    MUSTER_TRY(status);
  }
  return {};
}

Result<std::string> CheckpointReader::attachment(std::string_view name) {
  for (size_t i = 0; i < manifest_.files.size(); ++i) {
    if (manifest_.files[i].name != name) continue;
    std::string bytes(static_cast<size_t>(manifest_.files[i].size), '\0');
    MUSTER_TRY(read_range(i, 0, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }
  return Error(Code::not_found,
               folder_ + ": the checkpoint has no file '" + std::string(name) + "'");
}

Status check_tensors(const Manifest& manifest, const std::vector<TensorInfo>& wanted) {
  const auto mismatch = [](const std::string& problem) {
    return Error(Code::invalid_argument,
                 problem + "; the checkpoint belongs to another model or optimizer configuration");
  };
  const auto text = [](const TensorInfo& info) {
    return std::string(dtype_name(info.dtype)) + describe(whole_box(info.shape)) + info.layout;
  };
  for (const TensorInfo& info : wanted) {
    const StoredTensor* stored = manifest.find(info.name);
    if (stored == nullptr) return mismatch("it has no tensor '" + info.name + "'");
    if (stored->info.dtype != info.dtype || stored->info.shape != info.shape ||
        stored->info.layout != info.layout) {
      return mismatch("tensor '" + info.name + "' is " + text(stored->info) + ", wanted " +
                      text(info));
    }
  }
  if (manifest.tensors.size() != wanted.size())
    return mismatch("it has " + std::to_string(manifest.tensors.size()) + " tensors, the state " +
                    std::to_string(wanted.size()));
  return {};
}

Status restore_state(CheckpointReader& reader, State& state) {
  const Manifest& manifest = reader.manifest();
  MUSTER_TRY(check_tensors(manifest, tensor_infos(state)).context(reader.folder()));
  for (const StateTensor& tensor : state.tensors) {
    const int64_t bytes = elements_of(tensor.held) * dtype_bytes(tensor.info.dtype);
    MUSTER_TRY(reader.load(*manifest.find(tensor.info.name), tensor.held,
                           {tensor.data, static_cast<size_t>(bytes)}));
  }
  state.scalars = manifest.scalars;
  return {};
}

}  // namespace muster
