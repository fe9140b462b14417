// Where the Python standard library's source lies: the corpus every machine has.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sys/files.h"

namespace muster {

// The folder that sysconfig.get_path("stdlib") of an interpreter gives, found without starting it.
// `environments` are virtual environments to try first (their pyvenv.cfg names the base
// installation); then /usr/lib and /usr/local/lib are searched for the newest python3.N. A folder
// counts if it holds os.py. Errors: not_found, naming what was tried.
Result<std::string> find_python_stdlib(Files& files, const std::vector<std::string>& environments);

// The base installation's library folder that a pyvenv.cfg names: "home = /opt/py/bin", "version
// = 3.11.7" ->
// "/opt/py/lib/python3.11". Errors: corrupt when one of the two is missing.
Result<std::string> stdlib_of_pyvenv(std::string_view pyvenv_cfg);

}  // namespace muster
