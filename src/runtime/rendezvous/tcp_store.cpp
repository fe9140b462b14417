#include "runtime/rendezvous/tcp_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <optional>

namespace muster {
namespace {

// What a connection may send behind a request that waits. The reference client sends nothing.
constexpr size_t kMaxBehindPending = 64 << 10;
// Answers to what came in one read: a few bytes may ask for the same large value again and again.
constexpr size_t kMaxAnswers = 256 << 20;

void reply(TcpStore::Effects& effects, TcpStore::ConnectionId id, std::string_view bytes) {
  if (!effects.send.empty() && effects.send.back().first == id)
    effects.send.back().second.append(bytes);
  else
    effects.send.emplace_back(id, bytes);
}

void reply_number(TcpStore::Effects& effects, TcpStore::ConnectionId id, int64_t number) {
  reply(effects, id, {reinterpret_cast<const char*>(&number), sizeof number});
}

void reply_text(TcpStore::Effects& effects, TcpStore::ConnectionId id, std::string_view text) {
  reply_number(effects, id, static_cast<int64_t>(text.size()));
  reply(effects, id, text);
}

void reply_byte(TcpStore::Effects& effects, TcpStore::ConnectionId id, char byte) {
  reply(effects, id, {&byte, 1});
}

bool has_answer(TcpStoreOp op) {
  return op != TcpStoreOp::set && op != TcpStoreOp::append && op != TcpStoreOp::multi_set &&
         op != TcpStoreOp::queue_push && op != TcpStoreOp::cancel_wait;
}

// As the reference server reads numbers: leading blanks and a sign, then digits; what follows them
// is ignored.
std::optional<int64_t> leading_number(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const int64_t number = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || errno == ERANGE) return std::nullopt;
  return number;
}

int64_t wrapping_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

Error not_a_number(std::string_view key, std::string_view value) {
  return Error(Code::invalid_argument,
               fmt::format("key \"{}\" holds \"{}\", not a number", key, value.substr(0, 40)));
}

Error too_large() {
  return Error(Code::invalid_argument,
               fmt::format("answers of more than {} bytes asked for at once", kMaxAnswers));
}

}  // namespace

TcpStore::ConnectionId TcpStore::open() {
  const ConnectionId id = next_connection_++;
  connections_.try_emplace(id);
  return id;
}

void TcpStore::receive(ConnectionId connection, std::span<const std::byte> bytes,
                       Effects& effects) {
  const auto it = connections_.find(connection);
  MUSTER_CHECK(it != connections_.end(), connection);
  it->second.parser.feed(bytes);
  finished_.assign(1, connection);
  // Requests that end others' waits let those connections go on in turn.
  for (size_t i = 0; i < finished_.size(); ++i) {
    const ConnectionId id = finished_[i];
    const auto next = connections_.find(id);
    if (next == connections_.end()) continue;
    const Status handled = handle_buffered(id, next->second, effects);
    if (handled) continue;
    close(id);
    effects.closed.emplace_back(id, handled.error().message());
  }
}

void TcpStore::close(ConnectionId connection) {
  const auto it = connections_.find(connection);
  if (it == connections_.end()) return;
  forget_pending(connection, it->second);
  connections_.erase(it);
}

void TcpStore::clear() {
  connections_.clear();
  values_.clear();
  queues_.clear();
  key_waiters_.clear();
  barrier_waiters_.clear();
}

const std::string* TcpStore::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

Status TcpStore::handle_buffered(ConnectionId id, Connection& connection, Effects& effects) {
  for (;;) {
    const std::optional<TcpStoreOp> op = connection.parser.peek();
    if (!op) return {};
    if (connection.pending != Pending::none && has_answer(*op)) {
      if (connection.parser.buffered() > kMaxBehindPending)
        return Error(
            Code::invalid_argument,
            fmt::format("{} bytes sent behind a request that waits", connection.parser.buffered()));
      return {};
    }
    MUSTER_TRY(const TcpStoreRequest* request, connection.parser.next());
    if (request == nullptr) return {};
    MUSTER_TRY(handle(id, connection, *request, effects));
    if (!effects.send.empty() && effects.send.back().first == id &&
        effects.send.back().second.size() > kMaxAnswers)
      return too_large();
  }
}

