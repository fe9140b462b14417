#include "data/spool.h"

#include <fmt/format.h>
#include <zstd.h>

#include <memory>

#include "base/hash.h"

namespace muster {

static Status decompress(Files& files, FileHandle out, const std::string& packed,
                         const std::string& path) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  MUSTER_CHECK(context != nullptr);
  std::string buffer(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  size_t left = 0;  // 0 = at the end of a frame
  while (in.pos < in.size) {
    ZSTD_outBuffer piece{buffer.data(), buffer.size(), 0};
    left = ZSTD_decompressStream(context.get(), &piece, &in);
    if (ZSTD_isError(left)) {
      return Error(Code::corrupt, fmt::format("{}: not valid zstd near byte {}: {}", path, in.pos,
                                              ZSTD_getErrorName(left)));
    }
    MUSTER_TRY(files.append(out, std::as_bytes(std::span(buffer.data(), piece.pos))));
  }
  // What is still inside the decoder.
  while (left != 0) {
    ZSTD_outBuffer piece{buffer.data(), buffer.size(), 0};
    const size_t before = left;
    left = ZSTD_decompressStream(context.get(), &piece, &in);
    if (ZSTD_isError(left) || (piece.pos == 0 && left == before)) {
      return Error(Code::corrupt,
                   fmt::format("{}: the file ends inside a zstd frame; it is truncated", path));
    }
    MUSTER_TRY(files.append(out, std::as_bytes(std::span(buffer.data(), piece.pos))));
  }
  return {};
}

Result<std::string> spool_zstd(Files& files, Random& random, const std::string& path,
                               const std::string& cache_folder) {
  if (cache_folder.empty()) {
    return Error(Code::invalid_argument,
                 fmt::format("{}: a compressed source needs a cache folder", path));
  }
  MUSTER_TRY(const std::string packed, read_file(files, path));
  const std::string target = join_path(cache_folder, xxh3_128(packed).hex() + ".jsonl");
  if (files.stat(target).ok()) return target;
  MUSTER_TRY(make_directories(files, cache_folder));
  const std::string temporary = fmt::format("{}.{:016x}.tmp", target, random.u64());
  MUSTER_TRY(const FileHandle out, files.open(temporary, {OpenMode::write_new, false}));
  Status status = decompress(files, out, packed, path);
  if (status.ok()) status = files.sync_file(out);
  const Status closed = files.close(out);
  if (status.ok()) status = closed;
  if (status.ok()) status = files.rename(temporary, target);
  if (!status.ok()) {
    static_cast<void>(files.remove(temporary).ok());
    return std::move(status).error();
  }
  return target;
}

}  // namespace muster
