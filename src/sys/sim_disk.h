// SimDisk: what a disk holds and what a crash may leave of it. A value: copy it, apply operations,
// ask for crash images. SimFiles (sim_files.h) is the Files interface on top.
//
// The model (POSIX as file systems really behave, at its harshest):
//  - a name that was created, renamed or removed is durable after sync_directory of its folder;
//  until
//    then each such change may be lost on its own, in any order, except that a change cannot
//    survive without the earlier ones it builds on (those that touch the same name). One rename is
//    atomic.
//  - bytes written are durable after sync_data or sync_file of the file, if the write had completed
//    before the sync began. Until then every 512-byte sector on its own holds the durable bytes or
//    those after any number of the later writes; the length is the durable one or any later one.
//    What the length covers but no write reached reads as zeros or as garbage.
//  - syncing a file says nothing about its name; syncing a folder nothing about its files' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "sys/files.h"

namespace muster {

using InodeId = uint64_t;
inline constexpr InodeId kRootInode = 1;

struct NameSlot {
  InodeId folder = 0;
  std::string name;
  auto operator<=>(const NameSlot&) const = default;
};

// One change of the disk, as recorded. Only the fields of its kind are set.
struct DiskOp {
  enum class Kind {
    make_file,
    make_folder,
    rename,
    remove,
    write_begin,  // handed to the disk
    write_end,    // completed: a sync from now on covers it
    truncate,
    sync_file,
    sync_folder,
  };
  Kind kind = Kind::sync_file;
  InodeId inode = 0;                                   // the file or folder acted on
  NameSlot from, to;                                   // make: to; remove: from; rename: both
  uint64_t write_id = 0;                               // write_begin, write_end
  int64_t offset = 0;                                  // write_begin; truncate: the new length
  std::shared_ptr<const std::vector<std::byte>> data;  // write_begin
  std::string text;                                    // for people: "rename a/b.tmp -> a/b"
};

// Which of the legal states a crash left. Made by sample_crash and enumerate_crashes.
struct CrashChoice {
  struct FileChoice {
    // Sectors of `granule` bytes; sector i holds the bytes after the first versions[i % size]
    // pending changes.
    size_t granule = 4096;
    std::vector<size_t> versions;
    int64_t length = 0;
    bool garbage = false;  // unwritten space reads as garbage, not zeros
  };
  std::vector<bool> names;              // which pending name changes survived
  std::map<InodeId, FileChoice> files;  // files with pending changes that have a name
  std::string describe() const;
};

class SimDisk {
 public:
  struct Change {  // of a file's bytes, not yet durable
    uint64_t write_id = 0;
    bool complete = false;
    bool truncates = false;
    int64_t offset = 0;  // the new length, if it truncates
    std::shared_ptr<const std::vector<std::byte>> data;
  };
  struct Inode {
    bool folder = false;
    std::map<std::string, InodeId> entries, durable_entries;  // of a folder
    std::vector<std::byte> bytes, durable_bytes;              // of a file
    std::vector<Change> pending;
    Nanos modified{0};
  };

  SimDisk();

  // The operation must be legal in this state (SimFiles checks): a bug otherwise.
  void apply(const DiskOp& op, Nanos wall);

  const Inode* find(InodeId id) const;
  std::optional<InodeId> lookup(const NameSlot& slot) const;
  InodeId fresh_inode() { return next_inode_++; }
  size_t pending_names() const { return names_.size(); }
  int64_t used_bytes() const;
  // Drops what no name, durable or not, and no open file leads to.
  void collect_garbage(const std::set<InodeId>& open);
  size_t inodes() const { return inodes_.size(); }

  CrashChoice sample_crash(Random& random) const;
  // Every closed set of name changes, times for each file with pending changes: all lost, all kept,
  // the last change lost, torn (every other sector) at 4096 and at 512, length kept but bytes lost.
  // At most `limit`, shared evenly by the sets of names.
  std::vector<CrashChoice> enumerate_crashes(size_t limit) const;
  // The disk after power comes back: all of it durable.
  SimDisk after_crash(const CrashChoice& choice) const;

 private:
  struct NameChange {
    std::optional<NameSlot> unlinked, linked;
    InodeId inode = 0;
    std::vector<size_t> needs(const std::vector<NameChange>& earlier, size_t count) const;
  };

  static void apply_name(std::map<InodeId, Inode>& inodes, const NameChange& change, bool durable);
  void change_name(NameChange change);
  void sync_folder(InodeId folder);
  void sync_file(Inode& file);
  // Folders and files that names lead to once the `survived` changes are made durable.
  std::map<InodeId, Inode> with_names(const std::vector<bool>& survived) const;
  std::vector<InodeId> named_files_with_changes(const std::vector<bool>& survived) const;
  std::vector<std::vector<bool>> closed_name_sets(size_t limit) const;
  std::vector<bool> close_over(std::vector<bool> wanted) const;

  std::map<InodeId, Inode> inodes_;
  std::vector<NameChange> names_;  // pending, in the order made
  InodeId next_inode_ = kRootInode + 1;
};

}  // namespace muster
