#include "runtime/rendezvous/tcp_store.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/philox.h"
#include "runtime/rendezvous/tcp_store_test_wire.h"

namespace muster {
namespace {

using namespace wire;

std::string from_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size();) {
    if (hex[i] == ' ') {
      ++i;
      continue;
    }
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    i += 2;
  }
  return out;
}

// A store and what its connections have been sent.
struct Harness {
  TcpStore store;
  std::map<TcpStore::ConnectionId, std::string> answers;
  std::map<TcpStore::ConnectionId, std::string> closed;

  TcpStore::ConnectionId open() {
    const TcpStore::ConnectionId id = store.open();
    send(id, hello());
    return id;
  }
  void send(TcpStore::ConnectionId id, std::string_view bytes) {
    TcpStore::Effects effects;
    store.receive(id, std::as_bytes(std::span(bytes.data(), bytes.size())), effects);
    for (const auto& [to, out] : effects.send) answers[to] += out;
    for (const auto& [which, why] : effects.closed) closed[which] = why;
  }
  std::string take(TcpStore::ConnectionId id) { return std::exchange(answers[id], {}); }
  std::string ask(TcpStore::ConnectionId id, std::string_view bytes) {
    send(id, bytes);
    return take(id);
  }
};

struct TcpStoreTest : testing::Test, Harness {};

TEST_F(TcpStoreTest, GoldenBytesOfTorch213) {
  // Captured between torch 2.13's own client and server.
  const TcpStore::ConnectionId c = store.open();
  const struct {
    const char* name;
    const char* request;
    const char* answer;
  } cases[] = {
      {"handshake", "00 cef7853c 0d 42550000", "42550000"},
      {"set ab xyz", "01 0300000000000000 2f6162 0300000000000000 78797a", ""},
      {"get ab: wait", "06 0100000000000000 0300000000000000 2f6162", "00"},
      {"get ab: get", "03 0300000000000000 2f6162", "0300000000000000 78797a"},
      {"add n 5", "04 0200000000000000 2f6e 0500000000000000", "0500000000000000"},
      {"add n -7", "04 0200000000000000 2f6e f9ffffffffffffff", "feffffffffffffff"},
      {"check ab zz", "05 0200000000000000 0300000000000000 2f6162 0300000000000000 2f7a7a", "01"},
      {"append ap 12", "09 0300000000000000 2f6170 0200000000000000 3132", ""},
      {"num_keys", "07", "0300000000000000"},
      {"delete ab", "08 0300000000000000 2f6162", "0100000000000000"},
      {"delete ab again", "08 0300000000000000 2f6162", "0000000000000000"},
      {"multi_set m1 A m2 BB",
       "0b 0200000000000000 0300000000000000 2f6d31 0100000000000000 41 0300000000000000 2f6d32 "
       "0200000000000000 4242",
       ""},
      {"multi_get m1 m2", "0a 0200000000000000 0300000000000000 2f6d31 0300000000000000 2f6d32",
       "0100000000000000 41 0200000000000000 4242"},
      {"compare_set c '' v1", "02 0200000000000000 2f63 0000000000000000 0200000000000000 7631",
       "0200000000000000 7631"},
      {"queue_push k v1", "0e 0200000000000000 2f6b 0200000000000000 7631", ""},
      {"queue_push k v2", "0e 0200000000000000 2f6b 0200000000000000 7632", ""},
      {"queue_len k", "10 0200000000000000 2f6b", "0200000000000000"},
      {"queue_pop k", "0f 0200000000000000 2f6b", "0200000000000000 0200000000000000 7631"},
      {"queue_pop k", "0f 0200000000000000 2f6b", "0100000000000000 0200000000000000 7632"},
      {"queue_pop of an empty one", "0f 0200000000000000 2f6b", "0000000000000000"},
      {"barrier bk 1", "12 0300000000000000 2f626b 0100000000000000", "00"},
      {"wait q", "06 0100000000000000 0200000000000000 2f71", ""},
      {"its cancellation", "0c", "01"},
  };
  for (const auto& step : cases)
    EXPECT_EQ(ask(c, from_hex(step.request)), from_hex(step.answer)) << step.name;
  EXPECT_TRUE(closed.empty());
}

