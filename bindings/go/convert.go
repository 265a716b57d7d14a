package arraybridge

// #include "bridge.h"
import "C"

// Options say what a result must be. The zero value: as the source, zero copy when possible.
type Options struct {
	Device    Device   // zero: the source's, or the nearest that all Consumers take
	DataType  DataType // zero: the source's
	Copy      Copy
	Layout    Layout
	Casting   Casting
	Alignment uint32    // bytes, a power of two; 0: whatever the Consumers need
	Consumers Consumers // who must take the result without a copy of their own
	Flags     Flags
	SrcStream int64 // the stream or queue after which the source is ready, as in the array API
	DstStream int64 // the stream or queue on which the result is used
}

func (options Options) native() C.ab_convert_options {
	return C.ab_convert_options{
		struct_size: C.sizeof_ab_convert_options,
		flags:       C.uint32_t(options.Flags),
		device:      C.DLDevice{C.DLDeviceType(options.Device.Type), C.int32_t(options.Device.ID)},
		dtype:       options.DataType.native(),
		copy:        C.int32_t(options.Copy),
		layout:      C.int32_t(options.Layout),
		casting:     C.int32_t(options.Casting),
		alignment:   C.uint32_t(options.Alignment),
		consumers:   C.uint32_t(options.Consumers),
		src_stream:  C.int64_t(options.SrcStream),
		dst_stream:  C.int64_t(options.DstStream),
	}
}

// Report tells what a call did, or would do.
type Report struct {
	Route        Route
	Reasons      Reasons // everything that ruled out zero copy
	Passes       uint32  // times the data is read and written
	BytesRead    uint64
	BytesWritten uint64
	ScratchBytes uint64
	Nanoseconds  uint64 // 0 in a plan
}

// String is one English line: "host, 1 pass, 24 B read, 96 B written (dtype, layout)".
func (report Report) String() string {
	if err := Load(); err != nil {
		return err.Error()
	}
	native := C.ab_report{
		struct_size:   C.sizeof_ab_report,
		route:         C.int32_t(report.Route),
		reasons:       C.uint32_t(report.Reasons),
		passes:        C.uint32_t(report.Passes),
		bytes_read:    C.uint64_t(report.BytesRead),
		bytes_written: C.uint64_t(report.BytesWritten),
		scratch_bytes: C.uint64_t(report.ScratchBytes),
		nanoseconds:   C.uint64_t(report.Nanoseconds),
	}
	return text(func(buffer *C.char, capacity C.size_t) C.size_t {
		return C.ab_report_describe(&native, buffer, capacity)
	})
}

func newReport() C.ab_report {
	return C.ab_report{struct_size: C.sizeof_ab_report}
}

func fromReport(report *C.ab_report) Report {
	return Report{
		Route:        Route(report.route),
		Reasons:      Reasons(report.reasons),
		Passes:       uint32(report.passes),
		BytesRead:    uint64(report.bytes_read),
		BytesWritten: uint64(report.bytes_written),
		ScratchBytes: uint64(report.scratch_bytes),
		Nanoseconds:  uint64(report.nanoseconds),
	}
}

// Convert gives the tensor as asked for, and takes this one over, as Close does; if it fails, the tensor
// is as it was.
func (tensor *Tensor) Convert(options Options) (*Tensor, Report, error) {
	if err := tensor.take(); err != nil {
		return nil, Report{}, err
	}
	native, report, failure := options.native(), newReport(), newError()
	var out *C.ab_managed
	status := C.ab_convert(nil, tensor.managed, &native, &out, &report, &failure)
	err := check(status, &failure)
	tensor.taken(err == nil)
	if err != nil {
		return nil, Report{}, err
	}
	return own(out), fromReport(&report), nil
}

// Copy gives new memory, independent of this tensor.
func (tensor *Tensor) Copy(options Options) (*Tensor, Report, error) {
	if err := tensor.enter(); err != nil {
		return nil, Report{}, err
	}
	defer tensor.leave()
	native, report, failure := options.native(), newReport(), newError()
	var out *C.ab_managed
	status := C.ab_copy(nil, &tensor.managed.dl_tensor, tensor.managed.flags, &native, &out, &report, &failure)
	if err := check(status, &failure); err != nil {
		return nil, Report{}, err
	}
	return own(out), fromReport(&report), nil
}

// CopyInto copies into a tensor of the same shape, of any strides, dtype and device. Casting, Flags and
// streams of the options are used. After ErrLossy for a value the destination's contents are unspecified.
func (tensor *Tensor) CopyInto(destination *Tensor, options Options) (Report, error) {
	if err := tensor.enter(); err != nil {
		return Report{}, err
	}
	defer tensor.leave()
	if err := destination.enter(); err != nil {
		return Report{}, err
	}
	defer destination.leave()
	native, report, failure := options.native(), newReport(), newError()
	from, to := tensor.managed, destination.managed
	status := C.ab_copy_into(nil, &from.dl_tensor, from.flags, &to.dl_tensor, to.flags, &native, &report, &failure)
	if err := check(status, &failure); err != nil {
		return Report{}, err
	}
	return fromReport(&report), nil
}

// Plan says what Convert would do, without doing it, and fails as it would.
func (tensor *Tensor) Plan(options Options) (Report, error) {
	if err := tensor.enter(); err != nil {
		return Report{}, err
	}
	defer tensor.leave()
	native, report, failure := options.native(), newReport(), newError()
	managed := tensor.managed
	status := C.ab_plan(nil, &managed.dl_tensor, managed.flags, &native, &report, &failure)
	if err := check(status, &failure); err != nil {
		return Report{}, err
	}
	return fromReport(&report), nil
}
