//go:build arraybridge_link

package arraybridge

// #cgo pkg-config: arraybridge
// #include "bridge.h"
import "C"

import "fmt"

// open has nothing to find: the system's linker has done it.
func open() error {
	found := uint32(C.ab_abi_version())
	if found>>16 != C.AB_ABI_MAJOR || found&0xffff < C.AB_ABI_MINOR {
		message := "the linked libarraybridge: its ABI is %d.%d, and this package needs %d.%d or a later %d"
		message = fmt.Sprintf(message, found>>16, found&0xffff, C.AB_ABI_MAJOR, C.AB_ABI_MINOR, C.AB_ABI_MAJOR)
		return &LoadError{Tried: []string{message}}
	}
	return nil
}
