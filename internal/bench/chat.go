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
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/hublog"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/chat"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/native"
	"github.com/tailrace/tailrace/subjects"
)

// chat measures the AI SDK edge: what it costs to say a record in the client's
// words, how soon a client hears that it is heard, and many chats at once.
func (l *lab) chat() ([]pair, error) {
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
			name: name, floor: "native.Encode: a copy of the record in its frame", ours: f.transform, raw: f.copyFrames,
			aims: []aim{{figure: chunkCost, ratioUpTo: 2}}, // half as many in the same time
		}
	}
	f := firstByte{lab: l, posts: l.cfg.size(200)}
	chats := l.cfg.size(1000)
	live := chatting{live{lab: l, name: fmt.Sprintf("chat-%d-50/s", chats), sessions: chats, clients: 1, events: l.cfg.size(200), pace: 20 * time.Millisecond / time.Duration(chats)}}
	few := live
	few.sessions = max(1, chats/10)
	few.name, few.pace = fmt.Sprintf("chat-%d-50/s", few.sessions), 20*time.Millisecond/time.Duration(few.sessions)
	return []pair{
		transform("chat-transform", turns),
		transform("chat-transform-text", text),
		{
			name: "chat-first-byte", floor: "net/http and one JetStream publish", ours: f.ours, raw: f.bare,
			aims: []aim{{figure: middle, ratioUpTo: 3}},
		},
		{name: few.name, floor: "net/http, without a log", ours: few.ours, raw: few.bare},
		{name: live.name, floor: "net/http, without a log", ours: live.ours, raw: live.bare},
	}, nil
}

// chunkCost is processor time, which a busy machine does not stretch as it does the
// time by the clock.
const chunkCost = "processor us/chunk"

// repeated is measured, often enough to outlast the slices of the scheduler.
func (f *folding) repeated(do func(i int, rec chunk.Record) error) (figures, error) {
	const times = 20
	all := &folding{session: f.session, records: slices.Repeat(f.records, times)}
	before, err := processorTime()
	if err != nil {
		return nil, err
	}
	out, err := all.measured(do)
	if err != nil {
		return nil, err
	}
	after, err := processorTime()
	each := float64((after - before).Nanoseconds()) / 1e3 / float64(len(all.records))
	return append(figures{{chunkCost, each}}, out...), err
}

// transform says every record as a chat does, each turn a message of its own.
func (f *folding) transform(context.Context, int) (figures, error) {
	var (
		m      *aisdk.Message
		frames []byte
		said   int
	)
	out, err := f.repeated(func(i int, rec chunk.Record) error {
		if rec.Type == chunk.TypeRunStarted || i%len(f.records) == 0 {
			m = aisdk.New("msg-1", aisdk.Options{})
		}
		frames = m.Append(frames[:0], rec)
		said += len(frames)
		return nil
	})
	if said < len(f.records) {
		err = errors.Join(err, fmt.Errorf("%d records became %d bytes", len(f.records), said))
	}
	return out, err
}

func (f *folding) copyFrames(context.Context, int) (figures, error) {
	var frames []byte
	return f.repeated(func(_ int, rec chunk.Record) error {
		frames = native.Encode(frames[:0], rec, chunk.ScopeTree)
		return nil
	})
}

// chats is an edge that serves nothing but chats, with a hub that has seen nothing
// yet. No projector runs.
func (l *lab) chats(ctx context.Context) (*site, error) {
	h, err := hub.New(hublog.Log{Reader: l.reader}, hublog.Feed{Reader: l.reader}, hub.Config{Encode: chat.Encode})
	if err != nil {
		return nil, err
	}
	store, err := kvstore.New(l.js, kvstore.Config{})
	if err != nil {
		return nil, err
	}
	queue, err := commands.New(l.js, commands.Config{})
	if err != nil {
		return nil, err
	}
	box, err := inbox.New(l.js, inbox.Config{})
	if err != nil {
		return nil, err
	}
	handler, err := chat.New(chat.Config{
		Snapshots: projector.NewReader(store, natssource.Log{Reader: l.reader}), Commands: queue, Inbox: box,
		Live: chat.Hub{Hub: h}, AgentTypes: []string{"bench"},
		Attach: time.Minute, // a thousand who come at once are not what is measured
	})
	if err != nil {
		return nil, err
	}
	site, err := serve(ctx, sseedge.NewServer(sseedge.ServerConfig{}, handler))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	running.Go(func() error { return h.Run(ctx) })
	stop := site.close
	site.close = func() error {
		cancel()
		return errors.Join(stop(), running.Wait())
	}
	return site, nil
}

