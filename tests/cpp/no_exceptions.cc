/* Compiled with -fno-exceptions, and linked with units that have them. */
#include <arraybridge/arraybridge.hpp>

#include <cstring>
#include <vector>

#if AB_CXX_EXCEPTIONS
#error "compile this with -fno-exceptions"
#endif

bool unit_without_exceptions();

bool unit_without_exceptions() {
  std::vector<std::int32_t> values{1, 2, 3, 4};
  const ab::view square(values.data(), {2, 2}, {1, 2});
  ab::result<ab::tensor> copy = ab::try_copy(square, ab::to{ab::float32, ab::layout::c});
  if (!copy || copy.error()) return false;
  const auto typed = copy->try_as<float>();
  if (!typed || (*typed)(0, 1) != 3) return false;
  ab::result<ab::tensor> refused =
      ab::try_convert(std::move(*copy), ab::to{ab::copy_policy::never, ab::int8});
  if (refused || refused.error()->status() != AB_E_COPY_REQUIRED || !*copy) return false;
  ab::tensor tensor = std::move(*copy);
  if (!std::strstr(ab::try_detect(*copy).error()->what(), "empty")) return false;
  if (!ab::try_copy_into(tensor, values).error()) return false;  // other shapes
  const auto wrapped = ab::try_wrap(std::vector<double>{1, 2, 3});
  return wrapped && ab::try_plan(*wrapped)->zero_copy() && ab::try_check_version();
}
