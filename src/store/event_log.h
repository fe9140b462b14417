// EventLog: the append-only record of what happened to a run, in one SQLite file (WAL), so that it
// can be read while it is written and survives the death of its writer. Events are never changed or
// removed. Kinds and their payloads are the writer's vocabulary (trace/vocabulary.h).
//
// One process appends; any number read. An object is used by one thread at a time and never across
// a fork. An append is visible to readers when it returns and survives a crash of the process;
// after a power cut the last ones may be missing, never damaged.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

struct sqlite3;

namespace muster {

struct Event {
  int64_t id = 0;  // grows with every append
  Nanos wall{0};
  Nanos monotonic{0};    // CLOCK_MONOTONIC of the writing machine, comparable within one boot
  int32_t attempt = -1;  // -1: of no attempt
  int32_t rank = -1;     // -1: of no rank
  std::string kind;
  nlohmann::json payload = nlohmann::json::object();
};

struct EventQuery {
  std::string kind;      // empty: all
  int64_t after_id = 0;  // only events with a larger id
  std::optional<int32_t> attempt, rank;
};

class EventLog {
 public:
  // Creates the file if it is missing. `clock` must outlive the log. Errors: corrupt when it is not
  // an event log or fails SQLite's own checks; busy when another process keeps its write lock.
  static Result<EventLog> open(const std::string& path, const Clock& clock);
  // For a run that may be live. Errors: not_found; corrupt.
  static Result<EventLog> open_read_only(const std::string& path);

  EventLog(EventLog&&) noexcept;
  EventLog& operator=(EventLog&&) noexcept;
  ~EventLog();

  // Stamped with the clock given at open. Returns the id.
  Result<int64_t> append(std::string_view kind, nlohmann::json payload, int32_t attempt = -1,
                         int32_t rank = -1);
  // With its own times (what happened before it could be written). `id` is ignored.
  Result<int64_t> append(const Event& event);

  // In order of id.
  Result<std::vector<Event>> query(const EventQuery& query) const;

 private:
  EventLog(sqlite3* db, std::string path, const Clock* clock);
  Error failed(std::string_view doing) const;
  Status prepare_tables();
  Status check_tables() const;

  struct Close {
    void operator()(sqlite3* db) const;
  };
  std::unique_ptr<sqlite3, Close> db_;
  std::string path_;
  const Clock* clock_;  // null: read-only
};

}  // namespace muster
