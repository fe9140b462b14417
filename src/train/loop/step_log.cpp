#include "train/loop/step_log.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace muster {

std::string step_line(const StepRecord& r) {
  nlohmann::ordered_json json;
  json["step"] = r.step;
  json["attempt"] = r.attempt;
  json["loss_bits"] = fmt::format("{:016x}", std::bit_cast<uint64_t>(r.loss));
  // JSON has no infinities; the bits have the value all the same.
  json["loss"] =
      std::isfinite(r.loss) ? nlohmann::ordered_json(r.loss) : nlohmann::ordered_json(nullptr);
  json["gradient_norm"] = std::isfinite(r.gradient_norm) ? nlohmann::ordered_json(r.gradient_norm)
                                                         : nlohmann::ordered_json(nullptr);
  json["learning_rate"] = r.learning_rate;
  json["tokens"] = r.tokens;
  json["seconds"] = r.seconds;
  json["exposed_comm_seconds"] = r.exposed_comm_seconds;
  json["data_wait_seconds"] = r.data_wait_seconds;
  json["checkpoint_wait_seconds"] = r.checkpoint_wait_seconds;
  json["model_flops"] = r.model_flops;
  json["peak_flops_per_second"] = r.peak_flops_per_second;
  json["skipped"] = r.skipped;
  json["batches"] = r.batches;
  return json.dump();
}

Result<StepRecord> parse_step_line(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return Error(Code::corrupt, "a line of the step log is not a JSON object");
  try {
    StepRecord r;
    r.step = json.at("step").get<int64_t>();
    r.attempt = json.at("attempt").get<int32_t>();
    const auto text = json.at("loss_bits").get<std::string>();
    uint64_t bits = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
    if (status != std::errc{} || text.size() != 16 || end != text.data() + text.size()) {
      return Error(Code::corrupt, "loss_bits is not 16 hexadecimal digits");
    }
    r.loss = std::bit_cast<double>(bits);
    r.gradient_norm =
        json.at("gradient_norm").is_null() ? NAN : json.at("gradient_norm").get<double>();
    r.learning_rate = json.at("learning_rate").get<double>();
    r.tokens = json.at("tokens").get<int64_t>();
    r.seconds = json.at("seconds").get<double>();
    r.exposed_comm_seconds = json.at("exposed_comm_seconds").get<double>();
    r.data_wait_seconds = json.at("data_wait_seconds").get<double>();
    r.checkpoint_wait_seconds = json.at("checkpoint_wait_seconds").get<double>();
    r.model_flops = json.at("model_flops").get<double>();
    r.peak_flops_per_second = json.at("peak_flops_per_second").get<double>();
    r.skipped = json.at("skipped").get<bool>();
    r.batches = json.at("batches").get<std::string>();
    return r;
  } catch (const nlohmann::json::exception& e) {
    return Error(Code::corrupt, std::string("a line of the step log lacks a field: ") + e.what());
  }
}

std::vector<StepRecord> parse_step_log(std::string_view text, int64_t* skipped_lines) {
  std::map<int64_t, StepRecord> last;
  *skipped_lines = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty()) continue;  // the end of a torn line
    auto record = end == std::string_view::npos ? Result<StepRecord>(Error(Code::corrupt, "torn"))
                                                : parse_step_line(line);
    if (record.ok())
      last[record->step] = *record;
    else
      ++*skipped_lines;
  }
  std::vector<StepRecord> records;
  for (auto& [step, record] : last) records.push_back(std::move(record));
  return records;
}

Result<StepLog> StepLog::open(Files& files, const std::string& path) {
  MUSTER_TRY(const FileHandle file,
             files.open(path, {OpenMode::append, false}).context("step log"));
  StepLog log(files, file);
  MUSTER_TRY(const std::string before, read_file(files, path).context("step log"));
  if (!before.empty() && before.back() != '\n') log.waiting_ = "\n";
  return log;
}

Status StepLog::append(const StepRecord& record) {
  waiting_ += step_line(record) + "\n";
  return write();
}

Status StepLog::write() {
  if (waiting_.empty()) return {};
  const Status written = files_->append(file_, std::as_bytes(std::span(waiting_)));
  if (written.ok()) {
    waiting_.clear();
    return {};
  }
  // Part of it may be in the file; a step that is there twice counts once.
  if (waiting_.front() != '\n') waiting_.insert(0, "\n");
  return Error(written.error()).context("step log");
}

Status StepLog::close() {
  const Status written = write();
  const Status closed = files_->close(file_);
  return written.ok() ? closed : written;
}

}  // namespace muster
