// RealFiles: the machine's own file system. Every call is one or a few system calls; errors name
// the call, the path and what the kernel said. Stateless apart from its root, so safe from any
// thread. A FileHandle's id is the file descriptor (close-on-exec).
#pragma once

#include <string>

#include "sys/files.h"

namespace muster {

enum class IoEngine {
  automatic,  // io_uring where the kernel lets us, else threads
  threads,    // for tests of the fallback, and for kernels whose io_uring is distrusted
};

class RealFiles final : public Files {
 public:
  // With an empty root, paths are used as given: absolute, or relative to the working directory.
  // Otherwise every path, with or without a leading '/', lies below `root`, and one with a ".."
  // part is refused (invalid_argument). Symbolic links are followed wherever they lead.
  explicit RealFiles(std::string root, IoEngine engine = IoEngine::automatic);

  Result<FileHandle> open(std::string_view path, OpenOptions options) override;
  Status close(FileHandle file) override;
  Result<size_t> read_at(FileHandle file, std::span<std::byte> out, int64_t offset) override;
  Status write_at(FileHandle file, std::span<const std::byte> data, int64_t offset) override;
  Status append(FileHandle file, std::span<const std::byte> data) override;
  Result<int64_t> size(FileHandle file) override;
  Status truncate(FileHandle file, int64_t length) override;
  Status sync_data(FileHandle file) override;
  Status sync_file(FileHandle file) override;
  Status sync_directory(std::string_view path) override;
  Result<std::unique_ptr<IoQueue>> make_queue(size_t depth) override;

  Status rename(std::string_view from, std::string_view to) override;
  Status remove(std::string_view path) override;
  Status make_directory(std::string_view path) override;
  Result<std::vector<DirectoryEntry>> list(std::string_view path) override;
  Result<FileStat> stat(std::string_view path) override;
  Result<DiskSpace> space(std::string_view path) override;
  // flock(2): held by the open file, so a child forked while it is held holds it too, until both
  // have closed it.
  Result<std::unique_ptr<FileLock>> lock(std::string_view path) override;
  Result<bool> is_locked(std::string_view path) override;

 private:
  Result<std::string> resolve(std::string_view path) const;

  const std::string root_;
  const IoEngine engine_;
};

}  // namespace muster
