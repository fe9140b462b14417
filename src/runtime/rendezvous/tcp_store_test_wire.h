// For tests of the store: requests as bytes, and one client of a TcpStore without sockets.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "runtime/rendezvous/tcp_store.h"

namespace muster::wire {

inline std::string u64(uint64_t n) {
  return {reinterpret_cast<const char*>(&n), sizeof n};
}
inline std::string text(std::string_view t) {
  return u64(t.size()).append(t);
}
inline std::string op(TcpStoreOp o, std::initializer_list<std::string_view> texts = {}) {
  std::string out(1, static_cast<char>(o));
  for (const std::string_view t : texts) out += text(t);
  return out;
}
inline std::string keys(TcpStoreOp o, std::initializer_list<std::string_view> list) {
  std::string out(1, static_cast<char>(o));
  out += u64(list.size());
  for (const std::string_view t : list) out += text(t);
  return out;
}
inline std::string set(std::string_view key, std::string_view value) {
  return op(TcpStoreOp::set, {key, value});
}
inline std::string add(std::string_view key, int64_t delta) {
  return op(TcpStoreOp::add, {key}) + u64(static_cast<uint64_t>(delta));
}
inline std::string barrier(std::string_view key, int64_t world) {
  return op(TcpStoreOp::barrier, {key}) + u64(static_cast<uint64_t>(world));
}
inline std::string wait(std::initializer_list<std::string_view> list) {
  return keys(TcpStoreOp::wait, list);
}
inline std::string cancel() {
  return op(TcpStoreOp::cancel_wait);
}
inline std::string hello() {
  std::string out(1, '\0');
  out.append(reinterpret_cast<const char*>(&kTcpStoreMagic), 4);
  return out;
}

inline const std::string kOk("\0", 1), kNotThere("\1", 1), kCancelled("\1", 1);

}  // namespace muster::wire
