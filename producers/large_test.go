package producers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/values"
)

func largeText(size int) chunk.Value { return chunk.Value(`"` + strings.Repeat("x", size) + `"`) }

func bodyOf(t *testing.T, rec chunk.Record) chunk.Body {
	t.Helper()
	c, err := rec.Decode()
	if err != nil {
		t.Fatal(err)
	}
	return c.Body
}

// A value over a limit, or without a place, fails its call or part, and the run continues.
func TestValueLimits(t *testing.T) {
	for name, test := range map[string]struct {
		size int
		used int64 // by values of the run
		full error
	}{
		"size":   {size: values.MaxBytes + 1},
		"run":    {size: 800 << 10, used: maxRunValues - 700<<10},
		"tenant": {size: 600 << 10, full: fmt.Errorf("put: %w", jsvalues.ErrLimit)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				l.valueError = test.full
				r := startOn(t, l, Config{})
				r.valueBytes.Store(test.used)
				big := largeText(test.size)
				for _, b := range []chunk.Body{
					chunk.ToolStart{ToolCallID: "c1", ToolName: "write", Arguments: big}, chunk.ToolEnd{ToolCallID: "c2", ToolName: "read", Result: big},
					chunk.Custom{EventName: "rows", Data: big}, numbered(1).Body,
				} {
					if _, err := r.Write(t.Context(), chunk.Chunk{Body: b}); err != nil {
						t.Fatalf("%s: %v", chunk.Chunk{Body: b}.Type(), err)
					}
				}
				if err := r.End(t.Context(), big); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, rec := range l.records() {
					text := string(rec.Type)
					switch b := bodyOf(t, rec).(type) {
					case chunk.ToolInputError:
						text += " " + strings.SplitN(b.Error, ":", 2)[0]
					case chunk.ToolEnd:
						text += " " + *b.ErrorCode
					case chunk.Error:
						text += " " + *b.Code
					}
					got = append(got, text)
				}
				want := "run_started, tool_input_error value_too_large, tool_end value_too_large, error value_too_large, " + string(numbered(1).Type()) + ", stream_end"
				if strings.Join(got, ", ") != want {
					t.Errorf("records %s\nwant %s", strings.Join(got, ", "), want)
				}
			})
		})
	}
}

// A value that the store does not answer for is an error of the write, as that of a record, and not a failure of the call.
func TestValueNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.valueError = errors.New("no answer")
		before := len(l.records())
		if _, err := r.Write(t.Context(), chunk.Chunk{Body: chunk.Custom{EventName: "rows", Data: largeText(600 << 10)}}); !errors.Is(err, l.valueError) || !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("%v, want that nothing is stored", err)
		}
		if n := len(l.records()); n != before {
			t.Errorf("%d records, want %d", n, before)
		}
		l.valueError = nil
		if _, err := r.Write(t.Context(), chunk.Chunk{Body: chunk.Custom{EventName: "rows", Data: largeText(600 << 10)}}); err != nil {
			t.Errorf("the next attempt: %v", err)
		}
	})
}

// The writer that a takeover has fenced stores its value under its own epoch, and no record refers to it; that of its successor is another one.
func TestValueOfAFencedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		old := startOn(t, l, Config{})
		r, err := tryStart(t, l, Config{}, chunk.RunStarted{Mode: "execute"}, true)
		if err != nil {
			t.Fatal(err)
		}
		big := chunk.Chunk{Body: chunk.Custom{EventName: "rows", Data: largeText(600 << 10)}}
		if _, err := r.Write(t.Context(), big); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Write(t.Context(), big); !errors.Is(err, chunk.ErrFenced) {
			t.Errorf("fenced writer: %v", err)
		}
		epochs := make(map[chunk.Epoch]bool)
		for k := range l.values {
			epochs[k.Epoch] = true
		}
		if len(l.values) != 2 || !epochs[old.Epoch()] || !epochs[r.Epoch()] {
			t.Errorf("values of the epochs %v, want %d and %d", epochs, old.Epoch(), r.Epoch())
		}
		refs := 0
		for _, rec := range l.records() {
			if c, ok := bodyOf(t, rec).(chunk.Custom); ok && strings.Contains(string(c.Data), fmt.Sprintf(`"%d-custom-data-`, r.Epoch())) {
				refs++
			}
		}
		if refs != 1 {
			t.Errorf("%d records refer to a value, want 1 of the new writer", refs)
		}
	})
}
