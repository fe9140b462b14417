#include "store/event_log.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include "store/statement.h"

namespace muster {
namespace {

constexpr int kApplicationId = 0x4D555354;  // "MUST", in the file's header
constexpr int kSchemaVersion = 1;
constexpr int kBusyTimeoutMs = 5000;

Result<sqlite3*> open_database(const std::string& path, int flags) {
  sqlite3* db = nullptr;
  const int rc = sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  if (rc != SQLITE_OK) {
    const std::string why = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    sqlite3_close_v2(db);
    return Error(Code::io, fmt::format("event log {}: cannot open: {}", path, why));
  }
  sqlite3_busy_timeout(db, kBusyTimeoutMs);
  return db;
}

// https://www.sqlite.org/uri.html: '?' and '#' end a path and %XX is a byte; a path without a '/'
// in front is relative, and two would name a host.
std::string sqlite_file_uri(std::string_view path) {
  std::string uri = "file:";
  if (path.starts_with("//")) uri += "//";  // an empty host before it
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return uri;
}

Result<int64_t> one_integer(sqlite3* db, const char* sql) {
  MUSTER_TRY(Statement statement, Statement::prepare(db, sql));
  MUSTER_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

}  // namespace

void EventLog::Close::operator()(sqlite3* db) const {
  sqlite3_close_v2(db);
}

EventLog::EventLog(sqlite3* db, std::string path, const Clock* clock)
    : db_(db), path_(std::move(path)), clock_(clock) {}
EventLog::EventLog(EventLog&&) noexcept = default;
EventLog& EventLog::operator=(EventLog&&) noexcept = default;
EventLog::~EventLog() = default;

Error EventLog::failed(std::string_view doing) const {
  return sqlite_error(db_.get(), fmt::format("event log {}: {}", path_, doing));
}

Result<EventLog> EventLog::open(const std::string& path, const Clock& clock) {
  MUSTER_TRY(sqlite3 * db,
             open_database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX));
  EventLog log(db, path, &clock);
  MUSTER_TRY(log.prepare_tables().context(fmt::format("opening event log {}", path)));
  return log;
}

Result<EventLog> EventLog::open_read_only(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0)
    return Error(Code::not_found,
                 fmt::format("no event log {}: is its folder the directory of a run?", path));
  MUSTER_TRY(sqlite3 * db, open_database(path, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX));
  EventLog log(db, path, nullptr);
  const Status checked = log.check_tables();
  const Code code = checked.ok() ? Code::internal : checked.error().code();
  if (code == Code::io || code == Code::permission) {
    // A run directory that may not be written (an archive, by its mount or its permissions) has no
    // room for the WAL index; without a writer the file alone is whole.
    const std::string uri = sqlite_file_uri(path) + "?immutable=1";
    MUSTER_TRY(db,
               open_database(uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI));
    log = EventLog(db, path, nullptr);
    MUSTER_TRY(log.check_tables().context(fmt::format("opening event log {}", path)));
    return log;
  }
  MUSTER_TRY(Status(checked).context(fmt::format("opening event log {}", path)));
  return log;
}

Status EventLog::check_tables() const {
  MUSTER_TRY(const int64_t id, one_integer(db_.get(), "PRAGMA application_id"));
  MUSTER_TRY(const int64_t version, one_integer(db_.get(), "PRAGMA user_version"));
  if (id != kApplicationId)
    return Error(Code::corrupt, fmt::format("{} is an SQLite file but no event log of muster "
                                            "(application id {:#x}, expected {:#x})",
                                            path_, id, kApplicationId));
  if (version != kSchemaVersion)
    return Error(
        Code::unsupported,
        fmt::format("{} has event schema version {}, this program knows {}: use the version "
                    "that wrote it",
                    path_, version, kSchemaVersion));
  MUSTER_TRY(one_integer(db_.get(), "SELECT count(*) FROM (SELECT 1 FROM event LIMIT 1)"));
  return {};
}

