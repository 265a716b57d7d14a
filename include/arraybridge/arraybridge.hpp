/* arraybridge for C++17 and later: tensors that own themselves, views of arrays, errors as exceptions or
 * as values. Header-only, over the C ABI of arraybridge.h, whose rules hold here too.
 *
 *   std::vector<short> pixels{1, 2, 3, 4, 5, 6};
 *   ab::tensor planes = ab::copy(ab::view(pixels.data(), {2, 3}, {1, 2}), ab::to{ab::float32,
 * ab::layout::c}); ab::typed_view<float> values = planes.as<float>();   // throws ab::error unless it is
 * float32 here
 *
 * Every operation has two names. `ab::convert` throws ab::error; `ab::try_convert` returns an
 * ab::result, which holds a value or an ab::error, and is all there is under -fno-exceptions. What is
 * read off a tensor never fails: one that is empty (moved from, released, or never filled) has no axes
 * and no data, and each operation on it is AB_E_INVALID_ARGUMENT.
 *
 * Any number of threads may use distinct objects, and read the same one.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */

#ifndef ARRAYBRIDGE_HPP
#define ARRAYBRIDGE_HPP

#include "arraybridge.h"
// Where an official dlpack.h came first, it may be of a minor version that lacks names: numbers stand for
// them.

#if !(__cplusplus >= 201703L || (defined(_MSVC_LANG) && _MSVC_LANG >= 201703L))
#error "arraybridge.hpp needs C++17"
#endif

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

/// Whether the functions that throw are there.
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define AB_CXX_EXCEPTIONS 1
#else
#define AB_CXX_EXCEPTIONS 0
#endif