// firstByte measures the time from a POST of a new chat to the first event of its
// stream. Each comes on a connection of its own, one after the other.
type firstByte struct {
	lab   *lab
	posts int
}

func (f firstByte) ours(ctx context.Context, round int) (figures, error) {
	site, err := f.lab.chats(ctx)
	if err != nil {
		return nil, err
	}
	out, err := f.post(ctx, site.addr, round)
	return out, errors.Join(err, site.close())
}

// bare answers when what was posted is stored under a subject of its own, and
// does nothing else. The stream stays open.
func (f firstByte) bare(ctx context.Context, round int) (figures, error) {
	site, err := serve(ctx, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = f.lab.command(r.Context(), strings.TrimPrefix(r.URL.Path, "/api/chat/"), body)
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
	out, err := f.post(ctx, site.addr, round)
	return out, errors.Join(err, site.close())
}

// command stores a body on the work queue, whose readers do not serve this agent.
func (l *lab) command(ctx context.Context, session string, body []byte) error {
	subject, err := subjects.Layout{}.Command("default", "bare", session)
	if err != nil {
		return err
	}
	_, err = l.raw.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: body}, jetstream.WithMsgID(session), jetstream.WithExpectLastSequencePerSubject(0))
	return err
}

func (f firstByte) post(ctx context.Context, addr string, round int) (figures, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	took := make([]time.Duration, f.posts)
	for i := range took {
		id := fmt.Sprintf("first-%d-%d-%d", time.Now().UnixNano(), round, i)
		body := fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messages":[{"id":"m-%s","role":"user","parts":[{"type":"text","text":%q}]}]}`, id, id, pad)
		ctx, cancel := context.WithCancel(ctx)
		var err error
		took[i], err = f.one(ctx, client, "http://"+addr+"/api/chat/"+id, body)
		cancel()
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(took)
	return figures{{middle, ms(median(took))}, {slowest, ms(took[len(took)*99/100])}}, nil
}

func (f firstByte) one(ctx context.Context, client *http.Client, url, body string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	// What comes before the first event with data is said by everybody.
	lines := bufio.NewScanner(resp.Body)
	for resp.StatusCode == http.StatusOK && lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), dataLine[1:]) {
			return time.Since(began), nil
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("%s: %d and no event", url, resp.StatusCode))
}

// chatting measures many chats at once, each with one page that watches it: tokens
// of a word come at a model's pace, and may be merged on their way, as everywhere.
// The floor is told of each token by the crowd itself and writes it in a frame that
// was made before: nothing is stored.
type chatting struct{ live }

// token is one word of a model.
const token = "word "

func (c chatting) ours(ctx context.Context, _ int) (figures, error) {
	site, err := c.lab.chats(ctx)
	if err != nil {
		return nil, err
	}
	j := c.job(site.addr, func(_ int, session string) string { return "/api/chat/" + session })
	j.Writer, j.Token = saysTokens, token
	out, err := c.lab.crowd(ctx, j, nil)
	return c.figures(out), errors.Join(err, site.close())
}

func (c chatting) bare(ctx context.Context, _ int) (figures, error) {
	tails := newBroadcast(c.sessions)
	site, err := serve(ctx, plainServer(tails))
	if err != nil {
		return nil, err
	}
	j := c.job(site.addr, byNumber)
	frame := []byte(`data: {"type":"text-delta","id":"t1","delta":"` + token + `"}` + "\n\n")
	bell, err := ring(ctx, func(i int) { tails[i].add(frame) })
	if err != nil {
		return nil, errors.Join(err, site.close())
	}
	j.Writer, j.Bell, j.Token = onlyRings, bell.listener.Addr().String(), token
	out, err := c.lab.crowd(ctx, j, nil)
	return c.figures(out), errors.Join(err, bell.close(), site.close())
}
