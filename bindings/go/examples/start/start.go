package main

import (
	"errors"
	"fmt"
	"log"

	"arraybridge"
)

func main() {
	// A picture of height 2 and width 4 with three channels, taken as channels x height x width: no copy.
	pixels := make([]uint8, 24)
	for index := range pixels {
		pixels[index] = uint8(index)
	}
	// [readme]
	picture, err := arraybridge.Wrap(pixels, arraybridge.Dims{Shape: []int64{3, 2, 4}, Strides: []int64{1, 12, 3}})
	if err == nil {
		planes, err := arraybridge.Values[float32](picture, arraybridge.Options{}) // cast and transposed in one pass
		fmt.Println(planes[:4], err)
	}
	// [/readme]
	if err != nil {
		log.Fatal(err)
	}
	defer picture.Close() // or leave it to the garbage collector

	// The library's own memory, lent to a function.
	float32s := arraybridge.Options{DataType: arraybridge.DataTypeOf[float32](), Layout: arraybridge.LayoutC}
	planes, report, err := picture.Copy(float32s)
	if err != nil {
		log.Fatal(err)
	}
	defer planes.Close()
	err = arraybridge.View(planes, func(values []float32) error {
		_, err := fmt.Println(report, values[:4])
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	_, _, err = picture.Convert(arraybridge.Options{DataType: float32s.DataType, Copy: arraybridge.CopyNever})
	fmt.Println(errors.Is(err, arraybridge.ErrCopyRequired), err)
}
