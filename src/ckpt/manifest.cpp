#include "ckpt/manifest.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "ckpt/manifest_json.h"
#include "ckpt/safetensors.h"

namespace muster {
namespace {

using manifest_json::Json;
using manifest_json::Reader;

constexpr size_t kMaxBoxesPerTensor = 1 << 16;

Error invalid(const std::string& problem) {
  return Error(Code::invalid_argument, "manifest: " + problem);
}

// Text around the hash's own digits: all bytes that the hash covers.
struct Frame {
  std::string before, after;
  Hash128 hash() const {
    Xxh3 xxh3;
    xxh3.update(before);
    xxh3.update(after);
    return xxh3.digest();
  }
};

Result<Frame> frame_of(const Manifest& m) {
  Json body = Json::object();
  body["uuid"] = m.uuid;
  body["parent"] = m.parent;
  body["epoch"] = m.epoch;
  body["created"] = m.created;
  body["state"] = manifest_json::write_scalars(m.scalars);
  body["config"] = {{"text", m.config}, {"xxh3", xxh3_128(m.config).hex()}};
  body["tokenizer"] = m.tokenizer;
  body["numerics"] = manifest_json::write_numerics(m.numerics);
  body["tensors"] = manifest_json::write_tensors(m.tensors);
  body["files"] = manifest_json::write_files(m.files);
  Frame frame;
  frame.before = "{\"format\":\"" + std::string(kManifestFormat) + "\",\"xxh3\":\"";
  try {
    frame.after = "\",\"body\":" + body.dump() + "}";
  } catch (const Json::exception& e) {
    return invalid(std::string("a text is not UTF-8: ") + e.what());
  }
  return frame;
}

Status check_file(const StoredFile& file) {
  if (file.name.empty() || file.name == "." || file.name == ".." ||
      file.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos ||
      file.name == kManifestName)
    return invalid("'" + file.name + "' cannot be the name of a file");
  if (file.size < 0) return invalid("file '" + file.name + "' has a negative length");
  const int64_t chunks = file.size / kChecksumChunk + (file.size % kChecksumChunk != 0 ? 1 : 0);
  if (static_cast<int64_t>(file.crc32c.size()) != chunks)
    return invalid("file '" + file.name + "' has " + std::to_string(file.crc32c.size()) + " of " +
                   std::to_string(chunks) + " checksums");
  return {};
}

Status check_tensor(const StoredTensor& tensor, const std::vector<StoredFile>& files) {
  const auto wrong = [&](const std::string& problem) {
    return invalid("tensor '" + tensor.info.name + "': " + problem);
  };
  const auto bytes = tensor_bytes(tensor.info.dtype, tensor.info.shape);
  if (!bytes.ok()) return wrong(bytes.error().message());
  if (tensor.boxes.size() > kMaxBoxesPerTensor) return wrong("more than 65536 boxes");
  std::vector<Box> boxes;
  for (const StoredBox& stored : tensor.boxes) {
    MUSTER_TRY(check_inside(stored.box, tensor.info.shape, tensor.info.name));
    if (stored.file >= files.size()) return wrong("a box lies in a file that is not listed");
    if (stored.begin < 0 || stored.end < stored.begin || stored.end > files[stored.file].size)
      return wrong("a box lies outside its file");
    if (stored.end - stored.begin != elements_of(stored.box) * dtype_bytes(tensor.info.dtype))
      return wrong("box " + describe(stored.box) + " and its byte range differ in length");
    boxes.push_back(stored.box);
  }
  return check_coverage(boxes, tensor.info.shape, tensor.info.name);
}

template <class T>
Status check_sorted(const std::vector<T>& list, auto name_of, const char* kind) {
  for (size_t i = 1; i < list.size(); ++i) {
    if (!(name_of(list[i - 1]) < name_of(list[i])))
      return invalid(std::string(kind) + " '" + name_of(list[i]) + "' is repeated or out of order");
  }
  return {};
}

Status check_ranges_apart(const Manifest& manifest) {
  struct Range {
    size_t file;
    int64_t begin, end;
    const std::string* name;
    auto key() const { return std::tuple(file, begin, end); }
  };
  std::vector<Range> ranges;
  for (const StoredTensor& tensor : manifest.tensors)
    for (const StoredBox& box : tensor.boxes)
      if (box.begin < box.end) ranges.push_back({box.file, box.begin, box.end, &tensor.info.name});
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.key() < b.key(); });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].file == ranges[i - 1].file && ranges[i].begin < ranges[i - 1].end)
      return invalid("tensors '" + *ranges[i - 1].name + "' and '" + *ranges[i].name +
                     "' share bytes of one file");
  }
  return {};
}

}  // namespace

const StoredTensor* Manifest::find(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const StoredTensor& t, std::string_view n) { return t.info.name < n; });
  return found != tensors.end() && found->info.name == name ? &*found : nullptr;
}

int64_t Manifest::total_bytes() const {
  return std::accumulate(files.begin(), files.end(), int64_t{0},
                         [](int64_t sum, const StoredFile& file) { return sum + file.size; });
}

