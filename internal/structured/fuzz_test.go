package structured

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// FuzzApply applies any lines to a State: it does not panic, stays within the limits, and is the same after a save.
func FuzzApply(f *testing.F) {
	for _, c := range cases(f)[:60] {
		var lines []byte
		for _, text := range c.Chunks {
			lines = append(append(lines, text...), '\n')
		}
		f.Add(lines, false)
	}
	f.Add([]byte(`{"type":"structured-data","streamId":"\ud800","dataType":"","kind":"append","path":"0.9","items":["\udc00",{"":-0.0}]}`), true)
	f.Fuzz(func(t *testing.T, lines []byte, strict bool) {
		s := &State{Strict: strict}
		for line := range bytes.SplitSeq(lines, []byte("\n")) {
			refused := s.Rejected
			err := s.Apply(line)
			if err != nil && !errors.Is(err, ErrRejected) {
				t.Fatal(err)
			}
			if (s.Rejected > refused) != (err != nil) {
				t.Fatalf("%d refused, before %d: %v", s.Rejected, refused, err)
			}
		}
		sameAfterSave(t, s)
	})
}

// Text that Parse accepts is a valid State.
func FuzzParse(f *testing.F) {
	for _, c := range cases(f)[:60] {
		var s State
		for _, text := range c.Chunks {
			if err := s.Apply(text); err != nil && !errors.Is(err, ErrRejected) {
				f.Fatal(err)
			}
		}
		f.Add(s.AppendJSON(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			return
		}
		sameAfterSave(t, s)
		for stream := range s.Streams() {
			chunk := appendText([]byte(`{"type":"structured-data","dataType":"","kind":"append","path":"a.0","items":[null],"streamId":`), stream.Labels.StreamID)
			if err := s.Apply(append(chunk, '}')); err != nil && !errors.Is(err, ErrRejected) {
				t.Fatal(err)
			}
		}
		sameAfterSave(t, s)
	})
}

func sameAfterSave(t *testing.T, s *State) {
	t.Helper()
	if err := sound(s); err != nil {
		t.Fatal(err)
	}
	for stream := range s.Streams() {
		if shown := stream.AppendShown(nil); !json.Valid(shown) {
			t.Fatalf("no JSON: %s", shown)
		}
	}
	back := reload(t, s)
	if was, is := s.AppendJSON(nil), back.AppendJSON(nil); !bytes.Equal(was, is) {
		t.Fatalf("after a save:\n%s, was\n%s", is, was)
	}
	if back.size != s.size {
		t.Fatalf("after a save %v, was %v", back.size, s.size)
	}
}
