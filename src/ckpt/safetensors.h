// safetensors: reading and writing the file format of the same name (8 bytes of header length,
// little-endian; a JSON header; the tensors' bytes). The parser is our own and strict: every file
// that it takes is valid by the format's own rules, and nothing a file says is believed unchecked.
//
//  - the header is at most 100,000,000 bytes, one JSON object, followed by spaces only;
//  - no name occurs twice, no field is unknown, missing or repeated, every dtype is known;
//  - product(shape) x element size = length of the range, all sums checked for overflow;
//  - the ranges, in order, leave no gap, do not overlap, and end at the end of the file.
//
// Headers are plain values; a SafetensorsFile is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ckpt/dtype.h"
#include "sys/files.h"

namespace muster {

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;   // empty: a scalar
  uint64_t begin = 0, end = 0;  // bytes, from the start of the file
  uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  uint64_t data_begin = 0;  // 8 + length of the header
  uint64_t file_size = 0;

  const SafetensorsTensor* find(std::string_view name) const;  // linear
};

// product(shape) x element size. Errors: invalid_argument for a negative extent or overflow.
Result<uint64_t> tensor_bytes(Dtype dtype, const std::vector<int64_t>& shape);

// `start` holds the file's first bytes: at least 8 + header length (a whole file serves).
// Errors: corrupt, naming the byte or the tensor.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> start,
                                                   uint64_t file_size, std::string_view file_name);

// Bytes and places of a file to be written. The header is padded with spaces so that data starts on
// a 4096 boundary; tensors whose length is a multiple of 4096 come first and stay aligned to it,
// the others follow by falling alignment (2048, 1024, …), so that each is aligned to the largest
// power of two that divides its length. Within one alignment the given order is kept. `begin` and
// `end` of the given tensors are ignored. Errors: invalid_argument for a repeated or reserved name,
// a wrong shape, or a header too long.
struct SafetensorsLayout {
  std::string start;  // the first data_begin bytes of the file
  SafetensorsHeader header;
};
Result<SafetensorsLayout> lay_out_safetensors(std::vector<SafetensorsTensor> tensors,
                                              const std::map<std::string, std::string>& metadata);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(Files& files, std::string_view path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  const SafetensorsHeader& header() const { return header_; }
  // Copies bytes [offset, offset + out.size()) of the tensor's row-major data. Errors:
  // invalid_argument outside the tensor, io.
  Status read(const SafetensorsTensor& tensor, uint64_t offset, std::span<std::byte> out);

 private:
  SafetensorsFile(Files& files, FileHandle file, std::string path)
      : files_(&files), file_(file), path_(std::move(path)) {}
  Files* files_;
  FileHandle file_;
  std::string path_;
  SafetensorsHeader header_;
};

// A whole file at once, for exports: temp file, fsync, rename, fsync of the folder. data[i] belongs
// to tensors[i] and has exactly its length.
Status write_safetensors(Files& files, std::string_view path,
                         const std::vector<SafetensorsTensor>& tensors,
                         const std::vector<std::span<const std::byte>>& data,
                         const std::map<std::string, std::string>& metadata);

}  // namespace muster
