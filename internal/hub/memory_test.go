package hub_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// TestUnknownSubAgentsLeaveNothing checks that requests for invented sub-agents of a followed root take no memory, and that a sub-agent that starts later is
// found.
func TestUnknownSubAgentsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		h := start(t, log, log, hub.Config{})
		log.Append(aRoot, chunk.TypeRunStarted, "")
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		guess := func(req hub.Request) {
			t.Helper()
			if c, err := h.Subscribe(t.Context(), req); !errors.Is(err, chunk.ErrUnknownSession) {
				t.Fatalf("cursor %v, err = %v, want ErrUnknownSession", c, err)
			}
		}
		for n := range 1000 {
			guess(hub.Request{Session: aRoot.Child(fmt.Sprint("guess", n)), Scope: chunk.ScopeSession})
			guess(hub.Request{Session: aRoot.Child(fmt.Sprint("after", n)), Scope: chunk.ScopeSession, After: chunk.Position{Seq: 1}})
			guess(hub.Request{Session: aRoot.Child(fmt.Sprint("ordinal", n)), Scope: chunk.ScopeSession, After: chunk.Position{Seq: 1, Ordinal: 1}})
		}
		if n := h.MemberCount(); n != 1 {
			t.Errorf("%d sessions in memory, want the root", n)
		}
		child := aRoot.Child("guess1")
		log.Append(child, chunk.TypeRunStarted, "")
		log.Append(child, chunk.TypeStreamEnd, "")
		c, err := h.Subscribe(t.Context(), hub.Request{Session: child, Scope: chunk.ScopeSession})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		batch, err := c.Next(t.Context(), nil)
		if err == nil && batch.Records < 2 {
			_, err = c.Next(t.Context(), nil)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// TestHiddenFrames checks that records that an encoding does not show take the memory of an index entry at most, that their segments can be evicted in
// parts, and that a cursor still advances over them.
func TestHiddenFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hidden, roots = 5000, 50
		log := memlog.New()
		cfg := hub.Config{Encodings: map[string]hub.Encode{"ends": func(dst []byte, rec chunk.Record, scope chunk.Scope) []byte {
			if !rec.Type.Terminal() {
				return dst
			}
			return plain(dst, rec, scope)
		}}, MaxMemory: 256 << 10}
		h := start(t, log, log, cfg)
		var curs []*hub.Cursor
		for n := range roots {
			root := chunk.RootSession("t", fmt.Sprint("short", n))
			log.Append(root, chunk.TypeRunStarted, "")
			cur, err := h.Subscribe(t.Context(), hub.Request{Session: root, Encoding: "ends"})
			if err != nil {
				t.Fatal(err)
			}
			curs = append(curs, cur)
			log.Append(root, chunk.TypeTextDelta, `"delta":"x"`)
		}
		synctest.Wait()
		if s := h.Stats(); s.Bytes > roots*512 {
			t.Errorf("%d bytes for %d sessions with one hidden record, want an index entry each", s.Bytes, roots)
		}
		for _, c := range curs {
			c.Close()
		}

		log.Append(aRoot, chunk.TypeRunStarted, "")
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot, Encoding: "ends"})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		for range hidden {
			log.Append(aRoot, chunk.TypeTextDelta, `"delta":"x"`)
		}
		synctest.Wait()
		s := h.Stats()
		if s.Bytes > cfg.MaxMemory || s.Bytes < cfg.MaxMemory/2 {
			t.Errorf("%d bytes, want less than the limit %d, and no more evicted than needed", s.Bytes, cfg.MaxMemory)
		}
		log.Append(aRoot, chunk.TypeStreamEnd, "")
		records := 0
		for {
			batch, err := cur.Next(t.Context(), time.After(time.Second))
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			records += batch.Records
		}
		if records != 1 {
			t.Errorf("%d records shown, want the end", records)
		}
	})
}

// TestPagesOfHiddenFrames checks that a read of records that an encoding does not show ends after a page, although they have no bytes.
func TestPagesOfHiddenFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		h := start(t, log, log, hub.Config{PageBytes: 16 << 10, Encodings: map[string]hub.Encode{
			"nothing": func(dst []byte, _ chunk.Record, _ chunk.Scope) []byte { return dst },
		}})
		log.Append(aRoot, chunk.TypeRunStarted, "")
		for range 2000 {
			log.Append(aRoot, chunk.TypeTextDelta, `"delta":"x"`)
		}
		log.Append(aRoot, chunk.TypeStreamEnd, "")
		synctest.Wait() // the feed has passed the records, and the cursor reads all of them from the log
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot, Encoding: "nothing"})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		for err == nil {
			_, err = cur.Next(t.Context(), nil)
		}
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if reads := h.Stats().Reads; reads < 5 {
			t.Errorf("%d reads of 2000 records, want a page each", reads)
		}
	})
}
