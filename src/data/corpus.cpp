#include "data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/philox.h"
#include "data/code_points.h"
#include "data/spool.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace muster {
namespace {

bool is_utf8(std::string_view text) {
  return valid_utf8_prefix(text) == text.size();
}

bool is_test_folder(std::string_view name) {
  return name == "test" || name == "tests";
}

bool skipped_folder(std::string_view name, CorpusSpec::Kind kind) {
  if (name == "__pycache__" || name == ".git") return true;
  return kind == CorpusSpec::Kind::stdlib &&
         (is_test_folder(name) || name == "idlelib" || name == "site-packages");
}

// The run directory of muster train or muster run (docs/formats/run-directory.md): its logs and
// reports grow under the run and are no text to learn from.
bool is_run_directory(const std::vector<DirectoryEntry>& entries) {
  const auto has = [&](std::string_view name, FileKind kind) {
    return std::any_of(entries.begin(), entries.end(), [&](const DirectoryEntry& entry) {
      return entry.name == name && entry.kind == kind;
    });
  };
  return (has("config.toml", FileKind::regular) && has("config-origins.json", FileKind::regular)) ||
         (has("events.sqlite", FileKind::regular) && has("logs", FileKind::directory));
}

bool wanted_file(std::string_view name, const CorpusSpec& spec) {
  if (spec.kind == CorpusSpec::Kind::jsonl)
    return name.ends_with(".jsonl") || name.ends_with(".jsonl.zst");
  if (spec.kind == CorpusSpec::Kind::stdlib) return name.ends_with(".py");
  if (spec.endings.empty()) return true;
  return std::any_of(spec.endings.begin(), spec.endings.end(),
                     [&](const std::string& e) { return name.ends_with(e); });
}

}  // namespace

Result<std::string> jsonl_text(std::string_view line, const std::string& field) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded()) return Error(Code::invalid_argument, "the line is not JSON");
  if (!json.is_object()) return Error(Code::invalid_argument, "the line is not a JSON object");
  const auto it = json.find(field);
  if (it == json.end() || !it->is_string()) {
    return Error(Code::invalid_argument, fmt::format("the line has no text field '{}'", field));
  }
  return it->get<std::string>();
}

const Corpus::Document& Corpus::at(Part part, int64_t index) const {
  const auto& documents = part_of(part);
  MUSTER_CHECK(index >= 0 && index < static_cast<int64_t>(documents.size()), index,
               documents.size());
  return documents[static_cast<size_t>(index)];
}

void Corpus::add_document(Document document, std::string_view name) {
  document.id = xxh3_64(name);
  hash_.update(name);
  hash_.update_u64(static_cast<uint64_t>(document.length));
  hash_.update_u64(document.content);
  all_.push_back(document);
}

// The top 53 bits of the id as a share: the same documents are held out whatever else the corpus
// holds.
bool Corpus::held_out_by_name(const Document& document) const {
  return unit_double(document.id) < held_out_share_;
}

Status Corpus::split(CorpusSpec::HoldOut hold_out) {
  int64_t total = 0, before = 0;
  for (const Document& document : all_) total += document.length;
  // The first byte of the tail.
  const int64_t border = total - static_cast<int64_t>(static_cast<double>(total) * held_out_share_);
  for (const Document& document : all_) {
    const int64_t end = before + document.length;
    if (hold_out == CorpusSpec::HoldOut::by_name) {
      (held_out_by_name(document) ? held_out_ : train_).push_back(document);
    } else if (end <= border || before >= border || jsonl_) {
      (before >= border ? held_out_ : train_).push_back(document);
    } else {
      MUSTER_TRY(const std::string text,
                 read_raw(names_[document.file], document.offset, document.length));
      int64_t cut = border - before;
      while (cut > 0 && !is_code_point_start(text, static_cast<size_t>(cut))) --cut;
      const auto part = [&](int64_t from, int64_t to) {
        const std::string_view piece = std::string_view(text).substr(
            static_cast<size_t>(from), static_cast<size_t>(to - from));
        return Document{document.id, document.file, document.offset + from, to - from,
                        xxh3_64(piece)};
      };
      if (cut > 0) train_.push_back(part(0, cut));
      held_out_.push_back(part(cut, document.length));
    }
    before = end;
  }
  for (const Document& d : train_) counts_.bytes += d.length;
  for (const Document& d : held_out_) counts_.held_out_bytes += d.length;
  counts_.documents = static_cast<int64_t>(train_.size());
  counts_.held_out_documents = static_cast<int64_t>(held_out_.size());
  all_.clear();
  return {};
}

