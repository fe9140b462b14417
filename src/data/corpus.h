// Corpus: the documents of a training run, numbered 0 … n-1 in a fixed order, each readable at
// random, split into a training and a held-out part. What is skipped is counted and can be printed;
// nothing is dropped silently.
//
// Sources: the Python standard library (its .py files without tests, idlelib and site-packages),
// folders or lists of plain files (one document a file), JSONL and JSONL.zst (one document a line,
// in one field). Inside a folder, symbolic links, special files, files that are not UTF-8 or not
// readable (a damaged JSONL.zst), what its name excludes, and run directories of muster itself,
// whose logs and reports grow, are skipped and counted; a path that is given itself and cannot be
// read is an error. JSONL.zst is spooled once to an uncompressed file in a cache folder (temp file,
// then rename), since zstd frames cannot be read at random.
//
// The fingerprint covers names and contents, in order, and how they are split; equal fingerprints
// mean equal training documents.
// Immutable after open(); read() is safe from any thread when `files` is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "base/result.h"
#include "sys/files.h"

namespace muster {

struct CorpusSpec {
  enum class Kind { stdlib, files, jsonl };
  Kind kind = Kind::files;
  std::vector<std::string>
      paths;  // folders or files; stdlib: the one folder of the standard library
  std::vector<std::string> endings;  // files: accepted name endings (".py"); empty = all
  std::string text_field = "text";   // jsonl
  // by_name: a share of the documents, chosen by the XXH3 of their relative name. tail: the last
  // share of the bytes in reading order; a plain file that lies across the border is cut there (at
  // a code point).
  enum class HoldOut { by_name, tail };
  HoldOut hold_out = HoldOut::by_name;
  double held_out_share = 0.02;
  std::string cache_folder;  // for spooled JSONL.zst; needed only then
};

struct CorpusCounts {
  int64_t files = 0, documents = 0, held_out_documents = 0, bytes = 0, held_out_bytes = 0;
  int64_t skipped_links = 0, skipped_not_utf8 = 0, skipped_unreadable = 0, skipped_empty = 0,
          skipped_bad_lines = 0, skipped_runs = 0;  // runs: directories
  int64_t skipped_too_large = 0;  // documents beyond kMaxTextBytes (text/tokenizer.h)
  int64_t skipped_special = 0;    // FIFOs, sockets, devices
  int64_t skipped_folders = 0;    // .git, __pycache__; stdlib: tests, idlelib, site-packages too
  int64_t skipped_names = 0;      // files with another ending than those wanted

  struct Skipped {
    const char* key;    // "not_utf8"
    const char* words;  // "not UTF-8"
    int64_t count;
  };
  std::vector<Skipped> skipped() const;  // of every reason, those that did not occur too
  std::string skipped_text() const;      // "1 symbolic links, 2 empty": those that occurred
};

class Corpus {
 public:
  // Reads every byte once (to check and to fingerprint). Errors: not_found for a missing path,
  // invalid_argument for one that is no file or folder, those of reading one; invalid_argument when
  // no document is left, saying what was skipped and why. Of a JSONL.zst: those of spool_zstd that
  // are not the file's fault.
  // `random` names what is spooled while it is not complete.
  static Result<Corpus> open(Files& files, Random& random, const CorpusSpec& spec);

  enum class Part { train, held_out };
  int64_t size(Part part) const { return static_cast<int64_t>(part_of(part).size()); }
  // A number that names the document whatever the order: the XXH3 of its relative name.
  uint64_t id(Part part, int64_t index) const { return at(part, index).id; }
  const std::string& file_name(Part part, int64_t index) const {
    return names_[at(part, index).file];
  }
  // The document's text, valid UTF-8. Errors: io, or corrupt when the file changed since open().
  Result<std::string> read(Part part, int64_t index) const;

  const CorpusCounts& counts() const { return counts_; }
  Hash128 fingerprint() const { return fingerprint_; }

 private:
  struct Document {
    uint64_t id;
    uint32_t file;  // index into names_
    int64_t offset, length;
    uint64_t content;  // XXH3-64 of the raw bytes
  };
  Corpus(Files& files, Random& random) : files_(&files), random_(&random) {}
  const std::vector<Document>& part_of(Part part) const {
    return part == Part::train ? train_ : held_out_;
  }
  const Document& at(Part part, int64_t index) const;
  Status add_file(const std::string& path, const std::string& name);
  Status add_entry(const std::string& path, const std::string& name, const DirectoryEntry& entry,
                   const CorpusSpec& spec);
  Status add_jsonl_of_folder(const std::string& path, const std::string& name,
                             const CorpusSpec& spec);
  Status add_folder(const std::string& path, const std::string& name, const CorpusSpec& spec);
  Status add_jsonl(const std::string& path, const std::string& name, const CorpusSpec& spec);
  void add_document(Document document, std::string_view name);
  bool held_out_by_name(const Document& document) const;
  Status split(CorpusSpec::HoldOut hold_out);
  Result<std::string> read_raw(const std::string& path, int64_t offset, int64_t length) const;

  Files* files_;
  Random* random_;  // while open() runs
  bool jsonl_ = false;
  std::string text_field_;
  double held_out_share_ = 0;
  std::vector<std::string> names_;  // path of each file as opened
  std::vector<Document> all_;       // while open() runs
  std::vector<Document> train_, held_out_;
  CorpusCounts counts_;
  Hash128 fingerprint_;
  Xxh3 hash_;
};

// The text in `field` of one JSONL line. Errors: invalid_argument.
Result<std::string> jsonl_text(std::string_view line, const std::string& field);

}  // namespace muster
