package httpedge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

var chats = []chunk.Session{
	chunk.RootSession("default", "a"), chunk.RootSession("default", "b"), chunk.RootSession("default", "c"),
}

const chatsPath = "/v1/events?session=a&session=b&session=c"

// Each of several sessions on one connection, cut anywhere, has the events of a connection of its own; and every id is a position in all of them that never
// decreases.
func TestSeveralSessionsResumeAtAnyByte(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := manyHistory{
			writes: rapid.SliceOfN(genWrite(), 0, 50).Draw(rt, "writes"),
			cuts:   rapid.SliceOfN(rapid.Int64Range(0, 1500), 0, 12).Draw(rt, "cuts"),
			hides:  rapid.Bool().Draw(rt, "hides"),
			cfg: hub.Config{
				MaxMemory: rapid.SampledFrom([]int64{1, 4 << 10, 1 << 20}).Draw(rt, "memory"),
				PageBytes: rapid.SampledFrom([]int{1, 700, 1 << 20}).Draw(rt, "page"),
				IdleTTL:   time.Second,
			},
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = h.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

type manyHistory struct {
	writes []write
	cuts   []int64
	hides  bool // text deltas, from the client
	cfg    hub.Config
}

//tailrace:bubble
func (h manyHistory) run(t *testing.T) error {
	t.Helper()
	w := newEnv(t, envConfig{hub: h.cfg})
	for _, s := range chats {
		w.log.Append(s, chunk.TypeRunStarted, "")
	}
	path := chatsPath
	if h.hides {
		path += "&exclude=text_delta"
	}
	f := newFollower(w, path)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i, step := range h.writes {
			time.Sleep(time.Duration(step.Pause) * time.Millisecond)
			h.write(w, step, i)
		}
		for _, s := range chats {
			time.Sleep(time.Second)
			w.log.Append(s, chunk.TypeStreamEnd, `"streamId":"x"`)
		}
	}()
	err := resume{cuts: h.cuts}.follow(t, f, written)
	<-written
	if err != nil {
		return err
	}
	return errors.Join(h.compare(w, f), placesRise(f.ids))
}

// write executes one step: a record of a session or of a sub-agent, or a fault.
func (h manyHistory) write(w *env, step write, i int) {
	s := chats[step.Session%len(chats)]
	switch {
	case step.What == "cut":
		w.log.CloseFeeds()
	case step.What == "malformed":
		w.log.AppendMalformed(s)
	case i%4 == 3:
		w.log.Append(s.Child("kid"), allTypes[step.Type], `"delta":"from a child"`)
	case allTypes[step.Type] != chunk.TypeStreamEnd:
		w.log.Append(s, allTypes[step.Type], `"delta":"some text, as long as it takes"`)
	}
}

func (h manyHistory) compare(w *env, f *follower) error {
	for _, s := range chats {
		var want, got []string
		for _, rec := range w.log.Tree(s) {
			if (rec.Session == s || isChunk(rec)) && (!h.hides || rec.Type != chunk.TypeTextDelta) {
				want = append(want, onWire(rec))
			}
		}
		for i, e := range f.events {
			if f.names[i] != "session:"+s.ID {
				continue
			}
			payload := string(e.Chunk)
			if payload == "" {
				payload = e.Type
			}
			got = append(got, payload)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("of %s the client has\n%s\nthe log has\n%s", s.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	return nil
}

func placesRise(ids []string) error {
	last := make([]chunk.Seq, len(chats))
	for _, id := range ids {
		places := strings.Split(id, ".")
		if len(places) != len(chats) {
			return fmt.Errorf("id %q: want %d places", id, len(chats))
		}
		for i, place := range places {
			c, ok := chunk.ParseCursor(place)
			if !ok || c.Seq < last[i] {
				return fmt.Errorf("id %q behind %v", id, last)
			}
			last[i] = c.Seq
		}
	}
	return nil
}

// A complete session sends nothing; the others continue, and each ends once.
func TestSeveralSessionsEndOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		for _, s := range chats {
			w.log.Append(s, chunk.TypeRunStarted, "") // 1, 2, 3
		}
		w.log.Append(chats[0], chunk.TypeStreamEnd, `"streamId":"x"`) // 4
		resp := w.get(t.Context(), chatsPath, http.Header{"Last-Event-Id": {"4.2.3-memlogepoch0"}})
		defer resp.Body.Close()
		if epochs := resp.Header.Get("X-Stream-Epoch"); epochs != ".memlogepoch0.memlogepoch0" {
			t.Errorf("epochs %q, want none for the one that is complete", epochs)
		}
		go func() {
			time.Sleep(20 * time.Second)
			w.log.Append(chats[2], chunk.TypeStreamEnd, `"streamId":"x"`) // 5
			time.Sleep(time.Second)
			w.log.Append(chats[1], chunk.TypeStreamEnd, `"streamId":"x"`) // 6
		}()
		_, body, _ := strings.Cut(readAll(t, resp.Body), "\n\n")
		want := ": keepalive\n\n" +
			"event: session:c\nid: 4.2.5\ndata: {\"type\":\"end\"}\n\n" +
			"event: session:b\nid: 4.6.5\ndata: {\"type\":\"end\"}\n\n"
		if body = chunktest.WithoutAnchors(body); body != want {
			t.Errorf("got\n%s\nwant\n%s", body, want)
		}
		rec := w.record(http.MethodGet, chatsPath+"&after=4.6.5", nil)
		if rec.Code != http.StatusNoContent {
			t.Errorf("behind the end of all: %d, want 204", rec.Code)
		}
	})
}

// If one session cannot be served from its cursor, only that session is truncated.
func TestSeveralSessionsOneExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		for _, s := range chats {
			w.log.Append(s, chunk.TypeRunStarted, "") // 1, 2, 3
		}
		w.log.Append(chats[0], chunk.TypeTextDelta, `"delta":"x"`) // 4
		w.log.Append(chats[0], chunk.TypeTextDelta, `"delta":"y"`) // 5
		w.log.Expire(4)
		for _, s := range chats {
			w.log.Append(s, chunk.TypeTextDelta, `"delta":"z"`) // 6, 7, 8
		}
		f := newFollower(w, chatsPath+"&after=1.7.8")
		if _, status, err := f.connect(soon(t), 400); err != nil || status != http.StatusOK {
			t.Fatal(status, err)
		}
		if len(f.events) == 0 || f.events[0].Type != "truncated" || f.events[0].Reason != "expired" || f.names[0] != "session:a" {
			t.Errorf("got %+v of %v, want the word that a has expired", f.events, f.names)
		}
	})
}

