package arraybridge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"arraybridge"
)

// What ARRAYBRIDGE_RESULTS gets: how many of the vectors passed.
var results = struct {
	Binding string   `json:"binding"`
	Passed  int      `json:"passed"`
	Skipped []string `json:"skipped"`
	Failed  int      `json:"failed"`
}{Binding: "go", Skipped: []string{}}

func TestMain(m *testing.M) {
	status := m.Run()
	if path := os.Getenv("ARRAYBRIDGE_RESULTS"); path != "" {
		text, err := json.Marshal(results)
		if err == nil {
			err = os.WriteFile(path, append(text, '\n'), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

func vectors(t *testing.T, name string) []byte {
	t.Helper()
	folder := os.Getenv("ARRAYBRIDGE_VECTORS")
	if folder == "" {
		folder = filepath.Join("..", "..", "tests", "vectors")
	}
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func index(t *testing.T, name string, into any) {
	t.Helper()
	if err := json.Unmarshal(vectors(t, name), into); err != nil {
		t.Fatal(err)
	}
}

// vector counts one, and says what is wrong with it.
func vector(t *testing.T, name string, err error) {
	if err == nil {
		results.Passed++
		return
	}
	results.Failed++
	t.Errorf("%s: %v", name, err)
}

type cast struct {
	From           string
	To             string
	Offset         int
	SaturateOffset int `json:"saturate_offset"`
	ExactOffset    int `json:"exact_offset"`
}

type casts struct {
	Inputs map[string]struct{ Offset, Count, Itemsize int }
	Casts  []cast
}

func allCasts(t *testing.T) (casts, []byte) {
	var all casts
	index(t, "casts.json", &all)
	if len(all.Casts) != 676 {
		t.Fatalf("%d casts", len(all.Casts))
	}
	return all, vectors(t, "casts.bin")
}

func dtypeNamed(name string) arraybridge.DataType {
	return arraybridge.MustParseDataType(name)
}

func copyBytes(from []byte, fromDims arraybridge.Dims, to []byte, toDims arraybridge.Dims, options arraybridge.Options) error {
	source, err := arraybridge.Wrap(from, fromDims)
	if err != nil {
		return err
	}
	defer source.Close()
	destination, err := arraybridge.Wrap(to, toDims)
	if err != nil {
		return err
	}
	defer destination.Close()
	_, err = source.CopyInto(destination, options)
	return err
}

func TestVectorsOfCasts(t *testing.T) {
	all, data := allCasts(t)
	for _, cast := range all.Casts {
		vector(t, cast.From+" to "+cast.To, func() error {
			input, size := all.Inputs[cast.From], all.Inputs[cast.To].Itemsize
			source := append([]byte(nil), data[input.Offset:][:input.Count*input.Itemsize]...)
			// Forwards, backwards and with gaps: each goes through other loops.
			for _, way := range []struct {
				step     int
				saturate bool
			}{{1, false}, {1, true}, {-1, false}, {2, true}, {3, false}} {
				want, flags := data[cast.Offset:], arraybridge.Flags(0)
				if way.saturate {
					want, flags = data[cast.SaturateOffset:], arraybridge.Saturate
				}
				spread := bytes.Repeat([]byte{0xa5}, input.Count*size*3)
				first := 0
				if way.step < 0 {
					first = (input.Count - 1) * size
				}
				shape := []int64{int64(input.Count)}
				err := copyBytes(
					source, arraybridge.Dims{Shape: shape, DataType: dtypeNamed(cast.From), Padded: true},
					spread, arraybridge.Dims{
						Shape: shape, Strides: []int64{int64(way.step)}, ByteOffset: uint64(first),
						DataType: dtypeNamed(cast.To), Padded: true,
					},
					arraybridge.Options{Flags: flags})
				if err != nil {
					return err
				}
				for element := 0; element < input.Count; element++ {
					got := spread[first+element*way.step*size:][:size]
					if want := want[element*size:][:size]; !bytes.Equal(got, want) {
						return fmt.Errorf("element %d, %v: %x, not %x", element, way, got, want)
					}
				}
			}
			return nil
		}())
	}
}

func TestVectorsOfExactCasts(t *testing.T) {
	all, data := allCasts(t)
	room := make([]byte, 16)
	for _, cast := range all.Casts {
		if cast.From == cast.To {
			continue
		}
		vector(t, "exactly "+cast.From+" to "+cast.To, func() error {
			input := all.Inputs[cast.From]
			source := data[input.Offset:][:input.Count*input.Itemsize]
			from, to := dtypeNamed(cast.From), dtypeNamed(cast.To)
			for element := 0; element < input.Count; element++ {
				err := copyBytes(
					source, arraybridge.Dims{
						Shape: []int64{}, ByteOffset: uint64(element * input.Itemsize), DataType: from, Padded: true,
					},
					room, arraybridge.Dims{Shape: []int64{}, DataType: to, Padded: true},
					arraybridge.Options{Casting: arraybridge.CastExact})
				if exact := data[cast.ExactOffset+element] == 1; exact != (err == nil) ||
					err != nil && !errors.Is(err, arraybridge.ErrLossy) {
					return fmt.Errorf("element %d, exact %v: %w", element, exact, err)
				}
			}
			return nil
		}())
	}
}

func TestVectorsOfLayouts(t *testing.T) {
	type dtype struct {
		Code, Bits uint8
		Lanes      uint16
	}
	type side struct {
		Padded       bool
		Strides      []json.Number
		ByteOffset   uint64 `json:"byte_offset"`
		Offset, Size int
		BeforeOffset int `json:"before_offset"`
		AfterOffset  int `json:"after_offset"`
	}
	var cases []struct {
		Name     string
		From, To dtype
		Shape    []int64
		Src, Dst side
	}
	index(t, "layouts.json", &cases)
	if len(cases) < 200 {
		t.Fatalf("%d cases", len(cases))
	}
	data := vectors(t, "layouts.bin")
	for _, layout := range cases {
		dims := func(dtype dtype, side side) arraybridge.Dims {
			dims := arraybridge.Dims{
				Shape: append([]int64{}, layout.Shape...), ByteOffset: side.ByteOffset,
				DataType: arraybridge.DataType(dtype), Padded: side.Padded,
			}
			if side.Strides != nil {
				dims.Strides = []int64{}
			}
			for _, stride := range side.Strides {
				number, err := stride.Int64()
				if err != nil {
					t.Fatal(err)
				}
				dims.Strides = append(dims.Strides, number)
			}
			return dims
		}
		source := append([]byte{}, data[layout.Src.Offset:][:layout.Src.Size]...)
		destination := append([]byte{}, data[layout.Dst.BeforeOffset:][:layout.Dst.Size]...)
		err := copyBytes(source, dims(layout.From, layout.Src), destination, dims(layout.To, layout.Dst), arraybridge.Options{})
		if err == nil && !bytes.Equal(destination, data[layout.Dst.AfterOffset:][:layout.Dst.Size]) {
			err = errors.New("other bytes")
		}
		vector(t, layout.Name, err)
	}
}

func TestVectorsOfDataTypes(t *testing.T) {
	var cases []struct {
		Text       string
		Refused    bool
		Code, Bits uint8
		Lanes      uint16
		Name       string
	}
	index(t, "dtypes.json", &cases)
	if len(cases) < 200 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, spelling := range cases {
		dtype, err := arraybridge.ParseDataType(spelling.Text)
		want := arraybridge.DataType{Code: spelling.Code, Bits: spelling.Bits, Lanes: spelling.Lanes}
		switch {
		case spelling.Refused && errors.Is(err, arraybridge.ErrUnsupportedDType):
			err = nil
		case spelling.Refused:
			err = fmt.Errorf("became %v: %w", dtype, err)
		case err == nil && (dtype != want || dtype.String() != spelling.Name):
			err = fmt.Errorf("became %v", dtype)
		}
		vector(t, fmt.Sprintf("%.40q", spelling.Text), err)
	}
}

func TestVectorsOfCastingRules(t *testing.T) {
	all, _ := allCasts(t)
	var rules map[string][][2]string
	index(t, "can_cast.json", &rules)
	source, room := make([]byte, 16), make([]byte, 16)
	for name, casting := range map[string]arraybridge.Casting{
		"safe": arraybridge.CastSafe, "same_kind": arraybridge.CastSameKind,
	} {
		allowed := map[[2]string]bool{}
		for _, pair := range rules[name] {
			allowed[pair] = true
		}
		if len(allowed) < 100 {
			t.Fatalf("%d pairs", len(allowed))
		}
		for from := range all.Inputs {
			for to := range all.Inputs {
				dims := func(name string) arraybridge.Dims {
					return arraybridge.Dims{Shape: []int64{}, DataType: dtypeNamed(name)}
				}
				err := copyBytes(source, dims(from), room, dims(to), arraybridge.Options{Casting: casting})
				if !allowed[[2]string{from, to}] {
					if errors.Is(err, arraybridge.ErrLossy) {
						err = nil
					} else {
						err = fmt.Errorf("not refused: %w", err)
					}
				}
				vector(t, fmt.Sprintf("%s %s to %s", name, from, to), err)
			}
		}
	}
}
