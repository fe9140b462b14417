// The input is a manifest, or a rank's report of what it wrote.
#include <string_view>

#include "base/fuzz.h"
#include "ckpt/manifest.h"

namespace muster {

std::vector<std::string> fuzz_seeds() {
  Manifest m;
  m.uuid = std::string(32, 'a');
  m.config = "[train]\nsteps = 5\n";
  m.numerics = {"strict", 8, 4, {{"batch.virtual_shards", "4"}}};
  m.scalars.step = 7;
  m.scalars.loader_cursor = "{}";
  m.scalars.others.push_back({"tokens", "u64", 99});
  const TensorInfo info{"w", Dtype::f32, {2, 3}, Role::parameter, ""};
  m.tensors.push_back({info, {{{{0, 0}, {2, 3}}, 0, 64, 88, Hash128{1, 2}}}});
  m.files.push_back({"shard-00000.safetensors", 88, {0x12345678}});
  ShardReport report{m.uuid, 0, m.files[0], m.tensors};
  std::vector<std::string> seeds = {encode_report(report)};
  if (const auto text = manifest_text(m); text.ok()) seeds.push_back(*text);
  return seeds;
}

}  // namespace muster

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static_cast<void>(decode_report(input).ok());
  const auto manifest = parse_manifest(input);
  if (!manifest.ok()) return 0;
  // There is one text for each manifest.
  const auto text = manifest_text(*manifest);
  if (!text.ok() || *text != input) __builtin_trap();
  return 0;
}
