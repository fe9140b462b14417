// Encoding and decoding of the blocks of a segment; the file itself is segment_files.cpp.
#include "trace/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "trace/segment_block.h"
#include "trace/varint.h"

namespace muster {
namespace {

constexpr uint64_t kVersion = 1;

// Takes integers off a payload; once the input is short everything further is 0 and ok() false.
class Fields {
 public:
  explicit Fields(std::string_view in) : in_(in) {}
  uint64_t varint() {
    if (!ok_) return 0;
    const std::optional<uint64_t> value = take_varint(in_);
    ok_ = value.has_value();
    return value.value_or(0);
  }
  int64_t signed_varint() { return unzigzag(varint()); }
  std::string text() {
    const uint64_t length = varint();
    ok_ = ok_ && length <= in_.size();
    if (!ok_) return {};
    std::string out(in_.substr(0, length));
    in_.remove_prefix(length);
    return out;
  }
  // A count of things of at least one byte each, so damage cannot ask for more memory than the
  // file.
  size_t count() {
    const uint64_t n = varint();
    ok_ = ok_ && n <= in_.size();
    return ok_ ? n : 0;
  }
  bool ok() const { return ok_; }

 private:
  std::string_view in_;
  bool ok_ = true;
};

void put_text(std::string& out, std::string_view text) {
  put_varint(out, text.size());
  out += text;
}

template <class Get>
void put_column(std::string& out, const std::vector<Record>& records, Get get) {
  for (const Record& r : records) put_varint(out, get(r));
}
template <class Get>
void put_delta_column(std::string& out, const std::vector<Record>& records, Get get) {
  uint64_t before = 0;
  for (const Record& r : records) {
    put_varint(out, zigzag(static_cast<int64_t>(get(r) - before)));
    before = get(r);
  }
}
template <class Set>
void take_column(Fields& in, std::vector<Record>& records, Set set) {
  for (Record& r : records) set(r, in.varint());
}
template <class Set>
void take_delta_column(Fields& in, std::vector<Record>& records, Set set) {
  uint64_t before = 0;
  for (Record& r : records) {
    before += static_cast<uint64_t>(in.signed_varint());
    set(r, before);
  }
}

bool take_records(std::string_view payload, RingCopy& copy) {
  Fields in(payload);
  copy.ring = static_cast<uint32_t>(in.varint());
  copy.first_index = in.varint();
  copy.overrun = in.varint();
  copy.records.resize(in.count());
  auto& records = copy.records;
  take_delta_column(in, records, [](Record& r, uint64_t x) { r.t = x; });
  take_column(in, records, [](Record& r, uint64_t x) { r.v = static_cast<uint32_t>(x); });
  take_column(in, records, [](Record& r, uint64_t x) { r.name = static_cast<uint16_t>(x); });
  take_column(in, records, [](Record& r, uint64_t x) { r.kind_shift = static_cast<uint8_t>(x); });
  take_column(in, records, [](Record& r, uint64_t x) { r.flags = static_cast<uint8_t>(x); });
  take_delta_column(in, records, [](Record& r, uint64_t x) { r.a = x; });
  take_delta_column(in, records, [](Record& r, uint64_t x) { r.b = x; });
  return in.ok();
}

// Collects blocks in file order, then decodes: a calibration near the end serves all records.
class Assembler {
 public:
  // False: the block is whole but makes no sense.
  bool add(const Block& block) {
    switch (block.kind) {
      case BlockKind::process:
        return add_process(block.payload);
      case BlockKind::names:
        return add_names(block.payload);
      case BlockKind::threads:
        return add_threads(block.payload);
      case BlockKind::calibrations:
        return add_calibrations(block.payload);
      case BlockKind::records:
        return add_records(block.payload);
    }
    return true;  // a later version's block
  }

  TraceData finish() && {
    const TickScale scale(source_, std::move(calibrations_));
    data_.realtime_offset_ns = scale.realtime_offset_ns();
    data_.clock_residual_ns = scale.residual_ns();
    for (const RingCopy& copy : copies_) append_records(data_, copy.ring, copy.records, scale);
    if (data_.names.empty()) data_.names.emplace_back();
    data_.names[0] = "(unnamed)";
    return std::move(data_);
  }

