/* The C++ API, name by name: what it does, what it refuses, and who owns what afterwards. */
#include "check.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif

void mdspan_tests();
bool unit_without_exceptions();

namespace {

template <class T>
std::vector<T> counting(std::size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{1});
  return values;
}

template <class T>
std::vector<T> elements(const ab::view& tensor) {
  std::vector<T> all;
  tensor.try_as<const T>().value().for_each([&](const T& value) { all.push_back(value); });
  return all;
}

// Says when it is destroyed.
struct token {
  explicit token(int& count) : count_(&count) {}
  token(token&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  token& operator=(token&& other) noexcept {
    std::swap(count_, other.count_);
    return *this;
  }
  ~token() {
    if (count_) ++*count_;
  }
  int* count_;
};

// A legacy tensor of two floats, which counts its deletions.
struct legacy_fixture {
  float data[2] = {1.5f, 2.5f};
  std::int64_t shape[1] = {2};
  DLManagedTensor managed{};
  int deleted = 0;

  legacy_fixture() {
    managed.dl_tensor.data = data;
    managed.dl_tensor.device = ab::cpu;
    managed.dl_tensor.ndim = 1;
    managed.dl_tensor.dtype = ab::float32;
    managed.dl_tensor.shape = shape;
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) {
      ++static_cast<legacy_fixture*>(self->manager_ctx)->deleted;
    };
  }
};

void dtypes() {
  static_assert(ab::dtype_v<float> == ab::float32, "");
  static_assert(ab::dtype_v<const double> == ab::float64, "");
  static_assert(ab::dtype_v<bool> == ab::bool_, "");
  static_assert(ab::dtype_v<std::byte> == ab::uint8, "");
  static_assert(ab::dtype_v<std::int8_t> == ab::int8 && ab::dtype_v<std::uint8_t> == ab::uint8, "");
  static_assert(ab::dtype_v<std::int16_t> == ab::int16 && ab::dtype_v<std::uint16_t> == ab::uint16, "");
  static_assert(ab::dtype_v<std::int32_t> == ab::int32 && ab::dtype_v<std::uint32_t> == ab::uint32, "");
  static_assert(ab::dtype_v<std::int64_t> == ab::int64 && ab::dtype_v<std::uint64_t> == ab::uint64, "");
  static_assert(ab::dtype_v<long> == ab::dtype(kDLInt, sizeof(long) * 8), "");
  static_assert(ab::dtype_v<unsigned long long> == ab::uint64, "");
  static_assert(ab::dtype_v<std::complex<float>> == ab::complex64, "");
  static_assert(ab::dtype_v<std::complex<double>> == ab::complex128, "");
  static_assert(ab::detail::is_element<long double> == (sizeof(long double) == 8), "");
  static_assert(!ab::detail::is_element<std::string> && !ab::detail::is_element<void>, "");
#if defined(__FLT16_MANT_DIG__) && !defined(__clang__)
  __extension__ typedef _Float16 half;
  static_assert(ab::dtype_v<half> == ab::float16, "");
#endif
#if defined(__STDCPP_BFLOAT16_T__)
  static_assert(ab::dtype_v<decltype(0.0bf16)> == ab::bfloat16, "");
#endif
  static_assert(ab::float32 != ab::float64 && ab::float32.with_lanes(4).lanes() == 4, "");
  CHECK_EQ(ab::float8_e4m3fn.name(), "float8_e4m3fn");
  CHECK_EQ(ab::float32.with_lanes(4).name(), "float32x4");
  CHECK_EQ(ab::parse_dtype("<f4"), ab::float32);
  THROWS(AB_E_UNSUPPORTED_DTYPE, "float33", ab::parse_dtype("float33"));
  const char* const names[] = {"int8",           "int16",
                               "int32",          "int64",
                               "uint8",          "uint16",
                               "uint32",         "uint64",
                               "float16",        "float32",
                               "float64",        "bfloat16",
                               "complex64",      "complex128",
                               "bool",           "float8_e3m4",
                               "float8_e4m3",    "float8_e4m3b11fnuz",
                               "float8_e4m3fn",  "float8_e4m3fnuz",
                               "float8_e5m2",    "float8_e5m2fnuz",
                               "float8_e8m0fnu", "float6_e2m3fn",
                               "float6_e3m2fn",  "float4_e2m1fn"};
  const ab::dtype constants[] = {ab::int8,           ab::int16,
                                 ab::int32,          ab::int64,
                                 ab::uint8,          ab::uint16,
                                 ab::uint32,         ab::uint64,
                                 ab::float16,        ab::float32,
                                 ab::float64,        ab::bfloat16,
                                 ab::complex64,      ab::complex128,
                                 ab::bool_,          ab::float8_e3m4,
                                 ab::float8_e4m3,    ab::float8_e4m3b11fnuz,
                                 ab::float8_e4m3fn,  ab::float8_e4m3fnuz,
                                 ab::float8_e5m2,    ab::float8_e5m2fnuz,
                                 ab::float8_e8m0fnu, ab::float6_e2m3fn,
                                 ab::float6_e3m2fn,  ab::float4_e2m1fn};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    CHECK_EQ(constants[i].name(), names[i]);
    CHECK_EQ(ab::parse_dtype(names[i]), constants[i]);
  }
}

