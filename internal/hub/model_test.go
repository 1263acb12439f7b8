package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// TestAnyHistory runs random events of a log, its feed and its readers against
// a hub, and compares the output of every client with the written records: no
// duplicates, in order, no gap that no cleanup explains, and complete at the
// end of the log.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		script := rapid.SliceOfN(genOp(), 1, 80).Draw(rt, "script")
		memory := rapid.SampledFrom([]int64{1, 3 << 10, 20 << 10, 1 << 20}).Draw(rt, "memory")
		page := rapid.SampledFrom([]int{1, 200, 1 << 20}).Draw(rt, "page")
		linger := rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(rt, "linger")
		roots := rapid.Bool().Draw(rt, "roots")
		var err error
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, hub.Config{MaxMemory: memory, PageBytes: page, FeedLinger: linger}, roots)
			defer m.stop()
			err = m.run(script)
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// op is one event of a history. Its numbers are taken modulo the available
// range.
type op struct {
	Kind string
	A, B int
}

func (o op) String() string { return fmt.Sprintf("%s(%d,%d)", o.Kind, o.A, o.B) }

// kinds lists frequent events several times.
var kinds = []string{
	"append", "append", "append", "append", "append", "append", "append", "burst", "burst",
	"attach", "attach", "attach", "attach", "read", "read", "read", "read", "readAll", "readAll", "readNow", "readNow",
	"detach", "reattach", "reattach", "wait", "wait", "time",
	"takeover", "fenced", "malformed", "truncation", "delete", "delete", "expire", "purge", "recreate",
	"truncation", "between", "between", "between",
	"closeFeeds", "pause", "release", "release", "drop", "down", "up", "up",
}

func genOp() *rapid.Generator[op] {
	return rapid.Custom(func(t *rapid.T) op {
		return op{
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			A:    rapid.IntRange(0, 31).Draw(t, "a"),
			B:    rapid.IntRange(0, 31).Draw(t, "b"),
		}
	})
}

// model is the state of one history.
type model struct {
	t              *testing.T
	log            *memlog.Log
	hub            *hub.Hub
	stop           func()
	ever           []chunk.Record                    // all records written to this stream
	removed        map[chunk.Session][]chunk.Ordinal // by cleanups
	pendingDeletes []chunk.Seq                       // removed by a truncation record, not deleted yet
	unannounced    []chunk.Seq                       // those of them whose truncation record was stored while no client was attached
	readSince      bool                              // a client has attached since: a page in memory may have them, before the truncation record
	deleted        []chunk.Seq                       // by cleanups
	readers        []*modelReader
	loss           bool                       // records have expired or were purged
	fenced         map[chunk.Seq]fencedRecord // records that fenced writers have stored
	purged         bool                       // records of a single session were purged, or records expired during a read
	drops          bool                       // the feed has dropped records
	dropped        map[chunk.Seq]bool         // those that it may have dropped
	downs          bool                       // the log was unavailable at times
	paused         bool
	isDown         bool
	now            string // current op, for errors
	stops          chan interruption
}

// fencedRecord describes a record of a fenced writer.
type fencedRecord struct {
	session chunk.Session
	by      []chunk.Seq // the records of the writer that fenced it, which were stored before it
}

// modelReader is one client over all its connections.
type modelReader struct {
	req           hub.Request
	cur           *hub.Cursor
	start         chunk.Seq // the records up to here count as received
	got           []chunk.Seq
	last          chunk.Seq   // Last-Event-ID
	deletedBefore []chunk.Seq // must not be delivered
	fencedBefore  []chunk.Seq // must not be delivered
}

var errDown = errors.New("log is down")

