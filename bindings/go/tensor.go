package arraybridge

// #include "bridge.h"
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"runtime"
	"runtime/cgo"
	"sync"
	"unsafe"
)

// Tensor owns a DLPack tensor. What is not closed is closed when it is collected; results are often large
// memory that Go's collector does not see, so close them.
type Tensor struct {
	lock    sync.Mutex
	managed *C.ab_managed // nil once it is not ours anymore
	uses    int
	open    bool
}

// own makes a tensor of what the caller gives away.
func own(managed *C.ab_managed) *Tensor {
	tensor := &Tensor{managed: managed, open: true}
	runtime.SetFinalizer(tensor, (*Tensor).Close)
	return tensor
}

// Adopt takes over a DLManagedTensorVersioned, which is trusted; its deleter is called once, by Close.
func Adopt(managed unsafe.Pointer) (*Tensor, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	if managed == nil {
		return nil, &Error{Status: ErrInvalidArgument, Message: "managed is nil"}
	}
	return own((*C.ab_managed)(managed)), nil
}

// enter begins a use, during which the tensor stays.
func (tensor *Tensor) enter() error {
	tensor.lock.Lock()
	defer tensor.lock.Unlock()
	if !tensor.open {
		return ErrClosed
	}
	tensor.uses++
	return nil
}

func (tensor *Tensor) leave() {
	tensor.lock.Lock()
	tensor.uses--
	tensor.drop()
}

// drop frees what is closed and not in use, and unlocks.
func (tensor *Tensor) drop() {
	var managed *C.ab_managed
	if !tensor.open && tensor.uses == 0 {
		managed, tensor.managed = tensor.managed, nil
	}
	tensor.lock.Unlock()
	if managed != nil {
		C.ab_release(managed)
	}
}

// take begins a use that nobody else shares, and that may end with the tensor gone.
func (tensor *Tensor) take() error {
	tensor.lock.Lock()
	defer tensor.lock.Unlock()
	if !tensor.open {
		return ErrClosed
	}
	if tensor.uses > 0 {
		return ErrInUse
	}
	tensor.uses++
	tensor.open = false
	return nil
}

// taken ends it: the tensor is someone else's, or as it was.
func (tensor *Tensor) taken(gone bool) {
	tensor.lock.Lock()
	if gone {
		tensor.managed = nil
	} else {
		tensor.open = true
	}
	tensor.uses--
	tensor.drop()
}

// Close frees the tensor as soon as nobody uses it. Closing again does nothing. It never fails; the error
// is there for io.Closer.
func (tensor *Tensor) Close() error {
	tensor.lock.Lock()
	if !tensor.open {
		// Closed already, or being taken over.
		tensor.lock.Unlock()
		return nil
	}
	runtime.SetFinalizer(tensor, nil)
	tensor.open = false
	tensor.drop()
	return nil
}

// Detach hands the tensor out: a *DLManagedTensorVersioned whose deleter the receiver calls, once, on any
// thread. A wrapped slice stays until then.
func (tensor *Tensor) Detach() (unsafe.Pointer, error) {
	if err := tensor.take(); err != nil {
		return nil, err
	}
	managed := unsafe.Pointer(tensor.managed)
	tensor.taken(true)
	return managed, nil
}

// Dims say how a slice is read as a tensor. The zero value: one axis, of the slice's own dtype.
type Dims struct {
	Shape      []int64  // nil: all elements in one axis; empty: a single element without axes
	Strides    []int64  // in elements, negative and zero allowed; nil: row-major
	ByteOffset uint64   // from the slice's beginning to the first element
	DataType   DataType // zero: the slice's; else Shape is needed
	ReadOnly   bool     // nobody writes to it through this tensor
	Padded     bool     // elements of less than a byte take a byte each
}

