#include "sys/sim_disk.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace muster {
namespace {

constexpr std::byte kGarbage{0xDB};

void write_bytes(std::vector<std::byte>& bytes, int64_t offset,
                 const std::vector<std::byte>& data) {
  const size_t end = static_cast<size_t>(offset) + data.size();
  if (bytes.size() < end) bytes.resize(end);
  std::copy(data.begin(), data.end(), bytes.begin() + offset);
}

void apply_change(std::vector<std::byte>& bytes, const SimDisk::Change& change) {
  if (change.truncates) {
    bytes.resize(static_cast<size_t>(change.offset));
  } else {
    write_bytes(bytes, change.offset, *change.data);
  }
}

// The length after each number of pending changes: [0] is the durable one.
std::vector<int64_t> lengths_of(const SimDisk::Inode& file) {
  std::vector<int64_t> lengths = {static_cast<int64_t>(file.durable_bytes.size())};
  for (const SimDisk::Change& change : file.pending) {
    const int64_t end =
        change.truncates
            ? change.offset
            : std::max(lengths.back(), change.offset + static_cast<int64_t>(change.data->size()));
    lengths.push_back(end);
  }
  return lengths;
}

// The part of a write that falls on sectors whose version includes it.
void write_sectors(std::vector<std::byte>& bytes, const SimDisk::Change& change, size_t index,
                   const CrashChoice::FileChoice& choice) {
  const size_t begin = static_cast<size_t>(change.offset), end = begin + change.data->size();
  for (size_t at = begin; at < end;) {
    const size_t sector = at / choice.granule;
    const size_t stop = std::min(end, (sector + 1) * choice.granule);
    if (choice.versions[sector % choice.versions.size()] > index) {
      std::memcpy(bytes.data() + at, change.data->data() + (at - begin), stop - at);
    }
    at = stop;
  }
}

void zero_sectors(std::vector<std::byte>& bytes, size_t from, size_t index,
                  const CrashChoice::FileChoice& choice) {
  for (size_t at = from; at < bytes.size(); ++at) {
    if (choice.versions[at / choice.granule % choice.versions.size()] > index)
      bytes[at] = std::byte{0};
  }
}

std::vector<std::byte> crashed_bytes(const SimDisk::Inode& file,
                                     const CrashChoice::FileChoice& choice) {
  const std::vector<int64_t> lengths = lengths_of(file);
  const auto longest = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::vector<std::byte> bytes = file.durable_bytes;
  bytes.resize(longest, choice.garbage ? kGarbage : std::byte{0});
  for (size_t i = 0; i < file.pending.size(); ++i) {
    const SimDisk::Change& change = file.pending[i];
    if (change.truncates) {
      zero_sectors(bytes, static_cast<size_t>(change.offset), i, choice);
    } else {
      write_sectors(bytes, change, i, choice);
    }
  }
  bytes.resize(static_cast<size_t>(choice.length));
  return bytes;
}

std::vector<CrashChoice::FileChoice> ways_to_crash(const SimDisk::Inode& file) {
  const size_t all = file.pending.size();
  const std::vector<int64_t> lengths = lengths_of(file);
  return {
      {4096, {0}, lengths.front(), false},         // all lost
      {4096, {all}, lengths.back(), false},        // all kept
      {4096, {all - 1}, lengths[all - 1], false},  // the last change lost
      {4096, {all, 0}, lengths.back(), false},     // torn
      {4096, {0, all}, lengths.back(), true},
      {512, {all, 0}, lengths.back(), false},
      {512, {0, all}, lengths.back(), false},
      {4096, {0}, lengths.back(), true},      // the length came through, the bytes did not
      {4096, {all}, lengths.front(), false},  // the other way round
  };
}

}  // namespace

std::string CrashChoice::describe() const {
  std::string text = "names ";
  for (const bool kept : names) text += kept ? '1' : '0';
  for (const auto& [id, file] : files) {
    text += "; file " + std::to_string(id) + ": length " + std::to_string(file.length) + ", by " +
            std::to_string(file.granule) + ", versions";
    for (size_t i = 0; i < std::min<size_t>(file.versions.size(), 16); ++i)
      text += ' ' + std::to_string(file.versions[i]);
    if (file.garbage) text += ", garbage";
  }
  return text;
}

SimDisk::SimDisk() {
  inodes_[kRootInode].folder = true;
}

const SimDisk::Inode* SimDisk::find(InodeId id) const {
  const auto found = inodes_.find(id);
  return found == inodes_.end() ? nullptr : &found->second;
}

