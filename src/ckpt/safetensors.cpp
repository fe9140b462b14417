#include "ckpt/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "ckpt/json_cursor.h"

namespace muster {
namespace {

constexpr std::string_view kMetadataName = "__metadata__";

Result<std::vector<int64_t>> parse_shape(JsonCursor& json) {
  std::vector<int64_t> shape;
  MUSTER_TRY(json.expect('['));
  if (json.take(']')) return shape;
  do {
    MUSTER_TRY(const uint64_t extent, json.integer());
    if (extent > INT64_MAX) return json.error("extent above 2^63");
    shape.push_back(static_cast<int64_t>(extent));
  } while (json.take(','));
  MUSTER_TRY(json.expect(']'));
  return shape;
}

struct Offsets {
  uint64_t begin = 0, end = 0;
};

Result<Offsets> parse_offsets(JsonCursor& json) {
  Offsets offsets;
  MUSTER_TRY(json.expect('['));
  MUSTER_TRY(offsets.begin, json.integer());
  MUSTER_TRY(json.expect(','));
  MUSTER_TRY(offsets.end, json.integer());
  MUSTER_TRY(json.expect(']'));
  return offsets;
}

// The value of one tensor's key; offsets are left relative to the data.
Result<SafetensorsTensor> parse_tensor(JsonCursor& json) {
  std::optional<Dtype> dtype;
  std::optional<std::vector<int64_t>> shape;
  std::optional<Offsets> offsets;
  MUSTER_TRY(json.expect('{'));
  do {
    MUSTER_TRY(const std::string field, json.string());
    MUSTER_TRY(json.expect(':'));
    if (field == "dtype" && !dtype) {
      MUSTER_TRY(const std::string name, json.string());
      dtype = dtype_of(name);
      if (!dtype) return json.error("unknown dtype '" + name + "'");
    } else if (field == "shape" && !shape) {
      MUSTER_TRY(shape, parse_shape(json));
    } else if (field == "data_offsets" && !offsets) {
      MUSTER_TRY(offsets, parse_offsets(json));
    } else {
      return json.error("field '" + field + "' is unknown or repeated");
    }
  } while (json.take(','));
  MUSTER_TRY(json.expect('}'));
  if (!dtype || !shape || !offsets) return json.error("dtype, shape or data_offsets is missing");
  return SafetensorsTensor{"", *dtype, std::move(*shape), offsets->begin, offsets->end};
}

Status parse_metadata(JsonCursor& json, std::map<std::string, std::string>& metadata) {
  MUSTER_TRY(json.expect('{'));
  if (json.take('}')) return {};
  do {
    MUSTER_TRY(std::string key, json.string());
    MUSTER_TRY(json.expect(':'));
    MUSTER_TRY(std::string value, json.string());
    if (!metadata.emplace(key, std::move(value)).second)
      return json.error("metadata key '" + key + "' occurs twice");
  } while (json.take(','));
  return json.expect('}');
}

Status parse_object(JsonCursor& json, SafetensorsHeader& header) {
  std::unordered_set<std::string> names;
  MUSTER_TRY(json.expect('{'));
  if (json.take('}')) return {};
  do {
    MUSTER_TRY(std::string name, json.string());
    MUSTER_TRY(json.expect(':'));
    if (!names.insert(name).second) return json.error("name '" + name + "' occurs twice");
    if (name == kMetadataName) {
      MUSTER_TRY(parse_metadata(json, header.metadata));
      continue;
    }
    MUSTER_TRY(SafetensorsTensor tensor, parse_tensor(json));
    tensor.name = std::move(name);
    header.tensors.push_back(std::move(tensor));
  } while (json.take(','));
  return json.expect('}');
}

// Ranges match shapes and tile the data exactly; makes them absolute.
Status check_ranges(SafetensorsHeader& header, const std::string& what) {
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const uint64_t data_bytes = header.file_size - header.data_begin;
  uint64_t at = 0;
  for (SafetensorsTensor& tensor : header.tensors) {
    const auto wrong = [&](const std::string& problem) {
      return Error(Code::corrupt, what + ": tensor '" + tensor.name + "': " + problem);
    };
    const std::string range =
        "[" + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + ")";
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return wrong(bytes.error().message());
    if (tensor.end < tensor.begin || tensor.end - tensor.begin != *bytes)
      return wrong("range " + range + " but shape and dtype need " + std::to_string(*bytes) +
                   " bytes");
    if (tensor.begin != at)
      return wrong("range " + range + " should begin at " + std::to_string(at));
    if (tensor.end > data_bytes)
      return wrong("range " + range + " ends behind the file's " + std::to_string(data_bytes) +
                   " bytes of data (truncated file?)");
    at = tensor.end;
    tensor.begin += header.data_begin;
    tensor.end += header.data_begin;
  }
  if (at != data_bytes) {
    return Error(Code::corrupt, what + ": tensors end at " + std::to_string(at) +
                                    " but the file has " + std::to_string(data_bytes) +
                                    " bytes of data");
  }
  return {};
}

// The largest power of two, at most 4096, that divides `bytes`.
uint64_t natural_alignment(uint64_t bytes) {
  return uint64_t{1} << std::min(std::countr_zero(bytes | 4096), 12);
}

std::string header_text(const SafetensorsHeader& header,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json[std::string(kMetadataName)] = metadata;
  for (const SafetensorsTensor& tensor : header.tensors) {
    auto& entry = json[tensor.name];
    entry["dtype"] = dtype_name(tensor.dtype);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {tensor.begin, tensor.end};
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

const SafetensorsTensor* SafetensorsHeader::find(std::string_view name) const {
  for (const SafetensorsTensor& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

Result<uint64_t> tensor_bytes(Dtype dtype, const std::vector<int64_t>& shape) {
  uint64_t bytes = static_cast<uint64_t>(dtype_bytes(dtype));
  for (const int64_t extent : shape) {
    if (extent < 0)
      return Error(Code::invalid_argument, "negative extent " + std::to_string(extent));
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes) || bytes > INT64_MAX)
      return Error(Code::invalid_argument, "shape of more than 2^63 bytes");
  }
  return bytes;
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> start,
                                                   uint64_t file_size, std::string_view file_name) {
  const std::string what = "header of " + std::string(file_name);
  const auto corrupt = [&](const std::string& problem) {
    return Error(Code::corrupt, what + ": " + problem);
  };
  if (file_size < 8 || start.size() < 8)
    return corrupt("the file has " + std::to_string(file_size) + " bytes, fewer than 8");
  uint64_t length = 0;
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&length, start.data(), 8);
  if (length > kMaxSafetensorsHeader)
    return corrupt("length " + std::to_string(length) + " is above 100000000");
  if (length > file_size - 8 || length > start.size() - 8)
    return corrupt("length " + std::to_string(length) + " is more than the file holds");
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + 8, length);
  if (text.empty() || text.front() != '{') return corrupt("it does not begin with '{'");

  SafetensorsHeader header;
  header.data_begin = 8 + length;
  header.file_size = file_size;
  JsonCursor json(text, what);
  MUSTER_TRY(parse_object(json, header));
  if (!json.at_end()) return json.error("bytes follow the object");
  MUSTER_TRY(check_ranges(header, what));
  return header;
}

Result<SafetensorsLayout> lay_out_safetensors(std::vector<SafetensorsTensor> tensors,
                                              const std::map<std::string, std::string>& metadata) {
  std::unordered_set<std::string> names;
  for (SafetensorsTensor& tensor : tensors) {
    if (tensor.name == kMetadataName || !names.insert(tensor.name).second)
      return Error(Code::invalid_argument,
                   "tensor name '" + tensor.name + "' is reserved or occurs twice");
    auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return std::move(bytes).error().context("tensor '" + tensor.name + "'");
    tensor.begin = 0;
    tensor.end = *bytes;
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    // Empty tensors go first, where every alignment holds.
    const auto key = [](const auto& t) { return t.end == 0 ? 8192 : natural_alignment(t.end); };
    return key(a) > key(b);
  });
  SafetensorsLayout layout;
  uint64_t at = 0;
  for (SafetensorsTensor& tensor : tensors) {
    const uint64_t bytes = tensor.end;
    tensor.begin = at;
    if (__builtin_add_overflow(at, bytes, &at) || at > INT64_MAX / 2)
      return Error(Code::invalid_argument, "tensors of more than 2^62 bytes in one file");
    tensor.end = at;
  }
  layout.header.tensors = std::move(tensors);
  layout.header.metadata = metadata;

