//go:build e2e

package aisdk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// judges are the packages of both major versions.
var judges = []*judge{{major: 6}, {major: 7}}

// bothMajors runs a test before each judge.
func bothMajors(t *testing.T, test func(t *testing.T, j *judge)) {
	t.Helper()
	for _, j := range judges {
		t.Run(fmt.Sprintf("ai%d", j.major), func(t *testing.T) {
			j.start(t)
			test(t, j)
		})
	}
}

// judge is a Node process with the packages of one major version. Several
// questions may be on their way at once.
type judge struct {
	major int

	once sync.Once
	err  error // of the start
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{}

	mu      sync.Mutex // guards all below, and the writes to in
	last    int
	waiting map[int]chan<- []byte
	over    error // set when no answer will come any more
}

// errGone reports a judge that ended while it was asked.
var errGone = errors.New("the judge has gone")

func (j *judge) start(tb testing.TB) {
	tb.Helper()
	j.once.Do(func() { j.err = j.launch() })
	if j.err != nil {
		tb.Fatal(j.err)
	}
}

func (j *judge) launch() error {
	ctx := context.Background()
	program, err := node(ctx)
	if err != nil {
		return err
	}
	home, err := install(ctx, j.major)
	if err != nil {
		return err
	}
	j.cmd = exec.CommandContext(ctx, program, "judge.mjs", home)
	j.cmd.Stderr = os.Stderr
	if j.in, err = j.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	j.waiting, j.done = make(map[int]chan<- []byte), make(chan struct{})
	if err := j.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(j.done)
		j.listen(out)
	}()
	return nil
}

// listen hands answers to those who wait for them, until the process ends.
func (j *judge) listen(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var head struct {
			ID int `json:"id"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			break
		}
		j.mu.Lock()
		if who, ok := j.waiting[head.ID]; ok {
			who <- line
			delete(j.waiting, head.ID)
		}
		j.mu.Unlock()
	}
	err := j.cmd.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = fmt.Errorf("%w: %w", errGone, errors.Join(err, io.EOF))
	for _, who := range j.waiting {
		close(who)
	}
	clear(j.waiting)
}

func (j *judge) stop() {
	if j.done == nil {
		return
	}
	_ = j.in.Close() // it ends when its standard input does
	select {
	case <-j.done:
	case <-time.After(10 * time.Second):
		_ = j.cmd.Process.Kill()
		<-j.done
	}
}

// ask sends one request and reads the answer into it.
func (j *judge) ask(tb testing.TB, op string, request map[string]any, answer any) {
	tb.Helper()
	if err := j.tryAsk(op, request, answer); err != nil {
		tb.Fatalf("ai%d: %s: %v", j.major, op, err)
	}
}

func (j *judge) tryAsk(op string, request map[string]any, answer any) error {
	reply := make(chan []byte, 1)
	line, err := j.post(op, request, reply)
	if err != nil {
		return err
	}
	select {
	case text, ok := <-reply:
		if !ok {
			return fmt.Errorf("%w while it had %.400s", errGone, line)
		}
		var fault struct {
			Fault string `json:"fault"`
		}
		if err := errors.Join(json.Unmarshal(text, &fault), json.Unmarshal(text, answer)); err != nil {
			return err
		}
		if fault.Fault != "" {
			return errors.New(fault.Fault)
		}
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("no answer in a minute to %.400s", line)
	}
}

func (j *judge) post(op string, request map[string]any, reply chan<- []byte) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over != nil {
		return nil, j.over
	}
	j.last++
	whole := map[string]any{"id": j.last, "op": op}
	maps.Copy(whole, request)
	line, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	j.waiting[j.last] = reply
	_, err = j.in.Write(append(line, '\n'))
	return line, err
}

// verdict is what the parser and the builder make of one response.
type verdict struct {
	Chunks     []string        `json:"chunks"`     // types that passed the schema
	Errors     []string        `json:"errors"`     // "AI_TypeValidationError: …"; the first ended it
	Message    json.RawMessage `json:"message"`    // as last published, null for none
	Difference string          `json:"difference"` // from the message wanted, "" for none
}

// folding is a response to be folded into a message.
type folding struct {
	earlier  []response // of the same message
	body     []byte
	want     []byte // JSON of the message that must come out of it, nil for whatever comes
	portable bool   // decisions about approvals may not be in the stream
}

// response is a whole response, and what people answered to it.
type response struct {
	body    []byte
	answers []answer
}

func (r response) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"body": r.body, "answers": r.answers})
}

// answer is what a page writes down itself before it posts it.
type answer struct {
	ToolCallID string   `json:"toolCallId"`
	Approved   *bool    `json:"approved,omitempty"`
	Reason     *string  `json:"reason,omitempty"`
	Output     verbatim `json:"output,omitempty"`
	ErrorText  *string  `json:"errorText,omitempty"`
}

func (j *judge) fold(tb testing.TB, f folding) verdict {
	tb.Helper()
	request := map[string]any{"body": append([]byte{}, f.body...), "earlier": f.earlier, "portable": f.portable}
	if f.want != nil {
		request["want"] = verbatim(f.want)
	}
	var v verdict
	j.ask(tb, "fold", request, &v)
	return v
}

// check is what the SDK has against messages as a history.
func (j *judge) check(tb testing.TB, messages []verbatim) []string {
	tb.Helper()
	var v verdict
	j.ask(tb, "check", map[string]any{"messages": messages}, &v)
	return v.Errors
}

// verbatim is JSON that encoding/json must not touch: numbers and halves of
// surrogate pairs come out as they are.
type verbatim []byte

func (v verbatim) MarshalJSON() ([]byte, error) { return v, nil }

// sse is a body with these chunks and the end mark. [DONE] and lines that begin
// with a colon, or with a field name, are written as they are.
func sse(chunks ...string) []byte {
	var b strings.Builder
	for _, c := range append(chunks, "[DONE]") {
		if strings.HasPrefix(c, "{") || c == "[DONE]" {
			c = "data: " + c
		}
		b.WriteString(c + "\n\n")
	}
	return []byte(b.String())
}
