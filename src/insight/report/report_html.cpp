#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "insight/report/heat_strip.h"
#include "insight/report/ledger_bar.h"
#include "insight/report/line_chart.h"
#include "insight/report/markup.h"
#include "insight/report/report.h"
#include "insight/report/report_style.h"

namespace muster {
namespace {

constexpr double kLossSmoothing = 0.1;

// Appends formatted text. Arguments that are not fixed words of ours go through escape_html.
template <class... T>
void put(std::string& out, fmt::format_string<T...> format, T&&... values) {
  fmt::format_to(std::back_inserter(out), format, std::forward<T>(values)...);
}

void begin_section(std::string& out, std::string_view title, std::string_view lead) {
  put(out, "<section><h2>{}</h2>", title);
  if (!lead.empty()) put(out, "<p class=\"lead\">{}</p>", escape_html(lead));
}

void put_tile(std::string& out, std::string_view value, std::string_view label) {
  put(out, "<div class=\"tile\"><b>{}</b><span>{}</span></div>", escape_html(value),
      escape_html(label));
}

void put_tiles(std::string& out, const ReportInput& in) {
  out += "<div class=\"tiles\">";
  if (in.validation_bits_per_byte)
    put_tile(out, fmt::format("{:.3f}", *in.validation_bits_per_byte), "bits per byte, held out");
  if (in.final_loss_nats)
    put_tile(out, fmt::format("{:.3f}", *in.final_loss_nats), "loss, last step (nats)");
  if (!in.steps.empty()) put_tile(out, grouped(in.steps.back().step), "steps");
  if (in.tokens > 0) put_tile(out, grouped(in.tokens), "tokens");
  if (in.tokens_per_second)
    put_tile(out, grouped(std::llround(*in.tokens_per_second)), "tokens per second");
  if (in.mfu) put_tile(out, fmt::format("{:.1f} %", in.mfu->value * 100), "MFU, " + in.mfu->label);
  if (in.ledger.total() > 0) {
    put_tile(out, fmt::format("{:.1f} %", in.ledger.goodput() * 100), "goodput");
    put_tile(out, span_text(static_cast<double>(in.ledger.end_ns - in.ledger.launch_ns) / 1e9),
             "launch to end");
  }
  int64_t restarts = 0;
  for (const ReportRestart& r : in.restarts) restarts += r.restarted ? 1 : 0;
  put_tile(out, fmt::format("{}", restarts), "restarts");
  out += "</div>";
}

std::vector<ChartMark> restart_marks(const ReportInput& in) {
  std::vector<ChartMark> marks;
  for (const ReportRestart& r : in.restarts)
    if (r.restarted && r.started_from)
      marks.push_back({static_cast<double>(*r.started_from),
                       fmt::format("attempt {} failed ({}); went on from step {}", r.attempt,
                                   r.cause, *r.started_from)});
  return marks;
}

void put_loss(std::string& out, const ReportInput& in) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  ChartSeries raw{.label = "loss", .css_class = "raw"},
      held{.label = "held-out loss", .css_class = "held-out", .dots = true};
  int64_t skipped = 0;
  for (const ReportStep& s : in.steps) {
    raw.points.emplace_back(static_cast<double>(s.step), s.skipped ? kNaN : s.loss_nats);
    skipped += s.skipped ? 1 : 0;
  }
  for (const ReportValidation& v : in.validations)
    held.points.emplace_back(static_cast<double>(v.step), v.loss_nats);
  const ChartSeries mean{
      .label = "smoothed", .css_class = "main", .points = smoothed(raw.points, kLossSmoothing)};
  const LineChart chart{.id = "loss",
                        .title = "Loss by step",
                        .description = "Training loss in nats per token, raw and smoothed.",
                        .x_label = "step",
                        .y_label = "nats",
                        .series = {raw, mean, held},
                        .marks = restart_marks(in)};
  begin_section(out, "Loss", "Nats per target token. Dashed: where a restart went on from.");
  const std::string svg = line_chart_svg(chart);
  if (svg.empty()) {
    out += "<p>No step was recorded.</p></section>";
    return;
  }
  put(out,
      "<div class=\"wide\">{}</div><p class=\"key\"><span><i style=\"color:var(--pale)\"></i>each "
      "step</span>"
      "<span><i style=\"color:var(--accent)\"></i>smoothed</span>",
      svg);
  if (!in.validations.empty()) out += "<span>&#9675; held out</span>";
  out += "</p>";
  if (skipped > 0)
    put(out,
        "<p class=\"problem\">{} step(s) had a loss or gradient that was not finite and changed "
        "nothing.</p>",
        skipped);
  out += "</section>";
}

void put_strip(std::string& out, const ReportInput& in) {
  begin_section(out, "Step time by rank",
                "One row a rank, one column a step: green is fast, red is slow.");
  const std::string svg = heat_strip_svg(in.rank_steps);
  if (svg.empty())
    out += "<p>No step spans were recorded.</p>";
  else
    put(out, "<div class=\"wide\">{}</div>", svg);
  out += "</section>";
}

void put_throughput(std::string& out, const ReportInput& in) {
  ChartSeries rate{.label = "tokens per second", .css_class = "main"};
  for (const ReportStep& s : in.steps)
    if (s.seconds > 0)
      rate.points.emplace_back(static_cast<double>(s.step),
                               static_cast<double>(s.tokens) / s.seconds);
  const std::string svg = line_chart_svg({.id = "rate",
                                          .title = "Tokens per second by step",
                                          .description = "All ranks together.",
                                          .x_label = "step",
                                          .y_label = "tokens per second",
                                          .series = {rate},
                                          .marks = restart_marks(in),
                                          .from_zero = true});
  if (svg.empty()) return;
  const std::string mfu = in.mfu ? fmt::format("MFU {}.", mfu_text(*in.mfu))
                                 : std::string("No MFU: the peak of the device is not known.");
  begin_section(out, "Throughput", "Tokens per second of all ranks, step by step. " + mfu);
  put(out, "<div class=\"wide\">{}</div></section>", svg);
}

void put_ledger(std::string& out, const ReportInput& in) {
  const Ledger& l = in.ledger;
  if (l.total() <= 0) return;
  begin_section(out, "Where the time went",
                fmt::format("Every rank-second from launch to end in exactly one part: {} rank(s) "
                            "x {} = {} rank-seconds. Goodput is the share of steps that count.",
                            l.ranks, span_text(static_cast<double>(l.end_ns - l.launch_ns) / 1e9),
                            tick_text(static_cast<double>(l.total()) / 1e9)));
  put(out, "<div class=\"wide\">{}</div>", ledger_bar_svg(l));
  out +=
      "<div class=\"wide\"><table><thead><tr><th>part</th><th class=\"n\">rank-seconds</th><th "
      "class=\"n\">share</th>"
      "<th>meaning</th></tr></thead><tbody>";
  for (const Leaf leaf : leaves_in_reading_order()) {
    if (l.at(leaf) == 0) continue;
    put(out,
        "<tr><td class=\"name\"><svg class=\"swatch\" viewBox=\"0 0 11 11\" "
        "aria-hidden=\"true\"><rect class=\"{}\" "
        "width=\"11\" height=\"11\" rx=\"2\"/></svg>{}</td><td class=\"n\">{:.3f}</td><td "
        "class=\"n\">{:.2f} %</td><td>{}</td></tr>",
        leaf_css_class(leaf), leaf_name(leaf), static_cast<double>(l.at(leaf)) / 1e9,
        100.0 * static_cast<double>(l.at(leaf)) / static_cast<double>(l.total()),
        leaf_meaning(leaf));
  }
  put(out,
      "<tr class=\"sum\"><td>total</td><td class=\"n\">{:.3f}</td><td class=\"n\">100 "
      "%</td><td></td></tr></tbody></table></div></section>",
      static_cast<double>(l.total()) / 1e9);
}

void put_restarts(std::string& out, const ReportInput& in) {
  begin_section(out, "Restarts", in.restarts.empty() ? "" : "Rank-seconds that each failure cost.");
  if (in.restarts.empty()) {
    out += "<p>None.</p></section>";
    return;
  }
  out +=
      "<div class=\"wide\"><table><thead><tr><th class=\"n\">at</th><th "
      "class=\"n\">attempt</th><th class=\"n\">rank</th><th>cause</th>"
      "<th class=\"n\">detection</th><th class=\"n\">restart</th><th class=\"n\">reload</th>"
      "<th class=\"n\">rework</th><th>went on from</th></tr></thead><tbody>";
  for (const ReportRestart& r : in.restarts) {
    put(out,
        "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"any\"><b>{}</b> {}</td>",
        span_text(r.at_seconds), r.attempt, r.rank >= 0 ? std::to_string(r.rank) : "-",
        escape_html(r.cause), escape_html(r.message));
    for (const double cost : {r.detection, r.restart, r.reload, r.rework})
      put(out, "<td class=\"n\">{}</td>", span_text(cost));
    put(out, "<td>{}</td></tr>",
        !r.restarted     ? std::string("not restarted")
        : r.started_from ? fmt::format("step {}", *r.started_from)
                         : std::string("restarted"));
  }
  out += "</tbody></table></div></section>";
}

void put_samples(std::string& out, const ReportInput& in) {
  if (in.samples.empty()) return;
  begin_section(out, "Samples", "What the model wrote (bold) for what it was given.");
  for (const ReportSample& s : in.samples)
    put(out,
        "<h3>{}</h3><pre><span class=\"given\">{}</span><span class=\"made\">{}</span><span "
        "class=\"given\">{}</span></pre>",
        escape_html(s.title), escape_html(s.before), escape_html(s.text), escape_html(s.after));
  out += "</section>";
}

void put_configuration(std::string& out, const ReportInput& in) {
  if (in.configuration.empty()) return;
  size_t set = 0;
  for (const ReportSetting& s : in.configuration) set += s.origin != "default" ? 1 : 0;
  begin_section(
      out, "Configuration",
      fmt::format("{} settings, {} of them not the default, with where each value came from.",
                  in.configuration.size(), set));
  for (const bool defaults : {false, true}) {
    if (defaults) out += "<details><summary>defaults</summary>";
    out +=
        "<div "
        "class=\"wide\"><table><thead><tr><th>setting</th><th>value</th><th>from</th></tr></"
        "thead><tbody>";
    for (const ReportSetting& s : in.configuration)
      if ((s.origin == "default") == defaults)
        put(out,
            "<tr><td class=\"name\"><code>{}</code></td><td class=\"any\"><code>{}</code></td><td "
            "class=\"any\">{}</td></tr>",
            escape_html(s.key), escape_html(s.value), escape_html(s.origin));
    out += "</tbody></table></div>";
    if (defaults) out += "</details>";
  }
  out += "</section>";
}

void put_facts(std::string& out, const ReportInput& in) {
  for (const auto& [title, facts] :
       {std::pair{"Numerics", &in.numerics}, std::pair{"Environment", &in.environment}}) {
    if (facts->empty()) continue;
    begin_section(out, title, "");
    out += "<div class=\"wide\"><table><tbody>";
    for (const ReportFact& f : *facts)
      put(out, "<tr><td class=\"name\">{}</td><td class=\"any\">{}</td></tr>", escape_html(f.name),
          escape_html(f.value));
    out += "</tbody></table></div></section>";
  }
  if (in.problems.empty()) return;
  begin_section(out, "What is missing here", "");
  out += "<ul>";
  for (const std::string& p : in.problems)
    put(out, "<li class=\"problem\">{}</li>", escape_html(p));
  out += "</ul></section>";
}

}  // namespace

std::string report_html(const ReportInput& in) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<meta name=\"color-scheme\" content=\"light dark\">";
  put(out, "<title>{} - training report</title><style>{}</style></head><body><main>",
      escape_html(in.title), kReportStyle);
  put(out, "<header><h1>{}</h1><p>{}</p><p><code>{}</code></p>", escape_html(in.title),
      escape_html(in.started), escape_html(in.run_dir));
  if (!in.outcome.empty()) put(out, "<p class=\"outcome\">{}</p>", escape_html(in.outcome));
  out += "</header>";
  put_tiles(out, in);
  put_loss(out, in);
  put_ledger(out, in);
  put_strip(out, in);
  put_throughput(out, in);
  put_restarts(out, in);
  put_samples(out, in);
  put_configuration(out, in);
  put_facts(out, in);
  out += "<footer>Written by muster.</footer></main></body></html>\n";
  return out;
}

}  // namespace muster
