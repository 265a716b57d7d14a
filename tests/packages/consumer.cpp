/* As consumer.c, with the C++ API. */
#include <arraybridge/arraybridge.hpp>

#include <cstdio>
#include <vector>

int main() {
  std::vector<std::int16_t> data{1, 2, 3, 4, 5, 6};
  std::vector<float> got;
  const ab::tensor result =
      ab::copy(ab::view(data.data(), {3, 2}, {1, 3}), ab::to{ab::float32, ab::layout::c});
  result.as<float>().for_each([&](float value) { got.push_back(value); });
  try {
    result.as<double>();
    return 1;
  } catch (const ab::error&) {
    // It is float32.
  }
  ab::check_version();
  std::puts(ab::version());
  return got != std::vector<float>{1, 4, 2, 5, 3, 6};
}