// A deleted session does not end the others.
func TestSeveralSessionsOneUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(chats[0], chunk.TypeRunStarted, "") // 1
		w.log.Append(chats[1], chunk.TypeRunStarted, "") // 2
		resp := w.get(t.Context(), chatsPath+"&after=1.2.7", nil)
		defer resp.Body.Close()
		go func() {
			for _, s := range chats[:2] {
				time.Sleep(time.Second)
				w.log.Append(s, chunk.TypeStreamEnd, `"streamId":"x"`) // 3, 4
			}
		}()
		_, body, _ := strings.Cut(readAll(t, resp.Body), "\n\n")
		want := "event: session:c\nid: 1.2.0\ndata: {\"type\":\"truncated\",\"reason\":\"expired\",\"resumeFrom\":0}\n\n" +
			"event: session:a\nid: 3.2.0\ndata: {\"type\":\"end\"}\n\n" +
			"event: session:b\nid: 3.4.0\ndata: {\"type\":\"end\"}\n\n"
		if body = chunktest.WithoutAnchors(body); body != want {
			t.Errorf("got\n%s\nwant\n%s", body, want)
		}
	})
}

func TestBadRequestsForSeveralSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		for _, s := range chats {
			w.log.Append(s, chunk.TypeRunStarted, "")
		}
		var tooMany strings.Builder
		for i := range 33 {
			fmt.Fprintf(&tooMany, "session=s%d&", i)
		}
		for _, tt := range []struct {
			query string
			want  int
		}{
			{"", 400},
			{"session=", 400},
			{"session=a&session=a", 400},
			{"session=a&session=%3E", 400},
			{"session=a&session=b%20c", 400},
			{tooMany.String(), 400},
			{"session=a&session=b&after=1", 400},
			{"session=a&session=b&after=1.2.3", 400},
			{"session=a&session=b&after=1.2&after=1.2", 400},
			{"session=a&session=b&agent=x", 400},
			{"session=a&root=b", 400},
			{"session=a&session=b&scope=all", 400},
			{"session=unknown", 404},
			{"session=unknown&session=missing", 404},
		} {
			if rec := w.record(http.MethodGet, "/v1/events?"+tt.query, nil); rec.Code != tt.want {
				t.Errorf("?%s: %d, want %d", tt.query, rec.Code, tt.want)
			}
		}
	})
}