namespace ab {
#if !AB_CXX_EXCEPTIONS
// Names of their own, so that a program may mix units compiled with exceptions and without.
inline namespace without_exceptions {
#endif

// ---- errors -------------------------------------------------------------------------------------------

/// What went wrong: thrown by the functions that throw, and held by ab::result. what() names the field, its
/// value, and what would have worked.
class error : public std::runtime_error {
 public:
  /// An error of this header or of a program.
  error(ab_status status, const std::string& message, std::int64_t native_code = 0)
      : std::runtime_error(message), status_(status), native_code_(native_code) {}

  /// What a call of the C ABI wrote.
  explicit error(const ab_error& native) : error(native.code, native.message, native.native_code) {}

  /// AB_E_*.
  ab_status status() const noexcept { return status_; }

  /// "AB_E_COPY_REQUIRED", for example. Static.
  const char* status_name() const noexcept { return ab_status_name(status_); }

  /// The driver's own error number, or 0.
  std::int64_t native_code() const noexcept { return native_code_; }

 private:
  ab_status status_;
  std::int64_t native_code_;
};

namespace detail {

[[noreturn]] inline void raise(const error& failure) {
#if AB_CXX_EXCEPTIONS
  throw failure;
#else
  static_cast<void>(failure);
  std::abort();
#endif
}

}  // namespace detail

/// A value, or the error that there is instead: what the try_ functions return.
template <class T>
class [[nodiscard]] result {
 public:
  /// A success.
  result(T value) : state_(std::in_place_index<0>, std::move(value)) {}

  /// A failure.
  result(ab::error failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  /// Whether there is a value.
  bool has_value() const noexcept { return state_.index() == 0; }

  /// Whether there is a value.
  explicit operator bool() const noexcept { return has_value(); }

  /// The value; without one, throws the error. (Under -fno-exceptions: std::abort; ask has_value first.)
  T& value() & {
    check();
    return *std::get_if<0>(&state_);
  }

  /// The value; without one, throws the error.
  const T& value() const& {
    check();
    return *std::get_if<0>(&state_);
  }

  /// The value, moved out; without one, throws the error.
  T value() && {
    check();
    return std::move(*std::get_if<0>(&state_));
  }

  /// As value().
  T& operator*() & { return value(); }

  /// As value().
  const T& operator*() const& { return value(); }

  /// As value().
  T operator*() && { return std::move(*this).value(); }

  /// A member of the value, as value().
  T* operator->() { return &value(); }

  /// A member of the value, as value().
  const T* operator->() const { return &value(); }

  /// The error; NULL if there is a value. Valid as long as the result.
  const ab::error* error() const noexcept { return std::get_if<1>(&state_); }

 private:
  void check() const {
    if (const ab::error* failure = error()) detail::raise(*failure);
  }

  std::variant<T, ab::error> state_;
};

/// Nothing, or an error.
template <>
class [[nodiscard]] result<void> {
 public:
  /// A success.
  result() = default;

  /// A failure.
  result(ab::error failure) : failure_(std::move(failure)) {}

  /// Whether it went well.
  bool has_value() const noexcept { return !failure_; }

  /// Whether it went well.
  explicit operator bool() const noexcept { return has_value(); }

  /// Throws the error if there is one. (Under -fno-exceptions: std::abort; ask has_value first.)
  void value() const {
    if (failure_) detail::raise(*failure_);
  }

  /// The error; NULL if it went well. Valid as long as the result.
  const ab::error* error() const noexcept { return failure_ ? &*failure_ : nullptr; }

 private:
  std::optional<ab::error> failure_;
};

// ---- dtypes -------------------------------------------------------------------------------------------

/// How the bits of an element are read: a DLDataType that compares and has a name.
class dtype {
 public:
  /// None: as a wish, the source's.
  constexpr dtype() noexcept = default;

  /// A DLPack code (kDLFloat), the bits of a lane, and lanes.
  constexpr dtype(std::uint8_t code, std::uint8_t bits, std::uint16_t lanes = 1) noexcept
      : code_(code), bits_(bits), lanes_(lanes) {}

  /// The same as DLPack's struct.
  constexpr dtype(DLDataType native) noexcept : dtype(native.code, native.bits, native.lanes) {}

  /// As DLPack's struct.
  constexpr operator DLDataType() const noexcept { return DLDataType{code_, bits_, lanes_}; }

  /// DLPack's code: kDLFloat and so on.
  constexpr std::uint8_t code() const noexcept { return code_; }

  /// Bits of one lane.
  constexpr std::uint8_t bits() const noexcept { return bits_; }

  /// Values in an element: 1, but for vector types.
  constexpr std::uint16_t lanes() const noexcept { return lanes_; }

  /// The same with other lanes.
  constexpr dtype with_lanes(std::uint16_t lanes) const noexcept { return dtype(code_, bits_, lanes); }

  /// "float32", "int8x4" and so on.
  std::string name() const {
    const DLDataType native = *this;
    std::string text(ab_dtype_format(&native, nullptr, 0) + 1, '\0');
    text.resize(ab_dtype_format(&native, &text[0], text.size()));
    return text;
  }

  /// Whether code, bits and lanes are equal.
  friend constexpr bool operator==(dtype a, dtype b) noexcept {
    return a.code_ == b.code_ && a.bits_ == b.bits_ && a.lanes_ == b.lanes_;
  }

  /// Whether code, bits or lanes differ.
  friend constexpr bool operator!=(dtype a, dtype b) noexcept { return !(a == b); }

 private:
  std::uint8_t code_ = 0, bits_ = 0;
  std::uint16_t lanes_ = 0;
};

inline constexpr dtype int8{0, 8};                ///< Signed, 8 bits.
inline constexpr dtype int16{0, 16};              ///< Signed, 16 bits.
inline constexpr dtype int32{0, 32};              ///< Signed, 32 bits.
inline constexpr dtype int64{0, 64};              ///< Signed, 64 bits.
inline constexpr dtype uint8{1, 8};               ///< Unsigned, 8 bits.
inline constexpr dtype uint16{1, 16};             ///< Unsigned, 16 bits.
inline constexpr dtype uint32{1, 32};             ///< Unsigned, 32 bits.
inline constexpr dtype uint64{1, 64};             ///< Unsigned, 64 bits.
inline constexpr dtype float16{2, 16};            ///< IEEE half.
inline constexpr dtype float32{2, 32};            ///< IEEE single.
inline constexpr dtype float64{2, 64};            ///< IEEE double.
inline constexpr dtype bfloat16{4, 16};           ///< The upper half of a float32.
inline constexpr dtype complex64{5, 64};          ///< Of two float32.
inline constexpr dtype complex128{5, 128};        ///< Of two float64.
inline constexpr dtype bool_{6, 8};               ///< A byte that is 0, or not.
inline constexpr dtype float8_e3m4{7, 8};         ///< As in ml_dtypes, and so are the following.
inline constexpr dtype float8_e4m3{8, 8};         ///< With infinities.
inline constexpr dtype float8_e4m3b11fnuz{9, 8};  ///< Bias 11, no -0, no infinities.
inline constexpr dtype float8_e4m3fn{10, 8};      ///< No infinities.
inline constexpr dtype float8_e4m3fnuz{11, 8};    ///< No -0, no infinities.
inline constexpr dtype float8_e5m2{12, 8};        ///< With infinities.
inline constexpr dtype float8_e5m2fnuz{13, 8};    ///< No -0, no infinities.
inline constexpr dtype float8_e8m0fnu{14, 8};     ///< A power of two.
inline constexpr dtype float6_e2m3fn{15, 6};      ///< No infinities, no NaN.
inline constexpr dtype float6_e3m2fn{16, 6};      ///< No infinities, no NaN.
inline constexpr dtype float4_e2m1fn{17, 4};      ///< No infinities, no NaN.

namespace detail {

template <class T>
inline constexpr bool is_half = false;
template <class T>
inline constexpr bool is_brain = false;

#if (defined(__GNUC__) && !defined(__clang__) && defined(__FLT16_MANT_DIG__)) || \
    (defined(__clang__) && __clang_major__ >= 15 && (defined(__SSE2__) || defined(__aarch64__)))
__extension__ typedef _Float16 half;
template <>
inline constexpr bool is_half<half> = true;
#elif defined(__STDCPP_FLOAT16_T__)
template <>
inline constexpr bool is_half<decltype(0.0f16)> = true;
#endif
#if defined(__STDCPP_BFLOAT16_T__)
template <>
inline constexpr bool is_brain<decltype(0.0bf16)> = true;
#endif

template <class T>
inline constexpr bool is_integer =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && std::numeric_limits<T>::digits <= 64;
template <class T>
inline constexpr bool is_float =
    std::is_floating_point_v<T> && !is_half<T> && !is_brain<T> &&
    (std::numeric_limits<T>::digits == 24 || std::numeric_limits<T>::digits == 53);

}  // namespace detail

/// The dtype of a C++ type: dtype_of<float>::value is ab::float32. Covers bool, std::byte, every integer up
/// to 64 bits, float, double, _Float16, the types of <stdfloat>, and std::complex. Specialise it for an
/// element type of your own; a type without `value` is none.
template <class T, class = void>
struct dtype_of {};

/// bool.
template <>
struct dtype_of<bool> {
  static constexpr dtype value = bool_;  ///< Its dtype.
};

/// std::byte: uint8.
template <>
struct dtype_of<std::byte> {
  static constexpr dtype value = uint8;  ///< Its dtype.
};

/// Integers, characters among them, by sign and size.
template <class T>
struct dtype_of<T, std::enable_if_t<detail::is_integer<T>>> {
  /// Its dtype.
  static constexpr dtype value{std::is_signed_v<T> ? int8.code() : uint8.code(), sizeof(T) * 8};
};

/// float, double and what has their format.
template <class T>
struct dtype_of<T, std::enable_if_t<detail::is_float<T>>> {
  static constexpr dtype value{float32.code(), sizeof(T) * 8};  ///< Its dtype.
};

/// _Float16 and std::float16_t.
template <class T>
struct dtype_of<T, std::enable_if_t<detail::is_half<T>>> {
  static constexpr dtype value = float16;  ///< Its dtype.
};

/// std::bfloat16_t.
template <class T>
struct dtype_of<T, std::enable_if_t<detail::is_brain<T>>> {
  static constexpr dtype value = bfloat16;  ///< Its dtype.
};

/// std::complex of a float.
template <class T>
struct dtype_of<std::complex<T>, std::enable_if_t<detail::is_float<T> || detail::is_half<T>>> {
  static constexpr dtype value{complex64.code(), sizeof(T) * 16};  ///< Its dtype.
};

/// The dtype of a C++ type, const or not.
template <class T>
inline constexpr dtype dtype_v = dtype_of<std::remove_cv_t<T>>::value;

namespace detail {

template <class T, class = void>
inline constexpr bool is_element = false;
template <class T>
inline constexpr bool is_element<T, std::void_t<decltype(dtype_of<std::remove_cv_t<T>>::value)>> = true;

inline ab_error fresh_error() noexcept {
  ab_error native;
  native.struct_size = sizeof native;
  native.code = AB_OK;
  native.native_code = 0;
  native.message[0] = '\0';
  return native;
}

}  // namespace detail

/// Reads the name of a dtype ("bfloat16"), a typestr ("<f4") or a PEP 3118 format ("Zd"), or says why not.
inline result<dtype> try_parse_dtype(const std::string& text) {
  DLDataType native{0, 0, 0};
  ab_error failure = detail::fresh_error();
  if (ab_dtype_parse(text.c_str(), &native, &failure) != AB_OK) return error(failure);
  return dtype(native);
}

// ---- devices ------------------------------------------------------------------------------------------

/// Where memory is: a DLDevice that compares.
class device {
 public:
  /// A DLPack device type (kDLCUDA) and the number of the device.
  constexpr explicit device(std::int32_t type, std::int32_t id = 0) noexcept : type_(type), id_(id) {}

  /// The same as DLPack's struct.
  constexpr device(DLDevice native) noexcept
      : device(static_cast<std::int32_t>(native.device_type), native.device_id) {}

  /// As DLPack's struct.
  constexpr operator DLDevice() const noexcept { return DLDevice{static_cast<DLDeviceType>(type_), id_}; }

  /// DLPack's number of the kind of device: kDLCPU and so on.
  constexpr std::int32_t type() const noexcept { return type_; }

  /// The number of the device.
  constexpr std::int32_t id() const noexcept { return id_; }

  /// Whether type and id are equal.
  friend constexpr bool operator==(device a, device b) noexcept {
    return a.type_ == b.type_ && a.id_ == b.id_;
  }

  /// Whether type or id differ.
  friend constexpr bool operator!=(device a, device b) noexcept { return !(a == b); }

 private:
  std::int32_t type_, id_;
};

/// The host's memory.
inline constexpr device cpu{kDLCPU};

/// Host memory that CUDA has pinned.
inline constexpr device cuda_host{kDLCUDAHost};

/// Memory of CUDA that host and device read.
inline constexpr device cuda_managed{13};

/// A CUDA device.
constexpr device cuda(std::int32_t id = 0) noexcept { return device(kDLCUDA, id); }

/// An OpenCL device.
constexpr device opencl(std::int32_t id = 0) noexcept { return device(kDLOpenCL, id); }

// ---- extents and strides ------------------------------------------------------------------------------

/// Extents or strides that belong to something else: a random-access range of std::int64_t, valid as long as
/// the tensor or view that it came from.
class dims_view {
 public:
  /// None.
  constexpr dims_view() noexcept = default;

  /// `size` numbers.
  constexpr dims_view(const std::int64_t* data, std::size_t size) noexcept : data_(data), size_(size) {}

  /// The first number.
  constexpr const std::int64_t* data() const noexcept { return data_; }

  /// How many there are.
  constexpr std::size_t size() const noexcept { return size_; }

  /// Whether there are none.
  constexpr bool empty() const noexcept { return size_ == 0; }

  /// The first number.
  constexpr const std::int64_t* begin() const noexcept { return data_; }

  /// Behind the last number.
  constexpr const std::int64_t* end() const noexcept { return data_ + size_; }

  /// Number `axis`, which must be less than size().
  constexpr std::int64_t operator[](std::size_t axis) const noexcept { return data_[axis]; }

  /// Whether all numbers are equal.
  friend constexpr bool operator==(dims_view a, dims_view b) noexcept {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (a.data_[i] != b.data_[i]) return false;
    }
    return true;
  }

  /// Whether some number differs.
  friend constexpr bool operator!=(dims_view a, dims_view b) noexcept { return !(a == b); }

 private:
  const std::int64_t* data_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail {

// Data and size of a range whose elements are what `Is` wants.
template <class R, class = void>
inline constexpr bool is_list_of_integers = false;
template <class R>
inline constexpr bool is_list_of_integers<
    R, std::void_t<decltype(std::declval<const R&>().size()), decltype(*std::declval<const R&>().data())>> =
    std::is_integral_v<std::decay_t<decltype(*std::declval<const R&>().data())>>;

}  // namespace detail

/// Extents or strides: {2, 3}, or anything with data() and size() over integers. Holds up to eight without
/// allocating.
class dims {
 public:
  /// None.
  dims() noexcept = default;

  /// These numbers, of any integer types.
  template <class... I, class = std::enable_if_t<(sizeof...(I) > 0) && (std::is_integral_v<I> && ...)>>
  dims(I... numbers) {
    const std::array<std::int64_t, sizeof...(I)> all{static_cast<std::int64_t>(numbers)...};
    assign(all.data(), all.size());
  }

  /// The numbers of a vector, an array, a span, a dims_view.
  template <class R, class = std::enable_if_t<detail::is_list_of_integers<R>>, class = void>
  dims(const R& numbers) {
    assign(numbers.data(), numbers.size());
  }

  /// `size` numbers at `data`.
  dims(const std::int64_t* data, std::size_t size) { assign(data, size); }

  /// The first number.
  const std::int64_t* data() const noexcept { return many_.empty() ? few_.data() : many_.data(); }

  /// How many there are.
  std::size_t size() const noexcept { return size_; }

  /// All of them; valid as long as this object.
  operator dims_view() const noexcept { return {data(), size_}; }

 private:
  template <class I>
  void assign(const I* numbers, std::size_t size) {
    size_ = size;
    if (size > few_.size()) many_.resize(size);
    std::int64_t* const to = many_.empty() ? few_.data() : many_.data();
    for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<std::int64_t>(numbers[i]);
  }

  std::array<std::int64_t, 8> few_{};
  std::vector<std::int64_t> many_;
  std::size_t size_ = 0;
};

// ---- contexts -----------------------------------------------------------------------------------------

/// Worker threads, staging buffers and device queues with limits of their own. Move-only; may be shared
/// between threads; what was made with it lives on after it. Without one, calls use the process-wide default.
class context {
 public:
  /// Host copies use at most `num_threads` (0: as many as the process may run on), and at most
  /// `staging_bytes` of pinned memory a device (0: the default).
  static result<context> try_make(std::uint32_t num_threads, std::uint64_t staging_bytes = 0) {
    const ab_context_options options{sizeof(ab_context_options), num_threads, staging_bytes};
    ab_context* made = nullptr;
    ab_error failure = detail::fresh_error();
    if (ab_context_create(&options, &made, &failure) != AB_OK) return ab::error(failure);
    return context(made);
  }

#if AB_CXX_EXCEPTIONS
  /// As try_make; throws ab::error.
  explicit context(std::uint32_t num_threads, std::uint64_t staging_bytes = 0)
      : context(try_make(num_threads, staging_bytes).value()) {}
#endif

  /// The C handle; NULL once it was moved from.
  ab_context* get() const noexcept { return native_.get(); }

 private:
  struct release {
    void operator()(ab_context* native) const noexcept { ab_context_release(native); }
  };

  explicit context(ab_context* made) noexcept : native_(made) {}

  std::unique_ptr<ab_context, release> native_;
};

/// A backend that is built in or registered.
struct backend {
  std::string name;    ///< "host", "cuda", "opencl", or a registered backend's.
  bool available;      ///< Whether it can be used now.
  std::string detail;  ///< Version and library when available, else why it is not.
};

/// A device that a backend can use.
struct device_info {
  ab::device device;           ///< Its DLPack pair.
  std::string name;            ///< The maker's name for it.
  std::string backend;         ///< The name of its backend.
  std::uint64_t total_memory;  ///< Bytes; 0: unknown.
  std::uint64_t free_memory;   ///< Bytes that are free or can be freed at once; 0: unknown.
};

namespace detail {

template <class Entry, class List>
result<std::vector<Entry>> listed(List list, const context* in) {
  ab_context* const native = in ? in->get() : nullptr;
  std::vector<Entry> entries;
  for (std::size_t count = 0;; entries.resize(count)) {
    for (Entry& entry : entries) entry.struct_size = sizeof(Entry);
    ab_error failure = fresh_error();
    const std::size_t room = entries.size();
    if (list(native, room == 0 ? nullptr : entries.data(), room, &count, &failure) != AB_OK)
      return error(failure);
    if (count <= room) {
      entries.resize(count);
      return entries;
    }
  }
}

}  // namespace detail

/// The backends that are built in or registered, usable or not. A NULL context is the default one.
inline result<std::vector<backend>> try_backends(const context* in = nullptr) {
  auto entries = detail::listed<ab_backend_info>(ab_list_backends, in);
  if (!entries) return *entries.error();
  std::vector<backend> all;
  for (const ab_backend_info& entry : *entries)
    all.push_back({entry.name, entry.available != 0, entry.detail});
  return all;
}

/// The devices of the usable backends, whose drivers this starts. A NULL context is the default one.
inline result<std::vector<device_info>> try_devices(const context* in = nullptr) {
  auto entries = detail::listed<ab_device_info>(ab_list_devices, in);
  if (!entries) return *entries.error();
  std::vector<device_info> all;
  for (const ab_device_info& entry : *entries) {
    all.push_back({entry.device, entry.name, entry.backend, entry.total_memory, entry.free_memory});
  }
  return all;
}

// ---- what a result must be ----------------------------------------------------------------------------

/// The order of a result's elements.
enum class layout : std::int32_t {
  any = AB_LAYOUT_ANY,    ///< Zero copy keeps the strides; a new tensor is row-major.
  c = AB_LAYOUT_C,        ///< Row-major.
  f = AB_LAYOUT_F,        ///< Column-major.
  keep = AB_LAYOUT_KEEP,  ///< Zero copy keeps the strides; a new tensor is dense in the source's own order.
};

/// When to copy.
enum class copy_policy : std::int32_t {
  if_needed = AB_COPY_IF_NEEDED,  ///< Only where zero copy is impossible.
  always = AB_COPY_ALWAYS,        ///< Always make new memory.
  never = AB_COPY_NEVER,          ///< AB_E_COPY_REQUIRED rather than a copy.
};

/// Which casts are allowed.
enum class casting : std::int32_t {
  unsafe = AB_CAST_UNSAFE,        ///< Any.
  same_kind = AB_CAST_SAME_KIND,  ///< As numpy.can_cast(..., 'same_kind').
  safe = AB_CAST_SAFE,            ///< As numpy.can_cast(..., 'safe').
  exact = AB_CAST_EXACT,          ///< Any, but AB_E_LOSSY if a value is not the same number after it.
};

/// What else a conversion shall do.
enum class option : std::uint32_t {
  async = AB_CONVERT_ASYNC,                    ///< Return once the work is ordered on the dst_stream.
  saturate = AB_CONVERT_SATURATE,              ///< Numbers beyond the new dtype's range become its limits.
  writable = AB_CONVERT_WRITABLE,              ///< A read-only source is copied.
  verify_pointer = AB_CONVERT_VERIFY_POINTER,  ///< Check the declared device against the driver first.
};

/// Importers that must all take the result without a copy of their own.
enum class consumer : std::uint32_t {
  numpy = AB_CONSUMER_NUMPY,                  ///< numpy.from_dlpack.
  torch = AB_CONSUMER_TORCH,                  ///< torch.from_dlpack.
  jax = AB_CONSUMER_JAX,                      ///< jax.dlpack.from_dlpack.
  tensorflow = AB_CONSUMER_TENSORFLOW,        ///< tf.experimental.dlpack.from_dlpack.
  cupy = AB_CONSUMER_CUPY,                    ///< cupy.from_dlpack.
  numba = AB_CONSUMER_NUMBA,                  ///< numba.cuda.as_cuda_array.
  pyclesperanto = AB_CONSUMER_PYCLESPERANTO,  ///< pyclesperanto's OpenCL arrays.
  paddle = AB_CONSUMER_PADDLE,                ///< paddle.utils.dlpack.from_dlpack.
  mlx = AB_CONSUMER_MLX,                      ///< mlx.core.array.
  tvm_ffi = AB_CONSUMER_TVM_FFI,              ///< tvm_ffi.from_dlpack.
};

/// Bytes, a power of two, that the first element's address must be a multiple of.
struct alignment {
  std::uint32_t bytes;  ///< Up to 1 GiB.
};

/// The stream after which the source is ready, in the array API's numbers; OpenCL: a cl_command_queue.
struct src_stream {
  /// A number: 1 CUDA's legacy default, 2 its per-thread default, -1 no ordering.
  constexpr explicit src_stream(std::int64_t stream) noexcept : number(stream) {}

  /// A cudaStream_t or a cl_command_queue.
  explicit src_stream(const void* stream) noexcept
      : number(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(stream))) {}

  std::int64_t number;  ///< As ab_convert_options.src_stream.
};

/// The stream on which the result is used, numbered alike.
struct dst_stream {
  /// A number: 1 CUDA's legacy default, 2 its per-thread default, -1 no ordering.
  constexpr explicit dst_stream(std::int64_t stream) noexcept : number(stream) {}

  /// A cudaStream_t or a cl_command_queue.
  explicit dst_stream(const void* stream) noexcept
      : number(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(stream))) {}

  std::int64_t number;  ///< As ab_convert_options.dst_stream.
};

namespace detail {

// What `to` is made of: one setter a kind of wish.
class wishes {
 public:
  /// Wishes for a dtype.
  void set(dtype wish) noexcept { native_.dtype = wish; }

