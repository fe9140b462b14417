#include "train/execute/stream_gate.h"

namespace muster {

void StreamGate::open() {
  {
    const std::lock_guard lock(mutex_);
    MUSTER_CHECK(comm_finished_);
    opened_ = true;
    comm_finished_ = false;
    position_[0] = position_[1] = -1;
    error_.reset();
  }
  changed_.notify_all();
}

bool StreamGate::wait_open() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return opened_ || closed_; });
  opened_ = false;
  return !closed_;
}

void StreamGate::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void StreamGate::done(OpStream stream, int position) {
  {
    const std::lock_guard lock(mutex_);
    position_[static_cast<size_t>(stream)] = position;
  }
  changed_.notify_all();
}

bool StreamGate::is_done(OpStream stream, int position) {
  const std::lock_guard lock(mutex_);
  return position_[static_cast<size_t>(stream)] >= position;
}

bool StreamGate::wait_done(OpStream stream, int position) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return error_.has_value() || position_[static_cast<size_t>(stream)] >= position;
  });
  return !error_.has_value();
}

void StreamGate::fail(Error error) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  changed_.notify_all();
}

bool StreamGate::failed() {
  const std::lock_guard lock(mutex_);
  return error_.has_value();
}

void StreamGate::finish_comm() {
  {
    const std::lock_guard lock(mutex_);
    comm_finished_ = true;
  }
  changed_.notify_all();
}

Status StreamGate::wait_finished() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return comm_finished_; });
  if (error_) return *error_;
  return {};
}

}  // namespace muster
