/* Runs tests/vectors through the C++ API: vectors FOLDER. A vector is a pair of dtypes of casts.json, in
 * every way that it is tried, and again with AB_CAST_EXACT; a pair and a rule of can_cast.json, allowed or
 * not; a text of dtypes.json; a copy of layouts.json. Says how many of them pass. */
#include <arraybridge/arraybridge.hpp>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <vector>

#include "json.hpp"

namespace {

std::string folder;
int passed = 0, failed = 0;

std::string file(const std::string& name) {
  std::ifstream stream(folder + "/" + name, std::ios::binary);
  if (!stream) json::stop("there is no " + folder + "/" + name);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

json::value records(const std::string& name) {
  const std::string text = file(name);
  return json::reader(text).read();
}

void vector(bool right, const std::string& what) {
  if (right) {
    ++passed;
  } else if (++failed <= 40) {
    std::fprintf(stderr, "%s\n", what.c_str());
  }
}

ab::dtype dtype_in(const json::value& record) {
  return {static_cast<std::uint8_t>(record["code"].number), static_cast<std::uint8_t>(record["bits"].number),
          static_cast<std::uint16_t>(record["lanes"].number)};
}

void casts() {
  const json::value index = records("casts.json");
  const std::string data = file("casts.bin");
  for (const json::value& cast : index["casts"].list) {
    const std::string &from = cast["from"].text, &to = cast["to"].text;
    const json::value& input = index["inputs"][from];
    const std::size_t count = input["count"].size(), itemsize = input["itemsize"].size();
    const std::size_t to_size = index["inputs"][to]["itemsize"].size();
    std::string source = data.substr(input["offset"].size(), count * itemsize);
    const ab::dtype from_dtype = ab::parse_dtype(from), to_dtype = ab::parse_dtype(to);
    const ab::view all(source.data(), from_dtype, count, {}, ab::cpu, ab::flag_subbyte_padded);
    bool right = true;
    std::string why;
    // Forwards, backwards and with gaps: each goes through other loops.
    struct way {
      int step;
      bool saturate;
    };
    for (const way how : {way{1, false}, way{1, true}, way{-1, false}, way{2, true}, way{3, false}}) {
      const std::size_t step = static_cast<std::size_t>(how.step < 0 ? -how.step : how.step);
      std::string spread(count * to_size * step, '\xa5');
      const std::size_t first = how.step < 0 ? (count - 1) * to_size : 0;
      ab::to options;
      if (how.saturate) options.set(ab::option::saturate);
      const ab::result<void> done = ab::try_copy_into(
          all, ab::view(&spread[first], to_dtype, count, how.step, ab::cpu, ab::flag_subbyte_padded),
          options);
      if (!done) {
        right = false;
        why = done.error()->what();
        break;
      }
      const char* const want = data.data() + cast[how.saturate ? "saturate_offset" : "offset"].size();
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = (how.step < 0 ? count - 1 - i : i * step) * to_size;
        if (std::memcmp(&spread[place], want + i * to_size, to_size) != 0) {
          right = false;
          why = "element " + std::to_string(i) + ", step " + std::to_string(how.step);
        }
      }
    }
    // Into memory of the library's own.
    const ab::result<ab::tensor> copy = ab::try_copy(all, ab::to{to_dtype, ab::layout::c});
    if (!copy) {
      right = false;
      why = copy.error()->what();
    } else if ((copy->flags() & ab::flag_subbyte_padded || to_dtype.bits() >= 8) &&
               std::memcmp(copy->data(), data.data() + cast["offset"].size(), count * to_size) != 0) {
      right = false;
      why = "a new tensor";
    }
    vector(right, from + " to " + to + ": " + why);
    if (from == to) continue;
    right = true;
    for (std::size_t i = 0; i < count; ++i) {
      char room[16] = {};
      const ab::result<void> done = ab::try_copy_into(
          ab::view(&source[i * itemsize], from_dtype, ab::dims(), {}, ab::cpu, ab::flag_subbyte_padded),
          ab::view(room, to_dtype, ab::dims(), {}, ab::cpu, ab::flag_subbyte_padded), ab::casting::exact);
      const bool exact = data[cast["exact_offset"].size() + i] == 1;
      if (exact != done.has_value() || (!exact && done.error()->status() != AB_E_LOSSY)) {
        right = false;
        why = "element " + std::to_string(i);
      }
    }
    vector(right, from + " to " + to + ", exact: " + why);
  }
}

void casting_rules() {
  const json::value index = records("casts.json"), allowed = records("can_cast.json");
  const std::pair<const char*, ab::casting> rules[] = {{"safe", ab::casting::safe},
                                                       {"same_kind", ab::casting::same_kind}};
  for (const auto& rule : rules) {
    std::set<std::pair<std::string, std::string>> pairs;
    for (const json::value& pair : allowed[rule.first].list) pairs.emplace(pair[0].text, pair[1].text);
    for (const std::string& from : index["inputs"].names) {
      for (const std::string& to : index["inputs"].names) {
        char source[16] = {}, room[16] = {};
        const ab::result<void> done =
            ab::try_copy_into(ab::view(source, ab::parse_dtype(from), ab::dims()),
                              ab::view(room, ab::parse_dtype(to), ab::dims()), rule.second);
        const bool want = pairs.count({from, to}) != 0;
        vector(want == done.has_value() && (want || done.error()->status() == AB_E_LOSSY),
               from + " to " + to + ", " + rule.first);
      }
    }
  }
}

void dtypes() {
  const json::value texts = records("dtypes.json");
  for (const json::value& record : texts.list) {
    const ab::result<ab::dtype> parsed = ab::try_parse_dtype(record["text"].text);
    if (record.has("refused")) {
      vector(!parsed && parsed.error()->status() == AB_E_UNSUPPORTED_DTYPE,
             "\"" + record["text"].text + "\" is taken");
    } else {
      vector(parsed && *parsed == dtype_in(record) && parsed->name() == record["name"].text,
             "\"" + record["text"].text + "\"");
    }
  }
}

void layouts() {
  const json::value cases = records("layouts.json");
  const std::string data = file("layouts.bin");
  for (const json::value& record : cases.list) {
    const json::value &src = record["src"], &dst = record["dst"];
    std::string source = data.substr(src["offset"].size(), src["size"].size());
    std::string destination = data.substr(dst["before_offset"].size(), dst["size"].size());
    std::vector<std::int64_t> shape, strides[2];
    for (const json::value& extent : record["shape"].list) shape.push_back(extent.number);
    const auto view = [&](std::string& bytes, const json::value& side, const json::value& type,
                          std::vector<std::int64_t>& steps) {
      for (const json::value& stride : side["strides"].list) steps.push_back(stride.number);
      const DLTensor native{bytes.data(),
                            ab::cpu,
                            static_cast<std::int32_t>(shape.size()),
                            dtype_in(type),
                            shape.data(),
                            side["strides"].is_null() ? nullptr : steps.data(),
                            side["byte_offset"].size()};
      return ab::view(native, side["padded"].boolean ? ab::flag_subbyte_padded : 0);
    };
    const ab::result<void> done = ab::try_copy_into(view(source, src, record["from"], strides[0]),
                                                    view(destination, dst, record["to"], strides[1]));
    vector(done && data.compare(dst["after_offset"].size(), dst["size"].size(), destination) == 0,
           record["name"].text + (done ? "" : std::string(": ") + done.error()->what()));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) json::stop("vectors FOLDER");
  folder = arguments[1];
  casts();
  casting_rules();
  dtypes();
  layouts();
  std::printf("{\"binding\": \"cpp\", \"passed\": %d, \"failed\": %d, \"skipped\": []}\n", passed, failed);
  return failed != 0;
}
