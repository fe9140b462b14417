#include "ckpt/manifest_json.h"

#include <bit>
#include <cstring>

#include "ckpt/base64.h"

namespace muster::manifest_json {
namespace {

const Json kNothing;
const Json kEmptyArray = Json::array();

constexpr std::string_view kRoleNames[] = {"parameter", "moment", "other"};

std::string hex64(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string packed(const std::vector<uint32_t>& words) {
  static_assert(std::endian::native == std::endian::little);
  return base64_encode({reinterpret_cast<const char*>(words.data()), words.size() * 4});
}

}  // namespace

Json write_tensors(const std::vector<StoredTensor>& tensors) {
  Json list = Json::array();
  for (const StoredTensor& tensor : tensors) {
    Json boxes = Json::array();
    for (const StoredBox& box : tensor.boxes) {
      boxes.push_back({{"offset", box.box.offset},
                       {"extent", box.box.extent},
                       {"file", box.file},
                       {"begin", box.begin},
                       {"end", box.end},
                       {"xxh3", box.xxh3.hex()}});
    }
    list.push_back({{"name", tensor.info.name},
                    {"dtype", dtype_name(tensor.info.dtype)},
                    {"shape", tensor.info.shape},
                    {"role", kRoleNames[static_cast<size_t>(tensor.info.role)]},
                    {"layout", tensor.info.layout},
                    {"boxes", std::move(boxes)}});
  }
  return list;
}

Json write_files(const std::vector<StoredFile>& files) {
  Json list = Json::array();
  for (const StoredFile& file : files)
    list.push_back({{"name", file.name}, {"size", file.size}, {"crc32c", packed(file.crc32c)}});
  return list;
}

Json write_scalars(const ScalarState& scalars) {
  Json others = Json::array();
  for (const Scalar& scalar : scalars.others)
    others.push_back({{"name", scalar.name}, {"type", scalar.type}, {"bits", hex64(scalar.bits)}});
  return {{"step", scalars.step},
          {"schedule_step", scalars.schedule_step},
          {"loss_scale", hex64(std::bit_cast<uint64_t>(scalars.loss_scale))},
          {"rng_seed", hex64(scalars.rng_seed)},
          {"rng_step", scalars.rng_step},
          {"loader_cursor", base64_encode(scalars.loader_cursor)},
          {"others", std::move(others)}};
}

Json write_numerics(const Numerics& numerics) {
  Json choices = Json::object();
  for (const auto& [key, value] : numerics.choices) choices[key] = value;
  return {{"mode", numerics.mode},
          {"k_blocks", numerics.k_blocks},
          {"micro_batches", numerics.micro_batches},
          {"choices", std::move(choices)}};
}

const Json& Reader::member(const Json& object, const char* key) {
  if (object.is_object()) {
    const auto found = object.find(key);
    if (found != object.end()) return *found;
  }
  fail(std::string("key '") + key + "' is missing");
  return kNothing;
}

std::string Reader::text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (value.is_string()) return value.get_ref<const std::string&>();
  fail(std::string("'") + key + "' is not text");
  return {};
}

int64_t Reader::integer(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number <= INT64_MAX) return static_cast<int64_t>(number);
  } else if (value.is_number_integer()) {
    return value.get<int64_t>();
  }
  fail(std::string("'") + key + "' is not a whole number below 2^63");
  return 0;
}

int64_t Reader::count(const Json& object, const char* key) {
  const int64_t value = integer(object, key);
  if (value < 0) fail(std::string("'") + key + "' is negative");
  return value;
}

uint64_t Reader::bits(const Json& object, const char* key) {
  const std::string digits = text(object, key);
  // Padded to the 32 digits that Hash128 reads.
  const auto value = Hash128::from_hex("0000000000000000" + digits);
  if (digits.size() == 16 && value) return value->low;
  fail(std::string("'") + key + "' is not 16 hexadecimal digits");
  return 0;
}

Hash128 Reader::hash(const Json& object, const char* key) {
  const auto value = Hash128::from_hex(text(object, key));
  if (value) return *value;
  fail(std::string("'") + key + "' is not 32 hexadecimal digits");
  return {};
}

