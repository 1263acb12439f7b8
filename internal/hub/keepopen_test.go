package hub_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// A client subscribes before the first run of a session and receives it. Then it
// waits for the next run after the end of the first.
func TestKeepOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		log.Append(chunk.RootSession("t", "other"), chunk.TypeRunStarted, "")
		h := start(t, log, log, hub.Config{})
		if _, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot}); !errors.Is(err, chunk.ErrUnknownSession) {
			t.Fatalf("err = %v, want ErrUnknownSession", err)
		}
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot, KeepOpen: true})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Minute)
			log.Append(aRoot, chunk.TypeRunStarted, "")
			log.Append(aRoot, chunk.TypeStreamEnd, "")
			time.Sleep(time.Minute)
			log.Append(aRoot, chunk.TypeRunStarted, "")
		}()
		awaitTypes(t, cur, chunk.TypeRunStarted, chunk.TypeStreamEnd)
		end := cur.Position()
		awaitTypes(t, cur, chunk.TypeRunStarted)
		cur.Close()

		cur, err = h.Subscribe(t.Context(), hub.Request{Session: aRoot, After: chunk.Position{Seq: end.Seq}, KeepOpen: true})
		if err != nil {
			t.Fatal(err)
		}
		awaitTypes(t, cur, chunk.TypeRunStarted)
		cur.Close()
	})
}

func awaitTypes(t *testing.T, cur *hub.Cursor, types ...chunk.Type) {
	t.Helper()
	var got string
	for range types {
		batch, err := cur.Next(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		got += string(batch.Frames)
		if strings.Count(got, "\n") >= len(types) {
			break
		}
	}
	for _, typ := range types {
		if !strings.Contains(got, string(typ)) {
			t.Errorf("got %q, want one that contains %s", got, typ)
		}
	}
}
