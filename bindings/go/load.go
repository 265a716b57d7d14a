//go:build !arraybridge_link

package arraybridge

// #cgo CFLAGS: -I${SRCDIR}/../../include
// #cgo LDFLAGS: -ldl
// #include "bridge.h"
// #include <stdlib.h>
import "C"

import (
	"os"
	"path/filepath"
	"runtime"
	"unsafe"
)

// places lists where the library may be, the most particular first.
func places() (places []string) {
	if path := os.Getenv("ARRAYBRIDGE_LIBRARY"); path != "" {
		// Who names one wants that one or an error.
		return []string{path}
	}
	if program, err := os.Executable(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(program), "libarraybridge.so"))
	}
	if _, source, _, ok := runtime.Caller(0); ok && filepath.IsAbs(source) {
		checkout := filepath.Join(filepath.Dir(source), "..", "..")
		places = append(places, filepath.Join(checkout, "target", "release", "libarraybridge.so"))
	}
	return append(places, "libarraybridge.so.1", "libarraybridge.so")
}

func open() error {
	var tried []string
	for _, place := range places() {
		path := C.CString(place)
		message := C.ab_go_open(path)
		C.free(unsafe.Pointer(path))
		if message == nil {
			return nil
		}
		tried = append(tried, C.GoString(message))
		C.free(unsafe.Pointer(message))
	}
	return &LoadError{Tried: tried}
}