  std::string text = header_text(layout.header, metadata);
  text.resize((8 + text.size() + 4095) / 4096 * 4096 - 8, ' ');
  if (text.size() > kMaxSafetensorsHeader)
    return Error(Code::invalid_argument, "header of " + std::to_string(text.size()) +
                                             " bytes, above 100000000: use more files");
  const uint64_t length = text.size();
  layout.start.assign(reinterpret_cast<const char*>(&length), 8);
  layout.start += text;
  layout.header.data_begin = layout.start.size();
  layout.header.file_size = layout.header.data_begin + at;
  for (SafetensorsTensor& tensor : layout.header.tensors) {
    tensor.begin += layout.header.data_begin;
    tensor.end += layout.header.data_begin;
  }
  return layout;
}

Result<SafetensorsFile> SafetensorsFile::open(Files& files, std::string_view path) {
  MUSTER_TRY(const FileHandle handle, files.open(path, {OpenMode::read, false}));
  SafetensorsFile file(files, handle, std::string(path));  // closes the handle from here on
  MUSTER_TRY(const int64_t signed_size, files.size(handle));
  const auto size = static_cast<uint64_t>(signed_size);
  std::vector<std::byte> start(std::min<uint64_t>(8, size));
  MUSTER_TRY(const size_t got, files.read_at(handle, start, 0));
  uint64_t length = 0;
  if (got == 8) std::memcpy(&length, start.data(), 8);
  // A hostile length is refused by the parser; here it only must not make us read it.
  if (got == 8 && length <= kMaxSafetensorsHeader && length <= size - 8) {
    start.resize(8 + length);
    MUSTER_TRY(const size_t more, files.read_at(handle, std::span(start).subspan(8), 8));
    start.resize(8 + more);
  }
  MUSTER_TRY(file.header_, parse_safetensors_header(start, size, path));
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (files_ != nullptr) static_cast<void>(files_->close(file_));  // read only: nothing to lose
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : files_(std::exchange(other.files_, nullptr)),
      file_(other.file_),
      path_(std::move(other.path_)),
      header_(std::move(other.header_)) {}

Status SafetensorsFile::read(const SafetensorsTensor& tensor, uint64_t offset,
                             std::span<std::byte> out) {
  if (offset > tensor.bytes() || out.size() > tensor.bytes() - offset) {
    return Error(Code::invalid_argument, path_ + ": tensor '" + tensor.name + "' has " +
                                             std::to_string(tensor.bytes()) + " bytes, [" +
                                             std::to_string(offset) + ", +" +
                                             std::to_string(out.size()) + ") was asked for");
  }
  MUSTER_TRY(const size_t got,
             files_->read_at(file_, out, static_cast<int64_t>(tensor.begin + offset)));
  if (got != out.size())
    return Error(Code::corrupt, path_ + ": the file ends inside tensor '" + tensor.name + "'");
  return {};
}

Status write_safetensors(Files& files, std::string_view path,
                         const std::vector<SafetensorsTensor>& tensors,
                         const std::vector<std::span<const std::byte>>& data,
                         const std::map<std::string, std::string>& metadata) {
  MUSTER_CHECK(tensors.size() == data.size(), tensors.size(), data.size());
  MUSTER_TRY(const SafetensorsLayout layout, lay_out_safetensors(tensors, metadata));
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i < tensors.size(); ++i) index[tensors[i].name] = i;

  const std::string temporary = std::string(path) + ".tmp";
  MUSTER_TRY(const FileHandle file, files.open(temporary, {OpenMode::write_truncate, false}));
  const auto write_all = [&]() -> Status {
    MUSTER_TRY(files.write_at(file, std::as_bytes(std::span(layout.start)), 0));
    for (const SafetensorsTensor& tensor : layout.header.tensors) {
      const auto bytes = data[index.at(tensor.name)];
      MUSTER_CHECK(bytes.size() == tensor.bytes(), tensor.name, bytes.size(), tensor.bytes());
      MUSTER_TRY(files.write_at(file, bytes, static_cast<int64_t>(tensor.begin)));
    }
    return files.sync_file(file);
  };
  Status status = write_all();
  const Status closed = files.close(file);
  if (status.ok()) status = closed;
  if (status.ok()) status = files.rename(temporary, path);
  if (!status.ok()) {
    static_cast<void>(files.remove(temporary));
    return status;
  }
  return files.sync_directory(parent_path(path));
}

}  // namespace muster
