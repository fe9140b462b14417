// Statement: one prepared SQLite statement, finalized when it goes. Errors of SQLite become Error
// values whose code tells damage (corrupt) from contention (busy) and a full disk (no_space).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace muster {

Error sqlite_error(sqlite3* db, std::string_view doing);
// One or more statements without results.
Status run_sql(sqlite3* db, const std::string& sql);

class Statement {
 public:
  static Result<Statement> prepare(sqlite3* db, const char* sql);

  // Parameters count from 1, columns from 0.
  void bind(int index, int64_t value);
  void bind(int index, std::string_view value);
  Result<bool> step();  // true: a row is there
  int64_t integer(int column) const;
  std::string text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  sqlite3* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace muster
