package httpedge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// For any history, any positions at which connections are cut, any scope and any filter, the events of all connections of a client are the log.
func TestResumeAtAnyByte(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := resume{
			history: rapid.SliceOfN(genWrite(), 0, 60).Draw(rt, "history"),
			before:  rapid.IntRange(0, 60).Draw(rt, "before"),
			cuts:    rapid.SliceOfN(rapid.Int64Range(0, 1500), 0, 12).Draw(rt, "cuts"),
			view:    rapid.SampledFrom(views).Draw(rt, "view"),
			after:   rapid.IntRange(-1, 59).Draw(rt, "after"),
			cfg: hub.Config{
				MaxMemory: rapid.SampledFrom([]int64{1, 4 << 10, 1 << 20}).Draw(rt, "memory"),
				PageBytes: rapid.SampledFrom([]int{1, 700, 1 << 20}).Draw(rt, "page"),
				IdleTTL:   time.Second,
			},
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = r.run(t) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// write is one event of a history.
type write struct {
	What    string
	Session int
	Type    int
	Pause   int // milliseconds before it
}

func genWrite() *rapid.Generator[write] {
	return rapid.Custom(func(t *rapid.T) write {
		return write{
			What:    rapid.SampledFrom([]string{"chunk", "chunk", "chunk", "chunk", "chunk", "malformed", "cut", "takeover"}).Draw(t, "what"),
			Session: rapid.IntRange(0, 5).Draw(t, "session"),
			Type:    rapid.IntRange(0, 6).Draw(t, "type"),
			Pause:   rapid.SampledFrom([]int{0, 0, 1, 20, 16_000}).Draw(t, "pause"),
		}
	})
}

var (
	theRoot     = chunk.RootSession("default", "root")
	allSessions = []chunk.Session{theRoot, theRoot.Child("kid-1"), theRoot, theRoot.Child("kid-2"), chunk.RootSession("default", "other"), theRoot}
	allTypes    = []chunk.Type{chunk.TypeTextDelta, chunk.TypeThinking, "from_the_future", chunk.TypeRunStarted, chunk.TypeStreamPaused, chunk.TypeTextDelta, chunk.TypeStreamEnd}
)

// view is a scope and filter, and the expected output.
type view struct {
	path  string
	shows func(chunk.Record) bool
	as    func(data string) string // the chunk as this view shows it; nil: unchanged
}

func ofTree(rec chunk.Record) bool { return rec.Session.Root == "root" }
func isChunk(rec chunk.Record) bool {
	return !rec.Type.Control() || rec.Type == chunk.TypeRunStarted
}

var views = []view{
	{path: "/v1/sessions/root/events", shows: func(rec chunk.Record) bool { return ofTree(rec) && (isChunk(rec) || rec.Session == theRoot) }},
	{path: "/v1/sessions/root/events?scope=session", shows: func(rec chunk.Record) bool { return rec.Session == theRoot }},
	{path: "/v1/sessions/kid-1/events?root=root", shows: func(rec chunk.Record) bool { return rec.Session.ID == "kid-1" }},
	{path: "/v1/sessions/root/events?types=text_delta,run_started", shows: func(rec chunk.Record) bool {
		return rec.Session == theRoot && !isChunk(rec) || ofTree(rec) && (rec.Type == chunk.TypeTextDelta || rec.Type == chunk.TypeRunStarted)
	}},
	{path: "/v1/sessions/root/events?exclude=text_delta,thinking", shows: func(rec chunk.Record) bool {
		return rec.Session == theRoot && !isChunk(rec) || ofTree(rec) && isChunk(rec) && rec.Type != chunk.TypeTextDelta && rec.Type != chunk.TypeThinking
	}},
	{path: "/v1/sessions/root/events?agent=kid-2", shows: func(rec chunk.Record) bool {
		return rec.Session == theRoot && !isChunk(rec) || rec.Session.ID == "kid-2" && isChunk(rec)
	}},
	{path: "/v1/sessions/root/events?view=words", shows: func(rec chunk.Record) bool {
		return rec.Session == theRoot && !isChunk(rec) || ofTree(rec) && rec.Type == chunk.TypeTextDelta
	}, as: anonymous},
	{path: "/v1/sessions/root/events?view=public", shows: func(rec chunk.Record) bool {
		return rec.Session == theRoot && (!isChunk(rec) || rec.Type == chunk.TypeTextDelta)
	}},
}

type resume struct {
	history []write
	before  int // number of records that exist when the client connects
	cuts    []int64
	view    view
	after   int // index of the record in ?after=, if there is such a record
	cfg     hub.Config
}

func (r resume) String() string {
	return fmt.Sprintf("%v before %d, cuts %v, %s after %d, %+v", r.history, r.before, r.cuts, r.view.path, r.after, r.cfg)
}

//tailrace:bubble
func (r resume) run(t *testing.T) error {
	t.Helper()
	w := newEnv(t, envConfig{hub: r.cfg, edge: httpedge.Config{Views: audiences}})
	w.log.Append(theRoot, chunk.TypeRunStarted, "") // so that there is something to find
	w.log.Append(theRoot.Child("kid-1"), chunk.TypeRunStarted, "")
	before := min(r.before, len(r.history))
	for _, h := range r.history[:before] {
		h.do(w.log)
	}
	f, start := r.client(w)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for _, h := range r.history[before:] {
			time.Sleep(time.Duration(h.Pause) * time.Millisecond)
			h.do(w.log)
		}
		time.Sleep(time.Second)
		for _, s := range []chunk.Session{theRoot.Child("kid-1"), theRoot} {
			w.log.Append(s, chunk.TypeStreamEnd, `"streamId":"x"`)
		}
	}()
	err := r.follow(t, f, written)
	<-written
	if err != nil {
		return err
	}
	return r.compare(w.log, f, start)
}

// do executes one step of the history.
func (h write) do(log *memlog.Log) {
	s := allSessions[h.Session]
	switch h.What {
	case "chunk":
		log.Append(s, allTypes[h.Type], `"delta":"some text, as long as it takes"`)
	case "malformed":
		log.AppendMalformed(s)
	case "cut":
		log.CloseFeeds()
	case "takeover":
		log.Takeover(s)
		log.Append(s, chunk.TypeRunStarted, "")
	}
}

// client starts at the position of the property, if a client can be there.
func (r resume) client(w *env) (f *follower, start chunk.Seq) {
	path := r.view.path
	var shown []chunk.Record
	for _, rec := range w.log.Tree(theRoot) {
		if r.view.shows(rec) {
			shown = append(shown, rec)
		}
	}
	if r.after >= 0 && r.after < len(shown) {
		start = shown[r.after].Seq
		path += fmt.Sprintf("%cafter=%d", map[bool]rune{true: '&', false: '?'}[strings.Contains(path, "?")], start)
	}
	return newFollower(w, path), start
}

// follow reconnects until all steps are written and the session has ended: a browser client reopens its stream when another run starts.
//
//tailrace:bubble
func (r resume) follow(t *testing.T, f *follower, written <-chan struct{}) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	for attempt, last := 0, false; ; attempt++ {
		select {
		case <-written:
			last = true
		default:
		}
		limit := int64(-1)
		if attempt < len(r.cuts) {
			limit = r.cuts[attempt]
		}
		how, status, err := f.connect(ctx, limit)
		switch {
		case err != nil:
			return fmt.Errorf("connection %d: %w", attempt, err)
		case how == nothing && last:
			return nil
		case how == refused:
			return fmt.Errorf("connection %d: status %d", attempt, status)
		}
		time.Sleep(100 * time.Millisecond) // as EventSource waits
	}
}

// compare compares the events of the client with the log.
func (r resume) compare(log *memlog.Log, f *follower, start chunk.Seq) error {
	var want []string
	for _, rec := range log.Tree(theRoot) {
		if r.view.shows(rec) && rec.Seq > start {
			want = append(want, fmt.Sprintf("%d %s", rec.Seq, r.view.onWire(rec)))
		}
	}
	var got []string
	for i, e := range f.events {
		payload := string(e.Chunk)
		if payload == "" {
			payload = e.Type
		}
		got = append(got, fmt.Sprint(seqOf(f.ids[i]))+" "+payload)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("behind %d the client has\n%v\nthe log has\n%v", start, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return nil
}

// onWire returns the chunk of an event, or its type if it has none.
func onWire(rec chunk.Record) string {
	switch rec.Type {
	case chunk.TypeStreamEnd:
		return "end"
	case chunk.TypeStreamPaused:
		return "status"
	}
	return string(rec.Data)
}

func (v view) onWire(rec chunk.Record) string {
	if v.as == nil {
		return onWire(rec)
	}
	return v.as(onWire(rec))
}