func newModel(t *testing.T, cfg hub.Config, roots bool) *model {
	t.Helper()
	m := &model{
		t: t, log: memlog.New(), removed: make(map[chunk.Session][]chunk.Ordinal), stops: make(chan interruption, 100),
		fenced: make(map[chunk.Seq]fencedRecord), dropped: make(map[chunk.Seq]bool),
	}
	cfg.Encode, cfg.Encodings = plain, map[string]hub.Encode{"hiding": plainWithHidden}
	cfg.MaxReads, cfg.IdleTTL = 2, 5*time.Second
	feed := onePartition(m.log)
	if roots {
		feed = m.log
	}
	h, err := hub.New(m.log, feed, cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.hub = h
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	m.stop = func() {
		m.log.OnRead(nil)
		m.quiesce()
		cancel()
		<-done
	}
	return m
}

// plain is an encoding that tests can parse.
func plain(dst []byte, rec chunk.Record, scope chunk.Scope) []byte {
	if scope == chunk.ScopeTree && !rec.Session.IsRoot() && rec.Type.Control() && rec.Type != chunk.TypeRunStarted && rec.Type != chunk.TypeTruncated {
		return dst
	}
	return fmt.Appendf(dst, "%d %d %s %s %s\n", rec.Seq, rec.Ordinal, rec.Session.ID, rec.Type, rec.Data)
}

// plainWithHidden is another encoding, which hides some types.
func plainWithHidden(dst []byte, rec chunk.Record, scope chunk.Scope) []byte {
	if rec.Type == chunk.TypeThinking {
		return dst
	}
	return append(dst, bytes.Replace(plain(nil, rec, scope), []byte("\n"), []byte(" with hidden\n"), 1)...)
}

func (r *modelReader) encode(rec chunk.Record) []byte {
	if r.req.Encoding == "hiding" {
		return plainWithHidden(nil, rec, r.req.Scope)
	}
	return plain(nil, rec, r.req.Scope)
}

func (m *model) run(script []op) error {
	for i, o := range script {
		m.now = fmt.Sprintf("op %d %v", i, o)
		if err := m.do(o); err != nil {
			return fmt.Errorf("%s: %w", m.now, err)
		}
	}
	return m.finish()
}

// finish ends all faults and checks that every reader catches up.
//
//tailrace:bubble
func (m *model) finish() error {
	m.now = "end"
	m.log.Release()
	m.log.FailWith(nil)
	m.log.DropFromFeed(nil)
	m.log.OnRead(nil)
	m.quiesce()
	m.paused, m.isDown = false, false
	if m.drops {
		// A gap of the feed is detected at the next ordinal of the session.
		for _, s := range sessions {
			m.wrote(m.log.Append(s, chunk.TypeTextDelta, ""))
		}
	}
	time.Sleep(3 * time.Second)
	for _, r := range m.readers {
		if r.cur == nil {
			if err := m.attach(r); err != nil {
				return err
			}
		}
		if r.cur == nil {
			continue
		}
		if err := m.readToTip(r); err != nil {
			return err
		}
		if err := m.checkOpen(r); err != nil {
			return err
		}
	}
	for _, r := range m.readers {
		m.detach(r)
	}
	if stats := m.hub.Stats(); stats.Cursors != 0 {
		return fmt.Errorf("%d cursors are open", stats.Cursors)
	}
	time.Sleep(10 * time.Second)
	if stats := m.hub.Stats(); stats.Topics != 0 || stats.Bytes != 0 {
		return fmt.Errorf("after IdleTTL: %+v", stats)
	}
	return nil
}

// checkOpen returns an error if the reader waits after the last record of an
// ended session.
func (m *model) checkOpen(r *modelReader) error {
	if err := m.read(r, 1000); err != nil || r.cur == nil {
		return err
	}
	own := m.log.Session(m.own(r))
	if n := len(own); n > 0 && own[n-1].Type.Terminal() {
		return fmt.Errorf("reader %+v waits at %d, after the end at %d", r.req, r.cur.Position().Seq, own[n-1].Seq)
	}
	return nil
}

var sessions = func() []chunk.Session {
	r1, r2 := chunk.RootSession("t", "r1"), chunk.RootSession("t", "r2")
	return []chunk.Session{r1, r1.Child("c1"), r1, r1.Child("c2"), r2, r2.Child("c1")}
}()

var types = []chunk.Type{
	chunk.TypeTextDelta, chunk.TypeTextDelta, chunk.TypeThinking, "new_kind", chunk.TypeTextDelta,
	chunk.TypeRunStarted, chunk.TypeStreamPaused, chunk.TypeStreamEnd, chunk.TypeStreamFailed,
}

//tailrace:bubble
func (m *model) do(o op) error {
	s := sessions[o.A%len(sessions)]
	switch o.Kind {
	case "append":
		m.wrote(m.log.AppendAt(s, types[o.B%len(types)], int64(o.B%3), ""))
	case "burst":
		for i := range o.B {
			m.wrote(m.log.AppendAt(s, chunk.TypeTextDelta, int64(i%3), fmt.Sprintf(`"delta":"%0*d"`, o.A*10, i)))
		}
	case "takeover":
		m.log.Takeover(s)
		m.wrote(m.log.Append(s, chunk.TypeRunStarted, ""))
	case "fenced":
		if recs := m.log.Session(s); len(recs) > 1 && recs[len(recs)-1].Epoch > 1 {
			m.appendFenced(s, recs[len(recs)-1].Epoch)
		}
	case "malformed":
		m.log.AppendMalformed(s)
	case "truncation":
		m.appendTruncation(s, int64(o.B%3))
	case "delete":
		m.delete()
	case "expire":
		m.loss = true
		m.log.Expire(m.log.End() * chunk.Seq(o.B) / 32)
	case "purge":
		m.loss = true
		m.purged = true
		m.log.Purge(s)
	case "recreate":
		return m.recreate()
	case "recreateDown":
		return m.recreateDown()
	case "closeFeeds":
		m.log.CloseFeeds()
	case "pause":
		m.paused = true
		m.log.PauseFeeds()
	case "release":
		m.paused = false
		m.log.Release()
	case "drop":
		m.drops = true
		from := m.log.End()
		to := from + chunk.Seq(o.B%3)
		for seq := from + 1; seq <= to; seq++ {
			m.dropped[seq] = true
		}
		m.log.DropFromFeed(func(rec chunk.Record) bool { return rec.Seq > from && rec.Seq <= to })
	case "down":
		m.downs, m.isDown = true, true
		m.log.FailWith(errDown)
	case "up":
		m.isDown = false
		m.log.FailWith(nil)
	case "wait":
		m.quiesce()
	case "between":
		m.between(o)
	case "time":
		time.Sleep(time.Duration(o.B) * time.Second)
	default:
		return m.doReader(o)
	}
	return nil
}

func (m *model) doReader(o op) error {
	if o.Kind == "attach" {
		r := m.newReader(o)
		m.readers = append(m.readers, r)
		return m.attach(r)
	}
	if len(m.readers) == 0 {
		return nil
	}
	r := m.readers[o.A%len(m.readers)]
	switch o.Kind {
	case "detach":
		m.detach(r)
	case "reattach":
		m.detach(r)
		return m.attach(r)
	case "read":
		m.quiesce()
		return m.read(r, 1+o.B%3)
	case "readNow": // regardless of the state of the feed
		return m.read(r, 1+o.B%3)
	case "readAll":
		m.quiesce()
		return m.read(r, 1000)
	}
	return nil
}

func (m *model) newReader(o op) *modelReader {
	r := &modelReader{req: hub.Request{Session: sessions[o.A%len(sessions)], Scope: chunk.Scope(o.B % 2)}}
	if o.B%4 == 3 {
		r.req.Encoding = "hiding"
	}
	switch o.B % 5 {
	case 3:
		r.req.Filter = hub.Filter{Exclude: []chunk.Type{chunk.TypeTextDelta}}
	case 4:
		r.req.Filter = hub.Filter{Types: []chunk.Type{chunk.TypeTextDelta, "new_kind"}, Agent: "c1"}
	}
	return r
}

// between schedules an event during a read: while a page is being read, or
// between a request to the log and the use of its response. The goroutine that
// reads the log blocks until quiesce has processed the event.
func (m *model) between(o op) {
	var countdown atomic.Int64
	countdown.Store(int64(o.B % 6))
	m.log.OnRead(func(_ context.Context, what string) {
		if what == "tip" || countdown.Add(-1) != -1 {
			return // a request of the feed, too early, or too late
		}
		stop := interruption{op: o, done: make(chan struct{})}
		m.stops <- stop
		<-stop.done
	})
}

// interruption is a client blocked during a read.
type interruption struct {
	op   op
	done chan struct{}
}

// quiesce waits until all goroutines are blocked, and processes the
// interruptions.
func (m *model) quiesce() {
	for {
		synctest.Wait()
		select {
		case stop := <-m.stops:
			m.interrupt(stop.op)
			close(stop.done)
		default:
			return
		}
	}
}

func (m *model) interrupt(o op) {
	s := sessions[o.A%len(sessions)]
	switch o.A / len(sessions) {
	case 0:
		m.wrote(m.log.AppendAt(s, types[o.B%len(types)], 1, ""))
	case 1:
		m.appendTruncation(s, 0)
	case 2:
		m.appendTruncation(s, 0)
		m.delete()
	case 3:
		m.loss, m.purged = true, true
		m.log.Expire(m.log.End() / 2)
	default:
		m.log.CloseFeeds()
	}
	if o.B%2 == 0 {
		synctest.Wait() // the feed delivers it before the read continues
	}
}

// call runs f, which may be interrupted, and lets time pass while it waits.
//
//tailrace:bubble
func (m *model) call(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		m.quiesce()
		select {
		case <-done:
			return
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// next calls Next without waiting.
func (m *model) next(r *modelReader) (batch hub.Batch, err error) {
	m.call(func() { batch, err = r.cur.Next(context.Background(), now()) })
	return batch, err
}

func (m *model) delete() {
	m.log.Delete(m.pendingDeletes...)
	for _, seq := range m.pendingDeletes {
		if !m.readSince || !slices.Contains(m.unannounced, seq) {
			m.deleted = append(m.deleted, seq)
		}
	}
	m.pendingDeletes, m.unannounced, m.readSince = nil, nil, false
}

func (m *model) wrote(rec chunk.Record) { m.ever = append(m.ever, rec) }

func (m *model) appendFenced(s chunk.Session, epoch chunk.Epoch) {
	fenced := fencedRecord{session: s}
	for _, rec := range m.ever {
		if rec.Session == s && rec.Epoch == epoch {
			fenced.by = append(fenced.by, rec.Seq)
		}
	}
	m.log.AppendFenced(s)
	m.fenced[m.log.End()] = fenced
}

// misleads reports whether a reader may get a record of a fenced writer: those that fenced it may have expired, or the feed has dropped all of them before it.
// The hub cannot know that before the next record of the session, because the ordinal of the record is that of the last of them. Clients that subscribe later do
// not get it.
func (m *model) misleads(r *modelReader, seq chunk.Seq) bool {
	fenced, ok := m.fenced[seq]
	isKnown := func(by chunk.Seq) bool { return !m.dropped[by] }
	if !ok || !m.loss && (slices.Contains(r.fencedBefore, seq) || slices.ContainsFunc(fenced.by, isKnown)) {
		return false
	}
	r.got = append(r.got, fenced.by...) // it has their place
	return true
}

func (m *model) appendTruncation(s chunk.Session, step int64) {
	recs := m.log.Session(s)
	if len(recs) == 0 {
		return
	}
	seqs := m.log.AppendTruncation(s, step, recs[0].Seq) // the first record is a run_started, which stays
	if seqs == nil {
		return
	}
	m.pendingDeletes = append(m.pendingDeletes, seqs...)
	if !slices.ContainsFunc(m.readers, func(r *modelReader) bool { return r.cur != nil }) {
		m.unannounced, m.readSince = append(m.unannounced, seqs...), false
	}
	m.wrote(slices.MaxFunc(m.log.Session(s), func(a, b chunk.Record) int { return int(a.Seq) - int(b.Seq) }))
	for _, rec := range m.ever {
		if slices.Contains(seqs, rec.Seq) {
			m.removed[s] = append(m.removed[s], rec.Ordinal)
		}
	}
}

// recreate recreates the stream. Attached readers must get an error; the
// cursors of the others are dropped, because those readers cannot detect it.
//
//tailrace:bubble
func (m *model) recreate() error {
	m.quiesce()
	wasPaused, wasDown := m.paused, m.isDown
	if wasDown {
		m.log.FailWith(nil)
	}
	m.log.Release()
	time.Sleep(3 * time.Second) // the feed is open and detects it
	m.log.Recreate()
	m.quiesce()
	m.ever, m.pendingDeletes, m.unannounced, m.deleted = nil, nil, nil, nil
	clear(m.removed)
	clear(m.fenced)
	for _, r := range m.readers {
		if r.cur != nil && r.cur.Position().Seq != 0 {
			_, err := m.next(r)
			if wasDown && errors.Is(err, errDown) { // the result of a read that began while the log was down
				_, err = m.next(r)
			}
			if !isReason(err, chunk.TruncatedRecreated) && (!m.loss || !errors.Is(err, chunk.ErrTruncated)) {
				return fmt.Errorf("reader of a recreated stream: %w", err)
			}
		}
		m.detach(r)
		r.start, r.last, r.got = 0, 0, nil
	}
	if wasPaused {
		m.log.PauseFeeds()
	}
	if wasDown {
		m.log.FailWith(errDown)
	}
	return nil
}

// recreateDown recreates the stream while the hub cannot observe it.
//
//tailrace:bubble
func (m *model) recreateDown() error {
	m.log.FailWith(errDown)
	m.quiesce()
	m.log.Recreate()
	m.ever, m.loss = nil, true
	m.log.FailWith(nil)
	time.Sleep(3 * time.Second)
	for _, r := range m.readers {
		if _, err := m.next(r); !isReason(err, chunk.TruncatedRecreated) {
			return fmt.Errorf("reader of a recreated stream: %w", err)
		}
		m.detach(r)
		r.start, r.last, r.got = 0, 0, nil
	}
	return nil
}

func isReason(err error, reason chunk.TruncationReason) bool {
	truncated, ok := errors.AsType[*chunk.TruncatedError](err)
	return ok && truncated.Reason == reason
}

func (m *model) detach(r *modelReader) {
	if r.cur != nil {
		r.cur.Close()
		r.cur = nil
	}
}

// attach connects a reader with its last event id. After an end or a truncation
// it starts again at the position of a snapshot.
func (m *model) attach(r *modelReader) error {
	if r.cur != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req := r.req
	req.After = chunk.Position{Seq: r.last}
	var err error
	r.deletedBefore, r.fencedBefore = nil, nil
	m.call(func() { r.cur, err = m.hub.Subscribe(ctx, req) })
	m.readSince = true
	if m.purged || m.drops {
		// A gap in one session of a tree is detected at its next ordinal. A
		// client that disconnects before that does not keep its ordinals.
		r.start = r.last
	}
	if !m.paused && !m.isDown && !m.drops && m.hub.Ready() == nil {
		r.deletedBefore = slices.Clone(m.deleted) // the feed has delivered all truncation records
	}
	if !m.paused && !m.isDown && m.hub.Ready() == nil {
		for seq, fenced := range m.fenced {
			if slices.ContainsFunc(m.ever, func(rec chunk.Record) bool {
				return rec.Session == fenced.session && rec.Seq > seq && !m.dropped[rec.Seq]
			}) {
				r.fencedBefore = append(r.fencedBefore, seq) // the feed has delivered a record of the newer writer
			}
		}
	}
	return m.checkError(r, err)
}

// checkError checks that an error was expected, and lets the reader start again
// as a client would.
func (m *model) checkError(r *modelReader, err error) error {
	if err == nil {
		return nil
	}
	m.detach(r)
	own := m.log.Session(m.own(r))
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case isTruncated:
		if !m.loss && len(m.removed) == 0 && (!m.drops || truncated.Reason != chunk.TruncatedGap) {
			return fmt.Errorf("reader %+v at %d: log is complete, got %w", r.req, r.last, err)
		}
		if truncated.After != r.last && truncated.Session != m.own(r) {
			return fmt.Errorf("reader at %d of %s: error of another session: %w", r.last, m.own(r), err)
		}
		if len(own) > 0 {
			r.start = own[len(own)-1].Seq
		} else {
			r.start = 0
		}
		r.last, r.got = r.start, nil
		return nil
	case errors.Is(err, chunk.ErrUnknownSession):
		if len(own) > 0 {
			return fmt.Errorf("session %s has %d records: %w", r.req.Session, len(own), err)
		}
		return nil
	case errors.Is(err, hub.ErrEnded), errors.Is(err, io.EOF):
		return m.checkEnd(r, own, err)
	case m.downs && (errors.Is(err, errDown) || errors.Is(err, context.DeadlineExceeded)):
		return nil
	case m.loss && !errors.Is(err, context.Canceled):
		return nil // reads of the log were inconsistent; the client reconnects
	}
	return fmt.Errorf("reader %+v at %d: %w", r.req, r.last, err)
}

// checkEnd checks that the last record of the session that the reader may know
// is terminal. A paused feed may not have delivered a newer run yet.
func (m *model) checkEnd(r *modelReader, own []chunk.Record, err error) error {
	for i, rec := range slices.Backward(own) {
		if rec.Seq <= r.last && rec.Type.Terminal() {
			if i < len(own)-1 && errors.Is(err, hub.ErrEnded) {
				return fmt.Errorf("ended at %d, but the log continues to %d", r.last, own[len(own)-1].Seq)
			}
			return nil
		}
		if rec.Seq <= r.last {
			break
		}
	}
	if m.loss {
		return nil
	}
	return fmt.Errorf("reader %+v at %d: unexpected end: %w", r.req, r.last, err)
}

func (m *model) own(r *modelReader) chunk.Session {
	if r.req.Scope == chunk.ScopeTree {
		return r.req.Session.Tree()
	}
	return r.req.Session
}

// now returns a tick that has fired.
func now() <-chan time.Time {
	c := make(chan time.Time, 1)
	c <- time.Now()
	return c
}

// read reads some batches. If there is none it waits for pending events.
func (m *model) read(r *modelReader, batches int) error {
	for waited := false; batches > 0 && r.cur != nil; {
		batch, err := m.next(r)
		truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
		if isTruncated && !m.loss && (!m.drops || truncated.Reason != chunk.TruncatedGap) {
			return fmt.Errorf("reader %+v at %d: a cleanup must not end a stream, got %w", r.req, r.last, err)
		}
		if err != nil {
			return m.checkError(r, err)
		}
		if err := m.checkBatch(r, batch); err != nil {
			return err
		}
		if len(batch.Frames) > 0 || batch.SkipTo.Seq != 0 {
			batches, waited = batches-1, false
			continue
		}
		if waited {
			return nil
		}
		m.quiesce()
		waited = true
	}
	return nil
}

// readToTip reads until the reader has the last record of its scope.
//
//tailrace:bubble
func (m *model) readToTip(r *modelReader) error {
	for range 50 {
		m.quiesce()
		if err := m.read(r, 1000); err != nil {
			return err
		}
		if r.cur == nil {
			return nil
		}
		if last, ok := m.lastOf(r); !ok || r.cur.Position().Seq >= last {
			return nil
		}
		time.Sleep(100 * time.Millisecond) // a page is being read, or read again
	}
	if len(m.fenced) > 0 && m.loss {
		return nil // the record that fenced a writer may have expired
	}
	last, _ := m.lastOf(r)
	return fmt.Errorf("reader %+v is at %d, the log ends at %d", r.req, r.cur.Position().Seq, last)
}

func (m *model) lastOf(r *modelReader) (chunk.Seq, bool) {
	recs := m.log.Session(r.req.Session)
	if r.req.Scope == chunk.ScopeTree {
		recs = m.log.Tree(r.req.Session.Tree())
	}
	if len(recs) == 0 {
		return 0, false
	}
	return recs[len(recs)-1].Seq, true
}

// checkBatch compares a batch with the written records.
func (m *model) checkBatch(r *modelReader, batch hub.Batch) error {
	for line := range bytes.Lines(batch.Frames) {
		var seq chunk.Seq
		if _, err := fmt.Sscanf(string(line), "%d ", &seq); err != nil {
			return fmt.Errorf("frame %q: %w", line, err)
		}
		i := slices.IndexFunc(m.ever, func(rec chunk.Record) bool { return rec.Seq == seq })
		if i < 0 && m.misleads(r, seq) {
			continue
		}
		if i < 0 {
			return fmt.Errorf("frame %q was never written", line)
		}
		rec := m.ever[i]
		if want := r.encode(rec); !bytes.Equal(want, line) {
			return fmt.Errorf("frame %q, want %q", line, want)
		}
		if seq <= r.last {
			return fmt.Errorf("frame %d after %d: duplicate or out of order", seq, r.last)
		}
		if slices.Contains(r.deletedBefore, seq) {
			return fmt.Errorf("reader %+v got %q, which was deleted before it attached", r.req, line)
		}
		if !m.shown(r, rec) {
			return fmt.Errorf("frame %q is not for reader %+v", line, r.req)
		}
		if err := m.checkGap(r, rec); err != nil {
			return err
		}
		r.got, r.last = append(r.got, seq), seq
	}
	if batch.SkipTo.Seq != 0 {
		if batch.SkipTo.Seq <= r.last {
			return fmt.Errorf("SkipTo %d after %d", batch.SkipTo.Seq, r.last)
		}
		m.misleads(r, batch.SkipTo.Seq)
		r.last = batch.SkipTo.Seq
	}
	return nil
}

// checkGap checks that every record written in the session of rec since the
// reader's last record of it was delivered, or removed by a cleanup.
func (m *model) checkGap(r *modelReader, rec chunk.Record) error {
	for _, other := range m.ever {
		if other.Session != rec.Session || other.Seq <= r.start || other.Seq >= rec.Seq || !m.shown(r, other) ||
			slices.Contains(r.got, other.Seq) || slices.Contains(m.removed[other.Session], other.Ordinal) {
			continue
		}
		return fmt.Errorf("reader %+v from %d got %v and then %d of %s, but not %d", r.req, r.start, r.got, rec.Seq, rec.Session, other.Seq)
	}
	return nil
}

// shown reports whether the reader must get a record.
func (m *model) shown(r *modelReader, rec chunk.Record) bool {
	if r.req.Scope == chunk.ScopeTree && rec.Session.Tree() != r.req.Session.Tree() {
		return false
	}
	if r.req.Scope == chunk.ScopeSession && rec.Session != r.req.Session {
		return false
	}
	if len(r.encode(rec)) == 0 {
		return false
	}
	if rec.Type.Control() && rec.Type != chunk.TypeRunStarted {
		return true
	}
	f := r.req.Filter
	return (len(f.Types) == 0 || slices.Contains(f.Types, rec.Type)) && !slices.Contains(f.Exclude, rec.Type) &&
		(f.Agent == "" || f.Agent == rec.Session.ID)
}
