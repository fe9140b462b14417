// io_uring through liburing (2.3 and later). One ring per queue; requests are handed to the kernel
// at once, completions are taken in whatever order the kernel gives them.
#include <liburing.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "sys/io_queue_engines.h"

namespace muster {
namespace {

class UringQueue final : public IoQueue {
 public:
  explicit UringQueue(size_t depth) : depth_(depth) {}
  ~UringQueue() override {
    if (!ready_) return;
    // Buffers belong to their owners again once we are gone: nothing may be in flight then.
    while (in_flight_ > 0 && complete().ok()) {
    }
    io_uring_queue_exit(&ring_);
  }

  Status start() {
    const int failed = io_uring_queue_init(static_cast<unsigned>(depth_), &ring_, 0);
    if (failed < 0) return unsupported("io_uring_setup", -failed);
    ready_ = true;
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    if (probe == nullptr) return Error(Code::unsupported, "io_uring: the kernel has no probe");
    const bool usable = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                        io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
    io_uring_free_probe(probe);
    if (!usable) return Error(Code::unsupported, "io_uring: the kernel lacks read and write");
    return {};
  }

  Status submit_write(FileHandle file, std::span<const std::byte> data, int64_t offset,
                      uint64_t token) override {
    MUSTER_TRY(io_uring_sqe * entry, next_entry());
    io_uring_prep_write(entry, file.id, data.data(), static_cast<unsigned>(data.size()),
                        static_cast<uint64_t>(offset));
    return submit(entry, token);
  }

  Status submit_read(FileHandle file, std::span<std::byte> out, int64_t offset,
                     uint64_t token) override {
    MUSTER_TRY(io_uring_sqe * entry, next_entry());
    io_uring_prep_read(entry, file.id, out.data(), static_cast<unsigned>(out.size()),
                       static_cast<uint64_t>(offset));
    return submit(entry, token);
  }

  Result<std::vector<Completion>> complete() override {
    std::vector<Completion> done;
    if (in_flight_ == 0) return done;
    io_uring_cqe* first = nullptr;
    int failed = 0;
    do {
      failed = io_uring_wait_cqe(&ring_, &first);
    } while (failed == -EINTR);
    if (failed < 0) return errno_error(-failed, "io_uring wait");
    io_uring_cqe* entries[32];
    for (;;) {
      const unsigned count = io_uring_peek_batch_cqe(&ring_, entries, 32);
      if (count == 0) break;
      for (unsigned i = 0; i < count; ++i) done.push_back(completion_of(*entries[i]));
      io_uring_cq_advance(&ring_, count);
      in_flight_ -= count;
    }
    return done;
  }

  size_t in_flight() const override { return in_flight_; }
  std::string_view engine() const override { return "io_uring"; }

 private:
  static Status unsupported(const char* what, int errno_value) {
    const Error error = errno_error(errno_value, what);
    return Error(Code::unsupported, error.message());
  }

  static Completion completion_of(const io_uring_cqe& entry) {
    if (entry.res < 0) return {entry.user_data, errno_error(-entry.res, "io_uring transfer")};
    return {entry.user_data, static_cast<size_t>(entry.res)};
  }

  Result<io_uring_sqe*> next_entry() {
    io_uring_sqe* entry = in_flight_ < depth_ ? io_uring_get_sqe(&ring_) : nullptr;
    if (entry == nullptr) {
      return Error(Code::busy, "io queue: " + std::to_string(depth_) + " requests are in flight");
    }
    return entry;
  }

  Status submit(io_uring_sqe* entry, uint64_t token) {
    io_uring_sqe_set_data64(entry, token);
    int sent = 0;
    do {
      sent = io_uring_submit(&ring_);
    } while (sent == -EINTR);
    if (sent < 0) return errno_error(-sent, "io_uring submit");
    ++in_flight_;
    return {};
  }

  const size_t depth_;
  size_t in_flight_ = 0;
  bool ready_ = false;
  io_uring ring_{};
};

}  // namespace

Result<std::unique_ptr<IoQueue>> make_uring_queue(size_t depth) {
  MUSTER_CHECK(depth > 0 && depth <= 4096, depth);
  auto queue = std::make_unique<UringQueue>(depth);
  MUSTER_TRY(queue->start());
  return std::unique_ptr<IoQueue>(std::move(queue));
}

}  // namespace muster
