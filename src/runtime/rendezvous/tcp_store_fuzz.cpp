// libFuzzer entry: the input is a session of two connections. Each record is one byte (low bit:
// which connection; the rest: how many bytes follow), then those bytes. No input may crash or
// corrupt.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/rendezvous/tcp_store.h"

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