  /// Wishes for a device.
  void set(device wish) noexcept { native_.device = wish; }

  /// Wishes for an order of the elements.
  void set(layout wish) noexcept { native_.layout = static_cast<std::int32_t>(wish); }

  /// Says when to copy.
  void set(copy_policy wish) noexcept { native_.copy = static_cast<std::int32_t>(wish); }

  /// Says which casts are allowed.
  void set(casting wish) noexcept { native_.casting = static_cast<std::int32_t>(wish); }

  /// Adds an option.
  void set(option wish) noexcept { native_.flags |= static_cast<std::uint32_t>(wish); }

  /// Adds an importer that must take the result.
  void set(consumer wish) noexcept { native_.consumers |= static_cast<std::uint32_t>(wish); }

  /// Wishes for an alignment.
  void set(alignment wish) noexcept { native_.alignment = wish.bytes; }

  /// Names the stream after which the source is ready.
  void set(src_stream wish) noexcept { native_.src_stream = wish.number; }

  /// Names the stream on which the result is used.
  void set(dst_stream wish) noexcept { native_.dst_stream = wish.number; }

  /// Names where results come from. The struct must live as long as this object, what it points to as long as
  /// the results; NULL: the library's own memory.
  void set(const ab_allocator* wish) noexcept { native_.allocator = wish; }

