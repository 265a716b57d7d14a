// Package arraybridge brings any DLPack tensor to the device, dtype and layout that you need: zero copy
// when possible, else in one pass.
//
// [Wrap] makes a [Tensor] over a Go slice, without copying. [Tensor.Convert] brings it where it has to
// go, [Tensor.Plan] says what that would be, and [Values] or [View] give the result as a slice again.
//
// Everything may be called from any number of goroutines. A tensor that is closed, or taken over by
// Convert or Detach, answers [ErrClosed] from then on; one that another goroutine uses at that moment
// cannot be taken over ([ErrInUse]), and is freed by Close once nobody uses it.
//
// # The library
//
// The package needs the C header when it is compiled (from the checkout that it lies in, from the system,
// or by CGO_CFLAGS="$(pkg-config --cflags arraybridge)") and looks for the shared library at the first
// call: at ARRAYBRIDGE_LIBRARY if that is set; else beside the program, in target/release of the checkout,
// and where the system looks. [Load] does so at once, and its [LoadError] says what was tried. With
// -tags arraybridge_link the library is linked by pkg-config instead.
//
// # Memory of Go
//
// The memory of a wrapped slice is kept, and pinned, until the last tensor that shares it is gone, which
// C code may decide on any thread. Pinning is [runtime.Pinner], from Go 1.21 on. Before, there is
// none, and none is needed: the collectors of those releases never move what is on the heap, where a
// wrapped slice always is.
package arraybridge
