/* What the C++ tests share. A failed check names its place and ends the program. */
#ifndef CHECK_HPP
#define CHECK_HPP

#include <arraybridge/arraybridge.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define CHECK(condition) check::that(static_cast<bool>(condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) check::equal((a), (b), __FILE__, __LINE__, #a " == " #b)
/* The result is an error of this status, whose message has this text in it. */
#define FAILS(expected, text, ...) check::fails(__VA_ARGS__, expected, text, __FILE__, __LINE__, #__VA_ARGS__)
/* The same of what throws. */
#define THROWS(expected, text, ...)                                                                        \
  check::fails(check::caught([&] { static_cast<void>(__VA_ARGS__); }), expected, text, __FILE__, __LINE__, \
               #__VA_ARGS__)

namespace check {

[[noreturn]] inline void stop(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::exit(1);
}

inline void that(bool holds, const char* file, int line, const char* what) {
  if (!holds) stop(file, line, what);
}

template <class A, class B>
void equal(const A& a, const B& b, const char* file, int line, const char* what) {
  if (!(a == b)) stop(file, line, what);
}

template <class T>
void fails(const ab::result<T>& result, ab_status expected, const char* text, const char* file, int line,
           const char* what) {
  const ab::error* const error = result.error();
  if (result.has_value() || !error) stop(file, line, std::string(what) + " succeeds");
  if (error->status() != expected || !std::strstr(error->what(), text)) {
    stop(file, line, std::string(what) + ": " + error->status_name() + ": " + error->what());
  }
}

#if AB_CXX_EXCEPTIONS
template <class F>
ab::result<void> caught(F&& f) {
  try {
    f();
  } catch (const ab::error& error) {
    return error;
  }
  return {};
}
#endif

}  // namespace check

#endif  // CHECK_HPP
