package arraybridge_test

import (
	"errors"
	"fmt"

	"arraybridge"
)

func Example() {
	pixels := []uint8{10, 20, 30, 11, 21, 31} // two pixels of three channels
	picture, err := arraybridge.Wrap(pixels, arraybridge.Dims{Shape: []int64{3, 2}, Strides: []int64{1, 3}})
	if err != nil {
		panic(err)
	}
	float32s := arraybridge.Options{DataType: arraybridge.DataTypeOf[float32](), Layout: arraybridge.LayoutC}
	planes, report, err := picture.Convert(float32s)
	if err != nil {
		panic(err)
	}
	defer planes.Close()
	fmt.Println(report)
	err = arraybridge.View(planes, func(values []float32) error {
		fmt.Println(values)
		return nil
	})
	fmt.Println(err)
	// Output:
	// host, 1 pass, 6 B read, 24 B written (dtype, layout)
	// [10 11 20 21 30 31]
	// <nil>
}

func ExampleWrap() {
	tensor, err := arraybridge.Wrap([]float32{1, 2, 3}, arraybridge.Dims{Shape: []int64{4}})
	fmt.Println(tensor == nil, err)
	// Output: true arraybridge: the elements lie in bytes 0 to 16 of a slice of 12
}

func ExampleTensor_Plan() {
	tensor, err := arraybridge.Wrap(make([]float32, 6), arraybridge.Dims{Shape: []int64{2, 3}})
	if err != nil {
		panic(err)
	}
	defer tensor.Close()
	fmt.Println(tensor.Plan(arraybridge.Options{}))
	fmt.Println(tensor.Plan(arraybridge.Options{Layout: arraybridge.LayoutF}))
	// Output:
	// zero copy, 0 passes, 0 B read, 0 B written <nil>
	// host, 1 pass, 24 B read, 24 B written (layout) <nil>
}

func ExampleTensor_Convert_closed() {
	tensor, err := arraybridge.Wrap([]int16{1, 2, 3}, arraybridge.Dims{})
	if err != nil {
		panic(err)
	}
	result, _, err := tensor.Convert(arraybridge.Options{})
	fmt.Println(err)
	defer result.Close()
	_, err = tensor.Detect()
	fmt.Println(errors.Is(err, arraybridge.ErrClosed), err)
	// Output:
	// <nil>
	// true arraybridge: the tensor is closed
}

func ExampleValues() {
	halves := []uint16{0x3c00, 0x4000, 0xc000}
	float16, err := arraybridge.ParseDataType("float16")
	if err != nil {
		panic(err)
	}
	tensor, err := arraybridge.Wrap(halves, arraybridge.Dims{Shape: []int64{3}, DataType: float16})
	if err != nil {
		panic(err)
	}
	defer tensor.Close()
	fmt.Println(arraybridge.Values[float64](tensor, arraybridge.Options{}))
	// Output: [1 2 -2] <nil>
}
