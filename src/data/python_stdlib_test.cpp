#include "data/python_stdlib.h"

#include <gtest/gtest.h>

#include "sys/sim_files.h"

namespace muster {
namespace {

TEST(PythonStdlib, APyvenvNamesItsBaseInstallation) {
  EXPECT_EQ(stdlib_of_pyvenv("home = /usr/bin\nversion = 3.13.5\n").value(), "/usr/lib/python3.13");
  EXPECT_EQ(stdlib_of_pyvenv("version = 3.11.7\r\nhome=/opt/py/bin\r\n").value(),
            "/opt/py/lib/python3.11");
  for (const char* text : {"", "home = /usr/bin", "version = 3.11.7", "version = 3\nhome = /x"}) {
    EXPECT_FALSE(stdlib_of_pyvenv(text)) << text;
  }
}

TEST(PythonStdlib, TheFirstEnvironmentWinsThenTheNewestSystemVersion) {
  SimClock clock;
  SimFiles files(clock);
  const auto put = [&](const std::string& path, const std::string& text) {
    ASSERT_TRUE(make_directories(files, parent_path(path)));
    ASSERT_TRUE(write_file_durably(files, path, text));
  };
  EXPECT_EQ(find_python_stdlib(files, {"/venv"}).error().code(), Code::not_found);
  put("/usr/lib/python3.9/os.py", "");
  put("/usr/lib/python3.11/os.py", "");
  put("/usr/lib/python3.12/nothing.txt", "");
  EXPECT_EQ(find_python_stdlib(files, {"/venv"}).value(), "/usr/lib/python3.11");
  put("/venv/pyvenv.cfg", "home = /opt/bin\nversion = 3.10.1\n");
  EXPECT_EQ(find_python_stdlib(files, {"/venv"}).value(),
            "/usr/lib/python3.11");  // its base is not there
  put("/opt/lib/python3.10/os.py", "");
  EXPECT_EQ(find_python_stdlib(files, {"/venv"}).value(), "/opt/lib/python3.10");
}

}  // namespace
}  // namespace muster