void views() {
  std::vector<std::int16_t> vector = counting<std::int16_t>(6);
  const std::array<double, 3> array{1, 2, 3};
  float grid[2][3] = {{1, 2, 3}, {4, 5, 6}};

  CHECK_EQ(elements<std::int16_t>(vector), vector);
  CHECK(!ab::detect(vector).read_only());
  CHECK(ab::detect(array).read_only());
  CHECK_EQ(elements<double>(array), (std::vector<double>{1, 2, 3}));
  CHECK_EQ(elements<float>(grid), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  CHECK_EQ(ab::detect(grid).ndim, 2);
  // The transpose; every second, backwards.
  CHECK_EQ(elements<float>(ab::view(&grid[0][0], {3, 2}, {1, 3})), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  CHECK_EQ(elements<std::int16_t>(ab::view(vector.data() + 5, 3, -2)), (std::vector<std::int16_t>{6, 4, 2}));
  CHECK_EQ(elements<std::int16_t>(ab::view(vector.data(), {std::size_t{2}, std::int64_t{0}})).size(), 0u);
  CHECK_EQ(elements<std::int16_t>(ab::view(vector.data(), ab::dims())), (std::vector<std::int16_t>{1}));
  const std::vector<long> shape{1, 1, 1, 1, 1, 1, 1, 1, 2, 3};  // more than are held without allocating
  CHECK_EQ(elements<std::int16_t>(ab::view(vector.data(), shape)), vector);
  const ab::view of_ten(vector.data(), shape), copied = of_ten;
  CHECK_EQ(elements<std::int16_t>(copied), vector);
  CHECK(copied.native().shape != of_ten.native().shape);

  const ab::info info =
      ab::detect(ab::view(vector.data(), ab::bfloat16, {2, 3}, {1, 2}, ab::cpu, ab::flag_read_only));
  CHECK(info.dtype == ab::bfloat16 && info.read_only() && info.f_contiguous() && !info.c_contiguous());
  CHECK(info.host_readable() && info.num_elements == 6 && info.accepted(ab::consumer::torch) == false);

#if defined(__cpp_lib_span)
  const std::span<std::int16_t> span(vector);
  CHECK_EQ(elements<std::int16_t>(span.subspan(4)), (std::vector<std::int16_t>{5, 6}));
  CHECK(ab::detect(std::span<const std::int16_t>(vector)).read_only());
  CHECK_EQ(elements<std::int16_t>(std::span<std::int16_t, 6>(vector)), vector);
  CHECK_EQ(elements<std::int16_t>(ab::wrap(span)), vector);
#endif

  FAILS(AB_E_INVALID_ARGUMENT, "strides", ab::try_detect(ab::view(vector.data(), {2, 3}, {1})));
  FAILS(AB_E_INVALID_TENSOR, "shape[1] is -3", ab::try_detect(ab::view(vector.data(), {2, -3})));
  FAILS(AB_E_INVALID_TENSOR, "data", ab::try_detect(ab::view(static_cast<float*>(nullptr), {2, 3})));
  FAILS(AB_E_INVALID_TENSOR, "ndim", ab::try_detect(ab::view(vector.data(), std::vector<int>(65, 1))));
  DLTensor bad{vector.data(), ab::cpu, -1, ab::int16, nullptr, nullptr, 0};
  FAILS(AB_E_INVALID_TENSOR, "ndim is -1", ab::try_detect(bad));
  FAILS(AB_E_INVALID_TENSOR, "ndim is -1", ab::view(bad).try_as<std::int16_t>());
  bad.ndim = 3;
  FAILS(AB_E_INVALID_TENSOR, "shape", ab::try_copy(bad));
  FAILS(AB_E_INVALID_ARGUMENT, "empty", ab::try_detect(ab::view()));
}

void typed_views() {
  std::vector<float> values = counting<float>(6);
  ab::tensor tensor = ab::wrap(ab::view(values.data(), {2, 3}));
  const ab::typed_view<float> typed = tensor.as<float>();
  CHECK(typed(1, 2) == 6 && typed.at(0, 1) == 2 && typed.ndim() == 2 && typed.num_elements() == 6);
  CHECK(typed.is_contiguous() && typed.data() == values.data());
  CHECK(typed.shape() == ab::dims_view(ab::dims(2, 3)) && typed.strides()[0] == 3);
  typed(0, 0) = 9;
  CHECK(values[0] == 9);
  CHECK_EQ(std::accumulate(typed.shape().begin(), typed.shape().end(), std::int64_t{0}), 5);
  CHECK_EQ(elements<float>(ab::view(typed)), values);

  FAILS(AB_E_INVALID_ARGUMENT, "ndim is 2", typed.try_at(1));
  FAILS(AB_E_INVALID_ARGUMENT, "index[1] is 3", typed.try_at(0, 3));
  THROWS(AB_E_INVALID_ARGUMENT, "index[0] is -1", typed.at(-1, 0));
  THROWS(AB_E_UNSUPPORTED_DTYPE, "dtype is float32: a typed_view of int32", tensor.as<std::int32_t>());
  THROWS(AB_E_UNSUPPORTED_DTYPE, "float64", tensor.as<double>());
  const std::vector<float> constant{1, 2};
  const ab::tensor fixed = ab::wrap(ab::view(constant));
  CHECK(fixed.as<const float>()(1) == 2);
  THROWS(AB_E_READ_ONLY, "const", fixed.as<float>());
  const ab::view elsewhere(values.data(), ab::float32, 6, {}, ab::cuda(1));
  FAILS(AB_E_UNSUPPORTED_DEVICE, "device is {2, 1}", elsewhere.try_as<float>());
  alignas(8) unsigned char bytes[12] = {};
  FAILS(AB_E_UNSUPPORTED_LAYOUT, "aligned to 1", ab::view(bytes + 1, ab::float32, 2).try_as<float>());
  // Garbage strides where nothing is stepped over, and no strides at all.
  std::int64_t shape[2] = {1, 6}, strides[2] = {-77, 1};
  const DLTensor garbage{values.data(), ab::cpu, 2, ab::float32, shape, strides, 0};
  CHECK_EQ(ab::view(garbage).try_as<float>().value().strides()[0], 6);
  const DLTensor compact{values.data(), ab::cpu, 2, ab::float32, shape, nullptr, 8};
  CHECK_EQ(ab::view(compact).try_as<float>().value().data(), values.data() + 2);
  CHECK_EQ(ab::view(values.data(), 0).try_as<float>().value().num_elements(), 0u);
  CHECK(ab::view(values.data() + 3, ab::dims()).try_as<float>().value()() == 4);

  bool flags[] = {true, false};
  CHECK_EQ(elements<bool>(flags), (std::vector<bool>{true, false}));
  std::complex<float> numbers[] = {{1, 2}, {3, 4}};
  CHECK_EQ(ab::copy(numbers, ab::complex128).as<std::complex<double>>()(1), std::complex<double>(3, 4));
}

void conversions() {
  std::vector<std::uint8_t> pixels = counting<std::uint8_t>(6);
  const ab::view planes(pixels.data(), {3, 2}, {1, 3});
  ab::report done;
  ab::tensor copy = ab::copy(planes, ab::to{ab::float32, ab::layout::c}, &done);
  CHECK_EQ(elements<float>(copy), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  CHECK(copy.is_copied() && !copy.read_only() && copy.dtype() == ab::float32 && copy.device() == ab::cpu);
  CHECK(copy.shape() == ab::dims_view(ab::dims(3, 2)) && copy.strides() == ab::dims_view(ab::dims(2, 1)));
  CHECK(done.route == AB_ROUTE_HOST && done.passes == 1 && !done.zero_copy());
  CHECK(done.reasons == (AB_REASON_REQUESTED | AB_REASON_DTYPE | AB_REASON_LAYOUT));
  CHECK_EQ(done.describe(), "host, 1 pass, 6 B read, 24 B written (requested, dtype, layout)");

  // Zero copy takes the source over.
  void* const data = copy.data();
  CHECK(ab::plan(copy, ab::float32).zero_copy());
  ab::tensor same = ab::convert(std::move(copy), {ab::float32, ab::copy_policy::never}, &done);
  CHECK(!copy && done.zero_copy() && same.data() == data);

  // What fails leaves it as it was.
  THROWS(AB_E_COPY_REQUIRED, "dtype", ab::convert(std::move(same), {ab::copy_policy::never, ab::int32}));
  CHECK(same && same.data() == data);
  FAILS(AB_E_COPY_REQUIRED, "dtype", ab::try_plan(same, ab::to{ab::int32, ab::copy_policy::never}));
  THROWS(AB_E_LOSSY, "float32 to int8", ab::convert(std::move(same), {ab::int8, ab::casting::safe}));
  THROWS(AB_E_BACKEND_UNAVAILABLE, "cuda", ab::convert(std::move(same), ab::cuda(77)));
  CHECK_EQ(elements<float>(same), (std::vector<float>{1, 4, 2, 5, 3, 6}));

  std::vector<float> large{1e9f, -1e9f, 2.5f};
  CHECK_EQ(elements<std::int8_t>(ab::copy(large, {ab::int8, ab::option::saturate})),
           (std::vector<std::int8_t>{127, -128, 2}));
  THROWS(AB_E_LOSSY, "", ab::copy(large, {ab::int32, ab::casting::exact}));
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(ab::copy(large, ab::alignment{4096}).data()) % 4096, 0u);
  THROWS(AB_E_INVALID_ARGUMENT, "alignment", ab::copy(large, ab::alignment{3}));
  ab::to wish{ab::consumer::numpy, ab::consumer::jax};
  CHECK_EQ(wish.native().consumers, AB_CONSUMER_NUMPY | AB_CONSUMER_JAX);
  wish.set(ab::layout::f);
  CHECK_EQ(wish.native().layout, AB_LAYOUT_F);
  int stream = 0;
  CHECK(ab::to(ab::src_stream(&stream)).native().src_stream ==
        static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&stream)));
  CHECK(ab::to{ab::dst_stream(2)}.native().dst_stream == 2);

  std::vector<double> into(6);
  ab::copy_into(planes, ab::view(into.data(), {3, 2}), {}, &done);
  CHECK_EQ(into, (std::vector<double>{1, 4, 2, 5, 3, 6}));
  THROWS(AB_E_INVALID_ARGUMENT, "shape", ab::copy_into(planes, into));
  THROWS(AB_E_OVERLAP, "", ab::copy_into(ab::view(into.data(), 5), ab::view(into.data() + 1, 5)));
  const std::vector<double> constant(6);
  THROWS(AB_E_READ_ONLY, "", ab::copy_into(into, constant));

  // Its own allocator.
  struct counter {
    int allocated = 0, freed = 0;
  } counts;
  const ab_allocator allocator{
      &counts,
      [](void* user, std::int32_t, std::int32_t, std::size_t size, std::size_t alignment,
         std::int64_t) -> void* {
        ++static_cast<counter*>(user)->allocated;
        return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
      },
      [](void* user, std::int32_t, std::int32_t, void* pointer, std::size_t, std::int64_t) {
        ++static_cast<counter*>(user)->freed;
        std::free(pointer);
      }};
  {
    const ab::tensor result = ab::copy(large, &allocator);
    CHECK(counts.allocated == 1 && counts.freed == 0);
  }
  CHECK_EQ(counts.freed, 1);
}

