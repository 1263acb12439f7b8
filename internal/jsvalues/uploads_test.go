package jsvalues_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/subjects"
)

// A sweep that cannot read which runs wait removes nothing.
func TestSweepWithoutTheRuns(t *testing.T) {
	w := stack.Start(t, stack.Options{})
	store := jsvalues.New(jsclient.New(w.JS), subjects.Layout{})
	data := bytes.Repeat([]byte("file"), 1<<18)
	k := values.UploadKey("r1", data)
	if err := store.Put(t.Context(), s1, k, "image/png", data); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("no response")
	err := store.SweepUploads(t.Context(), time.Now().Add(time.Hour), func(context.Context, chunk.Session) ([]string, error) { return nil, failure })
	if !errors.Is(err, failure) {
		t.Errorf("the error is %v, want %v", err, failure)
	}
	if _, _, err := store.Get(t.Context(), s1, k.String(), func(int) error { return nil }); err != nil {
		t.Errorf("read the file after the sweep: %v", err)
	}
}

// A client that sends its message again after an hour stores the file again. A sweep between two pieces leaves the new ones.
func TestSweepBetweenThePiecesOfAnUpload(t *testing.T) {
	const pieces = 4
	w := stack.Start(t, stack.Options{})
	store := jsvalues.New(jsclient.New(w.JS), subjects.Layout{})
	stream, err := w.JS.Stream(t.Context(), jssnapshots.ObjectStream(subjects.Layout{}))
	if err != nil {
		t.Fatal(err)
	}
	of, err := names.Layout{}.Values(s1)
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("file"), pieces<<17)
	for swept := 1; swept <= pieces; swept++ { // after so many pieces
		k := values.UploadKey("run"+strconv.Itoa(swept), data)
		if err := store.Put(t.Context(), s1, k, "image/png", data); err != nil {
			t.Fatal(err)
		}
		subject := of + "." + strings.ReplaceAll(k.String(), "-", ".") + "."
		last := func(n int) *jetstream.RawStreamMsg {
			m, err := stream.GetLastMsgForSubject(t.Context(), subject+strconv.Itoa(n))
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		var again []*nats.Msg
		for n := range pieces {
			m := last(n)
			again = append(again, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		}
		var began time.Time
		for n, m := range again {
			if _, err := w.JS.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				began = last(0).Time
			}
			if n+1 != swept {
				continue
			}
			none := func(context.Context, chunk.Session) ([]string, error) { return nil, nil }
			if err := store.SweepUploads(t.Context(), began, none); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := store.Get(t.Context(), s1, k.String(), func(int) error { return nil })
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("a sweep after %d pieces: %d bytes, %v", swept, len(got), err)
		}
	}
}
