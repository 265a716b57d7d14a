/* Reads the JSON of tests/vectors. Bad input ends the program. */
#ifndef JSON_HPP
#define JSON_HPP

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace json {

[[noreturn]] inline void stop(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

struct value {
  enum class kind { null, boolean, number, text, list, object } type = kind::null;
  bool boolean = false;
  std::int64_t number = 0;  // the vectors have integers only
  std::string text;
  std::vector<value> list;         // of an object: its values
  std::vector<std::string> names;  // of an object

  bool has(const std::string& name) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  const value& operator[](const std::string& name) const {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return list[i];
    }
    stop("no \"" + name + "\"");
  }
  const value& operator[](std::size_t index) const { return list.at(index); }
  std::size_t size() const { return static_cast<std::size_t>(number); }
  bool is_null() const { return type == kind::null; }
};

class reader {
 public:
  explicit reader(const std::string& text) : at_(text.data()), end_(at_ + text.size()) {}

  value read() {
    value result;
    switch (peek()) {
      case '{':
        result.type = value::kind::object;
        each('}', [&] {
          result.names.push_back(string());
          expect(':');
          result.list.push_back(read());
        });
        return result;
      case '[':
        result.type = value::kind::list;
        each(']', [&] { result.list.push_back(read()); });
        return result;
      case '"':
        result.type = value::kind::text;
        result.text = string();
        return result;
      case 't':
        word("true");
        result.type = value::kind::boolean;
        result.boolean = true;
        return result;
      case 'f':
        word("false");
        result.type = value::kind::boolean;
        return result;
      case 'n':
        word("null");
        return result;
      default: {
        char* behind = nullptr;
        result.type = value::kind::number;
        result.number = std::strtoll(at_, &behind, 10);
        if (behind == at_) stop("no JSON at \"" + std::string(at_, at_ + 20) + "\"");
        at_ = behind;
        return result;
      }
    }
  }

 private:
  char peek() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n')) ++at_;
    if (at_ == end_) stop("the JSON ends too early");
    return *at_;
  }
  void expect(char wanted) {
    if (peek() != wanted) stop(std::string("no ") + wanted);
    ++at_;
  }
  void word(const std::string& wanted) {
    if (std::string(at_, at_ + wanted.size()) != wanted) stop("no " + wanted);
    at_ += wanted.size();
  }
  template <class F>
  void each(char closing, F&& f) {
    ++at_;
    while (peek() != closing) {
      f();
      if (peek() == ',') ++at_;
    }
    ++at_;
  }
  std::string string() {
    expect('"');
    std::string text;
    for (; at_ < end_ && *at_ != '"'; ++at_) {
      if (*at_ != '\\') {
        text += *at_;
      } else if (*++at_ == 'u') {
        append(text, std::stoul(std::string(at_ + 1, at_ + 5), nullptr, 16));
        at_ += 4;
      } else {
        text += *at_ == 'n' ? '\n' : *at_ == 't' ? '\t' : *at_ == 'r' ? '\r' : *at_;
      }
    }
    expect('"');
    return text;
  }
  static void append(std::string& text, unsigned long code) {
    const auto byte = [&](unsigned long bits) { text += static_cast<char>(bits); };
    if (code < 0x80) {
      byte(code);
    } else if (code < 0x800) {
      byte(0xc0 | code >> 6);
      byte(0x80 | (code & 0x3f));
    } else {
      byte(0xe0 | code >> 12);
      byte(0x80 | (code >> 6 & 0x3f));
      byte(0x80 | (code & 0x3f));
    }
  }

  const char *at_, *end_;
};

}  // namespace json

#endif  // JSON_HPP