// Wrap makes a tensor over the slice's own memory, and keeps that until the last tensor that shares it is
// gone. What would lie outside of the slice is refused.
func Wrap[T Element](slice []T, dims Dims) (*Tensor, error) {
	var data unsafe.Pointer
	if len(slice) > 0 {
		data = unsafe.Pointer(&slice[0])
	}
	if dims.DataType == (DataType{}) {
		dims.DataType = DataTypeOf[T]()
		if dims.Shape == nil {
			dims.Shape = []int64{int64(len(slice))}
		}
	}
	var element T
	return wrap(slice, data, uint64(len(slice))*uint64(unsafe.Sizeof(element)), dims)
}

func wrap(slice any, data unsafe.Pointer, size uint64, dims Dims) (*Tensor, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	refused := func(format string, values ...any) (*Tensor, error) {
		return nil, &Error{Status: ErrInvalidArgument, Message: fmt.Sprintf(format, values...)}
	}
	if dims.Shape == nil {
		return refused("DataType is %v without a Shape", dims.DataType)
	}
	if dims.Strides != nil && len(dims.Strides) != len(dims.Shape) {
		return refused("Strides has %d axes and Shape %d", len(dims.Strides), len(dims.Shape))
	}
	keeper := keep(slice, data)
	var shape, strides *C.int64_t
	ndim := len(dims.Shape)
	view := C.ab_go_tensor(C.uintptr_t(uintptr(data)), C.int32_t(ndim), dims.DataType.native(), &shape, &strides)
	if view == nil {
		keeper.release()
		return nil, &Error{Status: ErrOutOfMemory, Message: "no memory for a tensor"}
	}
	defer C.free(unsafe.Pointer(view))
	copy(unsafe.Slice((*int64)(shape), ndim), dims.Shape)
	copy(unsafe.Slice((*int64)(strides), ndim), dims.Strides)
	if dims.Strides == nil {
		view.strides = nil
	}
	view.byte_offset = C.uint64_t(dims.ByteOffset)
	var flags C.uint64_t
	if dims.ReadOnly {
		flags |= C.DLPACK_FLAG_BITMASK_READ_ONLY
	}
	if dims.Padded {
		flags |= C.DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
	}
	info := C.ab_tensor_info{struct_size: C.sizeof_ab_tensor_info}
	failure := newError()
	if err := check(C.ab_detect(view, flags, &info, &failure), &failure); err != nil {
		keeper.release()
		return nil, err
	}
	if info.num_elements > 0 && (info.begin_offset < 0 || uint64(info.end_offset) > size) {
		keeper.release()
		return refused("the elements lie in bytes %d to %d of a slice of %d", info.begin_offset, info.end_offset, size)
	}
	handle := cgo.NewHandle(keeper)
	var managed *C.ab_managed
	if err := check(C.ab_go_wrap(view, flags, C.uintptr_t(handle), &managed, &failure), &failure); err != nil {
		arraybridgeRelease(C.uintptr_t(handle))
		return nil, err
	}
	return own(managed), nil
}

//export arraybridgeRelease
func arraybridgeRelease(handle C.uintptr_t) {
	cgo.Handle(handle).Value().(*owner).release()
	cgo.Handle(handle).Delete()
}

// Shape is the extents of the axes.
func (tensor *Tensor) Shape() ([]int64, error) {
	return tensor.numbers(func(view *C.DLTensor) *C.int64_t { return view.shape })
}

// Strides are the steps between elements, in elements.
func (tensor *Tensor) Strides() ([]int64, error) {
	return tensor.numbers(func(view *C.DLTensor) *C.int64_t { return view.strides })
}

func (tensor *Tensor) numbers(field func(*C.DLTensor) *C.int64_t) ([]int64, error) {
	if err := tensor.enter(); err != nil {
		return nil, err
	}
	defer tensor.leave()
	view := &tensor.managed.dl_tensor
	numbers := make([]int64, view.ndim)
	if first := field(view); first != nil {
		copy(numbers, unsafe.Slice((*int64)(first), view.ndim))
	}
	return numbers, nil
}

