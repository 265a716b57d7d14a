package arraybridge_test

import (
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"arraybridge"
)

func numbers(count int) []float32 {
	numbers := make([]float32, count)
	for index := range numbers {
		numbers[index] = float32(index)
	}
	return numbers
}

func wrapped[T arraybridge.Element](t *testing.T, slice []T, dims arraybridge.Dims) *arraybridge.Tensor {
	t.Helper()
	tensor, err := arraybridge.Wrap(slice, dims)
	if err != nil {
		t.Fatal(err)
	}
	return tensor
}

func converted(t *testing.T, tensor *arraybridge.Tensor, options arraybridge.Options) (*arraybridge.Tensor, arraybridge.Report) {
	t.Helper()
	result, report, err := tensor.Convert(options)
	if err != nil {
		t.Fatal(err)
	}
	return result, report
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

func TestSlicesAreShared(t *testing.T) {
	slice := numbers(6)
	shared, report := converted(t, wrapped(t, slice, arraybridge.Dims{Shape: []int64{2, 3}}), arraybridge.Options{})
	defer shared.Close()
	equal(t, report.Route, arraybridge.RouteZeroCopy)
	err := arraybridge.View(shared, func(values []float32) error {
		equal(t, unsafe.Pointer(&values[0]), unsafe.Pointer(&slice[0]))
		values[5] = 50
		return nil
	})
	equal(t, err, nil)
	equal(t, slice[5], float32(50))
	shape, err := shared.Shape()
	equal(t, err, nil)
	equal(t, shape, []int64{2, 3})
	strides, err := shared.Strides()
	equal(t, err, nil)
	equal(t, strides, []int64{3, 1})
}

func element[T arraybridge.Element](t *testing.T, value T, name string) {
	t.Helper()
	tensor := wrapped(t, []T{value, value}, arraybridge.Dims{})
	defer tensor.Close()
	info, err := tensor.Detect()
	equal(t, err, nil)
	equal(t, info.DataType.String(), name)
	values, err := arraybridge.Values[T](tensor, arraybridge.Options{})
	equal(t, err, nil)
	equal(t, values, []T{value, value})
}

type celsius float32

func TestElements(t *testing.T) {
	element(t, true, "bool")
	element(t, int8(-1), "int8")
	element(t, int16(-1), "int16")
	element(t, int32(-1), "int32")
	element(t, int64(-1), "int64")
	element(t, int(-1), "int64")
	element(t, uint8(1), "uint8")
	element(t, uint16(1), "uint16")
	element(t, uint32(1), "uint32")
	element(t, uint64(1), "uint64")
	element(t, uint(1), "uint64")
	element(t, float32(0.5), "float32")
	element(t, 0.5, "float64")
	element(t, complex64(1i), "complex64")
	element(t, 1i, "complex128")
	element(t, celsius(20), "float32")
}

func TestEmptyAndScalar(t *testing.T) {
	values, err := arraybridge.Values[float32](wrapped(t, []float32{}, arraybridge.Dims{}), arraybridge.Options{})
	equal(t, err, nil)
	equal(t, values, []float32{})
	var none []float32
	tensor, _ := converted(t, wrapped(t, none, arraybridge.Dims{}), arraybridge.Options{})
	equal(t, arraybridge.View(tensor, func(values []float32) error { equal(t, len(values), 0); return nil }), nil)
	values, err = arraybridge.Values[float32](wrapped(t, numbers(3), arraybridge.Dims{Shape: []int64{}, ByteOffset: 8}), arraybridge.Options{})
	equal(t, err, nil)
	equal(t, values, []float32{2})
	part := numbers(10)[4:7]
	values, err = arraybridge.Values[float32](wrapped(t, part, arraybridge.Dims{}), arraybridge.Options{})
	equal(t, err, nil)
	equal(t, values, part)
}

func TestPlanSaysWhatConvertDoes(t *testing.T) {
	options := arraybridge.Options{DataType: arraybridge.DataTypeOf[int8](), Flags: arraybridge.Saturate}
	tensor := wrapped(t, numbers(600), arraybridge.Dims{})
	plan, err := tensor.Plan(options)
	equal(t, err, nil)
	result, report := converted(t, tensor, options)
	defer result.Close()
	report.Nanoseconds = 0
	equal(t, plan, report)
	equal(t, report.Reasons, arraybridge.ReasonDType)
	values, err := arraybridge.Values[int](result, arraybridge.Options{})
	equal(t, err, nil)
	equal(t, []int{values[100], values[500]}, []int{100, 127})
}

func TestDetect(t *testing.T) {
	tensor := wrapped(t, numbers(6), arraybridge.Dims{Shape: []int64{2, 3}, ReadOnly: true})
	defer tensor.Close()
	info, err := tensor.Detect()
	equal(t, err, nil)
	equal(t, info.Device, arraybridge.Device{Type: arraybridge.CPU})
	equal(t, info.Shape, []int64{2, 3})
	equal(t, []int64{info.NumElements, int64(info.NumBytes), info.BeginOffset, info.EndOffset}, []int64{6, 24, 0, 24})
	want := arraybridge.CContiguous | arraybridge.ReadOnly | arraybridge.HostReadable | arraybridge.Dense
	equal(t, info.Flags&want, want)
	equal(t, info.AcceptedBy&(arraybridge.ConsumerNumPy|arraybridge.ConsumerTorch), arraybridge.ConsumerNumPy)
}

func TestErrors(t *testing.T) {
	tensor := wrapped(t, numbers(6), arraybridge.Dims{})
	defer tensor.Close()
	refused := func(err error, status arraybridge.Status, message string) {
		t.Helper()
		var failure *arraybridge.Error
		if !errors.As(err, &failure) || !errors.Is(err, status) || failure.Status != status {
			t.Errorf("%v is not %v", err, status)
		} else if failure.NativeCode != 0 || !strings.Contains(failure.Message, message) {
			t.Errorf("%q does not say %q", failure.Message, message)
		}
	}
	_, _, err := tensor.Convert(arraybridge.Options{DataType: arraybridge.DataTypeOf[int8](), Copy: arraybridge.CopyNever})
	refused(err, arraybridge.ErrCopyRequired, "float32 to int8")
	_, err = tensor.CopyInto(wrapped(t, numbers(5), arraybridge.Dims{}), arraybridge.Options{})
	refused(err, arraybridge.ErrInvalidArgument, "shape")
	_, err = tensor.CopyInto(tensor, arraybridge.Options{})
	refused(err, arraybridge.ErrOverlap, "overlap")
	_, err = tensor.CopyInto(wrapped(t, numbers(6), arraybridge.Dims{ReadOnly: true}), arraybridge.Options{})
	refused(err, arraybridge.ErrReadOnly, "READ_ONLY")
	_, _, err = tensor.Copy(arraybridge.Options{DataType: arraybridge.DataType{Code: 99, Bits: 8, Lanes: 1}})
	refused(err, arraybridge.ErrUnsupportedDType, "99")
	_, _, err = tensor.Convert(arraybridge.Options{Device: arraybridge.Device{Type: arraybridge.Metal}})
	refused(err, arraybridge.ErrUnsupportedDevice, "")
	_, err = arraybridge.Values[int8](wrapped(t, []float32{0.5}, arraybridge.Dims{}), arraybridge.Options{Casting: arraybridge.CastExact})
	refused(err, arraybridge.ErrLossy, "")
	_, err = arraybridge.ParseDataType("flot32")
	refused(err, arraybridge.ErrUnsupportedDType, "flot32")
	_, err = arraybridge.ParseDataType("float32\x00")
	refused(err, arraybridge.ErrUnsupportedDType, "NUL")
	_, err = arraybridge.Wrap(numbers(2), arraybridge.Dims{Shape: []int64{-3}})
	refused(err, arraybridge.ErrInvalidTensor, "-3")
	_, err = arraybridge.Wrap(numbers(2), arraybridge.Dims{Shape: []int64{2}, Strides: []int64{-1}})
	refused(err, arraybridge.ErrInvalidArgument, "bytes -4 to 4 of a slice of 8")
	_, err = arraybridge.Wrap(numbers(2), arraybridge.Dims{Shape: []int64{2}, Strides: []int64{1, 1}})
	refused(err, arraybridge.ErrInvalidArgument, "2 axes")
	_, err = arraybridge.Wrap(numbers(2), arraybridge.Dims{DataType: arraybridge.DataTypeOf[int8]()})
	refused(err, arraybridge.ErrInvalidArgument, "without a Shape")
	_, err = arraybridge.Adopt(nil)
	refused(err, arraybridge.ErrInvalidArgument, "nil")
	refused(arraybridge.View(tensor, func([]int32) error { return nil }), arraybridge.ErrUnsupportedDType, "float32, not int32")
	strided := wrapped(t, numbers(6), arraybridge.Dims{Shape: []int64{3}, Strides: []int64{2}})
	refused(arraybridge.View(strided, func([]float32) error { return nil }), arraybridge.ErrUnsupportedLayout, "LayoutC")
	equal(t, arraybridge.ErrLossy.Error(), "AB_E_LOSSY")
	// It is as it was.
	values, err := arraybridge.Values[float32](tensor, arraybridge.Options{})
	equal(t, err, nil)
	equal(t, values, numbers(6))
}

func TestClosed(t *testing.T) {
	closed := wrapped(t, numbers(6), arraybridge.Dims{})
	equal(t, closed.Close(), nil)
	equal(t, closed.Close(), nil)
	taken := wrapped(t, numbers(6), arraybridge.Dims{})
	rest, _ := converted(t, taken, arraybridge.Options{})
	defer rest.Close()
	for _, tensor := range []*arraybridge.Tensor{closed, taken, {}} {
		var errs []error
		see := func(err error) { errs = append(errs, err) }
		_, err := tensor.Detect()
		see(err)
		_, _, err = tensor.Convert(arraybridge.Options{})
		see(err)
		_, _, err = tensor.Copy(arraybridge.Options{})
		see(err)
		_, err = tensor.CopyInto(rest, arraybridge.Options{})
		see(err)
		_, err = rest.CopyInto(tensor, arraybridge.Options{})
		see(err)
		_, err = tensor.Plan(arraybridge.Options{})
		see(err)
		_, err = tensor.Shape()
		see(err)
		_, err = tensor.Strides()
		see(err)
		_, err = tensor.Detach()
		see(err)
		_, err = arraybridge.Values[float32](tensor, arraybridge.Options{})
		see(err)
		see(arraybridge.View(tensor, func([]float32) error { return nil }))
		see(tensor.Bytes(func([]byte) error { return nil }))
		for number, err := range errs {
			if !errors.Is(err, arraybridge.ErrClosed) {
				t.Errorf("%d: %v", number, err)
			}
		}
		equal(t, tensor.Close(), nil)
	}
}

func TestInUse(t *testing.T) {
	tensor := wrapped(t, numbers(6), arraybridge.Dims{})
	err := tensor.Bytes(func(bytes []byte) error {
		_, _, err := tensor.Convert(arraybridge.Options{})
		equal(t, err, arraybridge.ErrInUse)
		_, err = tensor.Detach()
		equal(t, err, arraybridge.ErrInUse)
		equal(t, tensor.Close(), nil) // when this is over
		_, err = tensor.Detect()
		equal(t, err, arraybridge.ErrClosed)
		equal(t, len(bytes), 24)
		equal(t, bytes[7], byte(0x3f))
		return nil
	})
	equal(t, err, nil)
}

// A slice whose memory tells when it is collected.
func watched(t *testing.T, gone chan<- bool) []float32 {
	slice := numbers(1000)
	runtime.SetFinalizer(&slice[0], func(*float32) { gone <- true })
	return slice
}

func collected(gone <-chan bool) bool {
	for round := 0; round < 20; round++ {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
		}
	}
	return false
}