TEST_F(TcpStoreTest, AnySegmentationGivesTheSameAnswers) {
  const std::string session =
      hello() + op(TcpStoreOp::ping) + "abcd" + set("/a", std::string(3000, 'x')) +
      keys(TcpStoreOp::multi_get, {"/a", "/none", "/a"}) + add("/n", 3) + add("/n", -9) +
      keys(TcpStoreOp::check, {"/a", "/n"}) + wait({"/a", "/n"}) + op(TcpStoreOp::list_keys) +
      op(TcpStoreOp::queue_push, {"/q", "v"}) + op(TcpStoreOp::queue_pop, {"/q"}) +
      barrier("/b", 1);
  Harness whole;
  const TcpStore::ConnectionId w = whole.store.open();
  const std::string want = whole.ask(w, session);
  ASSERT_TRUE(whole.closed.empty());
  for (const size_t piece : {1, 2, 3, 7, 64, 1000}) {
    Harness cut;
    const TcpStore::ConnectionId c = cut.store.open();
    for (size_t at = 0; at < session.size(); at += piece)
      cut.send(c, std::string_view(session).substr(at, piece));
    EXPECT_EQ(cut.take(c), want) << piece;
  }
}

TEST_F(TcpStoreTest, CompareSet) {
  const TcpStore::ConnectionId c = open();
  const auto compare_set = [&](const char* key, const char* expected, const char* desired) {
    return ask(c, op(TcpStoreOp::compare_set, {key, expected, desired}));
  };
  EXPECT_EQ(compare_set("/k", "x", "y"), text("x"));  // missing and something expected: no change
  EXPECT_EQ(store.find("/k"), nullptr);
  EXPECT_EQ(compare_set("/k", "", "v1"), text("v1"));  // created
  EXPECT_EQ(compare_set("/k", "no", "v2"), text("v1"));
  EXPECT_EQ(compare_set("/k", "v1", "v2"), text("v2"));
  EXPECT_EQ(*store.find("/k"), "v2");
}

TEST_F(TcpStoreTest, AddKeepsDecimalText) {
  const TcpStore::ConnectionId c = open();
  EXPECT_EQ(ask(c, add("/n", 5)), u64(5));
  EXPECT_EQ(*store.find("/n"), "5");
  send(c, set("/n", " 41 apples"));  // read as the reference reads it
  EXPECT_EQ(ask(c, add("/n", 1)), u64(42));
  send(c, set("/n", "9223372036854775807"));
  EXPECT_EQ(ask(c, add("/n", 1)), u64(uint64_t{1} << 63));
}

TEST_F(TcpStoreTest, WhateverSetsAKeyWakesAllItsWaiters) {
  const struct {
    const char* name;
    std::string request;
  } setters[] = {
      {"SET", set("/k", "v")},
      {"MULTI_SET", std::string(1, 11) + u64(1) + text("/k") + text("v")},
      {"ADD", add("/k", 1)},
      {"APPEND", op(TcpStoreOp::append, {"/k", "v"})},
      {"creating COMPARE_SET", op(TcpStoreOp::compare_set, {"/k", "", "v"})},
  };
  for (const auto& setter : setters) {
    SCOPED_TRACE(setter.name);
    Harness h;
    const TcpStore::ConnectionId a = h.open(), b = h.open(), c = h.open();
    EXPECT_EQ(h.ask(a, wait({"/k"})), "");
    EXPECT_EQ(h.ask(b, wait({"/k"})), "");
    h.send(c, setter.request);
    EXPECT_EQ(h.take(a), kOk);
    EXPECT_EQ(h.take(b), kOk);
    h.send(c, set("/k", "again"));
    EXPECT_EQ(h.take(a), "");
  }
}

TEST_F(TcpStoreTest, AWaitOnSeveralKeysIsAnsweredOnceAfterTheLast) {
  const TcpStore::ConnectionId a = open(), b = open();
  EXPECT_EQ(ask(a, wait({"/x", "/y", "/x"})), "");
  send(b, set("/x", "1"));
  send(b, set("/x", "2"));
  EXPECT_EQ(take(a), "");
  send(b, set("/y", "1"));
  EXPECT_EQ(take(a), kOk);
  EXPECT_EQ(ask(a, wait({})), kOk);
  EXPECT_EQ(ask(a, keys(TcpStoreOp::check, {})), kOk);
}

