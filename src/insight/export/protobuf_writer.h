// ProtobufWriter: appends fields of one protobuf message to a buffer (protobuf encoding: a key
// varint = field << 3 | wire type, then the value). Only what the exporter needs; no schema.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/varint.h"

namespace muster {

class ProtobufWriter {
 public:
  void uint(uint32_t field, uint64_t value) {
    put_varint(bytes_, uint64_t{field} << 3);
    put_varint(bytes_, value);
  }
  // int32, int64: negative numbers take ten bytes, as protobuf wants.
  void integer(uint32_t field, int64_t value) { uint(field, static_cast<uint64_t>(value)); }
  void real(uint32_t field, double value) {
    put_varint(bytes_, uint64_t{field} << 3 | 1);
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(bits >> (8 * i)));
  }
  void text(uint32_t field, std::string_view value) {
    put_varint(bytes_, uint64_t{field} << 3 | 2);
    put_varint(bytes_, value.size());
    bytes_ += value;
  }
  void message(uint32_t field, const ProtobufWriter& inner) { text(field, inner.bytes_); }

  const std::string& bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  std::string bytes_;
};

}  // namespace muster