func TestSlicesAreKeptAsLongAsNeeded(t *testing.T) {
	gone := make(chan bool, 1)
	tensor := wrapped(t, watched(t, gone), arraybridge.Dims{})
	pointer, err := tensor.Detach()
	equal(t, err, nil)
	if collected(gone) {
		t.Fatal("the slice is gone while C has it")
	}
	tensor, err = arraybridge.Adopt(pointer)
	equal(t, err, nil)
	values, err := arraybridge.Values[float32](tensor, arraybridge.Options{})
	equal(t, err, nil)
	equal(t, values, numbers(1000))
	equal(t, tensor.Close(), nil)
	if !collected(gone) {
		t.Error("the slice stays after Close")
	}
	// A copy lets go of its source at once, and a forgotten tensor when it is collected.
	result, _ := converted(t, wrapped(t, watched(t, gone), arraybridge.Dims{}), arraybridge.Options{Copy: arraybridge.CopyAlways})
	defer result.Close()
	if !collected(gone) {
		t.Error("the slice stays after a copy")
	}
	wrapped(t, watched(t, gone), arraybridge.Dims{})
	if !collected(gone) {
		t.Error("a forgotten tensor stays")
	}
}

func TestGoroutines(t *testing.T) {
	source := wrapped(t, numbers(10000), arraybridge.Dims{})
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func(seed int64) {
			defer group.Done()
			random := rand.New(rand.NewSource(seed))
			for round := 0; round < 100; round++ {
				copied, _, err := source.Copy(arraybridge.Options{DataType: arraybridge.DataTypeOf[float64]()})
				if err != nil {
					t.Error(err)
					return
				}
				values, err := arraybridge.Values[int32](copied, arraybridge.Options{})
				if at := random.Intn(10000); err != nil || values[at] != int32(at) {
					t.Error(err, at, values[at])
				}
				// Closed, taken over and looked at by two at once: one of the answers, never a crash.
				done := make(chan bool)
				go func() { copied.Close(); done <- true }()
				if _, _, err := copied.Convert(arraybridge.Options{}); err != nil && err != arraybridge.ErrClosed {
					t.Error(err)
				}
				<-done
			}
		}(int64(worker))
	}
	group.Wait()
	equal(t, source.Close(), nil)
}