std::optional<InodeId> SimDisk::lookup(const NameSlot& slot) const {
  const Inode* folder = find(slot.folder);
  if (folder == nullptr || !folder->folder) return std::nullopt;
  const auto found = folder->entries.find(slot.name);
  if (found == folder->entries.end()) return std::nullopt;
  return found->second;
}

int64_t SimDisk::used_bytes() const {
  int64_t used = 0;
  for (const auto& [id, inode] : inodes_) used += static_cast<int64_t>(inode.bytes.size());
  return used;
}

void SimDisk::apply(const DiskOp& op, Nanos wall) {
  using Kind = DiskOp::Kind;
  switch (op.kind) {
    case Kind::make_file:
    case Kind::make_folder:
      inodes_[op.inode].folder = op.kind == Kind::make_folder;
      inodes_[op.inode].modified = wall;
      next_inode_ = std::max(next_inode_, op.inode + 1);
      return change_name({std::nullopt, op.to, op.inode});
    case Kind::rename:
      return change_name({op.from, op.to, op.inode});
    case Kind::remove:
      return change_name({op.from, std::nullopt, op.inode});
    case Kind::write_begin: {
      Inode& file = inodes_.at(op.inode);
      file.pending.push_back({op.write_id, false, false, op.offset, op.data});
      file.modified = wall;
      return write_bytes(file.bytes, op.offset, *op.data);
    }
    case Kind::write_end:
      for (Change& change : inodes_.at(op.inode).pending)
        if (!change.truncates && change.write_id == op.write_id) change.complete = true;
      return;
    case Kind::truncate: {
      Inode& file = inodes_.at(op.inode);
      file.pending.push_back({0, true, true, op.offset, nullptr});
      file.modified = wall;
      return file.bytes.resize(static_cast<size_t>(op.offset));
    }
    case Kind::sync_file:
      return sync_file(inodes_.at(op.inode));
    case Kind::sync_folder:
      return sync_folder(op.inode);
  }
}

void SimDisk::sync_file(Inode& file) {
  std::vector<Change> still_in_flight;
  for (Change& change : file.pending) {
    if (change.complete) {
      apply_change(file.durable_bytes, change);
    } else {
      still_in_flight.push_back(std::move(change));
    }
  }
  file.pending = std::move(still_in_flight);
}

std::vector<size_t> SimDisk::NameChange::needs(const std::vector<NameChange>& earlier,
                                               size_t count) const {
  const auto touches = [](const NameChange& change, const std::optional<NameSlot>& slot) {
    return slot && (change.unlinked == slot || change.linked == slot);
  };
  std::vector<size_t> needed;
  for (size_t i = 0; i < count; ++i)
    if (touches(earlier[i], unlinked) || touches(earlier[i], linked)) needed.push_back(i);
  return needed;
}

void SimDisk::apply_name(std::map<InodeId, Inode>& inodes, const NameChange& change, bool durable) {
  const auto entries = [&](InodeId folder) -> std::map<std::string, InodeId>& {
    Inode& inode = inodes.at(folder);
    return durable ? inode.durable_entries : inode.entries;
  };
  if (change.unlinked) entries(change.unlinked->folder).erase(change.unlinked->name);
  if (change.linked) entries(change.linked->folder)[change.linked->name] = change.inode;
}

void SimDisk::change_name(NameChange change) {
  apply_name(inodes_, change, false);
  names_.push_back(std::move(change));
}

std::vector<bool> SimDisk::close_over(std::vector<bool> wanted) const {
  for (size_t i = names_.size(); i-- > 0;)
    if (wanted[i])
      for (const size_t needed : names_[i].needs(names_, i)) wanted[needed] = true;
  return wanted;
}

void SimDisk::sync_folder(InodeId folder) {
  std::vector<bool> wanted(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) {
    wanted[i] = (names_[i].unlinked && names_[i].unlinked->folder == folder) ||
                (names_[i].linked && names_[i].linked->folder == folder);
  }
  wanted = close_over(std::move(wanted));
  std::vector<NameChange> rest;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (wanted[i]) {
      apply_name(inodes_, names_[i], true);
    } else {
      rest.push_back(std::move(names_[i]));
    }
  }
  names_ = std::move(rest);
}

void SimDisk::collect_garbage(const std::set<InodeId>& open) {
  std::set<InodeId> live = open;
  live.insert(kRootInode);
  for (const auto& [id, inode] : inodes_) {
    for (const auto& [name, child] : inode.entries) live.insert(child);
    for (const auto& [name, child] : inode.durable_entries) live.insert(child);
  }
  for (const NameChange& change : names_) {
    live.insert(change.inode);
    if (change.unlinked) live.insert(change.unlinked->folder);
    if (change.linked) live.insert(change.linked->folder);
  }
  std::erase_if(inodes_, [&](const auto& entry) { return !live.contains(entry.first); });
}