 private:
  bool add_process(std::string_view payload) {
    Fields in(payload);
    if (in.varint() != kVersion) return false;
    data_.rank = static_cast<int32_t>(in.signed_varint());
    data_.attempt = static_cast<int32_t>(in.signed_varint());
    data_.pid = static_cast<int32_t>(in.signed_varint());
    source_ = static_cast<TickSource>(in.varint());
    return in.ok();
  }
  bool add_names(std::string_view payload) {
    Fields in(payload);
    const uint64_t first = in.varint();
    const size_t count = in.count();
    if (!in.ok() || first > 65'535 || count > 65'536) return false;
    if (data_.names.size() < first + count) data_.names.resize(first + count, "?");
    for (size_t i = 0; i < count; ++i) data_.names[first + i] = in.text();
    return in.ok();
  }
  bool add_threads(std::string_view payload) {
    Fields in(payload);
    std::vector<RingThread> threads(in.count());
    for (RingThread& t : threads) {
      t.ring = static_cast<uint32_t>(in.varint());
      t.tid = static_cast<int32_t>(in.signed_varint());
      t.name = in.text();
    }
    if (in.ok()) data_.threads = std::move(threads);
    return in.ok();
  }
  bool add_calibrations(std::string_view payload) {
    Fields in(payload);
    const size_t count = in.count();
    for (size_t i = 0; i < count; ++i) {
      Calibration c;
      c.ticks = in.varint();
      c.monotonic_ns = in.signed_varint();
      c.realtime_ns = in.signed_varint();
      if (in.ok()) calibrations_.push_back(c);
    }
    return in.ok();
  }
  bool add_records(std::string_view payload) {
    RingCopy copy;
    if (!take_records(payload, copy)) return false;
    uint64_t& next = next_[copy.ring];
    if (copy.first_index < next) {  // a repeated block
      const uint64_t again = std::min<uint64_t>(next - copy.first_index, copy.records.size());
      copy.records.erase(copy.records.begin(), copy.records.begin() + static_cast<long>(again));
      copy.first_index += again;
      if (copy.records.empty()) return true;
    } else {
      data_.overrun += copy.first_index - next;  // never written, or in a damaged block
    }
    next = copy.first_index + copy.records.size();
    copies_.push_back(std::move(copy));
    return true;
  }

  TraceData data_;
  TickSource source_ = TickSource::vdso;
  std::vector<Calibration> calibrations_;
  std::vector<RingCopy> copies_;
  std::map<uint32_t, uint64_t> next_;
};

}  // namespace

std::string segment_path(int32_t attempt, int32_t rank) {
  return fmt::format("trace/attempt-{}/rank-{}.seg", attempt, rank);
}

std::string process_block(const TraceRegion& region) {
  std::string payload;
  put_varint(payload, kVersion);
  put_varint(payload, zigzag(region.rank()));
  put_varint(payload, zigzag(region.attempt()));
  put_varint(payload, zigzag(region.pid()));
  put_varint(payload, static_cast<uint64_t>(region.source()));
  return make_block(BlockKind::process, payload);
}

std::string names_block(size_t first_id, const std::vector<std::string>& names) {
  std::string payload;
  put_varint(payload, first_id);
  put_varint(payload, names.size());
  for (const std::string& name : names) put_text(payload, name);
  return make_block(BlockKind::names, payload);
}

std::string threads_block(const std::vector<RingThread>& threads) {
  std::string payload;
  put_varint(payload, threads.size());
  for (const RingThread& t : threads) {
    put_varint(payload, t.ring);
    put_varint(payload, zigzag(t.tid));
    put_text(payload, t.name);
  }
  return make_block(BlockKind::threads, payload);
}

std::string calibrations_block(const std::vector<Calibration>& calibrations) {
  std::string payload;
  put_varint(payload, calibrations.size());
  for (const Calibration& c : calibrations) {
    put_varint(payload, c.ticks);
    put_varint(payload, zigzag(c.monotonic_ns));
    put_varint(payload, zigzag(c.realtime_ns));
  }
  return make_block(BlockKind::calibrations, payload);
}

std::string records_block(const RingCopy& copy) {
  std::string payload;
  put_varint(payload, copy.ring);
  put_varint(payload, copy.first_index);
  put_varint(payload, copy.overrun);
  put_varint(payload, copy.records.size());
  put_delta_column(payload, copy.records, [](const Record& r) { return r.t; });
  put_column(payload, copy.records, [](const Record& r) { return uint64_t{r.v}; });
  put_column(payload, copy.records, [](const Record& r) { return uint64_t{r.name}; });
  put_column(payload, copy.records, [](const Record& r) { return uint64_t{r.kind_shift}; });
  put_column(payload, copy.records, [](const Record& r) { return uint64_t{r.flags}; });
  put_delta_column(payload, copy.records, [](const Record& r) { return r.a; });
  put_delta_column(payload, copy.records, [](const Record& r) { return r.b; });
  return make_block(BlockKind::records, payload);
}

Result<TraceData> parse_segment(std::string_view bytes) {
  BlockScanner scanner(bytes);
  Assembler assembler;
  size_t whole = 0;
  uint64_t senseless = 0;
  while (const std::optional<Block> block = scanner.next()) {
    if (assembler.add(*block))
      ++whole;
    else
      senseless += kBlockHeaderBytes + block->payload.size();
  }
  if (whole == 0)
    return Error(Code::corrupt,
                 fmt::format("no whole block in {} bytes: not a trace segment", bytes.size()));
  TraceData data = std::move(assembler).finish();
  data.skipped_bytes = scanner.skipped_bytes() + senseless;
  return data;
}

}  // namespace muster
