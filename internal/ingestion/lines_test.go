package ingestion

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// The lines of a body do not depend on the pieces in which it arrives.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, tt := range map[string]struct {
		format Format
		body   string
		want   []string
	}{
		"NDJSON":        {NDJSON, "a\n\nb\r\nc", []string{"1 a", "2 ", "3 b", "4 c"}},
		"long":          {NDJSON, long + "\n" + long, []string{"1 " + long, "2 " + long}},
		"nothing":       {NDJSON, "", nil},
		"SSE":           {SSE, ": hi\n\nevent: x\nid: 1\ndata: a\n\ndata:b\ndata:  c\n\n\n", []string{"1 a", "2 b\n c"}},
		"SSE with CR":   {SSE, "data: a\r\rdata: b\r\n\r\ndata: c", []string{"1 a", "2 b", "3 c"}},
		"SSE with none": {SSE, ":\n\nretry: 1\n\n", nil},
		"whole events":  {WholeEvents, "\uFEFFdata: a\r\n\r\ndata: b\n\ndata: c\n", []string{"1 a", "2 b"}},
		"a mark":        {NDJSON, "\uFEFFa\n\uFEFFb", []string{"1 a", "2 \uFEFFb"}},
	} {
		for _, in := range []io.Reader{strings.NewReader(tt.body), iotest.OneByteReader(strings.NewReader(tt.body)), iotest.DataErrReader(strings.NewReader(tt.body))} {
			var got []string
			lines := NewLines(in, tt.format, 20_000, nil)
			for {
				text, n, err := lines.Next()
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Errorf("%s: %v", name, err)
					}
					break
				}
				got = append(got, fmt.Sprintf("%d %s", n, text))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: got %.100q, want %.100q", name, got, tt.want)
			}
		}
	}
}

// A line that was cut is not returned, and one that is too large or has no memory has its number.
func TestIncompleteLines(t *testing.T) {
	cut := errors.New("cut")
	for name, tt := range map[string]struct {
		in   io.Reader
		grow func(int) bool
		want error
	}{
		"cut":       {io.MultiReader(strings.NewReader("a\n{\"b\""), iotest.ErrReader(cut)), nil, cut},
		"too large": {strings.NewReader("a\n" + strings.Repeat("x", 30_000) + "\n"), nil, ErrLineTooLarge},
		"no memory": {strings.NewReader("a\n" + strings.Repeat("x", 10_000) + "\n"), func(int) bool { return false }, ErrLineMemory},
	} {
		lines := NewLines(tt.in, NDJSON, 20_000, tt.grow)
		if text, n, err := lines.Next(); string(text) != "a" || n != 1 || err != nil {
			t.Errorf("%s: %q %d %v", name, text, n, err)
		}
		if text, _, err := lines.Next(); text != nil || !errors.Is(err, tt.want) {
			t.Errorf("%s: %q %v", name, text, err)
		}
	}
}

// The limit is that of the data of an event, also if it is in several lines.
func TestLimitOfEvents(t *testing.T) {
	for body, want := range map[string]error{
		"data: " + strings.Repeat("x", 100) + "\n\n":                                                      nil,
		"data: " + strings.Repeat("x", 101) + "\n\n":                                                      ErrLineTooLarge,
		"data: " + strings.Repeat("x", 50) + "\ndata: " + strings.Repeat("x", 49) + "\n\n":                nil,
		"data: " + strings.Repeat("x", 50) + "\ndata: " + strings.Repeat("x", 50) + "\n\n":                ErrLineTooLarge,
		": " + strings.Repeat("x", 105) + "\n\ndata: x\n\n":                                               ErrLineTooLarge,
		"data: x\n\n" + strings.Repeat(": comment\n", 100) + "data: " + strings.Repeat("x", 100) + "\n\n": nil,
	} {
		lines := NewLines(strings.NewReader(body), WholeEvents, 100, nil)
		var err error
		for err == nil {
			_, _, err = lines.Next()
		}
		if want == nil {
			want = io.EOF
		}
		if !errors.Is(err, want) {
			t.Errorf("%.40q: %v, want %v", body, err, want)
		}
	}
}

// The memory of a long line is asked for before its body is read, also if the line before it had as much, and not again while it comes in small pieces.
func TestMemoryOfLongLines(t *testing.T) {
	half := strings.Repeat("x", 5000)
	in := io.MultiReader(strings.NewReader(half), strings.NewReader(half+"\n"+half), strings.NewReader(half+"\n"+half), iotest.OneByteReader(strings.NewReader("abc")), strings.NewReader("\nshort\n"),
		strings.NewReader("end\n"))
	var asked []int
	lines := NewLines(in, NDJSON, 40_000, func(bytes int) bool { asked = append(asked, bytes); return true })
	var calls []string
	for {
		asked = nil
		text, _, err := lines.Next()
		if err != nil {
			break
		}
		calls = append(calls, fmt.Sprint(len(text), asked))
	}
	if want := []string{"10000 [8192 16384]", "10000 [16384]", "5003 [16384]", "5 []", "3 [0]"}; !slices.Equal(calls, want) {
		t.Errorf("got %q, want %q", calls, want)
	}
}
