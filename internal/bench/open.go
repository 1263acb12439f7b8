package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// openings measures chats whose turn is open: their pages connect at once, each until it has the only token of its turn.
type openings struct {
	harness  *harness
	sessions []string
}

// consumersCreated is the number of consumers that the server has created on the log, with the one of the feed.
const consumersCreated = "consumers created"

func (l *harness) openings(ctx context.Context) ([]pair, error) {
	o := openings{harness: l}
	writing, ctx := errgroup.WithContext(ctx)
	writing.SetLimit(32)
	for i := range l.cfg.size(1000) {
		id := fmt.Sprintf("open-%d-%d", time.Now().UnixNano(), i)
		o.sessions = append(o.sessions, id)
		writing.Go(func() error {
			run, err := l.producer.Start(ctx, rootSession(id), chunk.RunStarted{Mode: "execute"}, producers.AgentType("bench"))
			if err != nil {
				return err
			}
			_, err = run.Write(ctx, chunk.Chunk{AgentID: id, AgentType: "bench", Timestamp: time.Now().UnixMilli(), Step: 1, Body: chunk.TextDelta{Delta: token}})
			return errors.Join(err, run.Close())
		})
	}
	requests := pair{
		name: fmt.Sprintf("open-%d", len(o.sessions)), baseline: "as many requests of the next message", ours: o.ours, raw: o.requests,
		targets: []target{{figure: took, ratioAtMost: 2}, {figure: consumersCreated, atMost: 20}},
	}
	served := requests
	served.baseline, served.raw, served.targets = "net/http and one request of the next message", o.bare, nil
	return []pair{requests, served}, writing.Wait()
}

func (o openings) ours(ctx context.Context, _ int) (figures, error) {
	nc := o.harness.rawConn
	created, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.CREATED." + subjects.Layout{}.Stream(0) + ".>")
	if err != nil {
		return nil, err
	}
	site, err := o.harness.chats(ctx, nil)
	if err != nil {
		return nil, err
	}
	out, err := o.connect(ctx, site, func(_ int, session string) string { return "/api/chat/" + session })
	n, _, errPending := created.Pending()
	return append(out, figure{consumersCreated, float64(n)}), errors.Join(err, errPending, created.Unsubscribe())
}

// connect lets one client per session read its token, and closes the site.
func (o openings) connect(ctx context.Context, site *httpSite, path func(i int, session string) string) (figures, error) {
	j := job{Addr: site.addr, Burst: true, Repeat: 1, Events: 1, Token: token}
	for i, id := range o.sessions {
		j.Groups = append(j.Groups, group{Session: id, Path: path(i, id), Clients: 1})
	}
	out, err := loadClients(ctx, j, nil)
	return figures{{took, ms(out.Took)}, {cost, out.perDelivery()}}, errors.Join(err, site.close())
}

// requests makes all requests at once.
func (o openings) requests(ctx context.Context, _ int) (figures, error) {
	asking, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	each, err := costOf(len(o.sessions), func() error {
		for _, id := range o.sessions {
			asking.Go(func() error { return o.next(ctx, id) })
		}
		return asking.Wait()
	})
	return figures{{took, ms(time.Since(start))}, {cost, each}}, err
}

// next requests the first message of a session from the leader.
func (o openings) next(ctx context.Context, session string) error {
	subject, err := subjects.Layout{}.Subject(rootSession(session))
	if err != nil {
		return err
	}
	m, err := o.harness.rawConn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+subjects.Layout{}.Stream(0), fmt.Appendf(nil, `{"seq":1,"next_by_subj":%q}`, subject))
	if err == nil && !bytes.Contains(m.Data, []byte(`"message":`)) {
		err = fmt.Errorf("next message of %q: %s", subject, m.Data)
	}
	return err
}

// bare sends each client its token after one request.
func (o openings) bare(ctx context.Context, _ int) (figures, error) {
	site, err := serve(ctx, plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := stream(w)
		i, errPath := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err = errors.Join(err, errPath); err == nil {
			err = o.next(r.Context(), o.sessions[i])
		}
		if err == nil {
			_, err = w.Write(tokenFrame)
		}
		if err = errors.Join(err, out.Flush()); err != nil {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	})))
	if err != nil {
		return nil, err
	}
	return o.connect(ctx, site, byNumber)
}
