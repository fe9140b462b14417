#include "ckpt/verify.h"

#include <algorithm>

#include "ckpt/reader.h"
#include "ckpt/safetensors.h"
#include "ckpt/shard_plan.h"

namespace muster {
namespace {

constexpr size_t kProblemsPerFile = 10;

struct BoxInFile {
  const TensorInfo* info;
  const StoredBox* stored;
};

class FileVerifier {
 public:
  FileVerifier(Files& files, std::string_view folder, const Manifest& manifest, size_t index,
               std::vector<std::string>& problems)
      : files_(files),
        manifest_(manifest),
        index_(index),
        stored_(manifest.files[index]),
        path_(join_path(folder, stored_.name)),
        problems_(problems) {
    for (const StoredTensor& tensor : manifest.tensors)
      for (const StoredBox& box : tensor.boxes)
        if (box.file == index_) boxes_.push_back({&tensor.info, &box});
    std::sort(boxes_.begin(), boxes_.end(), [](const BoxInFile& a, const BoxInFile& b) {
      return std::pair(a.stored->begin, a.stored->end) < std::pair(b.stored->begin, b.stored->end);
    });
  }

  void verify(Depth depth) {
    const auto about = files_.stat(path_);
    if (!about.ok()) return report(about.error().to_string());
    if (about->size != stored_.size)
      report("it has " + std::to_string(about->size) + " bytes, the manifest says " +
             std::to_string(stored_.size));
    if (!boxes_.empty()) verify_header();
    if (depth == Depth::full) verify_bytes();
    if (count_ > kProblemsPerFile)
      problems_.push_back(stored_.name + ": " + std::to_string(count_ - kProblemsPerFile) +
                          " more problems");
  }

 private:
  void report(const std::string& problem) {
    if (++count_ <= kProblemsPerFile) problems_.push_back(stored_.name + ": " + problem);
  }

  // The shard's own header must tell the same story as the manifest.
  void verify_header() {
    const auto file = SafetensorsFile::open(files_, path_);
    if (!file.ok()) return report(file.error().to_string());
    const SafetensorsHeader& header = file->header();
    const auto uuid = header.metadata.find(kUuidKey);
    if (uuid == header.metadata.end() || uuid->second != manifest_.uuid)
      report("the shard belongs to another save");
    std::map<std::string_view, const SafetensorsTensor*> by_key;
    for (const SafetensorsTensor& tensor : header.tensors) by_key[tensor.name] = &tensor;
    for (const BoxInFile& box : boxes_) {
      const auto found = by_key.find(shard_key(*box.info, box.stored->box));
      const bool same = found != by_key.end() && found->second->dtype == box.info->dtype &&
                        found->second->shape == box.stored->box.extent &&
                        static_cast<int64_t>(found->second->begin) == box.stored->begin &&
                        static_cast<int64_t>(found->second->end) == box.stored->end;
      if (!same)
        report("its header does not hold tensor '" + box.info->name + "' " +
               describe(box.stored->box) + " where the manifest says");
    }
  }

  void verify_bytes() {
    const auto handle = files_.open(path_, {OpenMode::read, false});
    if (!handle.ok()) return report(handle.error().to_string());
    std::vector<std::byte> chunk(static_cast<size_t>(std::min(kChecksumChunk, stored_.size)));
    for (size_t i = 0; i < stored_.crc32c.size(); ++i) {
      const int64_t start = static_cast<int64_t>(i) * kChecksumChunk;
      const auto length = static_cast<size_t>(std::min(kChecksumChunk, stored_.size - start));
      const auto got = files_.read_at(*handle, std::span(chunk).first(length), start);
      if (!got.ok()) {
        report(got.error().to_string());
        break;
      }
      if (*got != length) {
        report("the file ends in MiB " + std::to_string(i));
        break;
      }
      const auto bytes = std::span<const std::byte>(chunk).first(length);
      if (crc32c(bytes) != stored_.crc32c[i])
        report("checksum of MiB " + std::to_string(i) + " is wrong");
      hash_boxes(start, bytes);
    }
    (void)files_.close(*handle);  // read only
  }

  // Feeds the chunk at `start` to the hashes of the boxes it meets; they come in order of bytes.
  void hash_boxes(int64_t start, std::span<const std::byte> bytes) {
    const int64_t end = start + static_cast<int64_t>(bytes.size());
    for (; next_box_ < boxes_.size(); ++next_box_) {
      const StoredBox& box = *boxes_[next_box_].stored;
      const int64_t from = std::max(box.begin, start), to = std::min(box.end, end);
      if (from < to) {
        hash_.update(
            bytes.subspan(static_cast<size_t>(from - start), static_cast<size_t>(to - from)));
      }
      if (box.end > end) return;
      if (hash_.digest() != box.xxh3)
        report("content of tensor '" + boxes_[next_box_].info->name + "' " + describe(box.box) +
               " does not have its hash");
      hash_ = Xxh3();
    }
  }

  Files& files_;
  const Manifest& manifest_;
  const size_t index_;
  const StoredFile& stored_;
  const std::string path_;
  std::vector<std::string>& problems_;
  std::vector<BoxInFile> boxes_;
  size_t count_ = 0, next_box_ = 0;
  Xxh3 hash_;
};

}  // namespace

Verdict verify_checkpoint(Files& files, std::string_view folder, Depth depth) {
  Verdict verdict;
  auto manifest = read_manifest(files, folder);
  if (!manifest.ok()) {
    verdict.problems.push_back(std::string(kManifestName) + ": " + manifest.error().to_string());
    return verdict;
  }
  verdict.manifest = *std::move(manifest);
  for (size_t i = 0; i < verdict.manifest.files.size(); ++i)
    FileVerifier(files, folder, verdict.manifest, i, verdict.problems).verify(depth);
  return verdict;
}

}  // namespace muster