  /// Works in a context, which must live as long as this object is used.
  void set(const ab::context& in) noexcept { context_ = &in; }

  /// The C struct, for what has no setter.
  ab_convert_options& native() noexcept { return native_; }

  /// The C struct.
  const ab_convert_options& native() const noexcept { return native_; }

  /// The context; NULL: the default one.
  const ab::context* context() const noexcept { return context_; }

 private:
  ab_convert_options native_{sizeof(ab_convert_options),
                             0,
                             {static_cast<DLDeviceType>(0), 0},
                             {0, 0, 0},
                             0,
                             0,
                             0,
                             0,
                             0,
                             0,
                             0,
                             nullptr};
  const ab::context* context_ = nullptr;
};

}  // namespace detail

/// What a result must be, in any order: ab::to{ab::float32, ab::cuda(0), ab::layout::c,
/// ab::consumer::torch}. What is not named is kept, zero copy when possible. The wishes are a dtype, a
/// device, a layout, a copy_policy, a casting, options, consumers, an alignment, a src_stream, a dst_stream,
/// a const ab_allocator* and a context.
class to : public detail::wishes {
 public:
  /// Keeps everything, zero copy when possible.
  to() noexcept = default;

  /// These wishes.
  template <class... W,
            class = decltype((std::declval<detail::wishes&>().set(std::declval<const W&>()), ..., 0))>
  to(const W&... all) noexcept {
    (set(all), ...);
  }
};

// ---- what the library answers -------------------------------------------------------------------------

/// What a call did, or would do; the fields are those of ab_report.
struct report : ab_report {
  /// Nothing yet.
  report() noexcept : ab_report{sizeof(ab_report), AB_ROUTE_ZERO_COPY, 0, 0, 0, 0, 0, 0} {}

  /// Whether the result is the source's own memory.
  bool zero_copy() const noexcept { return route == AB_ROUTE_ZERO_COPY; }

  /// One English line: "upload, 1 pass, 12.0 MiB read, 6.0 MiB written (device, dtype)".
  std::string describe() const {
    std::string text(ab_report_describe(this, nullptr, 0) + 1, '\0');
    text.resize(ab_report_describe(this, &text[0], text.size()));
    return text;
  }
};

/// What a tensor is; the fields are those of ab_tensor_info.
struct info : ab_tensor_info {
  /// Nothing yet.
  info() noexcept
      : ab_tensor_info{
            sizeof(ab_tensor_info), 0, {static_cast<DLDeviceType>(0), 0}, {0, 0, 0}, 0, 0, 0, 0, 0, 0, 0} {}

  /// Whether a flag, AB_TENSOR_*, is set.
  bool has(std::uint32_t flag) const noexcept { return (flags & flag) != 0; }

  /// Compact row-major.
  bool c_contiguous() const noexcept { return has(AB_TENSOR_C_CONTIGUOUS); }

  /// Compact column-major.
  bool f_contiguous() const noexcept { return has(AB_TENSOR_F_CONTIGUOUS); }

  /// It must not be written to.
  bool read_only() const noexcept { return has(AB_TENSOR_READ_ONLY); }

  /// The host may read it, by its declared device.
  bool host_readable() const noexcept { return has(AB_TENSOR_HOST_READABLE); }

  /// Whether an importer takes it without a copy as it stands.
  bool accepted(consumer by) const noexcept { return (accepted_by & static_cast<std::uint32_t>(by)) != 0; }
};

/// What the drivers know of an address; the fields are those of ab_pointer_info.
struct pointer_info : ab_pointer_info {
  /// Nothing yet.
  pointer_info() noexcept
      : ab_pointer_info{sizeof(ab_pointer_info), AB_MEMORY_UNKNOWN, {static_cast<DLDeviceType>(0), 0}, 0, 0} {
  }
};

/// Flags of tensors: DLPACK_FLAG_BITMASK_*.
inline constexpr std::uint64_t flag_read_only = 1, flag_is_copied = 2, flag_subbyte_padded = 4;

// ---- views --------------------------------------------------------------------------------------------

class tensor;
template <class T>
class typed_view;

namespace detail {

// Why an object can be given to no operation.
struct problem {
  ab_status status;
  const char* message;
};
inline constexpr problem no_tensor{AB_E_INVALID_ARGUMENT,
                                   "the tensor is empty: it was moved from, released or never filled"};
inline constexpr problem other_version{AB_E_VERSION, "the tensor's DLPack major version is not 1"};
inline constexpr problem strides_differ{AB_E_INVALID_ARGUMENT, "there are not as many strides as extents"};
inline constexpr problem not_strided{AB_E_UNSUPPORTED_LAYOUT, "the mdspan's layout has no strides"};
inline constexpr problem no_context{AB_E_INVALID_ARGUMENT, "the context is empty: it was moved from"};

// Pointer and element type of an object with data() and size().
template <class C, class = void>
struct container_of {
  using element = void;
};
template <class C>
struct container_of<C,
                    std::void_t<decltype(std::declval<C&>().data()), decltype(std::declval<C&>().size())>> {
  using element = std::remove_pointer_t<decltype(std::declval<C&>().data())>;
};

// Spans may be temporaries: their memory is not theirs.
template <class C, class = void>
inline constexpr bool is_span = false;
template <class C>
inline constexpr bool is_span<C, std::void_t<decltype(std::declval<C&>().subspan(0))>> = true;

template <class C>
inline constexpr bool is_container = is_element<typename container_of<std::remove_reference_t<C>>::element> &&
                                     (std::is_lvalue_reference_v<C> || is_span<std::remove_reference_t<C>>);

template <class M, class = void>
inline constexpr bool is_mdspan = false;
template <class M>
inline constexpr bool
    is_mdspan<M, std::void_t<typename M::element_type, typename M::extents_type, typename M::mapping_type,
                             decltype(M::rank()), decltype(std::declval<const M&>().extent(0)),
                             decltype(std::declval<const M&>().stride(0)),
                             decltype(std::declval<const M&>().data_handle())>> =
        std::is_convertible_v<decltype(std::declval<const M&>().data_handle()), typename M::element_type*> &&
        is_element<typename M::element_type>;

template <class M, class = void>
inline constexpr bool may_lack_strides = false;
template <class M>
inline constexpr bool may_lack_strides<M, std::void_t<decltype(std::declval<const M&>().is_strided())>> =
    true;

}  // namespace detail

/// A look at memory that belongs to somebody else, who keeps it alive: a tensor, a vector, an array, a span,
/// an mdspan, or a pointer with extents. Copies look at the same memory. Its extents and strides are its own,
/// unless it was made of a tensor or a DLTensor.
class view {
 public:
  /// Of nothing: what a moved-from tensor gives.
  view() noexcept : view(detail::no_tensor) {}

