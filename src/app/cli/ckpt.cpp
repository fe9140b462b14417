// muster ckpt ls|show|verify|digest: what checkpoints a run has, what is in one, and whether it is
// whole.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include <nlohmann/json.hpp>

#include "app/cli/options.h"
#include "app/cli/verb.h"
#include "base/units.h"
#include "ckpt/digest.h"
#include "ckpt/scan.h"
#include "ckpt/verify.h"
#include "sys/real_files.h"

namespace muster {

int ckpt_main(World& world, const std::vector<std::string>& arguments);

namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFolder = "checkpoints";

int fail(const Error& error) {
  fmt::print(stderr, "muster ckpt: {}\n", error.to_string());
  return kExitFailed;
}

void print(const Json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string utc(int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}Z", fmt::gmtime(seconds));
}

std::string_view role_name(Role role) {
  return role == Role::parameter ? "parameter" : role == Role::moment ? "moment" : "other";
}

// DIR is a checkpoint, or a run: then its newest checkpoint that passes the quick check.
Result<std::string> checkpoint_folder(Files& files, const std::string& directory) {
  if (files.stat(join_path(directory, kManifestName)).ok()) return directory;
  MUSTER_TRY(const FileStat about, files.stat(directory));
  if (about.kind == FileKind::regular)
    return Error(Code::invalid_argument,
                 directory + " is a file; the checkpoint's folder is needed");
  const std::string below = join_path(directory, kFolder);
  if (!files.stat(below).ok())
    return Error(Code::not_found, directory + " is neither a checkpoint (it has no " +
                                      std::string(kManifestName) + ") nor a run (it has no " +
                                      kFolder + "/)");
  MUSTER_TRY(const Scan scan, scan_checkpoints(files, below, Depth::quick));
  if (scan.valid.empty())
    return Error(Code::not_found,
                 "no valid checkpoint in " + below + " (muster ckpt ls shows why)");
  return scan.valid[0].folder;
}

int list(Files& files, const std::string& run_dir, bool json) {
  const auto about = files.stat(run_dir);
  if (!about.ok()) return fail(about.error());
  if (!files.stat(join_path(run_dir, kFolder)).ok() &&
      !files.stat(join_path(run_dir, "config.toml")).ok())
    return fail(Error(Code::not_found, run_dir + " is no run directory: it has neither " + kFolder +
                                           "/ nor config.toml"));
  const auto scan = scan_checkpoints(files, join_path(run_dir, kFolder), Depth::quick);
  if (!scan.ok()) return fail(scan.error());
  Json rows = Json::array();
  for (const FoundCheckpoint& found : scan->valid) {
    rows.push_back({{"folder", found.folder},
                    {"step", found.step},
                    {"epoch", found.epoch},
                    {"uuid", found.uuid},
                    {"created_ns", found.created},
                    {"bytes", found.bytes},
                    {"valid", true},
                    {"problems", Json::array()}});
    if (!json)
      fmt::print("step {:>8}  {:>10}  {}  {}\n", found.step, format_bytes(Bytes{found.bytes}),
                 utc(found.created), found.folder);
  }
  for (const BadFolder& bad : scan->invalid) {
    rows.push_back({{"folder", bad.folder}, {"valid", false}, {"problems", bad.problems}});
    if (!json) fmt::print("not valid      {}: {}\n", bad.folder, bad.problems[0]);
  }
  if (json) print({{"run_dir", run_dir}, {"checkpoints", rows}});
  if (!json && rows.empty()) fmt::print("no checkpoints in {}\n", join_path(run_dir, kFolder));
  return kExitOk;
}

Json as_json(const std::string& folder, const Manifest& m) {
  Json tensors = Json::array(), files = Json::array(), scalars = Json::array();
  for (const StoredTensor& tensor : m.tensors)
    tensors.push_back({{"name", tensor.info.name},
                       {"dtype", dtype_name(tensor.info.dtype)},
                       {"shape", tensor.info.shape},
                       {"role", role_name(tensor.info.role)},
                       {"layout", tensor.info.layout},
                       {"boxes", tensor.boxes.size()}});
  for (const StoredFile& file : m.files)
    files.push_back({{"name", file.name}, {"bytes", file.size}});
  for (const Scalar& scalar : m.scalars.others)
    scalars.push_back({{"name", scalar.name},
                       {"type", scalar.type},
                       {"bits", fmt::format("{:016x}", scalar.bits)}});
  return {{"folder", folder},
          {"step", m.scalars.step},
          {"uuid", m.uuid},
          {"parent", m.parent},
          {"epoch", m.epoch},
          {"created_ns", m.created},
          {"schedule_step", m.scalars.schedule_step},
          {"loss_scale", m.scalars.loss_scale},
          {"rng", {{"seed", m.scalars.rng_seed}, {"step", m.scalars.rng_step}}},
          {"loader_cursor_bytes", m.scalars.loader_cursor.size()},
          {"scalars", scalars},
          {"numerics",
           {{"mode", m.numerics.mode},
            {"k_blocks", m.numerics.k_blocks},
            {"micro_batches", m.numerics.micro_batches},
            {"choices", m.numerics.choices}}},
          {"tokenizer", m.tokenizer},
          {"config", m.config},
          {"tensors", tensors},
          {"files", files}};
}

void print_for_people(const std::string& folder, const Manifest& m) {
  fmt::print("{}\n  step {}, written {}, uuid {}\n", folder, m.scalars.step, utc(m.created),
             m.uuid);
  if (!m.parent.empty()) fmt::print("  continues {}\n", m.parent);
  fmt::print("  mode {}, {} K-blocks, {} micro-batches a step\n", m.numerics.mode,
             m.numerics.k_blocks, m.numerics.micro_batches);
  for (const auto& [name, choice] : m.numerics.choices) fmt::print("  {}: {}\n", name, choice);
  fmt::print("  {} tensors, {} in {} files\n", m.tensors.size(),
             format_bytes(Bytes{m.total_bytes()}), m.files.size());
  for (const StoredTensor& tensor : m.tensors)
    fmt::print("    {:<10} {:<5} {:<20} {}\n", role_name(tensor.info.role),
               dtype_name(tensor.info.dtype),
               fmt::format("[{}]", fmt::join(tensor.info.shape, ", ")), tensor.info.name);
  for (const StoredFile& file : m.files)
    fmt::print("    {:>12}  {}\n", format_bytes(Bytes{file.size}), file.name);
}

int show(Files& files, const std::string& directory, bool json) {
  const auto folder = checkpoint_folder(files, directory);
  if (!folder.ok()) return fail(folder.error());
  const auto manifest = read_manifest(files, *folder);
  if (!manifest.ok()) return fail(manifest.error());
  if (json) {
    print(as_json(*folder, *manifest));
  } else {
    print_for_people(*folder, *manifest);
  }
  return kExitOk;
}

int verify(Files& files, const std::string& directory, bool json) {
  const auto folder = checkpoint_folder(files, directory);
  if (!folder.ok()) {
    if (json) print({{"valid", false}, {"problems", {folder.error().to_string()}}});
    return fail(folder.error());
  }
  const Verdict verdict = verify_checkpoint(files, *folder, Depth::full);
  if (json) {
    print({{"valid", verdict.valid()},
           {"problems", verdict.problems},
           {"folder", *folder},
           {"step", verdict.manifest.scalars.step},
           {"bytes", verdict.manifest.total_bytes()}});
  } else {
    for (const std::string& problem : verdict.problems) fmt::print("{}\n", problem);
    fmt::print("{}: {}\n", *folder, verdict.valid() ? "valid" : "not valid");
  }
  return verdict.valid() ? kExitOk : kExitFailed;
}

int digest(Files& files, const std::string& directory, bool json) {
  const auto folder = checkpoint_folder(files, directory);
  if (!folder.ok()) return fail(folder.error());
  auto reader = CheckpointReader::open(files, *folder);
  if (!reader.ok()) return fail(reader.error());
  const auto hash = digest_of(*reader);
  if (!hash.ok()) return fail(hash.error());
  if (json) {
    print(
        {{"digest", hash->hex()}, {"step", reader->manifest().scalars.step}, {"folder", *folder}});
  } else {
    fmt::print("{}\n", hash->hex());
  }
  return kExitOk;
}

struct Action {
  const char* name;
  const char* summary;
  const char* argument;
  const char* argument_help;
  const char* footer;
  int (*run)(Files&, const std::string&, bool json);
};

constexpr Action kActions[] = {
    {"ls",
     "Lists the checkpoints of a run, newest first, and what is wrong with those that do not "
     "count.",
     "RUN_DIR", "directory of a run; its checkpoints lie in RUN_DIR/checkpoints",
     "Manifests, lengths and headers are checked; 'verify' checks every byte.\n"
     "Exit codes: 0 listed, 1 the directory cannot be read, 2 wrong usage.",
     list},
    {"show", "Shows what a checkpoint holds.", "DIR", "a checkpoint, or a run (its newest)",
     "Exit codes: 0 shown, 1 no readable checkpoint, 2 wrong usage.", show},
    {"verify", "Checks every checksum and hash of a checkpoint.", "DIR",
     "a checkpoint, or a run (its newest)",
     "Exit codes: 0 valid, 1 not valid or not readable (problems are listed), 2 wrong usage.",
     verify},
    {"digest",
     "Prints one hash of the parameters, moments and training position, whatever the layout.",
     "DIR", "a checkpoint, or a run (its newest)",
     "Runs that computed the same state have the same digest, with any number of workers.\n"
     "Exit codes: 0 printed, 1 damaged or not readable, 2 wrong usage.",
     digest},
};

int run_action(const Action& action, const std::vector<std::string>& arguments) {
  std::string directory;
  bool json = false;
  Options options(std::string("ckpt ") + action.name, action.summary);
  options.positional(action.argument, directory, action.argument_help);
  options.flag("--json", json, "print one JSON object");
  options.footer(action.footer);
  if (const auto code = options.parse({arguments.begin() + 1, arguments.end()})) return *code;
  RealFiles files("");
  return action.run(files, directory, json);
}

}  // namespace

int ckpt_main(World&, const std::vector<std::string>& arguments) {
  for (const Action& action : kActions)
    if (!arguments.empty() && arguments[0] == action.name) return run_action(action, arguments);
  const bool help = !arguments.empty() && (arguments[0] == "-h" || arguments[0] == "--help");
  std::FILE* out = help ? stdout : stderr;
  fmt::print(out,
             "usage: muster ckpt ls RUN_DIR | show DIR | verify DIR | digest DIR   [--json]\n");
  for (const Action& action : kActions) fmt::print(out, "  {:<8}{}\n", action.name, action.summary);
  return help ? kExitOk : kExitUsage;
}

}  // namespace muster
