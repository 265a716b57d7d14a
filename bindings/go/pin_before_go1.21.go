//go:build !go1.21

package arraybridge

import "unsafe"

// owner is what keeps a slice while C refers to it. Its memory is on the heap, as `slice` escapes, and
// no collector of these releases moves the heap.
type owner struct {
	slice any
}

func keep(slice any, _ unsafe.Pointer) *owner {
	return &owner{slice: slice}
}

func (owner *owner) release() {}