Status check_manifest(const Manifest& manifest) {
  if (!Hash128::from_hex(manifest.uuid)) return invalid("uuid is not 32 hexadecimal digits");
  if (manifest.scalars.step < 0) return invalid("step is negative");
  MUSTER_TRY(check_sorted(manifest.files, [](const StoredFile& f) { return f.name; }, "file"));
  MUSTER_TRY(
      check_sorted(manifest.tensors, [](const StoredTensor& t) { return t.info.name; }, "tensor"));
  for (const StoredFile& file : manifest.files) MUSTER_TRY(check_file(file));
  for (const StoredTensor& tensor : manifest.tensors)
    MUSTER_TRY(check_tensor(tensor, manifest.files));
  return check_ranges_apart(manifest);
}

Result<std::string> manifest_text(const Manifest& manifest) {
  MUSTER_TRY(check_manifest(manifest));
  MUSTER_TRY(const Frame frame, frame_of(manifest));
  return frame.before + frame.hash().hex() + frame.after;
}

Result<Manifest> parse_manifest(std::string_view text) {
  const auto corrupt = [](const std::string& problem) {
    return Error(Code::corrupt, "manifest: " + problem);
  };
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return corrupt("not JSON (truncated or overwritten)");
  Reader read;
  const std::string format = read.text(json, "format");
  if (read.problem().empty() && format != kManifestFormat)
    return corrupt("format '" + format + "' is unknown, this program reads " +
                   std::string(kManifestFormat));
  const Hash128 stored = read.hash(json, "xxh3");
  const Json& body = read.member(json, "body");
  Manifest m;
  m.uuid = read.text(body, "uuid");
  m.parent = read.text(body, "parent");
  m.epoch = read.integer(body, "epoch");
  m.created = read.integer(body, "created");
  m.scalars = read.scalars(body, "state");
  m.config = read.text(read.member(body, "config"), "text");
  m.tokenizer = read.text(body, "tokenizer");
  m.numerics = read.numerics(body, "numerics");
  m.tensors = read.tensors(body, "tensors");
  m.files = read.files(body, "files");
  if (!read.problem().empty()) return corrupt(read.problem());

  const auto frame = frame_of(m);
  if (!frame.ok()) return corrupt(frame.error().message());
  if (frame->hash() != stored) return corrupt("its bytes do not match its XXH3 digest");
  if (frame->before + stored.hex() + frame->after != text)
    return corrupt("its bytes are not in canonical form");
  const Status checked = check_manifest(m);
  if (!checked.ok()) return Error(Code::corrupt, checked.error().message());
  return m;
}

std::string encode_report(const ShardReport& report) {
  Json json = Json::object();
  json["uuid"] = report.uuid;
  json["shard"] = report.shard;
  json["file"] = manifest_json::write_files({report.file});
  json["tensors"] = manifest_json::write_tensors(report.tensors);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ShardReport> decode_report(std::string_view bytes) {
  const auto corrupt = [](const std::string& problem) {
    return Error(Code::corrupt, "shard report: " + problem);
  };
  const Json json = Json::parse(bytes, nullptr, false);
  if (json.is_discarded()) return corrupt("not JSON");
  Reader read;
  ShardReport report;
  report.uuid = read.text(json, "uuid");
  report.shard = read.integer(json, "shard");
  std::vector<StoredFile> files = read.files(json, "file");
  report.tensors = read.tensors(json, "tensors");
  if (!read.problem().empty()) return corrupt(read.problem());
  if (files.size() != 1) return corrupt("it names no file");
  report.file = std::move(files[0]);
  return report;
}

Status merge_reports(Manifest& manifest, const std::vector<ShardReport>& reports,
                     const std::vector<StoredFile>& attachments,
                     const std::vector<TensorInfo>& expected) {
  manifest.files = attachments;
  for (const ShardReport& report : reports) manifest.files.push_back(report.file);
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::map<std::string, size_t> file_index;
  for (size_t i = 0; i < manifest.files.size(); ++i) file_index[manifest.files[i].name] = i;

  std::map<std::string, StoredTensor> tensors;
  for (const ShardReport& report : reports) {
    if (report.uuid != manifest.uuid)
      return invalid("shard " + std::to_string(report.shard) + " belongs to save " + report.uuid +
                     ", not to " + manifest.uuid);
    for (const StoredTensor& part : report.tensors) {
      const auto [entry, fresh] = tensors.try_emplace(part.info.name);
      StoredTensor& whole = entry->second;
      if (fresh) whole.info = part.info;
      if (whole.info != part.info)
        return invalid("ranks disagree about tensor '" + part.info.name + "'");
      for (StoredBox box : part.boxes) {
        box.file = file_index.at(report.file.name);
        whole.boxes.push_back(std::move(box));
      }
    }
  }
  if (tensors.size() != expected.size())
    return invalid(std::to_string(tensors.size()) + " tensors were written, the state has " +
                   std::to_string(expected.size()));
  for (const TensorInfo& info : expected) {
    const auto found = tensors.find(info.name);
    if (found == tensors.end() || found->second.info != info)
      return invalid("tensor '" + info.name + "' was not written as the state describes it");
  }
  manifest.tensors.clear();
  for (auto& [name, tensor] : tensors) {
    std::sort(tensor.boxes.begin(), tensor.boxes.end(), [](const auto& a, const auto& b) {
      return std::tie(a.box.offset, a.file, a.begin) < std::tie(b.box.offset, b.file, b.begin);
    });
    manifest.tensors.push_back(std::move(tensor));
  }
  return {};
}

}  // namespace muster