Result<std::string> Corpus::read_raw(const std::string& path, int64_t offset,
                                     int64_t length) const {
  MUSTER_TRY(const FileHandle file, files_->open(path, {OpenMode::read, false}));
  std::string raw(static_cast<size_t>(length), '\0');
  auto got = files_->read_at(file, std::as_writable_bytes(std::span(raw)), offset);
  const Status closed = files_->close(file);
  MUSTER_TRY(const size_t count, std::move(got));
  MUSTER_TRY(closed);
  raw.resize(count);
  return raw;
}

Status Corpus::add_file(const std::string& path, const std::string& name) {
  MUSTER_TRY(const FileStat about, files_->stat(path));
  if (about.size > static_cast<int64_t>(kMaxTextBytes)) {  // nor is there memory for many such
    ++counts_.files;
    ++counts_.skipped_too_large;
    return {};
  }
  MUSTER_TRY(const std::string text, read_file(*files_, path));
  ++counts_.files;
  if (text.empty()) {
    ++counts_.skipped_empty;
    return {};
  }
  if (text.size() > kMaxTextBytes) {  // it grew since
    ++counts_.skipped_too_large;
    return {};
  }
  if (!is_utf8(text)) {
    ++counts_.skipped_not_utf8;
    return {};
  }
  names_.push_back(path);
  add_document({0, static_cast<uint32_t>(names_.size() - 1), 0, static_cast<int64_t>(text.size()),
                xxh3_64(text)},
               name);
  return {};
}

Status Corpus::add_jsonl(const std::string& path, const std::string& name, const CorpusSpec& spec) {
  std::string plain = path;
  if (path.ends_with(".zst")) {
    MUSTER_TRY(plain, spool_zstd(*files_, *random_, path, spec.cache_folder));
  }
  MUSTER_TRY(const std::string text, read_file(*files_, plain));
  ++counts_.files;
  names_.push_back(plain);
  const auto file = static_cast<uint32_t>(names_.size() - 1);
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const auto offset = static_cast<int64_t>(begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (!is_utf8(line)) {
      ++counts_.skipped_not_utf8;
      continue;
    }
    const auto document = jsonl_text(line, spec.text_field);
    if (!document.ok()) {
      ++counts_.skipped_bad_lines;
      continue;
    }
    if (document->empty()) {
      ++counts_.skipped_empty;
      continue;
    }
    if (document->size() > kMaxTextBytes) {
      ++counts_.skipped_too_large;
      continue;
    }
    add_document({0, file, offset, static_cast<int64_t>(line.size()), xxh3_64(line)},
                 fmt::format("{}:{}", name, number));
  }
  return {};
}

Status Corpus::add_folder(const std::string& path, const std::string& name,
                          const CorpusSpec& spec) {
  auto entries = files_->list(path);
  if (!entries.ok()) {
    if (name.empty()) return std::move(entries).error();
    ++counts_.skipped_unreadable;
    return {};
  }
  if (is_run_directory(*entries)) {
    ++counts_.skipped_runs;
    return {};
  }
  for (const DirectoryEntry& entry : *entries) {
    MUSTER_TRY(add_entry(join_path(path, entry.name),
                         name.empty() ? entry.name : name + "/" + entry.name, entry, spec));
  }
  return {};
}

Status Corpus::add_entry(const std::string& path, const std::string& name,
                         const DirectoryEntry& entry, const CorpusSpec& spec) {
  const auto skip = [](int64_t& count) -> Status {
    ++count;
    return {};
  };
  switch (entry.kind) {
    case FileKind::symlink:
      return skip(counts_.skipped_links);
    case FileKind::other:
      return skip(counts_.skipped_special);
    case FileKind::directory:
      if (skipped_folder(entry.name, spec.kind)) return skip(counts_.skipped_folders);
      return add_folder(path, name, spec);
    case FileKind::regular:
      break;
  }
  if (!wanted_file(entry.name, spec)) return skip(counts_.skipped_names);
  if (spec.kind == CorpusSpec::Kind::jsonl) return add_jsonl_of_folder(path, name, spec);
  if (!add_file(path, name).ok()) return skip(counts_.skipped_unreadable);
  return {};
}

