// The table of verbs. Each function is defined in the file of its name.
#include "app/cli/verb.h"

namespace muster {

int tokenizer_main(World& world, const std::vector<std::string>& arguments);
int run_main(World& world, const std::vector<std::string>& arguments);
int torchrun_main(World& world, const std::vector<std::string>& arguments);
int ckpt_main(World& world, const std::vector<std::string>& arguments);
int goodput_main(World& world, const std::vector<std::string>& arguments);
int trace_main(World& world, const std::vector<std::string>& arguments);
int plan_main(World& world, const std::vector<std::string>& arguments);
int import_hf_main(World& world, const std::vector<std::string>& arguments);
int export_hf_main(World& world, const std::vector<std::string>& arguments);

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = {
      {"run", "run N copies of a program as one supervised job", run_main},
      {"torchrun", "run a PyTorch script: torchrun's flags and environment", torchrun_main},
      {"tokenizer", "train a vocabulary; turn text into token ids and back", tokenizer_main},
      {"ckpt", "list, show, verify and compare checkpoints", ckpt_main},
      {"goodput", "where every rank-second of a run went", goodput_main},
      {"trace", "export the recorded spans of a run", trace_main},
      {"plan", "print the operations of one training step with predicted time and memory",
       plan_main},
      {"import-hf", "make a checkpoint from a Hugging Face model folder", import_hf_main},
      {"export-hf", "write a checkpoint's model as a Hugging Face folder", export_hf_main},
  };
  return table;
}

}  // namespace muster
