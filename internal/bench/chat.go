package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/internal/chat"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/subjects"
)

// chat measures the AI SDK edge: the cost of translating a record, the time to the first event, and many concurrent
// chats.
func (l *harness) chat() ([]pair, error) {
	turns, err := newFolding(l.cfg.size(50_000))
	if err != nil {
		return nil, err
	}
	text := &folding{session: turns.session}
	for i, rec := range turns.records {
		if rec.Type == chunk.TypeTextDelta || i < 2 {
			text.records = append(text.records, rec)
		}
	}
	transform := func(name string, f *folding) pair {
		return pair{
			name: name, baseline: "helix.Encode: a copy of the record in its frame", ours: f.transform, raw: f.copyFrames,
			targets: []target{{figure: chunkCost, ratioAtMost: 2}}, // half as many in the same time
		}
	}
	f := firstByte{harness: l, posts: l.cfg.size(200)}
	chats := l.cfg.size(1000)
	live := liveChats{live: live{harness: l, name: fmt.Sprintf("chat-%d-50/s", chats), sessions: chats, clients: 1, events: l.cfg.size(200), pace: 20 * time.Millisecond / time.Duration(chats)}}
	opened := live
	opened.name, opened.opened = live.name+"-opened", true
	few := live
	few.sessions = max(1, chats/10)
	few.name, few.pace = fmt.Sprintf("chat-%d-50/s", few.sessions), 20*time.Millisecond/time.Duration(few.sessions)
	return []pair{
		transform("chat-transform", turns),
		transform("chat-transform-text", text),
		{
			name: "chat-first-byte", baseline: "net/http and one JetStream publish", ours: f.ours, raw: f.bare,
			targets: []target{{figure: middle, ratioAtMost: 3}},
		},
		few.pair(80, 35),
		live.pair(250, 20),
		opened.pair(150, 20),
	}, nil
}

// chunkCost is processor time, which depends less on the load of the machine than elapsed time.
const chunkCost = "processor us/chunk"

// repeated is measured with enough repetitions to outlast the time slices of the scheduler.
func (f *folding) repeated(do func(i int, rec chunk.Record) error) (figures, error) {
	const times = 20
	all := &folding{session: f.session, records: slices.Repeat(f.records, times)}
	var out figures
	each, err := costOf(len(all.records), func() (err error) {
		out, err = all.measured(do)
		return err
	})
	return append(figures{{chunkCost, each}}, out...), err
}

// transform translates every record as a chat does; each turn is a separate message.
func (f *folding) transform(context.Context, int) (figures, error) {
	var (
		m       *aisdk.MessageWriter
		frames  []byte
		written int
	)
	out, err := f.repeated(func(i int, rec chunk.Record) error {
		if rec.Type == chunk.TypeRunStarted || i%len(f.records) == 0 {
			m = aisdk.New("msg-1", aisdk.Options{})
		}
		frames = m.Append(frames[:0], rec)
		written += len(frames)
		return nil
	})
	if written < len(f.records) {
		err = errors.Join(err, fmt.Errorf("%d records became %d bytes", len(f.records), written))
	}
	return out, err
}

func (f *folding) copyFrames(context.Context, int) (figures, error) {
	var frames []byte
	return f.repeated(func(_ int, rec chunk.Record) error {
		frames = helix.Encode(frames[:0], rec, chunk.ScopeTree)
		return nil
	})
}

// chats starts an edge that serves chats, with a hub with empty memory. No projector runs.
func (l *harness) chats(ctx context.Context, authenticator auth.Authenticator) (*httpSite, error) {
	logic, err := runs.New(l.js, runs.Config{Config: conversation.Config{
		AgentTypes:     []string{"bench"},
		RequestTimeout: time.Minute, // a thousand concurrent starts are not the subject of the measurement
	}})
	if err != nil {
		return nil, err
	}
	made, err := l.newEdge(authenticator)
	if err != nil {
		return nil, err
	}
	if _, err := chat.New(made, logic, chat.Config{}); err != nil {
		return nil, err
	}
	return serveEdge(ctx, made)
}

// firstByte measures the time from the POST of a new chat to the first event of its stream. Each POST uses a new
// connection, one after the other.
type firstByte struct {
	harness *harness
	posts   int
}

func (f firstByte) ours(ctx context.Context, round int) (figures, error) {
	return f.measure(ctx, round, nil, nil)
}

// measure makes the POSTs to an edge with an authenticator, each with the token of the same number if there are tokens.
func (f firstByte) measure(ctx context.Context, round int, authenticator auth.Authenticator, tokens []string) (figures, error) {
	site, err := f.harness.chats(ctx, authenticator)
	if err != nil {
		return nil, err
	}
	out, err := f.post(ctx, site.addr, round, tokens)
	return out, errors.Join(err, site.close())
}

// bare responds when the posted body is stored under a separate subject, and does nothing else. The stream stays
// open.
func (f firstByte) bare(ctx context.Context, round int) (figures, error) {
	site, err := serve(ctx, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = f.harness.command(r.Context(), strings.TrimPrefix(r.URL.Path, "/api/chat/"), body)
		}
		if err == nil {
			_, err = stream(w)
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	})))
	if err != nil {
		return nil, err
	}
	out, err := f.post(ctx, site.addr, round, nil)
	return out, errors.Join(err, site.close())
}

