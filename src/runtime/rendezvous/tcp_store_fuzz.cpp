// The input is a session of two connections. Each record is one byte (low bit:
// which connection; the rest: how many bytes follow), then those bytes. No input may crash or
// corrupt.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <string>

#include "base/fuzz.h"
#include "runtime/rendezvous/tcp_store.h"
#include "runtime/rendezvous/tcp_store_request.h"

namespace muster {
namespace {

std::string number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}
std::string word(const std::string& text) {
  return number(text.size(), 8) + text;
}
std::string op(TcpStoreOp code) {
  return std::string(1, static_cast<char>(code));
}
std::string record(int which, const std::string& bytes) {
  return std::string(1, static_cast<char>(bytes.size() << 1 | static_cast<size_t>(which))) + bytes;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const std::string hello = op(TcpStoreOp::validate) + number(kTcpStoreMagic, 4);
  const std::string set = op(TcpStoreOp::set) + word("k") + word("value");
  const std::string add = op(TcpStoreOp::add) + word("n") + number(5, 8);
  const std::string get = op(TcpStoreOp::get) + word("k");
  const std::string wait = op(TcpStoreOp::wait) + number(2, 8) + word("k") + word("later");
  const std::string multi = op(TcpStoreOp::multi_get) + number(2, 8) + word("k") + word("n");
  const std::string drop = op(TcpStoreOp::delete_key) + word("k");
  return {
      record(0, hello) + record(0, set) + record(1, hello) + record(1, get) + record(1, wait) +
          record(0, op(TcpStoreOp::set) + word("later") + word("x")),
      record(0, hello + add + multi) + record(0, drop) + record(0, op(TcpStoreOp::get_num_keys)),
      record(0, hello) + record(0, set.substr(0, 5)) + record(1, hello + wait) +
          record(0, set.substr(5)) + record(1, op(TcpStoreOp::cancel_wait))};
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  TcpStore store;
  TcpStore::ConnectionId ids[2] = {store.open(), store.open()};
  for (size_t at = 0; at < size;) {
    const size_t which = data[at] & 1;
    const size_t length = std::min<size_t>(data[at] >> 1, size - at - 1);
    TcpStore::Effects effects;
    store.receive(ids[which], {reinterpret_cast<const std::byte*>(data) + at + 1, length}, effects);
    for (const auto& [id, why] : effects.closed)
      for (TcpStore::ConnectionId& mine : ids)
        if (mine == id) mine = store.open();
    at += 1 + length;
  }
  return 0;
}
