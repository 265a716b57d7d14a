package arraybridge

// #include "bridge.h"
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// DeviceType is DLPack's number for a kind of device.
type DeviceType int32

// The device types of DLPack 1.3.
const (
	CPU         DeviceType = C.kDLCPU
	CUDA        DeviceType = C.kDLCUDA
	CUDAHost    DeviceType = C.kDLCUDAHost
	OpenCL      DeviceType = C.kDLOpenCL
	Vulkan      DeviceType = C.kDLVulkan
	Metal       DeviceType = C.kDLMetal
	VPI         DeviceType = C.kDLVPI
	ROCM        DeviceType = C.kDLROCM
	ROCMHost    DeviceType = C.kDLROCMHost
	ExtDev      DeviceType = C.kDLExtDev
	CUDAManaged DeviceType = C.kDLCUDAManaged
	OneAPI      DeviceType = C.kDLOneAPI
	WebGPU      DeviceType = C.kDLWebGPU
	Hexagon     DeviceType = C.kDLHexagon
	MAIA        DeviceType = C.kDLMAIA
	Trn         DeviceType = C.kDLTrn
	TPU         DeviceType = C.kDLTPU
	TPUHost     DeviceType = C.kDLTPUHost
	Ascend      DeviceType = C.kDLAscend
)

// Device is a DLPack device. The zero value means "keep" in [Options].
type Device struct {
	Type DeviceType
	ID   int32
}

// String is "type:id" in DLPack's numbers.
func (device Device) String() string {
	return fmt.Sprintf("%d:%d", device.Type, device.ID)
}

// DataType is a DLPack dtype. The zero value means "keep" in [Options], and that of the slice in [Dims].
type DataType struct {
	Code  uint8
	Bits  uint8
	Lanes uint16
}

// ParseDataType reads a name ("float32", "bfloat16"), an array-interface typestr ("<f4") or a PEP 3118
// format ("f").
func ParseDataType(text string) (DataType, error) {
	if err := Load(); err != nil {
		return DataType{}, err
	}
	if strings.ContainsRune(text, 0) {
		return DataType{}, &Error{Status: ErrUnsupportedDType, Message: fmt.Sprintf("dtype %q contains NUL", text)}
	}
	name := C.CString(text)
	defer C.free(unsafe.Pointer(name))
	var dtype C.DLDataType
	failure := newError()
	if err := check(C.ab_dtype_parse(name, &dtype, &failure), &failure); err != nil {
		return DataType{}, err
	}
	return fromDataType(dtype), nil
}

// MustParseDataType is ParseDataType for names that are known to be right; it panics if one is not.
func MustParseDataType(text string) DataType {
	dtype, err := ParseDataType(text)
	if err != nil {
		panic(err)
	}
	return dtype
}

// String is the dtype's name, "float32".
func (dtype DataType) String() string {
	if err := Load(); err != nil {
		return fmt.Sprintf("dtype(code=%d, bits=%d, lanes=%d)", dtype.Code, dtype.Bits, dtype.Lanes)
	}
	native := dtype.native()
	return text(func(buffer *C.char, capacity C.size_t) C.size_t {
		return C.ab_dtype_format(&native, buffer, capacity)
	})
}

func (dtype DataType) native() C.DLDataType {
	return C.DLDataType{code: C.uint8_t(dtype.Code), bits: C.uint8_t(dtype.Bits), lanes: C.uint16_t(dtype.Lanes)}
}

func fromDataType(dtype C.DLDataType) DataType {
	return DataType{uint8(dtype.code), uint8(dtype.bits), uint16(dtype.lanes)}
}

// text gets what a function writes as snprintf does.
func text(write func(*C.char, C.size_t) C.size_t) string {
	buffer := make([]byte, 128)
	length := int(write((*C.char)(unsafe.Pointer(&buffer[0])), C.size_t(len(buffer))))
	if length >= len(buffer) {
		buffer = make([]byte, length+1)
		write((*C.char)(unsafe.Pointer(&buffer[0])), C.size_t(len(buffer)))
	}
	return string(buffer[:length])
}

