#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "insight/report/markup.h"
#include "insight/report/report.h"

namespace muster {
namespace {

constexpr size_t kLossRows = 20;

template <class... T>
void put(std::string& out, fmt::format_string<T...> format, T&&... values) {
  fmt::format_to(std::back_inserter(out), format, std::forward<T>(values)...);
}

void put_summary(std::string& out, const ReportInput& in) {
  put(out, "# {}\n\n{}\n\n", escape_markdown(in.title), escape_markdown(in.outcome));
  out += "| | |\n|---|---:|\n";
  auto row = [&](std::string_view name, const std::string& value) {
    put(out, "| {} | {} |\n", escape_markdown(name), escape_markdown(value));
  };
  if (!in.started.empty()) row("started", in.started);
  row("run directory", in.run_dir);
  if (in.validation_bits_per_byte)
    row("bits per byte, held out", fmt::format("{:.4f}", *in.validation_bits_per_byte));
  if (in.final_loss_nats) row("loss, last step (nats)", fmt::format("{:.4f}", *in.final_loss_nats));
  if (!in.steps.empty()) row("steps", std::to_string(in.steps.back().step));
  if (in.tokens > 0) row("tokens", std::to_string(in.tokens));
  if (in.tokens_per_second) row("tokens per second", fmt::format("{:.0f}", *in.tokens_per_second));
  if (in.mfu) row("MFU " + in.mfu->label, fmt::format("{:.1f} %", in.mfu->value * 100));
  if (in.ledger.total() > 0) {
    row("launch to end",
        span_text(static_cast<double>(in.ledger.end_ns - in.ledger.launch_ns) / 1e9));
    row("goodput", fmt::format("{:.2f} %", in.ledger.goodput() * 100));
  }
}

void put_loss(std::string& out, const ReportInput& in) {
  if (in.steps.empty()) return;
  out += "\n## Loss\n\n| step | loss (nats) | step time |\n|---:|---:|---:|\n";
  const size_t stride = (in.steps.size() + kLossRows - 1) / kLossRows;
  for (size_t i = 0; i < in.steps.size(); ++i) {
    if (i % stride != 0 && i + 1 != in.steps.size()) continue;
    const ReportStep& s = in.steps[i];
    put(out, "| {} | {} | {} |\n", s.step,
        s.skipped ? "skipped" : fmt::format("{:.4f}", s.loss_nats), span_text(s.seconds));
  }
  if (in.validations.empty()) return;
  out += "\n| step | held-out loss (nats) |\n|---:|---:|\n";
  for (const ReportValidation& v : in.validations)
    put(out, "| {} | {:.4f} |\n", v.step, v.loss_nats);
}

void put_ledger(std::string& out, const ReportInput& in) {
  const Ledger& l = in.ledger;
  if (l.total() <= 0) return;
  out +=
      "\n## Where the time went\n\n| part | rank-seconds | share | meaning "
      "|\n|---|---:|---:|---|\n";
  for (const Leaf leaf : leaves_in_reading_order()) {
    if (l.at(leaf) == 0) continue;
    put(out, "| {} | {:.3f} | {:.2f} % | {} |\n", escape_markdown(leaf_name(leaf)),
        static_cast<double>(l.at(leaf)) / 1e9,
        100.0 * static_cast<double>(l.at(leaf)) / static_cast<double>(l.total()),
        leaf_meaning(leaf));
  }
  put(out, "| **total** | {:.3f} | 100 % | |\n", static_cast<double>(l.total()) / 1e9);
}

void put_restarts(std::string& out, const ReportInput& in) {
  out += "\n## Restarts\n\n";
  if (in.restarts.empty()) {
    out += "None.\n";
    return;
  }
  out +=
      "| at | attempt | rank | cause | detection | restart | reload | rework | went on from "
      "|\n|---:|---:|---:|---|---:|---:|---:|---:|---|\n";
  for (const ReportRestart& r : in.restarts)
    put(out, "| {} | {} | {} | {} {} | {} | {} | {} | {} | {} |\n", span_text(r.at_seconds),
        r.attempt, r.rank >= 0 ? std::to_string(r.rank) : "-", escape_markdown(r.cause),
        escape_markdown(r.message), span_text(r.detection), span_text(r.restart),
        span_text(r.reload), span_text(r.rework),
        !r.restarted     ? std::string("not restarted")
        : r.started_from ? fmt::format("step {}", *r.started_from)
                         : std::string("restarted"));
}

void put_rest(std::string& out, const ReportInput& in) {
  if (!in.samples.empty()) out += "\n## Samples\n";
  for (const ReportSample& s : in.samples)
    put(out, "\n**{}**\n\ngiven:\n\n{}{}\nwritten:\n\n{}", escape_markdown(s.title),
        markdown_code_block(s.before),
        s.after.empty() ? std::string() : "\nand after it:\n\n" + markdown_code_block(s.after),
        markdown_code_block(s.text));
  if (!in.configuration.empty())
    out += "\n## Configuration\n\n| setting | value | from |\n|---|---|---|\n";
  for (const ReportSetting& s : in.configuration)
    put(out, "| {} | {} | {} |\n", escape_markdown(s.key), escape_markdown(s.value),
        escape_markdown(s.origin));
  if (!in.numerics.empty()) out += "\n## Numerics\n\n| | |\n|---|---|\n";
  for (const ReportFact& f : in.numerics)
    put(out, "| {} | {} |\n", escape_markdown(f.name), escape_markdown(f.value));
  if (!in.environment.empty()) out += "\n## Environment\n\n| | |\n|---|---|\n";
  for (const ReportFact& f : in.environment)
    put(out, "| {} | {} |\n", escape_markdown(f.name), escape_markdown(f.value));
  if (!in.problems.empty()) out += "\n## What is missing here\n\n";
  for (const std::string& p : in.problems) put(out, "- {}\n", escape_markdown(p));
}

}  // namespace

std::string report_markdown(const ReportInput& in) {
  std::string out;
  put_summary(out, in);
  put_loss(out, in);
  put_ledger(out, in);
  put_restarts(out, in);
  put_rest(out, in);
  return out;
}

}  // namespace muster
