// Two RGB pixels become float32, channels first; and what cannot be done says why.
#include <arraybridge/arraybridge.hpp>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  // [readme]
  std::vector<std::uint8_t> pixels{10, 20, 30, 11, 21, 31};  // two RGB pixels
  ab::view planes(pixels.data(), {3, 2}, {1, 3});            // the same memory, channels first
  ab::tensor tensor = ab::copy(planes, ab::to{ab::float32, ab::layout::c});
  tensor.as<float>().for_each([](float value) { std::printf("%g ", value); });
  std::printf("\n%s\n", ab::plan(tensor, ab::float16).describe().c_str());
  // [/readme]

  try {
    tensor = ab::convert(std::move(tensor), ab::to{ab::float16, ab::copy_policy::never});
  } catch (const ab::error& error) {
    std::printf("%s: %s\n", error.status_name(), error.what());
  }
  tensor = ab::convert(std::move(tensor), ab::copy_policy::never);  // which is still there
  struct DLManagedTensorVersioned* for_anyone = tensor.release();   // who takes DLPack, and calls the deleter
  for_anyone->deleter(for_anyone);
}