// TensorInfo is what Detect tells of a tensor.
type TensorInfo struct {
	Flags       TensorFlags
	Device      Device
	DataType    DataType
	Shape       []int64
	NumElements int64
	NumBytes    uint64
	BeginOffset int64     // bytes from data: every element lies between this
	EndOffset   int64     // and this
	Alignment   uint32    // largest power of two up to 4096 that divides the first element's address
	AcceptedBy  Consumers // who takes it without a copy as it stands
}

// Detect validates and describes the tensor, and reads none of its data.
func (tensor *Tensor) Detect() (TensorInfo, error) {
	shape, err := tensor.Shape()
	if err != nil {
		return TensorInfo{}, err
	}
	if err := tensor.enter(); err != nil {
		return TensorInfo{}, err
	}
	defer tensor.leave()
	info := C.ab_tensor_info{struct_size: C.sizeof_ab_tensor_info}
	failure := newError()
	status := C.ab_detect(&tensor.managed.dl_tensor, tensor.managed.flags, &info, &failure)
	if err := check(status, &failure); err != nil {
		return TensorInfo{}, err
	}
	return TensorInfo{
		Flags:       TensorFlags(info.flags),
		Device:      Device{DeviceType(info.device.device_type), int32(info.device.device_id)},
		DataType:    fromDataType(info.dtype),
		Shape:       shape,
		NumElements: int64(info.num_elements),
		NumBytes:    uint64(info.num_bytes),
		BeginOffset: int64(info.begin_offset),
		EndOffset:   int64(info.end_offset),
		Alignment:   uint32(info.alignment),
		AcceptedBy:  Consumers(info.accepted_by),
	}, nil
}

// View calls use with the tensor's own memory, which must be row-major, on the host, and of T's dtype.
// The slice is valid during the call only, and must not be written to if the tensor is read-only.
func View[T Element](tensor *Tensor, use func([]T) error) error {
	info, err := tensor.Detect()
	if err != nil {
		return err
	}
	if want := DataTypeOf[T](); info.DataType != want {
		return &Error{Status: ErrUnsupportedDType, Message: fmt.Sprintf("the tensor is %v, not %v", info.DataType, want)}
	}
	return tensor.view(info, func(data unsafe.Pointer) error {
		return use(unsafe.Slice((*T)(data), info.NumElements))
	})
}

// Bytes is View for any dtype: the bytes of the elements.
func (tensor *Tensor) Bytes(use func([]byte) error) error {
	info, err := tensor.Detect()
	if err != nil {
		return err
	}
	return tensor.view(info, func(data unsafe.Pointer) error {
		return use(unsafe.Slice((*byte)(data), info.NumBytes))
	})
}

func (tensor *Tensor) view(info TensorInfo, use func(unsafe.Pointer) error) error {
	if need := HostReadable | CContiguous; info.Flags&need != need || info.Flags&Misaligned != 0 {
		message := "the tensor is not row-major, aligned memory of the host: convert it with LayoutC and CPU first"
		return &Error{Status: ErrUnsupportedLayout, Message: message}
	}
	if err := tensor.enter(); err != nil {
		return err
	}
	defer tensor.leave()
	if info.NumElements == 0 {
		return use(nil)
	}
	view := &tensor.managed.dl_tensor
	return use(unsafe.Add(view.data, view.byte_offset))
}

// Values gives the elements as a new slice, row-major, cast to T, from any layout and device.
func Values[T Element](tensor *Tensor, options Options) ([]T, error) {
	info, err := tensor.Detect()
	if err != nil {
		return nil, err
	}
	values := make([]T, info.NumElements)
	destination, err := Wrap(values, Dims{Shape: info.Shape})
	if err != nil {
		return nil, err
	}
	defer destination.Close()
	if _, err := tensor.CopyInto(destination, options); err != nil {
		return nil, err
	}
	return values, nil
}