  /// `data` with extents and, unless it is compact row-major, strides in elements. Memory of the host. Of a
  /// pointer to const: read-only.
  template <class T, class = std::enable_if_t<detail::is_element<T>>>
  view(T* data, const dims& shape, const dims& strides = {})
      : view(const_cast<std::remove_cv_t<T>*>(data), dtype_v<T>, shape, strides, cpu,
             std::is_const_v<T> ? flag_read_only : 0) {}

  /// `data`, or a device's handle for it, as elements of `type`; `flags` are ab::flag_*.
  view(void* data, dtype type, const dims& shape, const dims& strides = {}, device on = cpu,
       std::uint64_t flags = 0)
      : tensor_{data, on, static_cast<std::int32_t>(shape.size()), type, nullptr, nullptr, 0},
        flags_(flags),
        owns_dims_(true),
        shape_(shape),
        strides_(strides),
        problem_(strides.size() == 0 || strides.size() == shape.size() ? nullptr : &detail::strides_differ) {}

  /// All of a vector, an array, or a span, of one axis.
  template <class C, class = std::enable_if_t<detail::is_container<C>>, class = void>
  view(C&& container) : view(container.data(), dims(container.size())) {}

  /// All of an array of arrays.
  template <class T, std::size_t N,
            class = std::enable_if_t<detail::is_element<std::remove_all_extents_t<T>>>>
  view(T (&array)[N]) : view(first(array), extents<T[N]>(std::make_index_sequence<std::rank_v<T[N]>>())) {}

  /// What an mdspan, or any type with its members, looks at; its layout must have strides.
  template <class M, class = std::enable_if_t<detail::is_mdspan<M>>, class = void, class = void>
  view(const M& span) : view(strided(span) ? of_mdspan(span) : view(detail::not_strided)) {}

  /// What a DLTensor looks at. The library checks it at the first use.
  view(const DLTensor& native, std::uint64_t flags = 0) noexcept : tensor_(native), flags_(flags) {}

  /// What a managed tensor holds.
  view(const struct DLManagedTensorVersioned& managed) noexcept
      : view(managed.version.major == 1 ? view(managed.dl_tensor, managed.flags)
                                        : view(detail::other_version)) {}

  /// What a tensor holds; of an empty one, nothing.
  view(const tensor& owner) noexcept;

  /// What a typed view looks at.
  template <class T>
  view(const typed_view<T>& typed);

  /// Its elements as T, or why they cannot be: another dtype, a device that the host cannot read,
  /// read-only memory for a T that is not const, or an address that T cannot have.
  template <class T>
  result<typed_view<T>> try_as() const;

  /// As DLPack's struct, which points into this view.
  DLTensor native() const noexcept {
    DLTensor native = tensor_;
    if (owns_dims_) {
      native.shape = const_cast<std::int64_t*>(shape_.data());
      native.strides = strides_.size() == 0 ? nullptr : const_cast<std::int64_t*>(strides_.data());
    }
    return native;
  }

  /// DLPACK_FLAG_BITMASK_*.
  std::uint64_t flags() const noexcept { return flags_; }

  /// Why no operation takes it; NULL if it may be tried.
  const detail::problem* problem() const noexcept { return problem_; }

 private:
  explicit view(const detail::problem& why) noexcept : problem_(&why) {}

  template <class T>
  static auto first(T& array) noexcept {
    if constexpr (std::is_array_v<T>) {
      return first(array[0]);
    } else {
      return &array;
    }
  }

  template <class A, std::size_t... Axis>
  static dims extents(std::index_sequence<Axis...>) {
    return dims(std::extent_v<A, Axis>...);
  }

  template <class M>
  static bool strided(const M& span) {
    if constexpr (detail::may_lack_strides<M>) {
      return span.is_strided();
    } else {
      return true;
    }
  }

  template <class M>
  static view of_mdspan(const M& span) {
    std::vector<std::int64_t> shape, strides;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(M::rank()); ++axis) {
      const auto at = static_cast<decltype(M::rank())>(axis);
      shape.push_back(static_cast<std::int64_t>(span.extent(at)));
      strides.push_back(static_cast<std::int64_t>(span.stride(at)));
    }
    typename M::element_type* const data = span.data_handle();
    return view(data, shape, strides);
  }

  DLTensor tensor_{nullptr, cpu, 0, dtype(), nullptr, nullptr, 0};
  std::uint64_t flags_ = 0;
  bool owns_dims_ = false;
  dims shape_, strides_;
  const detail::problem* problem_ = nullptr;
};

namespace detail {

inline error because(const problem& why) { return error(why.status, why.message); }

// The default context where none is named.
inline ab_context* native_context(const to& wish) noexcept {
  return wish.context() ? wish.context()->get() : nullptr;
}

// Why a call cannot be made at all.
inline const problem* obstacle(const problem* of_source, const to& wish) noexcept {
  if (of_source) return of_source;
  return wish.context() && !wish.context()->get() ? &no_context : nullptr;
}

}  // namespace detail

/// What a tensor is, and who would take it as it stands; reads no data and asks no driver.
inline result<info> try_detect(const view& source) {
  if (source.problem()) return detail::because(*source.problem());
  const DLTensor native = source.native();
  info found;
  ab_error failure = detail::fresh_error();
  if (ab_detect(&native, source.flags(), &found, &failure) != AB_OK) return error(failure);
  return found;
}

/// What the drivers that are already initialised know of an address. Never a cl_mem.
inline result<pointer_info> try_detect_pointer(const void* address) {
  pointer_info found;
  ab_error failure = detail::fresh_error();
  if (ab_detect_pointer(nullptr, address, &found, &failure) != AB_OK) return error(failure);
  return found;
}

/// Elements of a dtype that has been checked, where the host can read them: `values(row, column)`. Valid as
/// long as the memory that it was made of. A const T for read-only tensors.
template <class T>
class typed_view {
 public:
  using element_type = T;                  ///< T.
  using value_type = std::remove_cv_t<T>;  ///< T without const.

  /// The element at index 0 of every axis; NULL if there may be none.
  T* data() const noexcept { return data_; }

  /// Number of axes.
  std::size_t ndim() const noexcept { return shape_.size(); }

  /// Extents; valid as long as this object.
  dims_view shape() const noexcept { return shape_; }

  /// Strides in elements; valid as long as this object.
  dims_view strides() const noexcept { return strides_; }

  /// Product of the extents.
  std::size_t num_elements() const noexcept { return count_; }

  /// Whether data()[0] to data()[num_elements() - 1] are the elements, row-major.
  bool is_contiguous() const noexcept { return contiguous_; }

  /// The element at an index for each axis. Unchecked, as operator[] of a vector.
  template <class... I, class = std::enable_if_t<(std::is_integral_v<I> && ...)>>
  T& operator()(I... index) const noexcept {
    const std::int64_t* stride = strides_.data();
    std::int64_t offset = 0;
    static_cast<void>(stride);  // unused without axes
    ((offset += static_cast<std::int64_t>(index) * *stride++), ...);
    return data_[offset];
  }