// What is wrong with the file itself costs the file; a cache folder that cannot be written would
// fail for the next one too.
Status Corpus::add_jsonl_of_folder(const std::string& path, const std::string& name,
                                   const CorpusSpec& spec) {
  const auto file = files_->open(path, {OpenMode::read, false});
  if (!file.ok()) {
    ++counts_.skipped_unreadable;
    return {};
  }
  MUSTER_TRY(files_->close(*file));
  const bool packed = path.ends_with(".zst");
  Status added = add_jsonl(path, name, spec);
  if (added.ok() || (packed && added.error().code() != Code::corrupt)) return added;
  ++counts_.skipped_unreadable;
  return {};
}

std::vector<CorpusCounts::Skipped> CorpusCounts::skipped() const {
  return {{"links", "symbolic links", skipped_links},
          {"not_utf8", "not UTF-8", skipped_not_utf8},
          {"unreadable", "unreadable", skipped_unreadable},
          {"empty", "empty", skipped_empty},
          {"bad_lines", "bad lines", skipped_bad_lines},
          {"run_directories", "run directories", skipped_runs},
          {"too_large", "too large", skipped_too_large},
          {"special_files", "special files", skipped_special},
          {"folders", "folders by name", skipped_folders},
          {"other_names", "files by ending", skipped_names}};
}

std::string CorpusCounts::skipped_text() const {
  std::vector<std::string> parts;
  for (const Skipped& s : skipped())
    if (s.count > 0) parts.push_back(fmt::format("{} {}", s.count, s.words));
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

Result<Corpus> Corpus::open(Files& files, Random& random, const CorpusSpec& spec) {
  if (spec.paths.empty())
    return Error(Code::invalid_argument, "the corpus has no paths; set data.paths");
  if (!(spec.held_out_share >= 0 && spec.held_out_share < 1)) {
    return Error(
        Code::invalid_argument,
        fmt::format("the held-out share {} must be at least 0 and below 1", spec.held_out_share));
  }
  Corpus corpus(files, random);
  corpus.jsonl_ = spec.kind == CorpusSpec::Kind::jsonl;
  corpus.text_field_ = spec.text_field;
  corpus.held_out_share_ = spec.held_out_share;
  for (const std::string& path : spec.paths) {
    MUSTER_TRY(const FileStat stat, files.stat(path).context("corpus"));
    const std::string name = path.substr(path.rfind('/') + 1);
    if (stat.kind == FileKind::directory) {
      MUSTER_TRY(corpus.add_folder(path, "", spec).context("corpus"));
    } else if (stat.kind == FileKind::other) {
      return Error(Code::invalid_argument,
                   fmt::format("corpus: {} is a FIFO, socket or device; files and folders can be "
                               "read: copy its content to a file",
                               path));
    } else if (corpus.jsonl_) {
      MUSTER_TRY(corpus.add_jsonl(path, name, spec).context("corpus"));
    } else if (stat.kind == FileKind::symlink) {
      ++corpus.counts_.skipped_links;
    } else {
      MUSTER_TRY(corpus.add_file(path, name).context("corpus"));
    }
  }
  // The split decides what is trained on, so another split is another corpus.
  corpus.hash_.update_u64(static_cast<uint64_t>(spec.hold_out));
  corpus.hash_.update_u64(std::bit_cast<uint64_t>(spec.held_out_share));
  corpus.fingerprint_ = corpus.hash_.digest();
  MUSTER_TRY(corpus.split(spec.hold_out));
  const CorpusCounts& c = corpus.counts_;
  if (corpus.train_.empty()) {
    return Error(
        Code::invalid_argument,
        fmt::format("the corpus at {} has no document to train on: {} files read; skipped "
                    "{}; {} held out",
                    fmt::join(spec.paths, ", "), c.files, c.skipped_text(), c.held_out_documents));
  }
  corpus.random_ = nullptr;
  return corpus;
}

Result<std::string> Corpus::read(Part part, int64_t index) const {
  const Document& document = at(part, index);
  const std::string& path = names_[document.file];
  MUSTER_TRY(std::string raw, read_raw(path, document.offset, document.length));
  if (static_cast<int64_t>(raw.size()) != document.length || xxh3_64(raw) != document.content) {
    return Error(Code::corrupt,
                 fmt::format("{} changed since the corpus was opened; start the run again", path));
  }
  if (!jsonl_) return raw;
  return jsonl_text(raw, text_field_).context(path);
}

}  // namespace muster