void ownership() {
  std::vector<int> values = counting<int>(6);
  const int* const data = values.data();
  ab::tensor tensor = ab::wrap(std::move(values), {2, 3});
  CHECK(tensor.data() == data && tensor.ndim() == 2 && !tensor.is_copied());
  values = counting<int>(5);
  THROWS(AB_E_INVALID_ARGUMENT, "the vector has 5 elements: the shape has 6",
         ab::wrap(std::move(values), {2, 3}));
  THROWS(AB_E_INVALID_ARGUMENT, "the vector has 5 elements",
         ab::wrap(std::move(values), {std::int64_t{1} << 62, 16}));
  THROWS(AB_E_INVALID_ARGUMENT, "the vector has 5 elements", ab::wrap(std::move(values), {-5, -1}));
  CHECK_EQ(values.size(), 5u);  // given back
  CHECK_EQ(elements<int>(ab::wrap(std::move(values))), counting<int>(5));

  int destroyed = 0;
  float grid[4] = {1, 2, 3, 4};
  {
    ab::tensor owner = ab::wrap(grid, {2, 2}, token(destroyed));
    ab::tensor moved = std::move(owner);
    CHECK(!owner && destroyed == 0);
    ab::tensor shared = ab::convert(std::move(moved));
    CHECK_EQ(destroyed, 0);
    std::thread([&] { shared.reset(); }).join();
    CHECK(destroyed == 1 && !shared);
  }
  CHECK_EQ(destroyed, 1);
  {
    ab::tensor copied = ab::convert(ab::wrap(grid, 4, token(destroyed)), ab::float64);
    CHECK_EQ(destroyed, 2);  // freed as soon as it is no longer read
  }
  token kept(destroyed);
  FAILS(AB_E_INVALID_TENSOR, "shape[0] is -4", ab::try_wrap(grid, -4, std::move(kept)));
  CHECK(kept.count_ == &destroyed && destroyed == 2);  // given back

  const auto shared = std::make_shared<std::vector<double>>(counting<double>(3));
  {
    const ab::tensor one = ab::wrap(*shared), other = ab::wrap(ab::view(*shared), shared);
    CHECK_EQ(shared.use_count(), 2);
  }
  CHECK_EQ(shared.use_count(), 1);
  const std::shared_ptr<double> aliased(shared, shared->data());
  CHECK_EQ(elements<double>(ab::wrap(aliased, 3)), *shared);
  const std::shared_ptr<float[]> array(new float[2]{7, 8});
  CHECK_EQ(elements<float>(ab::wrap(array, 2)), (std::vector<float>{7, 8}));
  std::unique_ptr<float[]> unique(new float[2]{5, 6});
  FAILS(AB_E_INVALID_TENSOR, "shape", ab::try_wrap(std::move(unique), -2));
  CHECK(unique != nullptr);
  CHECK_EQ(elements<float>(ab::wrap(std::move(unique), 2)), (std::vector<float>{5, 6}));
  std::unique_ptr<std::int64_t, decltype(&std::free)> from_malloc(
      static_cast<std::int64_t*>(std::calloc(4, 8)), &std::free);
  CHECK_EQ(elements<std::int64_t>(ab::wrap(std::move(from_malloc), {2, 2})).size(), 4u);

  // To other consumers of DLPack and back.
  struct DLManagedTensorVersioned* const raw = ab::copy(grid).release();
  CHECK(raw->version.major == 1 && raw->deleter);
  ab::tensor adopted(raw);
  CHECK_EQ(adopted.get(), raw);
  adopted = ab::tensor();
  CHECK(!adopted);

  legacy_fixture producer;
  {
    ab::legacy_tensor legacy(&producer.managed);
    ab::tensor versioned = ab::from_legacy(std::move(legacy));
    CHECK(!legacy && versioned.data() == producer.data && producer.deleted == 0);
    legacy = ab::to_legacy(std::move(versioned));
    CHECK(!versioned && legacy->dl_tensor.data == producer.data && producer.deleted == 0);
  }
  CHECK_EQ(producer.deleted, 1);
  const float constant[2] = {};
  ab::tensor read_only = ab::wrap(ab::view(constant));
  THROWS(AB_E_READ_ONLY, "", ab::to_legacy(std::move(read_only)));
  CHECK(read_only);
}

