#include "trace/progress_page.h"

namespace muster {

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::unknown:
      return "unknown";
    case Phase::init_device:
      return "init.device";
    case Phase::init_rendezvous:
      return "init.rendezvous";
    case Phase::init_compile:
      return "init.compile";
    case Phase::restore:
      return "restore";
    case Phase::step:
      return "step";
    case Phase::eval:
      return "eval";
    case Phase::ckpt_block:
      return "ckpt_block";
    case Phase::idle:
      return "idle";
    case Phase::finished:
      return "finished";
  }
  return "unknown";  // a later version's phase
}

void ProgressWriter::enter(Phase phase, Nanos expected_silence) {
  const int64_t until =
      expected_silence.count() > 0 ? (clock_.now() + expected_silence).count() : 0;
  page_.worker.long_until.store(until, std::memory_order_relaxed);
  page_.worker.phase.store(static_cast<uint32_t>(phase), std::memory_order_relaxed);
  beat();
}

void ProgressWriter::begin_step(int64_t step) {
  page_.worker.step.store(static_cast<uint64_t>(step), std::memory_order_relaxed);
  enter(Phase::step, Nanos{0});
}

void ProgressWriter::end_step(double loss, uint64_t tokens_total) {
  page_.worker.loss.store(loss, std::memory_order_relaxed);
  page_.worker.tokens.store(tokens_total, std::memory_order_relaxed);
  beat();
}

ProgressSnapshot read_progress(const ProgressPage& page) {
  const ProgressPage::Worker& w = page.worker;
  ProgressSnapshot s;
  s.last = Nanos{w.t_last.load(std::memory_order_acquire)};
  s.step = static_cast<int64_t>(w.step.load(std::memory_order_relaxed));
  s.ops = w.ops.load(std::memory_order_relaxed);
  s.phase = static_cast<Phase>(w.phase.load(std::memory_order_relaxed));
  s.long_until = Nanos{w.long_until.load(std::memory_order_relaxed)};
  s.waiting = w.waiting.load(std::memory_order_relaxed) != 0;
  s.tokens = w.tokens.load(std::memory_order_relaxed);
  s.loss = w.loss.load(std::memory_order_relaxed);
  return s;
}

}  // namespace muster
