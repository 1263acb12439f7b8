package sse_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/sse"
)

func TestEvent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		event sse.Event
		want  string
	}{
		{"nothing", sse.Event{}, ""},
		{"id and data", sse.Event{ID: "7", Data: []byte(`{"a":1}`)}, "id: 7\ndata: {\"a\":1}\n\n"},
		{"all members", sse.Event{ID: "7", Name: "x", Retry: 1500 * time.Millisecond, Data: []byte("d")}, "id: 7\nevent: x\nretry: 1500\ndata: d\n\n"},
		{"id alone", sse.Event{ID: "7"}, "id: 7\n\n"},
		{"empty data", sse.Event{Data: []byte{}}, "data: \n\n"},
		{"data with every kind of line break", sse.Event{Data: []byte("a\nb\r\nc\rd\n\rid: 9")}, "data: a\ndata: b\ndata: c\ndata: d\ndata: \ndata: id: 9\n\n"}, //nolint:dupword // so it must be
		{"data that ends with a line break", sse.Event{Data: []byte("a\n")}, "data: a\ndata: \n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.event.Append(nil)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestUnsafeFieldsAreRefused(t *testing.T) {
	for _, bad := range []string{"a\nb", "a\rb", "a\x00b", "\n", "1\r\n\r\ndata: x"} {
		for _, e := range []sse.Event{{ID: bad}, {Name: bad, Data: []byte("x")}} {
			got, err := e.Append([]byte("before"))
			if !errors.Is(err, sse.ErrUnsafe) || string(got) != "before" {
				t.Errorf("%+v: got %q, %v", e, got, err)
			}
		}
		if got, err := sse.AppendComment([]byte("before"), bad); !errors.Is(err, sse.ErrUnsafe) || string(got) != "before" {
			t.Errorf("comment %q: got %q, %v", bad, got, err)
		}
	}
}

// For any data a client receives it with its line breaks as LF, and no other field.
func FuzzEvent(f *testing.F) {
	f.Add("7", "name", []byte("data"))
	f.Add("7", "", []byte("a\r\n\r\nid: 9\n\n"))
	f.Add("1\n", "x\x00", []byte("\r"))
	f.Fuzz(func(t *testing.T, id, name string, data []byte) {
		wire, err := sse.Event{ID: id, Name: name, Data: data}.Append(nil)
		if unsafe := strings.ContainsAny(id+name, "\r\n\x00"); unsafe != (err != nil) {
			t.Fatalf("id %q, name %q: %v", id, name, err)
		}
		if err != nil || len(wire) == 0 {
			return
		}
		body, ended := strings.CutSuffix(string(wire), "\n\n")
		if !ended {
			t.Fatalf("%q does not end with a blank line", wire)
		}
		var got []string
		for line := range strings.SplitSeq(body, "\n") {
			if value, ok := strings.CutPrefix(line, "data: "); ok {
				got = append(got, value)
			} else if line != "id: "+id && line != "event: "+name {
				t.Fatalf("line %q in %q", line, wire)
			}
		}
		want := strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n")
		if data != nil && strings.Join(got, "\n") != want {
			t.Fatalf("data %q came out as %q", data, got)
		}
	})
}