// What was closed is an error, never a crash.
void closed() {
  const std::vector<float> values = counting<float>(3);
  ab::tensor tensor = ab::copy(values);
  const ab::tensor taken = std::move(tensor);
  CHECK(tensor.ndim() == 0 && tensor.shape().empty() && tensor.strides().empty() && tensor.data() == nullptr);
  CHECK(tensor.dtype() == ab::dtype() && tensor.device().type() == 0 && tensor.flags() == 0 && !tensor.get());
  const char* const text = "the tensor is empty";
  THROWS(AB_E_INVALID_ARGUMENT, text, ab::detect(tensor));
  THROWS(AB_E_INVALID_ARGUMENT, text, ab::copy(tensor));
  THROWS(AB_E_INVALID_ARGUMENT, text, ab::convert(std::move(tensor)));
  THROWS(AB_E_INVALID_ARGUMENT, text, ab::plan(tensor));
  THROWS(AB_E_INVALID_ARGUMENT, text, ab::copy_into(tensor, taken));
  THROWS(AB_E_INVALID_ARGUMENT, text, ab::copy_into(taken, tensor));
  THROWS(AB_E_INVALID_ARGUMENT, text, tensor.as<float>());
  THROWS(AB_E_INVALID_ARGUMENT, text, ab::wrap(tensor));
  THROWS(AB_E_INVALID_ARGUMENT, text, ab::to_legacy(std::move(tensor)));
  THROWS(AB_E_INVALID_ARGUMENT, text, ab::from_legacy(ab::legacy_tensor()));
  tensor.reset();

  ab::context context(1);
  CHECK_EQ(elements<float>(ab::copy(taken, {context, ab::float32})), counting<float>(3));
  const ab::context moved = std::move(context);
  THROWS(AB_E_INVALID_ARGUMENT, "the context is empty", ab::copy(taken, context));

  // Of another major version nothing but the deleter is touched.
  int destroyed = 0;
  struct DLManagedTensorVersioned future{};
  future.version.major = 2;
  future.manager_ctx = &destroyed;
  future.deleter = [](struct DLManagedTensorVersioned* self) { ++*static_cast<int*>(self->manager_ctx); };
  future.dl_tensor.ndim = 3;
  {
    ab::tensor unknown(&future);
    CHECK(unknown.ndim() == 0 && unknown.data() == nullptr && unknown.flags() == 0);
    THROWS(AB_E_VERSION, "major version", ab::detect(unknown));
    THROWS(AB_E_VERSION, "version", ab::convert(std::move(unknown)));
    CHECK(unknown && destroyed == 0);
  }
  CHECK_EQ(destroyed, 1);

  // Threads on one tensor, and on distinct ones.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j)
        CHECK_EQ(elements<double>(ab::copy(taken, ab::float64)), counting<double>(3));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void the_rest() {
  ab::check_version();
  CHECK_EQ(ab::version(), std::string(ab_version()));
  FAILS(AB_E_VERSION, "libarraybridge.so.1 with ABI 1.999", ab::try_check_version(1u << 16 | 999u));
  FAILS(AB_E_VERSION, "libarraybridge.so.2 with ABI 2.0", ab::try_check_version(2u << 16));
  const auto backends = ab::backends();
  CHECK(!backends.empty() && backends[0].name == "host" && backends[0].available);
  const auto devices = ab::devices();
  CHECK(!devices.empty() && devices[0].device == ab::cpu && devices[0].backend == "host");
  const ab::context context(2, 1 << 20);
  CHECK_EQ(ab::backends(&context).size(), backends.size());
  int local = 0;
  CHECK_EQ(ab::detect_pointer(nullptr).memory, AB_MEMORY_UNKNOWN);
  CHECK(ab::detect_pointer(&local).memory != AB_MEMORY_DEVICE);

  const ab::error error(AB_E_DEVICE, "no such luck", -5);
  CHECK(error.status() == AB_E_DEVICE && error.native_code() == -5 &&
        error.status_name() == std::string("AB_E_DEVICE"));
  const std::exception& base = error;
  CHECK_EQ(base.what(), std::string("no such luck"));
  ab::result<int> good(5), bad(error);
  CHECK(good && *good == 5 && !good.error() && std::move(good).value() == 5);
  CHECK(!bad && bad.error()->native_code() == -5);
  THROWS(AB_E_DEVICE, "no such luck", bad.value());
  THROWS(AB_E_DEVICE, "no such luck", *bad);
  CHECK_EQ(ab::cuda(3), ab::device(DLDevice{kDLCUDA, 3}));
  CHECK(ab::opencl().type() == kDLOpenCL && ab::cuda_host != ab::cuda_managed);
}

}  // namespace

int main() {
  dtypes();
  views();
  typed_views();
  conversions();
  ownership();
  closed();
  the_rest();
  mdspan_tests();
  CHECK(unit_without_exceptions());
}