// A log that was rolled back has other records at the positions of its clients. A client that reconnects is moved, with each position that it can have, and a
// client that has a record of the log as it is continues.
func TestCursorOfALogThatWasRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s2 := newEnv(t, envConfig{}), chunk.RootSession("default", "s2")
		w.log.Append(s1, chunk.TypeRunStarted, "") // 1
		w.log.Append(s2, chunk.TypeRunStarted, "") // 2
		var ids []string
		for range 6 {
			ids = append(ids, w.log.Append(s1, chunk.TypeTextDelta, `"delta":"lost"`).Cursor().String()) // 3 to 8
		}
		w.log.RollBack(2)
		time.Sleep(3 * time.Second)
		stays := w.log.Append(s1, chunk.TypeTextDelta, `"delta":"new"`).Cursor().String() // 3, the same ordinal
		w.log.Append(s2, chunk.TypeTextDelta, `"delta":"of another"`)                     // 4
		w.log.Append(s1, chunk.TypeStreamPaused, "")                                      // 5
		for i, id := range append(ids, stays) {
			for _, path := range []string{"/v1/sessions/s1/events", "/v1/sessions/s1/events?types=output", "/v1/events?session=s2&session=s1"} {
				f := newFollower(w, path)
				if f.lastEventID = id; strings.HasPrefix(path, "/v1/events") {
					f.lastEventID = "2." + id
				}
				if _, status, err := f.connect(soon(t), 400); err != nil || status != http.StatusOK {
					t.Fatal(id, status, err)
				}
				got := slices.IndexFunc(f.events, func(e wireEvent) bool { return e.Type == "truncated" && e.Reason == "recreated" })
				if (got < 0) != (i == len(ids)) {
					t.Errorf("%s after %s: %+v", path, id, f.events)
				}
			}
		}
	})
}

// A position of a recreated stream may exist in the new stream. A cursor with the epoch of the old stream is truncated; a cursor without epoch gets the new
// records.
func TestEpochOfACursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		talk := func() {
			w.log.Append(s1, chunk.TypeRunStarted, "")
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
		}
		talk()
		ctx, cancel := context.WithCancel(t.Context())
		resp := w.get(ctx, "/v1/sessions/s1/events", nil)
		epoch := resp.Header.Get("X-Stream-Epoch")
		cancel()
		resp.Body.Close()
		w.log.Recreate()
		time.Sleep(3 * time.Second)
		talk()
		stays := w.log.Session(s1)[0].Cursor().String()
		for cursor, want := range map[string]string{"1": "chunk", "1-" + epoch: "truncated", "1-c2wfoqo0": "truncated", stays: "chunk"} {
			f := newFollower(w, "/v1/sessions/s1/events?after="+cursor)
			if _, status, err := f.connect(soon(t), 200); err != nil || status != http.StatusOK {
				t.Fatal(cursor, status, err)
			}
			if len(f.events) == 0 || f.events[0].Type != want {
				t.Errorf("behind %s: got %+v, want %s first", cursor, f.events, want)
			}
		}
	})
}
