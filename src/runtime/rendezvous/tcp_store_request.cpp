#include "runtime/rendezvous/tcp_store_request.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol is the host's byte order");

// What follows each opcode: k key, v value, i 8-byte number, m 4-byte number, K list of keys,
// P list of (key, value).
constexpr const char* kLayouts[] = {"m", "kv", "kvv", "k", "ki", "K", "K", "", "k", "kv",
                                    "K", "P",  "",    "m", "kv", "k", "k", "", "ki"};
constexpr size_t kOps = std::size(kLayouts);

}  // namespace

void TcpStoreRequestParser::feed(std::span<const std::byte> bytes) {
  // Whole requests are dropped only here, so that the views given out stay valid until now.
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    cursor_ -= begin_;
    for (Field& field : fields_) field.offset -= begin_;
    begin_ = 0;
  }
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<TcpStoreOp> TcpStoreRequestParser::peek() const {
  if (begin_ == buffer_.size()) return std::nullopt;
  return static_cast<TcpStoreOp>(buffer_[begin_]);
}

void TcpStoreRequestParser::start_request() {
  cursor_ = begin_ + 1;
  part_ = 0;
  fields_.clear();
  items_left_.reset();
  length_.reset();
  started_ = true;
}

Result<const TcpStoreRequest*> TcpStoreRequestParser::next() {
  if (!started_) {
    if (begin_ == buffer_.size()) return nullptr;
    if (static_cast<uint8_t>(buffer_[begin_]) >= kOps)
      return Error(Code::invalid_argument,
                   fmt::format("opcode {} is unknown", static_cast<uint8_t>(buffer_[begin_])));
    start_request();
  }
  const auto op = static_cast<uint8_t>(buffer_[begin_]);
  for (const char* layout = kLayouts[op]; layout[part_] != '\0'; ++part_) {
    const char part = layout[part_];
    bool whole = false;
    if (part == 'i' || part == 'm') {
      uint64_t number = 0;
      whole = read_number(part == 'i' ? 8 : 4, &number);
      request_.number = static_cast<int64_t>(number);
    } else if (part == 'k') {
      MUSTER_TRY(whole, read_text(kTcpStoreMaxKey, "key"));
    } else if (part == 'v') {
      MUSTER_TRY(whole, read_text(kTcpStoreMaxValue, "value"));
    } else {
      MUSTER_TRY(whole, read_list(part == 'P'));
    }
    if (!whole) return nullptr;
  }
  request_.op = static_cast<TcpStoreOp>(op);
  request_.texts.clear();
  for (const Field& field : fields_)
    request_.texts.emplace_back(buffer_.data() + field.offset, field.length);
  fields_.clear();
  begin_ = cursor_;
  started_ = false;
  return &request_;
}

bool TcpStoreRequestParser::read_number(size_t bytes, uint64_t* out) {
  if (buffer_.size() - cursor_ < bytes) return false;
  std::memcpy(out, buffer_.data() + cursor_, bytes);
  cursor_ += bytes;
  return true;
}

Result<bool> TcpStoreRequestParser::read_text(uint64_t limit, std::string_view what) {
  if (!length_) {
    uint64_t length = 0;
    if (!read_number(8, &length)) return false;
    if (length > limit)
      return Error(Code::invalid_argument,
                   fmt::format("{} of {} bytes; at most {} are allowed", what, length, limit));
    length_ = length;
  }
  if (buffer_.size() - cursor_ < *length_) return false;
  fields_.push_back({cursor_, *length_});
  cursor_ += *length_;
  length_.reset();
  return true;
}

Result<bool> TcpStoreRequestParser::read_list(bool pairs) {
  if (!items_left_) {
    uint64_t count = 0;
    if (!read_number(8, &count)) return false;
    if (count > kTcpStoreMaxItems)
      return Error(Code::invalid_argument, fmt::format("list of {} items; at most {} are allowed",
                                                       count, kTcpStoreMaxItems));
    items_left_ = pairs ? 2 * count : count;
  }
  for (; *items_left_ > 0; --*items_left_) {
    const bool is_value = pairs && *items_left_ % 2 == 1;
    MUSTER_TRY(const bool whole, is_value ? read_text(kTcpStoreMaxValue, "value")
                                          : read_text(kTcpStoreMaxKey, "key"));
    if (!whole) return false;
  }
  items_left_.reset();
  return true;
}

}  // namespace muster