TEST_F(TcpStoreTest, ACancelledWaitIsAnsweredByExactlyOneOneAndNothingAfter) {
  const TcpStore::ConnectionId a = open(), b = open();
  EXPECT_EQ(ask(a, cancel()), kCancelled);  // with nothing pending too
  EXPECT_EQ(ask(a, wait({"/k"})), "");
  EXPECT_EQ(ask(a, cancel()), kCancelled);
  send(b, set("/k", "v"));
  EXPECT_EQ(take(a), "");
  // The answer crosses the cancellation: the client swallows the 0 that came first.
  EXPECT_EQ(ask(a, wait({"/late"})), "");
  send(b, set("/late", "v"));
  EXPECT_EQ(ask(a, cancel()), kOk + kCancelled);
}

TEST_F(TcpStoreTest, RequestsBehindAWaitAreAnsweredInOrderAfterIt) {
  const TcpStore::ConnectionId a = open();
  EXPECT_EQ(ask(a, wait({"/k"}) + set("/other", "1") + add("/n", 1)), "");
  EXPECT_NE(store.find("/other"), nullptr);  // needs no answer, so is not held back
  EXPECT_EQ(ask(a, set("/k", "v")), "");     // stays behind the held ADD
  const TcpStore::ConnectionId b = open();
  send(b, set("/k", "v"));
  EXPECT_EQ(take(a), kOk + u64(1));
}

TEST_F(TcpStoreTest, AConnectionMayReleaseItsOwnWait) {
  const TcpStore::ConnectionId a = open();
  EXPECT_EQ(ask(a, wait({"/k"}) + set("/k", "v")), kOk);
}

TEST_F(TcpStoreTest, ChainsOfWaitsReleasedByHeldRequestsAllRun) {
  const TcpStore::ConnectionId a = open(), b = open(), c = open();
  send(a, wait({"/1"}) + add("/2", 1));
  send(b, wait({"/2"}) + add("/3", 1));
  EXPECT_EQ(ask(c, wait({"/3"}) + set("/1", "go")), kOk);
  EXPECT_EQ(take(a), kOk + u64(1));
  EXPECT_EQ(take(b), kOk + u64(1));
}

TEST_F(TcpStoreTest, OnePushWakesOneWaiterInOrderOfArrival) {
  const TcpStore::ConnectionId a = open(), b = open(), c = open();
  send(a, wait({"/q"}));
  send(b, wait({"/q"}));
  send(c, op(TcpStoreOp::queue_push, {"/q", "1"}));
  EXPECT_EQ(take(a), kOk);
  EXPECT_EQ(take(b), "");
  send(c, set("/q", "v"));  // a key of that name wakes the rest
  EXPECT_EQ(take(b), kOk);
}

TEST_F(TcpStoreTest, QueuesAreASecondNameSpace) {
  const TcpStore::ConnectionId c = open();
  send(c, op(TcpStoreOp::queue_push, {"/q", "1"}));
  EXPECT_EQ(ask(c, op(TcpStoreOp::get_num_keys)), u64(0));
  EXPECT_EQ(ask(c, op(TcpStoreOp::list_keys)), u64(0));
  EXPECT_EQ(ask(c, op(TcpStoreOp::get, {"/q"})), text(""));
  EXPECT_EQ(ask(c, op(TcpStoreOp::delete_key, {"/q"})), u64(0));
  EXPECT_EQ(ask(c, keys(TcpStoreOp::check, {"/q"})), kOk);
  EXPECT_EQ(ask(c, wait({"/q"})), kOk);
  EXPECT_EQ(ask(c, op(TcpStoreOp::queue_pop, {"/q"})), u64(1) + text("1"));
  EXPECT_EQ(ask(c, keys(TcpStoreOp::check, {"/q"})), kNotThere);
}