func TestDevices(t *testing.T) {
	backends, err := arraybridge.Backends()
	equal(t, err, nil)
	equal(t, backends[0].Name, "host")
	devices, err := arraybridge.Devices()
	equal(t, err, nil)
	for _, device := range devices {
		if device.Device.Type != arraybridge.OpenCL {
			continue
		}
		there, report := converted(t, wrapped(t, numbers(6), arraybridge.Dims{}), arraybridge.Options{Device: device.Device})
		defer there.Close()
		equal(t, report.Route, arraybridge.RouteUpload)
		err := arraybridge.View(there, func([]float32) error { return nil })
		equal(t, errors.Is(err, arraybridge.ErrUnsupportedLayout), true)
		values, err := arraybridge.Values[int64](there, arraybridge.Options{})
		equal(t, err, nil)
		equal(t, values, []int64{0, 1, 2, 3, 4, 5})
		return
	}
	t.Skip("no OpenCL device is here")
}

// TestLoad runs itself with other libraries.
func TestLoad(t *testing.T) {
	if os.Getenv("ARRAYBRIDGE_TEST_LOAD") != "" {
		_, err := arraybridge.Version()
		var failure *arraybridge.LoadError
		if !errors.As(err, &failure) {
			t.Fatal(err)
		}
		_, wrapping := arraybridge.Wrap(numbers(2), arraybridge.Dims{})
		equal(t, wrapping, err)
		t.Log(err)
		return
	}
	says := func(library string) string {
		command := exec.Command(os.Args[0], "-test.run=^TestLoad$", "-test.v")
		command.Env = append(os.Environ(), "ARRAYBRIDGE_TEST_LOAD=1", "ARRAYBRIDGE_RESULTS=", "ARRAYBRIDGE_LIBRARY="+library)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return string(output)
	}
	if output := says("/nowhere/libarraybridge.so"); !strings.Contains(output, "/nowhere/libarraybridge.so: cannot open") {
		t.Error(output)
	}
	source := filepath.Join(t.TempDir(), "other.c")
	text := "#include <stdint.h>\nuint32_t ab_abi_version(void) { return 2 << 16; }\n"
	equal(t, os.WriteFile(source, []byte(text), 0o644), nil)
	library := filepath.Join(filepath.Dir(source), "libother.so")
	if output, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v %s", err, output)
	}
	if output := says(library); !strings.Contains(output, "its ABI is 2.0, and this package needs 1.0 or a later 1") {
		t.Error(output)
	}
}
