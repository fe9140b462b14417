#include "ckpt/scan.h"

#include <algorithm>
#include <tuple>

#include "ckpt/manifest_json.h"

namespace muster {

bool newer(const FoundCheckpoint& a, const FoundCheckpoint& b) {
  return std::tie(a.step, a.epoch, a.created, a.uuid) >
         std::tie(b.step, b.epoch, b.created, b.uuid);
}

Result<Scan> scan_checkpoints(Files& files, const std::string& checkpoints, Depth depth) {
  Scan scan;
  const auto entries = files.list(checkpoints);
  if (!entries.ok()) {
    if (entries.error().code() == Code::not_found) return scan;
    return entries.error();
  }
  for (const DirectoryEntry& entry : *entries) {
    if (entry.kind != FileKind::directory) continue;
    const std::string folder = join_path(checkpoints, entry.name);
    Verdict verdict = verify_checkpoint(files, folder, depth);
    if (!verdict.valid()) {
      const bool has_manifest = files.stat(join_path(folder, kManifestName)).ok();
      scan.invalid.push_back({folder, has_manifest, std::move(verdict.problems)});
      continue;
    }
    const Manifest& manifest = verdict.manifest;
    scan.valid.push_back({folder, manifest.uuid, manifest.scalars.step, manifest.epoch,
                          manifest.created, manifest.total_bytes()});
  }
  std::sort(scan.valid.begin(), scan.valid.end(), newer);
  return scan;
}

Result<FoundCheckpoint> newest_whole_checkpoint(Files& files, const std::string& checkpoints) {
  MUSTER_TRY(const Scan scan, scan_checkpoints(files, checkpoints, Depth::quick));
  for (const FoundCheckpoint& found : scan.valid)
    if (verify_checkpoint(files, found.folder, Depth::full).valid()) return found;
  return Error(Code::not_found, "no whole checkpoint in " + checkpoints);
}

std::string encode_found(const std::vector<FoundCheckpoint>& found) {
  manifest_json::Json list = manifest_json::Json::array();
  for (const FoundCheckpoint& one : found) {
    list.push_back({{"folder", one.folder},
                    {"uuid", one.uuid},
                    {"step", one.step},
                    {"epoch", one.epoch},
                    {"created", one.created},
                    {"bytes", one.bytes}});
  }
  return manifest_json::Json{{"found", list}}.dump(-1, ' ', false,
                                                   manifest_json::Json::error_handler_t::replace);
}

Result<std::vector<FoundCheckpoint>> decode_found(std::string_view bytes) {
  const auto json = manifest_json::Json::parse(bytes, nullptr, false);
  manifest_json::Reader read;
  std::vector<FoundCheckpoint> list;
  for (const auto& entry : read.array(json, "found")) {
    list.push_back({read.text(entry, "folder"), read.text(entry, "uuid"),
                    read.integer(entry, "step"), read.integer(entry, "epoch"),
                    read.integer(entry, "created"), read.integer(entry, "bytes")});
  }
  if (!read.problem().empty())
    return Error(Code::corrupt, "list of checkpoints: " + read.problem());
  return list;
}

std::optional<FoundCheckpoint> newest_common(
    const std::vector<std::vector<FoundCheckpoint>>& lists) {
  if (lists.empty()) return std::nullopt;
  std::optional<FoundCheckpoint> best;
  for (const FoundCheckpoint& candidate : lists[0]) {
    const bool everywhere = std::all_of(lists.begin(), lists.end(), [&](const auto& list) {
      return std::any_of(list.begin(), list.end(),
                         [&](const auto& other) { return other.uuid == candidate.uuid; });
    });
    if (everywhere && (!best || newer(candidate, *best))) best = candidate;
  }
  return best;
}

}  // namespace muster