std::string Reader::bytes(const Json& object, const char* key) {
  auto value = base64_decode(text(object, key));
  if (value) return *std::move(value);
  fail(std::string("'") + key + "' is not base64");
  return {};
}

const Json& Reader::array(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (value.is_array()) return value;
  fail(std::string("'") + key + "' is not a list");
  return kEmptyArray;
}

std::vector<int64_t> Reader::integers(const Json& object, const char* key) {
  std::vector<int64_t> numbers;
  for (const Json& value : array(object, key)) {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
      fail(std::string("'") + key + "' holds something else than whole numbers");
      return {};
    }
    numbers.push_back(value.get<int64_t>());
  }
  return numbers;
}

std::vector<StoredTensor> Reader::tensors(const Json& object, const char* key) {
  std::vector<StoredTensor> list;
  for (const Json& entry : array(object, key)) {
    StoredTensor tensor;
    tensor.info.name = text(entry, "name");
    const auto dtype = dtype_of(text(entry, "dtype"));
    if (!dtype) fail("tensor '" + tensor.info.name + "' has an unknown dtype");
    tensor.info.dtype = dtype.value_or(Dtype::u8);
    tensor.info.shape = integers(entry, "shape");
    const std::string role = text(entry, "role");
    for (size_t i = 0; i < std::size(kRoleNames); ++i)
      if (role == kRoleNames[i]) tensor.info.role = static_cast<Role>(i);
    tensor.info.layout = text(entry, "layout");
    for (const Json& part : array(entry, "boxes")) {
      StoredBox box;
      box.box = {integers(part, "offset"), integers(part, "extent")};
      box.file = static_cast<size_t>(integer(part, "file"));
      box.begin = integer(part, "begin");
      box.end = integer(part, "end");
      box.xxh3 = hash(part, "xxh3");
      tensor.boxes.push_back(std::move(box));
    }
    list.push_back(std::move(tensor));
  }
  return list;
}

std::vector<StoredFile> Reader::files(const Json& object, const char* key) {
  std::vector<StoredFile> list;
  for (const Json& entry : array(object, key)) {
    StoredFile file;
    file.name = text(entry, "name");
    file.size = integer(entry, "size");
    const std::string words = bytes(entry, "crc32c");
    if (words.size() % 4 != 0) fail("checksums of '" + file.name + "' are cut off");
    file.crc32c.resize(words.size() / 4);
    // An empty file has no checksums, and no memory to copy to.
    if (!file.crc32c.empty()) std::memcpy(file.crc32c.data(), words.data(), file.crc32c.size() * 4);
    list.push_back(std::move(file));
  }
  return list;
}

ScalarState Reader::scalars(const Json& object, const char* key) {
  const Json& entry = member(object, key);
  ScalarState scalars;
  scalars.step = count(entry, "step");
  scalars.schedule_step = count(entry, "schedule_step");
  scalars.loss_scale = std::bit_cast<double>(bits(entry, "loss_scale"));
  scalars.rng_seed = bits(entry, "rng_seed");
  scalars.rng_step = count(entry, "rng_step");
  scalars.loader_cursor = bytes(entry, "loader_cursor");
  for (const Json& other : array(entry, "others"))
    scalars.others.push_back({text(other, "name"), text(other, "type"), bits(other, "bits")});
  return scalars;
}

Numerics Reader::numerics(const Json& object, const char* key) {
  const Json& entry = member(object, key);
  Numerics numerics;
  numerics.mode = text(entry, "mode");
  numerics.k_blocks = integer(entry, "k_blocks");
  numerics.micro_batches = integer(entry, "micro_batches");
  const Json& choices = member(entry, "choices");
  if (!choices.is_object()) fail("'choices' is not an object");
  for (const auto& [name, value] : choices.items()) {
    if (value.is_string()) numerics.choices[name] = value.get_ref<const std::string&>();
  }
  return numerics;
}

}  // namespace muster::manifest_json
