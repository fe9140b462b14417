#include "sys/files.h"

#include <algorithm>

namespace muster {

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty() || folder == ".") return std::string(name);
  std::string path(folder);
  if (path.back() != '/') path += '/';
  path += name;
  return path;
}

std::string_view parent_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  if (slash == 0) return "/";
  return path.substr(0, slash);
}

static Result<std::string> read_all(Files& files, FileHandle file, size_t size_hint) {
  // Files of procfs and sysfs say size 0, and a file may grow meanwhile: read until the end.
  std::string text(size_hint + 1, '\0');
  size_t used = 0;
  for (;;) {
    const std::span<char> room(text.data() + used, text.size() - used);
    MUSTER_TRY(const size_t got,
               files.read_at(file, std::as_writable_bytes(room), static_cast<int64_t>(used)));
    used += got;
    if (got < room.size()) break;
    text.resize(std::max<size_t>(4096, text.size() * 2));
  }
  text.resize(used);
  return text;
}

Result<std::string> read_file(Files& files, std::string_view path) {
  MUSTER_TRY(const FileStat about, files.stat(path));
  if (about.kind == FileKind::directory) {
    return Error(Code::invalid_argument,
                 "read " + std::string(path) + ": it is a directory, a file is needed");
  }
  MUSTER_TRY(const FileHandle file, files.open(path, {OpenMode::read, false}));
  // For a symbolic link the size is the link's own: only a hint.
  auto text = read_all(files, file, static_cast<size_t>(std::max<int64_t>(about.size, 0)));
  const Status closed = files.close(file);
  if (text.ok() && !closed.ok()) return closed.error();
  return text;
}

Status make_directories(Files& files, std::string_view path) {
  if (path.empty() || path == "." || path == "/") return {};
  Status made = files.make_directory(path);
  if (made.ok()) return {};
  if (made.error().code() == Code::already_exists) {
    MUSTER_TRY(const FileStat about, files.stat(path));
    // A symbolic link to a directory serves as well; using it tells.
    if (about.kind == FileKind::directory || about.kind == FileKind::symlink) return {};
    return Error(Code::already_exists,
                 "make directory " + std::string(path) + ": a file of that name is in the way");
  }
  if (made.error().code() != Code::not_found) return made;
  const std::string_view parent = parent_path(path);
  if (parent == path || parent == ".") return made;
  MUSTER_TRY(make_directories(files, parent));
  made = files.make_directory(path);
  // Somebody else may have made it meanwhile.
  if (!made.ok() && made.error().code() == Code::already_exists) return {};
  return made;
}

Status remove_tree(Files& files, std::string_view path) {
  const auto about = files.stat(path);
  if (!about.ok()) {
    if (about.error().code() == Code::not_found) return {};
    return about.error();
  }
  if (about->kind == FileKind::directory) {
    MUSTER_TRY(const auto entries, files.list(path));
    for (const DirectoryEntry& entry : entries) {
      MUSTER_TRY(remove_tree(files, join_path(path, entry.name)));
    }
  }
  const Status removed = files.remove(path);
  if (!removed.ok() && removed.error().code() == Code::not_found) return {};
  return removed;
}

static Status write_and_sync(Files& files, FileHandle file, std::string_view text) {
  MUSTER_TRY(files.write_at(file, std::as_bytes(std::span(text)), 0));
  return files.sync_file(file);
}

Status write_file_durably(Files& files, std::string_view path, std::string_view text) {
  const std::string temporary = std::string(path) + ".tmp";
  MUSTER_TRY(const FileHandle file, files.open(temporary, {OpenMode::write_truncate, false}));
  Status status = write_and_sync(files, file, text);
  const Status closed = files.close(file);
  if (status.ok()) status = closed;
  if (status.ok()) status = files.rename(temporary, path);
  if (!status.ok()) {
    (void)files.remove(temporary);  // best effort; the error that matters is the first
    return status;
  }
  return files.sync_directory(parent_path(path));
}

}  // namespace muster
