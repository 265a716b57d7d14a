/* mdspans in and out: one of the tests' own, which has the members and nothing else, and those of libraries
 * where there are any. */
#include "check.hpp"

#include <array>
#include <cstddef>
#include <vector>

#if defined(ARRAYBRIDGE_TEST_KOKKOS)
#include <mdspan/mdspan.hpp>
#endif

void mdspan_tests();

namespace small {

// Extents that are all known at run time.
template <class Index, std::size_t Rank>
struct extents {
  using index_type = Index;
  using rank_type = std::size_t;
  extents() = default;
  template <class... I, class = std::enable_if_t<sizeof...(I) == Rank && (Rank > 0)>>
  explicit extents(I... all) : values{{static_cast<Index>(all)...}} {}
  static constexpr std::size_t rank() { return Rank; }
  std::array<Index, Rank> values{};
};

struct row_major {
  template <class E>
  struct mapping {
    using index_type = typename E::index_type;
    explicit mapping(const E& e) : shape(e) {}
    index_type stride(std::size_t axis) const {
      index_type stride = 1;
      for (std::size_t i = axis + 1; i < E::rank(); ++i) stride *= shape.values[i];
      return stride;
    }
    E shape;
  };
};

struct strided {
  template <class E>
  struct mapping {
    using index_type = typename E::index_type;
    mapping(const E& e, const std::array<index_type, E::rank()>& all) : shape(e), strides(all) {}
    index_type stride(std::size_t axis) const { return strides[axis]; }
    E shape;
    std::array<index_type, E::rank()> strides;
  };
};

template <class T, class E, class Layout>
class mdspan {
 public:
  using element_type = T;
  using extents_type = E;
  using mapping_type = typename Layout::template mapping<E>;
  mdspan(T* data, const mapping_type& mapping) : data_(data), mapping_(mapping) {}
  static constexpr std::size_t rank() { return E::rank(); }
  typename E::index_type extent(std::size_t axis) const { return mapping_.shape.values[axis]; }
  typename E::index_type stride(std::size_t axis) const { return mapping_.stride(axis); }
  T* data_handle() const { return data_; }

 private:
  T* data_;
  mapping_type mapping_;
};

}  // namespace small

namespace {

// Of any mdspan library: M is strided over float, R row-major over const float, both with two axes; V has one
// axis and a short index.
template <class M, class R, class V>
void in_and_out() {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  const ab::tensor transposed = ab::wrap(ab::view(values.data(), {3, 2}, {1, 3}));
  const M out = ab::mdspan<M>(transposed);
  CHECK(out.data_handle() == values.data() && out.extent(0) == 3 && out.extent(1) == 2);
  CHECK(out.stride(0) == 1 && out.stride(1) == 3);

  // In again: a copy has the same elements in the other order.
  const ab::tensor rows = ab::copy(out, ab::layout::c);
  const auto typed = rows.as<float>();
  CHECK(typed(0, 1) == 4 && typed(2, 0) == 3);
  const R compact = ab::mdspan<R>(rows);
  CHECK(compact.extent(0) == 3 && compact.stride(0) == 2 && compact.data_handle()[1] == 4);
  CHECK(ab::detect(compact).read_only() && !ab::detect(out).read_only());
  const ab::tensor borrowed = ab::wrap(out);
  CHECK_EQ(borrowed.data(), values.data());

  FAILS(AB_E_UNSUPPORTED_LAYOUT, "strides[0] is 1: the mdspan's layout needs 2",
        ab::try_mdspan<R>(transposed));
  THROWS(AB_E_INVALID_ARGUMENT, "ndim is 1: the mdspan's rank is 2", ab::mdspan<M>(values));
  FAILS(AB_E_UNSUPPORTED_DTYPE, "dtype is float64", ab::try_mdspan<M>(ab::copy(rows, ab::float64)));
  FAILS(AB_E_READ_ONLY, "const", ab::try_mdspan<M>(compact));
  FAILS(AB_E_INVALID_ARGUMENT, "empty", ab::try_mdspan<M>(ab::tensor()));
  FAILS(AB_E_UNSUPPORTED_LAYOUT, "strides[1] is 0",
        ab::try_mdspan<M>(ab::view(values.data(), {3, 2}, {1, 0})));
  FAILS(AB_E_UNSUPPORTED_LAYOUT, "strides[1] is -1",
        ab::try_mdspan<M>(ab::view(values.data() + 1, {3, 2}, {2, -1})));
  FAILS(AB_E_UNSUPPORTED_LAYOUT, "overlap", ab::try_mdspan<M>(ab::view(values.data(), {2, 2}, {1, 1})));
  CHECK_EQ(ab::try_mdspan<M>(ab::view(values.data(), {0, 2})).value().extent(1), 2);

  std::vector<std::uint8_t> many(200);
  FAILS(AB_E_INVALID_ARGUMENT, "index_type", ab::try_mdspan<V>(many));
  CHECK_EQ(ab::try_mdspan<V>(ab::view(many.data(), 100)).value().extent(0), 100);
}

void of_our_own() {
  using two = small::extents<std::int64_t, 2>;
  in_and_out<small::mdspan<float, two, small::strided>, small::mdspan<const float, two, small::row_major>,
             small::mdspan<std::uint8_t, small::extents<std::int8_t, 1>, small::strided>>();
  using scalar = small::mdspan<float, small::extents<int, 0>, small::row_major>;
  float value = 7;
  CHECK(*ab::mdspan<scalar>(ab::view(&value, ab::dims())).data_handle() == 7);
  CHECK(ab::copy(ab::mdspan<scalar>(ab::view(&value, ab::dims()))).as<float>()() == 7);
}

#if defined(__cpp_lib_mdspan) || defined(ARRAYBRIDGE_TEST_KOKKOS)
#if defined(ARRAYBRIDGE_TEST_KOKKOS)
namespace library = Kokkos;
#else
namespace library = std;
#endif

void of_the_library() {
  using two = library::dextents<std::int64_t, 2>;
  using rows = library::mdspan<float, two>;
  in_and_out<library::mdspan<float, two, library::layout_stride>, library::mdspan<const float, two>,
             library::mdspan<std::uint8_t, library::dextents<std::int8_t, 1>, library::layout_stride>>();

  std::vector<float> values{1, 2, 3, 4, 5, 6};
  const rows square(values.data(), 2, 3);
  const ab::tensor columns = ab::copy(square, {ab::layout::f, ab::float64});
  const auto by_column =
      ab::mdspan<library::mdspan<double, library::dextents<int, 2>, library::layout_left>>(columns);
  CHECK(by_column.stride(1) == 2 && by_column.data_handle()[1] == 4);
  using fixed = library::mdspan<float, library::extents<int, 2, library::dynamic_extent>>;
  CHECK_EQ(ab::mdspan<fixed>(square).extent(1), 3);
  FAILS(AB_E_INVALID_ARGUMENT, "shape[0] is 3: the mdspan's extent is 2",
        ab::try_mdspan<fixed>(ab::view(values.data(), {3, 2})));
#if defined(__cpp_lib_mdspan) && !defined(ARRAYBRIDGE_TEST_KOKKOS)
  const std::mdspan<float, std::dextents<std::int64_t, 2>, std::layout_stride> short_form =
      ab::mdspan<float, 2>(ab::wrap(square));
  CHECK((short_form[std::array<std::int64_t, 2>{1, 2}] == 6));
#endif
}
#endif

}  // namespace

void mdspan_tests() {
  of_our_own();
#if defined(__cpp_lib_mdspan) || defined(ARRAYBRIDGE_TEST_KOKKOS)
  of_the_library();
#endif
}
