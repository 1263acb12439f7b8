package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// Any one response to a read is lost while the connection stays up, and the context of the caller lasts for a long time, as that of a run does: the read is
// repeated after the timeout of one attempt.
func TestLostResponseDelaysARead(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	log := newLarge(t)
	log.end(t)
	log.start(t)
	for range 5 {
		log.emit(t, strings.Repeat("y", 30<<10))
	}
	want := log.fold(t)
	mustSave(t, openSmall(t, srv.JetStream(t)), want, 0)

	// read reads everything of a session through a proxy that drops response number lost, and returns the number of responses.
	read := func(t *testing.T, lost int64) int64 {
		t.Helper()
		proxy := natstest.StartFaultProxy(t, srv.URL)
		st, err := New(natstest.JetStream(t, proxy.URL), Config{})
		if err != nil {
			t.Fatal(err)
		}
		var responses atomic.Int64
		proxy.SetResponseFaults(func([]byte) bool { return responses.Add(1) == lost })
		const deadline = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		began := time.Now()
		head, revision, err := st.Load(ctx, s1)
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		f := fold.From(head)
		messages, err := st.Messages(ctx, head)
		if err != nil {
			t.Fatalf("Messages: %v", err)
		}
		if err := f.Attach(messages); err != nil {
			t.Fatal(err)
		}
		storetest.Equal(t, "read", f.Snapshot(), want)
		_, err = st.Range(ctx, head, revision, 0, 1)
		if errors.Is(err, fold.ErrInconsistent) { // the message was lost, and not the end of the response: projector.Reader repeats it
			_, err = st.Range(ctx, head, revision, 0, 1)
		}
		if err != nil {
			t.Fatalf("Range: %v", err)
		}
		if sessions, err := st.StoredSessions(ctx, s1); err != nil || len(sessions) != 1 {
			t.Fatalf("StoredSessions: %v, %v", sessions, err)
		}
		if took := time.Since(began); took > deadline/2 {
			t.Errorf("took %s", took)
		}
		return responses.Load()
	}
	total := read(t, 0)
	if total < 10 {
		t.Fatalf("%d responses, want those of a head and a message in objects", total)
	}
	for lost := range total {
		t.Run(fmt.Sprint("response ", lost+1), func(t *testing.T) {
			t.Parallel()
			read(t, lost+1)
		})
	}
}