TEST_F(TcpStoreTest, ABarrierReleasesAtItsWorldSizeAndStaysOpen) {
  const TcpStore::ConnectionId a = open(), b = open(), c = open(), d = open();
  EXPECT_EQ(ask(d, wait({"/b"})), "");
  EXPECT_EQ(ask(a, barrier("/b", 3)), "");
  EXPECT_EQ(*store.find("/b"), "1");  // a visible key, yet no WAIT ends by it
  EXPECT_EQ(take(d), "");
  EXPECT_EQ(ask(b, barrier("/b", 3)), "");
  EXPECT_EQ(ask(a, cancel()), kCancelled);  // leaves, but its arrival counts
  EXPECT_EQ(ask(c, barrier("/b", 3)), kOk);
  EXPECT_EQ(take(b), kOk);
  EXPECT_EQ(take(a), "");
  EXPECT_EQ(ask(a, barrier("/b", 3)), kOk);
}

TEST_F(TcpStoreTest, ALostConnectionLeavesItsKeysAndArrivalsButNoRegistration) {
  const TcpStore::ConnectionId a = open(), b = open(), c = open();
  send(a, set("/k", "v") + wait({"/x"}));
  send(b, barrier("/b", 2));
  store.close(a);
  store.close(b);
  EXPECT_EQ(ask(c, set("/x", "1") + op(TcpStoreOp::get, {"/k"})), text("v"));
  EXPECT_EQ(ask(c, barrier("/b", 2)), kOk);
  EXPECT_EQ(answers.count(a) + answers.count(b), 0u);
}

TEST_F(TcpStoreTest, ClearLeavesNothingOfTheAttempt) {
  const TcpStore::ConnectionId a = open();
  send(a, set("/default_pg/0//cpu//0/0", "address") + op(TcpStoreOp::queue_push, {"/q", "1"}) +
              wait({"/x"}));
  store.clear();
  EXPECT_EQ(store.connections(), 0u);
  const TcpStore::ConnectionId b = open();
  EXPECT_EQ(ask(b, op(TcpStoreOp::get_num_keys)), u64(0));
  EXPECT_EQ(ask(b, op(TcpStoreOp::queue_len, {"/q"})), u64(0));
  send(b, set("/x", "1"));  // nobody of the old attempt is told
  EXPECT_EQ(take(a), "");
}

TEST_F(TcpStoreTest, WhatIsOutsideTheProtocolClosesThatConnectionOnly) {
  const std::string big_key(kTcpStoreMaxKey + 1, 'k');
  const struct {
    const char* name;
    std::string bytes;
    bool greets;
  } cases[] = {
      {"bad magic", std::string("\0abcd", 5), false},
      {"no VALIDATE", op(TcpStoreOp::get, {"/k"}), false},
      {"second VALIDATE", hello(), true},
      {"opcode 19", std::string(1, 19), true},
      {"opcode 255", std::string(1, '\xff'), true},
      {"key too long", op(TcpStoreOp::get, {big_key}), true},
      {"key length near 2^64", std::string(1, 3) + u64(~uint64_t{0}), true},
      {"value too long", std::string(1, 1) + text("/k") + u64(kTcpStoreMaxValue + 1), true},
      {"list too long", std::string(1, 6) + u64(kTcpStoreMaxItems + 1), true},
      {"list count near 2^64", std::string(1, 11) + u64(~uint64_t{0}), true},
      {"ADD on text", set("/t", "abc") + add("/t", 1), true},
      {"ADD on a number too large", set("/t", "99999999999999999999") + add("/t", 1), true},
      {"BARRIER on text", set("/t", "abc") + barrier("/t", 2), true},
      {"a flood behind a WAIT",
       wait({"/never"}) + op(TcpStoreOp::get, {"/k"}) + std::string(100 << 10, '\x07'), true},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    Harness h;
    const TcpStore::ConnectionId good = h.open();
    h.send(good, set("/k", "v") + wait({"/w"}));
    const TcpStore::ConnectionId bad = h.store.open();
    if (c.greets) h.send(bad, hello());
    h.send(bad, c.bytes);
    EXPECT_EQ(h.closed.count(bad), 1u);
    EXPECT_EQ(h.closed.count(good), 0u);
    const TcpStore::ConnectionId other = h.open();
    EXPECT_EQ(h.ask(other, set("/w", "1") + op(TcpStoreOp::get, {"/k"})), text("v"));
    EXPECT_EQ(h.take(good), kOk);
  }
}

