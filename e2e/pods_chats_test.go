//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/posttest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
)

const (
	podsChats = 10
	slowWords = 20

	// retryDelay is the delay with which a client repeats a request.
	retryDelay = 200 * time.Millisecond
)

// answerSlowly streams an answer for about two seconds, which contains the question.
func answerSlowly(r openaitest.Request) openaitest.Reply {
	var events []openaitest.Event
	for i := range slowWords {
		events = append(events, openaitest.Text(slowWord(r.Last().Text, i)), openaitest.Callback(func() { <-time.After(100 * time.Millisecond) }))
	}
	return openaitest.StreamReply(events...)
}

func slowWord(question string, i int) string { return fmt.Sprintf("%s.%d ", question, i) }

func slowAnswer(question string) string {
	var b strings.Builder
	for i := range slowWords {
		b.WriteString(slowWord(question, i))
	}
	return b.String()
}

// podChats are users that post a message after each answer.
type podChats struct {
	addr, token string
	client      *http.Client
	stopping    atomic.Bool
	unavailable atomic.Bool // edges may answer 503
	work        sync.WaitGroup
	asked       [podsChats]int // messages by chat, written by its user

	mu   sync.Mutex // guards the fields below
	errs []error
	cuts int
}

func startPodChats(t *testing.T, addr, token string) *podChats {
	t.Helper()
	c := &podChats{addr: addr, token: token, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	for i := range podsChats {
		c.work.Go(func() { c.chat(ctx, i) })
	}
	t.Cleanup(func() {
		cancel()
		c.work.Wait()
	})
	return c
}

// stop waits until each user has the answer to its last message.
func (c *podChats) stop(t *testing.T) {
	t.Helper()
	c.stopping.Store(true)
	c.work.Wait()
	for _, err := range c.errs {
		t.Error(err)
	}
}

func podChat(i int) chunk.Session { return chunk.RootSession("default", fmt.Sprint("chat", i)) }

func question(n int) string { return fmt.Sprint("q", n) }

func (c *podChats) chat(ctx context.Context, i int) {
	u := &podUser{podChats: c, id: podChat(i).ID}
	for !c.stopping.Load() && ctx.Err() == nil {
		n := c.asked[i]
		body := fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messages":[%s]}`, u.id, posttest.User(fmt.Sprintf("%s-%d", u.id, n), question(n)))
		done, err := u.await(ctx, http.MethodPost, "/api/chat", body)
		c.asked[i]++
		for err == nil && !done {
			done, err = u.await(ctx, http.MethodGet, "/api/chat/"+u.id+"/stream", "")
		}
		if err != nil {
			c.mu.Lock()
			c.errs = append(c.errs, fmt.Errorf("%s, message %d: %w; the last requests:\n%s", u.id, n, err, strings.Join(u.requests, "\n")))
			c.mu.Unlock()
			return
		}
	}
}

// podUser is the user of one chat.
type podUser struct {
	*podChats

	id       string
	requests []string // the last ones
}

// notef keeps what a request returned.
func (u *podUser) notef(format string, args ...any) {
	const most = 8
	u.requests = append(u.requests, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	u.requests = u.requests[max(0, len(u.requests)-most):]
}

// await repeats a request, which is idempotent, until it has a response, and reads the response. It reports whether the answer has ended. As clients do, it repeats a
// request that was answered with 503, which is an error if unavailable is false.
func (u *podUser) await(ctx context.Context, method, path, body string) (done bool, err error) {
	for ctx.Err() == nil {
		status, text, err := u.request(ctx, method, path, body)
		u.notef("%s %s: status %d, %d bytes, ends with %q, %v", method, path, status, len(text), text[max(0, len(text)-40):], err)
		switch {
		case status == 0, status == http.StatusServiceUnavailable && u.unavailable.Load():
			u.countCut()
			if err := wait.Sleep(ctx, retryDelay); err != nil {
				return false, err
			}
			continue
		case status == http.StatusNoContent:
			return true, nil
		case status != http.StatusOK:
			return false, fmt.Errorf("%s %s: status %d: %s", method, path, status, text)
		}
		done = strings.Contains(text, "[DONE]")
		if !done { // the connection was cut
			u.countCut()
		}
		return done, nil
	}
	return false, ctx.Err()
}

// request makes a request and reads the response. Without a response the status is 0.
func (u *podUser) request(ctx context.Context, method, path, body string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+u.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+u.token)
	resp, err := u.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	read, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(read), err
}

func (c *podChats) countCut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts++
}

// answers returns the number of answers of all chats.
func (c *podChats) answers() int {
	total := 0
	for _, asked := range c.asked {
		total += asked
	}
	return total
}

// check compares the chats with the questions.
func (c *podChats) check(t *testing.T, log *consumers.Reader) {
	t.Helper()
	for i, asked := range c.asked {
		s := podChat(i)
		snap := storetest.Fold(t, log, s)
		var answers []string
		for _, m := range snap.Messages(0) {
			if m.Role == fold.Assistant {
				answers = append(answers, m.Text())
			}
		}
		if len(answers) != asked || snap.Status != fold.Ended {
			t.Errorf("%s has %d answers to %d questions and is %s; its last records:\n%s", s.ID, len(answers), asked, snap.Status, lastRecords(t, log, s))
			continue
		}
		for n, answer := range answers {
			if answer != slowAnswer(question(n)) {
				t.Errorf("%s, answer %d is %q", s.ID, n, answer)
			}
		}
	}
	t.Logf("%d answers in %d chats; %d requests were cut or repeated", c.answers(), podsChats, c.cuts)
}

// lastRecords returns the last records of a session without texts, one a line.
func lastRecords(t *testing.T, log *consumers.Reader, s chunk.Session) string {
	t.Helper()
	const most = 20
	var lines []string
	for rec, err := range log.Replay(t.Context(), chunk.Range{Session: s}) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Type != chunk.TypeTextDelta {
			lines = append(lines, fmt.Sprintf("%s %d %s %.200s", rec.StoredAt.UTC().Format("15:04:05.000"), rec.Seq, rec.Type, rec.Data))
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