  /// The element at an index for each axis, or AB_E_INVALID_ARGUMENT: not as many as axes, or out of range.
  template <class... I, class = std::enable_if_t<(std::is_integral_v<I> && ...)>>
  result<T*> try_at(I... index) const {
    const std::array<std::int64_t, sizeof...(I)> all{static_cast<std::int64_t>(index)...};
    if (all.size() != ndim()) {
      return ab::error(AB_E_INVALID_ARGUMENT, "there are " + std::to_string(all.size()) +
                                                  " indices: ndim is " + std::to_string(ndim()));
    }
    for (std::size_t axis = 0; axis < ndim(); ++axis) {
      const std::int64_t at = all.data()[axis], extent = shape()[axis];
      if (at < 0 || at >= extent) {
        return ab::error(AB_E_INVALID_ARGUMENT, "index[" + std::to_string(axis) + "] is " +
                                                    std::to_string(at) + ": expected 0 or more and below " +
                                                    std::to_string(extent));
      }
    }
    return &(*this)(index...);
  }

#if AB_CXX_EXCEPTIONS
  /// As try_at; throws ab::error.
  template <class... I, class = std::enable_if_t<(std::is_integral_v<I> && ...)>>
  T& at(I... index) const {
    return *try_at(index...).value();
  }
#endif

  /// Calls f(element) for every element, row-major, whatever the strides.
  template <class F>
  void for_each(F&& f) const {
    std::vector<std::int64_t> index(ndim(), 0);
    T* at = data_;
    for (std::size_t i = 0; i < count_; ++i) {
      f(*at);
      if (i + 1 == count_) break;
      for (std::size_t axis = ndim(); axis-- > 0;) {
        if (++index[axis] < shape()[axis]) {
          at += strides()[axis];
          break;
        }
        at -= strides()[axis] * (index[axis] - 1);
        index[axis] = 0;
      }
    }
  }

 private:
  friend class view;

  typed_view(T* data, const DLTensor& native, const info& found)
      : data_(data),
        shape_(native.shape, static_cast<std::size_t>(native.ndim)),
        count_(static_cast<std::size_t>(found.num_elements)),
        contiguous_(found.c_contiguous()) {
    std::vector<std::int64_t> strides(shape_.size());
    // What is never stepped over may be garbage: it gets what a compact tensor has.
    std::int64_t compact = 1;
    for (std::size_t axis = strides.size(); axis-- > 0;) {
      const bool stepped = count_ > 0 && native.shape[axis] > 1;
      strides[axis] = native.strides && stepped ? native.strides[axis] : compact;
      if (count_ > 0) compact *= native.shape[axis];
    }
    strides_ = strides;
  }

  T* data_;
  dims shape_, strides_;
  std::size_t count_;
  bool contiguous_;
};

template <class T>
view::view(const typed_view<T>& typed) : view(typed.data(), dims(typed.shape()), dims(typed.strides())) {}

template <class T>
result<typed_view<T>> view::try_as() const {
  static_assert(detail::is_element<T>, "ab::dtype_of<T> says what T is in DLPack");
  result<info> found = try_detect(*this);
  if (!found) return *found.error();
  const dtype have = found->dtype, want = dtype_v<T>;
  if (have != want) {
    return ab::error(AB_E_UNSUPPORTED_DTYPE, "dtype is " + have.name() + ": a typed_view of " + want.name() +
                                                 " needs " + want.name());
  }
  if (!found->host_readable()) {
    return ab::error(AB_E_UNSUPPORTED_DEVICE,
                     "device is {" + std::to_string(static_cast<int>(found->device.device_type)) + ", " +
                         std::to_string(found->device.device_id) +
                         "}: a typed_view needs memory that the host reads, which ab::to{ab::cpu} makes");
  }
  if (found->read_only() && !std::is_const_v<T>) {
    return ab::error(AB_E_READ_ONLY, "the tensor is read-only: a typed_view of const elements takes it");
  }
  if (found->num_elements > 0 && found->alignment < alignof(T)) {
    return ab::error(AB_E_UNSUPPORTED_LAYOUT,
                     "the first element is aligned to " + std::to_string(found->alignment) +
                         " bytes: a typed_view of " + want.name() + " needs " + std::to_string(alignof(T)));
  }
  const DLTensor tensor = native();
  char* const data = static_cast<char*>(tensor.data);
  return typed_view<T>(reinterpret_cast<T*>(data == nullptr ? nullptr : data + tensor.byte_offset), tensor,
                       *found);
}

// ---- tensors ------------------------------------------------------------------------------------------

/// Owns a DLPack tensor, and calls its deleter when it is destroyed. Move-only. Empty once it was moved from,
/// released, reset or converted.
class tensor {
 public:
  /// Empty.
  tensor() noexcept = default;

  /// Takes over a managed tensor of any producer, as a capsule named "dltensor_versioned" holds one. NULL:
  /// empty.
  explicit tensor(struct DLManagedTensorVersioned* managed) noexcept : native_(managed) {}

  /// Whether there is a tensor.
  explicit operator bool() const noexcept { return native_ != nullptr; }

  /// The managed tensor, which stays this object's; NULL if empty.
  struct DLManagedTensorVersioned* get() const noexcept { return native_.get(); }

  /// Hands the managed tensor to the caller, to whom its deleter then is: for any consumer of DLPack.
  [[nodiscard]] struct DLManagedTensorVersioned* release() noexcept { return native_.release(); }

  /// Calls the deleter now, and leaves this empty.
  void reset() noexcept { native_.reset(); }

  /// Number of axes; 0 if empty.
  std::size_t ndim() const noexcept { return shape().size(); }

  /// Extents; valid as long as the tensor.
  dims_view shape() const noexcept { return list(&DLTensor::shape); }

  /// Strides in elements; none where the tensor has none, which is compact row-major.
  dims_view strides() const noexcept { return list(&DLTensor::strides); }

  /// The dtype; none if empty.
  ab::dtype dtype() const noexcept { return readable() ? ab::dtype(readable()->dtype) : ab::dtype(); }

  /// Where the data is; device type 0 if empty.
  ab::device device() const noexcept { return readable() ? ab::device(readable()->device) : ab::device(0); }

  /// The address of the first element, or the device's handle for the memory; NULL if empty.
  void* data() const noexcept {
    const DLTensor* const native = readable();
    if (!native || !native->data) return nullptr;
    const std::int32_t type = device().type();
    const bool is_handle =
        type == kDLOpenCL || type == 7 || type == 8 || type == 15;  // Vulkan, Metal, WebGPU
    return is_handle ? native->data : static_cast<char*>(native->data) + native->byte_offset;
  }

  /// DLPACK_FLAG_BITMASK_*.
  std::uint64_t flags() const noexcept { return readable() ? native_->flags : 0; }

  /// Whether it must not be written to.
  bool read_only() const noexcept { return (flags() & flag_read_only) != 0; }

  /// Whether the library copied to make it, so that nobody else has its memory.
  bool is_copied() const noexcept { return (flags() & flag_is_copied) != 0; }

  /// Its elements as T, or why they cannot be; see view::try_as.
  template <class T>
  result<typed_view<T>> try_as() const {
    return view(*this).try_as<T>();
  }

#if AB_CXX_EXCEPTIONS
  /// As try_as; throws ab::error.
  template <class T>
  typed_view<T> as() const {
    return try_as<T>().value();
  }
#endif

 private:
  friend class view;

  struct deleter {
    void operator()(struct DLManagedTensorVersioned* managed) const noexcept { ab_release(managed); }
  };

  // Of another major version nothing but the deleter may be touched.
  const DLTensor* readable() const noexcept {
    return native_ && native_->version.major == 1 ? &native_->dl_tensor : nullptr;
  }

  dims_view list(std::int64_t* DLTensor::* numbers) const noexcept {
    const DLTensor* const native = readable();
    if (!native || native->ndim <= 0 || !(native->*numbers)) return {};
    return {native->*numbers, static_cast<std::size_t>(native->ndim)};
  }

  std::unique_ptr<struct DLManagedTensorVersioned, deleter> native_;
};

inline view::view(const tensor& owner) noexcept : view(owner ? view(*owner.get()) : view()) {}

namespace detail {

struct legacy_deleter {
  void operator()(DLManagedTensor* managed) const noexcept { ab_release_legacy(managed); }
};

}  // namespace detail

/// Owns a tensor from before DLPack 1.0, as a capsule named "dltensor" holds one.
using legacy_tensor = std::unique_ptr<DLManagedTensor, detail::legacy_deleter>;

