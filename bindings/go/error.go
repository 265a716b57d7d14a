package arraybridge

// #include "bridge.h"
import "C"

import (
	"errors"
	"strings"
	"sync"
)

// Status is what a call of the library came to. It is an error, so that errors.Is tells which one an
// [Error] is.
type Status int32

// What the library refuses or fails at. arraybridge.h says more of each.
const (
	ErrInvalidArgument    Status = C.AB_E_INVALID_ARGUMENT
	ErrInvalidTensor      Status = C.AB_E_INVALID_TENSOR
	ErrVersion            Status = C.AB_E_VERSION
	ErrUnsupportedDevice  Status = C.AB_E_UNSUPPORTED_DEVICE
	ErrUnsupportedDType   Status = C.AB_E_UNSUPPORTED_DTYPE
	ErrUnsupportedLayout  Status = C.AB_E_UNSUPPORTED_LAYOUT
	ErrBackendUnavailable Status = C.AB_E_BACKEND_UNAVAILABLE
	ErrCopyRequired       Status = C.AB_E_COPY_REQUIRED
	ErrReadOnly           Status = C.AB_E_READ_ONLY
	ErrOverlap            Status = C.AB_E_OVERLAP
	ErrOutOfMemory        Status = C.AB_E_OUT_OF_MEMORY
	ErrDevice             Status = C.AB_E_DEVICE
	ErrLossy              Status = C.AB_E_LOSSY
	ErrInternal           Status = C.AB_E_INTERNAL
)

// Error is the status's name, "AB_E_COPY_REQUIRED".
func (status Status) Error() string {
	if err := Load(); err != nil {
		return err.Error()
	}
	return C.GoString(C.ab_status_name(C.ab_status(status)))
}

// Error is what the library says when it refuses or fails.
type Error struct {
	Status     Status
	NativeCode int64  // the driver's own error number, or 0
	Message    string // names the field, its value, and what would have worked
}

func (err *Error) Error() string {
	return "arraybridge: " + err.Message
}

// Unwrap gives the status: errors.Is(err, arraybridge.ErrLossy).
func (err *Error) Unwrap() error {
	return err.Status
}

var (
	// ErrClosed: the tensor was closed, or taken over by Convert or Detach.
	ErrClosed = errors.New("arraybridge: the tensor is closed")
	// ErrInUse: another goroutine uses the tensor, which therefore cannot be taken over.
	ErrInUse = errors.New("arraybridge: the tensor is in use by another goroutine")
)

// LoadError says that there is no shared library, or none for this package.
type LoadError struct {
	Tried []string // each place, and what was wrong there
}

func (err *LoadError) Error() string {
	return "arraybridge: no usable libarraybridge.so:\n  " + strings.Join(err.Tried, "\n  ") +
		"\nSet ARRAYBRIDGE_LIBRARY to its path, or install it where the system looks for libraries."
}

var loading sync.Once
var loaded error

// Load finds the shared library, which the first call of anything else does too.
func Load() error {
	loading.Do(func() { loaded = open() })
	return loaded
}

func newError() C.ab_error {
	return C.ab_error{struct_size: C.sizeof_ab_error}
}

// check is the error of a status, nil for AB_OK.
func check(status C.ab_status, err *C.ab_error) error {
	if status == C.AB_OK {
		return nil
	}
	return &Error{Status(status), int64(err.native_code), C.GoString(&err.message[0])}
}