Status TcpStore::handle(ConnectionId id, Connection& connection, const TcpStoreRequest& request,
                        Effects& effects) {
  if (!connection.validated) {
    if (request.op != TcpStoreOp::validate || request.number != kTcpStoreMagic)
      return Error(Code::invalid_argument, "not a TCPStore client: no valid magic number");
    connection.validated = true;
    return {};
  }
  switch (request.op) {
    case TcpStoreOp::validate:
      return Error(Code::invalid_argument, "a second VALIDATE on one connection");
    case TcpStoreOp::ping: {
      const auto nonce = static_cast<uint32_t>(request.number);
      reply(effects, id, {reinterpret_cast<const char*>(&nonce), sizeof nonce});
      return {};
    }
    case TcpStoreOp::wait:
      handle_wait(id, connection, request, effects);
      return {};
    case TcpStoreOp::barrier:
      return handle_barrier(id, connection, request, effects);
    case TcpStoreOp::cancel_wait:
      forget_pending(id, connection);
      reply_byte(effects, id, 1);
      return {};
    default:
      return handle_value_request(id, request, effects);
  }
}

Status TcpStore::handle_value_request(ConnectionId id, const TcpStoreRequest& request,
                                      Effects& effects) {
  const std::vector<std::string_view>& texts = request.texts;
  const auto value_of = [&](std::string_view key) {
    const std::string* value = find(key);
    return value == nullptr ? std::string_view() : std::string_view(*value);
  };
  switch (request.op) {
    case TcpStoreOp::set:
      set(texts[0], texts[1], effects);
      return {};
    case TcpStoreOp::compare_set:
      handle_compare_set(id, request, effects);
      return {};
    case TcpStoreOp::get:
      reply_text(effects, id, value_of(texts[0]));
      return {};
    case TcpStoreOp::add:
      return handle_add(id, request, effects);
    case TcpStoreOp::check: {
      const bool all = std::all_of(texts.begin(), texts.end(),
                                   [&](std::string_view key) { return present(key); });
      reply_byte(effects, id, all ? 0 : 1);
      return {};
    }
    case TcpStoreOp::get_num_keys:
      reply_number(effects, id, static_cast<int64_t>(values_.size()));
      return {};
    case TcpStoreOp::delete_key: {
      const auto it = values_.find(texts[0]);
      reply_number(effects, id, it == values_.end() ? 0 : 1);
      if (it != values_.end()) values_.erase(it);
      return {};
    }
    case TcpStoreOp::append:
      set(texts[0], std::string(value_of(texts[0])).append(texts[1]), effects);
      return {};
    case TcpStoreOp::multi_get: {
      size_t total = 0;
      for (const std::string_view key : texts) total += value_of(key).size();
      if (total > kMaxAnswers) return too_large();
      for (const std::string_view key : texts) reply_text(effects, id, value_of(key));
      return {};
    }
    case TcpStoreOp::multi_set:
      for (size_t i = 0; i + 1 < texts.size(); i += 2) set(texts[i], texts[i + 1], effects);
      return {};
    case TcpStoreOp::queue_push:
      queues_[std::string(texts[0])].emplace_back(texts[1]);
      wake(texts[0], 1, effects);
      return {};
    case TcpStoreOp::queue_pop:
      handle_queue_pop(id, request, effects);
      return {};
    case TcpStoreOp::queue_len:
      reply_number(effects, id, static_cast<int64_t>(queue_length(texts[0])));
      return {};
    case TcpStoreOp::list_keys:
      reply_number(effects, id, static_cast<int64_t>(values_.size()));
      for (const auto& [key, value] : values_) reply_text(effects, id, key);
      return {};
    default:
      MUSTER_CHECK(false, static_cast<int>(request.op));
      return {};
  }
}

Status TcpStore::handle_add(ConnectionId id, const TcpStoreRequest& request, Effects& effects) {
  const std::string_view key = request.texts[0];
  int64_t sum = request.number;
  if (const std::string* value = find(key)) {
    const std::optional<int64_t> before = leading_number(*value);
    if (!before) return not_a_number(key, *value);
    sum = wrapping_add(*before, request.number);
  }
  set(key, std::to_string(sum), effects);
  reply_number(effects, id, sum);
  return {};
}

