//go:build go1.21

package arraybridge

import (
	"runtime"
	"unsafe"
)

// owner is what keeps a slice while C refers to it.
type owner struct {
	slice  any
	pinner runtime.Pinner
}

func keep(slice any, data unsafe.Pointer) *owner {
	owner := &owner{slice: slice}
	if data != nil {
		owner.pinner.Pin(data)
	}
	return owner
}

func (owner *owner) release() {
	owner.pinner.Unpin()
}
