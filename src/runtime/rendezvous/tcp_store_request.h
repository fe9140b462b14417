// One request of the TCPStore protocol, and the parser that finds requests in a byte stream however
// it is cut. The parser keeps its place inside a request, so that bytes are looked at once.
//
// Limits (a request beyond them is an error): key 8,192 B, value 8 MiB, 131,072 items per list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace muster {

enum class TcpStoreOp : uint8_t {
  validate = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  get_num_keys = 7,
  delete_key = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_len = 16,
  list_keys = 17,
  barrier = 18,
};

inline constexpr uint32_t kTcpStoreMagic = 0x3C85F7CE;
inline constexpr uint64_t kTcpStoreMaxKey = 8192;
inline constexpr uint64_t kTcpStoreMaxValue = 8u << 20;
inline constexpr uint64_t kTcpStoreMaxItems = 131072;

struct TcpStoreRequest {
  TcpStoreOp op{};
  // Keys and values in the order of the wire; views into the parser's buffer, valid until the next
  // call on the parser.
  std::vector<std::string_view> texts;
  int64_t number = 0;  // delta, world size, magic or nonce
};

class TcpStoreRequestParser {
 public:
  void feed(std::span<const std::byte> bytes);
  // The next whole request, or nothing until more bytes come. Errors: invalid_argument for an
  // unknown opcode or a limit exceeded; the stream is unusable then.
  Result<const TcpStoreRequest*> next();
  // The next request's opcode, if a byte of it is there. A request partly read counts as next.
  std::optional<TcpStoreOp> peek() const;
  size_t buffered() const { return buffer_.size() - begin_; }

 private:
  struct Field {
    size_t offset, length;
  };
  bool read_number(size_t bytes, uint64_t* out);
  Result<bool> read_text(uint64_t limit, std::string_view what);
  Result<bool> read_list(bool pairs);
  void start_request();

  std::string buffer_;
  size_t begin_ = 0;   // of the current request
  size_t cursor_ = 0;  // parsed so far
  bool started_ = false;
  size_t part_ = 0;  // of the opcode's layout
  std::optional<uint64_t> items_left_;
  std::optional<uint64_t> length_;  // of the text whose bytes are awaited
  std::vector<Field> fields_;
  TcpStoreRequest request_;
};

}  // namespace muster