void TcpStore::handle_compare_set(ConnectionId id, const TcpStoreRequest& request,
                                  Effects& effects) {
  const std::string_view key = request.texts[0], expected = request.texts[1],
                         desired = request.texts[2];
  const std::string* value = find(key);
  if (value == nullptr ? expected.empty() : *value == expected) {
    set(key, desired, effects);
    reply_text(effects, id, desired);
  } else {
    reply_text(effects, id, value == nullptr ? expected : std::string_view(*value));
  }
}

void TcpStore::handle_wait(ConnectionId id, Connection& connection, const TcpStoreRequest& request,
                           Effects& effects) {
  std::vector<std::string>& missing = connection.missing;
  missing.clear();
  for (const std::string_view key : request.texts)
    if (!present(key)) missing.emplace_back(key);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  if (missing.empty()) {
    reply_byte(effects, id, 0);
    return;
  }
  connection.pending = Pending::wait;
  for (const std::string& key : missing) key_waiters_[key].push_back(id);
}

Status TcpStore::handle_barrier(ConnectionId id, Connection& connection,
                                const TcpStoreRequest& request, Effects& effects) {
  const std::string_view key = request.texts[0];
  int64_t arrived = 1;
  if (const std::string* value = find(key)) {
    const std::optional<int64_t> before = leading_number(*value);
    if (!before) return not_a_number(key, *value);
    arrived = wrapping_add(*before, 1);
  }
  // Counts as a key from now on, but ends no WAIT: so does the reference server.
  values_.insert_or_assign(std::string(key), std::to_string(arrived));
  if (arrived < request.number) {
    connection.pending = Pending::barrier;
    connection.missing.assign(1, std::string(key));
    barrier_waiters_[std::string(key)].push_back(id);
    return {};
  }
  reply_byte(effects, id, 0);
  const auto it = barrier_waiters_.find(key);
  if (it == barrier_waiters_.end()) return {};
  const std::deque<ConnectionId> released = std::move(it->second);
  barrier_waiters_.erase(it);
  for (const ConnectionId other : released) finish_pending(other, connections_.at(other), effects);
  return {};
}

void TcpStore::handle_queue_pop(ConnectionId id, const TcpStoreRequest& request, Effects& effects) {
  const auto it = queues_.find(request.texts[0]);
  if (it == queues_.end()) {
    reply_number(effects, id, 0);
    return;
  }
  reply_number(effects, id, static_cast<int64_t>(it->second.size()));
  reply_text(effects, id, it->second.front());
  it->second.pop_front();
  if (it->second.empty()) queues_.erase(it);
}

bool TcpStore::present(std::string_view key) const {
  return values_.contains(key) || queues_.contains(key);
}

size_t TcpStore::queue_length(std::string_view key) const {
  const auto it = queues_.find(key);
  return it == queues_.end() ? 0 : it->second.size();
}

void TcpStore::set(std::string_view key, std::string_view value, Effects& effects) {
  values_.insert_or_assign(std::string(key), std::string(value));
  wake(key, std::numeric_limits<size_t>::max(), effects);
}

void TcpStore::wake(std::string_view key, size_t most, Effects& effects) {
  const auto it = key_waiters_.find(key);
  if (it == key_waiters_.end()) return;
  std::deque<ConnectionId>& waiters = it->second;
  for (; most > 0 && !waiters.empty(); --most) {
    const ConnectionId id = waiters.front();
    waiters.pop_front();
    Connection& connection = connections_.at(id);
    std::erase(connection.missing, key);
    if (connection.missing.empty()) finish_pending(id, connection, effects);
  }
  if (waiters.empty()) key_waiters_.erase(it);
}

void TcpStore::finish_pending(ConnectionId id, Connection& connection, Effects& effects) {
  connection.pending = Pending::none;
  connection.missing.clear();
  reply_byte(effects, id, 0);
  finished_.push_back(id);
}

void TcpStore::forget_pending(ConnectionId id, Connection& connection) {
  Waiters& waiters = connection.pending == Pending::barrier ? barrier_waiters_ : key_waiters_;
  for (const std::string& key : connection.missing) {
    const auto it = waiters.find(key);
    if (it == waiters.end()) continue;
    std::erase(it->second, id);
    if (it->second.empty()) waiters.erase(it);
  }
  connection.missing.clear();
  connection.pending = Pending::none;
}

}  // namespace muster