// Element is what the elements of a Go slice may be. Other dtypes are slices of bytes or of integers as
// wide, with the dtype in [Dims].
type Element interface {
	~bool | ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// DataTypeOf is the dtype of a Go type.
func DataTypeOf[T Element]() DataType {
	var element T
	bits := uint8(unsafe.Sizeof(element) * 8)
	var code uint8
	switch kind := reflect.TypeOf(element).Kind(); {
	case kind == reflect.Bool:
		code = C.kDLBool
	case kind >= reflect.Int && kind <= reflect.Int64:
		code = C.kDLInt
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		code = C.kDLUInt
	case kind == reflect.Float32 || kind == reflect.Float64:
		code = C.kDLFloat
	default:
		code = C.kDLComplex
	}
	return DataType{code, bits, 1}
}

// Copy says when a conversion may copy.
type Copy int32

// When a conversion copies.
const (
	CopyIfNeeded Copy = C.AB_COPY_IF_NEEDED
	CopyAlways   Copy = C.AB_COPY_ALWAYS
	CopyNever    Copy = C.AB_COPY_NEVER
)

// Layout is the order of a result's elements.
type Layout int32

// The layouts of a result: any, row-major, column-major, in the source's own order of axes.
const (
	LayoutAny  Layout = C.AB_LAYOUT_ANY
	LayoutC    Layout = C.AB_LAYOUT_C
	LayoutF    Layout = C.AB_LAYOUT_F
	LayoutKeep Layout = C.AB_LAYOUT_KEEP
)

// Casting says which casts are allowed.
type Casting int32

// The casts that are allowed; CastExact fails for a value that is not the same number after it.
const (
	CastUnsafe   Casting = C.AB_CAST_UNSAFE
	CastSameKind Casting = C.AB_CAST_SAME_KIND
	CastSafe     Casting = C.AB_CAST_SAFE
	CastExact    Casting = C.AB_CAST_EXACT
)

// Flags of a conversion.
type Flags uint32

// Flags of a conversion: numbers beyond the dtype's range become its limits; a read-only source is
// copied; the declared device is checked first.
const (
	Saturate      Flags = C.AB_CONVERT_SATURATE
	Writable      Flags = C.AB_CONVERT_WRITABLE
	VerifyPointer Flags = C.AB_CONVERT_VERIFY_POINTER
)

// Consumers are importers whose rules the library knows.
type Consumers uint32

// The importers that the library knows.
const (
	ConsumerNumPy         Consumers = C.AB_CONSUMER_NUMPY
	ConsumerTorch         Consumers = C.AB_CONSUMER_TORCH
	ConsumerJAX           Consumers = C.AB_CONSUMER_JAX
	ConsumerTensorFlow    Consumers = C.AB_CONSUMER_TENSORFLOW
	ConsumerCuPy          Consumers = C.AB_CONSUMER_CUPY
	ConsumerNumba         Consumers = C.AB_CONSUMER_NUMBA
	ConsumerPyclesperanto Consumers = C.AB_CONSUMER_PYCLESPERANTO
	ConsumerPaddle        Consumers = C.AB_CONSUMER_PADDLE
	ConsumerMLX           Consumers = C.AB_CONSUMER_MLX
	ConsumerTVMFFI        Consumers = C.AB_CONSUMER_TVM_FFI
)

// Route is the way that the data took.
type Route int32

// The ways that data takes.
const (
	RouteZeroCopy Route = C.AB_ROUTE_ZERO_COPY
	RouteHost     Route = C.AB_ROUTE_HOST
	RouteUpload   Route = C.AB_ROUTE_UPLOAD
	RouteDownload Route = C.AB_ROUTE_DOWNLOAD
	RouteDevice   Route = C.AB_ROUTE_DEVICE
	RoutePeer     Route = C.AB_ROUTE_PEER
	RouteStaged   Route = C.AB_ROUTE_STAGED
)

// Reasons are everything that ruled out zero copy.
type Reasons uint32

// What rules out zero copy.
const (
	ReasonRequested Reasons = C.AB_REASON_REQUESTED
	ReasonDevice    Reasons = C.AB_REASON_DEVICE
	ReasonDType     Reasons = C.AB_REASON_DTYPE
	ReasonLayout    Reasons = C.AB_REASON_LAYOUT
	ReasonAlignment Reasons = C.AB_REASON_ALIGNMENT
	ReasonReadOnly  Reasons = C.AB_REASON_READ_ONLY
	ReasonConsumer  Reasons = C.AB_REASON_CONSUMER
)

// TensorFlags say what a tensor is like.
type TensorFlags uint32

// What a tensor is like. arraybridge.h says more of each.
const (
	CContiguous    TensorFlags = C.AB_TENSOR_C_CONTIGUOUS
	FContiguous    TensorFlags = C.AB_TENSOR_F_CONTIGUOUS
	Dense          TensorFlags = C.AB_TENSOR_DENSE
	Broadcast      TensorFlags = C.AB_TENSOR_BROADCAST
	NegativeStride TensorFlags = C.AB_TENSOR_NEGATIVE_STRIDE
	Overlapping    TensorFlags = C.AB_TENSOR_OVERLAPPING
	Empty          TensorFlags = C.AB_TENSOR_EMPTY
	ReadOnly       TensorFlags = C.AB_TENSOR_READ_ONLY
	SubbytePacked  TensorFlags = C.AB_TENSOR_SUBBYTE_PACKED
	HostReadable   TensorFlags = C.AB_TENSOR_HOST_READABLE
	OpaqueHandle   TensorFlags = C.AB_TENSOR_OPAQUE_HANDLE
	Misaligned     TensorFlags = C.AB_TENSOR_MISALIGNED
)