TEST_F(TcpStoreTest, TheLimitsThemselvesAreAllowed) {
  const TcpStore::ConnectionId c = open();
  const std::string key(kTcpStoreMaxKey, 'k'), value(kTcpStoreMaxValue, 'v');
  send(c, set(key, value) + op(TcpStoreOp::append, {key, "more"}));
  EXPECT_EQ(store.find(key)->size(), kTcpStoreMaxValue + 4);
  EXPECT_EQ(ask(c, op(TcpStoreOp::get, {key})).size(), 8 + kTcpStoreMaxValue + 4);
  std::string list = std::string(1, 5) + u64(kTcpStoreMaxItems);
  for (uint64_t i = 0; i < kTcpStoreMaxItems; ++i) list += text("");
  EXPECT_EQ(ask(c, list), kNotThere);
}

TEST_F(TcpStoreTest, AFewBytesCannotAskForUnboundedAnswers) {
  const TcpStore::ConnectionId c = open();
  send(c, set("/k", std::string(kTcpStoreMaxValue, 'v')));
  std::string list = std::string(1, 10) + u64(1000);
  for (int i = 0; i < 1000; ++i) list += text("/k");
  send(c, list);
  EXPECT_EQ(closed.count(c), 1u);
}

// Random streams: valid requests with bytes flipped, dropped, repeated and cut at random places. A
// witness connection must be served as ever.
TEST(TcpStoreMutation, NoStreamDisturbsAnotherConnection) {
  const std::string pieces[] = {set("/a", "1"),
                                op(TcpStoreOp::compare_set, {"/a", "1", "2"}),
                                op(TcpStoreOp::get, {"/a"}),
                                add("/n", -3),
                                keys(TcpStoreOp::check, {"/a", "/b"}),
                                wait({"/a", "/b"}),
                                op(TcpStoreOp::get_num_keys),
                                op(TcpStoreOp::delete_key, {"/a"}),
                                op(TcpStoreOp::append, {"/a", "x"}),
                                keys(TcpStoreOp::multi_get, {"/a"}),
                                std::string(1, 11) + u64(1) + text("/b") + text("v"),
                                cancel(),
                                op(TcpStoreOp::ping) + "abcd",
                                op(TcpStoreOp::queue_push, {"/q", "v"}),
                                op(TcpStoreOp::queue_pop, {"/q"}),
                                op(TcpStoreOp::queue_len, {"/q"}),
                                op(TcpStoreOp::list_keys),
                                barrier("/bar", 2)};
  uint64_t draws = 0;
  const auto below = [&](uint64_t n) { return philox_below(n, 7, draws++, 0); };
  Harness h;
  const TcpStore::ConnectionId witness = h.open();
  for (int round = 0; round < 3000; ++round) {
    const TcpStore::ConnectionId id = h.store.open();
    std::string stream = hello();
    for (uint64_t i = 0, n = below(8); i < n; ++i) stream += pieces[below(std::size(pieces))];
    for (uint64_t i = 0, n = below(4); i < n; ++i) {
      const size_t at = below(stream.size());
      switch (below(3)) {
        case 0:
          stream[at] = static_cast<char>(below(256));
          break;
        case 1:
          stream.erase(at, 1);
          break;
        default:
          stream.insert(at, stream.substr(at, below(16)));
      }
      if (stream.empty()) stream = "x";
    }
    for (size_t at = 0; at < stream.size() && !h.closed.count(id);) {
      const size_t n = 1 + below(40);
      h.send(id, std::string_view(stream).substr(at, n));
      at += n;
    }
    if (below(2) == 0) h.store.close(id);
    const std::string key = "/witness" + std::to_string(round);
    ASSERT_EQ(h.ask(witness,
                    set(key, "w") + op(TcpStoreOp::get, {key}) + op(TcpStoreOp::delete_key, {key})),
              text("w") + u64(1));
  }
}

}  // namespace
}  // namespace muster