// command stores a body on the work queue, whose readers do not serve this agent.
func (l *harness) command(ctx context.Context, session string, body []byte) error {
	subject, err := names.Layout{}.Command("default", "bare", session)
	if err != nil {
		return err
	}
	_, err = l.raw.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: body}, jetstream.WithMsgID(session), jetstream.WithExpectLastSequencePerSubject(0))
	return err
}

// post makes the POSTs, each with the token of the same number if there are tokens.
func (f firstByte) post(ctx context.Context, addr string, round int, tokens []string) (figures, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	took := make([]time.Duration, f.posts)
	for i := range took {
		id := fmt.Sprintf("first-%d-%d-%d", time.Now().UnixNano(), round, i)
		body := fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messages":[{"id":"m-%s","role":"user","parts":[{"type":"text","text":%q}]}]}`, id, id, pad)
		ctx, cancel := context.WithCancel(ctx)
		var err error
		bearer := ""
		if len(tokens) > 0 {
			bearer = tokens[i]
		}
		took[i], err = f.one(ctx, client, "http://"+addr+"/api/chat/"+id, body, bearer)
		cancel()
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(took)
	return figures{{middle, ms(median(took))}, {slowest, ms(took[len(took)*99/100])}}, nil
}

func (f firstByte) one(ctx context.Context, client *http.Client, url, body, bearer string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	// Both sides send events without data first; they do not count.
	lines := bufio.NewScanner(resp.Body)
	for resp.StatusCode == http.StatusOK && lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), dataLine[1:]) {
			return time.Since(began), nil
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("%s: status %d without an event", url, resp.StatusCode))
}

// liveChats measures many concurrent chats with one client each. Tokens are written at the pace of a model and may be
// merged, as elsewhere. The baseline is notified of each token by the load clients and writes a prepared frame: it
// stores nothing.
type liveChats struct {
	live

	opened bool // the time starts when all have received their first token
}

// The figures of what tokens cost the log and the server.
const (
	storedRecords = "records/1000 tokens"
	storedBytes   = "stored bytes/1000 tokens"
	serverHeap    = "live MiB after" // of this process when the edge has ended: of the server, and a few constants
)

func (c liveChats) pair(p99, perToken float64) pair {
	return pair{
		name: c.name, baseline: "net/http, without a log", ours: c.ours, raw: c.bare,
		targets: []target{{figure: slowest, atMost: p99}, {figure: cost, atMost: perToken}, {figure: storedRecords, atMost: 350}, {figure: storedBytes, atMost: 185_000}},
	}
}

// token is one word of a model.
const token = "word "

// tokenFrame is the frame that a baseline sends for a token.
var tokenFrame = []byte(`data: {"type":"text-delta","id":"t1","delta":"` + token + `"}` + "\n\n")

func (c liveChats) ours(ctx context.Context, _ int) (figures, error) {
	site, err := c.harness.chats(ctx, nil)
	if err != nil {
		return nil, err
	}
	j := c.job(site.addr, func(_ int, session string) string { return "/api/chat/" + session })
	j.Writer, j.Token, j.AfterFirst = writerTokens, token, c.opened
	var before jetstream.StreamState
	out, err := loadClients(ctx, j, func() (err error) {
		before, err = c.harness.logState(ctx)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, site.close())
	}
	after, err := c.harness.logState(ctx)
	if err = errors.Join(err, site.close()); err != nil {
		return nil, err
	}
	left, err := memoryInUse()
	per1000 := func(stored uint64) float64 { return float64(stored) * 1000 / float64(out.Deliveries) }
	return append(c.figures(out), figure{storedRecords, per1000(after.Msgs - before.Msgs)}, figure{storedBytes, per1000(after.Bytes - before.Bytes)},
		figure{serverHeap, float64(left.live) / (1 << 20)}), err
}

// logState returns what the log has stored.
func (l *harness) logState(ctx context.Context) (jetstream.StreamState, error) {
	stream, err := l.js.Stream(ctx, subjects.Layout{}.Stream(0))
	if err != nil {
		return jetstream.StreamState{}, err
	}
	return stream.CachedInfo().State, nil
}

func (c liveChats) bare(ctx context.Context, _ int) (figures, error) {
	tails := newBroadcast(c.sessions)
	site, err := serve(ctx, plainServer(tails))
	if err != nil {
		return nil, err
	}
	j := c.job(site.addr, byNumber)
	notifier, err := startNotifier(ctx, func(i int) { tails[i].add(tokenFrame) })
	if err != nil {
		return nil, errors.Join(err, site.close())
	}
	j.Writer, j.Notifier, j.Token, j.AfterFirst = writerNotifyOnly, notifier.listener.Addr().String(), token, c.opened
	out, err := loadClients(ctx, j, nil)
	return c.figures(out), errors.Join(err, notifier.close(), site.close())
}