Status EventLog::prepare_tables() {
  MUSTER_TRY(run_sql(db_.get(), "PRAGMA journal_mode=WAL"));
  MUSTER_TRY(run_sql(db_.get(), "PRAGMA synchronous=NORMAL"));
  MUSTER_TRY(const int64_t id, one_integer(db_.get(), "PRAGMA application_id"));
  MUSTER_TRY(const int64_t tables, one_integer(db_.get(), "SELECT count(*) FROM sqlite_master"));
  if (id == 0 && tables == 0) {
    MUSTER_TRY(
        run_sql(db_.get(), fmt::format("BEGIN IMMEDIATE;"
                                       "CREATE TABLE IF NOT EXISTS event("
                                       " id INTEGER PRIMARY KEY AUTOINCREMENT,"
                                       " wall_ns INTEGER NOT NULL, monotonic_ns INTEGER NOT NULL,"
                                       " attempt INTEGER NOT NULL, rank INTEGER NOT NULL,"
                                       " kind TEXT NOT NULL, payload TEXT NOT NULL);"
                                       "CREATE INDEX IF NOT EXISTS event_kind ON event(kind, id);"
                                       "PRAGMA application_id={};PRAGMA user_version={};COMMIT",
                                       kApplicationId, kSchemaVersion)));
  }
  return check_tables();
}

Result<int64_t> EventLog::append(std::string_view kind, nlohmann::json payload, int32_t attempt,
                                 int32_t rank) {
  MUSTER_CHECK(clock_ != nullptr, path_);
  return append(Event{.wall = clock_->wall(),
                      .monotonic = clock_->now(),
                      .attempt = attempt,
                      .rank = rank,
                      .kind = std::string(kind),
                      .payload = std::move(payload)});
}

Result<int64_t> EventLog::append(const Event& e) {
  MUSTER_CHECK(clock_ != nullptr, path_);  // opened read-only: a bug of the caller
  auto prepared = Statement::prepare(
      db_.get(),
      "INSERT INTO event(wall_ns, monotonic_ns, attempt, rank, kind, payload) VALUES(?,?,?,?,?,?)");
  if (!prepared.ok()) return failed("append");
  Statement statement = *std::move(prepared);
  statement.bind(1, e.wall.count());
  statement.bind(2, e.monotonic.count());
  statement.bind(3, e.attempt);
  statement.bind(4, e.rank);
  statement.bind(5, e.kind);
  // Text of processes (last lines, commands) may hold any bytes.
  statement.bind(6, e.payload.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  MUSTER_TRY(statement.step().context(fmt::format("event log {}: append {}", path_, e.kind)));
  return sqlite3_last_insert_rowid(db_.get());
}

Result<std::vector<Event>> EventLog::query(const EventQuery& q) const {
  std::string sql =
      "SELECT id, wall_ns, monotonic_ns, attempt, rank, kind, payload FROM event WHERE id > ?1";
  if (!q.kind.empty()) sql += " AND kind = ?2";
  if (q.attempt.has_value()) sql += " AND attempt = ?3";
  if (q.rank.has_value()) sql += " AND rank = ?4";
  sql += " ORDER BY id";
  MUSTER_TRY(Statement statement,
             Statement::prepare(db_.get(), sql.c_str()).context(fmt::format("reading {}", path_)));
  statement.bind(1, q.after_id);
  if (!q.kind.empty()) statement.bind(2, q.kind);
  if (q.attempt.has_value()) statement.bind(3, *q.attempt);
  if (q.rank.has_value()) statement.bind(4, *q.rank);

  std::vector<Event> events;
  for (;;) {
    MUSTER_TRY(const bool row, statement.step().context(fmt::format("reading {}", path_)));
    if (!row) return events;
    Event e{.id = statement.integer(0),
            .wall = Nanos{statement.integer(1)},
            .monotonic = Nanos{statement.integer(2)},
            .attempt = static_cast<int32_t>(statement.integer(3)),
            .rank = static_cast<int32_t>(statement.integer(4)),
            .kind = statement.text(5),
            .payload = nlohmann::json::parse(statement.text(6), nullptr, false)};
    if (e.payload.is_discarded())
      return Error(Code::corrupt,
                   fmt::format("event log {}: the payload of event {} ({}) is not JSON", path_,
                               e.id, e.kind));
    events.push_back(std::move(e));
  }
}

}  // namespace muster
