#include "ckpt/commit.h"

#include <algorithm>
#include <cstdio>

namespace muster {
namespace {

StoredFile stored_file(const Attachment& attachment) {
  StoredFile file;
  file.name = attachment.name;
  file.size = static_cast<int64_t>(attachment.bytes.size());
  const auto bytes = std::as_bytes(std::span(attachment.bytes));
  for (size_t at = 0; at < bytes.size(); at += kChecksumChunk) {
    file.crc32c.push_back(
        crc32c(bytes.subspan(at, std::min<size_t>(kChecksumChunk, bytes.size() - at))));
  }
  return file;
}

Status write_synced(Files& files, const std::string& path, std::string_view text) {
  MUSTER_TRY(const FileHandle file, files.open(path, {OpenMode::write_truncate, false}));
  Status status = files.write_at(file, std::as_bytes(std::span(text)), 0);
  if (status.ok()) status = files.sync_file(file);
  const Status closed = files.close(file);
  return status.ok() ? closed : status;
}

}  // namespace

std::string new_uuid(Random& random) {
  Hash128 bits;
  bits.low = random.u64();
  bits.high = random.u64();
  return bits.hex();
}

std::string folder_name(int64_t step, const std::string& uuid) {
  char text[32];
  std::snprintf(text, sizeof text, "step-%08lld-", static_cast<long long>(step));
  return text + uuid;
}

Result<std::string> begin_checkpoint(Files& files, const std::string& checkpoints, int64_t step,
                                     const std::string& uuid) {
  const Status made = files.make_directory(checkpoints);
  if (!made.ok() && made.error().code() != Code::already_exists) return made.error();
  MUSTER_TRY(files.sync_directory(parent_path(checkpoints)));
  const std::string folder =
      join_path(checkpoints, folder_name(step, uuid) + std::string(kOpenSuffix));
  MUSTER_TRY(files.make_directory(folder));
  MUSTER_TRY(files.sync_directory(checkpoints));
  return folder;
}

Status abandon_checkpoint(Files& files, const std::string& folder) {
  // The manifest first, for good: what is left after a crash must not look whole.
  Status removed = files.remove(join_path(folder, kManifestName));
  if (removed.ok()) {
    MUSTER_TRY(files.sync_directory(folder));
  } else if (removed.error().code() != Code::not_found) {
    return removed;
  }
  return remove_tree(files, folder);
}

Result<std::string> finish_rename(Files& files, const std::string& folder) {
  if (!folder.ends_with(kOpenSuffix)) return folder;
  const std::string final_name = folder.substr(0, folder.size() - kOpenSuffix.size());
  MUSTER_TRY(files.rename(folder, final_name));
  MUSTER_TRY(files.sync_directory(parent_path(final_name)));
  return final_name;
}

Result<Committed> commit_checkpoint(Files& files, const CommitRequest& request) {
  Manifest manifest = request.manifest;
  std::vector<StoredFile> attachments;
  for (const Attachment& attachment : request.attachments)
    attachments.push_back(stored_file(attachment));
  MUSTER_TRY(merge_reports(manifest, request.reports, attachments, request.expected));
  MUSTER_TRY(const std::string text, manifest_text(manifest));  // proves coverage

  for (const Attachment& attachment : request.attachments)
    MUSTER_TRY(write_synced(files, join_path(request.folder, attachment.name), attachment.bytes));
  const std::string path = join_path(request.folder, kManifestName);
  const std::string temporary = join_path(request.folder, "manifest.tmp");
  MUSTER_TRY(write_synced(files, temporary, text));
  // The attachments' and shards' names are durable before the manifest's can be.
  MUSTER_TRY(files.sync_directory(request.folder));
  MUSTER_TRY(files.rename(temporary, path));
  MUSTER_TRY(files.sync_directory(request.folder));  // commit point

  Committed committed{request.folder, {}};
  auto renamed = finish_rename(files, request.folder);
  if (renamed.ok()) {
    committed.folder = *renamed;
  } else {
    committed.warnings.push_back(renamed.error().to_string());
  }
  const std::string checkpoints(parent_path(committed.folder));
  const std::string name = committed.folder.substr(committed.folder.rfind('/') + 1);
  const Status latest = write_file_durably(files, join_path(checkpoints, kLatestName), name + "\n");
  if (!latest.ok()) committed.warnings.push_back(latest.error().to_string());
  return committed;
}

}  // namespace muster