/// Converts a tensor. On success `source` is taken over, and so empty: a zero-copy result keeps it alive,
/// after a copy it is freed. On failure it is as it was. `done` is told what was done.
inline result<tensor> try_convert(tensor&& source, const to& wish = {}, report* done = nullptr) {
  if (const detail::problem* why = detail::obstacle(source ? nullptr : &detail::no_tensor, wish))
    return detail::because(*why);
  struct DLManagedTensorVersioned* out = nullptr;
  ab_error failure = detail::fresh_error();
  if (ab_convert(detail::native_context(wish), source.get(), &wish.native(), &out, done, &failure) != AB_OK)
    return error(failure);
  static_cast<void>(source.release());
  return tensor(out);
}

/// As try_convert, of what stays the caller's: the result is always memory of its own.
inline result<tensor> try_copy(const view& source, const to& wish = {}, report* done = nullptr) {
  if (const detail::problem* why = detail::obstacle(source.problem(), wish)) return detail::because(*why);
  const DLTensor native = source.native();
  struct DLManagedTensorVersioned* out = nullptr;
  ab_error failure = detail::fresh_error();
  if (ab_copy(detail::native_context(wish), &native, source.flags(), &wish.native(), &out, done, &failure) !=
      AB_OK)
    return error(failure);
  return tensor(out);
}

/// Copies into memory that is there: any strides, dtype and device on either side, equal shapes. Of `how` the
/// options, the casting, the streams and the context count. The destination must not overlap itself or the
/// source; it is unchanged on failure, except that after AB_E_LOSSY for a value it is unspecified.
inline result<void> try_copy_into(const view& source, const view& destination, const to& how = {},
                                  report* done = nullptr) {
  if (const detail::problem* why = detail::obstacle(source.problem(), how)) return detail::because(*why);
  if (destination.problem()) return detail::because(*destination.problem());
  const DLTensor from = source.native(), into = destination.native();
  ab_error failure = detail::fresh_error();
  if (ab_copy_into(detail::native_context(how), &from, source.flags(), &into, destination.flags(),
                   &how.native(), done, &failure) != AB_OK) {
    return error(failure);
  }
  return {};
}

/// What try_convert would do, without doing it.
inline result<report> try_plan(const view& source, const to& wish = {}) {
  if (const detail::problem* why = detail::obstacle(source.problem(), wish)) return detail::because(*why);
  const DLTensor native = source.native();
  report planned;
  ab_error failure = detail::fresh_error();
  if (ab_plan(detail::native_context(wish), &native, source.flags(), &wish.native(), &planned, &failure) !=
      AB_OK)
    return error(failure);
  return planned;
}

/// A legacy tensor as a versioned one over the same memory. Takes it over on success; on failure it is as it
/// was.
inline result<tensor> try_from_legacy(legacy_tensor&& source) {
  if (!source) return detail::because(detail::no_tensor);
  struct DLManagedTensorVersioned* out = nullptr;
  ab_error failure = detail::fresh_error();
  if (ab_from_legacy(source.get(), &out, &failure) != AB_OK) return error(failure);
  static_cast<void>(source.release());
  return tensor(out);
}

/// A tensor as a legacy one over the same memory. Takes it over on success; on failure it is as it was. A
/// read-only tensor has no legacy form.
inline result<legacy_tensor> try_to_legacy(tensor&& source) {
  if (!source) return detail::because(detail::no_tensor);
  DLManagedTensor* out = nullptr;
  ab_error failure = detail::fresh_error();
  if (ab_to_legacy(source.get(), &out, &failure) != AB_OK) return error(failure);
  static_cast<void>(source.release());
  return legacy_tensor(out);
}

// ---- tensors over a program's own memory ----------------------------------------------------------------

namespace detail {

inline result<tensor> wrapped(const view& memory, void* owner, void (*release)(void*)) {
  if (memory.problem()) return because(*memory.problem());
  const DLTensor native = memory.native();
  struct DLManagedTensorVersioned* out = nullptr;
  ab_error failure = fresh_error();
  if (ab_wrap(&native, memory.flags(), owner, release, &out, &failure) != AB_OK) return error(failure);
  return tensor(out);
}

}  // namespace detail

/// A tensor over memory that is only borrowed: it must outlive the tensor and every zero-copy result of it.
inline result<tensor> try_wrap(const view& memory) { return detail::wrapped(memory, nullptr, nullptr); }

/// A tensor over memory that `owner` keeps alive: a shared_ptr, a unique_ptr, a vector, any object. An rvalue
/// is moved into the tensor, an lvalue copied; it is destroyed, on any thread, when the last that shares the
/// memory is. Its memory must stay where it is when it is moved. On failure an rvalue is given back.
template <class Owner>
result<tensor> try_wrap(const view& memory, Owner&& owner) {
  using O = std::decay_t<Owner>;
  std::unique_ptr<O> box(new (std::nothrow) O(std::forward<Owner>(owner)));
  if (!box) return error(AB_E_OUT_OF_MEMORY, "there is no memory for the owner of a tensor");
  result<tensor> made = detail::wrapped(memory, box.get(), [](void* kept) { delete static_cast<O*>(kept); });
  if (made) {
    static_cast<void>(box.release());
  } else if constexpr (!std::is_lvalue_reference_v<Owner> && std::is_assignable_v<O&, O&&>) {
    owner = std::move(*box);
  }
  return made;
}

/// A tensor of a vector, which is moved into it. On failure (the extents do not have as many elements) the
/// vector is given back.
template <class T, class A>
result<tensor> try_wrap(std::vector<T, A>&& values, const dims& shape) {
  // Their product, or more than any vector has.
  std::size_t count = 1;
  for (const std::int64_t extent : dims_view(shape)) {
    const std::size_t factor =
        extent < 0 ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(extent);
    count = factor != 0 && count > std::numeric_limits<std::size_t>::max() / factor
                ? std::numeric_limits<std::size_t>::max()
                : count * factor;
  }
  if (count != values.size()) {
    return error(AB_E_INVALID_ARGUMENT,
                 "the vector has " + std::to_string(values.size()) + " elements: the shape has " +
                     (count == std::numeric_limits<std::size_t>::max() ? "others" : std::to_string(count)));
  }
  const view memory(values.data(), shape);
  return try_wrap(memory, std::move(values));
}

/// A tensor of one axis of a vector, which is moved into it.
template <class T, class A>
result<tensor> try_wrap(std::vector<T, A>&& values) {
  const dims shape(values.size());
  return try_wrap(std::move(values), shape);
}

/// A tensor over what a unique_ptr owns, which is moved into it; on failure it is given back.
template <class T, class D>
result<tensor> try_wrap(std::unique_ptr<T, D>&& owner, const dims& shape) {
  const view memory(owner.get(), shape);
  return try_wrap(memory, std::move(owner));
}

/// A tensor over what a shared_ptr owns; the tensor shares it.
template <class T>
result<tensor> try_wrap(const std::shared_ptr<T>& owner, const dims& shape) {
  return try_wrap(view(owner.get(), shape), owner);
}

/// A tensor over `data`, which `owner` keeps alive.
template <class T, class Owner, class = std::enable_if_t<detail::is_element<T>>>
result<tensor> try_wrap(T* data, const dims& shape, Owner&& owner) {
  return try_wrap(view(data, shape), std::forward<Owner>(owner));
}

// ---- mdspan -------------------------------------------------------------------------------------------

namespace detail {

template <class M, class Index, std::size_t... Axis>
typename M::extents_type extents_of(const Index* numbers, std::index_sequence<Axis...>) {
  static_cast<void>(numbers);  // unused without axes
  return typename M::extents_type(numbers[Axis]...);
}

template <class M, class = void>
inline constexpr bool has_static_extents = false;
template <class M>
inline constexpr bool has_static_extents<M, std::void_t<decltype(M::static_extent(0))>> = true;

}  // namespace detail

