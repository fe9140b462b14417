#include "comm/tcp_group.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "comm/operation.h"
#include "comm/tcp_mesh.h"

namespace muster {
namespace {

class TcpGroup final : public Communicator {
 public:
  TcpGroup(Transport& transport, std::unique_ptr<TcpMesh> mesh, Rank rank, int world,
           const GroupOptions& options)
      : Communicator(rank, world, options),
        transport_(transport),
        mesh_(std::move(mesh)),
        me_(rank.value),
        messages_(static_cast<size_t>(world)) {}

  ~TcpGroup() override {
    mesh_->end(nullptr, {});
    stop();
    for (const std::span<std::byte> block : blocks_) ::munmap(block.data(), block.size());
  }

  std::string_view backend() const override { return "tcp"; }

  // No peer reads it in place here; the same call works on every backend.
  Result<std::span<std::byte>> shared_alloc(int64_t bytes) override {
    if (bytes > options().shared_bytes - allocated_)
      return Error(Code::no_space,
                   fmt::format("{} bytes asked for, {} of {} are left", bytes,
                               options().shared_bytes - allocated_, options().shared_bytes));
    if (bytes == 0) return std::span<std::byte>();
    void* block = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return errno_error(errno, "allocate memory");
    ::madvise(block, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    std::memset(block, 0, static_cast<size_t>(bytes));
    allocated_ += bytes;
    blocks_.emplace_back(static_cast<std::byte*>(block), static_cast<size_t>(bytes));
    return blocks_.back();
  }

 private:
  Status run(const Operation& operation) override {
    deadline_ = transport_.clock().now() + options().timeout;
    if (operation.reduces()) return reduce(operation);
    if (operation.kind == Operation::Kind::gather) return gather(operation);
    clear_messages();
    return exchange(operation);
  }

  void break_group(const Error& error, const RankSet& missing) override {
    mesh_->end(&error, missing);
  }

  Status reduce(const Operation& operation);
  Status gather(const Operation& operation);
  void receive_parts_message(const Operation& operation, const MergePlan& plan, int64_t per_round,
                             int64_t from);
  void send_results_message(const Operation& operation, int64_t per_round, int64_t from);

  void clear_messages() {
    for (TcpMesh::Message& message : messages_) {
      message.send.clear();
      message.receive.clear();
    }
  }

  Status exchange(const Operation& operation) {
    RankSet missing;
    Status status = mesh_->exchange(fingerprint(operation), messages_, deadline_, missing);
    if (!status) blame(missing);
    return status;
  }

  Transport& transport_;
  std::unique_ptr<TcpMesh> mesh_;
  int me_;
  Nanos deadline_{0};
  std::vector<TcpMesh::Message> messages_;
  std::vector<std::byte> staging_;  // the peers' parts of this rank's slice
  std::vector<std::byte> scratch_;
  std::vector<const std::byte*> sources_;
  std::vector<std::span<std::byte>> blocks_;
  int64_t allocated_ = 0;
};

Status TcpGroup::reduce(const Operation& operation) {
  const MergePlan& plan = plan_for(operation.leaves);
  const auto es = static_cast<int64_t>(operation.element_bytes());
  const int64_t largest = operation.largest_slice();
  const int64_t parts = std::max(plan.parts, 1);
  const int64_t per_round =
      std::clamp<int64_t>(options().staging_bytes / (parts * es), 1, std::max<int64_t>(largest, 1));
  if (static_cast<int64_t>(staging_.size()) < parts * per_round * es)
    staging_.resize(static_cast<size_t>(parts * per_round * es));
  const size_t scratch_needed = scratch_bytes(plan, operation.type);
  if (scratch_.size() < scratch_needed) scratch_.resize(scratch_needed);

  // At least one round, so that all ranks meet even over nothing.
  for (int64_t from = 0; from == 0 || from < largest; from += per_round) {
    receive_parts_message(operation, plan, per_round, from);
    MUSTER_TRY(exchange(operation));
    const int64_t mine = std::min(per_round, operation.slice_size(me_) - from);
    const bool everywhere = operation.kind == Operation::Kind::reduce_everywhere;
    if (mine > 0) {
      std::byte* out = operation.out + (everywhere ? operation.slice_begin(me_) + from : from) * es;
      evaluate(plan, operation.type, operation.op, sources_, std::span(&out, 1), mine, false,
               scratch_.data());
    }
    if (!everywhere) continue;
    send_results_message(operation, per_round, from);
    MUSTER_TRY(exchange(operation));
  }
  return {};
}

void TcpGroup::receive_parts_message(const Operation& operation, const MergePlan& plan,
                                     int64_t per_round, int64_t from) {
  clear_messages();
  sources_.clear();
  const auto es = static_cast<int64_t>(operation.element_bytes());
  const int64_t mine = std::max<int64_t>(std::min(per_round, operation.slice_size(me_) - from), 0);
  for (int r = 0; r < world(); ++r) {
    TcpMesh::Message& message = messages_[static_cast<size_t>(r)];
    for (int32_t slot = plan.first_part[r]; slot < plan.first_part[r + 1]; ++slot) {
      if (r == me_) {
        sources_.push_back(operation.parts[static_cast<size_t>(slot - plan.first_part[r])] +
                           (operation.slice_begin(me_) + from) * es);
        continue;
      }
      std::byte* area = staging_.data() + slot * per_round * es;
      sources_.push_back(area);
      if (mine > 0) message.receive.emplace_back(area, static_cast<size_t>(mine * es));
    }
    const int64_t theirs = std::min(per_round, operation.slice_size(r) - from);
    if (r == me_ || theirs <= 0) continue;
    for (const std::byte* part : operation.parts)
      message.send.emplace_back(part + (operation.slice_begin(r) + from) * es,
                                static_cast<size_t>(theirs * es));
  }
}

void TcpGroup::send_results_message(const Operation& operation, int64_t per_round, int64_t from) {
  clear_messages();
  const auto es = static_cast<int64_t>(operation.element_bytes());
  const auto piece = [&](int rank) {
    const int64_t n = std::max<int64_t>(std::min(per_round, operation.slice_size(rank) - from), 0);
    return std::span<std::byte>(
        operation.out +
            (operation.slice_begin(rank) + std::min(from, operation.slice_size(rank))) * es,
        static_cast<size_t>(n * es));
  };
  for (int r = 0; r < world(); ++r) {
    if (r == me_) continue;
    messages_[static_cast<size_t>(r)].send.push_back(piece(me_));
    messages_[static_cast<size_t>(r)].receive.push_back(piece(r));
  }
}

Status TcpGroup::gather(const Operation& operation) {
  clear_messages();
  const auto mine = static_cast<size_t>(operation.slice_size(me_));
  std::byte* const my_slice = operation.out + operation.slice_begin(me_);
  if (operation.in != my_slice && mine > 0) std::memmove(my_slice, operation.in, mine);
  for (int r = 0; r < world(); ++r) {
    if (r == me_) continue;
    TcpMesh::Message& message = messages_[static_cast<size_t>(r)];
    message.send.emplace_back(my_slice, mine);
    message.receive.emplace_back(operation.out + operation.slice_begin(r),
                                 static_cast<size_t>(operation.slice_size(r)));
  }
  return exchange(operation);
}

}  // namespace

Result<std::unique_ptr<Communicator>> join_tcp_group(Transport& transport, SocketId listener,
                                                     const std::vector<Endpoint>& addresses,
                                                     Rank rank, uint64_t token,
                                                     const GroupOptions& options) {
  const Nanos deadline = transport.clock().now() + options.timeout;
  Result<std::unique_ptr<TcpMesh>> mesh =
      TcpMesh::connect(transport, listener, addresses, rank, token, deadline);
  if (!mesh)
    return std::move(mesh).error().context(fmt::format("rank {} joining the group", rank.value));
  return std::unique_ptr<Communicator>(std::make_unique<TcpGroup>(
      transport, std::move(*mesh), rank, static_cast<int>(addresses.size()), options));
}

}  // namespace muster