std::map<InodeId, SimDisk::Inode> SimDisk::with_names(const std::vector<bool>& survived) const {
  MUSTER_CHECK(survived.size() == names_.size(), survived.size(), names_.size());
  std::map<InodeId, Inode> inodes = inodes_;
  for (size_t i = 0; i < names_.size(); ++i)
    if (survived[i]) apply_name(inodes, names_[i], true);
  std::map<InodeId, Inode> reached;
  std::vector<InodeId> frontier = {kRootInode};
  while (!frontier.empty()) {
    const InodeId id = frontier.back();
    frontier.pop_back();
    if (!reached.emplace(id, inodes.at(id)).second) continue;
    for (const auto& [name, child] : inodes.at(id).durable_entries) frontier.push_back(child);
  }
  return reached;
}

std::vector<InodeId> SimDisk::named_files_with_changes(const std::vector<bool>& survived) const {
  std::vector<InodeId> files;
  for (const auto& [id, inode] : with_names(survived))
    if (!inode.folder && !inode.pending.empty()) files.push_back(id);
  return files;
}

CrashChoice SimDisk::sample_crash(Random& random) const {
  CrashChoice choice;
  std::vector<bool> wanted(names_.size());
  const uint64_t style = random.below(4);  // none, all, or each on its own
  for (size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = style == 0 ? false : style == 1 ? true : random.below(2) == 1;
  choice.names = close_over(std::move(wanted));
  for (const InodeId id : named_files_with_changes(choice.names)) {
    const Inode& file = inodes_.at(id);
    const std::vector<int64_t> lengths = lengths_of(file);
    CrashChoice::FileChoice one;
    one.granule = random.below(2) == 0 ? 4096 : 512;
    const auto longest = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
    const size_t all = file.pending.size();
    const uint64_t kind = random.below(4);
    if (kind == 0) {
      one.versions = {random.below(all + 1)};
    } else {
      // Mostly written with a few holes, mostly lost with a few survivors, or any mixture.
      for (size_t sector = 0; sector <= longest / one.granule; ++sector) {
        const bool rare = random.below(8) == 0;
        one.versions.push_back(kind == 1   ? (rare ? random.below(all + 1) : all)
                               : kind == 2 ? (rare ? random.below(all + 1) : 0)
                                           : random.below(all + 1));
      }
    }
    one.length = random.below(2) == 0 ? lengths.back() : lengths[random.below(lengths.size())];
    one.garbage = random.below(2) == 1;
    choice.files[id] = std::move(one);
  }
  return choice;
}

std::vector<std::vector<bool>> SimDisk::closed_name_sets(size_t limit) const {
  std::vector<std::vector<bool>> sets;
  const size_t bits = std::min<size_t>(names_.size(), 20);
  for (size_t mask = 0; mask < size_t{1} << bits && sets.size() < limit; ++mask) {
    std::vector<bool> survived(names_.size());
    for (size_t i = 0; i < bits; ++i) survived[i] = (mask >> i & 1) != 0;
    if (close_over(survived) == survived) sets.push_back(std::move(survived));
  }
  return sets;
}

std::vector<CrashChoice> SimDisk::enumerate_crashes(size_t limit) const {
  std::vector<CrashChoice> choices;
  std::vector<std::vector<bool>> sets = closed_name_sets(limit);
  for (size_t i = 0; i < sets.size(); ++i) {
    // An equal share of what is left for each set of names.
    const size_t share = (limit - choices.size()) / (sets.size() - i);
    std::vector<CrashChoice> partial(1);
    partial[0].names = sets[i];
    for (const InodeId id : named_files_with_changes(sets[i])) {
      std::vector<CrashChoice> extended;
      for (const CrashChoice& choice : partial) {
        for (auto& way : ways_to_crash(inodes_.at(id))) {
          if (extended.size() >= share) break;
          extended.push_back(choice);
          extended.back().files[id] = std::move(way);
        }
      }
      partial = std::move(extended);
    }
    choices.insert(choices.end(), partial.begin(), partial.end());
  }
  return choices;
}

SimDisk SimDisk::after_crash(const CrashChoice& choice) const {
  SimDisk disk;
  disk.inodes_ = with_names(choice.names);
  disk.next_inode_ = next_inode_;
  for (auto& [id, inode] : disk.inodes_) {
    inode.entries = inode.durable_entries;
    const auto file = choice.files.find(id);
    if (!inode.pending.empty() && file != choice.files.end())
      inode.durable_bytes = crashed_bytes(inode, file->second);
    inode.bytes = inode.durable_bytes;
    inode.pending.clear();
  }
  return disk;
}

}  // namespace muster