/// The elements of a tensor as an M: std::mdspan, or any type with its members. Fails as view::try_as does;
/// with AB_E_INVALID_ARGUMENT where rank, static extents or index type do not fit; and with
/// AB_E_UNSUPPORTED_LAYOUT where the strides are not those of M's layout, or no mdspan's: zero or negative,
/// or of elements that overlap. Valid as long as the tensor.
template <class M>
result<M> try_mdspan(const view& source) {
  using index_type = typename M::extents_type::index_type;
  using mapping_type = typename M::mapping_type;
  constexpr std::size_t rank = static_cast<std::size_t>(M::rank());
  constexpr std::size_t any = std::numeric_limits<std::size_t>::max();
  auto values = source.try_as<typename M::element_type>();
  if (!values) return *values.error();
  if (values->ndim() != rank) {
    return error(AB_E_INVALID_ARGUMENT, "ndim is " + std::to_string(values->ndim()) +
                                            ": the mdspan's rank is " + std::to_string(rank));
  }
  std::array<index_type, rank == 0 ? 1 : rank> extents{}, strides{};
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t extent = values->shape()[axis], stride = values->strides()[axis];
    const std::string place = "[" + std::to_string(axis) + "] is ";
    if constexpr (detail::has_static_extents<M>) {
      const std::size_t fixed = M::static_extent(axis);
      if (fixed != any && fixed != static_cast<std::size_t>(extent)) {
        return error(AB_E_INVALID_ARGUMENT, "shape" + place + std::to_string(extent) +
                                                ": the mdspan's extent is " + std::to_string(fixed));
      }
    }
    if (stride <= 0 && extent > 1) {
      return error(AB_E_UNSUPPORTED_LAYOUT,
                   "strides" + place + std::to_string(stride) + ": an mdspan's are positive");
    }
    extents[axis] = static_cast<index_type>(extent);
    strides[axis] = static_cast<index_type>(stride);
    if (static_cast<std::int64_t>(extents[axis]) != extent ||
        static_cast<std::int64_t>(strides[axis]) != stride) {
      return error(AB_E_INVALID_ARGUMENT, "shape" + place + std::to_string(extent) + " and strides" + place +
                                              std::to_string(stride) +
                                              ": one does not fit into the mdspan's index_type");
    }
  }
  const typename M::extents_type shape =
      detail::extents_of<M>(extents.data(), std::make_index_sequence<rank>());
  if constexpr (rank > 0 && std::is_constructible_v<mapping_type, typename M::extents_type,
                                                    std::array<index_type, rank>>) {
    result<info> found = try_detect(source);
    if (!found) return *found.error();
    if (found->has(AB_TENSOR_OVERLAPPING)) {
      return error(AB_E_UNSUPPORTED_LAYOUT,
                   "the tensor's elements overlap: those of an mdspan with strides do not");
    }
    return M(values->data(), mapping_type(shape, strides));
  } else {
    const mapping_type mapping(shape);
    if constexpr (rank > 0) {
      for (std::size_t axis = 0; axis < rank && values->num_elements() > 0; ++axis) {
        const auto wanted = static_cast<std::int64_t>(mapping.stride(static_cast<decltype(M::rank())>(axis)));
        if (values->shape()[axis] > 1 && values->strides()[axis] != wanted) {
          return error(AB_E_UNSUPPORTED_LAYOUT, "strides[" + std::to_string(axis) + "] is " +
                                                    std::to_string(values->strides()[axis]) +
                                                    ": the mdspan's layout needs " + std::to_string(wanted) +
                                                    ", which ab::to{ab::layout::c} or ab::layout::f makes");
        }
      }
    }
    return M(values->data(), mapping);
  }
}

// ---- versions -----------------------------------------------------------------------------------------

/// "MAJOR.MINOR.PATCH" of the library that is loaded.
inline const char* version() noexcept { return ab_version(); }

/// Whether the library that is loaded has the ABI `wanted`, AB_ABI_MAJOR << 16 | AB_ABI_MINOR; AB_E_VERSION
/// if not. By default, the ABI that this program was compiled for.
inline result<void> try_check_version(std::uint32_t wanted = std::uint32_t{AB_ABI_MAJOR} << 16 |
                                                             std::uint32_t{AB_ABI_MINOR}) {
  const std::uint32_t loaded = ab_abi_version();
  if (loaded >> 16 == wanted >> 16 && (loaded & 0xffff) >= (wanted & 0xffff)) return {};
  const auto text = [](std::uint32_t abi) {
    return std::to_string(abi >> 16) + "." + std::to_string(abi & 0xffff);
  };
  return error(AB_E_VERSION, "libarraybridge.so." + std::to_string(wanted >> 16) + " with ABI " +
                                 text(wanted) +
                                 " or a later minor version is needed: the one that is loaded, arraybridge " +
                                 ab_version() + ", has ABI " + text(loaded));
}

// ---- the same, throwing -------------------------------------------------------------------------------

#if AB_CXX_EXCEPTIONS

/// As try_parse_dtype; throws ab::error.
inline dtype parse_dtype(const std::string& text) { return try_parse_dtype(text).value(); }

/// As try_backends; throws ab::error.
inline std::vector<backend> backends(const context* in = nullptr) { return try_backends(in).value(); }

/// As try_devices; throws ab::error.
inline std::vector<device_info> devices(const context* in = nullptr) { return try_devices(in).value(); }

/// As try_detect; throws ab::error.
inline info detect(const view& source) { return try_detect(source).value(); }

/// As try_detect_pointer; throws ab::error.
inline pointer_info detect_pointer(const void* address) { return try_detect_pointer(address).value(); }

/// As try_convert; throws ab::error, and then `source` is as it was.
inline tensor convert(tensor&& source, const to& wish = {}, report* done = nullptr) {
  return try_convert(std::move(source), wish, done).value();
}

/// As try_copy; throws ab::error.
inline tensor copy(const view& source, const to& wish = {}, report* done = nullptr) {
  return try_copy(source, wish, done).value();
}

/// As try_copy_into; throws ab::error.
inline void copy_into(const view& source, const view& destination, const to& how = {},
                      report* done = nullptr) {
  try_copy_into(source, destination, how, done).value();
}

/// As try_plan; throws ab::error.
inline report plan(const view& source, const to& wish = {}) { return try_plan(source, wish).value(); }

/// As try_from_legacy; throws ab::error.
inline tensor from_legacy(legacy_tensor&& source) { return try_from_legacy(std::move(source)).value(); }

/// As try_to_legacy; throws ab::error.
inline legacy_tensor to_legacy(tensor&& source) { return try_to_legacy(std::move(source)).value(); }

/// As try_wrap of what is borrowed; throws ab::error.
inline tensor wrap(const view& memory) { return try_wrap(memory).value(); }

/// As try_wrap with an owner; throws ab::error.
template <class Owner>
tensor wrap(const view& memory, Owner&& owner) {
  return try_wrap(memory, std::forward<Owner>(owner)).value();
}

/// As try_wrap of a vector; throws ab::error.
template <class T, class A>
tensor wrap(std::vector<T, A>&& values, const dims& shape) {
  return try_wrap(std::move(values), shape).value();
}

/// As try_wrap of a vector; throws ab::error.
template <class T, class A>
tensor wrap(std::vector<T, A>&& values) {
  return try_wrap(std::move(values)).value();
}

/// As try_wrap of a unique_ptr; throws ab::error.
template <class T, class D>
tensor wrap(std::unique_ptr<T, D>&& owner, const dims& shape) {
  return try_wrap(std::move(owner), shape).value();
}

/// As try_wrap of a shared_ptr; throws ab::error.
template <class T>
tensor wrap(const std::shared_ptr<T>& owner, const dims& shape) {
  return try_wrap(owner, shape).value();
}

/// As try_wrap of a pointer with an owner; throws ab::error.
template <class T, class Owner, class = std::enable_if_t<detail::is_element<T>>>
tensor wrap(T* data, const dims& shape, Owner&& owner) {
  return try_wrap(data, shape, std::forward<Owner>(owner)).value();
}

/// As try_mdspan; throws ab::error.
template <class M>
M mdspan(const view& source) {
  return try_mdspan<M>(source).value();
}

#if defined(__cpp_lib_mdspan)
/// The elements as a std::mdspan of any strides; throws ab::error, as try_mdspan fails.
template <class T, std::size_t Rank>
std::mdspan<T, std::dextents<std::int64_t, Rank>, std::layout_stride> mdspan(const view& source) {
  return try_mdspan<std::mdspan<T, std::dextents<std::int64_t, Rank>, std::layout_stride>>(source).value();
}
#endif

/// As try_check_version; throws ab::error.
inline void check_version() { try_check_version().value(); }

#endif  // AB_CXX_EXCEPTIONS

#if !AB_CXX_EXCEPTIONS
}  // namespace without_exceptions
#endif
}  // namespace ab

#endif  // ARRAYBRIDGE_HPP
