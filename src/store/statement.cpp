#include "store/statement.h"

#include <fmt/format.h>
#include <sqlite3.h>

namespace muster {

Error sqlite_error(sqlite3* db, std::string_view doing) {
  const int rc = sqlite3_errcode(db);
  const std::string text = fmt::format("{}: {}", doing, sqlite3_errmsg(db));
  switch (rc & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
      return Error(Code::corrupt,
                   text + "; the file is damaged: restore it from a copy or move it away");
    case SQLITE_ERROR:
      return Error(Code::corrupt, text);  // a table or column is not there
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Error(Code::busy, text + "; another process holds the file");
    case SQLITE_FULL:
      return Error(Code::no_space, text);
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return Error(Code::permission, text);
    default:
      return Error(Code::io, text);
  }
}

Status run_sql(sqlite3* db, const std::string& sql) {
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    return sqlite_error(db, sql.substr(0, sql.find(';')));
  return {};
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Result<Statement> Statement::prepare(sqlite3* db, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) != SQLITE_OK)
    return sqlite_error(db, "preparing a statement");
  return Statement(db, statement);
}

void Statement::bind(int index, int64_t value) {
  const int rc = sqlite3_bind_int64(statement_.get(), index, value);
  MUSTER_CHECK(rc == SQLITE_OK, index, rc);
}

void Statement::bind(int index, std::string_view value) {
  const int rc = sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(),
                                     SQLITE_TRANSIENT, SQLITE_UTF8);
  MUSTER_CHECK(rc == SQLITE_OK, index, rc);
}

Result<bool> Statement::step() {
  const int rc = sqlite3_step(statement_.get());
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return sqlite_error(db_, "running a statement");
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_.get(), column);
  const int count = sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr
             ? std::string()
             : std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

}  // namespace muster
